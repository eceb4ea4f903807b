//! A client's requests to the management node over AMQP 1.0: a pair of links, requests out over one, answers in over the
//! other, in the order of the requests.

use super::{Asked, Seen, exchange_name, queue_name};
use crate::rules::{BARRIER, GROUP_HEADER, RANKING, RETRY_MS_MAX, Rules};
use amqp10::{
    Attach, Body, Connection, Delivery, LinkId, Role, SenderSettleMode, SessionId, Source, Target, Transfer,
};
use message::amqp10::section::BodyKind;
use message::amqp10::section::descriptor::{PROPERTIES, VALUE};
use message::amqp10::{Decoder, Encoder, Message, Scope, Value};
use std::collections::VecDeque;

const NODE: &str = "/management";

/// Answers the node may send ahead.
const CREDIT: u32 = 16;

#[derive(Debug)]
struct Pair {
    requests: LinkId,
    answers: LinkId,
    /// Ends the broker answered.
    attached: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Management {
    pair: Option<Pair>,
    /// Requests without an answer, in the order they were made, each with its number.
    asked: VecDeque<(u64, Asked)>,
    requests: u64,
    /// Those of them that could not be sent yet, as messages.
    unsent: VecDeque<Vec<u8>>,
    tag: u32,
}

impl Management {
    pub(super) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether answers come over this link.
    pub(super) fn is_answers(&self, link: LinkId) -> bool {
        self.pair.as_ref().is_some_and(|pair| pair.answers == link)
    }

    pub(super) fn attached(&mut self, connection: &mut Connection, session: SessionId, link: LinkId) {
        let Some(pair) = &mut self.pair else { return };
        if link == pair.answers {
            connection.grant(session, link, CREDIT, false);
        }
        pair.attached += u32::from(link == pair.answers || link == pair.requests);
        self.flush(connection, session);
    }

