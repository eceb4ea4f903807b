//! Silence, deadlines and heartbeats.

use crate::support::*;
use amqp091::{Connection, Limits};
use base::Now;

/// Before login a mistake is answered by three seconds of silence and a close.
fn check_silent(bytes: &[u8]) {
    let mut server = Connection::server(Limits::default(), Now::default());
    feed(&mut server, Now::default(), HEADER, &[]);
    let told = feed(&mut server, Now::at_ms(5), bytes, &[]);
    assert!(told.last().is_some_and(|event| event.starts_with("Failed")), "{told:?}");
    let said = said(&take_output(&mut server)[..]);
    assert!(!said.iter().any(|frame| frame.contains("close")), "{said:?}");
    assert_eq!(server.poll_deadline(), Some(Now::at_ms(3_005).mono_ns));
    assert_eq!(feed(&mut server, Now::at_ms(10), &start_ok(), &[]), [""; 0]);
    server.handle_deadline(Now::at_ms(3_005));
    assert_eq!(feed(&mut server, Now::at_ms(3_005), b"", &[]), ["Closed"]);
    assert_eq!(server.poll_deadline(), None);
}

#[test]
fn before_login_mistakes_are_met_with_silence() {
    check_silent(&open());
    check_silent(&raw(0, 10, 11, b"\0\0"));
    check_silent(&raw(0, 10, 99, b""));
    check_silent(&raw(0, 10, 50, b"\0\xc8\0\0\0\0\0"));
    check_silent(&frame(5, 0, b""));
    check_silent(&header(0, 0, &[0, 0]));
    check_silent(&frame(1, 1, &start_ok()[7..30]));
    // Not a byte of this is kept: its size is over what anybody may send before tune-ok.
    check_silent(&frame(1, 0, &[0; 8193])[..7]);
    for tune in [(0, 131_072), (2048, 131_072), (2047, 0), (2047, 8191), (2047, 131_073)] {
        check_silent(&[start_ok(), tune_ok(tune.0, tune.1, 0)].concat());
    }
}

#[test]
fn a_login_may_be_refused() {
    for is_told in [false, true] {
        let mut server = Connection::server(Limits::default(), Now::default());
        feed(&mut server, Now::default(), HEADER, &[]);
        take_output(&mut server);
        let bytes = start_ok();
        let mut input = amqp091::Input::new(&bytes);
        assert!(server.poll_event(Now::default(), &mut input).is_some());
        server.refuse_login(Now::default(), "Login was refused", is_told);
        let expected: &[&str] =
            if is_told { &["0 connection.close 403 ACCESS_REFUSED - Login was refused (0, 0)"] } else { &[] };
        assert_eq!(said(&take_output(&mut server)), expected);
        if is_told {
            assert_eq!(feed(&mut server, Now::default(), &raw(0, 10, 51, b""), &[]), ["Closed"]);
        } else {
            server.handle_deadline(Now::at_ms(3_000));
            assert_eq!(feed(&mut server, Now::at_ms(3_000), b"", &[]), ["Closed"]);
        }
    }
}

#[test]
fn the_silence_after_a_refused_login_may_be_longer() {
    for (ms, expected_ms) in [(0, 3_000), (3_001, 3_001), (20_000, 20_000)] {
        let mut server = Connection::server(Limits::default(), Now::default());
        feed(&mut server, Now::default(), HEADER, &[]);
        let bytes = start_ok();
        assert!(server.poll_event(Now::default(), &mut amqp091::Input::new(&bytes)).is_some());
        server.refuse_login(Now::default(), "Login was refused", false);
        server.prolong_silence(Now::default(), ms);
        assert_eq!(server.poll_deadline(), Some(Now::default().after_ms(expected_ms)), "{ms}");
    }
}

#[test]
fn other_protocols_are_told_what_is_spoken_here() {
    for (header, answer) in [
        (b"AMQP\0\0\x09\0", b"AMQP\0\0\x09\x01"),
        (b"GET / HT", b"AMQP\x03\x01\0\0"),
        (b"AMQP\x01\x01\x08\0", b"AMQP\x03\x01\0\0"),
    ] {
        let mut server = Connection::server(Limits::default(), Now::default());
        let told = feed(&mut server, Now::default(), header, &[3]);
        assert!(told[0].starts_with("Failed(WrongHeader"));
        assert_eq!(told[1..], ["Closed"]);
        assert_eq!(take_output(&mut server), answer);
    }
}

