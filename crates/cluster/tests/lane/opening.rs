//! Openings: good ones, and every refusal.

use crate::bench::{Setup, Told, cluster, cookie, open, talk};
use base::id::NodeNo;
use cluster::lane::{Bounds, Error, Limits, Purpose, Refusal, RefusalCode, Trust, Versions};
use cluster::names::Incarnation;

/// Opens a lane from node 1 to node 2, changed like this, and checks all that both are told.
fn check(
    what: &str,
    change: impl FnOnce(&mut Setup, &mut Setup),
    expected_dialer: &[Told],
    expected_listener: &[Told],
) {
    let (mut one, mut two) = (Setup::node(1), Setup::node(2));
    change(&mut one, &mut two);
    for step in [1, usize::MAX] {
        let (mut dialer, mut listener) = (one.dialer(), two.listener());
        talk(&mut dialer, &mut listener, step);
        assert_eq!(dialer.told, expected_dialer, "the dialer: {what}");
        assert_eq!(listener.told, expected_listener, "the listener: {what}");
        let is_open = |told: &[Told]| matches!(told, [Told::Met(_)]);
        let both = is_open(expected_dialer) && is_open(expected_listener);
        assert_eq!([dialer.lane.is_open(), listener.lane.is_open()], [both; 2], "{what}");
        assert_eq!([dialer.lane.is_closed(), listener.lane.is_closed()], [!both; 2], "{what}");
        assert_eq!(dialer.lane.poll_deadline().is_some(), both, "{what}");
    }
}

fn met(text: &str) -> Told {
    Told::Met(text.to_owned())
}

fn refused(code: RefusalCode) -> Told {
    Told::Refused(code, false)
}

#[test]
fn peers_that_may_meet_do() {
    let good = |what: &str, change: fn(&mut Setup, &mut Setup)| {
        check(what, change, &[met("rabbit@2 as lane of shard 3")], &[met("rabbit@1 as lane of shard 3")]);
    };
    good("as they are", |_, _| {});
    good("a blank node asks a cluster", |one, _| {
        one.identity.cluster = None;
        one.identity.number = NodeNo::ONLY;
    });
    good("a cluster asks a blank node", |_, two| two.identity.cluster = None);
    good("two blank nodes", |one, two| (one.identity.cluster, two.identity.cluster) = (None, None));
    good("certificates", |one, two| {
        (one.trust, two.trust) = (Trust::Certificates, Trust::Certificates);
    });
    good("one version in common", |one, two| {
        one.identity.versions = Versions { min: 1, max: 4 };
        two.identity.versions = Versions { min: 0, max: 1 };
    });
}

#[test]
fn peers_that_may_not_meet_are_refused_with_the_reason() {
    check(
        "another cookie",
        |_, two| two.trust = cookie("Monster"),
        &[refused(RefusalCode::WRONG_COOKIE)],
        &[Told::Failed(Error::Cookie)],
    );
    check(
        "another cluster",
        |one, _| one.identity.cluster = cluster(9),
        &[refused(RefusalCode::WRONG_CLUSTER)],
        &[Told::Failed(Error::Cluster { ours: cluster(1).unwrap(), theirs: cluster(9).unwrap() })],
    );
    let (ours, theirs) = (Versions { min: 4, max: 5 }, Versions { min: 1, max: 3 });
    check(
        "no version in common",
        |one, two| (one.identity.versions, two.identity.versions) = (theirs, ours),
        &[refused(RefusalCode::NO_COMMON_VERSION)],
        &[Told::Failed(Error::Versions { ours, theirs })],
    );
    for is_same_life in [true, false] {
        check(
            "the same folder",
            |one, two| {
                two.identity = one.identity.clone();
                if !is_same_life {
                    two.identity.incarnation = Incarnation(77);
                }
            },
            &[refused(RefusalCode::ONESELF)],
            &[Told::Failed(Error::Oneself { is_same_life })],
        );
    }
    check(
        "the listener has certificates, the dialer a cookie",
        |_, two| two.trust = Trust::Certificates,
        &[refused(RefusalCode::WRONG_COOKIE)],
        &[Told::Failed(Error::Cookie)],
    );
    check(
        "the dialer has certificates, the listener a cookie",
        |one, _| one.trust = Trust::Certificates,
        &[refused(RefusalCode::WRONG_COOKIE)],
        &[Told::Failed(Error::Cookie)],
    );
}

