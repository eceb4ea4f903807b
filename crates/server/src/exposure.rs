//! Warnings of a start: users that anybody may log in as, and the listeners where that is possible.

use crate::config::Config;
use crate::config::network::ListenerKind;
use crate::config::value::Address;
use broker::catalog::Catalog;

/// User and password that every installation begins with, here as with RabbitMQ.
const DEFAULT: &str = "guest";

/// The warnings for an operator, of users and listeners as they are at a start.
pub fn warnings(config: &Config, catalog: &Catalog) -> Vec<String> {
    let mut warnings = Vec::new();
    let hash = catalog.user(DEFAULT).and_then(|user| user.password.as_ref());
    if hash.is_some_and(|hash| hash.matches(DEFAULT)) {
        let open: Vec<String> =
            config.listeners.iter().chain(&config.if_free).filter_map(of_everybody).collect();
        let open = open.join(", ");
        if config.loopback_users.iter().all(|user| user != DEFAULT) {
            let ends = if open.is_empty() {
                String::new()
            } else {
                format!(". Listeners for other machines: {open}")
            };
            warnings.push(format!(
                "user '{DEFAULT}' has its default password and may log in from anywhere, as loopback_users does not name \
                 it: give it another password, or delete it{ends}"
            ));
        } else if !open.is_empty() {
            warnings.push(format!(
                "user '{DEFAULT}' has its default password. It may log in from this machine alone, and that is where all \
                 come from who come through a proxy or a forwarded port: give it another password, or delete it. Listeners \
                 for other machines: {open}"
            ));
        }
    }
    let anonymous = config.anonymous_user.as_deref().filter(|_| config.names_anonymous);
    let stands_for =
        anonymous.filter(|_| config.mechanisms.contains(&"ANONYMOUS")).and_then(|name| catalog.user(name));
    if let Some(user) = stands_for.filter(|user| !user.tags.is_empty()) {
        warnings.push(format!(
            "whoever logs in with ANONYMOUS is user '{}', tagged {}: anonymous_login_user names it",
            user.name,
            user.tags.join(", ")
        ));
    }
    warnings
}

/// A listener that other machines reach and that takes logins, as a warning names it.
fn of_everybody((kind, address): &(ListenerKind, Address)) -> Option<String> {
    let asks_nobody = matches!(kind, ListenerKind::Prometheus | ListenerKind::PrometheusTls);
    let is_near = address.ip.is_some_and(|ip| ip.is_loopback());
    let ip = address.ip.map_or("all interfaces".to_owned(), |ip| ip.to_string());
    (!asks_nobody && !is_near).then(|| format!("{} on {ip}, port {}", kind.names().0, address.port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::PortId;
    use broker::access::{PasswordHash, SALT};
    use broker::catalog::{Actor, Op, Places, VhostId};

    /// A catalog with users, each with a password and tags.
    fn catalog(users: &[(&str, &str, &[&str])]) -> Catalog {
        let mut catalog = Catalog::default();
        let by = Actor::internal(VhostId(0), PortId::default());
        for (name, password, tags) in users {
            let password = Some(PasswordHash::new(password, [1; SALT]));
            let tags = tags.iter().map(|tag| Box::from(*tag)).collect();
            let op = Op::AddUser { name: Box::from(*name), password, tags };
            let plan = catalog.plan(&by, &op, Places::default()).expect("a user that is not there");
            plan.changes.iter().for_each(|change| _ = catalog.apply(change));
        }
        catalog
    }

    #[test]
    fn default_passwords_and_open_listeners_are_warned_of() {
        let admin: &[&str] = &["administrator"];
        let (known, other) = (("guest", "guest", admin), ("guest", "another", admin));
        let all = (ListenerKind::Amqp, Address { ip: None, port: 5672 });
        let near = (ListenerKind::Amqp, Address { ip: Some([127, 0, 0, 1].into()), port: 5672 });
        let metrics = (ListenerKind::Prometheus, Address { ip: None, port: 15692 });
        let check = |users: &[_], listeners: &[_], loopback: &[&str], expected: &[&str]| {
            let loopback_users = loopback.iter().map(|user| (*user).to_owned()).collect();
            let config = Config { listeners: listeners.to_vec(), loopback_users, ..Config::new("hare") };
            let warnings = warnings(&config, &catalog(users));
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            for (warning, words) in warnings.iter().zip(expected) {
                words.split('|').for_each(|word| assert!(warning.contains(word), "{warning}: {word}"));
            }
        };
        check(&[known], &[near], &["guest"], &[]);
        check(&[known], &[near, metrics], &["guest"], &[]);
        check(&[known], &[all, near], &["guest"], &["this machine alone|amqp on all interfaces, port 5672"]);
        check(&[known], &[near], &[], &["from anywhere|loopback_users"]);
        check(&[known], &[all], &["other"], &["from anywhere|amqp on all interfaces, port 5672"]);
        check(&[other], &[all], &[], &[]);
        check(&[("admin", "guest", admin)], &[all], &[], &[]);
        check(&[], &[all], &[], &[]);
    }

    #[test]
    fn an_anonymous_administrator_is_warned_of() {
        let users: &[(&str, &str, &[&str])] =
            &[("a", "x", &["administrator", "monitoring"]), ("u", "x", &[])];
        let check = |name: Option<&str>, is_named: bool, mechanisms: &[&'static str], expected: usize| {
            let config = Config {
                anonymous_user: name.map(str::to_owned),
                names_anonymous: is_named,
                mechanisms: mechanisms.to_vec(),
                ..Config::new("hare")
            };
            let warnings = warnings(&config, &catalog(users));
            assert_eq!(warnings.len(), expected, "{name:?} {warnings:?}");
        };
        check(Some("a"), true, &["PLAIN", "ANONYMOUS"], 1);
        check(Some("a"), true, &["PLAIN"], 0);
        check(Some("a"), false, &["ANONYMOUS"], 0);
        check(Some("u"), true, &["ANONYMOUS"], 0);
        check(Some("absent"), true, &["ANONYMOUS"], 0);
        check(None, true, &["ANONYMOUS"], 0);
    }
}
