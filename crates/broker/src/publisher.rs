//! Where messages come in: one [`Publisher`] per channel or session, which remembers what it may do and where its
//! messages go.
//!
//! A route is worked out once per exchange and key and kept until the catalog changes, permissions included, so that a
//! publish costs one comparison of names.

use crate::access::AccessCache;
use crate::catalog::{Actor, Catalog, Refusal, VhostId};
use crate::limits::Limits;
use crate::mail::{Mail, wait};
use crate::reply::ReplyAddress;
use crate::request::Placement;
use crate::shard::Shard;
use crate::tally::NO_EXCHANGE;
use base::id::{LogId, PortId, QueueId};
use base::{Now, Random};
use message::record::{Format, NewEnqueue, flag};
use routing::{Envelope, ExchangeId, Headers, Matches, delay_ms};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

/// A message to be published.
#[derive(Clone, Copy)]
pub struct Publish<'a> {
    /// The exchange; empty: the default one.
    pub exchange: &'a [u8],
    /// The routing key.
    pub routing_key: &'a [u8],
    /// What few messages ask for.
    pub more: Option<&'a More<'a>>,
    /// The fields a headers exchange looks at.
    pub headers: &'a dyn Headers,
    /// Whose encoding head and body are in.
    pub format: Format,
    /// It survives a restart.
    pub durable: bool,
    /// As the publisher gave it.
    pub priority: Option<u8>,
    /// Milliseconds to live.
    pub ttl_ms: Option<u64>,
    /// The pieces of the head.
    pub head: &'a [&'a [u8]],
    /// The pieces of the body.
    pub body: &'a [&'a [u8]],
    /// The publisher wants to know when it is safe.
    pub confirm: bool,
}

/// What few messages ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More<'a> {
    /// Further keys it is routed by as well.
    pub keys: Vec<&'a [u8]>,
    /// How many of them, the last ones, nobody is to see; they are kept for when the message dies.
    pub hidden: usize,
    /// It is delayed until then, milliseconds since 1970; 0, or a time that has come: not at all.
    pub due_at_ms: u64,
}

impl<'a> More<'a> {
    /// The keys nobody is to see.
    pub(crate) fn hidden_keys(&self) -> &[&'a [u8]] {
        &self.keys[self.keys.len() - self.hidden.min(self.keys.len())..]
    }

    /// It, where anything is asked for.
    pub fn some(&self) -> Option<&More<'a>> {
        (*self != More::default()).then_some(self)
    }
}

impl<'a> Publish<'a> {
    /// As it is recorded when it is published now.
    #[inline(always)]
    fn record(&self, now: Now) -> NewEnqueue<'a> {
        NewEnqueue {
            flags: if self.durable { flag::DURABLE } else { 0 }
                | if self.priority.is_some() { flag::PRIORITY } else { 0 },
            format: self.format,
            priority: self.priority.unwrap_or(0),
            received_at_ms: now.wall_ms,
            expires_at_ms: self.ttl_ms.map_or(0, |ttl| now.wall_ms.saturating_add(ttl).max(1)),
            due_at_ms: 0,
            ordering_key: 0,
            exchange: self.exchange,
            routing_key: self.routing_key,
            head: self.head,
            body: self.body,
        }
    }
}

/// Queues of routes that [`Publisher::routes`] looks at: who asks of all channels is not to hold up their shard.
pub const ROUTES_SHOWN_MAX: usize = 1000;

/// What became of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It was routed; an [`crate::Event::Confirmed`] with this number follows when it is safe.
    Waiting,
    /// It was routed, and nothing is to be waited for.
    Done,
    /// It was routed nowhere.
    Unroutable,
}

/// The queues of one log a route leads to.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) log: LogId,
    /// Where the log is among the shard's own; none: another shard's.
    pub(crate) slot: Option<u32>,
    pub(crate) queues: Box<[QueueId]>,
    /// The log is in memory alone.
    is_memory: bool,
    /// One of the queues treats every message as durable.
    has_quorum: bool,
    /// It goes the long way: a queue is to be asked, or the message is delayed.
    is_special: bool,
    /// One of the queues refuses messages when it is full.
    pub(crate) asks: bool,
    due: Due,
}

/// When a message becomes ready in the queues of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Now,
    /// Milliseconds since 1970.
    At(u64),
    /// Milliseconds, as its header says.
    After(u64),
}

