//! The gate: which requests are let in before a handler looks at them, by the web page and the name they come by.
//!
//! Browsers add logins that they know to each request of a page, also of a foreign one; and a page whose name its owner
//! points at this machine may read the answers too. So what changes something is refused to foreign pages, and users that
//! may come from this machine alone come by a name of it. Programs that are no browsers send neither `Origin` nor
//! `Sec-Fetch-Site`, and pass.

use crate::authority::{Authority, Origin};
use crate::request::{Method, Request};
use crate::response::Response;
use crate::web_sessions::WebSessions;
use base::Now;
use base::percent::encoded;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bodies that a page may send anywhere without asking first (Fetch §2.2.2).
const SIMPLE_BODIES: [&str; 3] = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

/// The operator's rules for pages, names and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRules {
    /// Origins of pages that may use the API, by the name of their setting; `*` stands for all.
    pub origins: BTreeMap<String, String>,
    /// Seconds for which browsers may remember the rules for a page.
    pub max_age_s: u64,
    /// Names that the node is reached by beside its own, by the name of their setting.
    pub hosts: BTreeMap<String, Authority>,
    /// Segments of the path before `api`.
    pub prefix: Vec<String>,
    /// The word to browsers about coming over TLS, in answers over TLS; none: there is none.
    pub transport_policy: Option<String>,
}

impl Default for GateRules {
    fn default() -> GateRules {
        // As RabbitMQ's.
        let max_age_s = 1800;
        GateRules {
            origins: BTreeMap::new(),
            max_age_s,
            hosts: BTreeMap::new(),
            prefix: Vec::new(),
            transport_policy: None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// The operator's rules.
    pub rules: GateRules,
    /// The names of this machine.
    pub names: Vec<Authority>,
    /// Users that may only come from this machine.
    pub loopback_users: Vec<Box<str>>,
    /// Logins of browsers.
    pub sessions: Option<Arc<WebSessions>>,
}

/// The parts of a request that the gate looks at: values of headers, in order, and where they came in.
#[derive(Clone, Debug, Default)]
pub struct Head<'a> {
    /// The authority of the target, where that has one.
    pub target: Option<&'a str>,
    /// `host`.
    pub hosts: Vec<&'a [u8]>,
    /// `origin`.
    pub origins: Vec<&'a [u8]>,
    /// `sec-fetch-site`.
    pub sites: Vec<&'a [u8]>,
    /// `content-type`.
    pub bodies: Vec<&'a [u8]>,
    /// `access-control-request-headers`.
    pub headers: Option<&'a str>,
    /// The version is one that always names a host.
    pub names_host: bool,
    /// It came over TLS.
    pub is_secure: bool,
    /// `cookie`.
    pub cookies: Option<&'a str>,
    /// `sec-fetch-mode`.
    pub mode: Option<&'a [u8]>,
    /// It has the header `x-leveret`, which pages of other origins may not send.
    pub is_marked: bool,
}

/// The page that sent a request, by its relation to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// No page: a program.
    None,
    /// One that came from here.
    Own,
    /// One of an origin that the operator named.
    Named,
    /// One of any other origin, where the operator lets in all.
    Any,
    /// One that nobody knows.
    Foreign,
}

/// A request was let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// It came from this machine, and by a name of it.
    pub is_local: bool,
    /// The name it came by.
    pub host: Option<Authority>,
    /// Headers for the browser of a page that may read the answer.
    headers: Vec<(&'static str, String)>,
}

impl Passed {
    /// Adds the headers that tell the browser the rights of its page.
    pub fn tell(&self, response: &mut Response) {
        let is_asked = self.headers.iter().any(|(name, _)| *name == "access-control-max-age");
        if is_asked && let Some(allowed) = response.header("allow").map(str::to_owned) {
            response.set("access-control-allow-methods", allowed);
        }
        self.headers.iter().for_each(|(name, value)| response.set(name, value.clone()));
    }
}

