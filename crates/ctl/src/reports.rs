//! Reports for supporters: one of everything, policies that match a name, sizes of messages, certificates, and the
//! surroundings of the node.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool is a process of its own: it reads files"
)]

use crate::listing::{items, words};
use crate::request::{Refusal, Request};
use crate::session::{Session, done, failed, missing};
use crate::show::Formatter;
use crate::vhosts;
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes of a file of certificates that are shown.
const CERTIFICATE_BYTES_MAX: u64 = 1 << 20;

/// Words that report.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum ReportWord {
    /// Policies with a pattern that matches a queue or an exchange, those that count most first; the first counts
    ListPoliciesThatMatch {
        name: String,
        /// The kind of the object
        #[arg(long = "object-type", value_enum, default_value = "queue")]
        object_type: Kind,
    },
    /// How large the messages are that came since the node started
    MessageSizeStats,
    /// Certificates the node listens with
    Certificates,
    /// Nodes that are found where this one looks for others: itself
    DiscoverPeers,
    /// Network interfaces of the machine
    ListNetworkInterfaces,
    /// Variables of the environment that the node was started with and took something from
    OsEnv,
    /// The command line of the node
    CommandLineArguments,
    /// Links of federations, of which none are served yet
    FederationStatus,
    /// Shovels, of which none are served yet
    ShovelStatus,
}

/// The objects that policies are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A queue or a stream
    Queue,
    /// An exchange
    Exchange,
}

/// Bounds of the sizes that are told apart: bytes, and their name.
const SIZES: [(u64, &str); 8] = [
    (100, "100B"),
    (1_000, "1KB"),
    (10_000, "10KB"),
    (100_000, "100KB"),
    (1_000_000, "1MB"),
    (10_000_000, "10MB"),
    (50_000_000, "50MB"),
    (100_000_000, "100MB"),
];

pub(crate) fn run(word: &ReportWord, session: &Session<'_>) -> Result<String, Refusal> {
    match word {
        ReportWord::ListPoliciesThatMatch { name, object_type } => matching(session, name, *object_type),
        ReportWord::MessageSizeStats => sizes(session),
        ReportWord::Certificates => certificates(session),
        ReportWord::DiscoverPeers => {
            let node = session.node()?;
            let show = session.announce("Discovering peers nodes ...");
            match session.is_for_programs() {
                true => Ok(format!("{}\n", json!([node]))),
                false => Ok(show.message(&node)),
            }
        }
        ReportWord::ListNetworkInterfaces => interfaces(session),
        ReportWord::OsEnv => environment(session),
        ReportWord::CommandLineArguments => {
            let told = session.ask(&Request::Ping)?;
            let node = told["node"].as_str().unwrap_or_default();
            let show = session.announce(format!("Command line arguments of node {node} ..."));
            let words = command_line(&told["pid"]);
            match session.is_for_programs() {
                true => Ok(format!("{}\n", json!(words))),
                false => Ok(show.message(&words.join("\n"))),
            }
        }
        ReportWord::FederationStatus => {
            let node = session.node()?;
            let show = session.show(Formatter::Table, format!("Listing federation links on node {node}"));
            Ok(show.rows(&[], &json!([])))
        }
        ReportWord::ShovelStatus => {
            let node = session.node()?;
            let show = session.show(Formatter::Table, format!("Shovel status on node {node}"));
            Ok(show.rows(&[], &json!([])))
        }
    }
}

fn matching(session: &Session<'_>, name: &str, kind: Kind) -> Result<String, Refusal> {
    let vhost = session.vhost();
    let what = if kind == Kind::Queue { "queue" } else { "exchange" };
    let banner = format!("Listing policies that match {what} '{name}' in vhost '{vhost}' ...");
    let show = session.show(Formatter::PrettyTable, banner);
    if !vhosts::has(session, vhost)? {
        return Err(vhosts::missing(vhost));
    }
    let kinds = if kind == Kind::Queue { "queues" } else { "exchanges" };
    let found = session.find(&["x", kinds, vhost, name, "policies"])?;
    if session.is_for_programs() {
        let all = match &found {
            None => {
                json!({ "result": "error", "message": "object (queue, exchange) not found", "policies": [] })
            }
            Some(policies) => json!({ "result": "ok", "policies": policies }),
        };
        return Ok(format!("{all}\n"));
    }
    let mut policies = found.ok_or_else(missing)?;
    policies.as_array_mut().into_iter().flatten().for_each(vhosts::with_text);
    Ok(show.rows(&words(&vhosts::POLICY), &policies))
}

