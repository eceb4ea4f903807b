//! A queue is declared, classic or quorum, durable or not; or an exchange with some of the queues bound to it.

use crate::client::{Asked, Client};
use crate::oracle::Check;
use crate::rules::Rules;
use crate::shape::Shape;
use crate::world::World;

/// Queues of a run with many consumers.
const QUEUES_MAX: usize = 2;

/// Milliseconds a consumer may hold a message where bodies are large.
const LARGE_TIMEOUT_MS: u64 = 6000;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_client(true) else { return Ok(()) };
    by(world, at)
}

/// The client at `at` declares.
pub(super) fn by(world: &mut World, at: usize) -> Check {
    let there = world.oracle.queues_there();
    if there.len() >= 2 && world.oracle.exchanges.len() < world.shape.exchanges_max && world.dice.one_in(3) {
        return exchange(world, at, &there);
    }
    let declares_max = world.shape.declares_max;
    let count = if declares_max > 1 { world.dice.between(1, declares_max) } else { 1 };
    (0..count).for_each(|_| queue(world, at));
    Ok(())
}

fn queue(world: &mut World, at: usize) {
    let queues_max = if world.plan.barriers { QUEUES_MAX } else { world.shape.queues_max };
    if world.oracle.queues.len() >= queues_max {
        return;
    }
    let (is_quorum, is_durable) = match world.dice.below(6) {
        _ if world.cluster.is_some() => (true, true),
        0..2 => (true, true),
        2..5 => (false, true),
        _ => (false, !world.clients[at].as_ref().is_some_and(Client::can_ask)),
    };
    let rules = roll(world, is_quorum);
    let queue = world.oracle.new_queue(is_quorum, is_durable, rules);
    let World { clients, trace, oracle, .. } = world;
    if let Some(client) = &mut clients[at] {
        let number = client.number;
        oracle.declaring(number, queue);
        let asks = if rules.is_plain() { String::new() } else { format!(", {rules:?}") };
        trace.note(format!("c{number} declares q{queue}, quorum {is_quorum}, durable {is_durable}{asks}"));
        client.declare(queue, is_quorum, is_durable, &rules);
    }
    world.note_declared(queue);
}

/// The rules of the next queue.
pub fn roll(world: &mut World, is_quorum: bool) -> Rules {
    let mut rules = Rules::default();
    if world.plan.rich && world.dice.one_in(2) {
        let graves = world.oracle.graves();
        rules = Rules::roll(&mut world.dice, is_quorum, &graves);
        if world.shape.body_bytes_max > Shape::PLAIN.body_bytes_max {
            // A large body is long on its way: a consumer with less time to settle it would be given it for ever.
            rules.timeout_ms = rules.timeout_ms.map(|_| LARGE_TIMEOUT_MS);
        }
    }
    let number = world.oracle.queues.len();
    // The first one of a run, and some others, whatever else they are.
    let may_bar = world.plan.rich && rules.priority_max.is_none();
    rules.bars = world.plan.barriers || may_bar && number.is_multiple_of(5);
    if !rules.is_plain() && !world.plan.barriers {
        let is_leased = number % 4 == 2;
        rules.lease_ms = is_leased.then(|| [400, 1500, LARGE_TIMEOUT_MS][number / 4 % 3]);
        if world.shape.body_bytes_max > Shape::PLAIN.body_bytes_max {
            rules.lease_ms = rules.lease_ms.map(|_| LARGE_TIMEOUT_MS);
        }
        rules.is_grouped = number % 3 == 1 && rules.priority_max.is_none();
        rules.ranks = number % 5 == 3 && rules.priority_max.is_none() && !rules.is_grouped;
        let may_bar = rules.priority_max.is_none() && !rules.is_grouped;
        rules.bars = number % 5 < 2 && may_bar;
    }
    if world.cluster.is_some() {
        // A settle goes to the node that leads, behind others, with words that overtake each other and come again.
        rules.timeout_ms = rules.timeout_ms.map(|ms| ms.max(LARGE_TIMEOUT_MS));
        rules.lease_ms = rules.lease_ms.map(|ms| ms.max(LARGE_TIMEOUT_MS));
    }
    rules
}

fn exchange(world: &mut World, at: usize, there: &[usize]) -> Check {
    let World { clients, dice, oracle, trace, plan, .. } = world;
    let mut queues: Vec<usize> = there.iter().copied().filter(|_| dice.one_in(2)).collect();
    if queues.is_empty() {
        queues.push(there[0]);
    }
    let delays = plan.rich && dice.one_in(2);
    let exchange = oracle.new_exchange(queues.clone(), delays);
    if let Some(client) = &mut clients[at] {
        trace.note(format!("c{} declares x{exchange}, delays {delays}, and binds {queues:?}", client.number));
        client.ask(Asked::DeclareExchange(exchange, delays));
        queues.iter().for_each(|queue| client.ask(Asked::Bind(exchange, *queue)));
    }
    Ok(())
}
