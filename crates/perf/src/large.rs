//! One large stream: how long readers take to attach to it, the node to come back with it, and publishers to be confirmed while
//! retention takes most of it away.
//!
//! The stream is written first, at full speed. Then readers attach at its first and last chunk, at offsets and at times all over
//! it; the time from asking to the first chunk is measured. The node is started anew, and they attach again. At last,
//! once the device is done with all that was written, a publisher that waits for each confirm runs beside a policy that
//! leaves a tenth of the stream.

use crate::Target;
use crate::control::Control;
use crate::end::latencies;
use crate::fill::{Filling, fill};
use crate::native::{Native, NativeEvent};
use crate::options::{Bench, QueueType};
use crate::probe::{Settled, settle};
use crate::progress::Progress;
use crate::run::Latency;
use crate::table::count;
use crate::wire::stream::message;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stream_protocol::{List, OffsetSpec, Request};

const STREAM: &str = "leveret-bench-large";

/// Bytes written where the command line does not say.
const BYTES: u64 = 20_000_000_000;

/// Bytes of a message, messages of a frame, and frames that are not confirmed.
const SIZE: u32 = 1000;
const PER_FRAME: u32 = 100;
const IN_FLIGHT: u64 = 100;

/// Bytes that a message takes in a chunk beside its body.
const MESSAGE_COST: u64 = 12;

/// Places in the stream at which readers attach, by offset and by time each.
const PLACES: u64 = 9;

/// The bounds that the figures are held to, milliseconds.
const ATTACH_MS_MAX: f64 = 20.0;
const RESTART_MS_MAX: f64 = 2000.0;
const PAUSE_MS_MAX: f64 = 10.0;

/// How long confirms are looked at without and, at most, with a policy that has segments deleted.
const STEADY: Duration = Duration::from_secs(3);
const DELETING: Duration = Duration::from_secs(30);

/// Before that nothing but flushes is asked of the device until they have taken no longer than this for so long, or for so long at most.
const FLUSH_MAX: Duration = Duration::from_millis(5);
const QUIET: Duration = Duration::from_secs(10);
const WAITING_MAX: Duration = Duration::from_secs(180);

/// How long attaching took, milliseconds: the longest of several times.
#[derive(Clone, Debug, Serialize)]
pub struct Attached {
    /// Where.
    pub at: &'static str,
    /// Before the node was started anew.
    pub ms: f64,
    /// After it.
    pub restarted_ms: f64,
}

/// How long one publisher waited for its confirms, one after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Confirms {
    /// How long that was looked at.
    pub seconds: f64,
    /// How many there were.
    pub count: u64,
    /// How many came later than they may.
    pub late: u64,
    /// How long they took.
    pub latency: Latency,
}

impl Confirms {
    fn of(taken: &Histogram<u64>, lasted: Duration) -> Option<Confirms> {
        let latency = Latency::of(taken)?;
        let bound = (PAUSE_MS_MAX * 1000.0) as u64;
        let count = taken.len();
        let late = count - taken.count_between(0, bound).min(count);
        Some(Confirms { seconds: lasted.as_secs_f64(), count, late, latency })
    }

    /// The longest, milliseconds.
    fn pause_ms(&self) -> f64 {
        self.latency.max_us as f64 / 1000.0
    }
}

/// The figures of one large stream.
#[derive(Clone, Debug, Serialize)]
pub struct Large {
    /// Bytes of bodies and of all that belongs to them.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// How long it took to write them.
    pub write_seconds: f64,
    /// How long attaching took.
    pub attached: Vec<Attached>,
    /// From the node's start until it serves.
    pub restart_ms: f64,
    /// How long the device went on with earlier writes, after which nothing was asked of it but flushes.
    pub settled: Settled,
    /// From publishing one message to its confirm, while nothing else happens: for as long, in all, as segments are deleted.
    pub steady: Option<Confirms>,
    /// The same while segments are deleted.
    pub deleting: Option<Confirms>,
    /// By how many bytes the folder was smaller when that was enough, or at the most in the time there was.
    pub deleted: u64,
}

