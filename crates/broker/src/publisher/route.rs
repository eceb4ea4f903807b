//! Where messages go: which queues of which logs, worked out from what the catalog says.

use super::{More, Publish, Spent};
use crate::access::AccessCache;
use crate::catalog::{Catalog, QueueDefinition, Refusal, VhostId};
use crate::limits::Limits;
use crate::message_keys::KeyRule;
use crate::reply::ReplyAddress;
use crate::shard::ShardSettings;
use crate::tally::NO_EXCHANGE;
use crate::whereabouts::Whereabouts;
use base::Random;
use base::hash::{MapById, SetByBytes};
use base::id::{LogId, PortId, QueueId, ShardId};
use routing::{Envelope, Matches, delay_ms};
use std::cmp::Reverse;
use std::sync::Arc;

/// The queues of one log a route leads to.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) log: LogId,
    /// Where the log is among the shard's own; none: it is another shard's, or between two.
    pub(crate) slot: Option<u32>,
    pub(crate) queues: Box<[QueueId]>,
    /// The log is in memory alone.
    pub(super) is_memory: bool,
    /// One of the queues treats every message as durable.
    pub(super) has_quorum: bool,
    /// A queue is to be asked, or the message is delayed.
    pub(super) is_special: bool,
    /// It goes the long way: it is special, or has keys.
    pub(super) is_long: bool,
    /// The keys that all its queues go by which go by any.
    pub(crate) key_rule: Option<Box<KeyRule>>,
    /// One of the queues refuses messages when it is full.
    pub(crate) asks: bool,
    pub(crate) due: Due,
}

/// When a message becomes ready in the queues of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// Milliseconds since 1970.
    At(u64),
    /// Milliseconds, as its header says.
    After(u64),
}

#[derive(Debug)]
pub(super) struct Route {
    pub(super) exchange: Box<[u8]>,
    pub(super) key: Box<[u8]>,
    pub(super) targets: Box<[Target]>,
    /// Reply consumers it leads to.
    pub(super) replies: Option<Box<[ReplyAddress]>>,
    /// The most queues of one target.
    pub(super) queues_most: usize,
    /// The queues of all targets.
    pub(super) queues: u32,
    /// The number under which its exchange is counted.
    pub(super) counted: u32,
    /// Messages that went this way.
    pub(super) messages: u64,
    /// It is of one message alone and goes with it.
    pub(super) holds_once: bool,
    /// An exchange on the way remembers the message; only where it holds once.
    pub(super) is_remembered: bool,
    /// The message is told of; only where it holds once.
    pub(super) is_traced: bool,
}

impl Default for Route {
    fn default() -> Route {
        Route {
            exchange: Box::default(),
            key: Box::default(),
            targets: Box::default(),
            replies: None,
            queues_most: 0,
            queues: 0,
            counted: NO_EXCHANGE,
            messages: 0,
            holds_once: false,
            is_remembered: false,
            is_traced: false,
        }
    }
}

impl Route {
    /// Bytes of memory, near enough; `name`: those of the exchange and key that it is to be kept under.
    pub(super) fn bytes(&self, name: usize) -> usize {
        let replies = self.replies.as_ref().map_or(0, |replies| size_of_val(&**replies));
        let queues = self.queues as usize * size_of::<QueueId>();
        size_of::<Route>() + name + size_of_val(&*self.targets) + queues + replies
    }

    #[inline]
    pub(super) fn is_for(&self, exchange: &[u8], key: &[u8]) -> bool {
        base::copy::equal(&self.key, key) && base::copy::equal(&self.exchange, exchange) && !self.holds_once
    }
}

/// The parts of a shard that routing reads.
pub(crate) struct View<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) limits: &'a Limits,
    /// The shard.
    me: ShardId,
    whereabouts: &'a Whereabouts,
    log_slots: &'a MapById<LogId, u32>,
    /// Where the shard's dice begin.
    pub(super) seed: u64,
    /// The publisher, and the message's number.
    pub(super) message: (u32, u64),
    /// The present, milliseconds since 1970.
    now_ms: u64,
}

