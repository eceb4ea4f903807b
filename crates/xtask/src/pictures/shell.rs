//! A shell on a pseudo terminal: keys in, and the screen that a person would see.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vt100::Parser;

/// Milliseconds between two looks at the screen.
const LOOK_MS: u64 = 20;

/// Seconds after which words that do not come are missed.
const PATIENCE_S: u64 = 45;

/// A terminal and the side of it that a person has.
pub struct Shell {
    keys: File,
    /// The other side, open from the start: a terminal that nobody has open reads as ended.
    _held: File,
    path: String,
    seen: Arc<Mutex<Parser>>,
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
        let seen = Arc::new(Mutex::new(Parser::new(size(lines), size(columns), 0)));
        let keys = File::from(own);
        let (mut read, shared) = (keys.try_clone()?, seen.clone());
        // It ends with the process.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = read.read(&mut bytes) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
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

    /// Waits until `words` are on the screen.
    ///
    /// # Errors
    /// They do not come in time: the screen as it is.
    pub fn await_words(&self, words: &str) -> Result<(), String> {
        self.await_screen(words, |text| text.contains(words))
    }

    /// Waits until the last line that is not empty is the prompt alone.
    ///
    /// # Errors
    /// It does not come in time: the screen as it is.
    pub fn await_prompt(&self, prompt: &str) -> Result<(), String> {
        let prompt = prompt.trim_end();
        self.await_screen(prompt, |text| {
            text.lines().map(str::trim_end).rfind(|line| !line.is_empty()) == Some(prompt)
        })
    }

    fn await_screen(&self, words: &str, is_there: impl Fn(&str) -> bool) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(PATIENCE_S);
        loop {
            let text = self.screen().contents();
            if is_there(&text) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{words:?} did not come in {PATIENCE_S} s:\n{text}"));
            }
            std::thread::sleep(Duration::from_millis(LOOK_MS));
        }
    }

    /// The screen as it is.
    pub fn screen(&self) -> vt100::Screen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).screen().clone()
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
