//! The other nodes, and when each of the lanes to them is dialed.
//!
//! A lane that was open for a while and is lost is dialed again at once; otherwise the pause doubles from try to try, up
//! to a bound.

use super::limits::Limits;
use super::{LaneRow, lookup};
use crate::config::cluster::Host;
use base::Now;
use base::id::{NodeNo, ShardId};
use base::time::NS_PER_MS;
use cluster::lane::Purpose;
use cluster::names::NodeName;
use std::net::SocketAddr;

/// A lane to another node.
#[derive(Debug)]
pub struct Link {
    /// Its use.
    pub purpose: Purpose,
    /// The wire that it is on.
    pub wire: Option<usize>,
    /// It is open.
    pub is_open: bool,
    /// When it is dialed, where it has no wire.
    pub dial_at: u64,
    /// Milliseconds until the next try after this one.
    pause_ms: u64,
}

impl Link {
    fn new(purpose: Purpose) -> Link {
        Link { purpose, wire: None, is_open: false, dial_at: 0, pause_ms: 0 }
    }

    /// The wire is gone. `open_ns`: for how long the lane was open.
    pub fn lost(&mut self, now: Now, open_ns: Option<u64>, limits: &Limits) {
        (self.wire, self.is_open) = (None, false);
        if open_ns.is_some_and(|ns| ns >= limits.steady_ms * NS_PER_MS) {
            self.pause_ms = 0;
        }
        self.dial_at = now.after_ms(self.pause_ms);
        let (least, most) = limits.redial_ms;
        self.pause_ms = (2 * self.pause_ms).clamp(least, most);
    }
}

/// Another node.
#[derive(Debug)]
pub struct Peer {
    /// Its number.
    pub number: NodeNo,
    /// Its name.
    pub name: NodeName,
    /// Where it is.
    pub host: Host,
    /// The pulse, and a lane for each shard of this node.
    pub links: Vec<Link>,
    /// Its addresses, as they were found last.
    addresses: Vec<SocketAddr>,
    /// Tries so far: each is at the next address.
    tries: usize,
    /// Its name is being looked up.
    pub is_asked: bool,
    /// Whether the log said last that it is there.
    pub is_told: bool,
    /// When the log may complain of it again.
    pub complain_at: u64,
}

impl Peer {
    /// A node to which this one has lanes for so many shards.
    pub fn new(number: NodeNo, name: NodeName, host: Host, shards: u16) -> Peer {
        let of_shards = (0..shards).map(|shard| Purpose::Shard(ShardId(shard)));
        Peer {
            number,
            name,
            links: std::iter::once(Purpose::Pulse).chain(of_shards).map(Link::new).collect(),
            addresses: lookup::literal(&host).into_iter().collect(),
            host,
            tries: 0,
            is_asked: false,
            is_told: false,
            complain_at: 0,
        }
    }

    /// The link of the pulse, or of a shard.
    pub fn link(&self, shard: Option<ShardId>) -> &Link {
        &self.links[shard.map_or(0, |shard| usize::from(shard.0) + 1)]
    }

    /// The address to be tried next; none: it has to be looked up.
    pub fn next_address(&mut self) -> Option<SocketAddr> {
        let address = self.addresses.get(self.tries % self.addresses.len().max(1)).copied();
        self.tries = self.tries.wrapping_add(1);
        address
    }

    /// Its name was looked up.
    pub fn found(&mut self, addresses: Vec<SocketAddr>) {
        (self.addresses, self.is_asked) = (addresses, false);
    }

    /// A try failed: a name may have another address by now.
    pub fn doubt(&mut self) {
        if lookup::literal(&self.host).is_none() {
            self.addresses.clear();
        }
    }

    /// Its lanes, as tools show them.
    pub fn rows(&self) -> impl Iterator<Item = LaneRow> {
        self.links.iter().map(|link| LaneRow {
            node: self.name.to_string(),
            purpose: link.purpose.to_string(),
            is_open: link.is_open,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_dialed_again_at_once_and_then_ever_more_rarely() {
        let limits = Limits::default();
        let mut link = Link::new(Purpose::Pulse);
        let second = Some(1_000 * NS_PER_MS);
        let mut check = |open_ns: Option<u64>, expected: u64| {
            link.lost(Now::at_ms(5_000), open_ns, &limits);
            assert_eq!(link.dial_at / NS_PER_MS - 5_000, expected);
        };
        for expected in [0, 50, 100, 200, 400, 800, 1_000, 1_000] {
            check(None, expected);
        }
        check(second, 0);
        check(Some(7), 50);
        check(Some(7), 100);
        check(second, 0);
    }

    #[test]
    fn addresses_of_a_name_are_tried_in_turn_and_looked_up_again() {
        let name = NodeName::new("rabbit@a").expect("a name");
        let mut peer = Peer::new(NodeNo(2), name.clone(), Host { name: "a".into(), port: 1 }, 2);
        assert_eq!((peer.links.len(), peer.next_address()), (3, None));
        let addresses: Vec<SocketAddr> =
            ["10.0.0.1:1", "10.0.0.2:1"].map(|it| it.parse().expect("one")).to_vec();
        peer.found(addresses.clone());
        let tried = [peer.next_address(), peer.next_address(), peer.next_address()];
        assert!(tried[0] != tried[1] && tried[0] == tried[2]);
        peer.doubt();
        assert_eq!(peer.next_address(), None);
        let mut fixed = Peer::new(NodeNo(2), name, Host { name: "10.0.0.1".into(), port: 1 }, 2);
        fixed.doubt();
        assert_eq!(fixed.next_address(), Some(addresses[0]));
    }
}
