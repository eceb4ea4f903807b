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
