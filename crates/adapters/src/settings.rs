//! Settings that all connections of a node have in common, and the peer as it is known before it speaks.

use crate::following::Following;
use crate::stream::StreamSettings;
pub use broker::Encryption;
use broker::access::{Guard, Origin};
use message::stamps::Stamps;
use std::net::SocketAddr;
use std::sync::Arc;

/// Settings of the front, the same for all connections. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bounds of AMQP 0-9-1 connections.
    pub amqp091: amqp091::Limits,
    /// Bounds of AMQP 1.0 connections.
    pub amqp10: amqp10::Limits,
    /// Settings of connections of the stream protocol.
    pub stream: StreamSettings,
    /// The node's name, told to clients (`rabbit@HOST`).
    pub node: Arc<str>,
    /// The name of the cluster, told to clients.
    pub cluster: Arc<str>,
    /// The virtual host of a 1.0 connection that names none.
    pub default_vhost: Arc<str>,
    /// The prefetch of a 0-9-1 consumer that sets none; 0: unlimited.
    pub default_prefetch: u16,
    /// Bytes a connection may have to send before its consumers pause.
    pub output_bytes_max: usize,
    /// Bytes left to send at which they go on. As a stream may have many readers, and their output is kept for as long,
    /// those of the stream protocol pause beyond so many, and go on at a quarter.
    pub output_bytes_low: usize,
    /// Bytes a connection may have to send before nothing more of it is heard: a client that leaves answers unread asks
    /// no further questions. It goes on at half. Well beyond `output_bytes_max`, so that a consumer that has much to
    /// read still settles.
    pub unread_bytes_max: usize,
    /// Bytes a connection may have to send before they are counted in the ledger of memory.
    pub output_counted_min: usize,
    /// Bytes that a connection's channels, sessions, links, consumers and unsettled deliveries may take before they are
    /// counted in the ledger of memory.
    pub tables_counted_min: usize,
    /// As `unread_bytes_max`, and before its consumers pause, while its user, virtual host or the node holds as much memory
    /// as it may; consumers go on at a quarter.
    pub unread_full_bytes_max: usize,
    /// Bytes of input that a connection may keep while its user, virtual host or the node holds a quarter more memory than it
    /// may: one that needs more for its next frame is closed.
    pub input_full_bytes_max: usize,
    /// Publishes of one 0-9-1 channel in confirm mode that are not yet confirmed, before its connection is not read for
    /// a while; AMQP 1.0 has link credit. At least 1.
    pub unconfirmed_max: u64,
    /// Consumers of one 0-9-1 channel; none: any number.
    pub channel_consumers_max: Option<u32>,
    /// Queues that neither survive a restart nor belong to a connection may be declared over 0-9-1.
    pub permits_transient_queues: bool,
    /// A prefetch may be shared by the consumers of a 0-9-1 channel.
    pub permits_global_qos: bool,
    /// Addresses of the first version may be used over AMQP 1.0.
    pub permits_address_v1: bool,
    /// Bytes one transaction may hold back, bookkeeping included.
    pub transaction_bytes_max: usize,
    /// Units of work of one turn for one transaction: over 0-9-1 the rest of a commit follows in later turns, over 1.0 a
    /// discharge that takes more is refused. `u32::MAX`: any number.
    pub transaction_work_max: u32,
    /// The least link credit granted to an AMQP 1.0 publisher.
    pub link_credit_min: u32,
    /// The most link credit granted to an AMQP 1.0 publisher.
    pub link_credit_max: u32,
    /// The most transfers an AMQP 1.0 session may bring before the next flow, once its links have credit for more than
    /// the window sessions begin with. Less than that is the same as that.
    pub session_window_max: u32,
    /// Bytes of messages that an AMQP 1.0 connection may bring, within the credit it had, once an alarm has shut its
    /// windows; beyond, it is not read until the alarm is over.
    pub blocked_bytes_max: u32,
    /// Milliseconds from the connection's first byte to its being open.
    pub handshake_ms_max: u64,
    /// The rule by which connections go to the shard of the queue they use; none: they stay.
    pub following: Option<Arc<Following>>,
    /// Stamps written on messages that come in over AMQP; mostly none.
    pub stamps: Option<Box<Stamps>>,
    /// The guard of passwords, one for the whole node.
    pub guard: Arc<Guard>,
}

impl Settings {
    /// RabbitMQ 4.3's defaults for a node of this name.
    pub fn new(node: &str) -> Settings {
        Settings {
            amqp091: amqp091::Limits::default(),
            amqp10: amqp10::Limits::default(),
            stream: StreamSettings::new(node),
            node: node.into(),
            cluster: node.into(),
            default_vhost: "/".into(),
            default_prefetch: 0,
            output_bytes_max: 1 << 20,
            output_bytes_low: 256 << 10,
            unread_bytes_max: 4 << 20,
            output_counted_min: 16 << 10,
            tables_counted_min: 8 << 10,
            unread_full_bytes_max: 64 << 10,
            input_full_bytes_max: 16 << 10,
            unconfirmed_max: 65_536,
            channel_consumers_max: None,
            permits_transient_queues: true,
            permits_global_qos: false,
            permits_address_v1: false,
            transaction_bytes_max: 64 << 20,
            transaction_work_max: 600_000,
            link_credit_min: 170,
            link_credit_max: 32_768,
            session_window_max: 65_536,
            blocked_bytes_max: 1 << 20,
            handshake_ms_max: 10_000,
            following: None,
            stamps: None,
            guard: Arc::default(),
        }
    }
}

