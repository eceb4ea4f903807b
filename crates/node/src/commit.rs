//! The writing of a shard's batches: by the shard or by the writer, and the outcome.
//!
//! A shard that alone commits writes inside its own turn while flushes are quick: no hand-over, no wake-up. Otherwise its
//! batches stand in a [`Line`], of which the writer takes all there is, so a slow disk makes larger groups.
//! Invariant: a shard's batches are written in the order it handed them in; one with batches in the line hands later ones
//! in there too.

use base::id::{LogId, LogIndex, ShardId};
use journal::{Place, Sealed, WriteError};

/// Nanoseconds without another shard's commit after which a shard counts as alone.
pub const ALONE_NS: u64 = 2_000_000;

/// A batch that is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its log.
    pub log: LogId,
    /// Its first record's index.
    pub base: LogIndex,
    /// Where it lies.
    pub place: Place,
}

/// The state of things when a shard hands in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Batches of this shard that were handed in before and are not reported yet.
    pub outstanding: usize,
    /// No other shard has committed for [`ALONE_NS`].
    pub is_alone: bool,
    /// A flush takes less than the shard's connections may wait for.
    pub is_quick: bool,
    /// The last write found no space.
    pub is_out_of_space: bool,
}

impl Moment {
    /// The shard writes its batches itself, inside its turn.
    pub fn writes_at_once(self) -> bool {
        self.is_alone && self.is_quick && self.outstanding == 0 && !self.is_out_of_space
    }
}

/// Nanoseconds a flush takes, smoothed: eight flushes back count for a third, and one stall alone does not change the way.
pub fn smoothed_ns(before_ns: u64, took_ns: u64) -> u64 {
    match before_ns {
        0 => took_ns.max(1),
        before => (before - before / 8 + took_ns.min(before * 4) / 8).max(1),
    }
}

/// Writes `batches` by means of `write`, which gives those that are on disk their places, also where it fails. Those are
/// appended to `written` and taken from `batches`.
///
/// # Errors
/// The error of `write`.
pub fn write_at_once(
    batches: &mut Vec<Sealed>,
    places: &mut Vec<Place>,
    written: &mut Vec<Written>,
    write: impl FnOnce(&[Sealed], &mut Vec<Place>) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let result = write(batches, places);
    written.extend(batches.iter().zip(places.iter()).map(report));
    // The memory must be the shard's alone again before it hears of it, or it cannot be reused.
    batches.drain(..places.len());
    result
}

/// Batches that wait for the writer, and their shards, in the order they came.
#[derive(Debug, Default)]
pub struct Line {
    batches: Vec<Sealed>,
    /// Their shards, so many in a row.
    owners: Vec<(ShardId, usize)>,
    places: Vec<Place>,
}

impl Line {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// A shard hands in `batches`, which are left empty.
    pub fn push(&mut self, shard: ShardId, batches: &mut Vec<Sealed>) {
        self.owners.push((shard, batches.len()));
        self.batches.append(batches);
    }

    /// All batches of another line come behind those of this one.
    pub fn append(&mut self, other: &mut Line) {
        self.batches.append(&mut other.batches);
        self.owners.append(&mut other.owners);
    }

    /// Writes all that waits by means of `write`, as [`write_at_once`] does. `done` gets those that are on disk now,
    /// once by shard, in order; the rest stays.
    ///
    /// # Errors
    /// The error of `write`.
    pub fn write(
        &mut self,
        done: &mut Vec<(ShardId, Vec<Written>)>,
        write: impl FnOnce(&[Sealed], &mut Vec<Place>) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let Line { batches, owners, places } = self;
        let result = write(batches, places);
        let mut reports = batches.iter().zip(places.iter()).map(report);
        let mut left = places.len();
        for (shard, count) in owners.iter_mut() {
            let of_shard = (*count).min(left);
            *count -= of_shard;
            left -= of_shard;
            if of_shard > 0 {
                let written = reports.by_ref().take(of_shard);
                match done.iter_mut().find(|(other, _)| other == shard) {
                    Some((_, all)) => all.extend(written),
                    None => done.push((*shard, written.collect())),
                }
            }
        }
        drop(reports);
        owners.retain(|(_, count)| *count > 0);
        // The memory must be the shards' alone again before they hear of it, or it cannot be reused.
        batches.drain(..places.len());
        result
    }
}

fn report((batch, place): (&Sealed, &Place)) -> Written {
    Written { log: batch.log, base: batch.base, place: *place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Buffer;
    use journal::{Batch, FileId, FileKind, FileName};

    #[test]
    fn a_shard_writes_at_once_when_nothing_speaks_against_it() {
        let best = Moment { outstanding: 0, is_alone: true, is_quick: true, is_out_of_space: false };
        for (moment, expected) in [
            (best, true),
            (Moment { outstanding: 1, ..best }, false),
            (Moment { is_alone: false, ..best }, false),
            (Moment { is_quick: false, ..best }, false),
            (Moment { is_out_of_space: true, ..best }, false),
        ] {
            assert_eq!(moment.writes_at_once(), expected, "{moment:?}");
        }
    }

    #[test]
    fn one_stall_alone_does_not_change_the_way() {
        assert_eq!(smoothed_ns(0, 80), 80);
        assert_eq!(smoothed_ns(80, 80), 80);
        assert_eq!(smoothed_ns(80, 80_000), 110);
        assert_eq!(smoothed_ns(0, 0), 1);
    }

    fn batch(log: u32, base: u64) -> Sealed {
        let mut batch = Batch::new(LogId(log), LogIndex(base), Buffer::default());
        batch.records().extend(&[log as u8; 64]);
        batch.seal(0)
    }

    fn place(offset: u64) -> Place {
        Place { file: FileId(1), name: FileName::new(FileKind::Journal, 1), offset, len: 64, crc: 0 }
    }

    #[test]
    fn what_is_on_disk_is_told_by_shard_in_order_and_the_rest_stays() {
        let mut line = Line::default();
        line.push(ShardId(0), &mut vec![batch(1, 0), batch(1, 64)]);
        line.push(ShardId(1), &mut vec![batch(2, 0)]);
        line.push(ShardId(0), &mut vec![batch(1, 128), batch(1, 192)]);
        let bases = |done: &[(ShardId, Vec<Written>)]| -> Vec<(u16, Vec<u64>)> {
            done.iter().map(|(shard, all)| (shard.0, all.iter().map(|it| it.base.0).collect())).collect()
        };
        let mut done = Vec::new();
        let full = line.write(&mut done, |batches, places| {
            assert_eq!(batches.len(), 5);
            places.extend((0..4).map(place));
            Err(WriteError::NoSpace)
        });
        assert!(matches!(full, Err(WriteError::NoSpace)));
        assert_eq!(bases(&done), [(0, vec![0, 64, 128]), (1, vec![0])]);
        done.clear();
        line.write(&mut done, |batches, places| {
            assert_eq!(batches.len(), 1);
            places.clear();
            places.push(place(9));
            Ok(())
        })
        .unwrap();
        assert_eq!(bases(&done), [(0, vec![192])]);
        assert!(line.is_empty());
    }
}