fn sizes(session: &Session<'_>) -> Result<String, Refusal> {
    let node = session.node()?;
    let banner = format!("Gathering message size statistics across the cluster using node {node} ...");
    let show = session.show(Formatter::PrettyTable, banner);
    let text = done(session.page("/metrics")?)?.body;
    let counts = counts(&text);
    let total: u64 = counts.iter().sum();
    let mut rows = Vec::new();
    for (at, count) in counts.iter().enumerate() {
        let title = match (at.checked_sub(1).map(|below| SIZES[below].1), SIZES.get(at)) {
            (None, Some((_, above))) => format!("below {above}"),
            (Some(below), Some((_, above))) => format!("between {below} and {above}"),
            (below, None) => format!("above {}", below.unwrap_or_default()),
        };
        let share = if total == 0 { 0.0 } else { *count as f64 * 100.0 / total as f64 };
        rows.push(json!({ "Message Size": title, "Count": count, "Percentage": format!("{share:.2}") }));
    }
    Ok(show.rows(&words(&["Message Size", "Count", "Percentage"]), &rows.into()))
}

/// How many messages there were of each size, of all protocols, as the metrics have it: `..._message_size_bytes_bucket` counts those
/// up to each bound.
fn counts(metrics: &str) -> [u64; SIZES.len() + 1] {
    let mut up_to: BTreeMap<usize, u64> = BTreeMap::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("rabbitmq_message_size_bytes_bucket{") else { continue };
        let Some((labels, value)) = rest.split_once("} ") else { continue };
        let bound = labels.split(',').find_map(|label| label.strip_prefix("le=\"")?.strip_suffix('"'));
        let at = match bound {
            Some("+Inf") => Some(SIZES.len()),
            Some(bound) => bound
                .parse::<f64>()
                .ok()
                .and_then(|bound| SIZES.iter().position(|(bytes, _)| *bytes as f64 == bound)),
            None => None,
        };
        if let (Some(at), Ok(count)) = (at, value.trim().parse::<f64>()) {
            *up_to.entry(at).or_default() += count as u64;
        }
    }
    let mut before = 0;
    std::array::from_fn(|at| {
        let all = up_to.get(&at).copied().unwrap_or(before);
        all.saturating_sub(std::mem::replace(&mut before, all))
    })
}

fn certificates(session: &Session<'_>) -> Result<String, Refusal> {
    let node = session.node()?;
    let show = session.announce(format!("Certificates of node {node} ..."));
    let settings = session.ask(&Request::Environment)?;
    let mut rows = Vec::new();
    for setting in settings.as_array().into_iter().flatten() {
        let (key, value) = (&setting["key"], setting["value"].as_str().unwrap_or_default());
        if key.as_str().is_some_and(|key| key.ends_with("certfile")) {
            rows.push(json!({ "setting": key, "file": value, "certificates": read(Path::new(value))? }));
        }
    }
    if session.is_for_programs() {
        return Ok(format!("{}\n", Value::Array(rows)));
    }
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let part = |row: &Value| {
        format!("{} = {}\n\n{}\n", text(row, "setting"), text(row, "file"), text(row, "certificates"))
    };
    match rows.is_empty() {
        true => Ok(show.message("(none)")),
        false => Ok(show.begin() + &rows.iter().map(part).collect::<String>()),
    }
}

/// The certificates in a file; keys that may be in it are nobody's business.
fn read(file: &Path) -> Result<String, Refusal> {
    let failed = |error: std::io::Error| failed(format!("{} cannot be read: {error}", file.display()));
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    std::io::Read::read_to_string(&mut std::io::Read::take(opened, CERTIFICATE_BYTES_MAX), &mut text)
        .map_err(failed)?;
    Ok(certificates_of(&text))
}

fn certificates_of(text: &str) -> String {
    let mut is_inside = false;
    let mut found = String::new();
    for line in text.lines() {
        is_inside |= line.starts_with("-----BEGIN CERTIFICATE-----");
        if is_inside {
            found.extend([line, "\n"]);
        }
        is_inside &= !line.starts_with("-----END CERTIFICATE-----");
    }
    found
}

