//! Addresses of the second version: `/exchanges/EXCHANGE/KEY`, `/exchanges/EXCHANGE`, `/queues/QUEUE`, percent-encoded
//! (RFC 3986 §2.1).

use base::percent;
use std::borrow::Cow;

/// Where messages of a sender go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) exchange: Box<str>,
    pub(super) key: Box<str>,
}

/// Whether a sender's address is of this version, though it may name nothing.
pub(super) fn is_for_sender(address: &str) -> bool {
    address.starts_with("/exchanges/") || address.starts_with("/queues/")
}

/// Whether a receiver's address is of this version.
pub(super) fn is_for_receiver(address: &str) -> bool {
    address.starts_with("/queues/")
}

/// The destination that an address names, or the reason why it names none.
pub(super) fn destination(address: &str) -> Result<Destination, String> {
    let bad = || format!("bad target address {address}");
    let destination = |exchange: &str, key: &str| {
        let (exchange, key) = (decode(exchange).ok_or_else(bad)?, decode(key).ok_or_else(bad)?);
        Ok(Destination { exchange: exchange.into(), key: key.into() })
    };
    if let Some(queue) = address.strip_prefix("/queues/").filter(|queue| !queue.is_empty()) {
        return if queue.contains('/') { Err(bad()) } else { destination("", queue) };
    }
    let Some(rest) = address.strip_prefix("/exchanges/") else { return Err(bad()) };
    let mut parts = rest.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        // The default exchange is reached by a queue's address alone.
        (Some("" | "amq.default"), ..) | (None, ..) | (_, _, Some(_)) => Err(bad()),
        (Some(exchange), key, None) => destination(exchange, key.unwrap_or_default()),
    }
}

/// The queue a receiver's address names.
pub(super) fn queue(address: &str) -> Result<Box<str>, String> {
    let name = address.strip_prefix("/queues/").filter(|queue| !queue.is_empty() && !queue.contains('/'));
    let name = name.and_then(decode).ok_or_else(|| format!("bad source address {address}"))?;
    Ok(name.into())
}

/// The text that percent-encoding stands for; `None`: an escape is cut or no two hex digits, or the bytes are no text.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if text.contains(['?', '#']) {
        // They end a path (RFC 3986 §3.3).
        return None;
    }
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    percent::decoded(text).map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: Option<(&str, &str)>) {
        let named = destination(address).ok();
        let named = named.as_ref().map(|to| (&*to.exchange, &*to.key));
        assert_eq!(named, expected, "{address}");
    }

    #[test]
    fn targets() {
        check("/queues/q", Some(("", "q")));
        check("/queues/a%2Fb%20%C3%A9", Some(("", "a/b é")));
        check("/queues/a/b", None);
        check("/queues/", None);
        check("/queues/a%2", None);
        check("/queues/a?b=c", None);
        check("/queues/a%zz", None);
        check("/queues/%FF", None);
        check("/exchanges/amq.direct/k", Some(("amq.direct", "k")));
        check("/exchanges/amq.direct", Some(("amq.direct", "")));
        check("/exchanges/amq.direct/", Some(("amq.direct", "")));
        check("/exchanges/x/a/b", None);
        check("/exchanges/", None);
        check("/exchanges/amq.default/k", None);
        check("/exchange/x/a", None);
        check("q", None);
        check("", None);
    }

    #[test]
    fn sources() {
        assert_eq!(queue("/queues/q%20r").as_deref(), Ok("q r"));
        assert!(queue("/exchanges/q").is_err() && queue("/queues/").is_err() && queue("q").is_err());
    }

    #[test]
    fn encoding_and_decoding_agree() {
        for text in ["", "plain-._~", "a/b c", "ä;=&+%", "\r\n"] {
            assert_eq!(decode(&percent::encoded(text)).as_deref(), Some(text));
        }
        assert_eq!(percent::encoded("a/ö"), "a%2F%C3%B6");
    }
}
