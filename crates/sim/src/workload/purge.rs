//! A queue is emptied.

use crate::client::Asked;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let at = world.any_client(true);
    by(world, at)
}

/// The client at `at`, if there is one, empties one.
pub(super) fn by(world: &mut World, at: Option<usize>) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (at, world.any_of(&queues)) else { return Ok(()) };
    let World { clients, oracle, trace, .. } = world;
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} purges q{queue}", client.number));
        oracle.purging(client.number, queue);
        client.ask(Asked::Purge(queue));
    }
    Ok(())
}
