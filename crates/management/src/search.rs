//! Messages of a queue or a stream of which a condition is true, looked for a while at a time: `where` in the query of
//! `GET /api/x/queues/VHOST/NAME/messages`.
//!
//! An answer says how far it came, and whoever wants more asks again from there. So a search is stopped by asking no more,
//! and holds no thread for longer than [`crate::Limits::search_ms_max`], however much there is to look at.

use crate::call::Call;
use crate::macros;
use crate::node::{Action, Found, Node, Outcome, ReadFrom, Search, Trouble, Which};
use crate::peek::{self, Shown};
use crate::response::{Answer, Response};
use broker::access::Access;
use broker::{Begin, Condition, QueueRow, StreamRow};
use filter::Asker;
use serde_json::{Value, json};

/// `GET /api/x/queues/VHOST/NAME/messages`: a page of messages, or those of which a condition is true.
pub(crate) fn messages<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let Some(condition) = asked(call) else { return peek::peek(call, vhost, name) };
    let shown = Shown::asked(call)?;
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    let row = call.node.queues(which, false)?.pop().ok_or_else(Response::not_found)?;
    // Where there is nothing to take nobody else asks.
    call.check_access(vhost, Access::Read, name)?;
    let condition = checked(call, vhost, condition, row.stream.is_some())?;
    found(call, (vhost, name), &row, condition, &shown)
}

/// The condition that messages are to be asked of, if one is asked for.
pub(crate) fn asked<'c, N: Node>(call: &'c Call<'_, N>) -> Option<&'c str> {
    call.request.asked("where").filter(|text| !text.trim().is_empty())
}

/// A condition on the messages of a stream, or of a queue, for everybody: the caller is a constant in it.
///
/// # Errors
/// The response to an expression with a fault, which says where that is.
pub(crate) fn checked<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    text: &str,
    is_stream: bool,
) -> Result<String, Response> {
    let asker = Asker { user: &call.caller.login.user, vhost, ..Asker::default() };
    let macros = macros::known(call, call.caller.vhost(vhost)?, text)?;
    match Condition::parse(text, Condition::known(is_stream), &macros, Some(&asker)) {
        Ok(condition) => Ok(condition.bound(&asker)),
        Err(fault) => Err(Response::bad_request(format!("where: {fault}"))),
    }
}

/// The messages of which `condition` is true, and how far they were looked for.
///
/// # Errors
/// The response to a user that may not, or to a search that cannot be made.
fn found<N: Node>(
    call: &Call<'_, N>,
    (vhost, name): (&str, &str),
    row: &QueueRow,
    condition: String,
    shown: &Shown,
) -> Answer {
    let (from, end) = match &row.stream {
        Some(stream) => in_stream(call, stream)?,
        None => in_queue(call, (vhost, name))?,
    };
    let (is_stream, limits) = (row.stream.is_some(), &call.node.about().limits);
    let search = Search {
        queue: name.to_owned(),
        is_stream,
        held: false,
        from,
        end,
        condition,
        now_ms: call.node.now_ms(),
        count: peek::count(call, "count")?,
        bytes_max: limits.get_bytes_max,
        ms_max: limits.search_ms_max,
    };
    let found = search_for(call, vhost, search)?;
    let place = if is_stream { "offset" } else { "position" };
    let rows = found.messages.iter().map(|got| shown.row(got, [(place, got.position), ("", None)]));
    let mut told = json!({ "messages": rows.collect::<Vec<Value>>(), "scanned": found.looked_at });
    match &row.stream {
        Some(stream) => {
            told["first_offset"] = stream.first_offset.into();
            told["end_offset"] = end.into();
            told["next"] = found.next.into();
        }
        None => {
            told["messages_ready"] = row.ready.into();
            told["end_position"] = end.into();
            told["next_position"] = found.next.into();
        }
    }
    Ok(Response::ok(&told))
}

/// Where a search in a queue begins, and where it ends: behind what is ready now. The last ones are those at so many
/// positions, of which some may be empty: to count them would take as long as they are many.
fn in_queue<N: Node>(call: &Call<'_, N>, (vhost, name): (&str, &str)) -> Result<(ReadFrom, u64), Response> {
    let begin = peek::begin(call, &["position", "last"])?;
    let end = ready_end(call, (vhost, name))?;
    let from = match begin {
        Some("last") => end.saturating_sub(peek::asked(call, "last", 0, u32::MAX)?.into()),
        _ => peek::position(call)?,
    };
    Ok((ReadFrom::Offset(from), end))
}

/// The position behind the last message that is ready; 0: none is.
pub(crate) fn ready_end<N: Node>(call: &Call<'_, N>, (vhost, name): (&str, &str)) -> Result<u64, Response> {
    let last = call.node.ready_from(call.caller.vhost(vhost)?, name, Begin::Last(1), 1)?;
    match last.ok_or_else(Response::not_found)? {
        (_, 0) => Ok(0),
        (last, _) => Ok(last + 1),
    }
}

/// The position behind the last message that is ready or that a consumer holds; 0: none is.
pub(crate) fn held_end<N: Node>(call: &Call<'_, N>, (vhost, name): (&str, &str)) -> Result<u64, Response> {
    let held = call.node.held_end(call.caller.vhost(vhost)?, name)?.ok_or_else(Response::not_found)?;
    Ok(ready_end(call, (vhost, name))?.max(held))
}

/// The same of a stream, whose first messages may be gone.
fn in_stream<N: Node>(call: &Call<'_, N>, stream: &StreamRow) -> Result<(ReadFrom, u64), Response> {
    let (first, end) = (stream.first_offset, stream.next_offset);
    let from = match peek::begin(call, &["from", "last"])? {
        Some("last") => ReadFrom::Offset(end.saturating_sub(peek::asked(call, "last", 0, u32::MAX)?.into())),
        _ => match call.request.asked("from").unwrap_or("first") {
            "first" => ReadFrom::Offset(first),
            "next" => ReadFrom::Offset(end),
            text => peek::place(text)?,
        },
    };
    let from = if let ReadFrom::Offset(offset) = from { ReadFrom::Offset(offset.max(first)) } else { from };
    Ok((from, end))
}

/// Has the node look.
///
/// # Errors
/// The response to a refusal of the broker's.
pub(crate) fn search_for<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    search: Search,
) -> Result<Found, Response> {
    let is_over = match search.from {
        ReadFrom::Offset(from) => from >= search.end,
        // Nothing is of any time.
        _ => search.end == 0,
    };
    if is_over || search.count == 0 {
        return Ok(Found::default());
    }
    match call.act(vhost, Action::Search(search)) {
        Ok(Outcome::Found(found)) => Ok(found),
        Ok(_) => Ok(Found::default()),
        Err(Trouble::Refused(refusal)) => Err(crate::messages::numbered(&refusal)),
        Err(trouble) => Err(trouble.into()),
    }
}
