//! Streams of small chunks: how fast one reader gets through them, and how often the broker reads its files for that.
//!
//! Each cell of the table is a load of its own: streams whose chunks have exactly so many messages of so many bytes. All streams
//! of a size are filled side by side ([`crate::fill`]), and then read from the first message on, one after the other, over
//! the stream protocol and over AMQP 0-9-1. A broker of our own does so with `stream.read_ahead` and without it, and is
//! started anew in between: one cell after the other, several rounds each, with and without in turn, so that both see the same
//! moments of the machine, and the first stream is read once before it counts. Medians count, and for the two ways the median of
//! how they compare within a round. Every message is looked at: one that is lost, doubled or out of order ends the run.

use crate::control::Control;
use crate::fill::{Filling, fill, whole_frames};
use crate::load::connect;
use crate::native::{Giving, Native, NativeEvent};
use crate::options::{Bench, Protocol, QueueType};
use crate::process::Process;
use crate::progress::Progress;
use crate::stamp::Stamp;
use crate::table::{count, table};
use crate::uri::Uri;
use crate::wire::amqp091::Amqp091;
use crate::wire::stream::body;
use crate::wire::{Happenings, Purpose, Wire};
use crate::{Target, end, worker};
use base::Now;
use message::chunk::Content;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Read;
use std::time::{Duration, Instant};
use stream_protocol::{List, OffsetSpec, Request};

/// Messages of a chunk, where the command line does not say.
const COUNTS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384];

/// Bytes of a body, where the command line does not say.
const SIZES: [u32; 5] = [12, 48, 256, 512, 1024];

/// Bytes of chunks in a cell, where the command line does not say.
const BYTES: u64 = 32 << 20;

/// Rounds of each cell, where the command line does not say more.
const ROUNDS_MIN: u32 = 3;

/// Rounds of a cell at most, of which the median says that reading ahead costs too much: a cell lasts some hundredths of a second,
/// and of a hundred medians of three some stray.
const ROUNDS_MAX: u32 = 9;

/// The share of the rate without reading ahead that must be kept with it.
const SHARE_MIN: f64 = 0.95;

/// Streams of a cell: all are filled at once.
const STREAMS: u64 = 4;

/// Chunks that a subscription may be sent at first.
const CREDIT: u16 = 1000;

/// Prefetch over 0-9-1, of which half is settled at a time.
const PREFETCH: u32 = 5000;

/// Bytes of a chunk's header, and of an entry's and a message's in front of a body, for an estimate.
const CHUNK_COST: u64 = 48;
const MESSAGE_COST: u64 = 12;

/// Bytes in a file for which one read is to be enough.
const READ_BYTES: f64 = 65_536.0;

/// One cell of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Messages of each frame that was published, which is to be each chunk.
    pub messages_a_chunk: u32,
    /// Bytes of a body.
    pub size: u32,
    /// How it was read.
    pub protocol: Protocol,
    /// Whether the broker read ahead, where it was told.
    pub read_ahead: Option<bool>,
    /// Messages read.
    pub messages: u64,
    /// Chunks they came in, where that shows.
    pub chunks: Option<u64>,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// How long reading took.
    pub seconds: f64,
    /// Messages a second.
    pub per_second: f64,
    /// The rate of reading ahead, as a share of that without it; the median of all rounds.
    pub share_of_not_ahead: Option<f64>,
    /// Reads of files for each 64 KiB of chunks, where the broker's process is known.
    pub reads_a_64k: Option<f64>,
    /// CPU time of the broker, nanoseconds a message, where its process is known.
    pub cpu_ns_per_message: Option<f64>,
}

/// The result of one reader of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Got {
    /// Messages.
    pub messages: u64,
    /// Chunks they came in.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// How long it took.
    pub lasted: Duration,
}

/// The streams of a cell, as they were written.
#[derive(Clone, Debug)]
struct Written {
    fillings: Vec<Filling>,
}

