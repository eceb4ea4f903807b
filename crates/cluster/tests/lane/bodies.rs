//! Bodies of all lengths, and the window.

use crate::bench::{End, Told, open, talk};
use base::{Buffer, Memory, Random};
use cluster::lane::{Bounds, Kind, Limits, Outgoing, Refusal, RefusalCode, Unsent};

/// Small bounds, of which tests reach all.
fn small() -> Limits {
    let bounds = Bounds { frame_bytes_max: 4096, entry_bytes_max: 1 << 20, window_bytes: 1 << 14 };
    Limits { bounds, waiting_bytes_max: 1 << 16, ..Limits::default() }
}

fn memory(len: usize, seed: u64) -> Memory {
    let mut buffer = Buffer::default();
    Random::new(seed).fill(buffer.extend_zeroed(len));
    buffer.seal()
}

fn body(len: usize, seed: u64) -> (Outgoing, Vec<u8>) {
    let memory = memory(len, seed);
    let mut body = Outgoing::default();
    body.extend_from(&memory, 0..len);
    (body, memory.to_vec())
}

fn say(end: &mut End, body: Outgoing) {
    end.lane.send(end.now, Kind::Consensus, body).unwrap();
}

#[test]
fn bodies_of_any_length_arrive_in_order() {
    let piece = 4096 - 20;
    let lengths = [0, 1, piece - 1, piece, piece + 1, 2 * piece, 0, 1 << 14, 1 << 15, 1 << 20, 3];
    for step in [1, 100, usize::MAX] {
        let (mut one, mut other) = open(small());
        let mut expected = Vec::new();
        for (seed, len) in lengths.into_iter().enumerate() {
            let (body, bytes) = body(len, seed as u64);
            expected.push(bytes);
            say(&mut one, body);
            talk(&mut one, &mut other, step);
        }
        assert!(other.bodies() == expected, "in steps of {step}");
        assert_eq!((other.lane.bytes_held(), other.lane.capacity()), (0, 0));
        assert!(one.lane.bytes_ahead() < 1 << 12);
    }
}

#[test]
fn bodies_of_both_kinds_arrive_as_what_they_were_sent() {
    let (mut one, mut other) = open(small());
    let kinds = [Kind::State, Kind::Consensus, Kind::Consensus, Kind::State];
    for (seed, kind) in (0..).zip(kinds) {
        let (body, _) = body(10_000, seed);
        one.lane.send(one.now, kind, body).unwrap();
    }
    talk(&mut one, &mut other, 1000);
    assert_eq!((other.kinds.as_slice(), other.bodies().len()), (&kinds[..], 4));
}

#[test]
fn a_body_of_several_parts_is_one() {
    let (mut one, mut other) = open(Limits::default());
    let memory = memory(3 << 20, 1);
    let mut body = Outgoing::new(b"head".to_vec());
    body.extend_from(&memory, 10..2 << 20);
    body.extend(b"head of the second");
    body.extend_from(&memory, 1 << 20..3 << 20);
    say(&mut one, body);
    assert!(one.lane.output().capacity() < 64 << 10, "ranges are not copied");
    talk(&mut one, &mut other, usize::MAX);
    let expected = [b"head", &memory[10..2 << 20], b"head of the second", &memory[1 << 20..]].concat();
    assert!(other.bodies() == [expected]);
    assert!(memory.recycle().is_some(), "nobody holds it any more");
}

#[test]
fn both_ends_may_send_bodies_beyond_the_window_at_once() {
    let (mut one, mut other) = open(small());
    let mut expected = [Vec::new(), Vec::new()];
    for seed in 0..3 {
        for (end, expected) in [&mut one, &mut other].into_iter().zip(&mut expected) {
            let (body, bytes) = body(20_000, seed);
            expected.push(bytes);
            say(end, body);
        }
    }
    talk(&mut one, &mut other, 1000);
    assert!(other.bodies() == expected[0] && one.bodies() == expected[1]);
}

