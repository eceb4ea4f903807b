//! The end of a node that stops in order: nothing is in flight, and every log gets a snapshot, so that the next start replays
//! nothing.

use crate::Stop;
use crate::keeper::{House, Keeper};
use crate::snapped::{Part, Snapped};
use base::id::{LogId, LogIndex, ShardId};
use broker::{Mail, Shard};
use std::collections::BTreeMap;

/// Writes the last snapshot of every log of these shards, whose turns are over. `left` gives the mail that a shard has not
/// taken any more; `parts` has those of the replicas that the shards had.
///
/// # Errors
/// The device's error.
pub fn write_snapshots(
    shards: &mut [Shard],
    mut left: impl FnMut(ShardId) -> Vec<Mail>,
    parts: &mut BTreeMap<LogId, Option<Part>>,
    keeper: &mut Keeper,
    house: &mut dyn House,
) -> Result<(), Stop> {
    for (number, shard) in (0..).zip(shards) {
        shard.logs_mut().take_left(left(ShardId(number)));
        let logs: Vec<LogId> = shard.logs().on_disk().collect();
        for log in logs {
            let Some(state) = shard.snapshot(log, true) else { continue };
            let is_covered = |part: &Part| part.standing.name.end == state.covered;
            let replica = match parts.remove(&log) {
                None => None,
                Some(part) if part.as_ref().is_some_and(is_covered) => part,
                // The disk has it all.
                Some(_) => continue,
            };
            // Where no messages live from before the snapshot, the next start need not read their records.
            let left = shard.logs().begin_move(log, state.covered).filter(|job| job.is_empty());
            let lives_from = left.map_or_else(LogIndex::default, |job| job.bound);
            let jobs = shard.logs_mut().take_stream_syncs(log);
            let snapshot = Snapped { state, replica, is_installed: false };
            let written = keeper.write_last(house, &snapshot, lives_from, jobs);
            written.map_err(|error| Stop(format!("a snapshot was not written: {error}")))?;
        }
    }
    Ok(())
}
