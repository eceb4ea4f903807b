//! Queues that are filled from a stream: what they hold, and that nothing is lost or comes twice however the node ends.

use crate::node;

use base::Random;
use base::id::{LogId, LogIndex};
use broker::catalog::{Op, VhostId};
use broker::{Events, NewMessages, QueueCommand};
use message::amqp10::section::data_prefix;
use message::chunk::{Entry, SubBatch};
use message::record::{Appended, Outcome};
use node::Node;
use routing::{IntType, Value};
use stream_files::stream_files;

const TYPE: &str = "x-queue-type";

fn node(shards: u16) -> Node {
    let mut node = Node::new(shards);
    node.declare_with(0, "s", true, &[(TYPE, Value::text("stream"))]);
    node
}

/// Declares a queue that is filled from `s`, and more.
fn declare(node: &mut Node, port: usize, name: &str, more: &[(&str, Value)]) {
    let arguments = [&[("x-source-stream", Value::text("s"))], more].concat();
    node.declare_with(port, name, true, &arguments);
    node.work();
}

/// The section of a body.
fn data(body: &str) -> Vec<u8> {
    let (prefix, len) = data_prefix(body.len());
    [&prefix[..len], body.as_bytes()].concat()
}

/// A message whose subject is its body.
fn entry(body: &str) -> Vec<u8> {
    let subject = body.as_bytes();
    let len = subject.len() as u8;
    let properties = [&b"\0\x53\x73\xC0"[..], &[len + 6, 4], b"\x40\x40\x40\xA1", &[len], subject].concat();
    let message = [properties, data(body)].concat();
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// Appends messages to the stream; nothing is on disk yet.
fn append(node: &mut Node, port: usize, bodies: &[&str]) {
    append_with(node, port, b"", bodies);
}

/// The same with a filter value, if it is not empty.
fn append_with(node: &mut Node, port: usize, filter_value: &[u8], bodies: &[&str]) {
    let entries: Vec<Vec<u8>> = bodies.iter().map(|body| entry(body)).collect();
    append_entries(node, port, filter_value, &entries);
}

fn append_entries(node: &mut Node, port: usize, filter_value: &[u8], entries: &[Vec<u8>]) {
    let messages = entries.iter().map(|entry| Appended {
        publishing_id: 0,
        filter_value,
        entry: Entry::split(entry).unwrap().0,
    });
    let new = NewMessages {
        publisher: 9,
        first: 1,
        reference: None,
        has_filters: !filter_value.is_empty(),
        messages,
    };
    let (now, id) = (node.now, node.ports[port]);
    let shard = &mut node.shards[port];
    let stream = shard.catalog().queue_by_name(VhostId(0), b"s").unwrap().clone();
    shard.append(now, id, stream.log, stream.id, new).unwrap();
}

fn fill(node: &mut Node, port: usize, bodies: &[&str]) {
    append(node, port, bodies);
    node.work();
    node.take_seen();
}

/// The bodies, and their positions, of what came since.
fn came(node: &mut Node) -> Vec<String> {
    // Messages that are not in memory are read, a piece at a time.
    for _ in 0..4 {
        node.work();
        node.read();
    }
    let seen = node.take_seen();
    let shown = seen.iter().filter_map(|line| line.split_once(" gets "));
    shown.map(|(_, message)| message.rsplit('\u{0}').next().unwrap_or(message)).map(tail).collect()
}

/// The text behind the sections' heads: a message has its body twice, as subject and as data.
fn tail(message: &str) -> String {
    let printable = message.rfind(|byte: char| byte.is_control() || byte == '\u{FFFD}');
    message[printable.map_or(0, |at| at + message[at..].chars().next().map_or(1, char::len_utf8))..]
        .to_owned()
}

/// All that is in a queue: a consumer takes it and gives it back.
fn holds(node: &mut Node, queue: &str) -> Vec<String> {
    node.look_into(queue, came)
        .iter()
        .map(|body| body.split('@').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_queue_holds_a_streams_past_and_follows_it() {
    for port in 0..2 {
        for queue_type in ["classic", "quorum"] {
            let mut node = node(2);
            fill(&mut node, port, &["one", "two"]);
            fill(&mut node, port, &["three"]);
            declare(&mut node, port, "q", &[(TYPE, Value::text(queue_type))]);
            node.consume(port, "q", 4, 10);
            assert_eq!(came(&mut node), ["one@0", "two@1", "three@2"]);
            append(&mut node, port, &["four"]);
            assert_eq!(came(&mut node), ["four@3"]);
            // It is a queue like any other, and published to like any other.
            let mut publisher = node.publisher(port);
            node.publish(port, &mut publisher, "q", "five", true);
            assert_eq!(came(&mut node), ["five@4"]);
        }
    }
}

/// A shard that is told of its writes within its turn sleeps when it has no work left.
#[test]
fn what_was_fed_goes_to_disk_though_nothing_else_happens() {
    let mut node = node(1);
    declare(&mut node, 0, "q", &[]);
    node.consume(0, "q", 4, 10);
    node.work();
    append(&mut node, 0, &["one"]);
    node.turn();
    node.write();
    node.shards[0].take_events(&mut Events::default());
    node.take_seen();
    while node.shards[0].has_work() {
        node.turn();
        node.write();
    }
    let seen = node.take_seen();
    assert!(seen.iter().any(|line| line.contains(" gets ")), "{seen:?}");
}

#[test]
fn where_it_begins() {
    let rows: [(Option<Value>, &[&str]); 9] = [
        (None, &["one", "two", "three", "four"]),
        (Some(Value::text("first")), &["one", "two", "three", "four"]),
        (Some(Value::text("last")), &["three", "four"]),
        (Some(Value::text("next")), &["four"]),
        (Some(Value::Int(IntType::SignedInt, 1)), &["two", "three", "four"]),
        (Some(Value::Int(IntType::SignedInt, -1)), &["three", "four"]),
        (Some(Value::Int(IntType::SignedInt, 99)), &["four"]),
        (Some(Value::Timestamp(5)), &["three", "four"]),
        (Some(Value::text("3s")), &["three", "four"]),
    ];
    for (offset, expected) in rows {
        let mut node = node(1);
        fill(&mut node, 0, &["one", "two"]);
        node.pass(5_000);
        fill(&mut node, 0, &["three"]);
        let more: Vec<_> = offset.clone().map(|offset| ("x-source-offset", offset)).into_iter().collect();
        declare(&mut node, 0, "q", &more);
        // The meaning of the offset does not change while the node is away.
        kill(&mut node, None);
        node.pass(60_000);
        fill(&mut node, 0, &["four"]);
        assert_eq!(holds(&mut node, "q"), expected, "{offset:?}");
        kill(&mut node, None);
        assert_eq!(holds(&mut node, "q"), expected, "{offset:?}");
    }
}

#[test]
fn a_batch_that_holds_more_or_less_than_it_says_moves_nothing() {
    let rows: [(u16, &[&str], i32, &[&str]); 5] = [
        (1, &["one", "two"], 0, &["one", "behind", "next"]),
        (1, &["one", "two"], 1, &["behind", "next"]),
        (3, &["one"], 0, &["one", "behind", "next"]),
        (3, &["one"], 3, &["behind", "next"]),
        (3, &["one"], 4, &["next"]),
    ];
    for (records, bodies, from, expected) in rows {
        let mut node = node(1);
        let inner: Vec<u8> = bodies.iter().flat_map(|body| entry(body)).collect();
        let uncompressed_len = inner.len() as u32;
        let batch = SubBatch { compression: 0, records, uncompressed_len, body: &inner };
        let entries = [[&batch.head()[..], &inner].concat(), entry("behind")];
        append_entries(&mut node, 0, b"", &entries);
        fill(&mut node, 0, &["next"]);
        declare(&mut node, 0, "q", &[("x-source-offset", Value::Int(IntType::SignedInt, from.into()))]);
        assert_eq!(holds(&mut node, "q"), expected, "{records}: {bodies:?} from {from}");
    }
}

#[test]
fn only_what_is_wanted() {
    let mut node = node(1);
    fill(&mut node, 0, &["one", "two", "three", "two"]);
    declare(&mut node, 0, "q", &[("x-source-filter", Value::text("properties.subject = 'two'"))]);
    fill(&mut node, 0, &["two", "four"]);
    assert_eq!(holds(&mut node, "q"), ["two", "two", "two"]);
    kill(&mut node, None);
    assert_eq!(holds(&mut node, "q"), ["two", "two", "two"]);
}

/// Messages confirmed and not fed yet when the node goes down are fed, however far off the queue was to begin.
#[test]
fn what_came_before_a_crash_is_fed_behind_it() {
    for offset in [Value::Int(IntType::SignedInt, 99), Value::Timestamp(1 << 40), Value::text("next")] {
        let mut node = node(1);
        fill(&mut node, 0, &["one"]);
        declare(&mut node, 0, "q", &[("x-source-offset", offset.clone())]);
        // Nothing is fed for now: what comes is in the stream alone.
        node.shards[0].logs_mut().hold_feeds(true);
        fill(&mut node, 0, &["two", "three"]);
        kill(&mut node, None);
        assert_eq!(holds(&mut node, "q"), ["two", "three"], "{offset:?}");
    }
}

#[test]
fn only_chunks_that_may_have_a_filter_value() {
    let values = |values: &[&str]| Value::List(values.iter().map(|value| Value::text(value)).collect());
    let (filter, unfiltered) = ("x-source-filter-values", "x-source-match-unfiltered");
    type Row<'a> = (Vec<(&'a str, Value)>, &'a [&'a str]);
    let rows: [Row<'_>; 5] = [
        (vec![(filter, Value::text("red"))], &["two", "four", "six"]),
        (vec![(filter, values(&["red", "blue"]))], &["two", "three", "four", "six"]),
        (
            vec![(filter, values(&["red"])), (unfiltered, Value::Bool(true))],
            &["one", "two", "four", "five", "six"],
        ),
        (vec![(filter, values(&["green"]))], &[]),
        (
            vec![(filter, values(&["red"])), ("x-source-filter", Value::text("properties.subject = 'four'"))],
            &["four"],
        ),
    ];
    for (more, expected) in rows {
        let mut node = node(1);
        let chunk = |node: &mut Node, value: &[u8], body| {
            append_with(node, 0, value, &[body]);
            node.work();
            node.take_seen();
        };
        chunk(&mut node, b"", "one");
        chunk(&mut node, b"red", "two");
        chunk(&mut node, b"blue", "three");
        declare(&mut node, 0, "q", &more);
        chunk(&mut node, b"red", "four");
        chunk(&mut node, b"", "five");
        kill(&mut node, None);
        chunk(&mut node, b"red", "six");
        assert_eq!(holds(&mut node, "q"), expected, "{more:?}");
        kill(&mut node, None);
        assert_eq!(holds(&mut node, "q"), expected, "{more:?}");
    }
}

