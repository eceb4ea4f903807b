//! What is announced at the event exchange of who comes and goes on a connection, and of alarms.
//!
//! Channels are AMQP 0-9-1's; of AMQP 1.0's sessions nothing is announced, as in RabbitMQ, but of the consumers of its links.
//! A channel, or session, is told of in the shape of a process: its connection's, and its number behind that. Nothing is kept of
//! what was announced: who knows of an end announces it, while somebody hears.

use crate::catalog::QueueDefinition;
use crate::event_exchange::announce::{Announcement, INTERNAL_USER, arguments, number, text, truth};
use crate::event_exchange::connections::process;
use crate::shard::Shard;
use base::Now;
use base::id::{PortId, QueueId};
use message::amqp091::TableWriter;
use routing::Arguments;

/// A consumer that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The channel or session it is on.
    pub channel: u16,
    /// What its client calls it.
    pub tag: &'a str,
    /// The queue it consumes from.
    pub queue: QueueId,
    /// It has the queue for itself.
    pub exclusive: bool,
    /// What it is handed is unsettled.
    pub settles: bool,
    /// Messages it may hold; 0: any number.
    pub prefetch: u16,
    /// What it was made with.
    pub arguments: &'a Arguments,
}

/// A channel, or session, in the shape of a process.
fn of_channel(port: PortId, channel: u16) -> String {
    let connection = process(port);
    format!("{}.{channel}>", connection.trim_end_matches('>'))
}

impl Shard {
    /// A channel is open on a connection, whose name this is.
    pub fn channel_opened(&mut self, now: Now, port: PortId, name: &str, channel: u16) {
        let Some((user, vhost)) = self.heard_actor(port) else { return };
        self.tell_of(now, "channel.created", |fields| {
            text(fields, "pid", &of_channel(port, channel));
            text(fields, "name", &format!("{name} ({channel})"));
            text(fields, "connection", &process(port));
            number(fields, "number", channel.into());
            text(fields, "user", &user);
            text(fields, "vhost", &vhost);
            text(fields, "user_who_performed_action", &user);
        });
    }

    /// A channel is closed; its consumers went before.
    pub fn channel_closed(&mut self, now: Now, port: PortId, channel: u16) {
        let Some((user, _)) = self.heard_actor(port) else { return };
        self.tell_of(now, "channel.closed", |fields| {
            text(fields, "pid", &of_channel(port, channel));
            text(fields, "user_who_performed_action", &user);
            number(fields, "consumer_count", 0);
        });
    }

    /// A consumer is there.
    pub fn consumer_came(&mut self, now: Now, port: PortId, consumer: &Arrived<'_>) {
        let Some((user, _)) = self.heard_actor(port) else { return };
        let Some(queue) = self.catalog.queue(consumer.queue).cloned() else { return };
        self.tell_of(now, "consumer.created", |fields| {
            text(fields, "consumer_tag", consumer.tag);
            truth(fields, "exclusive", consumer.exclusive);
            truth(fields, "ack_required", consumer.settles);
            text(fields, "channel", &of_channel(port, consumer.channel));
            put_queue(fields, &queue);
            number(fields, "prefetch_count", consumer.prefetch.into());
            arguments(fields, consumer.arguments);
            text(fields, "user_who_performed_action", &user);
        });
    }

    /// A consumer is gone: cancelled by its client, or with its channel, or with its queue, which may be gone already.
    pub fn consumer_went(
        &mut self,
        now: Now,
        (port, channel): (PortId, u16),
        tag: &str,
        queue: &QueueDefinition,
    ) {
        let Some((user, _)) = self.heard_actor(port) else { return };
        // A quorum queue does not know who asked for it.
        let by = if queue.is_quorum() { INTERNAL_USER } else { &user };
        self.tell_of(now, "consumer.deleted", |fields| {
            text(fields, "consumer_tag", tag);
            text(fields, "channel", &of_channel(port, channel));
            put_queue(fields, queue);
            text(fields, "user_who_performed_action", by);
        });
    }

    /// The node's alarm over `source` (`memory`, `disk`) is raised, or is no longer.
    pub fn alarm_changed(&mut self, now: Now, source: &str, is_raised: bool) {
        // Every shard hears of it; one tells.
        if self.planner.is_none() || !self.is_heard() {
            return;
        }
        let node = self.settings.node.clone();
        self.tell_of(now, if is_raised { "alarm.set" } else { "alarm.cleared" }, |fields| {
            text(fields, "source", source);
            text(fields, "node", &node);
        });
    }

    /// User and virtual host of a connection, if somebody hears.
    fn heard_actor(&self, port: PortId) -> Option<(String, String)> {
        let actor = &self.ports.get(&port).filter(|_| self.is_heard())?.actor;
        let vhost = self.catalog.vhost_definition(actor.vhost)?;
        Some((actor.user.to_string(), vhost.name.to_string()))
    }

    fn tell_of(&mut self, now: Now, key: &'static str, fill: impl FnOnce(&mut TableWriter<'_>)) {
        self.announce_from_here(now, Announcement::new(key, fill));
    }
}

fn put_queue(fields: &mut TableWriter<'_>, queue: &QueueDefinition) {
    text(fields, "queue", &queue.name);
    text(fields, "vhost", &queue.vhost_name);
}
