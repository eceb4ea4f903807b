//! Logins of browsers: a cookie of 256 bits for as long as somebody works with the web interface.
//!
//! A browser is to keep no password, and a page's script is to see no token: so the node keeps the login that was given, and
//! the browser a cookie that its scripts cannot read. The login is tried with each request like one that a program sends:
//! a user that is deleted, or has another password, is logged in no more.
//!
//! A cookie counts only for requests that no foreign page can have made: those that the browser says are of this origin, and
//! those with a header of ours, which a page of another origin may not send. Browsers say where a request comes from over
//! TLS and to this machine alone, and a stream of events has no headers; so what has neither is refused.

use base::{Now, Secrets};
use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a cookie's secret.
const SECRET: usize = 32;

/// The beginning of a cookie's name. The port follows: browsers send a cookie to all ports of a host.
const NAME: &str = "leveret-session";

/// Bounds of the logins of browsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSessionLimits {
    /// Logins that are kept; for one more the oldest goes.
    pub sessions_max: usize,
    /// A user has one part in so many of them; for one more its own oldest goes.
    pub user_share: usize,
    /// Milliseconds that one lasts: RabbitMQ's `management.login_session_timeout`.
    pub session_ms_max: u64,
}

impl Default for WebSessionLimits {
    fn default() -> WebSessionLimits {
        // Eight hours, as RabbitMQ's.
        WebSessionLimits { sessions_max: 1000, user_share: 8, session_ms_max: 8 * 3_600_000 }
    }
}

/// The digest of a cookie's secret: what is looked for by it takes as long for any guess.
pub type WebSessionKey = [u8; 32];

/// See the module.
#[derive(Debug)]
pub struct WebSessions {
    limits: WebSessionLimits,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    secrets: Secrets,
    all: BTreeMap<WebSessionKey, WebSession>,
}

/// A login.
struct WebSession {
    user: String,
    /// The header that a program would send.
    authorization: String,
    /// When it ends, in `Now::mono_ns`.
    end_ns: u64,
}

/// Nothing of a login is for logs.
impl std::fmt::Debug for WebSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSession").field("user", &self.user).finish_non_exhaustive()
    }
}

fn key(secret: &str) -> WebSessionKey {
    Sha256::digest(secret.as_bytes()).into()
}

/// The name of the cookie of a node that is reached by this port.
pub(crate) fn cookie_name(port: Option<u16>) -> String {
    port.map_or(NAME.to_owned(), |port| format!("{NAME}-{port}"))
}

/// The value of a cookie of this name (RFC 6265 §4.2.1).
fn named<'c>(cookies: &'c str, name: &str) -> Option<&'c str> {
    let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(own, _)| *own == name).map(|(_, value)| value.trim_matches('"'))
}

impl WebSessions {
    /// A table without logins.
    pub fn new(limits: WebSessionLimits, secrets: Secrets) -> WebSessions {
        WebSessions { limits, table: Mutex::new(Table { secrets, all: BTreeMap::new() }) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a login that was let in: the secret for its cookie.
    pub(crate) fn begin(&self, now: Now, user: &str, authorization: String) -> String {
        let mut table = self.table();
        table.all.retain(|_, session| session.end_ns > now.mono_ns);
        let share = (self.limits.sessions_max / self.limits.user_share).max(1);
        let of_user = table.all.values().filter(|session| session.user == user).count();
        let goes = |session: &WebSession| of_user < share || session.user == user;
        if of_user >= share || table.all.len() >= self.limits.sessions_max {
            let oldest = table.all.iter().filter(|(_, session)| goes(session));
            let oldest = oldest.min_by_key(|(_, session)| session.end_ns).map(|(key, _)| *key);
            oldest.map(|key| table.all.remove(&key));
        }
        let secret = BASE64URL_NOPAD.encode(&table.secrets.bytes::<SECRET>());
        let end_ns = now.after_ms(self.limits.session_ms_max);
        table.all.insert(key(&secret), WebSession { user: user.to_owned(), authorization, end_ns });
        secret
    }

    /// The login of a cookie among these: the key of it, and the header that a program would send.
    pub(crate) fn find(&self, now: Now, cookies: &str, port: Option<u16>) -> Option<(WebSessionKey, String)> {
        let key = key(named(cookies, &cookie_name(port))?);
        let mut table = self.table();
        let session = table.all.get(&key)?;
        if session.end_ns <= now.mono_ns {
            table.all.remove(&key);
            return None;
        }
        Some((key, session.authorization.clone()))
    }

    /// A login is over.
    pub(crate) fn end(&self, key: &WebSessionKey) {
        self.table().all.remove(key);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table().all.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(sessions_max: usize) -> WebSessions {
        let limits = WebSessionLimits { sessions_max, user_share: 2, session_ms_max: 1000 };
        WebSessions::new(limits, Secrets::simulated(7))
    }

    fn at(ms: u64) -> Now {
        Now { mono_ns: ms * 1_000_000, ..Now::default() }
    }

    fn is_there(sessions: &WebSessions, now: Now, secret: &str) -> bool {
        sessions.find(now, &format!("a=b; {}={secret}; c", cookie_name(Some(1))), Some(1)).is_some()
    }

    #[test]
    fn a_login_is_found_by_its_cookie_until_it_ends() {
        let sessions = sessions(8);
        let secret = sessions.begin(at(0), "u", "Basic x".to_owned());
        assert_eq!(secret.len(), 43);
        let cookies = format!("{}={secret}", cookie_name(Some(15672)));
        let (key, header) = sessions.find(at(999), &cookies, Some(15672)).unwrap();
        assert_eq!(header, "Basic x");
        // Of another port's node, of another secret, and of none.
        assert!(sessions.find(at(1), &cookies, Some(15673)).is_none());
        assert!(!is_there(&sessions, at(1), &secret[1..]));
        assert!(sessions.find(at(1), "", None).is_none());
        sessions.end(&key);
        assert!(sessions.find(at(1), &cookies, Some(15672)).is_none());
        let secret = sessions.begin(at(0), "u", "Basic x".to_owned());
        assert!(is_there(&sessions, at(999), &secret) && !is_there(&sessions, at(1000), &secret));
        assert!(sessions.is_empty());
    }

    #[test]
    fn the_oldest_goes_and_nobody_takes_anothers_place() {
        let sessions = sessions(4);
        let others = sessions.begin(at(0), "other", String::new());
        let own: Vec<String> = (1..10).map(|ms| sessions.begin(at(ms), "u", String::new())).collect();
        assert_eq!(sessions.len(), 3);
        assert!(is_there(&sessions, at(10), &others));
        let left: Vec<bool> = own.iter().map(|secret| is_there(&sessions, at(10), secret)).collect();
        assert_eq!(left, [false, false, false, false, false, false, false, true, true]);
        sessions.begin(at(11), "third", String::new());
        sessions.begin(at(12), "fourth", String::new());
        assert!(!is_there(&sessions, at(13), &others));
        assert_eq!(sessions.len(), 4);
    }
}
