//! Who somebody is, and which virtual host they may open.
//!
//! The peer learns only that it was refused; the reason is for the log.

use super::password::{PasswordHash, SALT};
use crate::catalog::{Catalog, Refusal, ReplyCode, UserDefinition, VhostId};
use std::sync::Arc;

/// The operator's rules beside users and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRules {
    /// Users that may only come from this machine.
    pub loopback_users: Vec<Box<str>>,
    /// User and password that the mechanism ANONYMOUS stands for; without, it is not offered.
    pub anonymous: Option<(Box<str>, Box<str>)>,
    /// The mechanisms that are offered.
    pub mechanisms: Mechanisms,
}

/// SASL mechanisms, each with whether it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms {
    /// As whoever is named by [`AccessRules::anonymous`]; not offered without such a user.
    pub anonymous: bool,
    /// User and password (RFC 4616).
    pub plain: bool,
    /// User and password in a table of AMQP 0-9-1.
    pub amqplain: bool,
    /// As whom the peer's certificate names; not offered to a peer that has shown none.
    pub external: bool,
}

impl Mechanisms {
    /// Nothing.
    pub const NONE: Mechanisms =
        Mechanisms { anonymous: false, plain: false, amqplain: false, external: false };
}

impl Default for Mechanisms {
    fn default() -> Mechanisms {
        Mechanisms { anonymous: true, plain: true, amqplain: true, external: false }
    }
}

impl Default for AccessRules {
    fn default() -> AccessRules {
        AccessRules {
            loopback_users: vec!["guest".into()],
            anonymous: Some(("guest".into(), "guest".into())),
            mechanisms: Mechanisms::default(),
        }
    }
}

/// A login that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Why, for the log: never for the peer.
    pub reason: String,
}

impl Denied {
    /// What the peer is told.
    pub fn refusal(&self, mechanism: &str) -> Refusal {
        Refusal::access(format!(
            "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        ))
    }
}

/// Finds out whether `name` may log in with `password`. `is_loopback`: the peer is on this machine.
pub fn authenticate(
    catalog: &Catalog,
    name: &str,
    password: &str,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    let denied = |reason: String| Err(Denied { reason });
    if password.is_empty() {
        return denied(format!(
            "user '{name}' attempted to log in with a blank password, which is refused. Give the user a password, \
             or use the mechanism EXTERNAL with a TLS certificate"
        ));
    }
    let user = catalog.user(name);
    let hash = user.and_then(|user| user.password.as_ref());
    let matches = match hash {
        Some(hash) => hash.matches(password),
        None => {
            // Nobody shall learn from the time it takes which users there are.
            std::hint::black_box(PasswordHash::new(password, [0; SALT]));
            false
        }
    };
    match user {
        Some(user) if matches => {
            check_loopback(name, is_loopback, rules)?;
            Ok(user.clone())
        }
        _ => denied(format!("user '{name}' - invalid credentials")),
    }
}

/// Finds out whom the mechanism ANONYMOUS stands for.
pub fn authenticate_anonymous(
    catalog: &Catalog,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    match &rules.anonymous {
        Some((name, password)) => authenticate(catalog, name, password, is_loopback, rules),
        None => Err(Denied { reason: "anonymous_login_user is 'none'".to_owned() }),
    }
}

/// Finds out whom a certificate stands for that was found good: a user by this name, with or without a password.
pub fn authenticate_certificate(
    catalog: &Catalog,
    name: &str,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    let Some(user) = catalog.user(name) else {
        let reason =
            format!("user '{name}' - not found: there must be a user of the name in the certificate");
        return Err(Denied { reason });
    };
    check_loopback(name, is_loopback, rules)?;
    Ok(user.clone())
}

fn check_loopback(name: &str, is_loopback: bool, rules: &AccessRules) -> Result<(), Denied> {
    if is_loopback || rules.loopback_users.iter().all(|own| **own != *name) {
        return Ok(());
    }
    Err(Denied { reason: format!("user '{name}' can only connect via localhost") })
}

/// Opens a virtual host by name for a user: there must be one, and the user must have permissions in it, be they for
/// nothing.
pub fn open_vhost(catalog: &Catalog, user: &str, vhost: &str) -> Result<VhostId, Refusal> {
    let Some(id) = catalog.vhost(vhost) else {
        return Err(Refusal::new(ReplyCode::NotAllowed, format!("vhost {vhost} not found")));
    };
    if catalog.permissions(id, user).is_none() {
        let text = format!("access to vhost '{vhost}' refused for user '{user}'");
        return Err(Refusal::new(ReplyCode::NotAllowed, text));
    }
    Ok(id)
}
