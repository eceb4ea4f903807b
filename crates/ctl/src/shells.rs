//! Completions for shells and pages for manuals, made of the command lines themselves.

use crate::command::NAMES;
use clap::Command;
use std::io;
use std::path::Path;

pub use clap_complete::Shell;

/// The page that the tools with RabbitMQ's names share.
const TOOLS_PAGE: &str = "leveret-ctl.1";

/// A script that completes command lines in a shell.
pub fn completions(mut command: Command, shell: Shell) -> String {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for each command line and for each word of it into a folder, which is made where it is not there; how
/// many pages.
///
/// # Errors
/// The system's error.
pub fn write_pages(commands: impl IntoIterator<Item = Command>, folder: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    commands.into_iter().try_for_each(|command| clap_mangen::generate_to(command, folder))?;
    for name in NAMES {
        std::fs::write(folder.join(format!("{name}.1")), format!(".so man1/{TOOLS_PAGE}\n"))?;
    }
    let pages = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    Ok(pages.iter().filter(|page| page.path().extension().is_some_and(|kind| kind == "1")).count())
}

/// The words that the last of some words may become: a word, an option of the word that is there, or one of them all.
///
/// As RabbitMQ's `autocomplete` has it, which the completions it comes with ask: a word that is whole becomes nothing.
pub(crate) fn variants(command: &Command, words: &[String]) -> Vec<String> {
    let Some(last) = words.last() else { return Vec::new() };
    let options = |of: &Command, is_wanted: fn(&clap::Arg) -> bool| -> Vec<String> {
        let own = of.get_arguments().filter(|argument| is_wanted(argument) && !argument.is_hide_set());
        own.filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect()
    };
    let word = words.iter().find(|word| !word.starts_with('-'));
    let known = word.and_then(|word| command.find_subcommand(word));
    let mut all = match (word, known) {
        (None, _) => options(command, |_| true),
        (Some(_), None) => {
            let shown = command.get_subcommands().filter(|word| !word.is_hide_set());
            shown.map(|word| word.get_name().to_owned()).collect()
        }
        (Some(_), Some(known)) if last.starts_with('-') => {
            options(known, |argument| !argument.is_global_set())
        }
        (Some(_), Some(_)) => Vec::new(),
    };
    all.retain(|variant| variant.starts_with(last.as_str()));
    base::brief::sort(&mut all);
    all
}
