//! The node's side: accepts, reads one line, answers one line, closes. One at a time; administration is rare.

use crate::request::{self, Answer, Refusal, Request};
use crate::{Limits, exit};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Milliseconds between two looks at whether all is over, while a peer is silent.
pub const LOOK_MS: u64 = 200;

/// Listens at `path`, which only this user may open. Whatever was there before is replaced: the caller holds the lock
/// of the folder it lies in.
///
/// # Errors
/// What the system said.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers requests with `answer` until it says `None`, or `is_over` says so, which it is asked at any request (such as
/// [`wake`] sends when the node stops), when accepting fails, and every [`LOOK_MS`] while a peer is silent.
pub fn serve(
    listener: &UnixListener,
    limits: &Limits,
    is_over: impl Fn() -> bool,
    mut answer: impl FnMut(Request) -> Option<Answer>,
) {
    for stream in listener.incoming() {
        if is_over() {
            return;
        }
        // A peer that went away or does not speak is no matter of the node's.
        let Ok(stream) = stream else { continue };
        match converse(&stream, limits, &is_over, &mut answer) {
            Ok(true) | Err(_) => {}
            Ok(false) => return,
        }
    }
}

/// Makes [`serve`] ask its functions once more.
///
/// # Errors
/// What the system said.
pub fn wake(path: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(b"{\"request\":\"ping\"}\n")
}

/// False when a function had enough.
fn converse(
    stream: &UnixStream,
    limits: &Limits,
    is_over: &impl Fn() -> bool,
    answer: &mut impl FnMut(Request) -> Option<Answer>,
) -> io::Result<bool> {
    let look = Some(Duration::from_millis(LOOK_MS.min(limits.silence_ms_max.max(1))));
    stream.set_read_timeout(look)?;
    stream.set_write_timeout(look)?;
    let most = limits.request_bytes_max as u64;
    let mut patience = Patience { looks_max: limits.silence_ms_max / LOOK_MS, looks: 0, is_over };
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(most));
    while line.last() != Some(&b'\n') {
        let before = line.len();
        // What came before an error is kept.
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => patience.bear(error, line.len() > before)?,
        }
        if is_over() {
            return Ok(false);
        }
    }
    let reply = if line.last() != Some(&b'\n') {
        let message = format!("a request is one line of at most {most} bytes");
        Err(Refusal { code: exit::USAGE, message })
    } else {
        match request::read(&line) {
            Err(refusal) => Err(refusal),
            Ok(request) => match answer(request) {
                Some(reply) => reply,
                None => return Ok(false),
            },
        }
    };
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
            return Ok(false);
        }
    }
    Ok(true)
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
