//! Counters, rates, and what connections have open.

use super::*;

fn opened(bench: &Bench, vhost: &str, queue: &str) -> Opened {
    let catalog = bench.catalog.lock().unwrap();
    let queue = catalog.queue_by_name(catalog.vhost(vhost).unwrap(), queue.as_bytes()).unwrap().clone();
    let channel = ChannelRow {
        number: 1,
        confirm: true,
        transactional: false,
        prefetch: 20,
        shared_prefetch: 0,
        consumers: 1,
        unacknowledged: 3,
        unconfirmed: 2,
        uncommitted: 0,
        uncommitted_acks: 0,
        tally: tally(),
        publishes: vec![("x".into(), 10)],
        unroutable: vec![("x".into(), [2, 1])],
        routes: vec![("x".into(), queue.id, 7)],
        deliveries: vec![(queue.clone(), tally())],
    };
    let consumer = ConsumerRow {
        handle: 5,
        tag: "ctag".into(),
        queue,
        channel: 1,
        settles: true,
        exclusive: true,
        prefetch: 20,
        arguments: None,
    };
    Opened {
        connection: "127.0.0.1:1 -> 127.0.0.1:5672".into(),
        port: (4, 1),
        user: "manager".into(),
        vhost: vhost.into(),
        channels: vec![channel],
        consumers: vec![consumer],
        ..Opened::default()
    }
}

fn with_queue() -> Bench {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/q", r#"{"durable": true}"#, 201)]);
    let own = opened(&bench, "v", "q");
    bench.opened.lock().unwrap().push((2, own));
    bench
}

#[test]
fn counters_grow_at_rates() {
    let bench = with_queue();
    let (vhost, id, exchange) = {
        let catalog = bench.catalog.lock().unwrap();
        let vhost = catalog.vhost("v").unwrap();
        let queue = catalog.queue_by_name(vhost, b"q").unwrap().id;
        (vhost, queue, catalog.exchange(vhost, b"amq.direct").unwrap().definition.id)
    };
    {
        let mut survey = bench.survey.lock().unwrap();
        survey.vhosts.insert(vhost, tally());
        survey.exchanges.insert(
            exchange,
            ExchangeTally { vhost, publish_in: 10, publish_out: 20, confirmed: 9, returned: 2, dropped: 1 },
        );
        survey.churn.queue_declared = 4;
    }
    let mut before = tally();
    before.0 = before.0.map(|count| count / 2);
    for (time, tally) in [(10_000, before), (15_000, tally())] {
        let round = vec![
            (Whose::Node, crate::counters(&tally, &[0; 9])),
            (Whose::Vhost(vhost), crate::counters(&tally, &[0; 4])),
            (Whose::Queue(id), crate::counters(&tally, &[2, 1])),
            (Whose::Exchange(exchange), [time / 1000, 0].into()),
            (Whose::Channel((2, 4, 1), 1), crate::counters(&tally, &[])),
        ];
        bench.history.lock().unwrap().add(time, round, &bench.about.limits);
    }
    for path in
        ["overview", "vhosts/v", "queues/v/q", "channels/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672%20(1)"]
    {
        let stats = bench.get(path)["message_stats"].take();
        assert_eq!(
            (&stats["publish"], &stats["publish_details"]["rate"]),
            (&json!(10), &json!(1.0)),
            "{path}"
        );
        assert_eq!(
            (&stats["deliver_get"], &stats["deliver_get_details"]["rate"]),
            (&json!(7), &json!(0.8)),
            "{path}"
        );
    }
    let stats = bench.get("exchanges/v/amq.direct")["message_stats"].take();
    assert_eq!(
        stats,
        json!({ "publish_in": 10, "publish_in_details": { "rate": 1.0 },
                "publish_out": 20, "publish_out_details": { "rate": 0.0 } })
    );
    assert_eq!(bench.get("exchanges/v/amq.topic").get("message_stats"), None);
    assert_eq!(bench.get("overview")["churn_rates"]["queue_declared"], 4);
    let queue = bench.get("queues/v/q?lengths_age=5&lengths_incr=5&columns=messages_details");
    let samples = json!([{ "sample": 3, "timestamp": 15_000 }, { "sample": 3, "timestamp": 10_000 }]);
    assert_eq!(queue["messages_details"]["samples"], samples);
    // Who does not see a virtual host is told nothing of what happens there.
    assert_eq!(bench.ask("policymaker", "GET overview", "").1["message_stats"]["publish"], 10);
    bench.statuses(&[("DELETE permissions/v/policymaker", "", 204)]);
    assert_eq!(bench.ask("policymaker", "GET overview", "").1["message_stats"], json!({}));
}

