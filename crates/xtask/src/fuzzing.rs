//! The fuzz targets are a workspace of their own, which nothing else builds: here it is checked that they compile.
//!
//! The fuzzer's own library is C++ and is linked in where a target is run: checked is without it, so that no compiler
//! of C++ is needed, and no other crate than the broker's checks need.

use crate::cargo;
use crate::report::Report;
use std::path::Path;
use std::process::Command;

/// The library that the fuzzer's crate is told of, which is looked for where a target is linked.
const LIBRARY: (&str, &str) = ("CUSTOM_LIBFUZZER_PATH", "/none/libfuzzer.a");

/// Checks the fuzz targets of the workspace at `root`, whose build goes to `target`.
pub fn check(report: &mut Report, root: &Path, target: &Path) {
    let manifest = root.join("fuzz").join("Cargo.toml");
    let command = |word: &str| {
        let mut command = cargo::command();
        command.args([word, "--quiet", "--locked", "--manifest-path"]).arg(&manifest);
        command
    };
    if let Err(why) = said(&mut command("fetch")) {
        return match is_behind(&why) {
            true => report.fail("fuzz targets", &why),
            false => report
                .skip("fuzz targets", &format!("what they depend on cannot be had: {}", first_line(&why))),
        };
    }
    let (name, library) = LIBRARY;
    let mut check = command("check");
    check.arg("--offline").arg("--bins").arg("--target-dir").arg(target).env(name, library);
    match check.status() {
        Ok(status) if status.success() => report.pass("fuzz targets"),
        Ok(status) => report.fail("fuzz targets", &format!("{check:?}: {status}")),
        Err(error) => report.fail("fuzz targets", &error.to_string()),
    }
}

/// The complaint of a command.
fn said(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The lock file does not fit the dependencies, or cannot be read: that is a fault here, and not of the network.
fn is_behind(complaint: &str) -> bool {
    ["--locked", "failed to parse", "failed to read", "failed to load manifest"]
        .iter()
        .any(|words| complaint.contains(words))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_is_behind_is_no_missing_network() {
        let check = |complaint: &str, expected| assert_eq!(is_behind(complaint), expected, "{complaint}");
        let behind =
            "error: cannot update the lock file fuzz/Cargo.lock because --locked was passed to prevent this";
        check(behind, true);
        check("error: failed to parse manifest at `fuzz/Cargo.toml`", true);
        check("error: failed to load manifest for dependency `ctl`", true);
        check("error: failed to get `arbitrary` as a dependency\ncould not resolve host", false);
        check("error: failed to load source for dependency `arbitrary`", false);
        check("warning: spurious network error (3 tries remaining)", false);
    }
}
