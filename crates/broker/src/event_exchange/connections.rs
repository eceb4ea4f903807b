//! Announcements of connections: logins, connections that open and close, and the channels and consumers on them.
//!
//! Channels are AMQP 0-9-1's; of AMQP 1.0's sessions nothing is announced, as in RabbitMQ, but of the consumers of its links.
//! A channel, or session, is named in the shape of a process: its connection's, and its number behind that. Nothing is kept of
//! an announcement: whatever part knows of an end announces it.

use super::Wording;
use super::announce::{Announcement, INTERNAL_USER, arguments, arguments_as, number, process, text, truth};
use crate::catalog::{Actor, QueueDefinition};
use base::Now;
use base::id::{PortId, QueueId};
use message::amqp091::{TableWriter, Value as Wire};
use routing::{Argument, Arguments};

/// The encryption of a connection, in the words of RabbitMQ's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `tlsv1.2`, `tlsv1.3`.
    pub protocol: &'static str,
    /// How keys were agreed on.
    pub key_exchange: &'static str,
    /// The cipher.
    pub cipher: &'static str,
    /// The hash that vouches for each record.
    pub hash: &'static str,
    /// The client's certificate: subject, issuer, validity, serial number.
    pub certificate: Option<[String; 4]>,
}

/// A connection, as it is announced.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// `ADDRESS:PORT -> ADDRESS:PORT`.
    pub name: &'a str,
    /// The protocol's version, as Erlang writes it: `{0,9,1}`.
    pub protocol: &'a str,
    /// The mechanism by which it logs in.
    pub mechanism: &'a str,
    /// The encryption, over TLS.
    pub encryption: Option<&'a Encryption>,
}

/// The terms of a connection that opens.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// Seconds after which a silent peer is asked about; 0: never.
    pub timeout_s: u64,
    /// Bytes of the largest frame the peer takes.
    pub frame_max: u32,
    /// Channels, or the highest number of a session.
    pub channel_max: u16,
    /// The client's description of itself.
    pub properties: &'a Arguments,
    /// An AMQP 1.0 peer's name for itself.
    pub container: Option<&'a str>,
}

/// A consumer that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The channel or session it is on.
    pub channel: u16,
    /// Its client's name for it.
    pub tag: &'a str,
    /// The queue it consumes from.
    pub queue: QueueId,
    /// It has the queue for itself.
    pub exclusive: bool,
    /// Deliveries to it are unsettled.
    pub settles: bool,
    /// Messages it may hold; 0: any number.
    pub prefetch: u16,
    /// The arguments it was made with.
    pub arguments: &'a Arguments,
}

impl Caller<'_> {
    fn put(&self, fields: &mut TableWriter<'_>) {
        let (peer, here) = self.name.split_once(" -> ").unwrap_or_default();
        for (host, port, end) in [("peer_host", "peer_port", peer), ("host", "port", here)] {
            let (address, number) = end.rsplit_once(':').unwrap_or((end, ""));
            text(fields, host, &erlang_address(address));
            self::number(fields, port, number.parse().unwrap_or(0));
        }
        text(fields, "protocol", self.protocol);
        text(fields, "auth_mechanism", self.mechanism);
        truth(fields, "ssl", self.encryption.is_some());
    }

    /// The encryption; missing parts are left out, or empty texts where `with_empty`.
    fn put_encryption(&self, fields: &mut TableWriter<'_>, with_empty: bool) {
        let told = |part: fn(&Encryption) -> &'static str| self.encryption.map(part).unwrap_or_default();
        let certificate = self.encryption.and_then(|encryption| encryption.certificate.as_ref());
        let [subject, issuer, validity, _serial_number] =
            certificate.map_or([""; 4], |certificate| certificate.each_ref().map(|text| &**text));
        for (name, value) in [
            ("ssl_protocol", told(|it| it.protocol)),
            ("ssl_key_exchange", told(|it| it.key_exchange)),
            ("ssl_cipher", told(|it| it.cipher)),
            ("ssl_hash", told(|it| it.hash)),
            ("peer_cert_subject", subject),
            ("peer_cert_issuer", issuer),
            ("peer_cert_validity", validity),
        ] {
            if with_empty || !value.is_empty() {
                text(fields, name, value);
            }
        }
    }
}

/// A client's description of itself, and by itself the name it gave the connection.
fn put_properties(fields: &mut TableWriter<'_>, properties: &Arguments) {
    arguments_as(fields, "client_properties", properties);
    if let Some(Argument::Text(name)) = properties.get(b"connection_name") {
        fields.put(b"user_provided_name", Wire::Text(name));
    }
}

/// An address of four numbers as Erlang writes it; any other as it is.
fn erlang_address(address: &str) -> String {
    match address.parse::<std::net::Ipv4Addr>() {
        Ok(address) => format!("{{{}}}", address.octets().map(|octet| octet.to_string()).join(",")),
        Err(_) => address.to_owned(),
    }
}

