//! Lists that are made of answers of the HTTP API: bindings, channels, consumers, parameters, streams.

use crate::exit;
use crate::request::Refusal;
use crate::session::{Session, bad_word};
use crate::show::Formatter;
use crate::vhosts;
use clap::Subcommand;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Words that list something.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
#[allow(clippy::enum_variant_names, reason = "these are the words as they are typed")]
pub(crate) enum ListWord {
    /// Bindings of a virtual host
    ListBindings {
        /// Columns to show: source_name, routing_key, ...
        columns: Vec<String>,
    },
    /// Channels and sessions, and their properties
    ListChannels {
        /// Columns to show: connection, number, consumer_count, ...
        columns: Vec<String>,
    },
    /// Consumers of a virtual host
    ListConsumers {
        /// Columns to show: queue_name, consumer_tag, active, ...
        columns: Vec<String>,
    },
    /// Queues of a virtual host that do not answer in time
    ListUnresponsiveQueues {
        /// Columns to show: name, type, ...
        columns: Vec<String>,
    },
    /// Parameters of a virtual host
    ListParameters,
    /// Parameters of the whole node
    ListGlobalParameters,
    /// Features that a node of this version has
    ListFeatureFlags {
        /// Columns to show: name, state, stability, ...
        columns: Vec<String>,
    },
    /// Features that will be removed
    ListDeprecatedFeatures {
        /// Columns to show: name, deprecation_phase, state, ...
        columns: Vec<String>,
    },
    /// How many logins were tried, by protocol
    ListNodeAuthAttemptStats,
    /// Connections of the stream protocol
    ListStreamConnections {
        /// Columns to show: conn_name, user, ...
        columns: Vec<String>,
    },
    /// Publishers of the stream protocol in a virtual host
    ListStreamPublishers {
        /// Columns to show: stream, reference, ...
        columns: Vec<String>,
    },
    /// Consumers of the stream protocol in a virtual host
    ListStreamConsumers {
        /// Columns to show: stream, offset, ...
        columns: Vec<String>,
    },
}

/// The columns of a list, each with its place in the API's answer, and those shown unasked.
pub(crate) struct Fields {
    known: &'static [(&'static str, &'static str)],
    usual: &'static [&'static str],
}

const BINDING: Fields = Fields {
    known: &[
        ("source_name", "source"),
        ("source_kind", "source_kind"),
        ("destination_name", "destination"),
        ("destination_kind", "destination_type"),
        ("routing_key", "routing_key"),
        ("arguments", "arguments"),
    ],
    usual: &[
        "source_name",
        "source_kind",
        "destination_name",
        "destination_kind",
        "routing_key",
        "arguments",
    ],
};

