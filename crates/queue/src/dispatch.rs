//! Handing out: the next ready positions to the consumer in turn.
//!
//! Where messages are in groups, consumers are asked in turn, those of lower priority behind those of higher, until one may have
//! something. Rules about consumers ([`crate::settings::Rules::has_consumer_rules`]) have a way of their own, so that no other queue pays.

use crate::command::ConsumerId;
use crate::consumers::Consumers;
use crate::delivery::Delivery;
use crate::effect::{Accepted, Effect, Effects};
use crate::features::{Features, Given};
use crate::line::Line;
use base::id::QueueSeq;

/// Hands out at most `budget` messages, which `next` takes; how many it were.
#[inline(always)]
pub(crate) fn hand_out(
    consumers: &mut Consumers,
    budget: u32,
    effects: &mut Effects,
    mut next: impl FnMut(u64) -> Option<Delivery>,
) -> u32 {
    let mut given = 0;
    let mut accepted = Accepted::default();
    while given < budget {
        let Some((id, count_max)) = consumers.turn() else { break };
        let Some(delivery) = next(u64::from(count_max.min(budget - given))) else { break };
        effects.list.push(delivery.to(id));
        consumers.give(id, delivery.range, &mut accepted, effects);
        given += delivery.range.len() as u32;
        consumers.took(id);
    }
    accepted.finish(effects);
    given
}

/// As [`hand_out`], of a queue with features; where groups keep something back, that is seen in [`Features::is_on_the_way`].
#[inline(never)]
pub(crate) fn hand_out_featured(
    consumers: &mut Consumers,
    budget: u32,
    features: &mut Features,
    line: &mut Line,
    effects: &mut Effects,
) -> u32 {
    if features.rules.has_consumer_rules() && features.selectors.is_some() {
        return hand_out_ruled_selected(consumers, budget, features, line, effects);
    }
    if features.rules.has_consumer_rules() {
        return hand_out_ruled(consumers, budget, features, line, effects);
    }
    if features.groups.is_some() {
        return hand_out_groups(consumers, budget, features, line, effects);
    }
    if features.selectors.is_some() {
        return hand_out_selected(consumers, budget, features, line, effects);
    }
    if features.barriers.is_some() {
        return hand_out(consumers, budget, effects, |count_max| features.next_unbarred(line, count_max));
    }
    // The rest of the last priority lies scattered as well.
    if !features.levels.is_empty() || line.ready.has_gone_ahead() {
        return hand_out_levels(consumers, budget, features, line, effects);
    }
    hand_out(consumers, budget, effects, |count_max| features.next(line, count_max))
}

/// As [`hand_out`], where messages have priorities: positions of a block that are alike at once.
#[cold]
#[inline(never)]
fn hand_out_levels(
    consumers: &mut Consumers,
    budget: u32,
    features: &mut Features,
    line: &mut Line,
    effects: &mut Effects,
) -> u32 {
    let may_scatter = features.may_scatter();
    let mut given = 0;
    let mut accepted = Accepted::default();
    while given < budget {
        let Some((id, count_max)) = consumers.turn() else { break };
        let count_max = count_max.min(budget - given);
        let some = if may_scatter && count_max > 1 { features.next_scattered(line, count_max) } else { None };
        let next = some.or_else(|| features.next(line, u64::from(count_max)).map(Given::Range));
        given += match next {
            Some(Given::Range(delivery)) => {
                effects.list.push(delivery.to(id));
                consumers.give(id, delivery.range, &mut accepted, effects);
                delivery.range.len() as u32
            }
            Some(Given::Scattered(block, bits)) => {
                effects.list.push(Effect::DeliverScattered { consumer: id, block: QueueSeq(block), bits });
                consumers.give_bits(id, block, bits, &mut accepted, effects);
                bits.count_ones()
            }
            None => break,
        };
        consumers.took(id);
    }
    accepted.finish(effects);
    given
}

/// Gives a consumer what was taken for it, in a queue that may know who holds what: how many messages that are.
fn give(
    consumers: &mut Consumers,
    features: &mut Features,
    (id, delivery): (ConsumerId, Delivery),
    accepted: &mut Accepted,
    effects: &mut Effects,
) -> u32 {
    effects.list.push(delivery.to(id));
    if consumers.give(id, delivery.range, accepted, effects) {
        features.hold(delivery.range, id);
    }
    delivery.range.len() as u32
}

