//! Refusals with their code, text and method: the same bytes were sent to RabbitMQ 4.3.6, and its answers are the
//! expected ones (its line breaks inside long terms excepted).

use crate::support::*;
use amqp091::{Connection, Limits};
use base::Now;

/// Sends `bytes` on an open connection with channel 1.
fn check(bytes: &[u8], expected: &str) {
    for cuts in [vec![], (1..bytes.len().min(2000)).collect()] {
        let mut server = running(Limits::default(), Now::default());
        let told = feed(&mut server, Now::default(), bytes, &cuts);
        assert_eq!(said(&take_output(&mut server)), [expected], "{bytes:?}");
        assert!(told.iter().any(|event| event.starts_with("Failed(")), "{told:?}");
    }
}

#[test]
fn frames_that_are_none() {
    check(
        &frame(5, 1, b"abc"),
        "0 connection.close 501 FRAME_ERROR - type 5, all octets = <<\"abc\">>: unknown_frame (0, 0)",
    );
    check(
        &frame(5, 7, b"abc"),
        "0 connection.close 501 FRAME_ERROR - type 5, all octets = <<\"abc\">>: unknown_frame (0, 0)",
    );
    check(
        &frame(0, 1, b""),
        "0 connection.close 501 FRAME_ERROR - type 0, all octets = <<>>: unknown_frame (0, 0)",
    );
    check(
        &frame(1, 1, b""),
        "0 connection.close 501 FRAME_ERROR - type 1, all octets = <<>>: unknown_frame (0, 0)",
    );
    check(
        &frame(1, 1, b"\0\x3c\0"),
        "0 connection.close 501 FRAME_ERROR - type 1, all octets = <<0,60,0>>: unknown_frame (0, 0)",
    );
    check(
        &frame(8, 0, b"abc"),
        "0 connection.close 501 FRAME_ERROR - type 8, all octets = <<\"abc\">>: unknown_frame (0, 0)",
    );
    check(
        &[publish(1), frame(2, 1, b"\0\x3c\0\0")].concat(),
        "0 connection.close 501 FRAME_ERROR - type 2, all octets = <<0,60,0,0>>: unknown_frame (0, 0)",
    );
    let mut bad_end = frame(1, 1, b"\0\x5a\0\x0a");
    *bad_end.last_mut().unwrap() = 0;
    check(
        &bad_end,
        "0 connection.close 501 FRAME_ERROR - type 1, all octets = <<0,90,0,10>>: {invalid_frame_end_marker,0} (0, 0)",
    );
    check(
        &frame(3, 1, &[0; 131_073])[..7],
        "0 connection.close 501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064} (0, 0)",
    );
    check(
        b"\x03\0\x01\xff\xff\xff\xff",
        "0 connection.close 501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4294967295,131064} (0, 0)",
    );
    check(
        HEADER,
        "0 connection.close 501 FRAME_ERROR - type 65, all octets = <<>>: {frame_too_large,1342177289,131064} (0, 0)",
    );
}

#[test]
fn arguments_that_cannot_be_decoded() {
    check(
        &raw(1, 50, 10, b"\0\0\x05a"),
        "0 connection.close 501 FRAME_ERROR - cannot decode <<0,0,5,97>> (50, 10)",
    );
    check(
        &raw(1, 90, 10, b"xy\x01"),
        "0 connection.close 501 FRAME_ERROR - cannot decode <<120,121,1>> (90, 10)",
    );
    check(
        &raw(1, 60, 40, b"\0\0\x01"),
        "0 connection.close 501 FRAME_ERROR - cannot decode <<0,0,1>> (60, 40)",
    );
    let long = [&b"\0\0\x01"[..], &[122; 101]].concat();
    let shown = format!("0 connection.close 501 FRAME_ERROR - cannot decode <<0,0,1,{}", "122,".repeat(100));
    check(&raw(1, 60, 40, &long), &format!("{}... (60, 40)", &shown[..23 + 252]));
}

