//! The cost of a message in this crate: nanoseconds to read a publish and an ack and to write a delivery and a confirm.
//!
//! `cargo run -p amqp091 --profile quick --example amqp091_speed`

#![allow(clippy::disallowed_methods, reason = "measuring needs a clock")]

use amqp091::method::BasicAck;
use amqp091::{Body, Connection, DeliverPrefix, Event, Input, Limits, Method, Outgoing, PublishPrefix};
use base::{Buffer, Now};
use message::amqp091::{NewProperties, Table};
use std::hint::black_box;
use std::time::Instant;

/// Messages in one run, about as many as one read of a socket brings.
const BATCH: usize = 2_000;
const ROUNDS: usize = 500;

fn main() {
    let now = Now::default();
    let (mut server, mut client) = open(now);
    let mut head = Vec::new();
    NewProperties { delivery_mode: Some(2), ..NewProperties::default() }.write(&mut head);
    for len in [12, 1024] {
        let body = vec![7; len];
        let to = PublishPrefix::new(1, b"", b"my-classic-queue", true);
        measure(&format!("write a publish of {len} bytes"), || {
            clear(&mut client);
            for _ in 0..BATCH {
                client.publish(black_box(&to), &head, &Body::Bytes(&body));
            }
        });
        let wire = client.output().to_vec();
        measure(&format!("read a publish of {len} bytes"), || {
            let mut input = Input::new(black_box(&wire));
            let mut count = 0;
            while let Some(event) = server.poll_event(now, &mut input) {
                let Event::Publish { publish, properties, body, .. } = event else { panic!("{event:?}") };
                count += usize::from(properties.is_persistent() && publish.mandatory && body.len() == len);
            }
            assert_eq!(count, BATCH);
            assert!(input.rest().is_empty());
        });
        let mut memory = Buffer::default();
        memory.extend(&body);
        let memory = memory.seal();
        let consumer = DeliverPrefix::new(1, b"amq.ctag-0123456789abcdefghijkl");
        measure(&format!("write a delivery of {len} bytes"), || {
            clear(&mut server);
            for tag in 0..BATCH as u64 {
                let message = Outgoing {
                    exchange: b"",
                    routing_key: b"my-classic-queue",
                    head: &head,
                    body: Body::Memory(&memory, 0..len),
                };
                server.deliver(black_box(&consumer), tag, false, black_box(&message));
            }
        });
        let wire = server.output().to_vec();
        measure(&format!("read a delivery of {len} bytes"), || {
            let mut input = Input::new(black_box(&wire));
            let mut sum = 0;
            while let Some(event) = client.poll_event(now, &mut input) {
                let Event::Deliver { deliver, .. } = event else { panic!("{event:?}") };
                sum += deliver.delivery_tag;
            }
            assert_eq!(sum as usize, BATCH * (BATCH - 1) / 2);
        });
    }
    measure("write an ack", || {
        clear(&mut client);
        for tag in 0..BATCH as u64 {
            client.ack(1, tag, false);
        }
    });
    let wire = client.output().to_vec();
    measure("read an ack", || {
        let mut input = Input::new(black_box(&wire));
        let mut sum = 0;
        while let Some(event) = server.poll_event(now, &mut input) {
            let Event::Method { method: Method::BasicAck(BasicAck { delivery_tag, .. }), .. } = event else {
                panic!("{event:?}")
            };
            sum += delivery_tag;
        }
        assert_eq!(sum as usize, BATCH * (BATCH - 1) / 2);
    });
    println!("{:40} {:6} bytes", "Connection", size_of::<Connection>());
    println!("{:40} {:6} bytes", "Event", size_of::<Event<'_>>());
}

/// The best of several runs: the cost when nobody else uses the core.
fn measure(name: &str, mut run: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        run();
        best = best.min(begin.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    println!("{name:40} {best:6.1} ns");
}

fn clear(connection: &mut Connection) {
    let len = connection.output().len();
    connection.output_mut().sent(len);
}

/// A pair with channel 1 open.
fn open(now: Now) -> (Connection, Connection) {
    let (mut server, mut client) =
        (Connection::server(Limits::default(), now), Connection::client(Limits::default(), now));
    loop {
        let from_client = client.output().to_vec();
        clear(&mut client);
        let mut input = Input::new(&from_client);
        while let Some(event) = server.poll_event(now, &mut input) {
            match event {
                Event::ProtocolHeader => server.start(Table::EMPTY, b"PLAIN", b"en_US"),
                Event::StartOk(_) => server.tune(),
                Event::Open(_) => server.open_ok(),
                Event::ChannelOpen { channel } => server.channel_open_ok(channel),
                _ => {}
            }
        }
        let from_server = server.output().to_vec();
        clear(&mut server);
        let mut input = Input::new(&from_server);
        while let Some(event) = client.poll_event(now, &mut input) {
            match event {
                Event::Start(_) => client.start_ok(Table::EMPTY, b"PLAIN", b"\0guest\0guest", b"en_US"),
                Event::Tune(tune) => {
                    client.tune_ok_and_open(now, tune, b"/");
                }
                Event::OpenOk => client.channel_open(1),
                Event::ChannelOpenOk { .. } => return (server, client),
                other => panic!("{other:?}"),
            }
        }
    }
}
