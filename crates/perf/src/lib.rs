//! The load generator, `leveret bench`: puts a load on a broker and measures it.
//!
//! A shell crate: it has threads, sockets and a clock of its own. Light, so that the broker is the bottleneck: a thread
//! for all publishers and one for all consumers, one read and one write per turn, nothing allocated per message.
//! Not a test suite, but it trusts nobody: each message carries its publisher and number, and one that is lost, doubled
//! or out of order makes the run fail.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell crate has sockets and clocks"
)]

mod child;
mod confirms;
mod content;
mod control;
mod crew;
#[cfg(test)]
mod double;
mod end;
mod fill;
mod hold;
mod idle;
mod large;
mod load;
mod machine;
mod meter;
mod native;
mod nodes;
mod options;
mod probe;
mod process;
mod progress;
mod replay;
mod report;
mod run;
mod scenario;
mod small_chunks;
mod stamp;
mod stream;
mod table;
mod tenants;
#[cfg(test)]
mod tests;
mod trial;
mod uri;
mod users;
mod wire;
mod worker;

pub use options::{Bench, Placement, Protocol, QueueType, Transport};
pub use scenario::Scenario;
pub use uri::Uri;

use child::Broker;
use hold::Plan;
use idle::Idle;
use load::Aim;
use machine::Machine;
use probe::Probe;
use process::Process;
use progress::Progress;
use report::{Report, Row};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Connections that `connections` opens where the command line does not say.
const CONNECTIONS: u64 = 18_000;

