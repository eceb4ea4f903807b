//! Feature flags and deprecated features, as RabbitMQ 4.3 names them.

use crate::list;
use crate::node::{Node, Which};
use crate::response::{Answer, Response};
use crate::routes::Call;
use serde_json::{Value, json};

/// Flags by their names in RabbitMQ, those of plugins that are not here left out. Whatever one stands for is always so here.
const FLAGS: [&str; 33] = [
    "classic_mirrored_queue_version",
    "classic_queue_type_delivery_support",
    "detailed_queues_endpoint",
    "direct_exchange_routing_v2",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "feature_flags_v2",
    "implicit_default_bindings",
    "khepri_db",
    "listener_records_in_ets",
    "maintenance_mode_status",
    "message_containers",
    "message_containers_deaths_v2",
    "quorum_queue",
    "quorum_queue_non_voters",
    "rabbit_exchange_type_local_random",
    "rabbitmq_4.0.0",
    "rabbitmq_4.1.0",
    "rabbitmq_4.2.0",
    "rabbitmq_4.3.0",
    "restart_streams",
    "stream_filtering",
    "stream_queue",
    "stream_sac_coordinator_unblock_group",
    "stream_single_active_consumer",
    "stream_update_config_command",
    "tie_binding_to_dest_with_keep_while_cond",
    "topic_binding_projection_v4",
    "topic_binding_projection_v5",
    "track_qq_members_uids",
    "tracking_records_in_ets",
    "user_limits",
    "virtual_host_metadata",
];

/// Those that RabbitMQ does not require yet.
const STABLE: [&str; 5] = [
    "rabbitmq_4.3.0",
    "tie_binding_to_dest_with_keep_while_cond",
    "topic_binding_projection_v4",
    "topic_binding_projection_v5",
    "track_qq_members_uids",
];

/// `GET /api/feature-flags`.
pub(crate) fn flags<N: Node>(call: &Call<'_, N>) -> Answer {
    let flag = |name: &&str| {
        json!({
            "name": name,
            "desc": "",
            "doc_url": "",
            "state": "enabled",
            "stability": if STABLE.contains(name) { "stable" } else { "required" },
            "require_level": if STABLE.contains(name) { "none" } else { "hard" },
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

/// `PUT /api/feature-flags/NAME/enable`: each there is, is enabled.
pub(crate) fn enable<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    crate::body::Body::read(&call.request.body)?;
    match FLAGS.contains(&name) {
        true => Ok(Response::empty(204)),
        false => Err(Response::bad_request("unsupported")),
    }
}

/// `GET /api/deprecated-features`.
pub(crate) fn deprecated<N: Node>(call: &Call<'_, N>) -> Answer {
    let about = call.node.about();
    let rows = [
        feature("amqp_address_v1", about.permits_address_v1, "denied_by_default"),
        feature("amqp_filter_set_bug", false, "denied_by_default"),
        feature("classic_queue_mirroring", false, "removed"),
        feature("global_qos", about.permits_global_qos, "denied_by_default"),
        feature("management_metrics_collection", true, "permitted_by_default"),
        feature("queue_master_locator", false, "denied_by_default"),
        feature("ram_node_type", false, "removed"),
        feature("transient_nonexcl_queues", about.permits_transient_queues, "permitted_by_default"),
    ];
    list::answer(rows.into(), call.request, &about.limits, &["name"])
}

/// `GET /api/deprecated-features/used`.
pub(crate) fn used<N: Node>(call: &Call<'_, N>) -> Answer {
    let mut is_transient = false;
    call.node.each_queue(Which::All, |row| {
        is_transient |= !row.definition.durable && row.definition.exclusive.is_none();
    })?;
    let used = is_transient.then(|| {
        feature(
            "transient_nonexcl_queues",
            call.node.about().permits_transient_queues,
            "permitted_by_default",
        )
    });
    Ok(Response::ok(&used.into_iter().collect()))
}
