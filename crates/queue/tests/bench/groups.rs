//! The model of groups: the messages of each that are out, and their holder.

use super::*;
use base::Digest;

pub fn group_key(number: u32) -> GroupKey {
    GroupKey(Digest([number.into(), 0]))
}

/// The number that [`group_key`] made it of.
pub fn group_number(GroupKey(Digest([number, _])): GroupKey) -> u32 {
    number as u32
}

impl Bench {
    /// Whether the consumer may be given this: nobody else has anything of its group, and nothing in front of it is on its
    /// way back.
    pub(super) fn may_have(&self, slot: u32, seq: u64) -> bool {
        let group = self.messages[seq as usize].group;
        let mut out = group.and_then(|group| self.out.get(&group)).into_iter().flatten();
        out.all(|(other, holder)| match holder {
            Some(holder) => *holder == slot,
            None => *other > seq,
        })
    }

    /// Whether nobody else has anything of its group.
    pub(super) fn is_free_for(&self, slot: u32, seq: u64) -> bool {
        let group = self.messages[seq as usize].group;
        let mut out = group.and_then(|group| self.out.get(&group)).into_iter().flatten();
        out.all(|(_, holder)| holder.is_none_or(|holder| holder == slot))
    }

    /// A consumer has it.
    pub(super) fn model_out(&mut self, seq: u64, slot: u32) {
        if let Some(group) = self.messages[seq as usize].group {
            self.out.entry(group).or_default().insert(seq, Some(slot));
        }
    }

    /// It is ready again, gone, or dies.
    pub(super) fn model_in(&mut self, seq: u64) {
        let group = self.messages[seq as usize].group;
        if let Some(out) = group.and_then(|group| self.out.get_mut(&group)) {
            out.remove(&seq);
        }
    }

    /// Nobody has it any more, and it will be ready.
    pub(super) fn model_given_back(&mut self, seq: u64) {
        let group = self.messages[seq as usize].group;
        let out = group.and_then(|group| self.out.get_mut(&group)?.get_mut(&seq));
        out.into_iter().for_each(|holder| *holder = None);
    }

    /// A new owner begins: messages that came back and wait for their time are on their way back.
    pub(super) fn model_waits_still(&mut self, seq: u64) {
        let message = &self.messages[seq as usize];
        if let Some(group) = message.group.filter(|_| message.state == State::Delayed && message.is_postponed)
        {
            self.out.entry(group).or_default().insert(seq, None);
        }
    }
}