/// A filter that wants nothing costs no record for each chunk.
#[test]
fn what_is_not_wanted_is_passed_over() {
    let mut node = node(1);
    let most = broker::Limits::default().dispatch_messages_max as usize;
    let bodies = vec!["no"; 100];
    for _ in 0..3 * most / 100 {
        append(&mut node, 0, &bodies);
        node.turn();
    }
    node.work();
    fill(&mut node, 0, &["yes"]);
    let wanted = ("x-source-filter", Value::text("properties.subject = 'yes'"));
    declare(&mut node, 0, "q", &[wanted]);
    let written = node.written.len();
    assert_eq!(holds(&mut node, "q"), ["yes"]);
    let after = node.written.len();
    for _ in 0..50 {
        fill(&mut node, 0, &["no"]);
    }
    assert_eq!(node.written.len() - after, 50, "a batch for each chunk, and none for what was passed over");
    assert!(after - written <= 4, "{}", after - written);
    kill(&mut node, None);
    assert_eq!(holds(&mut node, "q"), ["yes"]);
}

/// The node goes down between the record of a queue's end and that of how far it was fed.
#[test]
fn a_queue_that_is_gone_leaves_nothing_behind() {
    let mut node = node(1);
    fill(&mut node, 0, &["one"]);
    declare(&mut node, 0, "q", &[]);
    node.work();
    let kept = snapshot(&mut node);
    let mut without_end = None;
    node.command(0, "q", QueueCommand::Delete { token: 5, if_unused: false, if_empty: false });
    for _ in 0..20 {
        node.turn();
        node.write();
        if without_end.is_none() && node.shards[0].catalog().queue_by_name(VhostId(0), b"q").is_none() {
            without_end = Some(node.written.len());
        }
    }
    node.work();
    node.written.truncate(without_end.expect("it is deleted"));
    kill(&mut node, Some(&kept));
    node.work();
    let fed = |node: &mut Node| {
        let snapshot = snapshot(node);
        snapshot.1.windows(7).filter(|bytes| *bytes == b"\0queue\0").count()
    };
    assert_eq!(fed(&mut node), 0);
}

