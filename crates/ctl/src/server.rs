//! The node's side: accepts, reads one line, answers one line, closes. One at a time; administration is rare.

use crate::request::{self, Answer, Refusal, Request};
use crate::{Limits, exit};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

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

/// Answers requests with `answer` until it says `None`, which it may do at any request (the one that [`wake`] sends
/// when the node stops).
pub fn serve(listener: &UnixListener, limits: &Limits, mut answer: impl FnMut(Request) -> Option<Answer>) {
    for stream in listener.incoming() {
        // A peer that went away or does not speak is no matter of the node's.
        let Ok(stream) = stream else { continue };
        match converse(&stream, limits, &mut answer) {
            Ok(true) | Err(_) => {}
            Ok(false) => return,
        }
    }
}

/// Makes [`serve`] ask its function once more.
///
/// # Errors
/// What the system said.
pub fn wake(path: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(b"{\"request\":\"ping\"}\n")
}

/// False when the function had enough.
fn converse(
    stream: &UnixStream,
    limits: &Limits,
    answer: &mut impl FnMut(Request) -> Option<Answer>,
) -> io::Result<bool> {
    let silence = Some(Duration::from_millis(limits.silence_ms_max));
    stream.set_read_timeout(silence)?;
    stream.set_write_timeout(silence)?;
    let mut line = Vec::new();
    let most = limits.request_bytes_max as u64;
    BufReader::new(stream.take(most)).read_until(b'\n', &mut line)?;
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
    let mut stream = stream;
    stream.write_all(&bytes)?;
    Ok(true)
}
