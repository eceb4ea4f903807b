//! An administrator limits a queue in bytes by a policy, changes the limit, or takes it away.
//!
//! Only queues that drop messages by their own arguments: a further limit changes nothing about what may become of
//! their messages.

use crate::client::queue_name;
use crate::oracle::Check;
use crate::world::World;
use adapters::NODE_SLOT;
use base::id::{PortId, ShardId};
use broker::catalog::{Actor, Op, PolicyKind, VhostId};
use routing::Value;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.dropping();
    let Some(queue) = world.any_of(&queues) else { return Ok(()) };
    let bytes = [None, Some(0), Some(200), Some(4_000), Some(60_000)][world.dice.below(5) as usize];
    let World { node, now, dice, trace, tally, .. } = world;
    let name = queue_name(queue);
    let rows = node.queues();
    let ready = rows.iter().find(|row| *row.definition.name == *name).map_or(0, |row| row.ready);
    tally.limits += u64::from(bytes.is_some() && ready > 0);
    trace.note(format!("q{queue} with {ready} messages is limited to {bytes:?} bytes"));
    let (kind, vhost, policy) = (PolicyKind::User, "/".into(), name.clone().into());
    let op = match bytes {
        None => Op::ClearPolicy { kind, vhost, name: policy },
        Some(bytes) => Op::SetPolicy {
            kind,
            vhost,
            name: policy,
            pattern: format!("^{name}$").into(),
            apply_to: "queues".into(),
            priority: 0,
            definition: [(&b"max-length-bytes"[..], Value::long(bytes))].into_iter().collect(),
        },
    };
    let at = dice.below(node.berths.len() as u64) as usize;
    let home = &mut node.berths[at].home;
    let port = PortId::here(ShardId(at as u16), NODE_SLOT, 1);
    home.shard.open_port(port, Actor::internal(VhostId::default(), port));
    home.shard.request(*now, port, 1, op);
    // The outcome is not waited for.
    home.shard.close_port(*now, port);
    Ok(())
}
