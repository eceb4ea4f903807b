//! The time of a slice of a move.

use management::Pace;

/// The time of a slice of a move.
pub(super) struct Slice<'p> {
    pace: &'p Pace,
    /// When the messages that are passed had been looked at.
    behind_ms: Option<u64>,
}

impl Slice<'_> {
    pub(super) fn new(pace: &Pace) -> Slice<'_> {
        Slice { pace, behind_ms: None }
    }

    /// Whether the slice is to end, `ms` milliseconds after its beginning, when so many messages were looked at. At
    /// least one is that no slice before looked at.
    pub(super) fn is_late(&mut self, ms: u64, looked_at: u32) -> bool {
        let Pace { passed, ms_max, slice_ms, .. } = *self.pace;
        if looked_at >= passed {
            self.behind_ms.get_or_insert(ms);
        }
        let spent_ms = self.behind_ms.map_or(0, |since| ms - since);
        ms >= ms_max || (looked_at > passed && spent_ms >= slice_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_its_time_behind_the_messages_that_it_passes_over() {
        let check = |passed: u32, steps: &[(u64, u32, bool)]| {
            let pace = Pace {
                count: 100,
                among: 100,
                unplaced_max: 100,
                per_second: 0,
                ms_max: 5000,
                slice_ms: 1000,
                passed,
            };
            let mut slice = Slice::new(&pace);
            for &(ms, looked_at, expected) in steps {
                assert_eq!(slice.is_late(ms, looked_at), expected, "{passed} {ms} {looked_at}");
            }
        };
        // Nothing is passed over: one message at least.
        check(0, &[(0, 0, false), (2000, 0, false), (2001, 1, true)]);
        check(0, &[(0, 0, false), (999, 1, false), (1000, 2, true)]);
        // Three are, which took longer than a slice.
        check(3, &[(0, 0, false), (1500, 2, false), (2000, 3, false), (2999, 9, false), (3000, 10, true)]);
        check(3, &[(2000, 3, false), (3500, 3, false), (3600, 4, true)]);
        // The time of the whole is over for all.
        check(3, &[(5000, 1, true)]);
    }
}
