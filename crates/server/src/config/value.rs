//! Readers of values. Each reader's error names the values that would be accepted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// `None`: every interface, IPv6 and IPv4.
    pub ip: Option<IpAddr>,
    /// 0: whichever is free.
    pub port: u16,
}

/// `true` or `false`; `on`, `off`, `yes` and `no` are what people mean.
pub fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err("accepted values: true, false".into()),
    }
}

/// A whole number.
pub fn integer(value: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("accepted values: a whole number from {min} to {max}"))
}

/// A number.
pub fn decimal(value: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("accepted values: a number from {min} to {max}"))
}

/// A number of bytes, with a unit if one likes: `kB`, `MB` ... are powers of ten, `k`, `KiB`, `Mi` ... of two.
pub fn bytes(value: &str) -> Result<u64, String> {
    let digits =
        value.len() - value.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '.').len();
    let (number, unit) = value.split_at(digits);
    let factor = match unit.trim() {
        "" | "b" | "B" => Some(1),
        unit => {
            let (letter, rest) = unit.split_at(unit.chars().next().map_or(0, char::len_utf8));
            let power = "kmgtp".find(&letter.to_ascii_lowercase()).map(|index| index as u32 + 1);
            match rest {
                "B" | "b" => power.map(|power| 1000u64.pow(power)),
                "" | "i" | "iB" | "ib" => power.map(|power| 1024u64.pow(power)),
                _ => None,
            }
        }
    };
    let whole =
        number.parse().ok().zip(factor).and_then(|(number, factor): (u64, u64)| number.checked_mul(factor));
    // As with RabbitMQ, 1.5GB is a size; a part of a byte is none.
    let part = || {
        let number: f64 = number.parse().ok().filter(|_| number.contains('.') && !number.starts_with('.'))?;
        let bytes = number * factor? as f64;
        (factor > Some(1) && bytes < (1u64 << 60) as f64).then_some(bytes as u64)
    };
    whole
        .or_else(part)
        .ok_or_else(|| "accepted values: a number of bytes such as 50000000, 50MB, 2GiB".into())
}

/// Milliseconds, or a time with units: `30s`, `1h30m`, `2w`.
pub fn duration_ms(value: &str) -> Result<u64, String> {
    let error = || "accepted values: milliseconds, or a time such as 30s, 1h30m, 7d".to_owned();
    if let Ok(number) = value.parse() {
        return Ok(number);
    }
    let (mut rest, mut total) = (value, 0u64);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| error())?;
        rest = &rest[digits..];
        let letters = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..letters] {
            "f" => 14 * 86_400_000,
            "w" => 7 * 86_400_000,
            "d" => 86_400_000,
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            _ => return Err(error()),
        };
        rest = &rest[letters..];
        let part = number.checked_mul(factor).ok_or_else(error)?;
        total = total.checked_add(part).ok_or_else(error)?;
    }
    if value.is_empty() { Err(error()) } else { Ok(total) }
}

/// `5672`, `127.0.0.1:5672`, `[::1]:5672` or `::1:5672`.
pub fn address(value: &str) -> Result<Address, String> {
    let error = || "accepted values: a port, or an IP address and a port as in 127.0.0.1:5672".to_owned();
    let Some((ip, port)) = value.rsplit_once(':') else {
        return Ok(Address { ip: None, port: value.parse().map_err(|_| error())? });
    };
    let ip = ip.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr = match ip {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ => ip.parse().map_err(|_| error())?,
    };
    let is_any = ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    Ok(Address { ip: (!is_any).then_some(ip), port: port.parse().map_err(|_| error())? })
}

/// One of the words listed.
pub fn one_of<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
    let list = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("accepted values: {}", list()))
}

/// How many at most; `infinity`: any number.
pub fn count(value: &str) -> Result<Option<u32>, String> {
    match value {
        "infinity" => Ok(None),
        number => number.parse().map(Some).map_err(|_| "accepted values: infinity, or a number".into()),
    }
}

