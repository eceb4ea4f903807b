//! A request: a method, a path in segments, a query, a body.
//!
//! The path is split before its segments are decoded: clients escape `/` in names, and some of them even `-` and `.`.

use crate::authority::Authority;
use crate::moving::Moving;
use crate::response::Response;
use crate::seen::Seen;
use crate::web_sessions::WebSessionKey;
use base::percent;
use broker::access::Denied;
use broker::catalog::UserDefinition;
use data_encoding::BASE64;
use std::net::IpAddr;
use std::sync::Arc;

/// The method of a request (RFC 9110 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Show it.
    Get,
    /// The same, without a body.
    Head,
    /// Have it so.
    Put,
    /// Do something to it.
    Post,
    /// Have it no more.
    Delete,
    /// Which of these there are.
    Options,
    /// None that is served.
    Other,
}

impl Method {
    fn named(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            _ => Method::Other,
        }
    }

    /// As on the wire; empty for methods that are not served.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Other => "",
        }
    }
}

/// The objects that a request to declare something is about, where it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    /// Objects that are not there yet.
    New,
    /// Objects that are there; their fields that are not named stay.
    Existing,
}

/// The outcome of a login whose password was compared: the user, or why not.
pub type Tried = Result<Arc<UserDefinition>, Denied>;

/// A request, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path's segments, decoded.
    pub path: Vec<String>,
    /// The query's pairs, decoded, in order.
    pub query: Vec<(String, String)>,
    /// The header with the user and the password.
    pub authorization: Option<String>,
    /// The header with the type of the body.
    pub content_type: Option<String>,
    /// The name by which the node was reached, where the request says one.
    pub host: Option<Authority>,
    /// Its client takes answers in gzip.
    pub takes_gzip: bool,
    /// The header that says why something is to end.
    pub reason: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// It has a large body that is not read yet, or would wait long: answered with 100 where the user may go on.
    pub awaits_body: bool,
    /// It is asked again, for events after the response that this was in.
    pub seen: Option<Box<Seen>>,
    /// The client's address; none: it has none.
    pub from: Option<IpAddr>,
    /// It may be answered with work that is not done, as others have their turns.
    pub takes_turns: bool,
    /// It is asked again, to go on with the work of the response that this was in.
    pub moving: Option<Box<Moving>>,
    /// It is asked again, now that the password of its login is compared ([`Response::trial`]).
    pub tried: Option<Box<Tried>>,
    /// The client is on this machine.
    pub is_loopback: bool,
    /// The login of a browser that it came by.
    pub session: Option<WebSessionKey>,
    /// A page's script sent it: its browser is not to ask for a password.
    pub is_script: bool,
    /// It came over TLS.
    pub is_secure: bool,
    /// It comes from a tool that may do everything with the node, in the node's own name.
    pub is_own: bool,
}

impl Request {
    /// The request for `target`, a path with perhaps a query behind it. `None` where it cannot be decoded.
    pub fn new(method: &str, target: &str, body: Vec<u8>, is_loopback: bool) -> Option<Request> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = path.split('/').map(|segment| decode(segment, false)).collect::<Option<_>>()?;
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name, true)?, decode(value, true)?))
        };
        let query = pairs.map(pair).collect::<Option<_>>()?;
        let method = Method::named(method);
        Some(Request {
            method,
            path,
            query,
            authorization: None,
            content_type: None,
            host: None,
            takes_gzip: false,
            reason: None,
            body,
            awaits_body: false,
            seen: None,
            from: None,
            takes_turns: false,
            moving: None,
            tried: None,
            is_loopback,
            session: None,
            is_script: false,
            is_secure: false,
            is_own: false,
        })
    }

    /// Reads names that are `.` or `..`: browsers and proxies take such segments, however they are encoded, for steps (WHATWG
    /// URL §4.4), so that they come as `-` or `--`, and `dots=N` says that the segment at N below `/api` is one.
    pub(crate) fn undot(&mut self) {
        for (_, at) in self.query.iter().filter(|(name, _)| name == "dots") {
            let at = at.parse::<usize>().ok().and_then(|at| at.checked_add(1));
            let segment = at.and_then(|at| self.path.get_mut(at));
            if let Some(segment) = segment.filter(|own| matches!(own.as_str(), "-" | "--")) {
                *segment = segment.replace('-', ".");
            }
        }
    }

    /// The last value of a name in the query.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The key `only` of the query; none: all objects are meant.
    ///
    /// # Errors
    /// The response to any other value.
    pub(crate) fn only(&self) -> Result<Option<Only>, Response> {
        match self.asked("only") {
            None => Ok(None),
            Some("new") => Ok(Some(Only::New)),
            Some("existing") => Ok(Some(Only::Existing)),
            Some(_) => Err(Response::bad_request("only is neither new nor existing")),
        }
    }

    pub(crate) fn says(&self, name: &str) -> bool {
        self.asked(name) == Some("true")
    }

    /// Whether it is for metrics of queues that are looked for by their names.
    pub fn searches(&self) -> bool {
        self.asked("queue").is_some()
    }

    /// The user that the request is of by its own word.
    pub fn user(&self) -> Option<String> {
        self.credentials().map(|(user, _)| user)
    }

    /// User and password of basic authentication (RFC 7617).
    pub(crate) fn credentials(&self) -> Option<(String, String)> {
        let (scheme, coded) = self.authorization.as_ref()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let text = String::from_utf8(BASE64.decode(coded.trim().as_bytes()).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        Some((user.to_owned(), password.to_owned()))
    }
}

