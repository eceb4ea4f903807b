//! Words of scripts that were written for other versions, or for things that are not here: each says in RabbitMQ's
//! words that there is nothing to do or to list, or why it is not done.

use crate::listing::words;
use crate::request::Refusal;
use crate::session::{Session, done, failed};
use crate::show::Formatter;
use crate::{exit, queues::Rest};
use clap::Subcommand;
use serde_json::{Value, json};

/// The text of RabbitMQ's tools for a word that does nothing any more.
const NO_OP: &str = "This command is DEPRECATED and is a no-op. It will be removed in a future version.";

/// The text in place of a health check of former versions.
const CHECKS: &str =
    "Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead.";

/// Words that do nothing, or little. None is among those that help lists.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum FormerWord {
    /// Does nothing any more: see check_running and its kin
    #[command(hide = true)]
    NodeHealthCheck,
    /// Does nothing any more: nodes are not renamed
    #[command(hide = true)]
    RenameClusterNode(Rest),
    /// Does nothing any more: queues are not mirrored
    #[command(hide = true)]
    CheckIfNodeIsMirrorSyncCritical,
    /// Whether a policy mirrors classic queues: none can
    #[command(hide = true)]
    CheckIfClusterHasClassicQueueMirroringPolicy,
    /// Takes keys that mirror classic queues from policies: none has any
    #[command(hide = true)]
    RemoveClassicQueueMirroringFromPolicies,
    /// Policies that mirror classic queues: none can
    #[command(hide = true)]
    ListPoliciesWithClassicQueueMirroring,
    /// The operator's policies that mirror classic queues: none can
    #[command(hide = true)]
    ListOperatorPoliciesWithClassicQueueMirroring,
    /// Has virtual hosts served that are not: all are
    #[command(hide = true)]
    ReconcileVhosts,
    /// Forgets rates and their history
    #[command(hide = true)]
    ResetStatsDb {
        /// On all nodes
        #[arg(long)]
        all: bool,
    },
    /// Counts logins anew
    #[command(hide = true)]
    ResetNodeAuthAttemptMetrics,
    /// Counts logins by address and user: not done here
    #[command(hide = true)]
    EnableAuthAttemptSourceTracking,
    /// Counts logins no longer by address and user: they are not
    #[command(hide = true)]
    DisableAuthAttemptSourceTracking,
    /// Watches free disk space: always done
    #[command(hide = true)]
    ActivateFreeDiskSpaceMonitoring,
    /// Does not watch free disk space: always done
    #[command(hide = true)]
    DeactivateFreeDiskSpaceMonitoring,
    /// Interceptors between channels and their clients: none
    #[command(hide = true)]
    ListChannelInterceptors,
    /// Connections of MQTT, which is not served yet: none
    #[command(hide = true)]
    ListMqttConnections { columns: Vec<String> },
    /// Connections of STOMP, which is not served: none
    #[command(hide = true)]
    ListStompConnections { columns: Vec<String> },
    /// Connections of MQTT through WebSocket, which is not served yet: none
    #[command(hide = true)]
    ListWebMqttConnections { columns: Vec<String> },
    /// Deletes a shovel
    #[command(hide = true)]
    DeleteShovel { name: String },
    /// Starts a shovel anew: none runs
    #[command(hide = true)]
    RestartShovel { name: String },
    /// Starts a federation link anew: none runs
    #[command(hide = true)]
    RestartFederationLink { id: String },
    /// The points of a consistent hash exchange: there are none here
    #[command(hide = true)]
    ConsistentHashExchangeRingState { exchange: String },
    /// The runtime's resolver of names: the system's own
    #[command(hide = true)]
    ResolverInfo {
        /// Without a node that runs
        #[arg(long)]
        offline: bool,
    },
}

