//! Passwords that were compared with a memory-hard hash of late, and those that are being compared.
//!
//! Each stands here as a keyed digest of hash and password, never as itself: a client that logs in with every request
//! costs one comparison, and many clients that come at once with one password cost one together. A changed password is
//! another hash, and found by none of them.
//! Invariant: nothing is said of a password to a login that the guard has not let through, or guesses would be compared
//! with what is remembered, as many as one likes.

use super::moments::Moments;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Bytes of the key, and of a proof.
pub const PROOF: usize = 32;

/// A hash and a password, as one keyed digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proof([u8; PROOF]);

/// Proofs are not for logs.
impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof(..)")
    }
}

/// Bounds of what is remembered. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofLimits {
    /// Right passwords.
    pub right_max: usize,
    /// Wrong passwords.
    pub wrong_max: usize,
    /// How long either is remembered.
    pub kept_ns: u64,
    /// Passwords that wait for their comparison, or are being compared: each may take a second of those behind it.
    pub trials_max: usize,
    /// Logins that wait for one of them.
    pub waiting_max: usize,
}

impl Default for ProofLimits {
    fn default() -> ProofLimits {
        ProofLimits {
            right_max: 1024,
            wrong_max: 256,
            kept_ns: 600 * 1_000_000_000,
            trials_max: 128,
            waiting_max: 4096,
        }
    }
}

/// The knowledge of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It was compared.
    Compared {
        /// And is right.
        is_right: bool,
    },
    /// It is being compared.
    UnderWay,
    /// Nothing.
    Nothing,
}

/// Proofs of one outcome, each with when it was found; the oldest is the first to go.
#[derive(Debug)]
struct Kept {
    most: usize,
    found: Moments<Proof>,
}

impl Kept {
    fn new(most: usize) -> Kept {
        Kept { most: most.max(1), found: Moments::default() }
    }

    fn add(&mut self, now_ns: u64, proof: Proof) {
        self.found.set(proof, now_ns);
        if self.found.len() > self.most
            && let Some(oldest) = self.found.earliest()
        {
            self.found.remove(&oldest);
        }
    }

    fn has(&self, now_ns: u64, kept_ns: u64, proof: &Proof) -> bool {
        self.found.get(proof).is_some_and(|at| now_ns.saturating_sub(at) <= kept_ns)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Proofs {
    limits: ProofLimits,
    key: [u8; PROOF],
    right: Kept,
    wrong: Kept,
    /// Passwords that are being compared, each with how many logins wait for it.
    under_way: BTreeMap<Proof, usize>,
    waiting: usize,
}

impl Proofs {
    /// Nothing is remembered. Nobody may foretell the key.
    pub fn new(limits: ProofLimits, key: [u8; PROOF]) -> Proofs {
        let (right, wrong) = (Kept::new(limits.right_max), Kept::new(limits.wrong_max));
        Proofs { limits, key, right, wrong, under_way: BTreeMap::new(), waiting: 0 }
    }

    /// The proof that a password of this hash would be.
    pub fn of(&self, hash: &[u8], password: &str) -> Proof {
        let length = (hash.len() as u64).to_le_bytes();
        let digest = Sha256::new_with_prefix(self.key).chain_update(length).chain_update(hash);
        Proof(digest.chain_update(password).finalize().into())
    }

    /// The knowledge of a password.
    pub fn memory(&self, now_ns: u64, proof: &Proof) -> Memory {
        let kept_ns = self.limits.kept_ns;
        match () {
            () if self.right.has(now_ns, kept_ns, proof) => Memory::Compared { is_right: true },
            () if self.wrong.has(now_ns, kept_ns, proof) => Memory::Compared { is_right: false },
            () if self.under_way.contains_key(proof) => Memory::UnderWay,
            () => Memory::Nothing,
        }
    }

    /// A login waits for a comparison; whether there is room for one more.
    pub fn wait(&mut self, proof: Proof) -> bool {
        let is_new = !self.under_way.contains_key(&proof);
        if self.waiting >= self.limits.waiting_max
            || (is_new && self.under_way.len() >= self.limits.trials_max)
        {
            return false;
        }
        self.waiting += 1;
        *self.under_way.entry(proof).or_default() += 1;
        true
    }

    /// A login waits no more.
    pub fn leave(&mut self, proof: &Proof) {
        self.waiting = self.waiting.saturating_sub(1);
        if let Some(count) = self.under_way.get_mut(proof) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(proof);
            }
        }
    }

    /// A password was compared.
    pub fn remember(&mut self, now_ns: u64, proof: Proof, is_right: bool) {
        match is_right {
            true => self.right.add(now_ns, proof),
            false => self.wrong.add(now_ns, proof),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const LIMITS: ProofLimits =
        ProofLimits { right_max: 2, wrong_max: 1, kept_ns: 10, trials_max: 2, waiting_max: 4 };

    #[test]
    fn proofs_are_of_hash_and_password_and_key() {
        let (one, other) = (Proofs::new(LIMITS, [1; PROOF]), Proofs::new(LIMITS, [2; PROOF]));
        let all =
            [one.of(b"h", "p"), one.of(b"h", "q"), one.of(b"hp", ""), one.of(b"", "hp"), other.of(b"h", "p")];
        let distinct: BTreeSet<Proof> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(one.of(b"h", "p"), all[0]);
        assert_eq!(format!("{:?}", all[0]), "Proof(..)");
    }

    #[test]
    fn outcomes_are_kept_for_a_while_and_the_oldest_goes() {
        let mut proofs = Proofs::new(LIMITS, [1; PROOF]);
        let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|password| proofs.of(b"h", password));
        proofs.remember(0, a, true);
        proofs.remember(1, b, true);
        proofs.remember(2, a, true);
        proofs.remember(3, c, true);
        proofs.remember(3, d, false);
        proofs.remember(4, e, false);
        let known = |now_ns| [a, b, c, d, e].map(|proof| proofs.memory(now_ns, &proof));
        let (right, wrong) = (Memory::Compared { is_right: true }, Memory::Compared { is_right: false });
        let nothing = Memory::Nothing;
        assert_eq!(known(4), [right, nothing, right, nothing, wrong]);
        assert_eq!(known(13), [nothing, nothing, right, nothing, wrong]);
        assert_eq!(known(15), [nothing; 5]);
    }

    #[test]
    fn so_many_wait_and_those_of_one_password_together() {
        let mut proofs = Proofs::new(LIMITS, [1; PROOF]);
        let [a, b, c] = ["a", "b", "c"].map(|password| proofs.of(b"h", password));
        assert!(proofs.wait(a) && proofs.wait(a) && proofs.wait(b) && !proofs.wait(c));
        assert!(proofs.wait(b) && !proofs.wait(b), "four wait");
        assert_eq!(proofs.memory(0, &a), Memory::UnderWay);
        proofs.leave(&a);
        assert_eq!(proofs.memory(0, &a), Memory::UnderWay);
        proofs.leave(&a);
        assert_eq!(proofs.memory(0, &a), Memory::Nothing);
        assert!(proofs.wait(c));
    }
}
