//! Frames of an AMQP 0-9-1 client: those it may send, in any order, and some it may not.

use crate::judge::Judge091;
use base::random::Random;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

/// The login of a client, in pieces that each wait for an answer, and two open channels.
pub fn login() -> Vec<Vec<u8>> {
    let start_ok = [&b"\0\x0a\0\x0b\0\0\0\0\x05PLAIN\0\0\0\x0c\0guest\0guest"[..], b"\x05en_US"].concat();
    let (mut answer, mut open) = (Vec::new(), Vec::new());
    frame(METHOD, 0, &start_ok, &mut answer);
    frame(METHOD, 0, b"\0\x0a\0\x1f\0\x07\0\x02\0\0\0\0", &mut open);
    frame(METHOD, 0, b"\0\x0a\0\x28\x01/\0\0", &mut open);
    let mut channels = Vec::new();
    for channel in [1, 2] {
        frame(METHOD, channel, b"\0\x14\0\x0a\0", &mut channels);
    }
    // The first confirms.
    frame(METHOD, 1, b"\0\x55\0\x0a\0", &mut channels);
    vec![b"AMQP\0\0\x09\x01".to_vec(), answer, open, channels]
}

fn frame(kind: u8, channel: u16, payload: &[u8], into: &mut Vec<u8>) {
    into.push(kind);
    into.extend_from_slice(&channel.to_be_bytes());
    into.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    into.extend_from_slice(payload);
    into.push(0xce);
}

/// Methods a client sends: class, number, and the kinds of their arguments in order: `b` bits that share an octet, `h` two
/// octets, `w` four, `q` eight, `n` a queue's name, `x` an exchange's, `k` a key or tag, `d` the bits of a declaration, `e` a kind of exchange, `s` a long string, `t` a table.
const METHODS: [(u16, u16, &str); 31] = [
    (20, 10, "k"),
    (20, 20, "b"),
    (20, 40, "hkhh"),
    (20, 41, ""),
    (30, 10, "kb"),
    (40, 10, "hxedt"),
    (40, 20, "hxb"),
    (40, 30, "hxxkbt"),
    (40, 40, "hxxkbt"),
    (50, 10, "hndt"),
    (50, 20, "hnxkbt"),
    (50, 30, "hnb"),
    (50, 40, "hnb"),
    (50, 50, "hnxkt"),
    (60, 10, "whb"),
    (60, 20, "hnkbt"),
    (60, 30, "kb"),
    (60, 31, "k"),
    (60, 70, "hnb"),
    (60, 80, "qb"),
    (60, 90, "qb"),
    (60, 100, "b"),
    (60, 110, "b"),
    (60, 120, "qb"),
    (85, 10, "b"),
    (90, 10, ""),
    (90, 20, ""),
    (90, 30, ""),
    (10, 50, "hkhh"),
    (10, 51, ""),
    (10, 70, "sk"),
];

/// Queues and exchanges that are there, or may be.
pub const QUEUES: [&str; 3] = ["q0", "q1", "q2"];
/// See [`QUEUES`]: all of type fanout.
pub const EXCHANGES: [&str; 2] = ["x0", "x1"];
const NAMES: [&str; 12] = [
    "",
    "q0",
    "q3",
    "q4",
    "x0",
    "x2",
    "amq.direct",
    "amq.topic",
    "amq.headers",
    "amq.rabbitmq.reply-to",
    "grün",
    "amq.gen-not",
];
const KEYS: [&str; 12] =
    ["", "q0", "q1", "q2", "k", "a.b", "a.*", "#", "t1", "t2", "amq.rabbitmq.reply-to", "x.y.z"];
const KINDS: [&str; 7] = ["direct", "fanout", "topic", "headers", "", "x-unknown", "x-local-random"];
const ARGUMENTS: [&str; 16] = [
    "x-queue-type",
    "x-dead-letter-exchange",
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-priority",
    "x-single-active-consumer",
    "alternate-exchange",
    "x-match",
    "x-priority",
    "x-overflow",
    "a",
    "CC",
    "x-death",
    "",
    "x-stream-offset",
];
const TEXTS: [&str; 8] = ["classic", "quorum", "stream", "x0", "all", "any", "v", ""];

/// One of those that are there, mostly.
fn name(dice: &mut Random, known: &[&'static str]) -> &'static str {
    if dice.below(8) == 0 { pick(dice, &NAMES) } else { pick(dice, known) }
}

fn pick<'a>(dice: &mut Random, from: &[&'a str]) -> &'a str {
    from[dice.below(from.len() as u64) as usize]
}

/// Appends one frame, or the frames of a publish.
pub fn any(dice: &mut Random, judge: &Judge091, into: &mut Vec<u8>) {
    if let Some(&channel) = judge.closing.first()
        && dice.below(4) > 0
    {
        frame(METHOD, channel, b"\0\x14\0\x29", into);
        return frame(METHOD, channel, b"\0\x14\0\x0a\0", into);
    }
    let channel = match dice.below(200) {
        0 => 0,
        1 => dice.below(10) as u16,
        _ => 1 + dice.below(2) as u16,
    };
    match dice.below(160) {
        0 => frame(8, 0, b"", into),
        1 => frame(dice.bits() as u8, channel, b"payload", into),
        2 => header(dice, channel, 4, into),
        3 => frame(BODY, channel, b"body", into),
        4 => {
            let payload: Vec<u8> = (0..dice.below(40)).map(|_| dice.bits() as u8).collect();
            frame(METHOD, channel, &payload, into);
        }
        5..=55 => publish(dice, channel, into),
        _ => {
            // A close of the connection ends a sequence early: rarely.
            let methods = if dice.below(100) == 0 { METHODS.len() } else { METHODS.len() - 3 };
            let (class, number, arguments) = METHODS[dice.below(methods as u64) as usize];
            let channel = if class == 10 && dice.below(8) > 0 { 0 } else { channel };
            method(dice, channel, class, number, arguments, into);
        }
    }
}