#[derive(Debug)]
struct Route {
    exchange: Box<[u8]>,
    key: Box<[u8]>,
    targets: Box<[Target]>,
    /// Reply consumers it leads to.
    replies: Option<Box<[ReplyAddress]>>,
    /// The most queues of one target.
    queues_most: usize,
    /// The queues of all targets.
    queues: u32,
    /// The number under which its exchange is counted.
    counted: u32,
    /// Messages that went this way.
    messages: u64,
    /// It is of one message alone and goes with it.
    holds_once: bool,
    /// An exchange on the way remembers the message; only where it holds once.
    is_remembered: bool,
    /// The message is told of; only where it holds once.
    is_traced: bool,
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
    #[inline]
    fn is_for(&self, exchange: &[u8], key: &[u8]) -> bool {
        base::copy::equal(&self.key, key) && base::copy::equal(&self.exchange, exchange) && !self.holds_once
    }
}

/// One source of messages of a connection. Small until the first publish.
#[derive(Debug)]
pub struct Publisher {
    port: PortId,
    handle: u32,
    access: AccessCache,
    next_seq: u64,
    known: Option<Box<Known>>,
}

/// What a publisher that publishes remembers.
#[derive(Debug, Default)]
struct Known {
    /// The catalog version the routes are of.
    version: u64,
    routes: Vec<Route>,
    last: usize,
    by_hash: FxHashMap<u64, u32>,
    /// Publishes that wait for more than one log, and for how many more; with [`REFUSED`] once one refused.
    split: FxHashMap<u64, u32>,
    /// Messages by exchange, of routes that are forgotten: of the first exchanges, at most [`EXCHANGES_MAX`].
    gone: Vec<(Box<str>, u64)>,
}

/// Exchanges of which a publisher remembers how many messages it published to them.
const EXCHANGES_MAX: usize = 64;

fn add_messages(counts: &mut Vec<(Box<str>, u64)>, exchange: &[u8], messages: u64) {
    if let Some((_, count)) = counts.iter_mut().find(|(name, _)| name.as_bytes() == exchange) {
        *count += messages;
    } else if counts.len() < EXCHANGES_MAX {
        counts.push((String::from_utf8_lossy(exchange).into(), messages));
    }
}

/// What a publish that was refused has beside the number of logs it still hears from.
const REFUSED: u32 = 1 << 31;

impl Publisher {
    /// A publisher of `port`; `handle` is the connection's name for it.
    pub fn new(port: PortId, handle: u32, access: AccessCache) -> Publisher {
        Publisher { port, handle, access, next_seq: 1, known: None }
    }

    /// The connection's name for it.
    #[inline]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Where it publishes.
    #[inline]
    pub fn vhost(&self) -> VhostId {
        self.access.vhost()
    }

    /// The number the next publish gets; the first is 1.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Makes the number of the next publish the lowest, not used yet, whose lower half is `low`: how numbers of a
    /// protocol that wrap become ours.
    pub fn align(&mut self, low: u32) -> u64 {
        let candidate = (self.next_seq & !u64::from(u32::MAX)) | u64::from(low);
        self.next_seq = if candidate < self.next_seq { candidate + (1 << 32) } else { candidate };
        self.next_seq
    }

    /// The logs its messages went to, of what it remembers of them.
    pub(crate) fn logs(&self) -> impl Iterator<Item = LogId> {
        let routes = self.known.iter().flat_map(|known| &known.routes);
        routes.flat_map(|route| route.targets.iter().map(|target| target.log))
    }

    /// Its connection goes by `port` from now on, at another shard: what it remembers means nothing there. All its publishes
    /// are confirmed or refused; what further logs say of one that was refused finds nobody.
    pub fn move_to(&mut self, port: PortId) {
        let actor = Actor { port, ..self.access.actor().clone() };
        (self.port, self.access, self.known) = (port, AccessCache::new(actor), None);
    }

    /// What its actor may do.
    pub fn access(&mut self) -> &mut AccessCache {
        &mut self.access
    }

    /// Messages it published, by exchange, as far as it remembers.
    pub fn exchanges(&self) -> Vec<(Box<str>, u64)> {
        let Some(known) = &self.known else { return Vec::new() };
        let mut counts = known.gone.clone();
        for route in known.routes.iter().filter(|route| route.messages > 0) {
            add_messages(&mut counts, &route.exchange, route.messages);
        }
        counts
    }