const CHANNEL: Fields = Fields {
    known: &[
        ("pid", "pid"),
        ("connection", "connection"),
        ("name", "name"),
        ("number", "number"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("transactional", "transactional"),
        ("confirm", "confirm"),
        ("consumer_count", "consumer_count"),
        ("messages_unacknowledged", "messages_unacknowledged"),
        ("messages_uncommitted", "messages_uncommitted"),
        ("acks_uncommitted", "acks_uncommitted"),
        ("messages_unconfirmed", "messages_unconfirmed"),
        ("prefetch_count", "prefetch_count"),
    ],
    usual: &["pid", "user", "consumer_count", "messages_unacknowledged"],
};

const CONSUMER: Fields = Fields {
    known: &[
        ("queue_name", "queue.name"),
        ("channel_pid", "pid"),
        ("consumer_tag", "consumer_tag"),
        ("ack_required", "ack_required"),
        ("prefetch_count", "prefetch_count"),
        ("active", "active"),
        ("activity_status", "activity_status"),
        ("arguments", "arguments"),
    ],
    usual: &[
        "queue_name",
        "channel_pid",
        "consumer_tag",
        "ack_required",
        "prefetch_count",
        "active",
        "arguments",
    ],
};

const UNRESPONSIVE: Fields = Fields {
    known: &[
        ("name", "name"),
        ("type", "type"),
        ("durable", "durable"),
        ("auto_delete", "auto_delete"),
        ("arguments", "arguments"),
        ("pid", "pid"),
        ("recoverable_slaves", "recoverable_slaves"),
    ],
    usual: &["name"],
};

const FEATURE: Fields = Fields {
    known: &[
        ("name", "name"),
        ("state", "state"),
        ("stability", "stability"),
        ("provided_by", "provided_by"),
        ("desc", "desc"),
        ("doc_url", "doc_url"),
    ],
    usual: &["name", "state"],
};

const DEPRECATED: Fields = Fields {
    known: &[
        ("name", "name"),
        ("deprecation_phase", "deprecation_phase"),
        ("state", "state"),
        ("provided_by", "provided_by"),
        ("desc", "desc"),
        ("doc_url", "doc_url"),
    ],
    usual: &["name", "deprecation_phase", "state"],
};

const STREAM_CONNECTION: Fields = Fields {
    known: &[
        ("conn_name", "name"),
        ("pid", "pid"),
        ("subscriptions", "subscriptions"),
        ("ssl_protocol", "ssl_protocol"),
        ("ssl_key_exchange", "ssl_key_exchange"),
        ("ssl_cipher", "ssl_cipher"),
        ("ssl_hash", "ssl_hash"),
        ("peer_cert_subject", "peer_cert_subject"),
        ("peer_cert_issuer", "peer_cert_issuer"),
        ("peer_cert_validity", "peer_cert_validity"),
        ("peer_cert_serial_number", "peer_cert_serial_number"),
        ("host", "host"),
        ("port", "port"),
        ("peer_host", "peer_host"),
        ("peer_port", "peer_port"),
        ("user", "user"),
        ("vhost", "vhost"),
        ("ssl", "ssl"),
        ("auth_mechanism", "auth_mechanism"),
        ("connected_at", "connected_at"),
        ("connection_state", "state"),
        ("frame_max", "frame_max"),
        ("heartbeat", "timeout"),
        ("client_properties", "client_properties"),
        ("recv_oct", "recv_oct"),
        ("send_oct", "send_oct"),
        ("node", "node"),
    ],
    usual: &["node", "conn_name"],
};

const STREAM_PUBLISHER: Fields = Fields {
    known: &[
        ("connection_name", "connection_details.name"),
        ("connection_pid", "pid"),
        ("node", "connection_details.node"),
        ("publisher_id", "publisher_id"),
        ("stream", "queue.name"),
        ("reference", "reference"),
        ("messages_published", "published"),
        ("messages_confirmed", "confirmed"),
        ("messages_errored", "errored"),
    ],
    usual: &[
        "publisher_id",
        "stream",
        "reference",
        "messages_published",
        "messages_confirmed",
        "messages_errored",
    ],
};

const STREAM_CONSUMER: Fields = Fields {
    known: &[
        ("connection_name", "connection_details.name"),
        ("connection_pid", "pid"),
        ("node", "connection_details.node"),
        ("subscription_id", "subscription_id"),
        ("stream", "queue.name"),
        ("messages_consumed", "consumed"),
        ("offset", "offset"),
        ("offset_lag", "offset_lag"),
        ("credits", "credits"),
        ("active", "active"),
        ("activity_status", "activity_status"),
        ("properties", "properties"),
    ],
    usual: &[
        "subscription_id",
        "stream",
        "messages_consumed",
        "offset",
        "offset_lag",
        "credits",
        "active",
        "activity_status",
        "properties",
    ],
};

impl Fields {
    /// The columns that are asked for, in that order.
    fn choose(&self, asked: &[String]) -> Result<Vec<String>, Refusal> {
        let names: Vec<&str> = self.known.iter().map(|(name, _)| *name).collect();
        choose(&names, self.usual, asked)
    }

    /// A row of the API with the names of columns.
    fn row(&self, item: &Value) -> Value {
        let at = |path: &str| path.split('.').fold(item, |item, name| &item[name]).clone();
        let text = |value: Value| if value.is_null() { Value::from("") } else { value };
        self.known.iter().map(|(name, path)| ((*name).to_owned(), text(at(path)))).collect()
    }
}

/// The items of a list; none where there is no such list.
pub(crate) fn items(session: &Session<'_>, path: &[&str], query: &str) -> Result<Vec<Value>, Refusal> {
    match session.find_part(path, query)? {
        Some(Value::Array(items)) => Ok(items),
        Some(_) | None => Ok(Vec::new()),
    }
}

/// A query for columns of a list, each once.
pub(crate) fn asking<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    let columns: BTreeSet<&str> = base::brief::collect(columns);
    format!("columns={}", Vec::from_iter(columns).join(","))
}

