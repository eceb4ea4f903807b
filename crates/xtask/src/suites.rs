//! `cargo xtask test`: everything that can fail, in one run with one sum.
//!
//! Order: checks that find errors cheaply come first. The broker that foreign clients talk to is built with the profile
//! that ships.

use crate::clock::Clock;
use crate::package::{self, Order};
use crate::report::{Report, Totals, failed_name};
use crate::sandbox::Sandbox;
use crate::{cargo, chart, guards, guide, pictures, prices, reference, text, tidy};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Clients without which a run proves nothing: in CI their absence is a failure.
const CLIENTS_CORE: &[&str] = &["pika", "perftest", "proton", "amqp091-go", "ui"];

/// How many of the long checks a run does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Depth {
    /// The checks for every change, within an hour on two cores.
    Usual,
    /// Also checks that take hours: more seeds, the long forms of suites, and the suites that every run leaves out.
    Long,
}

impl Depth {
    /// Runs of the simulator, as its arguments; by hand it runs for as long as one likes.
    fn simulations(self) -> &'static [&'static [&'static str]] {
        match self {
            Depth::Usual => &[&["--seeds", "1000"], &["--seeds", "300", "--hostile"]],
            Depth::Long => &[
                &["--seeds", "10000"],
                &["--seeds", "10000", "--rich"],
                &["--seeds", "5000", "--rich", "--wide"],
                &["--seeds", "3000", "--double"],
                &["--seeds", "3000", "--rich", "--wide", "--double"],
                &["--seeds", "3000", "--rich", "--crowds"],
                &["--seeds", "10000", "--hostile"],
                &["--seeds", "3000", "--rich", "--wide", "--hostile"],
            ],
        }
    }

    /// Words for the script that runs other people's clients.
    fn foreign(self) -> &'static [&'static str] {
        match self {
            Depth::Usual => &[],
            Depth::Long => &["--long", "--full", "--rounds", "50"],
        }
    }
}

/// Runs all suites; the broker is built with `profile`.
pub fn test(profile: &str, depth: Depth) -> Report {
    let mut clock = Clock::start();
    let report = timed(profile, depth, &mut clock);
    println!("{clock}");
    report
}

fn timed(profile: &str, depth: Depth, clock: &mut Clock) -> Report {
    let mut report = tidy::tidy();
    clock.lap("tidy");
    let metadata = match cargo::metadata(false) {
        Ok(metadata) => metadata,
        Err(why) => {
            report.fail("cargo metadata", &why);
            return report;
        }
    };
    // Linking the broker leaves a core to spare for minutes, on which the tests are built and run.
    let built = std::thread::scope(|threads| {
        let broker = threads.spawn(|| build(&metadata, profile));
        // It is waited for with the scope: the broker's build and the tests take longer.
        threads.spawn(|| fetch_for_clients(&metadata.workspace_root, depth));
        cargo_tests(&mut report);
        clock.lap("tests of the workspace");
        simulation(&mut report, &metadata, depth);
        clock.lap("simulation");
        broker.join().unwrap_or_else(|_| Err("did not end".to_owned()))
    });
    if let Some(broker) = told(&mut report, built) {
        clock.lap("rest of the broker's build");
        guards::check(&mut report, profile, &broker);
        clock.lap("guards");
        prices::check(&mut report);
        clock.lap("prices");
        if depth == Depth::Long {
            measured(&mut report);
            packages(&mut report, &metadata);
            clock.lap("packages");
        }
        foreign(&mut report, &metadata.workspace_root, &broker, depth);
        clock.lap("foreign clients");
        // Behind the foreign clients, which bring pika.
        documents(&mut report, &metadata.workspace_root, &broker, "", depth);
        clock.lap("documents");
    }
    report
}

