//! Messages as RabbitMQ's API does not move them: moved, sent back to where they died, deleted one by one.

use crate::body::Body;
use crate::call::Call;
use crate::exchanges::named;
use crate::messages::numbered;
use crate::moving::{Moving, Searched};
use crate::node::{Action, Goal, Node, Outcome, ReadFrom, Search, Trouble, Which};
use crate::response::{Answer, Response};
use crate::search;
use crate::trail;
use base::id::QueueSeq;
use broker::QueueRow;
use broker::access::Access;
use serde_json::{Value, json};

fn queue<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Result<QueueRow, Response> {
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    let row = call.node.queues(which, false)?.pop().ok_or_else(Response::not_found)?;
    // Where there is nothing to take nobody else asks.
    call.check_access(vhost, Access::Read, name)?;
    if row.definition.is_stream() {
        return Err(Response::bad_request("a stream keeps its messages: none of them is moved or deleted"));
    }
    Ok(row)
}

/// `POST /api/x/queues/VHOST/NAME/move`.
pub(crate) fn move_on<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    moved(call, vhost, name, |body| {
        let exchange = named(body.need_text("exchange")?).to_owned();
        let key = body.need_text("routing_key")?.to_owned();
        if exchange.is_empty() && key == name {
            return Err(Response::bad_request("the messages would go to where they are"));
        }
        Ok(Goal::Exchange { exchange, key })
    })
}

/// `POST /api/x/queues/VHOST/NAME/redrive`.
pub(crate) fn redrive<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    moved(call, vhost, name, |_| Ok(Goal::Origin))
}

/// Messages of a queue that a body chooses.
struct Chosen {
    positions: Vec<u64>,
    /// Those of which a condition is true.
    searched: Option<Searched>,
}

/// The messages that a body chooses, by `positions`, or by `where` from `position` on, at most `count`; none: by neither.
/// `held`: `where` is asked of those that consumers hold, too.
fn chosen<N: Node>(
    call: &Call<'_, N>,
    (vhost, queue): (&str, &str),
    body: &Body,
    held: bool,
) -> Result<Option<Chosen>, Response> {
    let limits = &call.node.about().limits;
    let most = limits.positions_max;
    let positions = body.positions("positions", most)?;
    let Some(text) = body.text("where")?.filter(|text| !text.trim().is_empty()) else {
        return Ok(positions.map(|positions| Chosen { positions, searched: None }));
    };
    if positions.is_some() {
        return Err(Response::bad_request("where and positions: either those, or these"));
    }
    let number = |name: &str, otherwise: u64| match body.integer(name)? {
        None => Ok(otherwise),
        Some(number) => {
            let bad = || Response::bad_request(format!("{name} is out of range: {number}"));
            u64::try_from(number).map_err(|_| bad())
        }
    };
    let search = Search {
        queue: queue.to_owned(),
        is_stream: false,
        held,
        from: ReadFrom::Offset(number("position", 0)?),
        end: if held {
            search::held_end(call, (vhost, queue))?
        } else {
            search::ready_end(call, (vhost, queue))?
        },
        condition: search::checked(call, vhost, text, false)?,
        now_ms: call.node.now_ms(),
        count: number("count", most as u64)?.min(most as u64).try_into().unwrap_or(u32::MAX),
        bytes_max: limits.get_bytes_max,
        ms_max: limits.search_ms_max,
    };
    let found = search::search_for(call, vhost, search)?;
    let positions = found.messages.iter().filter_map(|got| got.position).collect();
    let searched = Searched { scanned: found.looked_at, next: found.next };
    Ok(Some(Chosen { positions, searched: Some(searched) }))
}

/// A move that begins.
fn begun<N: Node>(
    call: &Call<'_, N>,
    (vhost, queue): (&str, &str),
    ready: u64,
    goal: impl FnOnce(&Body) -> Result<Goal, Response>,
) -> Result<Moving, Response> {
    let body = Body::read(&call.request.body)?;
    let goal = goal(&body)?;
    let number = |name: &str, otherwise: u32| match body.integer(name)? {
        None => Ok(otherwise),
        Some(number) => {
            let bad = || Response::bad_request(format!("{name} is out of range: {number}"));
            u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(bad)
        }
    };
    let (count, per_second) = (number("count", u32::MAX)?, number("rate", 0)?);
    no_held(&body)?;
    let chosen = chosen(call, (vhost, queue), &body, false)?;
    let searched = chosen.as_ref().and_then(|chosen| chosen.searched);
    if chosen.is_some() && searched.is_none() && body.get("count").is_some() {
        return Err(Response::bad_request("count and positions: either the first ones, or those"));
    }
    let positions = chosen.map(|chosen| chosen.positions);
    // Messages that arrive meanwhile stay, also where those that move come back.
    let among = u32::try_from(ready).unwrap_or(u32::MAX);
    let mut moving = Moving::begin(call.node.uptime_ms(), goal, (count, among), per_second, positions);
    searched.into_iter().for_each(|searched| moving.searched(searched));
    Ok(moving)
}

