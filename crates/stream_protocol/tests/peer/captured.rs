//! A session of this crate's client with RabbitMQ 4.3.6, frame by frame in `session.txt` (C: client, S: server).

use crate::support::*;
use base::Now;
use message::chunk::{Content, Kind};
use stream_protocol::*;

fn lines() -> Vec<(char, Vec<u8>)> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    let bytes =
        |hex: &str| hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    let line = |line: &str| (line.chars().next().unwrap(), bytes(&line[2..]));
    include_str!("session.txt").lines().map(line).collect()
}

/// Every frame of both peers is read, and written again the same.
#[test]
fn what_real_peers_wrote_is_written_the_same() {
    let mut keys = Vec::new();
    for (who, bytes) in lines() {
        let body = &bytes[4..];
        keys.push(u16::from_be_bytes([body[0], body[1]]));
        let again = match Frame::decode(body).unwrap() {
            Frame::Request { correlation_id, request: it } => request(correlation_id, &it),
            Frame::Response { correlation_id, response: it } => response(correlation_id, &it),
            Frame::Command(it) => command(&it),
            Frame::Tune(it) => tune(it.frame_max, it.heartbeat_s),
            Frame::Publish(publish) => {
                assert!(who == 'C' && !publish.is_empty());
                continue;
            }
            Frame::Deliver(deliver) => {
                assert_eq!((who, deliver.chunk.check()), ('S', Ok(())));
                let header = deliver.chunk.header;
                // Neither the filter nor the trailer of a chunk with messages comes along.
                assert_eq!((header.kind, deliver.chunk.trailer), (Kind::User, &[][..]));
                [&bytes[..17], &header.write(), deliver.chunk.data].concat()
            }
            Frame::Heartbeat => frame::HEARTBEAT_FRAME.to_vec(),
        };
        assert_eq!(again, bytes, "{who}");
    }
    keys.sort_unstable();
    keys.dedup();
    // Requests and their responses, but for those that only come when something fails.
    for key in (1..=31).filter(|key| ![23].contains(key)) {
        assert!(keys.contains(&key) || keys.contains(&(key | 0x8000)), "no frame of {key}");
    }
}

#[test]
fn a_real_client_is_understood() {
    let bytes: Vec<u8> =
        lines().into_iter().filter(|(who, _)| *who == 'C').flat_map(|(_, bytes)| bytes).collect();
    for cuts in [vec![], vec![5, 100, 500, 501, 900]] {
        let mut server = Connection::server(Limits::default(), Now::default());
        let told = feed(&mut server, Now::default(), &bytes, &cuts);
        assert!(!told.iter().any(|event| event.starts_with("Failed")), "{told:?}");
        assert_eq!(told.last().unwrap(), "Closed");
        assert_eq!(told.iter().filter(|event| event.starts_with("Publish(")).count(), 5);
    }
}

/// The frames of the server, with our requests in between, are the answers to them.
#[test]
fn a_real_server_is_understood() {
    let now = Now::default();
    let mut client = Connection::client(Limits::default(), now);
    let mut told = Vec::new();
    let mut chunks = Vec::new();
    for (who, bytes) in lines() {
        if who == 'C' {
            // Verbs of the opening follow from the server's frames; answers it has had.
            match Frame::decode(&bytes[4..]).unwrap() {
                Frame::Request { request: Request::Open { .. } | Request::Close { .. }, .. } => {}
                Frame::Request { correlation_id, request } => {
                    assert_eq!(client.request(now, &request), Some(correlation_id));
                }
                _ => {}
            }
            continue;
        }
        let closes = matches!(
            Frame::decode(&bytes[4..]),
            Ok(Frame::Response { response, .. }) if response.key() == Key::Close
        );
        if closes {
            client.close(now, ResponseCode::OK, "bye");
        }
        let mut input = Input::new(&bytes);
        while let Some(event) = client.poll_event(now, &mut input) {
            match event {
                Event::Tune(proposed) => _ = client.tune_and_open(now, proposed, b"/"),
                Event::Deliver(deliver) => {
                    chunks.push((deliver.subscription_id, deliver.committed_chunk_id, deliver.chunk.header));
                    for entry in deliver.chunk.entries() {
                        if let Content::Batch(batch) = entry.unwrap().content() {
                            assert_eq!((batch.records, batch.compression), (3, 0));
                        }
                    }
                }
                Event::Unasked { .. } | Event::Failed(_) => panic!("{event:?}"),
                _ => {}
            }
            told.push(format!("{event:?}"));
        }
    }
    assert!(client.is_closed());
    assert!(chunks.iter().all(|(_, committed, _)| committed.is_some()), "version 2 was agreed on");
    let of = |id| chunks.iter().filter(move |(subscription_id, ..)| *subscription_id == id);
    assert!(of(5).count() > of(6).count() && of(6).count() > 0, "the filter leaves chunks out");
}
