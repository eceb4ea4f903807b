//! A message is asked for by its position, or is to go, or a few are settled whoever holds them.

use crate::client::Asked;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (world.any_client(true), world.any_of(&queues)) else { return Ok(()) };
    let (is_discarded, is_settled) = (world.dice.one_in(4), world.dice.one_in(4));
    let World { clients, oracle, trace, dice, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    let position = oracle.any_position(queue, dice);
    if is_settled {
        let rejects = dice.one_in(2);
        let what = if rejects { "rejects" } else { "accepts" };
        trace.note(format!("c{} {what} messages of q{queue} from {position} on", client.number));
        oracle.settling_at(client.number, queue);
        client.ask(Asked::SettleAt(queue, position, rejects));
    } else if is_discarded {
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
