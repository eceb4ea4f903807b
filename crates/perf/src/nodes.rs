//! Three nodes of one cluster and a quorum queue: clients at the node that leads the queue and at another, one message at a time,
//! and how long publishers wait when the leader is killed.
//!
//! A queue is led where it was declared, which is the default of RabbitMQ too (`client-local`): so queues are declared
//! through one node, and the clients are there or at another. CPU is that of all nodes together.

use crate::child::Broker;
use crate::control::Control;
use crate::load::{self, Aim};
use crate::options::{Bench, QueueType, Transport};
use crate::probe;
use crate::process::Process;
use crate::progress::Progress;
use crate::run::Figures;
use crate::scenario::Case;
use crate::uri::Uri;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Nodes of a cluster of our own.
const NODES: usize = 3;

/// Logs of each of them, the catalog's among these.
const LOGS: usize = 8;

/// How long nodes may take until each log has a leader that all know.
const AGREE: Duration = Duration::from_secs(30);

/// Kills where the command line does not say.
const KILLS: u32 = 3;

/// The queue of a run in which its leader is killed, messages a second there, how long that lasts, and when the kill comes.
const KILL_QUEUE: &str = "leveret-bench-kill";
const KILL_RATE: u64 = 1000;
const KILL_SECONDS: u64 = 10;
const KILL_AFTER: Duration = Duration::from_secs(3);

/// Messages that are published one at a time.
const ONE_BY_ONE: u64 = 2000;

/// The parts of a case.
const AT_LEADER: &str = "at the leader";
const AT_ANOTHER: &str = "at another node";
const ONE_AT_A_TIME: &str = "one at a time at the leader";

/// Bytes that go round between threads, and how often.
const ROUND_BYTES: usize = 64;
const ROUNDS: usize = 4000;

/// The times below which several nodes cannot agree on one message, as measured without a broker.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// A write of 4 KiB and its flush while two others flush at the same moment, median, microseconds.
    pub flush_us: f64,
    /// One way over a loopback connection between three threads, median, microseconds.
    pub way_us: f64,
}

/// A run in which the leader of the queue was killed under load, with clients at another node.
#[derive(Clone, Debug, Serialize)]
pub struct Killed {
    /// The load's name.
    pub label: String,
    /// Which run, from 1 on.
    pub run: u32,
    /// The longest wait of a message for its confirm, milliseconds.
    pub longest_ms: f64,
    /// The figures of the load.
    pub figures: Figures,
}

impl Killed {
    /// Whether a promise was broken.
    pub fn is_violation(&self) -> bool {
        self.figures.is_violation()
    }
}

/// The nodes under load: ours, or somebody's.
struct Nodes {
    own: Vec<Broker>,
    /// The settings of each of ours.
    settings: Vec<Vec<String>>,
    uris: Vec<Uri>,
    pids: Vec<u32>,
    /// The secret of ours, for as long as they are there.
    _cookie: Cookie,
}

/// The file with the secret that nodes of ours share; gone with this.
struct Cookie(PathBuf);

