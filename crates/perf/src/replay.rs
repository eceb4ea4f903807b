//! Replays of a large stream: the cost for the broker of sending all of it to one reader, and to several at once.
//!
//! The stream is written first, in chunks as large as the broker makes them, and lies in segments but for its last chunks. Then
//! readers subscribe at the first message, each on a connection and a thread of its own, with the credit that clients give.
//! The measure is the broker's CPU time for each megabyte that it sends. Every message is looked at: one that is lost,
//! doubled or altered ends the run. The files are read from the page cache where memory is large enough for them.

use crate::Target;
use crate::control::Control;
use crate::fill::{Filling, fill, whole_frames};
use crate::native::Native;
use crate::options::{Bench, QueueType};
use crate::process::Usage;
use crate::progress::Progress;
use crate::small_chunks::{Got, read_native};
use crate::table::{count, table};
use serde::Serialize;
use std::time::Instant;

const STREAM: &str = "leveret-bench-replay";

/// Bytes of chunks, of a body, and readers, where the command line does not say.
const BYTES: u64 = 4_000_000_000;
const SIZE: u32 = 1000;
const READERS: [u32; 2] = [1, 4];

/// Bytes of messages in a frame, about; and frames that are not confirmed.
const FRAME_BYTES: u32 = 100_000;
const IN_FLIGHT: u64 = 100;

/// Bytes that a message takes in a chunk beside its body.
const MESSAGE_COST: u32 = 12;

/// Chunks that a subscription may be sent at first, as clients have it.
const CREDIT: u16 = 10;

/// The figures of a replay to so many readers: the run in the middle.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    /// Bytes of a body.
    pub size: u32,
    /// Readers, each of which got all of it.
    pub readers: u32,
    /// Messages of the stream.
    pub messages: u64,
    /// Bytes of chunks that one reader got.
    pub bytes: u64,
    /// Bytes of a chunk, on average.
    pub chunk_bytes: u64,
    /// Until the last reader had all.
    pub seconds: f64,
    /// CPU time of the broker for each megabyte sent, microseconds, where its process is known.
    pub cpu_us_per_mb: Option<f64>,
    /// How much of that was spent in the kernel.
    pub system_share: Option<f64>,
    /// [`Replay::cpu_us_per_mb`] of the least and of the most costly run.
    pub cpu_us_per_mb_span: Option<(f64, f64)>,
    /// Runs.
    pub runs: u32,
}

impl Replay {
    /// Megabytes a second that all readers got together.
    fn mb_per_second(&self) -> f64 {
        self.bytes as f64 * f64::from(self.readers) / 1e6 / self.seconds.max(1e-9)
    }
}

/// The messages of the stream, with bodies of so many bytes.
fn filling(size: u32, bytes: u64) -> Filling {
    let per_frame = (FRAME_BYTES / (size + MESSAGE_COST)).max(1);
    let frame = u64::from(per_frame) * u64::from(size + MESSAGE_COST);
    Filling { stream: STREAM.to_owned(), size, per_frame, frames: (bytes / frame).max(1) }
}

/// Measures each size of bodies with each number of readers that the command line asks for.
///
/// # Errors
/// In words for people: the broker could not be reached, or did not give back the messages.
pub fn run(bench: &Bench, target: &mut Target, progress: &mut Progress) -> Result<Vec<Replay>, String> {
    let or = |given: &[u32], own: &[u32]| if given.is_empty() { own.to_vec() } else { given.to_vec() };
    let streams = [STREAM.to_owned()];
    let mut replays = Vec::new();
    for size in or(&bench.size, &[SIZE]) {
        let filling = filling(size, bench.bytes.unwrap_or(BYTES));
        let mut control = Control::open(&target.uris[0])?;
        control.delete_queues(&streams)?;
        let arguments = [&bench.arguments[..], &[whole_frames()]].concat();
        control.declare_queues(&streams, QueueType::Stream, &arguments)?;
        progress.say(&format!("writing {} messages of {size} bytes", filling.messages()));
        let mut native = Native::open(target.stream_uri()?)?;
        fill(&mut native, std::slice::from_ref(&filling), IN_FLIGHT, None)?;
        native.close();
        for readers in or(&bench.readers, &READERS) {
            let mut runs = Vec::new();
            for run in 0..bench.warmup_runs + bench.runs {
                progress.say(&format!("{size} bytes, {readers} readers, run {}", run + 1));
                let replay = replay(target, &filling, readers)?;
                if run >= bench.warmup_runs {
                    runs.push(replay);
                }
            }
            replays.extend(middle(runs));
        }
        control.delete_queues(&streams)?;
        control.close();
    }
    progress.end();
    Ok(replays)
}

/// The run in the middle by CPU time, or by how long it took where that is not known, and the span of all.
fn middle(mut runs: Vec<Replay>) -> Option<Replay> {
    let cost = |replay: &Replay| replay.cpu_us_per_mb.unwrap_or(replay.seconds);
    base::brief::sort_by(&mut runs, |a, b| cost(a).total_cmp(&cost(b)));
    let least = runs.first()?.cpu_us_per_mb;
    let most = runs.last()?.cpu_us_per_mb;
    let mut replay = runs[runs.len() / 2].clone();
    (replay.cpu_us_per_mb_span, replay.runs) = (least.zip(most), runs.len() as u32);
    Some(replay)
}

