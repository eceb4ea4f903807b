//! An administrator cancels the delayed messages of a queue.

use crate::client::queue_name;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let Some(queue) = world.any_of(&queues) else { return Ok(()) };
    let World { node, now, oracle, trace, tally, .. } = world;
    let name = queue_name(queue);
    for berth in &mut node.berths {
        let home = &mut berth.home;
        let Some(listed) = home.shard.listing().delayed("/", &name, usize::MAX) else { continue };
        let ids: Vec<u64> = listed.iter().map(|(_, seq)| seq.0).collect();
        let cancelled = home.shard.cancel_delayed(*now, "/", &name, &ids).unwrap_or_default();
        trace.note(format!("{cancelled} of {} delayed messages of q{queue} are cancelled", ids.len()));
        tally.cancelled += cancelled;
        if cancelled > 0 {
            return oracle.cancelled_delayed(queue, ids.len() as u64, cancelled);
        }
    }
    Ok(())
}
