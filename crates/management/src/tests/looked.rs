//! Looks into queues, at the log and at what goes on: what operators ask, and RabbitMQ does not answer.

use super::*;
use crate::Response;

fn event(response: &Response, name: &str) -> Value {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let text = std::str::from_utf8(&response.body).unwrap();
    let data =
        text.strip_prefix(&format!("event: {name}\ndata: ")).and_then(|text| text.strip_suffix("\n\n"));
    serde_json::from_str(data.expect("one event")).unwrap()
}

#[test]
fn a_search_says_how_far_it_came_and_goes_on_from_there() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/%2F/q", "", 201)]);
    let positions = |told: &Value| -> Vec<u64> {
        told["messages"].as_array().unwrap().iter().map(|row| row["position"].as_u64().unwrap()).collect()
    };
    // The last message that is ready is at 101.
    let first = bench.get("x/queues/%2F/q/messages?where=a%20%3D%201");
    assert_eq!(positions(&first), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    assert_eq!([&first["scanned"], &first["next_position"], &first["end_position"]], [100, 100, 102]);
    assert_eq!(first["messages"][0]["payload"], "a = 1");
    let second = bench.get("x/queues/%2F/q/messages?where=a%20%3D%201&position=100");
    assert_eq!((positions(&second), &second["next_position"]), (vec![100], &Value::Null));
    let last = bench.get("x/queues/%2F/q/messages?where=a%20%3D%201&last=15&count=1");
    assert_eq!((positions(&last), &last["scanned"]), (vec![90], &json!(15)));
    let over = bench.get("x/queues/%2F/q/messages?where=a%20%3D%201&position=102");
    assert_eq!((positions(&over), &over["scanned"]), (vec![], &json!(0)));
    // Nothing is nothing to look for.
    assert_eq!(bench.get("x/queues/%2F/q/messages?where=%20")["scanned"], Value::Null);
    let (status, refused, _) = bench.ask("guest", "GET x/queues/%2F/q/messages?where=a%20%3D%20", "");
    assert_eq!((status, refused["reason"].as_str().unwrap().contains("where: at byte 4")), (400, true));
    bench.statuses(&[
        ("GET x/queues/%2F/q/messages?where=a&offset=3", "", 400),
        ("GET x/queues/%2F/q/messages?where=a&from=3", "", 400),
        ("GET x/queues/%2F/q/messages?where=a&position=1&last=1", "", 400),
        ("GET x/queues/%2F/q/messages?where=a&position=x", "", 400),
        ("GET x/queues/%2F/none/messages?where=a", "", 404),
        ("GET x/queues/%2F/q/messages?where=STATE()%20%3D%20'ready'", "", 200),
        ("GET x/queues/%2F/q/messages?where=OFFSET()%20%3D%201", "", 400),
        ("GET x/queues/%2F/q/tail?where=OFFSET()%20%3D%201", "", 400),
    ]);
    bench.statuses(&[(
        "PUT permissions/v/manager",
        r#"{"configure": ".*", "write": ".*", "read": "^z"}"#,
        204,
    )]);
    bench.statuses(&[("PUT queues/v/q", "", 201)]);
    assert_eq!(bench.ask("manager", "GET x/queues/v/q/messages?where=a", "").0, 401);
}

#[test]
fn a_tail_tells_what_came_and_what_nobody_saw() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/%2F/q", "", 201)]);
    // Of the bench's queues ten messages have come by now.
    let line = "GET x/queues/%2F/q/tail?position=0&where=a";
    let first = bench.listen("guest", line, None);
    let told = event(&first, "messages");
    assert_eq!([&told["came"], &told["unseen"], &told["next"]], [3, 0, 10], "from its head at 7 on");
    assert_eq!(told["messages"], json!([]));
    let told = event(&bench.listen("guest", line, Some(&first)), "messages");
    assert_eq!([&told["came"], &told["next"]], [0, 10]);
    let fresh = bench.listen("guest", "GET x/queues/%2F/q/tail", None);
    assert_eq!(event(&fresh, "messages")["came"], 0, "what is to come");
    let once = bench.listen("guest", "GET x/queues/%2F/q/tail?events=1", None);
    assert_eq!((once.status, once.next), (200, None));
    bench.statuses(&[
        ("GET x/queues/%2F/q/tail?events=0", "", 400),
        ("GET x/queues/%2F/q/tail?position=x", "", 400),
        ("GET x/queues/%2F/q/tail?from=3", "", 400),
        ("GET x/queues/%2F/q/tail?where=a%20%3D", "", 400),
        ("GET x/queues/%2F/none/tail", "", 404),
    ]);
}

