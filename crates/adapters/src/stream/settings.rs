//! Settings that all connections of the stream protocol have in common.

use super::arrivals::Arrivals;
use ::stream_protocol::Limits;
use std::sync::Arc;

/// Settings of stream connections; RabbitMQ's names stand behind `stream.` in its configuration.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Bounds of a connection.
    pub limits: Limits,
    /// Messages of a connection that may be without a confirm before it is not read for a while.
    pub initial_credits: u32,
    /// It is read again when so many more than this may come.
    pub credits_required_for_unblocking: u32,
    /// Partitions a super stream is created with at most; none: as many as a frame can name.
    pub partitions_max: Option<u32>,
    /// Bytes a batch of messages may have when it is uncompressed, as its publisher says.
    pub uncompressed_bytes_max: u32,
    /// How many connections there are, and may be.
    pub arrivals: Arc<Arrivals>,
    /// Where clients are told to go.
    pub plain: Advertised,
    /// Where clients that come over TLS are told to go.
    pub secure: Advertised,
}

/// An address that clients are told.
#[derive(Clone, Debug)]
pub struct Advertised {
    /// The host.
    pub host: Arc<str>,
    /// The port; none: that which the client came to.
    pub port: Option<u16>,
}

/// Publishers one connection may have.
pub(super) const PUBLISHERS_MAX: usize = 256;

/// Subscriptions one connection may have.
pub(super) const SUBSCRIPTIONS_MAX: usize = 256;

/// Bytes of a publisher's reference, and of a consumer's name.
pub(super) const REFERENCE_BYTES_MAX: usize = 255;

/// Offsets that a connection's consumers stored in a turn, each under a name in a stream, before they are handed on.
pub(super) const STORED_OFFSETS_MAX: usize = 64;

/// Bytes of a subscription's properties: names, values, and [`PAIR_BYTES`] for each.
pub(super) const PROPERTIES_BYTES_MAX: usize = 16 << 10;

/// Bytes that a property takes beside its name and its value.
pub(super) const PAIR_BYTES: usize = size_of::<(Box<str>, Box<str>)>();

/// Bytes of a stream's name.
pub(super) const NAME_BYTES_MAX: usize = 255;

impl StreamSettings {
    /// RabbitMQ 4.3's defaults for a node of this name: clients are told the host behind its `@`.
    pub fn new(node: &str) -> StreamSettings {
        let host = node.split_once('@').map_or(node, |(_, host)| host);
        let advertised = Advertised { host: host.into(), port: None };
        StreamSettings {
            limits: Limits::default(),
            initial_credits: 50_000,
            credits_required_for_unblocking: 12_500,
            partitions_max: Some(1000),
            uncompressed_bytes_max: 64 << 20,
            arrivals: Arc::default(),
            plain: advertised.clone(),
            secure: advertised,
        }
    }
}
