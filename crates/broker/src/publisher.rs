//! Where messages come in: one [`Publisher`] per channel or session, which remembers what it may do and where its
//! messages go.
//!
//! A route is worked out once per exchange and key and kept until the catalog changes, permissions included, or a log goes
//! elsewhere, so that a publish costs one comparison of names.

mod addressed;
mod own;
mod publish;
mod route;

pub(crate) use addressed::Addressed;
pub(crate) use own::OwnPublisher;
pub(crate) use route::{Due, Target};

use crate::access::AccessCache;
use crate::catalog::{Actor, Refusal, VhostId};
use crate::content::Content;
use crate::ledger::{Holding, Kind};
use crate::limits::Limits;
use base::Now;
use base::hash::{ByBytes, MapByBytes, MapById};
use base::id::{LogId, PortId, QueueId};
use filter::Counts;
use hashbrown::HashTable;
use message::record::{Format, NewEnqueue, flag};
use route::{Route, View};
use routing::Headers;
use std::hash::{BuildHasher, Hasher};

/// A message to be published.
#[derive(Clone, Copy)]
pub struct Publish<'a> {
    /// The exchange; empty: the default one.
    pub exchange: &'a [u8],
    /// The routing key.
    pub routing_key: &'a [u8],
    /// Properties that few messages have.
    pub more: Option<&'a More<'a>>,
    /// The fields a headers exchange looks at.
    pub headers: &'a dyn Headers,
    /// The encoding of head and body.
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

/// Properties that few messages have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More<'a> {
    /// Further keys it is routed by as well.
    pub keys: Vec<&'a [u8]>,
    /// How many of them, the last ones, nobody is to see; they are kept for when the message dies.
    pub hidden: usize,
    /// It is delayed until then, milliseconds since 1970; 0, or a time that has come: not at all.
    pub due_at_ms: u64,
    /// The sender, as the message says itself: the broker vouches for it, see [`AccessCache::check_publish`].
    pub user_id: Option<&'a [u8]>,
    /// Of a 0-9-1 message: the node wrote into its head when it came.
    pub stamped: bool,
}

impl<'a> More<'a> {
    /// The keys nobody is to see.
    pub(crate) fn hidden_keys(&self) -> &[&'a [u8]] {
        &self.keys[self.keys.len() - self.hidden.min(self.keys.len())..]
    }

    /// It has no part in where the message goes, and when.
    fn leaves_the_way(&self) -> bool {
        self.keys.is_empty() && self.due_at_ms == 0
    }

    /// It, where anything is asked for.
    pub fn some(&self) -> Option<&More<'a>> {
        (*self != More::default()).then_some(self)
    }
}

impl<'a> Publish<'a> {
    /// All that is in it, for filters.
    fn content(&self) -> Content<'_> {
        let is_stamped = self.more.is_some_and(|more| more.stamped);
        let flags = if is_stamped { flag::STAMPED } else { 0 };
        Content::new((self.format, flags), (self.exchange, self.routing_key), (self.head, self.body))
    }

    /// As it is recorded when it is published now.
    #[inline(always)]
    fn record(&self, now: Now) -> NewEnqueue<'a> {
        NewEnqueue {
            flags: if self.durable { flag::DURABLE } else { 0 }
                | if self.priority.is_some() { flag::PRIORITY } else { 0 }
                | if self.more.is_some_and(|more| more.stamped) { flag::STAMPED } else { 0 },
            format: self.format,
            priority: self.priority.unwrap_or(0),
            received_at_ms: now.wall_ms,
            expires_at_ms: self.ttl_ms.map_or(0, |ttl| now.wall_ms.saturating_add(ttl).max(1)),
            due_at_ms: 0,
            keys: None,
            exchange: self.exchange,
            routing_key: self.routing_key,
            head: self.head,
            body: self.body,
        }
    }
}

/// Queues of routes that [`Publisher::routes`] looks at: a listing of all channels is not to hold up their shard.
pub const ROUTES_SHOWN_MAX: usize = 1000;

