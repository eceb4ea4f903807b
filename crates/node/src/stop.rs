//! The end of a node that stops in order: nothing is in flight, and every log gets a snapshot, so that the next start replays
//! nothing.

use crate::Stop;
use crate::keeper::{House, Keeper};
use base::id::{LogId, LogIndex, ShardId};
use broker::{Mail, Shard};

/// Writes the last snapshot of every log of these shards, whose turns are over, but for those that `stays` says the journal
/// keeps all of. `left` gives the mail that a shard has not taken any more.
///
/// # Errors
/// The device's error.
pub fn write_snapshots(
    shards: &mut [Shard],
    mut left: impl FnMut(ShardId) -> Vec<Mail>,
    stays: impl Fn(LogId) -> bool,
    keeper: &mut Keeper,
    house: &mut dyn House,
) -> Result<(), Stop> {
    for (number, shard) in (0..).zip(shards) {
        shard.logs_mut().take_left(left(ShardId(number)));
        let logs: Vec<LogId> = shard.logs().on_disk().collect();
        for log in logs.into_iter().filter(|log| !stays(*log)) {
            let Some(snapshot) = shard.snapshot(log, true) else { continue };
            // Where no messages live from before the snapshot, the next start need not read their records.
            let left = shard.logs().begin_move(log, snapshot.covered).filter(|job| job.is_empty());
            let lives_from = left.map_or_else(LogIndex::default, |job| job.bound);
            let jobs = shard.logs_mut().take_stream_syncs(log);
            let written = keeper.write_last(house, &snapshot, lives_from, jobs);
            written.map_err(|error| Stop(format!("a snapshot was not written: {error}")))?;
        }
    }
    Ok(())
}
