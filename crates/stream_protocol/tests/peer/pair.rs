//! A client and a server, all the way.

use crate::support::*;
use base::{Buffer, Now};
use message::chunk::{Chunk, Content, Entry, HEADER_LEN, Kind, Place, SubBatch, Writer};
use stream_protocol::key::{CLIENT_VERSIONS, SERVER_VERSIONS};
use stream_protocol::*;

const NOW: Now = Now { mono_ns: 0, wall_ms: 0 };

/// Two peers and the events they told.
struct Peers {
    client: Connection,
    server: Connection,
}

impl Peers {
    fn opened() -> Peers {
        let mut pair = Peers {
            client: Connection::client(Limits::default(), NOW),
            server: Connection::server(Limits::default(), NOW),
        };
        let properties = [Pair::new("product", "test")];
        pair.client.request(NOW, &Request::PeerProperties { properties: List::new(&properties) });
        for _ in 0..4 {
            pair.exchange();
        }
        assert!(pair.client.is_open() && pair.server.is_open());
        pair
    }

    /// Moves the output of each to the other: the events of the server, those of the client.
    fn exchange(&mut self) -> (Vec<String>, Vec<String>) {
        let bytes = said(&mut self.client);
        let server = feed(&mut self.server, NOW, &bytes, &[]);
        let bytes = said(&mut self.server);
        (server, feed(&mut self.client, NOW, &bytes, &[]))
    }
}

#[test]
fn they_open() {
    let mut server = Connection::server(Limits::default(), NOW);
    let mut client =
        Connection::client(Limits { frame_max: 100_000, heartbeat_s: 20, ..Limits::default() }, NOW);
    assert_eq!((client.role(), server.role()), (Role::Client, Role::Server));
    client.request(NOW, &Request::PeerProperties { properties: List::default() });
    let mut told = Vec::new();
    for _ in 0..4 {
        let bytes = said(&mut client);
        told.extend(feed(&mut server, NOW, &bytes, &[]).into_iter().map(|event| format!("S {event}")));
        let bytes = said(&mut server);
        told.extend(feed(&mut client, NOW, &bytes, &[]).into_iter().map(|event| format!("C {event}")));
    }
    assert_eq!(
        told,
        [
            "S Request { correlation_id: 1, request: PeerProperties { properties: [] } }",
            "C Response { correlation_id: 1, response: PeerProperties { code: 0x01 (ok), properties: [product=RabbitMQ] } }",
            "S Request { correlation_id: 2, request: SaslHandshake }",
            "C Response { correlation_id: 2, response: SaslHandshake { code: 0x01 (ok), mechanisms: [[80, 76, 65, 73, 78]] } }",
            "S Request { correlation_id: 3, request: SaslAuthenticate { mechanism: [80, 76, 65, 73, 78], response: [0, 103, 117, 101, 115, 116, 0, 103, 117, 101, 115, 116] } }",
            "C Response { correlation_id: 3, response: Done { key: SaslAuthenticate, code: 0x01 (ok) } }",
            "C Tune(Tune { frame_max: 1048576, heartbeat_s: 60 })",
            "S Tune(Tune { frame_max: 100000, heartbeat_s: 20 })",
            "S Request { correlation_id: 4, request: Open { virtual_host: [47] } }",
            "C Response { correlation_id: 4, response: Open { code: 0x01 (ok), properties: [advertised_port=5552] } }",
        ]
    );
    assert_eq!((client.frame_max(), server.frame_max(), server.input_max()), (100_000, 100_000, 100_004));
}