/// Has so many readers read all of it at once.
fn replay(target: &mut Target, filling: &Filling, readers: u32) -> Result<Replay, String> {
    let before = usage(target)?;
    let uri = target.stream_uri()?;
    let start = Instant::now();
    let all: Vec<Got> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..readers).map(|_| scope.spawn(|| read_native(uri, filling, CREDIT))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|got| got.map_err(|_| "a client thread panicked".to_owned())?)
            .collect::<Result<_, String>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let after = usage(target)?;
    let Got { messages, chunks, bytes, .. } = all[0];
    let sent = all.iter().map(|got| got.bytes).sum();
    let used = before.zip(after).map(|(before, after)| spent(before, after, sent));
    Ok(Replay {
        size: filling.size,
        readers,
        messages,
        bytes,
        chunk_bytes: bytes / chunks.max(1),
        seconds,
        cpu_us_per_mb: used.map(|(cpu, _)| cpu),
        system_share: used.map(|(_, share)| share),
        cpu_us_per_mb_span: None,
        runs: 1,
    })
}

fn usage(target: &mut Target) -> Result<Option<Usage>, String> {
    let usage = target.process.as_mut().map(|process| process.usage());
    usage.transpose().map_err(|error| format!("the broker's process cannot be looked at: {error}"))
}

/// Microseconds of CPU for each of `bytes` / 1 MB, and the kernel's share of them.
fn spent(before: Usage, after: Usage, bytes: u64) -> (f64, f64) {
    let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
    let user = after.user_ticks.saturating_sub(before.user_ticks) as f64;
    let system = after.system_ticks.saturating_sub(before.system_ticks) as f64;
    (cpu_ns / 1e3 / (bytes as f64 / 1e6).max(1e-9), system / (user + system).max(1.0))
}

/// The table for people.
pub fn text(replays: &[Replay]) -> String {
    let header =
        ["replay", "messages", "MB each", "KiB a chunk", "MB/s", "CPU us/MB", "kernel", "runs", "span"];
    let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let line = |replay: &Replay| {
        let many = if replay.readers == 1 { "" } else { "s" };
        vec![
            format!("{} B, {} reader{many}", replay.size, replay.readers),
            count(replay.messages as f64),
            count(replay.bytes as f64 / 1e6),
            count(replay.chunk_bytes as f64 / 1024.0),
            count(replay.mb_per_second()),
            or(replay.cpu_us_per_mb.map(|cpu| format!("{cpu:.0}"))),
            or(replay.system_share.map(|share| format!("{:.0} %", share * 100.0))),
            replay.runs.to_string(),
            or(replay.cpu_us_per_mb_span.map(|(least, most)| format!("{least:.0}-{most:.0}"))),
        ]
    };
    table(&header, &replays.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(cpu_us_per_mb: Option<f64>, seconds: f64) -> Replay {
        Replay {
            size: 1000,
            readers: 4,
            messages: 2_000_000,
            bytes: 2_000_000_000,
            chunk_bytes: 512_000,
            seconds,
            cpu_us_per_mb,
            system_share: cpu_us_per_mb.map(|_| 0.75),
            cpu_us_per_mb_span: None,
            runs: 1,
        }
    }

    #[test]
    fn frames_hold_about_as_many_bytes_whatever_the_bodies() {
        for (size, bytes, per_frame, frames) in
            [(1000, 1_012_000, 98, 10), (131_072, 1_310_840, 1, 10), (1000, 1, 98, 1)]
        {
            let filling = filling(size, bytes);
            assert_eq!((filling.per_frame, filling.frames), (per_frame, frames), "{size}");
        }
    }

    #[test]
    fn the_run_in_the_middle_counts() {
        let by_cpu = [3.0, 1.0, 2.0].map(|cpu| replay(Some(cpu), 9.0 - cpu));
        let middle_by_cpu = middle(by_cpu.to_vec()).unwrap();
        assert_eq!((middle_by_cpu.cpu_us_per_mb, middle_by_cpu.runs), (Some(2.0), 3));
        assert_eq!(middle_by_cpu.cpu_us_per_mb_span, Some((1.0, 3.0)));
        let by_time = middle([5.0, 4.0, 6.0].map(|seconds| replay(None, seconds)).to_vec()).unwrap();
        assert_eq!((by_time.seconds, by_time.cpu_us_per_mb_span), (5.0, None));
        assert!(middle(Vec::new()).is_none());
    }

    #[test]
    fn cpu_is_counted_for_all_that_was_sent() {
        let before = Usage { cpu_ns: 1_000_000, user_ticks: 5, system_ticks: 7, rss: 0 };
        let after = Usage { cpu_ns: 9_000_000, user_ticks: 6, system_ticks: 10, rss: 0 };
        assert_eq!(spent(before, after, 4_000_000), (2000.0, 0.75));
        assert_eq!(spent(after, before, 4_000_000), (0.0, 0.0));
    }

    #[test]
    fn the_table_shows_what_is_known() {
        let text = text(&[replay(Some(312.4), 4.0), replay(None, 4.0)]);
        let lines: Vec<&str> = text.lines().collect();
        for word in ["1000 B, 4 readers", "2,000,000", "2,000", "500", "312", "75 %"] {
            assert!(lines[1].contains(word), "{word}: {text}");
        }
        assert!(lines[2].contains(" - ") && !lines[2].contains('%'), "{text}");
    }
}
