//! The event exchange: what happens on a node, told to the queues that are bound to `amq.rabbitmq.event`.
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

use crate::catalog::{Actor, Catalog, Change, EVENT_EXCHANGE, QueueDefinition};
use crate::mail::Mail;
use crate::shard::{CATALOG_LOG, Port, Shard};
use crate::tally::Protocol;
use base::Now;
use base::id::PortId;
use message::record::{Format, NewEnqueue, flag};
use routing::{Arguments, Envelope, Matches};
use rustc_hash::FxHashMap;

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
struct Wording<'a> {
    catalog: &'a Catalog,
    ports: &'a FxHashMap<PortId, Port>,
    /// The node's name.
    node: &'a str,
}

impl Wording<'_> {
    /// The announcement of an occurrence; none where its connection is gone.
    fn of(&self, now: Now, occurrence: &Occurrence<'_>) -> Option<Announcement> {
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

impl Shard {
    /// Somebody hears what is announced.
    pub fn is_heard(&self) -> bool {
        let exchange = self.catalog.event_exchange().and_then(|id| self.catalog.exchange_by_id(id));
        exchange.is_some_and(|entry| !entry.exchange.is_unused())
    }

    /// On the planning shard: has the event exchange made in a virtual host, if it is nowhere yet.
    pub fn have_event_exchange(&mut self, now: Now, vhost: &str) {
        if self.planner.is_some()
            && let Some(change) = self.catalog.missing_event_exchange(vhost)
        {
            self.make_change(now, change);
        }
    }

    /// Announces an occurrence, if somebody hears.
    pub fn announce(&mut self, now: Now, occurrence: &Occurrence<'_>) {
        if !self.is_heard() {
            return;
        }
        let wording = Wording { catalog: &self.catalog, ports: &self.ports, node: &self.settings.node };
        let Some(announcement) = wording.of(now, occurrence) else { return };
        if self.planner.is_some() {
            self.publish_announcement(now, &announcement);
        } else {
            let planner = self.settings.placement.owner(CATALOG_LOG);
            self.post.send(planner, Mail::Announce(announcement));
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
            self.announce_end(actor.port, caller.name, settled.properties);
        }
    }

    /// The node's alarm over `source` (`memory`, `disk`) is raised, or is no longer.
    pub fn alarm_changed(&mut self, now: Now, source: &str, is_raised: bool) {
        // Every shard hears of it; one tells.
        if self.planner.is_some() {
            self.announce(now, &Occurrence::Alarm { source, is_raised });
        }
    }

    /// On the planning shard: the announcements of a change that is about to be made, on behalf of `by`, who waits for an
    /// answer or does not; none while nobody is bound.
    pub(crate) fn announcements(&self, by: &Actor, is_asked_for: bool, change: &Change) -> Vec<Announcement> {
        let is_first_binding =
            matches!(change, Change::Bind(binding) if Some(binding.source) == self.catalog.event_exchange());
        if !self.is_heard() && !is_first_binding {
            return Vec::new();
        }
        announce::of_change(&self.catalog, &self.settings.node, (by, is_asked_for), change)
    }

    /// On the planning shard: publishes an announcement.
    #[cold]
    pub(crate) fn publish_announcement(&mut self, now: Now, announcement: &Announcement) {
        let Some(exchange) = self.catalog.event_exchange() else { return };
        let key = announcement.key.as_bytes();
        let mut matches = Matches::default();
        self.catalog.route_from(exchange, &Envelope::keyed(&[key]), &mut matches);
        let message = NewEnqueue {
            flags: flag::DURABLE,
            format: Format::Amqp091,
            priority: 0,
            received_at_ms: now.wall_ms,
            expires_at_ms: 0,
            due_at_ms: 0,
            ordering_key: 0,
            exchange: EVENT_EXCHANGE.as_bytes(),
            routing_key: key,
            head: &[&announcement.head(now)],
            body: &[],
        };
        self.publish_own(now, &message, &matches);
    }
}
