//! Peers that send anything: no panic, bounded memory, and the same events however the bytes are split.

use amqp10::{
    Attach, Body, Config, Connection, Delivery, Event, Input, Limits, Open, Outcome, Role, SaslCode,
};
use base::Now;
use message::amqp10::Map;
use proptest::prelude::*;
use std::sync::Arc;

static LIMITS: Limits = Limits {
    frame_bytes_before_open: 8192,
    frame_bytes_max: 2048,
    sessions_max: 3,
    links_max: 4,
    link_name_bytes_max: 1024,
    incoming_window_max: 8,
    message_bytes_max: 2000,
    assembly_bytes_max: 5000,
    unsettled_max: 16,
    handshake_ms: 10_000,
    close_ms: 10_000,
    idle_ms: 30_000,
};

/// Reads `bytes` in pieces of `step`, answering as an adapter does: the events, the output, and the most memory in use,
/// in bytes.
fn converse(bytes: &[u8], step: usize) -> (Vec<String>, Vec<u8>, usize) {
    let config = Config { limits: Arc::new(LIMITS), mechanisms: &["PLAIN"], first_id: u32::MAX - 2 };
    let mut server = Connection::server(config, Now::default());
    let mut told = Vec::new();
    let mut inbox = Vec::new();
    let mut most = 0;
    for piece in bytes.chunks(step) {
        inbox.extend_from_slice(piece);
        let mut input = Input::new(&inbox);
        while let Some(event) = server.poll_event(Now::default(), &mut input) {
            told.push(format!("{event:?}"));
            answer(&mut server, event);
        }
        let left = input.len();
        assert!(server.wanted() > left || !server.is_open(), "a whole frame was left");
        inbox.drain(..inbox.len() - left);
        most = most.max(server.memory_bytes());
    }
    (told, server.output_mut().to_vec(), most)
}

fn answer(server: &mut Connection, event: Event<'_>) {
    match event {
        Event::SaslInit { .. } => server.sasl_outcome(SaslCode::Ok),
        Event::Open(_) => server.open(&Open::new("server")),
        Event::OpenRefused(fault) => {
            server.open(&Open::new("server"));
            server.close(Some(fault.error()));
        }
        Event::Attach { session, link, attach, .. } => {
            let bytes = attach.to_bytes();
            let again = Attach::from_bytes(&bytes).expect("what is written can be read");
            assert_eq!((again.to_bytes(), again.name, again.role), (bytes.clone(), attach.name, attach.role));
            server.answer_attach(session, link, &attach);
            server.grant(session, link, 3, false);
        }
        Event::Flow(flow) if flow.role == Role::Sender => {
            for token in 0..u64::from(flow.credit.min(4)) {
                let (tag, head, body) = (&[1, 2, 3, 4], &[&b"head"[..]], Body::Bytes(&[7; 600]));
                let delivery = Delivery { tag, settled: token == 2, token, head, body };
                let _ = server.transfer(flow.session, flow.link, &delivery);
            }
            if flow.drain {
                server.drained(flow.session, flow.link, flow.credit, Map::default());
            }
        }
        Event::Transfer(transfer) => {
            let id = transfer.delivery_id;
            server.settle_incoming(transfer.session, id, id, &Outcome::Accepted);
        }
        Event::Disposition(disposition) => {
            let mut count = 0;
            server.settle(disposition.session, disposition.first, disposition.last, |run| count += run.count);
            assert!(count <= LIMITS.unsettled_max);
        }
        _ => {}
    }
}

/// SASL, open and a begin as a good client sends them, its frames of 512 bytes at most.
const GREETING: &[u8] = b"AMQP\x03\x01\0\0\0\0\0\x13\x02\x01\0\0\0\x53\x41\xc0\x06\x01\xa3\x03ANY\
AMQP\0\x01\0\0\0\0\0\x19\x02\0\0\0\0\x53\x10\xc0\x0c\x03\xa1\x01c\xa1\x01h\x70\0\0\x02\0\
\0\0\0\x14\x02\0\0\0\0\x53\x11\xc0\x07\x04\x40\x43\x52\x09\x52\x09";

