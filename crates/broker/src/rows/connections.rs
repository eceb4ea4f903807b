//! A connection in a list.
//!
//! The adapter of its protocol says what it has settled with its client, the front which connection it is, and the loop what went
//! over its socket; readers give it the names and shapes that they owe to others.

use super::tenants::HeldBack;
use crate::catalog::{Actor, Catalog};
use crate::event_exchange::Encryption;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// A connection of the node: its shard, its slot there, its number in it.
pub type ConnectionId = (u16, u32, u32);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRow {
    /// Which one it is of the node's.
    pub id: ConnectionId,
    /// `ADDRESS:PORT -> ADDRESS:PORT`.
    pub name: String,
    /// The name that its client gives it.
    pub given_name: Option<Box<str>>,
    /// The name its client has for the container that it is, over AMQP 1.0.
    pub container: Option<Box<str>>,
    /// Further properties that its client gives of itself: a field table of AMQP 0-9-1 (§4.2.5.5) without its length.
    pub client: Option<Arc<Vec<u8>>>,
    /// `AMQP 0-9-1`, `AMQP 1-0`, `stream`; empty before its client has said so.
    pub protocol: &'static str,
    /// How it logged in.
    pub mechanism: &'static str,
    /// The user that logged in; empty before.
    pub user: String,
    /// The virtual host it is in; empty before.
    pub vhost: String,
    /// `running`, ...
    pub state: &'static str,
    /// Why its input is left alone; none: it is not.
    pub held_back: Option<HeldBack>,
    /// Channels or sessions.
    pub channels: u64,
    /// Bytes of memory that it holds, see [`crate::ledger`].
    pub held: u64,
    /// Bytes of the largest frame; 0: not settled yet.
    pub frame_max: u32,
    /// The highest number of a channel.
    pub channel_max: u16,
    /// Seconds after which a silent peer is asked about; 0: never.
    pub timeout_s: u64,
    /// This node's end.
    pub host: IpAddr,
    /// Its port.
    pub port: u16,
    /// The client's end.
    pub peer_host: IpAddr,
    /// Its port.
    pub peer_port: u16,
    /// Its TLS version, cipher and certificate; none: it did not come over TLS.
    pub encryption: Option<Arc<Encryption>>,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Reads and writes of its socket that moved something.
    pub calls: [u64; 2],
    /// When it was accepted, milliseconds since 1970.
    pub connected_at: u64,
}

impl Default for ConnectionRow {
    fn default() -> ConnectionRow {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        ConnectionRow {
            id: (0, 0, 0),
            name: String::new(),
            given_name: None,
            container: None,
            client: None,
            protocol: "",
            mechanism: "",
            user: String::new(),
            vhost: String::new(),
            state: "",
            held_back: None,
            channels: 0,
            held: 0,
            frame_max: 0,
            channel_max: 0,
            timeout_s: 0,
            host: nowhere,
            port: 0,
            peer_host: nowhere,
            peer_port: 0,
            encryption: None,
            received: 0,
            sent: 0,
            calls: [0; 2],
            connected_at: 0,
        }
    }
}

impl ConnectionRow {
    /// The row of a connection that speaks for `actor`, once it is open; `over`: the state of one that ends.
    pub fn new(
        catalog: &Catalog,
        actor: Option<&Actor>,
        protocol: &'static str,
        over: Option<&'static str>,
    ) -> ConnectionRow {
        let vhost = actor.and_then(|actor| catalog.vhost_definition(actor.vhost));
        ConnectionRow {
            state: over.unwrap_or(if actor.is_some() { "running" } else { "starting" }),
            user: actor.map(|actor| actor.user.to_string()).unwrap_or_default(),
            vhost: vhost.map(|vhost| vhost.name.to_string()).unwrap_or_default(),
            protocol,
            ..ConnectionRow::default()
        }
    }

    /// The same with a name, and the two ends that the name tells.
    #[must_use]
    pub fn named(self, name: &str) -> ConnectionRow {
        let (peer, here) = name.split_once(" -> ").unwrap_or_default();
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let [peer, here] = [peer, here].map(|end| end.parse().unwrap_or(nowhere));
        ConnectionRow {
            name: name.to_owned(),
            host: here.ip(),
            port: here.port(),
            peer_host: peer.ip(),
            peer_port: peer.port(),
            ..self
        }
    }

    /// Where it is served, in the shape of RabbitMQ's process ids.
    pub fn process_id(&self) -> String {
        process_id(self.id.0, self.id.1)
    }
}

/// A connection's shard and slot in the shape of RabbitMQ's process ids.
pub fn process_id(shard: u16, slot: u32) -> String {
    format!("<0.{shard}.{slot}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_both_ends() {
        let check = |name: &str, [here, peer]: [(&str, u16); 2]| {
            let row = ConnectionRow::default().named(name);
            assert_eq!((row.host, row.port), (here.0.parse().unwrap(), here.1), "{name}");
            assert_eq!((row.peer_host, row.peer_port), (peer.0.parse().unwrap(), peer.1), "{name}");
            assert_eq!(row.name, name);
        };
        check("127.0.0.1:40000 -> 127.0.0.2:5672", [("127.0.0.2", 5672), ("127.0.0.1", 40_000)]);
        check("[::1]:40000 -> [fe80::1]:5672", [("fe80::1", 5672), ("::1", 40_000)]);
        check("no addresses", [("0.0.0.0", 0), ("0.0.0.0", 0)]);
    }
}
