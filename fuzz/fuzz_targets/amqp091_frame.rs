//! Any bytes from a client that has logged in and opened a channel.
#![no_main]

use amqp091::{Connection, Event, Input, Limits, Method};
use base::Now;
use libfuzzer_sys::fuzz_target;
use message::amqp091::Table;

/// The bytes of a client before the fuzzed ones.
fn opening() -> Vec<u8> {
    let now = Now::default();
    let mut client = Connection::client(Limits::default(), now);
    let mut server = Connection::server(Limits::default(), now);
    let mut said = Vec::new();
    for _ in 0..4 {
        let bytes = take(&mut client);
        said.extend_from_slice(&bytes);
        drive(&mut server, &bytes);
        let bytes = take(&mut server);
        let mut input = Input::new(&bytes);
        while let Some(event) = client.poll_event(now, &mut input) {
            match event {
                Event::Start(_) => client.start_ok(Table::EMPTY, b"PLAIN", b"", b"en_US"),
                Event::Tune(tune) => _ = client.tune_ok_and_open(now, tune, b"/"),
                Event::OpenOk => client.channel_open(1),
                _ => {}
            }
        }
    }
    said
}

fn take(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.output_mut().sent(bytes.len());
    bytes
}

fn drive(server: &mut Connection, bytes: &[u8]) -> usize {
    let mut input = Input::new(bytes);
    while let Some(event) = server.poll_event(Now::default(), &mut input) {
        match event {
            Event::ProtocolHeader => server.start(Table::EMPTY, b"PLAIN", b"en_US"),
            Event::StartOk(_) => server.tune(),
            Event::Open(_) => server.open_ok(),
            Event::ChannelOpen { channel } => server.channel_open_ok(channel),
            Event::ChannelClose { channel, .. } => server.channel_close_ok(channel),
            Event::Close(_) => server.close_ok(),
            Event::Method { method, .. } => again(&method),
            Event::Gathered(gathered) => _ = gathered.event(),
            _ => {}
        }
    }
    input.rest().len()
}

/// Checks that a method that was read can be written, and is read again the same.
fn again(method: &Method<'_>) {
    let mut payload = Vec::new();
    method.encode(&mut payload);
    assert_eq!(Method::decode(method.id(), &payload[4..]), Some(Ok(*method)));
}

fuzz_target!(|bytes: &[u8]| {
    let mut server = Connection::server(Limits::default(), Now::default());
    drive(&mut server, &opening());
    take(&mut server);
    assert!(server.is_open());
    let left = drive(&mut server, bytes);
    assert!(left == 0 || server.wanted() > left);
    assert!(server.capacity() + server.output().len() <= 4096 + 32 * bytes.len());
});
