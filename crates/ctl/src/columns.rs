//! Lists of queues and of connections: the columns that are asked for, as the HTTP API tells them, in the shapes that RabbitMQ's
//! tools give them.

use crate::listing::{asking, channel_pid, choose, items, pids};
use crate::request::Refusal;
use crate::session::Session;
use crate::show::Formatter;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Seconds that queues are waited for, where nothing else is said.
const TIMEOUT_S: u32 = 60;

/// Columns of queues.
const QUEUE: [&str; 43] = [
    "name",
    "vhost",
    "type",
    "durable",
    "auto_delete",
    "exclusive",
    "arguments",
    "policy",
    "operator_policy",
    "effective_policy_definition",
    "state",
    "node",
    "leader",
    "members",
    "online",
    "pid",
    "owner_pid",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "messages_delayed",
    "messages_unmatched",
    "selectors",
    "lease_expiries",
    "barriers",
    "barriers_passed_over",
    "consumers",
    "memory",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "messages_ram",
    "messages_persistent",
    "message_bytes",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "message_bytes_ram",
    "message_bytes_persistent",
    "head_message_timestamp",
    "disk_reads",
    "disk_writes",
    "consumer_utilisation",
    "consumer_capacity",
    "single_active_consumer_tag",
];

/// Those of them that RabbitMQ's tools tell otherwise than HTTP, by the type of the queue.
const BY_TYPE: [&str; 4] = ["leader", "members", "online", "exclusive"];

/// Columns of queues that are told of their consumers.
const QUEUE_CONSUMER: [&str; 2] = ["exclusive_consumer_pid", "exclusive_consumer_tag"];

/// Columns of connections.
const CONNECTION: [&str; 35] = [
    "pid",
    "name",
    "host",
    "port",
    "peer_host",
    "peer_port",
    "ssl",
    "ssl_protocol",
    "ssl_key_exchange",
    "ssl_cipher",
    "ssl_hash",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
    "protocol",
    "user",
    "vhost",
    "channels",
    "recv_oct",
    "send_oct",
    "state",
    "connected_at",
    "node",
    "auth_mechanism",
    "channel_max",
    "client_properties",
    "container_id",
    "frame_max",
    "peer_cert_serial_number",
    "recv_cnt",
    "send_cnt",
    "send_pend",
    "held_back",
    "timeout",
    "user_provided_name",
];

/// Those of them that a connection without TLS, or without a certificate, has nothing in.
const WITHOUT_TLS: [&str; 7] = [
    "ssl_protocol",
    "ssl_key_exchange",
    "ssl_cipher",
    "ssl_hash",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
];

/// Queues by where they are: on one node all are online, and all are here.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WhereWords {
    /// Those of nodes that run: all
    #[arg(long)]
    online: bool,
    /// Those of nodes that do not run: none
    #[arg(long)]
    offline: bool,
    /// Those of this node: all
    #[arg(long)]
    local: bool,
}

impl WhereWords {
    /// Whether any queue is meant.
    fn has_any(self) -> bool {
        !self.offline || self.online || self.local
    }
}

/// `list_queues`.
pub(crate) fn queues(
    session: &Session<'_>,
    asked: &[String],
    r#where: WhereWords,
) -> Result<String, Refusal> {
    let known: Vec<&str> = QUEUE.iter().chain(&QUEUE_CONSUMER).copied().collect();
    let columns = choose(&known, &["name", "messages"], asked)?;
    let (vhost, seconds) = (session.vhost(), session.timeout().unwrap_or(TIMEOUT_S));
    let banner = format!("Timeout: {seconds}.0 seconds ...\nListing queues for vhost {vhost} ...");
    let show = session.show(Formatter::Table, banner);
    let mut rows = Value::Array(Vec::new());
    if r#where.has_any() {
        let wants = |more: &[&str]| columns.iter().any(|column| more.contains(&column.as_str()));
        let mut told: Vec<&str> = columns.iter().map(String::as_str).collect();
        // The columns that others are made of.
        if wants(&QUEUE_CONSUMER) {
            told.push("name");
        }
        if wants(&BY_TYPE) {
            told.extend(["type", "node"]);
        }
        let mut found = items(session, &["queues", vhost], &asking(told))?;
        found.iter_mut().for_each(queue_as_listed);
        rows = found.into();
        if wants(&QUEUE_CONSUMER) {
            join(&mut rows, exclusive_consumers(session, vhost)?);
        }
    }
    Ok(show.rows(&columns, &rows))
}