/// The places at which readers attach, each kind with its name.
fn places(messages: u64, begun_ms: i64, written_ms: i64) -> Vec<(&'static str, Vec<OffsetSpec>)> {
    let parts = || (1..=PLACES).map(|part| part as f64 / (PLACES + 1) as f64);
    let offset = |part: f64| OffsetSpec::Offset((messages as f64 * part) as u64);
    let time = |part: f64| OffsetSpec::Timestamp(begun_ms + ((written_ms - begun_ms) as f64 * part) as i64);
    vec![
        ("first", vec![OffsetSpec::First; 3]),
        ("last", vec![OffsetSpec::Last; 3]),
        ("offset", parts().map(offset).collect()),
        ("timestamp", parts().map(time).collect()),
    ]
}

/// Measures one stream of as many bytes as the command line asks for.
///
/// # Errors
/// In words for people: the broker is not ours, could not be reached, or did not give back the messages.
pub fn run(bench: &Bench, target: &mut Target, progress: &mut Progress) -> Result<Large, String> {
    let bytes = bench.bytes.unwrap_or(BYTES);
    let folder =
        target.child.as_ref().ok_or("the broker has to be ours to be started anew")?.folder().to_owned();
    let per_frame = u64::from(PER_FRAME) * (u64::from(SIZE) + MESSAGE_COST);
    let filling = Filling {
        stream: STREAM.to_owned(),
        size: SIZE,
        per_frame: PER_FRAME,
        frames: (bytes / per_frame).max(1),
    };
    let mut control = Control::open(&target.uris[0])?;
    control.declare_queues(&[STREAM.to_owned()], QueueType::Stream, &bench.arguments)?;
    control.close();
    progress.say(&format!("writing {} MB", bytes / 1_000_000));
    let mut native = Native::open(target.stream_uri()?)?;
    let begun = Instant::now();
    fill(&mut native, std::slice::from_ref(&filling), IN_FLIGHT, None)?;
    let write_seconds = begun.elapsed().as_secs_f64();
    let messages = filling.messages();
    // Times at which there were chunks: behind the last, a reader waits for new ones.
    let (_, begun_ms) = attach(&mut native, OffsetSpec::First)?;
    let (_, written_ms) = attach(&mut native, OffsetSpec::Last)?;
    let places = places(messages, begun_ms, written_ms);
    let before = attach_all(&mut native, &places)?;
    native.close();
    progress.say("starting the node anew");
    let restart_ms = target.restart(&[])?.as_secs_f64() * 1000.0;
    let mut native = Native::open(target.stream_uri()?)?;
    let after = attach_all(&mut native, &places)?;
    let attached = places.iter().zip(before.into_iter().zip(after));
    let attached = attached.map(|((at, _), (ms, restarted_ms))| Attached { at, ms, restarted_ms }).collect();
    progress.say("waiting for the device to be quiet");
    let settled = settle(&folder, FLUSH_MAX, QUIET, WAITING_MAX)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    progress.say("deleting nine tenths of it");
    let (steady, deleting, deleted) = delete(target, native, bytes / 10 * 8, bytes / 10)?;
    progress.end();
    Ok(Large { bytes, messages, write_seconds, attached, restart_ms, settled, steady, deleting, deleted })
}

