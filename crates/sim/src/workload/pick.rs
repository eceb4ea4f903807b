//! A message is asked for by its position, or is to go.

use crate::client::Asked;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (world.any_client(true), world.any_of(&queues)) else { return Ok(()) };
    let is_discarded = world.dice.one_in(4);
    let World { clients, oracle, trace, dice, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    let position = oracle.any_position(queue, dice);
    if is_discarded {
        trace.note(format!("c{} has message {position} of q{queue} thrown away", client.number));
        oracle.purging(client.number, queue);
        client.ask(Asked::Discard(queue, position));
    } else {
        trace.note(format!("c{} picks message {position} of q{queue}", client.number));
        oracle.picking(client.number, queue);
        client.ask(Asked::Pick(queue, position));
    }
    Ok(())
}
