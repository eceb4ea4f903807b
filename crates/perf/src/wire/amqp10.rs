//! The load over AMQP 1.0: a link for each queue, unsettled transfers, dispositions and credit in ranges.

use super::{Happenings, Purpose, Target, Wire, unexpected};
use crate::content;
use crate::stamp::STAMP;
use crate::uri::Uri;
use amqp10::{
    Attach, Body, Config, Connection, Delivery, Error, Event, Input, Limits, LinkId, Open, Outcome, Role,
    SaslCode, SenderSettleMode, SessionId, Source, Transfer,
};
use base::percent::encoded;
use base::{Buffer, Memory, Now, Output};
use message::amqp10::section::data_prefix;
use message::amqp10::value::code;
use message::amqp10::{Decoder, Encoder, Header, Map, Value};
use std::sync::{Arc, OnceLock};

/// The key and the descriptor of the filter that says where in a stream a reader begins.
const OFFSET: &str = "rabbitmq:stream-offset-spec";

/// Links put on one session: as many as RabbitMQ's handle-max of 255 leaves room for.
const SESSION_LINKS: usize = 256;

/// Limits of a client that loads: windows that never stand in the way, patience for a busy broker.
const LIMITS: Limits = Limits {
    frame_bytes_before_open: 8192,
    frame_bytes_max: 131_072,
    sessions_max: 64,
    links_max: SESSION_LINKS as u16,
    link_name_bytes_max: 1024,
    incoming_window_max: 65_535,
    message_bytes_max: 1 << 30,
    assembly_bytes_max: 1 << 30,
    unsettled_max: 1 << 24,
    handshake_ms: 60_000,
    close_ms: 10_000,
    idle_ms: 60_000,
};

/// The limits of a connection with `purpose`. One heartbeat is asked for in a process, so one value is enough.
fn limits(purpose: &Purpose) -> Arc<Limits> {
    static IDLE: OnceLock<Arc<Limits>> = OnceLock::new();
    static BUSY: OnceLock<Arc<Limits>> = OnceLock::new();
    let limits = match purpose {
        Purpose::Idle { heartbeat } => IDLE.get_or_init(|| {
            let idle_ms = u32::from(*heartbeat) * 1000;
            Arc::new(Limits { incoming_window_max: 100, idle_ms, ..LIMITS })
        }),
        _ => BUSY.get_or_init(|| Arc::new(LIMITS)),
    };
    limits.clone()
}

/// A link of ours.
#[derive(Clone, Copy, Debug)]
struct Link {
    session: SessionId,
    id: LinkId,
    /// Receiving: deliveries that the broker may still send.
    credit: u32,
}

/// A session of ours.
#[derive(Debug)]
struct Session {
    id: SessionId,
    /// Delivery-ids that came and are not settled: the first and the last.
    unsettled: Option<(u32, u32)>,
    /// The number of its first link.
    first_link: usize,
}

/// A client connection over AMQP 1.0.
#[derive(Debug)]
pub struct Amqp10 {
    connection: Connection,
    uri: Uri,
    purpose: Purpose,
    /// Answers still awaited before it is ready.
    awaited: usize,
    is_ready: bool,
    sessions: Vec<Session>,
    links: Vec<Link>,
    /// The link of the next message.
    next: usize,
    /// Messages published.
    published: u64,
    /// The bytes before the stamp in every message; one for each priority.
    heads: Vec<Vec<u8>>,
    /// The bytes of bodies but for their stamp, in turn.
    fillers: Vec<Memory>,
    /// The stamp comes behind them, not in front.
    is_stamped_last: bool,
    /// The bytes of the next message.
    next_filler: usize,
    /// The header section seen last, decoded: one is much like the next.
    header: (Vec<u8>, bool),
}

