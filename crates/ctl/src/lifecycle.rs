//! The words about the node itself: waiting for it, ending it, its log, its parts.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool is a process of its own: it waits, connects and reads files"
)]

use crate::request::{Refusal, Request};
use crate::session::{Session, bad_word, done, failed};
use crate::show::Formatter;
use crate::{cluster_status, exit, listing};
use base::rabbitmq::PLUGINS;
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Milliseconds between two looks at whether something has happened.
const LOOK_MS: u64 = 100;

/// Seconds that are waited for a node to come or to go, where the command line does not say.
const WAIT_S: u32 = 300;

/// Levels of the log, as RabbitMQ's tool takes them.
const LEVELS: [&str; 6] = ["debug", "info", "warning", "error", "critical", "none"];

/// Words about the node.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum LifeWord {
    /// Waits until the node serves
    AwaitStartup,
    /// Waits until the process that a file names serves
    #[command(group = clap::ArgGroup::new("process").required(true))]
    Wait {
        /// The file the node writes its process id to
        #[arg(group = "process")]
        pid_file: Option<PathBuf>,
        /// The process id itself
        #[arg(short = 'P', long, group = "process")]
        pid: Option<u32>,
    },
    /// Waits until this number of nodes serves; there is one
    AwaitOnlineNodes { count: u32 },
    /// Ends the node; with the file of its process id, waits until it has ended
    Stop { pid_file: Option<PathBuf> },
    /// Ends the node, and waits until it has ended
    Shutdown {
        /// Returns at once
        #[arg(long = "no-wait")]
        no_wait: bool,
    },
    /// Stops all of the node but its process: listeners and connections are closed, messages and definitions are kept
    StopApp,
    /// Starts a node again that stop_app has stopped
    StartApp,
    /// Deletes all data of a node that stop_app has stopped
    Reset,
    /// Refused, as by RabbitMQ: reset does it
    #[command(hide = true)]
    ForceReset,
    /// The version of the tool
    Version,
    /// Nodes of the cluster: this one
    ClusterStatus,
    /// The node's settings: those of its files, its environment and its command line
    Environment,
    /// Sets the level of the log until the node stops
    SetLogLevel { level: String },
    /// Moves a log with its queues to another shard while it serves; a restart spreads logs anew
    MoveLog {
        /// The number of the log
        log: u32,
        /// The number of the shard
        shard: u16,
    },
    /// Replicas of logs that the node has with others, and its lanes to them, as JSON: an experiment
    #[command(hide = true)]
    ReplicaStatus,
    /// Has another node lead a log that this one leads; says as JSON whether this one did: an experiment
    #[command(hide = true)]
    GiveLead {
        /// The number of the log
        log: u32,
        /// The number of the node, as `replica_status` has it
        to: u16,
    },
    /// Places the log is written to
    LogLocation,
    /// The last lines of the log
    LogTail {
        /// Number of lines
        #[arg(short = 'N', long, default_value_t = 50)]
        number: u32,
    },
    /// Gives unused memory back to the system
    ForceGc,
}

