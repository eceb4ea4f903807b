//! Where the node is asked: at the socket that the command line or the environment names, or at the first of the usual places
//! where somebody listens.
#![allow(clippy::disallowed_methods, reason = "a tool is a process of its own: it connects")]

use crate::client::SOCKET_NAME;
use crate::exit;
use crate::request::Refusal;
use clap::Args;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Folders where nodes keep their data, in the order in which they are looked at: the default of a node in the folder
/// it is started in, and those of packages of this broker and of RabbitMQ.
const FOLDERS: [&str; 3] = ["leveret-data", "/var/lib/leveret", "/var/lib/rabbitmq"];

/// A service manager's folder for sockets, which is looked at last.
const RUNTIME_FOLDER: &str = "/run/leveret";

/// Which node is asked.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The folder of the node's data, where its socket is; without it ./leveret-data, /var/lib/leveret, /var/lib/rabbitmq and
    /// /run/leveret are looked at
    #[arg(long, global = true, env = "LEVERET_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// The node's socket, where it is not in the data folder
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
}

impl Place {
    /// The node's socket.
    ///
    /// # Errors
    /// None is named, and nobody listens in the usual places, which are told.
    pub(crate) fn socket(&self) -> Result<PathBuf, Refusal> {
        // A node that is named is the one that is meant, also while it is down.
        match (&self.socket, &self.data_dir) {
            (Some(socket), _) => Ok(socket.clone()),
            (None, Some(folder)) => Ok(folder.join(SOCKET_NAME)),
            (None, None) => first(
                FOLDERS.iter().chain([&RUNTIME_FOLDER]).map(|folder| Path::new(folder).join(SOCKET_NAME)),
            ),
        }
    }
}

/// The first of these where a node listens, or one that this user may not ask.
fn first(places: impl Iterator<Item = PathBuf>) -> Result<PathBuf, Refusal> {
    let mut tried = Vec::new();
    for place in places {
        match UnixStream::connect(&place).map_err(|error| error.kind()) {
            Err(ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory) => {
                tried.push(place.display().to_string());
            }
            // Any other error of the system is told when the node is asked.
            Ok(_) | Err(_) => return Ok(place),
        }
    }
    let message = format!(
        "unable to perform an operation on a node: none was found, and nobody listens at\n  {}\nIs the node up? Its folder is \
         named by --data-dir, or by LEVERET_DATA_DIR in the environment.",
        tried.join("\n  ")
    );
    Err(Refusal { code: exit::UNAVAILABLE, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_first_place_where_somebody_listens_is_taken() {
        let folder = std::env::temp_dir().join(format!("leveret-place-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let at = |name: &str| folder.join(name);
        let _live = UnixListener::bind(at("live.sock")).expect("listens");
        // The socket of a node that was killed is still there.
        drop(UnixListener::bind(at("dead.sock")).expect("listens"));
        std::fs::write(at("file"), "").expect("a file");
        let check = |names: &[&str], expected: Option<&str>| {
            let found = first(names.iter().map(|name| at(name)));
            match (found, expected) {
                (Ok(found), Some(expected)) => assert_eq!(found, at(expected), "{names:?}"),
                (Err(refusal), None) => {
                    assert_eq!(refusal.code, exit::UNAVAILABLE);
                    for name in names {
                        assert!(refusal.message.contains(&at(name).display().to_string()), "{refusal:?}");
                    }
                }
                (found, _) => panic!("{names:?}: {found:?}"),
            }
        };
        check(&["none.sock", "dead.sock", "live.sock"], Some("live.sock"));
        check(&["live.sock", "none.sock"], Some("live.sock"));
        check(&["file/ctl.sock", "live.sock"], Some("live.sock"));
        check(&["none.sock", "dead.sock"], None);
        std::fs::remove_dir_all(&folder).expect("goes");
    }

    #[test]
    fn what_is_named_is_not_looked_for() {
        let check = |data_dir: Option<&str>, socket: Option<&str>, expected: &str| {
            let place = Place { data_dir: data_dir.map(PathBuf::from), socket: socket.map(PathBuf::from) };
            assert_eq!(place.socket().expect("is named"), Path::new(expected));
        };
        check(Some("/nowhere"), None, "/nowhere/ctl.sock");
        check(Some("/nowhere"), Some("/elsewhere.sock"), "/elsewhere.sock");
        check(None, Some("x.sock"), "x.sock");
    }
}
