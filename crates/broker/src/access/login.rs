//! Logins: the user of a connection, and the virtual hosts it may open.
//!
//! The peer learns only that it was refused; the reason is for the log.

use super::password::{PasswordHash, SALT};
use crate::catalog::{Catalog, Object, Reason, Refusal, ReplyCode, UserDefinition, VhostId};
use std::sync::Arc;

/// The operator's rules beside users and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRules {
    /// Users that may only come from this machine.
    pub loopback_users: Vec<Box<str>>,
    /// The user of the mechanism ANONYMOUS; without, it is not offered.
    pub anonymous: Option<Anonymous>,
    /// The mechanisms that are offered.
    pub mechanisms: Mechanisms,
}

/// The user of the mechanism ANONYMOUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anonymous {
    /// The user.
    pub user: Box<str>,
    /// The user's password, which must be right.
    pub password: Box<str>,
    /// The operator named this user. If not, a user with tags is refused: any client that reaches the node would be
    /// an administrator.
    pub is_named: bool,
}

impl AccessRules {
    /// The user of the mechanism ANONYMOUS, as users are now: one that the operator named, or one without tags.
    pub fn anonymous(&self, catalog: &Catalog) -> Option<&Anonymous> {
        let has_no_tags = |user: &Arc<UserDefinition>| user.tags.is_empty();
        let is_meant = |own: &&Anonymous| own.is_named || catalog.user(&own.user).is_some_and(has_no_tags);
        self.anonymous.as_ref().filter(is_meant)
    }
}

/// SASL mechanisms, each with whether it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms {
    /// As the user of [`AccessRules::anonymous`]; not offered without such a user.
    pub anonymous: bool,
    /// User and password (RFC 4616).
    pub plain: bool,
    /// User and password in a table of AMQP 0-9-1.
    pub amqplain: bool,
    /// As the user that the peer's certificate names; not offered to a peer that has shown none.
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
            anonymous: Some(Anonymous { user: "guest".into(), password: "guest".into(), is_named: false }),
            mechanisms: Mechanisms::default(),
        }
    }
}

/// A login that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Why, for the log: never for the peer.
    pub reason: String,
    /// The reason holds a name that no user has: it may be a password that was typed in the wrong place.
    names_nobody: bool,
}

impl Denied {
    fn new(reason: impl Into<String>) -> Denied {
        Denied { reason: reason.into(), names_nobody: false }
    }

    /// Why, for readers of events.
    pub fn announced(&self) -> &str {
        if self.names_nobody { "no such user - invalid credentials" } else { &self.reason }
    }

    /// The answer to the peer, without the reason.
    pub fn refusal(&self, mechanism: &str) -> Refusal {
        let text = format!(
            "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
        );
        Refusal::access(Reason::Login, text)
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
    let user = catalog.user(name);
    let denied = |reason: String| Err(Denied { reason, names_nobody: user.is_none() });
    if password.is_empty() {
        return denied(format!(
            "user '{name}' attempted to log in with a blank password, which is refused. Give the user a password, \
             or use the mechanism EXTERNAL with a TLS certificate"
        ));
    }
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

/// Finds the user of the mechanism ANONYMOUS.
pub fn authenticate_anonymous(
    catalog: &Catalog,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    match (rules.anonymous(catalog), &rules.anonymous) {
        (Some(own), _) => authenticate(catalog, &own.user, &own.password, is_loopback, rules),
        (None, Some(Anonymous { user, .. })) => Err(Denied::new(format!(
            "anonymous_login_user is not set, and user '{user}' has tags or is not there"
        ))),
        (None, None) => Err(Denied::new("anonymous_login_user is 'none'")),
    }
}

/// Finds the user of a certificate that was found good: one by this name, with or without a password.
pub fn authenticate_certificate(
    catalog: &Catalog,
    name: &str,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    let Some(user) = catalog.user(name) else {
        let reason =
            format!("user '{name}' - not found: there must be a user of the name in the certificate");
        return Err(Denied::new(reason));
    };
    check_loopback(name, is_loopback, rules)?;
    Ok(user.clone())
}

fn check_loopback(name: &str, is_loopback: bool, rules: &AccessRules) -> Result<(), Denied> {
    if is_loopback || rules.loopback_users.iter().all(|own| **own != *name) {
        return Ok(());
    }
    Err(Denied::new(format!("user '{name}' can only connect via localhost")))
}

/// Opens a virtual host by name for a user: there must be one, and the user must have permissions in it, be they for
/// nothing.
pub fn open_vhost(catalog: &Catalog, user: &str, vhost: &str) -> Result<VhostId, Refusal> {
    let Some(id) = catalog.vhost(vhost) else {
        let reason = Reason::NotFound(Object::VirtualHost);
        return Err(Refusal::new(ReplyCode::NotAllowed, reason, format!("vhost {vhost} not found")));
    };
    if catalog.permissions(id, user).is_none() {
        let text = format!("access to vhost '{vhost}' refused for user '{user}'");
        return Err(Refusal::new(ReplyCode::NotAllowed, Reason::Permission(Object::VirtualHost), text));
    }
    Ok(id)
}
