//! Credit of senders' links: a window that grows and shrinks with its use.

use base::Now;

/// Bytes of messages a link may have under way, credit and unconfirmed together, once it has grown.
const LINK_BYTES_MAX: u64 = 16 << 20;

/// How much a link's sender may send, sized by its use.
///
/// The window begins at the settings' least and doubles when the sender has used all its credit while confirms were
/// under way: then credit, not the sender, was the bottleneck. It halves after ten seconds in which that did not
/// happen. More messages than a link can bring during one commit only make a backlog: beyond [`WINDOW_ALWAYS`] the
/// window follows the time from when credit ran out until a confirm came.
#[derive(Debug)]
pub(super) struct Credit {
    window: u32,
    /// Deliveries that wait for the broker.
    unconfirmed: u32,
    /// Bytes of a message, a moving average.
    message_bytes: u32,
    /// When credit last held the sender, seconds.
    held_at: u64,
    /// When credit ran out, monotonic nanoseconds, until a confirm comes; else 0.
    ran_out_at: u64,
    /// Microseconds from then until a confirm came, a moving average.
    commit_us: u32,
    /// A confirm came since credit was granted last.
    has_confirmed: bool,
    /// Something was sent, and the end of the queue it went to will be heard of.
    pub(super) has_sent: bool,
}

/// A window that is of use however quick commits are: the sender works while its confirms are under way.
const WINDOW_ALWAYS: u32 = 4096;

/// Messages a link brings in a microsecond, more than any client was seen to send.
const MESSAGES_PER_US: u32 = 3;

impl Credit {
    pub(super) fn new(window: u32) -> Credit {
        Credit {
            window,
            unconfirmed: 0,
            message_bytes: 0,
            held_at: 0,
            ran_out_at: 0,
            commit_us: 0,
            has_confirmed: false,
            has_sent: false,
        }
    }

    /// Deliveries that wait for the broker.
    pub(super) fn unconfirmed(&self) -> u32 {
        self.unconfirmed
    }

    /// The window: as many deliveries as may wait for the broker, about.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// One more delivery waits for the broker.
    #[inline]
    pub(super) fn wait(&mut self) {
        self.unconfirmed += 1;
    }

    /// So many publishes are safe.
    pub(super) fn confirmed(&mut self, count: u32) {
        self.unconfirmed = self.unconfirmed.saturating_sub(count);
        self.has_confirmed = true;
    }

    /// Takes in how long a commit took, if credit ran out before it.
    fn measure(&mut self, now: Now) {
        if std::mem::take(&mut self.has_confirmed) && self.ran_out_at > 0 {
            let took = u32::try_from((now.mono_ns - self.ran_out_at) / 1000).unwrap_or(u32::MAX);
            self.commit_us = match self.commit_us {
                0 => took,
                before => before / 8 * 7 + took / 8,
            };
            self.ran_out_at = 0;
        }
    }

    /// A message came; `left` is the credit the sender has left.
    #[inline]
    pub(super) fn came(&mut self, now: Now, bytes: usize, left: u32, most: u32) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.message_bytes = (self.message_bytes / 8).saturating_mul(7).saturating_add(bytes / 8);
        if left == 0 {
            self.held_at = seconds(now);
            if self.ran_out_at == 0 {
                self.ran_out_at = now.mono_ns;
            }
            let most = most.min(self.commit_us.saturating_mul(MESSAGES_PER_US).max(WINDOW_ALWAYS));
            let fits = LINK_BYTES_MAX / u64::from(self.message_bytes.max(1));
            let doubled = self.window.saturating_mul(2).min(most);
            self.window = doubled.min(u32::try_from(fits).unwrap_or(u32::MAX)).max(self.window);
        }
    }

    /// Credit to grant a sender that has `left`; none: it has enough, or too much is under way.
    pub(super) fn grant(&mut self, now: Now, left: u32, least: u32) -> Option<u32> {
        self.measure(now);
        if self.window > least && seconds(now) > self.held_at + 10 {
            self.window = (self.window / 2).max(least);
            self.held_at = seconds(now);
        }
        let is_low = left <= self.window / 2;
        (is_low && self.unconfirmed < self.window).then_some(self.window)
    }
}

/// Whole seconds are enough to tell a burst from a habit.
fn seconds(now: Now) -> u64 {
    now.mono_ns / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_follows_what_the_sender_uses() {
        let now = Now::at_ms(1000);
        let mut credit = Credit::new(170);
        assert_eq!(credit.grant(now, 0, 170), Some(170));
        assert_eq!(credit.grant(now, 170, 170), None);
        credit.came(now, 100, 0, 4096);
        assert_eq!(credit.grant(now, 0, 170), Some(340));
        credit.unconfirmed = 340;
        assert_eq!(credit.grant(now, 0, 170), None);
        credit.unconfirmed = 0;
        assert_eq!(credit.grant(Now::at_ms(60_000), 0, 170), Some(170));
    }

    /// The window of a sender that uses all it gets, where commits take so many microseconds.
    fn window_for(commit_us: u64) -> u32 {
        let (least, most) = (170, 32_768);
        let mut credit = Credit::new(least);
        let mut now = Now::at_ms(1000);
        for _ in 0..100 {
            credit.came(now, 100, 0, most);
            credit.unconfirmed = credit.window;
            now.mono_ns += commit_us * 1000;
            credit.confirmed(credit.window);
            credit.grant(now, 0, least);
        }
        credit.window
    }

    #[test]
    fn a_large_window_needs_slow_commits() {
        let rows = [(50, 4096), (1_300, 4096), (2_000, 6_000), (6_000, 18_000), (50_000, 32_768)];
        for (commit_us, window) in rows {
            let found = window_for(commit_us);
            assert!((window * 19 / 20..=window).contains(&found), "{commit_us} us: {found}");
        }
    }
}