pub(crate) fn run(word: &FormerWord, session: &Session<'_>) -> Result<String, Refusal> {
    let vhost = session.vhost();
    let none = |banner: &str| Ok(session.show(Formatter::Table, banner).rows(&[], &json!([])));
    match word {
        FormerWord::NodeHealthCheck => Ok(format!("{NO_OP} \n{CHECKS}\n")),
        FormerWord::RenameClusterNode(_) => {
            Ok("DEPRECATED. This command is a no-op. Node renaming is incompatible with \
             Raft-based features such as quorum queues, streams, Khepri. \n"
                .to_owned())
        }
        FormerWord::CheckIfNodeIsMirrorSyncCritical => Ok(format!("{NO_OP}\nok\n")),
        FormerWord::CheckIfClusterHasClassicQueueMirroringPolicy => {
            let show = session.announce("Checking if cluster has any classic queue mirroring policy ...");
            Ok(show.message("Cluster reported no classic queue mirroring policies"))
        }
        FormerWord::RemoveClassicQueueMirroringFromPolicies => {
            let text =
                "Will remove keys that enable classic queue mirroring from all regular and operator policies";
            Ok(session.announce(text).begin())
        }
        FormerWord::ListPoliciesWithClassicQueueMirroring => {
            none("Listing policies with classic queue mirroring ...")
        }
        FormerWord::ListOperatorPoliciesWithClassicQueueMirroring => {
            none("Listing operator policies with classic queue mirroring ...")
        }
        FormerWord::ReconcileVhosts => {
            let text = "Will try to initiate virtual host reconciliation on all reachable cluster nodes...";
            session.node()?;
            Ok(session.announce(text).begin())
        }
        FormerWord::ResetStatsDb { all } => {
            let node = session.node()?;
            let show = session.announce(match all {
                true => "Resetting statistics database in all nodes".to_owned(),
                false => format!("Resetting statistics database on node {node}"),
            });
            done(session.api("DELETE", &["reset"], "", None)?)?;
            Ok(show.begin())
        }
        FormerWord::ResetNodeAuthAttemptMetrics => {
            let node = session.node()?;
            let show = session.announce(format!("Reset auth attempt metrics on node {node} ..."));
            done(session.api("DELETE", &["auth", "attempts", &node], "", None)?)?;
            Ok(show.begin())
        }
        FormerWord::EnableAuthAttemptSourceTracking => {
            session.announce("Enabling authentication attempt source tracking ...");
            Err(failed("logins are counted by protocol, not by address and user"))
        }
        FormerWord::DisableAuthAttemptSourceTracking => {
            Ok(session.announce("Disabling authentication attempt source tracking ...").begin())
        }
        FormerWord::ActivateFreeDiskSpaceMonitoring => {
            let node = session.node()?;
            Ok(session.announce(format!("[Re-]activating free disk space monitoring on node {node}")).begin())
        }
        FormerWord::DeactivateFreeDiskSpaceMonitoring => {
            let node = session.node()?;
            session.announce(format!("Deactivating free disk space monitoring on node {node}"));
            Err(failed("free disk space is always watched; set_disk_free_limit 0 has it mean nothing"))
        }
        FormerWord::ListChannelInterceptors => none("Listing channel interceptors ..."),
        FormerWord::ListMqttConnections { columns } => no_connections(session, "MQTT", columns),
        FormerWord::ListStompConnections { columns } => no_connections(session, "STOMP", columns),
        FormerWord::ListWebMqttConnections { columns } => no_connections(session, "Web MQTT", columns),
        FormerWord::DeleteShovel { name } => {
            let show = session.announce(format!("Deleting shovel {name} in vhost {vhost}"));
            let response = session.api("DELETE", &["parameters", "shovel", vhost, name], "", None)?;
            match response.status {
                200..=299 => Ok(show.begin()),
                _ => Err(no_shovel(session, name)?),
            }
        }
        FormerWord::RestartShovel { name } => {
            let node = session.node()?;
            session
                .announce(format!("Restarting dynamic Shovel {name} in virtual host {vhost} on node {node}"));
            Err(no_shovel(session, name)?)
        }
        FormerWord::RestartFederationLink { id } => {
            let node = session.node()?;
            session.announce(format!("Restarting federation link {id} on node {node}"));
            Err(failed("Link with the given ID was not found"))
        }
        FormerWord::ConsistentHashExchangeRingState { exchange } => {
            session.announce(format!(
                "Inspecting consistent hashing ring state for exchange {exchange} in virtual host '{vhost}'..."
            ));
            let found = session.find(&["exchanges", vhost, exchange])?.unwrap_or_default();
            let message = match found["type"].as_str() {
                Some("x-consistent-hash") => {
                    "Error:\nexchanges have no rings here: each message is hashed anew"
                }
                _ => "Error:\nExchange does not exist or is of a different type",
            };
            Err(Refusal { code: exit::DATA, message: message.to_owned() })
        }
        FormerWord::ResolverInfo { offline } => resolver(session, *offline),
    }
}

/// Connections of a protocol that nobody can speak here.
fn no_connections(session: &Session<'_>, protocol: &str, columns: &[String]) -> Result<String, Refusal> {
    let show = session.show(Formatter::Table, format!("Listing {protocol} connections ..."));
    Ok(show.rows(columns, &json!([])))
}

fn no_shovel(session: &Session<'_>, name: &str) -> Result<Refusal, Refusal> {
    let (node, vhost) = (session.node()?, session.vhost());
    Ok(failed(format!(
        "Shovel with the given name was not found on the target node '{node}' and / or virtual host '{vhost}': {name}"
    )))
}

fn resolver(session: &Session<'_>, is_offline: bool) -> Result<String, Refusal> {
    let node = if is_offline { String::new() } else { session.node()? };
    let show = session.announce(match is_offline {
        true => "Asking CLI node for its effective hostname resolver (inetrc) configuration...".to_owned(),
        false => format!("Asking node {node} for its effective hostname resolver (inetrc) configuration..."),
    });
    let told = [("lookup", "native"), ("hosts_file", "/etc/hosts"), ("resolv_conf", "/etc/resolv.conf")];
    if session.is_for_programs() {
        let resolver: Value =
            told.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        return Ok(format!("{}\n", json!({ "result": "ok", "node": node, "resolver": resolver })));
    }
    let titles = words(&["Lookup order", "Hosts file", "Resolver conf file"]);
    let lines: String =
        titles.iter().zip(told).map(|(title, (_, value))| format!("{title}: {value}\n")).collect();
    Ok(format!("{}Runtime Hostname Resolver (inetrc) Settings\n\n{lines}", show.begin()))
}
