//! `cargo xtask tidy` and `cargo xtask test`.

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy            format, lints, floors, licences, forbidden text
       cargo xtask test [--quick]  tidy, then every test: cargo's, simulation, foreign clients
                                   (--quick builds the broker without link-time optimisation)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = match words[..] {
        ["tidy"] => xtask::tidy::tidy(),
        ["test"] => xtask::suites::test("release"),
        ["test", "--quick"] => xtask::suites::test("quick"),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    println!("{}", report.totals());
    if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
