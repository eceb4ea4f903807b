//! A consumer is cancelled: in 0-9-1 what it holds stays with the channel, in 1.0 it goes back.

use crate::client::Verdict;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_client(false) else { return Ok(()) };
    let World { clients, dice, oracle, trace, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    let live: Vec<u32> = client.consumers.iter().filter(|it| !it.is_over).map(|it| it.handle).collect();
    if live.is_empty() {
        return Ok(());
    }
    let handle = live[dice.below(live.len() as u64) as usize];
    let number = client.number;
    trace.note(format!("c{number} cancels consumer {handle}"));
    let queue = client.consumers.iter().find(|it| it.handle == handle).map(|it| it.queue);
    queue.into_iter().for_each(|queue| oracle.taker_left(queue));
    oracle.closed(number, handle);
    let gone = client.cancel(handle);
    oracle.browsing_ended(number, handle);
    oracle.settling(number, &gone, Verdict::Release);
    Ok(())
}