/// The result of a publish, as far as it is known at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It was routed; an [`crate::Event::Confirmed`] with this number follows when it is safe.
    Waiting,
    /// It was routed, and nothing is to be waited for.
    Done,
    /// It was routed nowhere.
    Unroutable,
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

/// The memory of a publisher that has published: its routes, and its publishes under way.
#[derive(Debug, Default)]
struct Known {
    /// The version of what the routes rest on, see [`route::version`].
    version: u64,
    routes: Vec<Route>,
    last: usize,
    /// The work of finding routes since it was asked for.
    spent: Spent,
    /// Bytes of those of `routes` that are kept.
    bytes: usize,
    /// As many as were taken from the connection's account.
    counted: usize,
    /// Those of `routes` that are kept, by exchange and key.
    by_name: HashTable<u32>,
    /// Publishes that wait for more than one log, and for how many more; with [`REFUSED`] once one refused.
    split: MapById<u64, u32>,
    /// Messages by exchange, of routes that are forgotten: of the first exchanges, at most [`EXCHANGES_MAX`].
    gone: Vec<(Box<str>, u64)>,
}

/// The work of finding routes.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// Units of work.
    steps: u64,
    /// Counts of the filters of bindings.
    filtered: Counts,
}

/// Queues that a message goes to without being counted as work.
const QUEUES_FREE: u32 = 32;

/// Units of work that each queue takes to which a message goes, from its record to its place in the queue.
pub(crate) const QUEUE_PRICE: u32 = 60;

/// Units of work that publishing to so many queues is counted as, the way there apart.
#[inline]
pub fn price_of_queues(queues: u32) -> u32 {
    if queues > QUEUES_FREE { queues.saturating_mul(QUEUE_PRICE) } else { 0 }
}

/// Routes for which there is memory left when all are forgotten.
const ROUTES_KEPT: usize = 64;

/// Bytes of routes that a publisher remembers without being counted.
const ROUTES_FREE: usize = 4 << 10;

/// Exchanges of which a publisher remembers how many messages it published to them.
const EXCHANGES_MAX: usize = 64;

fn add_messages(counts: &mut Vec<(Box<str>, u64)>, exchange: &[u8], messages: u64) {
    if let Some((_, count)) = counts.iter_mut().find(|(name, _)| name.as_bytes() == exchange) {
        *count += messages;
    } else if counts.len() < EXCHANGES_MAX {
        counts.push((String::from_utf8_lossy(exchange).into(), messages));
    }
}

/// The hash by which a route is found.
#[inline]
fn hash_of(exchange: &[u8], key: &[u8]) -> u64 {
    let mut hasher = ByBytes.build_hasher();
    hasher.write(exchange);
    hasher.write(key);
    hasher.finish()
}

