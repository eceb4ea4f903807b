//! The files of the container image, beside the Dockerfile that makes one of them.

use super::Work;
use super::layout::LINKS;
use super::tree::{PLAIN, PROGRAM, Tree};
use std::path::PathBuf;

/// Files of the image that are in `packaging/image`.
const FILES: [&str; 4] =
    ["etc/group", "etc/nsswitch.conf", "etc/passwd", "etc/rabbitmq/conf.d/10-defaults.conf"];

/// Lays the image out; the folder to build it in.
///
/// # Errors
/// The system's.
pub fn lay(work: &Work, tree: Tree) -> Result<PathBuf, String> {
    let source = work.source("image");
    tree.copy(&source.join("Dockerfile"), "Dockerfile", PLAIN)?;
    tree.copy(&work.program, "files/usr/bin/leveret", PROGRAM)?;
    for name in LINKS {
        tree.link("/usr/bin/leveret", &format!("files/opt/rabbitmq/sbin/{name}"))?;
    }
    for name in FILES {
        tree.copy(&source.join(name), &format!("files/{name}"), PLAIN)?;
    }
    tree.copy(&work.root.join("LICENSE"), "files/usr/share/doc/leveret/LICENSE", PLAIN)?;
    tree.zip("files/usr/share/doc/leveret/third-party.txt", work.notices.as_bytes())?;
    tree.folder("files/tmp", 0o1777)?;
    // Copied twice, for the data and for logs: empty, and the broker's.
    tree.folder("state", 0o755)?;
    tree.date(work.epoch)?;
    Ok(tree.root().to_owned())
}
