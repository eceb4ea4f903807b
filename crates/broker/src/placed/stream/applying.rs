//! Records are applied to a stream: they bring messages, offsets that are stored, and truncations.

use super::{AtStream, Streams, feeding};
use crate::notices::DrivenOut;
use crate::placed::Machines;
use message::record::{Append, Enqueue, Kind, StreamSettings, Track, Truncate};
use queue::stream::{self, Storing};

const WHOLE: &str = "a committed batch holds whole records";

impl AtStream<'_> {
    /// A record that names the stream is applied.
    #[cold]
    #[inline(never)]
    pub(crate) fn apply(&mut self, kind: Kind, record: &[u8]) {
        match kind {
            Kind::Append => {
                self.streams.share.published(record.len());
                self.append(&Append::read(record).expect(WHOLE));
            }
            Kind::Track => self.track(&Track::read(record).expect(WHOLE)),
            Kind::StreamSettings => self.configure(&StreamSettings::read(record).expect(WHOLE)),
            Kind::Truncate => self.truncate(&Truncate::read(record).expect(WHOLE)),
            // Records of queues.
            _ => {}
        }
    }

    /// A message came.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_in(&mut self, record: &[u8]) {
        let message = Enqueue::read(record).expect("it was read before");
        self.streams.share.published(record.len());
        self.open(message.received_at_ms);
        let AtStream { stream, streams: Streams { common, effects, converter, .. }, .. } = self;
        let (parts, filter_value) = converter.store(&message);
        let at_ms = i64::try_from(message.received_at_ms).unwrap_or(i64::MAX);
        stream.machine.push_message(at_ms, &parts, filter_value, common, effects);
        self.sort();
    }

    fn open(&mut self, at_ms: u64) {
        let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
        let open_at_ms = &mut self.stream.open_at_ms;
        if open_at_ms.is_none() {
            self.streams.open.push(self.slot);
        }
        *open_at_ms = (*open_at_ms).max(Some(at_ms));
    }

    fn append(&mut self, append: &Append<'_>) {
        self.open(append.at_ms);
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        let at_ms = i64::try_from(append.at_ms).unwrap_or(i64::MAX);
        let published = append.messages().map(|message| stream::Published {
            id: message.publishing_id,
            filter_value: message.filter_value,
            entry: message.entry,
        });
        let reference = append.reference.unwrap_or_default();
        stream.machine.publish(at_ms, reference, published, common, effects);
        self.sort();
    }

    fn track(&mut self, track: &Track<'_>) {
        self.streams.has_come(track);
        let AtStream { stream, streams, .. } = self;
        let gone =
            match stream.machine.store_offset(track.reference, track.offset, track.owner, &streams.common) {
                Storing::Stored => None,
                Storing::InPlaceOf { reference, offset } => Some((reference, offset)),
                Storing::NoRoom => Some((track.reference.into(), track.offset)),
            };
        if let Some((reference, offset)) = gone
            && let Some(definition) = &stream.definition
        {
            streams.driven_out.0 += 1;
            streams.driven_out.1 = Some(DrivenOut { stream: definition.clone(), reference, offset });
        }
        if stream.told.get(track.reference) == Some(&track.offset) {
            stream.told.remove(track.reference);
        }
        if streams.has_feeds {
            self.fed_upto(track.reference, track.offset);
        }
    }

    fn close_chunk(&mut self) {
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        if let Some(at_ms) = stream.open_at_ms.take() {
            stream.machine.close(at_ms, common, effects);
        }
        self.sort();
    }
}

impl Streams {
    /// A record is applied whose machine is gone from the log.
    #[cold]
    #[inline(never)]
    pub(crate) fn pass_over(&mut self, kind: Kind, record: &[u8]) {
        match kind {
            Kind::Enqueue | Kind::Append => self.share.published(record.len()),
            Kind::Track => self.has_come(&Track::read(record).expect(WHOLE)),
            _ => {}
        }
    }

    /// Messages that were taken out of a stream for a queue are in the queue.
    fn has_come(&mut self, track: &Track<'_>) {
        if let Some(queue) = feeding::queue_of(track.reference) {
            self.references.has_come(queue, track.offset);
        }
    }

    /// The batch ends whose records were applied: its chunks are whole.
    #[inline]
    pub(crate) fn close_chunks(&mut self, machines: &mut Machines) {
        if !self.open.is_empty() {
            self.close_open(machines);
        }
    }

    fn close_open(&mut self, machines: &mut Machines) {
        while let Some(slot) = self.open.pop() {
            if let Some(mut at) = self.at(machines, slot) {
                at.close_chunk();
                self.write_some(machines, slot);
            }
        }
    }
}
