//! A broker that runs under a tool which counts its work, for one load, from its start to its end.
//!
//! The data lies beside the binary, on a real disk, and goes with the run. Only processes started here are ended.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a broker under a tool may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the broker listens: on free ports.
const LISTENERS: [&str; 2] =
    ["listeners.tcp.default=127.0.0.1:0", "stream.listeners.tcp.default=127.0.0.1:0"];

/// How often is looked whether it did.
const LOOK: Duration = Duration::from_millis(20);

/// A tool that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Valgrind's callgrind: user instructions by thread.
    Callgrind,
    /// strace: system calls of all threads.
    Strace,
}

/// The load on the broker while it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// A scenario of `leveret bench`.
    pub scenario: &'a str,
    /// More of its options.
    pub options: &'a [&'a str],
    /// Messages.
    pub messages: u64,
}

impl Tool {
    /// The command line that puts its counts into `folder`; the command to be counted follows.
    fn words(self, folder: &Path) -> Vec<OsString> {
        let out = folder.join("counts");
        match self {
            Tool::Callgrind => {
                let mut file = OsString::from("--callgrind-out-file=");
                file.push(out);
                vec!["valgrind".into(), "--tool=callgrind".into(), "--separate-threads=yes".into(), file]
            }
            Tool::Strace => vec!["strace".into(), "-f".into(), "-c".into(), "-o".into(), out.into()],
        }
    }

    /// Why it cannot be used on this machine: it is not installed, or not allowed.
    pub fn why_absent(self) -> Option<String> {
        let words = self.words(Path::new("/dev"));
        let name = words[0].to_string_lossy().into_owned();
        // A look at a program that does nothing; its counts are not kept.
        let words = match self {
            Tool::Callgrind => vec!["--tool=callgrind", "--callgrind-out-file=/dev/null", "true"],
            Tool::Strace => vec!["-f", "-c", "-o", "/dev/null", "true"],
        };
        match Command::new(&name).args(words).output() {
            Err(_) => Some(format!("{name} is not installed")),
            Ok(output) if !output.status.success() => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                Some(format!("{name} does not run here: {}", said.lines().last().unwrap_or("no word")))
            }
            Ok(_) => None,
        }
    }

    /// Starts `broker` with `settings` (`key=value`), puts `load` on it, stops it and returns the tool's count.
    ///
    /// # Errors
    /// In words for people: the broker or the load failed, or the tool left no counts.
    pub fn count(self, broker: &Path, settings: &[&str], load: &Load<'_>) -> Result<u64, String> {
        let beside = broker.parent().unwrap_or(Path::new("."));
        let folder = beside.join(format!("counted-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let counted = self.run(broker, settings, load, &folder).and_then(|()| self.read(&folder));
        // A folder that stays is no reason to call a count wrong.
        let _ = fs::remove_dir_all(&folder);
        counted
    }

    fn run(self, broker: &Path, settings: &[&str], load: &Load<'_>, folder: &Path) -> Result<(), String> {
        let mut traced = Traced::start(self, broker, settings, folder)?;
        let uri = format!("amqp://guest:guest@127.0.0.1:{}", traced.port("TCP")?);
        let mut bench = Command::new(broker);
        bench.args(["bench", load.scenario, "--uri", &uri, "-n", &load.messages.to_string()]);
        bench.args(["--stream-port", &traced.port("stream")?.to_string()]);
        bench.args(load.options).stdin(Stdio::null());
        let output = bench.output().map_err(|error| format!("{}: {error}", broker.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("the load failed: {}", said.trim().lines().last().unwrap_or("no word")));
        }
        traced.stop()
    }

    fn read(self, folder: &Path) -> Result<u64, String> {
        let mut counts = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("counts") {
                let text = fs::read_to_string(entry.path()).map_err(|error| error.to_string())?;
                counts.extend(match self {
                    Tool::Callgrind => instructions(&text),
                    Tool::Strace => system_calls(&text),
                });
            }
        }
        // strace leaves one file, callgrind one for each thread: the busiest is the shard.
        counts.into_iter().max().ok_or_else(|| "the tool left no counts".to_owned())
    }
}

