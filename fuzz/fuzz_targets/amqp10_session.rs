#![no_main]
//! An open connection whose peer sends any performatives on any channel, while its owner answers and sends.

use amqp10::{
    Body, Config, Connection, Control, Delivery, Event, Input, Limits, Open, Outcome, Role, SaslCode,
    SessionId,
};
use base::Now;
use libfuzzer_sys::fuzz_target;
use message::amqp10::{Map, Message, Value};
use std::sync::{Arc, LazyLock};

static LIMITS: LazyLock<Arc<Limits>> = LazyLock::new(|| Arc::new(Limits {
    incoming_window_max: 8,
    message_bytes_max: 2000,
    unsettled_max: 64,
    ..Limits::default()
}));

/// A message to a coordinator.
fn control(payload: &[u8]) -> Option<Control<'_>> {
    let body = Message::read(payload).ok()?.body.sections().next()?;
    Control::read(body).ok()?
}

fn look(server: &mut Connection, bytes: &[u8]) {
    let mut input = Input::new(bytes);
    while let Some(event) = server.poll_event(Now::default(), &mut input) {
        match event {
            Event::SaslInit { .. } => server.sasl_outcome(SaslCode::Ok),
            Event::Open(_) => server.open(&Open::new("server")),
            Event::OpenRefused(fault) => {
                server.open(&Open::new("server"));
                server.close(Some(fault.error()));
            }
            Event::Attach { session, link, attach, .. } => {
                server.answer_attach(session, link, &attach);
                server.grant(session, link, 3, false);
            }
            Event::Flow(flow) if flow.role == Role::Sender => {
                for token in 0..u64::from(flow.credit.min(4)) {
                    // Deliveries that are settled in advance have no other bound.
                    if server.queued(flow.session) >= 64 {
                        break;
                    }
                    let delivery = Delivery {
                        tag: &[1, 2, 3, 4],
                        settled: token == 2,
                        token,
                        head: &[b"head"],
                        body: Body::Bytes(&[7; 600]),
                    };
                    let _ = server.transfer(flow.session, flow.link, &delivery);
                }
                if flow.drain {
                    server.drained(flow.session, flow.link, flow.credit, Map::default());
                }
            }
            Event::Transfer(transfer) => {
                let id = transfer.delivery_id;
                let outcome = match control(transfer.payload) {
                    Some(Control::Declare { .. }) => Outcome::Declared(&[1]),
                    Some(Control::Discharge { fail: true, .. }) => Outcome::Released,
                    _ => Outcome::Accepted,
                };
                server.settle_incoming(transfer.session, id, id, &outcome);
            }
            Event::Posted { transfer, transaction } => {
                let id = transfer.delivery_id;
                let outcome = Outcome::Transactional { id: transaction, outcome: Value::Null };
                server.settle_incoming(transfer.session, id, id, &outcome);
            }
            Event::Assembled(assembled) => {
                let (transfer, id) = (assembled.transfer(), assembled.transaction().unwrap_or(&[]));
                let outcome = Outcome::Transactional { id, outcome: Value::Null };
                let delivery = transfer.delivery_id;
                server.settle_incoming(transfer.session, delivery, delivery, &outcome);
            }
            Event::Disposition(disposition) => {
                let mut count = 0;
                server.settle(disposition.session, disposition.first, disposition.last, |run| {
                    count += run.count
                });
                assert!(count <= 64);
                if let Some(Outcome::Transactional { outcome, .. }) = disposition.outcome {
                    let _ = Outcome::read(outcome);
                }
            }
            _ => {}
        }
    }
    let written = server.output_mut();
    written.sent(written.len());
}

fuzz_target!(|bytes: &[u8]| {
    let config = Config { limits: LIMITS.clone(), mechanisms: &["PLAIN"], first_id: u32::MAX - 2 };
    let mut server = Connection::server(config, Now::default());
    look(&mut server, b"AMQP\x03\x01\0\0\0\0\0\x13\x02\x01\0\0\0\x53\x41\xc0\x06\x01\xa3\x03ANY");
    look(&mut server, b"AMQP\0\x01\0\0\0\0\0\x17\x02\0\0\0\0\x53\x10\xc0\x0a\x03\xa1\x01c\x40\x70\0\0\x02\0");
    look(&mut server, &[0, 0, 0, 19, 2, 0, 0, 0, 0, 0x53, 0x11, 0xc0, 6, 4, 0x40, 0x43, 0x52, 9, 0x43]);
    assert!(server.is_open());
    let mut rest = bytes;
    // Each frame: a byte of length, a byte of channel, a byte of performative, its list and payload.
    while let [len, channel, code, after @ ..] = rest {
        let (body, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let mut frame = vec![0, 0, 0, 0, 2, 0, 0, channel % 3, 0, 0x53, 0x10 + code % 10];
        frame.extend_from_slice(body);
        frame[3] = (frame.len() % 256) as u8;
        frame[2] = (frame.len() / 256) as u8;
        look(&mut server, &frame);
        assert!(server.memory_bytes() <= 200_000 + 64 * bytes.len());
    }
    let sessions: Vec<SessionId> = server.sessions().collect();
    sessions.into_iter().for_each(|session| server.end(session, None));
    server.close(None);
});
