//! News for a service manager that started the node and waits for it: systemd's protocol of one datagram a change.
//!
//! The manager names its socket in `NOTIFY_SOCKET`; a name that begins with `@` is in no folder. Nothing is told where
//! it named none. A manager that does not hear ends the node after its time limit, so a failure is logged.

use crate::log::Logger;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names the manager's socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// A change of the node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Clients are served.
    Ready,
    /// All is stopped but the process, which goes on when it is asked to.
    Idle,
    /// The process is about to end.
    Stopping,
}

impl News {
    /// As the manager reads it.
    fn text(self) -> &'static str {
        match self {
            News::Ready => "READY=1\nSTATUS=serves clients",
            // Still ready: a manager that waits for a unit would wait in vain.
            News::Idle => "STATUS=stopped but for the process: rabbitmqctl start_app goes on",
            News::Stopping => "STOPPING=1\nSTATUS=writes snapshots and ends",
        }
    }
}

/// Tells the service manager, if there is one.
pub fn tell(news: News, logger: &Logger) {
    let Some(socket) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&socket, news) {
        let socket = socket.to_string_lossy();
        logger.warning(format!("the service manager cannot be told at {socket} ({VARIABLE}): {error}"));
    }
}

fn send(socket: &OsStr, news: News) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => without_folder(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that reads nothing holds up no node.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(news.text().as_bytes(), &address).map(drop)
}

/// A name in no folder.
#[cfg(target_os = "linux")]
fn without_folder(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

/// Other systems have no such names.
#[cfg(not(target_os = "linux"))]
fn without_folder(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn news_reach_sockets_with_and_without_a_folder() {
        let check = |name: &str, address: SocketAddr| {
            let manager = UnixDatagram::bind_addr(&address).expect("binds");
            for news in [News::Ready, News::Idle, News::Stopping] {
                send(OsStr::new(name), news).expect("sent");
                let mut bytes = [0; 256];
                let length = manager.recv(&mut bytes).expect("received");
                assert_eq!(&bytes[..length], news.text().as_bytes(), "{name}");
            }
        };
        let name = format!("leveret-notify-{}", std::process::id());
        check(&format!("@{name}"), without_folder(name.as_bytes()).expect("a name"));
        let path = std::env::temp_dir().join(&name);
        let text = path.to_str().expect("UTF-8");
        check(text, SocketAddr::from_pathname(&path).expect("a path"));
        std::fs::remove_file(&path).expect("goes");
        assert!(send(OsStr::new(text), News::Ready).is_err());
    }
}
