//! The hostile tenant does something, or a few things.

use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    (0..world.dice.between(1, 3)).for_each(|_| world.tenant_acts());
    Ok(())
}
