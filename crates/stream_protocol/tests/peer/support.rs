//! Frames by hand, and peers that answer the opening.

use base::Now;
use stream_protocol::frame::{put_command, put_request, put_response, put_tune};
use stream_protocol::{
    Command, Connection, Event, Input, Limits, List, Pair, Request, Response, ResponseCode, Tune,
};

/// A frame from the bytes behind its size.
pub fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

/// A frame from key, version and the bytes behind them.
pub fn raw(key: u16, version: u16, rest: &[u8]) -> Vec<u8> {
    frame(&[&key.to_be_bytes()[..], &version.to_be_bytes(), rest].concat())
}

pub fn request(correlation_id: u32, request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_request(&mut out, correlation_id, request);
    out
}

pub fn response(correlation_id: u32, response: &Response<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_response(&mut out, correlation_id, response);
    out
}

pub fn command(command: &Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_command(&mut out, command);
    out
}

pub fn tune(frame_max: u32, heartbeat_s: u32) -> Vec<u8> {
    let mut out = Vec::new();
    put_tune(&mut out, Tune { frame_max, heartbeat_s });
    out
}

pub fn introduction() -> Vec<u8> {
    let properties = [Pair::new("product", "test")];
    request(1, &Request::PeerProperties { properties: List::new(&properties) })
}

pub fn login() -> Vec<u8> {
    request(3, &Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"\0guest\0guest" })
}

/// All that a client says until the connection is open.
pub fn opening() -> Vec<u8> {
    [
        introduction(),
        request(2, &Request::SaslHandshake),
        login(),
        tune(1 << 20, 60),
        request(4, &Request::Open { virtual_host: b"/" }),
    ]
    .concat()
}

/// One message of a publisher, in version 1.
pub fn publish(publisher_id: u8, publishing_id: u64, body: &[u8]) -> Vec<u8> {
    let message = [&publishing_id.to_be_bytes()[..], &(body.len() as u32).to_be_bytes(), body].concat();
    raw(2, 1, &[&[publisher_id, 0, 0, 0, 1][..], &message].concat())
}

/// Answers the requests of the opening, as a server that lets everyone in; all others, with "ok".
pub fn answer(server: &mut Connection, now: Now, event: &Event<'_>) {
    let Event::Request { correlation_id, request } = *event else { return };
    let code = ResponseCode::OK;
    match request {
        Request::PeerProperties { .. } => {
            let properties = [Pair::new("product", "RabbitMQ")];
            let properties = List::new(&properties);
            server.respond(correlation_id, &Response::PeerProperties { code, properties });
        }
        Request::SaslHandshake => {
            let mechanisms: [&[u8]; 1] = [b"PLAIN"];
            let mechanisms = List::new(&mechanisms);
            server.respond(correlation_id, &Response::SaslHandshake { code, mechanisms });
        }
        Request::SaslAuthenticate { response: b"more", .. } => server.challenge(correlation_id, b"go on"),
        Request::SaslAuthenticate { response: b"wrong", .. } => {
            server.refuse_login(now, correlation_id, ResponseCode::AUTHENTICATION_FAILURE);
        }
        Request::SaslAuthenticate { mechanism: b"NONE", .. } => {
            server.refuse_login(now, correlation_id, ResponseCode::SASL_MECHANISM_NOT_SUPPORTED);
        }
        Request::SaslAuthenticate { .. } if server.is_open() => {
            server.respond(correlation_id, &Response::SaslAuthenticate { code, challenge: b"" });
        }
        Request::SaslAuthenticate { .. } => server.accept_login(correlation_id),
        Request::Open { virtual_host: b"closed" } => server.refuse_open(now, correlation_id),
        Request::Open { .. } => server.open_ok(correlation_id, &[Pair::new("advertised_port", "5552")]),
        Request::Close { .. } => server.close_ok(correlation_id),
        Request::Metadata { .. } => {
            let response = Response::Metadata { brokers: List::default(), streams: List::default() };
            server.respond(correlation_id, &response);
        }
        other => server.respond(correlation_id, &Response::Done { key: other.key(), code }),
    }
}

/// Answers the frames of the opening, as a client.
pub fn follow(client: &mut Connection, now: Now, event: &Event<'_>) {
    match *event {
        Event::Response { response: Response::PeerProperties { .. }, .. } => {
            client.request(now, &Request::SaslHandshake).unwrap();
        }
        Event::Response { response: Response::SaslHandshake { .. }, .. } => {
            let login = Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"\0guest\0guest" };
            client.request(now, &login).unwrap();
        }
        Event::Tune(proposed) => _ = client.tune_and_open(now, proposed, b"/"),
        Event::Request { correlation_id, request: Request::Close { .. } } => client.close_ok(correlation_id),
        _ => {}
    }
}

/// Gives `bytes` in pieces that end at `cuts` and answers the events, written out.
pub fn feed(connection: &mut Connection, now: Now, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut told = Vec::new();
    let mut kept = Vec::new();
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let mut from = 0;
    for to in ends {
        kept.extend_from_slice(&bytes[from..to.max(from)]);
        from = to.max(from);
        let mut input = Input::new(&kept);
        while let Some(event) = connection.poll_event(now, &mut input) {
            told.push(match &event {
                Event::Publish(publish) => {
                    format!("{event:?} {:?}", publish.messages().collect::<Vec<_>>())
                }
                _ => format!("{event:?}"),
            });
            match connection.role() {
                stream_protocol::Role::Server => answer(connection, now, &event),
                stream_protocol::Role::Client => follow(connection, now, &event),
            }
        }
        let left = input.rest().len();
        assert!(left == 0 || connection.wanted() > left, "{left} bytes are left for no reason");
        kept.drain(..kept.len() - left);
    }
    told
}

/// Takes the bytes to be written.
pub fn said(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.output_mut().sent(bytes.len());
    bytes
}

/// A server with a client that has opened, nothing said.
pub fn running(limits: Limits, now: Now) -> Connection {
    let mut server = Connection::server(limits, now);
    feed(&mut server, now, &opening(), &[]);
    said(&mut server);
    assert!(server.is_open());
    server
}

/// Frames behind each other, without their sizes.
pub fn bodies(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut bodies = Vec::new();
    while let Some((size, rest)) = bytes.split_first_chunk() {
        let (body, behind) = rest.split_at(u32::from_be_bytes(*size) as usize);
        bodies.push(body);
        bytes = behind;
    }
    assert!(bytes.is_empty());
    bodies
}

/// The frames in `bytes`, written out.
pub fn shown(bytes: &[u8]) -> Vec<String> {
    let show = |body| format!("{:?}", stream_protocol::Frame::decode(body).unwrap());
    bodies(bytes).into_iter().map(show).collect()
}
