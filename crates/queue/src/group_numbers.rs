//! Groups of live messages, each under a number: a message keeps the four bytes of the number in place of its group's digest.
//!
//! The numbers are volatile: one is given out again when nothing live is in its group. Snapshots have the digests.
//! Invariants: `numbers` has the groups in which something is live and no others; of `groups` those in which nothing is are `free`.

use base::Digest;
use std::collections::BTreeMap;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct GroupNumbers {
    numbers: BTreeMap<Digest, u32>,
    /// Digest and live messages of the group with each number, from 1 on.
    groups: Vec<(Digest, u64)>,
    /// Numbers of no group.
    free: Vec<u32>,
}

impl GroupNumbers {
    /// One more live message is in this group: the group's number, which is not 0.
    pub(crate) fn join(&mut self, digest: Digest) -> u32 {
        let GroupNumbers { numbers, groups, free } = self;
        let number = *numbers.entry(digest).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                groups.push((digest, 0));
                u32::try_from(groups.len()).expect("each is of a message in memory")
            })
        });
        let (of, live) = &mut groups[number as usize - 1];
        *of = digest;
        *live += 1;
        number
    }

    /// One message fewer is in the group with this number.
    pub(crate) fn leave(&mut self, number: u32) {
        let (digest, live) = &mut self.groups[number as usize - 1];
        *live -= 1;
        if *live == 0 {
            self.numbers.remove(digest);
            self.free.push(number);
        }
    }

    /// The group with a number that [`GroupNumbers::join`] gave.
    pub(crate) fn digest(&self, number: u32) -> Digest {
        self.groups[number as usize - 1].0
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A node has room for eleven; two thirds are in use.
        self.numbers.len() * size_of::<(Digest, u32)>() * 3 / 2
            + self.groups.capacity() * size_of::<(Digest, u64)>()
            + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_groups_that_ended_are_given_out_again() {
        let mut numbers = GroupNumbers::default();
        let group = |number| Digest([0, number]);
        let joined: Vec<u32> = [7, 8, 7, 9].map(|number| numbers.join(group(number))).into();
        assert_eq!(joined, [1, 2, 1, 3]);
        numbers.leave(1);
        assert_eq!((numbers.join(group(7)), numbers.digest(1)), (1, group(7)));
        numbers.leave(1);
        numbers.leave(1);
        assert_eq!((numbers.join(group(10)), numbers.digest(1)), (1, group(10)));
        assert_eq!(numbers.join(group(7)), 4);
    }
}
