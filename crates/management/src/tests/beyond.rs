//! Endpoints that RabbitMQ's API does not have.

use super::Bench;
use super::answers::HELD_END;
use crate::node::Node;
use crate::{Limits, Request};
use broker::catalog::Op;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

#[test]
fn messages_are_looked_at_page_by_page() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT queues/v/own", "", 201),
        ("GET x/queues/v/none/messages", "", 404),
        ("GET x/queues/v/own/messages?count=501", "", 400),
        ("GET x/queues/v/own/messages?offset=x", "", 400),
        ("GET x/queues/v/own/messages?offset=65001", "", 400),
        ("GET x/queues/v/own/messages?encoding=hex", "", 400),
        ("POST x/queues/v/own/messages", "", 405),
    ]);
    let check = |query: &str, offsets: &[u64], next: Value| {
        let page = bench.get(&format!("x/queues/v/own/messages?{query}"));
        let found = page["messages"].as_array().unwrap().iter().map(|row| row["offset"].as_u64().unwrap());
        assert_eq!(found.collect::<Vec<_>>(), offsets, "{query}");
        assert_eq!((&page["messages_ready"], &page["next_offset"]), (&json!(2), &next), "{query}");
        let positions = page["messages"].as_array().unwrap().iter().map(|row| row["position"].as_u64());
        assert!(positions.eq(offsets.iter().map(|offset| Some(100 + offset))), "{query}");
    };
    check("", &[0, 1], Value::Null);
    check("count=1", &[0], json!(1));
    check("count=1&offset=1", &[1], Value::Null);
    check("offset=7", &[], Value::Null);
    check("offset=65000", &[], Value::Null);
    check("count=0", &[], Value::Null);
    let check = |query: &str, positions: &[u64], next: Value| {
        let page = bench.get(&format!("x/queues/v/own/messages?{query}"));
        let found = page["messages"].as_array().unwrap().iter().map(|row| row["position"].as_u64().unwrap());
        assert_eq!(found.collect::<Vec<_>>(), positions, "{query}");
        assert_eq!(page["next_position"], next, "{query}");
        page
    };
    check("count=1", &[100], json!(101));
    check("position=0&count=1", &[100], json!(101));
    check("position=101", &[101], Value::Null);
    check("position=9223372036854775807", &[], Value::Null);
    check("last=1", &[101], Value::Null);
    check("last=500", &[100, 101], Value::Null);
    let page = check("last=0", &[], Value::Null);
    assert!(page.get("next_offset").is_none());
    for query in [
        "position=-1",
        "position=9223372036854775808",
        "position=1&offset=1",
        "last=501",
        "last=2&count=1",
        "last=2&position=1",
        "from=first",
        "from=first&offset=1",
    ] {
        bench.statuses(&[(&format!("GET x/queues/v/own/messages?{query}"), "", 400)]);
    }
    let limits = Limits::default();
    assert!(
        limits.peek_skip_max as usize + limits.page_items_max <= u16::MAX.into(),
        "a prefetch says no more"
    );
    let page = bench.get("x/queues/v/own/messages?count=1&truncate=2&encoding=base64");
    assert_eq!(
        (&page["messages"][0]["payload"], &page["messages"][0]["payload_bytes"]),
        (&json!("Ym8="), &json!(4))
    );
}

