//! Words for the person who starts a node: where it listens, as whom one logs in, where its data is, and what comes next.

use crate::config::Config;
use crate::config::network::ListenerKind;
use broker::catalog::Catalog;
use std::net::SocketAddr;
use std::path::Path;

/// The broker's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Text for a terminal where the program was called without a word, before the log of the node.
pub const ON_TERMINAL: &str = "\
This is a node, with its data in ./leveret-data and its log below; Ctrl-C stops it. In another terminal:

  leveret ctl status      its state
  leveret top             its queues, live
  leveret ctl help        users, queues, policies and all other commands
  leveret --help          everything else
";

/// The user that the configuration gives an empty node, if it is there, and where it may log in from.
pub fn user(config: &Config, catalog: &Catalog) -> Option<String> {
    let name = &config.default_user.name;
    catalog.user(name)?;
    let is_near = config.loopback_users.contains(name);
    Some(if is_near { format!("user {name} (this machine only)") } else { format!("user {name}") })
}

/// One line: ready after `ms`, with the addresses as they were bound.
pub fn line(
    ms: u64,
    addresses: &[(ListenerKind, SocketAddr)],
    user: Option<&str>,
    data_dir: &Path,
) -> String {
    let mut parts = vec![format!("Leveret {VERSION} ready in {ms} ms")];
    let first = |wanted: ListenerKind| addresses.iter().find(|(kind, _)| *kind == wanted).map(|(_, at)| *at);
    let services = [
        (ListenerKind::Amqp, "AMQP", "amqp"),
        (ListenerKind::AmqpTls, "AMQP", "amqps"),
        (ListenerKind::Http, "HTTP API", "http"),
        (ListenerKind::HttpTls, "HTTP API", "https"),
    ];
    for (kind, name, scheme) in services {
        if let Some(at) = first(kind) {
            parts.push(format!("{name} {scheme}://{}:{}", host(at), at.port()));
        }
    }
    parts.extend(user.map(str::to_owned));
    // A folder that is named from where the node was started is of no use to others.
    let data = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    parts.push(format!("data {}", data.display()));
    parts.join(" · ")
}

/// A name for an address that is of use on this machine.
fn host(at: SocketAddr) -> String {
    match at.ip() {
        ip if ip.is_unspecified() || ip.is_loopback() => "localhost".to_owned(),
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_where_and_as_whom() {
        let check = |addresses: &[(ListenerKind, &str)], user: Option<&str>, expected: &str| {
            let read = |(kind, at): &(ListenerKind, &str)| (*kind, at.parse().expect("an address"));
            let addresses: Vec<_> = addresses.iter().map(read).collect();
            let line = line(26, &addresses, user, Path::new("/data"));
            assert_eq!(line, format!("Leveret {VERSION} ready in 26 ms · {expected}"));
        };
        let usual = [(ListenerKind::Amqp, "[::]:5672"), (ListenerKind::Http, "127.0.0.1:15672")];
        let guest = "user guest (this machine only)";
        let expected = "AMQP amqp://localhost:5672 · HTTP API http://localhost:15672 · user guest (this machine only) · \
                        data /data";
        check(&usual, Some(guest), expected);
        let others = [
            (ListenerKind::AmqpTls, "10.0.0.1:5671"),
            (ListenerKind::HttpTls, "[fd00::1]:15671"),
            (ListenerKind::Stream, "[::]:5552"),
        ];
        check(&others, None, "AMQP amqps://10.0.0.1:5671 · HTTP API https://[fd00::1]:15671 · data /data");
    }
}
