//! What all connections of a node have in common, and what is known of a peer before it speaks.

pub use broker::Encryption;
use std::sync::Arc;

/// Settings of the front, the same for all connections. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bounds of AMQP 0-9-1 connections.
    pub amqp091: amqp091::Limits,
    /// Bounds of AMQP 1.0 connections.
    pub amqp10: amqp10::Limits,
    /// The node's name, told to clients (`rabbit@HOST`).
    pub node: Arc<str>,
    /// The name of the cluster, told to clients.
    pub cluster: Arc<str>,
    /// The virtual host of a 1.0 connection that names none.
    pub default_vhost: Arc<str>,
    /// Whom an anonymous login stands for; none: refused.
    pub anonymous_user: Option<Arc<str>>,
    /// The prefetch of a 0-9-1 consumer that sets none; 0: unlimited.
    pub default_prefetch: u16,
    /// Bytes a connection may have to send before its consumers pause.
    pub output_bytes_max: usize,
    /// Bytes left to send at which they go on.
    pub output_bytes_low: usize,
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
    /// The least link credit granted to an AMQP 1.0 publisher.
    pub link_credit_min: u32,
    /// The most link credit granted to an AMQP 1.0 publisher.
    pub link_credit_max: u32,
    /// Milliseconds from the connection's first byte to its being open.
    pub handshake_ms_max: u64,
}

impl Settings {
    /// RabbitMQ 4.3's defaults for a node of this name.
    pub fn new(node: &str) -> Settings {
        Settings {
            amqp091: amqp091::Limits::default(),
            amqp10: amqp10::Limits::default(),
            node: node.into(),
            cluster: node.into(),
            default_vhost: "/".into(),
            anonymous_user: Some("guest".into()),
            default_prefetch: 0,
            output_bytes_max: 1 << 20,
            output_bytes_low: 256 << 10,
            unconfirmed_max: 65_536,
            channel_consumers_max: None,
            permits_transient_queues: true,
            permits_global_qos: false,
            permits_address_v1: false,
            transaction_bytes_max: 64 << 20,
            link_credit_min: 170,
            link_credit_max: 32_768,
            handshake_ms_max: 10_000,
        }
    }
}

/// The product name clients are told: they switch features on it.
pub const PRODUCT: &str = "RabbitMQ";
/// The version clients are told: they switch features on it.
pub const VERSION: &str = "4.3.6";
/// Who we really are.
pub const PLATFORM: &str = concat!("Leveret ", env!("CARGO_PKG_VERSION"));
/// Where to read more.
pub const INFORMATION: &str = "Leveret, licensed under the Apache License 2.0";

/// The other end of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `ADDRESS:PORT -> ADDRESS:PORT`, as connections are named.
    pub name: Arc<str>,
    /// It comes from this machine.
    pub is_loopback: bool,
    /// What it came over, if that was TLS, with a certificate or without.
    pub encryption: Option<Arc<Encryption>>,
    /// Whom its verified certificate names, by the rule of `ssl_cert_login_from`; what SASL EXTERNAL logs in.
    pub certificate_name: Option<Box<str>>,
}

impl Peer {
    /// One that came over plain TCP.
    pub fn new(name: &str, is_loopback: bool) -> Peer {
        Peer { name: name.into(), is_loopback, encryption: None, certificate_name: None }
    }
}