#[test]
fn a_holder_refuses_a_peer_it_has_met() {
    let answer = |code| Some(Refusal::new(code, "rabbit@1 is another folder"));
    for code in [RefusalCode::ANOTHER_FOLDER, RefusalCode::UNEXPECTED_PURPOSE, RefusalCode(700)] {
        let (mut dialer, mut listener) = (Setup::node(1).dialer(), Setup::node(2).listener());
        listener.answer = answer(code);
        talk(&mut dialer, &mut listener, usize::MAX);
        assert_eq!(dialer.told, [refused(code)]);
        assert_eq!(listener.told, [met("rabbit@1 as lane of shard 3")]);
        assert!(dialer.lane.is_closed() && listener.lane.is_closed());

        let (mut dialer, mut listener) = (Setup::node(1).dialer(), Setup::node(2).listener());
        dialer.answer = answer(code);
        talk(&mut dialer, &mut listener, usize::MAX);
        assert_eq!(listener.told, [met("rabbit@1 as lane of shard 3"), Told::Refused(code, true)]);
    }
}

#[test]
fn a_recorded_session_is_good_for_no_other() {
    let (mut dialer, mut listener) = (Setup::node(1).dialer(), Setup::node(2).listener());
    talk(&mut dialer, &mut listener, usize::MAX);
    let (dialers, listeners) = (dialer.said, listener.said);
    // The same end with the next nonce.
    let mut fresh = Setup::node(2).with(|two| two.seed = 20).listener();
    fresh.take(&dialers, usize::MAX);
    assert_eq!(fresh.told, [Told::Failed(Error::Cookie)]);
    let mut fresh = Setup::node(1).with(|one| one.seed = 10).dialer();
    fresh.take(&listeners, usize::MAX);
    assert_eq!(fresh.told, [Told::Failed(Error::Cookie)]);
    // The replay itself is right: against the same nonce it works.
    let mut same = Setup::node(2).listener();
    same.take(&dialers, usize::MAX);
    assert_eq!(same.told, [met("rabbit@1 as lane of shard 3")]);
}

#[test]
fn a_mirror_is_oneself() {
    let mut dialer = Setup::node(1).dialer();
    let hello = dialer.write();
    dialer.take(&hello, usize::MAX);
    assert_eq!(dialer.told, [Told::Failed(Error::Oneself { is_same_life: true })]);
}

#[test]
fn no_bit_of_an_opening_can_be_changed() {
    let (mut dialer, mut listener) = (Setup::node(1).dialer(), Setup::node(2).listener());
    talk(&mut dialer, &mut listener, usize::MAX);
    let said = dialer.said;
    for bit in 0..8 * said.len() {
        let mut flipped = said.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let mut listener = Setup::node(2).listener();
        listener.take(&flipped, usize::MAX);
        assert!(!listener.told.iter().any(|told| matches!(told, Told::Met(_))), "bit {bit}");
    }
}

#[test]
fn a_changed_hello_with_a_right_checksum_is_not_believed() {
    let mut dialer = Setup::node(1).dialer();
    let hello = dialer.write();
    // Capabilities and name, of which only the proof knows.
    for at in [52, 115] {
        let mut body = hello[20..].to_vec();
        body[at] ^= 1;
        let mut changed = Vec::new();
        cluster::lane::frame::put(&mut changed, 1, 0, 0, &body);
        let (mut dialer, mut listener) = (Setup::node(1).dialer(), Setup::node(2).listener());
        dialer.write();
        listener.take(&changed, usize::MAX);
        let answer = listener.write();
        dialer.take(&answer, usize::MAX);
        let proof = dialer.write();
        listener.take(&proof, usize::MAX);
        assert_eq!(listener.told, [Told::Failed(Error::Cookie)], "byte {at}");
    }
}