/// The answer of the API at a path.
///
/// # Errors
/// As `missing` says where there is no such thing.
pub(crate) fn found(
    session: &Session<'_>,
    path: &[&str],
    missing: impl FnOnce() -> Refusal,
) -> Result<Value, Refusal> {
    session.find(path)?.ok_or_else(missing)
}

/// Shows the list at a path.
fn list(
    session: &Session<'_>,
    banner: String,
    (fields, columns): (&Fields, &[String]),
    path: &[&str],
    mut amend: impl FnMut(&mut Value),
) -> Result<String, Refusal> {
    let columns = fields.choose(columns)?;
    let show = session.show(Formatter::Table, banner);
    let mut items = items(session, path, "")?;
    items.iter_mut().for_each(&mut amend);
    let rows: Value = items.iter().map(|item| fields.row(item)).collect();
    Ok(show.rows(&columns, &rows))
}

/// The process ids of connections, by name.
pub(crate) fn pids(session: &Session<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    let rows = items(session, &["connections"], "columns=name,pid")?;
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    Ok(base::brief::collect(rows.iter().map(|row| (text(row, "name"), text(row, "pid")))))
}

/// How many of these rows are of which connection, by its name.
fn by_connection(rows: &[Value]) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row["connection_details"]["name"].as_str().unwrap_or_default()).or_default() += 1;
    }
    counts
}

/// The process id of the connection that a row is of.
fn connection_pid(pids: &BTreeMap<String, String>, row: &Value) -> String {
    let name = row["connection_details"]["name"].as_str().unwrap_or_default();
    pids.get(name).cloned().unwrap_or_default()
}

/// The process id of a channel: its connection's, with its number.
pub(crate) fn channel_pid(pids: &BTreeMap<String, String>, connection: &str, number: &Value) -> String {
    let own = pids.get(connection).map_or("<0.0.0>", String::as_str);
    format!("{}.{number}>", own.trim_end_matches('>'))
}

