//! A client over AMQP 0-9-1: one channel with confirms, or with transactions.

use super::{Asked, Begin, Consumer, Delivery, NOTE, Seen, Target, Verdict, exchange_name, queue_name};
use crate::rules::{BARRIER, Delay, GROUP_HEADER, MessageOptions, RANKING, RETRY_MS_MAX, Rules, group_of};
use crate::streams::stream_name;
use amqp091::method::{
    BasicCancel, BasicCancelOk, BasicConsume, BasicGet, BasicPick, BasicQos, ConfirmSelect, ExchangeDeclare,
    QueueBind, QueueDeclare, QueueDelete, QueueDiscard, QueuePurge, QueueSettle, TxCommit, TxRollback,
    TxSelect,
};
use amqp091::{Body, Connection, Event, Input, Limits, Method, MethodId, PublishPrefix, ReplyCode};
use base::{Now, Output, Random};
use message::amqp091::{NewProperties, Properties, Table, TableWriter, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const CHANNEL: u16 = 1;

/// Positions of one request to settle messages whoever holds them.
const SETTLED_AT_ONCE: u64 = 4;

/// The consumer of replies.
const REPLIES: u32 = u32::MAX - 1;

/// The queue that the consumer of replies reads from, and that a request names.
const REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

/// See the module.
#[derive(Debug)]
pub(super) struct Wire {
    connection: Connection,
    asked: VecDeque<Asked>,
    /// Messages not confirmed, by the channel's count of publishes.
    unconfirmed: BTreeMap<u64, u64>,
    /// Those of them that a queue may refuse.
    refusable: BTreeSet<u64>,
    /// The channel's publishes are made when they are committed.
    is_transactional: bool,
    /// Messages of each transaction whose commit is not answered.
    committing: VecDeque<Vec<u64>>,
    published: u64,
    /// By consumer: its queue, and whether it needs no settling.
    consumers: BTreeMap<u32, (usize, bool)>,
    prefetch: u32,
    takes_replies: bool,
}

impl Wire {
    pub(super) fn new(now: Now, is_transactional: bool, dice: &mut Random) -> Wire {
        let frame_max = if dice.one_in(2) { 8192 } else { 131_072 };
        let limits = Limits { heartbeat_s: 0, frame_max, handshake_ms_max: u32::MAX, ..Limits::default() };
        Wire {
            connection: Connection::client(limits, now),
            asked: VecDeque::new(),
            unconfirmed: BTreeMap::new(),
            refusable: BTreeSet::new(),
            is_transactional,
            committing: VecDeque::new(),
            published: 0,
            consumers: BTreeMap::new(),
            prefetch: 0,
            takes_replies: false,
        }
    }

    pub(super) fn output(&mut self) -> &mut Output {
        self.connection.output_mut()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.asked.is_empty() || !self.unconfirmed.is_empty()
    }

    pub(super) fn input(&mut self, now: Now, bytes: &[u8], seen: &mut Vec<Seen>) -> usize {
        let mut input = Input::new(bytes);
        while let Some(polled) = self.connection.poll_event(now, &mut input) {
            match polled {
                Event::Gathered(whole) => self.event(now, whole.event(), seen),
                event => self.event(now, event, seen),
            }
        }
        input.consumed()
    }

    fn event(&mut self, now: Now, event: Event<'_>, seen: &mut Vec<Seen>) {
        match event {
            Event::Start(_) => {
                let properties = TableWriter::fields(|table| {
                    table.table(b"capabilities", |capabilities| {
                        capabilities.put(b"consumer_cancel_notify", Value::Bool(true));
                        capabilities.put(b"connection.blocked", Value::Bool(true));
                    });
                });
                let properties = Table::new(&properties).unwrap_or_default();
                self.connection.start_ok(properties, b"PLAIN", b"\0guest\0guest", b"en_US");
            }
            Event::Tune(proposed) => {
                self.connection.tune_ok_and_open(now, proposed, b"/");
            }
            Event::OpenOk => {
                self.connection.channel_open(CHANNEL);
                if self.is_transactional {
                    self.connection.send(CHANNEL, &TxSelect {});
                } else {
                    self.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
                }
            }
            Event::ChannelOpenOk { .. } => {}
            Event::Deliver { deliver, properties, body, .. } => {
                let handle = number(deliver.consumer_tag);
                if handle == REPLIES {
                    return seen.push(Seen::Replied(body.to_vec()));
                }
                let Some((queue, settled)) = self.consumers.get(&handle).copied() else {
                    return seen
                        .push(Seen::Failed(format!("a delivery for consumer {handle}, which is none")));
                };
                seen.push(Seen::Delivered(Delivery {
                    queue,
                    consumer: Some(handle),
                    tag: deliver.delivery_tag,
                    chosen: false,
                    redelivered: deliver.redelivered,
                    settled,
                    reply_to: text(properties.reply_to()),
                    note: note(&properties),
                    body: body.to_vec(),
                }));
            }
            Event::GetOk { get_ok, properties, body, .. } => match self.asked.pop_front() {
                Some(asked @ (Asked::Get(queue) | Asked::Pick(queue, _))) => {
                    seen.push(Seen::Delivered(Delivery {
                        queue,
                        consumer: None,
                        tag: get_ok.delivery_tag,
                        chosen: matches!(asked, Asked::Pick(..)),
                        redelivered: get_ok.redelivered,
                        settled: false,
                        reply_to: text(properties.reply_to()),
                        note: note(&properties),
                        body: body.to_vec(),
                    }))
                }
                other => seen.push(Seen::Failed(format!("get-ok answers {other:?}"))),
            },
            Event::Return { body, .. } => {
                if let Some((id, _)) = super::read_body(body) {
                    self.unconfirmed.retain(|_, unconfirmed| *unconfirmed != id);
                    self.committing.iter_mut().for_each(|ids| ids.retain(|of| *of != id));
                    seen.push(Seen::Returned(id));
                }
            }
            Event::Method { method, .. } => self.method(method, seen),
            Event::ChannelClose { close, .. } => {
                seen.push(failed(close.reply_code, close.reply_text));
            }
            Event::Close(close) => {
                seen.push(failed(close.reply_code, close.reply_text));
                self.connection.close_ok();
            }
            Event::Failed(error) | Event::ChannelFailed { error, .. } => {
                seen.push(Seen::Failed(format!("protocol: {error}")));
            }
            Event::Closed => seen.push(Seen::Closed),
            other => seen.push(Seen::Failed(format!("unexpected: {other:?}"))),
        }
    }

    fn method(&mut self, method: Method<'_>, seen: &mut Vec<Seen>) {
        match method {
            Method::ConfirmSelectOk(_) | Method::TxSelectOk(_) => seen.push(Seen::Open),
            Method::BasicAck(ack) => {
                let tag = ack.delivery_tag;
                if ack.multiple {
                    let later = self.unconfirmed.split_off(&(tag + 1));
                    let confirmed = std::mem::replace(&mut self.unconfirmed, later);
                    seen.extend(confirmed.into_values().map(Seen::Confirmed));
                } else if let Some(id) = self.unconfirmed.remove(&tag) {
                    seen.push(Seen::Confirmed(id));
                }
                if tag > self.published {
                    seen.push(Seen::Failed(format!("publish {tag} is confirmed and was never made")));
                }
            }
            Method::BasicNack(nack) if !self.refusable.is_empty() => {
                let first = if nack.multiple { 0 } else { nack.delivery_tag };
                let refused: Vec<u64> =
                    self.unconfirmed.range(first..=nack.delivery_tag).map(|(tag, _)| *tag).collect();
                for tag in refused {
                    seen.extend(self.unconfirmed.remove(&tag).map(Seen::Refused));
                }
            }
            Method::BasicQosOk(_) | Method::ConnectionBlocked(_) | Method::ConnectionUnblocked(_) => {}
            Method::BasicCancel(cancel) => seen.push(Seen::Cancelled(number(cancel.consumer_tag))),
            Method::BasicGetEmpty(_) => match self.asked.pop_front() {
                Some(Asked::Get(queue) | Asked::Pick(queue, _)) => seen.push(Seen::Empty(queue)),
                other => seen.push(Seen::Failed(format!("get-empty answers {other:?}"))),
            },
            answer => {
                let asked = self.asked.pop_front();
                let count = match (&answer, asked) {
                    (Method::QueueDeclareOk(ok), Some(Asked::Declare(_) | Asked::Look(..))) => {
                        Some(ok.message_count)
                    }
                    (Method::QueuePurgeOk(ok), Some(Asked::Purge(_) | Asked::Discard(..))) => {
                        Some(ok.message_count)
                    }
                    (Method::QueueSettleOk(_), Some(Asked::SettleAt(..))) => None,
                    (Method::QueueDeleteOk(ok), Some(Asked::Delete(_))) => Some(ok.message_count),
                    (Method::ExchangeDeclareOk(_), Some(Asked::DeclareExchange(..)))
                    | (Method::QueueBindOk(_), Some(Asked::Bind(..)))
                    | (Method::BasicConsumeOk(_), Some(Asked::Consume(_)))
                    | (Method::BasicCancelOk(BasicCancelOk { .. }), Some(Asked::Cancel(_)))
                    | (Method::TxRollbackOk(_), Some(Asked::Rollback)) => None,
                    (Method::TxCommitOk(_), Some(Asked::Commit)) => {
                        let published = self.committing.pop_front().unwrap_or_default();
                        seen.extend(published.into_iter().map(Seen::Confirmed));
                        None
                    }
                    _ => {
                        let text = format!("{:?} answers {asked:?}", answer.id());
                        return seen.push(Seen::Failed(text));
                    }
                };
                seen.extend(asked.map(|asked| Seen::Done(asked, count.map(u64::from))));
            }
        }
    }

    pub(super) fn publish(
        &mut self,
        target: Target,
        id: u64,
        body: &[u8],
        is_durable: bool,
        _is_settled: bool,
        options: &MessageOptions,
    ) -> bool {
        let (exchange, key) = match target {
            Target::Queue(queue) => (String::new(), queue_name(queue)),
            Target::Stream(stream) => (String::new(), stream_name(stream)),
            Target::Exchange(exchange) => (exchange_name(exchange), "any".to_owned()),
        };
        if options.may_be_refused {
            self.refusable.insert(id);
        }
        let expiration = options.ttl_ms.map(|ms| ms.to_string());
        let headers = TableWriter::fields(|table| {
            table.put(b"x-deduplication-header", Value::I64(id as i64));
            if let Some(group) = group_of(id).filter(|_| options.has_group) {
                table.put(GROUP_HEADER.as_bytes(), Value::I64(group as i64));
            }
            if let Some(Delay::For(ms)) = options.delay {
                table.put(b"x-delay", Value::I64(ms as i64));
            }
        });
        let properties = NewProperties {
            headers: Table::new(&headers).ok(),
            delivery_mode: mode(is_durable),
            priority: options.priority,
            expiration: expiration.as_deref().map(str::as_bytes),
            ..NewProperties::default()
        };
        self.publish_to(&exchange, &key, id, &properties, body);
        if options.twice {
            // Nobody waits for the second alone: it is confirmed behind the first.
            self.send(&exchange, &key, &properties, body);
            self.published += u64::from(!self.is_transactional);
        }
        true
    }

    fn publish_to(
        &mut self,
        exchange: &str,
        key: &str,
        id: u64,
        properties: &NewProperties<'_>,
        body: &[u8],
    ) {
        self.send(exchange, key, properties, body);
        if !self.is_transactional {
            self.published += 1;
            self.unconfirmed.insert(self.published, id);
        }
    }

    fn send(&mut self, exchange: &str, key: &str, properties: &NewProperties<'_>, body: &[u8]) {
        let mut head = Vec::new();
        properties.write(&mut head);
        let prefix = PublishPrefix::new(CHANNEL, exchange.as_bytes(), key.as_bytes(), true);
        self.connection.publish(&prefix, &head, &Body::Bytes(body));
    }

    pub(super) fn request(&mut self, queue: usize, id: u64, body: &[u8], is_durable: bool) {
        if !std::mem::replace(&mut self.takes_replies, true) {
            self.asked.push_back(Asked::Consume(REPLIES));
            let tag = REPLIES.to_string();
            let consume = BasicConsume {
                queue: REPLY_TO,
                consumer_tag: tag.as_bytes(),
                no_ack: true,
                ..BasicConsume::default()
            };
            self.connection.send(CHANNEL, &consume);
        }
        let properties = NewProperties {
            delivery_mode: mode(is_durable),
            reply_to: Some(REPLY_TO),
            ..NewProperties::default()
        };
        self.publish_to("", &queue_name(queue), id, &properties, body);
    }

    pub(super) fn reply(&mut self, address: &str, id: u64, body: &[u8]) {
        self.publish_to("", address, id, &NewProperties::default(), body);
    }

    pub(super) fn consume(&mut self, consumer: &Consumer, credit: u32) {
        let Consumer { handle, queue, settled, browses, wants, .. } = *consumer;
        if self.prefetch != credit {
            self.prefetch = credit;
            let prefetch_count = credit as u16;
            self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
        }
        self.consumers.insert(handle, (queue, settled));
        self.asked.push_back(Asked::Consume(handle));
        let (queue, tag) = (queue_name(queue), handle.to_string());
        let arguments = TableWriter::fields(|table| {
            if browses {
                table.put(b"x-browse", Value::Bool(true));
            }
            if let Some(wants) = wants {
                table.put(b"x-filter", Value::Text(wants.text().as_bytes()));
            }
        });
        self.connection.send(
            CHANNEL,
            &BasicConsume {
                queue: queue.as_bytes(),
                consumer_tag: tag.as_bytes(),
                no_ack: settled,
                arguments: Table::new(&arguments).unwrap_or_default(),
                ..BasicConsume::default()
            },
        );
    }

    pub(super) fn cancel(&mut self, handle: u32) {
        self.asked.push_back(Asked::Cancel(handle));
        let tag = handle.to_string();
        let cancel = BasicCancel { consumer_tag: tag.as_bytes(), nowait: false };
        self.connection.send(CHANNEL, &cancel);
    }

    pub(super) fn settle(&mut self, tag: u64, through: bool, verdict: Verdict) {
        match verdict {
            Verdict::Accept => self.connection.ack(CHANNEL, tag, through),
            // As many words for it as there are: one counts as a failure, the other does not.
            Verdict::Reject if !through && tag.is_multiple_of(2) => {
                self.connection.reject(CHANNEL, tag, false)
            }
            Verdict::Reject => self.connection.nack(CHANNEL, tag, through, false),
            Verdict::Release => self.connection.nack(CHANNEL, tag, through, true),
            Verdict::Fail => self.connection.reject(CHANNEL, tag, true),
            Verdict::Postpone(_) => panic!("0-9-1 has no word for later"),
        }
    }

    pub(super) fn end_transaction(&mut self, commits: bool, published: &[u64]) {
        if commits {
            self.asked.push_back(Asked::Commit);
            self.committing.push_back(published.to_vec());
            self.connection.send(CHANNEL, &TxCommit {});
        } else {
            self.asked.push_back(Asked::Rollback);
            self.connection.send(CHANNEL, &TxRollback {});
        }
    }

    pub(super) fn declare(&mut self, queue: usize, is_quorum: bool, is_durable: bool, rules: &Rules) {
        self.asked.push_back(Asked::Declare(queue));
        let name = queue_name(queue);
        let kind = if is_quorum { &b"quorum"[..] } else { b"classic" };
        let arguments = TableWriter::fields(|table| {
            table.put(b"x-queue-type", Value::Text(kind));
            let mut number = |name: &[u8], value: Option<u64>| {
                if let Some(value) = value {
                    table.put(name, Value::I64(value as i64));
                }
            };
            number(b"x-message-ttl", rules.ttl_ms);
            number(b"x-max-length", rules.length_max);
            number(b"x-delivery-limit", rules.delivery_limit.map(u64::from));
            number(b"x-cancel-limit", rules.cancel_limit.map(u64::from));
            number(b"x-max-unsettled", rules.unsettled_max);
            number(b"x-consumer-timeout", rules.timeout_ms);
            number(b"x-lease", rules.lease_ms);
            number(b"x-max-priority", rules.priority_max.map(u64::from));
            number(b"x-delayed-retry-min", rules.retry.map(|(_, min_ms)| min_ms));
            number(b"x-delayed-retry-max", rules.retry.map(|_| RETRY_MS_MAX));
            if rules.ranks {
                table.put(b"x-priority-expression", Value::Text(RANKING.as_bytes()));
            }
            if rules.bars {
                table.put(b"x-barrier-expression", Value::Text(BARRIER.as_bytes()));
            }
            if let Some(fairness) = rules.fairness {
                table.put(b"x-fairness", Value::Text(fairness.as_bytes()));
            }
            if let Some((of_type, _)) = rules.retry {
                table.put(b"x-delayed-retry-type", Value::Text(of_type.as_bytes()));
            }
            if rules.deduplicates {
                table.put(b"x-message-deduplication", Value::Bool(true));
                table.put(b"x-cache-size", Value::I64(10_000));
            }
            if rules.is_grouped {
                table.put(b"x-group-key", Value::Text(GROUP_HEADER.as_bytes()));
            }
            if rules.refuses {
                table.put(b"x-overflow", Value::Text(b"reject-publish"));
            }
            if let Some(grave) = rules.grave {
                table.put(b"x-dead-letter-exchange", Value::Text(b""));
                table.put(b"x-dead-letter-routing-key", Value::Text(queue_name(grave).as_bytes()));
            }
        });
        let arguments = Table::new(&arguments).unwrap_or_default();
        let (queue, durable) = (name.as_bytes(), is_durable);
        self.connection.send(CHANNEL, &QueueDeclare { queue, durable, arguments, ..QueueDeclare::default() });
    }

    pub(super) fn declare_fed(
        &mut self,
        queue: usize,
        is_quorum: bool,
        stream: &str,
        begin: Begin,
        value: Option<&str>,
        length_max: Option<u64>,
    ) {
        self.asked.push_back(Asked::Declare(queue));
        let name = queue_name(queue);
        let kind = if is_quorum { &b"quorum"[..] } else { b"classic" };
        let arguments = TableWriter::fields(|table| {
            table.put(b"x-queue-type", Value::Text(kind));
            table.put(b"x-source-stream", Value::Text(stream.as_bytes()));
            match begin {
                Begin::First => {}
                Begin::Next => table.put(b"x-source-offset", Value::Text(b"next")),
                Begin::Offset(offset) => table.put(b"x-source-offset", Value::I64(offset as i64)),
            }
            if let Some(value) = value {
                table.put(b"x-source-filter-values", Value::Text(value.as_bytes()));
            }
            if let Some(most) = length_max {
                table.put(b"x-max-length", Value::I64(most as i64));
            }
        });
        let arguments = Table::new(&arguments).unwrap_or_default();
        let queue = name.as_bytes();
        let declare = QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() };
        self.connection.send(CHANNEL, &declare);
    }

    pub(super) fn ask(&mut self, asked: Asked) {
        self.asked.push_back(asked);
        match asked {
            Asked::DeclareExchange(exchange, delays) => {
                let name = exchange_name(exchange);
                let (exchange, kind) = (name.as_bytes(), &b"fanout"[..]);
                let arguments = TableWriter::fields(|table| {
                    if delays {
                        table.put(b"x-delayed-type", Value::Text(kind));
                    }
                });
                let kind = if delays { b"x-delayed-message" } else { kind };
                let arguments = Table::new(&arguments).unwrap_or_default();
                let declare = ExchangeDeclare {
                    exchange,
                    kind,
                    durable: true,
                    arguments,
                    ..ExchangeDeclare::default()
                };
                self.connection.send(CHANNEL, &declare);
            }
            Asked::Bind(exchange, queue) => {
                let (exchange, queue) = (exchange_name(exchange), queue_name(queue));
                let (exchange, queue) = (exchange.as_bytes(), queue.as_bytes());
                self.connection.send(CHANNEL, &QueueBind { exchange, queue, ..QueueBind::default() });
            }
            Asked::Look(queue, _) => {
                let queue = queue_name(queue);
                let declare =
                    QueueDeclare { queue: queue.as_bytes(), passive: true, ..QueueDeclare::default() };
                self.connection.send(CHANNEL, &declare);
            }
            Asked::Purge(queue) => {
                let queue = queue_name(queue);
                self.connection
                    .send(CHANNEL, &QueuePurge { queue: queue.as_bytes(), ..QueuePurge::default() });
            }
            Asked::Delete(queue) => {
                let queue = queue_name(queue);
                self.connection
                    .send(CHANNEL, &QueueDelete { queue: queue.as_bytes(), ..QueueDelete::default() });
            }
            Asked::Get(queue) => {
                let queue = queue_name(queue);
                self.connection.send(CHANNEL, &BasicGet { queue: queue.as_bytes(), ..BasicGet::default() });
            }
            Asked::Pick(queue, position) => {
                let queue = queue_name(queue);
                let pick = BasicPick { queue: queue.as_bytes(), position, ..BasicPick::default() };
                self.connection.send(CHANNEL, &pick);
            }
            Asked::Discard(queue, position) => {
                let queue = queue_name(queue);
                let discard = QueueDiscard { queue: queue.as_bytes(), position, ..QueueDiscard::default() };
                self.connection.send(CHANNEL, &discard);
            }
            Asked::SettleAt(queue, first, rejects) => {
                let (queue, positions) = (queue_name(queue), first..first + SETTLED_AT_ONCE);
                let positions: Vec<u8> = positions.flat_map(u64::to_be_bytes).collect();
                let (queue, positions) = (queue.as_bytes(), &positions[..]);
                self.connection
                    .send(CHANNEL, &QueueSettle { queue, rejects, positions, ..QueueSettle::default() });
            }
            Asked::Declare(_) | Asked::Consume(_) | Asked::Cancel(_) | Asked::Commit | Asked::Rollback => {
                panic!("queues, consumers and transactions have verbs of their own")
            }
        }
    }

    pub(super) fn close(&mut self, now: Now) {
        self.connection.close_connection(now, ReplyCode::Success, "bye", MethodId::NONE);
    }
}

fn number(tag: &[u8]) -> u32 {
    str::from_utf8(tag).ok().and_then(|tag| tag.parse().ok()).unwrap_or(u32::MAX)
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// The delivery mode.
fn mode(is_durable: bool) -> Option<u8> {
    Some(if is_durable { 2 } else { 1 })
}

fn failed(code: u16, text: &[u8]) -> Seen {
    Seen::Failed(format!("{code} {}", String::from_utf8_lossy(text)))
}

/// The number of the message, as a client wrote it on it when it gave it back.
fn note(properties: &Properties<'_>) -> Option<u64> {
    let note = properties.headers()?.get(NOTE.as_bytes())?;
    Some(note.as_i64().map_or(u64::MAX, |note| note as u64))
}
