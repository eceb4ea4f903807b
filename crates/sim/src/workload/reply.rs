//! A request that came is replied to, also where the requester has gone meanwhile.

use crate::client::ID_BYTES;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_confirmed(true) else { return Ok(()) };
    let World { clients, dice, oracle, trace, tally, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    let (request, address) = client.requests.swap_remove(dice.below(client.requests.len() as u64) as usize);
    let len = dice.between(ID_BYTES as u64, 3000) as usize;
    let id = oracle.replying(client.number, request, len);
    client.reply(&address, id, len);
    tally.published += 1;
    trace.note(format!("c{} replies m{id} to m{request}, {len} bytes", client.number));
    Ok(())
}