impl Gate {
    /// Logs a request in by its browser's cookie, where no page of another origin can have sent it: see [`WebSessions`].
    pub fn recognize(&self, now: Now, head: &Head<'_>, request: &mut Request) {
        // A browser that is asked for a password by a script's request would ask its user.
        request.is_script = head.is_marked || head.mode.is_some_and(|mode| mode != b"navigate");
        let (Some(sessions), Some(cookies), None) = (&self.sessions, head.cookies, &request.authorization)
        else {
            return;
        };
        let Ok(host) = host(head) else { return };
        let page = self.page(head, host.as_ref());
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let is_safe = match page {
            Page::Own => is_read || head.is_marked,
            Page::None => head.is_marked,
            Page::Named | Page::Any | Page::Foreign => false,
        };
        if !is_safe {
            return;
        }
        if let Some((key, authorization)) =
            sessions.find(now, cookies, host.and_then(|host| host.said_port()))
        {
            request.authorization = Some(authorization);
            request.session = Some(key);
        }
    }

    /// Whether a request of the API is let in; `is_loopback`: its client is on this machine.
    ///
    /// # Errors
    /// The response to a request that is not let in.
    pub fn judge(&self, head: &Head<'_>, request: &Request) -> Result<Passed, Response> {
        let host = host(head)?;
        let is_ours = host.as_ref().is_none_or(|host| self.is_ours(host));
        if request.is_loopback
            && !is_ours
            && let Some((user, _)) = request.credentials()
            && self.loopback_users.iter().any(|own| **own == *user)
        {
            return Err(forbidden(&format!(
                "'{user}' may log in from this machine alone, by an address, 'localhost', a name without a dot or the machine's own; \
                 management.hosts.N lets in another"
            )));
        }
        let page = self.page(head, host.as_ref());
        if !matches!(request.method, Method::Get | Method::Head | Method::Options) {
            match page {
                Page::None | Page::Own | Page::Named => {}
                Page::Any if is_asked_first(head, request.method) => {}
                Page::Any => {
                    return Err(forbidden(
                        "a body from the page of another origin has to say that it is JSON",
                    ));
                }
                Page::Foreign => {
                    return Err(forbidden(
                        "the page of another origin may change nothing here; management.cors.allow_origins.N lets \
                         one in, and management.hosts.N names the host of a proxy",
                    ));
                }
            }
        }
        let (is_local, headers) = (request.is_loopback && is_ours, self.headers(head, request.method));
        Ok(Passed { is_local, host, headers })
    }

    /// The same for metrics, which take no login: from this machine by its names alone, so that no page gets at them.
    ///
    /// # Errors
    /// The response to a request that is not let in.
    pub fn judge_metrics(&self, head: &Head<'_>, request: &Request) -> Result<(), Response> {
        match host(head)? {
            Some(host) if request.is_loopback && !self.is_ours(&host) => Err(forbidden(
                "from this machine metrics are read by an address, 'localhost', a name without a dot or the machine's own; \
                 management.hosts.N lets in another",
            )),
            _ => Ok(()),
        }
    }

    /// Takes the prefix off a path, and reads the names in it that are dots.
    ///
    /// # Errors
    /// The response to a path that is not below it.
    pub fn enter(&self, request: &mut Request) -> Result<(), Response> {
        let prefix = &self.rules.prefix;
        if request.path.starts_with(prefix) {
            request.path.drain(..prefix.len());
            request.undot();
            return Ok(());
        }
        let is_shown = matches!(request.method, Method::Get | Method::Head);
        match is_shown && request.path.iter().all(String::is_empty) {
            true => Err(Response::empty(301).with("location", format!("{}/", path(prefix)))),
            false => Err(Response::not_found()),
        }
    }

    /// Whether a name is this node's.
    fn is_ours(&self, host: &Authority) -> bool {
        let mut named = self.names.iter().chain(self.rules.hosts.values());
        host.is_fixed() || named.any(|name| name.is_host_of(host))
    }

