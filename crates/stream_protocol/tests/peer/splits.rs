//! However the bytes are cut, the events and the answers are the same.

use crate::support::*;
use base::Now;
use proptest::prelude::*;
use stream_protocol::*;

/// The opening, a bit of everything, and the end.
fn session() -> Vec<u8> {
    let pairs = [Pair::new("filter.0", "red"), Pair::new("match-unfiltered", "true")];
    let stream: &[u8] = b"invoices";
    let subscribe = Request::Subscribe {
        subscription_id: 1,
        stream,
        offset: OffsetSpec::Timestamp(1_700_000_000_000),
        credit: 10,
        properties: List::new(&pairs),
    };
    [
        opening(),
        request(5, &Request::Create { stream, arguments: List::default() }),
        request(6, &Request::DeclarePublisher { publisher_id: 1, reference: b"app", stream }),
        publish(1, 1, b"first"),
        publish(1, 2, &[7; 300]),
        raw(2, 2, b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x03\0\x03red\0\0\0\x02hi"),
        request(7, &subscribe),
        command(&Command::Credit { subscription_id: 1, credit: 5 }),
        frame(&[0, 23, 0, 1]),
        command(&Command::StoreOffset { reference: b"app", stream, offset: 2 }),
        request(8, &Request::Close { code: ResponseCode::OK, reason: b"bye" }),
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
    let name = |event: &String| {
        let inner = event.split_once("request: ").map_or(&event[..], |(_, request)| request).to_owned();
        inner.split([' ', '(', '{']).next().unwrap().to_owned()
    };
    assert_eq!(
        told.iter().map(name).collect::<Vec<_>>().join(" "),
        "PeerProperties SaslHandshake SaslAuthenticate Tune Open Create DeclarePublisher Publish Publish Publish \
         Subscribe Command Command Close Closed"
    );
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
}
