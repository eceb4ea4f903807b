//! Publishing: messages are appended as they lie in their frame, and confirmed when they are on disk.

use super::confirms::Confirms;
use super::rights::Rights;
use super::settings::{PUBLISHERS_MAX, REFERENCE_BYTES_MAX, StreamSettings};
use super::watching::Watched;
use crate::context::Context;
use crate::handles::Handles;
use ::stream_protocol::{Connection, Publish, PublishedMessage, ResponseCode};
use base::id::{LogId, QueueId};
use broker::access::Access;
use broker::catalog::{QueueDefinition, Refusal};
use broker::{Count, Depth, NewMessages, Protocol, StreamPublisherRow};
use message::chunk::Content;
use message::record::Appended;
use std::sync::Arc;

/// One publisher.
#[derive(Debug)]
struct Publisher {
    id: u8,
    stream: Arc<QueueDefinition>,
    /// The name by which the stream knows it again; empty: not at all.
    reference: Box<[u8]>,
    confirms: Confirms,
    /// Its client may write to the stream, by the permissions of [`Publishers::access_version`].
    may_write: bool,
    /// Something is to be told at the end of the turn.
    is_due: bool,
    /// Messages that were refused.
    errored: u64,
}

/// The publishers of a connection. Without any it holds no memory.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    all: Handles<Publisher>,
    /// Handles by the ids that the client chose.
    by_id: Vec<(u8, u32)>,
    /// Handles of publishers with messages to be told of.
    due: Vec<u32>,
    /// Messages without a confirm.
    waiting: u64,
    /// There are as many as there may be.
    is_full: bool,
    /// An alarm is on: no further publisher is let in.
    is_blocked: bool,
    /// The permissions by which publishers were last looked at.
    access_version: u64,
}

