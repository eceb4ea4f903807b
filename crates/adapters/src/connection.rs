//! One connection: its protocol once it is known, and the methods of every adapter.

use crate::alarm::Alarm;
use crate::context::Context;
use crate::credentials::Outcome;
use crate::settings::{Peer, Protocol, Settings};
use crate::{amqp10, amqp091, stream};
use base::id::ShardId;
use base::{Now, Output};
use broker::catalog::{Catalog, VhostId};
use broker::{ConnectionRow, Depth, Event, Events, Opened, SessionRow};
use std::sync::Arc;

/// The adapter of a connection: the one of its protocol, or none while that is not known.
#[derive(Debug)]
pub(crate) enum Adapter {
    /// The first eight bytes have not come yet.
    Greeting(Box<Greeting>),
    Amqp091(Box<amqp091::Adapter>),
    Amqp10(Box<amqp10::Adapter>),
    Stream(Box<stream::Adapter>),
}

/// Waits for the protocol header.
#[derive(Debug)]
pub(crate) struct Greeting {
    deadline: u64,
    is_over: bool,
    output: Output,
}

impl Greeting {
    /// Answers with the protocol spoken here and ends the connection; all of `bytes` is done with.
    fn refuse(&mut self, answer: &[u8; 8], bytes: &[u8]) -> usize {
        self.output.extend(answer);
        self.is_over = true;
        bytes.len()
    }
}

/// Calls the same method of whichever adapter there is; `$greeting` while there is none.
macro_rules! with_adapter {
    ($connection:expr, $adapter:ident => $call:expr, $greeting:ident => $before:expr) => {
        match $connection {
            Adapter::Greeting($greeting) => $before,
            Adapter::Amqp091($adapter) => $call,
            Adapter::Amqp10($adapter) => $call,
            Adapter::Stream($adapter) => $call,
        }
    };
}

impl Adapter {
    pub(crate) fn new(now: Now, settings: &Settings, peer: &Peer) -> Adapter {
        if peer.protocol == Protocol::Stream {
            return Adapter::Stream(Box::new(stream::Adapter::new(now, settings, peer)));
        }
        let deadline = now.after_ms(settings.handshake_ms_max);
        Adapter::Greeting(Box::new(Greeting { deadline, is_over: false, output: Output::default() }))
    }

    /// Takes in bytes from the peer and says how many it is done with; the rest is to come again, with more behind it.
    #[inline]
    pub(crate) fn input(&mut self, context: &mut Context<'_>, peer: &Peer, bytes: &[u8]) -> usize {
        if let Adapter::Greeting(greeting) = self {
            let Some(header) = bytes.first_chunk::<8>() else { return 0 };
            match ::amqp091::detect(header) {
                ::amqp091::Detected::Amqp091 => {
                    *self = Adapter::Amqp091(Box::new(amqp091::Adapter::new(context, peer)));
                }
                ::amqp091::Detected::Amqp10Sasl => {
                    *self = Adapter::Amqp10(Box::new(amqp10::Adapter::new(context, peer)));
                }
                // Nobody comes in without a login: one that skips it is told where it begins.
                ::amqp091::Detected::Amqp10 => return greeting.refuse(&::amqp091::frame::SASL_HEADER, bytes),
                ::amqp091::Detected::Unknown(answer) => return greeting.refuse(&answer, bytes),
            }
        }
        with_adapter!(self, adapter => adapter.input(context, bytes), _greeting => bytes.len())
    }