impl Written {
    fn plan(size: u32, per_frame: u32, bytes: u64) -> Written {
        let chunk = CHUNK_COST + u64::from(per_frame) * (u64::from(size) + MESSAGE_COST);
        let frames = (bytes / STREAMS / chunk).max(1);
        let name = |number| format!("leveret-bench-{size}-{per_frame}-{number}");
        let filling = |number| Filling { stream: name(number), size, per_frame, frames };
        Written { fillings: (0..STREAMS).map(filling).collect() }
    }

    fn names(&self) -> Vec<String> {
        self.fillings.iter().map(|filling| filling.stream.clone()).collect()
    }
}

/// Measures every cell that the command line asks for.
///
/// # Errors
/// In words for people: the broker could not be reached, or did not give back the messages.
pub fn run(bench: &Bench, target: &mut Target, progress: &mut Progress) -> Result<Vec<Cell>, String> {
    let or = |given: &[u32], own: &[u32]| if given.is_empty() { own.to_vec() } else { given.to_vec() };
    let (counts, sizes) = (or(&bench.chunks, &COUNTS), or(&bench.size, &SIZES));
    let bytes = bench.bytes.unwrap_or(BYTES);
    let protocols = match bench.protocol {
        Some(protocol) => vec![protocol],
        None => vec![Protocol::Stream, Protocol::Amqp091],
    };
    let mut cells = Vec::new();
    for size in sizes {
        let written: Vec<Written> = counts.iter().map(|count| Written::plan(size, *count, bytes)).collect();
        write(target, &written, progress)?;
        for cell in &written {
            measure(bench, target, cell, &protocols, &mut cells, progress)?;
        }
        let mut control = Control::open(&target.uris[0])?;
        written.iter().try_for_each(|cell| control.delete_queues(&cell.names()))?;
        control.close();
    }
    progress.end();
    Ok(cells)
}

/// Reads one cell over each protocol, with reading ahead and without it in turn, round after round: its medians.
fn measure(
    bench: &Bench,
    target: &mut Target,
    written: &Written,
    protocols: &[Protocol],
    cells: &mut Vec<Cell>,
    progress: &mut Progress,
) -> Result<(), String> {
    let Filling { size, per_frame, .. } = written.fillings[0];
    let ways: &[Option<bool>] = if target.child.is_some() { &[Some(true), Some(false)] } else { &[None] };
    let mut all: Vec<Cell> = Vec::new();
    let is_missed = |all: &[Cell]| {
        let shares =
            protocols.iter().filter_map(|protocol| middle(all, *protocol, Some(true))?.share_of_not_ahead);
        shares.into_iter().any(|share| share < SHARE_MIN)
    };
    let wanted = bench.runs.max(ROUNDS_MIN);
    for round in 0.. {
        if !goes_on(round, wanted, || is_missed(&all)) {
            break;
        }
        let mut ways = ways.to_vec();
        // The first way finds the machine as others left it: each way is first in turn.
        let first = round as usize % ways.len();
        ways.rotate_left(first);
        for read_ahead in ways {
            if let Some(read_ahead) = read_ahead {
                target.restart(&[format!("stream.read_ahead={read_ahead}")])?;
            }
            for &protocol in protocols {
                let way = name(protocol);
                progress.say(&format!(
                    "{per_frame} messages of {size} bytes a chunk: {way}, round {}",
                    round + 1
                ));
                all.push(read_cell(target, written, protocol, read_ahead)?);
            }
        }
    }
    for &read_ahead in ways {
        for &protocol in protocols {
            cells.extend(middle(&all, protocol, read_ahead));
        }
    }
    Ok(())
}

/// Whether there is one more round behind so many. Those that are added come in twos, so that each way comes first as often.
fn goes_on(rounds: u32, wanted: u32, is_missed: impl FnOnce() -> bool) -> bool {
    match rounds.checked_sub(wanted) {
        None => true,
        Some(_) if rounds >= ROUNDS_MAX => false,
        Some(added) => !added.is_multiple_of(2) || is_missed(),
    }
}

