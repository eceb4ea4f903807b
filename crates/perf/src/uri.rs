//! The address of the broker, and our login there: `amqp://user:password@host:port/vhost`, as RabbitMQ's clients write
//! it.

use crate::options::Transport;
use base::percent::{self, encoded};
use std::fmt;
use std::str::FromStr;

/// A broker's address with the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// Virtual host.
    pub vhost: String,
    /// The transport, by the scheme.
    pub transport: Transport,
}

/// Schemes, the transport of each, and its port where none is given.
const SCHEMES: [(&str, Transport, u16); 4] = [
    ("amqp", Transport::Tcp, 5672),
    ("amqps", Transport::Tls, 5671),
    ("ws", Transport::Ws, 15_678),
    ("wss", Transport::Wss, 15_677),
];

impl Uri {
    /// The default login at a port of this machine.
    pub fn local(port: u16, transport: Transport) -> Uri {
        Uri {
            host: "127.0.0.1".to_owned(),
            port,
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
            transport,
        }
    }
}

impl FromStr for Uri {
    type Err = String;

    fn from_str(text: &str) -> Result<Uri, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (_, transport, usual_port) = *SCHEMES
            .iter()
            .find(|(name, ..)| *name == scheme)
            .ok_or("an address begins with amqp://, amqps://, ws:// or wss://")?;
        let (authority, vhost) = match rest.split_once('/') {
            // An empty path names the empty vhost by the letter of the scheme; nobody means it.
            Some((authority, vhost)) if !vhost.is_empty() => (authority, decode(vhost)?),
            Some((authority, _)) => (authority, "/".to_owned()),
            None => (rest, "/".to_owned()),
        };
        let (login, address) = authority.rsplit_once('@').unwrap_or(("guest:guest", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let bracketed = address.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or("a port follows a colon")?)),
            None => address.rsplit_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| format!("{port} is not a port"))?,
            None => usual_port,
        };
        if host.is_empty() {
            return Err("no host is named".to_owned());
        }
        let (user, password) = (decode(user)?, decode(password)?);
        Ok(Uri { host: host.to_owned(), port, user, password, vhost, transport })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, password, vhost) = (encoded(&self.user), encoded(&self.password), encoded(&self.vhost));
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        let scheme = SCHEMES.iter().find(|(_, transport, _)| *transport == self.transport);
        let scheme = scheme.map_or("amqp", |(name, ..)| name);
        write!(f, "{scheme}://{user}:{password}@{open}{}{close}:{}/{vhost}", self.host, self.port)
    }
}

/// The text that a part of the address stands for.
fn decode(text: &str) -> Result<String, String> {
    percent::decoded(text)
        .ok_or_else(|| format!("{text} is no UTF-8, or has a % without two hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::{Transport, Uri};

    #[test]
    fn the_scheme_says_what_carries() {
        for (text, transport, port) in [
            ("amqp://h", Transport::Tcp, 5672),
            ("amqps://h", Transport::Tls, 5671),
            ("ws://h", Transport::Ws, 15_678),
            ("wss://h:7/v", Transport::Wss, 7),
        ] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!((uri.transport, uri.port), (transport, port), "{text}");
            assert_eq!(uri.to_string().parse(), Ok(uri), "{text}");
        }
    }

    fn check(text: &str, host: &str, port: u16, user: &str, password: &str, vhost: &str) {
        let expected = Uri {
            host: host.to_owned(),
            port,
            user: user.to_owned(),
            password: password.to_owned(),
            vhost: vhost.to_owned(),
            transport: Transport::Tcp,
        };
        assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        assert_eq!(expected.to_string().parse(), Ok(expected), "{text}, written and read again");
    }

    #[test]
    fn addresses() {
        check("amqp://localhost", "localhost", 5672, "guest", "guest", "/");
        check("amqp://127.0.0.1:5673/", "127.0.0.1", 5673, "guest", "guest", "/");
        check("amqp://a:b%40c@h:1/v%2fw", "h", 1, "a", "b@c", "v/w");
        check("amqp://a@[::1]:5/x", "::1", 5, "a", "", "x");
        check("amqp://[::1]", "::1", 5672, "guest", "guest", "/");
    }

    #[test]
    fn what_is_no_address() {
        for text in ["http://h", "amqp://", "amqp://h:x", "amqp://h:70000", "amqp://h/%g", "amqp://[::1]5"] {
            assert!(text.parse::<Uri>().is_err(), "{text}");
        }
    }
}