impl Drop for Cookie {
    fn drop(&mut self) {
        // There is none where the nodes are not ours.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Nodes {
    fn new(bench: &Bench) -> Result<Nodes, String> {
        let parent = bench.parent();
        let cookie = Cookie(parent.join(format!("leveret-bench-{}-cookie", std::process::id())));
        if let Some(uri) = &bench.uri {
            let uris = std::iter::once(uri).chain(&bench.nodes).cloned().collect();
            let pids = bench.broker_pid.clone();
            return Ok(Nodes { own: Vec::new(), settings: Vec::new(), uris, pids, _cookie: cookie });
        }
        write_secret(&cookie.0).map_err(|error| format!("{}: {error}", cookie.0.display()))?;
        let own = std::env::current_exe().map_err(|error| format!("this program is nowhere: {error}"))?;
        let binary = bench.broker_binary.clone().unwrap_or(own);
        let ports = free_ports().map_err(|error| format!("no ports for nodes: {error}"))?;
        let mut settings: Vec<Vec<String>> =
            (0..NODES).map(|number| own_settings(number, &ports, &cookie.0)).collect();
        settings.iter_mut().for_each(|own| own.extend_from_slice(&bench.settings));
        let mut nodes =
            Nodes { own: Vec::new(), settings, uris: Vec::new(), pids: Vec::new(), _cookie: cookie };
        for (number, own) in nodes.settings.iter().enumerate() {
            let folder = parent.join(format!("leveret-bench-{}-{}", std::process::id(), number + 1));
            let broker = Broker::start_in(&binary, folder, own, &[Transport::Tcp], bench.keep);
            nodes.own.push(broker.map_err(|error| error.to_string())?);
        }
        nodes.note();
        nodes.wait_until_they_agree()?;
        Ok(nodes)
    }

    /// Takes note of the addresses and processes of ours.
    fn note(&mut self) {
        let uri = |broker: &Broker| {
            let port = broker.ports().next().map_or(0, |(_, port)| port);
            Uri::local(port, Transport::Tcp)
        };
        self.uris = self.own.iter().map(uri).collect();
        self.pids = self.own.iter().map(Broker::pid).collect();
    }

    /// The logs of one of ours, and of each whether it leads it; none as long as somebody does not know who leads.
    fn leads(&self, number: usize) -> Result<Option<Vec<(u64, bool)>>, String> {
        let said = self.own[number].ctl(&["replica_status"])?;
        let said: Value = serde_json::from_str(&said).map_err(|error| format!("{said}: {error}"))?;
        let rows = said["replicas"].as_array().cloned().unwrap_or_default();
        let row = |row: &Value| {
            let log = row["log"].as_u64()?;
            (!row["leader"].is_null()).then_some((log, !row["leads"].is_null()))
        };
        let known: Option<Vec<(u64, bool)>> = rows.iter().map(row).collect();
        Ok(known.filter(|known| known.len() == LOGS))
    }

    fn wait_until_they_agree(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let mut led = 0;
            let mut all_know = true;
            for number in 0..self.own.len() {
                let known = self.leads(number)?;
                all_know &= known.is_some();
                led += known.iter().flatten().filter(|(_, leads)| *leads).count();
            }
            // Each log is led by one, who has been told so.
            if all_know && led == LOGS {
                return Ok(());
            }
            if begun.elapsed() > AGREE {
                return Err(format!("{led} of {LOGS} logs have a leader after {} s", AGREE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The node that leads most logs of queues; of somebody's nodes the first.
    fn leader(&self) -> Result<usize, String> {
        let mut best = (0, 0);
        for number in 0..self.own.len() {
            let known = self.leads(number)?.unwrap_or_default();
            let count = known.iter().filter(|(log, leads)| *leads && *log != 0).count();
            best = best.max((count, number));
        }
        Ok(best.1)
    }

    fn name(&self) -> String {
        let at = |uri: &Uri| format!("{}:{}", uri.host, uri.port);
        let all: Vec<String> = self.uris.iter().map(at).collect();
        let whose = if self.own.is_empty() { "" } else { "our own, " };
        format!("{whose}{} nodes: {}", all.len(), all.join(", "))
    }

    fn process(&self) -> Option<Process> {
        (!self.pids.is_empty()).then(|| Process::several(self.pids.clone()))
    }

    /// Starts one of ours again, which was killed.
    fn restart(&mut self, number: usize) -> Result<(), String> {
        self.own[number].restart(&self.settings[number]).map_err(|error| error.to_string())?;
        self.note();
        self.wait_until_they_agree()
    }
}

fn write_secret(path: &Path) -> io::Result<()> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes.map(|byte| format!("{byte:02x}")).concat().as_bytes())
}

/// Ports for what nodes say to each other: free now, all at once.
fn free_ports() -> io::Result<Vec<u16>> {
    let bound: io::Result<Vec<TcpListener>> =
        (0..NODES).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
    bound?.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn own_settings(number: usize, ports: &[u16], cookie: &Path) -> Vec<String> {
    let name = |number: usize| format!("rabbit{}@localhost", number + 1);
    let mut own = vec![
        "leveret.cluster.experimental=true".to_owned(),
        "cluster_formation.peer_discovery_backend=classic_config".to_owned(),
        format!("leveret.cluster.cookie_file={}", cookie.display()),
        format!("leveret.cluster.listener=127.0.0.1:{}", ports[number]),
        format!("nodename={}", name(number)),
        format!("leveret.logs={LOGS}"),
    ];
    for (other, port) in ports.iter().enumerate() {
        let of = name(other);
        own.push(format!("cluster_formation.classic_config.nodes.{}={of}", other + 1));
        own.push(format!("leveret.cluster.address.{}={of}=127.0.0.1:{port}", other + 1));
    }
    own
}

/// The figures of a cluster.
pub struct Measured {
    /// The nodes, for people.
    pub nodes: String,
    /// The runs of each row that count.
    pub runs: Vec<(Case, Vec<Figures>)>,
    /// As measured beside; not where the nodes may be on other machines.
    pub floor: Option<Floor>,
    /// The runs in which the leader was killed.
    pub kills: Vec<Killed>,
}

/// Measures the cases of a cluster.
///
/// # Errors
/// In words for people: nodes did not start, did not agree, or ended the run.
pub fn run(bench: &Bench, cases: &[Case], progress: &mut Progress) -> Result<Measured, String> {
    let parent = bench.parent();
    let floor = bench.uri.is_none().then(|| floor(&parent)).transpose();
    let floor = floor.map_err(|error| format!("{}: {error}", parent.display()))?;
    let mut nodes = Nodes::new(bench)?;
    let mut measured = Measured { nodes: nodes.name(), runs: Vec::new(), floor, kills: Vec::new() };
    for case in cases {
        let leader = nodes.leader()?;
        let another = (leader + 1) % nodes.uris.len();
        for (part, at) in [(AT_LEADER, leader), (AT_ANOTHER, another)] {
            measured.runs.push((case.clone(), measure(bench, case, part, (&nodes, leader, at), progress)?));
        }
        let slow = Case { messages: ONE_BY_ONE, confirm_window: 1, ack_every: 1, ..case.clone() };
        let runs = measure(bench, &slow, ONE_AT_A_TIME, (&nodes, leader, leader), progress)?;
        measured.runs.push((slow, runs));
    }
    let kills = bench.kills.unwrap_or(if bench.uri.is_some() { 0 } else { KILLS });
    for case in cases {
        for run in 1..=kills {
            progress.label(format!("{}, leader killed, {run} of {kills}", case.label));
            measured.kills.push(kill(bench, case, &mut nodes, run, progress)?);
        }
    }
    Ok(measured)
}

/// The runs of a row: the queue is declared through one node, and the clients are at one.
fn measure(
    bench: &Bench,
    case: &Case,
    part: &'static str,
    (nodes, leader, at): (&Nodes, usize, usize),
    progress: &mut Progress,
) -> Result<Vec<Figures>, String> {
    let mut process = nodes.process();
    let mut runs = Vec::new();
    for index in 0..bench.warmup_runs + bench.runs {
        progress.label(format!(
            "{}, {part}, {} of {}",
            case.label,
            index + 1,
            bench.warmup_runs + bench.runs
        ));
        let (uris, setup) = (&nodes.uris[at..=at], &nodes.uris[leader]);
        let mut aim = Aim { bench, uris, setup, process: process.as_mut(), shards: 1 };
        let mut figures =
            load::run(case, &mut aim, progress).map_err(|why| format!("{}, {part}: {why}", case.label))?;
        figures.iter_mut().for_each(|own| own.part = part);
        if index >= bench.warmup_runs {
            runs.append(&mut figures);
        }
    }
    Ok(runs)
}

/// Puts a steady load on a queue through a node that does not lead it, and kills the one that does.
fn kill(
    bench: &Bench,
    case: &Case,
    nodes: &mut Nodes,
    run: u32,
    progress: &mut Progress,
) -> Result<Killed, String> {
    let leader = nodes.leader()?;
    let at = (leader + 1) % nodes.uris.len();
    let names = [KILL_QUEUE.to_owned()];
    let mut control = Control::open(&nodes.uris[leader])?;
    control.delete_queues(&names)?;
    control.declare_queues(&names, QueueType::Quorum, &[])?;
    control.close();
    let bench = Bench { queue: Some(KILL_QUEUE.to_owned()), ..bench.clone() };
    let messages = KILL_RATE * KILL_SECONDS;
    let case = Case { messages, rate: Some(KILL_RATE), ack_every: 10, ..case.clone() };
    let pid = nodes.pids[leader];
    let figures = std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(KILL_AFTER);
            // It cannot be another's process: of ours it was not waited for yet.
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
        });
        let (uris, setup) = (&nodes.uris[at..=at], &nodes.uris[at]);
        let mut aim = Aim { bench: &bench, uris, setup, process: None, shards: 1 };
        load::run(&case, &mut aim, progress)
    });
    let figures = figures.map_err(|why| format!("{}, leader killed: {why}", case.label))?;
    if !nodes.own.is_empty() {
        nodes.restart(leader)?;
    }
    let mut control = Control::open(&nodes.uris[at])?;
    control.delete_queues(&names)?;
    control.close();
    let figures = figures.into_iter().next().ok_or("a run without figures")?;
    let longest_ms = figures.confirm.map_or(0.0, |confirm| confirm.max_us as f64 / 1000.0);
    Ok(Killed { label: case.label, run, longest_ms, figures })
}

