//! The load over AMQP 0-9-1: one channel, publisher confirms, `basic.consume` with multiple acknowledgement.

use super::{Happenings, Purpose, Target, Wire, unexpected};
use crate::content;
use crate::stamp::STAMP;
use crate::uri::Uri;
use amqp091::limits::BODY_SIZE_MAX;
use amqp091::method::{BasicConsume, BasicQos, ConfirmSelect};
use amqp091::{Body, Connection, Event, Input, Limits, Method, MethodId, PublishPrefix, ReplyCode};
use base::output::REFERENCE_MIN;
use base::{Buffer, Memory, Now, Output};
use message::amqp091::{NewProperties, Table, TableWriter, Value};

/// The channel that everything goes over; an idle connection opens the next one too.
const CHANNEL: u16 = 1;

/// Limits of a client: frames as RabbitMQ proposes them, patience for a busy broker.
pub fn limits(heartbeat_s: u16) -> Limits {
    Limits {
        heartbeat_s,
        message_size_max: BODY_SIZE_MAX as u32,
        handshake_ms_max: 60_000,
        ..Limits::default()
    }
}

/// Our client properties: the extensions that a load relies on.
pub fn client_properties() -> Vec<u8> {
    TableWriter::fields(|table| {
        table.put(b"product", Value::Text(b"leveret bench"));
        table.table(b"capabilities", |capabilities| {
            for name in ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked"] {
                capabilities.put(name.as_bytes(), Value::Bool(true));
            }
            capabilities.put(b"authentication_failure_close", Value::Bool(true));
        });
    })
}

/// The answer to `connection.start`.
pub fn log_in(connection: &mut Connection, uri: &Uri) {
    let properties = client_properties();
    let properties = Table::new(&properties).unwrap_or_default();
    let response = format!("\0{}\0{}", uri.user, uri.password);
    connection.start_ok(properties, b"PLAIN", response.as_bytes(), b"en_US");
}

/// The parts of every message of a publisher, but for its stamp.
#[derive(Debug)]
struct Template {
    /// By target: the `basic.publish` frame.
    methods: Vec<Box<[u8]>>,
    /// Content header and body frames, the same for all targets; one for each priority.
    contents: Vec<Memory>,
    /// Where the stamp is in each of `contents`.
    stamp_at: usize,
}

/// A client connection over AMQP 0-9-1.
#[derive(Debug)]
pub struct Amqp091 {
    connection: Connection,
    uri: Uri,
    purpose: Purpose,
    /// Answers still awaited before it is ready.
    awaited: usize,
    is_ready: bool,
    is_blocked: bool,
    is_closed: bool,
    template: Option<Template>,
    /// The target of the next message, and its content.
    next: usize,
    next_content: usize,
    /// Delivery tag of the last delivery.
    last_delivered: u64,
    /// Whether there are several queues to tell apart.
    has_queues: bool,
}

impl Amqp091 {
    /// The connection is open: readies it for its purpose.
    fn prepare(&mut self) {
        self.connection.channel_open(CHANNEL);
        self.awaited = 1;
        match &self.purpose {
            Purpose::Publish { is_confirmed, .. } => {
                if *is_confirmed {
                    self.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
                    self.awaited += 1;
                }
                self.template = Some(self.template());
            }
            Purpose::Consume { queues, credit, is_replay, selector } => {
                let prefetch_count = *credit as u16;
                self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
                self.awaited += 1 + queues.len();
                let arguments = TableWriter::fields(|table| {
                    if *is_replay {
                        table.put(b"x-stream-offset", Value::Text(b"first"));
                    }
                    if let Some(selector) = selector {
                        table.put(b"x-filter", Value::Text(selector.as_bytes()));
                    }
                });
                let arguments = Table::new(&arguments).unwrap_or_default();
                for (index, queue) in queues.iter().enumerate() {
                    let tag = index.to_string();
                    self.connection.send(
                        CHANNEL,
                        &BasicConsume {
                            queue: queue.as_bytes(),
                            consumer_tag: tag.as_bytes(),
                            arguments,
                            ..BasicConsume::default()
                        },
                    );
                }
            }
            Purpose::Idle { .. } => {
                self.connection.channel_open(CHANNEL + 1);
                self.awaited += 1;
            }
        }
    }

