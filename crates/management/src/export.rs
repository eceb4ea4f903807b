//! Definitions of everything, or of a virtual host, as an object that can be imported again, here or in RabbitMQ.

use crate::call::Call;
use crate::node::Node;
use crate::response::{Answer, Response};
use crate::{bindings, json, limits, parameters, permissions, policies, users, vhosts};
use broker::catalog::{
    ExchangeDefinition, PolicyKind, QueueDefinition, QueueType, VhostDefinition, VhostId, VhostLimits,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The part of a virtual host that the catalog is asked for at once.
type Taken = (Arc<VhostDefinition>, VhostLimits, Vec<Arc<ExchangeDefinition>>, Vec<Arc<QueueDefinition>>);

/// `GET /api/definitions[/VHOST]`.
pub(crate) fn export<N: Node>(call: &Call<'_, N>, only: Option<&str>) -> Answer {
    let ids: Vec<VhostId> = match only {
        Some(name) => vec![call.caller.vhost(name)?],
        None => call.caller.visible().map(|(_, id)| id).collect(),
    };
    let mut taken: Vec<Taken> = Vec::new();
    for id in ids {
        // One virtual host at a time: the shard that looks has other work.
        taken.extend(call.node.look(move |catalog| {
            let exchanges = catalog.exchanges(id).into_iter().cloned().collect();
            let vhost = catalog.vhost_definition(id)?.clone();
            Some((vhost, catalog.vhost_limits(id), exchanges, catalog.vhost_queues(id).cloned().collect()))
        })?);
    }
    let names: Vec<(String, VhostId)> =
        taken.iter().map(|(vhost, ..)| (vhost.name.to_string(), vhost.id)).collect();
    let mut exchanges: Vec<Value> =
        taken.iter().flat_map(|(vhost, _, all, _)| exchange_rows(vhost, all)).collect();
    let mut queues: Vec<Value> = taken.iter().flat_map(|(_, _, _, all)| queue_rows(all)).collect();
    base::brief::sort_by(&mut queues, |a, b| order(a).cmp(&order(b)));
    let made = bindings::find(call.node, names.clone())?;
    let mut bindings: Vec<Value> =
        made.iter().filter(|binding| binding.is_made()).map(bindings::Named::definition).collect();
    base::brief::sort_by_key(&mut bindings, Value::to_string);
    let mut policies = policies::find(call.node, PolicyKind::User, names.clone())?;
    let mut parameters = parameters::find(call.node, names)?;
    let about = call.node.about();
    let mut body = json!({
        "rabbit_version": about.version,
        "rabbitmq_version": about.version,
        "product_name": "RabbitMQ",
        "product_version": about.version,
    });
    match only {
        None => {
            body["rabbitmq_definition_format"] = "cluster".into();
            body["original_cluster_name"] = about.cluster.as_str().into();
            body["explanation"] = format!("Definitions of cluster '{}'", about.cluster).into();
            body["users"] = users::find(call.node)?.iter().map(users::shown).collect();
            body["vhosts"] = taken
                .iter()
                .map(|(vhost, own, ..)| {
                    json!({
                        "name": *vhost.name,
                        "limits": limits::of_vhost(own),
                        "metadata": vhosts::metadata(vhost),
                    })
                })
                .collect();
            body["permissions"] = permissions::find(call.node)?.into();
            body["topic_permissions"] = permissions::find_topics(call.node)?.into();
            body["global_parameters"] = parameters::of_node(call.node)?
                .iter()
                .map(|(name, value)| json!({ "name": name, "value": value }))
                .collect();
        }
        Some(name) => {
            let (vhost, own, ..) = taken.first().ok_or_else(Response::not_found)?;
            body["rabbitmq_definition_format"] = "single_virtual_host".into();
            body["original_vhost_name"] = name.into();
            body["explanation"] = format!("Definitions of virtual host '{name}'").into();
            body["description"] = Value::from(&*vhost.about().description);
            body["metadata"] = vhosts::metadata(vhost);
            body["limits"] = limits::of_vhost(own);
            for rows in [&mut exchanges, &mut queues, &mut bindings, &mut policies, &mut parameters] {
                rows.iter_mut().filter_map(Value::as_object_mut).for_each(|row| drop(row.remove("vhost")));
            }
        }
    }
    body["exchanges"] = exchanges.into();
    body["queues"] = queues.into();
    body["bindings"] = bindings.into();
    body["policies"] = policies.into();
    body["parameters"] = parameters.into();
    let mut response = Response::ok(&body);
    let digest: String =
        Sha256::digest(&response.body).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    response = response.with("etag", format!("\"{digest}\""));
    match call.request.asked("download") {
        Some(name) => {
            let name: String =
                name.chars().filter(|c| c.is_ascii_graphic() && !"\"\\".contains(*c)).collect();
            Ok(response.with("content-disposition", format!("attachment; filename={name}")))
        }
        None => Ok(response),
    }
}

fn order(row: &Value) -> (Option<&str>, Option<&str>) {
    (row["vhost"].as_str(), row["name"].as_str())
}

/// The exchanges that somebody made.
fn exchange_rows(vhost: &VhostDefinition, all: &[Arc<ExchangeDefinition>]) -> Vec<Value> {
    let made = all.iter().filter(|exchange| !exchange.name.is_empty() && !exchange.name.starts_with("amq."));
    let row = |exchange: &Arc<ExchangeDefinition>| {
        let mut row = json!({
            "name": *exchange.name,
            "vhost": *vhost.name,
            "type": exchange.kind.name(),
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "arguments": json::object(&exchange.arguments),
        });
        if exchange.internal {
            row["internal"] = true.into();
        }
        row
    };
    made.map(row).collect()
}

/// The queues that outlive their connection.
fn queue_rows(all: &[Arc<QueueDefinition>]) -> Vec<Value> {
    let row = |queue: &Arc<QueueDefinition>| {
        let mut arguments = json::object(&queue.arguments);
        // RabbitMQ passes over the type beside. A queue that was declared without one comes out without one, but where
        // a virtual host with another default would make another type.
        if queue.queue_type != QueueType::Classic && arguments.get("x-queue-type").is_none() {
            arguments["x-queue-type"] = queue.queue_type.name().into();
        }
        json!({
            "name": *queue.name,
            "vhost": *queue.vhost_name,
            "type": queue.queue_type.name(),
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": arguments,
        })
    };
    all.iter().filter(|queue| queue.exclusive.is_none()).map(row).collect()
}