    fn page(&self, head: &Head<'_>, host: Option<&Authority>) -> Page {
        let origin = match head.origins[..] {
            [] => None,
            [origin] => Some(origin),
            _ => return Page::Foreign,
        };
        let by_origin = || match origin {
            None => Page::None,
            Some(origin) if self.is_own(origin, host, head.is_secure) => Page::Own,
            Some(_) => Page::Foreign,
        };
        if origin.is_some_and(|origin| self.names_origin(origin)) {
            return Page::Named;
        }
        let page = match head.sites[..] {
            // The browser's own judgement counts for more than names that a proxy may have changed.
            [b"same-origin"] => Page::Own,
            [] | [b"none"] => by_origin(),
            _ => Page::Foreign,
        };
        match page {
            Page::Foreign if origin.is_some_and(|origin| origin != b"null") && self.takes_all() => Page::Any,
            page => page,
        }
    }

    fn is_own(&self, origin: &[u8], host: Option<&Authority>, is_secure: bool) -> bool {
        let origin = std::str::from_utf8(origin).ok().and_then(Origin::read);
        origin.is_some_and(|origin| {
            host.is_some_and(|host| origin.is_of(host, is_secure))
                || self.rules.hosts.values().any(|name| origin.is_at(name))
        })
    }

    fn names_origin(&self, origin: &[u8]) -> bool {
        // As with RabbitMQ, `null` is nobody's.
        let is_one = |named: &String| named.as_bytes().eq_ignore_ascii_case(origin) && named != "null";
        self.rules.origins.values().any(is_one)
    }

    fn takes_all(&self) -> bool {
        self.rules.origins.values().any(|named| named == "*")
    }

    /// RabbitMQ's headers for browsers; the age counts also where the browser asks for headers.
    fn headers(&self, head: &Head<'_>, method: Method) -> Vec<(&'static str, String)> {
        let [origin] = head.origins[..] else { return Vec::new() };
        let Ok(text) = std::str::from_utf8(origin) else { return Vec::new() };
        let mut headers = match (self.names_origin(origin), self.takes_all() && text != "null") {
            (true, _) => vec![
                ("access-control-allow-origin", text.to_owned()),
                ("access-control-allow-credentials", "true".to_owned()),
            ],
            // Requests with logins of the browser are for pages that were named.
            (false, true) => vec![("access-control-allow-origin", "*".to_owned())],
            (false, false) => return Vec::new(),
        };
        if method == Method::Options {
            headers.push(("access-control-max-age", self.rules.max_age_s.to_string()));
            let asked = head.headers.map(|asked| ("access-control-allow-headers", asked.to_owned()));
            headers.extend(asked);
        }
        headers
    }
}

/// The path that these segments are.
pub fn path(segments: &[String]) -> String {
    segments.iter().map(|segment| format!("/{}", encoded(segment))).collect()
}

/// The name that a request came by (RFC 9112 §3.2); `None`: it says none, as no browser does.
fn host(head: &Head<'_>) -> Result<Option<Authority>, Response> {
    let bad = |why: &str| Response::bad_request(why);
    let host = match head.hosts[..] {
        [] if head.names_host => return Err(bad("the header 'host' is missing")),
        [] | [b""] => None,
        [host] => {
            let host = std::str::from_utf8(host).ok().and_then(Authority::read);
            Some(host.ok_or_else(|| bad("the header 'host' is no host"))?)
        }
        _ => return Err(bad("there are several headers 'host'")),
    };
    match head.target {
        Some(target) if Authority::read(target) != host || host.is_none() => {
            Err(bad("the target and the header 'host' name two hosts"))
        }
        _ => Ok(host),
    }
}

/// Whether a browser has asked the node before it sent this, in which no login is that the browser adds by itself.
fn is_asked_first(head: &Head<'_>, method: Method) -> bool {
    let is_simple = |kind: &[u8]| {
        let name = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        SIMPLE_BODIES.iter().any(|simple| name.eq_ignore_ascii_case(simple.as_bytes()))
    };
    method != Method::Post || matches!(head.bodies[..], [kind] if !is_simple(kind))
}

fn forbidden(why: &str) -> Response {
    Response::error(403, "forbidden", why)
}

#[cfg(test)]
mod tests;
