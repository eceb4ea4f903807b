//! `cargo xtask tidy`, `cargo xtask test` and its parts, and what writes packages, pages and pictures.

use std::path::Path;
use std::process::ExitCode;
use xtask::package::Order;
use xtask::suites::Depth;

const USAGE: &str = "usage: cargo xtask tidy [--quick]  format, lints, floors, licences, forbidden text
                                   (--quick: without what compiles, in seconds)
       cargo xtask test [--quick] [--long]
                                   tidy, then every test: cargo's, simulation, costs, foreign clients
                                   (--long: with more seeds, the long forms of suites, and suites too long for every run)
       cargo xtask guard [--quick] [--broker PATH]
                                   of these only the costs: instructions and system calls a message,
                                   of the broker built here or of one that is
                                   (--quick builds the broker without link-time optimisation)
       cargo xtask package [deb] [rpm] [tarball] [image] [--binary PATH] [--folder PATH]
                                   packages of the broker in target/package, all where none is named,
                                   of a program that is built for them or of one that is linked statically
       cargo xtask guide [--broker PATH] [CASE]
                                   of these only the commands of README and guide, or of pages with that in their name
       cargo xtask reference [--broker PATH]
                                   writes the pages of the guide that tables in the code say
       cargo xtask chart           draws the chart of the README from the table of docs/performance
       cargo xtask pictures [--broker PATH] [top | bench]
                                   draws the terminals of README and guide from a run of the broker
       cargo xtask shots [--broker PATH]
                                   draws the pictures of the web interface from a browser";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = match words[..] {
        ["tidy"] => xtask::tidy::tidy(),
        ["tidy", "--quick"] => xtask::tidy::quick(),
        ["test"] => xtask::suites::test("release", Depth::Usual),
        ["test", "--quick"] => xtask::suites::test("quick", Depth::Usual),
        ["test", "--long"] => xtask::suites::test("release", Depth::Long),
        ["test", "--quick", "--long"] | ["test", "--long", "--quick"] => {
            xtask::suites::test("quick", Depth::Long)
        }
        ["guard"] => xtask::suites::guard("release", None),
        ["guard", "--quick"] => xtask::suites::guard("quick", None),
        ["guard", "--broker", path] => xtask::suites::guard("release", Some(Path::new(path))),
        ["guard", "--quick", "--broker", path] => xtask::suites::guard("quick", Some(Path::new(path))),
        ["package", ref rest @ ..] => match Order::read(rest) {
            Ok(order) => xtask::package::package(&order),
            Err(why) => {
                eprintln!("{why}\n{USAGE}");
                return ExitCode::from(64);
            }
        },
        ["guide"] => xtask::suites::pages(None, ""),
        ["guide", "--broker", path] => xtask::suites::pages(Some(Path::new(path)), ""),
        ["guide", "--broker", path, case] => xtask::suites::pages(Some(Path::new(path)), case),
        ["guide", case] => xtask::suites::pages(None, case),
        ["reference"] => xtask::suites::write_reference(None),
        ["reference", "--broker", path] => xtask::suites::write_reference(Some(Path::new(path))),
        ["chart"] => xtask::suites::write_chart(),
        ["pictures"] => xtask::suites::write_pictures(None, ""),
        ["pictures", "--broker", path] => xtask::suites::write_pictures(Some(Path::new(path)), ""),
        ["pictures", "--broker", path, which] => xtask::suites::write_pictures(Some(Path::new(path)), which),
        ["pictures", which] => xtask::suites::write_pictures(None, which),
        ["shots"] => xtask::suites::write_shots(None),
        ["shots", "--broker", path] => xtask::suites::write_shots(Some(Path::new(path))),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    report.failures().iter().for_each(|name| println!("failed: {name}"));
    println!("{}", report.totals());
    if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
