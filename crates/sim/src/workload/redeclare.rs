//! A queue is declared as it was before, by whoever is at whatever node: one that is there, or one of which nobody has heard
//! whether it is.

use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.asked_for();
    let (Some(at), Some(queue)) = (world.any_client(true), world.any_of(&queues)) else { return Ok(()) };
    let World { clients, oracle, trace, .. } = world;
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} declares q{queue} again", client.number));
        oracle.declaring(client.number, queue);
        client.declare(queue, true, true, oracle.rules_of(queue));
    }
    Ok(())
}
