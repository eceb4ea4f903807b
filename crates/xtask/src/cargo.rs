//! The workspace and its dependencies, as `cargo metadata` tells them.

use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;

/// The part of `cargo metadata` that the checks read.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// Our crates, and with dependencies asked for, everybody's.
    pub packages: Vec<Package>,
    /// Where the workspace lies.
    pub workspace_root: PathBuf,
    /// Where cargo builds to.
    pub target_directory: PathBuf,
}

/// One crate.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SPDX expression of its licence.
    pub license: Option<String>,
    /// Where it comes from; `None` for crates of this workspace.
    pub source: Option<String>,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Its dependencies, those of tests and build scripts included.
    pub dependencies: Vec<Dependency>,
    /// Its libraries, binaries and tests.
    pub targets: Vec<Target>,
}

/// One arrow of the graph.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The crate pointed at.
    pub name: String,
    /// Where it comes from; `None` for crates of this workspace.
    pub source: Option<String>,
}

/// One library, binary or test.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `bin`, `test`, ...
    pub kind: Vec<String>,
}

/// How to call the cargo that called us.
pub fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Reads the workspace, with all it depends on for this machine if `dependencies` is set.
///
/// # Errors
/// The error of cargo.
pub fn metadata(dependencies: bool) -> Result<Metadata, String> {
    let mut cargo = command();
    cargo.args(["metadata", "--format-version", "1"]);
    match dependencies {
        true => cargo.args(["--filter-platform", &host()?]),
        false => cargo.arg("--no-deps"),
    };
    let output = cargo.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The triple this machine builds for.
///
/// # Errors
/// There is no compiler that says it.
pub fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}