fn interfaces(session: &Session<'_>) -> Result<String, Refusal> {
    let node = session.node()?;
    let show = session.announce(format!("Asking node {node} to report its network interfaces ..."));
    let mut all: BTreeMap<String, BTreeMap<&str, String>> = BTreeMap::new();
    // The tool is where the node is.
    let listed = std::fs::read_dir("/sys/class/net").map_err(|error| failed(error.to_string()))?;
    for entry in listed.flatten() {
        let told = |file: &str| {
            std::fs::read_to_string(entry.path().join(file)).ok().map(|text| text.trim().to_owned())
        };
        let fields = [("hwaddr", told("address")), ("state", told("operstate")), ("mtu", told("mtu"))];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        all.insert(entry.file_name().to_string_lossy().into_owned(), base::brief::collect(fields));
    }
    if session.is_for_programs() {
        let message = format!("Node {node} reported network interfaces");
        return Ok(format!("{}\n", json!({ "result": "ok", "message": message, "interfaces": all })));
    }
    let part = |(name, fields): (&String, &BTreeMap<&str, String>)| {
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("Interface {name}\n\n{fields}\n")
    };
    Ok(show.begin() + &all.iter().map(part).collect::<String>())
}

fn environment(session: &Session<'_>) -> Result<String, Refusal> {
    let node = session.node()?;
    let show =
        session.announce(format!("Listing RabbitMQ-specific environment variables defined on node {node}"));
    let rows = session.ask(&Request::Environment)?;
    let variable = |row: &Value| {
        let from = row["from"].as_str()?;
        let is_variable = from.starts_with("RABBITMQ_") || from.starts_with("LEVERET_");
        is_variable.then(|| (from.to_owned(), row["value"].clone()))
    };
    let all: BTreeMap<String, Value> =
        base::brief::collect(rows.as_array().into_iter().flatten().filter_map(variable));
    if session.is_for_programs() {
        return Ok(format!("{}\n", json!({ "result": "ok", "node": node, "variables": all })));
    }
    let line = |(name, value): (&String, &Value)| format!("{name}={}\n", value.as_str().unwrap_or_default());
    Ok(show.begin() + &all.iter().map(line).collect::<String>())
}

/// The words a process was started with.
fn command_line(pid: &Value) -> Vec<String> {
    let text = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
    let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Command lines with answers that make a report of the whole node.
pub(crate) const REPORT: [&[&str]; 9] = [
    &["status"],
    &["cluster_status"],
    &["environment"],
    &["list_connections", "pid", "name", "user", "vhost", "protocol", "state", "channels", "connected_at"],
    &["list_channels", "pid", "name", "user", "vhost", "consumer_count", "messages_unacknowledged"],
    &["list_vhosts", "name", "description", "tags", "default_queue_type", "tracing"],
    &["list_users"],
    &["list_global_parameters"],
    &["list_feature_flags"],
];

/// The same of a virtual host.
pub(crate) const REPORT_OF_VHOST: [&[&str]; 10] = [
    &[
        "list_queues",
        "name",
        "type",
        "durable",
        "arguments",
        "policy",
        "state",
        "messages_ready",
        "messages_unacknowledged",
        "consumers",
        "memory",
    ],
    &["list_exchanges", "name", "type", "durable", "auto_delete", "internal", "arguments", "policy"],
    &["list_bindings"],
    &["list_consumers"],
    &["list_permissions"],
    &["list_topic_permissions"],
    &["list_policies"],
    &["list_operator_policies"],
    &["list_parameters"],
    &["list_vhost_limits"],
];

/// The virtual hosts there are.
pub(crate) fn vhosts(session: &Session<'_>) -> Result<Vec<String>, Refusal> {
    let name = |row: Value| row["name"].as_str().unwrap_or_default().to_owned();
    Ok(items(session, &["vhosts"], "columns=name")?.into_iter().map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_between_their_bounds() {
        let metrics = "# TYPE rabbitmq_message_size_bytes histogram\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"100.0\"} 6\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"1000.0\"} 7\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"1e+06\"} 9\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"+Inf\"} 10\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"100.0\"} 1\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"1000.0\"} 1\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"1e+06\"} 1\n\
             rabbitmq_message_size_bytes_bucket{protocol=\"amqp10\",le=\"+Inf\"} 1\n\
             rabbitmq_message_size_bytes_sum 3\nnonsense{ 7\n";
        assert_eq!(counts(metrics), [7, 1, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(counts(""), [0; 9]);
    }

    #[test]
    fn of_a_file_certificates_alone_are_shown() {
        let text = "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nK\n\
                    -----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nB\n-----END CERTIFICATE-----\n";
        let expected = "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nB\n\
                        -----END CERTIFICATE-----\n";
        assert_eq!(certificates_of(text), expected);
    }
}