    /// Lets the connection encode one message and takes its frames apart.
    fn template(&mut self) -> Template {
        let Purpose::Publish { targets, is_durable, size, priorities, is_content, headers, .. } =
            &self.purpose
        else {
            unreachable!("only a publisher has a template")
        };
        let delivery_mode = Some(if *is_durable { 2 } else { 1 });
        let headers = Table::new(headers).ok().filter(|_| !headers.is_empty());
        let bodies = match is_content {
            true => content::documents(*size as usize),
            false => vec![vec![b'.'; *size as usize]],
        };
        let mut methods = Vec::new();
        let mut contents = Vec::new();
        for number in 0..(*priorities).max(bodies.len() as u32) {
            let priority = (*priorities > 0).then(|| (number % priorities) as u8);
            let body = &bodies[number as usize % bodies.len()];
            let mut head = Vec::new();
            NewProperties { headers, delivery_mode, priority, ..NewProperties::default() }.write(&mut head);
            let prefix = PublishPrefix::new(CHANNEL, b"", b"", true);
            let before = self.connection.output_mut().own().len();
            self.connection.publish(&prefix, &head, &Body::Bytes(body));
            let mut frames = self.connection.output_mut().own().split_off(before);
            let mut content = Buffer::default();
            content.extend(&frames.split_off(frame_len(&frames)));
            contents.push(content.seal());
        }
        for target in targets {
            let (exchange, routing_key) = match target {
                Target::Queue(name) => (&b""[..], name.as_bytes()),
                Target::Exchange(name) => (name.as_bytes(), &b""[..]),
                Target::Key(name, key) => (name.as_bytes(), key.as_bytes()),
            };
            let prefix = PublishPrefix::new(CHANNEL, exchange, routing_key, true);
            let before = self.connection.output_mut().own().len();
            self.connection.publish(&prefix, &[], &Body::Bytes(&[]));
            let mut frames = self.connection.output_mut().own().split_off(before);
            frames.truncate(frame_len(&frames));
            methods.push(frames.into_boxed_slice());
        }
        let stamp_at = match is_content {
            // In front of the frame's end.
            true => contents[0].len() - 1 - STAMP,
            false => frame_len(&contents[0]) + amqp091::frame::HEAD,
        };
        Template { methods, contents, stamp_at }
    }

    fn answered(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        self.is_ready |= self.awaited == 0;
    }
}

/// Bytes of the whole frame at the start of `bytes`.
fn frame_len(bytes: &[u8]) -> usize {
    let size =
        bytes.get(3..7).and_then(|size| size.first_chunk()).map_or(0, |size| u32::from_be_bytes(*size));
    size as usize + amqp091::frame::OVERHEAD
}

/// Which queue a delivery is from: the consumer tag is the queue's number.
#[inline]
fn queue_of(tag: &[u8]) -> usize {
    tag.iter().fold(0, |number, digit| number * 10 + usize::from(digit.wrapping_sub(b'0')))
}

fn words(code: u16, text: &[u8]) -> String {
    format!("the broker said: {code} {}", String::from_utf8_lossy(text))
}

impl Wire for Amqp091 {
    fn new(now: Now, uri: &Uri, purpose: Purpose) -> Result<Amqp091, String> {
        let heartbeat_s = if let Purpose::Idle { heartbeat } = purpose { heartbeat } else { 60 };
        let has_queues = matches!(&purpose, Purpose::Consume { queues, .. } if queues.len() > 1);
        Ok(Amqp091 {
            connection: Connection::client(limits(heartbeat_s), now),
            uri: uri.clone(),
            purpose,
            awaited: 0,
            is_ready: false,
            is_blocked: false,
            is_closed: false,
            template: None,
            next: 0,
            next_content: 0,
            last_delivered: 0,
            has_queues,
        })
    }

