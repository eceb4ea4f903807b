//! A consumer is opened: with or without settling, with little credit or much; in rich runs some choose messages.

use crate::client::Wants;
use crate::oracle::Check;
use crate::world::World;

/// Consumers of one connection.
const CONSUMERS_MAX: usize = 4;

pub fn run(world: &mut World) -> Check {
    let queues = world.oracle.queues_there();
    let (Some(at), Some(queue)) = (world.any_client(false), world.any_of(&queues)) else { return Ok(()) };
    let World { clients, dice, oracle, trace, shape, plan, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    if client.consumers.iter().filter(|it| !it.is_over).count() >= CONSUMERS_MAX {
        return Ok(());
    }
    let credit = [0, 1, 3, 10, 100][dice.below(5) as usize];
    let settled = dice.one_in(shape.settled_one_in) && !(plan.barriers && dice.one_in(2));
    let may_choose = plan.rich && oracle.may_choose(queue);
    let wants = (may_choose && dice.one_in(3)).then(|| Wants(dice.below(3) as u8));
    oracle.consuming(client.number, queue, settled);
    let handle = client.consume(queue, credit, settled, wants);
    if let Some(wants) = wants {
        oracle.choosing((client.number, handle), queue, wants);
    }
    trace.note(format!(
        "c{} consumes q{queue} as {handle}, credit {credit}, settled {settled}, {wants:?}",
        client.number
    ));
    Ok(())
}
