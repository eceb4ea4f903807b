//! Simulated clients: the protocol crates in the client's role, with what an application would remember.
//!
//! A [`Client`] is one connection. It publishes bodies by which a message is known and every byte can be checked; it
//! reports events as [`Seen`], which the oracle judges.

mod amqp091;
mod amqp10;
mod management10;
mod transactions10;

use crate::net::Net;
use crate::rules::{MessageOptions, Rules};
use crate::streams::FIRST_FED;
use base::{Now, Output, Random};

/// Connections there may be at once.
pub const CLIENTS_MAX: usize = 4;

/// Bytes at the front of a body: the number of its message.
pub const ID_BYTES: usize = 8;

/// A request of a client that the broker answers, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A queue, by number.
    Declare(usize),
    /// Whether a queue is there, and whether it must be. Only in 0-9-1.
    Look(usize, bool),
    /// An exchange, by number, and whether it delays.
    DeclareExchange(usize, bool),
    /// A queue at an exchange.
    Bind(usize, usize),
    /// A queue to be emptied.
    Purge(usize),
    /// A queue to be gone.
    Delete(usize),
    /// A consumer, by handle.
    Consume(u32),
    /// A consumer to be gone.
    Cancel(u32),
    /// A message from a queue.
    Get(usize),
    /// The message at this position of a queue.
    Pick(usize, u64),
    /// The message at this position of a queue, to be gone.
    Discard(usize, u64),
    /// The messages of a queue from this position on, a few, to be settled whoever holds them; rejected or accepted.
    SettleAt(usize, u64, bool),
    /// The transaction, to be committed.
    Commit,
    /// The transaction, to be rolled back.
    Rollback,
}

/// An event that a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The connection is open and ready.
    Open,
    /// The broker took the message over.
    Confirmed(u64),
    /// The broker had nowhere to put the message.
    Returned(u64),
    /// The broker did not take the message: a queue is full.
    Refused(u64),
    /// A message came.
    Delivered(Delivery),
    /// A transaction began.
    Begun,
    /// A transaction could not be done as a whole, and none of it was.
    Undone(Transaction),
    /// A reply came, without the way of a queue: its body.
    Replied(Vec<u8>),
    /// The broker did what was asked; where it counted messages, how many.
    Done(Asked, Option<u64>),
    /// There was nothing to get.
    Empty(usize),
    /// The consumer is gone, though nobody here asked for it.
    Cancelled(u32),
    /// The broker ended the connection, a channel or a link: the code or condition, and its words.
    Failed(String),
    /// The connection ended in order.
    Closed,
}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its queue.
    pub queue: usize,
    /// Its consumer; none: it was asked for.
    pub consumer: Option<u32>,
    /// The tag by which it is settled.
    pub tag: u64,
    /// It was asked for by its position: others may be in front of it.
    pub chosen: bool,
    /// The broker says it may have been delivered before.
    pub redelivered: bool,
    /// It needs no settling.
    pub settled: bool,
    /// Where a reply is to go, where one is awaited.
    pub reply_to: Option<String>,
    /// The number of the message, as a client wrote it on it when it gave it back.
    pub note: Option<u64>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A queue.
    Queue(usize),
    /// An exchange.
    Exchange(usize),
    /// A stream.
    Stream(usize),
}

/// Where a queue that is filled from a stream begins in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    First,
    Next,
    Offset(u64),
}

/// How a delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done with.
    Accept,
    /// Thrown away.
    Reject,
    /// Back to the queue.
    Release,
    /// Back to the queue, as failed.
    Fail,
    /// Back to the queue, to come at this time, milliseconds since 1970, and not before. Only in 1.0.
    Postpone(u64),
}

/// Messages that a consumer chooses: those the length of whose body leaves this, by 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants(pub u8);

impl Wants {
    /// Whether it chooses one with a body of so many bytes.
    pub fn holds(self, len: usize) -> bool {
        len % 3 == usize::from(self.0)
    }

    /// As an expression, with a macro or without.
    pub fn text(self) -> String {
        match self.0 {
            0 => "remainder_by(3, 0)".to_owned(),
            own => format!("SIZE() % 3 = {own}"),
        }
    }
}

/// A consumer of a client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its handle, which names it in requests.
    pub handle: u32,
    /// Its queue.
    pub queue: usize,
    /// Its deliveries need no settling.
    pub settled: bool,
    /// It is shown messages and takes none.
    pub browses: bool,
    /// It chooses messages by the length of their bodies.
    pub wants: Option<Wants>,
    /// How many it may hold, 0: any number.
    pub credit: u32,
    /// It was cancelled, by either end.
    pub is_over: bool,
}

