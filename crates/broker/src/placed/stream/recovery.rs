//! From disk to streams and back: their part of a log's snapshot, and the files it speaks of.
//!
//! Order at a start: snapshots, then [`crate::Logs::recover_streams`] for each log with what files there are, then the journal's
//! replay, which makes the same chunks again at the same places.
//! A snapshot may be newer than the catalog's: a stream in it is kept until the replay of the catalog names it.

use super::Streams;
use crate::log::{Commons, NO_QUEUE, Queues};
use crate::turn::Turn;
use base::Sink;
use base::cursor::{Reader, Short};
use base::id::QueueId;
use queue::stream::{Settings, Stream};
use std::collections::BTreeMap;

/// The version of what is written where no queue's messages lie in segments.
const VERSION: u32 = 1;

/// The version with what queues hold of segments.
const VERSION_REFERENCES: u32 = 2;

impl Streams {
    pub(crate) fn write_snapshot(&self, bytes: &mut impl Sink) {
        let has_references = self.references.is_recorded();
        let version = if has_references { VERSION_REFERENCES } else { VERSION };
        bytes.put(&version.to_le_bytes());
        bytes.put(&self.common.next_file().to_le_bytes());
        bytes.put(&(self.owned.len() as u64).to_le_bytes());
        for (_, stream) in &self.owned {
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

    /// All machines there are: those the catalog has named, and those it has not yet.
    fn machines(&self) -> impl Iterator<Item = &Stream> {
        self.owned.iter().map(|(_, stream)| &stream.machine).chain(self.restored.values())
    }
}

impl Streams {
    /// Takes in what [`Streams::write_snapshot`] wrote.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<(), Short> {
        let mut reader = Reader::new(bytes);
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
            let settings = match self.slot(id) {
                Some(slot) => *self.owned[slot as usize].machine.settings(),
                None => Settings::default(),
            };
            let machine = Stream::read_snapshot(bytes, settings).map_err(|_| Short)?;
            match self.slot(id) {
                Some(slot) => self.owned[slot as usize].machine = machine,
                None => _ = self.restored.insert(id, machine),
            }
        }
        if version == VERSION_REFERENCES {
            self.references.read(&mut reader)?;
        }
        Ok(())
    }

    /// The replay is over: what a snapshot held and the catalog never named was deleted.
    pub(crate) fn finish(&mut self, commons: &mut Commons, queues: &mut Queues, turn: &mut Turn<'_>) {
        for (id, machine) in std::mem::take(&mut self.restored) {
            self.end(id, machine);
        }
        let slots: Vec<usize> = self.owned.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.owned[slot].machine.replayed(&mut self.effects);
            self.sort(slot as u32);
        }
        // It was told when it was so.
        self.driven_out = (0, None);
        self.finish_references(commons, queues);
        self.dispatch(turn);
    }
}

impl Streams {
    /// Between the snapshots and the replay: streams go on with the files there are, by segment and their bytes.
    pub(crate) fn recover(&mut self, lengths: &BTreeMap<u64, u64>) {
        let Streams { owned, common, restored, .. } = self;
        let named = owned.iter_mut().map(|(_, stream)| &mut stream.machine);
        for machine in named.chain(restored.values_mut()) {
            machine.recover(|segment| lengths.get(&segment).copied(), common);
        }
    }

    /// The segments that are anybody's, and how many bytes of each file are; of those that no stream has, all.
    pub(crate) fn segments(&self) -> BTreeMap<u64, u64> {
        let others = self.references.segments().map(|segment| (segment, u64::MAX));
        let of_streams = self.machines().flat_map(|machine| machine.segments());
        // The bytes that a stream gives count where both have the segment.
        others.chain(of_streams.map(|segment| (segment.number, segment.bytes))).collect()
    }
}
