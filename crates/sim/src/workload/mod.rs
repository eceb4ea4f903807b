//! Operations of clients and of the world on a node, one a file.
//!
//! An operation tells the oracle first and acts then. One that finds nothing to do does nothing.

mod browse;
mod cancel;
mod cancel_delayed;
mod close;
mod cluster;
mod connect;
mod consume;
mod crash;
mod crowd;
pub mod declare;
mod delete;
mod fail;
mod fill;
mod get;
mod hand;
mod hostile;
mod limit;
mod look;
mod manage;
mod pick;
mod publish;
mod purge;
mod redeclare;
mod reply;
mod request;
mod rest;
mod rot;
mod settle;
mod stop;
mod streams;
pub mod transact;
mod user;

use crate::oracle::Check;
use crate::world::World;

type Operation = fn(&mut World) -> Check;

/// Every operation, and how often it comes in so many.
const OPERATIONS: [(u64, Operation); 16] = [
    (400, publish::run),
    (200, settle::run),
    (80, connect::run),
    (80, consume::run),
    (60, declare::run),
    (60, get::run),
    (25, cancel::run),
    (12, close::run),
    (10, fill::run),
    (5, fail::run),
    (6, crash::run),
    (8, rest::run),
    (10, rot::run),
    (8, purge::run),
    (6, delete::run),
    (3, stop::run),
];

/// Those of rich runs besides.
const RICH: [(u64, Operation); 6] = [
    (50, transact::run),
    (40, request::run),
    (60, reply::run),
    (30, manage::run),
    (25, browse::run),
    (8, cancel_delayed::run),
];

/// Those of runs with limits besides.
const LIMITS: [(u64, Operation); 1] = [(20, limit::run)];

/// Those of runs with streams besides.
const STREAMS: [(u64, Operation); 9] = [
    (80, streams::connect),
    (100, streams::declare),
    (300, streams::publish),
    (60, streams::publish_amqp),
    (80, streams::subscribe),
    (60, streams::give_credit),
    (60, streams::track),
    (30, streams::feed),
    (30, streams::leave),
];

/// Those of runs with messages that are chosen besides.
const PICKS: [(u64, Operation); 1] = [(50, pick::run)];

/// Those of runs with streams in which consumers have many names besides.
const CROWDS: [(u64, Operation); 1] = [(80, crowd::run)];

/// Those of runs in which logs go from shard to shard besides.
const HANDS: [(u64, Operation); 1] = [(40, hand::run)];

/// Those of runs with a hostile tenant besides.
const HOSTILE: [(u64, Operation); 1] = [(600, hostile::run)];

/// Those of runs with barriers and many consumers; there are no others.
const BARRIERS: [(u64, Operation); 10] = [
    (300, publish::run),
    (250, settle::run),
    (60, connect::run),
    (120, consume::run),
    (30, declare::run),
    (8, cancel::run),
    (4, close::run),
    (2, fail::run),
    (2, crash::run),
    (20, rest::run),
];

/// Those of clients of several nodes; there are no others.
const CLUSTER: [(u64, Operation); 16] = [
    (400, publish::run),
    (200, settle::run),
    (80, connect::run),
    (100, consume::run),
    (30, user::run),
    (80, declare::run),
    (30, redeclare::run),
    (30, look::run),
    (10, delete::run),
    (60, get::run),
    (25, cancel::run),
    (12, close::run),
    (8, fill::run),
    (5, fail::run),
    (4, rest::run),
    (6, purge::run),
];

/// Those of rich clients of several nodes besides.
const CLUSTER_RICH: [(u64, Operation); 3] =
    [(50, transact::run), (25, browse::run), (8, cancel_delayed::run)];

/// Carries out one operation, rolled.
pub fn one(world: &mut World) -> Check {
    if world.cluster.is_some() {
        let rich: &[_] = if world.plan.rich { &CLUSTER_RICH } else { &[] };
        let operations: Vec<_> = CLUSTER.iter().chain(&cluster::OPERATIONS).chain(rich).collect();
        return one_of(world, &operations);
    }
    if world.plan.barriers {
        return one_of(world, &BARRIERS.each_ref());
    }
    let rich: &[_] = if world.plan.rich { &RICH } else { &[] };
    let limits: &[_] = if world.plan.limits { &LIMITS } else { &[] };
    let streams: &[_] = if world.plan.streams { &STREAMS } else { &[] };
    let picks: &[_] = if world.plan.picks { &PICKS } else { &[] };
    let crowds: &[_] = if world.plan.crowds { &CROWDS } else { &[] };
    let hands: &[_] = if world.plan.hands { &HANDS } else { &[] };
    let hostile: &[_] = if world.plan.hostile { &HOSTILE } else { &[] };
    let special =
        || rich.iter().chain(limits).chain(streams).chain(picks).chain(crowds).chain(hands).chain(hostile);
    let operations: Vec<&(u64, Operation)> = OPERATIONS.iter().chain(special()).collect();
    one_of(world, &operations)
}

fn one_of(world: &mut World, operations: &[&(u64, Operation)]) -> Check {
    let all: u64 = operations.iter().map(|(weight, _)| weight).sum();
    let mut at = world.dice.below(all);
    for &&(weight, operation) in operations {
        if at < weight {
            return operation(world);
        }
        at -= weight;
    }
    Ok(())
}