impl<'a> View<'a> {
    /// The view of a shard with these parts; `message`: the publisher, and the message's number.
    pub(crate) fn of(
        settings: &'a ShardSettings,
        catalog: &'a Catalog,
        (whereabouts, log_slots): (&'a Whereabouts, &'a MapById<LogId, u32>),
        message: (u32, u64),
        now_ms: u64,
    ) -> View<'a> {
        let ShardSettings { id, limits, seed, .. } = settings;
        View { catalog, limits, me: *id, whereabouts, log_slots, seed: *seed, message, now_ms }
    }
}

/// The version of all that routes rest on: it grows with every change that could alter one.
#[inline]
pub(super) fn version(catalog: &Catalog, whereabouts: &Whereabouts) -> u64 {
    catalog.version() + whereabouts.version()
}

impl View<'_> {
    /// See [`version`].
    pub(super) fn version(&self) -> u64 {
        version(self.catalog, self.whereabouts)
    }

    /// Random bits for the message: the same ones whenever they are asked for.
    pub(crate) fn roll(&self, port: PortId) -> u64 {
        let (handle, seq) = self.message;
        let connection =
            u64::from(port.shard.0) << 48 ^ u64::from(port.slot) << 20 ^ u64::from(port.generation);
        Random::new(Random::new(self.seed ^ connection).bits() ^ u64::from(handle) << 40 ^ seq).bits()
    }

    /// Where a message goes, as the route of this message alone; true: more than its keys had a
    /// part in that. Adds the work that this takes to `spent`, also where it is refused for it.
    pub(super) fn route(
        &self,
        access: &mut AccessCache,
        publish: &Publish<'_>,
        spent: &mut Spent,
    ) -> Result<(Route, bool), Refusal> {
        let Publish { exchange, routing_key, more, .. } = *publish;
        let only = [routing_key];
        let all: Vec<&[u8]>;
        let keys: &[&[u8]] = match more {
            None => &only,
            Some(more) => {
                // Each once: a message may have as many as it has bytes, and who sends it chooses them.
                let mut seen = SetByBytes::default();
                all = only.iter().chain(&more.keys).copied().filter(|key| seen.insert(*key)).collect();
                &all
            }
        };
        let user_id = more.and_then(|more| more.user_id);
        access.check_publish(self.catalog, exchange, keys.iter().copied(), user_id)?;
        let (content, now_ms) = (&publish.content(), self.now_ms);
        let roll = self.roll(access.actor().port);
        let message = Envelope { keys, headers: publish.headers, roll, content, now_ms };
        let due = match more {
            Some(More { due_at_ms, .. }) if *due_at_ms > 0 => Due::At(*due_at_ms),
            _ => Due::Now,
        };
        let mut matches = Matches::within(self.limits.route_steps_max);
        let found = self.find(access.vhost(), exchange, &message, (due, &mut matches), |_| false);
        spent.steps += u64::from(matches.steps());
        spent.filtered.merge(&matches.filtered());
        let (targets, sees_more) = found?;
        let mut route = Route { targets, holds_once: true, ..Route::default() };
        route.is_remembered =
            sees_more && !self.catalog.remembering_exchanges(access.vhost(), exchange, &matches).is_empty();
        route.queues_most = route.targets.iter().map(|target| target.queues.len()).max().unwrap_or(0);
        route.queues = route.targets.iter().map(|target| target.queues.len() as u32).sum();
        if exchange.is_empty() {
            let replies: Vec<_> =
                keys.iter().filter_map(|key| ReplyAddress::read(key, access.vhost())).collect();
            route.replies = (!replies.is_empty()).then(|| replies.into());
        }
        route.is_traced = self.catalog.is_traced(access.vhost());
        // So that none of what is told of goes by a route that is kept.
        let sees_more = sees_more || route.is_traced;
        Ok((route, sees_more))
    }

    /// Where a message of the broker's own goes, without those `left_out` says.
    pub(crate) fn find_own(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        message: &Envelope<'_>,
        left_out: impl Fn(QueueId) -> bool,
    ) -> Result<(Box<[Target]>, bool, Matches), Refusal> {
        let mut matches = Matches::within(self.limits.route_steps_max);
        let (targets, sees_more) = self.find(vhost, exchange, message, (Due::Now, &mut matches), left_out)?;
        Ok((targets, sees_more, matches))
    }

    /// The queues a message goes to: now, and when its time has come; true: more than its keys had a part in that. In
    /// `matches` is then what it came through without being kept for later, and the work that all of it took.
    fn find(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        message: &Envelope<'_>,
        (due, matches): (Due, &mut Matches),
        left_out: impl Fn(QueueId) -> bool,
    ) -> Result<(Box<[Target]>, bool), Refusal> {
        let sees_more = self.catalog.route(vhost, exchange, message, matches)?;
        let mut targets = self.targets(matches, due, &left_out);
        if let Some(delay_ms) = delay_ms(message.headers).filter(|_| !matches.held().is_empty()) {
            for holder in matches.held().to_vec() {
                let mut later = matches.beside();
                self.catalog.route_from(holder, message, &mut later);
                matches.count(&later);
                self.catalog.check_steps(vhost, exchange, message.keys, matches)?;
                targets.extend(self.targets(&later, Due::After(delay_ms), &left_out));
            }
        }
        Ok((targets.into(), sees_more))
    }

    /// The queues found, for a message that is not delayed.
    pub(crate) fn targets_now(&self, matches: &Matches) -> Box<[Target]> {
        self.targets(matches, Due::Now, |_| false).into()
    }

    /// Groups the queues found by their log and the keys they go by, without those `left_out` says.
    fn targets(&self, matches: &Matches, due: Due, left_out: impl Fn(QueueId) -> bool) -> Vec<Target> {
        let queues = matches.queues().filter(|id| !left_out(*id));
        let mut found: Vec<_> = queues.filter_map(|id| self.catalog.queue(id)).collect();
        found.sort_by_key(|queue| queue.log);
        let mut targets = Vec::new();
        for group in found.chunk_by(|a, b| a.log == b.log) {
            match group.iter().any(|queue| queue.key_words().is_some()) {
                false => targets.push(self.target(group, due, None)),
                true => self.add_keyed(group.to_vec(), due, &mut targets),
            }
        }
        targets
    }

    /// Adds the targets of queues of one log some of which go by keys: a record has those of one choice of words. Queues without
    /// keys go with the last, unless that has an expression for its messages: what a record says of that is for its queues.
    #[cold]
    fn add_keyed(&self, mut queues: Vec<&Arc<QueueDefinition>>, due: Due, targets: &mut Vec<Target>) {
        queues.sort_by_key(|queue| Reverse(queue.key_words()));
        let goes_with = |before: &&Arc<QueueDefinition>, queue: &&Arc<QueueDefinition>| {
            let (words, others) = (queue.key_words(), before.key_words());
            words == others || words.is_none() && others.is_some_and(|others| !others.are_own())
        };
        for group in queues.chunk_by(goes_with) {
            targets.push(self.target(group, due, KeyRule::of(self.catalog, group[0]).map(Box::new)));
        }
    }

    fn target(&self, group: &[&Arc<QueueDefinition>], due: Due, key_rule: Option<Box<KeyRule>>) -> Target {
        let asks = group.iter().any(|queue| self.catalog.refuses(queue));
        let is_special = asks || due != Due::Now;
        let log = group[0].log;
        Target {
            log,
            slot: self.log_slots.get(&log).copied().filter(|_| self.whereabouts.home(log) == Some(self.me)),
            queues: group.iter().map(|queue| queue.id).collect(),
            is_memory: self.whereabouts.is_in_memory(log),
            has_quorum: group.iter().any(|queue| queue.makes_durable()),
            is_special,
            is_long: is_special || key_rule.is_some(),
            key_rule,
            asks,
            due,
        }
    }
}