/// A delivery a client has not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its message.
    pub message: u64,
    /// Its queue.
    pub queue: usize,
    /// Its consumer; none: it was asked for.
    pub consumer: Option<u32>,
    /// The tag by which it is settled.
    pub tag: u64,
    /// It is a barrier of its queue: what is said of it changes nothing.
    pub is_barrier: bool,
}

/// The content of a transaction under way: nothing of it is visible to anybody before the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Messages, by number.
    pub published: Vec<u64>,
    /// Deliveries settled.
    pub settled: Vec<(Held, Verdict)>,
}

/// The protocol of a connection, and its use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// AMQP 0-9-1 with confirms.
    Amqp091,
    /// AMQP 0-9-1 with transactions.
    Transactional,
    /// AMQP 1.0.
    Amqp10,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not open yet.
    Opening,
    /// Open.
    Open,
    /// It said good-bye and waits for the answer.
    Closing,
    /// Over.
    Over,
}

#[derive(Debug)]
enum Wire {
    Amqp091(Box<amqp091::Wire>),
    Amqp10(Box<amqp10::Wire>),
}

/// Calls the same method of whichever protocol is spoken.
macro_rules! wire {
    ($self:expr, $wire:ident => $call:expr) => {
        match &mut $self.wire {
            Wire::Amqp091($wire) => $call,
            Wire::Amqp10($wire) => $call,
        }
    };
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// Counts all connections of a run.
    pub number: u64,
    /// How far it is.
    pub state: State,
    /// Its consumers.
    pub consumers: Vec<Consumer>,
    /// Its deliveries that are not settled, in the order they came.
    pub held: Vec<Held>,
    /// Requests it has not replied to: message, and where the reply goes.
    pub requests: Vec<(u64, String)>,
    /// Its transaction, where it has one under way.
    pub transaction: Option<Transaction>,
    line: usize,
    wire: Wire,
    tail: Vec<u8>,
    next_handle: u32,
}

impl Client {
    /// A connection over `line` that speaks first.
    pub fn new(number: u64, line: usize, now: Now, kind: Kind, dice: &mut Random) -> Client {
        let is_transactional = kind == Kind::Transactional;
        let wire = match kind {
            Kind::Amqp10 => Wire::Amqp10(Box::new(amqp10::Wire::new(now, dice))),
            _ => Wire::Amqp091(Box::new(amqp091::Wire::new(now, is_transactional, dice))),
        };
        Client {
            number,
            state: State::Opening,
            consumers: Vec::new(),
            held: Vec::new(),
            requests: Vec::new(),
            transaction: is_transactional.then(Transaction::default),
            line,
            wire,
            tail: Vec::new(),
            next_handle: 0,
        }
    }

    /// It can ask for transient queues and single messages.
    pub fn can_ask(&self) -> bool {
        matches!(self.wire, Wire::Amqp091(_))
    }

