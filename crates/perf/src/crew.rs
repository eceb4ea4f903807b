//! The holder of idle connections: this process, or several others that are told by it.
//!
//! One process can be too slow an opener for a broker with more processors. Each other process is this program again,
//! with `--follow`: it says `ready`, begins when its input says `go`, prints its [`Count`] whenever that has changed,
//! and lets go when its input ends, as it also does when this process dies. Its last line says why a connection broke.

use crate::hold::{Count, Hold, Plan, shares};
use crate::options::Protocol;
use clap::ValueEnum;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long another process may take until it is ready.
const READY: Duration = Duration::from_secs(20);

/// How often a follower looks at its count.
const LOOK: Duration = Duration::from_millis(2);

/// See the module.
pub enum Crew {
    /// This process, which has not begun.
    Alone(Plan),
    /// This process.
    Own(Hold),
    /// Others.
    Others(Vec<Other>),
}

/// One of several processes.
pub struct Other {
    child: Child,
    input: Option<ChildStdin>,
    progress: Arc<Mutex<Progress>>,
    reader: Option<JoinHandle<()>>,
}

/// The progress of another process, as it told it last.
#[derive(Debug, Default)]
struct Progress {
    count: Count,
    why: Option<String>,
    /// It will tell no more.
    is_over: bool,
}

impl Crew {
    /// `clients` processes that wait for [`Crew::go`]; with one client it is this one.
    ///
    /// # Errors
    /// In words for people: a process could not be started.
    pub fn ready(plan: &Plan, clients: u32) -> Result<Crew, String> {
        if clients <= 1 {
            return Ok(Crew::Alone(plan.clone()));
        }
        let mut others = Vec::new();
        for connections in shares(plan.connections, u64::from(clients)) {
            others.push(Other::ready(&Plan { connections, ..plan.clone() })?);
        }
        Ok(Crew::Others(others))
    }

    /// Begins to open the connections.
    ///
    /// # Errors
    /// In words for people: the host is not known, or a process is gone.
    pub fn go(&mut self) -> Result<(), String> {
        match self {
            Crew::Alone(plan) => *self = Crew::Own(Hold::start(plan)?),
            Crew::Own(_) => {}
            Crew::Others(others) => {
                for other in others {
                    let said = other.input.as_mut().map(|input| writeln!(input, "go"));
                    said.transpose().map_err(|error| format!("a client process is gone: {error}"))?;
                }
            }
        }
        Ok(())
    }

    /// How many connections there are, over all.
    pub fn count(&self) -> Count {
        match self {
            Crew::Alone(_) => Count::default(),
            Crew::Own(hold) => hold.count(),
            Crew::Others(others) => others.iter().fold(Count::default(), |sum, other| {
                let progress = other.progress();
                Count { open: sum.open + progress.count.open, dropped: sum.dropped + progress.count.dropped }
            }),
        }
    }

    /// Whether a process is missing.
    pub fn is_short(&self) -> bool {
        match self {
            Crew::Alone(_) | Crew::Own(_) => false,
            Crew::Others(others) => others.iter().any(|other| other.progress().is_over),
        }
    }

    /// Lets all connections go, and tells the first reason why one broke before.
    ///
    /// # Errors
    /// In words for people: a thread or a process ended as it should not.
    pub fn stop(self) -> Result<Option<String>, String> {
        match self {
            Crew::Alone(_) => Ok(None),
            Crew::Own(hold) => hold.stop(),
            Crew::Others(mut others) => {
                // All are told first, so that they go together.
                others.iter_mut().for_each(|other| drop(other.input.take()));
                let mut why = None;
                for mut other in others {
                    let status = other.child.wait().map_err(|error| error.to_string())?;
                    if let Some(reader) = other.reader.take() {
                        reader.join().map_err(|_| "a client thread panicked".to_owned())?;
                    }
                    why = why.or_else(|| other.progress().why.clone());
                    if !status.success() && why.is_none() {
                        return Err(format!("a client process ended with {status}"));
                    }
                }
                Ok(why)
            }
        }
    }
}

