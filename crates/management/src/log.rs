//! The node's log, told each second to administrators that listen: `GET /api/x/log`.

use crate::call::Call;
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::seen::Seen;
use crate::{live, peek, tail};
use serde_json::{Value, json};

/// Levels, from the least on.
const LEVELS: [&str; 6] = ["debug", "info", "notice", "warning", "error", "critical"];

/// One event with the lines since the one before, or the last ones, and where the next one goes on.
pub(crate) fn event<N: Node>(call: &Call<'_, N>) -> Answer {
    let wanted = live::wanted(call, "events")?;
    let least = match call.request.asked("level") {
        None | Some("") => 0,
        Some(text) => LEVELS.iter().position(|level| *level == text).ok_or_else(|| {
            Response::bad_request(format!("level is none of {}: {text}", LEVELS.join(", ")))
        })?,
    };
    let has = call.request.asked("text").unwrap_or_default().to_lowercase();
    let seen = call.request.seen.as_deref();
    let last = match seen {
        Some(_) => u32::MAX,
        None => peek::asked(call, "last", 100, u32::MAX)?,
    };
    let (lines, next) = call.node.log_lines(seen.map(|seen| seen.place));
    let missed = seen.map_or(0, |seen| (next - seen.place.min(next)).saturating_sub(lines.len() as u64));
    let is_wanted = |(level, line): &&(&str, String)| {
        LEVELS.iter().position(|own| own == level).is_none_or(|own| own >= least)
            && (has.is_empty() || line.to_lowercase().contains(&has))
    };
    let lines: Vec<_> = lines.iter().filter(is_wanted).collect();
    let lines = &lines[lines.len().saturating_sub(last as usize)..];
    let lines: Vec<Value> =
        lines.iter().map(|(level, line)| json!({ "level": level, "line": line })).collect();
    let told = json!({ "lines": lines, "missed": missed });
    let events = seen.map_or(0, |seen| seen.events) + 1;
    let goes_on = wanted.is_none_or(|wanted| events < wanted) && call.request.method != Method::Head;
    let is_administrator = call.caller.is_administrator();
    Ok(Response {
        headers: tail::headers(),
        body: format!("event: lines\ndata: {told}\n\n").into_bytes(),
        next: goes_on.then(|| Box::new(Seen { place: next, events, is_administrator, ..Seen::default() })),
        ..Response::empty(200)
    })
}
