//! Credentials of a login: SASL mechanisms, the peers each is offered to, and the reading of their responses; the same
//! in every protocol.

use crate::settings::Peer;
use base::Now;
use broker::access::{
    AccessRules, Claim, Denied, Guard, Judged, Trial, anonymous_claim, authenticate_certificate,
};
use broker::catalog::{Catalog, UserDefinition};
use message::amqp091::{Table, Value};
use std::sync::Arc;

/// Names of mechanisms; none first.
const MECHANISMS: [&str; 5] = ["", "PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"];

/// The number by which a connection remembers its mechanism.
pub(crate) fn mechanism_number(name: &str) -> u8 {
    MECHANISMS.iter().position(|own| *own == name).unwrap_or(0) as u8
}

/// The mechanism of a number.
pub(crate) fn mechanism(number: u8) -> &'static str {
    MECHANISMS.get(usize::from(number)).copied().unwrap_or_default()
}

/// The mechanisms in the order in which a protocol offers them, and every choice of them by the bits of its index.
#[derive(Debug)]
pub(crate) struct Choices {
    names: [&'static str; 4],
    lists: [&'static [&'static str]; 16],
}

macro_rules! choices {
    ($a:literal, $b:literal, $c:literal, $d:literal) => {
        Choices {
            names: [$a, $b, $c, $d],
            lists: [
                &[],
                &[$a],
                &[$b],
                &[$a, $b],
                &[$c],
                &[$a, $c],
                &[$b, $c],
                &[$a, $b, $c],
                &[$d],
                &[$a, $d],
                &[$b, $d],
                &[$a, $b, $d],
                &[$c, $d],
                &[$a, $c, $d],
                &[$b, $c, $d],
                &[$a, $b, $c, $d],
            ],
        }
    };
}

/// The order over AMQP 0-9-1.
pub(crate) static AMQP091: Choices = choices!("ANONYMOUS", "PLAIN", "AMQPLAIN", "EXTERNAL");

/// The order over AMQP 1.0.
pub(crate) static AMQP10: Choices = choices!("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL");

/// The order over the stream protocol.
pub(crate) static STREAM: Choices = choices!("AMQPLAIN", "ANONYMOUS", "EXTERNAL", "PLAIN");

impl Choices {
    /// The mechanisms offered to this peer.
    pub(crate) fn offered(
        &self,
        catalog: &Catalog,
        rules: &AccessRules,
        peer: &Peer,
    ) -> &'static [&'static str] {
        let bits = (0..4).map(|bit| usize::from(is_offered(catalog, rules, peer, self.names[bit])) << bit);
        self.lists[bits.sum::<usize>()]
    }
}

fn is_offered(catalog: &Catalog, rules: &AccessRules, peer: &Peer, mechanism: &str) -> bool {
    let mechanisms = &rules.mechanisms;
    match mechanism {
        "ANONYMOUS" => mechanisms.anonymous && rules.anonymous(catalog).is_some(),
        "PLAIN" => mechanisms.plain,
        "AMQPLAIN" => mechanisms.amqplain,
        "EXTERNAL" => mechanisms.external && peer.certificate_name().is_some(),
        _ => false,
    }
}

/// Why nobody was logged in. The reason in it is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unproved {
    /// The mechanism is not offered.
    Unknown,
    /// The response is none of the mechanism's.
    Malformed,
    /// The proof did not convince.
    Denied(Denied),
}

/// The outcome of a login whose password was compared elsewhere.
pub type Outcome = Result<Arc<UserDefinition>, Denied>;

/// The fate of a login.
#[derive(Debug)]
pub(crate) enum Proof {
    /// The user.
    Given(Arc<UserDefinition>),
    /// The password is compared elsewhere: see [`crate::Frontend::take_trials`].
    Awaited(Box<Trial>),
}