    /// Nothing is known of the peer yet.
    #[inline]
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self, Adapter::Greeting(_))
    }

    #[inline]
    pub(crate) fn event(&mut self, context: &mut Context<'_>, event: &Event, events: &Events) {
        with_adapter!(self, adapter => adapter.event(context, event, events), greeting => {
            // A peer that has said nothing yet need not be told why.
            greeting.is_over |= matches!(event, Event::Close { .. });
        });
    }

    /// Its password was compared.
    #[cold]
    pub(crate) fn tried(&mut self, context: &mut Context<'_>, outcome: Outcome) {
        with_adapter!(self, adapter => adapter.tried(context, outcome), _greeting => {});
    }

    /// The turn ends: the confirms and credit gathered in it are to be sent now.
    pub(crate) fn end_turn(&mut self, context: &mut Context<'_>) {
        with_adapter!(self, adapter => adapter.end_turn(context), _greeting => {});
    }

    #[inline]
    pub(crate) fn output(&mut self) -> &mut Output {
        with_adapter!(self, adapter => adapter.output(), greeting => &mut greeting.output)
    }

    /// Bytes to be sent.
    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        with_adapter!(self, adapter => adapter.output_len(), greeting => greeting.output.len())
    }

    /// Bytes of memory of the output.
    pub(crate) fn output_bytes(&self) -> usize {
        with_adapter!(self, adapter => adapter.output_bytes(), greeting => greeting.output.capacity())
    }

    /// Bytes that its channels, sessions, links, consumers and the like take, here and elsewhere on the shards, and its
    /// deliveries that are not settled.
    #[inline]
    pub(crate) fn table_bytes(&mut self) -> usize {
        with_adapter!(self, adapter => adapter.table_bytes(), _greeting => 0)
    }

    /// Whether those bytes are counted in the ledger of memory.
    #[inline]
    pub(crate) fn counts_tables(&self) -> bool {
        with_adapter!(self, adapter => adapter.counts_tables, _greeting => false)
    }

    /// See [`Adapter::counts_tables`].
    pub(crate) fn set_counts_tables(&mut self, counts: bool) {
        with_adapter!(self, adapter => adapter.counts_tables = counts, _greeting => {});
    }

    /// It waits for the broker and wants no input for now.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        with_adapter!(self, adapter => adapter.is_waiting(), _greeting => false)
    }

    /// A command of its is done in part: the rest is for later turns.
    #[cold]
    pub(crate) fn is_unfinished(&self) -> bool {
        matches!(self, Adapter::Amqp091(adapter) if adapter.is_unfinished())
    }

    /// Goes on with a command that is done in part; false: there is none.
    #[cold]
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) -> bool {
        if let Adapter::Amqp091(adapter) = self { adapter.go_on(context) } else { false }
    }

    /// Its publishers are to be given credit once the broker is no longer congested, and nothing else may come that would
    /// end a turn of it.
    pub(crate) fn is_due(&self) -> bool {
        matches!(self, Adapter::Amqp10(adapter) if adapter.is_due())
    }

    /// It publishes: not to be read while the broker is congested or an alarm is on.
    pub(crate) fn is_publishing(&self) -> bool {
        with_adapter!(self, adapter => adapter.is_publishing(), _greeting => false)
    }

    /// Nothing more is to be read; the socket is to be closed when all output is sent.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        with_adapter!(self, adapter => adapter.is_over(), greeting => greeting.is_over)
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        with_adapter!(self, adapter => adapter.deadline(), greeting => Some(greeting.deadline))
    }

    pub(crate) fn handle_deadline(&mut self, context: &mut Context<'_>) {
        with_adapter!(self, adapter => adapter.handle_deadline(context), greeting => {
            greeting.is_over |= context.now.mono_ns >= greeting.deadline;
        });
    }

    /// The socket is gone.
    pub(crate) fn closed(&mut self, context: &mut Context<'_>) {
        with_adapter!(self, adapter => adapter.closed(context), _greeting => {});
    }

    /// The connection's input is taken, or left alone for a while: then the peer's silence means nothing.
    pub(crate) fn set_reading(&mut self, now: Now, reads: bool) {
        with_adapter!(self, adapter => adapter.set_reading(now, reads), _greeting => {});
    }

    /// The peer took some of its output: that is a sign of life while nothing it says is heard.
    pub(crate) fn note_alive(&mut self) {
        with_adapter!(self, adapter => adapter.note_alive(), _greeting => {});
    }

    /// Consumers are to pause, or to go on, because of how much there is to send.
    pub(crate) fn set_paused(&mut self, context: &mut Context<'_>, paused: bool) {
        with_adapter!(self, adapter => adapter.set_paused(context, paused), _greeting => {});
    }

    /// Whether the alarm concerns it. Streams are written to disk with little memory, too, as in RabbitMQ.
    pub(crate) fn heeds(&self, alarm: Alarm, peer: &Peer) -> bool {
        match self {
            Adapter::Stream(_) => alarm.is_of_disk(),
            Adapter::Amqp091(_) => !peer.ignores_alarms(),
            Adapter::Greeting(_) | Adapter::Amqp10(_) => true,
        }
    }

    /// An alarm was raised or cleared: publishers are blocked or not, and why.
    pub(crate) fn set_blocked(&mut self, context: &mut Context<'_>, alarm: Option<Alarm>) {
        with_adapter!(self, adapter => adapter.set_blocked(context, alarm), _greeting => {});
    }

    /// The shard it is to go to, and can go to now.
    pub(crate) fn goal(&self) -> Option<ShardId> {
        match self {
            Adapter::Amqp091(adapter) => adapter.goal(),
            Adapter::Amqp10(adapter) => adapter.goal(),
            Adapter::Stream(adapter) => adapter.goal(),
            Adapter::Greeting(_) => None,
        }
    }

    /// It leaves its shard.
    pub(crate) fn depart(&mut self, context: &mut Context<'_>) {
        match self {
            Adapter::Amqp10(adapter) => adapter.depart(context),
            Adapter::Stream(adapter) => adapter.depart(context),
            Adapter::Greeting(_) | Adapter::Amqp091(_) => {}
        }
    }

    /// It is at home at another shard from now on, by another port.
    pub(crate) fn arrive(&mut self, context: &mut Context<'_>) {
        match self {
            Adapter::Amqp091(adapter) => adapter.arrive(context),
            Adapter::Amqp10(adapter) => adapter.arrive(context),
            Adapter::Stream(adapter) => adapter.arrive(context),
            Adapter::Greeting(_) => unreachable!("it has no goal"),
        }
    }

    pub(crate) fn row(&self, catalog: &Catalog) -> ConnectionRow {
        with_adapter!(self, adapter => adapter.row(catalog), _greeting => ConnectionRow::default())
    }

    /// The user it acts for, once it is open.
    pub(crate) fn user(&self) -> Option<&Arc<str>> {
        with_adapter!(self, adapter => adapter.user(), _greeting => None)
    }

    /// The virtual host it is in, once it is open.
    pub(crate) fn vhost(&self) -> Option<VhostId> {
        with_adapter!(self, adapter => adapter.vhost(), _greeting => None)
    }

    /// How many channels or sessions it has.
    pub(crate) fn channels(&self) -> usize {
        match self {
            Adapter::Amqp091(adapter) => adapter.channels(),
            Adapter::Amqp10(adapter) => adapter.channels(),
            Adapter::Stream(_) | Adapter::Greeting(_) => 0,
        }
    }

    /// Rows of its channels and consumers, into `opened`.
    pub(crate) fn list(&self, catalog: &Catalog, depth: Depth, opened: &mut Opened) {
        match self {
            Adapter::Amqp091(adapter) => adapter.list(catalog, depth, opened),
            Adapter::Amqp10(adapter) => adapter.list(catalog, depth, opened),
            Adapter::Stream(adapter) => adapter.list(depth, opened),
            Adapter::Greeting(_) => {}
        }
    }

    /// Its sessions; none: its protocol has none.
    pub(crate) fn sessions(&self, catalog: &Catalog) -> Option<Vec<SessionRow>> {
        match self {
            Adapter::Amqp10(adapter) => Some(adapter.session_rows(catalog)),
            Adapter::Greeting(_) | Adapter::Amqp091(_) | Adapter::Stream(_) => None,
        }
    }

    /// The counts of each of its channels, to `each`.
    pub(crate) fn tallies(&self, each: impl FnMut(u16, broker::Tally)) {
        if let Adapter::Amqp091(adapter) = self {
            adapter.tallies(each);
        }
    }

    /// Bytes of memory it holds besides itself, output apart.
    pub(crate) fn heap_bytes(&self) -> usize {
        with_adapter!(self, adapter => adapter.heap_bytes(), _greeting => 0)
    }
}