/// Does a slice of a move, which begins with the first one.
fn moved<N: Node>(
    call: &Call<'_, N>,
    vhost: &str,
    name: &str,
    goal: impl FnOnce(&Body) -> Result<Goal, Response>,
) -> Answer {
    let ready = queue(call, vhost, name)?.ready;
    let mut moving = match &call.request.moving {
        Some(under_way) => (**under_way).clone(),
        None => begun(call, (vhost, name), ready, goal)?,
    };
    let limits = &call.node.about().limits;
    let now_ms = || call.node.uptime_ms();
    let pace = moving.pace(now_ms(), !call.request.takes_turns, limits);
    let (goal, positions) = (moving.goal().clone(), moving.positions());
    match call.act(vhost, Action::Move { queue: name.to_owned(), goal, positions, pace }) {
        Ok(Outcome::Moved { moved, unplaced, missing, is_over, trouble }) => {
            moving.add(moved, unplaced, missing, is_over);
            if let Some(trouble) = trouble {
                return Err(moving.told(refused(trouble)));
            }
            let goes_on = call.request.takes_turns && moving.goes_on(now_ms(), limits);
            let shown = Response::ok(&moving.shown());
            Ok(Response { rest: goes_on.then(|| Box::new(moving)), ..shown })
        }
        Ok(_) => Ok(Response::ok(&moving.shown())),
        Err(trouble) => Err(moving.told(refused(trouble))),
    }
}

fn refused(trouble: Trouble) -> Response {
    match trouble {
        Trouble::Refused(refusal) => numbered(&refusal),
        trouble => trouble.into(),
    }
}

/// `POST /api/x/queues/VHOST/NAME/delete`.
pub(crate) fn discard<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    no_held(&body)?;
    let (told, searched) = ended(call, (vhost, name), &body, (false, false))?;
    let Ended { count, missing } = told;
    let mut told = json!({ "deleted": count, "missing": missing });
    searched.into_iter().for_each(|searched| searched.tell(&mut told));
    Ok(Response::ok(&told))
}

/// Messages that consumers hold can be settled and nothing else.
fn no_held(body: &Body) -> Result<(), Response> {
    match body.boolean("held", false)? {
        true => Err(Response::bad_request("held: messages that consumers hold can be settled alone")),
        false => Ok(()),
    }
}

/// `POST /api/x/queues/VHOST/NAME/settle`: accepted messages are gone; rejected ones die, as those of a consumer. With `held`
/// so are those that consumers hold.
pub(crate) fn settle<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    let rejects = match body.need_text("outcome")? {
        "accepted" => false,
        "rejected" => true,
        other => {
            let text = format!("outcome is neither accepted nor rejected: {other}");
            return Err(Response::bad_request(text));
        }
    };
    let ends = (rejects, body.boolean("held", false)?);
    let (Ended { count, missing }, searched) = ended(call, (vhost, name), &body, ends)?;
    let mut told = json!({ "settled": count, "missing": missing });
    searched.into_iter().for_each(|searched| searched.tell(&mut told));
    Ok(Response::ok(&told))
}

/// Messages that are gone, and positions where there was none.
#[derive(Default)]
struct Ended {
    count: u32,
    missing: Vec<u64>,
}

/// Has the messages gone that a body chooses.
fn ended<N: Node>(
    call: &Call<'_, N>,
    (vhost, name): (&str, &str),
    body: &Body,
    (rejects, held): (bool, bool),
) -> Result<(Ended, Option<Searched>), Response> {
    queue(call, vhost, name)?;
    let chosen = chosen(call, (vhost, name), body, held)?;
    let Chosen { positions, searched } = chosen.ok_or_else(|| Response::missing_key("positions"))?;
    if positions.is_empty() {
        return Ok((Ended::default(), searched));
    }
    let action = Action::Discard { queue: name.to_owned(), positions, rejects, held };
    match call.act(vhost, action) {
        Ok(Outcome::Discarded { deleted, missing }) => Ok((Ended { count: deleted, missing }, searched)),
        Ok(_) => Ok((Ended::default(), searched)),
        Err(trouble) => Err(refused(trouble)),
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
