//! Any bytes: no panic, bounded memory.

use crate::support::*;
use base::Now;
use proptest::prelude::*;
use stream_protocol::*;

fn fed(mut connection: Connection, bytes: &[u8], cuts: &[usize]) {
    let told = feed(&mut connection, Now::default(), bytes, cuts);
    assert!(connection.capacity() <= 4096 + 32 * bytes.len());
    assert!(connection.output().len() <= 4096 + 32 * bytes.len());
    let failures = told.iter().filter(|event| event.starts_with("Failed")).count();
    assert!(failures <= 1, "{told:?}");
    assert!(connection.wanted() <= connection.input_max());
}

#[test]
fn an_idle_connection_is_small() {
    let mut server = running(Limits::default(), Now::default());
    server.output_mut().release();
    feed(&mut server, Now::default(), b"", &[]);
    let bytes = size_of::<Connection>() + server.capacity() + server.output().capacity();
    assert!(bytes < 512, "{bytes}");
}

/// A frame that is only announced makes the server want and keep nothing.
#[test]
fn an_announced_frame_costs_nothing() {
    for size in [8193u32, u32::MAX] {
        let mut server = Connection::server(Limits::default(), Now::default());
        feed(&mut server, Now::default(), &size.to_be_bytes(), &[]);
        assert!(server.is_closed() && server.wanted() <= 8196);
    }
    let mut client = Connection::client(Limits::default(), Now::default());
    let bytes = [&(128u32 << 20).to_be_bytes()[..], &[0, 8, 0, 1]].concat();
    feed(&mut client, Now::default(), &bytes, &[]);
    assert_eq!((client.wanted(), client.capacity()), ((128 << 20) + 4, 0));
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fed(Connection::server(Limits::default(), Now::default()), &bytes, &[]);
        fed(running(Limits::default(), Now::default()), &bytes, &[bytes.len() / 2]);
        fed(Connection::client(Limits::default(), Now::default()), &bytes, &[bytes.len() / 2]);
    }

    #[test]
    fn any_frames(
        frames in prop::collection::vec((0u16..33, any::<bool>(), 1u16..3, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        for (key, is_response, version, rest) in &frames {
            bytes.extend(raw(key | if *is_response { 0x8000 } else { 0 }, *version, rest));
        }
        let cuts = [cut.index(bytes.len() + 1)];
        fed(running(Limits::default(), Now::default()), &bytes, &cuts);
        fed(Connection::client(Limits::default(), Now::default()), &bytes, &cuts);
    }

    #[test]
    fn a_good_session_with_bad_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = [
            opening(),
            publish(1, 1, b"message"),
            request(5, &Request::Metadata { streams: List::default() }),
            publish(1, 2, b"another"),
        ].concat();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fed(Connection::server(Limits::default(), Now::default()), &bytes, &[]);
    }
}