/// The sum of a callgrind file, which is that of one thread.
fn instructions(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

/// The calls in the last line of strace's table: `100.00 seconds usecs/call calls [errors] total`.
fn system_calls(text: &str) -> Option<u64> {
    let line = text.lines().rev().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// The running broker with the tool around it.
struct Traced {
    tool: Child,
    log: PathBuf,
    pid_file: PathBuf,
}

impl Traced {
    fn start(tool: Tool, broker: &Path, settings: &[&str], folder: &Path) -> Result<Traced, String> {
        let (log, pid_file) = (folder.join("log"), folder.join("pid"));
        let out = fs::File::create(&log).map_err(|error| error.to_string())?;
        let err = out.try_clone().map_err(|error| error.to_string())?;
        let words = tool.words(folder);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(broker).arg("server").arg("--data-dir").arg(folder.join("data"));
        for setting in LISTENERS.iter().chain(settings) {
            command.args(["--set", setting]);
        }
        command.env("RABBITMQ_PID_FILE", &pid_file).stdin(Stdio::null()).stdout(out).stderr(err);
        let tool = command.spawn().map_err(|error| format!("{:?}: {error}", words[0]))?;
        let mut traced = Traced { tool, log, pid_file };
        let is_serving = traced.wait(|traced| traced.said().contains("Server startup complete"))?;
        if !is_serving {
            return Err(format!("the broker did not start; it said:\n{}", traced.said()));
        }
        Ok(traced)
    }

    fn said(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn port(&self, speech: &str) -> Result<u16, String> {
        let port = listener_port(&self.said(), speech);
        port.ok_or_else(|| format!("the broker did not name its {speech} listener"))
    }

    /// Waits until `is_so`; false if the tool ended before, or it took too long.
    fn wait(&mut self, is_so: impl Fn(&Traced) -> bool) -> Result<bool, String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if is_so(self) {
                return Ok(true);
            }
            if self.has_ended()? {
                return Ok(false);
            }
            sleep(LOOK);
        }
        Ok(false)
    }

    fn has_ended(&mut self) -> Result<bool, String> {
        Ok(self.tool.try_wait().map_err(|error| error.to_string())?.is_some())
    }

    /// Ends the broker as an operator would; the tool ends with it and writes its counts.
    fn stop(&mut self) -> Result<(), String> {
        self.signal("-TERM")?;
        self.wait(|_| false)?;
        match self.tool.try_wait() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!("the broker ended with {status}: {}", self.said())),
            Ok(None) => Err(format!("the broker did not stop within {} s", PATIENCE.as_secs())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a signal to the broker itself: strace is its parent, valgrind is in its place.
    fn signal(&self, signal: &str) -> Result<(), String> {
        let pid = fs::read_to_string(&self.pid_file).map_err(|error| format!("no process id: {error}"))?;
        let status = Command::new("kill").args([signal, pid.trim()]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill: {status}")),
            Err(error) => Err(format!("kill: {error}")),
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if self.has_ended() == Ok(false) {
            // The broker first: a tracer that dies lets go of it.
            if self.signal("-KILL").is_err() {
                let _ = self.tool.kill();
            }
            let _ = self.tool.wait();
        }
    }
}

/// The port in the line `started SPEECH listener on ADDRESS:PORT`.
fn listener_port(said: &str, speech: &str) -> Option<u16> {
    let (_, rest) = said.split_once(&format!("started {speech} listener on "))?;
    rest.split_ascii_whitespace().next()?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let callgrind = "events: Ir\nfn=(1)\n0 5\ntotals: 19721597\n";
        assert_eq!(instructions(callgrind), Some(19_721_597));
        assert_eq!(instructions("events: Ir\n"), None);
        let table =
            |line: &str| format!("% time     seconds  usecs/call     calls    errors syscall\n{line}\n");
        let with_errors = table("100.00    0.753148         369      2037        57 total");
        let without = table("100.00    0.753148         369      2037           total");
        assert_eq!((system_calls(&with_errors), system_calls(&without)), (Some(2037), Some(2037)));
        assert_eq!(system_calls(&table("50.0 0.1 3 44 futex")), None);
    }

    #[test]
    fn the_listener_is_found() {
        let said = "a\n[info] started TCP listener on 127.0.0.1:4711\n[info] started stream listener on [::]:5552\nb";
        assert_eq!(listener_port(said, "TCP"), Some(4711));
        assert_eq!(listener_port(said, "stream"), Some(5552));
        assert_eq!(listener_port("nothing", "TCP"), None);
    }

    #[test]
    fn a_broker_that_does_not_start_is_an_error_with_its_words() {
        let why = Tool::Strace.why_absent();
        let load = Load { scenario: "x", options: &[], messages: 1 };
        let home = std::env::temp_dir().join(format!("traced-test-{}", std::process::id()));
        fs::create_dir_all(&home).expect("a folder");
        let broker = home.join("broker");
        std::os::unix::fs::symlink("/bin/echo", &broker).expect("a link");
        let error = Tool::Strace.count(&broker, &["a=b"], &load).expect_err("it is no broker");
        fs::remove_dir_all(&home).expect("the folder was ours");
        // Without strace it is that which cannot be started.
        assert!(why.is_some() || error.contains("did not start") && error.contains("--set a=b"), "{error}");
    }
}