#[test]
fn requests_find_their_answers() {
    let mut pair = Peers::opened();
    let first = pair.client.request(NOW, &Request::Delete { stream: b"a" }).unwrap();
    let second = pair.client.request(NOW, &Request::StreamStats { stream: b"b" }).unwrap();
    let (asked, answered) = pair.exchange();
    assert_eq!(asked.len(), 2);
    assert_eq!(
        answered,
        [
            format!(
                "Response {{ correlation_id: {first}, response: Done {{ key: Delete, code: 0x01 (ok) }} }}"
            ),
            format!(
                "Response {{ correlation_id: {second}, response: Done {{ key: StreamStats, code: 0x01 (ok) }} }}"
            ),
        ]
    );
    // Versions, both ways.
    pair.client.request(NOW, &Request::ExchangeCommandVersions { versions: List::new(&CLIENT_VERSIONS) });
    let (asked, _) = pair.exchange();
    assert!(asked[0].contains("Versions { key: 8, min: 1, max: 2 }"), "{asked:?}");
    assert!(SERVER_VERSIONS.contains(&Versions { key: 2, min: 1, max: 2 }));
    // A server asks, too.
    let asked =
        pair.server.request(NOW, &Request::ConsumerUpdate { subscription_id: 1, active: true }).unwrap();
    let (_, told) = pair.exchange();
    assert_eq!(told.len(), 1);
    let offset = Some(OffsetSpec::Offset(42));
    pair.client.respond(asked, &Response::ConsumerUpdate { code: ResponseCode::OK, offset });
    let (told, _) = pair.exchange();
    assert_eq!(
        told,
        [format!(
            "Response {{ correlation_id: {asked}, response: ConsumerUpdate {{ code: 0x01 (ok), offset: Some(Offset(42)) }} }}"
        )]
    );
    // Once.
    pair.client.respond(asked, &Response::ConsumerUpdate { code: ResponseCode::OK, offset: None });
    let (told, _) = pair.exchange();
    assert_eq!(told, [format!("Unasked {{ correlation_id: {asked}, key: ConsumerUpdate }}")]);
}

#[test]
fn only_so_many_requests_wait() {
    let mut pair = Peers::opened();
    let most = Limits::default().requests_max;
    let update = Request::ConsumerUpdate { subscription_id: 1, active: true };
    for _ in 0..most {
        assert!(pair.server.request(NOW, &update).is_some());
    }
    let before = pair.server.output().len();
    assert_eq!(pair.server.request(NOW, &update), None);
    assert_eq!(pair.server.output().len(), before, "nothing was said");
    assert!(pair.server.capacity() <= 16 * usize::from(most) * 2);
}

#[test]
fn commands_come_across() {
    let mut pair = Peers::opened();
    pair.client.send(&Command::Credit { subscription_id: 3, credit: 10 });
    pair.client.send(&Command::StoreOffset { reference: b"r", stream: b"s", offset: 9 });
    pair.server.confirm(1, 5..8);
    pair.server.confirm(1, std::iter::empty());
    pair.server.refuse_messages(1, ResponseCode::PUBLISHER_DOES_NOT_EXIST, [8, 9].into_iter());
    pair.server.send(&Command::MetadataUpdate { code: ResponseCode::STREAM_NOT_AVAILABLE, stream: b"s" });
    let (server, client) = pair.exchange();
    assert_eq!(
        server,
        [
            "Command(Credit { subscription_id: 3, credit: 10 })",
            "Command(StoreOffset { reference: [114], stream: [115], offset: 9 })"
        ]
    );
    assert_eq!(client.len(), 3);
    assert_eq!(client[0], "Command(PublishConfirm { publisher_id: 1, publishing_ids: [5, 6, 7] })");
    assert!(client[1].contains("publishing_id: 9, code: 0x12 (publisher does not exist)"), "{}", client[1]);
}

#[test]
fn confirms_keep_to_the_frames_agreed_on() {
    let mut pair = Peers::opened();
    pair.server.confirm(1, 0..300_000);
    pair.server.refuse_messages(1, ResponseCode::ACCESS_REFUSED, 0..300_000);
    let bytes = said(&mut pair.server);
    let sizes: Vec<_> = bodies(&bytes).iter().map(|body| body.len()).collect();
    assert!(sizes.iter().all(|size| *size <= 1 << 20), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), 300_000 * 18 + sizes.len() * 9);
    assert_eq!(sizes.len(), 3 + 3);
}

#[test]
fn messages_go_into_frames_as_large_as_agreed_on() {
    let mut pair = Peers::opened();
    let body = [7; 1000];
    let mut frames = pair.client.publish(1, false);
    for id in 0..3000 {
        assert!(frames.message(id, None, &body));
    }
    let batch = SubBatch { compression: 0, records: 1, uncompressed_len: 5, body: b"\0\0\0\x01x" };
    assert!(frames.batch(3000, &batch));
    assert!(!frames.message(3001, None, &vec![0; 1 << 20]), "it has no room in any frame");
    assert!(frames.message(3002, None, &vec![0; (1 << 20) - 9 - 12]));
    let mut frames = pair.client.publish(2, true);
    assert!(frames.message(1, Some(b"red"), b"filtered") && frames.message(2, None, b"not"));
    let _ = pair.client.publish(3, false);
    let bytes = said(&mut pair.client);
    let bodies = bodies(&bytes);
    assert!(bodies.iter().all(|body| body.len() <= 1 << 20));
    assert_eq!(bodies.len(), 3 + 1 + 1);
    let mut ids = Vec::new();
    for body in &bodies {
        let Frame::Publish(publish) = Frame::decode(body).unwrap() else { panic!("messages") };
        assert_eq!(publish.len(), u32::from_be_bytes(body[5..9].try_into().unwrap()) as usize, "the count");
        ids.extend(publish.messages().map(|message| (publish.publisher_id, message.publishing_id)));
    }
    let expected: Vec<_> = (0..=3000).chain([3002]).map(|id| (1, id)).chain([(2, 1), (2, 2)]).collect();
    assert_eq!(ids, expected);
    assert_eq!(feed(&mut pair.server, NOW, &bytes, &[]).len(), 5);
}

