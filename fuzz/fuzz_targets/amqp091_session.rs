//! Any bytes in any pieces, from the first byte on, to a server and to a client, with time going by.
#![no_main]

use amqp091::{Connection, Event, Input, Limits, Role};
use base::Now;
use libfuzzer_sys::fuzz_target;
use message::amqp091::Table;

/// Answers what the protocol calls for; `None` when there is no more.
fn step(connection: &mut Connection, now: Now, input: &mut Input<'_>) -> Option<()> {
    match connection.poll_event(now, input)? {
        Event::ProtocolHeader => connection.start(Table::EMPTY, b"PLAIN", b"en_US"),
        Event::StartOk(start_ok) if start_ok.mechanism == b"x" => connection.secure(b"more"),
        Event::StartOk(start_ok) if start_ok.mechanism == b"n" => connection.refuse_login(now, "no", true),
        Event::StartOk(_) | Event::SecureOk(_) => connection.tune(),
        Event::Open(_) => connection.open_ok(),
        Event::ChannelOpen { channel } => connection.channel_open_ok(channel),
        Event::ChannelClose { channel, .. } => connection.channel_close_ok(channel),
        Event::Close(_) => connection.close_ok(),
        Event::Start(_) => connection.start_ok(Table::EMPTY, b"PLAIN", b"", b"en_US"),
        Event::Secure(_) => connection.secure_ok(b"more"),
        Event::Tune(tune) => _ = connection.tune_ok_and_open(now, tune, b"/"),
        Event::OpenOk => connection.channel_open(1),
        Event::Gathered(gathered) => _ = gathered.event(),
        _ => {}
    }
    Some(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[role, pace], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let mut now = Now::default();
    let role = if role % 2 == 0 { Role::Server } else { Role::Client };
    let mut connection = match role {
        Role::Server => Connection::server(Limits::default(), now),
        Role::Client => Connection::client(Limits::default(), now),
    };
    let mut kept = Vec::new();
    for piece in bytes.chunks(usize::from(pace).max(1)) {
        kept.extend_from_slice(piece);
        let mut input = Input::new(&kept);
        while step(&mut connection, now, &mut input).is_some() {}
        let left = input.rest().len();
        kept.drain(..kept.len() - left);
        now = Now::at_ms(now.wall_ms + u64::from(pace));
        if connection.poll_deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
            connection.handle_deadline(now);
        }
    }
    assert!(connection.wanted() <= Limits::default().input_max());
    assert!(connection.capacity() + connection.output().len() <= 4096 + 32 * bytes.len());
});
