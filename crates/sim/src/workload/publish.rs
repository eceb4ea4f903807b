//! Some messages are published, mostly small, sometimes larger than a frame.

use crate::client::{ID_BYTES, Target};
use crate::oracle::Check;
use crate::rules::{DELAYS_MS, Delay, MessageOptions};
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let (queues, exchanges) = (world.oracle.queues_there(), world.oracle.exchanges_there());
    let to_exchange = world.dice.one_in(world.shape.to_exchange_one_in);
    let exchange = world.any_of(&exchanges).filter(|_| to_exchange).map(Target::Exchange);
    let target = exchange.or_else(|| world.any_of(&queues).map(Target::Queue));
    let (Some(at), Some(target)) = (world.any_client(false), target) else { return Ok(()) };
    let is_stray = !world.knows_way(at, target);
    let World { clients, dice, oracle, trace, tally, shape, plan, now, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    let is_durable = !dice.one_in(5);
    let is_settled = !client.can_ask() && dice.one_in(10);
    let may_be_refused = oracle.may_refuse(target);
    if may_be_refused && client.transaction.is_some() {
        // The outcome of a transaction with a refused message is not checked here.
        return Ok(());
    }
    // A message that a queue refused once may be taken the second time.
    let may_be_twice =
        oracle.deduplicates(target) && !may_be_refused && client.can_ask() && client.transaction.is_none();
    let delays = oracle.delays(target);
    let may_be_delayed = plan.rich && (delays || !client.can_ask());
    for _ in 0..dice.between(1, 12) {
        let twice = may_be_twice && dice.one_in(2);
        let options = if plan.rich {
            MessageOptions { may_be_refused, twice, has_group: true, ..MessageOptions::roll(dice) }
        } else {
            MessageOptions::default()
        };
        let is_delayed = may_be_delayed && dice.one_in(if delays { 2 } else { 6 });
        let delay = is_delayed.then(|| {
            let ms = DELAYS_MS[dice.below(DELAYS_MS.len() as u64) as usize];
            if client.can_ask() { Delay::For(ms) } else { Delay::Until(now.wall_ms + ms) }
        });
        let options = MessageOptions { delay, ..options };
        let len = match dice.below(20) {
            0 => dice.between(8_000, shape.body_bytes_max),
            1..4 => dice.between(500, 4_000),
            _ => dice.between(ID_BYTES as u64, 200),
        } as usize;
        let id = oracle.publishing(client.number, !client.can_ask(), target, len, is_durable, &options);
        if !client.publish(target, id, len, is_durable, is_settled, &options) {
            oracle.not_published(id);
            break;
        }
        if is_stray {
            oracle.may_miss(id);
        }
        if let Some(transaction) = &mut client.transaction {
            oracle.held_back(id);
            transaction.published.push(id);
        }
        tally.published += 1;
        trace.note(format!(
            "c{} publishes m{id} to {target:?}, {len} bytes, durable {is_durable}{}",
            client.number,
            options.words()
        ));
    }
    Ok(())
}
