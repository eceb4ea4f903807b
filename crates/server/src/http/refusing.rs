//! Clients for which there is no place: they are told so, a few at a time, and closed.

use socket2::SockRef;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Clients that are being told; further ones are closed without a word.
const TOLD_MAX: usize = 4;

/// Milliseconds for it.
const TELL_MS: u64 = 500;

/// Bytes of a client that are thrown away, so that it reads what it is told.
const READ: usize = 4 << 10;

const BODY: &str = concat!(
    r#"{"error":"too_many_requests","reason":"as many connections from this address that have not logged in "#,
    r#"are worked on as may be"}"#
);

/// The clients of a port that are being told.
#[derive(Default)]
pub struct Refusals(Arc<AtomicUsize>);

impl Refusals {
    /// Closes a client. Over TLS it would take a handshake to tell it why.
    pub fn refuse(&self, stream: TcpStream, is_secure: bool) {
        if is_secure || self.0.fetch_add(1, Ordering::Relaxed) >= TOLD_MAX {
            if !is_secure {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
            return;
        }
        let told = self.0.clone();
        tokio::spawn(async move {
            // A client that does not listen misses it.
            let _ = timeout(Duration::from_millis(TELL_MS), tell(&stream)).await;
            told.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn tell(stream: &TcpStream) -> std::io::Result<()> {
    let text = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.writable().await?;
    stream.try_write(text.as_bytes())?;
    SockRef::from(stream).shutdown(Shutdown::Write)?;
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; READ]) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}
