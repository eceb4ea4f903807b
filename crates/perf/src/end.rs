//! One end of a run: a connection with its socket, and its publisher or consumer.
//!
//! An end does one read, one burst of publishing and one write per turn; [`crate::worker`] calls the turns.

use crate::confirms::Confirms;
use crate::meter::Meter;
use crate::stamp::{Seen, Stamp};
use crate::stream::Stream;
use crate::wire::{Happenings, Wire};
use base::{Now, Output};
use hdrhistogram::Histogram;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

/// Bytes waiting for the socket from which on nothing more is published.
const BURST: usize = 128 << 10;

/// Largest latency told, microseconds: over an hour.
const LATENCY_MAX_US: u64 = 1 << 32;

/// An empty histogram of latencies in microseconds, exact to three digits.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("the bounds are in order")
}

/// The side of the load that an end is, with its counts.
#[derive(Debug)]
pub enum Role {
    /// Publishes.
    Publisher(Box<Publisher>),
    /// Consumes.
    Consumer(Box<Consumer>),
}

/// A publisher's counts.
#[derive(Debug)]
pub struct Publisher {
    /// Its number in stamps.
    pub index: u16,
    /// Messages it has to publish.
    pub quota: u64,
    /// Unconfirmed messages it may have; 0: no bound of its own.
    pub window: u64,
    /// Whether it waits for confirms at all.
    pub is_confirmed: bool,
    /// Messages per second.
    pub rate: Option<f64>,
    /// Messages published.
    pub published: u64,
    /// Messages refused or returned.
    pub refused: u64,
    /// The first reason for a refusal.
    pub refusal: Option<String>,
    /// From the write to the confirm, microseconds.
    pub latency: Histogram<u64>,
    confirms: Confirms,
    told: u64,
    started_ns: Option<u64>,
    /// Confirmed in this turn.
    fresh: u64,
}

/// A consumer's counts.
#[derive(Debug)]
pub struct Consumer {
    /// The messages that came.
    pub seen: Seen,
    /// From the publisher's write to here, microseconds.
    pub latency: Histogram<u64>,
    /// Bytes a body must have.
    pub size: usize,
    /// The run's number of each of its queues.
    pub queues: Vec<usize>,
    /// Deliveries that are settled together.
    pub ack_every: u64,
    /// Bodies have their stamp at the end.
    pub is_content: bool,
    /// Came in this turn.
    fresh: u64,
    unsettled: u64,
    now_us: u32,
    /// Deliveries with one time of sending, not yet in the histogram: they come in runs.
    run: (u32, u64),
}

impl Publisher {
    /// A publisher that has done nothing.
    pub fn new(index: u16, quota: u64, window: u64, is_confirmed: bool, rate: Option<f64>) -> Publisher {
        Publisher {
            index,
            quota,
            window,
            is_confirmed,
            rate,
            published: 0,
            refused: 0,
            refusal: None,
            latency: latencies(),
            confirms: Confirms::default(),
            told: 0,
            started_ns: None,
            fresh: 0,
        }
    }

    fn is_done(&self, meter: &Meter) -> bool {
        (self.published == self.quota || meter.is_enough())
            && (!self.is_confirmed || self.confirms.outstanding() == 0)
    }

    /// Messages the window, the quota, the rate and the lead allow now, and when to look again if it is the rate that
    /// forbids (nanoseconds).
    fn allowance(&mut self, now_ns: u64, meter: &Meter, lead: Option<u64>) -> (u64, Option<u64>) {
        if meter.is_enough() {
            return (0, None);
        }
        let mut allowed = self.quota - self.published;
        let mut again = None;
        if self.window > 0 {
            allowed = allowed.min(self.window.saturating_sub(self.confirms.outstanding()));
        }
        if let Some(rate) = self.rate {
            let started = *self.started_ns.get_or_insert(now_ns);
            let due = ((now_ns - started) as f64 * rate / 1e9) as u64 + 1;
            if due <= self.published {
                again = Some(started + (self.published as f64 * 1e9 / rate) as u64 + 1);
            }
            allowed = allowed.min(due.saturating_sub(self.published));
        }
        if let Some(lead) = lead {
            let ahead = meter.published.get().saturating_sub(meter.consumed.get());
            if ahead >= lead && allowed > 0 {
                meter.wait_for_consumers();
            }
            let ahead = meter.published.get().saturating_sub(meter.consumed.get());
            allowed = allowed.min(lead.saturating_sub(ahead));
        }
        (allowed, again)
    }
}

impl Consumer {
    /// A consumer that has seen nothing.
    pub fn new(seen: Seen, queues: Vec<usize>, size: usize, ack_every: u64) -> Consumer {
        Consumer {
            seen,
            queues,
            latency: latencies(),
            size,
            ack_every,
            is_content: false,
            fresh: 0,
            unsettled: 0,
            now_us: 0,
            run: (0, 0),
        }
    }