/// A channel, or session, in the shape of a process.
fn of_channel(port: PortId, channel: u16) -> String {
    let connection = process(port);
    format!("{}.{channel}>", connection.trim_end_matches('>'))
}

fn put_queue(fields: &mut TableWriter<'_>, queue: &QueueDefinition) {
    text(fields, "queue", &queue.name);
    text(fields, "vhost", &queue.vhost_name);
}

impl Wording<'_> {
    pub(super) fn login(&self, caller: &Caller<'_>, result: Result<&str, &str>) -> Announcement {
        let key = if result.is_ok() { "user.authentication.success" } else { "user.authentication.failure" };
        Announcement::new(key, |fields| {
            text(fields, "connection_name", caller.name);
            text(fields, "connection_type", "network");
            caller.put(fields);
            caller.put_encryption(fields, false);
            match result {
                Ok(user) => text(fields, "name", user),
                Err(reason) => text(fields, "error", reason),
            }
        })
    }

    pub(super) fn connection_opened(
        &self,
        now: Now,
        actor: &Actor,
        caller: &Caller<'_>,
        settled: &Settled<'_>,
    ) -> Announcement {
        let vhost = self.catalog.vhost_definition(actor.vhost).map_or("", |vhost| &vhost.name);
        Announcement::new("connection.created", |fields| {
            text(fields, "name", caller.name);
            text(fields, "user", &actor.user);
            text(fields, "vhost", vhost);
            text(fields, "type", "network");
            text(fields, "pid", &process(actor.port));
            number(fields, "connected_at", i64::try_from(now.wall_ms).unwrap_or(i64::MAX));
            caller.put(fields);
            caller.put_encryption(fields, true);
            number(fields, "timeout", i64::try_from(settled.timeout_s).unwrap_or(i64::MAX));
            number(fields, "frame_max", settled.frame_max.into());
            number(fields, "channel_max", settled.channel_max.into());
            put_properties(fields, settled.properties);
            if let Some(container) = settled.container {
                text(fields, "container_id", container);
            }
            text(fields, "node", self.node);
            text(fields, "user_who_performed_action", &actor.user);
        })
    }

    pub(super) fn connection_closed(&self, port: PortId, name: &str, properties: &Arguments) -> Announcement {
        Announcement::new("connection.closed", |fields| {
            text(fields, "name", name);
            text(fields, "pid", &process(port));
            put_properties(fields, properties);
            text(fields, "node", self.node);
        })
    }

    pub(super) fn channel_opened(&self, port: PortId, name: &str, channel: u16) -> Option<Announcement> {
        let (user, vhost) = self.actor(port)?;
        Some(Announcement::new("channel.created", |fields| {
            text(fields, "pid", &of_channel(port, channel));
            text(fields, "name", &format!("{name} ({channel})"));
            text(fields, "connection", &process(port));
            number(fields, "number", channel.into());
            text(fields, "user", user);
            text(fields, "vhost", vhost);
            text(fields, "user_who_performed_action", user);
        }))
    }

    pub(super) fn channel_closed(&self, port: PortId, channel: u16) -> Option<Announcement> {
        let (user, _) = self.actor(port)?;
        Some(Announcement::new("channel.closed", |fields| {
            text(fields, "pid", &of_channel(port, channel));
            text(fields, "user_who_performed_action", user);
            number(fields, "consumer_count", 0);
        }))
    }

    pub(super) fn consumer_came(&self, port: PortId, consumer: &Arrived<'_>) -> Option<Announcement> {
        let (user, _) = self.actor(port)?;
        let queue = self.catalog.queue(consumer.queue)?;
        Some(Announcement::new("consumer.created", |fields| {
            text(fields, "consumer_tag", consumer.tag);
            truth(fields, "exclusive", consumer.exclusive);
            truth(fields, "ack_required", consumer.settles);
            text(fields, "channel", &of_channel(port, consumer.channel));
            put_queue(fields, queue);
            number(fields, "prefetch_count", consumer.prefetch.into());
            arguments(fields, consumer.arguments);
            text(fields, "user_who_performed_action", user);
        }))
    }

    pub(super) fn consumer_went(
        &self,
        (port, channel): (PortId, u16),
        tag: &str,
        queue: &QueueDefinition,
    ) -> Option<Announcement> {
        let (user, _) = self.actor(port)?;
        // A quorum queue does not know who asked for it.
        let by = if queue.is_quorum() { INTERNAL_USER } else { user };
        Some(Announcement::new("consumer.deleted", |fields| {
            text(fields, "consumer_tag", tag);
            text(fields, "channel", &of_channel(port, channel));
            put_queue(fields, queue);
            text(fields, "user_who_performed_action", by);
        }))
    }

    /// User and virtual host of a connection.
    fn actor(&self, port: PortId) -> Option<(&str, &str)> {
        let actor = &self.ports.get(port)?.actor;
        let vhost = self.catalog.vhost_definition(actor.vhost)?;
        Some((&actor.user, &vhost.name))
    }
}
