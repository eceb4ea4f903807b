//! A bit of what was written changes. Behind the last group an empty one is written first: without it, rot there cannot
//! be told from a torn write.

use crate::oracle::Check;
use crate::world::World;
use journal::{Disk, FileKind};

pub fn run(world: &mut World) -> Check {
    if !world.rots || world.has_faults {
        return Ok(());
    }
    world.heal();
    match world.node.books.seal_end() {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(stop) => return world.unless_stopped(Err(stop)),
    }
    let kinds = [FileKind::Journal, FileKind::Journal, FileKind::Segment, FileKind::Snapshot, FileKind::Bulk];
    let of_streams = [FileKind::Stream, FileKind::Stream, FileKind::StreamIndex];
    let kinds = if world.plan.streams && world.dice.one_in(2) { &of_streams[..] } else { &kinds };
    let kind = kinds[world.dice.below(kinds.len() as u64) as usize];
    let files = world.disk.list(kind).map_err(|error| error.to_string())?;
    if files.is_empty() {
        return Ok(());
    }
    let file = files[world.dice.below(files.len() as u64) as usize];
    let len = world.disk.len(file).map_err(|error| error.to_string())?;
    if len > 0 {
        let (byte, bit) = (world.dice.below(len), world.dice.below(8) as u8);
        world.disk.rot(file, byte, bit);
        world.rotten.note(file, &files);
        world.tally.rotten += 1;
        world.note(format!("bit {bit} of byte {byte} of {file} rots"));
    }
    Ok(())
}
