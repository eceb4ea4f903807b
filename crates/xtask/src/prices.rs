//! The prices of units of work (`base::Work`), and of those of filters and of patterns of policies, which have budgets of
//! their own: instructions of a unit of each kind, counted under callgrind, are within a factor of two of a common figure.
//! Otherwise a user's share of a turn would hang on the kind of his work.

use crate::report::Report;
use crate::traced::Tool;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Instructions of a unit.
const INSTRUCTIONS: f64 = 60.0;

/// Kinds of work of `crates/broker/examples/prices.rs`, and how often they are done in the shorter run.
const KINDS: [(&str, u64); 10] = [
    ("topic", 4),
    ("headers", 10),
    ("wide", 20),
    ("letters", 30),
    ("filter", 20),
    ("content", 100),
    ("lists", 10),
    ("regexp", 20),
    ("bindings", 20),
    ("policy", 4),
];

/// Holds the prices together.
pub fn check(report: &mut Report) {
    let names = || KINDS.iter().map(|(kind, _)| format!("price.{kind}"));
    if let Some(why) = Tool::Callgrind.why_absent() {
        return names().for_each(|name| report.skip(&name, &why));
    }
    let program = match build() {
        Ok(program) => program,
        Err(why) => return names().for_each(|name| report.fail(&name, &why)),
    };
    for (kind, count) in KINDS {
        let name = format!("price.{kind}");
        match price(&program, kind, count) {
            Ok(price) if (INSTRUCTIONS / 2.0..=INSTRUCTIONS * 2.0).contains(&price) => {
                println!("{name}: {price:.1} instructions a unit");
                report.pass(&name);
            }
            Ok(price) => {
                let why =
                    format!("{price:.1} instructions a unit, {INSTRUCTIONS} within a factor of two are due");
                report.fail(&name, &why);
            }
            Err(why) => report.fail(&name, &why),
        }
    }
}

/// The program, built as the simulator is: with one profile there is no more to build.
fn build() -> Result<PathBuf, String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--profile", "quick", "--package", "broker", "--example", "prices"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the program that does the work does not build".to_owned());
    }
    executable(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "cargo names no program".to_owned())
}

/// The program of which cargo's messages tell.
fn executable(messages: &str) -> Option<PathBuf> {
    let (_, rest) = messages.rsplit_once("\"executable\":\"")?;
    Some(PathBuf::from(rest.split('"').next()?))
}

/// Instructions of a unit: the difference of two runs, which leaves out what begins and ends them.
fn price(program: &Path, kind: &str, count: u64) -> Result<f64, String> {
    let [short, long] = [count, 3 * count].map(|count| run(program, kind, count));
    let ((units, instructions), (more_units, more_instructions)) = (short?, long?);
    Ok((more_instructions - instructions) / (more_units - units))
}

/// Units and instructions of one run.
fn run(program: &Path, kind: &str, count: u64) -> Result<(f64, f64), String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args([kind, &count.to_string()]);
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{kind} failed: {}", said.trim().lines().last().unwrap_or("no word")));
    }
    let units = String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| "no units".to_owned())?;
    Ok((units, collected(&said).ok_or_else(|| "callgrind left no count".to_owned())?))
}

/// The count in callgrind's last words.
fn collected(said: &str) -> Option<f64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_programs_are_found() {
        assert_eq!(collected("==1== Events    : Ir\n==1== Collected : 120345\n"), Some(120_345.0));
        assert_eq!(collected("==1== no count"), None);
        let messages =
            "{\"executable\":null}\n{\"executable\":\"/a/prices\",\"fresh\":true}\n{\"success\":true}";
        assert_eq!(executable(messages), Some(PathBuf::from("/a/prices")));
        assert_eq!(executable("{}"), None);
    }
}
