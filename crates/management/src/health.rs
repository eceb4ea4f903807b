//! Health checks: 200 when all is well, 503 when it is not.

use crate::call::Call;
use crate::node::Node;
use crate::response::{Answer, Response};
use base::brief;
use serde_json::{Value, json};

/// The units of a certificate's remaining time, and days in each.
const UNITS: [(&str, u64); 4] = [("days", 1), ("weeks", 7), ("months", 30), ("years", 365)];

/// Seconds of a day.
const DAY_S: u64 = 86_400;

fn ok() -> Answer {
    Ok(Response::ok(&json!({ "status": "ok" })))
}

fn failed(reason: &str, more: Value) -> Answer {
    let mut body = json!({ "status": "failed", "reason": reason });
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    Ok(Response::json(503, &body))
}

/// The reason that `alarms` gives for alarms anywhere.
pub(crate) const IN_CLUSTER: &str = "There are alarms in effect in the cluster";

/// The reason that `local-alarms` gives.
pub(crate) const ON_NODE: &str = "There are alarms in effect on the node";

/// Each virtual host is served as long as the node answers.
pub(crate) fn vhosts<N: Node>(call: &Call<'_, N>) -> Answer {
    call.node.look(|catalog| catalog.vhosts().count())?;
    ok()
}

/// `GET /api/health/checks/node-is-quorum-critical`.
pub(crate) fn critical() -> Answer {
    Ok(Response::ok(&json!({ "status": "ok", "reason": "single node cluster" })))
}

/// A node that answers has its catalog, and the members of its queues are its own.
pub(crate) fn serves<N: Node>(call: &Call<'_, N>) -> Answer {
    call.node.look(|catalog| catalog.version())?;
    ok()
}

/// The same for the queues of a virtual host.
pub(crate) fn leads<N: Node>(call: &Call<'_, N>, vhost: &str) -> Answer {
    call.caller.vhost(vhost)?;
    ok()
}

/// `GET /api/health/checks/metadata-store/initialized/with-data`.
pub(crate) fn has_data<N: Node>(call: &Call<'_, N>) -> Answer {
    match call.node.look(|catalog| catalog.users().next().is_some() && catalog.vhosts().next().is_some())? {
        true => ok(),
        false => failed("Metadata store has not yet been initialized: it has no data", Value::Null),
    }
}

/// `GET /api/health/checks/below-node-connection-limit`.
pub(crate) fn below_limit<N: Node>(call: &Call<'_, N>) -> Answer {
    let Some(most) = call.node.about().connections_max else { return ok() };
    let count = call.node.connection_count()?;
    match count < most {
        true => ok(),
        false => failed("node connection limit is reached", json!({ "limit": most, "connections": count })),
    }
}

/// `GET /api/healthchecks/node[/NODE]`: the check that came before those of one thing each.
pub(crate) fn old<N: Node>(call: &Call<'_, N>, node: Option<&str>) -> Answer {
    match node {
        Some(name) if name != call.node.about().node => Err(Response::not_found()),
        _ => serves(call),
    }
}

/// `GET /api/health/checks/{alarms,local-alarms}`.
pub(crate) fn alarms<N: Node>(call: &Call<'_, N>, reason: &str) -> Answer {
    let condition = call.node.condition();
    let raised = [("memory", condition.is_memory_alarm), ("disk", condition.is_disk_alarm)];
    let node = &call.node.about().node;
    let raised = raised.iter().filter(|(_, is_raised)| *is_raised);
    let raised: Vec<Value> = raised.map(|(what, _)| json!({ "node": node, "resource": what })).collect();
    if raised.is_empty() { ok() } else { failed(reason, json!({ "alarms": raised })) }
}

/// `GET /api/health/checks/port-listener/PORT`.
pub(crate) fn port_listener<N: Node>(call: &Call<'_, N>, port: &str) -> Answer {
    let Ok(port) = port.parse::<u16>() else { return Err(Response::bad_request("Invalid port")) };
    let ports: Vec<u16> = call.node.about().listeners.iter().map(|listener| listener.port).collect();
    match ports.contains(&port) {
        true => Ok(Response::ok(&json!({ "status": "ok", "port": port }))),
        false => failed("No active listener", json!({ "missing": port, "ports": ports })),
    }
}

/// `GET /api/health/checks/protocol-listener/NAMES`.
pub(crate) fn protocol_listener<N: Node>(call: &Call<'_, N>, names: &str) -> Answer {
    let mut served: Vec<&str> =
        call.node.about().listeners.iter().map(|listener| listener.protocol.as_str()).collect();
    brief::sort(&mut served);
    served.dedup();
    // Versions of AMQP share a listener.
    let meant = |name: &str| {
        match name {
            "amqp091" | "amqp0.9.1" | "amqp10" | "amqp1.0" => "amqp",
            "amqps" | "amqp/tls" => "amqp/ssl",
            "management" => "http",
            _ => return name.to_owned(),
        }
        .to_owned()
    };
    let missing: Vec<&str> =
        names.split(',').filter(|name| !served.contains(&meant(name).as_str())).collect();
    match missing.is_empty() {
        true => Ok(Response::ok(&json!({ "status": "ok", "protocols": served }))),
        false => failed("No active listener", json!({ "missing": missing, "protocols": served })),
    }
}

/// `GET /api/health/checks/certificate-expiration/COUNT/UNIT`.
pub(crate) fn certificates<N: Node>(call: &Call<'_, N>, within: &str, unit: &str) -> Answer {
    let (Ok(count), Some((_, days))) = (within.parse::<u32>(), UNITS.iter().find(|(name, _)| *name == unit))
    else {
        return Err(Response::bad_request(
            "Time unit not recognised. Supported units: days, weeks, months, years.",
        ));
    };
    let until_s = call.node.now_s() + u64::from(count) * days * DAY_S;
    match call.node.certificate_ends_s().iter().all(|ends_s| *ends_s > until_s) {
        true => ok(),
        false => failed("Certificates expiring", Value::Null),
    }
}
