//! Requests of a client, and the answers to them.

use super::Adapter;
use super::creating::{code_of, create};
use super::pending::{BrokerRequest, Pending};
use super::subscriptions::{from, tell};
use crate::context::{Context, Gravity};
use ::stream_protocol::key::SERVER_VERSIONS;
use ::stream_protocol::{Key, List, Request, Response, ResponseCode, Statistic};
use broker::access::Access;
use broker::catalog::{Op, QueueDefinition, Refusal};
use broker::{QueueCommand, Reply, StreamCommand, StreamReply, StreamStats};
use std::mem::discriminant;

impl Adapter {
    pub(super) fn plan(&mut self, context: &mut Context<'_>, token: u32, op: Op) {
        context.shard.request(context.now, context.port, token, op);
    }

    fn done(&mut self, correlation_id: u32, key: Key, code: ResponseCode) {
        self.machine.respond(correlation_id, &Response::Done { key, code });
    }

    pub(super) fn request(&mut self, context: &mut Context<'_>, correlation_id: u32, request: &Request<'_>) {
        let key = request.key();
        match *request {
            Request::PeerProperties { properties } => self.introduce(context, correlation_id, &properties),
            Request::SaslHandshake => self.offer(context, correlation_id),
            Request::SaslAuthenticate { mechanism, response } => {
                self.authenticate(context, correlation_id, mechanism, response);
            }
            Request::Open { virtual_host } => self.open(context, correlation_id, virtual_host),
            Request::Close { .. } => {
                self.drop_all(context);
                context.shard.close_port(context.now, context.port);
                self.machine.close_ok(correlation_id);
            }
            Request::DeclarePublisher { publisher_id, reference, stream } => {
                let code = self.publishers.declare(
                    context,
                    &self.rights,
                    &mut self.watched,
                    (publisher_id, reference),
                    stream,
                );
                self.done(correlation_id, key, code);
            }
            Request::DeletePublisher { publisher_id } => {
                let code = self.publishers.delete(context, &mut self.watched, publisher_id);
                self.done(correlation_id, key, code);
            }
            Request::Unsubscribe { subscription_id } => {
                let (subscriptions, ends) = self.ends();
                let code = subscriptions.unsubscribe(context, ends, subscription_id);
                self.done(correlation_id, key, code);
            }
            Request::Metadata { streams } => self.metadata(context, correlation_id, &streams),
            Request::Route { routing_key, super_stream } => {
                let (code, streams) = self.route(context, routing_key, super_stream);
                self.streams(correlation_id, key, code, &streams);
            }
            Request::Partitions { super_stream } => {
                let (code, streams) = self.partitions(context, super_stream);
                self.streams(correlation_id, key, code, &streams);
            }
            Request::ExchangeCommandVersions { versions } => {
                let deliver = versions.iter().find(|own| own.key == Key::Deliver as u16);
                self.subscriptions.takes_committed |= deliver.is_some_and(|deliver| deliver.max == 2);
                let versions = List::new(&SERVER_VERSIONS);
                let response = Response::ExchangeCommandVersions { code: ResponseCode::OK, versions };
                self.machine.respond(correlation_id, &response);
            }
            Request::Create { .. }
            | Request::Delete { .. }
            | Request::Subscribe { .. }
            | Request::QueryPublisherSequence { .. }
            | Request::QueryOffset { .. }
            | Request::StreamStats { .. }
            | Request::CreateSuperStream { .. }
            | Request::DeleteSuperStream { .. }
            | Request::ResolveOffsetSpec { .. } => {
                if let Err(code) = self.ask(context, correlation_id, request) {
                    self.requests.give_up();
                    self.refused(context, correlation_id, key, code);
                }
            }
            // A server asks this; the machine lets no client.
            Request::ConsumerUpdate { .. } => {}
        }
    }

