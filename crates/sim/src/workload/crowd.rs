//! A consumer stores offsets under many names of its own, or again under some of them: beside others, whose offsets are to stay.

use crate::oracle::Check;
use crate::streams::{Reference, stream_name};
use crate::world::World;

/// Names a connection has in a stream.
const NAMES: u64 = 120;

pub fn run(world: &mut World) -> Check {
    let there = world.streams.oracle.there();
    let (Some(at), Some(stream)) = (world.any_stream_client(), world.any_of(&there)) else { return Ok(()) };
    let World { streams, dice, trace, tally, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return Ok(()) };
    let first = dice.between(1, NAMES);
    let last = (first + dice.between(0, 40)).min(NAMES);
    trace.note(format!("c{} stores under its names {first} to {last} in s{stream}", client.number));
    for number in first..=last {
        let reference = Reference { client: client.number, number };
        let offset = streams.oracle.storing(stream, reference, client.user, 1);
        client.store(&reference.to_string(), &stream_name(stream), offset);
        tally.crowded += 1;
    }
    Ok(())
}