#[test]
fn strangers_are_told_nothing() {
    let check = |bytes: &[u8], expected| {
        for step in [1, usize::MAX] {
            let mut listener = Setup::node(2).listener();
            listener.take(bytes, step);
            assert_eq!(listener.told, [Told::Failed(expected)]);
            assert_eq!(listener.write(), b"");
        }
    };
    check(b"GET / HTTP/1.1\r\n", Error::Foreign(*b"GET "));
    check(b"AMQP\0\0\x09\x01", Error::Foreign(*b"AMQP"));
    check(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01], Error::Tls);
    let mut listener = Setup::node(2).listener();
    listener.poll();
    assert_eq!(listener.write(), b"", "a listener does not speak first");
}

#[test]
fn a_listener_shows_no_proof_to_a_stranger() {
    let mut dialer = Setup::node(1).with(|one| one.trust = cookie("guess")).dialer();
    let mut listener = Setup::node(2).listener();
    talk(&mut dialer, &mut listener, usize::MAX);
    let kinds: Vec<u8> = frames(&listener.said).map(|frame| frame[4]).collect();
    assert_eq!(kinds, [1, 3], "a hello and a refusal");
}

fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = u32::from_le_bytes(*bytes.first_chunk()?);
        let (frame, rest) = bytes.split_at(len as usize);
        bytes = rest;
        Some(frame)
    })
}

#[test]
fn the_lower_bounds_count_at_both_ends() {
    let small = Bounds { frame_bytes_max: 8192, entry_bytes_max: 1 << 30, window_bytes: 1 << 20 };
    let large = Bounds { frame_bytes_max: 1 << 20, entry_bytes_max: 1 << 29, window_bytes: 8 << 20 };
    let bounds = |node: u16, bounds| Setup::node(node).with(|node| node.limits.bounds = bounds);
    let (mut dialer, mut listener) = (bounds(1, small).dialer(), bounds(2, large).listener());
    talk(&mut dialer, &mut listener, usize::MAX);
    let expected = Bounds { frame_bytes_max: 8192, entry_bytes_max: 1 << 29, window_bytes: 1 << 20 };
    assert_eq!([dialer.lane.bounds(), listener.lane.bounds()], [expected; 2]);
    assert_eq!([dialer.lane.version(), listener.lane.version()], [1, 1]);
    listener.take(&8193u32.to_le_bytes(), usize::MAX);
    let long = Error::FrameLength { len: 8193, len_max: 8192 };
    assert_eq!(listener.told.last(), Some(&Told::Failed(long)));
}

#[test]
fn the_purpose_is_the_dialers() {
    let (mut dialer, mut listener) = open(Limits::default());
    dialer.lane.refuse(dialer.now, &Refusal::new(RefusalCode::UNEXPECTED_PURPOSE, "bye"));
    talk(&mut dialer, &mut listener, usize::MAX);
    assert_eq!(listener.told, [Told::Refused(RefusalCode::UNEXPECTED_PURPOSE, true)]);
    // A listener that answers as another: its hello, changed, with a right checksum.
    let mut dialer = Setup::node(1).dialer();
    let mut listener = Setup::node(2).listener();
    let hello = dialer.write();
    listener.take(&hello, usize::MAX);
    let mut body = listener.write()[20..].to_vec();
    body[76] = 9;
    let mut changed = Vec::new();
    cluster::lane::frame::put(&mut changed, 1, 0, 0, &body);
    dialer.take(&changed, usize::MAX);
    let (three, nine) = (Purpose::Shard(base::id::ShardId(3)), Purpose::Shard(base::id::ShardId(9)));
    assert_eq!(dialer.told, [Told::Failed(Error::Purpose { asked: three, answered: nine })]);
}
