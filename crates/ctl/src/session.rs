//! One run of a command: the node it asks, and how the answer is shown.

use crate::client::ask;
use crate::options::Common;
use crate::request::{Answer, Refusal, Request, Response};
use crate::show::{self, Formatter, Show};
use crate::{Limits, exit};
use base::percent::encoded;
use serde_json::Value;
use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;

/// See the module.
pub(crate) struct Session<'a> {
    common: &'a Common,
    /// Where the node was found.
    socket: OnceCell<PathBuf>,
    limits: Limits,
    /// The banner before the answer, once that is known; shown also when there is no answer.
    announced: RefCell<String>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(common: &'a Common) -> Session<'a> {
        Session { common, socket: OnceCell::new(), limits: Limits::default(), announced: RefCell::default() }
    }

    /// Another command asked of the same node.
    pub(crate) fn beside<'b>(&self, common: &'b Common) -> Session<'b> {
        Session { socket: self.socket.clone(), ..Session::new(common) }
    }

    /// Seconds to wait, where the command line says so.
    pub(crate) fn timeout(&self) -> Option<u32> {
        self.common.timeout
    }

    /// The virtual host that is meant where a word names none.
    pub(crate) fn vhost(&self) -> &String {
        &self.common.in_vhost
    }

    /// Whether nothing is to be said around answers.
    pub(crate) fn is_quiet(&self) -> bool {
        self.common.quiet || self.common.silent
    }

    /// Whether programs read the answer.
    pub(crate) fn is_for_programs(&self) -> bool {
        matches!(self.common.formatter, Some(Formatter::Json | Formatter::JsonStream))
    }

    /// The banner that is not shown yet.
    pub(crate) fn take_announced(&self) -> String {
        self.announced.take()
    }

    /// Announces the work with a banner; the answer is shown as `usual` where the command line does not say.
    pub(crate) fn show(&self, usual: Formatter, banner: impl Into<String>) -> Show {
        let show = Show {
            formatter: self.common.formatter.unwrap_or(usual),
            headers: !self.common.silent && !self.common.no_table_headers,
            unit: show::GIGABYTE,
            banner: (!self.is_quiet()).then(|| banner.into()),
        };
        self.announced.replace(show.begin());
        show
    }

    /// The same for work without an answer.
    pub(crate) fn announce(&self, banner: impl Into<String>) -> Show {
        self.show(Formatter::String, banner)
    }

    pub(crate) fn ask(&self, request: &Request) -> Answer {
        let whole_ms = self.common.timeout.map(|seconds| u64::from(seconds) * 1000);
        let socket = match self.socket.get() {
            Some(socket) => socket,
            // A node that is waited for may come where none was before.
            None => {
                let found = self.common.place.socket()?;
                self.socket.get_or_init(|| found)
            }
        };
        ask(socket, &self.limits, whole_ms, request)
    }

    /// The node's name, as it says.
    pub(crate) fn node(&self) -> Result<String, Refusal> {
        Ok(self.ask(&Request::Ping)?["node"].as_str().unwrap_or_default().to_owned())
    }

    /// Whether the node serves, and is not stopped but for its process.
    pub(crate) fn is_running(&self) -> Result<bool, Refusal> {
        Ok(self.ask(&Request::Ping)?["state"] == crate::RUNNING)
    }

    /// The response of the HTTP API; `path` begins behind `/api/`, and its segments are not escaped yet.
    pub(crate) fn api(
        &self,
        method: &str,
        path: &[&str],
        query: &str,
        body: Option<&Value>,
    ) -> Result<Response, Refusal> {
        self.api_because(method, path, query, body, None)
    }

    /// The same, with a reason for the clients that it concerns.
    pub(crate) fn api_because(
        &self,
        method: &str,
        path: &[&str],
        query: &str,
        body: Option<&Value>,
        reason: Option<&str>,
    ) -> Result<Response, Refusal> {
        let target = target(path, query);
        let body = body.map(Value::to_string).unwrap_or_default();
        let method = method.to_owned();
        read(self.ask(&Request::Api { method, target, body, reason: reason.map(str::to_owned) })?)
    }

    /// The response at a path of the HTTP port that is none of the API's.
    pub(crate) fn page(&self, target: &str) -> Result<Response, Refusal> {
        let (method, target) = ("GET".to_owned(), target.to_owned());
        read(self.ask(&Request::Api { method, target, body: String::new(), reason: None })?)
    }

    /// The JSON at `path`.
    pub(crate) fn get(&self, path: &[&str]) -> Result<Value, Refusal> {
        json(done(self.api("GET", path, "", None)?)?)
    }

    /// The same, or nothing where there is no such thing.
    pub(crate) fn find(&self, path: &[&str]) -> Result<Option<Value>, Refusal> {
        self.find_part(path, "")
    }

    /// The same with a query.
    pub(crate) fn find_part(&self, path: &[&str], query: &str) -> Result<Option<Value>, Refusal> {
        let response = self.api("GET", path, query, None)?;
        if response.status == 404 { Ok(None) } else { json(done(response)?).map(Some) }
    }
}

