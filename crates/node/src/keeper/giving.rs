//! States of logs that other nodes may have: made when one asks, kept while somebody reads.

use crate::fetch::{Fetch, Gift, PIECE_BYTES_MAX, Part, What};
use base::Now;
use base::brief;
use base::id::{LogId, NodeNo};
use consensus::EntryId;
use journal::{Disk, DiskError, FileKind, FileName};
use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds for which a gift is kept that nobody reads: segments stay for it that nothing else needs.
const IDLE_MS: u64 = 60_000;

/// A gift that is there.
#[derive(Debug)]
struct Kept {
    gift: Gift,
    state: Vec<u8>,
    /// When somebody read of it last, or it was made; monotonic nanoseconds.
    used_at: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Giving {
    kept: BTreeMap<LogId, Kept>,
    /// To be made: up to this entry at least.
    wanted: BTreeMap<LogId, EntryId>,
    last_number: u64,
}

impl Giving {
    /// A log of which a gift is to be made, taken out.
    pub(super) fn take_wanted(&mut self) -> Option<LogId> {
        self.wanted.pop_first().map(|(log, _)| log)
    }

    /// A gift is made, with this state, and all its segments in order. Its number is given here.
    pub(super) fn keep(&mut self, now: Now, log: LogId, gift: Gift, state: Vec<u8>) {
        // One that the node made before it was started anew is another.
        self.last_number = (now.wall_ms << 16).max(self.last_number + 1);
        let gift = Gift { number: self.last_number, ..gift };
        self.kept.insert(log, Kept { gift, state, used_at: now.mono_ns });
    }

    /// Segments that somebody may read.
    pub(super) fn segments(&self) -> BTreeSet<u64> {
        let of = |kept: &Kept| kept.gift.segments.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        brief::collect(self.kept.values().flat_map(of))
    }

    /// Forgets what nobody reads any more.
    pub(super) fn forget_idle(&mut self, now: Now) {
        self.kept.retain(|_, kept| now.mono_ns < Now { mono_ns: kept.used_at, ..now }.after_ms(IDLE_MS));
    }

    /// A node asks, or reads. The answer; none: later, or never.
    pub(super) fn hear(&mut self, now: Now, disk: &dyn Disk, fetch: &Fetch) -> Option<What> {
        let log = fetch.log;
        let kept = self.kept.get_mut(&log);
        match (&fetch.what, kept) {
            (What::Ask { least }, Some(kept)) if kept.gift.name.last >= Some(*least) => {
                kept.used_at = now.mono_ns;
                Some(What::Gift(Box::new(kept.gift.clone())))
            }
            (What::Ask { least }, _) => {
                self.wanted.insert(log, *least);
                None
            }
            (What::Read { number, part, offset }, Some(kept)) if kept.gift.number == *number => {
                kept.used_at = now.mono_ns;
                let (number, part, offset) = (*number, *part, *offset);
                // A part that cannot be read is none.
                let bytes = kept.read(disk, part, offset).ok().flatten();
                Some(bytes.map_or(What::Gone { number }, |bytes| What::Piece { number, part, offset, bytes }))
            }
            (What::Read { number, .. }, _) => Some(What::Gone { number: *number }),
            (What::Gift(_) | What::Piece { .. } | What::Gone { .. }, _) => None,
        }
    }
}

impl Kept {
    /// A piece; none: there is none.
    fn read(&self, disk: &dyn Disk, part: Part, offset: u64) -> Result<Option<Vec<u8>>, DiskError> {
        let most = u64::from(PIECE_BYTES_MAX);
        match part {
            Part::State => {
                let rest = usize::try_from(offset).ok().and_then(|offset| self.state.get(offset..));
                Ok(rest.map(|rest| rest[..rest.len().min(most as usize)].to_vec()))
            }
            Part::Segment(number) => {
                let Some((_, len)) = self.gift.segments.iter().find(|(of, _)| *of == number) else {
                    return Ok(None);
                };
                let Some(left) = len.checked_sub(offset) else { return Ok(None) };
                let mut bytes = vec![0; left.min(most) as usize];
                let read = disk.read_at(FileName::new(FileKind::Segment, number), offset, &mut bytes)?;
                bytes.truncate(read);
                Ok(Some(bytes))
            }
        }
    }
}

/// The node that a word came from, and the word.
pub(super) type Heard = (NodeNo, Fetch);
