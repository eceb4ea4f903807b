//! The cost of hostile bytes: any N bytes of a peer that has logged in take at most 32 N bytes of memory, and linear time.
//!
//! Memory is all that the process allocates, the broker's part of this harness included, so there is one test here: a
//! second would be counted with it.

#[path = "session_fuzz/frames091.rs"]
#[allow(dead_code, reason = "of these only the login is used")]
mod frames091;
#[path = "session_fuzz/frames10.rs"]
#[allow(dead_code, reason = "of these only the login is used")]
mod frames10;
mod harness;
#[path = "session_fuzz/judge.rs"]
#[allow(dead_code, reason = "the frames know it")]
mod judge;

use harness::World;
use message::amqp10::Encoder;
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

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

fn frame091(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&[kind][..], &channel.to_be_bytes(), &len, payload, b"\xce"].concat()
}

/// A publish to `exchange` whose header table holds these fields.
fn publish091(exchange: &str, fields: &[u8]) -> Vec<u8> {
    let name = [&[exchange.len() as u8][..], exchange.as_bytes()].concat();
    let method = [&b"\0\x3c\0\x28\0\0"[..], &name, b"\x02q0\x01"].concat();
    let len = (fields.len() as u32).to_be_bytes();
    let header = [&b"\0\x3c\0\0\0\0\0\0\0\0\0\0\x20\0"[..], &len, fields].concat();
    [frame091(1, 1, &method), frame091(2, 1, &header)].concat()
}

/// A table in a table, as deep as tables may be; `letter` `F` or `A`.
fn nested091(letter: u8) -> Vec<u8> {
    let mut inner = Vec::new();
    for _ in 0..29 {
        let len = (inner.len() as u32).to_be_bytes();
        let name = if letter == b'F' { &b"\0"[..] } else { b"" };
        inner = [name, &[letter], &len, &inner].concat();
    }
    [&b"\x01n"[..], &[letter], &(inner.len() as u32).to_be_bytes(), &inner].concat()
}

fn frame10(body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u32 + 8).to_be_bytes();
    [&size[..], b"\x02\0\0\0", body].concat()
}

/// A performative of raw fields.
fn performative10(code: u8, count: u8, fields: &[u8]) -> Vec<u8> {
    let size = (fields.len() as u32 + 4).to_be_bytes();
    let count = u32::from(count).to_be_bytes();
    frame10(&[&[0, 0x53, code, 0xd0][..], &size, &count, fields].concat())
}

/// A sender on handle 0 to this address.
fn sender10(address: &str) -> Vec<u8> {
    let address = [&[0xa1, address.len() as u8][..], address.as_bytes()].concat();
    let target = [&[0, 0x53, 0x29, 0xc0, address.len() as u8 + 1, 1][..], &address].concat();
    let fields = [&b"\xa1\x01s\x43\x42\x40\x40\0\x53\x28\x45"[..], &target, b"\x40\x40\x43"].concat();
    performative10(0x12, 10, &fields)
}

/// A settled transfer on handle 0 of a message of these sections.
fn transfer10(id: u32, sections: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let fields = [&b"\x43\x70"[..], &id, b"\xa0\x01t\x43\x41"].concat();
    let performative = performative10(0x14, 5, &fields);
    let body = [&performative[8..], sections].concat();
    frame10(&body)
}

/// A map section of equal pairs, as many as fit into `len` bytes, and a body.
fn sections10(code: u8, key: &[u8], value: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.descriptor(code.into());
    let mut map = encoder.map();
    for _ in 0..len / (key.len() + value.len()) {
        encoder.encoding(key);
        map.field(&encoder);
        encoder.encoding(value);
        map.field(&encoder);
    }
    encoder.close(map);
    bytes.extend_from_slice(b"\0\x53\x75\xa0\x01b");
    bytes
}

/// Four thousand million elements in ten bytes.
const ENDLESS_ARRAY: &[u8] = &[0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x41];

