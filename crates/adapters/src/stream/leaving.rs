//! Streams that end, or that a client may no longer use: what it has there ends, and it is told.

use super::Adapter;
use crate::context::Context;
use ::stream_protocol::{Command, ResponseCode};
use base::id::QueueId;
use broker::access::Access;
use broker::catalog::QueueDefinition;
use std::sync::Arc;

impl Adapter {
    /// A stream is gone, and with it its publishers and subscriptions here: the client is told once. The client that
    /// deleted it hears first that it is.
    pub(super) fn stream_gone(&mut self, context: &mut Context<'_>, stream: QueueId) {
        let Some(definition) = self.watched.take(stream) else { return };
        context.shard.unwatch_queue(context.port, stream, 0);
        self.publishers.remove_of(stream);
        self.subscriptions.remove_of(context, &mut self.machine, stream);
        if let Some(definition) = self.requests.keep_gone(definition) {
            self.tell_gone(&definition.name);
        }
    }

    /// A client that proved its user again hears, as from RabbitMQ, of each stream that it publishes to and may no
    /// longer write, or reads and may no longer read. All it has there ends.
    pub(super) fn leave_forbidden(&mut self, context: &mut Context<'_>) {
        let is_forbidden = |stream: &&Arc<QueueDefinition>| {
            let may = |access| self.rights.may(context, access, stream.name.as_bytes());
            (self.publishers.has_of(stream.id) && !may(Access::Write))
                || (self.subscriptions.has_of(stream.id) && !may(Access::Read))
        };
        let forbidden: Vec<_> = self.watched.streams().filter(is_forbidden).cloned().collect();
        for stream in forbidden {
            self.leave_stream(context, &stream);
            context.shard.tallies().stream_errors(ResponseCode::STREAM_NOT_AVAILABLE.0, 1);
        }
    }

    /// As from RabbitMQ, whose connections lose the stream's writer or the member they read.
    pub(super) fn stream_restarted(&mut self, context: &mut Context<'_>, stream: QueueId) {
        let found = self.watched.streams().find(|own| own.id == stream);
        if let Some(stream) = found.cloned() {
            self.leave_stream(context, &stream);
        }
    }

    /// Ends the publishers and subscriptions of a stream that stays, and tells the client that it is not available.
    pub(super) fn leave_stream(&mut self, context: &mut Context<'_>, stream: &QueueDefinition) {
        self.publishers.remove_of(stream.id);
        let (subscriptions, ends) = self.ends();
        subscriptions.end_of(context, ends, stream.id);
        self.watched.forget_all_of(context, stream.id);
        self.tell_gone(&stream.name);
    }

    pub(super) fn tell_gone(&mut self, name: &str) {
        let code = ResponseCode::STREAM_NOT_AVAILABLE;
        self.machine.send(&Command::MetadataUpdate { code, stream: name.as_bytes() });
    }
}