impl Other {
    fn ready(plan: &Plan) -> Result<Other, String> {
        let own = std::env::current_exe().map_err(|error| format!("this program is nowhere: {error}"))?;
        let mut child = Command::new(own)
            .args(words(plan, std::env::args_os()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("a client process could not be started: {error}"))?;
        let progress = Arc::new(Mutex::new(Progress::default()));
        let (ready, is_ready) = mpsc::channel();
        let output = child.stdout.take();
        let input = child.stdin.take();
        let reader = thread::spawn({
            let progress = progress.clone();
            move || {
                for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                    let Ok(line) = line else { break };
                    if line == "ready" {
                        // Nobody waits any more if it took too long.
                        let _ = ready.send(());
                    }
                    lock(&progress).hear(&line);
                }
                lock(&progress).is_over = true;
            }
        });
        let other = Other { child, input, progress, reader: Some(reader) };
        match is_ready.recv_timeout(READY) {
            Ok(()) => Ok(other),
            Err(_) => Err("a client process did not become ready".to_owned()),
        }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It ends when its input does; one that was waited for already answers at once.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

fn lock(progress: &Mutex<Progress>) -> std::sync::MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    /// Takes in a line of the other process.
    fn hear(&mut self, line: &str) {
        if let Some(why) = line.strip_prefix("why ") {
            self.why = Some(why.to_owned());
        } else if let Some((open, dropped)) = line.split_once(' ')
            && let (Ok(open), Ok(dropped)) = (open.parse(), dropped.parse())
        {
            self.count = Count { open, dropped };
        }
    }
}

/// The command line of another process for `plan`, where `own` is this one's: its words before the scenario lead to
/// `bench`.
fn words(plan: &Plan, own: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = own.skip(1).take_while(|word| word == "bench").collect();
    let name = |protocol: Protocol| protocol.to_possible_value().map(|value| value.get_name().to_owned());
    let Plan { protocol, connections, threads, heartbeat, uri } = plan;
    words.extend(["connections", "--follow", "--clients", "1"].map(OsString::from));
    for (option, value) in [
        ("--uri", uri.to_string()),
        ("--messages", connections.to_string()),
        ("--protocol", name(*protocol).unwrap_or_default()),
        ("--client-threads", threads.to_string()),
        ("--heartbeat", heartbeat.to_string()),
    ] {
        words.extend([option.into(), value.into()]);
    }
    words
}

/// The other side: carries out `plan`, told by standard input, telling on standard output.
pub fn follow(plan: &Plan) -> ExitCode {
    match follow_through(plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("why {why}");
            ExitCode::FAILURE
        }
    }
}

fn follow_through(plan: &Plan) -> Result<(), String> {
    println!("ready");
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    if line.trim_end() != "go" {
        return Ok(());
    }
    let hold = Hold::start(plan)?;
    let (ended, is_ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // More input means nothing, only its end.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(ended);
    });
    let mut last = Count::default();
    while is_ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        let count = hold.count();
        if count != last {
            println!("{} {}", count.open, count.dropped);
            last = count;
        }
    }
    if let Some(why) = hold.stop()? {
        println!("why {why}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_tells_is_heard() {
        let check = |lines: &[&str], open: u64, dropped: u64, why: Option<&str>| {
            let mut progress = Progress::default();
            lines.iter().for_each(|line| progress.hear(line));
            assert_eq!(
                (progress.count, progress.why.as_deref()),
                (Count { open, dropped }, why),
                "{lines:?}"
            );
        };
        check(&["ready"], 0, 0, None);
        check(&["ready", "5 0", "9 1"], 9, 1, None);
        check(&["9 1", "why it 1 2 broke"], 9, 1, Some("it 1 2 broke"));
        check(&["9 x", "1", ""], 0, 0, None);
    }

    #[test]
    fn another_is_called_as_this_one_was() {
        let plan = Plan {
            protocol: Protocol::Amqp10,
            connections: 7,
            threads: 2,
            heartbeat: 9,
            uri: crate::Uri::local(4711, crate::options::Transport::Tcp),
        };
        let check = |own: &[&str], expected: &str| {
            let words = words(&plan, own.iter().map(OsString::from));
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(words.join(" "), expected);
        };
        let rest = "connections --follow --clients 1 --uri amqp://guest:guest@127.0.0.1:4711/%2F --messages 7 \
                    --protocol amqp10 --client-threads 2 --heartbeat 9";
        check(&["leveret", "bench", "connections", "-n", "8"], &format!("bench {rest}"));
        check(&["generator", "connections"], rest);
    }
}
