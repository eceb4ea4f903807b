//! Some of what a client holds is settled, or given back.

use crate::client::Verdict;
use crate::oracle::Check;
use crate::rules::DELAYS_MS;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_client(false) else { return Ok(()) };
    let World { clients, dice, oracle, trace, tally, plan, now, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    for _ in 0..dice.between(1, 6) {
        if client.held.is_empty() {
            break;
        }
        let tag = client.held[dice.below(client.held.len() as u64) as usize].tag;
        let verdict = match dice.below(100) {
            0..70 => Verdict::Accept,
            70..76 => Verdict::Reject,
            76..82 if plan.rich && !client.can_ask() && client.transaction.is_none() => {
                tally.postponed += 1;
                Verdict::Postpone(now.wall_ms + DELAYS_MS[dice.below(DELAYS_MS.len() as u64) as usize])
            }
            76..90 => Verdict::Release,
            _ => Verdict::Fail,
        };
        let through = dice.one_in(4);
        let number = client.number;
        let held = client.settle(tag, through, verdict);
        let messages: Vec<String> = held.iter().map(|held| format!("m{}", held.message)).collect();
        let messages = messages.join(" ");
        trace.note(format!("c{number} settles {tag}, through {through}: {verdict:?} {messages}"));
        if client.transaction.is_none() {
            oracle.settling(number, &held, verdict);
        }
    }
    Ok(())
}
