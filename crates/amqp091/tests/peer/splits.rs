//! However the bytes are cut, the events and the answers are the same.

use crate::support::*;
use amqp091::{Connection, Limits};
use base::Now;
use proptest::prelude::*;

/// Handshake, messages whole and in pieces, channels in between each other, a channel's life and the end.
fn session() -> Vec<u8> {
    let properties = b"\x30\0\0\0\0\x07\x01aS\0\0\0\0\x02";
    [
        handshake(),
        channel_open(1),
        channel_open(2),
        publish(1),
        header(1, 5, &[0x10, 0, 2]),
        body(1, b"whole"),
        publish(1),
        header(1, 0, properties),
        publish(1),
        header(1, 9, properties),
        body(1, b"in "),
        body(1, b""),
        body(1, b"pieces"),
        publish(1),
        publish(2),
        frame(8, 0, b""),
        header(2, 3, &[0, 0]),
        header(1, 4, properties),
        body(1, b"on"),
        body(2, b"two"),
        body(1, b"e!"),
        raw(1, 60, 80, b"\0\0\0\0\0\0\0\x05\x01"),
        raw(2, 50, 10, b"\0\0\x01q\x02\0\0\0\0"),
        raw(2, 20, 40, b"\0\xc8\x03bye\0\0\0\0"),
        channel_open(2),
        raw(0, 10, 50, b"\0\xc8\x03bye\0\0\0\0"),
    ]
    .concat()
}

fn run(cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut server = Connection::server(Limits::default(), Now::default());
    let told = feed(&mut server, Now::default(), &session(), cuts);
    (told, server.output().to_vec())
}

#[test]
fn whole_is_as_expected() {
    let (told, _) = run(&[]);
    let names: Vec<_> = told.iter().map(|event| event.split([' ', '(']).next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "ProtocolHeader",
            "StartOk",
            "TuneOk",
            "Open",
            "ChannelOpen",
            "ChannelOpen",
            "Publish",
            "Publish",
            "Publish",
            "Publish",
            "Publish",
            "Method",
            "Method",
            "ChannelClose",
            "ChannelOpen",
            "Close",
            "Closed"
        ]
    );
    assert!(told[8].ends_with(&format!("body: {:?} }}", b"in pieces")));
    assert!(told[9].starts_with("Publish { channel: 2") && told[10].starts_with("Publish { channel: 1"));
}

#[test]
fn byte_by_byte() {
    assert_eq!(run(&(1..session().len()).collect::<Vec<_>>()), run(&[]));
}

#[test]
fn every_cut_in_two() {
    let expected = run(&[]);
    for cut in 1..session().len() {
        assert_eq!(run(&[cut]), expected, "cut at {cut}");
    }
}

proptest! {
    #[test]
    fn any_cuts(mut cuts in prop::collection::vec(0..session().len(), 0..20)) {
        cuts.sort_unstable();
        prop_assert_eq!(run(&cuts), run(&[]));
    }

    /// Large messages go through the assembly or lie whole, depending on the cut.
    #[test]
    fn large_messages(mut cuts in prop::collection::vec(0..400_000usize, 0..6)) {
        cuts.sort_unstable();
        let piece = |byte, len| body(1, &vec![byte; len]);
        let bytes = [
            publish(1), header(1, 131_072, &[0, 0]), piece(1, 131_072),
            publish(1), header(1, 200_000, &[0, 0]), piece(2, 131_000), piece(3, 69_000),
            publish(1), header(1, 100_000, &[0, 0]), piece(4, 100_000),
        ].concat();
        cuts.retain(|cut| *cut < bytes.len());
        let mut server = running(Limits::default(), Now::default());
        let told = feed(&mut server, Now::default(), &bytes, &cuts);
        prop_assert_eq!(told.len(), 3);
        for (event, count) in told.iter().zip([131_072, 200_000, 100_000]) {
            prop_assert_eq!(event.split_once("body: [").unwrap().1.matches(',').count(), count - 1);
        }
        prop_assert!(server.capacity() < 400, "nothing is kept: {}", server.capacity());
    }
}
