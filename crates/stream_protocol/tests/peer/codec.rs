//! Every command in every version, both ways, and frames that are none.

use crate::support::*;
use message::chunk::{Content, SubBatch};
use proptest::prelude::*;
use stream_protocol::key::{CLIENT_VERSIONS, SERVER_VERSIONS};
use stream_protocol::*;

const CODES: [ResponseCode; 2] = [ResponseCode::OK, ResponseCode(0x7777)];

/// Hands every request to `each`.
fn requests(mut each: impl FnMut(Request<'_>)) {
    let (stream, reference): (&[u8], &[u8]) = (b"invoices", b"app-1");
    let pairs = [Pair::new("max-age", "1D"), Pair::new("", "")];
    let pairs = List::new(&pairs);
    let names: [&[u8]; 2] = [b"invoices-0", b"invoices-1"];
    let names = List::new(&names);
    for request in [
        Request::DeclarePublisher { publisher_id: 255, reference, stream },
        Request::DeclarePublisher { publisher_id: 0, reference: b"", stream: b"" },
        Request::QueryPublisherSequence { reference, stream },
        Request::DeletePublisher { publisher_id: 7 },
        Request::QueryOffset { reference, stream },
        Request::Unsubscribe { subscription_id: 7 },
        Request::Create { stream, arguments: pairs },
        Request::Create { stream, arguments: List::default() },
        Request::Delete { stream },
        Request::Metadata { streams: names },
        Request::PeerProperties { properties: pairs },
        Request::SaslHandshake,
        Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"\0a\0b" },
        Request::SaslAuthenticate { mechanism: b"EXTERNAL", response: b"" },
        Request::Open { virtual_host: b"/" },
        Request::Close { code: ResponseCode::FRAME_TOO_LARGE, reason: b"frame too large" },
        Request::Route { routing_key: b"amer", super_stream: stream },
        Request::Partitions { super_stream: stream },
        Request::ConsumerUpdate { subscription_id: 1, active: true },
        Request::ConsumerUpdate { subscription_id: 1, active: false },
        Request::ExchangeCommandVersions { versions: List::new(&SERVER_VERSIONS) },
        Request::StreamStats { stream },
        Request::CreateSuperStream { name: stream, partitions: names, binding_keys: names, arguments: pairs },
        Request::DeleteSuperStream { name: stream },
    ] {
        each(request);
    }
    for offset in [
        OffsetSpec::First,
        OffsetSpec::Last,
        OffsetSpec::Next,
        OffsetSpec::Offset(u64::MAX),
        OffsetSpec::Timestamp(-1),
    ] {
        for properties in [pairs, List::default()] {
            each(Request::Subscribe { subscription_id: 9, stream, offset, credit: u16::MAX, properties });
            each(Request::ResolveOffsetSpec { stream, offset, properties });
        }
    }
}