#[test]
fn frames_out_of_place() {
    let no_method = "0 connection.close 505 UNEXPECTED_FRAME - expected method frame, got non method frame instead (0, 0)";
    check(&header(1, 5, &[0, 0]), no_method);
    check(&body(1, b"abc"), no_method);
    check(&header(5, 5, &[0, 0]), no_method);
    check(&body(5, b"abc"), no_method);
    check(&[publish(1), header(1, 0, &[0, 0]), body(1, b"")].concat(), no_method);
    let no_header = "0 connection.close 505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead (60, 40)";
    check(&[publish(1), raw(1, 90, 10, b"")].concat(), no_header);
    check(&[publish(1), publish(1)].concat(), no_header);
    check(&[publish(1), body(1, b"a")].concat(), no_header);
    check(&[publish(1), frame(2, 1, b"\0\x3c\0\x03\0\0\0\0\0\0\0\x01\0\0")].concat(), no_header);
    check(
        &[publish(1), frame(2, 1, b"\0\x3d\0\0\0\0\0\0\0\0\0\x01\0\0")].concat(),
        "0 connection.close 505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 61 instead (60, 40)",
    );
    let no_body = "0 connection.close 505 UNEXPECTED_FRAME - expected content body, got non content body frame instead (60, 40)";
    check(&[publish(1), header(1, 5, &[0, 0]), body(1, b"abc"), raw(1, 90, 10, b"")].concat(), no_body);
    check(&[publish(1), header(1, 5, &[0, 0]), header(1, 5, &[0, 0])].concat(), no_body);
    check(&frame(8, 1, b""), "0 connection.close 505 UNEXPECTED_FRAME - type 8, all octets = <<>> (0, 0)");
    check(
        &header(0, 0, &[0, 0]),
        "0 connection.close 505 UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>> (0, 0)",
    );
    check(
        &body(0, b"zz"),
        "0 connection.close 505 UNEXPECTED_FRAME - type 3, all octets = <<\"zz\">> (0, 0)",
    );
}

#[test]
fn contents_that_are_wrong() {
    check(
        &[publish(1), header(1, 1, &[0, 0]), body(1, b"xx")].concat(),
        "0 connection.close 501 FRAME_ERROR - content body frame exceeds remaining content size (60, 40)",
    );
    check(
        &[publish(1), header(1, 1 << 63, &[0, 0])].concat(),
        "0 connection.close 501 FRAME_ERROR - content body size 9223372036854775808 exceeds maximum allowed size 536870912 (60, 40)",
    );
    // RabbitMQ says no more than INTERNAL_ERROR here.
    for (properties, reason) in [
        (&[0x10, 0][..], "a length points past the end"),
        (&[0x10, 0, 2, 0], "bytes behind the last property"),
        (&[0x80, 0, 5, 97], "a length points past the end"),
        (&[0, 1, 0, 0], "unknown property flags"),
        (b"\x20\0\0\0\0\x05\x01aZxx", "unknown field type 'Z'"),
        (b"\x20\0\0\0\0\x64a", "a length points past the end"),
    ] {
        check(
            &[publish(1), header(1, 0, properties)].concat(),
            &format!("0 connection.close 541 INTERNAL_ERROR - malformed content header: {reason} (0, 0)"),
        );
    }
    check(
        &[raw(1, 60, 40, b"\0\0\0\x01q\x02"), header(1, 1, &[0, 0]), body(1, b"x")].concat(),
        "0 connection.close 540 NOT_IMPLEMENTED - immediate=true (60, 40)",
    );
}

#[test]
fn methods_out_of_place() {
    for number in [11, 21, 31, 40, 51, 60] {
        let arguments: &[u8] = match number {
            11 => b"\0\0\0\0\0\0\0\0\0\0",
            21 => b"\0\0\0\0",
            31 => &[0; 8],
            40 => b"\0\0\0",
            51 => b"",
            _ => b"\0",
        };
        check(
            &raw(0, 10, number, arguments),
            &format!(
                "0 connection.close 504 CHANNEL_ERROR - unexpected method in connection state running (10, {number})"
            ),
        );
    }
    check(
        &channel_open(0),
        "0 connection.close 504 CHANNEL_ERROR - unexpected method in connection state running (20, 10)",
    );
    check(
        &raw(0, 90, 10, b""),
        "0 connection.close 504 CHANNEL_ERROR - unexpected method in connection state running (90, 10)",
    );
    check(&channel_open(1), "0 connection.close 504 CHANNEL_ERROR - second 'channel.open' seen (20, 10)");
    check(&raw(5, 90, 10, b""), "0 connection.close 504 CHANNEL_ERROR - expected 'channel.open' (90, 10)");
    check(&publish(5), "0 connection.close 504 CHANNEL_ERROR - expected 'channel.open' (60, 40)");
    check(&raw(5, 20, 41, b""), "0 connection.close 504 CHANNEL_ERROR - expected 'channel.open' (20, 41)");
    for (class, number, arguments) in [
        (10, 50, &b"\0\xc8\0\0\0\0\0"[..]),
        (10, 31, &[0; 8]),
        (20, 21, b"\x01"),
        (20, 41, b""),
        (50, 11, &[0; 9]),
        (60, 72, b"\0"),
        (60, 60, &[0; 12]),
        (60, 50, &[0; 5]),
        (60, 999, b""),
        (61, 10, b""),
    ] {
        check(
            &raw(1, class, number, arguments),
            &format!("0 connection.close 503 COMMAND_INVALID - unimplemented method ({class}, {number})"),
        );
    }
}