/// The user of this response to one of the mechanisms offered. The guard has a say where a password is to be compared.
pub(crate) fn log_in(
    (now, guard): (Now, &Guard),
    catalog: &Catalog,
    rules: &AccessRules,
    peer: &Peer,
    mechanism: &str,
    response: &[u8],
) -> Result<Proof, Unproved> {
    if !is_offered(catalog, rules, peer, mechanism) {
        return Err(Unproved::Unknown);
    }
    let found = match mechanism {
        "ANONYMOUS" => match anonymous_claim(catalog, peer.is_loopback, rules) {
            Ok(claim) => return judged(claim.judge(now, guard, None, rules)),
            Err(denied) => Err(denied),
        },
        "EXTERNAL" => {
            let name = peer.certificate_name().unwrap_or_default();
            authenticate_certificate(catalog, name, peer.is_loopback, rules)
        }
        _ => {
            let (user, password) = read(mechanism, response).ok_or(Unproved::Malformed)?;
            let claim = Claim::new(catalog, user, password, peer.is_loopback);
            match peer.is_agent() {
                true => claim.vouched(rules),
                false => return judged(claim.judge(now, guard, Some(peer.origin()), rules)),
            }
        }
    };
    found.map(Proof::Given).map_err(Unproved::Denied)
}

fn judged(judged: Judged) -> Result<Proof, Unproved> {
    match judged {
        Judged::Done(found) => found.map(Proof::Given).map_err(Unproved::Denied),
        Judged::Trial(trial) => Ok(Proof::Awaited(trial)),
    }
}

/// User and password of a response to `PLAIN` or `AMQPLAIN`; `None`: it is malformed, or another mechanism's.
fn read<'a>(mechanism: &str, response: &'a [u8]) -> Option<(&'a str, &'a str)> {
    match mechanism {
        "PLAIN" => plain(response),
        "AMQPLAIN" => amqplain(response),
        _ => None,
    }
}

