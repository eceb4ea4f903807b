//! Defaults of virtual hosts that are made while the node runs, and of the first one: the type of queues without one,
//! limits, the operator's policies.
//!
//! As with RabbitMQ, what is configured counts when a virtual host is made; one that is there stays as it is.

use super::value::{bytes, bytes_above_zero, count, duration_ms, integer, one_of};
use broker::access::{PasswordHash, Pattern};
use broker::catalog::{
    ApplyTo, DefaultPolicy, DefaultUser, QueueType, VhostAbout, VhostDefaults, VhostLimits,
    check_operator_key,
};
use routing::{Arguments, Value};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    queue_type: QueueType,
    /// Of those that match a name the first counts.
    limits: Vec<(String, Limits)>,
    /// All that match count.
    policies: Vec<(String, Policy)>,
    /// All that match are there from the beginning.
    users: Vec<(String, User)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct User {
    /// Over names of virtual hosts; none: all.
    vhosts: Option<Pattern>,
    password: Option<String>,
    tags: Vec<Box<str>>,
    configure: Option<String>,
    write: Option<String>,
    read: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Limits {
    /// Over names of virtual hosts; none: all.
    vhosts: Option<Pattern>,
    limits: VhostLimits,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Policy {
    /// Over names of virtual hosts; none: all.
    vhosts: Option<Pattern>,
    /// Over names of queues; none: all.
    queues: Option<String>,
    apply_to: Option<ApplyTo>,
    definition: Arguments,
}

impl Defaults {
    /// `default_queue_type`.
    ///
    /// # Errors
    /// The values that would be accepted.
    pub fn set_queue_type(&mut self, value: &str) -> Result<(), String> {
        let words = [
            ("classic", QueueType::Classic),
            ("quorum", QueueType::Quorum),
            ("rabbit_classic_queue", QueueType::Classic),
            ("rabbit_quorum_queue", QueueType::Quorum),
            ("stream", QueueType::Stream),
            ("rabbit_stream_queue", QueueType::Stream),
            ("undefined", QueueType::Classic),
        ];
        self.queue_type = one_of(value, &words)?;
        Ok(())
    }

    /// `default_limits.vhosts.ID.WHAT`, of which `key` is the end.
    ///
    /// # Errors
    /// The keys or values that would be accepted.
    pub fn set_limit(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (id, what) = parts(key)?;
        let entry = entry(&mut self.limits, id);
        match what {
            "pattern" => entry.vhosts = Some(pattern(value)?),
            "max_connections" => entry.limits.connections_max = count(value)?,
            "max_queues" => entry.limits.queues_max = count(value)?,
            "max_memory_bytes" => entry.limits.memory_bytes_max = bytes_above_zero(value)?,
            _ => {
                return Err(
                    "known are .pattern, .max_connections, .max_queues and .max_memory_bytes".to_owned()
                );
            }
        }
        Ok(())
    }

    /// `default_policies.operator.ID.WHAT`, of which `key` is the end.
    ///
    /// # Errors
    /// The keys or values that would be accepted.
    pub fn set_policy(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (id, what) = parts(key)?;
        let id = id.strip_suffix(".classic_queues").unwrap_or(id);
        let entry = entry(&mut self.policies, id);
        let number = match what {
            "vhost_pattern" => {
                entry.vhosts = Some(pattern(value)?);
                return Ok(());
            }
            "queue_pattern" => {
                entry.queues = Some(pattern(value)?.source().to_owned());
                return Ok(());
            }
            "apply_to" => {
                let words = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
                let word = one_of(value, &words.map(|word| (word, word)))?;
                entry.apply_to = ApplyTo::from_name(word);
                return Ok(());
            }
            "expires" | "message_ttl" => duration_ms(value)?,
            "max_length_bytes" | "max_in_memory_bytes" => bytes(value)?,
            "max_length" | "max_in_memory_length" | "delivery_limit" | "queue_version" => {
                integer(value, 0, i64::MAX as u64)?
            }
            _ => {
                return Err("known are .vhost_pattern, .queue_pattern, .apply_to, .expires, .message_ttl, \
                            .max_length, .max_length_bytes, .max_in_memory_length, .max_in_memory_bytes, \
                            .delivery_limit and .classic_queues.queue_version"
                    .to_owned());
            }
        };
        let (key, value) = (what.replace('_', "-"), Value::Unsigned(number));
        check_operator_key(&key, &value)?;
        entry.definition.insert(key.as_bytes(), value);
        Ok(())
    }

    /// `default_users.NAME.WHAT`, of which `key` is the end.
    ///
    /// # Errors
    /// The keys or values that would be accepted.
    pub fn set_user(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (name, what) = parts(key)?;
        let user = entry(&mut self.users, name);
        let permission = || pattern(value).map(|pattern| Some(pattern.source().to_owned()));
        match what {
            "vhost_pattern" => user.vhosts = Some(pattern(value)?),
            "password" => user.password = Some(value.to_owned()),
            "tags" => {
                let tags = value.split([',', ' ']).filter(|tag| !tag.is_empty());
                user.tags = tags.map(Box::from).collect();
            }
            "configure" => user.configure = permission()?,
            "write" => user.write = permission()?,
            "read" => user.read = permission()?,
            _ => {
                return Err(
                    "known are .vhost_pattern, .password, .tags, .configure, .write and .read".to_owned()
                );
            }
        }
        Ok(())
    }

    /// The defaults of the virtual host `name`. `hash` makes one of each password.
    pub fn of(&self, name: &str, hash: &mut dyn FnMut(&str) -> PasswordHash) -> VhostDefaults {
        let is_for = |vhosts: &Option<Pattern>| vhosts.as_ref().is_none_or(|vhosts| matches(vhosts, name));
        let limits = self.limits.iter().find(|(_, limits)| is_for(&limits.vhosts));
        let policies = self.policies.iter().filter(|(_, policy)| is_for(&policy.vhosts));
        let policy = |(id, policy): &(String, Policy)| DefaultPolicy {
            name: id.as_str().into(),
            pattern: policy.queues.as_deref().unwrap_or(".*").into(),
            apply_to: policy.apply_to.unwrap_or(ApplyTo::All).name().into(),
            definition: policy.definition.clone(),
        };
        let users = self.users.iter().filter(|(_, user)| is_for(&user.vhosts));
        let permission = |given: &Option<String>| given.as_deref().unwrap_or(".*").into();
        let user = |(name, user): &(String, User)| DefaultUser {
            name: name.as_str().into(),
            password: user.password.as_ref().map(|password| hash(password)),
            tags: user.tags.clone(),
            configure: permission(&user.configure),
            write: permission(&user.write),
            read: permission(&user.read),
        };
        VhostDefaults {
            about: VhostAbout::default(),
            queue_type: self.queue_type,
            limits: limits.map(|(_, limits)| limits.limits).unwrap_or_default(),
            operator_policies: policies.map(policy).collect(),
            users: users.map(user).collect(),
            tells_events: false,
        }
    }

    /// The name of an operator's policy that sets nothing.
    pub fn empty_policy(&self) -> Option<&str> {
        self.policies.iter().find(|(_, policy)| policy.definition.is_empty()).map(|(id, _)| &**id)
    }
}

/// `ID.WHAT`; an ID may hold dots.
fn parts(key: &str) -> Result<(&str, &str), String> {
    key.rsplit_once('.').ok_or_else(|| "the key needs a name of yours and what to set".to_owned())
}

fn pattern(value: &str) -> Result<Pattern, String> {
    Pattern::new(value).map_err(|bad| format!("no regular expression: {}", bad.why))
}

/// The empty pattern is as any other regular expression here, not as in permissions.
fn matches(pattern: &Pattern, name: &str) -> bool {
    pattern.source().is_empty() || pattern.matches(name)
}

fn entry<'a, T: Default>(all: &'a mut Vec<(String, T)>, id: &str) -> &'a mut T {
    let at = all.iter().position(|(own, _)| own == id).unwrap_or_else(|| {
        all.push((id.to_owned(), T::default()));
        all.len() - 1
    });
    &mut all[at].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::access::SALT;

    #[test]
    fn a_virtual_host_gets_what_matches_its_name() {
        let mut defaults = Defaults::default();
        for (key, value) in [
            ("a.b.pattern", "^dev"),
            ("a.b.max_queues", "5"),
            ("a.b.max_memory_bytes", "50MB"),
            ("all.max_memory_bytes", "infinity"),
            ("all.max_connections", "9"),
            ("all.max_queues", "infinity"),
        ] {
            defaults.set_limit(key, value).unwrap();
        }
        for (key, value) in [
            ("one.vhost_pattern", "^dev"),
            ("one.queue_pattern", "^q"),
            ("one.apply_to", "classic_queues"),
            ("one.classic_queues.queue_version", "2"),
            ("two.max_in_memory_bytes", "5kB"),
        ] {
            defaults.set_policy(key, value).unwrap();
        }
        defaults.set_queue_type("quorum").unwrap();
        let limits = |connections_max, queues_max| VhostLimits {
            connections_max,
            queues_max,
            memory_bytes_max: Some(50_000_000).filter(|_| queues_max.is_some()),
        };
        for (key, value) in [
            ("a.b.vhost_pattern", "^dev"),
            ("a.b.password", "x y"),
            ("a.b.tags", "administrator, own"),
            ("a.b.read", "^r"),
        ] {
            defaults.set_user(key, value).unwrap();
        }
        let mut hash = |password: &str| PasswordHash::new(password, [7; SALT]);
        let dev = defaults.of("dev1", &mut hash);
        let user = DefaultUser {
            name: "a.b".into(),
            password: Some(PasswordHash::new("x y", [7; SALT])),
            tags: vec!["administrator".into(), "own".into()],
            configure: ".*".into(),
            write: ".*".into(),
            read: "^r".into(),
        };
        assert_eq!(dev.users, [user]);
        assert_eq!((dev.queue_type, dev.limits), (QueueType::Quorum, limits(None, Some(5))));
        let policy = |name: &str, pattern: &str, apply_to: &str, key: &str, number| DefaultPolicy {
            name: name.into(),
            pattern: pattern.into(),
            apply_to: apply_to.into(),
            definition: [(key.as_bytes(), Value::Unsigned(number))].into_iter().collect(),
        };
        let two = policy("two", ".*", "all", "max-in-memory-bytes", 5000);
        assert_eq!(
            dev.operator_policies,
            [policy("one", "^q", "classic_queues", "queue-version", 2), two.clone()]
        );
        let other = defaults.of("prod", &mut hash);
        assert_eq!(other.users, []);
        assert_eq!((other.limits, other.operator_policies), (limits(Some(9), None), vec![two]));
        assert_eq!(Defaults::default().of("x", &mut hash), VhostDefaults::default());
        assert_eq!(defaults.empty_policy(), None);
        defaults.set_policy("three.apply_to", "all").unwrap();
        assert_eq!(defaults.empty_policy(), Some("three"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let limit = |key: &str, value: &str| Defaults::default().set_limit(key, value).unwrap_err();
        let policy = |key: &str, value: &str| Defaults::default().set_policy(key, value).unwrap_err();
        let user = |key: &str, value: &str| Defaults::default().set_user(key, value).unwrap_err();
        assert!(user("a.read", "(").contains("no regular expression"));
        assert!(user("a.pass", "x").contains("known are .vhost_pattern"));
        assert!(user("a", "x").contains("a name of yours"));
        assert!(limit("a.pattern", "(").contains("no regular expression"));
        assert!(limit("a.max", "1").contains("known are"));
        assert!(limit("a", "1").contains("a name of yours"));
        assert!(policy("a.max_in_memory_length", "x").contains("a whole number"));
        assert!(policy("a.apply_to", "x").contains("accepted values: all"));
        assert!(policy("a.classic_queues.ha_mode", "all").contains("known are"));
        assert!(policy("a.classic_queues.queue_version", "3").contains("is not a valid queue-version value"));
        assert!(Defaults::default().set_queue_type("strem").unwrap_err().contains("classic, quorum"));
    }
}
