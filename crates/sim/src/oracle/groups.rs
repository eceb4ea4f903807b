//! The rule of messages in groups: one consumer at a time has any of a group. That it gets them in order is checked
//! with the order of publishers.

use super::{Copy, Oracle};

impl Oracle {
    /// A message of a group came to a connection that is to settle it: no other has one of that group, unless it is about to
    /// hear that it is closed, holds it for too long, or got it of an owner of the queue before.
    pub(super) fn comes_in_group(&mut self, client: u64, number: usize, id: u64, group: Option<u64>) {
        let Some(group) = group else { return };
        let Oracle { queues, messages, suspects, now_ms, .. } = self;
        let queue = &queues[number];
        let may_be_late = |copy: &Copy| copy.may_be_late(&queue.rules, *now_ms);
        let of_group = queue.copies.iter().filter(|(other, copy)| {
            let is_held = !may_be_late(copy) && !copy.lost_leader && !queue.may_be_settled(copy);
            messages[**other as usize].group == Some(group) && **other != id && is_held
        });
        for (other, copy) in of_group {
            for holder in copy.holders.iter().filter(|holder| **holder != client) {
                let text = format!(
                    "message {other} of group {group} of queue {number} is held by connection {holder} and {id} came \
                     to {client}"
                );
                suspects.entry((*holder, client)).or_insert(text);
            }
        }
    }
}
