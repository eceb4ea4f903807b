//! A stream comes to its log, learns the rules that it goes by, and goes.

use super::{AtStream, OwnedStream, Streams};
use crate::catalog::{QueueDefinition, QueueRules, Refusal, StreamRules};
use crate::event::Event;
use crate::placed::queue::owned::Member;
use crate::placed::{Machines, Recovering, Restored};
use crate::post::Post;
use base::Now;
use queue::stream::{Settings, Stream};
use std::sync::Arc;

/// The settings of a machine for a stream with these rules.
fn settings(rules: &StreamRules) -> Settings {
    let StreamRules { segment_bytes_max, filter_len, chunk_entries_first, bytes_max, age_max_ms } = *rules;
    Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms }
}

impl Streams {
    /// A stream that was declared, with what a snapshot held of it. Nothing goes for being too much before the rules are
    /// known: see [`AtStream::go_by`]. Once it is placed [`Streams::opened`] has it begin.
    pub(crate) fn open(
        &mut self,
        definition: Arc<QueueDefinition>,
        declared: &QueueRules,
        recovering: Option<&mut Recovering>,
    ) -> OwnedStream {
        let declared = settings(declared.stream.as_ref().expect("a stream has the rules of one"));
        let declared = Settings { bytes_max: None, age_max_ms: None, ..declared };
        let machine = match recovering.and_then(|recovering| recovering.restored.remove(&definition.id)) {
            Some(Restored::Stream(mut machine)) => {
                machine.configure(0, declared, &mut self.common, &mut self.effects);
                *machine
            }
            _ => Stream::new(declared),
        };
        OwnedStream::new(definition, machine)
    }

    /// The stream that [`Streams::open`] made last has its slot.
    pub(crate) fn opened(&mut self, machines: &mut Machines, slot: u32) {
        self.slots.insert(slot);
        if let Some(mut at) = self.at(machines, slot) {
            at.sort();
            at.count();
        }
    }

    /// A stream is deleted: its readers are told, and its files are left to be removed.
    pub(crate) fn delete(&mut self, slot: u32, stream: OwnedStream, post: &mut Post) {
        let id = stream.definition.id;
        self.slots.remove(&slot);
        self.unwritten -= stream.unwritten;
        self.open.retain(|open| *open != slot);
        self.ready.retain(|(of, _)| *of != slot);
        self.turns.retain(|(of, ..)| *of != slot);
        self.starved.retain(|(of, _)| *of != slot);
        self.truncations.refuse(id, post);
        for (port, token) in stream.asking() {
            post.reply(port, token, Err(Refusal::queue_gone()));
        }
        for Member { port, handle } in stream.all_members() {
            let queue = stream.definition.clone();
            post.event(port, Event::Cancelled { consumer: handle, queue });
        }
        self.end(id, stream.machine);
    }
}

impl AtStream<'_> {
    /// From now on the stream goes by these rules.
    pub(crate) fn go_by(&mut self, now: Now, rules: &StreamRules) {
        let AtStream { stream, streams: Streams { common, effects, .. }, .. } = self;
        let settings = settings(rules);
        if *stream.machine.settings() != settings {
            stream.machine.configure(now.wall_ms as i64, settings, common, effects);
        }
        self.sort();
        self.count();
    }
}
