//! The log: lines in RabbitMQ's format to the console and to a file, written by a thread of its own.
//!
//! A thread that logs never waits: a line goes into a bounded queue, and when that is full it is counted and dropped,
//! and the log tells so later. Text from peers is escaped, so that nobody can forge a line.

pub mod file;
pub mod format;
pub mod level;

use format::{Format, Line};
use level::Level;
use std::collections::VecDeque;
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

/// Lines that are kept for requests for the last ones.
pub const LINES_KEPT_MAX: usize = 1000;

/// Bytes of a kept line; of longer ones the beginning is kept.
const KEPT_BYTES_MAX: usize = 1024;

/// Hands lines to the writer. Cloned for every thread, with the number that stands where RabbitMQ has a process.
#[derive(Clone)]
pub struct Logger {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    /// The least level that is written anywhere, as a number: [`Level`]'s own. Shared by all, and changed while the node runs.
    level: Arc<AtomicU8>,
    /// The same of each output by itself.
    levels: Arc<[AtomicU8]>,
    /// The last lines.
    kept: Arc<Mutex<Kept>>,
    source: u32,
}

/// The last lines that were written, and how many there were.
#[derive(Default)]
struct Kept {
    lines: VecDeque<(Level, String)>,
    count: u64,
}

enum Message {
    /// With a bit for each output that it goes to.
    Line {
        at_us: u64,
        level: Level,
        source: u32,
        outputs: u8,
        text: String,
    },
    Stop,
}

/// The thread that writes.
pub struct Writer {
    thread: JoinHandle<()>,
    sender: SyncSender<Message>,
}

/// A place that lines go to.
pub struct Output {
    /// The least level that is written there; [`Level::None`]: nothing.
    pub level: Level,
    /// How lines look there.
    pub format: Format,
    /// Takes them.
    pub to: Box<dyn Write + Send>,
}

/// Starts the log at `level`, in plain text; [`Level::None`] writes nothing.
///
/// # Errors
/// Why there is no thread for it.
#[cfg(test)]
pub fn start(level: Level, to: impl Write + Send + 'static) -> std::io::Result<(Logger, Writer)> {
    start_all(vec![Output { level, format: Format::default(), to: Box::new(to) }])
}

