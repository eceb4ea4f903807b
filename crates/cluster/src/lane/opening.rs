//! The opening of a lane: hellos and proofs.
//!
//! ```text
//!   dialer    hello ------------>          proof ------------>
//!   listener         <------------ hello         <------------ proof, once its holder has opened
//! ```
//!
//! Each end checks a hello for faults, and closes for them, before it is proven: a claim may close a lane, and nothing
//! else. The listener's proof says as well that it serves the dialer.

use super::cookie::Trust;
use super::error::Error;
use super::hello::{Hello, Identity, NONCE_BYTES, Purpose};
use super::limits::Bounds;
use super::proof::{self, Hellos};
use super::role::Role;

/// The words of both ends until the lane is open.
#[derive(Debug)]
pub(crate) struct Opening {
    role: Role,
    trust: Trust,
    own: Hello,
    /// This end's hello as it went out; empty: it did not.
    own_bytes: Vec<u8>,
    /// The peer's hello, of which nothing is believed before its proof.
    claim: Option<Hello>,
    claim_bytes: Vec<u8>,
}

impl Opening {
    /// An opening at which nothing is said yet. The purpose of a listener is the dialer's.
    pub fn new(
        role: Role,
        trust: Trust,
        identity: Identity,
        purpose: Purpose,
        bounds: Bounds,
        nonce: [u8; NONCE_BYTES],
    ) -> Opening {
        let own = Hello { identity, purpose, bounds, nonce };
        Opening { role, trust, own, own_bytes: Vec::new(), claim: None, claim_bytes: Vec::new() }
    }

    /// This end's hello, to be sent now.
    pub fn hello(&mut self) -> &[u8] {
        self.own_bytes = self.own.encode();
        &self.own_bytes
    }

    /// Takes the peer's hello. Answers the version to be spoken, and the bounds of the lane.
    ///
    /// # Errors
    /// The fault for which the lane is closed.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<(u16, Bounds), Error> {
        let (theirs, version) = Hello::decode(bytes, self.own.identity.versions)?;
        let own = &mut self.own;
        if theirs.identity.folder == own.identity.folder {
            let is_same_life = theirs.identity.incarnation == own.identity.incarnation;
            return Err(Error::Oneself { is_same_life });
        }
        if let (Some(ours), Some(theirs)) = (own.identity.cluster, theirs.identity.cluster)
            && ours != theirs
        {
            return Err(Error::Cluster { ours, theirs });
        }
        match self.role {
            Role::Listener => own.purpose = theirs.purpose,
            Role::Dialer if own.purpose != theirs.purpose => {
                return Err(Error::Purpose { asked: own.purpose, answered: theirs.purpose });
            }
            Role::Dialer => {}
        }
        let bounds = own.bounds.common(&theirs.bounds);
        self.claim = Some(theirs);
        self.claim_bytes = bytes.to_vec();
        Ok((version, bounds))
    }

    /// This end's proof.
    pub fn prove(&self) -> Vec<u8> {
        proof::prove(&self.trust, self.role, self.hellos())
    }

    /// Takes the peer's proof. Answers the hello that is proven by it.
    ///
    /// # Errors
    /// [`Error::Cookie`].
    pub fn believe(&mut self, proof: &[u8]) -> Result<Hello, Error> {
        let prover = match self.role {
            Role::Dialer => Role::Listener,
            Role::Listener => Role::Dialer,
        };
        if !proof::is_proven(&self.trust, prover, self.hellos(), proof) {
            return Err(Error::Cookie);
        }
        self.claim.take().ok_or(Error::Cookie)
    }

    fn hellos(&self) -> Hellos<'_> {
        let (own, claim) = (self.own_bytes.as_slice(), self.claim_bytes.as_slice());
        match self.role {
            Role::Dialer => Hellos { dialer: own, listener: claim },
            Role::Listener => Hellos { dialer: claim, listener: own },
        }
    }

    /// Bytes of memory behind it.
    pub fn capacity(&self) -> usize {
        size_of::<Opening>() + self.own_bytes.capacity() + self.claim_bytes.capacity()
    }
}
