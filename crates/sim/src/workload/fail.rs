//! The device fails: a write or a sync to come, or any call by chance.

use crate::oracle::Check;
use crate::world::World;
use journal::DiskError;
use journal::faulty::{Call, Faults};

pub fn run(world: &mut World) -> Check {
    if !world.plan.io_errors || world.is_down() {
        return Ok(());
    }
    let (call, text) = match world.dice.below(4) {
        0 => (Call::Write, "a write"),
        1 => (Call::Sync, "a sync"),
        2 => {
            // Reads that fail are no reason to stop: the messages stay with the consumers they were for.
            let read_one_in = world.dice.between(2, 20);
            world.note(format!("one in {read_one_in} reads fails"));
            world.has_faults = true;
            world.disk.set_faults(Faults { read_one_in, ..Faults::default() });
            return Ok(());
        }
        _ => (Call::SyncFolder, "a sync of names"),
    };
    let nth = world.dice.between(1, 10);
    world.note(format!("{text} will fail, number {nth} from now"));
    world.has_faults = true;
    world.disk.fail(call, nth, DiskError::Io(5));
    Ok(())
}
