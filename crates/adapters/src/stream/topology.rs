//! Where streams are, and which streams a super stream is made of.

use super::Adapter;
use super::partitions::partitions_of;
use crate::context::Context;
use ::stream_protocol::{Broker, List, Response, ResponseCode, StreamMetadata};
use broker::access::Access;
use routing::{Envelope, Matches};

/// The one broker there is.
const HERE: u16 = 0;

impl Adapter {
    fn may_use(&self, context: &Context<'_>, name: &[u8]) -> bool {
        self.rights.may(context, Access::Read, name) || self.rights.may(context, Access::Write, name)
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
            } else if self.rights.stream(context, name).is_none() {
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
        let Some(actor) = self.rights.actor() else { return (ResponseCode::ACCESS_REFUSED, Vec::new()) };
        if !self.rights.may_exchange(context, Access::Write, super_stream) {
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
            found.filter(|queue| queue.is_stream()).map(|queue| queue.name.clone()).collect();
        if streams.iter().all(|name| self.rights.may(context, Access::Write, name.as_bytes())) {
            return (ResponseCode::OK, streams);
        }
        (ResponseCode::ACCESS_REFUSED, Vec::new())
    }

    pub(super) fn partitions(
        &self,
        context: &Context<'_>,
        super_stream: &[u8],
    ) -> (ResponseCode, Vec<Box<str>>) {
        let refused = (ResponseCode::ACCESS_REFUSED, Vec::new());
        if !self.rights.may_exchange(context, Access::Read, super_stream)
            && !self.rights.may_exchange(context, Access::Write, super_stream)
        {
            return refused;
        }
        let Some(streams) = partitions_of(context, &self.rights, super_stream) else {
            return (ResponseCode::STREAM_DOES_NOT_EXIST, Vec::new());
        };
        let mut names = Vec::new();
        for stream in streams {
            if !self.may_use(context, stream.name.as_bytes()) {
                return refused;
            }
            names.push(stream.name.clone());
        }
        (ResponseCode::OK, names)
    }
}
