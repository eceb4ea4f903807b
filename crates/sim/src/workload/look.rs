//! Somebody looks whether a queue is there: one that must be, or one that was deleted.

use crate::client::Asked;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let is_there = !world.dice.one_in(4);
    let queues = if is_there { world.oracle.queues_there() } else { world.oracle.gone() };
    let (Some(at), Some(queue)) = (world.any_client(true), world.any_of(&queues)) else { return Ok(()) };
    let World { clients, trace, .. } = world;
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} looks for q{queue}, there {is_there}", client.number));
        client.ask(Asked::Look(queue, is_there));
    }
    Ok(())
}