#[test]
fn what_it_cannot_be_filled_from() {
    let mut node = node(1);
    node.declare(0, "classic", true);
    let text = Value::text;
    let source = |name| ("x-source-stream", text(name));
    type Row<'a> = (&'a [(&'a str, Value)], bool, &'a str);
    let many = Value::list(vec![Value::text("v"); broker::FILTER_VALUES_MAX + 1]);
    let numbers = Value::list([Value::long(1)]);
    let rows: [Row<'_>; 11] = [
        (
            &[source("s"), ("x-source-filter-values", many)],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-filter-values' for queue 'q' in vhost '/': too_many_filter_values",
        ),
        (
            &[source("s"), ("x-source-filter-values", numbers)],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-filter-values' for queue 'q' in vhost '/': filter_values_are_texts",
        ),
        (
            &[("x-source-filter-values", text("red"))],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-filter-values' for queue 'q' in vhost '/': no_source_stream",
        ),
        (&[source("none")], true, "NOT_FOUND - no queue 'none' in vhost '/'"),
        (&[source("classic")], true, "PRECONDITION_FAILED - queue 'classic' in vhost '/' is no stream"),
        (
            &[source("s")],
            false,
            "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'q' in vhost '/'",
        ),
        (
            &[("x-source-offset", text("first"))],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-offset' for queue 'q' in vhost '/': no_source_stream",
        ),
        (
            &[source("s"), ("x-source-offset", text("soon"))],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-offset' for queue 'q' in vhost '/': invalid_stream_offset",
        ),
        (
            &[source("s"), ("x-source-offset", Value::Bool(true))],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-offset' for queue 'q' in vhost '/': invalid_stream_offset",
        ),
        (
            &[source("s"), ("x-source-filter", text("a = "))],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-filter'",
        ),
        (
            &[source("s"), (TYPE, text("stream"))],
            true,
            "PRECONDITION_FAILED - invalid arg 'x-source-stream' for queue 'q' in vhost '/' of queue type",
        ),
    ];
    for (arguments, durable, expected) in rows {
        let op = Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect(),
            random: [0; 16],
        };
        node.shards[0].request(node.now, node.ports[0], 1, op);
        node.settle();
        let seen = node.take_seen();
        assert!(seen[0].starts_with(&format!("0: {expected}")), "{seen:?} {expected}");
    }
}