/// The median of several rounds, one way; and how reading ahead compares with the same round without.
fn middle(all: &[Cell], protocol: Protocol, read_ahead: Option<bool>) -> Option<Cell> {
    let of = |read_ahead| {
        all.iter().filter(move |cell| (cell.protocol, cell.read_ahead) == (protocol, read_ahead))
    };
    let mut rounds: Vec<&Cell> = of(read_ahead).collect();
    base::brief::sort_by(&mut rounds, |a, b| a.per_second.total_cmp(&b.per_second));
    let mut cell = (*rounds.get(rounds.len() / 2)?).clone();
    if read_ahead == Some(true) {
        let pairs = of(read_ahead).zip(of(Some(false)));
        let mut shares: Vec<f64> =
            pairs.map(|(ahead, not)| ahead.per_second / not.per_second.max(1e-9)).collect();
        base::brief::sort_by(&mut shares, f64::total_cmp);
        cell.share_of_not_ahead = shares.get(shares.len() / 2).copied();
    }
    Some(cell)
}

fn name(protocol: Protocol) -> &'static str {
    if protocol == Protocol::Stream { "native" } else { "0-9-1" }
}

/// Fills the streams of all cells, side by side as far as a connection goes.
fn write(target: &Target, written: &[Written], progress: &mut Progress) -> Result<(), String> {
    let mut control = Control::open(&target.uris[0])?;
    for cell in written {
        control.delete_queues(&cell.names())?;
        control.declare_queues(&cell.names(), QueueType::Stream, &[whole_frames()])?;
    }
    control.close();
    let fillings: Vec<Filling> = written.iter().flat_map(|cell| cell.fillings.clone()).collect();
    for fillings in fillings.chunks(crate::fill::STREAMS_MAX) {
        let chunks: u64 = fillings.iter().map(|filling| filling.frames).sum();
        progress.say(&format!("writing {chunks} chunks of messages of {} bytes", fillings[0].size));
        let mut native = Native::open(target.stream_uri()?)?;
        fill(&mut native, fillings, 1, None)?;
        native.close();
    }
    Ok(())
}

/// The broker's process so far: reads of files, and CPU time.
fn used(process: Option<&mut Process>) -> Option<(u64, u64)> {
    let process = process?;
    Some((process.reads().ok()?, process.usage().ok()?.cpu_ns))
}

fn read_cell(
    target: &mut Target,
    cell: &Written,
    protocol: Protocol,
    read_ahead: Option<bool>,
) -> Result<Cell, String> {
    let read = |target: &Target, filling| match protocol {
        Protocol::Stream => read_native(target.stream_uri()?, filling, CREDIT),
        Protocol::Amqp091 => read_messages(&target.uris[0], filling),
        Protocol::Amqp10 => Err("it is read over the stream protocol and AMQP 0-9-1".to_owned()),
    };
    // A broker that was just started takes memory that it has from then on: as long as the rest of a cell takes.
    cell.fillings.first().map(|filling| read(target, filling)).transpose()?;
    let before = used(target.process.as_mut());
    let mut all = Got::default();
    for filling in &cell.fillings {
        let got = read(target, filling)?;
        all.messages += got.messages;
        all.chunks += got.chunks;
        all.bytes += got.bytes;
        all.lasted += got.lasted;
    }
    let used = before.zip(used(target.process.as_mut()));
    let Filling { size, per_frame, .. } = cell.fillings[0];
    let chunks = (protocol == Protocol::Stream).then_some(all.chunks);
    if chunks.is_none() {
        let frames: u64 = cell.fillings.iter().map(|filling| filling.frames).sum();
        all.bytes = frames * CHUNK_COST + all.messages * (u64::from(size) + MESSAGE_COST);
    }
    let (seconds, messages) = (all.lasted.as_secs_f64(), all.messages);
    Ok(Cell {
        messages_a_chunk: per_frame,
        size,
        protocol,
        read_ahead,
        messages,
        chunks,
        bytes: all.bytes,
        seconds,
        per_second: crate::run::rate(messages, seconds),
        share_of_not_ahead: None,
        reads_a_64k: used.map(|((before, _), (after, _))| {
            after.saturating_sub(before) as f64 * READ_BYTES / all.bytes.max(1) as f64
        }),
        cpu_ns_per_message: used
            .map(|((_, before), (_, after))| after.saturating_sub(before) as f64 / messages.max(1) as f64),
    })
}

