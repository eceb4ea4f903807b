//! Counters, rates, and the objects that connections have open.

use super::*;
use filter::Counts;
use std::collections::BTreeMap;

pub(super) fn opened(bench: &Bench, vhost: &str, queue: &str) -> Opened {
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

/// Samples by name and labels, with those of one name added up.
fn added_up(text: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (what, value) = line.rsplit_once(' ').unwrap();
        let name = what.split_once('{').map_or(what, |(name, _)| name);
        *sums.entry(name.to_owned()).or_default() += value.parse::<f64>().unwrap();
    }
    sums
}

#[test]
fn metrics_of_all_are_the_sums_of_those_of_each() {
    let bench = with_queue();
    bench.statuses(&[
        ("PUT queues/v/other", "{}", 201),
        ("PUT queues/v/quorum", r#"{"durable": true, "arguments": {"x-queue-type": "quorum"}}"#, 201),
    ]);
    let second = Opened { senders: 2, channels: Vec::new(), ..opened(&bench, "v", "other") };
    let third = Opened { port: (9, 1), ..opened(&bench, "v", "other") };
    bench.opened.lock().unwrap().extend([(0, second), (1, third)]);
    let own = ["a", "b"].map(|name| connection(name, "guest", "v"));
    // Connections that have not logged in yet do not count.
    bench.connections.lock().unwrap().extend(own.into_iter().chain([connection("c", "", "")]));
    let scraped = |path: &str| {
        let request = Request::new("GET", path, Vec::new(), false).unwrap();
        added_up(&String::from_utf8(crate::metrics(&bench, &request).body).unwrap())
    };
    let (all, each) = (scraped("/metrics"), scraped("/metrics/per-object"));
    let kinds = ["channel", "consumer", "connection", "queue", "global_publishers", "global_consumers"];
    let is_sum = |name: &str| {
        let name = name.strip_prefix("rabbitmq_").unwrap();
        kinds.iter().any(|kind| name.starts_with(kind))
    };
    // Counters by exchange and queue come from elsewhere there, and neither moments nor kinds of a queue add up.
    let others = [
        "messages_published_total",
        "exchange_",
        "channel_messages_",
        "head_message",
        "queue_info",
        "channel_get",
    ];
    let mut compared = 0;
    for (name, value) in all.iter().filter(|(name, _)| is_sum(name)) {
        if others.iter().any(|other| name.contains(other)) {
            continue;
        }
        assert_eq!(each.get(name), Some(value), "{name}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
    assert_eq!(
        ["connections", "channels", "consumers", "queues", "connection_channels"]
            .map(|name| all[&format!("rabbitmq_{name}")]),
        [2.0, 2.0, 3.0, 3.0, 2.0]
    );
    assert_eq!(
        all["rabbitmq_channel_messages_acked_total"],
        2.0 * each["rabbitmq_queue_messages_acked_total"] / 3.0
    );
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
        let filtered = Counts { messages: 10, evaluations: 30, unreadable: 1 };
        survey.vhosts.insert(vhost, tally());
        survey.exchanges.insert(
            exchange,
            ExchangeTally {
                vhost,
                publish_in: 10,
                publish_out: 20,
                confirmed: 9,
                returned: 2,
                dropped: 1,
                filtered,
            },
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
    // The counters of a channel's only exchange grow as the channel's do; for one of several queues that is not known.
    let channel = bench.get("channels/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672%20(1)");
    assert_eq!(
        channel["publishes"][0]["stats"],
        json!({ "publish": 10, "publish_details": { "rate": 1.0 } })
    );
    let mut other = tally();
    other.add(Count::Deliver, 1);
    bench.opened.lock().unwrap()[0].1.channels[0].deliveries[0].1 = other;
    let channel = bench.get("channels/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672%20(1)");
    assert_eq!(channel["deliveries"][0]["stats"], json!({ "deliver_get": 8 }));
    let stats = bench.get("exchanges/v/amq.direct")["message_stats"].take();
    assert_eq!(
        stats,
        json!({ "publish_in": 10, "publish_in_details": { "rate": 1.0 },
                "publish_out": 20, "publish_out_details": { "rate": 0.0 },
                "filter_messages": 10, "filter_evaluations": 30, "filter_unreadable": 1 })
    );
    assert_eq!(bench.get("exchanges/v/amq.topic").get("message_stats"), None);
    assert_eq!(bench.get("overview")["churn_rates"]["queue_declared"], 4);
    let queue = bench.get("queues/v/q?lengths_age=5&lengths_incr=5&columns=messages_details");
    let samples = json!([{ "sample": 3, "timestamp": 15_000 }, { "sample": 3, "timestamp": 10_000 }]);
    assert_eq!(queue["messages_details"]["samples"], samples);
    // Users hear nothing of virtual hosts that they do not see.
    assert_eq!(bench.ask("policymaker", "GET overview", "").1["message_stats"]["publish"], 10);
    bench.statuses(&[("DELETE permissions/v/policymaker", "", 204)]);
    assert_eq!(bench.ask("policymaker", "GET overview", "").1["message_stats"], json!({}));
    // It changed with the last samples, or nobody knows.
    assert_eq!((channel.get("idle_since"), bench.get("queues/v/q").get("idle_since")), (None, None));
    let again = vec![(Whose::Queue(id), crate::counters(&tally(), &[2, 1]))];
    bench.history.lock().unwrap().add(20_000, again, &bench.about.limits);
    assert_eq!(bench.get("queues/v/q")["idle_since"], "1970-01-01T00:00:15.000+00:00");
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
    // Other users' are not shown to users that may not watch.
    for (user, count) in [("manager", 1), ("policymaker", 0), ("monitor", 1)] {
        let (_, found, _) = bench.ask(user, "GET channels", "");
        assert_eq!(found.as_array().unwrap().len(), count, "{user}");
    }
}

#[test]
fn queues_tell_what_is_in_them() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT queues/v/kept", r#"{"durable": true}"#, 201),
        ("PUT queues/v/lost", r#"{"durable": false}"#, 201),
        ("PUT queues/v/quorum", r#"{"durable": true}"#, 201),
    ]);
    let check = |name: &str, expected: Value| {
        let queue = bench.get(&format!("queues/v/{name}"));
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&queue[key], value, "{name} {key}");
        }
    };
    // Two are ready and one is held, of 50 bytes each; one of them is gone after a restart.
    let kept = json!({
        "messages_persistent": 2, "message_bytes_persistent": 100, "messages_ram": 1, "message_bytes_ram": 50,
        "messages_ready_ram": 1, "messages_unacknowledged_ram": 0, "message_bytes": 150,
        "head_message_timestamp": null, "single_active_consumer_tag": null,
        "arguments": { "x-queue-type": "classic" }, "reductions": 0,
    });
    check("kept", kept);
    let lost = json!({
        "messages_persistent": 0, "message_bytes_persistent": 0, "messages_ram": 3, "message_bytes_ram": 150,
        "messages_ready_ram": 2, "messages_unacknowledged_ram": 1,
    });
    check("lost", lost);
    let quorum = json!({
        "messages_by_priority": { "1": 1, "4": 1 }, "messages_active_priorities": 2, "messages_ready_returned": 0,
        "messages_dlx": 0, "message_bytes_dlx": 0, "delivery_limit": 20, "delayed_retry": "disabled",
        "open_files": { "rabbit@hare": 0 }, "single_active_consumer_tag": "",
    });
    check("quorum", quorum);
    let lists = bench.get("queues/v");
    assert_eq!(lists[0].get("single_active_consumer_tag"), None);
    assert_eq!(lists[2]["single_active_consumer_tag"], "");
}

#[test]
fn subscriptions_to_streams_are_consumers() {
    let bench = with_queue();
    let stream = bench.opened.lock().unwrap()[0].1.consumers[0].queue.clone();
    let subscription = |id: u8, properties: &[(&str, &str)], active: bool| broker::StreamConsumerRow {
        id,
        stream: stream.clone(),
        credits: 1,
        consumed: 2,
        offset: 3,
        active,
        properties: properties.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    };
    bench.opened.lock().unwrap()[0].1.stream_consumers =
        vec![subscription(0, &[], true), subscription(7, &[("single-active-consumer", "true")], false)];
    let consumers = bench.get("consumers");
    assert_eq!(bench.get("queues/v/q")["consumer_details"].as_array().map(Vec::len), Some(3));
    let told =
        |name: &str| consumers.as_array().unwrap().iter().map(|own| own[name].clone()).collect::<Value>();
    assert_eq!(told("consumer_tag"), json!(["ctag", "stream.subid-0", "stream.subid-7"]));
    assert_eq!(told("active"), json!([true, true, false]));
    assert_eq!(told("activity_status"), json!(["up", "up", "waiting"]));
    assert_eq!(consumers[2]["arguments"], json!({ "single-active-consumer": "true" }));
    assert_eq!(consumers[1]["channel_details"]["connection_name"], "127.0.0.1:1 -> 127.0.0.1:5672");
    // Users without permissions there are not told of them.
    assert_eq!(bench.ask("nobody", "GET consumers", "").0, 401);
    bench.statuses(&[("DELETE permissions/v/manager", "", 204)]);
    assert_eq!(bench.ask("manager", "GET consumers", "").1, json!([]));
}

#[test]
fn publishers_and_consumers_of_streams_come_by_stream_and_number() {
    let bench = with_queue();
    bench.statuses(&[("PUT queues/v/a", r#"{"durable": true}"#, 201)]);
    for (at, (queue, id)) in [("q", 10), ("a", 3), ("q", 9), ("a", 20)].into_iter().enumerate() {
        let stream = opened(&bench, "v", queue).consumers[0].queue.clone();
        let mut own = bench.opened.lock().unwrap()[0].1.clone();
        own.connection = format!("10.0.0.{at}:1 -> 127.0.0.1:5552");
        own.stream_publishers =
            vec![publisher(id, &stream, at as u64), publisher(id + 100, &stream, at as u64)];
        own.stream_consumers = vec![subscription(id, &stream)];
        bench.opened.lock().unwrap().push((0, own));
    }
    let told = |path: &str, columns: [&str; 2]| -> Vec<String> {
        let found = bench.get(path);
        let rows = found.get("items").unwrap_or(&found).as_array().unwrap().clone();
        let cell =
            |row: &Value, column: &str| column.split('.').fold(row.clone(), |row, name| row[name].clone());
        rows.iter().map(|row| columns.map(|column| cell(row, column).to_string()).join(" ")).collect()
    };
    let by_number = ["queue.name", "publisher_id"];
    let all = ["a 3", "a 20", "a 103", "a 120", "q 9", "q 10", "q 109", "q 110"]
        .map(|row| row.replacen(['a', 'q'], &format!("\"{}\"", &row[..1]), 1));
    assert_eq!(told("stream/publishers", by_number), all);
    assert_eq!(told("stream/publishers/v/a", by_number), all[..4]);
    assert_eq!(told("stream/publishers?page=2&page_size=3", by_number), all[3..6]);
    let latest = told("stream/publishers?sort=published&sort_reverse=true", by_number);
    assert_eq!(latest[..2], ["\"a\" 120", "\"a\" 20"]);
    assert!(told("stream/publishers/%2F", by_number).is_empty());
    let consumers = ["\"a\" 3", "\"a\" 20", "\"q\" 9", "\"q\" 10"];
    assert_eq!(told("stream/consumers", ["queue.name", "subscription_id"]), consumers);
    assert_eq!(
        told("stream/consumers/v?page=2&page_size=1", ["queue.name", "subscription_id"]),
        consumers[1..2]
    );
}

pub(super) fn publisher(id: u8, stream: &Arc<QueueDefinition>, published: u64) -> StreamPublisherRow {
    let (reference, stream) = (format!("reference {id}"), stream.clone());
    StreamPublisherRow { id, reference, stream, published, confirmed: 0, errored: 0 }
}

pub(super) fn subscription(id: u8, stream: &Arc<QueueDefinition>) -> StreamConsumerRow {
    let properties = Box::new([("name".into(), "reader".into())]);
    let stream = stream.clone();
    StreamConsumerRow { id, stream, credits: 10, consumed: 7, offset: 40, active: true, properties }
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
    assert_eq!(Protocol::Amqp10.label(), "amqp10");
}

fn link(handle: u16, end: LinkEnd) -> LinkRow {
    LinkRow {
        handle,
        name: format!("link-{handle}"),
        address: Some("/queues/q".into()),
        message_bytes_max: Some(1000),
        delivery_count: 4,
        credit: 5,
        is_management: false,
        end,
    }
}

#[test]
fn sessions_are_told_with_their_links() {
    let bench = Bench::new();
    let of =
        |name: &str, protocol: &'static str| ConnectionRow { protocol, ..connection(name, "manager", "v") };
    *bench.connections.lock().unwrap() =
        vec![of("old", "AMQP 0-9-1"), of("new", "AMQP 1-0"), of("web", "Web AMQP 1-0")];
    let incoming = LinkEnd::Incoming { settles: "mixed", unconfirmed: 6 };
    let outgoing = |queue: &str| LinkEnd::Outgoing {
        queue: queue.into(),
        settled: false,
        filter: Box::default(),
        has_timed_out: false,
    };
    let everywhere = LinkRow { address: None, ..link(0, incoming.clone()) };
    let asks = LinkRow { is_management: true, ..link(7, incoming) };
    let of_any_size = LinkRow { message_bytes_max: None, ..link(3, outgoing("q")) };
    let own = SessionRow {
        channel: 1,
        handle_max: 255,
        next_incoming_id: 10,
        incoming_window: 11,
        next_outgoing_id: 12,
        remote_incoming_window: 13,
        remote_outgoing_window: 14,
        unsettled: 15,
        links: vec![of_any_size, everywhere, asks],
    };
    *bench.sessions.lock().unwrap() = vec![own, SessionRow::default()];
    let told = bench.get("connections/new/sessions");
    let incoming = |handle: u64, address: Value| {
        json!({
            "handle": handle, "link_name": format!("link-{handle}"), "snd_settle_mode": "mixed",
            "target_address": address, "max_message_size": 1000, "delivery_count": 4, "credit": 5,
            "unconfirmed_messages": 6,
        })
    };
    // By channel; to the management node first.
    assert_eq!(
        told[1],
        json!({
            "channel_number": 1, "handle_max": 255, "next_incoming_id": 10, "incoming_window": 11,
            "next_outgoing_id": 12, "remote_incoming_window": 13, "remote_outgoing_window": 14,
            "outgoing_unsettled_deliveries": 15,
            "incoming_links": [incoming(7, "/queues/q".into()), incoming(0, Value::Null)],
            "outgoing_links": [{
                "handle": 3, "link_name": "link-3", "source_address": "/queues/q", "queue_name": "q",
                "send_settled": false, "max_message_size": "unlimited", "filter": [], "delivery_count": 4, "credit": 5,
                "consumer_timeout": false,
            }],
        })
    );
    let channels =
        |query: &str| bench.get(&format!("connections/web/sessions?columns=channel_number{query}"));
    let number = |number: u64| json!({ "channel_number": number });
    assert_eq!(channels("&page=2"), json!([number(0), number(1)]));
    assert_eq!(channels("&sort=channel_number&sort_reverse=true"), json!([number(1), number(0)]));
    let (status, body, _) = bench.ask("manager", "GET connections/old/sessions", "");
    assert_eq!(status, 400);
    assert_eq!(body, json!({ "error": "bad_request", "reason": "connection does not use AMQP 1.0" }));
    for (user, name, expected) in [
        ("manager", "new", 200),
        ("monitor", "new", 200),
        ("policymaker", "new", 401),
        ("guest", "none", 404),
    ] {
        assert_eq!(
            bench.ask(user, &format!("GET connections/{name}/sessions"), "").0,
            expected,
            "{user} {name}"
        );
    }
    assert_eq!(bench.ask("guest", "DELETE connections/new/sessions", "").0, 405);
}
