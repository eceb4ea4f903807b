//! Connections come to a shard and leave it: their limits are asked for, what ends with them ends, what happens to them is announced.

use super::Shard;
use crate::catalog::{Actor, Object, Op, Reason, Refusal, ReplyCode, VhostId};
use crate::connection_limits::Unit;
use crate::event::Event;
use crate::event_exchange::{self, Caller, Occurrence, Settled, Wording};
use crate::firehose;
use crate::ledger::{Full, Holding, Kind, Ledger};
use crate::mail::{Charge, Mail};
use crate::planner::{is_client, low_on_memory};
use crate::ports::{Leaver, Told};
use crate::reply::ReplyAddress;
use crate::request::{Credit, QueueCommand, Reply};
use crate::tally::Protocol;
use base::Now;
use base::id::{PortId, QueueId};
use message::record::Enqueue;
use routing::Arguments;
use std::sync::Arc;

impl Shard {
    /// A connection that is at home here is charged for what waits for other nodes. Where its user has too much of everything, and it
    /// goes on asking, it is closed.
    pub(super) fn charge(&mut self, port: PortId, Charge { bytes, is_asked }: Charge) {
        let Some(state) = self.ports.get_mut(port) else { return };
        let count = bytes.unsigned_abs() as usize;
        if bytes <= 0 {
            return state.holding.give(Kind::Outbox, count);
        }
        state.holding.keep(Kind::Outbox, count);
        if is_asked && let Some(full) = state.holding.overdrawn() {
            let refusal = full.refuse(ReplyCode::ResourceError, "commands that wait for another node");
            self.post.event(port, Event::Close { refusal });
        }
    }

    /// A connection has logged in and opened its virtual host: from now on it may ask for things as `actor`.
    pub fn open_port(&mut self, port: PortId, actor: Actor) {
        self.add_port(port, actor, None);
    }

    /// As [`Shard::open_port`], where [`Shard::is_limited`] says that a limit is to be asked. The answer comes as an
    /// [`Event::Reply`] with `token`; refused, the port is to be closed at once.
    pub fn ask_port(&mut self, port: PortId, actor: Actor, token: u32) {
        self.add_port(port, actor, Some((port, token)));
    }

    /// Whether a connection of this actor must ask before it is opened.
    pub fn is_limited(&self, actor: &Actor) -> bool {
        self.settings.limits.connections_max.is_some()
            || self.settings.limits.user_connections_max.is_some()
            || self.catalog.vhost_limits(actor.vhost).connections_max.is_some()
            || self.catalog.user_limits(&actor.user).connections_max.is_some()
    }

    /// Asks whether a channel may be opened where its user or the node has a limit; false: there is none, and it may. The
    /// answer comes as an [`Event::Reply`] with `token`. It counts until [`Shard::drop_channel`], a refused one too.
    pub fn ask_channel(&mut self, port: PortId, token: u32) -> bool {
        let Some(state) = self.ports.get_mut(port) else { return false };
        let is_limited = self.settings.limits.channels_max.is_some()
            || self.catalog.user_limits(&state.actor.user).channels_max.is_some();
        if !is_limited {
            return false;
        }
        state.channels += 1;
        let actor = state.actor.clone();
        self.tell_census(Mail::Came { actor, unit: Unit::Channel, asked: Some((port, token)) });
        true
    }

    /// A channel that was asked for is gone.
    pub fn drop_channel(&mut self, port: PortId) {
        if let Some(state) = self.ports.get_mut(port).filter(|state| state.channels > 0) {
            state.channels -= 1;
            let actor = state.actor.clone();
            self.tell_census(Mail::Left { actor, unit: Unit::Channel });
        }
    }

    fn add_port(&mut self, port: PortId, actor: Actor, asked: Option<(PortId, u32)>) {
        let holding = self.open_holding(port, &actor);
        self.ports.open(port, actor.clone(), holding);
        if is_client(port) {
            self.tallies.churn.connection_created += 1;
            self.tell_census(Mail::Came { actor, unit: Unit::Connection { channels: 0 }, asked });
        }
    }

    /// Tells the planning shard of a connection or channel that comes or goes.
    fn tell_census(&mut self, mail: Mail) {
        if self.settings.plans() { self.count(mail) } else { self.post.send_to_planner(mail) }
    }

