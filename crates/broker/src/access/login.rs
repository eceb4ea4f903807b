//! Logins: the user of a connection, and the virtual hosts it may open.
//!
//! The peer learns only that it was refused; the reason is for the log.

use super::argon2id;
use super::guard::{Begun, Guard};
use super::guesses::{Held, HeldBy, Origin, Ticket};
use super::password::{Hashing, PasswordHash, SALT};
use super::proofs::Proof;
use crate::catalog::{Catalog, Object, Reason, Refusal, ReplyCode, UserDefinition, VhostId};
use base::Now;
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
    /// The algorithm for passwords of users that name none.
    pub hashing: Hashing,
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
            hashing: Hashing::default(),
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
    /// The knowledge of its password.
    password: Password,
}

/// The knowledge of the password of a login that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Password {
    /// It is wrong, or there is none.
    Wrong,
    /// It is right, and its user may only come from the node's own machine.
    Right,
    /// It was not looked at.
    Unseen(Held),
}

impl Denied {
    fn new(reason: impl Into<String>) -> Denied {
        Denied { reason: reason.into(), names_nobody: false, password: Password::Wrong }
    }

    /// The client would be let in on the node's own machine.
    pub fn is_far(&self) -> bool {
        self.password == Password::Right
    }

    /// Milliseconds that the answer is to wait, where the guard refused the login without a try.
    pub fn held_ms(&self) -> Option<u64> {
        match self.password {
            Password::Unseen(held) => Some(held.wait_ns / base::time::NS_PER_MS),
            Password::Wrong | Password::Right => None,
        }
    }

