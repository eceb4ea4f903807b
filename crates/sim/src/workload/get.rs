//! A single message is asked for.

use crate::client::Asked;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (world.any_client(true), world.any_of(&queues)) else { return Ok(()) };
    let World { clients, oracle, trace, .. } = world;
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} gets from q{queue}", client.number));
        oracle.taking(client.number, queue);
        client.ask(Asked::Get(queue));
    }
    Ok(())
}