impl Amqp10 {
    /// Both have opened: begins sessions and attaches links.
    fn prepare(&mut self) -> Result<(), String> {
        let addresses: Vec<String> = match &self.purpose {
            Purpose::Publish { targets, .. } => targets.iter().map(address).collect(),
            Purpose::Consume { queues, .. } => queues.iter().map(|name| queue_address(name)).collect(),
            Purpose::Idle { .. } => Vec::new(),
        };
        let sessions = if addresses.is_empty() { 2 } else { addresses.len().div_ceil(SESSION_LINKS) };
        for index in 0..sessions {
            let Some(id) = self.connection.begin(Map::default()) else {
                return Err(format!("the broker takes only {index} sessions"));
            };
            self.sessions.push(Session { id, unsettled: None, first_link: index * SESSION_LINKS });
        }
        self.awaited = if addresses.is_empty() { sessions } else { addresses.len() };
        let set = match &self.purpose {
            Purpose::Consume { is_replay, selector, .. } => filter_set(*is_replay, selector.as_deref()),
            _ => Vec::new(),
        };
        // An empty one is left out.
        let filter = match Decoder::new(&set).value() {
            Ok(Value::Map(filter)) if filter.iter().next().is_some() => Some(filter),
            _ => None,
        };
        for (index, address) in addresses.iter().enumerate() {
            let session = self.sessions[index / SESSION_LINKS].id;
            let name = format!("leveret-bench-{index}");
            let terminus = Some(address.as_str());
            let is_publishing = matches!(self.purpose, Purpose::Publish { .. });
            let attach = Attach {
                sender_settle_mode: SenderSettleMode::Unsettled,
                source: Some(Source {
                    address: terminus.filter(|_| !is_publishing),
                    filter,
                    ..Source::default()
                }),
                target: Some(amqp10::Target {
                    address: terminus.filter(|_| is_publishing),
                    ..amqp10::Target::default()
                }),
                ..Attach::new(&name, if is_publishing { Role::Sender } else { Role::Receiver })
            };
            let Some(id) = self.connection.attach(session, &attach) else {
                return Err(format!("the session takes only {} links", index % SESSION_LINKS));
            };
            // Links are numbered from 0, which is how a delivery's queue is found without a search.
            assert_eq!(usize::from(id.0), index % SESSION_LINKS);
            self.links.push(Link { session, id, credit: 0 });
        }
        Ok(())
    }

    #[inline]
    fn delivered(&mut self, transfer: &Transfer<'_>, happenings: &mut impl Happenings) {
        let session = &mut self.sessions[usize::from(transfer.session.0)];
        let first = session.unsettled.map_or(transfer.delivery_id, |(first, _)| first);
        session.unsettled = Some((first, transfer.delivery_id));
        let queue = session.first_link + usize::from(transfer.link.0);
        self.links[queue].credit = transfer.credit;
        let Some((header, body)) = split(transfer.payload) else {
            // Counted as foreign, for a body that short has no stamp.
            return happenings.delivered(queue, false, &[]);
        };
        if self.header.0 != header {
            self.header.1 = is_redelivered(header);
            self.header.0.clear();
            self.header.0.extend_from_slice(header);
        }
        happenings.delivered(queue, self.header.1, body);
    }

    fn answered(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        self.is_ready |= self.awaited == 0;
    }

    /// Lets the broker send as much on a link as it may have under way.
    fn grant(&mut self, index: usize) {
        let Purpose::Consume { credit, .. } = self.purpose else { return };
        let link = &mut self.links[index];
        link.credit = credit;
        self.connection.grant(link.session, link.id, credit, false);
    }
}

/// The v2 address of a target.
fn address(target: &Target) -> String {
    match target {
        Target::Queue(name) => queue_address(name),
        Target::Exchange(name) => format!("/exchanges/{}", encoded(name)),
        Target::Key(name, key) => format!("/exchanges/{}/{}", encoded(name), encoded(key)),
    }
}

/// The filters that a consumer attaches with, a map: where in a stream it begins, and the expression it chooses by.
fn filter_set(is_replay: bool, selector: Option<&str>) -> Vec<u8> {
    let mut set = Vec::new();
    let mut encoder = Encoder::new(&mut set);
    let mut map = encoder.map();
    let offset = is_replay.then_some((OFFSET, OFFSET, "first"));
    let sql = selector.map(|selector| ("sql-filter", "amqp:sql-filter", selector));
    for (key, descriptor, value) in offset.into_iter().chain(sql) {
        encoder.symbol(key);
        map.field(&encoder);
        encoder.encoding(&[code::DESCRIBED]);
        encoder.symbol(descriptor);
        encoder.string(value);
        map.field(&encoder);
    }
    encoder.close(map);
    set
}

