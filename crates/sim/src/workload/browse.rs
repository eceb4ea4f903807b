//! Somebody is shown what is in a queue, and takes nothing: in 0-9-1 or 1.0, settling what it is shown or not.

use crate::oracle::Check;
use crate::world::World;

/// Consumers of one connection, browsers included.
const CONSUMERS_MAX: usize = 6;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (world.any_client(false), world.any_of(&queues)) else { return Ok(()) };
    let World { clients, dice, oracle, trace, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    if client.consumers.iter().filter(|it| !it.is_over).count() >= CONSUMERS_MAX {
        return Ok(());
    }
    let credit = [0, 1, 10][dice.below(3) as usize];
    // Within a transaction settling waits for its end.
    let settled = client.transaction.is_some() || !client.can_ask() && dice.one_in(2) || dice.one_in(2);
    let handle = client.browse(queue, credit, settled);
    oracle.browsing(client.number, handle, queue);
    trace
        .note(format!("c{} browses q{queue} as {handle}, credit {credit}, settled {settled}", client.number));
    Ok(())
}
