//! Parameters of components that are not served yet: they are kept, shown and exported, and nothing comes of them.
//!
//! What each has to have is checked as RabbitMQ's plugins do, so that a typing error is not found on the day it is served.

use serde_json::Value;

/// Components that may be set one by one. Others come with definitions alone: a name that is nobody's is a typing error.
const KNOWN: [&str; 3] = ["shovel", "federation-upstream", "federation-upstream-set"];

/// Whether RabbitMQ has the component in one of its plugins.
pub(crate) fn is_known(component: &str) -> bool {
    KNOWN.contains(&component)
}

/// What is said of a parameter that is kept.
pub(crate) fn remark(component: &str) -> String {
    match is_known(component) {
        true => format!("kept; {component} is not served yet"),
        false => format!("kept; the component '{component}' is not known here"),
    }
}

/// What is wrong with a value, a line each; nothing where nothing is.
pub(crate) fn wrong(component: &str, name: &str, value: &Value) -> String {
    let wanted: &[&str] = match component {
        "shovel" => &["src-uri", "dest-uri"],
        "federation-upstream" => &["uri"],
        "federation-upstream-set" => {
            let is_list = value.as_array().is_some_and(|items| items.iter().all(Value::is_object));
            return if is_list { String::new() } else { format!("{name} should be a list of upstreams\n") };
        }
        _ => return String::new(),
    };
    let Some(fields) = value.as_object() else {
        return format!("{name} not a list {}\n", crate::policies::term(value));
    };
    let mut lines = String::new();
    let is_without_source = component == "shovel"
        && fields.get("src-protocol").is_none_or(|protocol| protocol == "amqp091")
        && !fields.contains_key("src-exchange")
        && !fields.contains_key("src-queue");
    if is_without_source {
        lines.push_str("Must specify 'src-exchange' or 'src-queue'\n");
    }
    let missing = wanted.iter().filter(|key| !fields.contains_key(**key));
    missing.for_each(|key| lines.push_str(&format!("Key \"{key}\" not found in {name}\n")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_to_be_there_is_asked_for() {
        let check = |component: &str, value: Value, expected: &str| {
            assert_eq!(wrong(component, "n", &value), expected, "{component} {value}");
        };
        check("shovel", json!({"src-uri": "a", "dest-uri": "b", "src-queue": "q"}), "");
        check("shovel", json!({"src-uri": "a", "dest-uri": ["b"], "src-exchange": "x"}), "");
        check(
            "shovel",
            json!({"src-protocol": "amqp10", "src-uri": "a", "dest-uri": "b", "src-address": "q"}),
            "",
        );
        check(
            "shovel",
            json!({"src-uri": "a"}),
            "Must specify 'src-exchange' or 'src-queue'\nKey \"dest-uri\" not found in n\n",
        );
        check("shovel", json!(5), "n not a list 5\n");
        check("federation-upstream", json!({"uri": ["amqp://"]}), "");
        check("federation-upstream", json!({}), "Key \"uri\" not found in n\n");
        check("federation-upstream-set", json!([{"upstream": "u"}]), "");
        check("federation-upstream-set", json!([]), "");
        check("federation-upstream-set", json!({"upstream": "u"}), "n should be a list of upstreams\n");
        check("somebody", json!(null), "");
    }
}
