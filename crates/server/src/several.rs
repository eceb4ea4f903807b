//! Several nodes on one machine by one command, to try a cluster out: `leveret cluster 3`.
//!
//! Each is a process of its own, with a folder and ports of its own, all on the loopback interface. The command watches over them:
//! their lines come out under their names, and when it is ended, they are.

use crate::{private, seed};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{BufRead, BufReader, Read, Write, stdout};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Ports of the first node: for AMQP, HTTP, streams, metrics and other nodes. The next has each one higher.
const PORTS: [u16; 5] = [5672, 15672, 5552, 15692, 25672];

/// The distance to the next ports that are tried where some are taken, and how often.
const STEP: u16 = 10;
const STEPS: u16 = 50;

/// Logs of each node, which all have to have as many.
const LOGS: u32 = 8;

/// The time between two looks whether all nodes have ended.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes of randomness in the secret that nodes share.
const COOKIE_BYTES: usize = 16;

/// See the module.
#[derive(Debug, Args)]
pub struct Several {
    /// How many nodes, 3 to 7
    #[arg(value_parser = clap::value_parser!(u16).range(3..=7), default_value_t = 3)]
    nodes: u16,
    /// The folder in which each of them has one for its data
    #[arg(long, value_name = "FOLDER", default_value = "leveret-cluster")]
    data_dir: PathBuf,
    /// One more setting, for each of them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// Runs the nodes until the command is ended, or all of them are.
pub fn main(several: &Several) -> ExitCode {
    match run(several) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("leveret: {why}");
            ExitCode::FAILURE
        }
    }
}

/// True: all nodes ended in order.
fn run(several: &Several) -> Result<bool, String> {
    let Several { nodes, data_dir, settings } = several;
    let first = free_ports(*nodes).ok_or("no ports are free for so many nodes")?;
    make_cookie(data_dir)?;
    let program = std::env::current_exe().map_err(|error| format!("the program cannot be found: {error}"))?;
    let mut running = Vec::new();
    for number in 0..*nodes {
        let mut command = Command::new(&program);
        command.arg("server").arg("--data-dir").arg(folder(data_dir, number));
        let own = own_settings(data_dir, *nodes, number, first);
        own.iter().chain(settings).for_each(|setting| _ = command.args(["--set", setting]));
        match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(mut child) => {
                tell(number, child.stdout.take());
                tell(number, child.stderr.take());
                running.push(child);
            }
            Err(error) => {
                running.iter_mut().for_each(end);
                return Err(format!("node {} cannot be started: {error}", name(number)));
            }
        }
    }
    for number in 0..*nodes {
        let [amqp, http, ..] = first.map(|port| port + number);
        let own = folder(data_dir, number);
        let _ = writeln!(
            stdout(),
            "{}: amqp://127.0.0.1:{amqp}, http://127.0.0.1:{http}, leveret ctl --data-dir {}",
            name(number),
            own.display()
        );
    }
    let _ =
        writeln!(stdout(), "{nodes} nodes are one cluster, which is an experiment. Ctrl-C ends all of them.");
    let running = Arc::new(Mutex::new(running));
    pass_on_signals(running.clone())?;
    loop {
        let ended: Option<Vec<bool>> = held(&running).iter_mut().map(has_ended).collect();
        match ended {
            Some(ended) => return Ok(ended.into_iter().all(|in_order| in_order)),
            None => sleep(LOOK),
        }
    }
}

/// Whether a node has ended in order; none: it runs.
fn has_ended(child: &mut Child) -> Option<bool> {
    match child.try_wait() {
        Ok(status) => status.map(|status| status.success()),
        Err(_) => Some(false),
    }
}

/// No state here is broken by a thread that panicked.
fn held(running: &Mutex<Vec<Child>>) -> MutexGuard<'_, Vec<Child>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(number: u16) -> String {
    format!("rabbit{}@localhost", number + 1)
}

fn folder(data_dir: &Path, number: u16) -> PathBuf {
    data_dir.join(format!("rabbit{}", number + 1))
}

fn cookie(data_dir: &Path) -> PathBuf {
    data_dir.join("cookie")
}