/// Only the cost of a message: [`guards::check`] on `broker`, or on one built here, with `profile`.
pub fn guard(profile: &str, broker: Option<&Path>) -> Report {
    let mut report = Report::default();
    let broker = match (broker, cargo::metadata(false)) {
        (Some(broker), _) => Some(broker.to_owned()),
        (None, Ok(metadata)) => told(&mut report, build(&metadata, profile)),
        (None, Err(why)) => {
            report.fail("cargo metadata", &why);
            None
        }
    };
    if let Some(broker) = broker {
        guards::check(&mut report, profile, &broker);
        prices::check(&mut report);
    }
    report
}

/// Only the pages of the guide whose case has `only` in its name, and with all of them the generated ones.
pub fn pages(broker: Option<&Path>, only: &str) -> Report {
    let mut report = Report::default();
    match with_broker(&mut report, broker) {
        Ok((root, broker)) => documents(&mut report, &root, &broker, only, Depth::Usual),
        Err(why) => report.fail("guide", &why),
    }
    report
}

/// Writes the pages of the guide that tables in the code say.
pub fn write_reference(broker: Option<&Path>) -> Report {
    let mut report = Report::default();
    let written = with_broker(&mut report, broker).and_then(|(root, broker)| {
        let pages = reference::pages(&Sandbox::new(&broker, &root), &text::tracked(&root)?)?;
        reference::write(&root, &pages)
    });
    match written {
        Ok(()) => report.pass("reference"),
        Err(why) => report.fail("reference", &why),
    }
    report
}

/// Draws the chart of the README anew.
pub fn write_chart() -> Report {
    let mut report = Report::default();
    let written = cargo::metadata(false).and_then(|metadata| {
        let drawn = chart::draw(&text::tracked(&metadata.workspace_root)?)?;
        reference::write(&metadata.workspace_root, &[(chart::PICTURE.to_owned(), drawn)])
    });
    match written {
        Ok(()) => report.pass("chart"),
        Err(why) => report.fail("chart", &why),
    }
    report
}

/// Draws the terminals of README and guide anew, or those of one run.
pub fn write_pictures(broker: Option<&Path>, which: &str) -> Report {
    let mut report = Report::default();
    let written = with_broker(&mut report, broker).and_then(|(root, broker)| {
        let drawn = pictures::draw(&Sandbox::new(&broker, &root), which)?;
        reference::write(&root, &drawn)
    });
    match written {
        Ok(()) => report.pass("pictures"),
        Err(why) => report.fail("pictures", &why),
    }
    report
}

/// Draws the pictures of the web interface anew, in a browser.
pub fn write_shots(broker: Option<&Path>) -> Report {
    let mut report = Report::default();
    match with_broker(&mut report, broker) {
        Ok((root, broker)) => {
            let mut command = Command::new(root.join("tests").join("foreign").join("run"));
            command.arg("--broker").arg(broker).args(["--only", "ui.pictures"]).env("LEVERET_PICTURES", "1");
            suite(&mut report, "shots", command);
        }
        Err(why) => report.fail("shots", &why),
    }
    report
}

/// The root of the workspace, and the broker that is given or built here.
fn with_broker(report: &mut Report, broker: Option<&Path>) -> Result<(PathBuf, PathBuf), String> {
    let metadata = cargo::metadata(false)?;
    let broker = match broker {
        Some(broker) => broker.to_owned(),
        None => told(report, build(&metadata, "quick")).ok_or("there is no broker to ask")?,
    };
    Ok((metadata.workspace_root, broker))
}

/// The pages of README and guide, and what of them is generated.
fn documents(report: &mut Report, root: &Path, broker: &Path, only: &str, depth: Depth) {
    let files = match text::tracked(root) {
        Ok(files) => files,
        Err(why) => return report.skip("guide", &why),
    };
    let sandbox = Sandbox::new(broker, root);
    guide::check(report, &sandbox, &files, only, depth);
    if only.is_empty() {
        reference::check(report, &sandbox, &files);
    }
}

