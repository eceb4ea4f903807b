//! A node of a cluster as it tells the others of itself, and as tools see all of them.

use crate::door::{Door, Room};
use crate::entrance::Entrance;
use crate::lanes::{Dropped, Lanes, Met};
use crate::manager::Manager;
use crate::seat;
use base::brief;
use management::{Busy, LanesTo, Member, Replica, Replicas};
use std::time::Duration;

/// The time between two times that it is told.
const GAP: Duration = Duration::from_secs(2);

/// Says to the other nodes how this one is, until it ends.
pub fn say_on(manager: &Manager<'_>, lanes: &Lanes, entrance: &Entrance) {
    loop {
        // A shard that does not answer in time is asked again next time.
        if let Ok(news) = management::news(manager) {
            lanes.say(&news);
        }
        if entrance.is_over_within(GAP) {
            return;
        }
    }
}

/// The nodes of the cluster, this one, `own`, among them, by name.
pub fn members(lanes: &Lanes, own: &str) -> Vec<Member> {
    let other = |met: Met| Member { name: met.name, is_running: met.is_reached, news: met.news };
    let mut all: Vec<Member> = lanes.met().into_iter().map(other).collect();
    all.push(Member { name: own.to_owned(), is_running: true, news: None });
    brief::sort_by(&mut all, |one, other| one.name.cmp(&other.name));
    all
}

/// The replicas of all shards, of a node with so many logs.
///
/// # Errors
/// A shard did not answer within `patience`.
pub fn replicas(doors: &[Door], logs: u32, patience: Duration) -> Result<Replicas, Busy> {
    let mut found = Replicas::default();
    for door in doors {
        let rows = move |room: &Room<'_>| {
            room.replicas.map(|own| (seat::rows(own, logs), own.changes())).unwrap_or_default()
        };
        let (rows, (begun, ended)) = door.visit(patience, rows).ok_or(Busy)?;
        found.leads_begun += begun;
        found.leads_ended += ended;
        found.all.extend(rows.iter().map(|row| Replica {
            log: row.log,
            leads: row.leads.is_some(),
            has_leader: row.leader.is_some(),
            applied: row.applied.unwrap_or_default(),
        }));
    }
    brief::sort_by_key(&mut found.all, |own| own.log);
    Ok(found)
}

/// The lanes to other nodes, and words that were dropped.
pub fn lanes(lanes: &Lanes) -> management::Lanes {
    let of = |Met { name: node, lanes: [dialed, open], bytes, .. }: Met| {
        let [sent_bytes, received_bytes] = bytes;
        LanesTo { node, dialed, open, sent_bytes, received_bytes }
    };
    let Dropped { no_lane, outbound, inbound } = lanes.dropped();
    let dropped = vec![("no_lane", no_lane), ("outbound", outbound), ("inbound", inbound)];
    management::Lanes { nodes: lanes.met().into_iter().map(of).collect(), dropped }
}
