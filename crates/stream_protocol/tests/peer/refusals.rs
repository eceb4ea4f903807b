//! Frames that are out of place, too large or malformed, before and after the opening.

use crate::support::*;
use base::Now;
use stream_protocol::*;

const NOW: Now = Now { mono_ns: 0, wall_ms: 0 };

/// A new server is given `bytes`: its last events but the end, and its output.
fn new(bytes: &[u8]) -> (Vec<String>, Vec<String>) {
    let mut server = Connection::server(Limits::default(), NOW);
    let told = feed(&mut server, NOW, bytes, &[]);
    let said = shown(&said(&mut server));
    (told, said)
}

/// An open server is given `bytes`.
fn open(bytes: &[u8]) -> (Vec<String>, Vec<String>, Connection) {
    let mut server = running(Limits::default(), NOW);
    let told = feed(&mut server, NOW, bytes, &[]);
    let said = shown(&said(&mut server));
    (told, said, server)
}

#[test]
fn a_server_ends_without_a_word_before_the_opening() {
    let check = |bytes: &[&[u8]], failure: &str, words: usize| {
        let (told, said) = new(&bytes.concat());
        let [.., failed, closed] = &told[..] else { panic!("{told:?}") };
        assert_eq!((&failed[..], &closed[..]), (&format!("Failed({failure})")[..], "Closed"));
        assert_eq!(said.len(), words, "{said:?}");
    };
    let (mechanisms, open) =
        (request(2, &Request::SaslHandshake), request(4, &Request::Open { virtual_host: b"/" }));
    check(&[&frame(b"")], "Malformed(Short)", 0);
    check(&[&raw(32, 1, b"")], "Malformed(UnknownCommand { key: 32, version: 1 })", 0);
    check(&[&mechanisms], "Unexpected { key: 18 }", 0);
    check(&[&publish(1, 1, b"")], "Unexpected { key: 2 }", 0);
    check(&[&tune(0, 0)], "Unexpected { key: 20 }", 0);
    check(&[&introduction(), &login()], "Unexpected { key: 19 }", 1);
    check(&[&introduction(), &mechanisms, &introduction()], "Unexpected { key: 17 }", 2);
    check(&[&introduction(), &mechanisms, &open], "Unexpected { key: 21 }", 2);
    check(&[&introduction(), &mechanisms, &login(), &login()], "Unexpected { key: 19 }", 4);
    check(&[&introduction(), &mechanisms, &login(), &open], "Unexpected { key: 21 }", 4);
    let close = request(1, &Request::Close { code: ResponseCode::OK, reason: b"" });
    check(&[&introduction(), &close], "Unexpected { key: 22 }", 1);
    let too_large = [&8193u32.to_be_bytes()[..], &[0; 9000]].concat();
    check(&[&too_large], "FrameTooLarge { size: 8193, size_max: 8192 }", 0);
    check(&[&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]], "Tls", 0);
}

#[test]
fn steps_may_be_taken_twice_and_heartbeats_come_at_any_time() {
    let beat = frame(&[0, 23, 0, 1]);
    let mechanisms = request(2, &Request::SaslHandshake);
    let bytes = [
        &beat[..],
        &introduction(),
        &introduction(),
        &beat,
        &mechanisms,
        &mechanisms,
        &request(3, &Request::SaslAuthenticate { mechanism: b"CR", response: b"more" }),
        &login(),
        &raw(0x8014, 1, &[0, 0, 0x10, 0, 0, 0, 0, 0]),
        &beat,
        &request(4, &Request::Open { virtual_host: b"/" }),
    ]
    .concat();
    let mut server = Connection::server(Limits::default(), NOW);
    let told = feed(&mut server, NOW, &bytes, &[]);
    assert!(server.is_open(), "{told:?}");
    let said = shown(&said(&mut server));
    assert!(
        said[4].contains("SaslAuthenticate { code: 0x0a (SASL challenge), challenge: [103, 111"),
        "{said:?}"
    );
    // It settled for little, and that counts now.
    assert_eq!((server.frame_max(), server.input_max()), (4096, 4100));
    // Without heartbeats nothing is due.
    assert_eq!(server.poll_deadline(), None);
}