impl Publishers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Messages wait for their confirms.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The logs of their streams.
    pub(super) fn logs(&self) -> impl Iterator<Item = LogId> {
        self.all.iter().map(|(_, publisher)| publisher.stream.log)
    }

    /// An alarm was raised or cleared.
    pub(super) fn set_blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
    }

    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    fn handle(&self, id: u8) -> Option<u32> {
        let at = self.by_id.binary_search_by_key(&id, |(own, _)| *own).ok()?;
        Some(self.by_id[at].1)
    }

    fn add(&mut self, id: u8, stream: Arc<QueueDefinition>, reference: &[u8]) {
        let publisher = Publisher {
            id,
            stream,
            reference: reference.into(),
            confirms: Confirms::default(),
            may_write: true,
            is_due: false,
            errored: 0,
        };
        let Some(handle) = self.all.add(|_| publisher) else { return };
        let at = self.by_id.partition_point(|(own, _)| *own < id);
        self.by_id.insert(at, (id, handle));
    }

    /// A publisher is gone. Its waiting messages make room: nobody will be told.
    fn remove(&mut self, handle: u32) -> Option<Publisher> {
        let removed = self.all.remove(handle)?;
        self.by_id.retain(|(_, own)| *own != handle);
        self.waiting -= removed.confirms.waiting();
        if self.by_id.is_empty() {
            // Handles stay: an event that comes late for a publisher of before must find nobody.
            (self.by_id, self.due) = (Vec::new(), Vec::new());
        }
        Some(removed)
    }

    /// Some publisher is a stream's.
    pub(super) fn has_of(&self, stream: QueueId) -> bool {
        self.all.iter().any(|(_, publisher)| publisher.stream.id == stream)
    }

    /// All of them end.
    pub(super) fn clear(&mut self) {
        *self = Publishers { is_blocked: self.is_blocked, ..Publishers::default() };
    }

    /// A stream is gone.
    pub(super) fn remove_of(&mut self, stream: QueueId) {
        let gone = self.all.iter().filter(|(_, publisher)| publisher.stream.id == stream);
        let gone: Vec<u32> = gone.map(|(handle, _)| handle).collect();
        gone.into_iter().for_each(|handle| drop(self.remove(handle)));
        self.is_full &= self.waiting > 0;
    }

    /// Declares a publisher; the outcome. RabbitMQ's rules, in its order.
    pub(super) fn declare(
        &mut self,
        context: &mut Context<'_>,
        rights: &Rights,
        watched: &mut Watched,
        (id, reference): (u8, &[u8]),
        name: &[u8],
    ) -> ResponseCode {
        if self.is_blocked || self.by_id.len() >= PUBLISHERS_MAX {
            return ResponseCode::PRECONDITION_FAILED;
        }
        if !rights.may(context, Access::Write, name) {
            return ResponseCode::ACCESS_REFUSED;
        }
        let is_taken = |(_, other): (u32, &Publisher)| {
            !reference.is_empty() && *other.reference == *reference && other.stream.name.as_bytes() == name
        };
        if reference.len() > REFERENCE_BYTES_MAX || self.handle(id).is_some() || self.all.iter().any(is_taken)
        {
            return ResponseCode::PRECONDITION_FAILED;
        }
        let Some(stream) = rights.stream(context, name) else {
            return ResponseCode::STREAM_DOES_NOT_EXIST;
        };
        watched.add(context, &stream);
        self.add(id, stream, reference);
        ResponseCode::OK
    }

    pub(super) fn delete(
        &mut self,
        context: &mut Context<'_>,
        watched: &mut Watched,
        id: u8,
    ) -> ResponseCode {
        let removed = self.handle(id).and_then(|handle| self.remove(handle));
        let Some(removed) = removed else { return ResponseCode::PUBLISHER_DOES_NOT_EXIST };
        watched.remove(context, removed.stream.id);
        self.see_whether_full(&context.settings.stream);
        ResponseCode::OK
    }

    /// Somebody's permissions changed: the publishers that may no longer write are found anew.
    #[cold]
    fn ask_access(&mut self, context: &Context<'_>, rights: &Rights, version: u64) {
        for at in 0..self.by_id.len() {
            let handle = self.by_id[at].1;
            let Some(publisher) = self.all.get(handle) else { continue };
            let may_write = rights.may(context, Access::Write, publisher.stream.name.as_bytes());
            if let Some(publisher) = self.all.get_mut(handle) {
                publisher.may_write = may_write;
            }
        }
        self.access_version = version;
    }

    /// Appends messages of the client; the error: the broker took none of them, which the client hears.
    #[inline]
    pub(super) fn publish(
        &mut self,
        context: &mut Context<'_>,
        rights: &Rights,
        machine: &mut Connection,
        publish: &Publish<'_>,
    ) -> Result<(), Refusal> {
        let access_version = context.shard.catalog().access_version();
        if self.access_version != access_version {
            self.ask_access(context, rights, access_version);
        }
        let settings = &context.settings.stream;
        let id = publish.publisher_id;
        let handle = self.handle(id);
        let Some((handle, publisher)) = handle.and_then(|handle| Some((handle, self.all.get_mut(handle)?)))
        else {
            let code = ResponseCode::PUBLISHER_DOES_NOT_EXIST;
            context.shard.tallies().stream_errors(code.0, publish.len() as u64);
            machine.refuse_messages(id, code, publish.messages().map(|one| one.publishing_id));
            return Ok(());
        };
        if !publisher.may_write {
            publisher.errored += publish.len() as u64;
            let ids = publish.messages().map(|one| one.publishing_id);
            machine.refuse_messages(id, ResponseCode::ACCESS_REFUSED, ids);
            return Ok(());
        }
        // One that is unfit takes those behind it with it, so that publishing ids have no gap.
        let fit = match publish.has_batches() {
            false => publish.len(),
            true => publish.messages().take_while(|one| is_fit(one, settings)).count(),
        };
        if fit > 0 {
            let new = NewMessages {
                publisher: handle,
                first: publisher.confirms.next(),
                reference: (!publisher.reference.is_empty()).then_some(&*publisher.reference),
                has_filters: publish.has_filter_values(),
                messages: publish.messages().take(fit).map(appended),
            };
            let QueueDefinition { log, id: stream, .. } = *publisher.stream;
            if let Err(refusal) = context.shard.append(context.now, context.port, log, stream, new) {
                let code = ResponseCode::STREAM_NOT_AVAILABLE;
                let ids = publish.messages().map(|one| one.publishing_id);
                context.shard.tallies().stream_errors(code.0, publish.len() as u64);
                machine.refuse_messages(id, code, ids);
                return Err(refusal);
            }
            let has_reference = !publisher.reference.is_empty();
            let bytes = publish.payload_bytes() / publish.len() * fit;
            let vhost = publisher.stream.vhost;
            context.shard.tallies().came_to_stream(vhost, fit as u64, bytes as u64);
            let ids = publish.messages().take(fit).map(|one| one.publishing_id);
            ids.for_each(|id| publisher.confirms.push(id, has_reference));
            self.waiting += fit as u64;
            self.is_full |= self.waiting >= u64::from(settings.initial_credits);
        }
        if fit < publish.len() {
            publisher.errored += (publish.len() - fit) as u64;
            let ids = publish.messages().skip(fit).map(|one| one.publishing_id);
            let code = ResponseCode::PRECONDITION_FAILED;
            context.shard.tallies().stream_errors(code.0, (publish.len() - fit) as u64);
            machine.refuse_messages(id, code, ids);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn confirmed(&mut self, context: &mut Context<'_>, handle: u32, first: u64, last: u64) {
        let Some(publisher) = self.all.get_mut(handle) else { return };
        let vhost = publisher.stream.vhost;
        context.shard.tallies().note(vhost, Protocol::Stream, Count::Confirm, last - first + 1);
        publisher.confirms.safe(first, last);
        if !std::mem::replace(&mut publisher.is_due, true) {
            self.due.push(handle);
        }
    }

    /// Sends the confirms that are due.
    pub(super) fn tell(&mut self, machine: &mut Connection, settings: &StreamSettings) {
        for at in 0..self.due.len() {
            let Some(publisher) = self.all.get_mut(self.due[at]) else { continue };
            publisher.is_due = false;
            let waiting = publisher.confirms.waiting();
            machine.confirm(publisher.id, publisher.confirms.duplicates());
            machine.confirm(publisher.id, publisher.confirms.take());
            self.waiting -= waiting - publisher.confirms.waiting();
        }
        self.due.clear();
        self.see_whether_full(settings);
    }

    fn see_whether_full(&mut self, settings: &StreamSettings) {
        let left = u64::from(settings.initial_credits).saturating_sub(self.waiting);
        let needed = if self.is_full { u64::from(settings.credits_required_for_unblocking) } else { 0 };
        // Where nothing waits nothing would ever make room.
        self.is_full = left <= needed && self.waiting > 0;
    }

    /// As they are listed.
    pub(super) fn rows(&self, depth: Depth) -> impl Iterator<Item = StreamPublisherRow> {
        self.all.iter().map(move |(_, publisher)| StreamPublisherRow {
            id: publisher.id,
            reference: match depth {
                Depth::Whole => String::from_utf8_lossy(&publisher.reference).into_owned(),
                Depth::Numbers => String::new(),
            },
            stream: publisher.stream.clone(),
            published: publisher.confirms.next() - 1 + publisher.errored,
            confirmed: publisher.confirms.next() - 1 - publisher.confirms.waiting(),
            errored: publisher.errored,
        })
    }

    /// See [`Handles::version`].
    #[inline]
    pub(super) fn version(&self) -> (usize, u16) {
        self.all.version()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let own =
            |(_, publisher): (u32, &Publisher)| publisher.confirms.heap_bytes() + publisher.reference.len();
        self.all.heap_bytes()
            + self.by_id.capacity() * size_of::<(u8, u32)>()
            + self.due.capacity() * size_of::<u32>()
            + self.all.iter().map(own).sum::<usize>()
    }
}

/// Whether the broker may have it.
fn is_fit(message: &PublishedMessage<'_>, settings: &StreamSettings) -> bool {
    match message.entry.content() {
        Content::Message(_) => true,
        Content::Batch(batch) => batch.check(settings.uncompressed_bytes_max).is_ok(),
    }
}

fn appended(message: PublishedMessage<'_>) -> Appended<'_> {
    let PublishedMessage { publishing_id, filter_value, entry } = message;
    Appended { publishing_id, filter_value: filter_value.unwrap_or_default(), entry }
}