    /// Messages by exchange and queue they were routed to, each pair once: of what it remembers, the first
    /// [`ROUTES_SHOWN_MAX`] queues of routes.
    pub fn routes(&self) -> Vec<(Box<str>, QueueId, u64)> {
        let routes = self.known.iter().flat_map(|known| &known.routes).filter(|route| route.messages > 0);
        let queues = routes.flat_map(|route| {
            route.targets.iter().flat_map(|target| &target.queues).map(move |queue| (route, *queue))
        });
        let mut sums: FxHashMap<(&[u8], QueueId), u64> = FxHashMap::default();
        for (route, queue) in queues.take(ROUTES_SHOWN_MAX) {
            *sums.entry((&route.exchange, queue)).or_default() += route.messages;
        }
        let shown = |((exchange, queue), messages)| {
            (String::from_utf8_lossy(exchange).into_owned().into_boxed_str(), queue, messages)
        };
        sums.into_iter().map(shown).collect()
    }

    /// Bytes of memory it holds besides itself, roughly.
    pub fn heap_bytes(&self) -> usize {
        let route = |route: &Route| {
            let targets = route.targets.len() * (size_of::<Target>() + size_of::<QueueId>());
            route.exchange.len() + route.key.len() + targets
        };
        self.known.as_ref().map_or(0, |known| {
            size_of::<Known>()
                + known.routes.capacity() * size_of::<Route>()
                + known.routes.iter().map(route).sum::<usize>()
                + known.by_hash.capacity() * 16
                + known.split.capacity() * 16
                + known.gone.capacity() * size_of::<(Box<str>, u64)>()
        })
    }

    /// Uses up a number without publishing.
    pub fn skip(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Takes in an [`crate::Event::Confirmed`] and calls `safe` with the ranges that are confirmed now: on all logs.
    #[inline]
    pub fn confirmed(&mut self, first: u64, last: u64, mut safe: impl FnMut(u64, u64)) {
        let split = self.known.as_mut().map(|known| &mut known.split).filter(|split| !split.is_empty());
        let Some(split) = split else { return safe(first, last) };
        let mut from = first;
        for seq in first..=last {
            let Some(left) = split.get_mut(&seq) else { continue };
            if seq > from {
                safe(from, seq - 1);
            }
            *left -= 1;
            from = if *left == 0 { seq } else { seq + 1 };
            if *left & !REFUSED == 0 {
                split.remove(&seq);
            }
        }
        if from <= last {
            safe(from, last);
        }
    }

    /// Takes in an [`crate::Event::Refused`] and calls `refused` with those of its publishes that nobody refused before.
    pub fn refused(&mut self, first: u64, last: u64, mut refused: impl FnMut(u64)) {
        let split = self.known.as_mut().map(|known| &mut known.split);
        let mut split = split.filter(|split| !split.is_empty());
        for seq in first..=last {
            if let Some(split) = &mut split
                && let Some(left) = split.get_mut(&seq)
            {
                *left -= 1;
                let was_refused = std::mem::replace(left, *left | REFUSED) & REFUSED != 0;
                if *left & !REFUSED == 0 {
                    split.remove(&seq);
                }
                if was_refused {
                    continue;
                }
            }
            refused(seq);
        }
    }
}

impl Known {
    /// Where exchange and key of `publish` lead: an index of `routes`.
    fn route(
        &mut self,
        access: &mut AccessCache,
        view: &View<'_>,
        publish: &Publish<'_>,
    ) -> Result<usize, Refusal> {
        let version = view.catalog.version();
        if self.version != version {
            self.forget();
            self.version = version;
        }
        if publish.more.is_some() {
            return self.look_up_once(access, view, publish);
        }
        self.look_up(access, view, publish)
    }

    /// As [`Known::route`], where that is the route of the last look-up.
    #[inline]
    fn last_route(&self, version: u64, publish: &Publish<'_>) -> Option<usize> {
        let is_same = self.version == version
            && publish.more.is_none()
            && self.routes.get(self.last)?.is_for(publish.exchange, publish.routing_key);
        is_same.then_some(self.last)
    }

    #[cold]
    fn forget(&mut self) {
        for route in self.routes.drain(..).filter(|route| route.messages > 0) {
            add_messages(&mut self.gone, &route.exchange, route.messages);
        }
        self.by_hash.clear();
        self.last = 0;
    }

