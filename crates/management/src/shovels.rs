//! Shovels and links of federation, of which none runs here: lists have those that are kept, told as ended.

use crate::call::Call;
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::{kept, list, parameters, policies};
use serde_json::{Value, json};

/// The component whose parameters are shovels.
const SHOVEL: &str = "shovel";

/// `GET /api/shovels[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    vhost.map_or(Ok(()), |vhost| call.caller.vhost(vhost).map(drop))?;
    let node = &call.node.about().node;
    let row = |kept: Value| {
        json!({
            "node": node,
            "name": kept["name"],
            "vhost": kept["vhost"],
            "type": "dynamic",
            "state": "terminated",
            "reason": kept::remark(SHOVEL),
        })
    };
    let mut rows = parameters::find(call.node, policies::asked(call, vhost))?;
    rows.retain(|row| row["component"] == SHOVEL);
    let rows = rows.into_iter().map(row).collect();
    list::answer(rows, call.request, &call.node.about().limits, &["vhost", "name"])
}

/// `/api/shovels/vhost/VHOST/NAME`: the parameter that it is made of.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    match (call.request.method, parameters::one(call, SHOVEL, vhost, name)) {
        // As with RabbitMQ, a shovel that is not there is gone.
        (Method::Delete, Err(refused)) if refused.status == 404 => Ok(Response::empty(204)),
        (_, answer) => answer,
    }
}

/// `GET /api/federation-links[/VHOST]`, and those that are down.
pub(crate) fn links<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    vhost.map_or(Ok(()), |vhost| call.caller.vhost(vhost).map(drop))?;
    list::answer(Vec::new(), call.request, &call.node.about().limits, &["vhost"])
}