fn method(dice: &mut Random, channel: u16, class: u16, number: u16, arguments: &str, into: &mut Vec<u8>) {
    let mut payload = [class.to_be_bytes(), number.to_be_bytes()].concat();
    for kind in arguments.bytes() {
        argument(dice, kind, &mut payload);
    }
    frame(METHOD, channel, &payload, into);
}

fn argument(dice: &mut Random, kind: u8, into: &mut Vec<u8>) {
    let mut short = |text: &str| {
        into.push(text.len() as u8);
        into.extend_from_slice(text.as_bytes());
    };
    match kind {
        b'n' => short(name(dice, &QUEUES)),
        b'x' => short(name(dice, &["x0", "x1", "", "", "amq.fanout", "amq.topic"])),
        b'k' => short(pick(dice, &KEYS)),
        b'e' => short(if dice.below(4) == 0 { pick(dice, &KINDS) } else { "fanout" }),
        // Durable, mostly: so they are declared.
        b'd' => into.push(if dice.below(4) == 0 { dice.bits() as u8 & 31 } else { 2 }),
        b's' => into.extend_from_slice(b"\0\0\0\x06secret"),
        b't' => table(dice, 0, into),
        // Mostly few bits: passive, nowait and the like all at once say little.
        b'b' => into.push((dice.bits() & dice.bits() & dice.bits()) as u8 & 31),
        b'h' => into.extend_from_slice(&(dice.below(3) as u16).to_be_bytes()),
        b'w' => into.extend_from_slice(&[0, 0, 0, (dice.below(40) == 0).into()]),
        b'q' if dice.below(3) == 0 => into.extend_from_slice(&0_u64.to_be_bytes()),
        _ => into.extend_from_slice(&dice.below(12).to_be_bytes()),
    }
}

/// A table with its length, nested at most three deep.
fn table(dice: &mut Random, depth: u32, into: &mut Vec<u8>) {
    let at = into.len();
    into.extend_from_slice(&[0; 4]);
    let fields = if depth == 0 && dice.below(6) > 0 { 0 } else { dice.below(4) };
    for _ in 0..fields {
        let name = pick(dice, &ARGUMENTS);
        into.push(name.len() as u8);
        into.extend_from_slice(name.as_bytes());
        value(dice, depth, into);
    }
    let len = (into.len() - at - 4) as u32;
    into[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

fn value(dice: &mut Random, depth: u32, into: &mut Vec<u8>) {
    match dice.below(if depth < 3 { 10 } else { 8 }) {
        0..=2 => {
            let text = pick(dice, &TEXTS);
            into.push(b'S');
            into.extend_from_slice(&(text.len() as u32).to_be_bytes());
            into.extend_from_slice(text.as_bytes());
        }
        3 | 4 => {
            into.push(b'I');
            into.extend_from_slice(&(dice.below(2000) as i32 - 5).to_be_bytes());
        }
        5 => into.extend_from_slice(&[b't', dice.below(2) as u8]),
        6 => into.push(b'V'),
        7 => into.extend_from_slice(b"D\x02\0\0\0\x07"),
        8 => {
            into.push(b'F');
            table(dice, depth + 1, into);
        }
        _ => {
            into.push(b'A');
            let at = into.len();
            into.extend_from_slice(&[0; 4]);
            (0..dice.below(3)).for_each(|_| value(dice, depth + 1, into));
            let len = (into.len() - at - 4) as u32;
            into[at..at + 4].copy_from_slice(&len.to_be_bytes());
        }
    }
}

fn header(dice: &mut Random, channel: u16, size: u64, into: &mut Vec<u8>) {
    let mut payload = b"\0\x3c\0\0".to_vec();
    payload.extend_from_slice(&size.to_be_bytes());
    match dice.below(4) {
        0 => payload.extend_from_slice(&[0, 0]),
        1 => payload.extend_from_slice(&[0x10, 0, 2]),
        2 => {
            // headers, delivery-mode, priority, reply-to
            payload.extend_from_slice(&[0x3a, 0]);
            table(dice, 0, &mut payload);
            payload.extend_from_slice(&[1 + dice.below(2) as u8, dice.below(12) as u8]);
            argument(dice, b'k', &mut payload);
        }
        // expiration and user-id
        _ if dice.below(4) > 0 => payload.extend_from_slice(&[0, 0]),
        _ => {
            payload.extend_from_slice(&[0x01, 0x10]);
            let expiration = pick(dice, &["0", "10", "-1", "x", "99999999999"]);
            payload.push(expiration.len() as u8);
            payload.extend_from_slice(expiration.as_bytes());
            payload.extend_from_slice(if dice.below(4) == 0 { b"\x05other" } else { b"\x05guest" });
        }
    }
    frame(HEADER, channel, &payload, into);
}

fn publish(dice: &mut Random, channel: u16, into: &mut Vec<u8>) {
    method(dice, channel, 60, 40, "hxkb", into);
    let size = [0, 1, 8, 300, 5000][dice.below(5) as usize];
    header(dice, channel, size as u64, into);
    let mut left = size;
    while left > 0 {
        let len = if dice.below(2) == 0 { left } else { dice.between(1, left as u64) as usize };
        frame(BODY, channel, &vec![b'm'; len], into);
        left -= len;
        if dice.below(200) == 0 {
            return;
        }
    }
}
