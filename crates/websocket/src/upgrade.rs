//! From HTTP to WebSocket, §4: the request that asks for it, and the answer.

use crate::Limits;
use data_encoding::BASE64;
use sha1::{Digest, Sha1};

/// Header lines that fit on the stack; more than browsers and proxies send.
pub const HEADERS_MAX: usize = 64;

/// The text that is hashed with the key of a request, §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The requests a server lets in.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The path that is asked for.
    pub path: String,
    /// Sub-protocols, the preferred first; one must be asked for.
    pub protocols: Vec<&'static str>,
    /// Values of `Origin` that are let in; none: all. A request without `Origin` comes from no browser and is let in.
    pub origins: Option<Vec<String>>,
    /// Whether compression is agreed to.
    pub may_compress: bool,
}

/// The terms both peers agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The sub-protocol.
    pub protocol: &'static str,
    /// The peer may send compressed messages.
    pub may_inflate: bool,
    /// One may send compressed messages.
    pub may_deflate: bool,
}

/// A server's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// More is to come.
    Incomplete,
    /// Refused: the response to send before the connection is closed, and the reason, for the log.
    Refused(Vec<u8>, &'static str),
    /// The response to send, the terms agreed on, and the length of the request in bytes.
    Accepted(Vec<u8>, Agreed, usize),
}

/// Answers the request that `bytes` begin with.
pub fn answer(limits: &Limits, rules: &Rules, bytes: &[u8]) -> Answer {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let most = limits.request_headers_max.min(HEADERS_MAX);
    let mut request = httparse::Request::new(&mut headers[..most]);
    let head = &bytes[..bytes.len().min(limits.request_bytes_max)];
    let consumed = match request.parse(head) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) if bytes.len() < limits.request_bytes_max => return Answer::Incomplete,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return refuse("431 Request Header Fields Too Large", "", "a request that is too long");
        }
        Err(_) => return refuse("400 Bad Request", "", "what is no HTTP request"),
    };
    match judge(rules, &request) {
        Ok((key, agreed)) => {
            let mut text = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {}\r\n",
                accept(key),
                agreed.protocol
            );
            if let Some(extension) = agreed.extension() {
                text += &format!("Sec-WebSocket-Extensions: {extension}\r\n");
            }
            text += "\r\n";
            Answer::Accepted(text.into_bytes(), agreed.agreed, consumed)
        }
        Err(refused) => refused,
    }
}

struct Judged {
    agreed: Agreed,
    /// `server_max_window_bits` as it was asked for.
    window_bits: Option<u8>,
}

impl std::ops::Deref for Judged {
    type Target = Agreed;

    fn deref(&self) -> &Agreed {
        &self.agreed
    }
}

impl Judged {
    fn extension(&self) -> Option<String> {
        let base = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        self.agreed.may_inflate.then(|| match self.window_bits {
            Some(bits) => format!("{base}; server_max_window_bits={bits}"),
            None => base.to_owned(),
        })
    }
}

fn judge<'a>(rules: &Rules, request: &httparse::Request<'_, 'a>) -> Result<(&'a [u8], Judged), Answer> {
    let bad = |why| refuse("400 Bad Request", "", why);
    if request.method != Some("GET") {
        return Err(refuse("405 Method Not Allowed", "Allow: GET\r\n", "another method than GET"));
    }
    let path = request.path.unwrap_or_default();
    if path.split_once('?').map_or(path, |(path, _)| path) != rules.path {
        return Err(refuse("404 Not Found", "", "another path"));
    }
    let only = |name| one(request.headers, name);
    let is_upgrade = has_token(request.headers, "upgrade", "websocket")
        && has_token(request.headers, "connection", "upgrade")
        && request.version == Some(1)
        && only("host").is_some();
    if !is_upgrade {
        return Err(bad("a request that asks for no WebSocket"));
    }
    if only("sec-websocket-version") != Some(b"13") {
        return Err(refuse("426 Upgrade Required", "Sec-WebSocket-Version: 13\r\n", "another version"));
    }
    let is_key = |key: &&[u8]| BASE64.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    let key = only("sec-websocket-key").filter(is_key).ok_or_else(|| bad("a request without a key"))?;
    let origin = all(request.headers, "origin").next();
    if let (Some(let_in), Some(origin)) = (&rules.origins, origin)
        && !let_in.iter().any(|one| origin.eq_ignore_ascii_case(one.as_bytes()))
    {
        return Err(refuse("403 Forbidden", "", "an origin that is not let in"));
    }
    let is_asked = |protocol: &&&'static str| has_token(request.headers, "sec-websocket-protocol", protocol);
    let protocol =
        *rules.protocols.iter().find(is_asked).ok_or_else(|| bad("no sub-protocol that is served"))?;
    let offer = rules.may_compress.then(|| offer(request.headers)).flatten();
    let agreed = Agreed {
        protocol,
        may_inflate: offer.is_some(),
        // A smaller window than DEFLATE's own is not made here: then all payload goes out uncompressed.
        may_deflate: offer.is_some_and(|bits| bits.is_none_or(|bits| bits == 15)),
    };
    Ok((key, Judged { agreed, window_bits: offer.flatten() }))
}