fn floor(folder: &Path) -> io::Result<Floor> {
    Ok(Floor { flush_us: probe::flush_among(folder, NODES)?, way_us: way_us()? })
}

/// One way between threads of which each waits for the one before it, median, microseconds.
fn way_us() -> io::Result<f64> {
    let listeners: io::Result<Vec<TcpListener>> =
        (0..NODES).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
    let listeners = listeners?;
    let mut ends = Vec::new();
    for listener in &listeners {
        let out = TcpStream::connect(listener.local_addr()?)?;
        out.set_nodelay(true)?;
        ends.push((out, listener.accept()?.0));
    }
    // The connection between one and the next: who writes to it, and who reads it.
    let (mut outs, mut ins): (Vec<TcpStream>, Vec<TcpStream>) = ends.into_iter().unzip();
    ins.rotate_right(1);
    let (mut first_out, mut first_in) = (outs.remove(0), ins.remove(0));
    let mut laps = std::thread::scope(|threads| -> io::Result<Vec<Duration>> {
        for (mut out, mut own) in outs.into_iter().zip(ins) {
            threads.spawn(move || {
                let mut bytes = [0; ROUND_BYTES];
                while own.read_exact(&mut bytes).is_ok() && out.write_all(&bytes).is_ok() {}
            });
        }
        let mut bytes = [0; ROUND_BYTES];
        let mut laps = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let lap = Instant::now();
            first_out.write_all(&bytes)?;
            first_in.read_exact(&mut bytes)?;
            laps.push(lap.elapsed());
        }
        // The others see the end of what they read, one after the other.
        first_out.shutdown(std::net::Shutdown::Both)?;
        Ok(laps)
    })?;
    base::brief::sort(&mut laps);
    Ok(laps[laps.len() / 2].as_secs_f64() * 1e6 / NODES as f64)
}