#[test]
fn channels_and_consumers_are_listed() {
    let bench = with_queue();
    let all = bench.get("channels");
    let channel = &all[0];
    let expected = json!({ "name": "127.0.0.1:1 -> 127.0.0.1:5672 (1)", "number": 1, "vhost": "v", "user": "manager",
        "confirm": true, "consumer_count": 1, "prefetch_count": 20, "messages_unacknowledged": 3,
        "messages_unconfirmed": 2, "transactional": false });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&channel[name], value, "{name}");
    }
    assert_eq!(channel["connection_details"]["peer_port"], 1);
    assert_eq!(bench.get("vhosts/v/channels").as_array().unwrap().len(), 1);
    assert_eq!(bench.get("vhosts/%2F/channels"), json!([]));
    let one = bench.get("channels/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672%20(1)");
    assert_eq!(one["publishes"][0]["exchange"], json!({ "name": "x", "vhost": "v" }));
    assert_eq!(one["deliveries"][0]["stats"]["deliver_get"], 7);
    assert_eq!(one["consumer_details"][0]["consumer_tag"], "ctag");
    bench.statuses(&[("GET channels/none", "", 404)]);
    let consumers = bench.get("consumers");
    assert_eq!(consumers[0]["queue"], json!({ "name": "q", "vhost": "v" }));
    assert_eq!((&consumers[0]["active"], &consumers[0]["activity_status"]), (&json!(true), &json!("up")));
    assert_eq!(bench.get("consumers/%2F"), json!([]));
    let queue = bench.get("queues/v/q");
    assert_eq!(queue["exclusive_consumer_tag"], "ctag");
    assert_eq!(queue["consumer_details"], consumers);
    // Another's are not shown to who may not watch.
    for (user, count) in [("manager", 1), ("policymaker", 0), ("monitor", 1)] {
        let (_, found, _) = bench.ask(user, "GET channels", "");
        assert_eq!(found.as_array().unwrap().len(), count, "{user}");
    }
}

#[test]
fn streams_tell_what_they_track() {
    let bench = Bench::new();
    let body = json!({ "offsets": { "c": 7 }, "writers": { "p": 9 } });
    assert_eq!(bench.get("stream/v/s/tracking"), body);
    assert_eq!(bench.get("stream/v/s/tracking?type=writer"), json!({ "writers": { "p": 9 } }));
    bench.statuses(&[("GET stream/v/none/tracking", "", 404), ("GET stream/none/s/tracking", "", 404)]);
    for list in ["connections", "publishers", "publishers/v", "publishers/v/s", "consumers", "consumers/v"] {
        assert_eq!(bench.get(&format!("stream/{list}")), json!([]), "{list}");
    }
    bench.statuses(&[
        ("PUT stream/super-streams/v/s", r#"{"partitions": 2}"#, 204),
        ("PUT stream/super-streams/v/t", r#"{"binding-keys": "a,b"}"#, 204),
        ("PUT stream/super-streams/v/u", r#"{"binding-keys": "a,b", "partitions": 2}"#, 400),
        ("PUT stream/super-streams/v/u", r#"{"partitions": 0}"#, 400),
        ("GET queues/v/s-1", "", 200),
        ("GET queues/v/t-b", "", 200),
    ]);
}

#[test]
fn logins_are_counted() {
    let bench = Bench::new();
    bench.ask("guest", "GET whoami", "");
    bench.ask("stranger", "GET whoami", "");
    assert_eq!(*bench.logins.lock().unwrap(), [2, 1]);
    assert_eq!(Tongue::Amqp10.label(), "amqp10");
}
