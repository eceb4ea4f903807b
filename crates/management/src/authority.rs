//! Names by which a node is reached: a host and perhaps a port, as the header `Host` has them (RFC 9110 §7.2).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A host and perhaps a port. Hosts are in lower case, without the dot that may end them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    Name(String),
}

impl Authority {
    /// Reads `HOST[:PORT]`; `None` for anything else, user names included.
    pub fn read(text: &str) -> Option<Authority> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (Host::Address(address.parse::<Ipv6Addr>().ok()?.into()), port)
            }
            None => {
                let at = text.find(':').unwrap_or(text.len());
                (Host::named(&text[..at])?, &text[at..])
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        Some(Authority { host, port })
    }

    /// The same host at another port.
    pub(crate) fn at(&self, port: u16) -> Authority {
        Authority { host: self.host.clone(), port: Some(port) }
    }

    /// The port, where it is said.
    pub(crate) fn said_port(&self) -> Option<u16> {
        self.port
    }

    /// The port, or the one that goes without saying.
    fn port(&self, is_secure: bool) -> u16 {
        self.port.unwrap_or(if is_secure { 443 } else { 80 })
    }

    /// Whether nobody of elsewhere can have a name server say that it is this machine: an address, `localhost`, which
    /// browsers do not look up, or a name without a dot, which no registry gives away.
    pub(crate) fn is_fixed(&self) -> bool {
        match &self.host {
            Host::Address(_) => true,
            Host::Name(name) => !name.contains('.') || name.ends_with(".localhost"),
        }
    }

    /// Whether both are of one host.
    pub(crate) fn is_host_of(&self, other: &Authority) -> bool {
        self.host == other.host
    }
}

impl Host {
    fn named(text: &str) -> Option<Host> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_name) {
            return None;
        }
        Some(name.parse().map_or(Host::Name(name), Host::Address))
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Host::Address(address) => write!(f, "{address}")?,
            Host::Name(name) => write!(f, "{name}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Where a web page comes from (RFC 6454 §6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    is_secure: bool,
    authority: Authority,
}

impl Origin {
    /// Reads `http[s]://HOST[:PORT]`; `None` for any other origin, which no server of ours can be.
    pub(crate) fn read(text: &str) -> Option<Origin> {
        let (scheme, authority) = text.split_once("://")?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        Some(Origin { is_secure, authority: Authority::read(authority)? })
    }

    /// Whether the page came from the server that it asks. Where TLS is ended before the node, requests come over HTTP
    /// with the page's origin as the browser sees it; a page that came without TLS is no part of a server with it.
    pub(crate) fn is_of(&self, host: &Authority, is_secure: bool) -> bool {
        let is_ended_before = self.is_secure && !is_secure;
        self.authority.is_host_of(host)
            && self.authority.port(self.is_secure) == host.port(is_secure || is_ended_before)
            && (self.is_secure || !is_secure)
    }

    /// The same for a name that was given to the node, with any scheme.
    pub(crate) fn is_at(&self, name: &Authority) -> bool {
        self.authority.is_host_of(name) && self.authority.port(self.is_secure) == name.port(self.is_secure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_hosts_with_perhaps_a_port() {
        let check = |text: &str, expected: Option<&str>| {
            let read = Authority::read(text).map(|own| own.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        };
        check("localhost:15672", Some("localhost:15672"));
        check("LocalHost.:15672", Some("localhost:15672"));
        check("127.0.0.1", Some("127.0.0.1"));
        check("[::1]:15672", Some("[::1]:15672"));
        check("[0:0::1]", Some("[::1]"));
        check("rabbit_1.example", Some("rabbit_1.example"));
        check("localhost:", Some("localhost"));
        for bad in [
            "",
            ".",
            ":80",
            "guest@localhost",
            "guest:guest@localhost",
            "a b",
            "a/b",
            "a:99999",
            "a:x",
            "a:+1",
            "a:1:2",
            "::1",
            "[::1",
            "[::1]x",
            "[a]",
            "ä",
            "a\u{0}",
            "a%2e",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn a_page_is_ours_where_scheme_host_and_port_are() {
        let check = |origin: &str, host: &str, is_secure: bool, expected: bool| {
            let is_of = Origin::read(origin)
                .is_some_and(|origin| origin.is_of(&Authority::read(host).unwrap(), is_secure));
            assert_eq!(is_of, expected, "{origin} at {host}");
        };
        check("http://localhost:15672", "localhost:15672", false, true);
        check("HTTP://LOCALHOST:15672", "localhost.:15672", false, true);
        check("http://[::1]:15672", "[0::1]:15672", false, true);
        check("http://rabbit.example", "rabbit.example:80", false, true);
        check("https://rabbit.example", "rabbit.example", true, true);
        // Somebody else ended TLS before.
        check("https://rabbit.example", "rabbit.example", false, true);
        check("https://rabbit.example:8443", "rabbit.example:8443", false, true);
        check("http://rabbit.example", "rabbit.example", true, false);
        check("http://rabbit.example:15671", "rabbit.example:15671", true, false);
        check("http://localhost:3000", "localhost:15672", false, false);
        check("http://localhost", "localhost:15672", false, false);
        check("http://127.0.0.1:15672", "localhost:15672", false, false);
        check("http://localhost.evil.example:15672", "localhost:15672", false, false);
        check("http://localhost:15672/", "localhost:15672", false, false);
        check("http://u@localhost:15672", "localhost:15672", false, false);
        check("file://localhost", "localhost", false, false);
        check("null", "null", false, false);
        check("", "localhost", false, false);
    }
}
