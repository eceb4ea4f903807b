//! Definitions of many things: how many are under way at once, and what is told where one of them fails.

use super::*;

fn binding(number: usize, queue: &str) -> Value {
    json!({"source": "amq.topic", "vhost": "/", "destination": queue, "destination_type": "queue",
           "routing_key": format!("k.{number}"), "arguments": {}})
}

fn bindings_of_q(bench: &Bench) -> usize {
    // The one to the default exchange is not counted.
    bench.get("queues/%2F/q/bindings").as_array().map_or(0, |list| list.len() - 1)
}

#[test]
fn many_things_are_under_way_at_once_and_no_more_than_may_be() {
    let bench = Bench::new();
    let queues: Vec<Value> =
        (0..100).map(|number| json!({"name": format!("q{number}"), "vhost": "/", "durable": true})).collect();
    let queue = json!({"name": "q", "vhost": "/", "durable": true});
    let all = [&queues[..], &[queue]].concat();
    let bindings: Vec<Value> = (0..1000).map(|number| binding(number, "q")).collect();
    let body = json!({"queues": all, "bindings": bindings}).to_string();
    for _ in 0..2 {
        bench.statuses(&[("POST definitions", &body, 204)]);
        assert_eq!(bindings_of_q(&bench), 1000);
        assert_eq!(*bench.begun.lock().unwrap(), [0, bench.about.limits.import_begun_max]);
    }
}

#[test]
fn the_first_that_fails_is_told_and_what_is_far_behind_it_is_not_begun() {
    let begun_max = About::default().limits.import_begun_max;
    let check = |at: usize, wrong: Value, expected: (u16, &str)| {
        let bench = Bench::new();
        let mut bindings: Vec<Value> = (0..1000).map(|number| binding(number, "q")).collect();
        // Another one behind it fails too.
        (bindings[at], bindings[at + 1]) = (wrong, binding(0, "later"));
        let body = json!({"queues": [{"name": "q", "vhost": "/"}], "bindings": bindings}).to_string();
        let (status, answer, _) = bench.ask("guest", "POST definitions", &body);
        assert_eq!((status, answer["reason"].as_str().unwrap()), expected, "{at}: {answer}");
        let done = bindings_of_q(&bench);
        assert!((at..at + begun_max).contains(&done), "{done} of what is around {at}");
        assert_eq!(bench.begun.lock().unwrap()[0], 0, "all that was begun was waited for");
    };
    let missing = "no queue 'none' in vhost '/'";
    check(0, binding(0, "none"), (404, missing));
    check(500, binding(0, "none"), (404, missing));
    let unknown = json!({"source": "amq.topic", "vhost": "/", "destination": "q", "destination_type": "zz"});
    check(500, unknown, (400, "unknown destination type 'zz'"));
}

#[test]
fn the_first_queue_of_a_name_counts() {
    let bench = Bench::new();
    let queue = |durable: bool| json!({"name": "q", "vhost": "/", "durable": durable});
    let body = json!({"queues": [queue(true), queue(false)]}).to_string();
    bench.statuses(&[("POST definitions", &body, 204)]);
    assert_eq!(bench.get("queues/%2F/q")["durable"], json!(true));
    assert_eq!(bench.begun.lock().unwrap()[1], 1, "the second waits for the first");
}

#[test]
fn virtual_hosts_and_users_are_under_way_together_in_the_order_of_the_file() {
    let bench = Bench::new();
    let vhosts: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("v{number}"), "limits": {"max-queues": 5}, "tracing": number == 7}))
        .collect();
    let users: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("u{number}"), "password": "p", "tags": "management", "limits": {}}))
        .collect();
    // The last of a name counts.
    let again = json!({"name": "v3", "description": "again"});
    let changed = json!({"name": "u3", "password": "p", "tags": "monitoring", "limits": {"max-channels": 2}});
    let permissions: Vec<Value> = (0..100)
        .map(|number| {
            json!({"user": format!("u{number}"), "vhost": format!("v{number}"), "configure": "", "write": "w", "read": ""})
        })
        .collect();
    let (vhosts, users) = ([&vhosts[..], &[again]].concat(), [&users[..], &[changed]].concat());
    let body = json!({"vhosts": vhosts, "users": users, "permissions": permissions}).to_string();
    for _ in 0..2 {
        *bench.looks.lock().unwrap() = 0;
        bench.statuses(&[("POST definitions", &body, 204)]);
        assert!(*bench.looks.lock().unwrap() <= 4, "who is there is asked once");
        assert_eq!(*bench.begun.lock().unwrap(), [0, bench.about.limits.import_begun_max]);
        let vhost = bench.get("vhosts/v3");
        assert_eq!(
            (&vhost["description"], &bench.get("vhosts/v7")["tracing"]),
            (&json!("again"), &json!(true))
        );
        assert_eq!(bench.get("vhost-limits/v99")[0]["value"], json!({"max-queues": 5}));
        let user = bench.get("users/u3");
        assert_eq!((&user["tags"], &user["limits"]), (&json!(["monitoring"]), &json!({"max-channels": 2})));
        assert_eq!(bench.get("permissions/v99/u99")["write"], "w");
        // Who imports may use what was made.
        assert_eq!(bench.get("permissions/v99/guest")["write"], ".*");
    }
    let wrong = json!({"vhosts": [{"name": "w"}, {"name": "x", "default_queue_type": "zz"}, {"name": "y"}]})
        .to_string();
    let (status, answer, _) = bench.ask("guest", "POST definitions", &wrong);
    assert_eq!((status, &answer["reason"]), (400, &json!("zz is not a valid queue type")));
    let there = ["w", "x", "y"].map(|name| bench.ask("guest", &format!("GET vhosts/{name}"), "").0);
    assert_eq!(there, [200, 404, 404]);
}

#[test]
fn nothing_is_imported_of_a_file_with_a_row_that_is_no_json() {
    for bad in [r#"{"name": "\ud800"}"#, r#"{"name": 1e999}"#, r#"{"name": }"#] {
        let bench = Bench::new();
        let body = format!(r#"{{"queues": [{{"name": "q", "vhost": "/"}}], "bindings": [{bad}]}}"#);
        let (status, answer, _) = bench.ask("guest", "POST definitions", &body);
        assert_eq!((status, &answer["reason"]), (400, &json!("failed_to_parse_json")), "{bad}");
        bench.statuses(&[("GET queues/%2F/q", "", 404)]);
    }
}