pub(crate) fn run(word: &LifeWord, session: &Session<'_>) -> Result<String, Refusal> {
    match word {
        LifeWord::AwaitStartup => {
            await_start(session, || Ok(()))?;
            Ok(String::new())
        }
        LifeWord::Wait { pid_file, pid } => wait(session, pid_file.as_deref(), *pid),
        LifeWord::AwaitOnlineNodes { count } => {
            let seconds = session.timeout().unwrap_or(WAIT_S);
            let show = session.announce(format!(
                "Will wait for at least {count} nodes to join the cluster of {}. Timeout: {seconds} seconds.",
                session.node().unwrap_or_else(|_| "the node".to_owned())
            ));
            if *count > 1 {
                return Err(bad_word(exit::USAGE, "there is one node here: a cluster is not served yet"));
            }
            await_start(session, || Ok(()))?;
            Ok(show.begin())
        }
        LifeWord::Stop { pid_file } => {
            let node = session.node()?;
            let show = session.announce(format!("Stopping and halting node {node} ..."));
            let pid = pid_file.as_deref().map(read_pid).transpose()?;
            session.ask(&Request::Stop)?;
            if let Some(pid) = pid {
                await_end(session, pid)?;
            }
            Ok(show.begin())
        }
        LifeWord::Shutdown { no_wait } => {
            let told = session.ask(&Request::Ping)?;
            let node = told["node"].as_str().unwrap_or_default();
            let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default();
            let rest = if *no_wait { "" } else { " and wait for its OS process to terminate" };
            let show =
                session.announce(format!("Shutting down RabbitMQ node {node} running at PID {pid}{rest}"));
            session.ask(&Request::Stop)?;
            if *no_wait {
                return Ok(show.begin());
            }
            await_end(session, pid)?;
            let text = format!("RabbitMQ node {node} running at PID {pid} successfully shut down");
            Ok(show.message(&text))
        }
        LifeWord::StopApp => {
            let node = session.node()?;
            let show = session.announce(format!("Stopping rabbit application on node {node} ..."));
            session.ask(&Request::StopApp)?;
            // It does not answer for a moment.
            until(session, || Ok(matches!(session.is_running(), Ok(false))))?;
            Ok(show.begin())
        }
        LifeWord::StartApp => {
            let told = session.ask(&Request::Ping)?;
            let node = told["node"].as_str().unwrap_or_default();
            let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default();
            let show = session.announce(format!("Starting node {node} ..."));
            session.ask(&Request::StartApp)?;
            until(session, || match session.ask(&Request::Ping) {
                Ok(told) => match told["failed"].as_str() {
                    Some(why) => Err(failed(format!("the node could not start, and waits: {why}"))),
                    None => Ok(told["state"] == crate::RUNNING),
                },
                Err(_) if is_there(pid) => Ok(false),
                Err(_) => Err(failed("the node could not start, and has ended; its log says why")),
            })?;
            Ok(show.begin())
        }
        LifeWord::Reset => {
            let node = session.node()?;
            let show = session.announce(format!("Resetting node {node} ..."));
            session.ask(&Request::Reset)?;
            Ok(show.begin())
        }
        LifeWord::ForceReset => {
            let node = session.node()?;
            session.announce(format!("Forcefully resetting node {node} ..."));
            Err(failed("Forced reset is unsupported: reset does it"))
        }
        LifeWord::Version if session.is_for_programs() => {
            Ok(format!("{}\n", json!({ "result": "ok", "value": { "version": crate::TOOL_VERSION } })))
        }
        LifeWord::Version => Ok(format!("{}\n", crate::TOOL_VERSION)),
        LifeWord::ClusterStatus => cluster_status::run(session),
        LifeWord::Environment => {
            let node = session.node()?;
            let show = session.show(Formatter::Table, format!("Application environment of node {node} ..."));
            let rows = session.ask(&Request::Environment)?;
            Ok(show.rows(&listing::words(&["key", "value", "from"]), &rows))
        }
        LifeWord::SetLogLevel { level } => {
            if !LEVELS.contains(&&**level) {
                let levels = LEVELS.join(", ");
                return Err(failed(format!("level {level} is not supported. Try one of {levels}")));
            }
            let show = session.announce(format!("Setting log level to \"{level}\" ..."));
            session.ask(&Request::SetLogLevel { level: level.clone() })?;
            Ok(show.begin())
        }
        LifeWord::MoveLog { log, shard } => {
            let show = session.announce(format!("Moving log {log} to shard {shard} ..."));
            session.ask(&Request::MoveLog { log: *log, shard: *shard })?;
            Ok(show.begin())
        }
        LifeWord::ReplicaStatus => Ok(format!("{}\n", session.ask(&Request::Replicas)?)),
        LifeWord::GiveLead { log, to } => {
            Ok(format!("{}\n", session.ask(&Request::GiveLead { log: *log, node: *to })?))
        }
        LifeWord::LogLocation => {
            let status = session.ask(&Request::Status)?;
            let node = status["node"].as_str().unwrap_or_default();
            let show = session.announce(format!("Log file location(s) on node {node} ..."));
            let files = status["log_files"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let files: Vec<&str> = files.collect();
            match session.is_for_programs() {
                true => Ok(format!("{}\n", json!({ "result": "ok", "node_name": node, "paths": files }))),
                false => Ok(show.begin() + &files.join("\n") + "\n"),
            }
        }
        LifeWord::LogTail { number } => {
            let node = session.node()?;
            let show = session.announce(format!("Last {number} log lines on node {node} ..."));
            let lines = session.ask(&Request::LogTail { lines: *number })?;
            let lines = lines.as_array().into_iter().flatten().filter_map(Value::as_str);
            Ok(show.begin() + &lines.map(|line| format!("{line}\n")).collect::<String>())
        }
        LifeWord::ForceGc => {
            let node = session.node()?;
            let banner = format!("Will ask node {node} to give memory back that it does not need");
            let show = session.announce(banner);
            session.ask(&Request::Trim)?;
            Ok(show.begin())
        }
    }
}

/// Waits for something.
///
/// # Errors
/// It did not happen in time.
fn until(
    session: &Session<'_>,
    mut has_happened: impl FnMut() -> Result<bool, Refusal>,
) -> Result<(), Refusal> {
    let seconds = session.timeout().unwrap_or(WAIT_S);
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    while !has_happened()? {
        if Instant::now() >= end {
            let ms = u64::from(seconds) * 1000;
            let message = format!("Error: the operation timed out. Timeout value used: {ms}");
            return Err(Refusal { code: exit::TEMPORARY, message });
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    }
    Ok(())
}

fn await_start(session: &Session<'_>, check: impl Fn() -> Result<(), Refusal>) -> Result<(), Refusal> {
    until(session, || {
        check()?;
        Ok(matches!(session.is_running(), Ok(true)))
    })
}

/// A process is there while the system knows it as more than a number that nobody has asked about yet.
fn is_there(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) else {
        return false;
    };
    // Its state stands behind its name, which may hold anything.
    !text.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

fn await_end(session: &Session<'_>, pid: u32) -> Result<(), Refusal> {
    until(session, || Ok(!is_there(pid)))
}

fn read_pid(file: &Path) -> Result<u32, Refusal> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| failed(format!("the pid file {} cannot be read: {error}", file.display())))?;
    let bad = |_| failed(format!("the pid file {} holds no process id", file.display()));
    text.trim().parse().map_err(bad)
}