/// The frames that are sent first, and those sent again and again then; `true`: over 1.0.
fn rows() -> Vec<(&'static str, bool, Vec<u8>, Vec<u8>)> {
    let nothing = Vec::new;
    let repeat = |bytes: &[u8], count: usize| bytes.repeat(count);
    let mut rows = vec![
        ("fields of two bytes", false, nothing(), publish091("", &repeat(b"\0V", 8_000))),
        (
            "fields of two bytes, for a headers exchange",
            false,
            nothing(),
            publish091("amq.headers", &repeat(b"\0V", 8_000)),
        ),
        ("an array of elements of one byte", false, nothing(), {
            let array = [&b"\x01aA"[..], &16_000_u32.to_be_bytes(), &repeat(b"V", 16_000)].concat();
            publish091("", &array)
        }),
        ("tables as deep as they may be", false, nothing(), publish091("", &repeat(&nested091(b'F'), 60))),
        ("arrays as deep as they may be", false, nothing(), publish091("", &repeat(&nested091(b'A'), 60))),
        ("publishes of nothing, returned", false, nothing(), {
            let publish = frame091(1, 1, b"\0\x3c\0\x28\0\0\0\x01x\x01");
            [publish, frame091(2, 1, b"\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0")].concat()
        }),
        ("channels that come and go", false, nothing(), {
            [frame091(1, 5, b"\0\x14\0\x0a\0"), frame091(1, 5, b"\0\x14\0\x28\0\xc8\0\0\0\0\0")].concat()
        }),
        ("passive declares", false, nothing(), frame091(1, 1, b"\0\x32\0\x0a\0\0\x02q0\x01\0\0\0\0")),
        ("heartbeats", false, nothing(), frame091(8, 0, b"")),
        (
            "sixteen megabytes announced",
            false,
            {
                let publish = frame091(1, 1, b"\0\x3c\0\x28\0\0\0\x02q0\0");
                [publish, frame091(2, 1, b"\0\x3c\0\0\0\0\0\0\x01\0\0\0\0\0")].concat()
            },
            frame091(8, 0, b""),
        ),
        ("sessions that come and go", true, nothing(), {
            let begin = [0, 0, 0, 20, 2, 0, 0, 2, 0, 0x53, 0x11, 0xc0, 7, 4, 0x40, 0x43, 0x52, 9, 0x52, 9];
            let end = [0, 0, 0, 12, 2, 0, 0, 2, 0, 0x53, 0x17, 0x45];
            [&begin[..], &end].concat()
        }),
        (
            "links that come and go",
            true,
            nothing(),
            [sender10("/queues/q0"), performative10(0x16, 2, b"\x43\x41")].concat(),
        ),
        (
            "links refused",
            true,
            nothing(),
            [sender10("/queues/none"), performative10(0x16, 2, b"\x43\x41")].concat(),
        ),
        (
            "dispositions of everything",
            true,
            nothing(),
            performative10(0x15, 5, b"\x41\x43\x70\xff\xff\xff\xff\x41\0\x53\x24\x45"),
        ),
        ("flows that want an answer", true, sender10("/queues/q0"), {
            performative10(0x13, 10, b"\x43\x52\x64\x43\x52\x64\x43\x43\x43\x40\x42\x41")
        }),
        ("an attach with properties of no use", true, nothing(), {
            let mut fields = b"\xa1\x01p\x43\x42\x40\x40\0\x53\x28\x45\0\x53\x29\x45\x40\x40\x43".to_vec();
            // max-message-size and capabilities, then the map.
            fields.extend_from_slice(b"\x40\x40\x40");
            let pairs = repeat(b"\xa3\x00\x40", 4000);
            fields.push(0xd1);
            fields.extend_from_slice(&(pairs.len() as u32 + 4).to_be_bytes());
            fields.extend_from_slice(&8000_u32.to_be_bytes());
            fields.extend_from_slice(&pairs);
            [performative10(0x12, 14, &fields), performative10(0x16, 2, b"\x43\x41")].concat()
        }),
    ];
    for (name, address, sections) in [
        ("properties of three bytes", "/queues/q0", sections10(0x74, b"\xa1\0", b"\x40", 16_000)),
        (
            "properties of three bytes, for a headers exchange",
            "/exchanges/amq.headers",
            sections10(0x74, b"\xa1\0", b"\x40", 16_000),
        ),
        ("annotations of endless arrays", "/queues/q0", {
            sections10(0x72, b"\xa3\x02x-", ENDLESS_ARRAY, 16_000)
        }),
        ("a list of endless arrays", "/queues/q0", {
            let list = repeat(ENDLESS_ARRAY, 1600);
            let size = (list.len() as u32 + 4).to_be_bytes();
            [&b"\0\x53\x77\xd0"[..], &size, &1600_u32.to_be_bytes(), &list].concat()
        }),
        ("data sections of nothing", "/queues/q0", repeat(b"\0\x53\x75\xa0\0", 3200)),
        ("not a message", "/queues/q0", repeat(b"\0\x53\x75\xf0", 4000)),
    ] {
        rows.push((name, true, sender10(address), transfer10(0, &sections)));
    }
    rows
}