#[test]
fn a_sender_stops_at_the_window_until_bodies_are_released() {
    let (mut one, mut other) = open(small());
    other.releases = false;
    let mut sent = 0;
    let unsent = loop {
        let (body, _) = body(1000, 1);
        match one.lane.send(one.now, Kind::Consensus, body) {
            Ok(()) => sent += 1,
            Err(unsent) => break unsent,
        }
    };
    assert!(matches!(&unsent, Unsent::Full(body) if body.len() == 1000), "{unsent}");
    assert!(one.lane.output().len() <= 1 << 14);
    talk(&mut one, &mut other, usize::MAX);
    let came = other.charges.len();
    assert_eq!((came, other.lane.bytes_held()), ((1 << 14) / 1020, (came * 1020) as u64));
    assert_eq!(one.told, []);
    // One is not enough for a count, a quarter of the window is.
    let mut released = 0;
    while other.charges.len() > came - released {
        let charge = other.charges.pop().unwrap();
        other.lane.release(other.now, charge);
    }
    while one.told.is_empty() {
        let charge = other.charges.pop().unwrap();
        other.lane.release(other.now, charge);
        released += 1;
        talk(&mut one, &mut other, usize::MAX);
    }
    assert_eq!((released, one.told.as_slice()), (5, &[Told::Room][..]));
    assert!(one.lane.bytes_ahead() <= 1 << 14);
    other.releases = true;
    for charge in std::mem::take(&mut other.charges) {
        other.lane.release(other.now, charge);
    }
    talk(&mut one, &mut other, usize::MAX);
    assert_eq!((other.bodies().len(), other.lane.bytes_held()), (sent, 0));
    assert_eq!(one.told, [Told::Room], "it is told once");
}

#[test]
fn a_body_too_long_for_either_end_is_not_sent() {
    let (mut one, _) = open(small());
    let (body, _) = body((1 << 20) + 1, 1);
    let unsent = one.lane.send(one.now, Kind::Consensus, body).unwrap_err();
    assert!(matches!(unsent, Unsent::TooLong(_)), "{unsent}");
    assert!(one.lane.output().is_empty());
}

#[test]
fn nothing_is_sent_on_a_lane_that_is_not_open() {
    let (mut one, mut other) = open(small());
    one.lane.refuse(one.now, &Refusal::new(RefusalCode::FAULT, "over"));
    for end in [&mut one, &mut crate::bench::Setup::node(4).dialer()] {
        let unsent = end.lane.send(end.now, Kind::Consensus, Outgoing::default()).unwrap_err();
        assert!(matches!(unsent, Unsent::NotOpen(_)), "{unsent}");
    }
    talk(&mut one, &mut other, usize::MAX);
    assert!(one.lane.is_closed() && other.lane.is_closed());
}

#[test]
fn a_frame_half_written_is_finished_before_the_refusal() {
    let (mut one, mut other) = open(small());
    let (body, bytes) = body(9000, 1);
    say(&mut one, body);
    let first = one.lane.output().to_vec()[..100].to_vec();
    one.lane.sent(one.now, 100);
    one.lane.refuse(one.now, &Refusal::new(RefusalCode::FAULT, "over"));
    other.take(&first, usize::MAX);
    talk(&mut one, &mut other, usize::MAX);
    assert_eq!(other.told, [Told::Body(bytes), Told::Refused(RefusalCode::FAULT, true)]);
}

/// Both ends say, write, release and wait as the dice fall, with bytes in pieces.
#[test]
fn no_order_of_things_loses_a_body_or_stalls() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (one, other) = open(small());
        let mut ends = [one, other];
        let mut expected = [Vec::new(), Vec::new()];
        ends.iter_mut().for_each(|end| end.releases = false);
        for ms in 0..400 {
            let at = random.below(2) as usize;
            let [end, peer] = &mut ends;
            let (end, peer) = if at == 0 { (end, peer) } else { (peer, end) };
            match random.below(6) {
                0 => {
                    let len = if random.one_in(3) { random.below(40_000) } else { random.below(500) };
                    let (body, bytes) = body(len as usize, random.bits());
                    if end.lane.send(end.now, Kind::Consensus, body).is_ok() {
                        expected[at].push(bytes);
                    }
                }
                1 | 2 => {
                    let bytes = end.lane.output().to_vec();
                    let count = random.between(0, bytes.len() as u64) as usize;
                    end.lane.sent(end.now, count);
                    peer.take(&bytes[..count], 1 + random.below(5000) as usize);
                }
                3 | 4 => {
                    let count = random.between(0, end.charges.len() as u64) as usize;
                    for charge in end.charges.drain(..count).collect::<Vec<_>>() {
                        end.lane.release(end.now, charge);
                    }
                }
                _ => end.pass(ms),
            }
            for end in &ends {
                assert!(end.lane.output().len() <= (1 << 14) + 3 * 28, "seed {seed}");
                assert!(end.lane.bytes_held() <= 1 << 14, "seed {seed}");
            }
        }
        let [one, other] = &mut ends;
        for end in [&mut *one, &mut *other] {
            end.releases = true;
            std::mem::take(&mut end.charges).into_iter().for_each(|charge| end.lane.release(end.now, charge));
        }
        talk(one, other, usize::MAX);
        assert!(other.bodies() == expected[0] && one.bodies() == expected[1], "seed {seed}");
        assert!(one.lane.is_open() && other.lane.is_open(), "seed {seed}");
        assert_eq!([one.lane.bytes_held(), other.lane.bytes_held()], [0, 0], "seed {seed}");
    }
}
