//! Client against server: every verb of one is the event of the other.

use crate::support::properties;
use amqp091::method::*;
use amqp091::{
    Body, Connection, DeliverPrefix, Event, Input, Limits, Method, MethodId, Outgoing, PublishPrefix,
    ReplyCode,
};
use base::{Buffer, Now};
use message::amqp091::{NewProperties, Table, TableWriter, Value};

/// Moves the output of `from` to `to` and answers the events as text.
fn pass(from: &mut Connection, to: &mut Connection) -> Vec<String> {
    let bytes = crate::support::take_output(from);
    let mut input = Input::new(&bytes);
    let mut told = Vec::new();
    while let Some(event) = to.poll_event(Now::default(), &mut input) {
        match event {
            Event::Gathered(gathered) => told.push(format!("{:?}", gathered.event())),
            event => told.push(format!("{event:?}")),
        }
    }
    assert!(input.rest().is_empty());
    told
}

/// A pair after the handshake with channel 1 open.
fn open(server_limits: Limits, client_limits: Limits) -> (Connection, Connection) {
    let mut server = Connection::server(server_limits, Now::default());
    let mut client = Connection::client(client_limits, Now::default());
    let fields = properties();
    assert_eq!(pass(&mut client, &mut server), ["ProtocolHeader"]);
    server.start(Table::new(&fields).unwrap(), b"PLAIN", b"en_US");
    assert!(pass(&mut server, &mut client)[0].contains("\"product\": Text"));
    client.start_ok(Table::new(&fields).unwrap(), b"X", b"first", b"en_US");
    assert!(pass(&mut client, &mut server)[0].starts_with("StartOk"));
    server.secure(b"challenge");
    assert!(pass(&mut server, &mut client)[0].starts_with("Secure("));
    client.secure_ok(b"response");
    assert!(pass(&mut client, &mut server)[0].starts_with("SecureOk("));
    server.tune();
    let bytes = crate::support::take_output(&mut server);
    let Some(Event::Tune(tune)) = client.poll_event(Now::default(), &mut Input::new(&bytes)) else {
        panic!("tune follows")
    };
    client.tune_ok_and_open(Now::default(), tune, b"/");
    assert_eq!(pass(&mut client, &mut server).len(), 2);
    server.open_ok();
    assert_eq!(pass(&mut server, &mut client), ["OpenOk"]);
    client.channel_open(1);
    assert_eq!(pass(&mut client, &mut server), ["ChannelOpen { channel: 1 }"]);
    server.channel_open_ok(1);
    assert_eq!(pass(&mut server, &mut client), ["ChannelOpenOk { channel: 1 }"]);
    assert_eq!((server.frame_max(), server.channel_max()), (client.frame_max(), client.channel_max()));
    (server, client)
}

/// The message, however it came.
fn whole<'a>(event: &'a Event<'a>) -> Event<'a> {
    match event {
        Event::Gathered(gathered) => gathered.event(),
        other => other.clone(),
    }
}

fn head() -> Vec<u8> {
    let mut head = Vec::new();
    NewProperties { delivery_mode: Some(2), message_id: Some(b"id"), ..Default::default() }.write(&mut head);
    head
}