/// Percent-decoding (RFC 3986 §2.1); in a query `+` is a space. `None` where it is none, or no UTF-8.
pub(crate) fn decode(text: &str, is_query: bool) -> Option<String> {
    if is_query && text.contains('+') {
        return percent::decoded(&text.replace('+', " "));
    }
    percent::decoded(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_before_they_are_decoded() {
        let check = |target: &str, path: &[&str], query: &[(&str, &str)]| {
            let request = Request::new("GET", target, Vec::new(), true).expect(target);
            assert_eq!(request.path, path, "{target}");
            let asked: Vec<_> = request.query.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(asked, query, "{target}");
        };
        check("/api/queues/%2F/a%2Fb", &["api", "queues", "/", "a/b"], &[]);
        check("/api/queues/%2f/max%2Dqueues/", &["api", "queues", "/", "max-queues"], &[]);
        check("/api/x?a=b+c&d&e=%26", &["api", "x"], &[("a", "b c"), ("d", ""), ("e", "&")]);
        check("/api/a+b", &["api", "a+b"], &[]);
        check("/api/users//?only=new", &["api", "users", ""], &[("only", "new")]);
        for bad in ["/api/%", "/api/%2", "/api/%zz", "/api/%ff", "/api?x=%"] {
            assert_eq!(Request::new("GET", bad, Vec::new(), true), None, "{bad}");
        }
    }

    #[test]
    fn names_that_are_dots_come_as_hyphens() {
        let check = |target: &str, path: &[&str]| {
            let mut request = Request::new("GET", target, Vec::new(), true).expect(target);
            request.undot();
            assert_eq!(request.path, path, "{target}");
        };
        check("/api/queues/%2F/-?dots=2", &["api", "queues", "/", "."]);
        check("/api/bindings/--/e/-/q/a?dots=1&dots=3", &["api", "bindings", "..", "e", ".", "q", "a"]);
        check("/api/queues/-/a-b?dots=2&dots=9&dots=x", &["api", "queues", "-", "a-b"]);
        check("/api/queues/%2F/---?dots=2", &["api", "queues", "/", "---"]);
    }

    #[test]
    fn credentials_are_read() {
        let check = |header: &str, expected: Option<(&str, &str)>| {
            let mut request = Request::new("GET", "/api", Vec::new(), true).unwrap();
            request.authorization = Some(header.to_owned());
            let expected = expected.map(|(user, password)| (user.to_owned(), password.to_owned()));
            assert_eq!(request.credentials(), expected, "{header}");
        };
        check("Basic Z3Vlc3Q6Z3Vlc3Q=", Some(("guest", "guest")));
        check("basic YTpiOmM=", Some(("a", "b:c")));
        check("Bearer Z3Vlc3Q6Z3Vlc3Q=", None);
        check("Basic zz", None);
        check("Basic", None);
        check("Basic Z3Vlc3Q=", None);
    }
}
