//! The program that holds a port which this node was to listen on, as the system tells it to this user.
//!
//! Linux lists listening sockets with their inodes, and each process its descriptors with theirs; those of other users
//! are hidden from all but root. Read once, by a start that fails.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "one of the files where /proc is read"
)]

use std::fmt;
use std::path::{Path, PathBuf};

/// Lists of sockets, below the folder of processes.
const LISTS: [&str; 2] = ["net/tcp", "net/tcp6"];

/// The state of a listening socket in them.
const LISTENS: &str = "0A";

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// The name of its program, as the system has it: 15 bytes at most.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// The process that listens on a port, if it may be known.
pub fn of_port(port: u16) -> Option<Holder> {
    find(Path::new("/proc"), port)
}

fn find(processes: &Path, port: u16) -> Option<Holder> {
    let mut lists = LISTS.iter().filter_map(|name| std::fs::read_to_string(processes.join(name)).ok());
    let inode = lists.find_map(|list| list.lines().find_map(|line| inode(line, port)))?;
    let socket = PathBuf::from(format!("socket:[{inode}]"));
    let entries = std::fs::read_dir(processes).ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| has(&processes.join(pid.to_string()), &socket))?;
    let name = std::fs::read_to_string(processes.join(pid.to_string()).join("comm")).ok()?;
    // A program may call itself anything, line ends included.
    Some(Holder { pid, name: name.trim_end().escape_debug().to_string() })
}

/// The inode of the socket of this line, where it listens on the port: `0: 0100007F:1628 00000000:0000 0A ...`.
fn inode(line: &str, port: u16) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (_, local) = words.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(local, 16) == Ok(port) && *words.get(3)? == LISTENS;
    is_it.then(|| words.get(9)?.parse().ok()).flatten()
}

/// Whether a process has this socket open.
fn has(process: &Path, socket: &Path) -> bool {
    let Ok(open) = std::fs::read_dir(process.join("fd")) else { return false };
    open.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_listening_sockets_are_read() {
        let check = |line: &str, expected: Option<u64>| assert_eq!(inode(line, 5672), expected, "{line}");
        let rest =
            "00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0";
        check(&format!("   0: 0100007F:1628 00000000:0000 0A {rest}"), Some(4711));
        check(&format!("   1: 00000000000000000000000000000000:1628 00000000:0000 0A {rest}"), Some(4711));
        check(&format!("   2: 0100007F:1628 0100007F:9C40 01 {rest}"), None);
        check(&format!("   3: 0100007F:1629 00000000:0000 0A {rest}"), None);
        check("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid", None);
        check("", None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let port = listener.local_addr().expect("bound").port();
        let holder = of_port(port).expect("found");
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.name.is_empty());
        drop(listener);
        assert_eq!(of_port(port), None);
    }
}
