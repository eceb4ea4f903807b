//! A queue is deleted, with its messages and consumers.

use crate::client::Asked;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let at = world.any_client(true);
    by(world, at)
}

/// The client at `at`, if there is one, deletes one.
pub(super) fn by(world: &mut World, at: Option<usize>) -> Check {
    let queues = world.oracle.deletable();
    let (Some(at), Some(queue)) = (at, world.any_of(&queues)) else { return Ok(()) };
    world.oracle.leaving(queue);
    let World { clients, trace, .. } = world;
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} deletes q{queue}", client.number));
        client.ask(Asked::Delete(queue));
    }
    Ok(())
}
