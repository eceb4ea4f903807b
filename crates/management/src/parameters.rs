//! Runtime parameters: the things that RabbitMQ keeps as such and that are here, limits and the operator's policies.

use crate::node::Node;
use crate::response::{Answer, Response};
use crate::routes::Call;
use crate::{limits, policies};
use broker::catalog::{PolicyKind, VhostId, VhostLimits};
use serde_json::{Value, json};

/// The parameters of virtual hosts.
pub(crate) fn find<N: Node>(node: &N, vhosts: Vec<(String, VhostId)>) -> Result<Vec<Value>, Response> {
    let asked = vhosts.clone();
    let found: Vec<(String, VhostLimits)> = node.look(move |catalog| {
        asked.into_iter().map(|(name, id)| (name, catalog.vhost_limits(id))).collect()
    })?;
    let limited = found.iter().filter(|(_, limits)| *limits != VhostLimits::default());
    let limited = limited.map(|(vhost, own)| {
        json!({ "value": limits::of_vhost(own), "vhost": vhost, "component": "vhost-limits", "name": "limits" })
    });
    let mut rows: Vec<Value> = limited.collect();
    for mut policy in policies::find(node, PolicyKind::Operator, vhosts)? {
        let (vhost, name) = (policy["vhost"].take(), policy["name"].take());
        if let Some(fields) = policy.as_object_mut() {
            fields.remove("vhost");
            fields.remove("name");
        }
        rows.push(json!({ "value": policy, "vhost": vhost, "component": "operator_policy", "name": name }));
    }
    Ok(rows)
}

/// `GET /api/parameters[/COMPONENT[/VHOST]]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, component: Option<&str>, vhost: Option<&str>) -> Answer {
    let mut rows = find(call.node, policies::asked(call, vhost))?;
    rows.retain(|row| component.is_none_or(|component| row["component"] == component));
    crate::list::answer(rows, call.request, &call.node.about().limits, &["vhost", "component", "name"])
}

/// Parameters of the whole node.
pub(crate) fn of_node() -> Value {
    json!([{ "name": "cluster_tags", "value": [] }])
}

/// `GET /api/global-parameters`.
pub(crate) fn global<N: Node>(_call: &Call<'_, N>) -> Answer {
    Ok(Response::ok(&of_node()))
}