    /// On the planning shard: counts a connection or channel that comes or goes, and answers one that asked.
    pub(super) fn count(&mut self, mail: Mail) {
        let census = &mut self.census;
        match mail {
            Mail::Came { actor, unit, asked } => {
                if let Some((port, token)) = asked {
                    let node = (&*self.settings.node, &self.settings.limits);
                    let answer = census.check(&self.catalog, node, &actor, unit);
                    self.post.reply(port, token, answer.map(|()| Reply::Done));
                }
                census.came(&actor, unit);
            }
            Mail::Left { actor, unit } => census.left(&actor, unit),
            // Of messages it has the contents, which are to be in no log.
            _ => unreachable!("this letter is no matter of the census"),
        }
    }

    /// A connection is gone: its consumers go, what they held goes back, its exclusive queues are deleted.
    pub fn close_port(&mut self, now: Now, port: PortId) {
        let Some(state) = self.ports.close(port) else { return };
        if let Some(Told { name, announced: Some(properties) }) = state.told.as_deref() {
            self.announce(now, &Occurrence::ConnectionClosed { port, name, properties });
        }
        let (actor, owns_queues, channels) = (state.actor.clone(), state.owns_queues, state.channels);
        if is_client(port) {
            self.tell_census(Mail::Left { actor: actor.clone(), unit: Unit::Connection { channels } });
            self.tallies.churn.connection_closed += 1;
        }
        self.replies.close_port(port);
        self.ports.leave(port, state.into_queues());
        self.leave_further(now);
        if owns_queues {
            let actor = Actor::internal(actor.vhost, port);
            self.send_to_planner(now, actor, None, Op::DeleteExclusive { port });
        }
    }

    /// Connections that are gone leave further queues, as many as a turn has room for.
    pub(super) fn leave_further(&mut self, now: Now) {
        let most = self.settings.limits.left_at_once_max;
        while let Some((port, consumer)) = self.ports.next_to_leave(most) {
            self.send_to_queue(now, consumer.log, consumer.queue, port, QueueCommand::Leave);
        }
    }

    /// The connection is done with a consumer for good.
    pub fn forget_consumer(&mut self, port: PortId, handle: u32) {
        self.ports.forget_consumer(port, handle);
    }

    /// The connection is to hear [`Event::QueueDeleted`], with its own number `watcher`, when the queue is deleted. It
    /// must [`Shard::unwatch_queue`] before it closes.
    pub fn watch_queue(&mut self, port: PortId, queue: QueueId, watcher: u32) {
        self.ports.watches.add(queue, port, watcher);
    }

    /// The connection no longer wants to hear of the queue.
    pub fn unwatch_queue(&mut self, port: PortId, queue: QueueId, watcher: u32) {
        self.ports.watches.remove(queue, port, watcher);
    }

    /// A stream is restarted: connections of this shard that watch it are told, and go on watching.
    pub fn stream_restarted(&mut self, queue: QueueId) {
        for (port, _) in self.ports.watches.of(queue) {
            self.post.event(*port, Event::StreamRestarted { queue });
        }
    }

    /// Closes the connections that a deleted object takes with it, in the order of their ports.
    pub(super) fn close_ports(&mut self, object: Object, text: &str, is_theirs: impl Fn(&Actor) -> bool) {
        for port in self.ports.of(is_theirs) {
            self.close_for(port, object, text);
        }
    }

    /// Has a connection close, as an object is deleted that it lives on.
    fn close_for(&mut self, port: PortId, object: Object, text: &str) {
        let refusal = Refusal::new(ReplyCode::ConnectionForced, Reason::Deleted(object), text);
        self.post.event(port, Event::Close { refusal });
    }

    // ---- memory that connections hold

    /// The holding of a connection of `actor`. The node's own hold nothing.
    fn open_holding(&self, port: PortId, actor: &Actor) -> Holding {
        let vhost = self.catalog.vhost_definition(actor.vhost);
        match vhost.filter(|_| is_client(port) && !actor.is_internal) {
            Some(vhost) => self.settings.ledger.open(&actor.user, &vhost.name),
            None => Holding::default(),
        }
    }

    /// Takes room for bytes that a connection is about to keep. One that is not open takes nothing: what it may keep before its
    /// login is bounded by its protocol.
    ///
    /// # Errors
    /// The account that has no room.
    pub fn take(&mut self, port: PortId, kind: Kind, bytes: usize) -> Result<(), Full> {
        self.ports.get_mut(port).map_or(Ok(()), |state| state.holding.take(kind, bytes))
    }

    /// Gives bytes back that a connection no longer keeps.
    pub fn give(&mut self, port: PortId, kind: Kind, bytes: usize) {
        if let Some(holding) = self.holding_mut(port) {
            holding.give(kind, bytes);
        }
    }