#[test]
fn a_queue_that_is_full_is_fed_when_it_has_room() {
    let mut node = node(1);
    let most = Value::Int(IntType::SignedInt, 2);
    declare(&mut node, 0, "q", &[("x-max-length", most), ("x-overflow", Value::text("reject-publish"))]);
    fill(&mut node, 0, &["one", "two"]);
    fill(&mut node, 0, &["three"]);
    fill(&mut node, 0, &["four"]);
    let ready = |node: &mut Node| {
        node.command(0, "q", QueueCommand::Counts { token: 3 });
        node.work();
        node.take_seen().pop().unwrap_or_default()
    };
    assert_eq!(ready(&mut node), "0: declared q 2 0");
    node.consume(0, "q", 4, 1);
    assert_eq!(came(&mut node), ["one@0"]);
    assert_eq!(ready(&mut node), "0: declared q 2 1", "the third");
    for (at, body) in ["two@1", "three@2", "four@3"].iter().enumerate() {
        let at = at as u64;
        node.settled(0, "q", 4, (at, at), Outcome::Accepted);
        assert_eq!(came(&mut node), [*body]);
    }
}

/// Messages that its publishers have under way fill it as well, and messages it is fed are not taken for theirs.
#[test]
fn a_queue_is_fed_beside_what_its_publishers_have_under_way() {
    let mut node = node(1);
    let most = Value::Int(IntType::SignedInt, 3);
    declare(&mut node, 0, "q", &[("x-max-length", most), ("x-overflow", Value::text("reject-publish"))]);
    node.shards[0].logs_mut().hold_feeds(true);
    fill(&mut node, 0, &["three", "four", "five"]);
    let mut publisher = node.publisher(0);
    for body in ["one", "two"] {
        node.publish(0, &mut publisher, "q", body, true);
    }
    // Nothing of that is written, and nothing applied.
    node.turn();
    node.shards[0].logs_mut().hold_feeds(false);
    node.turn();
    node.publish(0, &mut publisher, "q", "refused", true);
    node.work();
    node.take_seen();
    node.command(0, "q", QueueCommand::Counts { token: 3 });
    node.work();
    assert_eq!(node.take_seen().pop().unwrap_or_default(), "0: declared q 3 0");
    node.consume(0, "q", 4, 0);
    node.work();
    assert_eq!(came(&mut node).len(), 5);
}