/// Checks that a body is the next one of the stream.
fn expect(next: &mut u64, filling: &Filling, body: &[u8]) -> Result<(), String> {
    match Stamp::read(body) {
        Some(stamp) if stamp.sequence == *next && body.len() == filling.size as usize => {
            *next += 1;
            Ok(())
        }
        Some(stamp) => Err(format!("{}: message {} came, not {next}", filling.stream, stamp.sequence)),
        None => Err(format!("{}: something came that nobody wrote", filling.stream)),
    }
}

/// Reads all of a stream by one subscription that may be sent `credit` chunks at first; half as many are given at a time.
///
/// # Errors
/// In words for people: the connection is gone, or something came that was not written.
pub fn read_native(uri: &Uri, filling: &Filling, credit: u16) -> Result<Got, String> {
    let mut native = Native::open(uri)?;
    let mut got = Got::default();
    let start = Instant::now();
    native.begin(&Request::Subscribe {
        subscription_id: 0,
        stream: filling.stream.as_bytes(),
        offset: OffsetSpec::First,
        credit,
        properties: List::default(),
    });
    let mut giving = Giving::new((credit / 2).max(1));
    while got.messages < filling.messages() {
        let mut wrong = Ok(());
        native.turn_reading(&mut giving, |event| match event {
            NativeEvent::Chunk(deliver) if wrong.is_ok() => {
                got.chunks += 1;
                got.bytes += deliver.chunk.header.stored_len();
                wrong = deliver.chunk.check_crc().map_err(|error| error.to_string());
                for entry in deliver.chunk.entries() {
                    match entry.as_ref().map(|entry| entry.content()) {
                        Ok(Content::Message(message)) if wrong.is_ok() => {
                            wrong = expect(&mut got.messages, filling, body(message));
                        }
                        Ok(Content::Message(_)) => {}
                        _ => wrong = Err("something came that nobody wrote".to_owned()),
                    }
                }
            }
            NativeEvent::Answered(code, _) if !code.is_ok() => {
                wrong = Err(format!("no subscription: {code}"))
            }
            _ => {}
        })?;
        wrong?;
    }
    got.lasted = start.elapsed();
    native.close();
    Ok(got)
}

/// A consumer's progress through a stream.
struct Coming<'a> {
    filling: &'a Filling,
    next: u64,
    unsettled: u32,
    wrong: Result<(), String>,
}

impl Happenings for Coming<'_> {
    fn confirmed(&mut self, _first: u64, _last: u64) {}
    fn confirmed_up_to(&mut self, _last: u64) {}
    fn refused(&mut self, _first: u64, _last: u64, _why: &str) {}
    fn returned(&mut self, _why: &str) {}

    #[inline]
    fn delivered(&mut self, _queue: usize, _is_redelivered: bool, body: &[u8]) {
        self.unsettled += 1;
        if self.wrong.is_ok() {
            self.wrong = expect(&mut self.next, self.filling, body);
        }
    }
}

