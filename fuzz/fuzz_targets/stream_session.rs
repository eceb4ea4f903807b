//! Any bytes in any pieces, from the first byte on or on an open connection, to a server and to a client, with time going by.
#![no_main]

use base::Now;
use libfuzzer_sys::fuzz_target;
use stream_protocol::frame::{put_request, put_tune};
use stream_protocol::{Connection, Event, Input, Limits, List, Request, Response, ResponseCode, Tune};

/// The requests of a client until the connection is open.
fn opening() -> Vec<u8> {
    let mut said = Vec::new();
    put_request(&mut said, 1, &Request::PeerProperties { properties: List::default() });
    put_request(&mut said, 2, &Request::SaslHandshake);
    put_request(&mut said, 3, &Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"" });
    put_tune(&mut said, Tune { frame_max: 0, heartbeat_s: 60 });
    put_request(&mut said, 4, &Request::Open { virtual_host: b"/" });
    said
}

/// Answers what the protocol calls for; `None` when there is no more.
fn step(connection: &mut Connection, now: Now, input: &mut Input<'_>) -> Option<()> {
    let is_open = connection.is_open();
    match connection.poll_event(now, input)? {
        Event::Request { correlation_id, request } => match request {
            Request::SaslAuthenticate { response: b"x", .. } if !is_open => {
                connection.challenge(correlation_id, b"more");
            }
            Request::SaslAuthenticate { response: b"n", .. } => {
                connection.refuse_login(now, correlation_id, ResponseCode::AUTHENTICATION_FAILURE);
            }
            Request::SaslAuthenticate { .. } if !is_open => connection.accept_login(correlation_id),
            Request::Open { virtual_host: b"" } => connection.refuse_open(now, correlation_id),
            Request::Open { .. } => connection.open_ok(correlation_id, &[]),
            Request::Close { .. } => connection.close_ok(correlation_id),
            Request::Metadata { .. } => {
                let nothing = Response::Metadata { brokers: List::default(), streams: List::default() };
                connection.respond(correlation_id, &nothing);
            }
            other => {
                let done = Response::Done { key: other.key(), code: ResponseCode::OK };
                connection.respond(correlation_id, &done);
            }
        },
        Event::Tune(proposed) if connection.role() == stream_protocol::Role::Client => {
            connection.tune_and_open(now, proposed, b"/");
        }
        Event::Publish(publish) => assert_eq!(publish.messages().count(), publish.len()),
        Event::Deliver(deliver) => _ = deliver.chunk.check(),
        _ => {}
    }
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[role, pace], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let mut now = Now::default();
    let mut connection = match role % 3 {
        0 => Connection::client(Limits::default(), now),
        _ => Connection::server(Limits::default(), now),
    };
    if role % 3 == 2 {
        let opening = opening();
        let mut input = Input::new(&opening);
        while step(&mut connection, now, &mut input).is_some() {}
        assert!(connection.is_open());
    }
    let mut kept = Vec::new();
    for piece in bytes.chunks(usize::from(pace).max(1)) {
        kept.extend_from_slice(piece);
        let mut input = Input::new(&kept);
        while step(&mut connection, now, &mut input).is_some() {}
        let left = input.rest().len();
        kept.drain(..kept.len() - left);
        now = Now::at_ms(now.wall_ms + u64::from(pace));
        if connection.poll_deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
            connection.handle_deadline(now);
        }
    }
    assert!(connection.wanted() <= connection.input_max());
    assert!(connection.capacity() + connection.output().len() <= 4096 + 32 * bytes.len());
});