/// Either protocol's.
enum Judge {
    Amqp091(judge::Judge091),
    Amqp10(judge::Judge10),
}

impl Judge {
    fn new(is_10: bool) -> Judge {
        match is_10 {
            false => Judge::Amqp091(Default::default()),
            true => Judge::Amqp10(Default::default()),
        }
    }

    fn hears(&mut self, bytes: &[u8]) {
        match self {
            Judge::Amqp091(judge) => judge.hears(bytes),
            Judge::Amqp10(judge) => judge.hears(bytes),
        }
    }

    fn is_content(&self) -> bool {
        match self {
            Judge::Amqp091(judge) => judge.is_content(),
            Judge::Amqp10(judge) => judge.is_content(),
        }
    }
}

/// The processor time of this thread so far: a clock that stands while others have the processor.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("it never runs backwards")
}

/// Sends about `size` bytes of a row: bytes of memory it took at most, and how much of the processor's time.
fn cost(is_10: bool, first: &[u8], again: &[u8], size: usize) -> (usize, usize, Duration) {
    let mut world = World::new(1);
    let owner = world.connect(0);
    for bytes in frames091::login() {
        world.send(owner, &bytes);
        world.run();
    }
    world.send(owner, &frame091(1, 1, b"\0\x32\0\x0a\0\0\x02q0\x02\0\0\0\0"));
    world.run();
    let wire = world.connect(0);
    let mut judge = Judge::new(is_10);
    for bytes in if is_10 { frames10::login() } else { frames091::login() } {
        world.send(wire, &bytes);
        world.run();
        judge.hears(&world.take(wire));
    }
    let bytes = again.repeat(size.div_ceil(again.len()));
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let begin = processor_time();
    for piece in [first].into_iter().chain(bytes.chunks(PIECE)) {
        world.send(wire, piece);
        world.run();
        judge.hears(&world.take(wire));
        world.notes.clear();
    }
    let took = processor_time() - begin;
    // Else it would be the cost of bytes that nobody reads.
    assert!(judge.is_content(), "something was closed");
    (bytes.len(), MEMORY.peak_usage().saturating_sub(before), took)
}

#[test]
fn any_bytes_cost_little() {
    for (name, is_10, first, again) in rows() {
        println!("{name}");
        let least = |size| {
            let runs = [(); 3].map(|()| cost(is_10, &first, &again, size));
            let (bytes, memory, _) = runs[0];
            (bytes, memory, runs.iter().map(|run| run.2).min().unwrap_or_default())
        };
        let (few, _, quick) = least(SIZE);
        let (many, memory, slow) = least(8 * SIZE);
        let growth = memory as f64 / many as f64;
        println!("{name}: {few} bytes {quick:?}, {many} bytes {slow:?}, {growth:.1} bytes a byte");
        assert!(memory <= BASE + FACTOR * many, "{name}: {memory} bytes of memory for {many}");
        // Less than a millisecond says nothing.
        let floor = quick.max(Duration::from_millis(1));
        assert!(slow.as_secs_f64() <= SLOWER_MAX * floor.as_secs_f64(), "{name}: {quick:?}, then {slow:?}");
    }
}