#[test]
fn an_alarm_holds_it() {
    let mut node = node(1);
    declare(&mut node, 0, "q", &[]);
    node.shards[0].logs_mut().hold_feeds(true);
    fill(&mut node, 0, &["one"]);
    assert_eq!(holds(&mut node, "q"), [""; 0]);
    node.shards[0].logs_mut().hold_feeds(false);
    assert_eq!(holds(&mut node, "q"), ["one"]);
}

/// Nobody tells a log of the alarm again when it gets its first stream.
#[test]
fn an_alarm_that_was_there_before_the_stream_holds_it() {
    let mut node = Node::new(1);
    node.shards[0].logs_mut().hold_feeds(true);
    node.declare_with(0, "s", true, &[(TYPE, Value::text("stream"))]);
    declare(&mut node, 0, "q", &[]);
    fill(&mut node, 0, &["one"]);
    assert_eq!(holds(&mut node, "q"), [""; 0]);
    node.shards[0].logs_mut().hold_feeds(false);
    assert_eq!(holds(&mut node, "q"), ["one"]);
}

/// Chunks none of which has as many messages as are looked at in a turn, though together they have far more.
fn fill_with_unwanted(node: &mut Node) -> u32 {
    let most = node.shards[0].limits().dispatch_messages_max;
    for _ in 0..30 {
        fill(node, 0, &vec!["no"; most as usize / 10]);
    }
    3
}

/// A shard has others to serve: what a filter leaves out counts too.
#[test]
fn passing_over_messages_takes_turns() {
    let mut node = node(1);
    let least = fill_with_unwanted(&mut node);
    let expression = filter::Expression::parse("properties.subject = 'yes'", &filter::Limits::default());
    let messages = Some(broker::Wanted::new(expression.unwrap()).unwrap());
    let wanted = broker::StreamFilter { messages, ..Default::default() };
    consume_stream(&mut node, wanted);
    let mut turns = 0;
    while node.shards[0].has_work() && turns < 100 {
        node.shards[0].end_turn(node.now, &mut Vec::new());
        node.shards[0].take_events(&mut broker::Events::default());
        turns += 1;
    }
    assert!((least..2 * least + 2).contains(&turns), "{turns}");
}

#[test]
fn a_queue_that_wants_few_is_filled_in_turns() {
    let mut node = node(1);
    declare(&mut node, 0, "q", &[("x-source-filter", Value::text("properties.subject = 'yes'"))]);
    node.shards[0].logs_mut().hold_feeds(true);
    let least = fill_with_unwanted(&mut node);
    fill(&mut node, 0, &["yes"]);
    node.shards[0].logs_mut().hold_feeds(false);
    let mut turns = 0;
    while node.shards[0].has_work() && turns < 100 {
        let mut sealed = Vec::new();
        node.shards[0].end_turn(node.now, &mut sealed);
        node.unwritten.extend(sealed.into_iter().map(|sealed| (0, sealed)));
        turns += 1;
    }
    assert!((least..2 * least + 2).contains(&turns), "{turns}");
    assert_eq!(holds(&mut node, "q"), ["yes"]);
}

/// An expression that takes long for each message, and the price of one with a subject of so many bytes.
fn dear_filter(subject: usize) -> (String, usize) {
    let text = format!("properties.subject LIKE '%{}%c'", "a_".repeat(1900));
    let program = filter::Program::parse(&text, &filter::Limits::default()).unwrap();
    let mut room = filter::Room::default();
    assert_eq!(program.verdict(&Subject("ab".repeat(subject / 2)), &mut room, 0), Some(false));
    (text, program.price(subject) + room.spent())
}

/// A message that has a subject alone.
struct Subject(String);

