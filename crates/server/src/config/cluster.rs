//! Settings of a cluster: its nodes, their addresses, and the secret that they share.
//!
//! All of this counts only where `leveret.cluster.experimental` says so.

use super::value::{Address, address, integer};
use super::verdict::Verdict;
use cluster::lane::Cookie;
use cluster::names::NodeName;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The key without which none of the others is taken.
pub const EXPERIMENTAL: &str = "leveret.cluster.experimental";

/// The key of the cookie, whose value is shown nowhere.
pub const COOKIE: &str = "leveret.cluster.cookie";

/// The port that other nodes connect to, as with RabbitMQ.
pub const PORT: u16 = 25672;

/// Nodes of a cluster, at least and at most: two would stop where either does, and more than seven agree no better.
const NODES_MIN: usize = 3;
const NODES_MAX: usize = 7;

/// The reason why a setting of a cluster is refused.
const NOT_YET: &str =
    "clusters are an experiment, which is not for use: leveret.cluster.experimental = true tries it";

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// An IP address, or a name to be looked up.
    pub name: String,
    /// Its port for other nodes.
    pub port: u16,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// A cluster that a node is to be one of.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Where this node listens for others.
    pub listener: Address,
    /// All nodes, this one among them, in the order of their names, with their addresses.
    pub members: Vec<(NodeName, Host)>,
    /// The secret of all of them.
    pub cookie: Cookie,
    /// The file that it came from.
    pub cookie_file: Option<PathBuf>,
}

/// Settings of a cluster as far as they are read.
#[derive(Debug)]
pub struct ClusterDraft {
    /// They count: `leveret.cluster.experimental` says so.
    pub is_tried: bool,
    listener: Address,
    nodes: BTreeMap<String, String>,
    hosts: BTreeMap<String, (String, Host)>,
    /// The cookie, or why it is none.
    cookie: Option<Result<Cookie, String>>,
    cookie_file: Option<PathBuf>,
}

impl Default for ClusterDraft {
    fn default() -> ClusterDraft {
        ClusterDraft {
            is_tried: false,
            listener: Address { ip: None, port: PORT },
            nodes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            cookie: None,
            cookie_file: None,
        }
    }
}

impl ClusterDraft {
    /// The name of one of the nodes.
    pub fn add_node(&mut self, number: &str, name: &str) {
        self.nodes.insert(number.to_owned(), name.to_owned());
    }

    /// The port to listen on.
    pub fn set_port(&mut self, port: u16) {
        self.listener.port = port;
    }

    /// A cookie was given outright, or was read.
    pub fn has_cookie(&self) -> bool {
        self.cookie.is_some()
    }

    /// The file of the cookie.
    pub fn cookie_file(&self) -> Option<&PathBuf> {
        self.cookie_file.as_ref()
    }

    /// Takes the cookie. A fault is told by [`ClusterDraft::finish`], which does not show it.
    pub fn set_cookie(&mut self, bytes: &[u8]) {
        self.cookie = Some(Cookie::new(bytes).map_err(|why| why.to_string()));
    }

