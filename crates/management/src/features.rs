//! Feature flags and deprecated features, as RabbitMQ 4.3 names them.

use crate::call::Call;
use crate::flags::{self, FLAGS, Flag};
use crate::list;
use crate::node::{Node, Which};
use crate::response::{Answer, Response};
use serde_json::{Value, json};

/// `GET /api/feature-flags`.
pub(crate) fn flags<N: Node>(call: &Call<'_, N>) -> Answer {
    let flag = |flag: &Flag| {
        json!({
            "name": flag.name,
            "desc": flag.about,
            "doc_url": flag.page,
            "state": "enabled",
            "stability": flag.required.stability(),
            "require_level": flag.required.level(),
            "experiment_level": "supported",
            "callbacks": [],
            "provided_by": flag.provided_by,
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
    match flags::is_flag(name) {
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
