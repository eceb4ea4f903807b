//! Members of quorum queues. A node that stands alone is the one member of all of its queues, and leads them.

use crate::body::Body;
use crate::call::Call;
use crate::node::{Node, Which};
use crate::response::{Answer, Response};
use broker::QueueRow;
use broker::catalog::QueueType;
use serde_json::json;

/// The one node there is, as a queue's member.
const NO_MEMBER: &str = "Node is not a cluster member";

fn queue<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Result<QueueRow, Response> {
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    let row = call.node.queues(which, false)?.pop().ok_or_else(Response::not_found)?;
    match row.definition.queue_type {
        QueueType::Quorum => Ok(row),
        QueueType::Classic => Err(Response::bad_request("classic_queue_not_supported")),
        _ => Err(Response::bad_request("not_quorum_queue")),
    }
}

/// `GET /api/queues/quorum/VHOST/NAME/status`. Positions of messages stand for indices of a log.
pub(crate) fn status<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let QueueRow { head, end, .. } = queue(call, vhost, name)?;
    Ok(Response::ok(&json!([{
        "Node Name": call.node.about().node,
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": end,
        "Last Written": end,
        "Last Applied": end,
        "Commit Index": end,
        "Snapshot Index": i128::from(head) - 1,
        "Term": 1,
        "Machine Version": 0,
    }])))
}

/// Whether the body names this node.
fn check_member<N: Node>(call: &Call<'_, N>) -> Result<(), Response> {
    match Body::read(&call.request.body)?.need_text("node")? {
        node if node == call.node.about().node => Ok(()),
        _ => Err(Response::bad_request(NO_MEMBER)),
    }
}

/// `POST /api/queues/quorum/VHOST/NAME/replicas/add`: this node is a member already, and there is no other.
pub(crate) fn add<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    check_member(call)?;
    queue(call, vhost, name)?;
    Ok(Response::empty(204))
}

/// `DELETE /api/queues/quorum/VHOST/NAME/replicas/delete`: the last member stays.
pub(crate) fn delete<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    check_member(call)?;
    queue(call, vhost, name)?;
    Err(Response::bad_request("last_node"))
}

/// `POST /api/queues/quorum/replicas/on/NODE/grow`: this node is a member of all already.
pub(crate) fn grow<N: Node>(call: &Call<'_, N>, node: &str) -> Answer {
    let body = Body::read(&call.request.body)?;
    for name in ["vhost_pattern", "queue_pattern", "strategy"] {
        body.need_text(name)?;
    }
    match node == call.node.about().node {
        true => Ok(Response::empty(204)),
        false => Err(Response::not_found()),
    }
}

/// `DELETE /api/queues/quorum/replicas/on/NODE/shrink`: the last member of a queue stays, as with RabbitMQ.
pub(crate) fn shrink<N: Node>(call: &Call<'_, N>, node: &str) -> Answer {
    match node == call.node.about().node {
        true => Ok(Response::empty(202)),
        false => Err(Response::not_found()),
    }
}
