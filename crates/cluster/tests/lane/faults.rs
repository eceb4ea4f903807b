//! Frames that break a rule of an open lane, one by one.

use crate::bench::{End, NEXT, Told, open, talk};
use cluster::lane::frame::{MORE, put};
use cluster::lane::{Bounds, Error, Kind, Limits, Outgoing, RefusalCode};

fn small() -> Limits {
    let bounds = Bounds { frame_bytes_max: 4096, entry_bytes_max: 5000, window_bytes: 1 << 14 };
    Limits { bounds, ..Limits::default() }
}

/// Gives frames `(kind, flags, number, body)` to the listener of an open lane.
fn check(frames: &[(u8, u8, u64, &[u8])], error: Error, code: RefusalCode) {
    let mut bytes = Vec::new();
    for (kind, flags, sequence, body) in frames {
        put(&mut bytes, *kind, *flags, *sequence, body);
    }
    check_bytes(&bytes, error, code);
}

fn check_bytes(bytes: &[u8], error: Error, code: RefusalCode) {
    for step in [1, 7, usize::MAX] {
        let (mut dialer, mut listener) = open(small());
        listener.releases = false;
        listener.take(bytes, step);
        assert_eq!(failure(&listener), Some(error), "in steps of {step}");
        let refusal = listener.write();
        dialer.take(&refusal, usize::MAX);
        assert_eq!(dialer.told.last(), Some(&Told::Refused(code, true)));
        assert_eq!((listener.lane.capacity(), listener.lane.poll_deadline()), (0, None));
    }
}

fn failure(end: &End) -> Option<Error> {
    match end.told.last() {
        Some(Told::Failed(error)) => Some(*error),
        _ => None,
    }
}

const CONSENSUS: u8 = Kind::Consensus as u8;

#[test]
fn gaps_and_repeats_end_the_lane() {
    let gap = |found| Error::Sequence { expected: NEXT + 1, found };
    check(&[(CONSENSUS, 0, NEXT, b"a"), (CONSENSUS, 0, NEXT + 2, b"b")], gap(NEXT + 2), RefusalCode::FAULT);
    check(&[(CONSENSUS, 0, NEXT, b"a"), (CONSENSUS, 0, NEXT, b"a")], gap(NEXT), RefusalCode::FAULT);
    check(&[(CONSENSUS, 0, NEXT, b"a"), (4, 0, 0, &[0; 8])], gap(0), RefusalCode::FAULT);
}

#[test]
fn a_wrong_checksum_ends_the_lane() {
    let mut bytes = Vec::new();
    put(&mut bytes, CONSENSUS, 0, NEXT, b"body");
    *bytes.last_mut().unwrap() ^= 1;
    check_bytes(&bytes, Error::Checksum { sequence: NEXT }, RefusalCode::FAULT);
}

#[test]
fn a_kind_that_is_not_known_ends_the_lane() {
    for kind in [0, 7, 15, 21, 255] {
        check(&[(kind, 0, NEXT, b"")], Error::UnknownKind(kind), RefusalCode::UNKNOWN_KIND);
    }
}

#[test]
fn lengths_beyond_a_bound_end_the_lane_before_the_bytes_come() {
    let long = Error::FrameLength { len: 4097, len_max: 4096 };
    check_bytes(&4097u32.to_le_bytes(), long, RefusalCode::FAULT);
    let longest = Error::FrameLength { len: u32::MAX, len_max: 4096 };
    check_bytes(&[0xff; 4], longest, RefusalCode::FAULT);
    check_bytes(&[0; 4], Error::FrameLength { len: 0, len_max: 4096 }, RefusalCode::FAULT);
}

