//! Messages as they come to a queue or a stream, told each second to clients that listen:
//! `GET /api/x/queues/VHOST/NAME/tail`.
//!
//! Each event is a look of its own from where the one before ended ([`Seen::place`]), as in [`crate::live`]: nothing is
//! kept for a listener, and nothing is held for one that is slow. Messages that came and are not shown, since there were
//! too many or a consumer had taken them, are counted.

use crate::call::Call;
use crate::node::{Action, Got, Node, ReadFrom, Search, Which};
use crate::peek::{self, Shown};
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::search;
use crate::seen::Seen;
use broker::access::Access;
use broker::{Begin, QueueRow};
use serde_json::{Value, json};

/// The headers of an answer in events.
pub(crate) fn headers() -> Vec<(&'static str, String)> {
    vec![
        ("content-type", "text/event-stream".to_owned()),
        ("cache-control", "no-cache".to_owned()),
        // Proxies that gather responses before they pass them on would hold events back.
        ("x-accel-buffering", "no".to_owned()),
    ]
}

/// The events of a look: these, and how many were looked at.
struct Look {
    messages: Vec<Got>,
    looked_at: u64,
}

/// One event, and where the next one goes on.
pub(crate) fn event<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let (shown, wanted, count) =
        (Shown::asked(call)?, crate::live::wanted(call, "events")?, peek::count(call, "count")?);
    let condition = search::asked(call);
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    let row = call.node.queues(which, false)?.pop().ok_or_else(Response::not_found)?;
    call.check_access(vhost, Access::Read, name)?;
    let is_stream = row.stream.is_some();
    let condition = condition.map(|text| search::checked(call, vhost, text, is_stream)).transpose()?;
    let end = row.stream.as_ref().map_or(row.end, |stream| stream.next_offset);
    let seen = call.request.seen.as_deref();
    let at = match seen {
        Some(seen) => seen.place,
        None => begin(call, &row, end)?,
    };
    // A queue that was deleted and declared anew begins anew.
    let at = at.min(end);
    let look = match condition {
        _ if at == end || count == 0 => Look { messages: Vec::new(), looked_at: 0 },
        Some(condition) => matching(call, (vhost, name), &row, (at, end), (condition, count))?,
        None => newest(call, (vhost, name), &row, (at, end), count)?,
    };
    let place = if row.stream.is_some() { "offset" } else { "position" };
    let rows = look.messages.iter().map(|got| shown.row(got, [(place, got.position), ("", None)]));
    let told = json!({
        "timestamp": call.node.now_ms(),
        "messages": rows.collect::<Vec<Value>>(),
        "came": end - at,
        "unseen": (end - at).saturating_sub(look.looked_at),
        "next": end,
    });
    let events = seen.map_or(0, |seen| seen.events) + 1;
    let goes_on = wanted.is_none_or(|wanted| events < wanted) && call.request.method != Method::Head;
    let is_administrator = call.caller.is_administrator();
    Ok(Response {
        headers: headers(),
        body: format!("event: messages\ndata: {told}\n\n").into_bytes(),
        next: goes_on.then(|| Box::new(Seen { place: end, events, is_administrator, ..Seen::default() })),
        ..Response::empty(200)
    })
}

/// Where the first event begins: where it is said, or with what is to come.
fn begin<N: Node>(call: &Call<'_, N>, row: &QueueRow, end: u64) -> Result<u64, Response> {
    let keys: &[&str] = if row.stream.is_some() { &["from"] } else { &["position"] };
    let Some(key) = peek::begin(call, keys)? else { return Ok(end) };
    let text = call.request.asked(key).unwrap_or_default();
    let number =
        text.parse::<u64>().map_err(|_| Response::bad_request(format!("{key} is no number: {text}")));
    Ok(number?.max(row.stream.as_ref().map_or(row.head, |stream| stream.first_offset)))
}

/// The last ones of those that came.
fn newest<N: Node>(
    call: &Call<'_, N>,
    (vhost, name): (&str, &str),
    row: &QueueRow,
    (at, end): (u64, u64),
    count: u32,
) -> Result<Look, Response> {
    let limits = &call.node.about().limits;
    let (bytes_max, ms_max) = (limits.tail_bytes_max, limits.peek_ms_max);
    let action = if row.stream.is_some() {
        let from = at.max(end.saturating_sub(count.into()));
        let (stream, from) = (name.to_owned(), ReadFrom::Offset(from));
        Action::Read { stream, from, count, end, bytes_max, ms_max }
    } else {
        let id = call.caller.vhost(vhost)?;
        let last = call.node.ready_from(id, name, Begin::Last(count.into()), 0)?;
        let from = at.max(last.ok_or_else(Response::not_found)?.0);
        let begin = Begin::At(base::id::QueueSeq(from));
        // No more are waited for than there are.
        let there = call.node.ready_from(id, name, begin, count.into())?.map_or(0, |(_, there)| there);
        if there == 0 {
            return Ok(Look { messages: Vec::new(), looked_at: 0 });
        }
        let count = count.min(u32::try_from(there).unwrap_or(u32::MAX));
        Action::Peek { queue: name.to_owned(), from, skip: 0, count, bytes_max, ms_max }
    };
    let mut messages = peek::got(call.act(vhost, action))?;
    // Others came meanwhile: they are in the next event.
    messages.retain(|got| got.position.is_none_or(|position| position < end));
    let looked_at = messages.len() as u64;
    Ok(Look { messages, looked_at })
}

/// Those of them of which a condition is true, as far as there is time.
fn matching<N: Node>(
    call: &Call<'_, N>,
    (vhost, name): (&str, &str),
    row: &QueueRow,
    (at, end): (u64, u64),
    (condition, count): (String, u32),
) -> Result<Look, Response> {
    let limits = &call.node.about().limits;
    let end = match &row.stream {
        Some(_) => end,
        // Of a queue what is ready can be waited for, and nothing else.
        None => end.min(search::ready_end(call, (vhost, name))?),
    };
    let search = Search {
        queue: name.to_owned(),
        is_stream: row.stream.is_some(),
        held: false,
        from: ReadFrom::Offset(at),
        end,
        condition,
        now_ms: call.node.now_ms(),
        count,
        bytes_max: limits.tail_bytes_max,
        ms_max: limits.search_ms_max,
    };
    let found = search::search_for(call, vhost, search)?;
    Ok(Look { messages: found.messages, looked_at: found.looked_at })
}