#[test]
fn chunks_are_delivered_as_they_are_stored() {
    for len in [0, 100_000] {
        let mut pair = Peers::opened();
        let mut buffer = Buffer::default();
        buffer.extend(b"before");
        let mut writer = Writer::new(&mut buffer, Kind::User, 16);
        writer.push_message(&mut buffer, &vec![1; len], b"red");
        writer.push_message(&mut buffer, b"second", b"");
        let header = writer.finish(&mut buffer, Place { timestamp_ms: 5, epoch: 1, first_offset: 9 }, b"");
        let memory = buffer.seal();
        let chunk = 6..6 + header.stored_len() as usize;
        let head = memory[6..6 + HEADER_LEN].try_into().unwrap();
        let data = 6 + header.data_at()..chunk.end;
        pair.server.deliver(3, None, head, &memory, data.clone());
        pair.server.deliver(4, Some(77), head, &memory, data.clone());
        assert!(pair.server.output().capacity() < 20_000, "a long chunk is not copied");
        let bytes = said(&mut pair.server);
        let bodies = bodies(&bytes);
        for (body, subscription_id, committed_chunk_id) in [(bodies[0], 3, None), (bodies[1], 4, Some(77))] {
            let Frame::Deliver(deliver) = Frame::decode(body).unwrap() else { panic!("a chunk") };
            assert_eq!(
                (deliver.subscription_id, deliver.committed_chunk_id),
                (subscription_id, committed_chunk_id)
            );
            let (stored, _) = Chunk::read(&memory[chunk.clone()]).unwrap();
            assert_eq!((deliver.chunk.header, deliver.chunk.data), (stored.header, stored.data));
            assert_eq!(deliver.chunk.check(), Ok(()));
            let last = deliver.chunk.entries().last().unwrap();
            assert_eq!(last.as_ref().map(Entry::content), Ok(Content::Message(b"second")));
        }
        assert_eq!(feed(&mut pair.client, NOW, &bytes, &[]).len(), 2);
        // Told in front, sent by someone else.
        pair.server.deliver_head(3, None, head, data.len() as u32);
        let alone = [&said(&mut pair.server)[..], &memory[data]].concat();
        assert_eq!(alone[4..], *bodies[0]);
    }
}

#[test]
fn either_closes() {
    let mut pair = Peers::opened();
    pair.client.close(NOW, ResponseCode::OK, "bye");
    pair.client.close(NOW, ResponseCode::OK, "again");
    let (server, client) = pair.exchange();
    assert_eq!(server.len(), 2, "{server:?}");
    assert!(server[0].contains("Close { code: 0x01 (ok), reason: [98, 121, 101] }"));
    assert_eq!((&server[1][..], &client[..]), ("Closed", &["Closed".to_owned()][..]));
    assert!(pair.client.is_closed() && pair.server.is_closed());

    let mut pair = Peers::opened();
    pair.server.close(NOW, ResponseCode::INTERNAL_ERROR, "sorry");
    // Messages under way are not looked at any more.
    assert!(pair.client.publish(1, false).message(1, None, b"late"));
    let (server, client) = pair.exchange();
    assert_eq!((server.len(), client.len()), (0, 2));
    let (server, _) = pair.exchange();
    assert_eq!(server, ["Closed"]);
    assert!(pair.client.is_closed() && pair.server.is_closed());
    assert_eq!(pair.server.poll_deadline(), None);
}

#[test]
#[should_panic(expected = "out of place")]
fn a_client_asks_nothing_before_it_has_opened() {
    Connection::client(Limits::default(), NOW).request(NOW, &Request::Delete { stream: b"s" });
}

#[test]
#[should_panic(expected = "has a verb of its own")]
fn an_open_has_a_verb_of_its_own() {
    let done = Response::Done { key: Key::Open, code: ResponseCode::OK };
    Connection::server(Limits::default(), NOW).respond(1, &done);
}
