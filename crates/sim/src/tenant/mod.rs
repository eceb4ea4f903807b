//! A hostile tenant: a user with all rights in a virtual host of his own, whose commands are as dear as he can make them.
//!
//! Nothing is judged of what he is told: the oracle is about the others, in virtual host `/`, who are promised the same
//! as without him. Each turn of a shard is held to its units of work, see [`most_work`].

mod commands;

use crate::client::push;
use crate::machine::Makeup;
use crate::net::Net;
use ::amqp091::{Connection, Event, Input, Limits as WireLimits};
use adapters::Settings;
use base::{Now, Random};
use broker::Shard;
use message::amqp091::Table;

/// His name, his password and his virtual host.
pub const TENANT: &str = "tenant";

/// Connections he has at once.
pub const TENANT_CLIENTS_MAX: usize = 3;

/// Queues he has at once.
const QUEUES_MAX: u64 = 48;

/// Queues of his that floods go to.
const FLOODED_QUEUES: u64 = 48;

/// Exchanges he has.
const EXCHANGES: u64 = 8;

/// Publishes in a transaction of his at most.
const COMMITTED_MAX: u64 = 60;

/// Units of work that a message takes for each of its queues.
const QUEUE_PRICE: u64 = 60;

/// Units that a dead letter takes besides its route and its queues.
const LETTER_PRICE: u64 = 400;

/// Units that each user has first, though a turn has none left.
const FIRST_UNITS: u64 = 2_000;

/// The channel of publishes and declarations, that of transactions, and that on which a body never ends.
const CHANNELS: [u16; 3] = [1, 2, 3];

/// One of his connections.
#[derive(Debug)]
pub struct TenantClient {
    line: usize,
    connection: Connection,
    tail: Vec<u8>,
    /// Channels on which something can be said.
    open: [bool; 3],
    /// It reads nothing of what it is told.
    is_deaf: bool,
    /// A body was begun on its third channel.
    has_half_body: bool,
    pub is_over: bool,
}

impl TenantClient {
    pub fn new(line: usize, now: Now) -> TenantClient {
        let limits = WireLimits { heartbeat_s: 0, handshake_ms_max: u32::MAX, ..WireLimits::default() };
        TenantClient {
            line,
            connection: Connection::client(limits, now),
            tail: Vec::new(),
            open: [false; 3],
            is_deaf: false,
            has_half_body: false,
            is_over: false,
        }
    }

    /// Bytes move between it and the node; `all`: it listens again, to all there is.
    pub fn exchange(&mut self, now: Now, all: bool, dice: &mut Random, net: &mut Net) {
        self.is_deaf &= !all;
        let line = net.line(self.line);
        if !self.is_deaf {
            self.tail.append(&mut line.down);
            let mut tail = std::mem::take(&mut self.tail);
            let mut input = Input::new(&tail);
            while !self.is_over
                && let Some(event) = self.connection.poll_event(now, &mut input)
            {
                let is_over = match event {
                    Event::Gathered(whole) => self.hear(now, whole.event(), dice),
                    event => self.hear(now, event, dice),
                };
                self.is_over |= is_over;
            }
            let consumed = input.consumed();
            tail.drain(..consumed);
            self.tail = tail;
        }
        push(self.connection.output_mut(), &mut net.line(self.line).up);
        let line = net.line(self.line);
        self.is_over |= line.down_ended && line.down.is_empty();
        if self.is_over {
            self.vanish(net);
        }
    }