#[test]
fn who_holds_a_message_is_told() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/%2F/q", "", 201)]);
    let queue = bench.catalog.lock().unwrap().queues().next().unwrap().clone();
    let consumer = ConsumerRow {
        handle: 4,
        tag: "tag".into(),
        queue,
        channel: 2,
        settles: true,
        exclusive: false,
        prefetch: 0,
        arguments: None,
    };
    let opened = Opened {
        connection: "a -> b".into(),
        port: (0, 1),
        user: "monitor".into(),
        vhost: "/".into(),
        consumers: vec![consumer],
        ..Opened::default()
    };
    bench.opened.lock().unwrap().push((0, opened));
    let told = bench.get("x/queues/%2F/q/unacked?count=2");
    assert_eq!(
        told,
        json!({ "next_position": 5, "messages": [
            { "position": 3, "redelivered": false, "held_ms": 0, "connection": "a -> b", "user": "monitor" },
            { "position": 4, "redelivered": true, "held_ms": null, "connection": "a -> b", "user": "monitor",
              "consumer_tag": "tag", "channel": "a -> b (2)" },
        ] })
    );
    // The connection of the last one is gone.
    let told = bench.get("x/queues/%2F/q/unacked?position=8");
    assert_eq!(told["messages"], json!([{ "position": 8, "redelivered": false, "held_ms": null }]));
    assert_eq!(told["next_position"], Value::Null);
    bench.statuses(&[
        ("GET x/queues/%2F/none/unacked", "", 404),
        ("GET x/queues/none/q/unacked", "", 404),
        ("GET x/queues/%2F/q/unacked?count=501", "", 400),
        ("GET x/queues/%2F/q/unacked?position=-1", "", 400),
    ]);
    // Others' connections are nobody's business.
    bench.statuses(&[(
        "PUT permissions/%2F/manager",
        r#"{"configure": "", "write": "", "read": ".*"}"#,
        201,
    )]);
    let told = bench.ask("manager", "GET x/queues/%2F/q/unacked?count=1", "").1;
    assert_eq!(told["messages"][0].get("connection"), None);
}

