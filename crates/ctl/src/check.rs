//! Whether a node is well, as probes ask: each word says so and ends with 0, or gives the trouble and ends with 69.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool is a process of its own: it waits, connects and reads files"
)]

use crate::exit;
use crate::request::{Refusal, Request};
use crate::session::{Session, bad_word, done, failed, reason};
use crate::show::{Formatter, Show};
use clap::Subcommand;
use serde_json::{Value, json};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Milliseconds a connection to a listener may take, where the command line does not say.
const CONNECT_MS: u64 = 30_000;

/// Words about health.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum CheckWord {
    /// Whether the node serves
    CheckRunning,
    /// Whether the node serves; ends with 0 either way
    IsRunning,
    /// Whether the node is on its way up; ends with 0 either way
    IsBooting,
    /// Whether no alarm is raised on this node
    CheckLocalAlarms,
    /// Whether no alarm is raised
    CheckAlarms,
    /// Which alarms are raised
    Alarms,
    /// Whether every port that is listened on can be connected to
    CheckPortConnectivity {
        /// Where to connect to instead of the listeners' own addresses
        #[arg(long)]
        address: Option<String>,
    },
    /// Whether a port is listened on
    CheckPortListener { port: String },
    /// Whether a protocol is listened for: amqp, amqps, stream, http, ...
    CheckProtocolListener { protocol: String },
    /// Whether every virtual host is served
    CheckVirtualHosts,
    /// Whether every certificate is valid long enough
    CheckCertificateExpiration {
        /// The number of units from now on
        #[arg(long, default_value_t = 4)]
        within: u32,
        /// The unit: days, weeks, months, years
        #[arg(long, default_value = "weeks")]
        unit: String,
    },
    /// Whether queues would be lost to their users without this node
    CheckIfNodeIsQuorumCritical,
    /// Whether deprecated features are used
    CheckIfAnyDeprecatedFeaturesAreUsed,
    /// Whether quorum queues have leaders
    CheckForQuorumQueuesWithoutAnElectedLeader {
        /// Those of all virtual hosts
        #[arg(long = "across-all-vhosts")]
        across_all_vhosts: bool,
        /// A regular expression over the names of queues
        #[arg(default_value = "^")]
        pattern: String,
    },
    /// Whether the definitions are loaded
    CheckIfMetadataStoreIsInitialized,
    /// Whether the definitions are loaded, and there are any
    CheckIfMetadataStoreIsInitializedWithData,
    /// Whether all members of queues have the same messages
    CheckIfNewQuorumQueueReplicasHaveFinishedInitialSync,
    /// Whether the cluster has its target size
    HasReachedTargetClusterSize,
    /// Addresses, ports and protocols the node listens on
    Listeners,
    /// The version that the node gives as its own
    ServerVersion,
}

