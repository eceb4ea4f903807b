//! Messages as RabbitMQ's API does not show or move them: looked at without being taken, moved, sent back to where they died,
//! deleted one by one.

use crate::body::Body;
use crate::call::Call;
use crate::exchanges::named;
use crate::messages::{message, numbered};
use crate::node::{Action, Goal, Node, Outcome, Pace, Trouble, Which};
use crate::response::{Answer, Response};
use crate::trail;
use base::id::QueueSeq;
use broker::QueueRow;
use broker::access::Access;
use serde_json::{Value, json};

/// Messages that are shown where nothing else is asked for.
const PAGE: u32 = 10;

fn queue<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Result<QueueRow, Response> {
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    let row = call.node.queues(which, false)?.pop().ok_or_else(Response::not_found)?;
    // Where there is nothing to take nobody else asks.
    call.check_access(vhost, Access::Read, name)?;
    if row.definition.is_stream() {
        return Err(Response::bad_request(
            "a stream keeps its messages: read it with a client, at any offset and as often as you like",
        ));
    }
    Ok(row)
}

/// A number of the query, within bounds.
fn asked<N: Node>(call: &Call<'_, N>, name: &str, otherwise: u32, most: u32) -> Result<u32, Response> {
    let Some(text) = call.request.asked(name) else { return Ok(otherwise) };
    let number = text.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| Response::bad_request(format!("{name} is no number of 0 to {most}: {text}")))
}

/// `GET /api/x/queues/VHOST/NAME/messages`.
pub(crate) fn peek<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let limits = &call.node.about().limits;
    let skip = asked(call, "offset", 0, limits.peek_skip_max)?;
    let count = asked(call, "count", PAGE, limits.page_items_max as u32)?;
    let most = match call.request.asked("truncate") {
        None => usize::MAX,
        Some(_) => asked(call, "truncate", 0, u32::MAX)? as usize,
    };
    let is_base64 = match call.request.asked("encoding") {
        None | Some("auto") => false,
        Some("base64") => true,
        Some(_) => {
            return Err(Response::bad_request("Unsupported encoding. Please use auto or base64."));
        }
    };
    let ready = queue(call, vhost, name)?.ready;
    // No more than there are, so that no request waits for messages that do not come.
    let there = u32::try_from(ready.saturating_sub(skip.into())).unwrap_or(u32::MAX);
    let count = count.min(there);
    let (bytes_max, ms_max) = (limits.get_bytes_max, limits.peek_ms_max);
    let action = Action::Peek { queue: name.to_owned(), skip, count, bytes_max, ms_max };
    let outcome = match count {
        0 => Ok(Outcome::Got(Vec::new())),
        _ => call.act(vhost, action),
    };
    let got = match outcome {
        Ok(Outcome::Got(got)) => got,
        Ok(_) => Vec::new(),
        Err(Trouble::Refused(refusal)) => return Err(numbered(&refusal)),
        Err(trouble) => return Err(trouble.into()),
    };
    let next = u64::from(skip) + got.len() as u64;
    let rows = got.iter().zip(u64::from(skip)..).map(|(got, offset)| {
        let mut row = message(got, is_base64, most);
        if let Some(row) = row.as_object_mut() {
            row.remove("message_count");
            row.insert("offset".to_owned(), offset.into());
            row.insert("position".to_owned(), got.position.into());
        }
        row
    });
    Ok(Response::ok(&json!({
        "messages": rows.collect::<Vec<_>>(),
        "messages_ready": ready,
        "next_offset": (next < ready && !got.is_empty()).then_some(next),
    })))
}

/// `POST /api/x/queues/VHOST/NAME/move`.
pub(crate) fn move_on<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let exchange = named(body.need_text("exchange")?).to_owned();
    let key = body.need_text("routing_key")?.to_owned();
    if exchange.is_empty() && key == name {
        return Err(Response::bad_request("the messages would go to where they are"));
    }
    moved(call, vhost, name, &body, Goal::Exchange { exchange, key })
}

/// `POST /api/x/queues/VHOST/NAME/redrive`.
pub(crate) fn redrive<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    moved(call, vhost, name, &body, Goal::Origin)
}

