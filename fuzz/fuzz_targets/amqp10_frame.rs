#![no_main]
//! A server that reads any bytes from the first on, in two pieces.

use amqp10::{Config, Connection, Event, Input, Open, SaslCode};
use base::Now;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let config = Config { limits: Default::default(), mechanisms: &["PLAIN"], first_id: 0 };
    let mut server = Connection::server(config, Now::default());
    // The opening of a good client: SASL header, `sasl-init`, AMQP header.
    let greeting = b"AMQP\x03\x01\0\0\0\0\0\x13\x02\x01\0\0\0\x53\x41\xc0\x06\x01\xa3\x03ANYAMQP\0\x01\0\0";
    let start = if bytes.first().is_some_and(|byte| byte % 2 == 0) { &greeting[..] } else { &[] };
    let all = [start, bytes].concat();
    let cut = bytes.first().map_or(0, |byte| usize::from(*byte)).min(all.len());
    let mut taken = 0;
    for end in [cut, all.len()] {
        let mut input = Input::new(&all[taken..end]);
        while let Some(event) = server.poll_event(Now::default(), &mut input) {
            match event {
                Event::SaslInit { .. } => server.sasl_outcome(SaslCode::Ok),
                Event::Open(_) => server.open(&Open::new("server")),
                _ => {}
            }
        }
        taken = end - input.len();
        assert!(server.wanted() > 0);
    }
    assert!(server.memory_bytes() <= 65_536 + 32 * all.len());
});
