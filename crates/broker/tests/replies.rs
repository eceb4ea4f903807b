//! Direct replies: whom they reach, and whom nobody can answer in place of.

use crate::node;

use base::id::{PortId, ShardId};
use base::{DigestKey, Random, Secrets};
use broker::access::AccessCache;
use broker::catalog::{Actor, Object, Op, Refusal, VhostId};
use broker::{Credit, Published, Publisher, ReplyAddress};
use node::{NOW, Node};
use std::collections::BTreeSet;

#[test]
fn a_reply_goes_straight_to_its_consumer_on_whichever_shard_or_nowhere() {
    let mut node = Node::new(2);
    let port = node.ports[0];
    let address = node.shards[0].open_reply(port, 9, Credit::Prefetch(1));
    let linked = node.shards[0].open_reply(port, 10, Credit::Link);
    assert_ne!(address.name(), node.shards[0].open_reply(port, 11, Credit::Link).name());
    for at in [0, 1] {
        let mut publisher = node.publisher(at);
        for body in ["one", "two"] {
            assert_eq!(node.publish(at, &mut publisher, &address.name(), body, true), Published::Done);
        }
        node.turn();
        assert_eq!(node.take_seen(), ["0: 9 gets one@0", "0: 9 gets two@0"]);
        // Without credit it is lost, and nobody hears.
        assert_eq!(node.publish(at, &mut publisher, &linked.name(), "lost", true), Published::Done);
        node.turn();
        node.shards[0].credit_reply(port, 10, at as u32 + 1, false, false);
        for body in ["three", "lost too"] {
            node.publish(at, &mut publisher, &linked.name(), body, true);
        }
        node.turn();
        assert_eq!(node.take_seen(), ["0: 10 gets three@0"]);
        // A name that nobody was given, and one that is none.
        let key = address.name();
        let wrong_key = format!(
            "{}{:04x}",
            &key[..key.len() - 4],
            !u16::from_str_radix(&key[key.len() - 4..], 16).unwrap()
        );
        assert_eq!(node.publish(at, &mut publisher, &wrong_key, "x", true), Published::Done);
        let far_shard = key.replacen("to.0000", "to.00ff", 1);
        assert_eq!(node.publish(at, &mut publisher, &far_shard, "x", true), Published::Done);
        assert_eq!(node.publish(at, &mut publisher, broker::REPLY_TO, "x", true), Published::Unroutable);
        node.turn();
        assert_eq!(node.take_seen(), [""; 0]);
    }
    node.shards[0].credit_reply(port, 10, 5, true, true);
    node.turn();
    assert_eq!(
        node.take_seen(),
        ["0: Drained { consumer: 10, unused: 3 }", "0: Available { consumer: 10, ready: 0 }"]
    );
    let asker = node.ports[1];
    node.shards[1].ask_reply(asker, 1, address, Refusal::missing(Object::Queue, "r", "/"));
    node.settle();
    assert_eq!(node.take_seen(), ["1: Done"]);
    node.shards[0].close_port(NOW, port);
    node.shards[1].ask_reply(asker, 1, address, Refusal::missing(Object::Queue, "r", "/"));
    let mut publisher = node.publisher(1);
    assert_eq!(node.publish(1, &mut publisher, &address.name(), "late", true), Published::Done);
    node.settle();
    assert_eq!(node.take_seen(), ["1: NOT_FOUND - no queue 'r' in vhost '/'"]);
}

/// An address, learned by chance or from its owner, is of no use in another virtual host.
#[test]
fn a_reply_goes_to_its_own_virtual_host_alone() {
    let mut node = Node::new(2);
    let request = Op::AddVhost { name: "other".into(), defaults: Default::default() };
    node.shards[0].request(NOW, node.ports[0], 1, request);
    node.settle();
    let other = node.shards[0].catalog().vhost("other").unwrap();
    // Of each virtual host a requester on shard 0, and somebody on either shard who replies.
    let foreign = PortId::here(ShardId(0), 7, 1);
    node.shards[0].open_port(foreign, Actor::internal(other, foreign));
    node.take_seen();
    for (requester, its_vhost) in [(node.ports[0], VhostId(0)), (foreign, other)] {
        let address = node.shards[0].open_reply(requester, 9, Credit::Prefetch(0));
        for (at, vhost, can_ask) in
            [(0, VhostId(0), true), (1, VhostId(0), true), (0, other, true), (1, other, false)]
        {
            let from = if vhost == other && at == 0 { foreign } else { node.ports[at] };
            let mut publisher = Publisher::new(from, 5, AccessCache::new(Actor::internal(vhost, from)));
            assert_eq!(node.publish(at, &mut publisher, &address.name(), "m", true), Published::Done);
            node.turn();
            let heard = if vhost == its_vhost { vec!["0: 9 gets m@0"] } else { vec![] };
            assert_eq!(node.take_seen(), heard, "from shard {at}");
            if can_ask {
                let named = ReplyAddress::read(address.name().as_bytes(), vhost).unwrap();
                node.shards[at].ask_reply(from, 1, named, Refusal::missing(Object::Queue, "r", "v"));
                node.settle();
                let is_there = node.take_seen().concat().ends_with("Done");
                assert_eq!(is_there, vhost == its_vhost, "asked on shard {at}");
            }
        }
    }
    // One that is not open has no consumer that would be left behind.
    let absent = PortId { generation: 2, ..foreign };
    let name = node.shards[0].open_reply(absent, 9, Credit::Prefetch(0)).name();
    let mut publisher = node.publisher(0);
    assert_eq!(node.publish(0, &mut publisher, &name, "m", true), Published::Done);
    node.turn();
    assert_eq!(node.take_seen(), [""; 0]);
}

#[test]
fn names_and_keys_cannot_be_foretold_from_those_that_were_seen() {
    // The state of the dice follows from what they gave; nothing here comes from them.
    let mut node = Node::new(1);
    let mut seen = BTreeSet::new();
    for _ in 0..1000 {
        let name = node.shards[0].open_reply(node.ports[0], 1, Credit::Prefetch(0)).name();
        let key = name[name.len() - 32..].to_owned();
        // Sixteen bytes, of which each is used.
        assert!(seen.insert(key.clone()) && name.len() == 22 + 32 + 32, "{name}");
    }
    for byte in 0..16 {
        let values: BTreeSet<&str> = seen.iter().map(|key| &key[2 * byte..2 * byte + 2]).collect();
        assert!(values.len() > 200, "byte {byte} has {} values in 1000 keys", values.len());
    }
    let mut seeded = Secrets::simulated(0);
    let mut dice = Random::new(7);
    let mut node = Node::new(1);
    // The shard that plans made the catalog's key first.
    let key = node.shards[0].catalog().digest_key();
    assert_eq!(key.map(DigestKey::bytes), Some(seeded.bytes()));
    let first: [u8; 16] = node.shards[0].secret_bytes();
    assert_eq!(first, seeded.bytes());
    let mut lots = [0; 16];
    dice.fill(&mut lots);
    assert_ne!(first, lots);
}
