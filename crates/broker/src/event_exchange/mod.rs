//! The event exchange: events of a node, told to the queues that are bound to `amq.rabbitmq.event`.
//!
//! An announcement is a message without a body: the routing key says what happened (`queue.created`), the headers to what
//! and by whom, as those of RabbitMQ 4.3.6 do. The shard that plans the catalog's changes announces them, as it makes them;
//! an [`Occurrence`] is announced by the shard it happens on, by way of the one that plans. An announcement is worded only
//! while a queue is bound, and nobody waits for it.
//! Wording reads the catalog and changes nothing ([`Wording`], [`announce::of_change`]); the shard's side is here.

mod alarms;
mod announce;
mod connections;

pub use announce::Announcement;
pub use connections::{Arrived, Caller, Encryption, Settled};

use crate::catalog::{Actor, Catalog, Change, EVENT_EXCHANGE, QueueDefinition, Ruled};
use crate::planner::{By, Cause};
use crate::ports::Ports;
use crate::publisher::OwnPublisher;
use base::Now;
use base::id::PortId;
use message::record::{NewEnqueue, flag};
use routing::{Arguments, Envelope, Matches};

/// Something that happens on a node, changes of the catalog apart.
#[derive(Clone, Copy, Debug)]
pub enum Occurrence<'a> {
    /// A login was granted to a user, or refused for a reason.
    Login {
        /// The connection.
        caller: &'a Caller<'a>,
        /// The user, or the reason.
        result: Result<&'a str, &'a str>,
    },
    /// A connection is open.
    ConnectionOpened {
        /// Its user and virtual host.
        actor: &'a Actor,
        /// The connection.
        caller: &'a Caller<'a>,
        /// The terms it is open on.
        settled: &'a Settled<'a>,
    },
    /// A connection whose coming was announced is closed.
    ConnectionClosed {
        /// The connection.
        port: PortId,
        /// Its name.
        name: &'a str,
        /// The description its client gave of itself.
        properties: &'a Arguments,
    },
    /// A channel is open.
    ChannelOpened {
        /// Its connection.
        port: PortId,
        /// The connection's name.
        name: &'a str,
        /// Its number.
        channel: u16,
    },
    /// A channel is closed; its consumers went before.
    ChannelClosed {
        /// Its connection.
        port: PortId,
        /// Its number.
        channel: u16,
    },
    /// A consumer is there.
    ConsumerCame {
        /// Its connection.
        port: PortId,
        /// The consumer.
        consumer: &'a Arrived<'a>,
    },
    /// A consumer is gone: cancelled by its client, or with its channel, or with its queue, which may be gone already.
    ConsumerWent {
        /// Its connection.
        port: PortId,
        /// Its channel, or session.
        channel: u16,
        /// The client's name for it.
        tag: &'a str,
        /// The queue it consumed from.
        queue: &'a QueueDefinition,
    },
    /// An alarm of the node is raised, or is no longer.
    Alarm {
        /// Its source: `memory`, `disk`.
        source: &'a str,
        /// It is raised.
        is_raised: bool,
    },
}

/// All that occurrences are worded from.
pub(crate) struct Wording<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) ports: &'a Ports,
    /// The node's name.
    pub(crate) node: &'a str,
}

impl Wording<'_> {
    /// The announcement of an occurrence; none where its connection is gone.
    pub(crate) fn of(&self, now: Now, occurrence: &Occurrence<'_>) -> Option<Announcement> {
        match *occurrence {
            Occurrence::Login { caller, result } => Some(self.login(caller, result)),
            Occurrence::ConnectionOpened { actor, caller, settled } => {
                Some(self.connection_opened(now, actor, caller, settled))
            }
            Occurrence::ConnectionClosed { port, name, properties } => {
                Some(self.connection_closed(port, name, properties))
            }
            Occurrence::ChannelOpened { port, name, channel } => self.channel_opened(port, name, channel),
            Occurrence::ChannelClosed { port, channel } => self.channel_closed(port, channel),
            Occurrence::ConsumerCame { port, consumer } => self.consumer_came(port, consumer),
            Occurrence::ConsumerWent { port, channel, tag, queue } => {
                self.consumer_went((port, channel), tag, queue)
            }
            Occurrence::Alarm { source, is_raised } => Some(self.alarm(source, is_raised)),
        }
    }
}

/// Somebody hears what is announced.
pub(crate) fn is_heard(catalog: &Catalog) -> bool {
    let exchange = catalog.event_exchange().and_then(|id| catalog.exchange_by_id(id));
    exchange.is_some_and(|entry| !entry.exchange.is_unused())
}

/// On the planning shard of `node`: the announcements of a change that is about to be made, on behalf of `by`, an actor
/// that waits for an answer or does not; none while nobody is bound.
pub(crate) fn announcements(
    catalog: &Catalog,
    node: &str,
    (by, is_asked_for): (&Actor, bool),
    change: &Change,
) -> Vec<Announcement> {
    let is_first_binding =
        matches!(change, Change::Bind(binding) if Some(binding.source) == catalog.event_exchange());
    if !is_heard(catalog) && !is_first_binding {
        return Vec::new();
    }
    announce::of_change(catalog, node, (by, is_asked_for), change)
}

/// The announcements of other policies that count for `objects` of `catalog`, by a change of policies on behalf of `by`.
pub(crate) fn governed(
    catalog: &Catalog,
    node: &str,
    by: &By,
    governed: (&Cause, &[Ruled]),
) -> Vec<Announcement> {
    match is_heard(catalog) {
        true => announce::of_governed(catalog, node, by, governed),
        false => Vec::new(),
    }
}

/// On the planning shard: publishes an announcement.
#[cold]
pub(crate) fn publish(own: &mut OwnPublisher<'_>, announcement: &Announcement) {
    let Some(exchange) = own.catalog.event_exchange() else { return };
    let key = announcement.key.as_bytes();
    let mut matches = Matches::within(own.settings.limits.route_steps_max);
    own.catalog.route_from(exchange, &Envelope::keyed(&[key]), &mut matches);
    let head = announcement.head(own.now);
    let head = [&*head];
    let message = own.message((EVENT_EXCHANGE.as_bytes(), key), &head, &[]);
    own.publish(&NewEnqueue { flags: flag::DURABLE, ..message }, &matches);
}
