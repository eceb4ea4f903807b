//! Claims to a connection's consumers, by what they asked for and what they were told.

use super::*;
use crate::catalog::Refusal;
use crate::event::Item;
use base::id::ShardId;
use message::record::Outcome;

const PORT: PortId = PortId::here(ShardId(0), 4, 1);
const QUEUE: QueueId = QueueId(9);

fn range(text: &str) -> SeqRange {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let seq = |text: &str| QueueSeq(text.parse().expect("a position"));
    SeqRange { first: seq(first), last: seq(last) }
}

fn consumer(settled: bool, browses: bool) -> NewConsumer {
    let browses = browses.then_some(crate::request::Browse { from: QueueSeq(0), held: false });
    NewConsumer {
        credit: Credit::Prefetch(3),
        settled,
        exclusive: false,
        priority: 0,
        browses,
        timeout_ms: None,
    }
}

/// A step: something that is asked of the leader (`?`), that it is done with (`!`), or that it tells.
fn step(edge: &mut Edge, step: &str) {
    let words: Vec<&str> = step.split(' ').collect();
    let number = |at: usize| words[at].parse().expect("a number");
    let mut events = Events::default();
    let event = match words[0] {
        "?consume" | "?consume-settled" | "?browse" => {
            let consumer = consumer(words[0] == "?consume-settled", words[0] == "?browse");
            let consume = QueueCommand::Consume { token: number(1), handle: number(1), consumer };
            return edge.asked(PORT, QUEUE, &consume, false);
        }
        "?get" | "?get-settled" => {
            let (handle, token, settled) = (number(1), number(2), words[0] == "?get-settled");
            let get = QueueCommand::Get { token, handle, settled, behind: false, by_node: false };
            return edge.asked(PORT, QUEUE, &get, false);
        }
        "?cancel" => {
            let cancel = QueueCommand::Cancel { token: None, handle: number(1), held: Held::GoesBack };
            return edge.asked(PORT, QUEUE, &cancel, false);
        }
        "!cancel" | "!cancel-kept" => {
            let held = if words[0] == "!cancel" { Held::GoesBack } else { Held::Kept };
            let cancel = QueueCommand::Cancel { token: None, handle: number(1), held };
            return edge.done(PORT, QUEUE, &cancel);
        }
        "!settle" => {
            let (range, outcome) = (range(words[2]), Outcome::Accepted);
            let settle = QueueCommand::Settle { handle: number(1), range, outcome };
            return edge.done(PORT, QUEUE, &settle);
        }
        "!unsent" => {
            let unsent = QueueCommand::Unsent { handle: number(1), range: range(words[2]) };
            return edge.done(PORT, QUEUE, &unsent);
        }
        "!credit" => {
            let (handle, limit) = (number(1), number(2));
            let credit = QueueCommand::Credit { handle, limit, drain: false, echo: false };
            return edge.done(PORT, QUEUE, &credit);
        }
        "!pause" => {
            let pause = QueueCommand::Pause { handle: number(1), paused: true };
            return edge.done(PORT, QUEUE, &pause);
        }
        "!leave" => {
            return edge.done(PORT, QueueId(words[1].parse().expect("a queue")), &QueueCommand::Leave);
        }
        "ok" => Event::Reply { token: number(1), reply: Ok(Reply::Consuming) },
        "no" => Event::Reply { token: number(1), reply: Err(Refusal::queue_gone()) },
        "empty" => Event::Reply { token: number(1), reply: Ok(Reply::Empty) },
        "deliver" => {
            let SeqRange { first, last } = range(words[2]);
            let item = |seq| Item { seq: QueueSeq(seq), offset: 0, marks: 0 };
            events.items.extend((first.0..=last.0).map(item));
            Event::Deliver { consumer: number(1) | TRACED, memory: 0, items: 0..events.items.len() as u32 }
        }
        "got" => {
            events.items.push(Item { seq: range(words[3]).first, offset: 0, marks: 0 });
            Event::Got { token: number(2), consumer: number(1), memory: 0, item: 0, ready: 0 }
        }
        "drained" => Event::Drained { consumer: number(1), unused: number(2) },
        "active" => Event::Active { consumer: number(1), active: true },
        "timed-out" => Event::TimedOut { consumer: number(1), range: range(words[2]), has_more: false },
        other => panic!("{other} is no step"),
    };
    edge.hear(PORT, &event, &events);
}

fn claims_of(edge: &Edge) -> Vec<String> {
    let in_words = |claim: Claim| {
        let held: Vec<String> =
            claim.held.iter().map(|range| format!(" {}-{}", range.first.0, range.last.0)).collect();
        let is = |is: bool, word| if is { word } else { "" };
        format!(
            "{}{}{}{}{} {}:{}",
            claim.handle,
            is(claim.consumer.is_none(), " holds"),
            is(claim.is_active, " active"),
            is(claim.is_paused, " paused"),
            claim.limit.map_or(String::new(), |limit| format!(" of {limit}")),
            claim.delivered,
            held.concat()
        )
    };
    edge.claims().map(in_words).collect()
}

