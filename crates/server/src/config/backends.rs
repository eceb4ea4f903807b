//! Authentication backends that are not there: those that `auth_backends` names, and the settings that tune them, which
//! are told once for each backend.
//!
//! A backend that is named stops the start by that. Settings that tune one that is not named have no effect in RabbitMQ
//! either.

use std::collections::{BTreeMap, BTreeSet};

/// A backend that has settings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// A directory.
    Ldap,
    /// A service that is asked over HTTP.
    Http,
    /// Tokens.
    OAuth2,
    /// The answers of another backend.
    Cache,
}

impl Backend {
    /// The backend that `auth_backends` names so.
    pub fn read(name: &str) -> Option<Backend> {
        Some(match name {
            "ldap" | "rabbit_auth_backend_ldap" => Backend::Ldap,
            "http" | "rabbit_auth_backend_http" => Backend::Http,
            "oauth" | "oauth2" | "rabbit_auth_backend_oauth2" | "uaa" | "rabbit_auth_backend_uaa" => {
                Backend::OAuth2
            }
            "cache" | "rabbit_auth_backend_cache" => Backend::Cache,
            _ => return None,
        })
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Backend::Ldap => "LDAP",
            Backend::Http => "authentication over HTTP",
            Backend::OAuth2 => "OAuth 2",
            Backend::Cache => "the cache of another authentication backend",
        }
    }

    /// The beginning of its keys.
    fn family(self) -> &'static str {
        match self {
            Backend::Ldap => "auth_ldap",
            Backend::Http => "auth_http",
            Backend::OAuth2 => "auth_oauth2",
            Backend::Cache => "auth_cache",
        }
    }
}

/// Backends that are named, and settings that tune one.
#[derive(Debug, Default)]
pub struct Backends {
    named: BTreeSet<Backend>,
    /// Those that a cache is to keep the answers of.
    cached: BTreeSet<Backend>,
    tuned: BTreeMap<Backend, Tuned>,
}

/// Settings of one backend.
#[derive(Debug)]
struct Tuned {
    count: usize,
    /// The place of the first.
    place: String,
}

impl Backends {
    /// `auth_backends` names it.
    pub fn name(&mut self, backend: Backend) {
        self.named.insert(backend);
    }

    /// A setting at `place` tunes it. `value`: what it says, if that is a word.
    pub fn tune(&mut self, backend: Backend, place: String, value: &str) {
        self.tuned.entry(backend).or_insert(Tuned { count: 0, place }).count += 1;
        if backend == Backend::Cache {
            self.cached.extend(Backend::read(value));
        }
    }

    /// One warning for each backend that is tuned and not named: its refusal tells of one that is.
    pub fn warnings(&self) -> Vec<String> {
        let is_cached = |backend| self.named.contains(&Backend::Cache) && self.cached.contains(backend);
        let unnamed =
            self.tuned.iter().filter(|(backend, _)| !self.named.contains(backend) && !is_cached(backend));
        let warning = |(backend, Tuned { count, place }): (&Backend, &Tuned)| {
            let (title, family) = (backend.title(), backend.family());
            let settings = match count {
                1 => format!("a setting of {family}.* has"),
                count => format!("{count} settings of {family}.*, of which this is the first, have"),
            };
            format!(
                "{place}: {settings} no effect: {title} is not served yet, and auth_backends does not name it. \
                 They can be removed"
            )
        };
        unnamed.map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Backend::{Cache, Http, Ldap};

    #[test]
    fn one_warning_tells_of_all_settings_of_a_backend_that_is_not_named() {
        let check = |named: &[Backend], tuned: &[(Backend, &str)], expected: &[&str]| {
            let mut backends = Backends::default();
            for (line, (backend, value)) in tuned.iter().enumerate() {
                backends.tune(*backend, format!("f:{}", line + 1), value);
            }
            named.iter().for_each(|backend| backends.name(*backend));
            let warnings = backends.warnings();
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            for (warning, begin) in warnings.iter().zip(expected) {
                assert!(warning.starts_with(begin), "{warning}");
            }
        };
        check(&[], &[], &[]);
        check(&[], &[(Ldap, "a")], &["f:1: a setting of auth_ldap.* has no effect: LDAP is not served yet"]);
        check(
            &[],
            &[(Ldap, "a"), (Http, "b"), (Ldap, "c")],
            &[
                "f:1: 2 settings of auth_ldap.*, of which this is the first, have",
                "f:2: a setting of auth_http.*",
            ],
        );
        check(&[Ldap], &[(Ldap, "a"), (Http, "b")], &["f:2: a setting of auth_http.*"]);
        check(&[Cache], &[(Cache, "http"), (Http, "a"), (Http, "b")], &[]);
        check(&[Http], &[(Cache, "http"), (Http, "a")], &["f:1: a setting of auth_cache.*"]);
        check(
            &[],
            &[(Cache, "http"), (Http, "a")],
            &["f:2: a setting of auth_http.*", "f:1: a setting of auth_cache.*"],
        );
    }
}
