//! A stream comes to its log, learns the settings that it goes by, and goes.

use super::owned::OwnedStream;
use super::{AtStream, Streams};
use crate::catalog::{Refusal, StreamRules};
use crate::event::Event;
use crate::log::{Brings, Commons};
use crate::placed::queue::owned::Member;
use crate::post::Post;
use base::Now;
use message::record::StreamSettings;
use queue::stream::Settings;

/// The settings of a machine for a stream with these rules.
fn settings(rules: &StreamRules) -> Settings {
    let StreamRules { segment_bytes_max, filter_len, chunk_entries_first, bytes_max, age_max_ms } = *rules;
    Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms }
}

impl Streams {
    /// A stream has its slot.
    pub(crate) fn came(&mut self, slot: u32) {
        self.slots.insert(slot);
    }

    /// A stream is not owned here any more: its readers are told, and go.
    pub(crate) fn resign(&mut self, slot: u32, stream: &mut OwnedStream, post: &mut Post) {
        self.truncations.refuse(stream.id, post);
        for (port, token) in stream.asking() {
            post.reply(port, token, Err(Refusal::queue_gone()));
        }
        for Member { port, handle } in stream.all_members() {
            let queue = stream.definition().clone();
            post.event(port, Event::Cancelled { consumer: handle, queue });
        }
        stream.machine.disband();
        for reader in stream.resign() {
            stream.machine.detach(reader, &mut self.common, &mut self.effects);
        }
        AtStream { slot, stream, streams: self }.sort();
        self.ready.retain(|(of, _)| *of != slot);
        self.turns.retain(|(of, ..)| *of != slot);
        self.starved.retain(|(of, _)| *of != slot);
    }

    /// A stream is on its log no more: its files are left to be removed.
    pub(crate) fn close(&mut self, slot: u32, stream: OwnedStream) {
        self.slots.remove(&slot);
        self.unwritten -= stream.unwritten;
        self.open.retain(|open| *open != slot);
        self.ready.retain(|(of, _)| *of != slot);
        self.end(stream.id, stream.machine);
    }
}

impl AtStream<'_> {
    /// From now on the stream goes by these rules. Its machine does when the record of them is applied, which is on disk
    /// then: files may go by it.
    pub(crate) fn go_by(&mut self, commons: &mut Commons, now: Now, rules: &StreamRules) {
        let stream = &mut *self.stream;
        let new = settings(rules);
        let known = stream.asked.unwrap_or(*stream.machine.settings());
        if known == new {
            return;
        }
        stream.asked = Some(new);
        let Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms } = new;
        let record = StreamSettings {
            stream: stream.id,
            at_ms: now.wall_ms,
            filter_len,
            chunk_entries_first,
            segment_bytes_max,
            bytes_max,
            age_max_ms,
        };
        commons.pipeline.append(now, Brings::FLUSH, |records| record.write(records));
    }

    /// The stream goes by other settings from this record on.
    pub(super) fn configure(&mut self, record: &StreamSettings) {
        let StreamSettings {
            filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms, ..
        } = *record;
        let settings = Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms };
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        let at_ms = i64::try_from(record.at_ms).unwrap_or(i64::MAX);
        stream.machine.configure(at_ms, settings, common, effects);
        self.sort();
        self.count();
    }
}
