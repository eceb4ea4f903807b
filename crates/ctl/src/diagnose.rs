//! The words that look into the node and its surroundings, as `rabbitmq-diagnostics` has them.

use crate::exit;
use crate::listing::words;
use crate::request::{Refusal, Request};
use crate::session::{Session, failed, reason};
use crate::show::Formatter;
use clap::{Subcommand, ValueEnum};
use serde_json::json;
use std::net::{IpAddr, ToSocketAddrs};

/// Words that look closer.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum DiagnoseWord {
    /// Versions of TLS that the node can speak, also those that no listener takes
    TlsVersions,
    /// Cipher suites that the node can speak
    CipherSuites {
        /// The standard of their names
        #[arg(long, default_value = "openssl")]
        format: Names,
    },
    /// Addresses of a host
    ResolveHostname {
        hostname: String,
        /// IPv4 or IPv6
        #[arg(short = 'a', long = "address-family", default_value = "IPv4", ignore_case = true)]
        address_family: Family,
        /// Without a node that runs
        #[arg(long)]
        offline: bool,
    },
    /// The members that keep the definitions: one, on this node
    MetadataStoreStatus,
    /// Begins to serve a virtual host; all are served
    RestartVhost,
    /// Gives memory that is not needed back to the system, as force_gc does
    ReclaimQuorumMemory { queue: String },
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    /// Of four bytes
    #[value(name = "IPv4")]
    V4,
    /// Of sixteen bytes
    #[value(name = "IPv6")]
    V6,
}

/// Names of cipher suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Names {
    /// Those of OpenSSL
    Openssl,
    /// Those of the registry
    Iana,
}

const VERSIONS: [&str; 2] = ["tlsv1.3", "tlsv1.2"];

/// Cipher suites of the node's library: the names of OpenSSL, and of the registry.
const SUITES: [(&str, &str); 9] = [
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

pub(crate) fn run(word: &DiagnoseWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    match word {
        DiagnoseWord::TlsVersions => {
            session.node()?;
            let show = session.announce("Listing all TLS versions supported by the runtime...");
            if session.is_for_programs() {
                return Ok(format!("{}\n", json!({ "versions": VERSIONS })));
            }
            Ok(show.message(&VERSIONS.join("\n")))
        }
        DiagnoseWord::CipherSuites { format } => {
            session.node()?;
            let (title, names) = match format {
                Names::Openssl => ("OpenSSL", SUITES.map(|(openssl, _)| openssl)),
                Names::Iana => ("IANA", SUITES.map(|(_, iana)| iana)),
            };
            let show = session.announce(format!("Listing available cipher suites in {title} format"));
            if session.is_for_programs() {
                return Ok(format!("{}\n", json!({ "cipher_suites": names })));
            }
            Ok(show.message(&names.join("\n")))
        }
        DiagnoseWord::ResolveHostname { hostname, address_family, offline } => {
            let family = if *address_family == Family::V4 { "IPv4" } else { "IPv6" };
            // The tool is where the node is.
            let banner = match offline {
                true => format!("Resolving hostname {hostname} to {family} addresses..."),
                false => {
                    let node = session.node()?;
                    format!("Asking node {node} to resolve hostname {hostname} to {family} addresses...")
                }
            };
            let show = session.announce(banner);
            let is_wanted = |address: &IpAddr| address.is_ipv4() == (*address_family == Family::V4);
            let found = (hostname.as_str(), 0).to_socket_addrs().into_iter().flatten();
            let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).filter(is_wanted).collect();
            addresses.dedup();
            if addresses.is_empty() {
                let why = "Error:\nHostname does not resolve (resolution failed with an nxdomain)";
                return Err(Refusal { code: exit::DATA, message: why.to_owned() });
            }
            let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            if session.is_for_programs() {
                let all = json!({
                    "result": "ok", "node": session.node()?, "hostname": hostname, "address_family": family,
                    "addresses": addresses,
                });
                return Ok(format!("{all}\n"));
            }
            Ok(show.message(&addresses.join("\n")))
        }
        DiagnoseWord::MetadataStoreStatus => {
            let node = session.node()?;
            let banner = format!("Status of metadata store on node {node} ...");
            let show = session.show(Formatter::PrettyTable, banner);
            let row = json!({ "Node Name": node, "Raft State": "leader", "Membership": "voter" });
            Ok(show.rows(&words(&["Node Name", "Raft State", "Membership"]), &json!([row])))
        }
        DiagnoseWord::RestartVhost => {
            let node = session.node()?;
            let show = session.announce(format!("Trying to restart vhost '{vhost}' on node '{node}' ..."));
            let response = session.api("POST", &["vhosts", vhost, "start", &node], "", None)?;
            if !(200..300).contains(&response.status) {
                let why = reason(&response);
                let message =
                    format!("Error:\nFailed to start vhost '{vhost}' on node '{node}'\nReason: {why}");
                return Err(Refusal { code: exit::SOFTWARE, message });
            }
            Ok(show.message(&format!("Vhost '{vhost}' is already running on node '{node}'")))
        }
        DiagnoseWord::ReclaimQuorumMemory { queue } => {
            let show = session.announce(format!("Will flush Raft WAL of quorum queue {queue} ..."));
            let found = session.find(&["queues", vhost, queue])?;
            let found = found
                .ok_or_else(|| failed(format!("Target queue was not found in virtual host '{vhost}'")))?;
            if found["type"] != "quorum" {
                return Err(failed("This operation is not applicable to classic queues"));
            }
            session.ask(&Request::Trim)?;
            Ok(show.begin())
        }
    }
}
