//! The disk runs full, or has space again.

use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    if !world.plan.full_disk || world.is_down() {
        return Ok(());
    }
    if world.dice.one_in(2) {
        world.note("the disk has space");
        world.disk.set_capacity(u64::MAX);
    } else {
        let more = world.dice.below(20_000);
        let capacity = world.disk.used_bytes() + more;
        world.tally.full += 1;
        world.note(format!("the disk takes {more} bytes more"));
        world.disk.set_capacity(capacity);
    }
    Ok(())
}
