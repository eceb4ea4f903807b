//! Deadlines: of the opening, of pings, of silences.

use crate::bench::{Setup, Told, open, talk};
use cluster::lane::{Error, Limits, RefusalCode};

#[test]
fn an_opening_has_five_seconds_in_all() {
    for end in [Setup::node(1).dialer(), Setup::node(2).listener()] {
        let mut end = end;
        assert_eq!(end.lane.poll_deadline(), Some(5_000_000_000));
        end.pass(4_999);
        assert_eq!(end.told, []);
        end.pass(5_000);
        assert_eq!(end.told, [Told::Failed(Error::OpeningTimeout)]);
        assert_eq!((end.lane.poll_deadline(), end.lane.is_closed()), (None, true));
    }
}

#[test]
fn a_drip_wins_no_time() {
    let mut dialer = Setup::node(1).dialer();
    let mut listener = Setup::node(2).listener();
    let hello = dialer.write();
    for (ms, byte) in (0..).step_by(50).zip(&hello) {
        listener.pass(ms);
        listener.take(&[*byte], 1);
    }
    assert_eq!(listener.told, [Told::Failed(Error::OpeningTimeout)]);
    let refusal = listener.write();
    dialer.take(&refusal, usize::MAX);
    assert_eq!(dialer.told, [Told::Refused(RefusalCode::TIMEOUT, false)]);
}

#[test]
fn pings_keep_an_idle_lane_open() {
    let (mut one, mut other) = open(Limits::default());
    for ms in (0..60_000).step_by(10) {
        one.pass(ms);
        other.pass(ms);
        talk(&mut one, &mut other, usize::MAX);
    }
    assert!(one.lane.is_open() && other.lane.is_open());
    assert!((one.said.len() + other.said.len()) < 60 * 4 * 28 + 1000, "a ping and a pong a second, each way");
}

#[test]
fn a_silent_peer_is_given_up() {
    let (mut one, _) = open(Limits::default());
    let mut pings = 0;
    for ms in 0..4_999 {
        one.pass(ms);
        pings += one.write().len() / 28;
    }
    assert_eq!((one.told.len(), pings), (0, 4));
    one.pass(5_000);
    assert_eq!(one.told, [Told::Failed(Error::Silence { silence_ms: 5_000 })]);
    assert_eq!(one.lane.poll_deadline(), None);
}

#[test]
fn a_peer_that_pings_rarely_is_asked() {
    let slow = Limits { ping_ms: 100_000, silence_ms: 200_000, ..Limits::default() };
    let mut one = Setup::node(1).dialer();
    let mut other = Setup::node(2).with(|other| other.limits = slow).listener();
    talk(&mut one, &mut other, usize::MAX);
    for ms in (0..60_000).step_by(10) {
        one.pass(ms);
        other.pass(ms);
        // One end always has something to say.
        one.lane
            .send(one.now, cluster::lane::Kind::Consensus, cluster::lane::Outgoing::new(vec![1]))
            .unwrap();
        talk(&mut one, &mut other, usize::MAX);
    }
    assert!(one.lane.is_open() && other.lane.is_open());
}

#[test]
fn a_deadline_is_moved_when_it_was_handled() {
    let (mut one, _) = open(Limits::default());
    // Nothing is written, so that no ping after the first finds room.
    for _ in 0..100 {
        let Some(deadline) = one.lane.poll_deadline() else { break };
        one.pass(deadline.div_ceil(1_000_000));
        assert!(one.lane.poll_deadline().is_none_or(|next| next > deadline), "it goes on");
    }
    assert_eq!(one.told, [Told::Failed(Error::Silence { silence_ms: 5_000 })]);
}