#[test]
fn the_log_is_told_line_by_line() {
    let bench = Bench::new();
    bench.lines.lock().unwrap().extend(["one", "Deleted two", "three"].map(str::to_owned));
    let line = "GET x/log?level=info&text=T";
    let first = bench.listen("guest", line, None);
    let lines = |response: &Response| -> Vec<String> {
        let told = event(response, "lines");
        told["lines"].as_array().unwrap().iter().map(|row| row["line"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(lines(&first), ["Deleted two", "three"]);
    bench.lines.lock().unwrap().push("Last".to_owned());
    assert_eq!(lines(&bench.listen("guest", line, Some(&first))), ["Last"]);
    assert_eq!(lines(&bench.listen("guest", "GET x/log?level=warning", None)), ["Deleted two"]);
    assert_eq!(lines(&bench.listen("guest", "GET x/log?last=1", None)), ["Last"]);
    let check = |user: &str, line: &str, status: u16| {
        assert_eq!(bench.listen(user, line, None).status, status, "{user} {line}");
    };
    check("monitor", "GET x/log", 401);
    check("guest", "GET x/log?level=loud", 400);
    check("guest", "GET x/log?last=x", 400);
    check("guest", "GET x/log?events=0", 400);
}

#[test]
fn settings_are_told_with_their_places_and_without_secrets() {
    let mut bench = Bench::new();
    bench.about.settings_read = [("a.b", "1", "x.conf:3"), ("default_pass", "secret", "x.conf:4")]
        .map(|(key, value, from)| (key.to_owned(), value.to_owned(), from.to_owned()))
        .into();
    assert_eq!(
        bench.get("x/settings"),
        json!([
            { "key": "a.b", "value": "1", "from": "x.conf:3" },
            { "key": "default_pass", "value": "********", "from": "x.conf:4" },
        ])
    );
    assert_eq!(bench.ask("monitor", "GET x/settings", "").0, 401);
}

#[test]
fn durations_are_told_by_their_steps() {
    let bench = Bench::new();
    for (at_ms, count) in [(999_000_000, 1), (999_990_000, 5), (999_999_000, 12)] {
        let counters = crate::latency::durations(
            &Default::default(),
            &Default::default(),
            &[Turns { groups: [count; TURN_BOUNDS_US.len() + 1], ..Turns::default() }],
        );
        let limits = crate::Limits::default();
        bench.history.lock().unwrap().keep(at_ms, &[(Whose::Durations, counters)], &limits);
    }
    let told = bench.get("x/latency");
    let turns = &told["kinds"]["turn"];
    assert_eq!(turns["samples"].as_array().unwrap().len(), 2);
    assert_eq!(turns["samples"][1], json!({ "timestamp": 999_999_000u64, "counts": vec![7; 11] }));
    assert_eq!([&turns["count"], &turns["p50_us"]], [121, 2000]);
    assert_eq!([&told["kinds"]["flush"]["count"], &told["kinds"]["commit_to_deliver"]["count"]], [0, 0]);
    // The last sample before is what the first step is counted from.
    assert_eq!(bench.get("x/latency?age=5")["kinds"]["turn"]["samples"].as_array().unwrap().len(), 1);
    bench.statuses(&[("GET x/latency?age=0", "", 400), ("GET x/latency?age=3601", "", 400)]);
    assert_eq!(bench.ask("manager", "GET x/latency", "").0, 401);
}

#[test]
fn an_expression_is_explained_before_anything_is_chosen_by_it() {
    let bench = Bench::new();
    let check = |asked: Value| {
        let (status, told, _) = bench.ask("manager", "POST x/filter/check", &asked.to_string());
        assert_eq!(status, 200, "{told}");
        told
    };
    let told = check(json!({ "filter": "/order/legs/0/venue='X' OR NOT more = 1" }));
    let expected = json!({
        "filter": "body.order.legs[0].venue = 'X' OR NOT more = 1",
        "reads": ["body.order.legs[0].venue", "more"],
        "class": "stable",
    });
    assert_eq!(told, expected);
    assert_eq!(check(json!({ "filter": "properties.creation_time < UTC()" }))["class"], "timed");
    let told = check(json!({ "filter": "DELIVERIES() > 2 AND topic_match('a.*')", "routing_key": "a.b" }));
    assert_eq!(told["class"], "contextual");
    assert_eq!(told["reads"], json!(["DELIVERIES()", "ROUTING_KEY()"]));
    assert_eq!(told["matches"], Value::Null);
    let of_route = json!({ "filter": "TOPIC_MATCH('a.*') AND EXCHANGE() = 'x' AND SIZE() = 0",
        "routing_key": "a.b", "exchange": "x" });
    assert_eq!(check(of_route)["matches"], true);
    let payload = r#"{"n": 5, "tags": ["a"]}"#;
    for (filter, matches) in [
        ("body.n > 4", json!(true)),
        ("body.n > 5", json!(false)),
        ("body.none > 5", Value::Null),
        ("body.tags = 'a' AND kind = 'k' AND header.priority = 7", json!(true)),
    ] {
        let properties = json!({ "headers": { "kind": "k" }, "priority": 7 });
        let asked = json!({ "filter": filter, "payload": payload, "properties": properties });
        assert_eq!(check(asked)["matches"], matches, "{filter}");
    }
    let encoded = json!({ "filter": "body.n = 5", "payload": "eyJuIjo1fQ==", "payload_encoding": "base64" });
    assert_eq!(check(encoded)["matches"], true);
    let (status, told, _) = bench.ask("manager", "POST x/filter/check", r#"{"filter": "body.a > > 3"}"#);
    assert_eq!((status, &told["reason"]), (400, &json!("filter: at byte 9: a value expected")));
    bench.statuses(&[
        ("POST x/filter/check", "{}", 400),
        ("POST x/filter/check", r#"{"filter": 5}"#, 400),
        ("POST x/filter/check", r#"{"filter": "a", "payload": 5}"#, 400),
        ("POST x/filter/check", r#"{"filter": "a", "payload": "!", "payload_encoding": "base64"}"#, 400),
        ("POST x/filter/check", r#"{"filter": "a", "payload": "", "payload_encoding": "hex"}"#, 400),
        ("POST x/filter/check", r#"{"filter": "a", "properties": 5}"#, 400),
        ("POST x/filter/check", r#"{"filter": "a", "routing_key": 5}"#, 400),
        ("POST x/filter/check", r#"{"filter": "a", "exchange": 5}"#, 400),
    ]);
    assert_eq!(bench.ask("stranger", "POST x/filter/check", r#"{"filter": "a"}"#).0, 401);
}

#[test]
fn a_policy_is_looked_at_before_it_is_saved() {
    let bench = Bench::new();
    let policy = |pattern: &str, priority: i64| {
        json!({ "pattern": pattern, "apply-to": "queues", "priority": priority, "definition": { "max-length": 5 } })
            .to_string()
    };
    bench.statuses(&[
        ("PUT queues/v/a-one", "", 201),
        ("PUT queues/v/a-two", "", 201),
        ("PUT queues/v/b-one", "", 201),
        ("PUT policies/v/weak", &policy("^a-one", 1), 201),
        ("PUT policies/v/strong", &policy("^b", 9), 201),
    ]);
    let preview = |name: &str, pattern: &str, priority: i64| {
        let line = format!("POST x/policies/v/{name}/preview");
        let (status, told, _) = bench.ask("guest", &line, &policy(pattern, priority));
        assert_eq!(status, 200, "{told}");
        told
    };
    let told = preview("new", "one$|two$", 5);
    assert_eq!([&told["matched"], &told["governed"], &told["released"]], [3, 2, 0]);
    assert_eq!(told["replaces"], json!([{ "policy": "weak", "count": 1 }]));
    assert_eq!(told["yields_to"], json!([{ "policy": "strong", "count": 1 }]));
    assert_eq!(
        told["examples"][2],
        json!({ "kind": "queue", "name": "b-one", "type": "classic", "policy_now": "strong", "policy_then": "strong" })
    );
    // One that is there already lets go of what it does not match any more.
    let told = preview("strong", "^a-two", 9);
    assert_eq!([&told["matched"], &told["governed"], &told["released"]], [1, 1, 1]);
    assert!(bench.get("policies/v").as_array().unwrap().len() == 2, "nothing is saved");
    bench.statuses(&[
        ("POST x/policies/v/new/preview", r#"{"pattern": "(", "definition": {"max-length": 1}}"#, 400),
        ("POST x/policies/v/new/preview", r#"{"pattern": "a", "definition": {"nonsense": 1}}"#, 400),
        ("POST x/policies/none/new/preview", &policy("a", 0), 404),
        ("POST x/operator-policies/v/new/preview", &policy("a", 0), 200),
    ]);
    assert_eq!(bench.ask("manager", "POST x/policies/v/new/preview", &policy("a", 0)).0, 401);
    assert_eq!(bench.ask("policymaker", "POST x/operator-policies/v/new/preview", &policy("a", 0)).0, 401);
}

#[test]
fn it_is_told_whether_a_user_may_and_by_which_pattern() {
    let bench = Bench::new();
    let topic = r#"{"exchange": "amq.topic", "write": "^a", "read": "^b"}"#;
    bench.statuses(&[
        ("PUT permissions/v/manager", r#"{"configure": "^own", "write": ".*", "read": ""}"#, 204),
        ("PUT topic-permissions/v/manager", topic, 201),
    ]);
    let check = |query: &str, allowed: bool, pattern: &str, topic: Value| {
        let told = bench.get(&format!("x/permissions/v/manager/test?{query}"));
        let found = (&told["allowed"], &told["pattern"], &told["topic_pattern"]);
        assert_eq!(found, (&json!(allowed), &json!(pattern), &topic), "{query}");
        assert_eq!(told["reason"].is_null(), allowed, "{told}");
    };
    check("access=configure&queue=own.1", true, "^own", Value::Null);
    check("access=configure&queue=other", false, "^own", Value::Null);
    check("access=read&queue=own.1", false, "", Value::Null);
    assert_eq!(
        bench.get("x/permissions/v/manager/test?access=read&queue=q")["reason"],
        "read access to queue 'q' in vhost 'v' refused for user 'manager'"
    );
    check("access=write&exchange=amq.topic&routing_key=a.b", true, ".*", json!("^a"));
    check("access=write&exchange=amq.topic&routing_key=c", false, ".*", json!("^a"));
    check("access=write&exchange=amq.default", true, ".*", Value::Null);
    assert_eq!(bench.get("x/permissions/v/nobody/test?access=read&queue=q")["has_permissions"], false);
    bench.statuses(&[
        ("GET x/permissions/v/stranger/test?access=read&queue=q", "", 404),
        ("GET x/permissions/none/guest/test?access=read&queue=q", "", 404),
        ("GET x/permissions/v/guest/test?access=read", "", 400),
        ("GET x/permissions/v/guest/test?queue=q", "", 400),
        ("GET x/permissions/v/guest/test?access=look&queue=q", "", 400),
        ("GET x/permissions/v/guest/test?access=read&queue=q&exchange=x", "", 400),
    ]);
    assert_eq!(bench.ask("monitor", "GET x/permissions/v/guest/test?access=read&queue=q", "").0, 401);
}

#[test]
fn a_picture_has_what_is_bound() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT exchanges/v/in", r#"{"type": "topic"}"#, 201),
        ("PUT exchanges/v/behind", "", 201),
        ("PUT queues/v/q1", "", 201),
        ("PUT queues/v/q2", "", 201),
        ("POST bindings/v/e/in/q/q1", r#"{"routing_key": "a.*"}"#, 201),
        ("POST bindings/v/e/in/q/q1", r#"{"routing_key": "b"}"#, 201),
        ("PUT exchanges/%2F/elsewhere", "", 201),
    ]);
    let told = bench.get("x/topology?vhost=v");
    let names = |list: &str| -> Vec<&str> {
        told[list].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
    };
    assert_eq!((names("exchanges"), names("queues")), (vec!["behind", "in"], vec!["q1", "q2"]));
    let edge = &told["edges"][0];
    assert_eq!(
        (&edge["source"], &edge["destination"], &edge["bindings"], edge["keys"].as_array().unwrap().len()),
        (&json!("in"), &json!("q1"), &json!(2), 2)
    );
    assert_eq!(told["edges"].as_array().unwrap().len(), 1);
    let one = bench.get("x/topology?vhost=v&prefix=q1&most=1");
    assert_eq!((&one["queue_count"], &one["exchanges"][0]["name"]), (&json!(1), &json!("in")));
    bench.statuses(&[
        ("GET x/topology", "", 400),
        ("GET x/topology?vhost=none", "", 404),
        ("GET x/topology?vhost=v&most=2001", "", 400),
    ]);
    assert_eq!(bench.ask("manager", "GET x/topology?vhost=%2F", "").0, 404);
}

#[test]
fn queues_that_dead_letters_go_to_are_found() {
    let bench = Bench::new();
    let letters = |exchange: &str, key: &str| {
        let key =
            if key.is_empty() { String::new() } else { format!(r#", "x-dead-letter-routing-key": "{key}""#) };
        format!(r#"{{"arguments": {{"x-dead-letter-exchange": "{exchange}"{key}}}}}"#)
    };
    bench.statuses(&[
        ("PUT exchanges/v/dlx", r#"{"type": "fanout"}"#, 201),
        ("PUT queues/v/dead", "", 201),
        ("PUT queues/v/named", "", 201),
        ("PUT queues/v/alone", "", 201),
        ("POST bindings/v/e/dlx/q/dead", r#"{"routing_key": ""}"#, 201),
        ("PUT queues/v/one", &letters("dlx", ""), 201),
        ("PUT queues/v/two", &letters("dlx", ""), 201),
        ("PUT queues/v/three", &letters("", "named"), 201),
        ("PUT queues/v/four", &letters("gone", "x"), 201),
        // Whether it is for a letter is in the letter.
        ("PUT exchanges/v/by-content", r#"{"type": "x-content"}"#, 201),
        ("PUT queues/v/perhaps", "", 201),
        ("POST bindings/v/e/by-content/q/perhaps", r#"{"arguments": {"x-filter": "body.a = 1"}}"#, 201),
        ("PUT queues/v/five", &letters("by-content", "x"), 201),
    ]);
    let told = bench.get("x/dead-letters");
    let rows: Vec<(&str, u64, Vec<&str>)> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let sources = row["sources"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            (row["name"].as_str().unwrap(), row["source_count"].as_u64().unwrap(), sources.collect())
        })
        .collect();
    let expected =
        [("dead", 2, vec!["one", "two"]), ("named", 1, vec!["three"]), ("perhaps", 1, vec!["five"])];
    assert_eq!(rows, expected);
    assert_eq!(bench.get("x/dead-letters?vhost=%2F"), json!([]));
    assert_eq!(bench.ask("monitor", "GET x/dead-letters", "").1, json!([]));
}

#[test]
fn what_needs_somebody_is_told() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT queues/v/alone", "", 201),
        ("PUT queues/v/dead", "", 201),
        (
            "PUT queues/v/tight",
            r#"{"arguments": {"x-max-length": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}}"#,
            201,
        ),
    ]);
    let told = bench.get("x/advice");
    let lines: Vec<(&str, &str, &str)> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let text = |value: &'_ Value| -> &'static str { value.as_str().unwrap_or("").to_owned().leak() };
            (text(&line["kind"]), text(&line["severity"]), text(&line["object"]["name"]))
        })
        .collect();
    assert_eq!(
        lines,
        [
            ("memory_alarm", "bad", ""),
            ("no_consumer", "warn", "alone"),
            ("near_limit", "warn", "tight"),
            ("dead_letters", "info", "dead"),
        ]
    );
    let own = bench.ask("manager", "GET x/advice", "").1;
    assert!(own.as_array().unwrap().iter().all(|line| line["object"]["vhost"] == "v"), "{own}");
}
