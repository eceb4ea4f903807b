//! The threads that hash passwords with memory-hard functions: two, so that no more are hashed at a time, whoever asks.
//!
//! They take from one line, in order; how many logins may wait in it the guard bounds ([`broker::access::Guard`]). They
//! end when nobody can ask any more.

use crate::clock::Clock;
use crate::door::{Door, Letter, Tried};
use crate::line::{Entry, Exit, line};
use crate::seed;
use adapters::{Outcome, Trying};
use base::id::ShardId;
use broker::access::{AccessRules, Guard, Hashing, PasswordHash, Trial};
use management::Compared;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// How many. Each may take 64 MiB.
pub const HASHERS: usize = 2;

/// Where passwords are brought.
pub type Passwords = Entry<Ask>;

/// A password.
pub enum Ask {
    /// A connection of a shard waits for its comparison.
    Connection(ShardId, Trying),
    /// A request waits for its comparison, or a thread; it goes on with the outcome.
    Other(Box<Trial>, Compared),
    /// A thread waits for its new hash.
    Hash(String, Sender<PasswordHash>),
}

/// The state of a hashing thread; all have clones of one.
#[derive(Clone)]
pub struct Hasher {
    line: Exit<Ask>,
    doors: Arc<[Door]>,
    clock: Clock,
    guard: Arc<Guard>,
    rules: Arc<AccessRules>,
}

impl Hasher {
    /// A hasher for the threads to clone, and the entry for passwords.
    pub fn new(
        doors: Arc<[Door]>,
        clock: Clock,
        guard: Arc<Guard>,
        rules: Arc<AccessRules>,
    ) -> (Hasher, Passwords) {
        let (entry, line) = line();
        (Hasher { line, doors, clock, guard, rules }, entry)
    }

    /// Hashes until nobody can ask any more. To be run by [`HASHERS`] threads.
    pub fn run(&self) {
        while let Some(ask) = self.line.take() {
            match ask {
                Ask::Connection(shard, Trying { slot, generation, trial }) => {
                    let tried = Tried { slot, generation, outcome: self.compare(*trial) };
                    self.doors[usize::from(shard.0)].letters.put(Letter::Tried(Box::new(tried)));
                }
                Ask::Other(trial, then) => then(self.compare(*trial)),
                // The thread that asked may have given up.
                Ask::Hash(password, to) => {
                    to.send(Hashing::Argon2id.hash(&password, seed::sure_salt())).unwrap_or_default();
                }
            }
        }
    }

    fn compare(&self, trial: Trial) -> Outcome {
        trial.carry_out(self.clock.now(), &self.guard, &self.rules)
    }
}