/// A flag of refused publishes, beside the number of logs they still hear from.
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

    /// The permissions of its actor.
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
        let mut sums: MapByBytes<(&[u8], QueueId), u64> = MapByBytes::default();
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
        self.known.as_ref().map_or(0, |known| {
            size_of::<Known>()
                + (known.routes.capacity() - known.routes.len()) * size_of::<Route>()
                + known.bytes
                + known.by_name.allocation_size()
                + known.split.capacity() * 16
                + known.gone.capacity() * size_of::<(Box<str>, u64)>()
        })
    }

    /// Queues that its last message went to, where they were too few to be counted as work; none where its route was for
    /// that message alone, whose finding was counted.
    pub fn uncounted_queues(&self) -> u32 {
        let last = self.known.as_ref().and_then(|known| known.routes.get(known.last));
        last.map(|route| route.queues).filter(|queues| *queues <= QUEUES_FREE).unwrap_or(0)
    }

    /// Units of work that asking for ways took since they were last asked for (`Shard::would_publish`), which cannot count
    /// them; publishing counts its own.
    pub fn take_steps(&mut self) -> u32 {
        self.known.as_mut().map_or(0, |known| known.take_steps())
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
    /// Units of work that finding ways took since this was last asked, those of refused messages too.
    #[inline]
    fn take_steps(&mut self) -> u32 {
        u32::try_from(std::mem::take(&mut self.spent.steps)).unwrap_or(u32::MAX)
    }

    /// Where exchange and key of `publish` lead: an index of `routes`.
    fn route(
        &mut self,
        access: &mut AccessCache,
        view: &View<'_>,
        publish: &Publish<'_>,
    ) -> Result<usize, Refusal> {
        let version = view.version();
        if self.version != version {
            self.forget();
            self.version = version;
        }
        let Some(more) = publish.more else { return self.look_up(access, view, publish) };
        if !more.leaves_the_way() {
            return self.look_up_once(access, view, publish);
        }
        let at = self.look_up(access, view, publish)?;
        // The way may have been found for a message that named nobody.
        access.check_user(view.catalog, more.user_id)?;
        Ok(at)
    }

    /// As [`Known::route`], where that is the route of the last look-up.
    #[inline]
    fn last_route(&self, version: u64, publish: &Publish<'_>) -> Option<usize> {
        let is_same = self.version == version
            && publish.more.is_none()
            && self.routes.get(self.last)?.is_for(publish.exchange, publish.routing_key);
        is_same.then_some(self.last)
    }

    /// Bytes that are to be counted.
    #[inline]
    fn due(&self) -> usize {
        self.bytes.saturating_sub(ROUTES_FREE)
    }

    /// Takes the bytes of the routes that came and went from the connection's account. Where there is no room for them, the
    /// last one is for its message alone, and all others are forgotten.
    #[cold]
    fn count(&mut self, holding: Option<&mut Holding>) {
        let Some(holding) = holding else { return };
        let due = self.due();
        if due > self.counted && holding.take(Kind::Caches, due - self.counted).is_err() {
            let last = self.routes.pop();
            self.forget();
            self.routes.extend(last.map(|route| Route { holds_once: true, ..route }));
        }
        let due = self.due();
        if due < self.counted {
            holding.give(Kind::Caches, self.counted - due);
        }
        self.counted = due;
    }

    #[cold]
    fn forget(&mut self) {
        for route in self.routes.drain(..).filter(|route| route.messages > 0) {
            add_messages(&mut self.gone, &route.exchange, route.messages);
        }
        self.by_name.clear();
        if self.routes.capacity() > ROUTES_KEPT {
            // They are given back by the ledger, too.
            (self.routes, self.by_name) = Default::default();
        }
        (self.last, self.bytes) = (0, 0);
    }

    fn look_up(
        &mut self,
        access: &mut AccessCache,
        view: &View<'_>,
        publish: &Publish<'_>,
    ) -> Result<usize, Refusal> {
        let (exchange, key) = (publish.exchange, publish.routing_key);
        let hash = hash_of(exchange, key);
        if let Some(at) = self.by_name.find(hash, |at| self.routes[*at as usize].is_for(exchange, key)) {
            self.last = *at as usize;
            return Ok(self.last);
        }
        let (route, sees_more) = view.route(access, publish, &mut self.spent)?;
        let bytes = route.bytes(exchange.len() + key.len());
        let is_kept = !sees_more && bytes <= view.limits.routes_bytes_max;
        let at = self.add(route, if is_kept { bytes } else { 0 }, view);
        if is_kept {
            let route = &mut self.routes[at];
            (route.exchange, route.key, route.holds_once) = (exchange.into(), key.into(), false);
            let routes = &self.routes;
            self.by_name.insert_unique(hash, at as u32, |at| {
                let route = &routes[*at as usize];
                hash_of(&route.exchange, &route.key)
            });
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
        let (route, _) = view.route(access, publish, &mut self.spent)?;
        Ok(self.add(route, 0, view))
    }

    /// Adds a route of which `bytes` are to be kept, after forgetting all where it is one too many.
    fn add(&mut self, route: Route, bytes: usize, view: &View<'_>) -> usize {
        let Limits { routes_max, routes_bytes_max, .. } = *view.limits;
        if self.routes.len() >= routes_max || self.bytes + bytes > routes_bytes_max {
            self.forget();
        }
        self.bytes += bytes;
        self.last = self.routes.len();
        self.routes.push(route);
        self.last
    }
}
