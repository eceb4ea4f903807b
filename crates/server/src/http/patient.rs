//! A socket whose peer has to take what it asked for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// A socket that is given up when its peer takes too little in the time that something waits for it to be taken. Any byte alone
/// would not do: a peer that takes one now and then keeps the rest of an answer, and the room it has.
pub struct Patient {
    stream: TcpStream,
    silence: Duration,
    /// Bytes that are to be taken while something waits for so long.
    taken_min: usize,
    /// Bytes taken since that was last judged.
    taken: usize,
    /// How long something waited since then, before what waits now.
    waited: Duration,
    /// Since when something waits to be taken.
    stuck_at: Option<Instant>,
    /// When it is judged again, if what waits now waits on.
    limit: Pin<Box<Sleep>>,
}

impl Patient {
    /// One that is given up where its peer takes fewer than `taken_min` bytes in `silence`.
    pub fn new(stream: TcpStream, silence: Duration, taken_min: usize) -> Patient {
        let limit = Box::pin(sleep(silence));
        Patient { stream, silence, taken_min, taken: 0, waited: Duration::ZERO, stuck_at: None, limit }
    }

    /// The outcome of a write: an error where the peer took fewer than `taken_min` bytes while the connection waited
    /// for `silence`.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        taken: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = &polled {
            self.taken = self.taken.saturating_add(done.as_ref().map_or(0, taken));
            self.waited += self.stuck_at.take().map_or(Duration::ZERO, |since| since.elapsed());
            return polled;
        }
        if self.stuck_at.is_none() {
            let now = Instant::now();
            self.stuck_at = Some(now);
            self.limit.as_mut().reset(now + self.silence.saturating_sub(self.waited));
        }
        while self.limit.as_mut().poll(context).is_ready() {
            if self.taken < self.taken_min {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let now = Instant::now();
            (self.taken, self.waited, self.stuck_at) = (0, Duration::ZERO, Some(now));
            self.limit.as_mut().reset(now + self.silence);
        }
        Poll::Pending
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, polled, |count| *count)
    }

    // Without this answers would be copied once more, into a buffer that no bound knows.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, polled, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        let judged = self.judge(context, polled, |()| 0);
        if judged.is_ready() {
            // All that there was is taken: the next answer has its own time.
            (self.taken, self.waited) = (0, Duration::ZERO);
        }
        judged
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