#[track_caller]
fn check(steps: &[&str], expected: &[&str]) {
    let mut edge = Edge::default();
    steps.iter().for_each(|it| step(&mut edge, it));
    assert_eq!(claims_of(&edge), expected, "{steps:?}");
}

#[test]
fn claims_are_what_was_told_and_is_not_done_with() {
    // Before its answer its command opens it.
    check(&["?consume 5"], &[]);
    check(&["?consume 5", "no 5"], &[]);
    check(&["?consume 5", "ok 5"], &["5 0:"]);
    check(&["?consume 5", "ok 5", "deliver 5 1-3", "deliver 5 5"], &["5 4: 1-3 5-5"]);
    check(&["?consume-settled 5", "ok 5", "deliver 5 1-3"], &["5 3:"]);
    check(&["?consume 5", "ok 5", "deliver 5 1-3", "!settle 5 2-2"], &["5 3: 1-1 3-3"]);
    check(&["?consume 5", "ok 5", "deliver 5 1-3", "!unsent 5 2-3"], &["5 1: 1-1"]);
    check(&["?consume 5", "ok 5", "deliver 5 1-3", "timed-out 5 2"], &["5 3: 1-1 3-3"]);
    check(&["?consume 5", "ok 5", "!credit 5 7", "deliver 5 1", "drained 5 6"], &["5 of 7 7: 1-1"]);
    check(&["?consume 5", "ok 5", "active 5", "!pause 5"], &["5 active paused 0:"]);
    check(&["?consume 5", "ok 5", "?consume 6", "ok 6", "deliver 6 1"], &["5 0:", "6 1: 1-1"]);
    // For one that is not there.
    check(&["deliver 5 1-3", "active 5"], &[]);
}

#[test]
fn consumers_end_when_the_leader_is_done_with_that() {
    let open = ["?consume 5", "ok 5", "deliver 5 1-3"];
    let with = |more: &[&'static str]| [&open[..], more].concat();
    check(&with(&["?cancel 5"]), &["5 3: 1-3"]);
    check(&with(&["?cancel 5", "!cancel 5"]), &[]);
    check(&with(&["!cancel-kept 5"]), &["5 holds 3: 1-3"]);
    check(&with(&["!cancel-kept 5", "!settle 5 1-2"]), &["5 holds 3: 3-3"]);
    check(&with(&["!cancel-kept 5", "!settle 5 1-3"]), &[]);
    check(&with(&["!leave 8"]), &["5 3: 1-3"]);
    check(&with(&["!leave 9"]), &[]);
}

#[test]
fn gets_hold_what_they_got() {
    check(&["?get 7 1"], &[]);
    check(&["?get 7 1", "empty 1"], &[]);
    check(&["?get 7 1", "got 7 1 4"], &["7 holds 0: 4-4"]);
    check(&["?get-settled 7 1", "got 7 1 4"], &[]);
    check(&["?get 7 1", "got 7 1 4", "?get 7 2", "!settle 7 4", "got 7 2 5"], &["7 holds 0: 5-5"]);
    check(&["?get 7 1", "got 7 1 4", "!settle 7 4"], &[]);
    // It goes back.
    check(&["?get 7 1", "?cancel 7", "got 7 1 4"], &[]);
}

#[test]
fn browsers_end_with_their_leader() {
    let mut edge = Edge::default();
    ["?browse 5", "ok 5", "?browse 6", "?consume 7", "ok 7"].iter().for_each(|it| step(&mut edge, it));
    assert_eq!(claims_of(&edge), ["7 0:"]);
    let over = |handle| Over { queue: QUEUE, port: PORT, handle };
    // The other has not heard that it is open: its command opens it at the next.
    assert_eq!(edge.end_browsers(), [over(5)]);
    assert_eq!(edge.end_browsers(), []);
    assert_eq!(edge.forget_queue(QueueId(8)), []);
    assert_eq!(edge.forget_queue(QUEUE), [over(6), over(7)]);
    assert!(edge.is_empty());
}

#[test]
fn a_leader_that_ceases_knows_what_its_connections_hold() {
    let mut edge = Edge::default();
    ["?consume 5", "ok 5", "deliver 5 1-3", "!credit 5 9", "?consume 6", "ok 6"]
        .iter()
        .for_each(|it| step(&mut edge, it));
    let kept = |handle, delivered, drains, held: &[&str]| {
        let held = held.iter().map(|text| range(text)).collect();
        (QUEUE, Kept { port: PORT, handle, delivered, is_active: handle == 5, drains, held })
    };
    let kept = [kept(5, 8, true, &["4-5"]), kept(7, 0, false, &["2"]), kept(8, 0, true, &[])];
    let asks = edge.keep(kept.into_iter());
    let [(PORT, QUEUE, QueueCommand::Credit { handle: 5, limit: 9, drain: true, echo: false })] = asks[..]
    else {
        panic!("{asks:?}")
    };
    assert_eq!(claims_of(&edge), ["5 active of 9 8: 4-5", "7 holds 0: 2-2"]);
}
