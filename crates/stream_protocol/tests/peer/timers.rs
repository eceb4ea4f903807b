//! Deadlines of connections on which nothing happens.

use crate::support::*;
use base::Now;
use stream_protocol::frame::HEARTBEAT_FRAME;
use stream_protocol::*;

const NOW: Now = Now { mono_ns: 0, wall_ms: 0 };

/// The events at `ms`.
fn tick(connection: &mut Connection, ms: u64) -> Vec<String> {
    let now = Now::at_ms(ms);
    if connection.poll_deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
        connection.handle_deadline(now);
    }
    feed(connection, now, b"", &[])
}

#[test]
fn the_opening_takes_ten_seconds_at_most() {
    let parts = [introduction(), request(2, &Request::SaslHandshake), login(), tune(0, 5)];
    for count in 0..=parts.len() {
        let mut server = Connection::server(Limits::default(), NOW);
        feed(&mut server, NOW, &parts[..count].concat(), &[]);
        for ms in (0..10_000).step_by(1000) {
            let beat = frame(&[0, 23, 0, 1]);
            assert_eq!(tick(&mut server, ms), Vec::<String>::new());
            assert_eq!(feed(&mut server, Now::at_ms(ms), &beat, &[]), Vec::<String>::new());
        }
        assert_eq!(tick(&mut server, 10_000), ["Failed(HandshakeTimeout)", "Closed"]);
    }
    let mut client = Connection::client(Limits::default(), NOW);
    assert_eq!(tick(&mut client, 10_000), ["Failed(HandshakeTimeout)", "Closed"]);
}

#[test]
fn heartbeats_are_sent_and_missed() {
    let mut server = running(Limits::default(), NOW);
    tick(&mut server, 30_000);
    assert!(server.output().is_empty(), "it said something since the connection was opened");
    tick(&mut server, 60_000);
    assert_eq!(said(&mut server), HEARTBEAT_FRAME);
    // Something that waits for the socket is a sign of life of its own.
    server.confirm(1, [1].into_iter());
    tick(&mut server, 90_000);
    let before = server.output().len();
    tick(&mut server, 120_000);
    assert_eq!(server.output().len(), before);
    // Half a frame is one, too.
    feed(&mut server, Now::at_ms(125_000), &[0, 0], &[]);
    assert_eq!(tick(&mut server, 180_000), Vec::<String>::new());
    assert_eq!(tick(&mut server, 240_000), Vec::<String>::new());
    assert_eq!(tick(&mut server, 300_000), ["Failed(HeartbeatMissed)", "Closed"]);
}

#[test]
fn who_does_not_read_misses_nothing() {
    let mut server = running(Limits::default(), NOW);
    server.set_reading(NOW, false);
    for ms in (0..1_000_000).step_by(30_000) {
        assert_eq!(tick(&mut server, ms), Vec::<String>::new());
    }
    server.set_reading(Now::at_ms(1_000_000), true);
    let mut told = Vec::new();
    for ms in (1_000_000..1_200_000).step_by(30_000) {
        told.extend(tick(&mut server, ms));
    }
    assert_eq!(told, ["Failed(HeartbeatMissed)", "Closed"]);
}

#[test]
fn an_answer_that_does_not_come_ends_it() {
    let mut server = running(Limits { heartbeat_s: 0, ..Limits::default() }, NOW);
    let update = Request::ConsumerUpdate { subscription_id: 1, active: false };
    let asked = server.request(Now::at_ms(1000), &update).unwrap();
    assert!(server.capacity() > 0);
    let answer = Response::ConsumerUpdate { code: ResponseCode::OK, offset: None };
    feed(&mut server, NOW, &response(asked, &answer), &[]);
    for ms in [61_000, 62_000] {
        assert!(tick(&mut server, ms).is_empty());
    }
    feed(&mut server, Now::at_ms(62_000), &frame(&[0, 23, 0, 1]), &[]);
    server.request(Now::at_ms(62_000), &update).unwrap();
    feed(&mut server, Now::at_ms(121_999), &frame(&[0, 23, 0, 1]), &[]);
    assert_eq!(tick(&mut server, 121_999), Vec::<String>::new());
    assert_eq!(tick(&mut server, 122_000), ["Failed(RequestTimeout)", "Closed"]);
}

#[test]
fn who_is_not_read_has_its_time_later() {
    let mut server = running(Limits { heartbeat_s: 0, ..Limits::default() }, NOW);
    let update = Request::ConsumerUpdate { subscription_id: 1, active: true };
    let beat = frame(&[0, 23, 0, 1]);
    server.request(Now::at_ms(10_000), &update).unwrap();
    // Said twice it is the same.
    server.set_reading(Now::at_ms(30_000), false);
    server.set_reading(Now::at_ms(40_000), false);
    server.request(Now::at_ms(50_000), &update).unwrap();
    assert_eq!(tick(&mut server, 500_000), Vec::<String>::new());
    server.set_reading(Now::at_ms(530_000), true);
    // Of the first 20 seconds had gone, of the second none.
    feed(&mut server, Now::at_ms(569_999), &beat, &[]);
    assert_eq!(tick(&mut server, 569_999), Vec::<String>::new());
    assert_eq!(tick(&mut server, 570_000), ["Failed(RequestTimeout)", "Closed"]);
}

#[test]
fn what_is_forgotten_is_not_waited_for() {
    let mut server = running(Limits { heartbeat_s: 0, requests_max: 1, ..Limits::default() }, NOW);
    let update = Request::ConsumerUpdate { subscription_id: 1, active: true };
    let asked = server.request(NOW, &update).unwrap();
    assert_eq!(server.request(NOW, &update), None);
    server.forget(asked);
    assert_eq!(tick(&mut server, 61_000), Vec::<String>::new());
    assert!(server.request(NOW, &update).is_some());
    let answer = Response::ConsumerUpdate { code: ResponseCode::OK, offset: None };
    let told = feed(&mut server, NOW, &response(asked, &answer), &[]);
    assert!(told[0].starts_with("Unasked"), "{told:?}");
    assert!(server.is_open());
}

#[test]
fn a_close_is_waited_for_for_a_while() {
    let mut server = running(Limits::default(), NOW);
    server.close(NOW, ResponseCode::OK, "bye");
    assert_eq!(tick(&mut server, 9_999), Vec::<String>::new());
    assert_eq!(tick(&mut server, 10_000), ["Failed(CloseTimeout)", "Closed"]);
    assert!(server.is_closed());
    assert_eq!(server.poll_deadline(), None);
}
