//! Messages that somebody chose one by one: taken as a get takes them, or thrown away, wherever in the queue they are.
//!
//! Nothing is noted about chosen messages, and no record tells of them. Those that are taken are held as any that were
//! handed out; those that the cursor has not come to are [elsewhere](crate::ahead) until it does. A message that comes
//! back while older ones of its priority were never out is at its place again, behind them.
//!
//! A message of a group is taken where nobody else has anything of the group, though others of it are in front: while it is
//! held, its group is its holder's, so that it comes back in order.

use crate::command::ConsumerId;
use crate::features::Features;
use crate::line::Line;
use base::ranges::Range;

/// Positions of `range` that may be given to `id`, lowest first, and whether they came back.
pub(crate) fn choices(features: &Features, line: &Line, id: ConsumerId, range: Range) -> Vec<(Range, bool)> {
    let ready = features.ready_within(range, line);
    let groups = features.groups.as_ref();
    let mut choices: Vec<(Range, bool)> = Vec::new();
    for seq in ready.iter().flat_map(|part| part.first..=part.last) {
        if groups.is_some_and(|groups| !groups.is_free_for(seq, id)) {
            continue;
        }
        let came_back = line.ready.returned().contains(seq) || features.came_back(seq);
        match choices.last_mut() {
            Some((last, how)) if last.last + 1 == seq && *how == came_back => last.last = seq,
            _ => choices.push((Range { first: seq, last: seq }, came_back)),
        }
    }
    choices
}
