//! Which of two shards is ahead in the changes of the catalog, and mail of one that is.
//!
//! A shard that has heard of a queue uses it at once, and the shard that the queue lives on may hear of it later: waves of
//! changes go to each by itself. So a shard says how far it is in front of the first mail that rests on that; whoever is not
//! as far keeps what is for logs until it is. Invariant: what is kept is taken in in the order in which it came.

use crate::mail::Mail;
use base::id::ShardId;
use std::collections::VecDeque;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The number of the last wave of changes of which something has taken effect here; 0: none.
    reached: u64,
    /// The number of it that each shard was told of, by the shard's number.
    told: Box<[u64]>,
    /// The number of the wave that mail rests on which is kept; 0: none is.
    awaited: u64,
    kept: VecDeque<Mail>,
}

impl Ahead {
    /// Nothing has taken effect in any of so many shards.
    pub(crate) fn new(shards: u16) -> Ahead {
        Ahead { reached: 0, told: vec![0; shards.into()].into(), awaited: 0, kept: VecDeque::new() }
    }

    /// Something of the wave of this number takes effect here.
    pub(crate) fn reach(&mut self, number: u64) {
        self.reached = number;
    }

    /// The number that a shard which is sent mail now is to be told in front of it, unless it was told.
    pub(crate) fn tell(&mut self, to: ShardId) -> Option<u64> {
        let told = &mut self.told[usize::from(to.0)];
        (std::mem::replace(told, self.reached) < self.reached).then_some(self.reached)
    }

    /// The mail that follows rests on the wave of this number.
    pub(crate) fn await_wave(&mut self, number: u64) {
        if number > self.reached {
            self.awaited = self.awaited.max(number);
        }
    }

    /// Keeps what is for a log while a wave is waited for, and the word that no more is to come for one; gives the rest back.
    #[inline]
    pub(crate) fn keep(&mut self, mail: Mail) -> Option<Mail> {
        let is_for_log =
            matches!(mail, Mail::Append { .. } | Mail::Ask { .. } | Mail::Queue { .. } | Mail::Penned { .. });
        if self.awaited == 0 || !is_for_log {
            return Some(mail);
        }
        self.kept.push_back(mail);
        None
    }

    /// All that was kept, once the wave that was waited for has taken effect.
    pub(crate) fn release(&mut self) -> VecDeque<Mail> {
        if self.awaited > self.reached {
            return VecDeque::new();
        }
        self.awaited = 0;
        std::mem::take(&mut self.kept)
    }
}
