//! Warnings, at most one a minute, of matches that were given up because their pattern took too many steps.

use base::time::NS_PER_MS;
use broker::access::STEPS_MAX;

/// Nanoseconds between two lines.
const PAUSE_NS: u64 = 60_000 * NS_PER_MS;

/// The count that was told last, and the time from which the next warning may be given.
#[derive(Debug, Default)]
pub struct Complaints {
    told: u64,
    due_ns: u64,
}

impl Complaints {
    /// The line that is due; `given_up` says how many matches were given up so far, and for which pattern the last.
    pub fn due(&mut self, now_ns: u64, given_up: impl FnOnce() -> (u64, String)) -> Option<String> {
        if now_ns < self.due_ns {
            return None;
        }
        let (count, pattern) = given_up();
        let more = count.saturating_sub(self.told);
        if more == 0 {
            return None;
        }
        (self.told, self.due_ns) = (count, now_ns + PAUSE_NS);
        Some(format!(
            "{more} matches of patterns were given up after {STEPS_MAX} steps: a permission denies then, and a policy does not apply. \
             The last was of '{pattern}'"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_minute() {
        let mut complaints = Complaints::default();
        let mut check = |now_s: u64, count: u64, expected: Option<&str>| {
            let line = complaints.due(now_s * 1000 * NS_PER_MS, || (count, "(?=a)".to_owned()));
            assert_eq!(
                line.as_deref().and_then(|line| line.split_once(' ')).map(|(count, _)| count),
                expected,
                "{now_s}"
            );
        };
        check(1, 0, None);
        check(2, 3, Some("3"));
        check(30, 5, None);
        check(62, 5, Some("2"));
        check(200, 5, None);
        check(201, 6, Some("1"));
    }
}
