//! A connection ends: in order, or without a word.

use crate::client::Verdict;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_client(false) else { return Ok(()) };
    if world.dice.one_in(2) {
        world.vanish(at);
        return Ok(());
    }
    let World { clients, oracle, trace, now, .. } = world;
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} closes", client.number));
        let held = client.take_held();
        oracle.settling(client.number, &held, Verdict::Release);
        client.close(*now);
    }
    Ok(())
}
