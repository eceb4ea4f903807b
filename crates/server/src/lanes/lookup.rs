//! The thread that looks up names of other nodes: the system's answer may take seconds, and lanes do not wait for it.

use crate::config::cluster::Host;
use crate::mailbox::Mailbox;
use base::id::NodeNo;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

/// The addresses of a node, or why there are none.
pub type Found = (NodeNo, Result<Vec<SocketAddr>, String>);

/// Addresses of a name that are tried, at most.
const ADDRESSES_MAX: usize = 16;

/// Where names are given to be looked up.
#[derive(Debug)]
pub struct Lookup {
    asked: Sender<(NodeNo, Host)>,
}

impl Lookup {
    /// A thread that puts what it finds into `answers`. It ends when this value goes and the system has answered.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(answers: Arc<Mailbox<Found>>) -> std::io::Result<Lookup> {
        let (asked, asks): (_, Receiver<(NodeNo, Host)>) = channel();
        let work = move || {
            for (number, host) in asks {
                answers.put((number, look_up(&host)));
            }
        };
        Builder::new().name("lane-names".into()).spawn(work)?;
        Ok(Lookup { asked })
    }

    /// Has the name of a node looked up.
    pub fn ask(&self, number: NodeNo, host: &Host) {
        // Without the thread no answer comes, and it is asked again.
        let _ = self.asked.send((number, host.clone()));
    }
}

/// The address in a host that is no name.
pub fn literal(host: &Host) -> Option<SocketAddr> {
    let ip: IpAddr = host.name.parse().ok()?;
    Some(SocketAddr::new(ip, host.port))
}

fn look_up(host: &Host) -> Result<Vec<SocketAddr>, String> {
    let found = (host.name.as_str(), host.port).to_socket_addrs().map_err(|error| error.to_string())?;
    let found: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
    if found.is_empty() { Err("the name has no address".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Sleeper;
    use std::time::Duration;

    #[test]
    fn names_are_looked_up_by_another_thread() {
        let (wake, woken) = channel();
        let sleeper = Sleeper::new(move || wake.send(()).unwrap_or_default());
        let answers = Arc::new(Mailbox::new(sleeper.clone()));
        let lookup = Lookup::start(answers.clone()).expect("starts");
        let host = Host { name: "localhost".into(), port: 7 };
        sleeper.going_to_sleep();
        lookup.ask(NodeNo(3), &host);
        woken.recv_timeout(Duration::from_secs(20)).expect("an answer");
        let mut found = Vec::new();
        answers.take(&mut found);
        let (number, addresses) = found.pop().expect("it is there");
        assert!(number == NodeNo(3) && addresses.expect("known")[0].port() == 7);
        assert_eq!(literal(&host), None);
        let check = |name: &str| literal(&Host { name: name.into(), port: 1 }).expect(name).to_string();
        assert_eq!([check("10.0.0.1"), check("::1")], ["10.0.0.1:1", "[::1]:1"]);
    }
}
