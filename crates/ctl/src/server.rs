//! The node's side: accepts, reads one line, answers one line, closes. A thread for each of a few conversations, so that
//! nobody waits for another's import.
//!
//! While an answer is worked on the peer gets a space now and then, which means nothing before a JSON document: a peer
//! that hears it goes on waiting, and a node that has died is told from one that is busy.

use crate::request::{self, Answer, Refusal, Request};
use crate::{Limits, exit};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, scope};
use std::time::Duration;

/// The sign of a node that still works on an answer.
const SIGN: &[u8] = b" ";

/// Milliseconds between two looks at whether all is over, while a peer is silent.
pub const LOOK_MS: u64 = 200;

/// Listens at `path`, which only this user may open, at no time anybody else: it is bound in a folder of this user's alone, and
/// moved from there. A file that was there before is replaced: the caller holds the lock of the folder it lies in.
///
/// # Errors
/// The system's error.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let folder = path.with_extension("d");
    let beside = folder.join("s");
    // The remains of a start that was cut off.
    let _ = std::fs::remove_file(&beside);
    let _ = std::fs::remove_dir(&folder);
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let bound = UnixListener::bind(&beside).and_then(|listener| {
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&beside, path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_file(&beside);
    std::fs::remove_dir(&folder)?;
    bound
}

/// Whether the peer is this user, or root: a socket that was handed on, or a folder opened by mistake, lets in nobody
/// else.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// Answers requests with `answer` until `is_over` says so, which it is asked whenever somebody comes (such as [`wake`] does when the
/// node stops), when accepting fails, and every [`LOOK_MS`] while a peer is silent. Answers that are under way then are
/// waited for.
pub fn serve(
    listener: &UnixListener,
    limits: &Limits,
    is_over: impl Fn() -> bool + Sync,
    answer: impl Fn(Request) -> Answer + Sync,
) {
    let (seats, is_over, answer) = (Seats::new(limits.conversations_max), &is_over, &answer);
    scope(|threads| {
        for stream in listener.incoming() {
            if is_over() {
                return;
            }
            // A peer that went away or does not speak is no matter of the node's.
            let Some(stream) = stream.ok().filter(is_own) else { continue };
            let Some(seat) = seats.take(is_over) else { return };
            let talk = move || {
                let _ = converse(&stream, limits, is_over, answer);
                drop(seat);
            };
            // Where the system has no thread to spare the peer sees its connection closed.
            let _ = Builder::new().name("ctl-talk".into()).spawn_scoped(threads, talk);
        }
    });
}

/// How many conversations there may be.
struct Seats {
    free: Mutex<usize>,
    left: Condvar,
}

/// A conversation's; free again once it is dropped.
struct Seat<'a>(&'a Seats);

impl Seats {
    fn new(count: usize) -> Seats {
        Seats { free: Mutex::new(count.max(1)), left: Condvar::new() }
    }

    /// Waits for one. None: it is over.
    fn take(&self, is_over: &impl Fn() -> bool) -> Option<Seat<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            if is_over() {
                return None;
            }
            let look = Duration::from_millis(LOOK_MS);
            free = self.left.wait_timeout(free, look).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Seat(self))
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.left.notify_one();
    }
}

/// Makes [`serve`] ask its functions once more.
///
/// # Errors
/// The system's error.
pub fn wake(path: &Path) -> io::Result<()> {
    // A connection is enough: nothing more may be taken from it.
    UnixStream::connect(path).map(drop)
}

fn converse(
    stream: &UnixStream,
    limits: &Limits,
    is_over: &impl Fn() -> bool,
    answer: &(impl Fn(Request) -> Answer + Sync),
) -> io::Result<()> {
    let look = Some(Duration::from_millis(LOOK_MS.min(limits.silence_ms_max.max(1))));
    stream.set_read_timeout(look)?;
    stream.set_write_timeout(look)?;
    let most = limits.request_bytes_max as u64;
    let mut patience = Patience { looks_max: limits.silence_ms_max / LOOK_MS, looks: 0, is_over };
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(most));
    while line.last() != Some(&b'\n') {
        let before = line.len();
        // Bytes that came before an error are kept.
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => patience.bear(error, line.len() > before)?,
        }
        if is_over() {
            return Ok(());
        }
    }
    let reply = if line.last() != Some(&b'\n') {
        let message = format!("a request is one line of at most {most} bytes");
        Err(Refusal { code: exit::USAGE, message })
    } else {
        request::read(&line).and_then(|request| with_signs(stream, limits, || answer(request)))
    };
    drop(line);
    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    let (mut stream, mut left) = (stream, &bytes[..]);
    while !left.is_empty() {
        match stream.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                left = &left[count..];
                patience.looks = 0;
            }
            Err(error) => patience.bear(error, false)?,
        }
        if !left.is_empty() && is_over() {
            // The end of an answer that a peer takes slowly is not waited for.
            return Ok(());
        }
    }
    Ok(())
}

/// Works on an answer, and gives signs meanwhile.
fn with_signs(mut stream: &UnixStream, limits: &Limits, work: impl FnOnce() -> Answer + Send) -> Answer {
    let sign = Duration::from_millis(limits.sign_ms.max(1));
    scope(|threads| {
        let (done, is_done) = channel::<()>();
        let watch = move || {
            while is_done.recv_timeout(sign) == Err(RecvTimeoutError::Timeout) {
                // Work goes on also for a peer that left.
                let _ = stream.write(SIGN);
            }
        };
        // Without that thread the peer may take a long answer for none.
        let _ = Builder::new().name("ctl-sign".into()).spawn_scoped(threads, watch);
        let answer = work();
        drop(done);
        answer
    })
}

/// How long a peer's silence is borne.
struct Patience<'a, F> {
    looks_max: u64,
    looks: u64,
    is_over: &'a F,
}

impl<F: Fn() -> bool> Patience<'_, F> {
    /// Nothing came, or went, for one look more.
    ///
    /// # Errors
    /// Any other error; and this one when there were too many, while the node goes on.
    fn bear(&mut self, error: io::Error, has_moved: bool) -> io::Result<()> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        match error.kind() {
            Interrupted => Ok(()),
            WouldBlock | TimedOut => {
                self.looks = if has_moved { 0 } else { self.looks + 1 };
                if self.looks > self.looks_max && !(self.is_over)() { Err(error) } else { Ok(()) }
            }
            _ => Err(error),
        }
    }
}