    /// Takes room for the arguments of a consumer, which are kept for lists.
    ///
    /// # Errors
    /// There are too many, or they are too large; an account has no room; they are large, and the memory alarm holds.
    pub fn take_arguments(&mut self, port: PortId, arguments: &Arguments) -> Result<(), Refusal> {
        let bytes = arguments.heap_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let limits = &self.settings.limits;
        limits.check_arguments(Object::Consumer, arguments)?;
        if self.is_low_on_memory && limits.alarm_refuses_growth && bytes > limits.alarm_arguments_bytes_max {
            return Err(low_on_memory(&format!("a consumer's arguments of {bytes} bytes")));
        }
        let taken = self.take(port, Kind::Arguments, bytes);
        taken.map_err(|full| full.refuse(ReplyCode::PreconditionFailed, "a consumer's arguments"))
    }

    /// Gives the room for a consumer's arguments back.
    pub fn give_arguments(&mut self, port: PortId, arguments: &Arguments) {
        self.give(port, Kind::Arguments, arguments.heap_bytes());
    }

    /// Whether there is room for the filter of a consumer, of so many bytes; it is taken when the consumer comes, and given
    /// back when it is forgotten.
    ///
    /// # Errors
    /// An account has no room.
    pub fn check_filter(&mut self, port: PortId, bytes: usize) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        let taken = self.take(port, Kind::Filters, bytes);
        taken.map_err(|full| full.refuse(ReplyCode::PreconditionFailed, "a consumer's filter"))?;
        self.give(port, Kind::Filters, bytes);
        Ok(())
    }

    /// The memory that an open connection holds which is at home here.
    pub fn holding(&self, port: PortId) -> Option<&Holding> {
        self.ports.get(port).map(|state| &state.holding)
    }

    /// See [`Shard::holding`].
    pub fn holding_mut(&mut self, port: PortId) -> Option<&mut Holding> {
        self.ports.get_mut(port).map(|state| &mut state.holding)
    }

    /// A connection is closed for the memory that it holds: it is the largest holder no longer.
    pub fn note_evicted(&mut self, port: PortId) {
        if let Some(state) = self.ports.get_mut(port) {
            state.is_evicted = true;
        }
    }

    /// Bytes of room that connections at home here have reserved in the ledger, each looked at.
    pub fn reserved_bytes(&self) -> u64 {
        self.ports.reserved()
    }

    /// The connection at home here that holds most, and how many bytes.
    pub fn largest_holder(&self) -> Option<(PortId, u64)> {
        self.ports.largest_holder()
    }

    /// The user and the virtual host of an open connection that is at home here, by name.
    pub fn names_of(&self, port: PortId) -> Option<(Arc<str>, Arc<str>)> {
        let actor = &self.ports.get(port)?.actor;
        Some((actor.user.clone(), self.catalog.vhost_definition(actor.vhost)?.name.clone()))
    }

    /// The ledger of the node.
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.settings.ledger
    }

    // ---- between shards

    /// The connection has nothing here that keeps it.
    pub fn may_leave(&self, port: PortId) -> bool {
        // Its records for a log that is handed over wait here: from elsewhere it would overtake them.
        !self.post.whereabouts.has_moves() && self.ports.may_leave(port)
    }

    /// The connection leaves; `None` where something keeps it.
    pub fn release_port(&mut self, port: PortId) -> Option<Leaver> {
        if !self.may_leave(port) {
            return None;
        }
        if let Some(holding) = self.holding_mut(port) {
            // Its publishers find their routes anew where it goes.
            holding.give_all(Kind::Caches);
        }
        self.ports.release(port)
    }

    /// A connection that left another shard is at home here, and goes by `port` from now on. It is told of what it missed.
    pub fn adopt_port(&mut self, port: PortId, leaver: Leaver) {
        let state = self.ports.adopt(port, leaver);
        let Actor { user, vhost, is_internal, .. } = state.actor.clone();
        if self.catalog.is_traced(vhost) && state.told.is_none() {
            self.post.event(port, Event::Introduce);
        }
        if self.catalog.vhost_definition(vhost).is_none() {
            self.close_for(port, Object::VirtualHost, "its vhost is deleted");
        } else if !is_internal && self.catalog.user(&user).is_none() {
            // The node's own name is no user's.
            self.close_for(port, Object::User, &format!("user '{user}' is deleted"));
        }
    }

    // ---- reply consumers

    /// Opens a reply consumer of a connection that is at home here; `handle` is the connection's name for it. With
    /// [`Credit::Prefetch`] any number of replies is taken, as nothing is ever unsettled; with [`Credit::Link`] none
    /// until [`Shard::credit_reply`]. What it cannot take is dropped. Replies come as [`Event::Deliver`], settled.
    pub fn open_reply(&mut self, port: PortId, handle: u32, credit: Credit) -> ReplyAddress {
        let secret = self.secret_bytes();
        match self.ports.get(port) {
            Some(state) => self.replies.open(port, handle, state.actor.vhost, secret, credit),
            // A port that is not open has no consumer: nothing would ever end it.
            None => ReplyAddress::new(port, handle, VhostId::default(), secret),
        }
    }

    /// Closes a reply consumer; what still comes for it goes nowhere.
    pub fn close_reply(&mut self, port: PortId, handle: u32) {
        self.replies.close(port, handle);
    }

    /// Sets a reply consumer's link credit, as [`crate::QueueCommand::Credit`] does for one of a queue. Nothing is ever
    /// ready, so a drain is answered at once.
    pub fn credit_reply(&mut self, port: PortId, handle: u32, limit: u32, drain: bool, echo: bool) {
        self.replies.credit(&mut self.post, (port, handle), limit, drain, echo);
    }

    /// The consumer's connection has much to send, or no longer. While it has, a reply consumer takes
    /// [`crate::Limits::reply_bytes_max`] more.
    pub fn pause_reply(&mut self, port: PortId, handle: u32, paused: bool) {
        self.replies.pause(port, handle, paused);
    }

    /// Asks whether the reply consumer of this address is there. The answer comes as an [`Event::Reply`] with `token`:
    /// [`Reply::Done`], or `missing`.
    pub fn ask_reply(&mut self, port: PortId, token: u32, address: ReplyAddress, missing: Refusal) {
        self.replies.ask(&mut self.post, (port, token), address, missing);
    }

    // ---- what is told of connections

    /// The name of a connection of a virtual host that is traced: `ADDRESS:PORT -> ADDRESS:PORT`.
    pub fn introduce(&mut self, port: PortId, name: &str) {
        self.ports.introduce(port, name);
    }

    /// Tells of a delivery that [`crate::TRACED`] asks to be told of: from `queue`, over `channel` of `port`.
    #[cold]
    #[inline(never)]
    pub fn trace_delivery(
        &mut self,
        now: Now,
        (port, channel): (PortId, u16),
        queue: QueueId,
        message: &Enqueue<'_>,
        is_redelivered: bool,
    ) {
        let (mut own, ports) = self.own_and_ports(now);
        firehose::tell_delivery(&mut own, ports, (port, channel), queue, message, is_redelivered);
    }

    /// Somebody hears what is announced.
    pub fn is_heard(&self) -> bool {
        event_exchange::is_heard(&self.catalog)
    }

    /// Announces an occurrence, if somebody hears.
    pub fn announce(&mut self, now: Now, occurrence: &Occurrence<'_>) {
        if !self.is_heard() {
            return;
        }
        let wording = Wording { catalog: &self.catalog, ports: &self.ports, node: &self.settings.node };
        let Some(announcement) = wording.of(now, occurrence) else { return };
        if self.settings.plans() {
            event_exchange::publish(&mut self.own(now), &announcement);
        } else {
            self.post.send_to_planner(Mail::Announce(announcement));
        }
    }

    /// A login was granted to a user, or refused for a reason.
    pub fn login_tried(&mut self, now: Now, caller: &Caller<'_>, result: Result<&str, &str>) {
        let logins = &mut self.tallies.protocols[Protocol::of(caller.protocol) as usize].logins;
        logins[0] += 1;
        logins[1] += u64::from(result.is_err());
        self.announce(now, &Occurrence::Login { caller, result });
    }

    /// A connection is open, on behalf of `actor`.
    pub fn connection_opened(&mut self, now: Now, actor: &Actor, caller: &Caller<'_>, settled: &Settled<'_>) {
        if self.catalog.is_traced(actor.vhost) {
            self.introduce(actor.port, caller.name);
        }
        if self.is_heard() {
            self.announce(now, &Occurrence::ConnectionOpened { actor, caller, settled });
            self.ports.announce_end(actor.port, caller.name, settled.properties);
        }
    }

    /// The node's alarm over `source` (`memory`, `disk`) is raised, or is no longer.
    pub fn alarm_changed(&mut self, now: Now, source: &str, is_raised: bool) {
        if source == "memory" {
            self.is_low_on_memory = is_raised;
            if let Some(planner) = &mut self.planner {
                planner.set_low_on_memory(is_raised);
            }
        }
        // Every shard hears of it; one tells.
        if self.settings.plans() {
            self.announce(now, &Occurrence::Alarm { source, is_raised });
        }
    }
}