    /// Asks the broker for an answer that only it has; the error says why it is not asked.
    fn ask(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        request: &Request<'_>,
    ) -> Result<(), ResponseCode> {
        match *request {
            Request::Create { stream, arguments } => {
                let op = create(context, &self.rights, stream, &arguments)?;
                let token = self.requests.wait(correlation_id, 1, BrokerRequest::Create);
                self.plan(context, token, op);
            }
            Request::Delete { stream } => {
                if !self.rights.may(context, Access::Configure, stream) {
                    return Err(ResponseCode::ACCESS_REFUSED);
                }
                let stream =
                    self.rights.stream(context, stream).ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
                let token = self.requests.wait(correlation_id, 1, BrokerRequest::Delete);
                self.delete(context, token, &stream);
            }
            Request::Subscribe { .. } => {
                let token =
                    self.requests.wait(correlation_id, 1, BrokerRequest::Subscribe { handle: u32::MAX });
                let new = self.subscriptions.subscribe(
                    context,
                    (&self.rights, self.peer.given_name()),
                    &mut self.watched,
                    token,
                    request,
                )?;
                self.requests.name_subscription(new);
            }
            Request::QueryPublisherSequence { reference, stream } => {
                let token = self.requests.wait(correlation_id, 1, BrokerRequest::Sequence);
                let reference = reference.into();
                self.ask_stream(context, stream, || StreamCommand::Sequence { token, reference })?;
            }
            Request::QueryOffset { reference, stream } => {
                let token = self.requests.wait(correlation_id, 1, BrokerRequest::QueryOffset);
                let reference = reference.into();
                self.ask_stream(context, stream, || StreamCommand::QueryOffset { token, reference })?;
            }
            Request::StreamStats { stream } => {
                let token = self.requests.wait(correlation_id, 1, BrokerRequest::Stats);
                self.ask_stream(context, stream, || StreamCommand::Stats { token })?;
            }
            Request::ResolveOffsetSpec { stream, offset, .. } => {
                let token = self.requests.wait(correlation_id, 1, BrokerRequest::Resolve);
                let from = from(offset);
                self.ask_stream(context, stream, || StreamCommand::Resolve { token, from })?;
            }
            Request::CreateSuperStream { name, partitions, binding_keys, arguments } => {
                let wanted = (name, &partitions, &binding_keys, &arguments);
                self.make_super_stream(context, correlation_id, wanted)?;
            }
            Request::DeleteSuperStream { name } => self.delete_super_stream(context, correlation_id, name)?,
            _ => return Err(ResponseCode::INTERNAL_ERROR),
        }
        Ok(())
    }

    /// Asks a stream that the client may read.
    fn ask_stream(
        &self,
        context: &mut Context<'_>,
        name: &[u8],
        ask: impl FnOnce() -> StreamCommand,
    ) -> Result<(), ResponseCode> {
        if !self.rights.may(context, Access::Read, name) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let stream = self.rights.stream(context, name).ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
        tell(context, &stream, ask());
        Ok(())
    }

    pub(super) fn delete(&mut self, context: &mut Context<'_>, token: u32, stream: &QueueDefinition) {
        let command = QueueCommand::Delete { token, if_unused: false, if_empty: false };
        context.shard.command(context.now, context.port, stream.log, stream.id, command);
    }

    fn streams(&mut self, correlation_id: u32, key: Key, code: ResponseCode, names: &[Box<str>]) {
        let streams: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let streams = List::new(&streams);
        let response = match key {
            Key::Route => Response::Route { code, streams },
            _ => Response::Partitions { code, streams },
        };
        self.machine.respond(correlation_id, &response);
    }

    /// Answers a request that has nothing to tell, in the form that its answer has.
    fn refused(&mut self, context: &mut Context<'_>, correlation_id: u32, key: Key, code: ResponseCode) {
        context.shard.tallies().stream_errors(code.0, 1);
        let response = match key {
            Key::QueryPublisherSequence => Response::QueryPublisherSequence { code, publishing_id: 0 },
            Key::QueryOffset => Response::QueryOffset { code, offset: 0 },
            Key::StreamStats => Response::StreamStats { code, statistics: List::default() },
            Key::ResolveOffsetSpec => Response::ResolveOffsetSpec { code, offset: 0 },
            key => Response::Done { key, code },
        };
        self.machine.respond(correlation_id, &response);
    }

    /// The broker has answered a token; the request is done when all are.
    pub(super) fn answered(&mut self, context: &mut Context<'_>, token: u32, reply: Result<Reply, Refusal>) {
        let Some((pending, reply)) = self.requests.answered(token, reply) else { return };
        let Pending { correlation_id, failed, request, gone, .. } = pending;
        match (failed, reply) {
            (Some((_, refusal)), _) | (None, Err(refusal)) => {
                self.denied(context, correlation_id, request, &refusal);
            }
            (None, Ok(reply)) => self.granted(context, correlation_id, request, reply),
        }
        gone.iter().for_each(|stream| self.tell_gone(&stream.name));
    }