/// As [`hand_out`], where messages are in groups: to each consumer the first it may have.
#[cold]
#[inline(never)]
fn hand_out_groups(
    consumers: &mut Consumers,
    budget: u32,
    features: &mut Features,
    line: &mut Line,
    effects: &mut Effects,
) -> u32 {
    let mut given = 0;
    let mut accepted = Accepted::default();
    while given < budget {
        let mut taker = consumers.turn().map(|(id, _)| id);
        let mut next = None;
        while let Some(id) = taker {
            next = features.next_for(id, line).map(|delivery| (id, delivery));
            if next.is_some() {
                break;
            }
            taker = consumers.after(id);
        }
        let Some((id, delivery)) = next else { break };
        given += give(consumers, features, (id, delivery), &mut accepted, effects);
        consumers.took_before(id);
    }
    accepted.finish(effects);
    given
}

/// As [`hand_out`], where consumers choose: in turn by selector, and among those of one selector. A step for each selector
/// that has consumers, and nothing for consumers whose selector has no message.
#[cold]
#[inline(never)]
fn hand_out_selected(
    consumers: &mut Consumers,
    budget: u32,
    features: &mut Features,
    line: &mut Line,
    effects: &mut Effects,
) -> u32 {
    let mut given = 0;
    let mut accepted = Accepted::default();
    while given < budget {
        let turn = consumers.turn_among(|selector| features.has_for(selector, line));
        let Some((id, count_max, selector)) = turn else { break };
        let count_max = count_max.min(budget - given).into();
        let Some(delivery) = features.next_by(selector, line, count_max) else { break };
        given += give(consumers, features, (id, delivery), &mut accepted, effects);
        consumers.took_before(id);
        consumers.served(selector);
    }
    accepted.finish(effects);
    given
}

/// As [`hand_out`], where rules say which consumer is next ([`crate::Rules::fairness`]), or how many messages all of them
/// may hold.
#[cold]
#[inline(never)]
fn hand_out_ruled(
    consumers: &mut Consumers,
    budget: u32,
    features: &mut Features,
    line: &mut Line,
    effects: &mut Effects,
) -> u32 {
    let mut given = 0;
    let mut accepted = Accepted::default();
    let is_line = features.is_line();
    while given < budget {
        let Some((first, count_max)) = consumers.next_taker() else { break };
        let left = features.may_hold_more(consumers);
        if left == 0 && !consumers.has_settling() {
            break;
        }
        // A consumer that settles at once holds nothing.
        let room = |id| if consumers.settles(id) { u64::MAX } else { left };
        let mut next = match room(first).min(count_max.min(budget - given).into()) {
            0 => None,
            count_max if is_line => line.next(count_max),
            count_max => next_for(first, count_max, features, line),
        }
        .map(|delivery| (first, delivery));
        if next.is_none() && (features.groups.is_some() || left == 0) {
            let others = consumers.takers_behind(first).into_iter();
            next =
                others.filter(|id| room(*id) > 0).find_map(|id| Some((id, next_for(id, 1, features, line)?)));
        }
        let Some((id, delivery)) = next else { break };
        given += give(consumers, features, (id, delivery), &mut accepted, effects);
        consumers.took_any(id);
    }
    accepted.finish(effects);
    given
}

/// Takes up to `count_max` positions that this consumer may have.
fn next_for(id: ConsumerId, count_max: u64, features: &mut Features, line: &mut Line) -> Option<Delivery> {
    if features.groups.is_some() {
        return features.next_for(id, line);
    }
    features.next_unbarred(line, count_max)
}

/// As [`hand_out_ruled`], where consumers choose: each is asked in its turn, until one may have something.
#[cold]
#[inline(never)]
fn hand_out_ruled_selected(
    consumers: &mut Consumers,
    budget: u32,
    features: &mut Features,
    line: &mut Line,
    effects: &mut Effects,
) -> u32 {
    let mut given = 0;
    let mut accepted = Accepted::default();
    while given < budget {
        let left = features.may_hold_more(consumers);
        let takers = consumers.takers().into_iter().filter(|id| left > 0 || consumers.settles(*id));
        let next = takers
            .map(|id| (id, consumers.selector(id)))
            .find_map(|(id, selector)| Some((id, selector, features.next_by(selector, line, 1)?)));
        let Some((id, selector, delivery)) = next else { break };
        given += give(consumers, features, (id, delivery), &mut accepted, effects);
        consumers.took_any(id);
        consumers.served(selector);
    }
    accepted.finish(effects);
    given
}