/// The longest that attaching took at each kind of place, milliseconds.
fn attach_all(native: &mut Native, places: &[(&'static str, Vec<OffsetSpec>)]) -> Result<Vec<f64>, String> {
    let mut all = Vec::new();
    for (_, offsets) in places {
        let mut longest = Duration::ZERO;
        for offset in offsets {
            longest = longest.max(attach(native, *offset)?.0);
        }
        all.push(longest.as_secs_f64() * 1000.0);
    }
    Ok(all)
}

/// How long it took from subscribing to the first chunk, which is to be the one that was asked for; and the time of that chunk.
fn attach(native: &mut Native, offset: OffsetSpec) -> Result<(Duration, i64), String> {
    let start = Instant::now();
    native.begin(&Request::Subscribe {
        subscription_id: 0,
        stream: STREAM.as_bytes(),
        offset,
        credit: 1,
        properties: List::default(),
    });
    let (mut chunk, mut answer) = (None, None);
    while chunk.is_none() || answer.is_none() {
        native.turn(|event| match event {
            NativeEvent::Chunk(deliver) => {
                let header = &deliver.chunk.header;
                let offsets = header.first_offset..header.next_offset();
                chunk.get_or_insert((start.elapsed(), header.timestamp_ms, offsets));
            }
            NativeEvent::Answered(code, _) => answer = Some(code),
            NativeEvent::Confirmed(_) => {}
        })?;
        if let Some(code) = answer.filter(|code| !code.is_ok()) {
            return Err(format!("no subscription: {code}"));
        }
    }
    native.ask(&Request::Unsubscribe { subscription_id: 0 })?;
    let Some((lasted, at_ms, offsets)) = chunk else { return Err("no chunk came".to_owned()) };
    match offset {
        OffsetSpec::First if offsets.start != 0 => {
            Err(format!("the first chunk begins with {}", offsets.start))
        }
        OffsetSpec::Offset(offset) if !offsets.contains(&offset) => {
            Err(format!("a chunk with the offsets {offsets:?} came for {offset}"))
        }
        OffsetSpec::Timestamp(timestamp_ms) if at_ms < timestamp_ms => {
            Err(format!("a chunk of {at_ms} came for {timestamp_ms}"))
        }
        _ => Ok((lasted, at_ms)),
    }
}

/// How long confirms take while the policy deletes all but `left` bytes, until the folder is smaller by `least` bytes; and, before
/// and behind that, for as long without anything else. Last, by how many bytes it was smaller then: its publisher goes on writing.
fn delete(
    target: &Target,
    mut native: Native,
    least: u64,
    left: u64,
) -> Result<(Option<Confirms>, Option<Confirms>, u64), String> {
    let child = target.child.as_ref().ok_or("the broker has to be ours")?;
    let stream = STREAM.as_bytes();
    native.ask(&Request::DeclarePublisher { publisher_id: 0, reference: b"", stream })?;
    let (is_deleting, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let ([steady, deleting], lasted, deleted) = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&mut native, &is_deleting, &is_over));
        std::thread::sleep(STEADY);
        is_deleting.store(true, Ordering::Relaxed);
        let definition = format!("{{\"max-length-bytes\":{left}}}");
        let (start, full) = (Instant::now(), size_of_folder(child.folder()));
        let said = child.ctl(&["set_policy", "leveret-bench", &format!("^{STREAM}$"), &definition]);
        let mut deleted = 0;
        while said.is_ok() && deleted < least && start.elapsed() < DELETING {
            std::thread::sleep(Duration::from_millis(20));
            deleted = deleted.max(full.saturating_sub(size_of_folder(child.folder())));
        }
        // The last file's name goes before its space, and the filesystem's work behind the deletion counts too.
        std::thread::sleep(STEADY);
        let lasted = start.elapsed();
        is_deleting.store(false, Ordering::Relaxed);
        std::thread::sleep(lasted.saturating_sub(STEADY));
        is_over.store(true, Ordering::Relaxed);
        let joined = publisher.join().map_err(|_| "a client thread panicked".to_owned());
        said.and(joined?).map(|taken| (taken, lasted, deleted))
    })?;
    native.close();
    Ok((Confirms::of(&steady, lasted.max(STEADY)), Confirms::of(&deleting, lasted), deleted))
}

/// Publishes one message after the other, each when the one before is confirmed, until all is over. How long confirms took, in
/// microseconds: while nothing was deleted, and while something was.
fn publish(
    native: &mut Native,
    is_deleting: &AtomicBool,
    is_over: &AtomicBool,
) -> Result<[Histogram<u64>; 2], String> {
    let mut all = [latencies(), latencies()];
    let message = message(SIZE as usize);
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        if !native.publish(0).message(number, None, &message) {
            return Err("a message is too large for a frame".to_owned());
        }
        number += 1;
        let mut is_confirmed = false;
        while !is_confirmed {
            native.turn(|event| is_confirmed |= matches!(event, NativeEvent::Confirmed(_)))?;
        }
        let which = usize::from(is_deleting.load(Ordering::Relaxed));
        all[which].saturating_record(start.elapsed().as_micros() as u64);
    }
    Ok(all)
}

