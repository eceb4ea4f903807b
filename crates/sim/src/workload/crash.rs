//! The process is killed or the power fails: now, or in the midst of a write to come.

use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    if !world.plan.crashes || world.is_down() {
        return Ok(());
    }
    if world.dice.one_in(2) {
        return world.crash(None);
    }
    let calls = world.dice.between(1, 30);
    world.note(format!("the power will go in {calls} calls"));
    world.has_faults = true;
    world.disk.power_off(calls);
    Ok(())
}
