//! Where the files of the broker are, by the way it is installed.

use super::Work;
use super::tree::{PLAIN, PROGRAM, Tree};

/// Names of RabbitMQ's tools and of its server: links to the program.
pub const LINKS: [&str; 8] = [
    "rabbitmq-diagnostics",
    "rabbitmq-plugins",
    "rabbitmq-queues",
    "rabbitmq-server",
    "rabbitmq-streams",
    "rabbitmq-upgrade",
    "rabbitmqadmin",
    "rabbitmqctl",
];

/// The name among [`LINKS`] whose command line is no tool's: it has no completions of its own.
const SERVER: &str = "rabbitmq-server";

/// The folders of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Debian's.
    Debian,
    /// Fedora's and openSUSE's.
    Rpm,
    /// Below one folder anywhere.
    Anywhere,
}

impl Layout {
    /// Folder of shared files.
    fn share(self) -> &'static str {
        if self == Layout::Anywhere { "share" } else { "usr/share" }
    }

    /// Folder of zsh's completions.
    fn zsh(self) -> &'static str {
        if self == Layout::Debian { "zsh/vendor-completions" } else { "zsh/site-functions" }
    }

    /// Lays all files out below `top`, which ends with a slash.
    ///
    /// # Errors
    /// The system's, or the program's.
    pub fn fill(self, work: &Work, tree: &mut Tree, top: &str) -> Result<(), String> {
        let share = format!("{top}{}", self.share());
        match self {
            Layout::Debian | Layout::Rpm => {
                tree.copy(&work.program, &format!("{top}usr/bin/leveret"), PROGRAM)?;
                for name in LINKS {
                    tree.link("../bin/leveret", &format!("{top}usr/sbin/{name}"))?;
                }
                let lib = format!("{top}usr/lib");
                let unit = format!("{lib}/systemd/system/leveret.service");
                tree.copy(&work.source("leveret.service"), &unit, PLAIN)?;
                for (kind, folder) in [("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")] {
                    let from = work.source(&format!("leveret.{kind}"));
                    tree.copy(&from, &format!("{lib}/{folder}/leveret.conf"), PLAIN)?;
                }
            }
            Layout::Anywhere => {
                tree.copy(&work.program, &format!("{top}bin/leveret"), PROGRAM)?;
                for name in LINKS {
                    tree.link("leveret", &format!("{top}bin/{name}"))?;
                }
                for name in ["leveret.conf", "leveret.service"] {
                    tree.copy(&work.source(name), &format!("{top}etc/{name}"), PLAIN)?;
                }
            }
        }
        self.completions(work, tree, &share)?;
        pages(work, tree, &share)?;
        self.documents(work, tree, top, &share)
    }

    fn completions(self, work: &Work, tree: &Tree, share: &str) -> Result<(), String> {
        let tools = LINKS.into_iter().filter(|name| *name != SERVER);
        for name in std::iter::once("leveret").chain(tools) {
            let places = [
                ("bash", format!("{share}/bash-completion/completions/{name}")),
                ("zsh", format!("{share}/{}/_{name}", self.zsh())),
                ("fish", format!("{share}/fish/vendor_completions.d/{name}.fish")),
            ];
            for (shell, place) in places {
                tree.write(&place, &work.ask(&["completions", shell, "--name", name])?, PLAIN)?;
            }
        }
        Ok(())
    }

    fn documents(self, work: &Work, tree: &Tree, top: &str, share: &str) -> Result<(), String> {
        let read =
            |name: &str| std::fs::read(work.root.join(name)).map_err(|error| format!("{name}: {error}"));
        let documents = match self {
            Layout::Anywhere => top.trim_end_matches('/').to_owned(),
            _ => format!("{share}/doc/leveret"),
        };
        tree.write(&format!("{documents}/README.md"), &read("README.md")?, PLAIN)?;
        match self {
            // Debian looks for both under these names.
            Layout::Debian => {
                tree.write(&format!("{documents}/copyright"), &read("LICENSE")?, PLAIN)?;
                tree.zip(&format!("{documents}/changelog"), &read("CHANGELOG.md")?)?;
            }
            Layout::Rpm | Layout::Anywhere => {
                let licence = match self {
                    Layout::Rpm => format!("{share}/licenses/leveret/LICENSE"),
                    _ => format!("{documents}/LICENSE"),
                };
                tree.write(&licence, &read("LICENSE")?, PLAIN)?;
                tree.write(&format!("{documents}/CHANGELOG.md"), &read("CHANGELOG.md")?, PLAIN)?;
            }
        }
        tree.zip(&format!("{documents}/third-party.txt"), work.notices.as_bytes())
    }
}

/// Manual pages, packed, as `man` reads them.
fn pages(work: &Work, tree: &Tree, share: &str) -> Result<(), String> {
    let made = work.folder.join("man");
    if made.exists() {
        std::fs::remove_dir_all(&made).map_err(|error| error.to_string())?;
    }
    work.ask(&["man", &made.display().to_string()])?;
    let entries = std::fs::read_dir(&made).map_err(|error| format!("{}: {error}", made.display()))?;
    for entry in entries {
        let entry = entry.map_err(|error| error.to_string())?;
        let page = std::fs::read(entry.path()).map_err(|error| error.to_string())?;
        tree.zip(&format!("{share}/man/man1/{}", entry.file_name().to_string_lossy()), &page)?;
    }
    std::fs::remove_dir_all(&made).map_err(|error| error.to_string())
}