/// `NUL user NUL password` (RFC 4616). Before the first NUL would stand the user to act for, which nobody may; RabbitMQ
/// takes neither that nor a password with a NUL in it.
fn plain(response: &[u8]) -> Option<(&str, &str)> {
    let mut parts = response.strip_prefix(&[0])?.split(|byte| *byte == 0);
    let user = str::from_utf8(parts.next()?).ok()?;
    let password = str::from_utf8(parts.next()?).ok()?;
    parts.next().is_none().then_some((user, password))
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
    use broker::access::{Anonymous, Mechanisms, PasswordHash};
    use broker::catalog::{Actor, Op, Places, VhostId};

    /// A catalog with the user `anna`, with a password, `cert`, without one, and `boss`, an administrator.
    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        let by = Actor::internal(VhostId(0), Default::default());
        let hash = |password| Some(PasswordHash::new(password, [0; 4]));
        for (name, password, tag) in
            [("anna", hash("word"), None), ("cert", None, None), ("boss", hash("x"), Some("administrator"))]
        {
            let op =
                Op::AddUser { name: name.into(), password, tags: tag.into_iter().map(Into::into).collect() };
            let plan = catalog.plan(&by, &op, Places::default()).unwrap();
            plan.changes.iter().for_each(|change| _ = catalog.apply(change));
        }
        catalog
    }

    fn peer(is_loopback: bool, certificate_name: Option<&str>) -> Peer {
        let mut peer = Peer::new("a -> b", is_loopback);
        certificate_name.into_iter().for_each(|name| peer.certify(name.to_owned()));
        peer
    }

    /// Mechanisms, the user that ANONYMOUS stands for and whether it was named, the peer, the mechanisms offered.
    type OfferRow<'a> = (Mechanisms, Option<(&'a str, bool)>, &'a Peer, &'a [&'static str]);

    #[test]
    fn offers_what_is_configured_and_can_be_used() {
        let anonymous_as =
            |(user, is_named): (&str, bool)| Anonymous { user: user.into(), password: "x".into(), is_named };
        let rules = |mechanisms, anonymous: Option<(&str, bool)>| AccessRules {
            anonymous: anonymous.map(anonymous_as),
            mechanisms,
            ..AccessRules::default()
        };
        let all = Mechanisms { external: true, ..Mechanisms::default() };
        let (plain, named) = (peer(true, None), peer(true, Some("cert")));
        let default = Mechanisms::default();
        let (guest, anna) = (Some(("guest", true)), Some(("anna", false)));
        let rows: [OfferRow<'_>; 9] = [
            // A user with a tag, or one that is not there, counts only where it was named.
            (default, Some(("boss", false)), &named, &["PLAIN", "AMQPLAIN"]),
            (default, Some(("guest", false)), &named, &["PLAIN", "AMQPLAIN"]),
            (default, Some(("boss", true)), &named, &["ANONYMOUS", "PLAIN", "AMQPLAIN"]),
            (default, anna, &named, &["ANONYMOUS", "PLAIN", "AMQPLAIN"]),
            (default, None, &named, &["PLAIN", "AMQPLAIN"]),
            (all, guest, &plain, &["ANONYMOUS", "PLAIN", "AMQPLAIN"]),
            (all, guest, &named, &["ANONYMOUS", "PLAIN", "AMQPLAIN", "EXTERNAL"]),
            (
                Mechanisms { amqplain: true, external: true, ..Mechanisms::NONE },
                None,
                &named,
                &["AMQPLAIN", "EXTERNAL"],
            ),
            (Mechanisms::NONE, guest, &named, &[]),
        ];
        for (mechanisms, anonymous, peer, expected) in rows {
            let rules = rules(mechanisms, anonymous);
            assert_eq!(AMQP091.offered(&catalog(), &rules, peer), expected, "{mechanisms:?}");
            let sorted =
                |list: &[&'static str]| list.iter().copied().collect::<std::collections::BTreeSet<_>>();
            for choices in [&AMQP10, &STREAM] {
                assert_eq!(
                    sorted(choices.offered(&catalog(), &rules, peer)),
                    sorted(expected),
                    "{mechanisms:?}"
                );
            }
        }
    }

    type Row<'a> = (&'a str, &'a [u8], Peer, Result<&'a str, String>);

    #[test]
    fn whom_a_proof_stands_for() {
        let rules = AccessRules {
            loopback_users: vec!["cert".into()],
            anonymous: Some(Anonymous { user: "anna".into(), password: "word".into(), is_named: false }),
            mechanisms: Mechanisms { external: true, amqplain: false, ..Mechanisms::default() },
            ..AccessRules::default()
        };
        let denied = |reason: &str| Err(reason.to_owned());
        let not_found =
            denied("user 'nobody' - not found: there must be a user of the name in the certificate");
        let rows: [Row<'_>; 9] = [
            ("PLAIN", b"\0anna\0word", peer(false, None), Ok("anna")),
            ("PLAIN", b"\0anna\0other", peer(false, None), denied("user 'anna' - invalid credentials")),
            ("PLAIN", b"anna", peer(false, None), Err("Malformed".to_owned())),
            ("AMQPLAIN", b"", peer(false, None), Err("Unknown".to_owned())),
            ("ANONYMOUS", b"whoever", peer(false, None), Ok("anna")),
            ("EXTERNAL", b"", peer(false, None), Err("Unknown".to_owned())),
            ("EXTERNAL", b"anna", peer(true, Some("cert")), Ok("cert")),
            (
                "EXTERNAL",
                b"",
                peer(false, Some("cert")),
                denied("user 'cert' can only connect via localhost"),
            ),
            ("EXTERNAL", b"", peer(true, Some("nobody")), not_found),
        ];
        for (mechanism, response, peer, expected) in rows {
            let watch = (Now::default(), &Guard::default());
            let found = log_in(watch, &catalog(), &rules, &peer, mechanism, response);
            let found = found.map(|proof| match proof {
                Proof::Given(user) => user.name.to_string(),
                Proof::Awaited(trial) => format!("{trial:?}"),
            });
            let found = found.map_err(|why| match why {
                Unproved::Denied(denied) => denied.reason,
                other => format!("{other:?}"),
            });
            assert_eq!(found, expected.map(str::to_owned), "{mechanism} {response:?}");
        }
    }

    fn check(mechanism: &str, response: &[u8], expected: Option<(&str, &str)>) {
        assert_eq!(read(mechanism, response), expected, "{mechanism} {response:?}");
    }

    #[test]
    fn responses() {
        check("PLAIN", b"\0user\0word", Some(("user", "word")));
        // Nobody may act for another, and a user that asks for it must not be logged in as himself.
        check("PLAIN", b"other\0user\0word", None);
        check("PLAIN", b"\0user\0wo\0rd", None);
        check("PLAIN", b"\0user", None);
        check("PLAIN", b"\0\xff\0word", None);
        check("AMQPLAIN", b"\x05LOGINS\0\0\0\x04user\x08PASSWORDS\0\0\0\x04word", Some(("user", "word")));
        check("AMQPLAIN", b"\x05LOGINS\0\0\0\x04user", None);
        check("AMQPLAIN", b"\x05LOGINt\x01\x08PASSWORDS\0\0\0\x04word", None);
        check("AMQPLAIN", b"zz", None);
        check("EXTERNAL", b"\0user\0word", None);
    }
}
