//! A session of pika 1.4.4 with RabbitMQ 4.3.6, frame by frame in `session.txt` (C: client, S: server; `(78*9)` stands for
//! a byte repeated; two long texts were cut from the server's properties).

use crate::support::*;
use amqp091::{Connection, Event, Input, Limits, Method, MethodId};
use base::Now;
use message::amqp091::{Properties, Table};

fn lines() -> impl Iterator<Item = (char, Vec<u8>)> {
    include_str!("session.txt").lines().map(|line| {
        let (who, hex) = line.split_once(' ').unwrap();
        let hex = match hex.split_once('(') {
            None => hex.to_owned(),
            Some((before, rest)) => {
                let (run, after) = rest.split_once(')').unwrap();
                let (byte, count) = run.split_once('*').unwrap();
                [before, &byte.repeat(count.parse().unwrap()), after].concat()
            }
        };
        let bytes = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        (who.chars().next().unwrap(), bytes.collect())
    })
}

#[test]
fn what_real_peers_wrote_is_written_the_same() {
    let mut count = 0;
    for (_, bytes) in lines().skip(1) {
        let [(kind, _, payload)] = frames(&bytes)[..] else { panic!("one frame a line") };
        match kind {
            1 => {
                let id = MethodId {
                    class: u16::from_be_bytes([payload[0], payload[1]]),
                    method: u16::from_be_bytes([payload[2], payload[3]]),
                };
                let mut again = Vec::new();
                Method::decode(id, &payload[4..]).unwrap().unwrap().encode(&mut again);
                assert_eq!(again, payload);
                count += 1;
            }
            2 => {
                let mut again = Vec::new();
                Properties::read(&payload[12..]).unwrap().to_new().write(&mut again);
                assert_eq!(again, payload[12..]);
                count += 1;
            }
            _ => {}
        }
    }
    assert_eq!(count, 75);
}

#[test]
fn a_real_client_is_understood() {
    let bytes: Vec<u8> = lines().filter(|(who, _)| *who == 'C').flat_map(|(_, bytes)| bytes).collect();
    for cuts in [vec![], vec![5, 500, 1000, 1001, 80_000, 140_000]] {
        let mut server = Connection::server(Limits::default(), Now::default());
        let told = feed(&mut server, Now::default(), &bytes, &cuts);
        let names: Vec<_> = told
            .iter()
            .map(|event| {
                let method = event.split_once("method: ").map_or(&event[..], |(_, method)| method);
                method.split([' ', '(']).next().unwrap()
            })
            .collect();
        assert_eq!(
            names.join(" "),
            "ProtocolHeader StartOk TuneOk Open ChannelOpen ExchangeDeclare QueueDeclare QueueBind ConfirmSelect \
             BasicQos Publish Publish Publish Publish BasicGet BasicNack BasicConsume BasicAck BasicReject \
             BasicCancel BasicGet QueuePurge ChannelOpen QueueDeclare ChannelClosed ChannelOpen QueueUnbind \
             QueueDelete ExchangeDelete TxSelect TxCommit TxRollback ChannelClose ChannelClose Close Closed"
        );
        let said = said(&server.output().to_vec());
        assert_eq!(
            said[1],
            "0 ConnectionTune(ConnectionTune { channel_max: 2047, frame_max: 131072, heartbeat: 60 })"
        );
        assert_eq!(said.last().unwrap(), "0 ConnectionCloseOk(ConnectionCloseOk)");
    }
}

#[test]
fn a_real_server_is_understood() {
    let mut client = Connection::client(Limits::default(), Now::default());
    let mut told = Vec::new();
    let mut kept = Vec::new();
    let mut opened = 0;
    for (who, bytes) in lines().skip(1) {
        if who == 'C' {
            // Only the methods that the machine must know of are sent here; the server has answered the rest long ago.
            match bytes[7..11] {
                [0, 20, 0, 10] => client.channel_open(u16::from(bytes[2])),
                [0, 20, 0, 40] => {
                    client.close_channel(bytes[2].into(), amqp091::ReplyCode::Success, "bye", MethodId::NONE);
                }
                [0, 10, 0, 50] => {
                    client.close_connection(
                        Now::default(),
                        amqp091::ReplyCode::Success,
                        "bye",
                        MethodId::NONE,
                    );
                }
                _ => {}
            }
            continue;
        }
        kept.extend(bytes);
        let mut input = Input::new(&kept);
        while let Some(polled) = client.poll_event(Now::default(), &mut input) {
            let gathered;
            let event = match polled {
                Event::Gathered(whole) => {
                    gathered = whole;
                    gathered.event()
                }
                other => other,
            };
            told.push(format!("{event:?}"));
            match event {
                Event::Start(start) => {
                    let capabilities =
                        start.server_properties.get(b"capabilities").unwrap().as_table().unwrap();
                    assert_eq!(capabilities.get(b"publisher_confirms").unwrap().as_bool(), Some(true));
                    client.start_ok(Table::EMPTY, b"PLAIN", b"", b"en_US");
                }
                Event::Tune(tune) => {
                    client.tune_ok_and_open(Now::default(), tune, b"/");
                }
                Event::ChannelOpenOk { .. } => opened += 1,
                Event::ChannelClose { channel, .. } => client.channel_close_ok(channel),
                Event::Deliver { deliver, properties, body, .. } => {
                    assert_eq!(deliver.exchange, b"vectors");
                    if deliver.delivery_tag == 2 {
                        assert!(deliver.redelivered && body == b"hello, world");
                        assert_eq!(
                            (properties.priority(), properties.timestamp()),
                            (Some(3), Some(1_700_000_000))
                        );
                        assert_eq!(properties.expiration_ms(), Ok(Some(60_000)));
                        assert_eq!(
                            properties.headers().unwrap().get(b"big").unwrap().as_i64(),
                            Some(1 << 40)
                        );
                    } else {
                        assert_eq!(body.len(), 140_000);
                    }
                }
                _ => {}
            }
        }
        let left = input.rest().len();
        kept.drain(..kept.len() - left);
    }
    assert_eq!(opened, 3);
    assert_eq!(told.iter().filter(|event| event.starts_with("Deliver")).count(), 2);
    assert!(client.is_closed());
}
