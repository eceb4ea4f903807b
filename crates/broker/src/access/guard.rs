//! The guard of a node's passwords: [`Guesses`] and [`Proofs`] as all threads that log clients in share them.
//!
//! There is one for each node, for all protocols. Its lock is held for a few lookups, never while a password is hashed,
//! so that no shard waits for more than that.

use super::guesses::{GuessCounts, GuessLimits, Guesses, Held, Origin, Ticket};
use super::proofs::{Memory, PROOF, Proof, ProofLimits, Proofs};
use base::{DigestKey, Now, Secrets};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub struct Guard(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    guesses: Guesses,
    proofs: Proofs,
}

/// The fate of a password that is dear to compare.
#[derive(Debug)]
pub(super) enum Begun {
    /// It was compared of late, and is right or not.
    Compared(bool, Option<Ticket>),
    /// It is to be compared.
    Wait(Proof, Option<Ticket>),
    /// Too many wait.
    Held(Held),
}

impl Guard {
    /// A guard that has seen nothing, with keys from `secrets`.
    pub fn new(limits: GuessLimits, secrets: &mut Secrets) -> Guard {
        Guard::with_keys(limits, DigestKey::new(secrets.bytes()), secrets.bytes())
    }

    fn with_keys(limits: GuessLimits, names: DigestKey, proofs: [u8; PROOF]) -> Guard {
        let (guesses, proofs) = (Guesses::new(limits, names), Proofs::new(ProofLimits::default(), proofs));
        Guard(Mutex::new(Inner { guesses, proofs }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a login is to be tried, see [`Guesses::admit`].
    pub(super) fn admit(&self, now: Now, account: &str, origin: Origin) -> Result<Ticket, Held> {
        self.inner().guesses.admit(now.mono_ns, account, origin)
    }

    /// The outcome of a login that was tried. One without a ticket is no guess.
    pub(super) fn judged(&self, now: Now, ticket: Option<Ticket>, is_let_in: bool) {
        if let Some(ticket) = ticket {
            self.inner().guesses.judged(now.mono_ns, ticket, is_let_in);
        }
    }

    /// Begins the comparison of a password with a hash that is dear. A login without a ticket is no guess.
    pub(super) fn begin(&self, now: Now, hash: &[u8], password: &str, ticket: Option<Ticket>) -> Begun {
        let Inner { guesses, proofs } = &mut *self.inner();
        let proof = proofs.of(hash, password);
        let ticket = match proofs.memory(now.mono_ns, &proof) {
            Memory::Compared { is_right } => return Begun::Compared(is_right, ticket),
            Memory::UnderWay => ticket.map(|ticket| guesses.again(now.mono_ns, ticket)),
            Memory::Nothing => ticket,
        };
        match proofs.wait(proof) {
            true => Begun::Wait(proof, ticket),
            false => Begun::Held(guesses.refuse_for_work(now.mono_ns, ticket)),
        }
    }

    /// Whether a password that waits for its comparison was compared meanwhile, with its outcome.
    pub(super) fn compared(&self, now: Now, proof: &Proof) -> Option<bool> {
        match self.inner().proofs.memory(now.mono_ns, proof) {
            Memory::Compared { is_right } => Some(is_right),
            Memory::UnderWay | Memory::Nothing => None,
        }
    }

    /// The comparison of a password is over.
    pub(super) fn end(&self, now: Now, proof: Proof, is_right: bool) {
        let proofs = &mut self.inner().proofs;
        proofs.leave(&proof);
        proofs.remember(now.mono_ns, proof, is_right);
    }

    /// Logins of an account that were refused without a look at the password of late.
    pub fn held_of(&self, account: &str) -> u64 {
        self.inner().guesses.held_of(account)
    }

    /// Counts for metrics.
    pub fn counts(&self, now: Now) -> GuessCounts {
        self.inner().guesses.counts(now.mono_ns)
    }
}

/// One for tests and simulations, with keys that are no secrets.
impl Default for Guard {
    fn default() -> Guard {
        Guard::with_keys(GuessLimits::default(), DigestKey::FIXED, [0; PROOF])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AccessRules, Claim, Hashing, Judged, PasswordHash, Stored, Trial};
    use crate::catalog::{Actor, Catalog, Op, Places, VhostId};
    use std::net::Ipv4Addr;

    /// Of "a password", as another program wrote it.
    const DEAR: &str = "$argon2id$v=19$m=256,t=2,p=2$c2FsdCBvZiBsZXZlcmV0$jjQAtE0IzwJDILtsElBc5AFwQQBv/8wK";

    /// A catalog with `quick`, `dear` and `guest`, who has the same hash as `dear` and may come from this machine alone.
    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        let by = Actor::internal(VhostId(0), Default::default());
        let dear = || match PasswordHash::from_text(DEAR, None) {
            Some(Stored::Hash(hash)) => hash,
            other => panic!("{other:?}"),
        };
        let quick = PasswordHash::new("a password", [1; 4]);
        for (name, hash) in [("quick", quick), ("dear", dear()), ("guest", dear())] {
            let op = Op::AddUser { name: name.into(), password: Some(hash), tags: Vec::new() };
            let plan = catalog.plan(&by, &op, Places::default()).expect("a user that is not there");
            plan.changes.iter().for_each(|change| _ = catalog.apply(change));
        }
        catalog
    }

    struct Door {
        catalog: Catalog,
        guard: Guard,
        rules: AccessRules,
    }

    impl Door {
        fn new(hashing: Hashing) -> Door {
            let rules = AccessRules { hashing, ..AccessRules::default() };
            Door { catalog: catalog(), guard: Guard::default(), rules }
        }

        fn come(&self, name: &str, password: &str, last: u8) -> Judged {
            let origin = Origin::of(Some(Ipv4Addr::new(10, 0, 0, last).into()));
            let claim = Claim::new(&self.catalog, name, password, false);
            claim.judge(Now::default(), &self.guard, Some(origin), &self.rules)
        }

        fn carry_out(&self, trial: Trial) -> bool {
            trial.carry_out(Now::default(), &self.guard, &self.rules).is_ok()
        }

        /// Whether a login is let in; one that is decided at once: whether it was held back.
        fn log_in(&self, name: &str, password: &str, last: u8) -> (bool, &'static str) {
            match self.come(name, password, last) {
                Judged::Trial(trial) => (self.carry_out(*trial), "compared"),
                Judged::Done(Ok(_)) => (true, "at once"),
                Judged::Done(Err(denied)) if denied.held_ms().is_some() => (false, "held back"),
                Judged::Done(Err(_)) => (false, "at once"),
            }
        }
    }

    #[test]
    fn dear_passwords_are_compared_once_and_quick_ones_at_once() {
        let door = Door::new(Hashing::Sha256);
        let rows = [
            ("quick", "a password", (true, "at once")),
            ("quick", "another", (false, "at once")),
            ("nobody", "a password", (false, "at once")),
            ("dear", "a password", (true, "compared")),
            ("dear", "a password", (true, "at once")),
            ("dear", "another", (false, "compared")),
            ("dear", "another", (false, "at once")),
        ];
        for (name, password, expected) in rows {
            assert_eq!(door.log_in(name, password, 1), expected, "{name} {password}");
        }
    }

    #[test]
    fn what_is_remembered_is_compared_with_no_more_guesses_than_hashes_are() {
        let door = Door::new(Hashing::Sha256);
        assert_eq!(door.log_in("dear", "a password", 1), (true, "compared"));
        let tried =
            (0..100).filter(|at| door.log_in("dear", &format!("wrong {at}"), 2).1 != "held back").count();
        assert_eq!(tried, 20);
        assert_eq!(door.log_in("dear", "a password", 2), (false, "held back"));
        assert_eq!(door.log_in("dear", "a password", 1), (true, "at once"), "known from there");
    }

    #[test]
    fn many_at_once_with_one_password_are_one_guess() {
        let door = Door::new(Hashing::Sha256);
        for (password, is_right) in [("a password", true), ("another", false)] {
            let trials: Vec<Trial> = (0..100)
                .map(|_| match door.come("dear", password, 1) {
                    Judged::Trial(trial) => *trial,
                    Judged::Done(done) => panic!("{done:?}"),
                })
                .collect();
            trials.into_iter().for_each(|trial| assert_eq!(door.carry_out(trial), is_right));
        }
        let counts = door.guard.counts(Now::default());
        assert_eq!((counts.accounts, counts.origins, counts.known), (1, 1, 1));
        assert_eq!(door.log_in("dear", "a third", 1), (false, "compared"));
    }

    #[test]
    fn a_right_password_from_too_far_is_remembered_as_right() {
        let door = Door::new(Hashing::Sha256);
        for expected in ["compared", "at once"] {
            assert_eq!(door.log_in("guest", "a password", 1), (false, expected));
        }
        assert_eq!(door.guard.counts(Now::default()).known, 0);
        let near = Claim::new(&door.catalog, "guest", "a password", true);
        let origin = Some(Origin::of(Some(Ipv4Addr::LOCALHOST.into())));
        let found = near.judge(Now::default(), &door.guard, origin, &door.rules);
        assert!(matches!(found, Judged::Done(Ok(_))), "{found:?}");
    }

    #[test]
    fn users_that_are_not_there_take_as_long_and_so_many_wait() {
        let door = Door::new(Hashing::Argon2id);
        let waiting: Vec<Judged> = (0..128).map(|at| door.come("nobody", &format!("{at}"), at)).collect();
        let trials = waiting.iter().filter(|judged| matches!(judged, Judged::Trial(_))).count();
        assert_eq!(trials, 20, "of one name");
        let more: Vec<Judged> =
            (0..200).map(|at| door.come(&format!("nobody {at}"), &format!("other {at}"), at)).collect();
        let trials = more.iter().filter(|judged| matches!(judged, Judged::Trial(_))).count();
        assert_eq!(trials, 108, "128 in all");
        assert_eq!(door.guard.counts(Now::default()).held_by_work, 92);
        assert_eq!(door.log_in("quick", "a password", 1), (true, "at once"));
    }
}