/// The lines that the table of rows does not have; none where no cluster was measured.
pub fn text(floor: Option<&Floor>, kills: &[Killed]) -> String {
    let mut text = String::new();
    if let Some(Floor { flush_us, way_us }) = floor {
        let bound = flush_us + 2.0 * way_us + 150.0;
        let _ = writeln!(
            text,
            "one of three flushes takes {flush_us:.0} us and one way {way_us:.0} us: with 150 us more a confirm of one message \
             would take {bound:.0} us"
        );
    }
    for killed in kills {
        let Killed { label, run, longest_ms, figures } = killed;
        let _ = writeln!(
            text,
            "{label}, leader killed, run {run}: the longest wait for a confirm {longest_ms:.0} ms; {} of {} messages were marked as \
             delivered before",
            figures.findings.redelivered, figures.published
        );
        if killed.is_violation() {
            let found = serde_json::to_string(&figures.findings).unwrap_or_default();
            let _ = writeln!(text, "VIOLATED   {found}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_goes_through_all() {
        let way = way_us().unwrap();
        assert!(way > 0.0 && way < 1e6, "{way}");
    }

    #[test]
    fn each_node_knows_all() {
        let own = own_settings(1, &[5, 6, 7], Path::new("/c"));
        for expected in [
            "leveret.cluster.listener=127.0.0.1:6",
            "nodename=rabbit2@localhost",
            "leveret.cluster.address.3=rabbit3@localhost=127.0.0.1:7",
            "cluster_formation.classic_config.nodes.1=rabbit1@localhost",
        ] {
            assert!(own.iter().any(|setting| setting == expected), "{expected}: {own:?}");
        }
    }

    #[test]
    fn a_secret_is_for_its_owner_and_goes_with_its_nodes() {
        use std::os::unix::fs::PermissionsExt;
        let cookie = Cookie(std::env::temp_dir().join(format!("leveret-cookie-test-{}", std::process::id())));
        write_secret(&cookie.0).unwrap();
        let path = cookie.0.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&path).unwrap().len(), 32);
        assert!(write_secret(&path).is_err(), "another's is left alone");
        drop(cookie);
        assert!(!path.exists());
    }
}
