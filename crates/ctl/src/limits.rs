//! Limits of virtual hosts and users as they are typed: a JSON object of numbers, below 0 for any number; and as they are listed.
//!
//! Texts are RabbitMQ 4.3.6's, seen through its `rabbitmqctl`.

use serde_json::{Map, Value};

/// The wish for a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It was not named.
    #[default]
    Unnamed,
    /// Any number.
    Any,
    /// So many.
    Max(u64),
}

/// The limits that a virtual host may have.
pub(crate) const OF_VHOST: [&str; 3] = ["max-connections", "max-queues", MEMORY];

/// The limits that a user may have.
pub(crate) const OF_USER: [&str; 3] = ["max-connections", "max-channels", MEMORY];

/// The one limit that is no number of objects.
const MEMORY: &str = "max-memory-bytes";

/// Limits of a virtual host, in the order of [`OF_VHOST`].
///
/// # Errors
/// The error in them, for people.
pub(crate) fn vhost(text: &str) -> Result<[Wanted; 3], String> {
    read(&object(text)?, OF_VHOST, "limits").map_err(|why| format!("Validation failed\n\n{why}\n"))
}

/// Limits of a user, in the order of [`OF_USER`].
///
/// # Errors
/// The error in them, for people.
pub(crate) fn user(text: &str) -> Result<[Wanted; 3], String> {
    read(&object(text)?, OF_USER, "user-limits")
}

/// The object that a text is in JSON.
///
/// # Errors
/// The error in it, for people.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("Could not parse JSON document: {error}"))
}

/// A row of the HTTP API, with its limits as a text.
pub(crate) fn row(mut row: Value) -> Value {
    row["limits"] = row["value"].to_string().into();
    row
}

fn read(object: &Map<String, Value>, names: [&str; 3], what: &str) -> Result<[Wanted; 3], String> {
    let mut limits = [Wanted::Unnamed; 3];
    for (name, value) in object {
        let shown = match value {
            Value::String(text) => format!("<<\"{text}\">>"),
            other => other.to_string(),
        };
        let Some(at) = names.iter().position(|known| known == name) else {
            return Err(format!("Unrecognised terms [{{<<\"{name}\">>,{shown}}}] in {what}"));
        };
        limits[at] = match (value.as_u64(), value.as_i64()) {
            (Some(max), _) if name == MEMORY => Wanted::Max(max),
            (Some(max), _) => Wanted::Max(max.min(u32::MAX.into())),
            (None, Some(_)) => Wanted::Any,
            (None, None) => return Err(format!("{name} should be a number, actually was {shown}")),
        };
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Wanted::{Any, Max, Unnamed};

    #[test]
    fn objects_of_known_limits_are_read() {
        let check = |read: Result<[Wanted; 3], String>, expected: Result<[Wanted; 3], &str>| {
            assert_eq!(read, expected.map_err(str::to_owned));
        };
        check(vhost("{}"), Ok([Unnamed; 3]));
        check(vhost(r#"{"max-connections": 0}"#), Ok([Max(0), Unnamed, Unnamed]));
        check(vhost(r#"{"max-queues": 10, "max-connections": -5}"#), Ok([Any, Max(10), Unnamed]));
        check(vhost(r#"{"max-queues": 4294967296}"#), Ok([Unnamed, Max(u32::MAX.into()), Unnamed]));
        check(
            vhost(r#"{"max-q": 65}"#),
            Err("Validation failed\n\nUnrecognised terms [{<<\"max-q\">>,65}] in limits\n"),
        );
        check(
            vhost(r#"{"max-queues": 1.5}"#),
            Err("Validation failed\n\nmax-queues should be a number, actually was 1.5\n"),
        );
        check(user(r#"{"max-channels": 1}"#), Ok([Unnamed, Max(1), Unnamed]));
        check(user(r#"{"max-memory-bytes": 4294967297}"#), Ok([Unnamed, Unnamed, Max(1 << 32 | 1)]));
        check(vhost(r#"{"max-memory-bytes": -1}"#), Ok([Unnamed, Unnamed, Any]));
        check(user(r#"{"max-x":1}"#), Err("Unrecognised terms [{<<\"max-x\">>,1}] in user-limits"));
        check(
            user(r#"{"max-channels":"x"}"#),
            Err("max-channels should be a number, actually was <<\"x\">>"),
        );
        for text in ["[]", "zz", "{"] {
            let error = user(text).unwrap_err();
            assert!(error.starts_with("Could not parse JSON document: "), "{error}");
        }
    }
}