/// Has a queue be as RabbitMQ's tools have it, where that is otherwise than over HTTP.
fn queue_as_listed(row: &mut Value) {
    for column in ["policy", "operator_policy"] {
        if row[column].is_null() {
            row[column] = "".into();
        }
    }
    if row["type"] == "classic" {
        // It has no members elsewhere: RabbitMQ says nothing of those.
        row["leader"] = row["node"].clone();
        row["members"] = json!([row["node"]]);
        row["online"] = "".into();
    } else {
        // It is nobody's own: RabbitMQ says nothing of that.
        row["exclusive"] = "".into();
    }
}

/// Queues that have one consumer of their own, and it.
fn exclusive_consumers(session: &Session<'_>, vhost: &str) -> Result<Vec<Value>, Refusal> {
    let pids = pids(session)?;
    let consumers = items(session, &["consumers", vhost], "")?;
    let own = consumers.into_iter().filter(|consumer| consumer["exclusive"] == true);
    let row = |consumer: Value| {
        let channel = &consumer["channel_details"];
        let connection = channel["connection_name"].as_str().unwrap_or_default();
        json!({
            "name": consumer["queue"]["name"],
            "exclusive_consumer_pid": channel_pid(&pids, connection, &channel["number"]),
            "exclusive_consumer_tag": consumer["consumer_tag"],
        })
    };
    Ok(own.map(row).collect())
}

/// `list_connections`.
pub(crate) fn connections(session: &Session<'_>, asked: &[String]) -> Result<String, Refusal> {
    let columns = choose(&CONNECTION, &["user", "peer_host", "peer_port", "state"], asked)?;
    let show = session.show(Formatter::Table, "Listing connections ...");
    let mut rows = items(session, &["connections"], &asking(columns.iter().map(String::as_str)))?;
    rows.iter_mut().for_each(as_listed);
    Ok(show.rows(&columns, &rows.into()))
}

/// Columns of users as tenants.
const TENANT: [&str; 11] = [
    "name",
    "connections",
    "held_back",
    "held_back_total",
    "work_units",
    "work_owed",
    "memory_held",
    "memory_max",
    "memory_refused",
    "places_refused",
    "logins_held_back",
];

/// `list_tenants`.
pub(crate) fn tenants(session: &Session<'_>, asked: &[String]) -> Result<String, Refusal> {
    let usual = ["name", "connections", "held_back", "held_back_total", "work_units", "places_refused"];
    let columns = choose(&TENANT, &usual, asked)?;
    let show = session.show(Formatter::Table, "Listing tenants ...");
    let rows = items(session, &["x", "tenants"], &asking(columns.iter().map(String::as_str)))?;
    Ok(show.rows(&columns, &rows.into()))
}

/// Has a connection be as RabbitMQ's tools have it, where that is otherwise than over HTTP.
fn as_listed(row: &mut Value) {
    for column in ["host", "peer_host"] {
        let address = row[column].as_str().and_then(|text| text.parse::<IpAddr>().ok());
        if let Some(address) = address {
            row[column] = numbers(address);
        }
    }
    let protocol = match row["protocol"].as_str() {
        Some("AMQP 0-9-1") => json!([0, 9, 1]),
        Some("AMQP 1-0") => json!([1, 0]),
        Some("Web AMQP 0-9-1") => "{'Web AMQP',{0,9,1}}".into(),
        Some("Web AMQP 1-0") => "{'Web AMQP',{1,0}}".into(),
        Some("stream") => "{<<\"stream\">>,[]}".into(),
        _ => row["protocol"].take(),
    };
    row["protocol"] = protocol;
    // A column without a value is an empty text.
    for column in WITHOUT_TLS {
        if row[column].is_null() {
            row[column] = "".into();
        }
    }
}