fn moved<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str, body: &Body, goal: Goal) -> Answer {
    let number = |name: &str, otherwise: u32| match body.integer(name)? {
        None => Ok(otherwise),
        Some(number) => {
            let bad = || Response::bad_request(format!("{name} is out of range: {number}"));
            u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(bad)
        }
    };
    // Messages that arrive meanwhile stay, also where those that move come back.
    let among = u32::try_from(queue(call, vhost, name)?.ready).unwrap_or(u32::MAX);
    let limits = &call.node.about().limits;
    let positions = body.positions("positions", limits.positions_max)?;
    if positions.is_some() && body.get("count").is_some() {
        return Err(Response::bad_request("count and positions: either the first ones, or those"));
    }
    let has_positions = positions.is_some();
    let pace = Pace {
        count: number("count", u32::MAX)?,
        among,
        unplaced_max: limits.move_unplaced_max,
        per_second: number("rate", 0)?,
        ms_max: limits.move_ms_max,
    };
    let action = Action::Move { queue: name.to_owned(), goal, positions, pace };
    match call.act(vhost, action) {
        Ok(Outcome::Moved { moved, unplaced, missing, is_over }) => {
            let mut answer = json!({ "moved": moved, "unplaced": unplaced, "is_over": is_over });
            if has_positions {
                answer["missing"] = missing.into();
            }
            Ok(Response::ok(&answer))
        }
        Ok(_) => Ok(Response::ok(&json!({ "moved": 0, "unplaced": 0, "is_over": true }))),
        Err(Trouble::Refused(refusal)) => Err(numbered(&refusal)),
        Err(trouble) => Err(trouble.into()),
    }
}

/// `POST /api/x/queues/VHOST/NAME/delete`.
pub(crate) fn discard<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let positions = body.positions("positions", call.node.about().limits.positions_max)?;
    let positions = positions.ok_or_else(|| Response::missing_key("positions"))?;
    queue(call, vhost, name)?;
    let action = Action::Discard { queue: name.to_owned(), positions };
    match call.act(vhost, action) {
        Ok(Outcome::Discarded { deleted, missing }) => {
            Ok(Response::ok(&json!({ "deleted": deleted, "missing": missing })))
        }
        Ok(_) => Ok(Response::ok(&json!({ "deleted": 0, "missing": [] }))),
        Err(Trouble::Refused(refusal)) => Err(numbered(&refusal)),
        Err(trouble) => Err(trouble.into()),
    }
}

/// `GET /api/x/queues/VHOST/NAME/delayed`: those that are due first come first.
pub(crate) fn delayed<N: Node>(call: &Call<'_, N>, vhost: &str, queue: &str) -> Answer {
    let invalid = |_| Response::bad_request("count is not a number");
    let most = call.node.about().limits.get_messages_max;
    let asked = call.request.asked("count").map(str::parse::<u32>).transpose().map_err(invalid)?;
    // The command line may ask for more at once: nobody else is served by it.
    let count = match (asked, call.caller.login.is_own) {
        (Some(count), true) => count,
        (asked, _) => asked.unwrap_or(most).min(most),
    };
    let found = call.node.delayed(vhost, queue, count as usize)?.ok_or_else(Response::not_found)?;
    let row = |(due_at, id): &(u64, QueueSeq)| json!({ "id": id.0, "due_at": due_at });
    Ok(Response::ok(&found.iter().map(row).collect::<Value>()))
}

/// `POST /api/x/queues/VHOST/NAME/delayed/cancel`.
pub(crate) fn cancel_delayed<N: Node>(call: &Call<'_, N>, vhost: &str, queue: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let ids = body.positions("ids", call.node.about().limits.positions_max)?;
    let ids = ids.ok_or_else(|| Response::missing_key("ids"))?;
    // A user that may read messages may take them.
    call.check_access(vhost, Access::Read, queue)?;
    let cancelled = call.node.cancel_delayed(vhost, queue, ids)?.ok_or_else(Response::not_found)?;
    let [of, at] = [queue, vhost].map(trail::quoted);
    call.tell(&format!("Deleted {cancelled} delayed messages of queue {of} in virtual host {at}"));
    Ok(Response::ok(&json!({ "cancelled": cancelled })))
}