fn refuse(status: &str, more: &str, why: &'static str) -> Answer {
    let text = format!("HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n");
    Answer::Refused(text.into_bytes(), why)
}

fn all<'a>(headers: &[httparse::Header<'a>], name: &str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// The value of a header that must not come twice.
fn one<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let mut values = all(headers, name);
    values.next().filter(|_| values.next().is_none()).map(<[u8]>::trim_ascii)
}

/// A list of words, in one line or several, holds this one.
fn has_token(headers: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    let mut words = all(headers, name).flat_map(|value| value.split(|byte| *byte == b','));
    words.any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// The first offer of permessage-deflate that can be agreed to, RFC 7692 §7.1: the window asked for.
fn offer(headers: &[httparse::Header<'_>]) -> Option<Option<u8>> {
    let mut offers =
        all(headers, "sec-websocket-extensions").flat_map(|value| value.split(|byte| *byte == b','));
    offers.find_map(parameters)
}

fn parameters(offer: &[u8]) -> Option<Option<u8>> {
    let mut parts = std::str::from_utf8(offer).ok()?.split(';').map(str::trim);
    parts.next().filter(|name| *name == "permessage-deflate")?;
    let mut seen: [bool; 4] = [false; 4];
    let mut window = None;
    for part in parts {
        let (name, value) = part
            .split_once('=')
            .map_or((part, None), |(name, value)| (name.trim(), Some(value.trim().trim_matches('"'))));
        let bits = value.and_then(|value| value.parse::<u8>().ok()).filter(|bits| (8..=15).contains(bits));
        let (index, is_right) = match name {
            "server_no_context_takeover" => (0, value.is_none()),
            "client_no_context_takeover" => (1, value.is_none()),
            "server_max_window_bits" => (2, bits.is_some()),
            "client_max_window_bits" => (3, value.is_none() || bits.is_some()),
            _ => return None,
        };
        if !is_right || std::mem::replace(&mut seen[index], true) {
            return None;
        }
        if index == 2 {
            window = bits;
        }
    }
    Some(window)
}

fn accept(key: &[u8]) -> String {
    BASE64.encode(&Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// A client's request. `nonce` is sixteen bytes of chance.
pub fn request(host: &str, path: &str, protocol: &str, nonce: [u8; 16], may_compress: bool) -> Vec<u8> {
    let extension = if may_compress {
        "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
    } else {
        ""
    };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\nSec-WebSocket-Protocol: {protocol}\r\n{extension}\r\n",
        BASE64.encode(&nonce)
    )
    .into_bytes()
}

/// A client's reading of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// More is to come.
    Incomplete,
    /// The terms agreed on, and the length of the answer in bytes.
    Accepted(Agreed, usize),
    /// Why not.
    Refused(String),
}

/// Reads the answer to [`request`], made with the same `protocol` and `nonce`.
pub fn outcome(limits: &Limits, protocol: &'static str, nonce: [u8; 16], bytes: &[u8]) -> Outcome {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let consumed = match response.parse(&bytes[..bytes.len().min(limits.request_bytes_max)]) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) if bytes.len() < limits.request_bytes_max => {
            return Outcome::Incomplete;
        }
        Ok(httparse::Status::Partial) => return Outcome::Refused("an answer that is too long".into()),
        Err(error) => return Outcome::Refused(format!("what is no HTTP answer: {error}")),
    };
    if response.code != Some(101) {
        return Outcome::Refused(format!("status {}", response.code.unwrap_or_default()));
    }
    let expected = accept(BASE64.encode(&nonce).as_bytes());
    let is_right = has_token(response.headers, "upgrade", "websocket")
        && has_token(response.headers, "connection", "upgrade")
        && one(response.headers, "sec-websocket-accept") == Some(expected.as_bytes())
        && one(response.headers, "sec-websocket-protocol") == Some(protocol.as_bytes());
    if !is_right {
        return Outcome::Refused("an answer that does not fit the request".into());
    }
    let compresses = offer(response.headers).is_some();
    Outcome::Accepted(Agreed { protocol, may_inflate: compresses, may_deflate: compresses }, consumed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            path: "/ws".into(),
            protocols: vec!["amqp", "amqp091"],
            origins: Some(vec!["https://ours.example".into()]),
            may_compress: true,
        }
    }

    const GOOD: &str = "GET /ws?x=1 HTTP/1.1\r\nHost: h\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                        Sec-WebSocket-Protocol: chat, amqp091\r\n";

    /// The first line of the answer to the good request with one text replaced and lines added.
    fn check(from: &str, to: &str, more: &str, expected: &str) {
        assert!(GOOD.contains(from), "{from}");
        let request = format!("{}{more}\r\n", GOOD.replacen(from, to, 1));
        let text = match answer(&Limits::default(), &rules(), request.as_bytes()) {
            Answer::Incomplete => "incomplete".to_owned(),
            Answer::Refused(text, _) | Answer::Accepted(text, ..) => String::from_utf8(text).expect("text"),
        };
        assert!(text.starts_with(&format!("HTTP/1.1 {expected}")), "{request}\n{text}");
    }

    #[test]
    fn a_request_is_judged_line_by_line() {
        check("", "", "", "101 ");
        check("", "", "Origin: https://ours.example\r\n", "101 ");
        check("", "", "Origin: https://theirs.example\r\n", "403 ");
        check("", "", "Origin: https://ours.example.theirs.example\r\n", "403 ");
        check("GET", "POST", "", "405 ");
        check("/ws", "/", "", "404 ");
        check("/ws", "/wsx", "", "404 ");
        check("HTTP/1.1", "HTTP/1.0", "", "400 ");
        check("Host: h\r\n", "", "", "400 ");
        check("Upgrade: WebSocket", "Upgrade: h2c", "", "400 ");
        check("keep-alive, Upgrade", "keep-alive", "", "400 ");
        check("Version: 13", "Version: 8", "", "426 ");
        check("dGhlIHNhbXBsZSBub25jZQ==", "dGhl", "", "400 ");
        check("", "", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "400 ");
        check("chat, amqp091", "chat", "", "400 ");
        check("Sec-WebSocket-Protocol: chat, amqp091\r\n", "", "", "400 ");
        check("Host: h", "Host : h", "", "400 ");
        check("", "", &"A: b\r\n".repeat(HEADERS_MAX), "431 ");
        check("Host: h", &format!("Host: {}", "h".repeat(8192)), "", "431 ");
    }

    #[test]
    fn the_answer_is_that_of_the_specification() {
        let request = format!("{GOOD}\r\nrest");
        let Answer::Accepted(text, agreed, consumed) =
            answer(&Limits::default(), &rules(), request.as_bytes())
        else {
            panic!("refused");
        };
        assert!(String::from_utf8(text).expect("text").contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        assert_eq!(agreed, Agreed { protocol: "amqp091", may_inflate: false, may_deflate: false });
        assert_eq!(&request[consumed..], "rest");
        for len in 0..consumed {
            let part = answer(&Limits::default(), &rules(), &request.as_bytes()[..len]);
            assert_eq!(part, Answer::Incomplete, "{len}");
        }
    }

    #[test]
    fn compression_is_agreed_to_as_it_is_offered() {
        let check = |offer: &str, expected: Option<(&str, bool)>| {
            let request = format!("{GOOD}Sec-WebSocket-Extensions: {offer}\r\n\r\n");
            let Answer::Accepted(text, agreed, _) = answer(&Limits::default(), &rules(), request.as_bytes())
            else {
                panic!("refused: {offer}");
            };
            let text = String::from_utf8(text).expect("text");
            let line = text.split_once("client_no_context_takeover").map(|(_, line)| line.trim_end());
            let found = line.map(|line| (line, agreed.may_deflate));
            assert_eq!(found, expected, "{offer}");
            assert_eq!(agreed.may_inflate, expected.is_some(), "{offer}");
        };
        check("permessage-deflate", Some(("", true)));
        check("permessage-deflate; client_max_window_bits", Some(("", true)));
        check("x-webkit-deflate-frame, permessage-deflate; client_max_window_bits=9", Some(("", true)));
        check("permessage-deflate; server_max_window_bits=10", Some(("; server_max_window_bits=10", false)));
        check(
            "permessage-deflate; server_max_window_bits=\"15\"",
            Some(("; server_max_window_bits=15", true)),
        );
        check("permessage-deflate; server_max_window_bits=16, permessage-deflate", Some(("", true)));
        check("permessage-deflate; server_max_window_bits", None);
        check("permessage-deflate; unheard_of", None);
        check("permessage-deflate; server_no_context_takeover=1", None);
        check("permessage-deflate; client_max_window_bits; client_max_window_bits", None);
        check("other", None);
    }

    #[test]
    fn client_and_server_agree() {
        let nonce = *b"sixteen  letters";
        for may_compress in [false, true] {
            let request = request("localhost:15678", "/ws", "amqp", nonce, may_compress);
            let Answer::Accepted(text, agreed, _) = answer(&Limits::default(), &rules(), &request) else {
                panic!("refused");
            };
            let accepted = Outcome::Accepted(agreed, text.len());
            assert_eq!(outcome(&Limits::default(), "amqp", nonce, &text), accepted);
            assert_eq!(
                outcome(&Limits::default(), "amqp", nonce, &text[..text.len() - 1]),
                Outcome::Incomplete
            );
            let other = outcome(&Limits::default(), "amqp", *b"another sixteen.", &text);
            assert!(matches!(other, Outcome::Refused(_)), "{other:?}");
        }
    }
}
