//! From disk to streams and back: their part of a log's snapshot, and the files it speaks of.
//!
//! Order at a start: snapshots, then [`crate::Logs::recover_streams`] for each log with what files there are, then the journal's
//! replay, which makes the same chunks again at the same places.
//! A snapshot may be newer than the catalog's: a stream in it is kept until the replay of the catalog names it.

use super::Streams;
use crate::log::{Commons, NO_QUEUE};
use crate::placed::{Machines, Recovering, Restored};
use crate::turn::Turn;
use base::Sink;
use base::cursor::{Reader, Short};
use base::id::QueueId;
use queue::stream::{Settings, Stream};
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
        bytes.put(&(self.slots.len() as u64).to_le_bytes());
        for stream in self.slots.iter().filter_map(|slot| machines.stream(*slot)) {
            bytes.put(&stream.definition.id.0.to_le_bytes());
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

    /// Takes in what [`Streams::write_snapshot`] wrote.
    pub(crate) fn restore(
        &mut self,
        machines: &mut Machines,
        recovering: &mut Recovering,
        reader: &mut Reader<'_>,
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
            let bytes = reader.take(len)?;
            let stream = machines.slot(id).and_then(|slot| machines.stream_mut(slot));
            let settings =
                stream.as_ref().map_or_else(Settings::default, |stream| *stream.machine.settings());
            let machine = Stream::read_snapshot(bytes, settings).map_err(|_| Short)?;
            match stream {
                Some(stream) => stream.machine = machine,
                None => _ = recovering.restored.insert(id, Restored::Stream(Box::new(machine))),
            }
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
    pub(crate) fn recover(
        &mut self,
        machines: &mut Machines,
        recovering: &mut Recovering,
        lengths: &BTreeMap<u64, u64>,
    ) {
        let mut recover = |machine: &mut Stream| {
            machine.recover(|segment| lengths.get(&segment).copied(), &mut self.common);
        };
        for slot in &self.slots {
            if let Some(stream) = machines.stream_mut(*slot) {
                recover(&mut stream.machine);
            }
        }
        recovering.restored.values_mut().filter_map(Restored::as_stream_mut).for_each(recover);
    }

    /// The segments that are anybody's, and how many bytes of each file are; of those that no stream has, all.
    pub(crate) fn segments(
        &self,
        machines: &Machines,
        recovering: Option<&Recovering>,
    ) -> BTreeMap<u64, u64> {
        let others = self.references.segments().map(|segment| (segment, u64::MAX));
        let named = self.slots.iter().filter_map(|slot| Some(&machines.stream(*slot)?.machine));
        let restored = recovering.into_iter().flat_map(|recovering| recovering.restored.values());
        let not_yet_named = restored.filter_map(Restored::as_stream);
        let of_streams = named.chain(not_yet_named).flat_map(|machine| machine.segments());
        // The bytes that a stream gives count where both have the segment.
        others.chain(of_streams.map(|segment| (segment.number, segment.bytes))).collect()
    }
}
