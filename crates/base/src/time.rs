//! Time as an argument: read once per turn by the outermost crate, passed down as a value.

/// The moment of one turn of the loop.
///
/// `mono_ns` never goes back and is the only clock for deadlines and intervals; `wall_ms` may jump and is only for
/// times that people or other machines read (timestamps, absolute expiry).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since some fixed point of this process.
    pub mono_ns: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub wall_ms: u64,
}

impl Now {
    /// A moment for tests: `ms` milliseconds after both clocks' zero.
    pub fn at_ms(ms: u64) -> Now {
        Now { mono_ns: ms * NS_PER_MS, wall_ms: ms }
    }

    /// The monotonic deadline `ms` milliseconds from now; saturates.
    pub fn after_ms(self, ms: u64) -> u64 {
        self.mono_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
    }
}

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
pub fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is a year's last; 719,468 days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let check = |days: u64, expected: (u64, u64, u64)| assert_eq!(date(days), expected, "{days}");
        check(0, (1970, 1, 1));
        check(59, (1970, 3, 1));
        check(11_016, (2000, 2, 29));
        check(11_017, (2000, 3, 1));
        check(20_778, (2026, 11, 21));
        check(47_540, (2100, 2, 28));
        check(47_541, (2100, 3, 1));
    }
}