pub(crate) fn run(word: &CheckWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    match word {
        CheckWord::CheckRunning => {
            let node = session.node()?;
            let banner = format!("Checking if RabbitMQ is running on node {node} ...");
            let show = session.announce(banner);
            if !session.is_running()? {
                return Err(failed(not_running(&node)));
            }
            Ok(show.message(&format!("RabbitMQ on node {node} is fully booted and running")))
        }
        CheckWord::IsRunning => match session.node() {
            Ok(node) => {
                let show = session.announce(format!("Asking node {node} for its status ..."));
                if !session.is_running()? {
                    return Ok(told(session, &show.begin(), &not_running(&node), false));
                }
                let text = format!("RabbitMQ on node {node} is fully booted and running");
                Ok(told(session, &show.begin(), &text, true))
            }
            Err(_) => Ok(told(session, "", "RabbitMQ is not running", false)),
        },
        CheckWord::IsBooting => {
            let node = session.node()?;
            let show = session.announce(format!("Asking node {node} for its boot status ..."));
            let text = format!(
                "RabbitMQ on node {node} is fully booted (check with is_running), stopped or has not started \
                 booting yet"
            );
            Ok(told(session, &show.begin(), &text, false))
        }
        CheckWord::CheckLocalAlarms => alarms(session, "any local resource alarms", "no local alarms", true),
        CheckWord::CheckAlarms => {
            alarms(session, "any local resource alarms", "no alarms, local or clusterwide", true)
        }
        CheckWord::Alarms => {
            alarms(session, "any known resource alarms", "no alarms, local or clusterwide", false)
        }
        CheckWord::CheckPortConnectivity { address } => connectivity(session, address.as_deref()),
        CheckWord::CheckPortListener { port } => port_listener(session, port),
        CheckWord::CheckProtocolListener { protocol } => protocol_listener(session, protocol),
        CheckWord::CheckVirtualHosts => {
            let node = session.node()?;
            let banner = format!("Checking if all vhosts are running on node {node} ...");
            passes(
                session,
                banner,
                &["virtual-hosts"],
                &format!("Node {node} reported all vhosts as running"),
            )
        }
        CheckWord::CheckCertificateExpiration { within, unit } => {
            let node = session.node()?;
            let banner = format!("Checking certificate expiration for all certificates on node {node} ...");
            let number = within.to_string();
            let path = ["certificate-expiration", number.as_str(), unit.as_str()];
            let units = if *within == 1 { unit.trim_end_matches('s') } else { unit };
            passes(session, banner, &path, &format!("No certificates are expiring within {within} {units}."))
        }
        CheckWord::CheckIfNodeIsQuorumCritical => {
            let node = session.node()?;
            let banner = format!("Checking if node {node} is critical for quorum of any queues/streams ...");
            let alone = "seems to be the only one in a single node cluster, the check does not apply";
            let text =
                passes(session, banner, &["node-is-quorum-critical"], &format!("Node {node} {alone}"))?;
            match session.is_for_programs() {
                true => {
                    let message = format!("Target node {alone}");
                    Ok(format!("{}\n", json!({ "result": "ok", "message": message })))
                }
                false => Ok(text),
            }
        }
        CheckWord::CheckIfAnyDeprecatedFeaturesAreUsed => {
            let show = session.announce("Checking if any deprecated features are used ...");
            let used = session.get(&["deprecated-features", "used"])?;
            let names: Vec<&str> =
                used.as_array().into_iter().flatten().filter_map(|row| row["name"].as_str()).collect();
            match names.is_empty() {
                true => Ok(is_well(session, &show, "Cluster reported no deprecated features in use")),
                false => Err(failed(format!(
                    "Cluster reported the following deprecated features in use: {}",
                    names.join(", ")
                ))),
            }
        }
        CheckWord::CheckForQuorumQueuesWithoutAnElectedLeader { across_all_vhosts, pattern } => {
            let node = session.node()?;
            let r#where =
                if *across_all_vhosts { "all virtual hosts".to_owned() } else { format!("vhost {vhost}") };
            let banner =
                format!("Checking leader replicas of quorum queues matching '{pattern}' in {} ...", r#where);
            let text = format!("Node {node} reported all quorum queue as having responsive leader replicas");
            let check = "quorum-queues-without-elected-leaders";
            match across_all_vhosts {
                true => passes(session, banner, &[check, "all-vhosts", "pattern", pattern], &text),
                false => passes(session, banner, &[check, "vhost", vhost, "pattern", pattern], &text),
            }
        }
        CheckWord::CheckIfMetadataStoreIsInitialized => store(session, &["metadata-store", "initialized"]),
        CheckWord::CheckIfMetadataStoreIsInitializedWithData => {
            store(session, &["metadata-store", "initialized", "with-data"])
        }
        CheckWord::CheckIfNewQuorumQueueReplicasHaveFinishedInitialSync => {
            let node = session.node()?;
            let show = session
                .announce(format!("Checking if node {node} runs promotable replicas of any queues ..."));
            Ok(show.message(&format!("Node {node} reported no queues with promotable replicas")))
        }
        CheckWord::HasReachedTargetClusterSize => {
            let node = session.node()?;
            let banner = format!("Checking if target cluster size has been reached on node {node} ...");
            let text = format!("Target cluster size has been reached on node {node}");
            passes(session, banner, &["reached-target-cluster-size"], &text)
        }
        CheckWord::Listeners => {
            let (node, rows) = listeners(session)?;
            let show = session.announce(format!("Asking node {node} to report its protocol listeners ..."));
            if session.is_for_programs() {
                let all = json!({ "result": "ok", "node": node, "listeners": rows });
                return Ok(format!("{all}\n"));
            }
            let lines: Vec<String> = rows.iter().map(crate::show::listener).collect();
            Ok(show.begin() + &lines.join("\n") + "\n")
        }
        CheckWord::ServerVersion => {
            let told = session.ask(&Request::Ping)?;
            let node = told["node"].as_str().unwrap_or_default();
            let show = session.announce(format!("Asking node {node} for its RabbitMQ version..."));
            match session.is_for_programs() {
                true => Ok(format!("{}\n", json!({ "result": "ok", "value": told["version"] }))),
                false => Ok(show.message(told["version"].as_str().unwrap_or_default())),
            }
        }
    }
}

fn not_running(node: &str) -> String {
    format!("RabbitMQ on node {node} is not running or has not fully booted yet (check with is_booting)")
}

/// A sentence that is an answer, yes or no.
fn told(session: &Session<'_>, begin: &str, text: &str, result: bool) -> String {
    match session.is_for_programs() {
        true => format!("{}\n", json!({ "message": text, "result": result })),
        false => format!("{begin}{text}\n"),
    }
}

/// Asks a health check of the HTTP API.
fn passes(session: &Session<'_>, banner: String, check: &[&str], text: &str) -> Result<String, Refusal> {
    let show = session.announce(banner);
    let path: Vec<&str> = ["health", "checks"].into_iter().chain(check.iter().copied()).collect();
    let response = session.api("GET", &path, "", None)?;
    match response.status {
        503 => Err(failed(reason(&response))),
        _ => done(response).map(|_| is_well(session, &show, text)),
    }
}

/// That all is well: programs are told so in a word.
fn is_well(session: &Session<'_>, show: &Show, text: &str) -> String {
    match session.is_for_programs() {
        true => format!("{}\n", json!({ "result": "ok" })),
        false => show.message(text),
    }
}

fn store(session: &Session<'_>, check: &[&str]) -> Result<String, Refusal> {
    let node = session.node()?;
    let banner = format!("Checking if metadata store on node {node} has finished initializing ...");
    passes(session, banner, check, &format!("Metadata store on node {node} has completed its initialization"))
}

fn alarms(session: &Session<'_>, what: &str, none: &str, is_check: bool) -> Result<String, Refusal> {
    let status = session.ask(&Request::Status)?;
    let node = status["node"].as_str().unwrap_or_default();
    let raised: Vec<&str> =
        status["alarms"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let show = session.announce(format!("Asking node {node} to report {what} ..."));
    if session.is_for_programs() && is_check && raised.is_empty() {
        return Ok(is_well(session, &show, ""));
    }
    if session.is_for_programs() && !is_check {
        let rows: Vec<Value> = raised.iter().map(|what| json!({ "node": node, "resource": what })).collect();
        return Ok(format!("{}\n", json!({ "result": "ok", "node": node, "alarms": rows })));
    }
    if raised.is_empty() {
        return Ok(show.message(&format!("Node {node} reported {none}")));
    }
    let line = |what: &&str| match *what {
        "disk" => format!("Free disk space alarm on node {node}"),
        "memory" => format!("Memory alarm on node {node}"),
        other => format!("Resource alarm on node {node}: {other}"),
    };
    let lines: Vec<String> = raised.iter().map(line).collect();
    let text = format!("Node {node} reported alarms:\n{}", lines.join("\n"));
    if is_check { Err(failed(text)) } else { Ok(show.begin() + &text + "\n") }
}

/// The node's name, and where it listens.
fn listeners(session: &Session<'_>) -> Result<(String, Vec<Value>), Refusal> {
    let mut status = session.ask(&Request::Status)?;
    let rows = match status["listeners"].take() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    };
    Ok((status["node"].as_str().unwrap_or_default().to_owned(), rows))
}

fn ports(rows: &[Value]) -> Vec<u16> {
    let mut ports: Vec<u16> = rows.iter().filter_map(|row| row["port"].as_u64()?.try_into().ok()).collect();
    base::brief::sort(&mut ports);
    ports.dedup();
    ports
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn port_listener(session: &Session<'_>, port: &str) -> Result<String, Refusal> {
    let no = |_| bad_word(exit::DATA, "Bad argument: Argument must be a positive integer");
    let port: u16 = port.parse().map_err(no)?;
    let (node, rows) = listeners(session)?;
    let banner = format!("Asking node {node} if there's an active listener on port {port} ...");
    let show = session.announce(banner);
    let ports = ports(&rows);
    if ports.contains(&port) {
        return Ok(show.message(&format!("A listener for port {port} is running on node {node}.")));
    }
    let message = match session.is_for_programs() {
        true => json!({ "result": "error", "missing": port, "ports": ports, "listeners": rows }).to_string(),
        false => format!(
            "No listener for port {port} is active on node {node}. Found listeners that use the following \
             ports: {}",
            joined(&ports)
        ),
    };
    Err(Refusal { code: exit::UNAVAILABLE, message })
}

fn protocol_listener(session: &Session<'_>, protocol: &str) -> Result<String, Refusal> {
    let (node, rows) = listeners(session)?;
    let banner = format!("Asking node {node} if there's an active listener for protocol {protocol} ...");
    let show = session.announce(banner);
    // Other names they go by.
    let name = protocol.to_ascii_lowercase();
    let meant = match &*name {
        "amqp091" | "amqp0.9.1" | "amqp0-9-1" | "amqp10" | "amqp1.0" | "amqp1-0" => "amqp",
        "amqps" => "amqp/ssl",
        "mqtts" => "mqtt/ssl",
        "https" => "https",
        "management" => "http",
        "streams" => "stream",
        other => other,
    };
    let mut served: Vec<&str> = rows.iter().filter_map(|row| row["protocol"].as_str()).collect();
    base::brief::sort(&mut served);
    served.dedup();
    match served.contains(&meant) {
        true if session.is_for_programs() => {
            Ok(format!("{}\n", json!({ "result": "ok", "node": node, "protocol": protocol })))
        }
        true => Ok(show.message(&format!("A listener for protocol {protocol} is running on node {node}."))),
        false => Err(failed(format!(
            "No listener for protocol {meant} is active on node {node}. Found listeners for the following \
             protocols: {}",
            joined(&served)
        ))),
    }
}

fn connectivity(session: &Session<'_>, address: Option<&str>) -> Result<String, Refusal> {
    let (node, rows) = listeners(session)?;
    let how = match address {
        Some(address) => format!("using {address} for node IP address"),
        None => "using the addresses they are bound to".to_owned(),
    };
    let show = session.show(
        Formatter::String,
        format!("Testing TCP connections to all active listeners on node {node} {how} ..."),
    );
    let patience = session.timeout().map_or(CONNECT_MS, |seconds| u64::from(seconds) * 1000);
    let (mut text, mut refused) = (show.begin(), Vec::new());
    for row in &rows {
        let port = row["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
        let host = match address.unwrap_or_else(|| row["interface"].as_str().unwrap_or_default()) {
            "[::]" | "::" | "0.0.0.0" | "" => "localhost",
            host => host.trim_start_matches('[').trim_end_matches(']'),
        };
        text.push_str(&format!("Will connect to {host}:{port}\n"));
        let patience = Duration::from_millis(patience.max(1));
        let mut found = (host, port).to_socket_addrs().into_iter().flatten();
        if !found.any(|address| TcpStream::connect_timeout(&address, patience).is_ok()) {
            refused.push(port);
        }
    }
    match refused.is_empty() {
        true => {
            let ports = joined(&ports(&rows));
            Ok(format!("{text}Successfully connected to ports {ports} on node {node} ({how})\n"))
        }
        false => {
            Err(failed(format!("Connection attempts failed for ports {} on node {node}", joined(&refused))))
        }
    }
}