#[test]
fn bodies_of_any_length_cross_both_ways() {
    for frame_max in [8192, 131_072] {
        let limits = Limits { frame_max, ..Limits::default() };
        let (mut server, mut client) = open(Limits::default(), limits);
        let consumer = DeliverPrefix::new(1, b"consumer");
        let to = PublishPrefix::new(1, b"exchange", b"key", true);
        for len in [0, 1, 4095, 4096, 8183, 8184, 8185, 16_368, 16_369, 131_064, 131_065, 300_000] {
            let bytes: Vec<u8> = (0..len).map(|i| (i / 7) as u8).collect();
            client.publish(&to, &head(), &Body::Bytes(&bytes));
            let wire = crate::support::take_output(&mut client);
            for (_, _, payload) in crate::support::frames(&wire) {
                assert!(payload.len() + 8 <= frame_max as usize);
            }
            let mut input = Input::new(&wire);
            let polled = server.poll_event(Now::default(), &mut input).unwrap();
            let Event::Publish { channel: 1, publish, properties, body } = whole(&polled) else {
                panic!("publish follows")
            };
            assert_eq!(
                (publish.exchange, publish.routing_key, publish.mandatory),
                (&b"exchange"[..], &b"key"[..], true)
            );
            assert_eq!((properties.raw(), properties.message_id()), (&head()[..], Some(&b"id"[..])));
            assert!(body == bytes, "{len}");

            let mut memory = Buffer::default();
            memory.extend(b"before");
            memory.extend(&bytes);
            let memory = memory.seal();
            let head = head();
            let message = |body| Outgoing { exchange: b"exchange", routing_key: b"key", head: &head, body };
            let copied = {
                server.deliver(&consumer, 7, true, &message(Body::Bytes(&bytes)));
                crate::support::take_output(&mut server)
            };
            server.deliver(&consumer, 7, true, &message(Body::Memory(&memory, 6..6 + len)));
            let wire = crate::support::take_output(&mut server);
            assert!(copied == wire, "by reference or by copy is the same");
            let mut input = Input::new(&wire);
            let polled = client.poll_event(Now::default(), &mut input).unwrap();
            let Event::Deliver { deliver, body, .. } = whole(&polled) else { panic!("deliver follows") };
            assert_eq!(
                (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered),
                (&b"consumer"[..], 7, true)
            );
            assert!(body == bytes, "{len}");
            server.get_ok(1, 8, false, 3, &message(Body::Bytes(&bytes)));
            assert!(pass(&mut server, &mut client)[0].starts_with("GetOk"));
            server.return_message(1, ReplyCode::NoRoute, &message(Body::Bytes(&bytes)));
            assert!(pass(&mut server, &mut client)[0].starts_with("Return"));
        }
    }
}

#[test]
fn a_short_delivery_is_these_bytes() {
    let (mut server, _) = open(Limits::default(), Limits::default());
    server.deliver(
        &DeliverPrefix::new(1, b"tag"),
        258,
        true,
        &Outgoing { exchange: b"ex", routing_key: b"key", head: &[0x10, 0, 2], body: Body::Bytes(b"hi") },
    );
    assert_eq!(
        crate::support::take_output(&mut server),
        b"\x01\0\x01\0\0\0\x18\0\x3c\0\x3c\x03tag\0\0\0\0\0\0\x01\x02\x01\x02ex\x03key\xce\
          \x02\0\x01\0\0\0\x0f\0\x3c\0\0\0\0\0\0\0\0\0\x02\x10\0\x02\xce\
          \x03\0\x01\0\0\0\x02hi\xce"
    );
}

#[test]
fn a_routing_key_too_long_for_this_protocol_is_cut() {
    let (mut server, mut client) = open(Limits::default(), Limits::default());
    let key = [b'k'; 300];
    let message = Outgoing { exchange: b"", routing_key: &key, head: &[0, 0], body: Body::Bytes(b"") };
    server.deliver(&DeliverPrefix::new(1, b"tag"), 1, false, &message);
    server.get_ok(1, 1, false, 0, &message);
    let wire = crate::support::take_output(&mut server);
    let mut input = Input::new(&wire);
    let Some(Event::Deliver { deliver, .. }) = client.poll_event(Now::default(), &mut input) else {
        panic!("deliver follows")
    };
    assert_eq!(deliver.routing_key.len(), 255);
    let Some(Event::GetOk { get_ok, .. }) = client.poll_event(Now::default(), &mut input) else {
        panic!("get-ok follows")
    };
    assert_eq!(get_ok.routing_key.len(), 255);
}

