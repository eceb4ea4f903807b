//! The cost of hostile bytes of a stream client: any N bytes of a peer that has logged in take at most 32 N bytes of memory, and
//! linear time.
//!
//! Memory is all that the process allocates, the broker's part of this harness included, so there is one test here: a
//! second would be counted with it.

mod harness;
mod stream_client;

use harness::World;
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use stream_client::Client;
use stream_protocol::frame::{put_command, put_request};
use stream_protocol::{Command, List, OffsetSpec, Request};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes sent at once, as a socket's read would bring them.
const PIECE: usize = 16 << 10;

/// Bytes that any connection may cost however few it sends: its buffers, one read of the socket, one answer.
const BASE: usize = 512 << 10;

/// Bytes of memory for each byte of input.
const FACTOR: usize = 32;

/// Times longer that eight times the bytes may take: eight, and a margin for a busy machine. Quadratic time is
/// sixty-four.
const SLOWER_MAX: f64 = 30.0;

/// Bytes sent for the lesser measurement.
const SIZE: usize = 128 << 10;

fn request(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_request(&mut out, 7, request);
    out
}

fn command(command: &Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_command(&mut out, command);
    out
}

/// Empty messages of a publisher whose ids follow on nothing.
fn messages(publisher_id: u8, count: u64) -> Vec<u8> {
    let mut body = vec![0, 2, 0, 1, publisher_id, 0, 0, 0, 0];
    for id in 0..count {
        body.extend((id * 2).to_be_bytes());
        body.extend([0; 4]);
    }
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// The frames that are sent again and again.
fn rows() -> Vec<(&'static str, Vec<u8>)> {
    let (stream, reference) = (&b"none"[..], &b"r"[..]);
    let (offset, properties) = (OffsetSpec::First, List::default());
    let names: Vec<Vec<u8>> = (0..6000u32).map(|number| number.to_be_bytes()[1..].to_vec()).collect();
    let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let empty = vec![&b""[..]; 8000];
    vec![
        ("messages of nobody", messages(9, 1000)),
        ("messages whose ids have gaps", messages(1, 1000)),
        ("messages, one in a frame", messages(1, 1)),
        ("a long frame", messages(1, 80_000)),
        ("names of streams", request(&Request::Metadata { streams: List::new(&names) })),
        ("empty names of streams", request(&Request::Metadata { streams: List::new(&empty) })),
        ("credit for nobody", command(&Command::Credit { subscription_id: 9, credit: 1 })),
        ("offsets for nothing", command(&Command::StoreOffset { reference, stream, offset: 1 })),
        ("statistics of nothing", request(&Request::StreamStats { stream })),
        (
            "subscriptions that come and go",
            [
                request(&Request::Subscribe {
                    subscription_id: 1,
                    stream: b"s",
                    offset,
                    credit: 0,
                    properties,
                }),
                request(&Request::Unsubscribe { subscription_id: 1 }),
            ]
            .concat(),
        ),
        (
            "publishers that come and go",
            [
                request(&Request::DeclarePublisher { publisher_id: 2, reference, stream: b"s" }),
                request(&Request::DeletePublisher { publisher_id: 2 }),
            ]
            .concat(),
        ),
    ]
}

/// The processor time of this thread so far: a clock that stands while others have the processor.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it never runs backwards")
}

/// Sends about `size` bytes of a row: how many, bytes of memory it took at most, and how much of the processor's time.
fn cost(again: &[u8], size: usize) -> (usize, usize, Duration) {
    let mut world = World::new(1);
    let mut client = Client::open(&mut world, 0);
    let stream = &b"s"[..];
    client.asks(&mut world, &Request::Create { stream, arguments: List::default() }, "Create 1");
    let declare = Request::DeclarePublisher { publisher_id: 1, reference: b"", stream };
    client.asks(&mut world, &declare, "DeclarePublisher 1");
    let bytes = again.repeat(size.div_ceil(again.len()));
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let begin = processor_time();
    for piece in bytes.chunks(PIECE) {
        world.send(client.wire, piece);
        world.run();
        world.take(client.wire);
        world.notes.clear();
    }
    let took = processor_time() - begin;
    // Else it would be the cost of bytes that nobody reads.
    assert!(!world.is_gone(client.wire), "something was closed");
    (bytes.len(), MEMORY.peak_usage().saturating_sub(before), took)
}

#[test]
fn any_bytes_cost_little() {
    for (name, again) in rows() {
        println!("{name}");
        let least = |size| {
            let runs = [(); 3].map(|()| cost(&again, size));
            let (bytes, memory, _) = runs[0];
            (bytes, memory, runs.iter().map(|run| run.2).min().unwrap_or_default())
        };
        let (few, _, quick) = least(SIZE);
        let (many, memory, slow) = least(8 * SIZE);
        let growth = memory as f64 / many as f64;
        println!("{name}: {few} bytes {quick:?}, {many} bytes {slow:?}, {growth:.1} bytes a byte");
        assert!(memory <= BASE + FACTOR * many, "{name}: {memory} bytes of memory for {many}");
        // Less than a millisecond says nothing. Bytes cut off in the middle of a long frame count for less.
        let per =
            |took: Duration, bytes: usize| took.max(Duration::from_millis(1)).as_secs_f64() / bytes as f64;
        let slower = per(slow, many) / per(quick, few) * 8.0;
        assert!(slower <= SLOWER_MAX, "{name}: {quick:?}, then {slow:?}");
    }
}
