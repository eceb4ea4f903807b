//! The course of a run: what happens next, as the dice decide, up to the end, when everything is looked at.

use crate::client::CLIENTS_MAX;
use crate::cluster::{Brought, Cluster, Standing};
use crate::oracle::Check;
use crate::streams::STREAM_CLIENTS_MAX;
use crate::tenant::TENANT_CLIENTS_MAX;
use crate::workload;
use crate::world::World;

/// Steps after which several nodes are compared.
const COMPARED_EVERY: u64 = 40;

/// The whole run.
pub fn run(world: &mut World) -> Check {
    let mut operations = 0;
    while operations < world.plan.operations {
        world.tally.steps += 1;
        operations += u32::from(step(world)?);
        if world.is_lost {
            return Ok(());
        }
    }
    world.drain()?;
    world.tally.rolls += world.node.books.journal.counters().rolls;
    world.tally.bulk += world.node.books.journal.counters().bulk_files;
    world.tally.handed += world.node.handed;
    world.tally.held_back += world.node.held_back;
    (world.tally.buried, world.tally.expired) = (world.oracle.buried, world.oracle.expired);
    world.tally.noted = world.oracle.noted;
    (world.tally.delayed, world.tally.taken_back) = (world.oracle.delayed, world.oracle.taken_back);
    world.tally.chosen = world.oracle.chosen;
    world.tally.barriers = world.oracle.barriers_came;
    world.tally.driven_out = world.streams.oracle.driven_out;
    if let Some(cluster) = &world.cluster {
        (world.tally.compared, world.tally.led) = (cluster.compared, cluster.led);
        let Brought { records, commands, claims } = cluster.links.brought;
        (world.tally.brought, world.tally.asked, world.tally.claimed) = (records, commands, claims);
    }
    if let Some(double) = &world.double {
        (world.tally.compared, world.tally.resigned) = (double.compared, double.resigned);
        world.tally.after_all = double.after_all;
        world.tally.begun_anew = double.begun;
    }
    Ok(())
}

/// One thing happens; true when it was an operation of the workload.
fn step(world: &mut World) -> Result<bool, String> {
    if world.cluster.is_some() {
        return step_together(world);
    }
    if world.double.is_some() && world.dice.one_in(6) {
        world.agree()?;
        return Ok(false);
    }
    match world.dice.below(100) {
        0..30 => {
            let at = world.dice.below(world.node.berths.len() as u64) as usize;
            let World { node, now, dice, net, .. } = world;
            let result = node.turn(at, *now, dice, net);
            world.watch()?;
            world.unless_stopped(result)?;
        }
        30..42 => {
            let result = world.node.write(world.now);
            world.unless_stopped(result)?;
        }
        42..50 => {
            let result = world.node.read(&mut world.dice, &mut world.tally);
            world.unless_stopped(result)?;
        }
        50..58 => {
            let result = world.node.keep(world.now, &mut world.dice, &mut world.tally);
            world.unless_stopped(result)?;
        }
        58..61 => world.node.prepare(),
        61..80 if world.plan.streams && world.dice.one_in(2) => {
            let at = world.dice.below(STREAM_CLIENTS_MAX as u64) as usize;
            world.exchange_stream(at, false)?;
        }
        61..80 if world.plan.hostile && world.dice.one_in(3) => {
            let at = world.dice.below(TENANT_CLIENTS_MAX as u64) as usize;
            world.exchange_tenant(at, false);
        }
        61..80 => {
            let at = world.dice.below(CLIENTS_MAX as u64) as usize;
            world.exchange(at, false)?;
        }
        80..84 => {
            let ms = world.dice.between(0, 40);
            world.pass(ms);
        }
        _ => {
            workload::one(world)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Steps of housekeeping that are done one after the other now and then.
const KEPT_AT_ONCE: u64 = 60;

/// The same where there are several nodes: it happens at one of them.
fn step_together(world: &mut World) -> Result<bool, String> {
    let nodes = world.cluster.as_ref().map_or(1, Cluster::nodes) as u64;
    let number = world.dice.below(nodes) as usize;
    world.visit(number);
    world.bring_messages();
    if world.tally.steps.is_multiple_of(COMPARED_EVERY) {
        world.compare()?;
    }
    let now_ns = world.now.mono_ns;
    let here = |world: &World| world.cluster.as_ref().map(|cluster| cluster.here);
    if here(world).is_some_and(|here| here.up_at.is_some_and(|at| at <= now_ns)) {
        world.come_up()?;
    }
    let is_able = |here: Standing| here.up_at.is_none() && here.still_until <= now_ns;
    let is_able = here(world).is_some_and(is_able);
    match world.dice.below(100) {
        0..64 if !is_able => {}
        0..40 => {
            let at = world.dice.below(world.node.berths.len() as u64) as usize;
            world.turn(at)?;
        }
        40..50 => {
            let result = world.node.write(world.now);
            world.unless_stopped(result)?;
        }
        50..56 => {
            let result = world.node.read(&mut world.dice, &mut world.tally);
            world.unless_stopped(result)?;
        }
        56..62 => {
            // A round of housekeeping is many steps, most of which would be cut off by a crash.
            let steps = if world.dice.one_in(4) { KEPT_AT_ONCE } else { 1 };
            for step in 0..steps {
                let result = world.node.keep(world.now, &mut world.dice, &mut world.tally);
                world.unless_stopped(result)?;
                if world.is_down() || step + 1 == steps {
                    break;
                }
                world.turn(0)?;
            }
        }
        62..64 => world.node.prepare(),
        64..82 => {
            let at = world.dice.below(CLIENTS_MAX as u64) as usize;
            world.exchange(at, false)?;
        }
        82..86 => {
            let most = if world.dice.one_in(4) { 60 } else { 4 };
            let pace = world.cluster.as_ref().map_or(1, |cluster| cluster.pace);
            let ms = world.dice.below(most * pace);
            world.pass(ms);
        }
        _ => {
            workload::one(world)?;
            return Ok(true);
        }
    }
    Ok(false)
}
