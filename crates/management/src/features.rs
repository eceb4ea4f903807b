//! Feature flags and deprecated features, as RabbitMQ 4.3 names them.

use crate::list;
use crate::node::{Node, Which};
use crate::response::{Answer, Response};
use crate::routes::Call;
use serde_json::{Value, json};

/// Flags that clients look for. Whatever one stands for is always so here.
const FLAGS: [&str; 13] = [
    "classic_queue_type_delivery_support",
    "detailed_queues_endpoint",
    "direct_exchange_routing_v2",
    "message_containers",
    "quorum_queue",
    "rabbitmq_4.0.0",
    "rabbitmq_4.1.0",
    "rabbitmq_4.2.0",
    "rabbitmq_4.3.0",
    "stream_filtering",
    "stream_queue",
    "stream_single_active_consumer",
    "user_limits",
];

/// `GET /api/feature-flags`.
pub(crate) fn flags<N: Node>(call: &Call<'_, N>) -> Answer {
    let flag = |name: &&str| {
        json!({
            "name": name,
            "desc": "",
            "doc_url": "",
            "state": "enabled",
            "stability": "required",
            "require_level": "hard",
            "experiment_level": "supported",
            "callbacks": [],
            "provided_by": "rabbit",
        })
    };
    list::answer(FLAGS.iter().map(flag).collect(), call.request, &call.node.about().limits, &["name"])
}

fn feature(name: &str, is_permitted: bool, phase: &str) -> Value {
    json!({
        "name": name,
        "desc": "",
        "doc_url": "",
        "state": if is_permitted { "permitted" } else { "denied" },
        "deprecation_phase": phase,
        "provided_by": "rabbit",
    })
}

/// `GET /api/deprecated-features`.
pub(crate) fn deprecated<N: Node>(call: &Call<'_, N>) -> Answer {
    let about = call.node.about();
    let rows = [
        feature("amqp_address_v1", about.permits_address_v1, "denied_by_default"),
        feature("global_qos", about.permits_global_qos, "denied_by_default"),
        feature("management_metrics_collection", true, "permitted_by_default"),
        feature("transient_nonexcl_queues", about.permits_transient_queues, "permitted_by_default"),
    ];
    list::answer(rows.into(), call.request, &about.limits, &["name"])
}

/// `GET /api/deprecated-features/used`.
pub(crate) fn used<N: Node>(call: &Call<'_, N>) -> Answer {
    let rows = call.node.queues(Which::All)?;
    let is_transient = rows.iter().any(|row| !row.definition.durable && row.definition.exclusive.is_none());
    let used = is_transient.then(|| {
        feature(
            "transient_nonexcl_queues",
            call.node.about().permits_transient_queues,
            "permitted_by_default",
        )
    });
    Ok(Response::ok(&used.into_iter().collect()))
}