/// Reads all of a stream by one consumer over AMQP 0-9-1.
fn read_messages(uri: &Uri, filling: &Filling) -> Result<Got, String> {
    let mut socket = connect(uri)?;
    socket.set_read_timeout(Some(Duration::from_secs(60))).map_err(|error| error.to_string())?;
    let purpose = Purpose::Consume {
        queues: vec![filling.stream.clone()],
        credit: PREFETCH,
        is_replay: true,
        selector: None,
    };
    let started = Instant::now();
    let now = || Now { mono_ns: started.elapsed().as_nanos() as u64, wall_ms: 0 };
    let mut wire = Amqp091::new(now(), uri, purpose)?;
    let mut coming = Coming { filling, next: 0, unsettled: 0, wrong: Ok(()) };
    let mut buffer = vec![0; worker::READ];
    let (mut filled, mut first) = (0, None);
    let broken = |error: std::io::Error| format!("the connection broke: {error}");
    while coming.next < filling.messages() {
        end::flush(wire.output(), &mut socket).map_err(broken)?;
        let asked = Instant::now();
        let count = socket.read(&mut buffer[filled..]).map_err(broken)?;
        if count == 0 {
            return Err("the broker closed the connection".to_owned());
        }
        let end = filled + count;
        let taken = wire.input(now(), &buffer[..end], &mut coming)?;
        std::mem::replace(&mut coming.wrong, Ok(()))?;
        buffer.copy_within(taken..end, 0);
        filled = end - taken;
        if coming.next > 0 {
            // From when it was waited for.
            first.get_or_insert(asked);
        }
        if coming.unsettled >= PREFETCH / 2 {
            coming.unsettled = 0;
            wire.settle(now());
        }
    }
    let lasted = first.map_or(Duration::ZERO, |first| first.elapsed());
    wire.close(now());
    // The work is done: an error now changes nothing.
    let _ = end::flush(wire.output(), &mut socket);
    Ok(Got { messages: coming.next, lasted, ..Got::default() })
}

/// The table: a line for each size and count, a column for each way of reading.
pub fn text(cells: &[Cell]) -> String {
    let mut ways: Vec<(Protocol, Option<bool>)> = Vec::new();
    let mut lines: Vec<(u32, u32)> = Vec::new();
    for cell in cells {
        let (way, line) = ((cell.protocol, cell.read_ahead), (cell.size, cell.messages_a_chunk));
        ways.extend((!ways.contains(&way)).then_some(way));
        lines.extend((!lines.contains(&line)).then_some(line));
    }
    let mut header = vec!["bytes".to_owned(), "a chunk".to_owned()];
    for (protocol, read_ahead) in &ways {
        let way = match read_ahead {
            Some(true) => " ahead",
            Some(false) => " not ahead",
            None => "",
        };
        header.extend([format!("{}{way}/s", name(*protocol)), "reads/64K".to_owned(), "CPU ns".to_owned()]);
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|&(size, messages_a_chunk)| {
            let mut row = vec![size.to_string(), messages_a_chunk.to_string()];
            for way in &ways {
                let found = cells.iter().find(|cell| {
                    (cell.protocol, cell.read_ahead) == *way
                        && (cell.size, cell.messages_a_chunk) == (size, messages_a_chunk)
                });
                let or = |figure: Option<f64>, digits: usize| {
                    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
                };
                row.push(found.map_or_else(|| "-".to_owned(), |cell| count(cell.per_second)));
                row.push(or(found.and_then(|cell| cell.reads_a_64k), 2));
                row.push(or(found.and_then(|cell| cell.cpu_ns_per_message), 0));
            }
            row
        })
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut text = table(&header, &rows);
    text.push_str(&verdict(cells));
    for cell in cells {
        let Some(chunks) =
            cell.chunks.filter(|chunks| chunks * u64::from(cell.messages_a_chunk) != cell.messages)
        else {
            continue;
        };
        let each = cell.messages as f64 / chunks.max(1) as f64;
        let _ = writeln!(
            text,
            "{} bytes, {} a chunk: the broker made chunks of {each:.1} of them",
            cell.size, cell.messages_a_chunk
        );
    }
    text
}