    /// The line it speaks over.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The name of its protocol.
    pub fn protocol(&self) -> &'static str {
        if self.can_ask() { "0-9-1" } else { "1.0" }
    }

    /// Moves bytes between the line and the connection, as many as is rolled, or all of them; events are appended to
    /// `seen`.
    pub fn exchange(&mut self, now: Now, dice: Option<&mut Random>, net: &mut Net, seen: &mut Vec<Seen>) {
        if self.state == State::Over {
            return;
        }
        let line = net.line(self.line);
        let down = line.down.len() as u64;
        let count = dice.map_or(down, |dice| if dice.one_in(2) { down } else { dice.between(0, down) });
        self.tail.extend(line.down.drain(..count as usize));
        let consumed = wire!(self, wire => wire.input(now, &self.tail, seen));
        self.tail.drain(..consumed);
        for event in &*seen {
            match event {
                Seen::Open => self.state = State::Open,
                Seen::Closed | Seen::Failed(_) => self.state = State::Over,
                Seen::Cancelled(handle) => self.end_consumer(*handle),
                Seen::Begun => self.transaction = Some(Transaction::default()),
                _ => {}
            }
        }
        let line = net.line(self.line);
        let output = wire!(self, wire => wire.output());
        push(output, &mut line.up);
        if self.state == State::Over {
            line.up_ended = true;
        } else if line.down_ended && line.down.is_empty() {
            self.state = State::Over;
            line.up_ended = true;
            seen.push(Seen::Failed("the connection was cut".to_owned()));
        }
    }

    fn end_consumer(&mut self, handle: u32) {
        if let Some(consumer) = self.consumers.iter_mut().find(|it| it.handle == handle) {
            consumer.is_over = true;
        }
    }

    /// Bytes or answers are awaited.
    pub fn is_waiting(&self) -> bool {
        match &self.wire {
            Wire::Amqp091(wire) => wire.is_waiting(),
            Wire::Amqp10(wire) => wire.is_waiting(),
        }
    }

    /// Publishes; false: the broker lets it send nothing there now, so nothing was said.
    pub fn publish(
        &mut self,
        target: Target,
        id: u64,
        len: usize,
        is_durable: bool,
        is_settled: bool,
        options: &MessageOptions,
    ) -> bool {
        let body = body(id, len);
        wire!(self, wire => wire.publish(target, id, &body, is_durable, is_settled, options))
    }

    /// Publishes a request to a queue; the reply is to come straight to this connection. Only in 0-9-1.
    pub fn request(&mut self, queue: usize, id: u64, len: usize, is_durable: bool) {
        if let Wire::Amqp091(wire) = &mut self.wire {
            wire.request(queue, id, &body(id, len), is_durable);
        }
    }

    /// Replies to a request. Only in 0-9-1.
    pub fn reply(&mut self, address: &str, id: u64, len: usize) {
        if let Wire::Amqp091(wire) = &mut self.wire {
            wire.reply(address, id, &body(id, len));
        }
    }

    /// Opens a consumer. `credit`: how many it may hold, 0: any number.
    pub fn consume(&mut self, queue: usize, credit: u32, settled: bool, wants: Option<Wants>) -> u32 {
        self.open(queue, credit, settled, (false, wants))
    }

    /// Opens a browser. `credit`: how many it may be shown before it settles one, 0: any number.
    pub fn browse(&mut self, queue: usize, credit: u32, settled: bool) -> u32 {
        self.open(queue, credit, settled, (true, None))
    }

    fn open(
        &mut self,
        queue: usize,
        credit: u32,
        settled: bool,
        (browses, wants): (bool, Option<Wants>),
    ) -> u32 {
        let handle = self.next_handle;
        self.next_handle += 1;
        let consumer = Consumer { handle, queue, settled, browses, wants, credit, is_over: false };
        self.consumers.push(consumer);
        wire!(self, wire => wire.consume(&consumer, credit));
        handle
    }

    /// The consumers that are to be given whatever is ready in their queue. Over AMQP 1.0 credit is granted again as it is used.
    pub fn hungry(&self) -> impl Iterator<Item = &Consumer> {
        let settled = self.transaction.iter().flat_map(|of| of.settled.iter().map(|(held, _)| held));
        let held: Vec<Option<u32>> = self.held.iter().chain(settled).map(|held| held.consumer).collect();
        self.consumers.iter().filter(move |it| {
            let holds = held.iter().filter(|consumer| **consumer == Some(it.handle)).count();
            let has_credit = !self.can_ask() || it.settled || it.credit == 0 || holds < it.credit as usize;
            self.state == State::Open && !it.is_over && !it.browses && it.wants.is_none() && has_credit
        })
    }

    /// Whether that consumer browses.
    pub fn browses(&self, consumer: Option<u32>) -> bool {
        self.consumers.iter().any(|it| Some(it.handle) == consumer && it.browses)
    }

    /// Settles what a browser was shown.
    pub fn settle_shown(&mut self, tag: u64, verdict: Verdict) {
        wire!(self, wire => wire.settle(tag, false, verdict));
    }

    /// Ends a consumer. Its deliveries stay held in 0-9-1; in 1.0 they go back, and are returned.
    pub fn cancel(&mut self, handle: u32) -> Vec<Held> {
        self.end_consumer(handle);
        wire!(self, wire => wire.cancel(handle));
        if self.can_ask() {
            return Vec::new();
        }
        let is_its = |held: &Held| held.consumer == Some(handle);
        let (mut gone, kept): (Vec<Held>, _) = self.held.iter().partition(|held| is_its(held));
        self.held = kept;
        if let Some(transaction) = &mut self.transaction {
            gone.extend(transaction.settled.extract_if(.., |(held, _)| is_its(held)).map(|(held, _)| held));
        }
        gone
    }

    /// Settles what is held with this tag, or all of the 0-9-1 channel up to it.
    pub fn settle(&mut self, tag: u64, through: bool, verdict: Verdict) -> Vec<Held> {
        let through = through && self.can_ask() && verdict != Verdict::Fail;
        let is_meant = |held: &Held| held.tag == tag || (through && held.tag < tag);
        let (gone, kept): (Vec<Held>, _) = self.held.iter().partition(|held| is_meant(held));
        self.held = kept;
        wire!(self, wire => wire.settle(tag, through, verdict));
        if let Some(transaction) = &mut self.transaction {
            transaction.settled.extend(gone.iter().map(|held| (*held, verdict)));
        }
        gone
    }

    /// Asks for a transaction; only AMQP 1.0 has to, and only where none is under way.
    pub fn begin_transaction(&mut self) {
        if let (Wire::Amqp10(wire), None) = (&mut self.wire, &self.transaction) {
            wire.begin_transaction();
        }
    }

    /// Ends the transaction under way; its content, if any. Deliveries it settled are held again after a rollback in
    /// 0-9-1, and go back to their queues in 1.0.
    pub fn end_transaction(&mut self, commits: bool) -> Option<Transaction> {
        let is_empty = |of: &Transaction| of.published.is_empty() && of.settled.is_empty();
        let ended = self.transaction.as_mut().filter(|of| !is_empty(of)).map(std::mem::take)?;
        match &mut self.wire {
            Wire::Amqp091(wire) => {
                wire.end_transaction(commits, &ended.published);
                if !commits {
                    self.held.extend(ended.settled.iter().map(|(held, _)| *held));
                }
            }
            Wire::Amqp10(wire) => {
                wire.end_transaction(commits, &ended);
                self.transaction = None;
            }
        }
        Some(ended)
    }

    /// Everything it holds, what it settled in a transaction that is not over included.
    pub fn take_held(&mut self) -> Vec<Held> {
        let mut held = std::mem::take(&mut self.held);
        if let Some(transaction) = self.transaction.as_mut().map(std::mem::take) {
            held.extend(transaction.settled.into_iter().map(|(held, _)| held));
        }
        held
    }

    /// Asks for something; for single messages only where [`Client::can_ask`].
    pub fn ask(&mut self, asked: Asked) {
        wire!(self, wire => wire.ask(asked));
    }

    /// Declares a queue; a transient one only where [`Client::can_ask`].
    pub fn declare(&mut self, queue: usize, is_quorum: bool, is_durable: bool, rules: &Rules) {
        match &mut self.wire {
            Wire::Amqp091(wire) => wire.declare(queue, is_quorum, is_durable, rules),
            Wire::Amqp10(wire) => wire.declare(queue, is_quorum, rules),
        }
    }

    /// Declares a queue that is filled from a stream. Only where [`Client::can_ask`].
    pub fn declare_fed(
        &mut self,
        queue: usize,
        is_quorum: bool,
        stream: &str,
        begin: Begin,
        value: Option<&str>,
        length_max: Option<u64>,
    ) {
        if let Wire::Amqp091(wire) = &mut self.wire {
            wire.declare_fed(queue, is_quorum, stream, begin, value, length_max);
        }
    }

    /// Says good-bye.
    pub fn close(&mut self, now: Now) {
        self.state = State::Closing;
        wire!(self, wire => wire.close(now));
    }

    /// Is gone without a word; of what it said last, some may be lost.
    pub fn vanish(&mut self, net: &mut Net) {
        self.state = State::Over;
        net.line(self.line).up_ended = true;
    }
}

