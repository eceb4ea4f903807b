//! The tools' side: asks a node one thing.
#![allow(clippy::disallowed_methods, reason = "a tool is a process of its own: it waits")]

use crate::request::{Answer, Refusal, Request};
use crate::{Limits, exit};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The socket's name in the data folder.
pub const SOCKET_NAME: &str = "ctl.sock";

/// Bytes of an answer that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Asks the node that listens at `socket`. Waits at most `limits.silence_ms_max` for each part of the answer, or sign that it
/// is worked on, and at most `whole_ms` for all of it, where that is said.
pub fn ask(socket: &Path, limits: &Limits, whole_ms: Option<u64>, request: &Request) -> Answer {
    let unavailable = |what: &str| Refusal {
        code: exit::UNAVAILABLE,
        message: format!("unable to perform an operation on the node at {}: {what}", socket.display()),
    };
    let wrong = |what: String| Refusal { code: exit::SOFTWARE, message: format!("the node answered {what}") };
    let stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        ErrorKind::NotFound => unavailable("nothing listens there; is --data-dir right, is the node up?"),
        ErrorKind::ConnectionRefused => unavailable("it is not running"),
        _ => unavailable(&error.to_string()),
    })?;
    let mut line = serde_json::to_vec(request).map_err(|error| wrong(error.to_string()))?;
    line.push(b'\n');
    let mut talk = Talk {
        stream,
        silence: Duration::from_millis(limits.silence_ms_max.max(1)),
        end: whole_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
    };
    let answer = talk.ask(&line, limits.answer_bytes_max).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Refusal { code: exit::TEMPORARY, ..unavailable("it did not answer in time") }
        }
        _ => unavailable(&error.to_string()),
    })?;
    if answer.is_empty() {
        return Err(unavailable("it is stopping"));
    }
    serde_json::from_slice::<Answer>(&answer).map_err(|error| wrong(format!("what is no answer: {error}")))?
}

/// A question, and how long its answer is waited for.
struct Talk {
    stream: UnixStream,
    silence: Duration,
    end: Option<Instant>,
}

impl Talk {
    fn ask(&mut self, line: &[u8], answer_bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut left = line;
        while !left.is_empty() {
            self.stream.set_write_timeout(Some(self.patience()?))?;
            match self.stream.write(left) {
                Ok(count) => left = &left[count..],
                // The node may say why it takes no more.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut answer = Vec::new();
        let mut part = vec![0; READ_BYTES];
        while answer.last() != Some(&b'\n') {
            self.stream.set_read_timeout(Some(self.patience()?))?;
            match self.stream.read(&mut part) {
                Ok(0) => break,
                Ok(count) => {
                    // Signs that come before the answer are not kept.
                    let signs = if answer.is_empty() {
                        part.iter().take_while(|byte| **byte == b' ').count()
                    } else {
                        0
                    };
                    answer.extend_from_slice(&part[signs.min(count)..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if answer.len() as u64 > answer_bytes_max {
                return Err(io::Error::other(format!("it answers more than {answer_bytes_max} bytes")));
            }
        }
        Ok(answer)
    }

    /// How long the next bytes may take.
    fn patience(&self) -> io::Result<Duration> {
        let Some(end) = self.end else { return Ok(self.silence) };
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}
