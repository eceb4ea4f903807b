//! A response: a status, a few headers, a body.

use crate::moving::Moving;
use crate::node::{Busy, Trouble};
use crate::seen::Seen;
use broker::access::Trial;
use broker::catalog::{Object, Reason, Refusal, ReplyCode};
use serde_json::{Value, json};

/// The content policy for browsers: RabbitMQ's, and no more than that of kinds of content that it does not name.
const CONTENT_POLICY: &str =
    "default-src 'self'; script-src 'self'; object-src 'self'; frame-ancestors 'none'";

/// The outcome of a login that came with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempt {
    /// There was none, or it was not looked at.
    #[default]
    None,
    /// The user or the password is wrong.
    Refused,
    /// They were not looked at, and the answer is to wait for so many milliseconds.
    HeldBack(u64),
    /// They are right; the response may still be an error.
    Accepted,
}

impl Attempt {
    /// Milliseconds that the answer is to wait.
    pub fn wait_ms(self) -> u64 {
        match self {
            Attempt::HeldBack(ms) => ms,
            Attempt::None | Attempt::Refused | Attempt::Accepted => 0,
        }
    }
}

/// An answer to a request.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers besides those about the body's length and the connection.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The outcome of the login; nothing that goes to the client.
    pub login: Attempt,
    /// More is to follow on the same connection: the same request is to be asked again with this, a moment later.
    pub next: Option<Box<Seen>>,
    /// The work is not done: the same request is to be asked again with this, once others had their turns. Where it is
    /// not, this is the response.
    pub rest: Option<Box<Moving>>,
    /// Nothing is done: the password is to be compared first, which takes long, and the same request to be asked again
    /// with the outcome. Where it is not, this is the response.
    pub trial: Option<Box<Trial>>,
}

/// A handler's answer: errors are responses as well.
pub(crate) type Answer = Result<Response, Response>;

impl Response {
    /// A status without a body.
    pub fn empty(status: u16) -> Response {
        Response {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            login: Attempt::None,
            next: None,
            rest: None,
            trial: None,
        }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Response {
        Response { status, ..Response::written(body.to_string()) }
    }

    /// JSON that is text already.
    pub(crate) fn written(json: String) -> Response {
        let headers =
            vec![("content-type", "application/json".to_owned()), ("cache-control", "no-cache".to_owned())];
        Response { headers, body: json.into_bytes(), ..Response::empty(200) }
    }

    pub(crate) fn ok(body: &Value) -> Response {
        Response::json(200, body)
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Response {
        self.headers.push((name, value));
        self
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    /// Puts a header in the place of one that may be there.
    pub(crate) fn set(&mut self, name: &'static str, value: String) {
        self.headers.retain(|(own, _)| *own != name);
        self.headers.push((name, value));
    }

    /// The same answer for browsers, which are to believe its content type, run nothing in it from elsewhere and show
    /// it in nobody's frame. One with a policy of its own keeps that.
    pub fn guarded(mut self) -> Response {
        if self.header("content-security-policy").is_none() {
            self.set("content-security-policy", CONTENT_POLICY.to_owned());
        }
        self.set("x-content-type-options", "nosniff".to_owned());
        self
    }

    /// An error in the shape that all of RabbitMQ's have.
    pub fn error(status: u16, error: &str, reason: impl Into<Value>) -> Response {
        Response::json(status, &json!({ "error": error, "reason": reason.into() }))
    }

    pub(crate) fn bad_request(reason: impl Into<Value>) -> Response {
        Response::error(400, "bad_request", reason)
    }

    pub(crate) fn missing_key(name: &str) -> Response {
        Response::bad_request(format!("[{{key_missing,{name}}}]"))
    }

    /// The body has more bytes than this, or may have.
    pub(crate) fn too_large(most: usize) -> Response {
        let why = format!("without a login a body says how long it is, and has at most {most} bytes");
        Response::error(413, "payload_too_large", why)
    }

    /// There is one already of those that were to be new.
    pub(crate) fn exists(what: &str, name: &str) -> Response {
        Response::error(409, "already_exists", format!("{what} '{name}' already exists"))
    }

    /// There is no such thing.
    pub fn not_found() -> Response {
        Response::error(404, "Object Not Found", "Not Found")
    }

    /// The user or the password is wrong.
    pub fn wrong_login() -> Response {
        let login = Attempt::Refused;
        Response { login, ..Response::error(401, "not_authorized", "Not_Authorized") }
    }

    /// Too many passwords were wrong: this one was not looked at. The answer is to wait.
    pub(crate) fn held_back(wait_ms: u64) -> Response {
        let why = "too many logins were refused; this one was not tried";
        let answer = Response::error(429, "too_many_requests", why).with("retry-after", "1".to_owned());
        Response { login: Attempt::HeldBack(wait_ms), ..answer }
    }

    /// A login whose password is to be compared first.
    pub(crate) fn untried(trial: Box<Trial>) -> Response {
        Response { trial: Some(trial), ..Response::from(Busy) }
    }

    /// The same answer, to a user that logged in.
    pub fn logged_in(self) -> Response {
        Response { login: Attempt::Accepted, ..self }
    }

    pub(crate) fn not_authorised(reason: &str) -> Response {
        Response::error(401, "not_authorised", reason)
    }

    /// The response to a request that the catalog refuses.
    pub(crate) fn refused(refusal: &Refusal) -> Response {
        match refusal.code {
            ReplyCode::NotFound => Response::error(404, "not_found", refusal.peer_text()),
            ReplyCode::AccessRefused => Response::not_authorised("Access refused."),
            _ if refusal.reason == Reason::InUse(Object::Macro) => {
                Response::error(409, "conflict", refusal.peer_text())
            }
            _ => Response::bad_request(refusal.peer_text()),
        }
    }
}

impl From<Busy> for Response {
    fn from(_: Busy) -> Response {
        Response::error(503, "service_unavailable", "the node is busy: a shard did not answer in time")
    }
}

impl From<Trouble> for Response {
    fn from(trouble: Trouble) -> Response {
        match trouble {
            Trouble::Refused(refusal) => Response::refused(&refusal),
            Trouble::Broken(why) => Response::error(500, "internal_server_error", why),
            Trouble::Held(why) => Response::error(503, "service_unavailable", why),
        }
    }
}
