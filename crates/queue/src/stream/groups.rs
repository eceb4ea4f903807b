//! Single active consumers: of the readers of a group one reads, the others wait for their turn.
//!
//! In a group of its own stream, the member that came first is active until it goes. In a group over the partitions of
//! a super stream, the active one is the partition's number modulo the number of members, so that members share the
//! partitions; one that is to stop is told so, and the next begins when it has answered.
//! Invariant: at most one member is anything but on standby.

use super::readers::ReaderId;
use std::collections::BTreeMap;

/// The group that a reader is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Box<[u8]>,
    /// The number of the stream among the partitions of a super stream.
    pub partition: Option<u32>,
}

/// The members of one group.
#[derive(Debug, Default)]
struct Members {
    /// In the order they came.
    members: Vec<ReaderId>,
    partition: Option<u32>,
    /// The reader that is active, or on its way in or out.
    current: Option<ReaderId>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<Box<[u8]>, Members>,
}

/// The next thing that a group wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing.
    Stay,
    /// This one is to stop.
    Retire(ReaderId),
    /// This one is to begin.
    Begin(ReaderId),
}

impl Groups {
    /// Whether the members of the group, if there are any, name the same partition.
    pub(super) fn agrees(&self, group: &Group) -> bool {
        self.groups.get(&group.name).is_none_or(|members| members.partition == group.partition)
    }

    pub(super) fn join(&mut self, group: &Group, reader: ReaderId) {
        let members = self.groups.entry(group.name.clone()).or_default();
        members.partition = group.partition;
        members.members.push(reader);
    }

    pub(super) fn leave(&mut self, name: &[u8], reader: ReaderId) {
        let Some(members) = self.groups.get_mut(name) else { return };
        members.members.retain(|member| *member != reader);
        members.current = members.current.filter(|current| *current != reader);
        if members.members.is_empty() {
            self.groups.remove(name);
        }
    }

    /// The one that was active has stopped.
    pub(super) fn retired(&mut self, name: &[u8]) {
        if let Some(members) = self.groups.get_mut(name) {
            members.current = None;
        }
    }

    /// The thing that is to happen now. A reader that is to begin is the current one from here on.
    pub(super) fn turn(&mut self, name: &[u8]) -> Turn {
        let Some(members) = self.groups.get_mut(name) else { return Turn::Stay };
        let chosen = match (members.partition, members.current) {
            (None, Some(current)) => Some(current),
            (None, None) => members.members.first().copied(),
            (Some(partition), _) => {
                let at = (partition as usize).checked_rem(members.members.len());
                at.and_then(|at| members.members.get(at)).copied()
            }
        };
        match (members.current, chosen) {
            (None, Some(chosen)) => {
                members.current = Some(chosen);
                Turn::Begin(chosen)
            }
            (Some(current), Some(chosen)) if current != chosen => Turn::Retire(current),
            _ => Turn::Stay,
        }
    }
}