impl filter::Fields for Subject {
    fn field(&self, field: filter::Field<'_>) -> Option<filter::Value<'_>> {
        let is_subject = field == filter::Field::Property(filter::Property::Subject);
        is_subject.then_some(filter::Value::Bytes(self.0.as_bytes()))
    }

    fn body<'a>(&'a self, _paths: &filter::Paths, _found: &mut filter::Found<'a>) -> bool {
        true
    }
}

/// Turns until a shard has nothing more to do.
fn turns(node: &mut Node) -> usize {
    let mut turns = 0;
    while node.shards[0].has_work() && turns < 1000 {
        let mut sealed = Vec::new();
        node.shards[0].end_turn(node.now, &mut sealed);
        node.unwritten.extend(sealed.into_iter().map(|sealed| (0, sealed)));
        node.shards[0].take_events(&mut broker::Events::default());
        turns += 1;
    }
    turns
}

/// The work of a filter counts, not only how many messages it looks at: here fewer than one turn may.
#[test]
fn dear_filters_take_turns() {
    const MESSAGES: usize = 500;
    const SUBJECT: usize = 240;
    let (text, price) = dear_filter(SUBJECT);
    let filled = |declared: &[(&str, Value)]| {
        let mut node = node(1);
        if !declared.is_empty() {
            declare(&mut node, 0, "q", declared);
        }
        node.shards[0].logs_mut().hold_feeds(true);
        fill(&mut node, 0, &vec![&*"ab".repeat(SUBJECT / 2); MESSAGES]);
        node.shards[0].logs_mut().hold_feeds(false);
        // Publishers are no longer busy: readers may have all they can take.
        node.now.mono_ns += 1_000_000_000;
        node
    };
    let mut fed = filled(&[("x-source-filter", Value::text(&text))]);
    let mut consumed = filled(&[]);
    let expression = filter::Expression::parse(&text, &filter::Limits::default()).unwrap();
    let messages = Some(broker::Wanted::new(expression).unwrap());
    let wanted = broker::StreamFilter { messages, ..Default::default() };
    consume_stream(&mut consumed, wanted);
    let least = MESSAGES * price / fed.shards[0].limits().stream_dispatch_bytes_max;
    assert!(least > 5, "{least}");
    for (kind, node) in [("fed", &mut fed), ("consumed", &mut consumed)] {
        let turns = turns(node);
        assert!((least..3 * least).contains(&turns), "{kind}: {turns}, at least {least}");
    }
}

/// Messages of the stream protocol say nothing of an exchange: readers see the stream's name as their key.
#[test]
fn filters_ask_where_a_message_is_and_where_it_came_from() {
    let all = ["one", "two", "three"];
    for (filter, expected) in [
        ("OFFSET() >= 1 AND OFFSET() < 3", &all[1..]),
        ("SIZE() = 3", &all[..2]),
        ("EXCHANGE() = '' AND ROUTING_KEY() = 's' AND TOPIC_MATCH('*')", &all[..]),
        ("RECEIVED() > 0 AND RECEIVED() <= UTC() AND SIZE() = 5", &all[2..]),
        ("RECEIVED() > UTC() OR EXCHANGE() IS NULL", &[]),
        ("REDELIVERED() OR DELIVERIES() <> 0", &[]),
    ] {
        let mut node = node(1);
        fill(&mut node, 0, &all);
        declare(&mut node, 0, "q", &[("x-source-filter", Value::text(filter))]);
        assert_eq!(holds(&mut node, "q"), expected, "{filter}");
    }
}

#[test]
fn one_that_takes_the_name_begins_anew() {
    let mut node = node(1);
    fill(&mut node, 0, &["one", "two"]);
    declare(&mut node, 0, "q", &[]);
    assert_eq!(holds(&mut node, "q"), ["one", "two"]);
    let delete = || QueueCommand::Delete { token: 5, if_unused: false, if_empty: false };
    node.command(0, "q", delete());
    node.work();
    node.take_seen();
    declare(&mut node, 0, "q", &[]);
    assert_eq!(holds(&mut node, "q"), ["one", "two"]);
    // A stream that is gone feeds nothing any more, and another of its name is another.
    node.command(0, "s", delete());
    node.work();
    node.take_seen();
    node.declare_with(0, "s", true, &[(TYPE, Value::text("stream"))]);
    fill(&mut node, 0, &["three"]);
    assert_eq!(holds(&mut node, "q"), ["one", "two"]);
    kill(&mut node, None);
    fill(&mut node, 0, &["four"]);
    assert_eq!(holds(&mut node, "q"), ["one", "two"]);
}