/// As [`count`], but at least 1.
pub fn count_above_zero(value: &str) -> Result<Option<u32>, String> {
    match count(value) {
        Ok(Some(0)) | Err(_) => Err("accepted values: infinity, or a number above 0".into()),
        count => count,
    }
}

/// A number of bytes above 0; `infinity` is none.
pub fn bytes_above_zero(value: &str) -> Result<Option<u64>, String> {
    match value {
        "infinity" => Ok(None),
        value => match bytes(value) {
            Ok(0) | Err(_) => Err("accepted values: infinity, or a number of bytes above 0, as 64MiB".into()),
            Ok(bytes) => Ok(Some(bytes)),
        },
    }
}

/// A part of a whole, above 0; `infinity` is none.
pub fn share(value: &str) -> Result<Option<f64>, String> {
    match value {
        "infinity" => Ok(None),
        value => match decimal(value, 0.001, 1.0) {
            Ok(share) => Ok(Some(share)),
            Err(_) => Err("accepted values: infinity, or a number from 0.001 to 1".into()),
        },
    }
}

/// The one value that can be had.
pub fn only(value: &str, accepted: &str, why: &str) -> Result<(), String> {
    if value == accepted { Ok(()) } else { Err(format!("accepted value: {accepted} ({why})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let check = |value: &str, expected: Option<u64>| assert_eq!(bytes(value).ok(), expected, "{value}");
        check("0", Some(0));
        check("50000000", Some(50_000_000));
        check("50MB", Some(50_000_000));
        check("2GiB", Some(2 << 30));
        check("2G", Some(2 << 30));
        check("1kB", Some(1000));
        check("1Ki", Some(1024));
        check("4 TiB", Some(4 << 40));
        check("GB", None);
        check("-1", None);
        check("1XB", None);
        check("1.5GB", Some(1_500_000_000));
        check("0.5KiB", Some(512));
        check("1.5", None);
        check(".5GB", None);
        check("1.2.3GB", None);
        check("99999999999PB", None);
        check("1é", None);
    }

    #[test]
    fn times_have_units() {
        let check =
            |value: &str, expected: Option<u64>| assert_eq!(duration_ms(value).ok(), expected, "{value}");
        check("0", Some(0));
        check("1500", Some(1500));
        check("250ms", Some(250));
        check("30s", Some(30_000));
        check("1h30m", Some(5_400_000));
        check("2w1d", Some(15 * 86_400_000));
        check("1f", Some(14 * 86_400_000));
        check("", None);
        check("s", None);
        check("5 s", None);
        check("5x", None);
        check("30s5", None);
        check("99999999999999f", None);
    }

    #[test]
    fn addresses_come_in_many_shapes() {
        let check = |value: &str, expected: Option<(&str, u16)>| {
            let expected = expected.map(|(ip, port)| Address { ip: ip.parse().ok(), port });
            assert_eq!(address(value).ok(), expected, "{value}");
        };
        check("5672", Some(("", 5672)));
        check("0", Some(("", 0)));
        check("127.0.0.1:0", Some(("127.0.0.1", 0)));
        check("[::1]:5672", Some(("::1", 5672)));
        check("::1:5672", Some(("::1", 5672)));
        check(":::5672", Some(("", 5672)));
        check("0.0.0.0:5672", Some(("0.0.0.0", 5672)));
        check("localhost:5672", Some(("127.0.0.1", 5672)));
        check("70000", None);
        check("somewhere:5672", None);
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(integer("5", 0, 5), Ok(5));
        assert_eq!(integer("6", 0, 5), Err("accepted values: a whole number from 0 to 5".into()));
        assert_eq!(decimal("0.6", 0.0, 1.0), Ok(0.6));
        assert!(decimal("NaN", 0.0, 1.0).is_err());
        assert_eq!(boolean("trues"), Err("accepted values: true, false".into()));
    }
}
