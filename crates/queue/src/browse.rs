//! Looking at ready messages without taking them: the caller keeps a position and asks for the next one.
//!
//! Nothing here changes the queue, and a queue costs no more for being looked at. Messages that a consumer holds, that
//! wait for their time, that are dying or gone are passed over.

use crate::features::Features;
use crate::line::Line;

/// The first position from `from` on that could be handed out, in order of arrival, at any priority.
pub(crate) fn next_ready(line: &Line, features: Option<&Features>, from: u64) -> Option<u64> {
    let of_levels = features.and_then(|features| features.levels.next_ready(from));
    let lined = features.and_then(|features| features.delays.lined().next_present(from));
    let groups = features.and_then(|features| features.groups.as_ref());
    let passed = groups.and_then(|groups| groups.passed().next_present(from));
    let next = [of_levels, lined, passed, next_usual(line, features, from)];
    next.into_iter().flatten().min()
}

/// Positions of the priority that is handed out next that are ready from `from` on, in order of arrival.
pub(crate) fn coming<'a>(
    line: &'a Line,
    features: Option<&'a Features>,
    from: u64,
) -> impl Iterator<Item = u64> + 'a {
    let next = features.and_then(|features| {
        let (levels, usual) = (&features.levels, features.settings.priorities.usual());
        let first = |is_asked: fn(&u8, &u8) -> bool| {
            let is_asked = |level: u8| is_asked(&level, &usual);
            levels.first_returned(is_asked).or_else(|| levels.first(is_asked))
        };
        let has_usual = || next_usual(line, Some(features), 0).is_some();
        let below = || if has_usual() { None } else { first(u8::lt) };
        first(u8::gt).or_else(below).map(|next| (levels, next))
    });
    let mut from = from;
    std::iter::from_fn(move || {
        let seq = match next {
            Some((levels, next)) => levels.next_ready_of(next, from)?,
            None => next_usual(line, features, from)?,
        };
        from = seq + 1;
        Some(seq)
    })
}

/// The first position from `from` on that is ready of the usual priority.
fn next_usual(line: &Line, features: Option<&Features>, from: u64) -> Option<u64> {
    let returned = line.ready.returned().next_present(from);
    returned.into_iter().chain(next_ahead(line, features, from)).min()
}

/// The first position from `from` on that is ready through the cursor.
fn next_ahead(line: &Line, features: Option<&Features>, from: u64) -> Option<u64> {
    let mut at = from.max(line.ready.cursor());
    loop {
        let mut to = line.live.settled().next_absent(at);
        if let Some(features) = features {
            to = features.levels.next_usual(features.ahead.elsewhere().next_absent(to));
        }
        if to == at {
            return (at < line.live.next_seq()).then_some(at);
        }
        at = to;
    }
}
