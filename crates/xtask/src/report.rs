//! Checks that passed, failed and were skipped: one line each, and their sum.

use std::fmt;

/// How many checks ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Passed.
    pub passed: u64,
    /// Did not.
    pub failed: u64,
    /// Could not run here.
    pub skipped: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Totals {
    /// Reads the line that every suite ends with: `N passed, N failed, N skipped`.
    pub fn parse(line: &str) -> Option<Totals> {
        let mut numbers = line.trim().split(", ").zip([" passed", " failed", " skipped"]);
        let mut next = || {
            let (part, suffix) = numbers.next()?;
            part.strip_suffix(suffix)?.parse().ok()
        };
        let totals = Totals { passed: next()?, failed: next()?, skipped: next()? };
        (line.matches(", ").count() == 2).then_some(totals)
    }

    /// Reads cargo's `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
    pub fn parse_cargo(line: &str) -> Option<Totals> {
        let (_verdict, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
        let count = |suffix: &str| {
            let part = counts.split("; ").find_map(|part| part.strip_suffix(suffix))?;
            part.parse().ok()
        };
        Some(Totals { passed: count(" passed")?, failed: count(" failed")?, skipped: count(" ignored")? })
    }
}

/// The name in a line of a check that failed: `FAILED name: why` of a suite, `test name ... FAILED` of cargo's.
pub fn failed_name(line: &str) -> Option<&str> {
    let of_suite = || line.strip_prefix("FAILED ").map(|rest| rest.split(": ").next().unwrap_or(rest));
    let of_cargo = || line.strip_prefix("test ")?.strip_suffix(" ... FAILED");
    of_suite().or_else(of_cargo)
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Totals that are printed line by line while they grow.
#[derive(Debug, Default)]
pub struct Report {
    /// Checks that have failed so far.
    pub failed: u64,
    totals: Totals,
    failures: Vec<String>,
}

impl Report {
    /// One check passed.
    pub fn pass(&mut self, name: &str) {
        println!("ok {name}");
        self.add(Totals { passed: 1, ..Totals::default() });
    }

    /// One check did not.
    pub fn fail(&mut self, name: &str, why: &str) {
        println!("FAILED {name}: {why}");
        self.name_failure(name);
        self.add(Totals { failed: 1, ..Totals::default() });
    }

    /// One check could not run here.
    pub fn skip(&mut self, name: &str, why: &str) {
        println!("skipped {name}: {why}");
        self.add(Totals { skipped: 1, ..Totals::default() });
    }

    /// A check that ends with a list of complaints; none is a pass.
    pub fn check(&mut self, name: &str, complaints: &[String]) {
        match complaints {
            [] => self.pass(name),
            _ => self.fail(name, &format!("\n  {}", complaints.join("\n  "))),
        }
    }

    /// Adds the counts of a whole suite.
    pub fn add(&mut self, totals: Totals) {
        self.totals += totals;
        self.failed = self.totals.failed;
    }

    /// Keeps the name of a check that failed, or of a suite's, which counts it: of whom [`Report::failures`] tells.
    pub fn name_failure(&mut self, name: &str) {
        self.failures.push(name.to_owned());
    }

    /// The checks that failed, by name: the end of a long run is often all one sees of it.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The sum.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::{Totals, failed_name};

    #[test]
    fn totals_come_back_from_their_line() {
        let check = |line: &str, expected: Option<(u64, u64, u64)>| {
            let read = Totals::parse(line).map(|totals| (totals.passed, totals.failed, totals.skipped));
            assert_eq!(read, expected, "{line}");
        };
        check("12 passed, 0 failed, 3 skipped", Some((12, 0, 3)));
        check("12 passed, 0 failed, 3 skipped, more", None);
        check("12 passed, 0 failed", None);
        check("some 12 passed, 0 failed, 3 skipped", None);
        let totals = Totals { passed: 1, failed: 2, skipped: 3 };
        assert_eq!(Totals::parse(&totals.to_string()), Some(totals));
    }

    #[test]
    fn cargo_result_lines_are_read() {
        let line = "test result: FAILED. 11 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s";
        assert_eq!(Totals::parse_cargo(line), Some(Totals { passed: 11, failed: 2, skipped: 1 }));
        assert_eq!(Totals::parse_cargo("test floors ... ok"), None);
    }

    #[test]
    fn failures_are_found_by_name() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(failed_name(line), expected, "{line}");
        check("FAILED ui.login: 21 requests: too many", Some("ui.login"));
        check("FAILED ui.login", Some("ui.login"));
        check("test shape::tests::long_lines ... FAILED", Some("shape::tests::long_lines"));
        check("test shape::tests::long_lines ... ok", None);
        check("ok ui.login", None);
        check("test result: FAILED. 1 passed; 1 failed; 0 ignored", None);
    }
}