#[test]
fn frames_out_of_place_end_the_lane() {
    check(&[(1, 0, NEXT, &[0; 8])], Error::Unexpected(Kind::Hello), RefusalCode::FAULT);
    check(&[(2, 0, NEXT, &[0; 32])], Error::Unexpected(Kind::Proof), RefusalCode::FAULT);
    check(&[(3, 0, NEXT, b"\x01\0\n")], Error::Refusal, RefusalCode::FAULT);
    check(&[(6, 0, NEXT, &[1; 8])], Error::Taken { count: 0x0101_0101_0101_0101 }, RefusalCode::FAULT);
    check(&[(5, 0, NEXT, &[0; 8])], Error::Pong { number: 0 }, RefusalCode::FAULT);
    check(&[(CONSENSUS, MORE, NEXT, b"")], Error::EmptyPiece, RefusalCode::FAULT);
    let state = Kind::State as u8;
    let between = [(CONSENSUS, MORE, NEXT, &b"a"[..]), (state, 0, NEXT + 1, b"b")];
    check(&between, Error::Unexpected(Kind::State), RefusalCode::FAULT);
}

#[test]
fn a_body_beyond_its_bound_ends_the_lane() {
    let long = Error::EntryLength { len_max: 5000 };
    let pieces = [(CONSENSUS, MORE, NEXT, &[1; 4000][..]), (CONSENSUS, 0, NEXT + 1, &[1; 1001])];
    check(&pieces, long, RefusalCode::FAULT);
}

#[test]
fn a_sender_beyond_the_window_ends_the_lane() {
    let frames: Vec<_> = (NEXT..NEXT + 5).map(|sequence| (CONSENSUS, 0, sequence, &[1; 4000][..])).collect();
    check(&frames, Error::Window { window_bytes: 1 << 14 }, RefusalCode::FAULT);
}

#[test]
fn before_the_proof_frames_are_short_and_few() {
    for (kind, body) in [(4, &[0; 8][..]), (5, &[0; 8]), (6, &[0; 8]), (16, b"body"), (2, &[0; 32])] {
        let mut listener = crate::bench::Setup::node(2).listener();
        let mut bytes = Vec::new();
        put(&mut bytes, kind, 0, 0, body);
        listener.take(&bytes, usize::MAX);
        let kind = Kind::from_number(kind).unwrap();
        assert_eq!(listener.told, [Told::Failed(Error::Unexpected(kind))]);
    }
    let mut listener = crate::bench::Setup::node(2).listener();
    let mut dialer = crate::bench::Setup::node(1).dialer();
    let hello = dialer.write();
    listener.take(&hello, usize::MAX);
    listener.take(&4097u32.to_le_bytes(), usize::MAX);
    assert_eq!(failure(&listener), Some(Error::FrameLength { len: 4097, len_max: 4096 }));
}

#[test]
fn a_peer_that_asks_and_does_not_read_costs_little() {
    let (_, mut listener) = open(small());
    for sequence in NEXT..NEXT + 10_000 {
        let mut bytes = Vec::new();
        put(&mut bytes, 4, 0, sequence, &[7; 8]);
        listener.take(&bytes, usize::MAX);
    }
    assert_eq!(listener.told, []);
    assert!(listener.lane.output().len() <= 2 * 28, "{}", listener.lane.output().len());
    assert!(listener.lane.output().capacity() <= 4096);
}

#[test]
fn a_fault_forgets_bodies_that_wait() {
    let (mut dialer, mut listener) = open(small());
    for _ in 0..10 {
        dialer.lane.send(dialer.now, Kind::Consensus, Outgoing::new(vec![1; 4000])).unwrap();
    }
    assert!(dialer.lane.capacity() > 4000);
    dialer.take(&[0; 4], usize::MAX);
    assert!(failure(&dialer).is_some());
    assert_eq!(dialer.lane.capacity(), 0);
    talk(&mut dialer, &mut listener, usize::MAX);
    assert_eq!(listener.told.last(), Some(&Told::Refused(RefusalCode::FAULT, true)));
    assert_eq!(listener.bodies().len(), 4, "what was given to the output is whole");
}