/// The settings of a node.
fn own_settings(data_dir: &Path, nodes: u16, number: u16, first: [u16; 5]) -> Vec<String> {
    let [amqp, http, stream, metrics, others] = first.map(|port| port + number);
    let mut own = vec![
        "leveret.cluster.experimental=true".to_owned(),
        "cluster_formation.peer_discovery_backend=classic_config".to_owned(),
        format!("leveret.cluster.cookie_file={}", cookie(data_dir).display()),
        format!("leveret.cluster.listener=127.0.0.1:{others}"),
        format!("nodename={}", name(number)),
        format!("leveret.logs={LOGS}"),
        format!("listeners.tcp.default=127.0.0.1:{amqp}"),
        "management.tcp.ip=127.0.0.1".to_owned(),
        format!("management.tcp.port={http}"),
        format!("stream.listeners.tcp.default=127.0.0.1:{stream}"),
        "prometheus.tcp.ip=127.0.0.1".to_owned(),
        format!("prometheus.tcp.port={metrics}"),
        "web_amqp.tcp=none".to_owned(),
    ];
    for other in 0..nodes {
        let (of, port) = (name(other), first[4] + other);
        own.push(format!("cluster_formation.classic_config.nodes.{}={of}", other + 1));
        own.push(format!("leveret.cluster.address.{}={of}=127.0.0.1:{port}", other + 1));
    }
    own
}

/// The first ports of each purpose, from which on as many as there are nodes are free. A cluster that comes back finds those it had.
fn free_ports(nodes: u16) -> Option<[u16; 5]> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (0..STEPS)
        .map(|step| PORTS.map(|port| port + STEP * step))
        .find(|first| first.iter().all(|port| (0..nodes).all(|number| is_free(port + number))))
}

/// The secret that the nodes share, which stays what it is.
fn make_cookie(data_dir: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the folder {}: {error}", data_dir.display());
    private::data_folder(data_dir).map_err(failed)?;
    let path = cookie(data_dir);
    if path.exists() {
        return Ok(());
    }
    let bytes: [u8; COOKIE_BYTES] = seed::secrets()?.bytes();
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    private::write(&path, text.as_bytes(), 0o600).map_err(failed)
}

/// Brings a node's lines out under its name.
fn tell(number: u16, output: Option<impl Read + Send + 'static>) {
    let Some(output) = output else { return };
    spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Whoever read it may be gone; the node goes on.
            let _ = writeln!(stdout(), "rabbit{} | {line}", number + 1);
        }
    });
}

/// Ends a node, where it runs.
fn end(child: &mut Child) {
    if has_ended(child).is_none() {
        // It may have ended meanwhile, and still has its number.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
}

/// Ends the nodes when this process is to end. Those in the foreground of a terminal may have heard it themselves.
fn pass_on_signals(running: Arc<Mutex<Vec<Child>>>) -> Result<(), String> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| format!("signals cannot be received: {error}"))?;
    spawn(move || signals.forever().for_each(|_| held(&running).iter_mut().for_each(end)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_know_each_other_and_share_nothing_else() {
        let settings = |number| own_settings(Path::new("/c"), 3, number, PORTS);
        let of = |number, key: &str| {
            let found = settings(number).into_iter().find_map(|it| Some(it.strip_prefix(key)?.to_owned()));
            found.expect(key)
        };
        assert_eq!(of(2, "nodename="), "rabbit3@localhost");
        assert_eq!(of(2, "listeners.tcp.default="), "127.0.0.1:5674");
        assert_eq!(of(0, "leveret.cluster.address.2="), "rabbit2@localhost=127.0.0.1:25673");
        let shared =
            |one: Vec<String>, other: Vec<String>| one.iter().filter(|it| other.contains(it)).count();
        // The list and its addresses; what says that there is a cluster, the secret, the number of logs, and where nothing listens.
        assert_eq!(shared(settings(0), settings(1)), 3 + 3 + 7);
        assert_eq!(folder(Path::new("/c"), 1), Path::new("/c/rabbit2"));
    }

    #[test]
    fn the_secret_stays_and_is_nobody_elses() {
        use std::os::unix::fs::MetadataExt;
        let folder = std::env::temp_dir().join(format!("leveret-several-{}", std::process::id()));
        make_cookie(&folder).expect("made");
        let first = std::fs::read(cookie(&folder)).expect("there");
        make_cookie(&folder).expect("there");
        assert_eq!(std::fs::read(cookie(&folder)).expect("there"), first);
        assert_eq!(first.len(), 2 * COOKIE_BYTES);
        assert_eq!(std::fs::metadata(cookie(&folder)).expect("there").mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