/// Hands every response to `each`.
fn responses(mut each: impl FnMut(Response<'_>)) {
    let pairs = [Pair::new("advertised_host", "localhost")];
    let pairs = List::new(&pairs);
    let names: [&[u8]; 2] = [b"invoices-0", b""];
    let names = List::new(&names);
    let brokers = [Broker { reference: 0, host: b"localhost", port: 5552 }];
    let replicas = [0, 1, 2];
    let streams = [
        StreamMetadata {
            stream: b"s",
            code: ResponseCode::OK,
            leader: Some(0),
            replicas: List::new(&replicas),
        },
        StreamMetadata {
            stream: b"t",
            code: ResponseCode::STREAM_DOES_NOT_EXIST,
            leader: None,
            replicas: List::default(),
        },
    ];
    let statistics = [Statistic { key: b"committed_chunk_id", value: -1 }];
    each(Response::Metadata { brokers: List::new(&brokers), streams: List::new(&streams) });
    for code in CODES {
        for response in [
            Response::QueryPublisherSequence { code, publishing_id: u64::MAX },
            Response::QueryOffset { code, offset: u64::MAX },
            Response::PeerProperties { code, properties: pairs },
            Response::SaslHandshake { code, mechanisms: names },
            Response::SaslAuthenticate { code, challenge: b"more" },
            Response::Open { code, properties: pairs },
            Response::Route { code, streams: names },
            Response::Partitions { code, streams: List::default() },
            Response::ConsumerUpdate { code, offset: None },
            Response::ConsumerUpdate { code, offset: Some(OffsetSpec::Offset(5)) },
            Response::ExchangeCommandVersions { code, versions: List::new(&CLIENT_VERSIONS) },
            Response::StreamStats { code, statistics: List::new(&statistics) },
            Response::ResolveOffsetSpec { code, offset: 17 },
        ] {
            each(response);
        }
        for key in (1..=31).filter_map(Key::from_number).filter(|key| *key != Key::Metadata) {
            if is_request(key) {
                each(Response::Done { key, code });
            }
        }
    }
}

fn is_request(key: Key) -> bool {
    let mut body = [0; 10];
    body[..2].copy_from_slice(&(key as u16 | 0x8000).to_be_bytes());
    body[3] = 1;
    matches!(Frame::decode(&body), Ok(Frame::Response { .. }))
}

/// Hands every other command to `each`.
fn commands(mut each: impl FnMut(Command<'_>)) {
    let ids = [1, u64::MAX];
    let errors = CODES.map(|code| PublishError { publishing_id: 7, code });
    for command in [
        Command::PublishConfirm { publisher_id: 1, publishing_ids: List::new(&ids) },
        Command::PublishError { publisher_id: 1, errors: List::new(&errors) },
        Command::Credit { subscription_id: 1, credit: -1 },
        Command::CreditRefused { code: ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST, subscription_id: 1 },
        Command::StoreOffset { reference: b"app", stream: b"s", offset: u64::MAX },
        Command::MetadataUpdate { code: ResponseCode::STREAM_NOT_AVAILABLE, stream: b"s" },
    ] {
        each(command);
    }
}

/// The bytes of every frame that these make.
fn all_frames() -> Vec<Vec<u8>> {
    let mut all = vec![tune(1 << 20, 60), frame(&[0, 23, 0, 1]), publish(1, 2, b"body")];
    requests(|it| all.push(request(17, &it)));
    responses(|it| all.push(response(u32::MAX, &it)));
    commands(|it| all.push(command(&it)));
    all
}

#[test]
fn what_is_written_is_read() {
    requests(|written| {
        let bytes = request(17, &written);
        assert_eq!(Frame::decode(&bytes[4..]), Ok(Frame::Request { correlation_id: 17, request: written }));
    });
    responses(|written| {
        let bytes = response(u32::MAX, &written);
        let read = Frame::decode(&bytes[4..]);
        assert_eq!(read, Ok(Frame::Response { correlation_id: u32::MAX, response: written }));
    });
    commands(|written| {
        let bytes = command(&written);
        assert_eq!(Frame::decode(&bytes[4..]), Ok(Frame::Command(written)));
    });
    let settled = Tune { frame_max: 1 << 20, heartbeat_s: 60 };
    assert_eq!(Frame::decode(&tune(1 << 20, 60)[4..]), Ok(Frame::Tune(settled)));
    // Some clients call it a response.
    let answered = [&[0x80, 20, 0, 1][..], &tune(1 << 20, 60)[8..]].concat();
    assert_eq!(Frame::decode(&answered), Ok(Frame::Tune(settled)));
    assert_eq!(Frame::decode(&frame::HEARTBEAT_FRAME[4..]), Ok(Frame::Heartbeat));
}

#[test]
fn every_command_has_its_frame() {
    let mut keys: Vec<u16> = Vec::new();
    for bytes in all_frames() {
        keys.push(u16::from_be_bytes([bytes[4], bytes[5]]) & 0x7fff);
    }
    keys.push(Key::Deliver as u16);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys, (1..=31).collect::<Vec<_>>());
}

/// A frame that ends early, or goes on, is none, but where a list's end is the frame's.
#[test]
fn frames_end_where_their_commands_do() {
    for bytes in all_frames() {
        let body = &bytes[4..];
        for len in 0..body.len() {
            if let Ok(cut) = Frame::decode(&body[..len]) {
                let may_end = match cut {
                    Frame::Request { request, .. } => matches!(
                        request,
                        Request::Create { .. }
                            | Request::Metadata { .. }
                            | Request::PeerProperties { .. }
                            | Request::ExchangeCommandVersions { .. }
                            | Request::CreateSuperStream { .. }
                            | Request::Subscribe { .. }
                            | Request::ResolveOffsetSpec { .. }
                    ),
                    Frame::Response { .. } => true,
                    Frame::Command(command) => {
                        matches!(command, Command::PublishConfirm { .. } | Command::PublishError { .. })
                    }
                    Frame::Publish(publish) => publish.is_empty(),
                    _ => false,
                };
                assert!(may_end, "{cut:?} of {len} bytes");
            }
        }
        let longer = [body, &[0xff]].concat();
        let is_optional = matches!(
            Frame::decode(body),
            Ok(Frame::Request { request: Request::Subscribe { properties, .. } | Request::ResolveOffsetSpec { properties, .. }, .. })
                if properties.is_empty()
        );
        // Clients were seen to send more, and RabbitMQ passes it over.
        let is_answer = matches!(
            Frame::decode(body),
            Ok(Frame::Response { response: Response::ConsumerUpdate { .. }, .. })
        );
        assert!(Frame::decode(&longer).is_err() || is_optional || is_answer, "{body:?}");
    }
}

#[test]
fn values_that_cannot_be_are_named() {
    let check = |body: &[u8], expected| assert_eq!(Frame::decode(body), Err(expected), "{body:?}");
    check(b"", Malformed::Short);
    check(&[0, 32, 0, 1], Malformed::UnknownCommand { key: 32, version: 1 });
    check(&[0, 1, 0, 2, 0, 0, 0, 1], Malformed::UnknownCommand { key: 1, version: 2 });
    check(&[0x80, 2, 0, 1, 0, 0, 0, 1, 0, 1], Malformed::UnknownCommand { key: 0x8002, version: 1 });
    check(&[0, 2, 0, 3, 0, 0, 0, 0, 0], Malformed::UnknownCommand { key: 2, version: 3 });
    // A null reference.
    check(&[0, 1, 0, 1, 0, 0, 0, 1, 0, 0xff, 0xff, 0, 0], Malformed::Value);
    // No such place.
    check(&[0, 7, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 6, 0, 1], Malformed::Value);
    check(&[0, 7, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1], Malformed::Value);
    // Neither active nor not.
    check(&[0, 26, 0, 1, 0, 0, 0, 1, 0, 2], Malformed::Value);
    // A resolved offset that is none.
    check(&[0x80, 31, 0, 1, 0, 0, 0, 1, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], Malformed::Value);
    let entries = Malformed::Chunk(message::chunk::Malformed::Entries);
    check(&publish(1, 2, b"body")[4..24], entries);
    check(&publish(1, 2, b"body")[4..16], Malformed::Short);
    // A sub-batch with a filter value.
    let batch = SubBatch { compression: 0, records: 1, uncompressed_len: 4, body: b"\0\0\0\0" };
    let filtered =
        [&[0, 2, 0, 2, 1, 0, 0, 0, 1][..], &[0; 8], b"\0\x01f", &batch.head(), batch.body].concat();
    check(&filtered, entries);
    check(&[0, 8, 0, 1, 0, 0x51], Malformed::Chunk(message::chunk::Malformed::Short));
}

#[test]
fn counts_in_front_of_last_lists_are_not_looked_at() {
    for count in [0u32, 1, u32::MAX] {
        let body = [&[0, 15, 0, 1, 0, 0, 0, 1][..], &count.to_be_bytes(), b"\0\x01a\0\x01b"].concat();
        let Ok(Frame::Request { request: Request::Metadata { streams }, .. }) = Frame::decode(&body) else {
            panic!("a metadata query")
        };
        assert_eq!(streams.iter().collect::<Vec<_>>(), [b"a", b"b"]);
        let messages = &publish(1, 2, b"body")[13..];
        let body = [&[0, 2, 0, 1, 1][..], &count.to_be_bytes(), messages].concat();
        let Ok(Frame::Publish(publish)) = Frame::decode(&body) else { panic!("messages") };
        assert_eq!((publish.len(), publish.messages().count()), (1, 1));
    }
    // Where something follows, they count.
    let body = [&[0, 29, 0, 1, 0, 0, 0, 1, 0, 1, b's'][..], &[0xff; 4], b"\0\x01a", &[0; 8]].concat();
    assert!(Frame::decode(&body).is_err());
}

#[test]
fn the_last_of_equal_keys_counts() {
    let pairs = [Pair::new("a", "1"), Pair::new("b", "2"), Pair::new("a", "3")];
    let list = List::new(&pairs);
    assert_eq!((list.get(b"a"), list.get(b"c")), (Some(&b"3"[..]), None));
}

#[test]
fn messages_lie_where_they_came() {
    let batch = SubBatch { compression: 1, records: 3, uncompressed_len: 40, body: b"zipped" };
    let plain = [
        &[0, 0, 0, 0, 0, 0, 0, 5][..],
        b"\0\0\0\x02hi",
        &[0, 0, 0, 0, 0, 0, 0, 6],
        &batch.head(),
        batch.body,
    ]
    .concat();
    let bytes = [&[0, 2, 0, 1, 9, 0, 0, 0, 2][..], &plain].concat();
    let Ok(Frame::Publish(publish)) = Frame::decode(&bytes) else { panic!("messages") };
    assert_eq!((publish.publisher_id, publish.len(), publish.is_empty()), (9, 2, false));
    let all: Vec<_> = publish.messages().collect();
    assert_eq!((all[0].publishing_id, all[0].entry.content()), (5, Content::Message(b"hi")));
    assert_eq!((all[1].publishing_id, all[1].entry.content()), (6, Content::Batch(batch)));
    assert_eq!(all[0].entry.bytes(), b"\0\0\0\x02hi");
    let filtered =
        [&[0; 8][..], b"\0\x03red\0\0\0\x02hi", &[0; 8], b"\xff\xff\0\0\0\x02ho", &[0; 8], b"\0\0\0\0\0\0"]
            .concat();
    let bytes = [&[0, 2, 0, 2, 9, 0, 0, 0, 3][..], &filtered].concat();
    let Ok(Frame::Publish(publish)) = Frame::decode(&bytes) else { panic!("messages") };
    let values: Vec<_> = publish.messages().map(|message| message.filter_value).collect();
    assert_eq!(values, [Some(&b"red"[..]), None, Some(b"")]);
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100), key in 0u16..33, is_response: bool, version in 1u16..3) {
        let key = key | if is_response { 0x8000 } else { 0 };
        let framed = [&key.to_be_bytes()[..], &version.to_be_bytes(), &bytes].concat();
        for body in [&bytes, &framed] {
            // A frame that is read can be written, and read again the same.
            let again = match Frame::decode(body) {
                Ok(Frame::Request { correlation_id, request: it }) => request(correlation_id, &it),
                Ok(Frame::Response { correlation_id, response: it }) => response(correlation_id, &it),
                Ok(Frame::Command(it)) => command(&it),
                Ok(Frame::Publish(it)) => {
                    prop_assert_eq!(it.messages().count(), it.len());
                    continue;
                }
                _ => continue,
            };
            prop_assert_eq!(Frame::decode(&again[4..]), Frame::decode(body));
        }
    }
}