/// The response that an answer is.
fn read(answer: Value) -> Result<Response, Refusal> {
    serde_json::from_value(answer).map_err(|error| Refusal {
        code: exit::SOFTWARE,
        message: format!("the node answered what is no response: {error}"),
    })
}

/// The JSON of a response's body.
fn json(response: Response) -> Result<Value, Refusal> {
    serde_json::from_str(&response.body).map_err(|error| Refusal {
        code: exit::SOFTWARE,
        message: format!("the node answered what is no JSON: {error}"),
    })
}

/// The response of a node that did its work.
///
/// # Errors
/// The node's error.
pub(crate) fn done(response: Response) -> Result<Response, Refusal> {
    match response.status {
        200..=299 => Ok(response),
        404 => Err(missing()),
        _ => Err(failed(reason(&response))),
    }
}

impl Response {
    /// Whether the change was made.
    ///
    /// # Errors
    /// The node's error.
    pub(crate) fn changed(&self) -> Result<(), Refusal> {
        if (200..300).contains(&self.status) { Ok(()) } else { Err(failed(reason(self))) }
    }
}

/// The reason why the node did not do it.
pub(crate) fn reason(response: &Response) -> String {
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    match &body["reason"] {
        Value::String(reason) => reason.clone(),
        Value::Null => format!("the node answered with status {}", response.status),
        other => other.to_string(),
    }
}

/// There is no such thing.
pub(crate) fn missing() -> Refusal {
    Refusal { code: exit::DATA, message: "Object (queue, stream, exchange, etc) was not found".to_owned() }
}

/// There is no such user.
pub(crate) fn no_user(name: &str) -> Refusal {
    Refusal { code: exit::NO_USER, message: format!("Error:\nUser \"{name}\" does not exist") }
}

/// It was not done.
pub(crate) fn failed(why: impl std::fmt::Display) -> Refusal {
    Refusal { code: exit::UNAVAILABLE, message: format!("Error:\n{why}") }
}

/// A word of the command line cannot be used.
pub(crate) fn bad_word(code: u8, why: impl std::fmt::Display) -> Refusal {
    Refusal { code, message: format!("Error (argument validation): {why}") }
}

/// The target of a request to the API.
pub(crate) fn target(path: &[&str], query: &str) -> String {
    let mut target = "/api".to_owned();
    for segment in path {
        target.extend(["/", &encoded(segment)]);
    }
    if path.last().is_some_and(|last| last.is_empty()) {
        // A slash at the end means nothing; of two, one is behind a name of no letters.
        target.push('/');
    }
    if !query.is_empty() {
        target.extend(["?", query]);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_kinds_are_segments() {
        let check = |path: &[&str], query, expected| assert_eq!(target(path, query), expected);
        check(&["queues", "/", "a b"], "", "/api/queues/%2F/a%20b");
        check(&["users", ""], "only=new", "/api/users//?only=new");
        check(&["policies", "", "é?"], "", "/api/policies//%C3%A9%3F");
    }
}
