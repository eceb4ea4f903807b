//! The cost of a message in the protocol machine alone: nanoseconds per message, best of several rounds.
//!
//! `cargo run --profile quick -p amqp10 --example amqp10_speed`

#![allow(clippy::disallowed_methods)] // A stopwatch, not logic.

use amqp10::{
    Attach, Body, Config, Connection, Delivery, Event, Input, Limits, LinkId, Open, Outcome, Role, SaslCode,
    SessionId,
};
use base::Now;
use base::memory::Buffer;
use message::amqp10::{Header, Map, Message, section};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

static LIMITS: Limits = Limits {
    frame_bytes_before_open: 8192,
    frame_bytes_max: 131_072,
    sessions_max: 64,
    links_max: 256,
    link_name_bytes_max: 1024,
    incoming_window_max: 2_000_000_000,
    message_bytes_max: 16 << 20,
    assembly_bytes_max: 64 << 20,
    unsettled_max: 1 << 20,
    handshake_ms: 10_000,
    close_ms: 10_000,
    idle_ms: 30_000,
};

const BATCH: usize = 1000;
const ROUNDS: usize = 2000;

fn exchange(from: &mut Connection, to: &mut Connection) -> bool {
    let output = from.output_mut();
    let bytes = output.to_vec();
    output.sent(bytes.len());
    let mut input = Input::new(&bytes);
    while let Some(event) = to.poll_event(Now::default(), &mut input) {
        match event {
            Event::SaslMechanisms(_) => to.sasl_init("ANONYMOUS", None, None),
            Event::SaslInit { .. } => to.sasl_outcome(SaslCode::Ok),
            Event::SaslOutcome(_) => to.open(&Open::new("client")),
            Event::Open(open) if open.container_id == "client" => to.open(&Open::new("server")),
            Event::Attach { session, link, is_answer: false, attach } => {
                to.answer_attach(session, link, &attach);
                to.grant(session, link, u32::MAX / 2, false);
            }
            _ => {}
        }
    }
    !bytes.is_empty()
}

/// Runs `work` on batches and prints the best time per item.
fn measure(name: &str, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    println!("{name:44} {best:6.1} ns");
}

fn main() {
    let config = Config { limits: Arc::new(LIMITS), mechanisms: &["ANONYMOUS"], first_id: 0 };
    let mut client = Connection::client(config.clone(), Now::default());
    let mut server = Connection::server(config, Now::default());
    let pump = |client: &mut Connection, server: &mut Connection| {
        while exchange(client, server) | exchange(server, client) {}
    };
    pump(&mut client, &mut server);
    let session = client.begin(Map::default()).expect("a session");
    let link = client.attach(session, &Attach::new("out", Role::Sender)).expect("a link");
    pump(&mut client, &mut server);

    let mut message = Vec::new();
    Header { durable: true, ..Header::default() }.write(&mut message);
    let head_len = message.len();
    let (prefix, len) = section::data_prefix(12);
    message.extend_from_slice(&prefix[..len]);
    message.extend_from_slice(b"twelve bytes");
    let mut buffer = Buffer::default();
    buffer.extend(&message);
    let memory = buffer.seal();

    let mut token = 0u64;
    let mut send = |client: &mut Connection, settled: bool| {
        for _ in 0..BATCH {
            token += 1;
            let tag = (token as u32).to_be_bytes();
            let body = Body::Memory(&memory, head_len..message.len());
            let delivery = Delivery { tag: &tag, settled, token, head: &[&message[..head_len]], body };
            let _ = black_box(client.transfer(session, link, &delivery));
        }
    };
    send(&mut client, false);
    let frames = client.output_mut().to_vec();
    println!("frame of a 12-byte message: {} bytes", frames.len() / BATCH);
    client.output_mut().sent(frames.len());
    client.settle(session, 0, u32::MAX / 4, |_| {});

    measure("transfer encode, settled", || {
        send(&mut client, true);
        let output = client.output_mut();
        let len = output.len();
        output.sent(len);
    });
    let mut at = BATCH as u32 * (ROUNDS as u32 + 1);
    let mut runs = 0;
    measure("transfer encode, unsettled, settled by range", || {
        send(&mut client, false);
        let output = client.output_mut();
        let len = output.len();
        output.sent(len);
        client.settle(session, at, at.wrapping_add(BATCH as u32 - 1), |_| runs += 1);
        at = at.wrapping_add(BATCH as u32);
    });
    assert_eq!(runs, ROUNDS);
    let mut sum = 0;
    measure("transfer parse", || {
        let mut input = Input::new(&frames);
        while let Some(event) = server.poll_event(Now::default(), &mut input) {
            if let Event::Transfer(transfer) = event {
                sum += transfer.payload.len();
            }
        }
    });
    assert_eq!(sum, ROUNDS * BATCH * message.len());
    measure("transfer parse + message sections", || {
        let mut input = Input::new(&frames);
        while let Some(event) = server.poll_event(Now::default(), &mut input) {
            if let Event::Transfer(transfer) = event {
                let read = Message::read(transfer.payload).expect("a message");
                sum += read.bare.len() + usize::from(read.header.durable);
            }
        }
    });
    let mut rich = Vec::new();
    Header { durable: true, priority: Some(4), ttl_ms: Some(60_000), ..Header::default() }.write(&mut rich);
    let mut fields = [message::amqp10::Value::Null; 13];
    fields[0] = message::amqp10::Value::String("message-0001");
    fields[3] = message::amqp10::Value::String("orders.new");
    fields[6] = message::amqp10::Value::Symbol("application/json");
    message::amqp10::properties::write(&fields, &mut rich);
    rich.extend_from_slice(&message[head_len..]);
    measure("message sections with header and properties", || {
        for _ in 0..BATCH {
            let read = Message::read(black_box(&rich)).expect("a message");
            sum += read.bare.len();
        }
    });
    black_box(sum);

    let mut id = 0u32;
    measure("settle incoming one by one, joined", || {
        for _ in 0..BATCH {
            server.settle_incoming(SessionId(0), id, id, &Outcome::Accepted);
            id = id.wrapping_add(1);
        }
        let output = server.output_mut();
        let len = output.len();
        output.sent(len);
    });
    for n in 0..BATCH as u32 {
        server.settle_incoming(SessionId(0), 2 * n, 2 * n, &Outcome::Accepted);
    }
    let dispositions = server.output_mut().to_vec();
    server.output_mut().sent(dispositions.len());
    measure("disposition parse, each of one delivery", || {
        let mut input = Input::new(&dispositions);
        while let Some(event) = client.poll_event(Now::default(), &mut input) {
            if let Event::Disposition(disposition) = event {
                client.settle(session, disposition.first, disposition.last, |_| {});
            }
        }
    });
    println!("connection with a session and a link: {} bytes", {
        server.output_mut().release();
        server.memory_bytes()
    });
    let sizes = (size_of::<Event<'_>>(), size_of::<Connection>());
    println!("event {} bytes, connection {} bytes", sizes.0, sizes.1);
    let _ = LinkId(0);
}