/// The product name clients are told: they switch features on it.
pub const PRODUCT: &str = "RabbitMQ";
/// The true name and version of the broker.
pub const PLATFORM: &str = concat!("Leveret ", env!("CARGO_PKG_VERSION"));
/// Where to read more.
pub const INFORMATION: &str = "Leveret, licensed under the Apache License 2.0";

/// The protocol of the listener a peer came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// AMQP; its own header tells which version.
    #[default]
    Amqp,
    /// The stream protocol.
    Stream,
}

impl Protocol {
    /// As log lines have it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Amqp => "AMQP",
            Protocol::Stream => "stream",
        }
    }
}

/// Bytes of a connection's name that are kept, of the one its client gives it.
pub const GIVEN_NAME_BYTES_MAX: usize = 256;

/// The longest description of itself that is kept of a client, in bytes; of a longer one nothing is.
pub const CLIENT_BYTES_MAX: usize = 8 << 10;

/// Bytes of the descriptions of all clients of a shard; equal ones count once.
pub const CLIENTS_BYTES_MAX: usize = 4 << 20;

/// The other end of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `ADDRESS:PORT -> ADDRESS:PORT`, as connections are named.
    pub name: Arc<str>,
    /// The protocol of its listener.
    pub protocol: Protocol,
    /// It comes from this machine.
    pub is_loopback: bool,
    /// The encryption it came over, if that was TLS, with a certificate or without.
    pub encryption: Option<Arc<Encryption>>,
    /// Other names it has; few have any.
    pub names: Option<Box<Names>>,
}

/// Names of a peer besides where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Its client's name for the connection, once it has given one; at most [`GIVEN_NAME_BYTES_MAX`].
    pub given: Option<Box<str>>,
    /// The user its verified certificate names, by the rule of `ssl_cert_login_from`; SASL EXTERNAL logs in that user.
    pub certificate: Option<Box<str>>,
    /// It is this process, which works under that name for a user that may do everything: it proves nothing, and no
    /// permissions are asked. Of no connection that comes from outside.
    pub own: Option<Arc<str>>,
    /// It is this process, in any user's name: it may use methods that are no part of the protocol.
    pub is_agent: bool,
    /// It is this process, to publish one message that somebody waits for: no alarm blocks it, as none blocks
    /// publishers over RabbitMQ's HTTP API.
    pub ignores_alarms: bool,
}

impl Peer {
    /// One that came over plain TCP, to speak AMQP.
    pub fn new(name: &str, is_loopback: bool) -> Peer {
        let protocol = Protocol::default();
        Peer { name: name.into(), protocol, is_loopback, encryption: None, names: None }
    }

    /// The process itself, in the name of the user that logs in: see [`Names::is_agent`].
    #[must_use]
    pub fn agent(self) -> Peer {
        let mut names = self.names.unwrap_or_default();
        names.is_agent = true;
        Peer { names: Some(names), ..self }
    }

    /// Publishes one message even while an alarm holds: see [`Names::ignores_alarms`].
    #[must_use]
    pub fn ignoring_alarms(self) -> Peer {
        let mut names = self.names.unwrap_or_default();
        names.ignores_alarms = true;
        Peer { names: Some(names), ..self }
    }

    /// Whether no alarm blocks it.
    pub(crate) fn ignores_alarms(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.ignores_alarms)
    }

    /// Whether it is the process itself.
    pub(crate) fn is_agent(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.is_agent)
    }

    /// The process itself, under that name: see [`Names::own`].
    #[must_use]
    pub fn own(self, name: &str) -> Peer {
        let mut names = self.names.unwrap_or_default();
        names.own = Some(name.into());
        Peer { names: Some(names), ..self }
    }

    /// The name of the process itself, where it is that.
    pub(crate) fn own_name(&self) -> Option<&Arc<str>> {
        self.names.as_ref()?.own.as_ref()
    }

    /// The origin of its guesses, as its name tells.
    pub(crate) fn origin(&self) -> Origin {
        let from = self.name.split_once(" -> ").and_then(|(from, _)| from.parse::<SocketAddr>().ok());
        Origin::of(from.map(|from| from.ip()))
    }

    /// The user its certificate names.
    pub fn certificate_name(&self) -> Option<&str> {
        self.names.as_ref()?.certificate.as_deref()
    }

    /// Its client's name for the connection.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.names.as_ref()?.given.as_deref()
    }

    /// Keeps the user its certificate names.
    pub fn certify(&mut self, name: String) {
        self.names.get_or_insert_default().certificate = Some(name.into());
    }

    /// Keeps the client's name for its connection.
    pub(crate) fn call(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let end = name.floor_char_boundary(GIVEN_NAME_BYTES_MAX);
        if end > 0 {
            self.names.get_or_insert_default().given = Some(name[..end].into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_in_the_name() {
        let of = |name| Peer::new(name, false).origin();
        let address = |text: &str| Origin::of(Some(text.parse().unwrap()));
        let rows = [
            ("10.0.0.1:4 -> 10.0.0.2:5672", address("10.0.0.1")),
            ("[2001:db8::1]:4 -> [::1]:5672", address("2001:db8::ffff")),
            ("client 1", Origin::of(None)),
            ("", Origin::of(None)),
        ];
        rows.into_iter().for_each(|(name, expected)| assert_eq!(of(name), expected, "{name}"));
    }
}