/// An address as it is in RabbitMQ's JSON: a list of numbers.
fn numbers(address: IpAddr) -> Value {
    match address {
        IpAddr::V4(address) => address.octets().to_vec().into(),
        IpAddr::V6(address) => address.segments().to_vec().into(),
    }
}

/// Gives each row the other fields of its name.
fn join(rows: &mut Value, more: Vec<Value>) {
    let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
    let fields = |row: Value| match row {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let mut by_name: BTreeMap<String, Map<String, Value>> =
        base::brief::collect(more.into_iter().map(|row| (name(&row), fields(row))));
    for row in rows.as_array_mut().into_iter().flatten() {
        if let (Some(more), Some(row)) = (by_name.remove(&name(row)), row.as_object_mut()) {
            row.extend(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_as_rabbitmqs_tools_have_them() {
        let check = |told: Value, expected: Value| {
            let mut row = told;
            as_listed(&mut row);
            for (column, value) in expected.as_object().expect("an object") {
                assert_eq!(row[column], *value, "{column}");
            }
        };
        check(
            json!({"host": "127.0.0.1", "peer_host": "fe80::1", "protocol": "AMQP 0-9-1", "ssl_cipher": "x"}),
            json!({"host": [127, 0, 0, 1], "peer_host": [0xfe80, 0, 0, 0, 0, 0, 0, 1], "protocol": [0, 9, 1],
                   "ssl_cipher": "x", "ssl_hash": "", "peer_cert_subject": ""}),
        );
        check(json!({"protocol": "AMQP 1-0"}), json!({"protocol": [1, 0]}));
        check(json!({"protocol": "Web AMQP 1-0"}), json!({"protocol": "{'Web AMQP',{1,0}}"}));
        check(json!({"protocol": "stream"}), json!({"protocol": "{<<\"stream\">>,[]}"}));
        check(json!({"protocol": ""}), json!({"protocol": ""}));
    }

    #[test]
    fn queues_are_as_rabbitmqs_tools_have_them() {
        let check = |told: Value, expected: Value| {
            let mut row = told;
            queue_as_listed(&mut row);
            assert_eq!(row, expected);
        };
        check(
            json!({"type": "classic", "node": "n", "exclusive": true, "policy": null, "operator_policy": "o"}),
            json!({"type": "classic", "node": "n", "exclusive": true, "policy": "", "operator_policy": "o",
                   "leader": "n", "members": ["n"], "online": ""}),
        );
        check(
            json!({"type": "stream", "node": "n", "leader": "n", "members": ["n"], "online": ["n"]}),
            json!({"type": "stream", "node": "n", "leader": "n", "members": ["n"], "online": ["n"],
                   "exclusive": "", "policy": "", "operator_policy": ""}),
        );
    }

    #[test]
    fn columns_of_all_kinds_fit_into_one_request() {
        for columns in [&QUEUE[..], &CONNECTION[..]] {
            let query = asking(columns.iter().copied().chain(["name"]));
            assert!(query.len() < 1024, "{query}");
        }
    }

    #[test]
    fn no_column_is_told_twice() {
        let mut all: Vec<&str> = QUEUE.iter().chain(&QUEUE_CONSUMER).copied().collect();
        let count = all.len();
        base::brief::sort(&mut all);
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn what_else_is_told_goes_to_its_row() {
        let mut rows = json!([{"name": "a", "n": 1}, {"name": "b"}, {}]);
        join(&mut rows, vec![json!({"name": "b", "m": 2}), json!({"name": "gone", "m": 3}), json!(7)]);
        assert_eq!(rows, json!([{"name": "a", "n": 1}, {"name": "b", "m": 2}, {}]));
    }

    #[test]
    fn queues_are_on_the_one_node() {
        let check = |online, offline, local, expected| {
            let r#where = WhereWords { online, offline, local };
            assert_eq!(r#where.has_any(), expected, "{where:?}", r#where = r#where);
        };
        check(false, false, false, true);
        check(true, false, false, true);
        check(false, true, false, false);
        check(true, true, false, true);
        check(false, true, true, true);
    }
}