/// The last index that a snapshot covers, and its bytes.
type Snapshot = (LogIndex, Vec<u8>);

fn snapshot(node: &mut Node) -> Snapshot {
    let snapshot = node.shards[0].snapshot(LogId(0), false).unwrap();
    for job in node.shards[0].logs_mut().take_stream_syncs(LogId(0)) {
        let done = job.carry_out(&node.disk);
        assert!(done.is_durable() && done.failure().is_none());
        node.shards[0].stream_done(node.now, done);
    }
    (snapshot.covered, snapshot.bytes.to_vec())
}

/// The only shard goes down at once and comes up from what is on disk.
fn kill(node: &mut Node, snapshot: Option<&Snapshot>) {
    let mut shard = Node::fresh();
    if let Some((covered, bytes)) = snapshot {
        shard.restore(LogId(0), *covered, bytes).unwrap();
    }
    shard.logs_mut().recover_streams(LogId(0), &stream_files(&node.disk, LogId(0)).unwrap());
    for (_, sealed, place) in &node.written {
        shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
    }
    node.unwritten.clear();
    assert!(shard.finish_recovery(node.now).is_empty());
    shard.open_port(node.ports[0], Node::actor(node.ports[0]));
    node.shards[0] = shard;
    node.take_seen();
}

#[test]
fn nothing_is_lost_or_comes_twice_however_the_node_ends() {
    for seed in 0..60 {
        let mut dice = Random::new(seed);
        let mut node = node(1);
        declare(&mut node, 0, "q", &[]);
        let (mut next, mut kept) = (0u32, None);
        for _ in 0..60 {
            match dice.below(10) {
                0..=3 => {
                    let bodies: Vec<String> = (0..=dice.below(3))
                        .map(|_| {
                            next += 1;
                            format!("m{next}")
                        })
                        .collect();
                    append(&mut node, 0, &bodies.iter().map(String::as_str).collect::<Vec<_>>());
                }
                4..=5 => node.turn(),
                6..=7 => {
                    node.turn();
                    node.write();
                }
                8 => {
                    node.work();
                    kept = Some(snapshot(&mut node));
                }
                _ => kill(&mut node, kept.as_ref()),
            }
        }
        node.work();
        let fed = holds(&mut node, "q");
        let written = in_stream(&mut node);
        assert_eq!(fed, written, "seed {seed}");
        assert!(!fed.is_empty());
    }
}

/// Has somebody consume the stream from its beginning.
fn consume_stream(node: &mut Node, filter: broker::StreamFilter) {
    let (now, port) = (node.now, node.ports[0]);
    let found = node.shards[0].catalog().queue_by_name(VhostId(0), b"s").unwrap().clone();
    let consumer = broker::NewConsumer {
        credit: broker::Credit::Prefetch(0),
        settled: true,
        exclusive: false,
        priority: 0,
        browses: None,
        timeout_ms: None,
    };
    let command = broker::StreamCommand::Consume {
        token: 2,
        handle: 78,
        consumer,
        format: message::record::Format::Amqp10,
        from: broker::StreamFrom::First,
        filter,
        rate: None,
        user: 0,
        name: None,
    };
    node.shards[0].command(now, port, found.log, found.id, QueueCommand::Stream(Box::new(command)));
}

/// The bodies of the stream's messages, as a consumer gets them.
fn in_stream(node: &mut Node) -> Vec<String> {
    consume_stream(node, broker::StreamFilter::default());
    let seen = came(node);
    seen.iter().map(|body| body.split('@').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn nothing_is_fed_to_a_stopped_log() {
    for is_stopped in [false, true] {
        let mut node = Node::new(2);
        node.declare_with(1, "s", true, &[(TYPE, Value::text("stream"))]);
        fill(&mut node, 1, &["a", "b"]);
        let log = node.shards[0].catalog().queue_by_name(VhostId(0), b"s").unwrap().log;
        let written = |node: &Node| node.written.iter().filter(|(_, sealed, _)| sealed.log == log).count();
        let before = written(&node);
        if is_stopped {
            node.shards.iter_mut().for_each(|shard| shard.stop_log(log));
        }
        declare(&mut node, 1, "q", &[]);
        node.work();
        assert_eq!(written(&node) == before, is_stopped, "{log}");
    }
}
