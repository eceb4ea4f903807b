//! A shell on a pseudo terminal: keys in, and the screen that a person would see.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use vt100::{Parser, Screen};

/// Seconds after which what does not come is missed: the charts of the dashboard fill in less.
const PATIENCE_S: u64 = 90;

/// The screen as a person sees it, and the news that it has changed.
type Seen = Arc<(Mutex<Parser>, Condvar)>;

/// A terminal and the side of it that a person has.
pub struct Shell {
    keys: File,
    /// The other side, open from the start: a terminal that nobody has open reads as ended.
    _held: File,
    path: String,
    seen: Seen,
}

impl Shell {
    /// A terminal of that size.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new(lines: u16, columns: u16) -> std::io::Result<Shell> {
        let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&own)?;
        unlockpt(&own)?;
        tcsetwinsize(&own, Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
        let path = ptsname(&own, Vec::new())?.to_string_lossy().into_owned();
        let held = OpenOptions::new().read(true).write(true).open(&path)?;
        let size = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
        let seen = Seen::new((Mutex::new(Parser::new(size(lines), size(columns), 0)), Condvar::new()));
        let keys = File::from(own);
        let (mut read, shared) = (keys.try_clone()?, seen.clone());
        // It ends with the process.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = read.read(&mut bytes) {
                let (parser, news) = &*shared;
                parser.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
                news.notify_all();
            }
        });
        Ok(Shell { keys, _held: held, path, seen })
    }

    /// The terminal's file, for the program on it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Types `keys`.
    ///
    /// # Errors
    /// The terminal's error.
    pub fn keys(&mut self, keys: &str) -> Result<(), String> {
        self.keys.write_all(keys.as_bytes()).map_err(|error| error.to_string())
    }

    /// Types a command at the prompt and waits for the next one.
    ///
    /// # Errors
    /// The terminal's error, or the prompt does not come in time.
    pub fn command(&mut self, prompt: &str, line: &str) -> Result<(), String> {
        self.keys(&format!("{line}\r"))?;
        // The prompt that was there has the command behind it.
        self.await_words(line)?;
        self.await_prompt(prompt)
    }

    /// Waits until `words` are on the screen.
    ///
    /// # Errors
    /// They do not come in time: the screen as it is.
    pub fn await_words(&self, words: &str) -> Result<(), String> {
        self.await_screen(words, |screen| screen.contents().contains(words))
    }

    /// Waits until the last line that is not empty is the prompt alone.
    ///
    /// # Errors
    /// It does not come in time: the screen as it is.
    pub fn await_prompt(&self, prompt: &str) -> Result<(), String> {
        let prompt = prompt.trim_end();
        self.await_screen(prompt, |screen| {
            screen.contents().lines().map(str::trim_end).rfind(|line| !line.is_empty()) == Some(prompt)
        })
    }

    /// Waits until the screen is so; `what` is told where it does not come to that.
    ///
    /// # Errors
    /// It does not in time: the screen as it is.
    pub fn await_screen(&self, what: &str, is_so: impl Fn(&Screen) -> bool) -> Result<(), String> {
        let (parser, news) = &*self.seen;
        let parser = parser.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = Duration::from_secs(PATIENCE_S);
        let waited = news.wait_timeout_while(parser, patience, |parser| !is_so(parser.screen()));
        let (parser, time) = waited.unwrap_or_else(PoisonError::into_inner);
        match time.timed_out() {
            false => Ok(()),
            true => {
                let text = parser.screen().contents();
                Err(format!("{what:?} did not come in {PATIENCE_S} s:\n{text}"))
            }
        }
    }

    /// The screen as it is.
    pub fn screen(&self) -> Screen {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner).screen().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_has_a_terminal_of_that_size() {
        let mut shell = Shell::new(5, 33).expect("a terminal");
        let open = || OpenOptions::new().read(true).write(true).open(shell.path()).expect("opens");
        let (input, output) = (open(), open());
        let mut child = Command::new("sh")
            .args(["-c", "stty size; read word; echo \"got $word\""])
            .stdin(input)
            .stdout(output)
            .spawn()
            .expect("starts");
        shell.await_words("5 33").expect("its size");
        shell.keys("hare\n").expect("typed");
        shell.await_words("got hare").expect("its answer");
        assert!(child.wait().expect("ends").success());
    }
}
