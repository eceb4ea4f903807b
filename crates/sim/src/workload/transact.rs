//! A transaction begins, or is committed: its messages are there from the answer on, and the deliveries it settled have
//! their end; or it is rolled back: no trace of it is ever seen, and its deliveries are held as before, or go back.

use crate::client::Verdict;
use crate::oracle::Check;
use crate::world::World;

pub fn run(world: &mut World) -> Check {
    let Some(at) = world.any_transactional() else { return Ok(()) };
    let World { clients, dice, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    if client.transaction.is_none() {
        client.begin_transaction();
        return Ok(());
    }
    let commits = !dice.one_in(4);
    end(world, at, commits);
    Ok(())
}

/// The client at `at` ends its transaction, if anything was done in it.
pub fn end(world: &mut World, at: usize, commits: bool) {
    let World { clients, oracle, trace, tally, .. } = world;
    let Some(client) = &mut clients[at] else { return };
    let Some(ended) = client.end_transaction(commits) else { return };
    let number = client.number;
    let (published, settled) = (ended.published.len(), ended.settled.len());
    if commits {
        tally.commits += 1;
        trace.note(format!("c{number} commits {published} publishes and {settled} settles"));
        oracle.committing(&ended.published);
        for (held, verdict) in ended.settled {
            oracle.settling(number, &[held], verdict);
        }
    } else {
        tally.rollbacks += 1;
        trace.note(format!("c{number} rolls {published} publishes and {settled} settles back"));
        if !client.can_ask() {
            let settled: Vec<_> = ended.settled.iter().map(|(held, _)| *held).collect();
            oracle.settling(number, &settled, Verdict::Fail);
        }
    }
}