/// Builds the broker with `profile`: its path.
fn build(metadata: &cargo::Metadata, profile: &str) -> Result<PathBuf, String> {
    let build = ["build", "--profile", profile, "--package", "server", "--bin", "leveret"];
    match cargo::command().args(build).status() {
        Ok(status) if status.success() => Ok(metadata.target_directory.join(profile).join("leveret")),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reports how the broker's build went.
fn told(report: &mut Report, built: Result<PathBuf, String>) -> Option<PathBuf> {
    const NAME: &str = "build of the broker";
    match built {
        Ok(broker) => {
            report.pass(NAME);
            Some(broker)
        }
        Err(why) => {
            report.fail(NAME, &why);
            None
        }
    }
}

/// Has what foreign clients need fetched and built, much of which is waiting. What is missing then is told when they run.
fn fetch_for_clients(root: &Path, depth: Depth) {
    let mut command = Command::new(root.join("tests").join("foreign").join("run"));
    command.arg("--prepare").args((depth == Depth::Long).then_some("--long"));
    if let Err(error) = command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        println!("note: nothing is fetched for foreign clients ahead of their run: {error}");
    }
}

/// Every test of the workspace, as it is built while one works.
fn cargo_tests(report: &mut Report) {
    cargo_test(report, &["--workspace", "--no-fail-fast"]);
}

/// Tests that hold an optimised build to times, with the machine to themselves.
fn measured(report: &mut Report) {
    cargo_test(report, &["--profile", "quick", "--package", "server", "--test", "handing"]);
}

fn cargo_test(report: &mut Report, arguments: &[&str]) {
    let mut totals = Totals::default();
    let mut command = cargo::command();
    command.arg("test").args(arguments);
    let status = stream(command, |line| {
        if let Some(more) = Totals::parse_cargo(line) {
            totals += more;
        }
        failed_name(line).into_iter().for_each(|name| report.name_failure(name));
    });
    report.add(totals);
    match status {
        Err(why) => report.fail("cargo test", &why),
        // A suite that died or did not compile counts nothing by itself.
        Ok(false) if totals.failed == 0 => report.fail("cargo test", "did not run to its end"),
        Ok(_) => {}
    }
}

/// The simulator proper: its own binary, if the crate has one yet, ending with the common totals line.
fn simulation(report: &mut Report, metadata: &cargo::Metadata, depth: Depth) {
    let package = metadata.packages.iter().find(|package| package.name == "sim");
    let is_binary = |target: &&cargo::Target| target.kind.iter().any(|kind| kind == "bin");
    let Some(binary) = package.and_then(|package| package.targets.iter().find(is_binary)) else {
        report.skip("simulation", "crates/sim has no binary");
        return;
    };
    for arguments in depth.simulations() {
        let mut command = match depth {
            // Its own tests have it built: with other features, or faster, it would be built once more for minutes.
            Depth::Usual => Command::new(metadata.target_directory.join("debug").join(&binary.name)),
            Depth::Long => {
                let mut command = cargo::command();
                command.args(["run", "--profile", "quick", "--package", "sim", "--bin", &binary.name, "--"]);
                command
            }
        };
        command.args(*arguments);
        suite(report, "simulation", command);
    }
}

/// The packages: made, installed and used.
fn packages(report: &mut Report, metadata: &cargo::Metadata) {
    let folder = metadata.target_directory.join("package");
    let order = Order { folder: Some(folder.clone()), ..Order::default() };
    let made = package::package(&order);
    made.failures().iter().for_each(|name| report.name_failure(name));
    report.add(made.totals());
    if made.failed == 0 {
        package::check_again(report, &folder);
        let mut command = Command::new(metadata.workspace_root.join("tests").join("package").join("run"));
        command.arg("--folder").arg(&folder);
        suite(report, "packages", command);
    }
}

fn foreign(report: &mut Report, root: &Path, broker: &Path, depth: Depth) {
    let script = root.join("tests").join("foreign").join("run");
    if !script.exists() {
        report.skip("foreign clients", "tests/foreign/run is not there");
        return;
    }
    let skipped = if Command::new("python3").arg("--version").output().is_ok() {
        let mut command = Command::new(script);
        command.arg("--broker").arg(broker).args(depth.foreign());
        suite(report, "foreign clients", command)
    } else {
        let names = suite_names(&std::fs::read_to_string(script).unwrap_or_default());
        names.iter().for_each(|name| report.skip(name, "python3 is not installed"));
        names
    };
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        for client in missing(&skipped) {
            report.fail(client, "a core client may not be skipped in CI");
        }
    }
}