#[test]
fn a_peer_without_a_bound_has_ours() {
    for (theirs, settled) in [(0, 1 << 20), (1 << 21, 1 << 20), (100, 100)] {
        let bytes = [introduction(), request(2, &Request::SaslHandshake), login(), tune(theirs, 0)].concat();
        let (told, _) = new(&bytes);
        assert_eq!(*told.last().unwrap(), format!("Tune(Tune {{ frame_max: {settled}, heartbeat_s: 0 }})"));
    }
}

#[test]
fn a_wrong_login_is_answered_after_a_while() {
    let wrong = |response: &'static [u8], mechanism: &'static [u8]| {
        let mut server = Connection::server(Limits::default(), NOW);
        let bytes = [
            introduction(),
            request(2, &Request::SaslHandshake),
            request(3, &Request::SaslAuthenticate { mechanism, response }),
            login(),
        ];
        feed(&mut server, NOW, &bytes.concat(), &[]);
        server
    };
    let mut server = wrong(b"wrong", b"PLAIN");
    assert_eq!(shown(&said(&mut server)).len(), 2, "not a word of it yet");
    assert_eq!(server.poll_deadline(), Some(Now::at_ms(3000).mono_ns));
    server.handle_deadline(Now::at_ms(3000));
    let told = feed(&mut server, Now::at_ms(3000), b"", &[]);
    let words = shown(&said(&mut server));
    assert!(words[0].contains("correlation_id: 3") && words[0].contains("0x08"), "{words:?}");
    assert_eq!(told, ["Closed"]);
    // A mechanism that is not there is no guess.
    let mut server = wrong(b"", b"NONE");
    let words = shown(&said(&mut server));
    assert!(words[2].contains("Done { key: SaslAuthenticate, code: 0x07"), "{words:?}");
    assert!(server.is_closed());
}

#[test]
fn a_wrong_virtual_host_is_answered_after_a_while() {
    let mut server = Connection::server(Limits::default(), NOW);
    let bytes = [
        introduction(),
        request(2, &Request::SaslHandshake),
        login(),
        tune(0, 60),
        request(4, &Request::Open { virtual_host: b"closed" }),
    ];
    feed(&mut server, NOW, &bytes.concat(), &[]);
    assert_eq!(shown(&said(&mut server)).len(), 4);
    server.handle_deadline(Now::at_ms(3000));
    let words = shown(&said(&mut server));
    assert!(words[0].contains("Done { key: Open, code: 0x0c"), "{words:?}");
    assert_eq!(feed(&mut server, Now::at_ms(3000), b"", &[]), ["Closed"]);
}

#[test]
fn an_open_server_says_why_it_closes() {
    let close_ok = raw(0x8016, 1, &[0, 0, 0, 1, 0, 1]);
    let check = |bytes: &[u8], failure: &str, code: &str| {
        let (told, said, mut server) = open(bytes);
        assert_eq!(told, [format!("Failed({failure})")]);
        let [close] = &said[..] else { panic!("{said:?}") };
        assert!(close.starts_with("Request { correlation_id: 1, request: Close { code: "), "{close}");
        assert!(close.contains(code), "{close}");
        // Until the client has answered, all else is nothing.
        let told =
            feed(&mut server, NOW, &[&publish(1, 1, b"x")[..], &raw(99, 1, b""), &close_ok].concat(), &[]);
        assert_eq!(told, ["Closed"]);
    };
    check(&raw(32, 1, b""), "Malformed(UnknownCommand { key: 32, version: 1 })", "0x0d (unknown frame)");
    check(&raw(14, 1, &[0; 7]), "Malformed(Long)", "0x0d");
    check(&introduction(), "Unexpected { key: 17 }", "0x0d");
    check(&request(1, &Request::Open { virtual_host: b"/" }), "Unexpected { key: 21 }", "0x0d");
    check(&tune(0, 0), "Unexpected { key: 20 }", "0x0d");
    check(&raw(0x8001, 1, &[0, 0, 0, 1, 0, 1]), "Unexpected { key: 32769 }", "0x0d");
    check(&raw(8, 1, &[0; 53]), "Malformed(Chunk(NoChunk))", "0x0d");
    let confirm = command(&Command::PublishConfirm { publisher_id: 1, publishing_ids: List::default() });
    check(&confirm, "Unexpected { key: 3 }", "0x0d");
    let large = frame(&vec![0; (1 << 20) + 1]);
    check(&large, "FrameTooLarge { size: 1048577, size_max: 1048576 }", "0x0e (frame too large)");
    // A frame that fits exactly is looked at.
    check(&frame(&vec![0; 1 << 20]), "Malformed(UnknownCommand { key: 0, version: 0 })", "0x0d");
}

