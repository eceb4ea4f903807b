//! What is announced at the event exchange of connections: who logs in, opens and closes, and what was settled with them.
//!
//! The shard a connection is on announces it, while somebody hears. Fields and their names are those of RabbitMQ 4.3.6.

use crate::catalog::Actor;
use crate::event_exchange::announce::{Announcement, arguments_as, number, text, truth};
use crate::shard::Shard;
use crate::tally::Protocol;
use base::Now;
use base::id::PortId;
use message::amqp091::{TableWriter, Value as Wire};
use routing::{Arguments, Value};

/// What keeps a connection secret, in the words of RabbitMQ's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `tlsv1.2`, `tlsv1.3`.
    pub protocol: &'static str,
    /// How keys were agreed on.
    pub key_exchange: &'static str,
    /// What encrypts.
    pub cipher: &'static str,
    /// What vouches for each record.
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
    /// What it came over, if that was TLS.
    pub encryption: Option<&'a Encryption>,
}

/// What was settled with a connection that opens.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// Seconds after which a silent peer is asked about; 0: never.
    pub timeout_s: u64,
    /// Bytes of the largest frame the peer takes.
    pub frame_max: u32,
    /// Channels, or the highest number of a session.
    pub channel_max: u16,
    /// What the client says of itself.
    pub properties: &'a Arguments,
    /// What an AMQP 1.0 peer calls itself.
    pub container: Option<&'a str>,
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

    /// What it came over; of what there is not, nothing, or an empty text where `with_empty`.
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

/// What a client says of itself, and by itself the name it gave the connection.
fn put_properties(fields: &mut TableWriter<'_>, properties: &Arguments) {
    arguments_as(fields, "client_properties", properties);
    if let Some(Value::Text(name)) = properties.get(b"connection_name") {
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

/// A connection's number in the shape of a process's.
pub(crate) fn process(port: PortId) -> String {
    format!("<{}.{}.{}>", port.shard.0, port.slot, port.generation)
}

impl Shard {
    /// A login was granted to a user, or refused for a reason.
    pub fn login_tried(&mut self, now: Now, caller: &Caller<'_>, result: Result<&str, &str>) {
        let logins = &mut self.tallies.protocols[Protocol::of(caller.protocol) as usize].logins;
        logins[0] += 1;
        logins[1] += u64::from(result.is_err());
        if !self.is_heard() {
            return;
        }
        let key = if result.is_ok() { "user.authentication.success" } else { "user.authentication.failure" };
        let told = Announcement::new(key, |fields| {
            text(fields, "connection_name", caller.name);
            text(fields, "connection_type", "network");
            caller.put(fields);
            caller.put_encryption(fields, false);
            match result {
                Ok(user) => text(fields, "name", user),
                Err(reason) => text(fields, "error", reason),
            }
        });
        self.announce_from_here(now, told);
    }

    /// A connection is open, on behalf of `actor`.
    pub fn connection_opened(&mut self, now: Now, actor: &Actor, caller: &Caller<'_>, settled: &Settled<'_>) {
        if self.catalog.is_traced(actor.vhost) {
            self.introduce(actor.port, caller.name);
        }
        if !self.is_heard() {
            return;
        }
        let vhost = self.catalog.vhost_definition(actor.vhost).map_or("", |vhost| &vhost.name);
        let told = Announcement::new("connection.created", |fields| {
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
            text(fields, "node", &self.settings.node);
            text(fields, "user_who_performed_action", &actor.user);
        });
        self.announce_from_here(now, told);
        self.announce_end(actor.port, caller.name, settled.properties);
    }

    #[cold]
    pub(crate) fn connection_closed(&mut self, now: Now, port: PortId, name: &str, properties: &Arguments) {
        let told = Announcement::new("connection.closed", |fields| {
            text(fields, "name", name);
            text(fields, "pid", &process(port));
            put_properties(fields, properties);
            text(fields, "node", &self.settings.node);
        });
        self.announce_from_here(now, told);
    }
}
