//! The management node of AMQP 1.0 is asked for what 0-9-1 has methods for.

use super::{declare, delete, purge};
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_managing() else { return Ok(()) };
    match world.dice.below(20) {
        0..14 => declare::by(world, at),
        14..18 => purge::by(world, Some(at)),
        _ => delete::by(world, Some(at)),
    }
}
