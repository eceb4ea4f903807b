//! `cargo xtask pictures`: the dashboard and a first measurement as a person sees them, from a run of the binary.
//!
//! A shell on a pseudo terminal runs in a sandbox; keys are typed into it, and its screen is drawn. Nothing of the machine
//! is in a picture: the folder is bound to a place of its own, the node's name is given, and the prompt is short.

mod cells;
mod shell;

use crate::sandbox::{Sandbox, Step};
use shell::Shell;

/// Where the pictures are.
const FOLDER: &str = "docs/pictures/";

/// The pictures, in the order in which they are drawn.
const NAMES: [&str; 3] = ["bench.svg", "top.svg", "top-queue.svg"];

/// Bytes that a picture may have.
const BYTES_MAX: usize = 60_000;

/// The prompt of the shell.
const PROMPT: &str = "$ ";

/// Lines and columns: of the dashboard, and of the measurement, whose table is wide.
const TOP_SIZE: (u16, u16) = (25, 112);
const BENCH_SIZE: (u16, u16) = (24, 150);

/// Seconds that the node is up when the charts of the dashboard are full.
const FULL_S: u32 = 46;

/// The last words of the dashboard's screens, which are written line by line.
const LAST_OF_LIST: &str = "q end";
const LAST_OF_QUEUE: &str = "Escape back";

/// Runs the shell on the terminal `PTY`, in a folder and on a kernel whose names tell nothing of the machine.
const SHELL: &str = r#"
uname -r | cut -d- -f1 > release
mount --bind release /proc/sys/kernel/osrelease
mount --bind "$PWD" /srv
cd /srv
export HOME=/srv TERM=xterm-256color PS1='$ ' HISTFILE=
stty sane -F PTY
exec setsid --ctty --wait bash --noprofile --norc -i < PTY > PTY 2>&1
"#;

/// Queues and their traffic, for the dashboard. A consumer that is stopped with 20 messages stands for a slow one.
const TRAFFIC: &str = r#"
api() { curl -sS -o answer -u guest:guest -H 'content-type: application/json' "$@"; }
declare_queue() {
    api -X PUT "localhost:15672/api/queues/%2F/$1" -d '{"durable": true, "arguments": {"x-queue-type": "'"$2"'"}}'
}
send() {
    api -X POST localhost:15672/api/exchanges/%2F/amq.default/publish -d '{"properties": {"delivery_mode": 2},
        "routing_key": "'"$1"'", "payload_encoding": "string", "payload": "'"$2"'"}'
}
load() { leveret bench "$@" --uri amqp://localhost > /dev/null 2>&1; }
for queue in orders payments shipping stock newsletters; do declare_queue $queue classic; done
api -X PUT localhost:15672/api/queues/%2F/emails -d '{"durable": true}'
for queue in invoices reports orders.failed; do declare_queue $queue quorum; done
declare_queue audit stream
load classic-amqp091 --queue emails --rate 5 -n 1000 --prefetch 20 --ack-every 20 &
sleep 1
kill -STOP $(pgrep -f 'bench.*emails')
load classic-amqp091 --queue orders --rate 3200 -n 1000000 --prefetch 60 &
load classic-amqp091 --queue shipping --rate 250 -n 1000000 --prefetch 20 &
load classic-amqp091 --queue stock --rate 120 -n 1000000 --prefetch 20 &
load quorum-amqp10 --queue invoices --rate 400 -n 1000000 --size 600 &
while true; do
    for rate in 600 1400 2600 3600 2900 1700; do load classic-amqp091 --queue payments --rate $rate -n $((rate * 3)); done
done &
for order in $(seq 1017 1076); do
    send emails '{\"to\": \"ada@example.org\", \"template\": \"receipt\", \"order\": '$order'}'
done
for order in 1022 1031 1058; do send orders.failed '{\"order\": '$order', \"reason\": \"address\"}'; done
for week in $(seq 1 12); do send reports '{\"week\": '$week'}'; done
while true; do send audit '{\"event\": \"login\"}'; sleep 0.1; done &
"#;

/// Draws the pictures of `which` runs, `top` or `bench`, all where it is empty: names and texts.
///
/// # Errors
/// There is no such run, a sandbox cannot be had here, or a screen did not come.
pub fn draw(sandbox: &Sandbox<'_>, which: &str) -> Result<Vec<(String, String)>, String> {
    if !["", "top", "bench"].contains(&which) {
        return Err(format!("{which} is none of top, bench"));
    }
    let mut drawn = Vec::new();
    // First, while the machine is at rest.
    if which != "top" {
        drawn.push((NAMES[0], measurement(sandbox)?));
    }
    if which != "bench" {
        drawn.extend(NAMES[1..].iter().copied().zip(dashboard(sandbox)?));
    }
    Ok(drawn.into_iter().map(|(name, text)| (format!("{FOLDER}{name}"), text)).collect())
}

/// Pictures that are not there, that are too large, or that tell of the day or the machine.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in NAMES.map(|name| format!("{FOLDER}{name}")) {
        let Some((_, text)) = files.iter().find(|(file, _)| *file == name) else {
            complaints.push(format!("{name} is not there: cargo xtask pictures"));
            continue;
        };
        if text.len() > BYTES_MAX {
            complaints.push(format!("{name}: {} bytes, of {BYTES_MAX}", text.len()));
        }
        let needed = ["role=\"img\"", "<title", "<desc"];
        complaints.extend(
            needed.iter().filter(|part| !text.contains(**part)).map(|part| format!("{name} has no {part}")),
        );
        if let Some(line) = text.lines().position(has_date) {
            complaints.push(format!("{name}:{}: a picture tells no date", line + 1));
        }
    }
    complaints
}

