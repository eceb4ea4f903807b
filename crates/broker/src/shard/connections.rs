//! The connections that are at home on a shard: their coming and going, and what of theirs is to end with them.

use super::{CATALOG_LOG, Shard};
use crate::catalog::{Actor, Object, Op, Reason, Refusal, ReplyCode};
use crate::connection_limits::Unit;
use crate::event::Event;
use crate::event_exchange::Occurrence;
use crate::mail::Mail;
use crate::request::{ConsumerRef, QueueCommand, Reply};
use base::Now;
use base::id::{LogId, PortId, QueueId};
use routing::Arguments;

/// A connection that is at home here.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) actor: Actor,
    /// Queues where it has consumers, to be told when it goes; by handle, since there may be a hundred thousand.
    consumers: Vec<ConsumerRef>,
    /// It declared an exclusive queue.
    pub(super) owns_queues: bool,
    /// Its channels that count.
    channels: u32,
    /// Its name, if its coming was announced, or what it does is told of.
    pub(crate) name: Option<Box<str>>,
    /// Its coming was announced, with what its client says of itself: then its going is too.
    announced: Option<Box<Arguments>>,
}

impl Shard {
    /// Bytes of memory of the table of connections: a slot and a control byte each, of which seven in eight may be full.
    pub(crate) fn ports_bytes(&self) -> usize {
        (self.ports.capacity() * 8 / 7).next_power_of_two() * (size_of::<(PortId, Port)>() + 1)
    }
}

impl Port {
    /// It has neither consumers nor queues of its own, and nobody was told by what port it goes.
    pub(crate) fn is_light(&self) -> bool {
        self.consumers.is_empty() && !self.owns_queues && self.announced.is_none()
    }
}

/// Whether it is a connection's, and not the node's own.
fn is_client(port: PortId) -> bool {
    port.slot != u32::MAX
}

impl Shard {
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
            || self.catalog.vhost_limits(actor.vhost).connections_max.is_some()
            || self.catalog.user_limits(&actor.user).connections_max.is_some()
    }

    /// Asks whether a channel may be opened where its user or the node has a limit; false: there is none, and it may. The
    /// answer comes as an [`Event::Reply`] with `token`. It counts until [`Shard::drop_channel`], a refused one too.
    pub fn ask_channel(&mut self, port: PortId, token: u32) -> bool {
        let Some(state) = self.ports.get_mut(&port) else { return false };
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
        if let Some(state) = self.ports.get_mut(&port).filter(|state| state.channels > 0) {
            state.channels -= 1;
            let actor = state.actor.clone();
            self.tell_census(Mail::Left { actor, unit: Unit::Channel });
        }
    }

    fn add_port(&mut self, port: PortId, actor: Actor, asked: Option<(PortId, u32)>) {
        let state = Port {
            actor: actor.clone(),
            consumers: Vec::new(),
            owns_queues: false,
            channels: 0,
            name: None,
            announced: None,
        };
        self.ports.insert(port, state);
        if is_client(port) {
            self.tallies.churn.connection_created += 1;
            self.tell_census(Mail::Came { actor, unit: Unit::Connection { channels: 0 }, asked });
        }
    }

    /// Tells the planning shard what comes or goes.
    fn tell_census(&mut self, mail: Mail) {
        let planner = self.settings.placement.owner(CATALOG_LOG);
        if planner == self.settings.id { self.count(mail) } else { self.post.send(planner, mail) }
    }

    /// On the planning shard: counts what comes or goes, and answers who asked.
    pub(super) fn count(&mut self, mail: Mail) {
        let census = &mut self.planner.as_mut().expect("this shard plans").census;
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
            other => unreachable!("{other:?} is no matter of the census"),
        }
    }

    /// A connection is gone: its consumers go, what they held goes back, its exclusive queues are deleted.
    pub fn close_port(&mut self, now: Now, port: PortId) {
        let Some(Port { actor, mut consumers, owns_queues, channels, name, announced }) =
            self.ports.remove(&port)
        else {
            return;
        };
        if let (Some(name), Some(properties)) = (name, announced) {
            let (name, properties) = (&*name, &*properties);
            self.announce(now, &Occurrence::ConnectionClosed { port, name, properties });
        }
        if is_client(port) {
            self.tell_census(Mail::Left { actor: actor.clone(), unit: Unit::Connection { channels } });
            self.tallies.churn.connection_closed += 1;
        }
        self.replies.close_port(port);
        consumers.sort_unstable_by_key(|consumer| (consumer.log, consumer.queue));
        consumers.dedup_by_key(|consumer| (consumer.log, consumer.queue));
        for consumer in consumers {
            self.send_to_queue(now, consumer.log, consumer.queue, port, QueueCommand::Leave);
        }
        if owns_queues {
            let actor = Actor::internal(actor.vhost, port);
            self.send_to_planner(now, actor, None, Op::DeleteExclusive { port });
        }
    }

    /// Notes that a connection has a consumer, to be told when it goes.
    #[cold]
    pub(super) fn note_consumer(&mut self, port: PortId, log: LogId, queue: QueueId, command: &QueueCommand) {
        let handle = match command {
            QueueCommand::Consume { handle, .. } => Some(*handle),
            QueueCommand::Stream(command) => command.opens(),
            other => other.getter(),
        };
        if let (Some(handle), Some(state)) = (handle, self.ports.get_mut(&port)) {
            let key = |of: &ConsumerRef| (of.handle, of.log, of.queue);
            let consumer = ConsumerRef { log, queue, handle };
            if let Err(at) = state.consumers.binary_search_by_key(&key(&consumer), key) {
                state.consumers.insert(at, consumer);
            }
        }
    }

    /// The going of a connection is to be announced, under this name and with what its client says of itself.
    pub(crate) fn announce_end(&mut self, port: PortId, name: &str, properties: &Arguments) {
        if let Some(state) = self.ports.get_mut(&port) {
            state.name = Some(name.into());
            state.announced = Some(Box::new(properties.clone()));
        }
    }

    /// The connection is done with a consumer for good.
    pub fn forget_consumer(&mut self, port: PortId, handle: u32) {
        if let Some(state) = self.ports.get_mut(&port) {
            let begin = state.consumers.partition_point(|consumer| consumer.handle < handle);
            let end = state.consumers.partition_point(|consumer| consumer.handle <= handle);
            state.consumers.drain(begin..end);
            if state.consumers.is_empty() {
                state.consumers = Vec::new();
            }
        }
    }

    /// The connection is to hear [`Event::QueueDeleted`], with its own number `watcher`, when the queue is deleted. It
    /// must [`Shard::unwatch_queue`] before it closes.
    pub fn watch_queue(&mut self, port: PortId, queue: QueueId, watcher: u32) {
        self.watches.add(queue, port, watcher);
    }

    /// The connection no longer wants to hear of the queue.
    pub fn unwatch_queue(&mut self, port: PortId, queue: QueueId, watcher: u32) {
        self.watches.remove(queue, port, watcher);
    }

    /// Closes the connections that a deleted object takes with it, in the order of their ports.
    pub(super) fn close_ports(&mut self, object: Object, text: &str, is_theirs: impl Fn(&Actor) -> bool) {
        let theirs = self.ports.iter().filter(|(_, state)| is_theirs(&state.actor));
        let mut ports: Vec<PortId> = theirs.map(|(port, _)| *port).collect();
        ports.sort_unstable();
        for port in ports {
            let refusal = Refusal::new(ReplyCode::ConnectionForced, Reason::Deleted(object), text);
            self.post.event(port, Event::Close { refusal });
        }
    }
}
