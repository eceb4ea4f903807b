//! User and password in the responses of SASL mechanisms, the same in every protocol.

use message::amqp091::{Table, Value};

/// User and password of a response to `PLAIN` or `AMQPLAIN`; `None`: it is malformed, or another mechanism's.
pub(crate) fn read<'a>(mechanism: &str, response: &'a [u8]) -> Option<(&'a str, &'a str)> {
    match mechanism {
        "PLAIN" => plain(response),
        "AMQPLAIN" => amqplain(response),
        _ => None,
    }
}

/// `authzid NUL user NUL password` (RFC 4616).
fn plain(response: &[u8]) -> Option<(&str, &str)> {
    let mut parts = response.splitn(3, |byte| *byte == 0);
    let _authzid = parts.next()?;
    let user = str::from_utf8(parts.next()?).ok()?;
    let password = str::from_utf8(parts.next()?).ok()?;
    Some((user, password))
}

/// The fields of an AMQP 0-9-1 table, without its length.
fn amqplain(response: &[u8]) -> Option<(&str, &str)> {
    let fields = Table::new(response).ok()?;
    let text = |name: &[u8]| match fields.get(name)? {
        Value::Text(bytes) | Value::Bytes(bytes) => str::from_utf8(bytes).ok(),
        _ => None,
    };
    Some((text(b"LOGIN")?, text(b"PASSWORD")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mechanism: &str, response: &[u8], expected: Option<(&str, &str)>) {
        assert_eq!(read(mechanism, response), expected, "{mechanism} {response:?}");
    }

    #[test]
    fn responses() {
        check("PLAIN", b"\0user\0word", Some(("user", "word")));
        check("PLAIN", b"other\0user\0wo\0rd", Some(("user", "wo\0rd")));
        check("PLAIN", b"\0user", None);
        check("PLAIN", b"\0\xff\0word", None);
        check("AMQPLAIN", b"\x05LOGINS\0\0\0\x04user\x08PASSWORDS\0\0\0\x04word", Some(("user", "word")));
        check("AMQPLAIN", b"\x05LOGINS\0\0\0\x04user", None);
        check("AMQPLAIN", b"\x05LOGINt\x01\x08PASSWORDS\0\0\0\x04word", None);
        check("AMQPLAIN", b"zz", None);
        check("EXTERNAL", b"\0user\0word", None);
    }
}
