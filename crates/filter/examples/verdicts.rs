//! Verdicts on documents: of each line `EXPRESSION<tab>DOCUMENT` of standard input a line `true`, `false` or `unknown`, or what is
//! wrong with the expression: `cargo run --profile quick -p filter --example verdicts`.

use filter::json::Document;
use filter::{Limits, Program, Room};
use std::io::{BufWriter, Write};

fn main() -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut room = Room::default();
    for line in std::io::stdin().lines() {
        let line = line?;
        let (text, document) = line.split_once('\t').unwrap_or((&line, ""));
        match Program::parse(text, &Limits::content()) {
            Ok(program) => writeln!(
                out,
                "{}",
                match program.verdict(&Document(document.as_bytes()), &mut room, 0) {
                    Some(true) => "true",
                    Some(false) => "false",
                    None => "unknown",
                }
            )?,
            Err(fault) => writeln!(out, "{fault}")?,
        }
    }
    out.flush()
}