/// A value, more often than not of a type that some field has.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop_oneof![Just(0u8), Just(1), Just(2), Just(5), any::<u8>()].prop_map(|n| vec![0x52, n]),
        2 => Just(vec![0x40]),
        2 => any::<bool>().prop_map(|b| vec![0x42 - u8::from(b)]),
        1 => Just(vec![0x43]),
        1 => any::<u32>().prop_map(|n| [&[0x70][..], &n.to_be_bytes()].concat()),
        1 => (0u8..3).prop_map(|n| vec![0x50, n]),
        1 => Just(vec![0xa1, 1, b'n']),
        1 => Just(vec![0xa0, 1, 7]),
        1 => Just(vec![0x00, 0x53, 0x24, 0x45]),
        1 => prop_oneof![Just(0x28u8), Just(0x29)].prop_map(|code| vec![0x00, 0x53, code, 0x45]),
        1 => prop::collection::vec(any::<u8>(), 1..6),
    ]
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop::collection::vec(value(), 0..11);
    let payload = prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 0..900)];
    (0u8..3, 0x10u8..0x19, fields, payload).prop_map(|(channel, code, fields, payload)| {
        let list = fields.concat();
        let payload = if code == 0x14 { payload } else { Vec::new() };
        let size = (17 + list.len() + payload.len() + 3) as u32;
        let mut frame = size.to_be_bytes().to_vec();
        frame.extend([2, 0, 0, channel, 0x00, 0x53, code, 0xd0]);
        frame.extend((list.len() as u32 + 4).to_be_bytes());
        frame.extend((fields.len() as u32).to_be_bytes());
        frame.extend(list);
        frame.extend(payload);
        frame
    })
}

/// Frames that a session takes: attaches, flows and transfers with sensible fields, in any order.
fn likely_frame() -> impl Strategy<Value = Vec<u8>> {
    let framed = |code: u8, fields: Vec<u8>, count: u8, payload: usize| {
        let mut frame = ((13 + fields.len() + payload) as u32 + 1).to_be_bytes().to_vec();
        frame.extend([2, 0, 0, 0, 0x00, 0x53, code, 0xc0, fields.len() as u8 + 1, count]);
        frame.extend(fields);
        frame.resize(frame.len() + payload, 9);
        frame
    };
    prop_oneof![
        (0u8..4, any::<bool>()).prop_map(move |(handle, receives)| {
            let role = if receives { 0x41 } else { 0x42 };
            framed(0x12, vec![0xa1, 1, b'a' + handle, 0x52, handle, role], 3, 0)
        }),
        (0u8..4, 0u8..30, any::<bool>()).prop_map(move |(handle, credit, drain)| {
            let drain = if drain { 0x41 } else { 0x42 };
            let fields = vec![0x43, 0x52, 9, 0x43, 0x52, 9, 0x52, handle, 0x40, 0x52, credit, 0x40, drain];
            framed(0x13, fields, 9, 0)
        }),
        (0u8..4, any::<u8>(), any::<bool>(), 0usize..900).prop_map(move |(handle, id, more, payload)| {
            let more = if more { 0x41 } else { 0x42 };
            framed(0x14, vec![0x52, handle, 0x52, id, 0xa0, 1, id, 0x43, 0x42, more], 6, payload)
        }),
        (0u8..4, 0usize..900).prop_map(move |(handle, payload)| framed(0x14, vec![0x52, handle], 1, payload)),
        (any::<u32>(), any::<u32>()).prop_map(move |(first, last)| {
            let mut fields = vec![0x41, 0x70];
            fields.extend(first.to_be_bytes());
            fields.push(0x70);
            fields.extend(last.to_be_bytes());
            framed(0x15, fields, 3, 0)
        }),
        (0u8..4).prop_map(move |handle| framed(0x16, vec![0x52, handle, 0x41], 2, 0)),
    ]
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), greets in any::<bool>()) {
        let bytes = if greets { [GREETING, &bytes].concat() } else { bytes };
        converse(&bytes, 400);
    }

    #[test]
    fn any_frames(frames in prop::collection::vec(frame(), 0..20), step in 1usize..50) {
        let bytes = [GREETING, &frames.concat()].concat();
        let whole = converse(&bytes, usize::MAX);
        prop_assert!(whole.0.len() >= 3);
        prop_assert!(whole.2 < 100_000);
        let split = converse(&bytes, step);
        prop_assert_eq!((split.0, split.1), (whole.0, whole.1));
    }

    #[test]
    fn likely_frames(frames in prop::collection::vec(likely_frame(), 0..60), step in 1usize..50) {
        let bytes = [GREETING, &frames.concat()].concat();
        let whole = converse(&bytes, usize::MAX);
        prop_assert!(whole.2 < 100_000);
        let split = converse(&bytes, step);
        prop_assert_eq!((split.0, split.1), (whole.0, whole.1));
    }
}
