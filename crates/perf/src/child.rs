//! A broker of our own: a child process on free ports with a temporary data folder, gone when the run is over.

use crate::options::Transport;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A broker that may take this long to start, seconds: an old machine making its first files.
const START_SECONDS: u64 = 60;

/// A broker that may take this long to stop, seconds; then it is killed.
const STOP_SECONDS: u64 = 30;

/// Lines of trouble that are shown of each output.
const TROUBLE_LINES: usize = 30;

/// The running child.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    folder: PathBuf,
    keep: bool,
    /// Its listeners on 127.0.0.1, plain TCP first.
    ports: Vec<(Transport, u16)>,
    /// The binary and the transports that it was started with.
    binary: PathBuf,
    transports: Vec<Transport>,
}

impl Broker {
    /// Starts `binary server` with `settings` (`key=value` each) and its data in a new folder inside `parent`, and waits
    /// until it serves plain TCP and `transports`.
    ///
    /// # Errors
    /// It could not be started, ended at once, or did not serve in time; its last words are in the error.
    pub fn start(
        binary: &Path,
        parent: &Path,
        settings: &[String],
        transports: &[Transport],
        keep: bool,
    ) -> io::Result<Broker> {
        let folder = parent.join(format!("leveret-bench-{}", std::process::id()));
        Broker::start_in(binary, folder, settings, transports, keep)
    }

    /// As [`Broker::start`], in this folder.
    ///
    /// # Errors
    /// As of [`Broker::start`].
    pub fn start_in(
        binary: &Path,
        folder: PathBuf,
        settings: &[String],
        transports: &[Transport],
        keep: bool,
    ) -> io::Result<Broker> {
        fs::create_dir_all(&folder)?;
        let (binary, transports) = (binary.to_owned(), transports.to_vec());
        let certificate = Certificate::beside(&folder);
        if transports.iter().any(|transport| transport.is_secure()) {
            certificate.write()?;
        }
        let (child, lines) = launch(&binary, &folder, settings, &transports)?;
        let mut broker = Broker { child, folder, keep, ports: Vec::new(), binary, transports };
        let started = broker.wait_until_it_serves(&lines);
        // Both were read by now.
        drop(certificate);
        broker.listens_on(started?)?;
        Ok(broker)
    }

    /// Stops it and starts it again with its data, perhaps with other settings, on other ports; how long it took to start. Without
    /// TLS.
    ///
    /// # Errors
    /// As of [`Broker::start`].
    pub fn restart(&mut self, settings: &[String]) -> io::Result<Duration> {
        self.stop();
        let start = Instant::now();
        let (child, lines) = launch(&self.binary, &self.folder, settings, &self.transports)?;
        self.child = child;
        let ports = self.wait_until_it_serves(&lines)?;
        self.listens_on(ports)?;
        Ok(start.elapsed())
    }

    fn listens_on(&mut self, ports: Vec<(Transport, u16)>) -> io::Result<()> {
        self.ports = ports;
        match self.ports.first() {
            Some((Transport::Tcp, _)) => Ok(()),
            _ => Err(io::Error::other("the broker did not name its TCP listener")),
        }
    }

    fn wait_until_it_serves(&mut self, lines: &mpsc::Receiver<String>) -> io::Result<Vec<(Transport, u16)>> {
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
        let mut last_words: Vec<String> = Vec::new();
        let mut ports = Vec::new();
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    ports.extend(listener(&line));
                    if line.contains("Server startup complete") {
                        base::brief::sort_by_key(&mut ports, |(transport, _)| *transport != Transport::Tcp);
                        return Ok(ports);
                    }
                    last_words.push(line);
                    if last_words.len() > 20 {
                        last_words.remove(0);
                    }
                }
                Err(why) => {
                    let why = match why {
                        mpsc::RecvTimeoutError::Timeout => "did not serve in time",
                        mpsc::RecvTimeoutError::Disconnected => "ended while starting",
                    };
                    let text = format!("the broker {why}; it said:\n{}", last_words.join("\n"));
                    return Err(io::Error::other(text));
                }
            }
        }
    }

    /// Gives it an order, or asks it something, as `leveret ctl` does; the answer.
    ///
    /// # Errors
    /// Its refusal, in words for people.
    pub fn ctl(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.binary);
        command.arg("ctl").arg("--data-dir").arg(&self.folder).args(words).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{}: {error}", self.binary.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// The ports it listens on, on 127.0.0.1: that for plain TCP first.
    pub fn ports(&self) -> impl Iterator<Item = (Transport, u16)> {
        self.ports.iter().copied()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn stop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && !self.has_ended()
        {
            // It cannot be another's process: the child was not waited for yet.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS);
        while !self.has_ended() {
            if Instant::now() > deadline {
                eprintln!("the broker did not stop within {STOP_SECONDS} s and was killed");
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
        if self.keep {
            eprintln!("the broker's data folder is {}", self.folder.display());
        } else if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("the broker's data folder {} was not removed: {error}", self.folder.display());
        }
    }
}

/// Starts the process; the lines that it prints.
fn launch(
    binary: &Path,
    folder: &Path,
    settings: &[String],
    transports: &[Transport],
) -> io::Result<(Child, mpsc::Receiver<String>)> {
    let mut command = Command::new(binary);
    command.arg("server").arg("--data-dir").arg(folder);
    command.args(["--set", "listeners.tcp.default=127.0.0.1:0"]);
    if transports.iter().any(|transport| transport.is_secure()) {
        // Where [`Certificate`] puts them.
        let [file, key] = ["crt", "key"].map(|extension| folder.with_extension(extension));
        command.args(["--set", &format!("ssl_options.certfile={}", file.display())]);
        command.args(["--set", &format!("ssl_options.keyfile={}", key.display())]);
    }
    for listener in transports.iter().filter_map(|transport| listener_key(*transport)) {
        command.args(["--set", &format!("{listener}=127.0.0.1:0")]);
    }
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        io::Error::new(error.kind(), format!("{} could not be started: {error}", binary.display()))
    })?;
    let lines = gather_lines(&mut child);
    Ok((child, lines))
}