/// Starts the log with all places that its lines go to.
///
/// # Errors
/// Why there is no thread for it.
pub fn start_all(outputs: Vec<Output>) -> std::io::Result<(Logger, Writer)> {
    assert!(outputs.len() <= u8::BITS as usize, "a line has a bit for each");
    let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let counter = dropped.clone();
    let kept = Arc::<Mutex<Kept>>::default();
    let keeps = kept.clone();
    let levels: Arc<[AtomicU8]> = outputs.iter().map(|output| AtomicU8::new(output.level as u8)).collect();
    let least = outputs.iter().map(|output| output.level).min().unwrap_or(Level::None);
    let thread = std::thread::Builder::new()
        .name("log".into())
        .spawn(move || write(&receiver, &counter, &keeps, outputs))?;
    let level = Arc::new(AtomicU8::new(least as u8));
    let logger = Logger { sender: sender.clone(), dropped, level, levels, kept, source: 0 };
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

    /// Has lines of this level and above written from now on, from all threads.
    pub fn set_level(&self, level: Level) {
        self.levels.iter().for_each(|own| own.store(level as u8, Ordering::Relaxed));
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// The last `count` lines that were written, of those that are kept.
    pub fn last(&self, count: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = kept.lines.iter().skip(kept.lines.len().saturating_sub(count));
        lines.map(|(_, line)| line.clone()).collect()
    }

    /// The lines that were written from number `next` on, of those that are kept, and the number of the one to come. Without
    /// a number: none.
    pub fn since(&self, next: Option<u64>) -> (Vec<String>, u64) {
        let (lines, next) = self.leveled_since(next);
        (lines.into_iter().map(|(_, line)| line).collect(), next)
    }

    /// The same with the level of each.
    pub fn leveled_since(&self, next: Option<u64>) -> (Vec<(Level, String)>, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = kept.count.saturating_sub(next.unwrap_or(kept.count));
        let skipped = kept.lines.len().saturating_sub(usize::try_from(behind).unwrap_or(usize::MAX));
        (kept.lines.iter().skip(skipped).cloned().collect(), kept.count)
    }

    /// Writes `text` at `level`.
    pub fn log(&self, level: Level, text: impl Into<String>) {
        if !self.takes(level) {
            return;
        }
        let is_for = |own: &AtomicU8| level as u8 >= own.load(Ordering::Relaxed);
        let outputs = self.levels.iter().rev().fold(0, |mask, own| mask << 1 | u8::from(is_for(own)));
        let line = Message::Line { at_us: now_us(), level, outputs, source: self.source, text: text.into() };
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

fn write(receiver: &Receiver<Message>, dropped: &AtomicU64, kept: &Mutex<Kept>, mut outputs: Vec<Output>) {
    let mut blocks: Vec<String> = outputs.iter().map(|_| String::new()).collect();
    // All outputs have the same lines but for their levels: the first is the one that is asked for.
    let mut first = Vec::new();
    'open: while let Ok(message) = receiver.recv() {
        let mut next = Some(message);
        let mut is_last = false;
        while let Some(message) = next {
            match message {
                Message::Line { at_us, level, source, outputs: mask, text } => {
                    let line = Line { at_us, level, source, text: &text };
                    add(&outputs, mask, &mut blocks, &mut first, &line);
                }
                Message::Stop => is_last = true,
            }
            let is_short = blocks.iter().all(|block| block.len() < BLOCK_BYTES);
            next = if is_short { receiver.try_recv().ok() } else { None };
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let text = format!("{lost} lines were dropped: the log could not be written fast enough");
            let line = Line { at_us: now_us(), level: Level::Warning, source: 0, text: &text };
            add(&outputs, u8::MAX, &mut blocks, &mut first, &line);
        }
        blocks.first().into_iter().for_each(|block| keep(kept, block, &mut first));
        for (output, block) in outputs.iter_mut().zip(&mut blocks) {
            // A log that nobody takes (a closed pipe) must not stop the node.
            let _ = output.to.write_all(block.as_bytes()).and_then(|()| output.to.flush());
            block.clear();
        }
        if is_last {
            break 'open;
        }
    }
}

/// Puts a line where it belongs: `mask` has a bit for each output. `first` is told where those of the first one end, and the
/// level of each.
fn add(
    outputs: &[Output],
    mask: u8,
    blocks: &mut [String],
    first: &mut Vec<(usize, Level)>,
    line: &Line<'_>,
) {
    for (index, (output, block)) in outputs.iter().zip(blocks).enumerate() {
        if mask >> index & 1 == 1 {
            output.format.write(line, block);
            if index == 0 {
                first.push((block.len(), line.level));
            }
        }
    }
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// Keeps the lines of a block; `ends` says where each ends.
fn keep(kept: &Mutex<Kept>, block: &str, ends: &mut Vec<(usize, Level)>) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let mut begin = 0;
    for (end, level) in ends.drain(..) {
        for line in block[begin..end].lines() {
            if kept.lines.len() == LINES_KEPT_MAX {
                kept.lines.pop_front();
            }
            kept.count += 1;
            kept.lines.push_back((level, line[..line.floor_char_boundary(KEPT_BYTES_MAX)].to_owned()));
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

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
    fn each_output_has_its_own_level_and_form() {
        let (console, file) = (Shared::default(), Shared::default());
        let json = Format { is_json: true, ..Format::default() };
        let outputs = vec![
            Output { level: Level::Warning, format: Format::default(), to: Box::new(console.clone()) },
            Output { level: Level::Debug, format: json, to: Box::new(file.clone()) },
        ];
        let (logger, writer) = start_all(outputs).expect("starts");
        logger.log(Level::Debug, "quiet");
        logger.error("loud");
        writer.finish();
        let text = |of: &Shared| String::from_utf8(of.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(text(&console).ends_with(" [error] <0.0.0> loud\n") && text(&console).lines().count() == 1);
        assert!(
            text(&file).contains("\"msg\":\"quiet\"") && text(&file).lines().count() == 2,
            "{}",
            text(&file)
        );
        assert_eq!(logger.last(5).len(), 1);
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
        let (lines, next) = kept.since(None);
        assert!(lines.is_empty(), "they were written before");
        let (lines, same) = kept.since(Some(next - 3));
        assert_eq!((lines, same), (kept.last(3), next));
        assert_eq!(kept.since(Some(0)).0.len(), LINES_KEPT_MAX, "others are gone");
        assert_eq!(kept.since(Some(next + 7)).0.len(), 0);
        assert!(kept.leveled_since(Some(0)).0.iter().all(|(level, _)| *level == Level::Info));
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
