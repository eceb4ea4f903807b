//! Any bytes: no panic, bounded memory.

use crate::support::*;
use amqp091::{Connection, Event, Input, Limits};
use base::Now;
use message::amqp091::Table;
use proptest::prelude::*;

fn fed(mut connection: Connection, bytes: &[u8], cuts: &[usize]) {
    let told = feed(&mut connection, Now::default(), bytes, cuts);
    assert!(connection.capacity() <= 4096 + 32 * bytes.len());
    assert!(connection.output().len() <= 4096 + 32 * bytes.len());
    let failures = told.iter().filter(|event| event.starts_with("Failed")).count();
    assert!(failures <= 1, "{told:?}");
}

#[test]
fn an_announced_body_costs_nothing() {
    let mut server = running(Limits::default(), Now::default());
    let bytes = [publish(1), header(1, 16 << 20, &[0, 0])].concat();
    feed(&mut server, Now::default(), &bytes, &[]);
    assert!(server.capacity() < 400, "{}", server.capacity());
    // Nor does it grow to much more than the bytes that came.
    for _ in 0..20 {
        feed(&mut server, Now::default(), &body(1, &[0; 100_000]), &[]);
    }
    assert!(server.capacity() < 5_000_000, "{}", server.capacity());
}

#[test]
fn a_rationed_server_keeps_what_it_was_granted() {
    let mut server = running(Limits::default(), Now::default());
    feed(&mut server, Now::default(), &[channel_open(2), channel_open(3)].concat(), &[]);
    server.ration();
    let before = server.capacity();
    let (mut granted, mut asked) = (0, 0);
    let begun = |channel, size, sent: usize| {
        [publish(channel), header(channel, size, &[0, 0]), body(channel, &vec![7; sent])].concat()
    };
    // Bytes, and how much is kept afterwards at least.
    let rows = [
        (begun(1, 300_000, 100_000), 100_000),
        (begun(2, 500_000, 130_000), 230_000),
        (body(1, &[7; 100_000]), 330_000),
        // Whole, in one read: nothing of it is kept.
        (begun(3, 1000, 1000), 330_000),
        (body(1, &[7; 100_000]), 130_000),
        (vec![], 0),
        (begun(3, 200_000, 90_000), 90_000),
    ];
    let none = amqp091::MethodId::NONE;
    for (bytes, kept) in rows {
        if bytes.is_empty() {
            server.close_channel(2, amqp091::ReplyCode::NotFound, "", none);
        }
        let mut input = Input::new(&bytes);
        while let Some(event) = server.poll_event(Now::default(), &mut input) {
            if let Event::Gathering { bytes } = event {
                (granted, asked) = (granted + bytes, asked + 1);
                server.grant(bytes);
            }
        }
        granted -= server.take_spare();
        assert_eq!(server.take_spare(), 0);
        assert!(granted >= kept && granted <= 3 * kept + 1000, "{granted} {kept}");
        // The table of channels keeps its memory.
        assert_eq!(server.capacity(), before + granted);
    }
    assert!(asked >= 4, "{asked}");
    server.close_connection(Now::default(), amqp091::ReplyCode::ResourceError, "", none);
    assert_eq!(granted, server.take_spare());
}

#[test]
fn an_idle_connection_with_two_channels_is_small() {
    let mut server = running(Limits::default(), Now::default());
    feed(
        &mut server,
        Now::default(),
        &[channel_open(2), publish(2), header(2, 1, &[0, 0]), body(2, b"x")].concat(),
        &[],
    );
    take_output(&mut server);
    server.output_mut().release();
    feed(&mut server, Now::default(), b"", &[]);
    assert!(size_of::<Connection>() + server.capacity() + server.output().capacity() < 512);
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fed(Connection::server(Limits::default(), Now::default()), &bytes, &[]);
        fed(running(Limits::default(), Now::default()), &bytes, &[bytes.len() / 2]);
    }

    #[test]
    fn any_frames(
        frames in prop::collection::vec(
            (0u8..9, 0u16..3, prop::sample::select(&[10u16, 20, 30, 40, 50, 60, 85, 90][..]), 0u16..125,
             prop::collection::vec(any::<u8>(), 0..30)),
            0..20,
        ),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        for (kind, channel, class, number, rest) in &frames {
            let payload = [&class.to_be_bytes()[..], &number.to_be_bytes(), rest].concat();
            bytes.extend(frame(*kind, *channel, if *kind == 8 { b"" } else { &payload }));
        }
        fed(running(Limits::default(), Now::default()), &bytes, &[cut.index(bytes.len() + 1)]);
    }

    #[test]
    fn a_good_session_with_bad_bytes(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = [
            handshake(), channel_open(1), publish(1), header(1, 5, &[0x10, 0, 2]), body(1, b"whole"),
            publish(1), header(1, 5, &[0, 0]), body(1, b"in"), body(1, b"two"), raw(1, 20, 40, b"\0\xc8\0\0\0\0\0"),
        ].concat();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fed(Connection::server(Limits::default(), Now::default()), &bytes, &[]);
    }

    /// A client takes as much from a server.
    #[test]
    fn any_bytes_from_a_server(bytes in prop::collection::vec(any::<u8>(), 0..200), is_framed in any::<bool>()) {
        let mut client = Connection::client(Limits::default(), Now::default());
        let bytes = if is_framed { frame(1, 0, &[&[0, 10, 0, 10][..], &bytes].concat()) } else { bytes };
        let mut input = Input::new(&bytes);
        while let Some(event) = client.poll_event(Now::default(), &mut input) {
            if let Event::Start(_) = event {
                client.start_ok(Table::EMPTY, b"PLAIN", b"", b"en_US");
            }
        }
    }
}
