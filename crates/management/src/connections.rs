//! Connections: listing and closing them.

use crate::call::Call;
use crate::history::Whose;
use crate::list::Listed;
use crate::node::Node;
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::{json, list, stats, trail};
use broker::{ConnectionRow, Encryption, HeldBack};
use message::amqp091::Table;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Why a connection is closed where nobody says why, in RabbitMQ's words.
const REASON: &str = "Closed via management plugin";

pub(crate) fn seen<N: Node>(call: &Call<'_, N>) -> Result<Vec<ConnectionRow>, Response> {
    let mut rows = call.node.connections()?;
    // A connection before its login is no user's; the command line is told of it all the same.
    let is_own = call.caller.login.is_own;
    rows.retain(|row| is_own || !row.user.is_empty() && call.caller.sees_connection(&row.user, &row.vhost));
    Ok(rows)
}

fn shown<N: Node>(call: &Call<'_, N>, row: &ConnectionRow) -> Value {
    let node = &call.node.about().node;
    let encryption = row.encryption.as_deref();
    let told = |part: fn(&Encryption) -> &'static str| encryption.map(part);
    let certificate = encryption.and_then(|own| own.certificate.as_ref());
    let [subject, issuer, validity, number] = [0, 1, 2, 3].map(|at| certificate.map(|own| own[at].as_str()));
    let mut item = json!({
        "name": row.name,
        "node": node,
        "type": "network",
        "protocol": row.protocol,
        "vhost": row.vhost,
        "user": row.user,
        "user_who_performed_action": row.user,
        "state": row.state,
        "held_back": row.held_back.map_or("none", HeldBack::name),
        "channels": row.channels,
        "memory_held": row.held,
        "connected_at": row.connected_at,
        "host": row.host.to_string(),
        "port": row.port,
        "peer_host": row.peer_host.to_string(),
        "peer_port": row.peer_port,
        "recv_oct": row.received,
        "send_oct": row.sent,
        "recv_cnt": row.calls[0],
        "send_cnt": row.calls[1],
        "send_pend": 0,
        "frame_max": row.frame_max,
        "channel_max": row.channel_max,
        "timeout": row.timeout_s,
        "auth_mechanism": row.mechanism,
        "ssl": encryption.is_some(),
        "ssl_protocol": told(|own| own.protocol),
        "ssl_key_exchange": told(|own| own.key_exchange),
        "ssl_cipher": told(|own| own.cipher),
        "ssl_hash": told(|own| own.hash),
        "peer_cert_subject": subject,
        "peer_cert_issuer": issuer,
        "peer_cert_validity": validity,
        "peer_cert_serial_number": number,
        "client_properties": properties(row),
    });
    if call.caller.login.is_own {
        // The command line names connections so; over HTTP RabbitMQ tells of no process.
        item["pid"] = row.process_id().into();
    }
    if list::wants(call.request, &["recv_oct_details", "send_oct_details"]) {
        let (id, span) = (Whose::Connection(row.id), stats::data_span(call.request));
        let [received, sent] = call.node.history(|history| [0, 1].map(|at| history.of(id).details(at, span)));
        (item["recv_oct_details"], item["send_oct_details"]) = (received, sent);
    }
    stats::put_collected(&mut item);
    // Over AMQP 1.0 RabbitMQ has it among the properties alone.
    if let Some(name) = row.given_name.as_ref().filter(|_| !speaks_amqp10(row)) {
        item["user_provided_name"] = (**name).into();
    }
    if let Some(container) = &row.container {
        item["container_id"] = (**container).into();
    }
    item
}

/// Whether it speaks AMQP 1.0, over any transport.
pub(crate) fn speaks_amqp10(row: &ConnectionRow) -> bool {
    matches!(row.protocol, "AMQP 1-0" | "Web AMQP 1-0")
}

/// A client's properties of itself, the name it gives its connection among them.
fn properties(row: &ConnectionRow) -> Value {
    let said = row.client.as_ref().and_then(|client| Table::new(client).ok());
    let mut said = said.map_or_else(|| json!({}), json::headers);
    if let Some(name) = &row.given_name {
        said["connection_name"] = (**name).into();
    }
    said
}

impl Listed for ConnectionRow {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        match column {
            "vhost" => Some(self.vhost.as_str().into()),
            "name" => Some(self.name.as_str().into()),
            _ => None,
        }
    }
}

pub(crate) fn answer<N: Node>(call: &Call<'_, N>, rows: Vec<ConnectionRow>) -> Answer {
    let show = |rows: &[ConnectionRow]| Ok(rows.iter().map(|row| shown(call, row)).collect());
    list::of(rows, call.request, &call.node.about().limits, &["vhost", "name"], show)
}

/// `GET /api/connections`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    answer(call, seen(call)?)
}

/// `GET /api/vhosts/VHOST/connections`.
pub(crate) fn of_vhost<N: Node>(call: &Call<'_, N>, vhost: &str) -> Answer {
    let mut rows = seen(call)?;
    rows.retain(|row| row.vhost == vhost);
    answer(call, rows)
}

/// `/api/connections/username/USER`.
pub(crate) fn of_user<N: Node>(call: &Call<'_, N>, user: &str) -> Answer {
    let mut rows = seen(call)?;
    rows.retain(|row| row.user == user);
    if call.request.method != Method::Delete {
        return answer(call, rows);
    }
    for row in &rows {
        close(call, row)?;
    }
    Ok(Response::empty(204))
}

/// The connection of this name, for a user that may see it.
pub(crate) fn named<N: Node>(call: &Call<'_, N>, name: &str) -> Result<ConnectionRow, Response> {
    let rows = call.node.connections()?;
    let row = rows.into_iter().find(|row| row.name == name).ok_or_else(Response::not_found)?;
    match call.caller.sees_connection(&row.user, &row.vhost) {
        true => Ok(row),
        false => Err(Response::not_authorised("User not authorised to access object")),
    }
}

/// `/api/connections/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    let row = named(call, name)?;
    if call.request.method == Method::Delete {
        close(call, &row)?;
        return Ok(Response::empty(204));
    }
    list::one(shown(call, &row), call.request, &call.node.about().limits)
}

fn close<N: Node>(call: &Call<'_, N>, row: &ConnectionRow) -> Result<(), Response> {
    if row.user != call.caller.login.user && !call.caller.is_administrator() {
        return Err(Response::not_authorised("User not authorised to access object"));
    }
    let reason = call.request.reason.as_deref().unwrap_or(REASON);
    // It may be gone by itself meanwhile, which is as well.
    if call.node.close_connection(&row.name, reason)? {
        call.tell(&format!(
            "Closing connection {} because {}",
            trail::quoted(&row.name),
            trail::quoted(reason)
        ));
    }
    Ok(())
}