fn wait(session: &Session<'_>, file: Option<&Path>, pid: Option<u32>) -> Result<String, Refusal> {
    let say = |text: String| {
        if !session.is_quiet() {
            println!("{text}");
        }
    };
    let pid = match (pid, file) {
        (Some(pid), _) => pid,
        (None, Some(file)) => {
            say(format!("Waiting for pid file '{}' to appear", file.display()));
            // One that is being written holds nothing yet.
            until(session, || {
                Ok(std::fs::read_to_string(file).is_ok_and(|text| text.trim().parse::<u32>().is_ok()))
            })?;
            let pid = read_pid(file)?;
            say(format!("pid is {pid}"));
            pid
        }
        (None, None) => return Err(bad_word(exit::USAGE, "not enough arguments.")),
    };
    say(format!("Waiting for the node to answer while OS process '{pid}' is running"));
    await_start(session, || match is_there(pid) {
        true => Ok(()),
        false => Err(failed("process_not_running")),
    })?;
    say(format!("Applications 'rabbit_and_plugins' are running on node '{}'", session.node()?));
    Ok(String::new())
}

/// Gives programs the other fields of RabbitMQ's status of a node.
pub(crate) fn complete_status(session: &Session<'_>, node: &str, status: &mut Value) -> Result<(), Refusal> {
    let told = session.get(&["nodes", node])?;
    status["processes"] = json!({ "used": told["proc_used"], "limit": told["proc_total"] });
    status["run_queue"] = told["run_queue"].clone();
    status["net_ticktime"] = told["net_ticktime"].clone();
    status["enabled_plugin_file"] = "".into();
    status["active_plugins"] = PLUGINS.iter().map(|plugin| plugin.name).collect();
    status["raft_data_directory"] = status["data_directory"].clone();
    status["crypto_lib_version"] = "".into();
    status["is_under_maintenance"] = false.into();
    status["tags"] = json!([]);
    status["vm_memory_calculation_strategy"] = "rss".into();
    status["memory"]["strategy"] = "rss".into();
    Ok(())
}

/// Turns a feature flag on: those there are, are on.
pub(crate) fn enable_flag(session: &Session<'_>, name: &str) -> Result<String, Refusal> {
    let is_all = name == "all";
    let what = if is_all { "all feature flags".to_owned() } else { format!("feature flag \"{name}\"") };
    let show = session.announce(format!("Enabling {what} ..."));
    if !is_all {
        let response =
            session.api("PUT", &["feature-flags", name, "enable"], "", Some(&serde_json::json!({})))?;
        if !(200..300).contains(&response.status) {
            let node = session.node()?;
            let message = format!("Error:\nThis feature flag is not supported by node {node}");
            return Err(Refusal { code: exit::USAGE, message });
        }
        done(response)?;
    }
    Ok(show.begin())
}
