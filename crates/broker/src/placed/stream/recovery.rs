//! From disk to streams and back: their part of a log's snapshot, and the files it speaks of.
//!
//! Order at a start: snapshots, then [`crate::Logs::recover_streams`] for each log with what files there are, then the journal's
//! replay, which makes the same chunks again at the same places.
//! A stream that the catalog does not name when the replay is over has no owner, and is closed.

use super::Streams;
use crate::log::{Commons, NO_QUEUE};
use crate::placed::Machines;
use crate::turn::Turn;
use base::Sink;
use base::cursor::{Reader, Short};
use base::id::QueueId;
use queue::stream::Stream;
use std::collections::BTreeMap;

/// The version of what is written where no queue's messages lie in segments.
pub(super) const VERSION: u32 = 1;

/// The version with what queues hold of segments.
pub(super) const VERSION_REFERENCES: u32 = 2;

impl Streams {
    pub(crate) fn write_snapshot(&self, machines: &Machines, bytes: &mut impl Sink) {
        let has_references = self.references.is_recorded();
        let version = if has_references { VERSION_REFERENCES } else { VERSION };
        bytes.put(&version.to_le_bytes());
        bytes.put(&self.common.next_file().to_le_bytes());
        let open =
            || self.slots.iter().filter_map(|slot| machines.stream(*slot)).filter(|stream| stream.is_open);
        bytes.put(&(open().count() as u64).to_le_bytes());
        for stream in open() {
            bytes.put(&stream.id.0.to_le_bytes());
            let at = bytes.size();
            bytes.put(&[0; 4]);
            stream.machine.write_snapshot(bytes);
            let len = (bytes.size() - at - 4) as u32;
            bytes.patch(at, &len.to_le_bytes());
        }
        if has_references {
            self.references.write(bytes);
        }
    }

    /// Takes in what [`Streams::write_snapshot`] wrote; the streams go to `restored`, each with its id.
    pub(crate) fn restore(
        &mut self,
        reader: &mut Reader<'_>,
        restored: &mut Vec<(QueueId, Stream)>,
    ) -> Result<(), Short> {
        let version = reader.u32_le()?;
        if !matches!(version, VERSION | VERSION_REFERENCES) {
            return Err(Short);
        }
        let next_file = reader.u64_le()?;
        let count = reader.u64_le()?;
        self.common.set_next_file(next_file);
        self.references.has_snapshot(next_file);
        for _ in 0..count {
            let id = Some(QueueId(reader.u64_le()?)).filter(|id| *id != NO_QUEUE).ok_or(Short)?;
            let len = reader.u32_le()? as usize;
            let machine = Stream::read_snapshot(reader.take(len)?).map_err(|_| Short)?;
            restored.push((id, machine));
        }
        if version == VERSION_REFERENCES {
            self.references.read(reader)?;
        }
        Ok(())
    }

    /// The replay is over.
    pub(crate) fn finish(&mut self, machines: &mut Machines, commons: &mut Commons, turn: &mut Turn<'_>) {
        for slot in self.all() {
            if let Some(mut at) = self.at(machines, slot) {
                at.stream.machine.replayed(&mut at.streams.effects);
                at.sort();
            }
        }
        // It was told when it was so.
        self.driven_out = (0, None);
        self.finish_references(commons, machines);
        self.dispatch(machines, turn);
    }

    /// Between the snapshots and the replay: streams go on with the files there are, by segment and their bytes.
    pub(crate) fn recover(&mut self, machines: &mut Machines, lengths: &BTreeMap<u64, u64>) {
        for slot in &self.slots {
            if let Some(stream) = machines.stream_mut(*slot) {
                stream.machine.recover(|segment| lengths.get(&segment).copied(), &mut self.common);
            }
        }
    }

    /// The segments that are anybody's, and how many bytes of each file are; of those that no stream has, all.
    pub(crate) fn segments(&self, machines: &Machines) -> BTreeMap<u64, u64> {
        let others = self.references.segments().map(|segment| (segment, u64::MAX));
        let streams = self.slots.iter().filter_map(|slot| machines.stream(*slot));
        let of_streams = streams.flat_map(|stream| stream.machine.segments());
        // The bytes that a stream gives count where both have the segment.
        others.chain(of_streams.map(|segment| (segment.number, segment.bytes))).collect()
    }
}
