//! Arguments of queues and exchanges that are kept and have no effect, with names that are nearly those of others: slips
//! of the pen.
//!
//! RabbitMQ keeps unknown arguments without a word, and so must we: the operator is told. A name without a near
//! neighbour is somebody's own, and nobody is told of it.

use super::arguments;
use super::{ExchangeDefinition, QueueDefinition};
use routing::Arguments;
use std::fmt;
use std::sync::Arc;
use strsim::osa_distance;

/// Letters that are wrong, missing, too many or in each other's place.
const SLIPS_MAX: usize = 2;

/// A name has so many letters for each that may be wrong: short ones are near to too many.
const LETTERS_A_SLIP: usize = 3;

/// Arguments of exchanges that some type, or everybody, reads.
const OF_EXCHANGES: [&str; 9] = [
    "alternate-exchange",
    "hash-header",
    "hash-property",
    "x-delayed-type",
    "x-downstream-name",
    "x-downstream-vhost",
    "x-max-hops",
    "x-recent-history-length",
    "x-super-stream",
];

/// An argument, and the one that was meant, as far as can be guessed.
pub(crate) type Slip = (Box<str>, &'static str);

/// An object that was declared with slips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misspelt {
    kind: &'static str,
    name: Box<str>,
    vhost: Arc<str>,
    /// The user that declared it.
    user: Arc<str>,
    slips: Vec<Slip>,
}

impl Misspelt {
    /// The slips of a new queue, by `user`; of its unknown arguments so many are looked at.
    pub(crate) fn in_queue(queue: &QueueDefinition, user: &Arc<str>, looked_max: usize) -> Option<Misspelt> {
        let slips = slips(&queue.arguments, arguments::names(), looked_max);
        let (name, vhost) = (&queue.name, &queue.vhost_name);
        (!slips.is_empty()).then(|| Misspelt {
            kind: "queue",
            name: (**name).into(),
            vhost: vhost.clone(),
            user: user.clone(),
            slips,
        })
    }

    /// The same of an exchange in a virtual host.
    pub(crate) fn in_exchange(
        (exchange, vhost): (&ExchangeDefinition, &Arc<str>),
        user: &Arc<str>,
        looked_max: usize,
    ) -> Option<Misspelt> {
        let slips = slips(&exchange.arguments, OF_EXCHANGES.into_iter(), looked_max);
        (!slips.is_empty()).then(|| Misspelt {
            kind: "exchange",
            name: (*exchange.name).into(),
            vhost: vhost.clone(),
            user: user.clone(),
            slips,
        })
    }
}

/// All in it is from clients: what would end a line or a quote is written out.
impl fmt::Display for Misspelt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misspelt { kind, name, vhost, user, slips } = self;
        let [name, vhost, user] = [&**name, &**vhost, &**user].map(str::escape_debug);
        write!(f, "{kind} '{name}' in vhost '{vhost}', declared by user '{user}': ")?;
        for (at, (argument, meant)) in slips.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            let argument = argument.escape_debug();
            write!(f, "{between}argument '{argument}' is unknown and has no effect, is '{meant}' meant?")?;
        }
        Ok(())
    }
}

/// The slips among arguments of an object that may have those that are `known`.
fn slips(
    arguments: &Arguments,
    known: impl Iterator<Item = &'static str> + Clone,
    looked_max: usize,
) -> Vec<Slip> {
    let names = arguments.iter().filter_map(|(name, _)| std::str::from_utf8(name).ok());
    let unknown = names.filter(|name| known.clone().all(|own| own != *name)).take(looked_max);
    unknown.filter_map(|name| Some((name.into(), nearest(name, known.clone())?))).collect()
}

/// The known name that is nearest, if any is near.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let name = stem(name);
    let distances = known.filter_map(|own| {
        let meant = stem(own);
        let most = SLIPS_MAX.min(meant.len() / LETTERS_A_SLIP);
        // Names of other lengths are farther than that, and need not be looked at.
        if meant.len().abs_diff(name.chars().count()) > most {
            return None;
        }
        let distance = osa_distance(&name, &meant);
        (distance <= most).then_some((distance, own))
    });
    distances.min().map(|(_, own)| own)
}

/// The part of a name that tells it from others: how words are joined, and what all begin with, is no slip more.
fn stem(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.strip_prefix("x-").map_or(name.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use routing::Value;

    fn check(name: &str, of_queue: Option<&str>, of_exchange: Option<&str>) {
        let arguments: Arguments = [(name.as_bytes(), Value::long(5))].into_iter().collect();
        let found = |slips: Vec<Slip>| slips.into_iter().next().map(|(_, meant)| meant);
        assert_eq!(found(slips(&arguments, arguments::names(), 16)), of_queue, "{name}");
        assert_eq!(found(slips(&arguments, OF_EXCHANGES.into_iter(), 16)), of_exchange, "{name}");
    }

    #[test]
    fn slips_are_near_to_what_was_meant() {
        check("x-max-lenght", Some("x-max-length"), None);
        check("x-mesage-ttl", Some("x-message-ttl"), None);
        check("x-message-tll", Some("x-message-ttl"), None);
        check("message-ttl", Some("x-message-ttl"), None);
        check("max-length-bytes", Some("x-max-length-bytes"), None);
        check("x_max_length", Some("x-max-length"), None);
        check("X-Max-Length", Some("x-max-length"), None);
        check("x-expire", Some("x-expires"), None);
        check("x-dead-letter-exchnage", Some("x-dead-letter-exchange"), None);
        check("x-queue-typ", Some("x-queue-type"), None);
        check("x-alternate-exchange", None, Some("alternate-exchange"));
        check("alternate_exchange", None, Some("alternate-exchange"));
        check("x-delay-type", None, Some("x-delayed-type"));
        check("x-max-length\n", Some("x-max-length"), None);
    }

    #[test]
    fn what_is_known_or_far_from_all_is_no_slip() {
        for name in arguments::names() {
            check(name, None, None);
        }
        for name in
            ["", "x-", "x-owner", "team", "x-ha-policy", "x-max", "é", "x-match", "x-max-lengths-of-all"]
        {
            check(name, None, None);
        }
        check(&"x".repeat(255), None, None);
        for name in OF_EXCHANGES {
            let arguments: Arguments = [(name.as_bytes(), Value::long(5))].into_iter().collect();
            assert!(slips(&arguments, OF_EXCHANGES.into_iter(), 16).is_empty(), "{name}");
        }
    }

    #[test]
    fn of_one_declaration_so_many_arguments_are_looked_at() {
        let many: Arguments =
            (0..100).map(|number| (format!("x-max-lengt{number}").into_bytes(), Value::long(1))).collect();
        assert_eq!(slips(&many, arguments::names(), 3).len(), 3);
    }

    #[test]
    fn nothing_of_a_clients_ends_the_line() {
        let odd = Misspelt {
            kind: "queue",
            name: "a'\n".into(),
            vhost: "v\n".into(),
            user: "u\u{1b}".into(),
            slips: vec![("x-max-length\n".into(), "x-max-length"), ("x-expire".into(), "x-expires")],
        };
        assert_eq!(
            odd.to_string(),
            r"queue 'a\'\n' in vhost 'v\n', declared by user 'u\u{1b}': argument 'x-max-length\n' is unknown and has no effect, is 'x-max-length' meant?; argument 'x-expire' is unknown and has no effect, is 'x-expires' meant?"
        );
    }
}