    /// Whether the connection is over.
    fn hear(&mut self, now: Now, event: Event<'_>, dice: &mut Random) -> bool {
        match event {
            Event::Start(_) => {
                let response = format!("\0{TENANT}\0{TENANT}");
                self.connection.start_ok(Table::EMPTY, b"PLAIN", response.as_bytes(), b"en_US");
            }
            Event::Tune(proposed) => _ = self.connection.tune_ok_and_open(now, proposed, TENANT.as_bytes()),
            Event::OpenOk => CHANNELS.iter().for_each(|channel| self.connection.channel_open(*channel)),
            Event::ChannelOpenOk { channel } => {
                self.open[usize::from(channel) - 1] = true;
                if channel == CHANNELS[1] {
                    self.connection.send(channel, &::amqp091::method::TxSelect {});
                }
            }
            Event::ChannelClose { channel, .. } => {
                self.open[usize::from(channel) - 1] = false;
                self.connection.channel_close_ok(channel);
                self.connection.channel_open(channel);
            }
            Event::Deliver { deliver, .. } if dice.one_in(2) => {
                let requeue = dice.one_in(8);
                self.connection.nack(CHANNELS[0], deliver.delivery_tag, false, requeue);
            }
            Event::Close(_) => {
                self.connection.close_ok();
                return true;
            }
            Event::Failed(_) | Event::ChannelFailed { .. } | Event::Closed => return true,
            _ => {}
        }
        false
    }

    /// It is gone without a word.
    pub fn vanish(&mut self, net: &mut Net) {
        self.is_over = true;
        net.line(self.line).up_ended = true;
        net.line(self.line).down.clear();
    }
}

/// Units of work that a turn has at most for connections: what it is given, and for each user those that he has first
/// and one command that was begun.
fn most_work(shard: &Shard, settings: &Settings, users: usize) -> u64 {
    // A route is given up behind the step that goes beyond the bound, and may be the dearest then.
    let publish = 2 * u64::from(shard.limits().route_steps_max) + QUEUE_PRICE * (QUEUES_MAX + FLOODED_QUEUES);
    let command = publish + u64::from(settings.transaction_work_max);
    u64::from(shard.turn_work()) + users as u64 * (FIRST_UNITS + command)
}

/// A turn of a shard is over: it kept to its units of work.
pub fn check_work(shard: &Shard, front: &adapters::Frontend) {
    let last = front.last_turn_work();
    let most = most_work(shard, front.settings(), last.users);
    assert!(last.units <= most, "{last:?} in one turn, {most} units at most");
}

/// No connection is between two shards: the ledger says what connections hold, all together.
pub fn check_ledger<'a>(shards: impl IntoIterator<Item = &'a Shard>) {
    let mut shards = shards.into_iter().peekable();
    let Some(ledger) = shards.peek().map(|shard| shard.ledger().clone()) else { return };
    let reserved: u64 = shards.map(Shard::reserved_bytes).sum();
    let rows = ledger.rows();
    let sums = [&rows.users, &rows.vhosts].map(|of| of.iter().map(|account| account.held).sum::<u64>());
    assert_eq!((rows.node.held, sums), (reserved, [reserved; 2]), "{rows:?}");
}

/// A round of a turn is over: dead letters kept to their units of work. `before`: those they had had before it.
pub fn check_dead_letters(shard: &Shard, before: &mut u64) {
    let units = shard.dead_letters_work() - std::mem::replace(before, shard.dead_letters_work());
    let letter = LETTER_PRICE
        + 2 * u64::from(shard.limits().route_steps_max)
        + QUEUE_PRICE * (QUEUES_MAX + FLOODED_QUEUES);
    let most = u64::from(shard.dead_lettering_work()) + letter;
    assert!(units <= most, "{units} units for dead letters in one turn, {most} at most");
}

/// Bounds that his commands reach.
pub fn tighten(makeup: &mut Makeup, dice: &mut Random) {
    makeup.settings.transaction_work_max = [2_000, 20_000, 100_000][dice.below(3) as usize];
    let limits = &mut makeup.limits;
    limits.route_steps_max = [2_000, 10_000][dice.below(2) as usize];
    limits.turn_work_max = [500, 5_000, 50_000][dice.below(3) as usize];
    limits.dead_lettering_work_max = limits.turn_work_max / 2;
}
