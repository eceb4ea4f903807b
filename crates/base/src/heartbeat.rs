//! Heartbeats as AMQP 0-9-1 (§4.2.7) and the stream protocol have them: one is sent when half the timeout went by with nothing
//! sent; the peer is given up when nothing came for two whole timeouts.

use crate::output::Output;
use crate::time::Now;

const NS_PER_S: u64 = 1_000_000_000;

/// Who spoke last, and when that is looked at again. All zero: no heartbeats.
#[derive(Debug, Default)]
pub struct Heartbeat {
    /// 0: off.
    timeout_ns: u64,
    send_at: u64,
    check_at: u64,
    /// Something was appended to the output since `send_at` was set.
    pub sent: bool,
    /// Something came since `check_at` was set.
    pub received: bool,
    /// This end does not read, so nothing can come.
    pub is_deaf: bool,
    missed: u8,
}

impl Heartbeat {
    /// It begins now; a timeout of 0 seconds: there is none.
    pub fn start(&mut self, now: Now, timeout_s: u32) {
        self.timeout_ns = u64::from(timeout_s) * NS_PER_S;
        self.send_at = now.mono_ns.saturating_add(self.timeout_ns / 2);
        self.check_at = now.mono_ns.saturating_add(self.timeout_ns);
    }

    /// Seconds; 0: off.
    pub fn timeout_s(&self) -> u64 {
        self.timeout_ns / NS_PER_S
    }

    /// It is over.
    pub fn stop(&mut self) {
        self.timeout_ns = 0;
    }

    /// Monotonic nanoseconds; `u64::MAX` when off.
    pub fn deadline(&self) -> u64 {
        if self.timeout_ns == 0 { u64::MAX } else { self.send_at.min(self.check_at) }
    }

    /// Does what is due; `frame` is a whole heartbeat. Answers whether the peer is still thought to be there.
    pub fn tick(&mut self, now: Now, frame: &[u8], output: &mut Output) -> bool {
        if self.timeout_ns == 0 {
            return true;
        }
        if now.mono_ns >= self.send_at {
            // Bytes that wait for the socket will be a sign of life of their own.
            if !self.sent && output.is_empty() {
                output.extend(frame);
            }
            self.sent = false;
            self.send_at = now.mono_ns.saturating_add(self.timeout_ns / 2);
        }
        if now.mono_ns >= self.check_at {
            self.missed = if self.received || self.is_deaf { 0 } else { self.missed + 1 };
            self.received = false;
            self.check_at = now.mono_ns.saturating_add(self.timeout_ns);
        }
        self.missed < 2
    }
}
