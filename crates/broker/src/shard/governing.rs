//! On the planning shard: a change of policies, and what comes of it for queues and exchanges.

use crate::catalog::{Actor, Change};
use crate::event_exchange::{self, Announcement};
use crate::planner::{Cause, Planner, Slice};

/// A change of policies begins a lap over the objects of its virtual host, at whose end it is told of. Returns the
/// announcements that go with the change itself.
pub(super) fn begin(
    planner: &mut Planner,
    (by, is_asked_for): (&Actor, bool),
    change: &Change,
    told: Vec<Announcement>,
) -> Vec<Announcement> {
    let (vhost, cause) = match change {
        Change::SetPolicy(policy) => (policy.vhost, Cause::Set(policy.clone())),
        Change::ClearPolicy { vhost, .. } => (*vhost, Cause::Cleared),
        _ => return told,
    };
    planner.reviews.begin(vhost, cause, (by.clone(), is_asked_for), told)
}

/// The change that objects go by other policies, and what is told of it; none: all go by those that they had. Answers
/// that waited for it are the planner's.
pub(super) fn end(planner: &mut Planner, node: &str, slice: Slice) -> Option<(Change, Vec<Announcement>)> {
    let Slice { vhost, changed, governed, mut told, answers } = slice;
    if let Some((cause, by)) = governed {
        let mut of_queues = event_exchange::governed(&planner.catalog, node, &by, (&cause, &changed));
        of_queues.append(&mut told);
        told = of_queues;
    }
    answers.into_iter().for_each(|answer| planner.add_answer(answer));
    let is_told = !changed.is_empty() || !told.is_empty();
    is_told.then(|| (Change::Govern { vhost, objects: changed.into() }, told))
}
