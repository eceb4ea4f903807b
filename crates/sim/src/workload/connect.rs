//! A client connects, over either protocol.

use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let is_amqp10 = world.dice.one_in(3);
    world.connect(is_amqp10);
    Ok(())
}