/// Both output streams of the child, line by line. They are read for as long as the child lives, so that it never waits
/// for a full pipe.
fn gather_lines(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let read = |stream: Box<dyn io::Read + Send>| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            // Once it serves nobody listens; then lines that look like trouble go to people, with the lines behind
            // them.
            let (mut shown, mut behind) = (0, 0);
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let Err(mpsc::SendError(line)) = sender.send(line) else { continue };
                if is_trouble(&line) {
                    behind = 3;
                }
                if behind > 0 && shown < TROUBLE_LINES {
                    eprintln!("broker: {line}");
                    shown += 1;
                    behind -= 1;
                }
            }
        });
    };
    if let Some(stdout) = child.stdout.take() {
        read(Box::new(stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        read(Box::new(stderr));
    }
    receiver
}

fn is_trouble(line: &str) -> bool {
    line.contains("[error]") || line.contains("panicked")
}

/// The listener in a line with `started TCP listener on 127.0.0.1:5672` in it, among any other text.
fn listener(line: &str) -> Option<(Transport, u16)> {
    let (_, rest) = line.split_once("started ")?;
    let (name, address) = rest.split_once(" listener on ")?;
    let mut all = Transport::ALL.into_iter().chain([Transport::Stream]);
    let transport = all.find(|transport| transport.name() == name)?;
    let address = address.split_ascii_whitespace().next()?;
    Some((transport, address.rsplit_once(':')?.1.trim_end_matches('.').parse().ok()?))
}

/// The setting that opens a listener for `transport`; that for plain TCP is always there.
fn listener_key(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::Tcp => None,
        Transport::Tls => Some("listeners.ssl.default"),
        Transport::Ws => Some("web_amqp.tcp.listener"),
        Transport::Wss => Some("web_amqp.ssl.listener"),
        Transport::Stream => Some("stream.listeners.tcp.1"),
    }
}

/// The files of a certificate that nobody has to trust, for the time in which the broker starts.
struct Certificate {
    file: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn beside(folder: &Path) -> Certificate {
        Certificate { file: folder.with_extension("crt"), key: folder.with_extension("key") }
    }

    fn write(&self) -> io::Result<()> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).map_err(io::Error::other)?;
        fs::write(&self.file, made.cert.pem())?;
        fs::write(&self.key, made.signing_key.serialize_pem())
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        // There are none where nothing is secure.
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_file(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_port_is_found_in_the_log() {
        let line = "2026-01-01 00:00:00.000000+00:00 [info] <0.1.0> started TCP listener on 127.0.0.1:43211";
        assert_eq!(listener(line), Some((Transport::Tcp, 43_211)));
        assert_eq!(listener("started TCP listener on [::1]:5672 (default)"), Some((Transport::Tcp, 5672)));
        assert_eq!(listener("started TLS listener on 127.0.0.1:1"), Some((Transport::Tls, 1)));
        let line = "started WebSocket over TLS listener on 127.0.0.1:2";
        assert_eq!(listener(line), Some((Transport::Wss, 2)));
        assert_eq!(listener("started MQTT listener on 127.0.0.1:1"), None);
    }

    #[test]
    fn a_broker_that_ends_is_an_error_with_its_last_words() {
        let error =
            Broker::start(Path::new("/bin/echo"), &std::env::temp_dir(), &[], &[], false).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("ended while starting") && text.contains("server --data-dir"), "{text}");
    }

    #[test]
    fn a_broker_serves_until_it_is_dropped() {
        let home = std::env::temp_dir().join(format!("leveret-child-test-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let (script, word) = (home.join("broker"), home.join("stopped"));
        let text = format!(
            "#!/bin/sh\ntrap 'echo $* >{}; exit 0' TERM\necho started TCP listener on 127.0.0.1:4711\n\
             echo Server startup complete\nwhile :; do sleep 0.05; done\n",
            word.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let start = || Broker::start(&script, &home, &["a.b=c".to_owned()], &[Transport::Tcp], false);
        // A process that another test is just starting may hold the script open for writing until it is another program.
        let is_busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        let mut started = start();
        for _ in 0..100 {
            if !started.as_ref().is_err_and(is_busy) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            started = start();
        }
        let broker = started.unwrap();
        assert_eq!(broker.ports().collect::<Vec<_>>(), [(Transport::Tcp, 4711)]);
        let folder = broker.folder().to_owned();
        assert!(folder.is_dir());
        drop(broker);
        assert!(!folder.exists());
        let arguments = fs::read_to_string(&word).unwrap();
        let folder = folder.display();
        let expected =
            format!("server --data-dir {folder} --set listeners.tcp.default=127.0.0.1:0 --set a.b=c\n");
        assert_eq!(arguments, expected);
        fs::remove_dir_all(&home).unwrap();
    }
}
