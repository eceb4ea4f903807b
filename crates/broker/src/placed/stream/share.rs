//! How much readers of a log's streams are handed in a turn: while publishers are at full speed, not all they could take.
//!
//! Readers can go on later; publishers at full speed wait for every moment that readers take from them, on this thread and
//! on all others that move their bytes. So while much comes in, readers have so many times as much together, or a rate that is
//! always theirs. A few readers at the end notice nothing; of many each falls behind, and catches up when less comes.
//! A value: what was committed, what was handed out and the time go in; what may be handed out comes out.

use crate::limits::Limits;
use base::Now;

/// Within so long it counts how much comes, nanoseconds.
const WINDOW_NS: u64 = 16_000_000;

/// So long after much came it is taken that more will come, nanoseconds: longer than [`WINDOW_NS`], so that the one window meets the next.
const BUSY_NS: u64 = 20_000_000;

/// Readers have so many times as much together as publishers.
const FACTOR: u64 = 4;

/// Bytes below which it is not worth to wake up for them.
const WORTH_BYTES: i64 = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Bytes that may still be handed out in this turn.
    left: usize,
    /// Bytes committed since `since_ns`.
    published: u64,
    since_ns: u64,
    /// Publishers come first, at the latest until then.
    is_busy: bool,
    busy_until_ns: u64,
    /// Bytes for readers a millisecond, meanwhile.
    rate: u64,
    /// Bytes that readers have saved up; below 0: a chunk was larger than what was left.
    saved: i64,
    saved_at_ns: u64,
    /// When there is something to be handed out again.
    resume_at_ns: Option<u64>,
}

impl Share {
    /// So many bytes of messages were committed.
    pub(super) fn published(&mut self, bytes: usize) {
        self.published += bytes as u64;
    }

    /// A turn ends: readers have a share until the next one does.
    pub(super) fn begin(&mut self, now: Now, limits: &Limits) {
        let now_ns = now.mono_ns;
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let is_much = self.published >= limits.stream_busy_bytes_min;
        if is_much || passed_ns > WINDOW_NS {
            if is_much && passed_ns <= WINDOW_NS {
                let per_ms = self.published.saturating_mul(1_000_000) / passed_ns.max(1);
                self.rate = per_ms.saturating_mul(FACTOR).max(limits.stream_busy_bytes_per_ms);
                if !self.is_busy {
                    let first = limits.stream_dispatch_busy_bytes_max;
                    (self.saved, self.saved_at_ns) = (i64::try_from(first).unwrap_or(i64::MAX), now_ns);
                }
                (self.is_busy, self.busy_until_ns) = (true, now_ns.saturating_add(BUSY_NS));
            }
            (self.published, self.since_ns) = (0, now_ns);
        }
        self.is_busy &= now_ns < self.busy_until_ns;
        if !self.is_busy {
            // Some reader has its turn, whatever the bound.
            (self.left, self.resume_at_ns) = (limits.stream_dispatch_bytes_max.max(1), None);
            return;
        }
        let saved_ns = now_ns.saturating_sub(self.saved_at_ns);
        let more =
            u64::try_from(u128::from(self.rate) * u128::from(saved_ns) / 1_000_000).unwrap_or(u64::MAX);
        let most = i64::try_from(limits.stream_dispatch_bytes_max.max(1)).unwrap_or(i64::MAX);
        self.saved = self.saved.saturating_add_unsigned(more).min(most);
        self.saved_at_ns = now_ns;
        let left = usize::try_from(self.saved).unwrap_or(0);
        self.left = left.min(limits.stream_dispatch_busy_bytes_max.max(1));
        self.resume_at_ns = None;
        if self.left == 0 {
            self.wait();
        }
    }

    /// Bytes may be handed out.
    pub(super) fn has_some(&self) -> bool {
        self.left > 0
    }

    /// So many bytes were handed out.
    pub(super) fn handed(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        if self.is_busy {
            self.saved = self.saved.saturating_sub_unsigned(bytes as u64);
            if self.saved <= 0 {
                self.left = 0;
                self.wait();
            }
        }
    }

    fn wait(&mut self) {
        let missing = WORTH_BYTES.saturating_sub(self.saved).max(1).unsigned_abs();
        let ns = missing.saturating_mul(1_000_000) / self.rate.max(1);
        self.resume_at_ns = Some(self.saved_at_ns.saturating_add(ns));
    }

    /// When readers have something again, monotonic nanoseconds; none: in the next turn.
    pub(super) fn resume_at(&self) -> Option<u64> {
        self.resume_at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bytes that readers get in `ms` milliseconds of turns that are `step_us` apart, where so many bytes come in each, and chunks
    /// are so large.
    fn handed(share: &mut Share, from_ms: u64, ms: u64, step_us: u64, published: usize, chunk: usize) -> u64 {
        let limits = Limits::default();
        let mut all = 0;
        let mut at_ns = from_ms * MS;
        while at_ns < (from_ms + ms) * MS {
            share.published(published);
            share.begin(Now { mono_ns: at_ns, wall_ms: 0 }, &limits);
            while share.has_some() {
                share.handed(chunk);
                all += chunk as u64;
            }
            at_ns += step_us * 1000;
        }
        all
    }

    #[test]
    fn while_much_comes_readers_have_so_many_times_as_much() {
        let limits = Limits::default();
        // 400 MB a second, and what is always theirs.
        for (published, per_ms) in [(400_000, 400_000 * FACTOR), (80_000, limits.stream_busy_bytes_per_ms)] {
            for chunk in [5000, 200_000] {
                let mut share = Share::default();
                handed(&mut share, 1000, 50, 1000, published, chunk);
                let all = handed(&mut share, 1050, 100, 250, published / 4, chunk) / 100;
                let bound = per_ms.min(4 * limits.stream_dispatch_busy_bytes_max as u64);
                assert!(
                    (bound * 8 / 10..=bound * 12 / 10 + 4 * chunk as u64).contains(&all),
                    "{published} {chunk}: {all}"
                );
            }
        }
    }

    #[test]
    fn where_little_comes_readers_have_all_they_can_take() {
        let most = Limits::default().stream_dispatch_bytes_max as u64;
        for published in [0, 1, 20_000] {
            let all = handed(&mut Share::default(), 1000, 100, 1000, published, 1000);
            assert!(all >= 100 * most, "{published}: {all}");
        }
        // Soon after much came.
        let mut share = Share::default();
        handed(&mut share, 1000, 50, 1000, 400_000, 1000);
        assert!(handed(&mut share, 1050 + BUSY_NS / MS, 10, 1000, 0, 1000) >= 10 * most);
    }

    #[test]
    fn who_has_had_enough_is_told_when_to_come_back() {
        let limits = Limits::default();
        let mut share = Share::default();
        handed(&mut share, 1000, 50, 1000, 200_000, 1000);
        let mut now_ns = 1049 * MS;
        share.handed(1 << 20);
        for _ in 0..2 {
            assert!(!share.has_some());
            let at = share.resume_at().expect("it waits");
            assert!((now_ns..now_ns + 10 * MS).contains(&at), "{at}");
            now_ns = at;
            share.begin(Now { mono_ns: now_ns, wall_ms: 0 }, &limits);
            assert!(share.has_some() && share.resume_at().is_none());
            share.handed(1 << 20);
        }
    }
}