    #[inline]
    fn end_run(&mut self) {
        let (sent_us, count) = self.run;
        if count > 0 {
            self.latency.saturating_record_n(u64::from(self.now_us.wrapping_sub(sent_us)), count);
        }
    }
}

impl Happenings for Role {
    #[inline]
    fn confirmed(&mut self, first: u64, last: u64) {
        if let Role::Publisher(publisher) = self {
            publisher.fresh += publisher.confirms.range(first, last);
        }
    }

    #[inline]
    fn confirmed_up_to(&mut self, last: u64) {
        if let Role::Publisher(publisher) = self {
            publisher.fresh += publisher.confirms.up_to(last);
        }
    }

    fn refused(&mut self, first: u64, last: u64, why: &str) {
        if let Role::Publisher(publisher) = self {
            let count = publisher.confirms.range(first, last);
            publisher.fresh += count;
            publisher.refused += count;
            publisher.refusal.get_or_insert_with(|| why.to_owned());
        }
    }

    fn returned(&mut self, why: &str) {
        if let Role::Publisher(publisher) = self {
            publisher.refused += 1;
            publisher.refusal.get_or_insert_with(|| why.to_owned());
        }
    }

    #[inline]
    fn delivered(&mut self, queue: usize, is_redelivered: bool, body: &[u8]) {
        let Role::Consumer(consumer) = self else { return };
        consumer.fresh += 1;
        let stamp = if consumer.is_content { Stamp::read_last(body) } else { Stamp::read(body) };
        let Some(stamp) = stamp else {
            consumer.seen.note_foreign();
            return;
        };
        consumer.seen.note(consumer.queues[queue], stamp, body.len() == consumer.size, is_redelivered);
        if consumer.run.0 == stamp.sent_us {
            consumer.run.1 += 1;
        } else {
            consumer.end_run();
            consumer.run = (stamp.sent_us, 1);
        }
    }
}

/// The events that an end waits for after a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The socket takes no more.
    pub for_space: bool,
    /// There is more to publish at once.
    pub nothing: bool,
    /// The moment to look again.
    pub until_ns: Option<u64>,
}

/// A connection with its role.
#[derive(Debug)]
pub struct End<W> {
    /// The protocol's side.
    pub wire: W,
    /// The load's side.
    pub role: Role,
    /// The beginning of a frame; its rest has not come.
    tail: Vec<u8>,
    is_closing: bool,
    is_gone: bool,
}

impl<W: Wire> End<W> {
    /// An end whose connection was just made.
    pub fn new(wire: W, role: Role) -> End<W> {
        End { wire, role, tail: Vec::new(), is_closing: false, is_gone: false }
    }

    /// Reads bytes that `stream` has, as many as fit `buffer`, and takes them in.
    ///
    /// # Errors
    /// The connection ended or broke, or an answer of the broker ends the run.
    pub fn read(
        &mut self,
        stream: &mut Stream<TcpStream>,
        buffer: &mut [u8],
        meter: &Meter,
    ) -> Result<(), String> {
        let kept = self.tail.len();
        buffer[..kept].copy_from_slice(&self.tail);
        let len = match stream.read(&mut buffer[kept..]) {
            Ok(0) => return self.gone("the broker closed the connection"),
            Ok(count) => kept + count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return self.gone(&format!("the connection broke: {error}")),
        };
        let now = meter.now();
        if let Role::Consumer(consumer) = &mut self.role {
            consumer.now_us = (now.mono_ns / 1000) as u32;
        }
        let taken = self.wire.input(now, &buffer[..len], &mut self.role);
        let taken = if self.is_closing { taken.unwrap_or(len) } else { taken? };
        self.tail.clear();
        self.tail.extend_from_slice(&buffer[taken..len]);
        if self.tail.len() == buffer.len() {
            return Err("the broker sent a frame larger than agreed".to_owned());
        }
        self.is_gone |= self.wire.is_closed();
        self.tell(now, meter);
        Ok(())
    }

    fn gone(&mut self, why: &str) -> Result<(), String> {
        self.is_gone = true;
        if self.is_closing { Ok(()) } else { Err(why.to_owned()) }
    }

    /// Passes the counts of this turn on.
    fn tell(&mut self, now: Now, meter: &Meter) {
        match &mut self.role {
            Role::Publisher(publisher) if publisher.fresh > 0 => {
                meter.confirmed.add(publisher.fresh);
                publisher.fresh = 0;
                let Publisher { confirms, told, latency, .. } = &mut **publisher;
                let record = |count, sent_ns: u64| {
                    latency.saturating_record_n((now.mono_ns - sent_ns) / 1000, count);
                };
                confirms.latencies(record, told);
                meter.note_publish(now.mono_ns);
            }
            Role::Consumer(consumer) if consumer.fresh > 0 => {
                consumer.end_run();
                consumer.run = (0, 0);
                meter.add_consumed(consumer.fresh);
                consumer.unsettled += consumer.fresh;
                consumer.fresh = 0;
                meter.note_delivery(now.mono_ns);
            }
            _ => {}
        }
    }

