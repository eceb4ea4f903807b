//! Messages in several frames: the cost of one of them while others are begun.

use amqp10::{Config, Connection, Event, Input, Limits, Open, Role, SaslCode};
use base::Now;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;

/// SASL and open as a good client sends them.
const GREETING: &[u8] = b"AMQP\x03\x01\0\0\0\0\0\x13\x02\x01\0\0\0\x53\x41\xc0\x06\x01\xa3\x03ANY\
AMQP\0\x01\0\0\0\0\0\x19\x02\0\0\0\0\x53\x10\xc0\x0c\x03\xa1\x01c\xa1\x01h\x70\0\0\x02\0";

/// Frames of the message that is looked at.
const FRAMES: usize = 20_000;

fn frame(channel: u8, code: u8, count: u8, fields: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = ((14 + fields.len() + payload.len()) as u32).to_be_bytes().to_vec();
    frame.extend([2, 0, 0, channel, 0x00, 0x53, code, 0xc0, fields.len() as u8 + 1, count]);
    frame.extend_from_slice(fields);
    frame.extend_from_slice(payload);
    frame
}

fn take(server: &mut Connection, bytes: &[u8]) {
    let mut input = Input::new(bytes);
    while let Some(event) = server.poll_event(Now::default(), &mut input) {
        match event {
            Event::SaslInit { .. } => server.sasl_outcome(SaslCode::Ok),
            Event::Open(_) => server.open(&Open::new("server")),
            Event::Attach { session, link, attach, .. } => {
                assert_eq!(attach.role, Role::Sender);
                server.answer_attach(session, link, &attach);
                server.grant(session, link, 10, false);
            }
            Event::Begin { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(input.len(), 0);
    let sent = server.output_mut().len();
    server.output_mut().sent(sent);
}

/// The processor's time for frames of a message while one is begun on each of `links` links of each of `sessions` sessions.
fn cost(sessions: u8, links: u8) -> Duration {
    let limits = Arc::new(Limits::default());
    let mut server =
        Connection::server(Config { limits, mechanisms: &["PLAIN"], first_id: 0 }, Now::default());
    take(&mut server, GREETING);
    for channel in 0..sessions {
        take(&mut server, &frame(channel, 0x11, 4, &[0x40, 0x43, 0x52, 9, 0x52, 9], b""));
        for handle in 0..links {
            take(&mut server, &frame(channel, 0x12, 3, &[0xa1, 1, b'n', 0x52, handle, 0x42], b""));
            let fields = [0x52, handle, 0x52, handle, 0xa0, 1, handle, 0x43, 0x42, 0x41];
            take(&mut server, &frame(channel, 0x14, 6, &fields, b"begun"));
        }
    }
    let more = frame(0, 0x14, 6, &[0x43, 0x40, 0x40, 0x40, 0x40, 0x41], b"more");
    let begin = clock_gettime(ClockId::ThreadCPUTime);
    (0..FRAMES).for_each(|_| take(&mut server, &more));
    let end = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(end - begin).expect("it never runs backwards")
}

#[test]
fn messages_that_are_begun_elsewhere_cost_nothing() {
    let least = |sessions, links| (0..3).map(|_| cost(sessions, links)).min().unwrap_or_default();
    let (alone, among_many) = (least(1, 1), least(16, 200));
    println!("{alone:?} {among_many:?}");
    // Less than a few milliseconds says nothing.
    assert!(among_many <= 4 * alone.max(Duration::from_millis(2)), "{alone:?}, among many {among_many:?}");
}
