//! Frames by hand, and a server that answers the handshake.

use amqp091::method::{Arguments, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use amqp091::{Connection, Event, Input, Limits, Method, MethodId};
use base::Now;
use message::amqp091::Table;

/// The server properties announced in tests.
pub fn properties() -> Vec<u8> {
    message::amqp091::TableWriter::fields(|table| {
        table.put(b"product", message::amqp091::Value::Text(b"RabbitMQ"));
    })
}

pub fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(channel.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes.push(0xCE);
    bytes
}

pub fn method<'a>(channel: u16, method: &impl Arguments<'a>) -> Vec<u8> {
    let mut payload = Vec::new();
    method.encode(&mut payload);
    frame(1, channel, &payload)
}

/// A method frame from its numbers and the bytes of its arguments.
pub fn raw(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    let payload = [&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat();
    frame(1, channel, &payload)
}

/// A content header with the given size and property flags and list.
pub fn header(channel: u16, size: u64, properties: &[u8]) -> Vec<u8> {
    frame(2, channel, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), properties].concat())
}

pub fn body(channel: u16, bytes: &[u8]) -> Vec<u8> {
    frame(3, channel, bytes)
}

/// basic.publish to the default exchange with routing key "q".
pub fn publish(channel: u16) -> Vec<u8> {
    raw(channel, 60, 40, b"\0\0\0\x01q\0")
}

pub fn channel_open(channel: u16) -> Vec<u8> {
    raw(channel, 20, 10, b"\0")
}

pub const HEADER: &[u8] = b"AMQP\0\0\x09\x01";

pub fn start_ok() -> Vec<u8> {
    let start_ok = ConnectionStartOk {
        client_properties: Table::EMPTY,
        mechanism: b"PLAIN",
        response: b"\0guest\0guest",
        locale: b"en_US",
    };
    method(0, &start_ok)
}

pub fn tune_ok(channel_max: u16, frame_max: u32, heartbeat: u16) -> Vec<u8> {
    method(0, &ConnectionTuneOk { channel_max, frame_max, heartbeat })
}

pub fn open() -> Vec<u8> {
    method(0, &ConnectionOpen { virtual_host: b"/", ..Default::default() })
}

/// A whole handshake as a client sends it that does not wait.
pub fn handshake() -> Vec<u8> {
    [HEADER, &start_ok(), &tune_ok(2047, 131_072, 0), &open()].concat()
}

/// Feeds `bytes` in pieces that end at `cuts`, keeping the bytes left over, and answers where the protocol itself calls
/// for it. Each event is told as text, because it borrows.
pub fn feed(server: &mut Connection, now: Now, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let properties = properties();
    let mut told = Vec::new();
    let mut kept = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        kept.extend_from_slice(&bytes[from..to]);
        from = to;
        let mut input = Input::new(&kept);
        while let Some(event) = server.poll_event(now, &mut input) {
            if let Event::Gathered(gathered) = &event {
                told.push(format!("{:?}", gathered.event()));
                continue;
            }
            told.push(format!("{event:?}"));
            match event {
                Event::ProtocolHeader => {
                    server.start(Table::new(&properties).unwrap(), b"PLAIN AMQPLAIN", b"en_US");
                }
                Event::StartOk(_) => server.tune(),
                Event::Open(_) => server.open_ok(),
                Event::ChannelOpen { channel } => server.channel_open_ok(channel),
                Event::ChannelClose { channel, .. } => server.channel_close_ok(channel),
                Event::Close(_) => server.close_ok(),
                Event::Method { channel, method: Method::QueueDeclare(declare) } if declare.passive => {
                    let id = MethodId { class: 50, method: 10 };
                    server.close_channel(channel, amqp091::ReplyCode::NotFound, "NOT_FOUND - no", id);
                }
                _ => {}
            }
        }
        let left = input.rest().len();
        if left > 0 && !server.is_closed() {
            assert!(server.wanted() > left, "wants {} of {left}", server.wanted());
            assert!(server.wanted() <= Limits::default().input_max());
        }
        kept.drain(..kept.len() - left);
    }
    told
}

/// A server whose client has logged in and opened channel 1; its output is empty.
pub fn running(limits: Limits, now: Now) -> Connection {
    let mut server = Connection::server(limits, now);
    let told = feed(&mut server, now, &[handshake(), channel_open(1)].concat(), &[]);
    assert_eq!(told.last().unwrap(), "ChannelOpen { channel: 1 }");
    take_output(&mut server);
    server
}

pub fn take_output(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.output_mut().sent(bytes.len());
    bytes
}

/// Splits bytes into frames: kind, channel, payload.
pub fn frames(mut bytes: &[u8]) -> Vec<(u8, u16, &[u8])> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let size = u32::from_be_bytes(bytes[3..7].try_into().unwrap()) as usize;
        assert_eq!(bytes[7 + size], 0xCE);
        frames.push((bytes[0], u16::from_be_bytes([bytes[1], bytes[2]]), &bytes[7..7 + size]));
        bytes = &bytes[8 + size..];
    }
    frames
}

/// The frames a server sent, in short: "0 connection.close 501 text (60, 40)".
pub fn said(bytes: &[u8]) -> Vec<String> {
    let show = |(kind, channel, payload): (u8, u16, &[u8])| {
        if kind != 1 {
            return format!("{channel} kind {kind}");
        }
        let id = MethodId {
            class: u16::from_be_bytes([payload[0], payload[1]]),
            method: u16::from_be_bytes([payload[2], payload[3]]),
        };
        let close = |scope, code, text, class, method| {
            format!("{channel} {scope} {code} {} ({class}, {method})", String::from_utf8_lossy(text))
        };
        match Method::decode(id, &payload[4..]).unwrap().unwrap() {
            Method::ConnectionClose(it) => {
                close("connection.close", it.reply_code, it.reply_text, it.class_id, it.method_id)
            }
            Method::ChannelClose(it) => {
                close("channel.close", it.reply_code, it.reply_text, it.class_id, it.method_id)
            }
            other => format!("{channel} {other:?}"),
        }
    };
    frames(bytes).into_iter().map(show).collect()
}