#[test]
fn messages_move_and_go_back() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT queues/v/own", "", 201),
        ("POST x/queues/v/own/move", "{}", 400),
        ("POST x/queues/v/own/move", r#"{"exchange": "amq.default", "routing_key": "own"}"#, 400),
        ("POST x/queues/v/own/move", r#"{"exchange": "x", "routing_key": "k", "rate": -1}"#, 400),
        ("POST x/queues/v/own/redrive", r#"{"count": 0}"#, 400),
        ("POST x/queues/v/none/redrive", "", 404),
    ]);
    let (_, moved, _) =
        bench.ask("guest", "POST x/queues/v/own/move", r#"{"exchange": "x", "routing_key": "k"}"#);
    assert_eq!(moved, json!({"moved": 2, "unplaced": 0, "is_over": true}));
    let (_, moved, _) = bench.ask("guest", "POST x/queues/v/own/redrive", r#"{"count": 1, "rate": 5}"#);
    assert_eq!(moved, json!({"moved": 1, "unplaced": 1, "is_over": false}));
}

#[test]
fn a_move_goes_on_when_others_had_their_turns() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/own", "", 201)]);
    let mut request = Bench::request("guest", "POST x/queues/v/own/redrive", r#"{"count": 5, "rate": 5}"#);
    request.takes_turns = true;
    let first = crate::handle(&bench, &request);
    let rest = first.rest.expect("there are more to move");
    assert_eq!(first.status, 200);
    // The body was read once.
    let again = Request { moving: Some(rest.clone()), body: b"{".to_vec(), ..request.clone() };
    let second = crate::handle(&bench, &again);
    let body: Value = serde_json::from_slice(&second.body).unwrap();
    assert_eq!(body, json!({"moved": 2, "unplaced": 1, "is_over": false}));
    // The user is not let in any more.
    let authorization = Bench::request("nobody", "GET overview", "").authorization;
    let late = crate::handle(&bench, &Request { moving: Some(rest), authorization, ..request });
    let body: Value = serde_json::from_slice(&late.body).unwrap();
    assert_eq!((late.status, &body["moved"], &body["unplaced"]), (401, &json!(2), &json!(1)));
}

#[test]
fn a_move_that_fails_tells_how_far_it_came() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/own", "", 201)]);
    let (status, told, _) = bench.ask(
        "guest",
        "POST x/queues/v/own/move",
        r#"{"exchange": "gone", "routing_key": "k", "positions": [9, 100]}"#,
    );
    assert_eq!((status, &told["moved"], &told["missing"]), (400, &json!(1), &json!([9])));
    assert!(told["reason"].as_str().unwrap().contains("gone"), "{told}");
}

#[test]
fn messages_are_named_by_their_positions() {
    let bench = Bench::new();
    let too_many = json!({ "positions": vec![1; Limits::default().positions_max + 1] }).to_string();
    bench.statuses(&[
        ("PUT queues/v/own", "", 201),
        ("POST x/queues/v/own/delete", "", 400),
        ("POST x/queues/v/own/delete", r#"{"positions": null}"#, 400),
        ("POST x/queues/v/own/delete", r#"{"positions": 100}"#, 400),
        ("POST x/queues/v/own/delete", r#"{"positions": [100, -1]}"#, 400),
        ("POST x/queues/v/own/delete", r#"{"positions": ["100"]}"#, 400),
        ("POST x/queues/v/own/delete", &too_many, 400),
        ("POST x/queues/v/none/delete", r#"{"positions": [0]}"#, 404),
        ("GET x/queues/v/own/delete", "", 405),
        ("POST x/queues/v/own/redrive", r#"{"positions": null}"#, 400),
        ("POST x/queues/v/own/redrive", r#"{"positions": [100], "count": 1}"#, 400),
        ("POST x/queues/v/own/redrive", &too_many, 400),
    ]);
    let check = |path: &str, body: &str, expected: Value| {
        let (status, answer, _) = bench.ask("guest", &format!("POST x/queues/v/own/{path}"), body);
        assert_eq!((status, answer), (200, expected), "{path} {body}");
    };
    check("delete", r#"{"positions": []}"#, json!({"deleted": 0, "missing": []}));
    check("delete", r#"{"positions": [101, 7, 101]}"#, json!({"deleted": 1, "missing": [7]}));
    let most = json!({ "positions": vec![100; Limits::default().positions_max] }).to_string();
    check("delete", &most, json!({"deleted": 1, "missing": []}));
    check(
        "move",
        r#"{"exchange": "x", "routing_key": "k", "positions": [9, 100]}"#,
        json!({"moved": 1, "unplaced": 0, "missing": [9], "is_over": true}),
    );
    check(
        "redrive",
        r#"{"positions": [], "rate": 5}"#,
        json!({"moved": 0, "unplaced": 1, "missing": [], "is_over": true}),
    );
}

#[test]
fn held_messages_are_settled_where_that_is_said() {
    let bench = Bench::new();
    let held = r#"{"outcome": "accepted", "positions": [101, 7], "held": true}"#;
    bench.statuses(&[
        ("PUT queues/v/own", "", 201),
        ("POST x/queues/v/none/settle", held, 404),
        ("POST x/queues/v/own/settle", r#"{"outcome": "accepted", "positions": [1], "held": 1}"#, 400),
        ("POST x/queues/v/own/settle", r#"{"outcome": "accepted", "positions": [1], "held": "yes"}"#, 400),
        ("POST x/queues/v/own/settle", r#"{"outcome": "released", "positions": [1], "held": true}"#, 400),
        ("POST x/queues/v/own/settle", r#"{"outcome": "accepted", "held": true}"#, 400),
        ("POST x/queues/v/own/delete", r#"{"positions": [1], "held": true}"#, 400),
        ("POST x/queues/v/own/redrive", r#"{"positions": [1], "held": true}"#, 400),
        ("POST x/queues/v/own/delete", r#"{"positions": [101], "held": false}"#, 200),
    ]);
    let check = |body: Value, expected: Value| {
        let (status, answer, _) = bench.ask("guest", "POST x/queues/v/own/settle", &body.to_string());
        assert_eq!((status, answer), (200, expected), "{body}");
    };
    for outcome in ["accepted", "rejected"] {
        for (held, settled, missing) in [(true, 2, json!([])), (false, 1, json!([7]))] {
            check(
                json!({ "outcome": outcome, "positions": [101, 7], "held": held }),
                json!({ "settled": settled, "missing": missing }),
            );
        }
        // Behind the last one that is ready there are some that are held.
        let wanted = json!({ "outcome": outcome, "where": "TRUE", "position": HELD_END - 20, "held": true });
        check(wanted, json!({ "settled": 2, "missing": [], "scanned": 20, "next_position": null }));
        let wanted = json!({ "outcome": outcome, "where": "TRUE", "position": HELD_END - 20 });
        check(wanted, json!({ "settled": 0, "missing": [], "scanned": 0, "next_position": null }));
    }
}

#[test]
fn where_a_message_would_go() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT queues/v/one", "", 201),
        ("PUT queues/v/two", "", 201),
        ("POST bindings/v/e/amq.topic/q/one", r#"{"routing_key": "stock.*"}"#, 201),
        ("POST bindings/v/e/amq.topic/q/two", r#"{"routing_key": "bond.#"}"#, 201),
        ("POST bindings/v/e/amq.direct/q/two", r#"{"routing_key": "k"}"#, 201),
        ("POST x/exchanges/v/none/route", r#"{"routing_key": "k"}"#, 404),
        ("POST x/exchanges/v/amq.topic/route", "{}", 400),
    ]);
    let check = |exchange: &str, key: &str, queues: Value, reasons: &[&str]| {
        let line = format!("POST x/exchanges/v/{exchange}/route");
        let (status, found, _) = bench.ask("guest", &line, &json!({ "routing_key": key }).to_string());
        assert_eq!((status, &found["queues"]), (200, &queues), "{exchange} {key}");
        let mut told: Vec<_> =
            found["bindings"].as_array().unwrap().iter().map(|own| own["why"].as_str().unwrap()).collect();
        told.sort_unstable();
        assert_eq!(told, reasons, "{exchange} {key}");
    };
    let goes = "the message goes there by this binding";
    check(
        "amq.topic",
        "stock.nyse",
        json!(["one"]),
        &["the key 'stock.nyse' does not match the pattern 'bond.#'", goes],
    );
    check("amq.direct", "j", json!([]), &["the key is 'j', not 'k'"]);
    check("amq.default", "two", json!(["two"]), &[]);
    check("amq.default", "three", json!([]), &[]);
}

#[test]
fn an_exchange_with_many_bindings_is_looked_at_in_turns() {
    let bench = Bench::new();
    let bind = |exchange: &str, queue: &str, key: &str| {
        let op = Op::BindQueue {
            queue: queue.into(),
            exchange: exchange.into(),
            key: key.into(),
            arguments: Default::default(),
        };
        bench.request(op).unwrap();
    };
    for number in 0..2500 {
        let queue = format!("q{number}");
        bench.statuses(&[(&format!("PUT queues/%2F/{queue}"), "", 201)]);
        bind("amq.fanout", &queue, "");
        bind("amq.direct", &queue, &format!("k{number}"));
    }
    let check = |exchange: &str, queues: usize, reached: usize, looks: RangeInclusive<u32>| {
        *bench.looks.lock().unwrap() = 0;
        let line = format!("POST x/exchanges/%2F/{exchange}/route");
        let (status, found, _) = bench.ask("guest", &line, &json!({ "routing_key": "k7" }).to_string());
        let rows = found["bindings"].as_array().unwrap();
        assert_eq!(
            (status, rows.len(), &found["has_more_bindings"]),
            (200, 1000, &json!(true)),
            "{exchange}"
        );
        assert_eq!(found["queues"].as_array().unwrap().len(), queues, "{exchange}");
        let matched = rows.iter().filter(|row| row["matched"] == true).count();
        assert!(matched <= reached && (reached == 1 || matched == reached), "{exchange}: {matched}");
        let keys: Vec<_> = rows.iter().map(|row| row["routing_key"].as_str().unwrap()).collect();
        assert!(keys.is_sorted(), "{exchange}");
        let looked = *bench.looks.lock().unwrap();
        assert!(
            looks.contains(&looked),
            "{exchange}: {looked}, where one is to log in, one to route, some for names"
        );
    };
    check("amq.fanout", 2500, 1000, 1 + 1 + 3..=1 + 1 + 3);
    // Bindings are listed in no order, so that the one that matches is among the first thousand, or its queue is one name more.
    check("amq.direct", 1, 1, 1 + 1 + 1..=1 + 1 + 2);
}
