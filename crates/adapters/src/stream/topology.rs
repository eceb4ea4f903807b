//! Where streams are, and which streams a super stream is made of.
//!
//! A super stream is a direct exchange bound to its partitions, whose order is an argument of each binding.

use super::Adapter;
use super::creating::is_stream;
use crate::context::Context;
use ::stream_protocol::{Broker, List, Response, ResponseCode, StreamMetadata};
use broker::access::Access;
use broker::catalog::{Destination, PARTITION_ORDER, QueueDefinition};
use routing::{Arguments, Envelope, Matches};
use std::sync::Arc;

/// The one broker there is.
const HERE: u16 = 0;

fn order(arguments: &Arguments) -> Option<i64> {
    arguments.get(PARTITION_ORDER).and_then(|order| order.as_i64())
}

impl Adapter {
    fn may_use(&self, context: &Context<'_>, name: &[u8]) -> bool {
        self.may(context, Access::Read, name) || self.may(context, Access::Write, name)
    }

    pub(super) fn metadata(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        streams: &List<'_, &[u8]>,
    ) {
        let mut names: Vec<&[u8]> = streams.iter().collect();
        names.sort_unstable();
        names.dedup();
        let about = |name: &&'_ [u8]| {
            if !self.may_use(context, name) {
                ResponseCode::ACCESS_REFUSED
            } else if self.stream(context, name).is_none() {
                ResponseCode::STREAM_DOES_NOT_EXIST
            } else {
                ResponseCode::OK
            }
        };
        let codes: Vec<ResponseCode> = names.iter().map(about).collect();
        let streams = names.iter().zip(&codes).map(|(stream, code)| StreamMetadata {
            stream,
            code: *code,
            leader: code.is_ok().then_some(HERE),
            replicas: List::default(),
        });
        let streams: Vec<StreamMetadata<'_>> = streams.collect();
        let (host, port) = self.advertised(context);
        let here = [Broker { reference: HERE, host: host.as_bytes(), port: port.into() }];
        // As from RabbitMQ, brokers are named only where one of the streams is.
        let brokers = if codes.iter().any(|code| code.is_ok()) { &here[..] } else { &[] };
        let response = Response::Metadata { brokers: List::new(brokers), streams: List::new(&streams) };
        self.machine.respond(correlation_id, &response);
    }

    /// The streams that messages with this key go to.
    pub(super) fn route(
        &self,
        context: &Context<'_>,
        routing_key: &[u8],
        super_stream: &[u8],
    ) -> (ResponseCode, Vec<Box<str>>) {
        let Some(actor) = &self.actor else { return (ResponseCode::ACCESS_REFUSED, Vec::new()) };
        if !self.may_exchange(context, Access::Write, super_stream) {
            return (ResponseCode::ACCESS_REFUSED, Vec::new());
        }
        let catalog = context.shard.catalog();
        let mut matches = Matches::default();
        matches.start();
        let keys = [routing_key];
        if catalog.route(actor.vhost, super_stream, &Envelope::keyed(&keys), &mut matches).is_err() {
            return (ResponseCode::STREAM_DOES_NOT_EXIST, Vec::new());
        }
        let found = matches.queues().filter_map(|queue| catalog.queue(queue));
        let streams: Vec<_> =
            found.filter(|queue| is_stream(queue)).map(|queue| queue.name.clone()).collect();
        if streams.iter().all(|name| self.may(context, Access::Write, name.as_bytes())) {
            return (ResponseCode::OK, streams);
        }
        (ResponseCode::ACCESS_REFUSED, Vec::new())
    }

    /// The partitions of a super stream, in their order; `None`: there is no such exchange.
    pub(super) fn partitions_of(
        &self,
        context: &Context<'_>,
        super_stream: &[u8],
    ) -> Option<Vec<Arc<QueueDefinition>>> {
        let catalog = context.shard.catalog();
        let exchange = catalog.exchange(self.actor.as_ref()?.vhost, super_stream)?;
        let mut bindings = exchange.exchange.bindings();
        // Those without an order come last.
        bindings.sort_by_key(|binding| order(&binding.arguments).map_or((true, 0), |order| (false, order)));
        let streams = bindings.iter().filter_map(|binding| match binding.destination {
            Destination::Queue(queue) => catalog.queue(queue).filter(|queue| is_stream(queue)),
            Destination::Exchange(_) => None,
        });
        Some(streams.cloned().collect())
    }

    pub(super) fn partitions(
        &self,
        context: &Context<'_>,
        super_stream: &[u8],
    ) -> (ResponseCode, Vec<Box<str>>) {
        let refused = (ResponseCode::ACCESS_REFUSED, Vec::new());
        if !self.may_exchange(context, Access::Read, super_stream)
            && !self.may_exchange(context, Access::Write, super_stream)
        {
            return refused;
        }
        match self.partitions_of(context, super_stream) {
            None => (ResponseCode::STREAM_DOES_NOT_EXIST, Vec::new()),
            Some(streams) if streams.iter().all(|stream| self.may_use(context, stream.name.as_bytes())) => {
                (ResponseCode::OK, streams.iter().map(|stream| stream.name.clone()).collect())
            }
            Some(_) => refused,
        }
    }

    /// Which of a super stream's partitions a stream is: by its binding, or by the number at the end of its name.
    pub(super) fn partition_index(
        &self,
        context: &Context<'_>,
        super_stream: &[u8],
        stream: &QueueDefinition,
    ) -> Option<u32> {
        let exchange = context.shard.catalog().exchange(self.actor.as_ref()?.vhost, super_stream)?;
        let bindings = exchange.exchange.bindings();
        let own = bindings.iter().filter(|binding| binding.destination == Destination::Queue(stream.id));
        let own: Vec<_> = own.map(|binding| order(&binding.arguments)).collect();
        let named = || stream.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        match own.iter().flatten().min() {
            Some(order) => u32::try_from(*order).ok(),
            None if own.is_empty() => None,
            None => named(),
        }
    }
}