    fn granted(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        request: BrokerRequest,
        reply: Reply,
    ) {
        let ok = ResponseCode::OK;
        let response = match (request, reply) {
            (BrokerRequest::Open { actor }, _) => return self.opened(context, correlation_id, actor),
            (BrokerRequest::Create, Reply::Declared { is_new: false, .. }) => {
                Response::Done { key: Key::Create, code: ResponseCode::STREAM_ALREADY_EXISTS }
            }
            (BrokerRequest::Create, _) => Response::Done { key: Key::Create, code: ok },
            // Somebody else made it, or a part of it, meanwhile.
            (BrokerRequest::MakeSuperStream, Reply::Unchanged) => {
                Response::Done { key: Key::CreateSuperStream, code: ResponseCode::STREAM_ALREADY_EXISTS }
            }
            (BrokerRequest::MakeSuperStream, _) => Response::Done { key: Key::CreateSuperStream, code: ok },
            (BrokerRequest::Delete, _) => Response::Done { key: Key::Delete, code: ok },
            (BrokerRequest::DeleteSuperStream, _) => Response::Done { key: Key::DeleteSuperStream, code: ok },
            (BrokerRequest::Subscribe { handle }, _) => {
                self.subscriptions.subscribed(context, handle);
                Response::Done { key: Key::Subscribe, code: ok }
            }
            (BrokerRequest::Sequence, Reply::Stream(StreamReply::Sequence(last))) => {
                Response::QueryPublisherSequence { code: ok, publishing_id: last.unwrap_or(0) }
            }
            (BrokerRequest::QueryOffset, Reply::Stream(StreamReply::Offset(offset))) => {
                let code = if offset.is_some() { ok } else { ResponseCode::NO_OFFSET };
                Response::QueryOffset { code, offset: offset.unwrap_or(0) }
            }
            (BrokerRequest::Resolve, Reply::Stream(StreamReply::Offset(offset))) => {
                // An empty stream begins with the first message there will be.
                Response::ResolveOffsetSpec { code: ok, offset: offset.unwrap_or(0) }
            }
            (BrokerRequest::Stats, Reply::Stream(StreamReply::Stats(stats))) => {
                let statistics = statistics(stats);
                let statistics = List::new(&statistics);
                return self.machine.respond(correlation_id, &Response::StreamStats { code: ok, statistics });
            }
            (request, reply) => {
                // The broker answers each request in kind.
                let (request, reply) = (discriminant(&request), discriminant(&reply));
                let text = format!("error: {request:?} of requests was answered with {reply:?} of replies");
                return self.note(context, Gravity::Error, text);
            }
        };
        self.machine.respond(correlation_id, &response);
    }

    fn denied(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        request: BrokerRequest,
        refusal: &Refusal,
    ) {
        let key = match request {
            BrokerRequest::Open { .. } => {
                context.shard.close_port(context.now, context.port);
                return self.not_opened(context, correlation_id, refusal);
            }
            BrokerRequest::Subscribe { handle } => {
                let (subscriptions, ends) = self.ends();
                subscriptions.not_subscribed(context, ends, handle);
                Key::Subscribe
            }
            BrokerRequest::LogIn { .. } => Key::SaslAuthenticate,
            BrokerRequest::Create => Key::Create,
            BrokerRequest::Delete => Key::Delete,
            BrokerRequest::Sequence => Key::QueryPublisherSequence,
            BrokerRequest::QueryOffset => Key::QueryOffset,
            BrokerRequest::Stats => Key::StreamStats,
            BrokerRequest::Resolve => Key::ResolveOffsetSpec,
            BrokerRequest::MakeSuperStream => Key::CreateSuperStream,
            BrokerRequest::DeleteSuperStream => Key::DeleteSuperStream,
        };
        self.note(context, Gravity::Warning, format!("{key:?} was refused: {refusal}"));
        self.refused(context, correlation_id, key, code_of(refusal));
    }
}

/// In RabbitMQ's words; a number there is none of is -1.
fn statistics(stats: StreamStats) -> [Statistic<'static>; 4] {
    let number = |number: Option<u64>| number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX));
    let StreamStats { first_offset, last_chunk_id, committed_offset, .. } = stats;
    [
        ("committed_chunk_id", last_chunk_id),
        ("committed_offset", committed_offset),
        ("first_chunk_id", first_offset),
        ("last_chunk_id", last_chunk_id),
    ]
    .map(|(key, value)| Statistic { key: key.as_bytes(), value: number(value) })
}