    /// Publishes or settles the messages that are due, and writes.
    ///
    /// # Errors
    /// The connection broke, or the broker was silent for too long.
    pub fn act(
        &mut self,
        stream: &mut Stream<TcpStream>,
        meter: &Meter,
        lead: Option<u64>,
    ) -> Result<Wait, String> {
        let now = meter.now();
        if self.wire.deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
            self.wire.handle_deadline(now)?;
        }
        let mut wait = Wait { until_ns: self.wire.deadline(), ..Wait::default() };
        if self.is_gone || self.is_closing {
            wait.for_space = !self.is_gone && !self.flush(stream)?;
            return Ok(wait);
        }
        match &mut self.role {
            Role::Publisher(publisher) if self.wire.is_ready() && meter.is_started() => {
                let (allowed, again) = publisher.allowance(now.mono_ns, meter, lead);
                let count = publish(&mut self.wire, publisher, allowed, now);
                if count > 0 {
                    meter.note_publish(now.mono_ns);
                    meter.published.add(count);
                }
                wait.nothing = count < allowed && self.wire.room() > 0;
                if let Some(again) = again {
                    wait.until_ns = Some(wait.until_ns.map_or(again, |until| until.min(again)));
                }
            }
            Role::Consumer(consumer) => {
                let is_last = meter.consumed.get() >= meter.due();
                if consumer.unsettled >= consumer.ack_every || (is_last && consumer.unsettled > 0) {
                    consumer.unsettled = 0;
                    self.wire.settle(now);
                }
            }
            Role::Publisher(_) => {}
        }
        wait.for_space = !self.flush(stream)?;
        wait.nothing &= !wait.for_space;
        Ok(wait)
    }

    /// Writes the output; true if all went.
    fn flush(&mut self, stream: &mut Stream<TcpStream>) -> Result<bool, String> {
        let is_closing = self.is_closing;
        let written = flush(self.wire.output(), stream).and_then(|is_all| Ok(is_all && stream.push()?));
        written.or_else(|error| match is_closing {
            true => Ok(true),
            false => Err(format!("the connection broke: {error}")),
        })
    }

    /// Whether it did all it is there for.
    pub fn is_done(&mut self, meter: &Meter) -> bool {
        let is_done = match &self.role {
            Role::Publisher(publisher) => publisher.is_done(meter),
            Role::Consumer(consumer) => consumer.unsettled == 0 && meter.consumed.get() >= meter.due(),
        };
        is_done && self.wire.output().is_empty()
    }

    /// Says good-bye to the broker.
    pub fn close(&mut self, now: Now) {
        self.is_closing = true;
        self.wire.close(now);
    }

    /// Whether nothing more will come.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Messages still unconfirmed.
    pub fn unconfirmed(&self) -> u64 {
        match &self.role {
            Role::Publisher(publisher) if publisher.is_confirmed => publisher.confirms.outstanding(),
            _ => 0,
        }
    }
}

/// Publishes up to `allowed` messages, a burst at most; returns how many.
#[inline]
fn publish<W: Wire>(wire: &mut W, publisher: &mut Publisher, allowed: u64, now: Now) -> u64 {
    let sent_us = (now.mono_ns / 1000) as u32;
    let mut left = allowed;
    while left > 0 && wire.output().len() < BURST {
        // So many that a look at the output's length now and then bounds a burst.
        let count = wire.room().min(left).min(64);
        if count == 0 {
            break;
        }
        for _ in 0..count {
            let stamp = Stamp { publisher: publisher.index, sequence: publisher.published, sent_us };
            wire.publish(now, stamp.bytes());
            publisher.published += 1;
        }
        left -= count;
    }
    let count = allowed - left;
    if count > 0 && publisher.is_confirmed {
        publisher.confirms.sent(count, now.mono_ns);
    }
    count
}

/// Writes `output`; true if all went.
///
/// # Errors
/// The connection broke.
pub fn flush(output: &mut Output, socket: &mut impl Write) -> io::Result<bool> {
    while !output.is_empty() {
        let mut slices = [IoSlice::new(&[]); 32];
        let mut count = 0;
        output.slices(slices.len(), |slice| {
            slices[count] = IoSlice::new(slice);
            count += 1;
        });
        let wanted = slices[..count].iter().map(|slice| slice.len()).sum::<usize>();
        match socket.write_vectored(&slices[..count]) {
            Ok(sent) => {
                output.sent(sent);
                if sent < wanted {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
