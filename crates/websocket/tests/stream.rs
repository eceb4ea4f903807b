//! Both halves against each other, every refusal, and any bytes.

use proptest::prelude::*;
use websocket::{HEADER_BYTES_MAX, Incoming, Limits, Outgoing, Role, Workshop};

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame as a client sends it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len => {
            bytes.push(0x80 | 126);
            bytes.extend((len as u16).to_be_bytes());
        }
    }
    bytes.extend(KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

struct Receiver {
    limits: Limits,
    workshop: Workshop,
    incoming: Incoming,
    out: Outgoing,
    is_closed: bool,
    carried: Vec<u8>,
}

impl Receiver {
    fn new(role: Role, may_inflate: bool) -> Receiver {
        Receiver {
            limits: Limits::default(),
            workshop: Workshop::default(),
            incoming: Incoming::new(role, may_inflate),
            out: Outgoing::new(role, may_inflate),
            is_closed: false,
            carried: Vec::new(),
        }
    }

    /// Puts in bytes, as many at once as `step` says, with room for as many.
    fn put(&mut self, bytes: &[u8], step: usize) {
        let mut wire = Vec::new();
        for part in bytes.chunks(step) {
            wire.extend_from_slice(part);
            loop {
                let mut into = vec![0; step];
                let taken =
                    self.incoming.take(&self.limits, &mut self.workshop, &mut wire, &mut into, &mut self.out);
                self.carried.extend_from_slice(&into[..taken.produced]);
                wire.drain(..taken.consumed);
                self.is_closed |= taken.is_closed;
                if !taken.is_full {
                    break;
                }
            }
            assert!(wire.len() < HEADER_BYTES_MAX, "only a header is left on the wire");
        }
    }

    /// The frames it sends of its own accord, as a server, in bytes.
    fn answers(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        self.out.take_answers(KEY, &mut wire);
        wire
    }
}

#[test]
fn streams_arrive_whatever_the_cut() {
    let mut payload = b"the same words over and over; ".repeat(400);
    payload.extend((0..70_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8));
    for (from, to) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
        for may_compress in [false, true] {
            for piece in [1, 125, 126, 1023, 5000, 66_000] {
                let mut sender = Outgoing::new(from, may_compress);
                let (mut workshop, mut wire) = (Workshop::default(), Vec::new());
                let part = &payload[..payload.len().min(piece * 50)];
                part.chunks(piece).for_each(|chunk| sender.carry(&mut workshop, chunk, KEY, &mut wire));
                if may_compress && piece == 5000 {
                    assert!(wire.len() < part.len() - 8000, "{} bytes of {}", wire.len(), part.len());
                }
                for step in [1, 2, 7, 300, 100_000] {
                    let mut receiver = Receiver::new(to, may_compress);
                    receiver.put(&wire, step);
                    assert!(receiver.carried == part && !receiver.is_closed, "{from:?} {piece} {step}");
                    assert_eq!(receiver.incoming.heap_bytes(), 0);
                }
            }
        }
    }
}

/// The payload a server carries and the frames it answers with, for the frames of a client.
fn check(may_inflate: bool, frames: &[(u8, &[u8])], carried: &[u8], answers: &[u8], is_closed: bool) {
    let bytes: Vec<u8> = frames.iter().flat_map(|(first, payload)| frame(*first, payload)).collect();
    for step in [1, 3, 1000] {
        let mut server = Receiver::new(Role::Server, may_inflate);
        server.put(&bytes, step);
        let name = format!("{frames:x?} by {step}");
        assert_eq!(server.carried, carried, "{name}");
        assert_eq!((server.answers().as_slice(), server.is_closed), (answers, is_closed), "{name}");
    }
}

#[test]
fn messages_come_in_pieces_with_pings_between() {
    check(false, &[(0x02, b"ab"), (0x89, b"hi"), (0x00, b""), (0x80, b"cd")], b"abcd", b"\x8a\x02hi", false);
    check(false, &[(0x82, b"ab"), (0x8a, b"unasked"), (0x82, b"cd")], b"abcd", b"", false);
    check(false, &[(0x89, b""), (0x89, b"b")], b"", b"\x8a\x00\x8a\x01b", false);
    check(false, &[(0x82, b"a"), (0x88, b""), (0x82, b"late")], b"a", b"\x88\x00", true);
    check(false, &[(0x88, b"\x03\xe8bye")], b"", b"\x88\x02\x03\xe8", true);
    check(false, &[(0x88, b"\x0f\xa0")], b"", b"\x88\x02\x0f\xa0", true);
}

#[test]
fn broken_rules_close_with_their_codes() {
    let check = |may_inflate, frames: &[(u8, &[u8])], code: u16| {
        let [high, low] = code.to_be_bytes();
        check(may_inflate, frames, b"", &[0x88, 2, high, low], true);
    };
    check(false, &[(0x81, b"text")], 1003);
    check(false, &[(0x80, b"no message")], 1002);
    check(false, &[(0x02, b""), (0x82, b"")], 1002);
    check(false, &[(0xc2, b"not agreed on")], 1002);
    check(true, &[(0x02, b""), (0xc0, b"")], 1002);
    check(true, &[(0xc9, b"")], 1002);
    check(false, &[(0x83, b"")], 1002);
    check(false, &[(0xa2, b"")], 1002);
    check(false, &[(0x09, b"")], 1002);
    check(false, &[(0x88, b"x")], 1002);
    check(false, &[(0x88, b"\x03\xed")], 1002);
    check(false, &[(0x88, b"\x03\xe7")], 1002);
    check(false, &[(0x88, b"\x03\xe8\xff")], 1007);
    // A block of a type that is not there.
    check(true, &[(0xc2, b"\x07")], 1007);
}