/// Whether a date as those of log lines is in it.
fn has_date(line: &str) -> bool {
    let form = |part: &[u8]| {
        part.iter()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() })
    };
    line.as_bytes().windows(10).any(form)
}

/// The dashboard with its list, and with a queue open.
fn dashboard(sandbox: &Sandbox<'_>) -> Result<[String; 2], String> {
    let about = "A node's rates, memory and disk, charts of the last seconds, and its queues in order of waiting messages.";
    let opened = "An open queue: its properties, its consumers and the messages at its head.";
    on_a_terminal(sandbox, TOP_SIZE, TRAFFIC, false, |shell| {
        shell.await_prompt(PROMPT)?;
        shell.keys("leveret top\r")?;
        shell.await_words("orders.failed")?;
        // Down, from the stream to the queue with most messages.
        shell.keys("\u{1b}[B")?;
        shell.await_screen("a chosen queue", |screen| is_chosen(screen, "emails"))?;
        shell.await_screen("full charts", |screen| up_s(&screen.contents()) >= Some(FULL_S))?;
        shell.await_words(LAST_OF_LIST)?;
        let top = picture(shell, TOP_SIZE, "leveret top", about);
        shell.keys("\r")?;
        shell.await_words("messages at its head")?;
        shell.await_words(LAST_OF_QUEUE)?;
        let queue = picture(shell, TOP_SIZE, "leveret top: a queue", opened);
        shell.keys("q")?;
        shell.await_prompt(PROMPT)?;
        shell.keys("exit\r")?;
        Ok([top, queue])
    })
}

/// A node that is started, and a measurement of it.
fn measurement(sandbox: &Sandbox<'_>) -> Result<String, String> {
    let about = "A node is started, says where it listens, and is measured: a million durable messages through a queue.";
    on_a_terminal(sandbox, BENCH_SIZE, "", true, |shell| {
        shell.await_prompt(PROMPT)?;
        for line in [
            "leveret server > node.log &",
            "leveret ctl await_startup",
            "grep -o 'Leveret .* ready .*' node.log",
            "leveret bench classic-amqp091 --uri amqp://localhost --broker-pid $!",
        ] {
            shell.command(PROMPT, line)?;
        }
        let drawn = picture(shell, BENCH_SIZE, "leveret server, leveret bench", about);
        shell.keys("kill %1; wait; exit\r")?;
        Ok(drawn)
    })
}