#[test]
fn more_channels_than_agreed() {
    let mut server = Connection::server(Limits::default(), Now::default());
    let opens: Vec<u8> = [1, 3000, 7, 8].into_iter().flat_map(channel_open).collect();
    let bytes = [HEADER, &start_ok(), &tune_ok(3, 131_072, 0), &open(), &opens].concat();
    let told = feed(&mut server, Now::default(), &bytes, &[]);
    // The numbers themselves have no bound, only how many there are.
    assert_eq!(told.iter().filter(|event| event.starts_with("ChannelOpen")).count(), 3);
    assert_eq!(
        said(&take_output(&mut server)[8..][..0]),
        Vec::<String>::new(),
        "the start frame comes first and is not looked at here"
    );
    assert!(
        told.last().unwrap().contains(
            "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
        )
    );
}

#[test]
fn a_message_over_the_bound_closes_its_channel() {
    let limits = Limits { message_size_max: 1000, ..Limits::default() };
    for size in [1001, 200_000] {
        let mut server = running(limits, Now::default());
        let bytes = [publish(1), header(1, size, &[0, 0]), body(1, &vec![0; 1001])].concat();
        let told = feed(&mut server, Now::default(), &bytes, &[]);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("ChannelFailed { channel: 1"));
        let text = format!("message size {size} is larger than configured max size 1000");
        assert_eq!(
            said(&take_output(&mut server)),
            [format!("1 channel.close 406 PRECONDITION_FAILED - {text} (60, 40)")]
        );
        // Other channels go on; this number is free after the close-ok.
        let bytes =
            [raw(1, 20, 41, b""), channel_open(1), publish(1), header(1, 1000, &[0, 0]), body(1, &[0; 1000])];
        let told = feed(&mut server, Now::default(), &bytes.concat(), &[]);
        assert_eq!(told[..2], ["ChannelClosed { channel: 1 }", "ChannelOpen { channel: 1 }"]);
        assert!(told[2].starts_with("Publish"));
    }
}

#[test]
fn a_closing_channel_discards_until_close_ok() {
    let mut server = running(Limits::default(), Now::default());
    let id = amqp091::MethodId { class: 60, method: 80 };
    server.close_channel(
        1,
        amqp091::ReplyCode::PreconditionFailed,
        "PRECONDITION_FAILED - unknown delivery tag 99",
        id,
    );
    take_output(&mut server);
    let late =
        [publish(1), header(1, 3, &[0, 0]), body(1, b"abc"), raw(1, 60, 80, &[0; 9]), raw(1, 60, 60, b"zzz")];
    assert_eq!(feed(&mut server, Now::default(), &late.concat(), &[]), [""; 0]);
    let both = raw(1, 20, 40, b"\0\xc8\0\0\0\0\0");
    assert_eq!(feed(&mut server, Now::default(), &both, &[]), [""; 0]);
    assert_eq!(said(&take_output(&mut server)), ["1 ChannelCloseOk(ChannelCloseOk)"]);
    let told = feed(&mut server, Now::default(), &raw(1, 20, 41, b""), &[]);
    assert_eq!(told, ["ChannelClosed { channel: 1 }"]);
}

#[test]
fn a_closing_connection_discards_until_close_ok() {
    let mut server = running(Limits::default(), Now::default());
    feed(&mut server, Now::default(), &channel_open(1), &[]);
    take_output(&mut server);
    let late = [publish(1), channel_open(2), raw(0, 10, 50, b"\0\xc8\0\0\0\0\0")].concat();
    assert_eq!(feed(&mut server, Now::default(), &late, &[]), [""; 0]);
    assert_eq!(said(&take_output(&mut server)), ["0 ConnectionCloseOk(ConnectionCloseOk)"]);
    assert_eq!(feed(&mut server, Now::default(), &raw(0, 10, 51, b""), &[]), ["Closed"]);
    assert!(server.is_closed());
}
