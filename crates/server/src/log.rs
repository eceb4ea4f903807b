//! The log: lines in RabbitMQ's format to standard output, written by a thread of its own.
//!
//! Who logs never waits: a line goes into a bounded queue, and when that is full it is counted and dropped, which the log
//! then says. Text from peers is escaped, so that nobody can forge a line.

use crate::config::Level;
use base::time::date;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines that wait to be written.
pub const LINES_WAITING_MAX: usize = 16_384;

/// Bytes of lines gathered from which on they are written.
const BLOCK_BYTES: usize = 1 << 20;

/// Lines that are kept for who asks for the last ones.
pub const LINES_KEPT_MAX: usize = 1000;

/// Bytes of a kept line; of longer ones the beginning is kept.
const KEPT_BYTES_MAX: usize = 1024;

/// Hands lines to the writer. Cloned for every thread, with the number that stands where RabbitMQ has a process.
#[derive(Clone)]
pub struct Logger {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    /// As a number: [`Level`]'s own. Shared by all, and changed while the node runs.
    level: Arc<AtomicU8>,
    /// The last lines.
    kept: Arc<Mutex<VecDeque<String>>>,
    source: u32,
}

enum Message {
    Line { at_us: u64, level: Level, source: u32, text: String },
    Stop,
}

/// The thread that writes.
pub struct Writer {
    thread: JoinHandle<()>,
    sender: SyncSender<Message>,
}

/// Starts the log at `level`; [`Level::None`] writes nothing.
///
/// # Errors
/// Why there is no thread for it.
pub fn start(level: Level, to: impl Write + Send + 'static) -> std::io::Result<(Logger, Writer)> {
    let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let counter = dropped.clone();
    let kept = Arc::new(Mutex::new(VecDeque::new()));
    let keeps = kept.clone();
    let thread = std::thread::Builder::new()
        .name("log".into())
        .spawn(move || write(&receiver, &counter, &keeps, to))?;
    let level = Arc::new(AtomicU8::new(level as u8));
    let logger = Logger { sender: sender.clone(), dropped, level, kept, source: 0 };
    Ok((logger, Writer { thread, sender }))
}

impl Writer {
    /// Writes what is waiting and ends.
    pub fn finish(self) {
        let is_sent = self.sender.send(Message::Stop).is_ok();
        if is_sent && self.thread.join().is_err() {
            eprintln!("the log's writer failed");
        }
    }
}

impl Logger {
    /// The same log, for the part of the node that `source` stands for.
    pub fn of(&self, source: u32) -> Logger {
        Logger { source, ..self.clone() }
    }

    /// Whether lines of this level are written: ask before making an expensive one.
    pub fn takes(&self, level: Level) -> bool {
        level as u8 >= self.level.load(Ordering::Relaxed)
    }

    /// Has lines of this level and above written from now on, by all who log.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// The last `count` lines that were written, of those that are kept.
    pub fn last(&self, count: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().skip(kept.len().saturating_sub(count)).cloned().collect()
    }

    /// Writes `text` at `level`.
    pub fn log(&self, level: Level, text: impl Into<String>) {
        if !self.takes(level) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_us = since.as_micros() as u64;
        let line = Message::Line { at_us, level, source: self.source, text: text.into() };
        if let Err(TrySendError::Full(_)) = self.sender.try_send(line) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes `text` at info.
    pub fn info(&self, text: impl Into<String>) {
        self.log(Level::Info, text);
    }

    /// Writes `text` at warning.
    pub fn warning(&self, text: impl Into<String>) {
        self.log(Level::Warning, text);
    }

    /// Writes `text` at error.
    pub fn error(&self, text: impl Into<String>) {
        self.log(Level::Error, text);
    }
}

fn write(
    receiver: &Receiver<Message>,
    dropped: &AtomicU64,
    kept: &Mutex<VecDeque<String>>,
    mut to: impl Write,
) {
    let mut block = String::new();
    'open: while let Ok(first) = receiver.recv() {
        let mut next = Some(first);
        let mut is_last = false;
        while let Some(message) = next {
            match message {
                Message::Line { at_us, level, source, text } => {
                    format_line(&mut block, at_us, level, source, &text)
                }
                Message::Stop => is_last = true,
            }
            next = if block.len() < BLOCK_BYTES { receiver.try_recv().ok() } else { None };
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ =
                writeln!(block, "... {lost} lines were dropped: the log could not be written fast enough");
        }
        keep(kept, &block);
        // A log that nobody takes (a closed pipe) must not stop the node.
        let _ = to.write_all(block.as_bytes()).and_then(|()| to.flush());
        block.clear();
        if is_last {
            break 'open;
        }
    }
}

