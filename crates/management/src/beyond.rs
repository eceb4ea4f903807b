//! Messages as RabbitMQ's API does not move them: moved, sent back to where they died, deleted one by one.

use crate::body::Body;
use crate::call::Call;
use crate::exchanges::named;
use crate::messages::numbered;
use crate::moving::Moving;
use crate::node::{Action, Goal, Node, Outcome, Trouble, Which};
use crate::response::{Answer, Response};
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

/// A move that begins.
fn begun<N: Node>(
    call: &Call<'_, N>,
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
    let positions = body.positions("positions", call.node.about().limits.positions_max)?;
    if positions.is_some() && body.get("count").is_some() {
        return Err(Response::bad_request("count and positions: either the first ones, or those"));
    }
    let (count, per_second) = (number("count", u32::MAX)?, number("rate", 0)?);
    // Messages that arrive meanwhile stay, also where those that move come back.
    let among = u32::try_from(ready).unwrap_or(u32::MAX);
    Ok(Moving::begin(call.node.uptime_ms(), goal, (count, among), per_second, positions))
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
        None => begun(call, ready, goal)?,
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
    let positions = body.positions("positions", call.node.about().limits.positions_max)?;
    let positions = positions.ok_or_else(|| Response::missing_key("positions"))?;
    queue(call, vhost, name)?;
    let action = Action::Discard { queue: name.to_owned(), positions };
    match call.act(vhost, action) {
        Ok(Outcome::Discarded { deleted, missing }) => {
            Ok(Response::ok(&json!({ "deleted": deleted, "missing": missing })))
        }
        Ok(_) => Ok(Response::ok(&json!({ "deleted": 0, "missing": [] }))),
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
