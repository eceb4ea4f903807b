//! Any bytes for a server that speaks WebSocket: as a request, then as frames with and without compression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use websocket::upgrade::{Answer, Rules, answer};
use websocket::{Incoming, Limits, Outgoing, Role, Workshop};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { inflated_bytes_max: 1 << 20, ..Limits::default() };
    let rules =
        Rules { path: "/ws".into(), protocols: vec!["amqp"], origins: Some(vec!["https://a".into()]), may_compress: true };
    if let Answer::Accepted(_, _, consumed) = answer(&limits, &rules, bytes) {
        assert!(consumed <= bytes.len());
    }
    for may_inflate in [false, true] {
        let mut workshop = Workshop::default();
        let mut incoming = Incoming::new(Role::Server, may_inflate);
        let mut outgoing = Outgoing::new(Role::Server, may_inflate);
        let mut wire = bytes.to_vec();
        let mut into = [0; 4096];
        let mut carried = 0;
        loop {
            let taken = incoming.take(&limits, &mut workshop, &mut wire, &mut into, &mut outgoing);
            wire.drain(..taken.consumed);
            carried += taken.produced;
            assert!(incoming.heap_bytes() <= 64 << 10 && outgoing.heap_bytes() <= 4096);
            if taken.is_closed || !taken.is_full {
                break;
            }
        }
        // DEFLATE makes at most 1032 bytes of one.
        assert!(carried <= 4096 + 1032 * bytes.len());
    }
});
