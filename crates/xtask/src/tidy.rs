//! `cargo xtask tidy`: the remarks that a reviewer should not have to make.

use crate::report::Report;
use crate::{
    cargo, chart, circles, floors, fuzzing, guide, licences, links, pictures, prose, refusals, rows, secrets,
    shape, supply, text,
};

/// Runs every check and prints one line for each.
pub fn tidy() -> Report {
    let mut report = quick();
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run_cargo(&mut report, "lints", &["clippy", "--version"], &clippy);
    match cargo::metadata(false) {
        Ok(metadata) => fuzzing::check(&mut report, &metadata.workspace_root, &metadata.target_directory),
        Err(why) => report.fail("fuzz targets", &why),
    }
    match cargo::metadata(true) {
        Ok(metadata) => {
            report.check("licences", &licences::complaints(&metadata));
            supply::check(&mut report, &metadata.workspace_root);
        }
        Err(why) => report.fail("licences", &why),
    }
    report
}

/// Checks what can be checked without compiling anything, in seconds: before a commit.
pub fn quick() -> Report {
    let mut report = Report::default();
    run_cargo(&mut report, "format", &["fmt", "--version"], &["fmt", "--all", "--", "--check"]);
    match cargo::metadata(false) {
        Ok(metadata) => {
            report.check("floors", &floors::complaints(&metadata));
            check_text(&mut report, &metadata);
        }
        Err(why) => report.fail("floors", &why),
    }
    report
}

/// Runs `cargo <check>` if `cargo <probe>` shows that this machine has the tool.
fn run_cargo(report: &mut Report, name: &str, probe: &[&str], check: &[&str]) {
    let probed = cargo::command().args(probe).output();
    if !probed.is_ok_and(|output| output.status.success()) {
        report.skip(name, &format!("cargo {} is not installed", probe[0]));
        return;
    }
    match cargo::command().args(check).status() {
        Ok(status) if status.success() => report.pass(name),
        Ok(status) => report.fail(name, &format!("cargo {}: {status}", check.join(" "))),
        Err(error) => report.fail(name, &error.to_string()),
    }
}

fn check_text(report: &mut Report, metadata: &cargo::Metadata) {
    match text::tracked(&metadata.workspace_root) {
        Ok(files) => {
            report.check("text", &text::complaints(&files));
            report.check("rows", &rows::complaints(&files));
            report.check("secrets", &secrets::complaints(&files));
            report.check("shape", &shape::complaints(&files));
            report.check("circles", &circles::complaints(&files));
            report.check("refusals", &refusals::complaints(&files));
            report.check("prose", &prose::complaints(&files));
            report.check("links", &links::complaints(&files, &metadata.workspace_root));
            report.check("guide", &guide::complaints(&files));
            report.check("chart", &chart::complaints(&files));
            report.check("pictures", &pictures::complaints(&files));
            for long in text::long(&files) {
                println!("note: {long}: which two nouns does it hold?");
            }
        }
        Err(why) => {
            let names = [
                "text", "rows", "secrets", "shape", "circles", "refusals", "prose", "links", "guide",
                "chart", "pictures",
            ];
            names.iter().for_each(|name| report.skip(name, &why));
        }
    }
}