fn keep(kept: &Mutex<VecDeque<String>>, block: &str) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    for line in block.lines() {
        if kept.len() == LINES_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(line[..line.floor_char_boundary(KEPT_BYTES_MAX)].to_owned());
    }
}

/// `2026-11-21 19:10:42.194624+00:00 [info] <0.7.0> text`, for every line of the text.
fn format_line(block: &mut String, at_us: u64, level: Level, source: u32, text: &str) {
    for line in text.split('\n') {
        write_time(block, at_us);
        let _ = write!(block, " [{}] <0.{source}.0> ", level.name());
        for c in line.chars() {
            if c.is_control() { block.extend(c.escape_default()) } else { block.push(c) }
        }
        block.push('\n');
    }
}

fn write_time(block: &mut String, at_us: u64) {
    let (days, second) = (at_us / 86_400_000_000, at_us / 1_000_000 % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = at_us % 1_000_000;
    let _ =
        write!(block, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction:06}+00:00");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lines_look_as_operators_know_them_and_cannot_be_forged() {
        let mut block = String::new();
        format_line(&mut block, 1_795_288_242_194_624, Level::Info, 7, "one\ntwo\r\x1b[0m");
        let expected = "2026-11-21 19:10:42.194624+00:00 [info] <0.7.0> one\n\
                        2026-11-21 19:10:42.194624+00:00 [info] <0.7.0> two\\r\\u{1b}[0m\n";
        assert_eq!(block, expected);
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn levels_below_the_configured_one_are_left_out() {
        let output = Shared::default();
        let (logger, writer) = start(Level::Warning, output.clone()).expect("starts");
        logger.info("quiet");
        logger.of(3).error("loud");
        writer.finish();
        let text = String::from_utf8(output.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(text.ends_with(" [error] <0.3.0> loud\n") && !text.contains("quiet"), "{text}");
    }

    #[test]
    fn levels_change_for_all_who_log() {
        let output = Shared::default();
        let (logger, writer) = start(Level::Warning, output.clone()).expect("starts");
        let other = logger.of(3);
        other.info("before");
        logger.set_level(Level::Debug);
        other.log(Level::Debug, "between");
        logger.set_level(Level::None);
        other.log(Level::Critical, "behind");
        writer.finish();
        let text = String::from_utf8(output.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(text.ends_with(" [debug] <0.3.0> between\n") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn the_last_lines_are_kept() {
        let (logger, writer) = start(Level::Info, Shared::default()).expect("starts");
        for line in 0..LINES_KEPT_MAX + 10 {
            logger.info(format!("line {line}"));
        }
        logger.info("x".repeat(2 * KEPT_BYTES_MAX));
        let kept = logger.clone();
        writer.finish();
        let last = kept.last(2);
        assert!(last[0].ends_with(&format!("line {}", LINES_KEPT_MAX + 9)), "{last:?}");
        assert_eq!((last.len(), last[1].len()), (2, KEPT_BYTES_MAX));
        assert_eq!(kept.last(usize::MAX).len(), LINES_KEPT_MAX);
    }

    /// Takes nothing until it is let.
    struct Stuck(Receiver<()>, Shared);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn of_more_than_is_written_at_once_nothing_is_lost() {
        let (release, gate) = sync_channel(1);
        let output = Shared::default();
        let (logger, writer) = start(Level::Info, Stuck(gate, output.clone())).expect("starts");
        let lines = 3 * BLOCK_BYTES / 1000;
        for line in 0..lines {
            logger.info(format!("{line:01000}"));
        }
        drop(release);
        writer.finish();
        let text = String::from_utf8(output.0.lock().expect("not poisoned").clone()).expect("text");
        assert_eq!(text.lines().count(), lines);
    }

    #[test]
    fn who_logs_never_waits() {
        let (release, gate) = sync_channel(1);
        let output = Shared::default();
        let (logger, writer) = start(Level::Info, Stuck(gate, output.clone())).expect("starts");
        // More than wait and the writer has gathered before it is stuck: a line has 32 bytes at least.
        for line in 0..=LINES_WAITING_MAX + BLOCK_BYTES / 32 {
            logger.info(format!("{line}"));
        }
        drop(release);
        writer.finish();
        let text = String::from_utf8(output.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(text.contains(" lines were dropped"), "{}", text.len());
    }
}
