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

/// Milliseconds since 1970 of a moment as RFC 3339 §5.6 has it: `2026-11-23T08:44:12.007Z`, or with an offset from UTC.
/// `None` where it is none, or before 1970. In a query `+` is a space, which is taken for it.
pub(crate) fn read(text: &str) -> Option<u64> {
    let number = |part: &str| -> Option<u64> {
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let (day, time) = text.split_once(['T', 't'])?;
    let mut parts = day.splitn(3, '-');
    let [year, month, day] = [parts.next()?, parts.next()?, parts.next()?].map(number);
    let days = days(year?, month?, day?)?;
    let at = time.find(['Z', 'z', '+', '-', ' '])?;
    let (clock, zone) = time.split_at(at);
    let mut parts = clock.splitn(3, ':');
    let [hour, minute, second] = [parts.next()?, parts.next()?, parts.next()?];
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let [hour, minute, second] = [number(hour)?, number(minute)?, number(second)?];
    if hour > 23 || minute > 59 || second > 60 || fraction.is_empty() {
        return None;
    }
    number(fraction)?;
    let ms = number(&format!("{fraction:0<3}")[..3])?;
    let local = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let seconds = match zone {
        "Z" | "z" => local,
        zone => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let ahead =
                number(hours).filter(|own| *own < 24)? * 3600 + number(minutes).filter(|own| *own < 60)? * 60;
            if zone.starts_with('-') { local + ahead } else { local.checked_sub(ahead)? }
        }
    };
    Some(seconds * 1000 + ms)
}

/// Days from 1970 to a day of the Gregorian calendar, for years of four digits; `None` where there is no such day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March here, as in `base::time::date`.
    let from_march = (month + 9) % 12;
    let year_from_march = year - u64::from(month <= 2);
    let (era, of_era) = (year_from_march / 400, year_from_march % 400);
    let day_of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    let days = days.checked_sub(719_468)?;
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::{read, text};

    #[test]
    fn moments_are_read() {
        for ms in [0, 951_782_400_000, 1_700_000_000_007, 1_798_761_599_999, 4_107_542_399_000] {
            assert_eq!(read(&text(ms)), Some(ms), "{ms}");
        }
        let check = |text: &str, expected: Option<u64>| assert_eq!(read(text), expected, "{text}");
        check("1970-01-01T00:00:01Z", Some(1000));
        check("2023-11-14t22:13:20.5z", Some(1_700_000_000_500));
        check("2023-11-15T00:13:20.123456 02:00", Some(1_700_000_000_123));
        check("2023-11-14T21:13:20-01:00", Some(1_700_000_000_000));
        check("1970-01-01T00:00:00+01:00", None);
        for bad in [
            "",
            "T",
            "2023-11-14",
            "2023-11-14T22:13Z",
            "2023-11-14T22:13:20",
            "2023-02-29T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-11-00T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:60:00Z",
            "1969-12-31T23:59:59Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20.xZ",
            "+023-11-14T22:13:20Z",
            "99999999999999999999-01-01T00:00:00Z",
            "2023-11-14T22:13:20Zx",
            "2023-11-14T22:13:20+0100",
        ] {
            check(bad, None);
        }
    }

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
