//! Limits as they are written on the command line: a JSON object of numbers, -1 for any number.

/// Two limits, and how they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// As it was written.
    pub text: String,
    /// In the order of the names that were asked for; none: any number.
    pub limits: [Option<u32>; 2],
}

/// Limits of a virtual host: `max-connections`, `max-queues`.
pub fn vhost(text: &str) -> Result<Definition, String> {
    read(text, ["max-connections", "max-queues"])
}

/// Limits of a user: `max-connections`, `max-channels`.
pub fn user(text: &str) -> Result<Definition, String> {
    read(text, ["max-connections", "max-channels"])
}

fn read(text: &str, names: [&str; 2]) -> Result<Definition, String> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|error| format!("no JSON object: {error}"))?;
    let mut limits = [None; 2];
    for (name, value) in &object {
        let Some(at) = names.iter().position(|known| known == name) else {
            return Err(format!("there is no limit '{name}', only {}", names.join(" and ")));
        };
        limits[at] = match value.as_i64() {
            Some(-1) => None,
            Some(number) => match u32::try_from(number) {
                Ok(number) => Some(number),
                Err(_) => return Err(format!("{name} is from 0 to {}, or -1", u32::MAX)),
            },
            None => return Err(format!("{name} is a whole number")),
        };
    }
    Ok(Definition { text: text.to_owned(), limits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_known_limits_are_read() {
        let check = |text: &str, expected: Result<[Option<u32>; 2], &str>| {
            let read = vhost(text).map(|definition| definition.limits);
            match expected {
                Ok(limits) => assert_eq!(read, Ok(limits), "{text}"),
                Err(why) => {
                    assert!(read.as_ref().is_err_and(|error| error.contains(why)), "{text}: {read:?}")
                }
            }
        };
        check("{}", Ok([None, None]));
        check(r#"{"max-connections": 0}"#, Ok([Some(0), None]));
        check(r#"{"max-queues": 10, "max-connections": -1}"#, Ok([None, Some(10)]));
        check(
            r#"{"max-channels": 1}"#,
            Err("there is no limit 'max-channels', only max-connections and max-queues"),
        );
        check(r#"{"max-queues": -2}"#, Err("from 0 to"));
        check(r#"{"max-queues": 4294967296}"#, Err("from 0 to"));
        check(r#"{"max-queues": "1"}"#, Err("whole number"));
        check(r#"{"max-queues": 1.5}"#, Err("whole number"));
        check("[]", Err("no JSON object"));
        check("max-queues", Err("no JSON object"));
        assert_eq!(user(r#"{"max-channels": 1}"#).unwrap().limits, [None, Some(1)]);
    }
}
