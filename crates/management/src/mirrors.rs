//! Keys of classic mirrored queues, and other keys that RabbitMQ 4 has no more, left out where somebody asks for that.

use serde_json::{Map, Value};

/// Keys of policies, without those that begin with `ha-`.
const POLICY_KEYS: [&str; 3] = ["queue-master-locator", "queue-mode", "queue-version"];

/// Arguments of queues, without those that begin with `x-ha-`.
const ARGUMENTS: [&str; 3] = ["x-queue-master-locator", "x-queue-mode", "x-queue-version"];

/// Takes dead keys out of a policy's definition: which.
pub(crate) fn strip_policy(definition: &mut Map<String, Value>) -> Vec<String> {
    strip(definition, &POLICY_KEYS, "ha-")
}

/// Takes dead arguments out of a queue's: which.
pub(crate) fn strip_queue(arguments: &mut Map<String, Value>) -> Vec<String> {
    strip(arguments, &ARGUMENTS, "x-ha-")
}

fn strip(fields: &mut Map<String, Value>, dead: &[&str], prefix: &str) -> Vec<String> {
    let is_dead = |key: &String| dead.contains(&key.as_str()) || key.starts_with(prefix);
    let removed: Vec<String> = fields.keys().filter(|key| is_dead(key)).cloned().collect();
    removed.iter().for_each(|key| drop(fields.remove(key)));
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dead_keys_are_taken_out_and_named() {
        let mut policy =
            json!({"ha-mode": "all", "ha-own": 1, "max-length": 5, "queue-mode": "lazy", "x-ha-policy": 1});
        let removed = strip_policy(policy.as_object_mut().unwrap());
        assert_eq!(removed, ["ha-mode", "ha-own", "queue-mode"]);
        assert_eq!(policy, json!({"max-length": 5, "x-ha-policy": 1}));
        let mut arguments =
            json!({"x-ha-policy": "all", "x-queue-version": 1, "x-queue-type": "classic", "ha-mode": 1});
        assert_eq!(strip_queue(arguments.as_object_mut().unwrap()), ["x-ha-policy", "x-queue-version"]);
        assert_eq!(arguments, json!({"x-queue-type": "classic", "ha-mode": 1}));
    }
}