/// Where reading ahead costs more than it may.
fn verdict(cells: &[Cell]) -> String {
    let share = |cell: &&Cell| cell.share_of_not_ahead;
    let compared: Vec<&Cell> = cells.iter().filter(|cell| share(cell).is_some()).collect();
    let Some(least) = compared.iter().filter_map(share).min_by(f64::total_cmp) else { return String::new() };
    let percent = SHARE_MIN * 100.0;
    let mut text = String::new();
    let behind: Vec<&&Cell> = compared.iter().filter(|cell| share(cell) < Some(SHARE_MIN)).collect();
    let judged = if behind.is_empty() { "held" } else { "MISSED" };
    let _ = writeln!(
        text,
        "reading ahead keeps at least {:.0} % of the rate without it ({percent:.0} % asked for): {judged}",
        least * 100.0
    );
    for cell in behind {
        let (way, kept) = (name(cell.protocol), share(cell).unwrap_or_default() * 100.0);
        let _ = writeln!(text, "{} bytes, {} a chunk, {way}: {kept:.0} %", cell.size, cell.messages_a_chunk);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_added_where_a_cell_is_missed() {
        let rounds =
            |wanted, missed_until| (0..).find(|rounds| !goes_on(*rounds, wanted, || *rounds < missed_until));
        assert_eq!((rounds(3, 0), rounds(3, 4), rounds(3, 99)), (Some(3), Some(5), Some(9)));
        assert_eq!((rounds(12, 99), rounds(8, 99)), (Some(12), Some(9)));
    }

    #[test]
    fn cells_have_as_many_bytes_each() {
        for (size, per_frame, frames) in [(12, 1, 14_563), (1024, 384, 2), (1024, 384, 2)] {
            let written = Written::plan(size, per_frame, 4 << 20);
            assert_eq!(written.fillings.len(), STREAMS as usize);
            assert_eq!(written.fillings[0].frames, frames, "{size} {per_frame}");
        }
        assert_eq!(Written::plan(1024, 384, 1).fillings[3].messages(), 384);
    }

    #[test]
    fn what_comes_is_checked() {
        let filling = Filling { stream: "s".to_owned(), size: 12, per_frame: 1, frames: 9 };
        let stamp = |sequence| Stamp { publisher: 0, sequence, sent_us: 0 }.bytes();
        let mut next = 3;
        assert!(expect(&mut next, &filling, &stamp(2)).is_err());
        assert!(expect(&mut next, &filling, b"short").is_err());
        assert!(expect(&mut next, &Filling { size: 13, ..filling.clone() }, &stamp(3)).is_err());
        assert_eq!((expect(&mut next, &filling, &stamp(3)), next), (Ok(()), 4));
    }

    #[test]
    fn the_table_has_a_column_for_each_way() {
        let cell = |messages_a_chunk, read_ahead| Cell {
            messages_a_chunk,
            size: 12,
            protocol: Protocol::Stream,
            read_ahead,
            messages: 100,
            chunks: Some(50),
            bytes: 1000,
            seconds: 0.5,
            per_second: 2000.0,
            share_of_not_ahead: None,
            reads_a_64k: Some(0.25),
            cpu_ns_per_message: None,
        };
        let text = text(&[cell(1, Some(true)), cell(2, Some(true)), cell(1, Some(false))]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["12", "1", "2,000", "0.25", "-", "2,000", "0.25", "-"], "{text}");
        assert_eq!(lines[2], ["12", "2", "2,000", "0.25", "-", "-", "-", "-"], "{text}");
        assert!(lines[3].contains(&"2.0") && lines.len() == 5, "{text}");
        let compared = |share| Cell { share_of_not_ahead: Some(share), ..cell(1, Some(true)) };
        let held = super::text(&[compared(0.96), compared(1.2)]);
        assert!(held.contains("at least 96 % of the rate without it (95 % asked for): held"), "{held}");
        let missed = super::text(&[compared(0.96), compared(0.944)]);
        assert!(missed.contains("MISSED\n12 bytes, 1 a chunk, native: 94 %"), "{missed}");
        // Rounds with and without are compared one by one.
        let round = |read_ahead, per_second| Cell { per_second, ..cell(1, Some(read_ahead)) };
        let rounds = [
            round(true, 99.0),
            round(false, 100.0),
            round(false, 50.0),
            round(true, 49.5),
            round(true, 20.0),
            round(false, 40.0),
        ];
        let ahead = middle(&rounds, Protocol::Stream, Some(true)).unwrap();
        assert_eq!((ahead.per_second, ahead.share_of_not_ahead), (49.5, Some(0.99)));
        let not = middle(&rounds, Protocol::Stream, Some(false)).unwrap();
        assert_eq!((not.per_second, not.share_of_not_ahead), (50.0, None));
        assert!(middle(&rounds, Protocol::Amqp091, Some(true)).is_none());
    }
}