    /// Sends what could not be sent before.
    pub(super) fn flush(&mut self, connection: &mut Connection, session: SessionId) {
        let Some(pair) = self.pair.as_ref().filter(|pair| pair.attached == 2) else { return };
        // The node ends a session with more requests than it may answer; credit is renewed when half is left.
        while let Some(bytes) = self.unsent.front()
            && self.asked.len() - self.unsent.len() < CREDIT as usize / 2
            && connection.credit(session, pair.requests).is_some_and(|(credit, _)| credit > 0)
            && connection.queued(session) == 0
        {
            self.tag = self.tag.wrapping_add(1);
            let (tag, head) = (self.tag.to_be_bytes(), [&bytes[..]]);
            let delivery =
                Delivery { tag: &tag, settled: true, token: 0, head: &head, body: Body::Bytes(&[]) };
            if connection.transfer(session, pair.requests, &delivery).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Asks for something, and attaches the pair before the first.
    fn ask(
        &mut self,
        connection: &mut Connection,
        session: SessionId,
        asked: Asked,
        (method, path): (&str, &str),
        body: impl FnOnce(&mut Encoder<'_>),
    ) {
        if self.pair.is_none() {
            self.pair = attach(connection, session);
        }
        self.requests += 1;
        self.asked.push_back((self.requests, asked));
        self.unsent.push_back(request(self.requests, method, path, body));
        self.flush(connection, session);
    }

    pub(super) fn declare(
        &mut self,
        connection: &mut Connection,
        session: SessionId,
        queue: usize,
        is_quorum: bool,
        rules: &Rules,
    ) {
        let path = format!("/queues/{}", queue_name(queue));
        self.ask(connection, session, Asked::Declare(queue), ("PUT", &path), |encoder| {
            let mut map = encoder.map();
            encoder.string("durable");
            map.field(encoder);
            encoder.boolean(true);
            map.field(encoder);
            encoder.string("arguments");
            map.field(encoder);
            arguments(encoder, is_quorum, rules);
            map.field(encoder);
            encoder.close(map);
        });
    }

    /// Asks for an exchange, a binding, or a queue to be emptied or gone.
    pub(super) fn ask_for(&mut self, connection: &mut Connection, session: SessionId, asked: Asked) {
        match asked {
            Asked::DeclareExchange(exchange, delays) => {
                let path = format!("/exchanges/{}", exchange_name(exchange));
                self.ask(connection, session, asked, ("PUT", &path), |encoder| match delays {
                    true => texts(encoder, &[("type", "x-delayed-message")], &[("x-delayed-type", "fanout")]),
                    false => texts(encoder, &[("type", "fanout")], &[]),
                });
            }
            Asked::Bind(exchange, queue) => {
                self.ask(connection, session, asked, ("POST", "/bindings"), |encoder| {
                    let (source, queue) = (exchange_name(exchange), queue_name(queue));
                    let fields = [("source", &*source), ("destination_queue", &*queue), ("binding_key", "")];
                    texts(encoder, &fields, &[]);
                });
            }
            Asked::Purge(queue) => {
                let path = format!("/queues/{}/messages", queue_name(queue));
                self.ask(connection, session, asked, ("DELETE", &path), |encoder| encoder.null());
            }
            Asked::Delete(queue) => {
                let path = format!("/queues/{}", queue_name(queue));
                self.ask(connection, session, asked, ("DELETE", &path), |encoder| encoder.null());
            }
            Asked::Declare(_)
            | Asked::Look(..)
            | Asked::Consume(_)
            | Asked::Cancel(_)
            | Asked::Get(_)
            | Asked::Pick(..)
            | Asked::Discard(..)
            | Asked::SettleAt(..)
            | Asked::Commit
            | Asked::Rollback => panic!("{asked:?} is no matter of the management node"),
        }
    }

    /// An answer came.
    pub(super) fn answered(
        &mut self,
        connection: &mut Connection,
        session: SessionId,
        transfer: &Transfer<'_>,
        seen: &mut Vec<Seen>,
    ) {
        if transfer.credit <= CREDIT / 2 {
            connection.grant(session, transfer.link, CREDIT, false);
        }
        let (Ok(message), Some((number, asked))) = (Message::read(transfer.payload), self.asked.pop_front())
        else {
            return seen.push(Seen::Failed("an answer that answers nothing".to_owned()));
        };
        let answered = message.properties.correlation_id().as_u64();
        if answered != Some(number) {
            let text = format!("request {number}, {asked:?}, is answered by what answers {answered:?}");
            return seen.push(Seen::Failed(text));
        }
        let status = message.properties.subject().unwrap_or_default();
        let value = (message.body.kind == BodyKind::Value).then(|| message.body.sections().next()).flatten();
        seen.push(match value {
            Some(Value::Map(map)) if status.starts_with('2') => {
                let count = map.get("message_count").and_then(|count| match count {
                    Value::Ulong(count) => Some(count),
                    Value::Uint(count) => Some(count.into()),
                    _ => None,
                });
                Seen::Done(asked, count)
            }
            _ if status.starts_with('2') => Seen::Done(asked, None),
            Some(Value::String(text)) if text.starts_with("no ") => Seen::Failed(format!("404 {text}")),
            other => Seen::Failed(format!("{status} {other:?} answers {asked:?}")),
        });
        self.flush(connection, session);
    }
}

fn attach(connection: &mut Connection, session: SessionId) -> Option<Pair> {
    let mut paired = Vec::new();
    let mut encoder = Encoder::new(&mut paired);
    let mut map = encoder.map();
    encoder.symbol("paired");
    map.field(&encoder);
    encoder.boolean(true);
    map.field(&encoder);
    encoder.close(map);
    let Ok(Value::Map(properties)) = Decoder::new(&paired).value() else { panic!("a map was written") };
    let mut end = |role| {
        let attach = Attach {
            sender_settle_mode: SenderSettleMode::Settled,
            source: Some(Source { address: Some(NODE), ..Source::default() }),
            target: Some(Target { address: Some(NODE), ..Target::default() }),
            properties,
            ..Attach::new("management", role)
        };
        connection.attach(session, &attach)
    };
    Some(Pair { requests: end(Role::Sender)?, answers: end(Role::Receiver)?, attached: 0 })
}

/// A request as a message.
fn request(number: u64, method: &str, path: &str, body: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.descriptor(PROPERTIES.into());
    let mut list = encoder.list();
    encoder.ulong(number);
    list.field(&encoder);
    list.skip(&mut encoder);
    for text in [path, method, "$me"] {
        encoder.string(text);
        list.field(&encoder);
    }
    encoder.close(list);
    encoder.descriptor(VALUE.into());
    body(&mut encoder);
    bytes
}

/// A map of texts, and in it a map of arguments.
fn texts(encoder: &mut Encoder<'_>, fields: &[(&str, &str)], arguments: &[(&str, &str)]) {
    let mut map = encoder.map();
    pairs(encoder, &mut map, fields);
    encoder.string("arguments");
    map.field(encoder);
    let mut inner = encoder.map();
    pairs(encoder, &mut inner, arguments);
    encoder.close(inner);
    map.field(encoder);
    encoder.close(map);
}

fn pairs(encoder: &mut Encoder<'_>, map: &mut Scope, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        encoder.string(name);
        map.field(encoder);
        encoder.string(value);
        map.field(encoder);
    }
}

fn arguments(encoder: &mut Encoder<'_>, is_quorum: bool, rules: &Rules) {
    let mut map = encoder.map();
    let mut put = |name: &str, value: Value<'_>| {
        encoder.string(name);
        map.field(encoder);
        encoder.value(value);
        map.field(encoder);
    };
    put("x-queue-type", Value::String(if is_quorum { "quorum" } else { "classic" }));
    let numbers = [
        ("x-message-ttl", rules.ttl_ms),
        ("x-max-length", rules.length_max),
        ("x-delivery-limit", rules.delivery_limit.map(u64::from)),
        ("x-cancel-limit", rules.cancel_limit.map(u64::from)),
        ("x-max-unsettled", rules.unsettled_max),
        ("x-consumer-timeout", rules.timeout_ms),
        ("x-lease", rules.lease_ms),
        ("x-max-priority", rules.priority_max.map(u64::from)),
        ("x-delayed-retry-min", rules.retry.map(|(_, min_ms)| min_ms)),
        ("x-delayed-retry-max", rules.retry.map(|_| RETRY_MS_MAX)),
    ];
    if rules.ranks {
        put("x-priority-expression", Value::String(RANKING));
    }
    if rules.bars {
        put("x-barrier-expression", Value::String(BARRIER));
    }
    for (name, number) in numbers {
        if let Some(number) = number {
            put(name, Value::Ulong(number));
        }
    }
    if let Some(fairness) = rules.fairness {
        put("x-fairness", Value::String(fairness));
    }
    if let Some((of_type, _)) = rules.retry {
        put("x-delayed-retry-type", Value::String(of_type));
    }
    if rules.refuses {
        put("x-overflow", Value::String("reject-publish"));
    }
    if rules.is_grouped {
        put("x-group-key", Value::String(GROUP_HEADER));
    }
    if rules.deduplicates {
        put("x-message-deduplication", Value::Boolean(true));
    }
    if let Some(grave) = rules.grave {
        put("x-dead-letter-exchange", Value::String(""));
        put("x-dead-letter-routing-key", Value::String(&queue_name(grave)));
    }
    encoder.close(map);
}