/// Bytes of all files in a folder and those in it.
fn size_of_folder(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_folder(&entry.path()),
        Ok(metadata) => metadata.len(),
        // It was deleted meanwhile.
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

impl Large {
    /// Lines for people.
    pub fn text(&self) -> String {
        let held = |is_held: bool| if is_held { "held" } else { "MISSED" };
        let mut text = String::new();
        let megabytes = self.bytes as f64 / 1e6;
        let _ = writeln!(
            text,
            "{} messages, {megabytes:.0} MB, written in {:.1} s, {:.0} MB/s",
            count(self.messages as f64),
            self.write_seconds,
            megabytes / self.write_seconds.max(1e-9)
        );
        for Attached { at, ms, restarted_ms } in &self.attached {
            let is_held = ms.max(*restarted_ms) <= ATTACH_MS_MAX;
            let _ = writeln!(
                text,
                "attach at {at}: {ms:.2} ms, {restarted_ms:.2} ms after a restart: {}",
                held(is_held)
            );
        }
        let is_held = self.restart_ms <= RESTART_MS_MAX;
        let _ = writeln!(text, "restart: {:.0} ms: {}", self.restart_ms, held(is_held));
        let Settled { seconds, longest_ms } = self.settled;
        let _ = writeln!(
            text,
            "nothing but flushes for {seconds:.0} s; they took {longest_ms:.1} ms at most at the end of it"
        );
        for (what, confirms) in
            [("while nothing else happens", &self.steady), ("while segments go", &self.deleting)]
        {
            let Some(Confirms { seconds, count, late, latency }) = confirms else { continue };
            let Latency { p50_us, p99_us, p999_us, max_us } = latency;
            let _ = writeln!(
                text,
                "confirms {what}: {p50_us} us p50, {p99_us} us p99, {p999_us} us p99.9, {max_us} us at most; {late} of {count} \
                 later than {PAUSE_MS_MAX:.0} ms, in {seconds:.1} s"
            );
        }
        let longest = |confirms: &Option<Confirms>| confirms.as_ref().map_or(0.0, Confirms::pause_ms);
        let (pause_ms, own_ms) = (longest(&self.deleting), longest(&self.steady));
        let judged = match pause_ms <= PAUSE_MS_MAX {
            _ if self.deleted == 0 => held(false),
            true => held(true),
            // Pauses that the machine makes by itself are not retention's doing.
            false if own_ms > PAUSE_MS_MAX => "not to be judged",
            false => held(false),
        };
        let gone = self.deleted as f64 / 1e6;
        let _ = writeln!(
            text,
            "retention: {gone:.0} MB deleted, longest pause {pause_ms:.1} ms, {own_ms:.1} ms without: {judged}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_attach_all_over_the_stream() {
        let places = places(1000, 5000, 6000);
        let of = |name: &str| {
            places.iter().find(|(at, _)| *at == name).map(|(_, offsets)| offsets.clone()).unwrap()
        };
        assert_eq!(of("offset")[0], OffsetSpec::Offset(100));
        assert_eq!(of("timestamp")[8], OffsetSpec::Timestamp(5900));
        assert_eq!((of("first").len(), of("last")[0]), (3, OffsetSpec::Last));
    }

    #[test]
    fn the_figures_are_held_to_their_bounds() {
        let confirms = |max_us| {
            let mut taken = latencies();
            (0..99).for_each(|_| taken.saturating_record(400));
            taken.saturating_record(max_us);
            Confirms::of(&taken, Duration::from_secs(2))
        };
        let large = Large {
            bytes: 1_000_000,
            messages: 1000,
            write_seconds: 0.5,
            attached: vec![Attached { at: "first", ms: 1.0, restarted_ms: 21.0 }],
            restart_ms: 100.0,
            settled: Settled { seconds: 12.0, longest_ms: 1.5 },
            steady: confirms(400),
            deleting: confirms(9900),
            deleted: 5,
        };
        let text = large.text();
        assert!(text.contains("attach at first: 1.00 ms, 21.00 ms after a restart: MISSED"), "{text}");
        assert!(
            text.contains("restart: 100 ms: held") && text.contains("pause 9.9 ms, 0.4 ms without: held"),
            "{text}"
        );
        assert!(text.contains("flushes for 12 s; they took 1.5 ms at most"), "{text}");
        assert!(text.contains("at most; 0 of 100 later than 10 ms, in 2.0 s"), "{text}");
        let slow = Large { deleting: confirms(15_000), ..large.clone() };
        let text = slow.text();
        assert!(text.contains("1 of 100 later") && text.contains("without: MISSED"), "{text}");
        assert!(Large { steady: confirms(16_000), ..slow }.text().contains("without: not to be judged"));
        assert!(
            Large { deleted: 0, ..large }
                .text()
                .contains("0 MB deleted, longest pause 9.9 ms, 0.4 ms without: MISSED")
        );
    }
}
