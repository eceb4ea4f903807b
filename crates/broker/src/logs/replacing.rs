//! All that is applied of a log is replaced by the state of another replica, which is further.
//!
//! What this node has for the log, and is not recorded in that state, stays, and so do commands that wait for a leader.

use crate::log::Log;
use crate::moving::Moved;
use crate::recovery::RecoveryError;
use crate::turn::Turn;
use base::id::LogIndex;

/// A log goes on from the state that `other`, which is empty, comes to with this snapshot of another replica. All its
/// messages are in segments, those of `moved` included; segments that nothing is left in are told by `dead`.
///
/// # Errors
/// It is no state of any log, or a message of it is in no segment; then all is as it was.
///
/// # Panics
/// While this node leads the log.
pub(super) fn replace(
    log: &mut Log,
    mut other: Log,
    turn: &mut Turn<'_>,
    (covered, state): (LogIndex, &[u8]),
    moved: &Moved,
    dead: &mut Vec<u64>,
) -> Result<(), RecoveryError> {
    let id = log.commons.id;
    other.restore(covered, state)?;
    // Files of streams do not come with it.
    if other.streams.get().is_some() || !moved.fits(&other) {
        return Err(RecoveryError::Snapshot(id));
    }
    // Blocks that nothing lives of any more may be the last of their segment.
    let mut left = Vec::new();
    moved.finish(&mut other, &mut left);
    if !other.finish_recovery(turn) {
        return Err(RecoveryError::Gap(id));
    }
    dead.append(&mut left);
    let before = std::mem::replace(&mut log.commons.store, other.commons.store);
    let is_gone = |segment: &u64| !log.commons.store.segments.contains_key(segment);
    dead.extend(before.segments.into_keys().filter(is_gone));
    log.machines = other.machines;
    log.streams = other.streams;
    log.commons.effects = other.commons.effects;
    log.commons.origins = other.commons.origins;
    let parked = std::mem::take(&mut log.commons.agenda.parked);
    log.commons.agenda = other.commons.agenda;
    log.commons.agenda.parked = parked;
    log.commons.pipeline.followed(covered);
    log.confirm_recorded(turn.post);
    Ok(())
}
