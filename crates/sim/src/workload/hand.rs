//! An operator has a log handed to another shard. Not all may be: the catalog's and those in memory stay.

use crate::oracle::Check;
use crate::world::World;
use base::id::{LogId, ShardId};

pub fn run(world: &mut World) -> Check {
    let (shards, logs) = (world.node.berths.len() as u64, u64::from(world.node.logs));
    if shards > 1 {
        let log = LogId(world.dice.between(0, logs) as u32);
        let to = ShardId(world.dice.below(shards) as u16);
        world.note(format!("log {log} is to go to shard {to}"));
        world.node.hand(log, to);
    }
    Ok(())
}
