//! Moments as text.

use base::time::date;

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Milliseconds since 1970 as RabbitMQ writes them: `2026-11-23T08:44:12.007+00:00`.
pub(crate) fn text(since_1970_ms: u64) -> String {
    let seconds = since_1970_ms / 1000;
    let (days, of_day) = (seconds / SECONDS_A_DAY, seconds % SECONDS_A_DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let ms = since_1970_ms % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn moments_are_written_out() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_700_000_000_007, "2023-11-14T22:13:20.007+00:00"),
            (1_798_761_599_999, "2026-12-31T23:59:59.999+00:00"),
        ] {
            assert_eq!(text(ms), expected);
        }
    }
}
