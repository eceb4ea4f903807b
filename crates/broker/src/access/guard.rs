//! The guard of a node's passwords: [`Guesses`] as all threads that log clients in share them.
//!
//! There is one for each node, for all protocols. Its lock is held for a few lookups, never while a password is hashed,
//! so that no shard waits for more than that.

use super::guesses::{GuessCounts, GuessLimits, Guesses, Held, Origin, Ticket};
use base::{DigestKey, Now};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub struct Guard(Mutex<Guesses>);

impl Guard {
    /// A guard that has seen nothing. Nobody may foretell the key.
    pub fn new(limits: GuessLimits, key: DigestKey) -> Guard {
        Guard(Mutex::new(Guesses::new(limits, key)))
    }

    fn guesses(&self) -> MutexGuard<'_, Guesses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a login is to be tried, see [`Guesses::admit`].
    pub(super) fn admit(&self, now: Now, account: &str, origin: Origin) -> Result<Ticket, Held> {
        self.guesses().admit(now.mono_ns, account, origin)
    }

    /// The outcome of a login that was tried.
    pub(super) fn judged(&self, now: Now, ticket: Ticket, is_right: bool) {
        self.guesses().judged(now.mono_ns, ticket, is_right);
    }

    /// Counts for metrics.
    pub fn counts(&self, now: Now) -> GuessCounts {
        self.guesses().counts(now.mono_ns)
    }
}

/// One for tests and simulations, with a key that is no secret.
impl Default for Guard {
    fn default() -> Guard {
        Guard::new(GuessLimits::default(), DigestKey::FIXED)
    }
}
