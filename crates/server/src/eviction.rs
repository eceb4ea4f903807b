//! Far beyond the memory watermark the connection that holds most memory is closed: one at each look at the memory of
//! those a `memory_monitor_interval` apart. It is looked at again soon after that, so that publishers go on.
//!
//! Blocking publishers takes nothing back of what connections hold by the ledger, and a client may keep it for ever. A
//! connection that holds little is left alone: what uses the memory then is in queues.

use crate::door::{Door, Letter};
use base::id::PortId;
use std::time::Duration;

/// Bytes that a connection holds at least that is closed.
const HELD_MIN: u64 = 1 << 20;

/// The wait for a shard to say which of its connections holds most. One that is late has its turn at the next look.
const PATIENCE: Duration = Duration::from_millis(250);

/// Has the connection closed that holds most, if it holds much; the line for the log.
pub fn evict_largest(doors: &[Door]) -> Option<String> {
    let holders = doors.iter().filter_map(|door| {
        let found = door.visit(PATIENCE, |room| {
            let (at, name, held) = room.front.largest_holder(room.shard)?;
            let names = room.shard.names_of(PortId::here(room.id, at.0, at.1))?;
            Some((at, name, names, held))
        });
        Some((door, found??))
    });
    let (door, (at, name, (user, vhost), held)) = holders.max_by_key(|(_, (.., held))| *held)?;
    if held < HELD_MIN {
        return None;
    }
    let text =
        format!("the node is far beyond its memory watermark, and this connection holds most: {held} bytes");
    door.letters.put(Letter::Evict(at, text));
    Some(format!(
        "closing connection {name} of user '{user}' in vhost '{vhost}': memory is far beyond the watermark, and it holds \
         {held} bytes, most of all (leveret.alarm_refuses_growth)"
    ))
}