    #[inline]
    fn input(&mut self, now: Now, bytes: &[u8], happenings: &mut impl Happenings) -> Result<usize, String> {
        let mut input = Input::new(bytes);
        while let Some(polled) = self.connection.poll_event(now, &mut input) {
            let gathered;
            let event = match polled {
                Event::Gathered(whole) => {
                    gathered = whole;
                    gathered.event()
                }
                other => other,
            };
            match event {
                Event::Deliver { deliver, body, .. } => {
                    self.last_delivered = deliver.delivery_tag;
                    let queue = if self.has_queues { queue_of(deliver.consumer_tag) } else { 0 };
                    happenings.delivered(queue, deliver.redelivered, body);
                }
                Event::Method { method: Method::BasicAck(ack), .. } => {
                    let number = ack.delivery_tag.wrapping_sub(1);
                    if ack.multiple {
                        happenings.confirmed_up_to(number);
                    } else {
                        happenings.confirmed(number, number);
                    }
                }
                Event::Method { method: Method::BasicNack(nack), .. } => {
                    let number = nack.delivery_tag.wrapping_sub(1);
                    happenings.refused(if nack.multiple { 0 } else { number }, number, "nack");
                }
                Event::Return { returned, .. } => {
                    happenings.returned(&words(returned.reply_code, returned.reply_text));
                }
                Event::Start(_) => log_in(&mut self.connection, &self.uri),
                Event::Tune(proposed) => {
                    let vhost = self.uri.vhost.as_bytes();
                    self.connection.tune_ok_and_open(now, proposed, vhost);
                }
                Event::OpenOk => self.prepare(),
                Event::ChannelOpenOk { .. } => self.answered(),
                Event::Method { method, .. } => match method {
                    Method::ConfirmSelectOk(_) | Method::BasicQosOk(_) | Method::BasicConsumeOk(_) => {
                        self.answered();
                    }
                    Method::ConnectionBlocked(_) => self.is_blocked = true,
                    Method::ConnectionUnblocked(_) => self.is_blocked = false,
                    Method::BasicCancel(_) => return Err("the broker cancelled a consumer".to_owned()),
                    other => return Err(format!("the broker sent {:?}, which nobody asked for", other.id())),
                },
                Event::ChannelClose { close, .. } => return Err(words(close.reply_code, close.reply_text)),
                Event::Close(close) => {
                    let why = words(close.reply_code, close.reply_text);
                    self.connection.close_ok();
                    return Err(why);
                }
                Event::Failed(error) | Event::ChannelFailed { error, .. } => return Err(error.to_string()),
                Event::Closed => {
                    self.is_closed = true;
                    break;
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(input.consumed())
    }

    #[inline]
    fn output(&mut self) -> &mut Output {
        self.connection.output_mut()
    }

    fn deadline(&self) -> Option<u64> {
        self.connection.poll_deadline()
    }

    fn handle_deadline(&mut self, now: Now) -> Result<(), String> {
        self.connection.handle_deadline(now);
        match self.connection.poll_event(now, &mut Input::default()) {
            Some(Event::Failed(error)) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    #[inline]
    fn room(&self) -> u64 {
        if self.is_blocked { 0 } else { u64::MAX }
    }

    #[inline]
    fn publish(&mut self, _now: Now, stamp: [u8; STAMP]) {
        let Some(template) = &self.template else { unreachable!("a publisher that is ready has a template") };
        let (method, content) = (&template.methods[self.next], &template.contents[self.next_content]);
        self.next_content =
            if self.next_content + 1 == template.contents.len() { 0 } else { self.next_content + 1 };
        self.next = if self.next + 1 == template.methods.len() { 0 } else { self.next + 1 };
        let output = self.connection.output_mut();
        let own = output.own();
        if content.len() < REFERENCE_MIN {
            own.reserve(method.len() + content.len());
            own.extend_from_slice(method);
            let at = own.len() + template.stamp_at;
            own.extend_from_slice(content);
            own[at..at + STAMP].copy_from_slice(&stamp);
        } else {
            own.extend_from_slice(method);
            own.extend_from_slice(&content[..template.stamp_at]);
            own.extend_from_slice(&stamp);
            output.extend_from(content, template.stamp_at + STAMP..content.len());
        }
    }

    fn settle(&mut self, _now: Now) {
        self.connection.ack(CHANNEL, self.last_delivered, true);
    }

    fn close(&mut self, now: Now) {
        self.connection.close_connection(now, ReplyCode::Success, "REPLY_SUCCESS - done", MethodId::NONE);
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }
}
