//! Which of two shards is ahead in the changes of the catalog, and mail of one that is.
//!
//! A shard that has heard of a queue uses it at once, and the shard that the queue lives on may hear of it later: waves of
//! changes go to each by itself. So a shard says how far it is in front of the first mail that rests on that; whoever is not
//! as far keeps what is for logs until it is. Invariant: what is kept is taken in in the order in which it came.

use crate::mail::Mail;
use base::id::ShardId;
use std::collections::VecDeque;

/// How far this shard is, and the others were told that it is.
#[derive(Debug)]
pub(crate) struct Wave {
    /// The number of the last wave of changes of which something has taken effect here; 0: none.
    reached: u64,
    /// What each shard was told, by its number.
    told: Box<[u64]>,
}

impl Wave {
    /// Nothing has taken effect in any of so many shards.
    pub(crate) fn new(shards: u16) -> Wave {
        Wave { reached: 0, told: vec![0; shards.into()].into() }
    }

    /// Something of the wave of this number takes effect.
    pub(crate) fn reach(&mut self, number: u64) {
        self.reached = number;
    }

    /// The number that a shard which is sent mail now is to be told in front of it, unless it knows.
    pub(crate) fn to_tell(&mut self, to: ShardId) -> Option<u64> {
        let told = &mut self.told[usize::from(to.0)];
        (std::mem::replace(told, self.reached) < self.reached).then_some(self.reached)
    }

    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }
}

/// Mail that is kept until this shard is as far as its sender was.
#[derive(Debug, Default)]
pub(crate) struct EarlyMail {
    /// The number of the wave that is waited for; 0: none is.
    awaited: u64,
    mail: VecDeque<Mail>,
}

impl EarlyMail {
    /// The mail that follows rests on the wave of this number.
    pub(crate) fn await_wave(&mut self, number: u64, reached: u64) {
        if number > reached {
            self.awaited = self.awaited.max(number);
        }
    }

    /// Keeps what is for a log while a wave is waited for, and gives the rest back.
    #[inline]
    pub(crate) fn keep(&mut self, mail: Mail) -> Option<Mail> {
        if self.awaited == 0 {
            return Some(mail);
        }
        match mail {
            Mail::Append { .. } | Mail::Ask { .. } | Mail::Queue { .. } => {
                self.mail.push_back(mail);
                None
            }
            mail => Some(mail),
        }
    }

    /// All that was kept, if it was for this wave.
    pub(crate) fn release(&mut self, reached: u64) -> VecDeque<Mail> {
        if self.awaited > reached {
            return VecDeque::new();
        }
        self.awaited = 0;
        std::mem::take(&mut self.mail)
    }
}
