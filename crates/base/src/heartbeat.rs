//! Heartbeats as AMQP 0-9-1 (§4.2.7) and the stream protocol have them: one is sent before three quarters of the timeout went by
//! with nothing sent, and each half of it while nothing else is sent; the peer is given up when nothing came for two whole
//! timeouts.
//!
//! Some clients give up a server that was silent for one timeout (RabbitMQ's Java client on Netty), so looking each
//! half of it whether something was sent in that half is not enough: bytes sent at the beginning of one half would be
//! followed by a heartbeat at the end of the next.

use crate::output::Output;
use crate::time::Now;

const NS_PER_S: u64 = 1_000_000_000;

/// The last signs of life of both peers, and the times of the next checks. All zero: no heartbeats.
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
        self.send_at = now.mono_ns.saturating_add(self.timeout_ns / 4);
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

    /// Sends a heartbeat or counts a silence where one is due; `frame` is a whole heartbeat. Answers whether the peer is still thought to be there.
    pub fn tick(&mut self, now: Now, frame: &[u8], output: &mut Output) -> bool {
        if self.timeout_ns == 0 {
            return true;
        }
        if now.mono_ns >= self.send_at {
            // Bytes that wait for the socket will be a sign of life of their own.
            if !self.sent && output.is_empty() {
                output.extend(frame);
            }
            // These bytes may have been sent right after the last look: the next is soon.
            let wait_ns = if self.sent { self.timeout_ns / 4 } else { self.timeout_ns / 2 };
            self.sent = false;
            self.send_at = now.mono_ns.saturating_add(wait_ns);
        }
        if now.mono_ns >= self.check_at {
            self.missed = if self.received || self.is_deaf { 0 } else { self.missed + 1 };
            self.received = false;
            self.check_at = now.mono_ns.saturating_add(self.timeout_ns);
        }
        self.missed < 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FRAME: &[u8] = b"beat";

    /// Sends something at the milliseconds `sent_ms` and checks those of the heartbeats between, with heartbeats of 1
    /// s.
    fn check(sent_ms: &[u64], expected_ms: &[u64]) {
        let mut heartbeat = Heartbeat::default();
        let mut output = Output::default();
        let at = |ms: u64| Now { mono_ns: ms * MS, wall_ms: 0 };
        heartbeat.start(at(0), 1);
        let mut beats = Vec::new();
        for ms in 0..3000 {
            heartbeat.sent |= sent_ms.contains(&ms);
            heartbeat.received = true;
            if ms * MS >= heartbeat.deadline() {
                assert!(heartbeat.tick(at(ms), FRAME, &mut output), "the peer speaks");
                if !output.is_empty() {
                    beats.push(ms);
                    output.sent(FRAME.len());
                }
            }
        }
        assert_eq!(beats, expected_ms, "{sent_ms:?}");
        let mut all: Vec<u64> = sent_ms.iter().chain(&beats).copied().chain([3000]).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[1] - two[0] <= 750), "never silent for longer: {all:?}");
    }

    #[test]
    fn silence_ends_before_the_timeout() {
        check(&[], &[250, 750, 1250, 1750, 2250, 2750]);
        check(&[0], &[500, 1000, 1500, 2000, 2500]);
        check(&[10], &[500, 1000, 1500, 2000, 2500]);
        check(&[10, 260], &[750, 1250, 1750, 2250, 2750]);
        check(&[249, 499, 749, 999, 1249, 1499, 1749, 1999, 2249, 2499, 2749, 2999], &[]);
        // Right after a heartbeat, which was sent with half the timeout to wait.
        check(&[0, 501], &[500, 1250, 1750, 2250, 2750]);
        check(&[0, 1001, 1999], &[500, 1000, 1750, 2500]);
    }

    #[test]
    fn a_silent_peer_is_given_up() {
        let mut heartbeat = Heartbeat::default();
        let mut output = Output::default();
        let at = |ms: u64| Now { mono_ns: ms * MS, wall_ms: 0 };
        heartbeat.start(at(0), 1);
        let lives = (0..4000)
            .find(|ms| *ms * MS >= heartbeat.deadline() && !heartbeat.tick(at(*ms), FRAME, &mut output));
        assert_eq!(lives, Some(2000));
    }
}