/// The suites that the script lists.
fn suite_names(script: &str) -> Vec<String> {
    let name = |line: &str| Some(line.trim_start().strip_prefix("Suite(\"")?.split('"').next()?.to_owned());
    script.lines().filter_map(name).collect()
}

/// The core clients that were skipped as a whole: a case that is skipped carries its suite's name and a dot.
fn missing(skipped: &[String]) -> Vec<&'static str> {
    let is_skipped = |client: &&str| skipped.iter().any(|name| name.eq_ignore_ascii_case(client));
    CLIENTS_CORE.iter().copied().filter(is_skipped).collect()
}

/// Runs a suite that prints `ok`, `FAILED` and `skipped` lines and ends with its totals; returns the skipped names.
fn suite(report: &mut Report, name: &str, command: Command) -> Vec<String> {
    let mut last = None;
    let mut skipped = Vec::new();
    let status = stream(command, |line| {
        last = Totals::parse(line).or(last.take());
        failed_name(line).into_iter().for_each(|name| report.name_failure(name));
        if let Some(rest) = line.strip_prefix("skipped ") {
            skipped.push(rest.split(':').next().unwrap_or(rest).to_owned());
        }
    });
    report.add(last.unwrap_or_default());
    match (status, last) {
        (Err(why), _) => report.fail(name, &why),
        (Ok(_), None) => report.fail(name, "ended without its totals"),
        (Ok(false), Some(Totals { failed: 0, .. })) => report.fail(name, "failed without saying what"),
        (Ok(_), Some(_)) => {}
    }
    skipped
}

/// Runs `command`, printing its output as it comes and showing each line of it to `each`. True on exit code 0.
fn stream(mut command: Command, mut each: impl FnMut(&str)) -> Result<bool, String> {
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let output = child.stdout.take().ok_or("no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        each(line.trim_end());
    }
    Ok(child.wait().map_err(|error| error.to_string())?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_suites_are_found_without_running_it() {
        let names = suite_names(include_str!("../../../tests/foreign/run"));
        let has = |name: &str| names.iter().any(|other| other == name);
        assert!(CLIENTS_CORE.iter().all(|name| has(name)) && has("crash"), "{names:?}");
    }

    #[test]
    fn core_clients_among_the_skipped_are_named() {
        let check = |skipped: &[&str], expected: &[&str]| {
            let skipped: Vec<String> = skipped.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(missing(&skipped), expected);
        };
        check(&[], &[]);
        check(&["stream-go"], &[]);
        check(&["pika.permission.read"], &[]);
        check(&["PerfTest", "pika"], &["pika", "perftest"]);
    }

    #[test]
    fn a_suite_is_summed_and_must_end_with_its_totals() {
        let check = |script: &str, passed: u64, failed: u64, skipped: u64| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let mut report = Report::default();
            suite(&mut report, "suite", command);
            assert_eq!(report.totals(), Totals { passed, failed, skipped }, "{script}");
            assert_eq!(report.failures().is_empty(), failed == 0, "{script}");
        };
        check("echo 3 passed, 0 failed, 1 skipped", 3, 0, 1);
        check("echo FAILED two: why; echo 3 passed, 2 failed, 1 skipped; exit 1", 3, 2, 1);
        check("echo 3 passed, 0 failed, 1 skipped; exit 1", 3, 1, 1);
        check("echo nothing", 0, 1, 0);
    }
}