#[test]
fn a_handshake_has_ten_seconds() {
    for bytes in [&b""[..], HEADER, &handshake()[..40]] {
        let mut server = Connection::server(Limits::default(), Now::default());
        feed(&mut server, Now::default(), bytes, &[]);
        let deadline = server.poll_deadline().unwrap();
        assert_eq!(deadline, Now::at_ms(10_000).mono_ns);
        server.handle_deadline(Now::at_ms(10_000));
        assert_eq!(feed(&mut server, Now::at_ms(10_000), b"", &[]), ["Failed(HandshakeTimeout)", "Closed"]);
    }
    assert_eq!(running(Limits::default(), Now::default()).poll_deadline(), None);
}

#[test]
fn a_close_is_waited_for_thirty_seconds() {
    let mut server = running(Limits::default(), Now::default());
    server.close_connection(
        Now::default(),
        amqp091::ReplyCode::ConnectionForced,
        "CONNECTION_FORCED - bye",
        amqp091::MethodId::NONE,
    );
    assert_eq!(said(&take_output(&mut server)), ["0 connection.close 320 CONNECTION_FORCED - bye (0, 0)"]);
    assert_eq!(server.poll_deadline(), Some(Now::at_ms(30_000).mono_ns));
    server.handle_deadline(Now::at_ms(30_000));
    assert_eq!(feed(&mut server, Now::at_ms(30_000), b"", &[]), ["Failed(CloseTimeout)", "Closed"]);
}

/// A server with a heartbeat timeout of ten seconds, from 0.
fn with_heartbeat() -> Connection {
    let mut server = Connection::server(Limits::default(), Now::default());
    let bytes = [HEADER, &start_ok(), &tune_ok(2047, 131_072, 10), &open(), &channel_open(1)].concat();
    feed(&mut server, Now::default(), &bytes, &[]);
    take_output(&mut server);
    server
}

#[test]
fn heartbeats_fill_silence() {
    let mut server = with_heartbeat();
    // Frames of the handshake count for the first quarter; then silence.
    let mut sent_ms = Vec::new();
    for ms in (1..40).map(|half| half * 500) {
        feed(&mut server, Now::at_ms(ms), &frame(8, 0, b""), &[]);
        assert!(server.poll_deadline().is_some_and(|deadline| deadline > Now::at_ms(ms - 1).mono_ns));
        server.handle_deadline(Now::at_ms(ms));
        if take_output(&mut server) == [8, 0, 0, 0, 0, 0, 0, 0xCE] {
            sent_ms.push(ms);
        }
    }
    assert_eq!(sent_ms, [5_000, 10_000, 15_000]);
    server.ack(1, 1, false);
    take_output(&mut server);
    server.handle_deadline(Now::at_ms(20_000));
    assert_eq!(take_output(&mut server), b"", "an ack went out in this half");
    server.handle_deadline(Now::at_ms(22_500));
    assert_eq!(take_output(&mut server), [8, 0, 0, 0, 0, 0, 0, 0xCE], "it may have been all that went out");
}

#[test]
fn two_missed_heartbeats_end_it() {
    let mut server = with_heartbeat();
    // Half a frame is a sign of life.
    feed(&mut server, Now::at_ms(9_000), &frame(8, 0, b"")[..4], &[]);
    for (second, is_alive) in [(10, true), (20, true), (30, false)] {
        server.handle_deadline(Now::at_ms(second * 1000));
        let mut input = amqp091::Input::default();
        let event = server.poll_event(Now::at_ms(second * 1000), &mut input);
        assert_eq!(event.is_none(), is_alive, "{event:?} at {second}");
    }
    assert_eq!(feed(&mut server, Now::at_ms(30_000), b"", &[]), ["Closed"]);
}

#[test]
fn who_does_not_read_misses_nothing() {
    let mut server = with_heartbeat();
    server.set_reading(false);
    for second in 1..100 {
        server.handle_deadline(Now::at_ms(second * 5000));
    }
    assert!(server.is_open());
    server.set_reading(true);
    server.handle_deadline(Now::at_ms(600_000));
    server.handle_deadline(Now::at_ms(610_000));
    assert!(!server.is_open());
}
