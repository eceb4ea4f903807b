//! A client over AMQP 1.0: one session, a sending link for each target, a receiving one for each consumer.

use super::management10::Management;
use super::transactions10::{CONTROL, Control};
use super::{
    Asked, Consumer, Delivery, NOTE, Seen, Target, Transaction, Verdict, Wants, exchange_name, queue_name,
    read_body,
};
use crate::rules::{Delay, GROUP_HEADER, MessageOptions, Rules, group_of};
use crate::streams::stream_name;
use amqp10::{
    Attach, Body, Config, Connection, Event, Input, Limits, LinkId, Open, Outcome, Role, SaslCode,
    SenderSettleMode, SessionId, Source, Transfer,
};
use base::{Now, Output, Random};
use message::amqp10::section::{
    data_prefix,
    descriptor::{APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS},
};
use message::amqp10::{Decoder, Encoder, Header, Map, Message, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// When a message is to come, not before.
const DELIVERY_TIME: &str = "x-opt-delivery-time";

/// Peers with different windows and frames.
static LIMITS: [Limits; 3] = [limits(512, 8), limits(8192, 64), limits(131_072, 2048)];

const fn limits(frame_bytes_max: u32, incoming_window_max: u32) -> Limits {
    Limits {
        frame_bytes_before_open: 8192,
        frame_bytes_max,
        sessions_max: 4,
        links_max: 256,
        link_name_bytes_max: 1024,
        incoming_window_max,
        message_bytes_max: 1 << 24,
        assembly_bytes_max: 1 << 26,
        unsettled_max: 1 << 20,
        handshake_ms: u32::MAX,
        close_ms: u32::MAX,
        idle_ms: 0,
    }
}

#[derive(Debug)]
struct Receiver {
    link: LinkId,
    handle: u32,
    queue: usize,
    credit: u32,
    is_over: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Wire {
    connection: Connection,
    session: SessionId,
    /// Target and link, and whether the broker answered.
    senders: Vec<(Target, LinkId, bool)>,
    receivers: Vec<Receiver>,
    /// Messages not confirmed.
    unconfirmed: BTreeSet<u64>,
    /// Those of them that a queue may refuse.
    refusable: BTreeSet<u64>,
    /// Deliveries not settled: link by delivery.
    incoming: BTreeMap<u64, (LinkId, u64)>,
    control: Control,
    management: Management,
    tag: u32,
}

impl Wire {
    pub(super) fn new(now: Now, dice: &mut Random) -> Wire {
        let limits = Arc::new(LIMITS[dice.below(LIMITS.len() as u64) as usize]);
        let config = Config { limits, mechanisms: &[], first_id: 0 };
        Wire {
            connection: Connection::client(config, now),
            session: SessionId(0),
            senders: Vec::new(),
            receivers: Vec::new(),
            unconfirmed: BTreeSet::new(),
            refusable: BTreeSet::new(),
            incoming: BTreeMap::new(),
            control: Control::default(),
            management: Management::default(),
            tag: 0,
        }
    }

    pub(super) fn output(&mut self) -> &mut Output {
        self.connection.output_mut()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.unconfirmed.is_empty() || self.control.is_waiting() || self.management.is_waiting()
    }

    pub(super) fn input(&mut self, now: Now, bytes: &[u8], seen: &mut Vec<Seen>) -> usize {
        let mut input = Input::new(bytes);
        while let Some(event) = self.connection.poll_event(now, &mut input) {
            self.event(event, seen);
        }
        bytes.len() - input.len()
    }

    fn event(&mut self, event: Event<'_>, seen: &mut Vec<Seen>) {
        match event {
            Event::Transfer(transfer) => self.delivered(&transfer, seen),
            Event::Assembled(assembled) => self.delivered(&assembled.transfer(), seen),
            Event::Disposition(disposition) => {
                if disposition.role == Role::Receiver || !disposition.settled {
                    return;
                }
                let (first, last) = (disposition.first, disposition.last);
                let refusable = &self.refusable;
                let told = |id| match disposition.outcome {
                    Some(Outcome::Rejected(_)) if refusable.contains(&id) => Some(Seen::Refused(id)),
                    // Its outcome is told when its transaction ends.
                    Some(Outcome::Transactional { .. }) => None,
                    Some(Outcome::Accepted) => Some(Seen::Confirmed(id)),
                    Some(Outcome::Released) => Some(Seen::Returned(id)),
                    ref other => Some(Seen::Failed(format!("message {id} was settled as {other:?}"))),
                };
                let (connection, unconfirmed, control) =
                    (&mut self.connection, &mut self.unconfirmed, &mut self.control);
                connection.settle(disposition.session, first, last, |run| {
                    for id in run.token..run.token + u64::from(run.count) {
                        if id >= CONTROL {
                            control.answered(id, disposition.outcome.as_ref(), seen);
                        } else {
                            unconfirmed.remove(&id);
                            seen.extend(told(id));
                        }
                    }
                });
            }
            Event::Flow(_) | Event::Window { .. } => {
                self.management.flush(&mut self.connection, self.session)
            }
            Event::SaslMechanisms(_) => {
                self.connection.sasl_init("PLAIN", Some(b"\0guest\0guest"), Some("sim"));
            }
            Event::SaslOutcome(SaslCode::Ok) => {
                let open = Open { hostname: Some("vhost:/"), ..Open::new("sim") };
                self.connection.open(&open);
            }
            Event::Open(_) => match self.connection.begin(Map::default()) {
                Some(session) => self.session = session,
                None => seen.push(Seen::Failed("no session is allowed".to_owned())),
            },
            Event::Begin { .. } => seen.push(Seen::Open),
            Event::Attach { link, is_answer: true, .. } => self.attached(link),
            Event::Detach { link, error, .. } => {
                let is_ours = self.receivers.iter().any(|it| it.link == link && it.is_over);
                if let Some(at) = self.receivers.iter().position(|it| it.link == link) {
                    let receiver = self.receivers.remove(at);
                    if !is_ours {
                        seen.push(Seen::Cancelled(receiver.handle));
                    }
                }
                self.senders.retain(|(_, sender, _)| *sender != link);
                if let Some(error) = error.filter(|_| !is_ours) {
                    let text = format!("{} {}", error.condition, error.description.unwrap_or_default());
                    seen.push(Seen::Failed(text));
                }
            }
            Event::Close(None) => seen.push(Seen::Closed),
            Event::Close(Some(error)) => {
                seen.push(Seen::Failed(format!(
                    "{} {}",
                    error.condition,
                    error.description.unwrap_or_default()
                )));
            }
            other => seen.push(Seen::Failed(format!("unexpected: {other:?}"))),
        }
    }

    fn attached(&mut self, link: LinkId) {
        for (_, sender, is_attached) in &mut self.senders {
            *is_attached |= *sender == link;
        }
        self.control.attached(link);
        self.management.attached(&mut self.connection, self.session, link);
        if let Some(receiver) = self.receivers.iter().find(|it| it.link == link && !it.is_over) {
            self.connection.grant(self.session, link, receiver.credit, false);
        }
    }

    fn delivered(&mut self, transfer: &Transfer<'_>, seen: &mut Vec<Seen>) {
        if self.management.is_answers(transfer.link) {
            return self.management.answered(&mut self.connection, self.session, transfer, seen);
        }
        let Some(receiver) = self.receivers.iter().find(|it| it.link == transfer.link) else {
            return seen.push(Seen::Failed("a transfer on a link that is none".to_owned()));
        };
        if receiver.is_over {
            return;
        }
        let Ok(message) = Message::read(transfer.payload) else {
            return seen.push(Seen::Failed("a transfer that is no message".to_owned()));
        };
        let body: Vec<u8> = match message.body.single_data() {
            Some(data) => data.to_vec(),
            None => {
                return seen.push(Seen::Failed("a message whose body is not one data section".to_owned()));
            }
        };
        if !transfer.settled {
            let id = read_body(&body).map_or(0, |(id, _)| id);
            self.incoming.insert(transfer.delivery_id.into(), (transfer.link, id));
        }
        seen.push(Seen::Delivered(Delivery {
            queue: receiver.queue,
            consumer: Some(receiver.handle),
            tag: transfer.delivery_id.into(),
            chosen: false,
            redelivered: !message.header.first_acquirer || message.header.delivery_count > 0,
            settled: transfer.settled,
            reply_to: None,
            note: message.message_annotations.get(NOTE).map(|note| note.as_u64().unwrap_or(u64::MAX)),
            body,
        }));
        if transfer.credit <= receiver.credit / 2 {
            self.connection.grant(self.session, receiver.link, receiver.credit, false);
        }
    }

    pub(super) fn publish(
        &mut self,
        target: Target,
        id: u64,
        body: &[u8],
        is_durable: bool,
        is_settled: bool,
        options: &MessageOptions,
    ) -> bool {
        let Some((_, link, is_attached)) = self.senders.iter().find(|(to, ..)| *to == target).copied() else {
            self.attach_sender(target);
            return false;
        };
        let credit = self.connection.credit(self.session, link).map_or(0, |(credit, _)| credit);
        if !is_attached || credit == 0 || self.connection.queued(self.session) > 0 {
            return false;
        }
        let mut head = Vec::new();
        let ttl_ms = options.ttl_ms.map(|ms| ms as u32);
        Header { durable: is_durable, priority: options.priority, ttl_ms, ..Header::default() }
            .write(&mut head);
        if let Some(Delay::Until(at_ms)) = options.delay {
            let mut encoder = Encoder::new(&mut head);
            encoder.descriptor(MESSAGE_ANNOTATIONS.into());
            let mut map = encoder.map();
            encoder.symbol(DELIVERY_TIME);
            map.field(&encoder);
            encoder.timestamp(at_ms as i64);
            map.field(&encoder);
            encoder.close(map);
        }
        if let Some(group) = group_of(id).filter(|_| options.has_group) {
            let mut encoder = Encoder::new(&mut head);
            encoder.descriptor(APPLICATION_PROPERTIES.into());
            let mut map = encoder.map();
            encoder.string(GROUP_HEADER);
            map.field(&encoder);
            encoder.long(group as i64);
            map.field(&encoder);
            encoder.close(map);
        }
        let (prefix, len) = data_prefix(body.len());
        head.extend_from_slice(&prefix[..len]);
        self.tag = self.tag.wrapping_add(1);
        let delivery = amqp10::Delivery {
            tag: &self.tag.to_be_bytes(),
            settled: is_settled,
            token: id,
            head: &[&head],
            body: Body::Bytes(body),
        };
        if let Some(transaction) = &self.control.transaction {
            return self.connection.post(self.session, link, &delivery, transaction).is_ok();
        }
        let sent = self.connection.transfer(self.session, link, &delivery);
        if sent.is_ok() && !is_settled {
            if options.may_be_refused {
                self.refusable.insert(id);
            }
            self.unconfirmed.insert(id);
        }
        sent.is_ok()
    }

    fn attach_sender(&mut self, target: Target) {
        let address = match target {
            Target::Queue(queue) => format!("/queues/{}", queue_name(queue)),
            Target::Stream(stream) => format!("/queues/{}", stream_name(stream)),
            Target::Exchange(exchange) => format!("/exchanges/{}", exchange_name(exchange)),
        };
        let name = format!("to {address}");
        let to = amqp10::Target { address: Some(&address), ..amqp10::Target::default() };
        let attach =
            Attach { source: Some(Source::default()), target: Some(to), ..Attach::new(&name, Role::Sender) };
        if let Some(link) = self.connection.attach(self.session, &attach) {
            self.senders.push((target, link, false));
        }
    }

    pub(super) fn consume(&mut self, consumer: &Consumer, credit: u32) {
        let Consumer { handle, queue, settled, browses, wants, .. } = *consumer;
        let (address, name) = (format!("/queues/{}", queue_name(queue)), format!("consumer {handle}"));
        let mode = match settled {
            true => SenderSettleMode::Settled,
            false if handle % 2 == 0 => SenderSettleMode::Unsettled,
            false => SenderSettleMode::Mixed,
        };
        let filter = wants.map(sql_filter);
        let attach = Attach {
            sender_settle_mode: mode,
            source: Some(Source {
                address: Some(&address),
                distribution_mode: browses.then_some("copy"),
                filter: filter.as_deref().map(|filter| Map::new(2, filter)),
                ..Source::default()
            }),
            target: Some(amqp10::Target::default()),
            ..Attach::new(&name, Role::Receiver)
        };
        let credit = if credit == 0 { 100 } else { credit };
        if let Some(link) = self.connection.attach(self.session, &attach) {
            self.receivers.push(Receiver { link, handle, queue, credit, is_over: false });
        }
    }

    pub(super) fn cancel(&mut self, handle: u32) {
        let Some(receiver) = self.receivers.iter_mut().find(|it| it.handle == handle) else { return };
        receiver.is_over = true;
        let link = receiver.link;
        self.incoming.retain(|_, (of, _)| *of != link);
        self.connection.detach(self.session, link, None, true);
    }

    pub(super) fn settle(&mut self, tag: u64, _through: bool, verdict: Verdict) {
        let Some((_, id)) = self.incoming.remove(&tag) else { return };
        let mut note = Vec::new();
        let mut encoder = Encoder::new(&mut note);
        encoder.symbol(NOTE);
        encoder.ulong(id);
        if let Verdict::Postpone(at_ms) = verdict {
            encoder.symbol(DELIVERY_TIME);
            encoder.timestamp(at_ms as i64);
        }
        let outcome = match verdict {
            Verdict::Accept => Outcome::Accepted,
            Verdict::Reject if id % 2 == 0 => Outcome::Rejected(None),
            Verdict::Reject => Outcome::Modified {
                delivery_failed: false,
                undeliverable_here: true,
                annotations: Map::new(2, &note),
            },
            Verdict::Release if id % 2 == 0 => Outcome::Released,
            Verdict::Release => Outcome::Modified {
                delivery_failed: false,
                undeliverable_here: false,
                annotations: Map::new(2, &note),
            },
            Verdict::Fail => Outcome::Modified {
                delivery_failed: true,
                undeliverable_here: false,
                annotations: Map::new(2, &note),
            },
            Verdict::Postpone(_) => Outcome::Modified {
                delivery_failed: id % 2 == 0,
                undeliverable_here: false,
                annotations: Map::new(4, &note),
            },
        };
        let tag = tag as u32;
        let Some(id) = &self.control.transaction else {
            return self.connection.settle_incoming(self.session, tag, tag, &outcome);
        };
        let mut bytes = Vec::new();
        outcome.write(&mut Encoder::new(&mut bytes));
        let outcome = Decoder::new(&bytes).value().unwrap_or(Value::Null);
        let retired = Outcome::Transactional { id, outcome };
        self.connection.dispose(self.session, Role::Receiver, tag, tag, true, Some(&retired));
    }

    pub(super) fn begin_transaction(&mut self) {
        self.control.begin(&mut self.connection, self.session);
    }

    pub(super) fn end_transaction(&mut self, commits: bool, ended: &Transaction) {
        self.control.end(&mut self.connection, self.session, commits.then_some(ended));
    }

    /// Declares a durable queue.
    pub(super) fn declare(&mut self, queue: usize, is_quorum: bool, rules: &Rules) {
        self.management.declare(&mut self.connection, self.session, queue, is_quorum, rules);
    }

    /// Asks for an exchange, a binding, or a queue to be emptied or gone.
    pub(super) fn ask(&mut self, asked: Asked) {
        self.management.ask_for(&mut self.connection, self.session, asked);
    }

    pub(super) fn close(&mut self, _now: Now) {
        self.connection.close(None);
    }
}

/// The descriptor of an expression (AMQP Filter Expressions 1.0 section 6).
const SQL_FILTER: u64 = 0x120;

/// A filter set that chooses so: its name and value.
fn sql_filter(wants: Wants) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.symbol("sql-filter");
    encoder.descriptor(SQL_FILTER);
    encoder.string(&wants.text());
    bytes
}