fn queue_address(name: &str) -> String {
    format!("/queues/{}", encoded(name))
}

/// Splits a message in front of its body: the header section, if there is one, and the content of the first data section.
#[inline]
fn split(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut rest, mut header) = (payload, &payload[..0]);
    loop {
        let (is_header, len) = match rest {
            [0, 0x53, 0x75, 0xa0, len, content @ ..] => {
                return Some((header, content.get(..usize::from(*len))?));
            }
            [0, 0x53, 0x75, 0xb0, a, b, c, d, content @ ..] => {
                let len = u32::from_be_bytes([*a, *b, *c, *d]);
                return Some((header, content.get(..len as usize)?));
            }
            [0, 0x53, section, 0xc0 | 0xc1, len, ..] => (*section == 0x70, 5 + usize::from(*len)),
            [0, 0x53, section, 0xd0 | 0xd1, a, b, c, d, ..] => {
                (*section == 0x70, 8 + u32::from_be_bytes([*a, *b, *c, *d]) as usize)
            }
            [0, 0x53, section, 0x45, ..] => (*section == 0x70, 4),
            _ => return None,
        };
        let (section, behind) = rest.split_at_checked(len)?;
        if is_header {
            header = section;
        }
        rest = behind;
    }
}

/// Whether a header section says that this is not the first delivery: first-acquirer is false, or delivery-count is
/// above 0 (§3.2.1). One that does not say is taken as the first.
fn is_redelivered(header: &[u8]) -> bool {
    let Ok(Value::Described(section)) = Decoder::new(header).value() else { return false };
    let Value::List(fields) = section.value() else { return false };
    let mut fields = fields.iter().skip(3);
    let first_acquirer = fields.next();
    first_acquirer == Some(Value::Boolean(false))
        || fields.next().and_then(|count| count.as_u64()).is_some_and(|count| count > 0)
}

fn words(error: Option<Error<'_>>) -> String {
    match error {
        Some(error) => {
            format!("the broker said: {} {}", error.condition, error.description.unwrap_or_default())
        }
        None => "the broker said good-bye".to_owned(),
    }
}

impl Wire for Amqp10 {
    fn new(now: Now, uri: &Uri, purpose: Purpose) -> Result<Amqp10, String> {
        let config = Config { limits: limits(&purpose), mechanisms: &[], first_id: 0 };
        let (mut heads, mut fillers, mut is_stamped_last) = (Vec::new(), Vec::new(), false);
        if let Purpose::Publish { is_durable, size, priorities, is_content, .. } = &purpose {
            let size = *size as usize;
            let (prefix, len) = data_prefix(size);
            for number in 0..(*priorities).max(1) {
                let usual = Header::default();
                let priority = if *priorities > 0 { Some(number as u8) } else { usual.priority };
                let mut head = Vec::new();
                Header { durable: *is_durable, priority, ..usual }.write(&mut head);
                head.extend_from_slice(&prefix[..len]);
                heads.push(head);
            }
            is_stamped_last = *is_content;
            let bodies = match is_content {
                true => content::documents(size),
                false => vec![vec![b'.'; size]],
            };
            fillers.extend(bodies.iter().map(|body| {
                let mut filler = Buffer::default();
                filler.extend(&body[..size - STAMP]);
                filler.seal()
            }));
        }
        Ok(Amqp10 {
            connection: Connection::client(config, now),
            uri: uri.clone(),
            purpose,
            awaited: 0,
            is_ready: false,
            sessions: Vec::new(),
            links: Vec::new(),
            next: 0,
            published: 0,
            heads,
            fillers,
            is_stamped_last,
            next_filler: 0,
            header: (Vec::new(), false),
        })
    }

