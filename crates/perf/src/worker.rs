//! A client thread: it turns its ends while their sockets have something, and sleeps else.
//!
//! A few sockets each, so `ppoll` is as good as anything, and it sleeps to the nanosecond, which a paced load needs.

use crate::end::{End, Wait};
use crate::meter::Meter;
use crate::stream::Stream;
use crate::wire::Wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::net::TcpStream;
use std::sync::mpsc::Sender;

/// Bytes read at a time: larger than any frame agreed on.
pub const READ: usize = 2 << 20;

/// How often at least a thread looks whether it is to stop, nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// How long it waits for the broker's good-bye, nanoseconds.
const CLOSE_NS: u64 = 2_000_000_000;

/// The news of a thread while it runs.
#[derive(Debug)]
pub enum News {
    /// All its ends are logged in and set up.
    Ready,
    /// All its ends did their part; the CPU time of the thread for that, nanoseconds.
    Done {
        /// From start to end of the run.
        cpu_ns: u64,
    },
    /// The run is over for this reason.
    Failed(String),
}

/// The ends of one thread.
#[derive(Debug)]
pub struct Worker<W> {
    /// One for each end, non-blocking.
    pub streams: Vec<Stream<TcpStream>>,
    /// The ends.
    pub ends: Vec<End<W>>,
    /// Whether there are publishers among them, which may wait for the consumers.
    pub is_publishing: bool,
    /// How far publishers may be ahead.
    pub lead: Option<u64>,
}

impl<W: Wire> Worker<W> {
    /// Runs until everything is done or the meter says stop; returns the ends with their counts.
    pub fn run(mut self, meter: &Meter, news: &Sender<News>) -> Vec<End<W>> {
        if let Err(why) = self.work(meter, news) {
            meter.stop();
            // The listener may have gone with the run.
            let _ = news.send(News::Failed(why));
        }
        self.say_goodbye(meter);
        self.ends
    }

    fn work(&mut self, meter: &Meter, news: &Sender<News>) -> Result<(), String> {
        let mut poller = Poller::new(self.streams.len(), self.is_publishing);
        let mut is_ready = false;
        let mut cpu_at_start = None;
        while !meter.is_stopped() {
            self.turn(&mut poller, meter)?;
            if !is_ready && self.ends.iter().all(|end| end.wire.is_ready()) {
                is_ready = true;
                let _ = news.send(News::Ready);
            }
            if meter.is_started() {
                let cpu_at_start = *cpu_at_start.get_or_insert_with(thread_cpu_ns);
                if self.ends.iter_mut().all(|end| end.is_done(meter)) {
                    let _ = news.send(News::Done { cpu_ns: thread_cpu_ns() - cpu_at_start });
                    return Ok(());
                }
            }
            let wait_ns = if meter.is_started() { LOOK_NS } else { 200_000 };
            poller.sleep(&self.streams, meter, wait_ns)?;
        }
        Ok(())
    }

    fn turn(&mut self, poller: &mut Poller, meter: &Meter) -> Result<(), String> {
        for (index, end) in self.ends.iter_mut().enumerate() {
            if poller.is_readable[index] {
                end.read(&mut self.streams[index], &mut poller.buffer, meter)?;
            }
            poller.waits[index] = end.act(&mut self.streams[index], meter, self.lead)?;
        }
        Ok(())
    }

    fn say_goodbye(&mut self, meter: &Meter) {
        let start = meter.now();
        let mut poller = Poller::new(self.streams.len(), self.is_publishing);
        for end in &mut self.ends {
            end.close(start);
        }
        while meter.now().mono_ns < start.mono_ns + CLOSE_NS && !self.ends.iter().all(End::is_gone) {
            // The run is done: an error now changes nothing.
            if self
                .turn(&mut poller, meter)
                .and_then(|()| poller.sleep(&self.streams, meter, LOOK_NS))
                .is_err()
            {
                return;
            }
            for (index, end) in self.ends.iter().enumerate() {
                // A socket at its end is always readable.
                poller.is_readable[index] &= !end.is_gone();
            }
        }
    }
}

/// CPU time of this thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of this process, nanoseconds.
pub fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Poller {
    /// Whether the wake-up for publishers is ours to take.
    is_publishing: bool,
    buffer: Vec<u8>,
    is_readable: Vec<bool>,
    waits: Vec<Wait>,
}

impl Poller {
    fn new(ends: usize, is_publishing: bool) -> Poller {
        Poller {
            is_publishing,
            buffer: vec![0; READ],
            is_readable: vec![false; ends],
            waits: vec![Wait::default(); ends],
        }
    }

    /// Sleeps until a socket has something, a deadline passed or `most_ns` are over.
    fn sleep(&mut self, streams: &[Stream<TcpStream>], meter: &Meter, most_ns: u64) -> Result<(), String> {
        let mut timeout_ns = most_ns;
        let now_ns = meter.now().mono_ns;
        let mut fds = Vec::with_capacity(streams.len() + 1);
        for (stream, wait) in streams.iter().zip(&self.waits) {
            let space = if wait.for_space { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(stream.socket(), PollFlags::IN | space));
            if wait.nothing {
                timeout_ns = 0;
            }
            if let Some(until_ns) = wait.until_ns {
                timeout_ns = timeout_ns.min(until_ns.saturating_sub(now_ns));
            }
        }
        if self.is_publishing {
            fds.push(PollFd::new(meter.wake(), PollFlags::IN));
        }
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("waiting for sockets failed: {error}")),
        }
        if fds.get(streams.len()).is_some_and(|wake| !wake.revents().is_empty()) {
            meter.clear_wake();
        }
        for (is_readable, fd) in self.is_readable.iter_mut().zip(&fds) {
            *is_readable = fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        }
        Ok(())
    }
}
