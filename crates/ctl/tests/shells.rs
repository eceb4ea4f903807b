//! Completions and manual pages: that they name all words, and that shells and readers can use them.

use clap::Command;
use ctl::command::{NAMES, tool};
use ctl::shells::{Shell, completions, write_pages};
use std::path::PathBuf;
use std::process;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// A folder of the test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("leveret-{name}-{}", process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The words of a command line that are shown.
fn words(command: &Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|word| !word.is_hide_set());
    shown.map(|word| word.get_name().to_owned()).collect()
}

#[test]
fn every_word_is_completed() {
    for name in NAMES {
        let command = tool(name).expect("known");
        let words = words(&command);
        assert!(words.len() >= 5, "{name}: {words:?}");
        for shell in SHELLS {
            let script = completions(command.clone(), shell);
            let missing: Vec<_> = words.iter().filter(|word| !script.contains(word.as_str())).collect();
            assert!(missing.is_empty(), "{name}, {shell}: {missing:?}");
        }
    }
    assert!(tool("rabbitmqcat").is_none());
}

#[test]
fn shells_accept_their_scripts() {
    let folder = Folder::new("shells");
    for shell in SHELLS {
        let program = shell.to_string();
        for name in NAMES {
            let path = folder.0.join(format!("{name}.{program}"));
            let script = completions(tool(name).expect("known"), shell);
            std::fs::write(&path, script).expect("written");
            match process::Command::new(&program).arg("-n").arg(&path).output() {
                Ok(done) => assert!(done.status.success() && done.stderr.is_empty(), "{name}: {done:?}"),
                // Not every machine has every shell; bash is where the tests run.
                Err(_) => assert_ne!(shell, Shell::Bash),
            }
        }
    }
}

#[test]
fn bash_completes_words_and_options() {
    let folder = Folder::new("words");
    let file = folder.0.join("rabbitmqctl");
    std::fs::write(&file, completions(tool("rabbitmqctl").expect("known"), Shell::Bash)).expect("written");
    let file = file.display();
    let check = |line: &[&str], expected: &[&str]| {
        let typed: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
        let (last, before) = (line[line.len() - 1], line.get(line.len().wrapping_sub(2)).unwrap_or(&""));
        let ask = format!(
            "source '{file}'\nCOMP_WORDS=({}); COMP_CWORD={}; _rabbitmqctl rabbitmqctl '{last}' '{before}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            typed.join(" "),
            line.len() - 1
        );
        let done = process::Command::new("bash").arg("-c").arg(ask).output().expect("bash runs");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let mut told: Vec<&str> = said.lines().collect();
        told.sort_unstable();
        assert_eq!(told, expected, "{line:?}: {done:?}");
    };
    check(&["rabbitmqctl", "list_que"], &["list_queues"]);
    check(&["rabbitmqctl", "list_queues", "--vh"], &["--vhost"]);
    check(&["rabbitmqctl", "--formatter", "json"], &["json", "json_stream"]);
}

#[test]
fn every_word_has_a_page() {
    let folder = Folder::new("pages");
    let ctl = tool("rabbitmqctl").expect("known").name("ctl").bin_name("ctl");
    let count = write_pages([Command::new("leveret").about("A broker").subcommand(ctl.clone())], &folder.0);
    let words = words(&ctl);
    assert!(count.expect("written") > words.len());
    for word in &words {
        let page = std::fs::read_to_string(folder.0.join(format!("leveret-ctl-{word}.1")));
        let page = page.unwrap_or_else(|error| panic!("{word}: {error}"));
        assert!(page.contains(&format!("leveret\\-ctl\\-{}", word.replace('-', "\\-"))), "{word}: {page}");
    }
    for name in NAMES {
        let page = std::fs::read_to_string(folder.0.join(format!("{name}.1"))).expect("written");
        let meant = page.trim().strip_prefix(".so man1/").expect("another page");
        assert!(folder.0.join(meant).exists(), "{name}: {meant}");
    }
    // Where there is a formatter, it has nothing to complain of.
    if let Ok(done) = process::Command::new("man")
        .args(["--warnings", "-l", "--encoding=utf8"])
        .arg(folder.0.join("leveret-ctl-list_queues.1"))
        .env("MANPAGER", "cat")
        .output()
    {
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        assert!(String::from_utf8_lossy(&done.stdout).contains("--vhost"), "{done:?}");
    }
}