    /// The cluster that a node of this name, whose data folder has `logs` logs, is to be one of.
    ///
    /// # Errors
    /// The first thing that is missing or wrong.
    pub fn finish(self, own: &str, logs: Option<u32>) -> Result<Option<Cluster>, String> {
        if !self.is_tried {
            return Ok(None);
        }
        let mut members: Vec<(NodeName, Host)> = Vec::new();
        for (number, text) in &self.nodes {
            let key = format!("cluster_formation.classic_config.nodes.{number}");
            let name = NodeName::new(text).map_err(|why| format!("{key}: {why}"))?;
            let host = match (self.hosts.values().find(|(of, _)| of == text), text.split_once('@')) {
                (Some((_, host)), _) => host.clone(),
                (None, Some((_, host))) if !host.is_empty() => Host { name: host.to_owned(), port: PORT },
                _ => return Err(format!("{key}: the name of a node is as in rabbit@host")),
            };
            members.push((name, host));
        }
        base::brief::sort_by(&mut members, |(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|(one, _), (other, _)| one == other);
        if !(NODES_MIN..=NODES_MAX).contains(&members.len()) {
            return Err(format!(
                "{EXPERIMENTAL} wants a list of {NODES_MIN} to {NODES_MAX} nodes in \
                 cluster_formation.classic_config.nodes.N, and it has {}",
                members.len()
            ));
        }
        if members.iter().all(|(name, _)| name.as_str() != own) {
            return Err(format!(
                "cluster_formation.classic_config.nodes.N: none is this node, whose name is {own} (nodename)"
            ));
        }
        if let Some((number, (of, _))) =
            self.hosts.iter().find(|(_, (of, _))| members.iter().all(|(name, _)| name.as_str() != of))
        {
            return Err(format!(
                "leveret.cluster.address.{number}: {of} is not in cluster_formation.classic_config.nodes.N"
            ));
        }
        if logs.is_none() {
            return Err(format!(
                "{EXPERIMENTAL} wants leveret.logs, with the same value on all nodes: the replicas of a log have its number"
            ));
        }
        let cookie = match (self.cookie, &self.cookie_file) {
            (Some(Ok(cookie)), _) => cookie,
            (Some(Err(why)), None) => return Err(format!("{COOKIE} is none: {why}")),
            (Some(Err(why)), Some(file)) => {
                return Err(format!(
                    "leveret.cluster.cookie_file: in {} is no cookie: {why}",
                    file.display()
                ));
            }
            (None, _) => {
                return Err(format!(
                    "{EXPERIMENTAL} wants the secret that all nodes share: leveret.cluster.cookie_file, {COOKIE} or \
                     RABBITMQ_ERLANG_COOKIE. Without it nothing listens for other nodes"
                ));
            }
        };
        Ok(Some(Cluster { listener: self.listener, members, cookie, cookie_file: self.cookie_file }))
    }
}

/// Takes a setting of a cluster if clusters are tried.
fn tried(draft: &mut ClusterDraft, put: impl FnOnce(&mut ClusterDraft) -> Result<(), String>) -> Verdict {
    match draft.is_tried {
        false => Verdict::Absent(NOT_YET.to_owned()),
        true => match put(draft) {
            Ok(()) => Verdict::Works,
            Err(hint) => Verdict::Wrong(hint),
        },
    }
}

/// `leveret.cluster.listener`.
pub fn listener(draft: &mut ClusterDraft, value: &str) -> Verdict {
    tried(draft, |own| address(value).map(|it| own.listener = it))
}

/// `distribution.listener.interface`.
pub fn interface(draft: &mut ClusterDraft, value: &str) -> Verdict {
    tried(draft, |own| address(&format!("{value}:0")).map(|it| own.listener.ip = it.ip))
}

/// `distribution.listener.port_range.min`.
pub fn port(draft: &mut ClusterDraft, value: &str) -> Verdict {
    tried(draft, |own| integer(value, 0, 65_535).map(|port| own.set_port(port as u16)))
}

/// `leveret.cluster.cookie`.
pub fn cookie(draft: &mut ClusterDraft, value: &str) -> Verdict {
    tried(draft, |own| {
        own.set_cookie(value.as_bytes());
        Ok(())
    })
}

/// `leveret.cluster.cookie_file`, which is read later.
pub fn cookie_file(draft: &mut ClusterDraft, value: &str) -> Verdict {
    tried(draft, |own| {
        own.cookie_file = Some(value.into());
        Ok(())
    })
}

/// `leveret.cluster.address.N = NAME=HOST:PORT`.
pub fn host(draft: &mut ClusterDraft, number: &str, value: &str) -> Verdict {
    tried(draft, |own| {
        let error = || "accepted values: a node and its address, as in rabbit@one=10.0.0.1:25672".to_owned();
        let (name, place) = value.split_once('=').ok_or_else(error)?;
        let (host, port) = place.rsplit_once(':').ok_or_else(error)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(error)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() || host.is_empty() {
            return Err(error());
        }
        own.hosts.insert(number.to_owned(), (name.trim().to_owned(), Host { name: host.to_owned(), port }));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(nodes: &[&str], cookie: Option<&[u8]>) -> ClusterDraft {
        let mut draft = ClusterDraft { is_tried: true, ..ClusterDraft::default() };
        nodes.iter().enumerate().for_each(|(at, name)| draft.add_node(&at.to_string(), name));
        cookie.into_iter().for_each(|bytes| draft.set_cookie(bytes));
        draft
    }

    const NODES: &[&str] = &["rabbit@c", "rabbit@a", "rabbit@b"];

    #[test]
    fn members_are_in_the_order_of_their_names() {
        let mut own = draft(NODES, Some(b"monster"));
        let host = Host { name: "10.0.0.1".into(), port: 7 };
        own.hosts.insert("1".into(), ("rabbit@b".into(), host));
        let cluster = own.finish("rabbit@a", Some(4)).expect("whole").expect("tried");
        let found: Vec<String> =
            cluster.members.iter().map(|(name, host)| format!("{name} at {host}")).collect();
        assert_eq!(found, ["rabbit@a at a:25672", "rabbit@b at 10.0.0.1:7", "rabbit@c at c:25672"]);
        assert_eq!(cluster.listener, Address { ip: None, port: 25_672 });
    }

    #[test]
    fn what_is_missing_is_named() {
        let check = |draft: ClusterDraft, own: &str, logs: Option<u32>, expected: &str| {
            let error = draft.finish(own, logs).expect_err(expected);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("monster"), "{error}");
        };
        let cookie = Some(&b"monster"[..]);
        check(draft(&NODES[..2], cookie), "rabbit@a", Some(4), "a list of 3 to 7 nodes");
        check(draft(&["rabbit@a"; 3], cookie), "rabbit@a", Some(4), "and it has 1");
        check(draft(NODES, cookie), "rabbit@d", Some(4), "none is this node");
        check(draft(NODES, cookie), "rabbit@a", None, "leveret.logs");
        check(draft(NODES, None), "rabbit@a", Some(4), "RABBITMQ_ERLANG_COOKIE");
        check(draft(NODES, Some(b"")), "rabbit@a", Some(4), "1 to 1024 bytes");
        check(draft(NODES, Some(&b"monster".repeat(200))), "rabbit@a", Some(4), "1 to 1024 bytes");
        check(draft(&["rabbit@a", "rabbit@b", "hare"], cookie), "rabbit@a", Some(4), "as in rabbit@host");
        let mut stray = draft(NODES, cookie);
        stray.hosts.insert("7".into(), ("rabbit@z".into(), Host { name: "z".into(), port: 1 }));
        check(stray, "rabbit@a", Some(4), "leveret.cluster.address.7");
    }

    #[test]
    fn nothing_counts_unless_it_is_tried() {
        assert_eq!(ClusterDraft::default().finish("rabbit@a", None), Ok(None));
    }
}
