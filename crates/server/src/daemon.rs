//! A node by the name under which RabbitMQ's is started: `rabbitmq-server`, in the foreground or detached.

use crate::{Server, load, serve};
use clap::Parser;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// The name of the link to the binary.
pub const NAME: &str = "rabbitmq-server";

/// As RabbitMQ's script has it: one dash.
const DETACHED: &str = "-detached";

/// Runs a node in the foreground, as `leveret server` does
#[derive(Debug, Parser)]
#[command(version, name = NAME, after_help = "With -detached it runs in the background, and its log goes to files alone.")]
struct Daemon {
    #[command(flatten)]
    server: Server,
}

/// Runs the command line `words`, the first of which is the name it was called by.
pub fn main(words: Vec<OsString>) -> ExitCode {
    let (detached, rest) = sort(words);
    let Daemon { server } = match Daemon::try_parse_from(&rest) {
        Ok(read) => read,
        Err(error) => {
            // Nowhere to report a closed terminal to.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { ctl::exit::USAGE } else { ctl::exit::OK });
        }
    };
    if !detached {
        return serve(server);
    }
    // Nobody would hear afterwards what is wrong with the settings.
    let problems = match load(server).usable() {
        Ok(_) => detach(&rest).err().into_iter().collect(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    problems.iter().for_each(|problem| eprintln!("{NAME}: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether it is to be detached, and the words without that.
fn sort(words: Vec<OsString>) -> (bool, Vec<OsString>) {
    let (detached, rest): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| word == DETACHED);
    (!detached.is_empty(), rest)
}

/// Starts the same in a process group of its own, which the terminal's signals do not reach.
fn detach(words: &[OsString]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot be started in the background: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg0(NAME).args(words.iter().skip(1)).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(failed).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_server_and_one_more() {
        let check = |words: &[&str], expected: Option<(bool, usize)>| {
            let (detached, rest) = sort(words.iter().map(OsString::from).collect());
            let read = Daemon::try_parse_from(&rest).ok();
            assert_eq!(read.map(|read| (detached, read.server.settings.len())), expected, "{words:?}");
        };
        check(&[NAME], Some((false, 0)));
        check(&[NAME, "-detached"], Some((true, 0)));
        check(&[NAME, "--set", "log.level=error", "-detached", "--data-dir", "x"], Some((true, 1)));
        check(&[NAME, "--bogus"], None);
        check(&[NAME, "start"], None);
    }
}