pub fn push(output: &mut Output, into: &mut Vec<u8>) {
    output.slices(usize::MAX, |slice| into.extend_from_slice(slice));
    let len = output.len();
    output.sent(len);
}

/// The name of a queue.
pub fn queue_name(queue: usize) -> String {
    match queue.checked_sub(FIRST_FED) {
        Some(fed) => format!("f{fed:04}"),
        None => format!("q{queue:04}"),
    }
}

/// The name of an exchange.
pub fn exchange_name(exchange: usize) -> String {
    format!("x{exchange:04}")
}

/// The body of message `id`, `len` bytes or [`ID_BYTES`] if that is more.
pub fn body(id: u64, len: usize) -> Vec<u8> {
    let mut body = id.to_le_bytes().to_vec();
    body.extend((ID_BYTES..len).map(|at| filler(id, at)));
    body
}

fn filler(id: u64, at: usize) -> u8 {
    (id.wrapping_mul(0x9E37_79B9) >> 8) as u8 ^ at as u8 ^ (at >> 8) as u8
}

/// The annotation in which a client that gives a message back over AMQP 1.0 writes the message's number.
const NOTE: &str = "x-note";

/// The number of a body's message, and its length; none: its bytes are not as they were published.
pub fn read_body(body: &[u8]) -> Option<(u64, usize)> {
    let id = u64::from_le_bytes(*body.first_chunk::<ID_BYTES>()?);
    let is_right = body.iter().enumerate().skip(ID_BYTES).all(|(at, byte)| *byte == filler(id, at));
    is_right.then_some((id, body.len()))
}