#[test]
fn inflating_has_its_turns() {
    // Blocks of ten bits in which nothing is, letters in blocks of their own, streams that end at once, messages of nothing.
    let blocks = |block: &str| -> Vec<u8> {
        let bits: Vec<u8> = block.bytes().rev().map(|bit| bit - b'0').cycle().take(8 * 60_000).collect();
        bits.chunks(8).map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
    };
    let message = |payload: &[u8]| frame(0xc2, payload);
    let rows: [(Vec<u8>, bool); 4] = [
        (message(&blocks("0000000010")), false),
        (message(&blocks("000000000001100010")), true),
        (message(&[3, 0].repeat(30_000)), false),
        (message(&[]).repeat(10_000), false),
    ];
    for (bytes, carries) in rows {
        let mut server = Receiver::new(Role::Server, true);
        let (mut wire, mut into, mut turns) = (bytes.clone(), vec![0; 256 << 10], 0);
        loop {
            let before = wire.len();
            let taken = server.incoming.take(
                &server.limits,
                &mut server.workshop,
                &mut wire,
                &mut into,
                &mut server.out,
            );
            assert!(!taken.is_closed);
            wire.drain(..taken.consumed);
            server.carried.extend_from_slice(&into[..taken.produced]);
            assert!(before - wire.len() <= 20_480, "{} at once", before - wire.len());
            if !taken.is_full {
                break;
            }
            turns += 1;
        }
        assert!(wire.is_empty() && turns >= 3, "{turns}");
        assert_eq!(!server.carried.is_empty(), carries);
        assert_eq!(server.incoming.heap_bytes(), 0);
    }
}

#[test]
fn what_is_not_masked_is_refused_and_so_is_what_is() {
    let mut server = Receiver::new(Role::Server, false);
    server.put(b"\x82\x01a", 3);
    assert_eq!((server.answers().as_slice(), server.is_closed), (&b"\x88\x02\x03\xea"[..], true));
    let mut client = Receiver::new(Role::Client, false);
    client.put(&frame(0x82, b"a"), 100);
    assert!(client.is_closed && client.carried.is_empty());
}

#[test]
fn a_bomb_is_closed_at_its_bound() {
    let mut workshop = Workshop::default();
    let mut bomb = Vec::new();
    workshop.deflate(&vec![0; 1 << 20], &mut bomb);
    assert!(bomb.len() < 5000, "{} bytes", bomb.len());
    let mut server = Receiver::new(Role::Server, true);
    server.limits.inflated_bytes_max = (1 << 20) - 1;
    server.put(&frame(0xc2, &bomb), 4096);
    assert_eq!((server.answers().as_slice(), server.is_closed), (&b"\x88\x02\x03\xf1"[..], true));
    assert!(server.carried.len() < 1 << 20);
    assert_eq!(server.incoming.heap_bytes(), 0);
    let mut server = Receiver::new(Role::Server, true);
    server.limits.inflated_bytes_max = 1 << 20;
    server.put(&frame(0xc2, &bomb), 4096);
    assert_eq!((server.carried.len(), server.is_closed), (1 << 20, false));
}

#[test]
fn frames_and_answers_are_bounded() {
    let mut server = Receiver::new(Role::Server, false);
    server.limits.frame_bytes_max = 4;
    server.put(&frame(0x82, b"1234"), 100);
    server.put(&frame(0x82, b"12345"), 100);
    assert_eq!(server.carried, b"1234");
    assert_eq!(server.answers(), b"\x88\x02\x03\xf1");
    let mut server = Receiver::new(Role::Server, false);
    for _ in 0..100 {
        server.put(&frame(0x89, &[7; 125]), 1000);
    }
    assert!(server.out.heap_bytes() <= 2 * server.limits.answers_bytes_max);
    assert_eq!(server.answers().len(), 8 * 127);
    server.put(&frame(0x89, b"again"), 1000);
    assert_eq!(server.answers(), b"\x8a\x05again");
}

#[test]
fn nothing_follows_a_close() {
    let (mut workshop, mut wire) = (Workshop::default(), Vec::new());
    let mut out = Outgoing::new(Role::Server, false);
    out.close(websocket::CloseCode::GoingAway);
    out.close(websocket::CloseCode::Normal);
    out.take_answers(KEY, &mut wire);
    out.carry(&mut workshop, b"late", KEY, &mut wire);
    out.ping(b"late", KEY, &mut wire);
    assert_eq!(wire, b"\x88\x02\x03\xe9");
}

proptest! {
    #[test]
    fn any_bytes_are_taken(
        bytes in proptest::collection::vec(prop_oneof![Just(0x82u8), Just(0xc2), Just(0x80), any::<u8>()], 0..600),
        step in 1usize..64,
    ) {
        for role in [Role::Server, Role::Client] {
            let mut receiver = Receiver::new(role, true);
            receiver.put(&bytes, step);
            prop_assert!(receiver.incoming.heap_bytes() <= 64 << 10);
            prop_assert!(receiver.out.heap_bytes() <= 4096);
        }
    }

    #[test]
    fn any_deflated_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..400), step in 1usize..500) {
        let mut receiver = Receiver::new(Role::Server, true);
        let mut wire = frame(0x42, &bytes);
        wire.extend(frame(0x80, &bytes));
        receiver.put(&wire, step);
        prop_assert!(receiver.carried.len() <= 2 * 1032 * bytes.len() + 1032);
    }
}