/// The bytes of a frame that is too large are passed over, so that the answer behind them is found.
#[test]
fn a_refused_frame_is_passed_over_however_it_comes() {
    let large = frame(&vec![0; 3_000_000]);
    let bytes = [&large[..], &raw(0x8016, 1, &[0, 0, 0, 1, 0, 1])].concat();
    for cuts in [vec![], vec![4], vec![5, 1_000_000, 2_999_999, 3_000_004, 3_000_006]] {
        let mut server = running(Limits::default(), NOW);
        let told = feed(&mut server, NOW, &bytes, &cuts);
        assert_eq!(told, ["Failed(FrameTooLarge { size: 3000000, size_max: 1048576 })", "Closed"]);
    }
}

#[test]
fn a_client_refuses_what_clients_say() {
    let mut client = Connection::client(Limits::default(), NOW);
    let properties = Request::PeerProperties { properties: List::default() };
    client.request(NOW, &properties);
    let told = feed(&mut client, NOW, &publish(1, 1, b"x"), &[]);
    assert_eq!(told, ["Failed(Unexpected { key: 2 })", "Closed"]);
    // An answer without a request is told as one.
    let mut client = Connection::client(Limits::default(), NOW);
    let stray = raw(0x8001, 1, &[0, 0, 0, 9, 0, 1]);
    assert_eq!(feed(&mut client, NOW, &stray, &[]), ["Unasked { correlation_id: 9, key: DeclarePublisher }"]);
    // A server may send it away before it has opened.
    let close = request(1, &Request::Close { code: ResponseCode::INTERNAL_ERROR, reason: b"" });
    let told = feed(&mut client, NOW, &close, &[]);
    assert_eq!((told.len(), &told[1][..]), (2, "Closed"));
}

#[test]
fn a_client_takes_chunks_of_a_size() {
    let limits = Limits { chunk_frame_max: 10_000, ..Limits::default() };
    let check = |size: u32, expected: &[&str]| {
        let mut client = Connection::client(limits, NOW);
        assert_eq!(feed(&mut client, NOW, &size.to_be_bytes(), &[]), expected);
    };
    check(10_000, &[]);
    check(10_001, &["Failed(FrameTooLarge { size: 10001, size_max: 10000 })", "Closed"]);
}

#[test]
fn a_secret_is_renewed() {
    let (told, said, server) = open(&login());
    assert_eq!(told.len(), 1);
    assert!(said[0].contains("Done { key: SaslAuthenticate, code: 0x01"), "{said:?}");
    assert!(server.is_open());
    let wrong = request(9, &Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"wrong" });
    let (_, said, mut server) = open(&wrong);
    assert!(said.is_empty() && !server.is_open());
    server.handle_deadline(Now::at_ms(3000));
    assert_eq!(feed(&mut server, Now::at_ms(3000), b"", &[]), ["Closed"]);
    assert!(shown(&crate::support::said(&mut server))[0].contains("0x08"));
}