    #[inline]
    fn input(&mut self, now: Now, bytes: &[u8], happenings: &mut impl Happenings) -> Result<usize, String> {
        let mut input = Input::new(bytes);
        while let Some(event) = self.connection.poll_event(now, &mut input) {
            match event {
                Event::Transfer(transfer) => self.delivered(&transfer, happenings),
                Event::Assembled(assembled) => self.delivered(&assembled.transfer(), happenings),
                Event::Disposition(disposition) => {
                    let (session, first, last) = (disposition.session, disposition.first, disposition.last);
                    let refusal = match disposition.outcome {
                        _ if disposition.role == Role::Receiver || !disposition.settled => continue,
                        Some(Outcome::Accepted) => None,
                        Some(Outcome::Rejected(error)) => Some(format!("rejected, {}", words(error))),
                        Some(Outcome::Released) => Some("released".to_owned()),
                        Some(Outcome::Modified { .. }) => Some("modified".to_owned()),
                        other => Some(format!("settled as {other:?}")),
                    };
                    self.connection.settle(session, first, last, |run| {
                        let last = run.token + u64::from(run.count) - 1;
                        match &refusal {
                            None => happenings.confirmed(run.token, last),
                            Some(why) => happenings.refused(run.token, last, why),
                        }
                    });
                }
                Event::Flow(_) | Event::Window { .. } => {}
                Event::SaslMechanisms(_) => {
                    let response = format!("\0{}\0{}", self.uri.user, self.uri.password);
                    let host = Some(self.uri.host.as_str());
                    self.connection.sasl_init("PLAIN", Some(response.as_bytes()), host);
                }
                Event::SaslOutcome(SaslCode::Ok) => {
                    let hostname = format!("vhost:{}", self.uri.vhost);
                    let open = Open { hostname: Some(&hostname), ..Open::new("leveret-bench") };
                    self.connection.open(&open);
                }
                Event::SaslOutcome(code) => return Err(format!("the broker refused the login: {code:?}")),
                Event::Open(_) => self.prepare()?,
                Event::Begin { .. } => {
                    if self.links.is_empty() {
                        self.answered();
                    }
                }
                Event::Attach { session, link, is_answer: true, .. } => {
                    let index = usize::from(session.0) * SESSION_LINKS + usize::from(link.0);
                    self.grant(index);
                    self.answered();
                }
                Event::Close(error) => {
                    if self.connection.is_finished() && error.is_none() {
                        break;
                    }
                    return Err(words(error));
                }
                Event::End { error, .. } | Event::Detach { error, .. } => return Err(words(error)),
                Event::Failed(fault)
                | Event::SessionFailed { fault, .. }
                | Event::LinkFailed { fault, .. } => {
                    return Err(format!("the broker broke the protocol: {fault:?}"));
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(bytes.len() - input.len())
    }

    #[inline]
    fn output(&mut self) -> &mut Output {
        self.connection.output_mut()
    }

    fn deadline(&self) -> Option<u64> {
        self.connection.poll_deadline()
    }

    fn handle_deadline(&mut self, now: Now) -> Result<(), String> {
        match self.connection.handle_deadline(now) {
            Some(event) => Err(format!("the broker was silent for too long: {event:?}")),
            None => Ok(()),
        }
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    #[inline]
    fn room(&self) -> u64 {
        let link = &self.links[self.next];
        if self.connection.queued(link.session) > 0 {
            return 0;
        }
        let credit = self.connection.credit(link.session, link.id).map_or(0, |(credit, _)| credit);
        // With several links the next message is another's.
        u64::from(if self.links.len() > 1 { credit.min(1) } else { credit })
    }

    #[inline]
    fn publish(&mut self, _now: Now, stamp: [u8; STAMP]) {
        let link = &self.links[self.next];
        self.next = if self.next + 1 == self.links.len() { 0 } else { self.next + 1 };
        let head = match &self.heads[..] {
            [head] => head,
            heads => &heads[(self.published % heads.len() as u64) as usize],
        };
        let filler = &self.fillers[self.next_filler];
        self.next_filler = if self.next_filler + 1 == self.fillers.len() { 0 } else { self.next_filler + 1 };
        let (pieces, body): (&[&[u8]], _) = match self.is_stamped_last {
            true => (&[head, filler, &stamp], Body::Bytes(&[])),
            false => (&[head, &stamp], Body::Memory(filler, 0..filler.len())),
        };
        let delivery = Delivery {
            tag: &(self.published as u32).to_be_bytes(),
            settled: false,
            token: self.published,
            head: pieces,
            body,
        };
        self.published += 1;
        let sent = self.connection.transfer(link.session, link.id, &delivery);
        assert!(sent.is_ok(), "there was credit: {sent:?}");
    }

    fn settle(&mut self, _now: Now) {
        for session in &mut self.sessions {
            if let Some((first, last)) = session.unsettled.take() {
                self.connection.settle_incoming(session.id, first, last, &Outcome::Accepted);
            }
        }
        let Purpose::Consume { credit, .. } = self.purpose else { return };
        for index in 0..self.links.len() {
            if self.links[index].credit <= credit / 2 {
                self.grant(index);
            }
        }
    }

    fn close(&mut self, _now: Now) {
        self.connection.close(None);
    }

    fn is_closed(&self) -> bool {
        self.connection.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp10::Descriptor;

    fn section(header: Header) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        bytes
    }

    #[test]
    fn the_body_is_found_behind_any_sections() {
        let header = section(Header { durable: true, ..Header::default() });
        let annotations = [0, 0x53, 0x72, 0xc1, 1, 0];
        let properties = [0, 0x53, 0x73, 0x45];
        let data = [0, 0x53, 0x75, 0xa0, 2, b'h', b'i', 0, 0x53, 0x78, 0xc1, 1, 0];
        let message = [&header[..], &annotations, &properties, &data].concat();
        assert_eq!(split(&message), Some((&header[..], &b"hi"[..])));
        assert_eq!(split(&[0, 0x53, 0x75, 0xb0, 0, 0, 0, 1, b'x']), Some((&[][..], &b"x"[..])));
        for len in 0..header.len() + annotations.len() + properties.len() + 7 {
            assert_eq!(split(&message[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn only_a_header_that_says_so_marks_a_redelivery() {
        for (first_acquirer, delivery_count, expected) in
            [(true, 0, false), (true, 1, true), (false, 2, true)]
        {
            let header = section(Header { first_acquirer, delivery_count, ..Header::default() });
            assert_eq!(is_redelivered(&header), expected, "{first_acquirer} {delivery_count}");
        }
        assert!(!is_redelivered(&section(Header { durable: true, ..Header::default() })));
        assert!(is_redelivered(&[0, 0x53, 0x70, 0xc0, 5, 4, 0x41, 0x40, 0x40, 0x42]));
        assert!(!is_redelivered(&[]));
    }

    #[test]
    fn filters_are_described_strings_by_name() {
        let check = |set: Vec<u8>, expected: &[(&str, &str, &str)]| {
            let Ok(Value::Map(map)) = Decoder::new(&set).value() else { panic!("no map: {set:?}") };
            let rows: Vec<_> = map.iter().collect();
            assert_eq!(rows.len(), expected.len());
            for ((key, value), (name, descriptor, text)) in rows.into_iter().zip(expected) {
                let Value::Described(filter) = value else { panic!("{name}: {value:?}") };
                assert_eq!((key, filter.value()), (Value::Symbol(name), Value::String(text)));
                assert_eq!(filter.descriptor(), Descriptor::Name(descriptor));
            }
        };
        let (first, sql) = ((OFFSET, OFFSET, "first"), ("sql-filter", "amqp:sql-filter", "body.a = 1"));
        check(filter_set(false, None), &[]);
        check(filter_set(false, Some(sql.2)), &[sql]);
        check(filter_set(true, Some(sql.2)), &[first, sql]);
    }

    #[test]
    fn addresses_are_percent_encoded() {
        assert_eq!(address(&Target::Queue("a b/ü".to_owned())), "/queues/a%20b%2F%C3%BC");
        assert_eq!(address(&Target::Exchange("e".to_owned())), "/exchanges/e");
        assert_eq!(address(&Target::Key("e".to_owned(), "a.b c".to_owned())), "/exchanges/e/a.b%20c");
    }
}