    /// Whether the log is to have a line: of logins that are held back only now and then.
    pub fn is_told(&self) -> bool {
        !matches!(self.password, Password::Unseen(Held { told: None, .. }))
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

/// A login by name and password, with all it takes of the catalog: the password is compared elsewhere.
#[derive(Clone)]
pub struct Claim {
    name: Box<str>,
    password: Box<str>,
    is_loopback: bool,
    user: Option<Arc<UserDefinition>>,
}

/// Neither the password nor its hash is for logs.
impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Claim {
    /// The claim of a peer. `is_loopback`: it is on this machine.
    pub fn new(catalog: &Catalog, name: &str, password: &str, is_loopback: bool) -> Claim {
        let user = catalog.user(name).cloned();
        Claim { name: name.into(), password: password.into(), is_loopback, user }
    }

    /// Whether the user may log in. The guard decides whether the password is looked at, and hears of the outcome.
    /// Without an origin the login is no guess.
    pub fn judge(self, now: Now, guard: &Guard, origin: Option<Origin>, rules: &AccessRules) -> Judged {
        if let Err(denied) = self.check_blank() {
            return Judged::Done(Err(denied));
        }
        let ticket = match origin.map(|origin| guard.admit(now, &self.name, origin)).transpose() {
            Ok(ticket) => ticket,
            Err(held) => return Judged::Done(Err(self.held(held))),
        };
        let Some(hash) = self.dear_hash(rules) else {
            let found = self.compare(rules);
            guard.judged(now, ticket, found.is_ok());
            return Judged::Done(found);
        };
        match guard.begin(now, hash.as_bytes(), &self.password, ticket) {
            Begun::Compared(is_right, ticket) => {
                let found = self.verdict(is_right, rules);
                guard.judged(now, ticket, found.is_ok());
                Judged::Done(found)
            }
            Begun::Held(held) => Judged::Done(Err(self.held(held))),
            Begun::Wait(proof, ticket) => Judged::Trial(Box::new(Trial { claim: self, hash, proof, ticket })),
        }
    }

    /// The same for the node's administrator, who is no guesser. It may take long.
    ///
    /// # Errors
    /// Why not.
    pub fn judge_now(&self, rules: &AccessRules) -> Result<Arc<UserDefinition>, Denied> {
        self.check_blank().and_then(|()| self.compare(rules))
    }

    /// The user, without a look at the password: the node itself asks, for one that it has let in.
    ///
    /// # Errors
    /// The user is gone, or may only come from this machine.
    pub fn vouched(&self, rules: &AccessRules) -> Result<Arc<UserDefinition>, Denied> {
        self.verdict(true, rules)
    }

    /// The hash that the password is to be compared with, where that takes long. Where new hashes are of that kind,
    /// users that are not there take as long, so that nobody learns which there are.
    fn dear_hash(&self, rules: &AccessRules) -> Option<PasswordHash> {
        match self.user.as_ref().and_then(|user| user.password.as_ref()) {
            Some(hash) => hash.is_dear().then(|| hash.clone()),
            None => {
                (rules.hashing == Hashing::Argon2id).then(|| PasswordHash::from_bytes(&argon2id::dummy()))?
            }
        }
    }

    fn denied(&self, reason: String, password: Password) -> Denied {
        Denied { reason, names_nobody: self.user.is_none(), password }
    }

    fn check_blank(&self) -> Result<(), Denied> {
        if !self.password.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "user '{}' attempted to log in with a blank password, which is refused. Give the user a password, or use \
             the mechanism EXTERNAL with a TLS certificate",
            self.name
        );
        Err(self.denied(reason, Password::Wrong))
    }

    fn compare(&self, rules: &AccessRules) -> Result<Arc<UserDefinition>, Denied> {
        let hash = self.user.as_ref().and_then(|user| user.password.as_ref());
        let matches = match hash {
            Some(hash) => hash.matches(&self.password),
            None => {
                // Nobody shall learn from the time it takes which users there are.
                std::hint::black_box(PasswordHash::new(&self.password, [0; SALT]));
                false
            }
        };
        self.verdict(matches, rules)
    }

    fn verdict(&self, is_right: bool, rules: &AccessRules) -> Result<Arc<UserDefinition>, Denied> {
        match &self.user {
            Some(user) if is_right => {
                check_loopback(&self.name, self.is_loopback, rules)?;
                Ok(user.clone())
            }
            _ => Err(self.denied(format!("user '{}' - invalid credentials", self.name), Password::Wrong)),
        }
    }

    fn held(&self, held: Held) -> Denied {
        let why = match held.by {
            HeldBy::Account => "too many wrong passwords of this user (leveret.guesses_per_account)",
            HeldBy::Origin => "too many wrong passwords from this address (leveret.guesses_per_address)",
            HeldBy::Work => "too many passwords are being compared with memory-hard hashes",
        };
        let count = held.told.unwrap_or(1);
        let reason = format!(
            "user '{}' - held back: {why}. Such logins are refused without a look at the password, {count} since this \
             was last told",
            self.name
        );
        self.denied(reason, Password::Unseen(held))
    }
}

/// The fate of a login.
#[derive(Debug)]
pub enum Judged {
    /// It is decided.
    Done(Result<Arc<UserDefinition>, Denied>),
    /// Its password is to be compared with a hash that takes memory and time: not on a shard.
    Trial(Box<Trial>),
}

/// The comparison of a password with a memory-hard hash.
#[derive(Debug)]
pub struct Trial {
    claim: Claim,
    hash: PasswordHash,
    proof: Proof,
    /// None: it is no guess.
    ticket: Option<Ticket>,
}

impl Trial {
    /// Compares, unless that was done meanwhile for another login. It may take seconds, and 64 MiB.
    ///
    /// # Errors
    /// Why the user may not log in.
    pub fn carry_out(
        self,
        now: Now,
        guard: &Guard,
        rules: &AccessRules,
    ) -> Result<Arc<UserDefinition>, Denied> {
        let Trial { claim, hash, proof, ticket } = self;
        let compared = guard.compared(now, &proof);
        let is_right = compared.unwrap_or_else(|| hash.matches(&claim.password));
        let found = claim.verdict(is_right, rules);
        guard.end(now, proof, is_right);
        guard.judged(now, ticket, found.is_ok());
        found
    }
}

/// Finds out whether `name` may log in with `password`, for a caller that is no guesser. `is_loopback`: the peer is on
/// this machine.
///
/// # Errors
/// Why not.
pub fn authenticate(
    catalog: &Catalog,
    name: &str,
    password: &str,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    Claim::new(catalog, name, password, is_loopback).judge_now(rules)
}

/// Finds the user of the mechanism ANONYMOUS.
pub fn authenticate_anonymous(
    catalog: &Catalog,
    is_loopback: bool,
    rules: &AccessRules,
) -> Result<Arc<UserDefinition>, Denied> {
    anonymous_claim(catalog, is_loopback, rules).and_then(|claim| claim.judge_now(rules))
}

/// The claim of a peer that comes by the mechanism ANONYMOUS; it is no guess.
///
/// # Errors
/// Why there is no such user.
pub fn anonymous_claim(catalog: &Catalog, is_loopback: bool, rules: &AccessRules) -> Result<Claim, Denied> {
    match (rules.anonymous(catalog), &rules.anonymous) {
        (Some(own), _) => Ok(Claim::new(catalog, &own.user, &own.password, is_loopback)),
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
    let reason = format!("user '{name}' can only connect via localhost");
    Err(Denied { password: Password::Right, ..Denied::new(reason) })
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
