//! An administrator makes a user at a node, or deletes one.

use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    if world.is_down() || !world.node.planning().is_caught_up() {
        return Ok(());
    }
    let World { cluster: Some(cluster), dice, node, now, trace, .. } = world else { return Ok(()) };
    let there = cluster.users.there();
    let which = (!there.is_empty() && dice.one_in(2)).then(|| there[dice.below(there.len() as u64) as usize]);
    let number = cluster.here.number;
    let (token, op) = cluster.users.ask(number, which);
    trace.note(format!("n{number} is asked by {token} for {op:?}"));
    let at = dice.below(node.berths.len() as u64) as usize;
    node.ask(at, *now, token, op);
    Ok(())
}