pub(crate) fn run(word: &ListWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    match word {
        ListWord::ListBindings { columns } => {
            let banner = format!("Listing bindings for vhost {vhost}...");
            list(session, banner, (&BINDING, columns), &["bindings", vhost], |row| {
                row["source_kind"] = "exchange".into();
            })
        }
        ListWord::ListChannels { columns } => {
            CHANNEL.choose(columns)?;
            let pids = pids(session)?;
            list(session, "Listing channels ...".into(), (&CHANNEL, columns), &["channels"], |row| {
                let connection = row["connection_details"]["name"].as_str().unwrap_or_default();
                let pid = channel_pid(&pids, connection, &row["number"]);
                row["connection"] = pids.get(connection).cloned().unwrap_or_default().into();
                row["pid"] = pid.into();
            })
        }
        ListWord::ListConsumers { columns } => {
            CONSUMER.choose(columns)?;
            let pids = pids(session)?;
            let banner = format!("Listing consumers in vhost {vhost} ...");
            list(session, banner, (&CONSUMER, columns), &["consumers", vhost], |row| {
                let channel = &row["channel_details"];
                let connection = channel["connection_name"].as_str().unwrap_or_default();
                row["pid"] = channel_pid(&pids, connection, &channel["number"]).into();
            })
        }
        ListWord::ListUnresponsiveQueues { columns } => {
            let columns = UNRESPONSIVE.choose(columns)?;
            let show =
                session.show(Formatter::Table, format!("Listing unresponsive queues for vhost {vhost} ..."));
            // Queues of a shard answer together: where all shards do, all queues do.
            items(session, &["queues", vhost], "columns=name")?;
            Ok(show.rows(&columns, &json!([])))
        }
        ListWord::ListParameters => {
            let show = session
                .show(Formatter::Table, format!("Listing runtime parameters for vhost \"{vhost}\" ..."));
            if !vhosts::has(session, vhost)? {
                return Err(vhosts::missing(vhost));
            }
            let own = items(session, &["parameters"], "")?.into_iter().filter(|row| row["vhost"] == **vhost);
            let rows: Value = own.map(valued).collect();
            Ok(show.rows(&words(&["component", "name", "value"]), &rows))
        }
        ListWord::ListGlobalParameters => {
            let show = session.show(Formatter::Table, "Listing global runtime parameters ...");
            let rows: Value = items(session, &["global-parameters"], "")?.into_iter().map(valued).collect();
            Ok(show.rows(&words(&["name", "value"]), &rows))
        }
        ListWord::ListFeatureFlags { columns } => {
            list(session, "Listing feature flags ...".into(), (&FEATURE, columns), &["feature-flags"], |_| ())
        }
        ListWord::ListDeprecatedFeatures { columns } => {
            let columns = DEPRECATED.choose(columns)?;
            let show = session.show(Formatter::PrettyTable, "Listing deprecated features ...");
            let features = items(session, &["deprecated-features"], "")?;
            Ok(show.rows(&columns, &features.iter().map(|item| DEPRECATED.row(item)).collect()))
        }
        ListWord::ListNodeAuthAttemptStats => {
            let node = session.node()?;
            let banner = format!("Listing authentication attempts for node \"{node}\" ...");
            let show = session.show(Formatter::Table, banner);
            let rows: Value = items(session, &["auth", "attempts", &node], "")?.into();
            if session.is_for_programs() {
                return Ok(format!("{}\n", json!({ "result": "ok", "node": node, "attempts": rows })));
            }
            let columns = ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"];
            Ok(show.rows(&words(&columns), &rows))
        }
        ListWord::ListStreamConnections { columns } => {
            let fields = &STREAM_CONNECTION;
            let has_count = fields.choose(columns)?.iter().any(|column| column == "subscriptions");
            let consumers = if has_count {
                items(session, &["stream", "consumers"], "columns=connection_details.name")?
            } else {
                Vec::new()
            };
            let counts = by_connection(&consumers);
            let banner = "Listing stream connections ...".into();
            list(session, banner, (fields, columns), &["stream", "connections"], |row| {
                let name = row["name"].as_str().unwrap_or_default();
                row["subscriptions"] = counts.get(name).copied().unwrap_or(0).into();
            })
        }
        ListWord::ListStreamPublishers { columns } => {
            STREAM_PUBLISHER.choose(columns)?;
            let pids = pids(session)?;
            let banner = "Listing stream publishers ...".into();
            list(session, banner, (&STREAM_PUBLISHER, columns), &["stream", "publishers", vhost], |row| {
                row["pid"] = connection_pid(&pids, row).into();
            })
        }
        ListWord::ListStreamConsumers { columns } => {
            STREAM_CONSUMER.choose(columns)?;
            let pids = pids(session)?;
            let banner = "Listing stream consumers ...".into();
            list(session, banner, (&STREAM_CONSUMER, columns), &["stream", "consumers", vhost], |row| {
                row["pid"] = connection_pid(&pids, row).into();
            })
        }
    }
}

/// A parameter with its value as a document.
fn valued(mut row: Value) -> Value {
    row["value"] = row["value"].to_string().into();
    row
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Columns among those that are known.
pub(crate) fn choose(known: &[&str], usual: &[&str], asked: &[String]) -> Result<Vec<String>, Refusal> {
    // Commas between columns are taken as spaces are.
    let words = asked.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
    let asked: Vec<&str> = words.collect();
    let unknown: Vec<&str> = asked.iter().copied().filter(|column| !known.contains(column)).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        let why = format!("Info key(s) {unknown} are not supported\nKnown: {}", known.join(", "));
        return Err(bad_word(exit::USAGE, why));
    }
    let chosen = if asked.is_empty() { usual } else { &asked };
    Ok(chosen.iter().map(|column| (*column).to_owned()).collect())
}
