//! Any bytes: no panic, bounded memory, the same events however the bytes are cut.

use crate::bench::{End, NEXT, Setup, Told, open, talk};
use cluster::lane::frame::put;
use cluster::lane::{Bounds, Kind, Limits, Outgoing};
use proptest::prelude::*;

/// Bounds that tests reach, and a window for a whole session: a recorded peer waits for no count.
fn small() -> Limits {
    let bounds = Bounds { frame_bytes_max: 4096, entry_bytes_max: 20_000, window_bytes: 1 << 16 };
    Limits { bounds, ..Limits::default() }
}

/// The bytes of the dialer in a session with bodies and pings, and the events of the listener.
fn session() -> (Vec<u8>, Vec<Told>) {
    let mut one = Setup::node(1).with(|one| one.limits = small()).dialer();
    let mut other = Setup::node(2).with(|other| other.limits = small()).listener();
    talk(&mut one, &mut other, usize::MAX);
    for (round, len) in [0, 10, 4000, 5000, 20_000, 7].into_iter().enumerate() {
        one.lane.send(one.now, Kind::Consensus, Outgoing::new(vec![round as u8; len])).unwrap();
        talk(&mut one, &mut other, usize::MAX);
        one.pass(1000 * round as u64);
    }
    talk(&mut one, &mut other, usize::MAX);
    (one.said, other.told)
}

/// Gives bytes to an end and answers its events.
fn fed(mut end: End, bytes: &[u8], step: usize) -> Vec<Told> {
    end.releases = false;
    end.take(bytes, step);
    // A body under way takes twice its bytes at most, rounded up to blocks.
    assert!(end.lane.capacity() <= 2 * 20_000 + 2 * 4096 + 2048, "{}", end.lane.capacity());
    assert!(end.lane.output().capacity() <= 8192, "{}", end.lane.output().capacity());
    assert!(end.lane.wanted() <= end.lane.input_max());
    end.told
}

fn listener() -> End {
    Setup::node(2).with(|node| node.limits = small()).listener()
}

/// The end of an open lane, and that of one on which nothing was said.
fn ends() -> [End; 4] {
    let (dialer, listener) = open(small());
    let fresh = |number: u16| Setup::node(number).with(|node| node.limits = small());
    [dialer, listener, fresh(1).dialer(), fresh(2).listener()]
}

#[test]
fn a_session_is_the_same_however_it_is_cut() {
    let (dialers, expected) = session();
    assert!(expected.len() == 7, "{}", expected.len());
    for step in [1, 2, 19, 20, 21, 1000, 5000, usize::MAX] {
        let mut listener = listener();
        listener.take(&dialers, step);
        assert!(listener.told == expected, "in steps of {step}");
    }
}

/// Kind, flags and body of a frame, most of them right.
fn frame() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let consensus = (0u8..2, 0usize..4077, any::<u8>());
    prop_oneof![
        20 => consensus.prop_map(|(flags, len, byte)| (16, flags, vec![byte; len])),
        5 => any::<u64>().prop_map(|number| (4, 0, number.to_le_bytes().to_vec())),
        1 => (0u8..20, 0u8..3, prop::collection::vec(any::<u8>(), 0..40)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), step in 1usize..40) {
        for (end, again) in ends().into_iter().zip(ends()) {
            prop_assert_eq!(fed(end, &bytes, step), fed(again, &bytes, usize::MAX));
        }
    }

    #[test]
    fn any_frames_do_no_harm(
        frames in prop::collection::vec(frame(), 0..30),
        skipped in prop::option::of(0usize..60),
        step in 1usize..5000,
    ) {
        let mut bytes = Vec::new();
        for (at, (kind, flags, body)) in frames.iter().enumerate() {
            let is_skipped = skipped.is_some_and(|skipped| at >= skipped);
            put(&mut bytes, *kind, *flags, NEXT + at as u64 + u64::from(is_skipped), body);
        }
        for (end, again) in ends().into_iter().zip(ends()) {
            prop_assert_eq!(fed(end, &bytes, step), fed(again, &bytes, usize::MAX));
        }
    }

    #[test]
    fn a_changed_session_does_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..4), 1..4),
        step in 1usize..5000,
    ) {
        let (mut bytes, expected) = session();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => _ = bytes.remove(at),
                _ => bytes.truncate(at + 1),
            }
        }
        let told = fed(listener(), &bytes, step);
        prop_assert_eq!(&told, &fed(listener(), &bytes, usize::MAX));
        // A change is found: all that is told before is right.
        let right = told.iter().take_while(|told| !matches!(told, Told::Failed(_) | Told::Refused(..)));
        prop_assert!(right.zip(&expected).all(|(told, expected)| told == expected));
    }
}