    fn look_up(
        &mut self,
        access: &mut AccessCache,
        view: &View<'_>,
        publish: &Publish<'_>,
    ) -> Result<usize, Refusal> {
        let (exchange, key) = (publish.exchange, publish.routing_key);
        let mut hasher = FxHasher::default();
        hasher.write(exchange);
        hasher.write_u8(0xFF);
        hasher.write(key);
        let hash = hasher.finish();
        if let Some(at) = self.by_hash.get(&hash).map(|at| *at as usize)
            && self.routes[at].is_for(exchange, key)
        {
            self.last = at;
            return Ok(at);
        }
        let (route, sees_more) = view.route(access, publish)?;
        let at = self.add(route, view);
        if !sees_more {
            let route = &mut self.routes[at];
            (route.exchange, route.key, route.holds_once) = (exchange.into(), key.into(), false);
            self.by_hash.insert(hash, at as u32);
        }
        Ok(at)
    }

    /// The route of one message alone.
    #[cold]
    fn look_up_once(
        &mut self,
        access: &mut AccessCache,
        view: &View<'_>,
        publish: &Publish<'_>,
    ) -> Result<usize, Refusal> {
        let (route, _) = view.route(access, publish)?;
        Ok(self.add(route, view))
    }

    fn add(&mut self, route: Route, view: &View<'_>) -> usize {
        if self.routes.len() >= view.limits.routes_max {
            self.forget();
        }
        self.last = self.routes.len();
        self.routes.push(route);
        self.last
    }
}

/// What routing looks at.
pub(crate) struct View<'a> {
    catalog: &'a Catalog,
    limits: &'a Limits,
    placement: Placement,
    log_slots: &'a FxHashMap<LogId, u32>,
    /// Where the shard's dice begin.
    seed: u64,
    /// The publisher, and the message's number.
    message: (u32, u64),
}

impl View<'_> {
    /// Random bits for the message: the same ones whenever they are asked for.
    pub(crate) fn roll(&self, port: PortId) -> u64 {
        let (handle, seq) = self.message;
        let connection =
            u64::from(port.shard.0) << 48 ^ u64::from(port.slot) << 20 ^ u64::from(port.generation);
        Random::new(Random::new(self.seed ^ connection).bits() ^ u64::from(handle) << 40 ^ seq).bits()
    }

    /// Where a message goes, as the route of this message alone; true: more than its keys had a
    /// part in that.
    fn route(&self, access: &mut AccessCache, publish: &Publish<'_>) -> Result<(Route, bool), Refusal> {
        let Publish { exchange, routing_key, more, .. } = *publish;
        let only = [routing_key];
        let all: Vec<&[u8]>;
        let keys: &[&[u8]] = match more {
            None => &only,
            Some(more) => {
                all = only.iter().chain(&more.keys).copied().collect();
                &all
            }
        };
        access.check_publish(self.catalog, exchange, keys.iter().copied())?;
        let message = Envelope { keys, headers: publish.headers, roll: self.roll(access.actor().port) };
        let due = match more {
            Some(More { due_at_ms, .. }) if *due_at_ms > 0 => Due::At(*due_at_ms),
            _ => Due::Now,
        };
        let (targets, sees_more, matches) = self.find(access.vhost(), exchange, &message, due, |_| false)?;
        let mut route = Route { targets, holds_once: true, ..Route::default() };
        route.is_remembered =
            sees_more && !self.catalog.remembering_exchanges(access.vhost(), exchange, &matches).is_empty();
        route.queues_most = route.targets.iter().map(|target| target.queues.len()).max().unwrap_or(0);
        route.queues = route.targets.iter().map(|target| target.queues.len() as u32).sum();
        if exchange.is_empty() {
            let replies: Vec<_> = keys.iter().filter_map(|key| ReplyAddress::read(key)).collect();
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
        self.find(vhost, exchange, message, Due::Now, left_out)
    }

    /// The queues a message goes to: now, and when its time has come; true: more than its keys had a part in that; and what
    /// it came through without being kept for later.
    fn find(
        &self,
        vhost: VhostId,
        exchange: &[u8],
        message: &Envelope<'_>,
        due: Due,
        left_out: impl Fn(QueueId) -> bool,
    ) -> Result<(Box<[Target]>, bool, Matches), Refusal> {
        let mut matches = Matches::default();
        let sees_more = self.catalog.route(vhost, exchange, message, &mut matches)?;
        let mut targets = self.targets(&matches, due, &left_out);
        if let Some(delay_ms) = delay_ms(message.headers).filter(|_| !matches.held().is_empty()) {
            for exchange in matches.held() {
                let mut later = Matches::default();
                self.catalog.route_from(*exchange, message, &mut later);
                targets.extend(self.targets(&later, Due::After(delay_ms), &left_out));
            }
        }
        Ok((targets.into(), sees_more, matches))
    }

    /// The queues found, for a message that is not delayed.
    pub(crate) fn targets_now(&self, matches: &Matches) -> Box<[Target]> {
        self.targets(matches, Due::Now, |_| false).into()
    }

    /// Groups the queues found by their log, without those `left_out` says.
    fn targets(&self, matches: &Matches, due: Due, left_out: impl Fn(QueueId) -> bool) -> Vec<Target> {
        let queues = matches.queues().filter(|id| !left_out(*id));
        let mut found: Vec<_> = queues.filter_map(|id| self.catalog.queue(id)).collect();
        found.sort_by_key(|queue| queue.log);
        let groups = found.chunk_by(|a, b| a.log == b.log);
        let target = |group: &[&std::sync::Arc<crate::catalog::QueueDefinition>]| {
            let asks = group.iter().any(|queue| self.catalog.refuses(queue));
            Target {
                log: group[0].log,
                slot: self.log_slots.get(&group[0].log).copied(),
                queues: group.iter().map(|queue| queue.id).collect(),
                is_memory: group[0].log.0 >= self.placement.logs,
                has_quorum: group.iter().any(|queue| queue.makes_durable()),
                is_special: asks || due != Due::Now,
                asks,
                due,
            }
        };
        groups.map(target).collect()
    }
}

