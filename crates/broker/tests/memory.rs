//! Memory follows what is under way: what a burst took is given back, and what goes round is kept.

mod node;

use base::time::NS_PER_MS;
use broker::{Limits, Publisher};
use message::record::Outcome;
use node::Node;

/// Bytes of spare buffers, and of the little that stands beside them.
fn spare_bytes(node: &Node) -> u64 {
    let pools = node.shards[0].memory_pools();
    pools.into_iter().find(|(name, _)| *name == "msg_index").map_or(0, |(_, bytes)| bytes)
}

/// Publishes `count` messages of `bytes`, each in a batch of its own, and has them taken and settled. Returns the number of
/// all that were published so far.
fn round(node: &mut Node, publisher: &mut Publisher, from: u64, count: u64, bytes: usize) -> u64 {
    let body = "x".repeat(bytes);
    for _ in 0..count {
        node.publish(0, publisher, "q", &body, true);
        node.settle();
    }
    // Who wrote them has them no more.
    node.written.clear();
    node.settled(0, "q", 9, (from, from + count - 1), Outcome::Accepted);
    node.settle();
    node.take_seen();
    from + count
}

#[test]
fn what_a_burst_took_is_given_back() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    let mut publisher = node.publisher(0);
    let idle = spare_bytes(&node);
    let mut next = round(&mut node, &mut publisher, 0, 20, 60 << 10);
    let burst = spare_bytes(&node) - idle;
    assert!(burst >= 20 * (60 << 10), "{burst}");
    // What goes round stays.
    let period_ms = Limits::default().spare_ms_max;
    for _ in 0..10 {
        next = round(&mut node, &mut publisher, next, 2, 100);
        node.pass(period_ms);
    }
    let calm = spare_bytes(&node) - idle;
    assert!((1..=4 * (64 << 10)).contains(&calm), "{calm} after {burst}");
    // Nobody needs anything: the shard comes back by itself for the rest.
    let mut rounds = 0;
    while let Some(at) = node.shards[0].deadline() {
        let ms = at.saturating_sub(node.now.mono_ns).div_ceil(NS_PER_MS);
        node.pass(ms);
        rounds += 1;
        assert!(rounds < 10, "an idle shard is to sleep");
    }
    assert!(spare_bytes(&node) <= idle + 4096, "{} after {idle}", spare_bytes(&node));
}

#[test]
fn no_more_than_the_bound_is_kept() {
    let mut node = Node::new(1);
    node.declare(0, "q", true);
    node.consume(0, "q", 9, 0);
    let mut publisher = node.publisher(0);
    round(&mut node, &mut publisher, 0, 50, 100 << 10);
    let most = Limits::default().spare_buffers_max as u64;
    assert!((most / 2..most + 8192).contains(&spare_bytes(&node)), "{}", spare_bytes(&node));
}
