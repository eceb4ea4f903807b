//! The tools' side: asks a node one thing.

use crate::request::{Answer, Refusal, Request};
use crate::{Limits, exit};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The socket's name in the data folder.
pub const SOCKET_NAME: &str = "ctl.sock";

/// Asks the node that listens at `socket` and waits at most `limits.silence_ms_max` for each part of the answer.
pub fn ask(socket: &Path, limits: &Limits, request: &Request) -> Answer {
    let unavailable = |what: &str| Refusal {
        code: exit::UNAVAILABLE,
        message: format!("unable to perform an operation on the node at {}: {what}", socket.display()),
    };
    let wrong = |what: String| Refusal { code: exit::SOFTWARE, message: format!("the node answered {what}") };
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            unavailable("nothing listens there; is --data-dir right, is the node up?")
        }
        std::io::ErrorKind::ConnectionRefused => unavailable("it is not running"),
        _ => unavailable(&error.to_string()),
    })?;
    let silence = Some(Duration::from_millis(limits.silence_ms_max.max(1)));
    let mut line = serde_json::to_vec(request).map_err(|error| wrong(error.to_string()))?;
    line.push(b'\n');
    let mut answer = Vec::new();
    stream
        .set_read_timeout(silence)
        .and_then(|()| stream.set_write_timeout(silence))
        .and_then(|()| stream.write_all(&line))
        .and_then(|()| BufReader::new(stream.take(limits.answer_bytes_max)).read_until(b'\n', &mut answer))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => unavailable("it did not answer in time"),
            _ => unavailable(&error.to_string()),
        })?;
    if answer.is_empty() {
        return Err(unavailable("it is stopping"));
    }
    serde_json::from_slice::<Answer>(&answer).map_err(|error| wrong(format!("what is no answer: {error}")))?
}
