//! Times: milliseconds since 1970, in UTC, and texts as RFC 3339 and FIX have them. Days are those of the Gregorian calendar, before
//! it was made too.

use crate::value::Value;

const SECOND_MS: i128 = 1000;
const MINUTE_MS: i128 = 60 * SECOND_MS;
const HOUR_MS: i128 = 60 * MINUTE_MS;
const DAY_MS: i128 = 24 * HOUR_MS;

/// Times that are times: some ten thousand years around.
const RANGE_MS: std::ops::RangeInclusive<i128> = -400_000_000_000_000..=400_000_000_000_000;

/// A day: year, month from 1, day from 1.
#[derive(Clone, Copy)]
struct Date {
    year: i128,
    month: i128,
    day: i128,
}

impl Date {
    /// The day so many days after 1970-01-01. Years begin in March, so that the day that only some have is their last.
    fn of_days(days: i128) -> Date {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Date { year: year + era * 400 + i128::from(month <= 2), month, day }
    }

    /// Days since 1970-01-01.
    fn days(self) -> i128 {
        let year = self.year - i128::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month = (self.month + 9) % 12;
        let of_year = (153 * month + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }
}

fn time(value: Value<'_>) -> Option<i128> {
    match value.first_number() {
        Value::Integer(ms) if RANGE_MS.contains(&ms) => Some(ms),
        _ => None,
    }
}

fn unit<'a>(value: Value<'a>) -> Option<&'a [u8]> {
    value.first().text()
}

pub(super) fn truncate(values: &[Value<'_>]) -> Value<'static> {
    let (Some(unit), Some(ms)) = (unit(values[0]), time(values[1])) else { return Value::Null };
    let days = ms.div_euclid(DAY_MS);
    let date = Date::of_days(days);
    let to = |length: i128| ms - ms.rem_euclid(length);
    let since = |date: Date| date.days() * DAY_MS;
    Value::Integer(match unit {
        b"second" => to(SECOND_MS),
        b"minute" => to(MINUTE_MS),
        b"hour" => to(HOUR_MS),
        b"day" => to(DAY_MS),
        // 1970-01-01 was a Thursday.
        b"week" => (days - (days + 3).rem_euclid(7)) * DAY_MS,
        b"month" => since(Date { day: 1, ..date }),
        b"quarter" => since(Date { month: (date.month - 1) / 3 * 3 + 1, day: 1, ..date }),
        b"year" => since(Date { month: 1, day: 1, ..date }),
        _ => return Value::Null,
    })
}

pub(super) fn part(values: &[Value<'_>]) -> Value<'static> {
    let (Some(unit), Some(ms)) = (unit(values[0]), time(values[1])) else { return Value::Null };
    let days = ms.div_euclid(DAY_MS);
    let date = Date::of_days(days);
    Value::Integer(match unit {
        b"millisecond" => ms.rem_euclid(SECOND_MS),
        b"second" => ms.rem_euclid(MINUTE_MS) / SECOND_MS,
        b"minute" => ms.rem_euclid(HOUR_MS) / MINUTE_MS,
        b"hour" => ms.rem_euclid(DAY_MS) / HOUR_MS,
        // Monday is 1, as ISO 8601 counts.
        b"weekday" => (days + 3).rem_euclid(7) + 1,
        b"day" => date.day,
        b"month" => date.month,
        b"quarter" => (date.month - 1) / 3 + 1,
        b"year" => date.year,
        _ => return Value::Null,
    })
}

pub(super) fn cast(value: Value<'_>) -> Value<'static> {
    match value.first() {
        Value::Bytes(text) => parse(text).map_or(Value::Null, Value::Integer),
        // A date, or a number.
        Value::Untyped(untyped) => {
            parse(untyped.text()).or_else(|| time(value)).map_or(Value::Null, Value::Integer)
        }
        value => time(value).map_or(Value::Null, Value::Integer),
    }
}

/// `2026-11-28`, or with a time of day `2026-11-28T21:05:06.789Z`, seconds and their parts left out or not, in place of `T` a
/// space, and in place of `Z` an offset as `+01:00`. Or as FIX has it, `20261128-21:05:06.789`, which is of UTC.
fn parse(text: &[u8]) -> Option<i128> {
    if let Some((date, [b'-', clock @ ..])) = text.split_at_checked(8)
        && date[4] != b'-'
    {
        let [year, month, day] = [&date[..4], &date[4..6], &date[6..]].map(number);
        let (of_day, rest) = time_of_day(clock)?;
        return Some(midnight(year, month, day)? + of_day - if rest.is_empty() { 0 } else { offset(rest)? });
    }
    let (date, rest) = text.split_at_checked(10)?;
    let [year, month, day] = [&date[..4], &date[5..7], &date[8..]].map(number);
    let midnight = midnight(year, month, day).filter(|_| date[4] == b'-' && date[7] == b'-')?;
    let Some((b'T' | b't' | b' ', clock)) = rest.split_first() else {
        return rest.is_empty().then_some(midnight);
    };
    let (of_day, rest) = time_of_day(clock)?;
    Some(midnight + of_day - offset(rest)?)
}

fn number(digits: &[u8]) -> Option<i128> {
    digits
        .iter()
        .try_fold(0, |sum: i128, digit| digit.is_ascii_digit().then(|| sum * 10 + i128::from(digit - b'0')))
}

/// Milliseconds since 1970 when a day begins.
fn midnight(year: Option<i128>, month: Option<i128>, day: Option<i128>) -> Option<i128> {
    let date = Date { year: year?, month: month?, day: day? };
    if !(1..=12).contains(&date.month) {
        return None;
    }
    // A day that a month does not have comes back as another.
    let back = Date::of_days(date.days());
    ((back.month, back.day) == (date.month, date.day)).then(|| date.days() * DAY_MS)
}

/// Milliseconds since midnight, and what is behind: `21:05`, `21:05:06` or `21:05:06.789`.
fn time_of_day(text: &[u8]) -> Option<(i128, &[u8])> {
    let (clock, mut rest) = text.split_at_checked(5)?;
    let (hour, minute) = (number(&clock[..2])?, number(&clock[3..])?);
    let (mut second, mut fraction_ms) = (0, 0);
    if let Some((b':', digits)) = rest.split_first() {
        let (digits, behind) = digits.split_at_checked(2)?;
        second = number(digits)?;
        rest = behind;
        if let Some((b'.', digits)) = rest.split_first() {
            let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if length == 0 {
                return None;
            }
            let thousandths = digits[..length].iter().copied().chain([b'0'; 2]).take(3).collect::<Vec<_>>();
            fraction_ms = number(&thousandths)?;
            rest = &digits[length..];
        }
    }
    // A leap second counts as the one after it.
    if clock[2] != b':' || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some((hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + fraction_ms, rest))
}

/// Milliseconds by which a clock is ahead of UTC: `Z`, or as `+01:00`.
fn offset(text: &[u8]) -> Option<i128> {
    match text {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), offset @ ..] if offset.len() == 5 && offset[2] == b':' => {
            let (hours, minutes) = (number(&offset[..2])?, number(&offset[3..])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset_ms = hours * HOUR_MS + minutes * MINUTE_MS;
            Some(if *sign == b'-' { -offset_ms } else { offset_ms })
        }
        _ => None,
    }
}
