//! Things that happen to several nodes.

use super::Operation;
use crate::cluster::Cluster;
use crate::oracle::Check;
use crate::seat::replica_of;
use crate::world::World;
use base::time::NS_PER_MS;

/// Those of runs of several nodes besides those of clients.
pub const OPERATIONS: [(u64, Operation); 7] =
    [(18, crash), (3, power), (10, cut), (6, mend), (8, still), (10, transfer), (12, roll)];

/// Something fails now that could, in this run.
fn strikes(world: &mut World) -> bool {
    let World { cluster, dice, .. } = world;
    cluster.as_ref().is_some_and(|cluster| dice.one_in(cluster.peace))
}

/// The node that is looked at goes down.
fn crash(world: &mut World) -> Check {
    if world.is_down() || !strikes(world) { Ok(()) } else { world.crash(None) }
}

/// The node that is looked at begins a file of its journal, and with it a round of housekeeping.
fn roll(world: &mut World) -> Check {
    if !world.is_down() {
        world.node.books.journal.roll();
    }
    Ok(())
}

/// All nodes lose their power at once.
fn power(world: &mut World) -> Check {
    if !strikes(world) {
        return Ok(());
    }
    world.note("all nodes go down");
    world.crash_all()
}

fn cut(world: &mut World) -> Check {
    if !strikes(world) {
        return Ok(());
    }
    let World { cluster: Some(cluster), dice, trace, .. } = world else { return Ok(()) };
    let (nodes, here) = (cluster.nodes(), cluster.here.number);
    let both = dice.one_in(2);
    if dice.one_in(2) {
        trace.note(format!("n{here} is cut off"));
        (0..nodes).filter(|other| *other != here).for_each(|other| cluster.links.cut(here, other, true));
    } else {
        let other = (here + 1 + dice.below(nodes as u64 - 1) as usize) % nodes;
        trace.note(format!("n{other} does not hear n{here}, both {both}"));
        cluster.links.cut(here, other, both);
    }
    Ok(())
}

fn mend(world: &mut World) -> Check {
    if let Some(cluster) = &mut world.cluster {
        cluster.links.mend();
        world.trace.note("links are mended".into());
    }
    Ok(())
}

/// The node that is looked at stands still for a while.
fn still(world: &mut World) -> Check {
    if !strikes(world) {
        return Ok(());
    }
    let World { cluster: Some(cluster), dice, now, trace, .. } = world else { return Ok(()) };
    let ms = dice.below(1500);
    cluster.here.still_until = now.mono_ns + ms * NS_PER_MS;
    trace.note(format!("n{} stands still for {ms} ms", cluster.here.number));
    Ok(())
}

/// A node hands a log to another.
fn transfer(world: &mut World) -> Check {
    let World { cluster: Some(Cluster { here, others, logs, .. }), dice, now, node, trace, .. } = world
    else {
        return Ok(());
    };
    let log = logs[dice.below(logs.len() as u64) as usize];
    let to = others[dice.below(others.len() as u64) as usize].standing.number;
    if here.up_at.is_none() && here.still_until <= now.mono_ns && node.leads(log) {
        trace.note(format!("n{} hands {log:?} to n{to}", here.number));
        node.transfer(*now, log, replica_of(to));
    }
    Ok(())
}
