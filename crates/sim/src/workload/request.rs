//! A request is published to a queue; its reply is to come straight to the publisher.

use crate::client::{ID_BYTES, Target};
use crate::oracle::Check;
use crate::rules::MessageOptions;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (world.any_confirmed(false), world.any_of(&queues)) else { return Ok(()) };
    let World { clients, dice, oracle, trace, tally, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    let (is_durable, len) = (dice.one_in(2), dice.between(ID_BYTES as u64, 300) as usize);
    let target = Target::Queue(queue);
    if oracle.may_refuse(target) {
        return Ok(());
    }
    let id = oracle.publishing(client.number, false, target, len, is_durable, &MessageOptions::default());
    oracle.requested(client.number, id);
    client.request(queue, id, len, is_durable);
    tally.published += 1;
    trace.note(format!("c{} requests m{id} of q{queue}, {len} bytes", client.number));
    Ok(())
}