/// The seconds that a dashboard says its node is up. A slow machine does not draw each of them.
fn up_s(screen: &str) -> Option<u32> {
    let (_, rest) = screen.split_once("  up ")?;
    let parts = rest.split_whitespace().next()?.split(':');
    parts.map(|part| part.parse::<u32>().ok()).try_fold(0, |sum, part| Some(sum * 60 + part?))
}

/// Whether the line of a list that begins with `name` is the chosen one.
fn is_chosen(screen: &vt100::Screen, name: &str) -> bool {
    let (lines, columns) = screen.size();
    let rows = screen.rows(0, columns.get());
    let mut named = (0..lines.get()).zip(rows).filter(|(_, row)| row.starts_with(name));
    named.any(|(line, _)| screen.cell(line, 0).is_some_and(|cell| cell.inverse()))
}

fn picture(shell: &Shell, size: (u16, u16), title: &str, about: &str) -> String {
    cells::svg(&cells::lines(&shell.screen()), size.1.into(), title, about)
}

/// Runs a shell on a terminal of `size` in a sandbox, behind `script`, and does `play` on the terminal. The shell is the
/// one to start the node, where it does.
fn on_a_terminal<T: Send>(
    sandbox: &Sandbox<'_>,
    size: (u16, u16),
    script: &str,
    starts_node: bool,
    play: impl FnOnce(&mut Shell) -> Result<T, String> + Send,
) -> Result<T, String> {
    let mut shell = Shell::new(size.0, size.1).map_err(|error| format!("a terminal: {error}"))?;
    let step = |text: String, is_server| Step { line: 1, is_python: false, is_server, text, expected: None };
    // The sandbox starts a node unless a step does; this one only says that it did.
    let none = starts_node.then(|| step("echo 'Server startup complete'; exec sleep 120\n".to_owned(), true));
    let run = step(format!("{script}{}", SHELL.replace("PTY", shell.path())), false);
    let steps: Vec<Step> = none.into_iter().chain([run]).collect();
    if let Some(why) = sandbox.why_absent(&steps) {
        return Err(why);
    }
    std::thread::scope(|threads| {
        let played = threads.spawn(move || {
            let played = play(&mut shell);
            if played.is_err() {
                // Whatever is on the terminal ends, and the sandbox with it.
                let _ = shell.keys("\u{3}\u{3}exit\r");
            }
            played
        });
        let ran = sandbox.run(&steps);
        let played = played.join().unwrap_or_else(|_| Err("the play panicked".to_owned()));
        match ran?.last() {
            Some((0, _)) => played,
            Some((code, said)) => {
                Err(format!("the shell ended with {code}: {said}{}", played.err().unwrap_or_default()))
            }
            None => Err("the shell was not run".to_owned()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_says_how_long_its_node_is_up() {
        let check = |screen: &str, expected: Option<u32>| assert_eq!(up_s(screen), expected, "{screen}");
        check("rabbit@srv  Leveret 0.1.0  up 00:00:46  3 queues", Some(46));
        check("rabbit@srv  Leveret 0.1.0  up 01:02:03  3 queues", Some(3723));
        check("rabbit@srv  Leveret 0.1.0  up 00:0", Some(0));
        check("rabbit@srv", None);
        check("  up and down", None);
    }

    #[test]
    fn pictures_are_small_and_tell_no_date() {
        let sound = "<svg role=\"img\"><title>a</title><desc>b</desc>5672-15672</svg>";
        let check = |text: &str, expected: usize| {
            let files = NAMES.map(|name| (format!("{FOLDER}{name}"), text.to_owned()));
            assert_eq!(complaints(&files).len(), expected * NAMES.len(), "{:.80}", text);
        };
        check(sound, 0);
        check(&sound.replace("role", "rule"), 1);
        check(&sound.replace("5672-15672", "2020-01-31 12:00"), 1);
        check(&format!("{sound}{}", " ".repeat(BYTES_MAX)), 1);
        assert_eq!(complaints(&[]).len(), NAMES.len());
    }
}