#[test]
fn requests_and_answers_cross() {
    let (mut server, mut client) = open(Limits::default(), Limits::default());
    client.send(1, &QueueDeclare { queue: b"q", durable: true, ..Default::default() });
    client.send(1, &ConfirmSelect { nowait: false });
    client.ack(1, 5, true);
    client.nack(1, 6, false, true);
    client.reject(1, 7, false);
    client.send(0, &ConnectionUpdateSecret { new_secret: b"s", reason: b"r" });
    let told = pass(&mut client, &mut server);
    assert_eq!(told.len(), 6);
    assert!(told[0].contains("QueueDeclare") && told[0].contains("durable: true"));
    let ack = Method::BasicAck(BasicAck { delivery_tag: 5, multiple: true });
    assert_eq!(told[2], format!("{:?}", Event::Method { channel: 1, method: ack }));
    server.send(1, &QueueDeclareOk { queue: b"q", message_count: 1, consumer_count: 2 });
    server.send(0, &ConnectionBlocked { reason: b"low on memory" });
    server.send(1, &BasicCancel { consumer_tag: b"c", nowait: true });
    server.nack(1, 9, true, false);
    assert_eq!(pass(&mut server, &mut client).len(), 4);
}

#[test]
fn closes_are_answered() {
    let (mut server, mut client) = open(Limits::default(), Limits::default());
    client.close_channel(1, ReplyCode::Success, "bye", MethodId::NONE);
    assert!(pass(&mut client, &mut server)[0].starts_with("ChannelClose {"));
    server.channel_close_ok(1);
    assert_eq!(pass(&mut server, &mut client), ["ChannelClosed { channel: 1 }"]);
    client.channel_open(1);
    pass(&mut client, &mut server);
    server.channel_open_ok(1);
    server.close_channel(1, ReplyCode::NotFound, "NOT_FOUND - no", MethodId { class: 50, method: 10 });
    assert!(pass(&mut server, &mut client)[1].contains("reply_code: 404"));
    client.channel_close_ok(1);
    assert_eq!(pass(&mut client, &mut server), ["ChannelClosed { channel: 1 }"]);
    client.close_connection(Now::default(), ReplyCode::Success, "bye", MethodId::NONE);
    assert!(pass(&mut client, &mut server)[0].starts_with("Close("));
    server.close_ok();
    assert_eq!(pass(&mut server, &mut client), ["Closed"]);
    let mut nothing = Input::default();
    assert_eq!(server.poll_event(Now::default(), &mut nothing), Some(Event::Closed));
    assert!(client.is_closed() && server.is_closed());
}

#[test]
fn the_lesser_limits_hold() {
    let server = Limits { channel_max: 0, heartbeat_s: 60, ..Limits::default() };
    let client = Limits { channel_max: 5, frame_max: 10_000, heartbeat_s: 0, ..Limits::default() };
    let (server, client) = open(server, client);
    assert_eq!((server.frame_max(), server.channel_max()), (10_000, 5));
    assert_eq!(client.poll_deadline(), Some(Now::at_ms(15_000).mono_ns), "0 is no wish of the client's");
}

#[test]
fn who_knows_its_peer_takes_larger_heads() {
    let headers = TableWriter::fields(|table| table.put(b"h", Value::Text(&[b'x'; 200_000])));
    let mut head = Vec::new();
    NewProperties { headers: Table::new(&headers).ok(), ..NewProperties::default() }.write(&mut head);
    let check = |takes: bool| {
        let (mut server, mut client) = open(Limits::default(), Limits::default());
        if takes {
            client.take_frames(1 << 20);
        }
        let body = Body::Bytes(b"body");
        server.get_ok(1, 8, false, 3, &Outgoing { exchange: b"", routing_key: b"q", head: &head, body });
        assert_eq!(client.frame_max(), Limits::default().frame_max);
        pass(&mut server, &mut client)
    };
    assert!(check(false)[0].starts_with("Failed("));
    assert!(check(true)[0].starts_with("GetOk"));
}