/// Runs the command line and prints the result. The exit code is 1 where a promise was broken or the load could not be
/// run.
pub fn main(bench: &Bench) -> ExitCode {
    if let Some(plan) = followed(bench) {
        raise_descriptor_limit();
        return crew::follow(&plan);
    }
    match measure(bench) {
        Ok(report) => {
            let text = if bench.json { report.json().map(|json| json + "\n") } else { Ok(report.text()) };
            match text {
                Ok(text) => print!("{text}"),
                Err(error) => eprintln!("the report cannot be written: {error}"),
            }
            if report.is_violation() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The connections that this process is to hold for another, if it is one that follows.
fn followed(bench: &Bench) -> Option<Plan> {
    if !bench.follow {
        return None;
    }
    let (uri, protocol, connections) = (bench.uri.clone()?, bench.protocol?, bench.messages?);
    let (threads, heartbeat) = (bench.client_threads, bench.heartbeat);
    Some(Plan { protocol, connections, threads, heartbeat, uri })
}

/// The broker under load: somebody's, or a child of ours.
struct Target {
    /// One for each transport; queues and the like are set up through the first.
    uris: Vec<Uri>,
    process: Option<Process>,
    child: Option<Broker>,
    /// Settings of our own broker.
    settings: Vec<String>,
}

impl Target {
    fn new(bench: &Bench) -> Result<Target, String> {
        if let Some(uri) = &bench.uri {
            let process = (!bench.broker_pid.is_empty()).then(|| Process::several(bench.broker_pid.clone()));
            let streams = Uri { port: bench.stream_port, transport: Transport::Stream, ..uri.clone() };
            return Ok(Target {
                uris: vec![uri.clone(), streams],
                process,
                child: None,
                settings: Vec::new(),
            });
        }
        let own = std::env::current_exe().map_err(|error| format!("this program is nowhere: {error}"))?;
        let binary = bench.broker_binary.clone().unwrap_or(own);
        let mut settings = bench.scenario.settings();
        // Behind the scenario's own, so that they win.
        settings.extend_from_slice(&bench.settings);
        if let Some(shards) = bench.shards {
            settings.push(format!("leveret.shards={shards}"));
        }
        let transports = bench.scenario.transports(bench);
        let child = Broker::start(&binary, &bench.parent(), &settings, &transports, bench.keep)
            .map_err(|error| error.to_string())?;
        let process = Some(Process::new(child.pid()));
        let uris = child.ports().map(|(transport, port)| Uri::local(port, transport)).collect();
        Ok(Target { uris, process, child: Some(child), settings })
    }

    /// Stops our own broker and starts it with its data and these settings too; how long it took to start.
    ///
    /// # Errors
    /// It is not ours, or does not start; in words for people.
    fn restart(&mut self, more: &[String]) -> Result<Duration, String> {
        let settings = [&self.settings[..], more].concat();
        let child = self.child.as_mut().ok_or("the broker is not ours to be started anew")?;
        let lasted = child.restart(&settings).map_err(|error| error.to_string())?;
        self.process = Some(Process::new(child.pid()));
        self.uris = child.ports().map(|(transport, port)| Uri::local(port, transport)).collect();
        Ok(lasted)
    }

    /// Where it speaks the stream protocol.
    fn stream_uri(&self) -> Result<&Uri, String> {
        let uri = self.uris.iter().find(|uri| uri.transport == Transport::Stream);
        uri.ok_or_else(|| "the broker has no listener for streams".to_owned())
    }

    fn name(&self) -> String {
        let Uri { host, port, vhost, .. } = &self.uris[0];
        let pids = self.process.as_ref().map(|process| process.pids().iter().map(u32::to_string).collect());
        let pid = pids.map_or_else(String::new, |pids: Vec<String>| format!(", pid {}", pids.join(", ")));
        let own = self
            .child
            .as_ref()
            .map_or_else(String::new, |child| format!(", our own, data in {}", child.folder().display()));
        format!("{host}:{port}, vhost {vhost}{pid}{own}")
    }

    fn aim<'a>(&'a mut self, bench: &'a Bench, machine: &Machine) -> Aim<'a> {
        let shards = bench.shards.unwrap_or(machine.processors as u32);
        Aim { bench, uris: &self.uris, setup: &self.uris[0], process: self.process.as_mut(), shards }
    }
}

fn measure(bench: &Bench) -> Result<Report, String> {
    let cases = bench.scenario.cases(bench)?;
    raise_descriptor_limit();
    let machine = Machine::now();
    let folder = bench.parent();
    // The disk of another's broker is known only if the command line names its folder.
    let is_folder_known = bench.uri.is_none() || bench.folder.is_some();
    let warnings = machine.warnings(is_folder_known.then_some(folder.as_path()));
    let mut progress = Progress::new();
    let probe = match bench.scenario {
        Scenario::FsyncBound if is_folder_known => Some(probe(&folder, &mut progress)?),
        _ => None,
    };
    let mut report = Report {
        scenario: bench.scenario.name(),
        broker: String::new(),
        placement: bench.placement,
        machine,
        warnings,
        probe,
        rows: Vec::new(),
        idle: Vec::new(),
        cells: Vec::new(),
        large: Vec::new(),
        replays: Vec::new(),
        tenants: Vec::new(),
        kills: Vec::new(),
        floor: None,
    };
    if bench.scenario == Scenario::ClusterQuorum {
        let measured = nodes::run(bench, &cases, &mut progress)?;
        report.broker = measured.nodes;
        report.rows = measured.runs.into_iter().map(|(case, runs)| Row::new(&case, runs)).collect();
        (report.floor, report.kills) = (measured.floor, measured.kills);
        return Ok(report);
    }
    let mut target = Target::new(bench)?;
    report.broker = target.name();
    if bench.scenario == Scenario::StreamLarge {
        for _ in 0..bench.runs {
            report.large.push(large::run(bench, &mut target, &mut progress)?);
        }
        return Ok(report);
    }
    if bench.scenario == Scenario::StreamReplay {
        report.replays = replay::run(bench, &mut target, &mut progress)?;
        return Ok(report);
    }
    if let (Scenario::Tenants, [case]) = (bench.scenario, &cases[..]) {
        report.tenants = tenants::run(case, &mut target.aim(bench, &report.machine), &mut progress)?;
        return Ok(report);
    }
    if bench.scenario == Scenario::StreamSmallChunks {
        report.cells = small_chunks::run(bench, &mut target, &mut progress)?;
        return Ok(report);
    }
    if bench.scenario == Scenario::Connections {
        report.idle = connections(bench, &mut target, &report.machine, &mut progress)?;
        return Ok(report);
    }
    for case in &cases {
        let mut parts: Vec<Vec<run::Figures>> = Vec::new();
        for index in 0..bench.warmup_runs + bench.runs {
            progress.label(format!("{} {} of {}", case.label, index + 1, bench.warmup_runs + bench.runs));
            let mut aim = target.aim(bench, &report.machine);
            let figures =
                load::run(case, &mut aim, &mut progress).map_err(|why| format!("{}: {why}", case.label))?;
            if index < bench.warmup_runs {
                continue;
            }
            parts.resize_with(figures.len(), Vec::new);
            for (part, figures) in parts.iter_mut().zip(figures) {
                part.push(figures);
            }
        }
        report.rows.extend(parts.into_iter().map(|runs| Row::new(case, runs)));
    }
    Ok(report)
}

fn probe(folder: &Path, progress: &mut Progress) -> Result<Probe, String> {
    progress.say("measuring the bare disk");
    let probe = Probe::measure(folder).map_err(|error| format!("{}: {error}", folder.display()));
    progress.end();
    probe
}

fn connections(
    bench: &Bench,
    target: &mut Target,
    machine: &Machine,
    progress: &mut Progress,
) -> Result<Vec<Idle>, String> {
    let count = bench.messages.unwrap_or(CONNECTIONS);
    let protocols = match bench.protocol {
        Some(protocol) => vec![protocol],
        None => vec![Protocol::Amqp091, Protocol::Amqp10],
    };
    let transports = bench.scenario.transports(bench);
    let loads = protocols.into_iter().flat_map(|protocol| transports.iter().map(move |it| (protocol, *it)));
    let mut all = Vec::new();
    for (index, (protocol, transport)) in loads.enumerate() {
        if index > 0 && target.child.is_some() {
            // Memory that the first protocol's connections left in the allocator would hide the second's.
            target.child = None;
            *target = Target::new(bench)?;
        }
        let mut aim = target.aim(bench, machine);
        all.push(idle::run(protocol, transport, count, &mut aim, progress)?);
    }
    Ok(all)
}

/// As many descriptors as the hard limit allows, for us and for the broker we start.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // It stays as it is where raising is not allowed; opening too many says so then.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