impl Shard {
    /// [`Shard::publish`] for what is rare: it stays where it is, so that the one place that publishes all the time gets
    /// a copy made for it.
    ///
    /// # Errors
    /// As there.
    #[cold]
    #[inline(never)]
    pub fn publish_rare(
        &mut self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<Published, Refusal> {
        self.publish(now, publisher, publish)
    }

    /// Whether [`Shard::publish`] of this message would lead anywhere now; uses up no number.
    ///
    /// # Errors
    /// Those it would have.
    pub fn would_publish(
        &self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<bool, Refusal> {
        let view = self.view((publisher.handle, publisher.next_seq));
        let (route, _) = view.route(&mut publisher.access, publish)?;
        if let Some(target) = route.targets.iter().find(|target| self.stopped.contains(&target.log)) {
            return Err(Refusal::log_stopped(target.log));
        }
        if publish.record(now).record_len(route.queues_most).is_none() {
            return Err(Refusal::message_too_large());
        }
        Ok(!route.targets.is_empty() || route.replies.is_some())
    }

    /// What routing looks at; `message`: who publishes, and the message's number.
    pub(crate) fn view(&self, message: (u32, u64)) -> View<'_> {
        View {
            catalog: &self.catalog,
            limits: &self.settings.limits,
            placement: self.settings.placement,
            log_slots: &self.log_slots,
            seed: self.settings.seed,
            message,
        }
    }

    /// Publishes a message. Uses up one number of the publisher's, also when it goes nowhere or is refused.
    #[inline]
    pub fn publish(
        &mut self,
        now: Now,
        publisher: &mut Publisher,
        publish: &Publish<'_>,
    ) -> Result<Published, Refusal> {
        let seq = publisher.skip();
        let Publisher { port, handle, access, known, .. } = publisher;
        let known = known.get_or_insert_default();
        let at = match known.last_route(self.catalog.version(), publish) {
            Some(at) => at,
            None => {
                let at = known.route(access, &self.view((*handle, seq)), publish)?;
                let counted = &mut known.routes[at].counted;
                if *counted == NO_EXCHANGE {
                    *counted = self.tallies.exchange(&self.catalog, access.vhost(), publish.exchange);
                }
                if known.routes[at].holds_once {
                    return self.publish_once(now, (*port, *handle, seq), access, known, publish);
                }
                at
            }
        };
        let route = &mut known.routes[at];
        route.messages += 1;
        let message = publish.record(now);
        let sizes = message.sizes();
        self.tallies.publish(route.counted, route.queues, publish, sizes.body);
        if route.targets.is_empty() && route.replies.is_none() {
            return Ok(Published::Unroutable);
        }
        if !self.stopped.is_empty()
            && let Some(target) = route.targets.iter().find(|target| self.stopped.contains(&target.log))
        {
            return Err(Refusal::log_stopped(target.log));
        }
        if message.record_len_of(sizes, route.queues_most).is_none() {
            return Err(Refusal::message_too_large());
        }
        let mut waits = 0;
        for target in &route.targets {
            let needs_flush = !target.is_memory && (publish.durable || target.has_quorum);
            let is_waited_for = publish.confirm && (needs_flush || target.is_special);
            waits += u32::from(is_waited_for);
            let waiter = is_waited_for.then_some((*port, *handle, seq));
            if target.is_special {
                self.append_special(now, &message, target, waiter, needs_flush);
                continue;
            }
            match target.slot {
                Some(slot) => {
                    let log = &mut self.logs[slot as usize];
                    log.append_message(now, (&message, sizes), &target.queues, waiter, needs_flush);
                }
                None => self.append_remote(&message, target, waiter, needs_flush),
            }
        }
        if let Some(replies) = &route.replies {
            self.append_replies(&message, replies);
        }
        match waits {
            0 => Ok(Published::Done),
            1 => Ok(Published::Waiting),
            _ => {
                known.split.insert(seq, waits);
                Ok(Published::Waiting)
            }
        }
    }

    /// The rest of [`Shard::publish`] where the last route was made for this message alone: it goes with it.
    #[cold]
    #[inline(never)]
    fn publish_once(
        &mut self,
        now: Now,
        waiter: (PortId, u32, u64),
        access: &AccessCache,
        known: &mut Known,
        publish: &Publish<'_>,
    ) -> Result<Published, Refusal> {
        let route = known.routes.pop().expect("the route was just made");
        add_messages(&mut known.gone, publish.exchange, 1);
        let message = publish.record(now);
        self.tallies.publish(route.counted, route.queues, publish, message.sizes().body);
        if let Some(target) = route.targets.iter().find(|target| self.stopped.contains(&target.log)) {
            return Err(Refusal::log_stopped(target.log));
        }
        let hidden = publish.more.map_or(&[][..], More::hidden_keys);
        if message.hiding_len(route.queues_most, hidden).is_none() {
            return Err(Refusal::message_too_large());
        }
        let (_, handle, seq) = waiter;
        if route.is_remembered {
            let exchanges = self.remembering((handle, seq), access, publish);
            self.have_remembered(now, exchanges, &message);
        }
        if route.is_traced {
            let queues = route.targets.iter().flat_map(|target| &*target.queues);
            self.trace_publish(now, waiter, publish, queues);
        }
        let mut waits = 0;
        for target in &route.targets {
            let waiter = publish.confirm.then_some(waiter);
            waits += u32::from(self.append_hiding(now, (&message, hidden), target, waiter));
        }
        if let Some(replies) = &route.replies {
            self.append_replies(&message, replies);
        }
        match waits {
            0 if route.targets.is_empty() && route.replies.is_none() => Ok(Published::Unroutable),
            0 => Ok(Published::Done),
            1 => Ok(Published::Waiting),
            _ => {
                known.split.insert(seq, waits);
                Ok(Published::Waiting)
            }
        }
    }

    /// The exchanges on a message's way that remember it.
    fn remembering(
        &self,
        message: (u32, u64),
        access: &AccessCache,
        publish: &Publish<'_>,
    ) -> Vec<ExchangeId> {
        // The same way again, which is the same: nothing has changed since, and the lot falls as it did.
        let keys: Vec<&[u8]> = [publish.routing_key]
            .into_iter()
            .chain(publish.more.iter().flat_map(|more| more.keys.iter().copied()))
            .collect();
        let roll = self.view(message).roll(access.actor().port);
        let envelope = Envelope { keys: &keys, headers: publish.headers, roll };
        let (vhost, exchange, mut matches) = (access.vhost(), publish.exchange, Matches::default());
        match self.catalog.route(vhost, exchange, &envelope, &mut matches) {
            Ok(_) => self.catalog.remembering_exchanges(vhost, exchange, &matches),
            Err(_) => Vec::new(),
        }
    }

    /// Appends a message of the broker's own to a log. Whether `waiter` will hear of it.
    pub(crate) fn append_to(
        &mut self,
        now: Now,
        message: &NewEnqueue<'_>,
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
    ) -> bool {
        self.append_hiding(now, (message, &[]), target, waiter)
    }

    /// As [`Shard::append_to`], with keys that nobody is to see.
    #[cold]
    pub(crate) fn append_hiding(
        &mut self,
        now: Now,
        (message, hidden): (&NewEnqueue<'_>, &[&[u8]]),
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
    ) -> bool {
        let is_durable = message.flags & flag::DURABLE != 0;
        let needs_flush = !target.is_memory && (is_durable || target.has_quorum);
        let waiter = waiter.filter(|_| needs_flush || target.is_special);
        match target.slot {
            _ if target.is_special => {
                self.append_special_hiding(now, (message, hidden), target, waiter, needs_flush);
            }
            _ if !hidden.is_empty() => {
                self.append_hidden(now, (message, hidden), target, waiter, needs_flush)
            }
            Some(slot) => {
                let log = &mut self.logs[slot as usize];
                log.append_message_rare(now, message, &target.queues, waiter, needs_flush);
            }
            None => self.append_remote(message, target, waiter, needs_flush),
        }
        waiter.is_some()
    }

    /// Appends a message that is delayed, or to a log of whose queues some may refuse it.
    #[cold]
    #[inline(never)]
    fn append_special(
        &mut self,
        now: Now,
        message: &NewEnqueue<'_>,
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        self.append_special_hiding(now, (message, &[]), target, waiter, needs_flush);
    }

    fn append_special_hiding(
        &mut self,
        now: Now,
        (message, hidden): (&NewEnqueue<'_>, &[&[u8]]),
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        let due_at_ms = match target.due {
            Due::Now => 0,
            Due::At(at_ms) => at_ms,
            Due::After(0) => now.wall_ms,
            // The clock may be as good as at its next millisecond: what waits less than it was asked to is early.
            Due::After(delay_ms) => now.wall_ms.saturating_add(delay_ms).saturating_add(1),
        };
        // The clock says what is to come, in the log for ever: what was received and is due.
        if due_at_ms <= message.received_at_ms {
            return self.append_ordinary(now, (message, hidden), target, waiter, needs_flush);
        }
        let head = match target.due {
            Due::After(delay_ms) => message::delay::taken(message.format, message.head, delay_ms),
            _ => None,
        };
        let pieces = [head.as_deref().unwrap_or_default()];
        let later_ms = due_at_ms - message.received_at_ms;
        let delayed = NewEnqueue {
            flags: message.flags | flag::DELAYED,
            due_at_ms: message.due_at(due_at_ms),
            expires_at_ms: match message.expires_at_ms {
                0 => 0,
                expires_at_ms => expires_at_ms.saturating_add(later_ms),
            },
            head: if head.is_some() { &pieces } else { message.head },
            ..*message
        };
        self.append_ordinary(now, (&delayed, hidden), target, waiter, needs_flush);
    }

    /// Appends a message as it is; queues that may refuse it are asked.
    fn append_ordinary(
        &mut self,
        now: Now,
        (message, hidden): (&NewEnqueue<'_>, &[&[u8]]),
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        match target.slot {
            _ if target.asks || !hidden.is_empty() => {
                self.append_hidden(now, (message, hidden), target, waiter, needs_flush);
            }
            Some(slot) => {
                let log = &mut self.logs[slot as usize];
                log.append_message_rare(now, message, &target.queues, waiter, needs_flush);
            }
            None => self.append_remote(message, target, waiter, needs_flush),
        }
    }

    fn append_remote(
        &mut self,
        message: &NewEnqueue<'_>,
        target: &Target,
        waiter: Option<(PortId, u32, u64)>,
        needs_flush: bool,
    ) {
        let owner = self.settings.placement.owner(target.log);
        if !matches!(self.post.last_for(owner), Some(Mail::Append { log, .. }) if *log == target.log) {
            let (records, waiters) = (self.parcels.take(), Vec::new());
            let (from, log) = (self.settings.id, target.log);
            self.post.send(owner, Mail::Append { from, log, records, waiters, needs_flush: false });
        }
        if let Some(Mail::Append { records, waiters, needs_flush: flush, .. }) = self.post.last_for(owner) {
            let before = records.len();
            message.write(&target.queues, records);
            self.under_way += records.len() - before;
            *flush |= needs_flush;
            if let Some((port, publisher, seq)) = waiter {
                wait(waiters, port, publisher, seq);
            }
        }
    }
}
