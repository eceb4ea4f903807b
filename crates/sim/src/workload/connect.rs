//! A client connects, over either protocol, with transactions or without.

use crate::client::Kind;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let kind = match world.dice.one_in(3) {
        true => Kind::Amqp10,
        false if world.plan.rich && world.dice.one_in(4) => Kind::Transactional,
        false => Kind::Amqp091,
    };
    world.connect(kind);
    Ok(())
}
