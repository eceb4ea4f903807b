use super::*;
use crate::catalog::{Object, QueueDefinition, QueueType, Reason, Refusal, ReplyCode, VhostId};
use crate::event::{Event, Events, Item as Delivery};
use crate::placed::queue::modified::Modified;
use crate::placed::stream::{StreamCommand, StreamReply};
use crate::request::{Browse, Credit, Held, LeaseOver, NewConsumer, Reply, SettleAt};
use crate::selector::Selector;
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId, QueueSeq, ShardId};
use filter::{Asker, Macros, Names};
use message::record::{Format, NewEnqueue, Outcome, SeqRange};

const PORT: PortId = PortId { node: NodeNo(2), shard: ShardId(1), slot: 7, generation: 9 };

fn range(first: u64, last: u64) -> SeqRange {
    SeqRange { first: QueueSeq(first), last: QueueSeq(last) }
}

fn word(said: Said) -> LogWord {
    LogWord { log: LogId(3), life: 1 << 60, visit: 4, tenure: Tenure { life: 5, number: 6 }, said }
}

/// Records of messages with these bodies, behind some bytes that are none.
fn records(bodies: &[&[u8]]) -> (Memory, Vec<u32>) {
    let mut buffer = Buffer::default();
    buffer.extend(&[0; 16]);
    let mut offsets = Vec::new();
    for body in bodies {
        offsets.push(buffer.bytes().len() as u32);
        let pieces = [*body];
        let message = NewEnqueue {
            flags: 0,
            format: Format::Amqp091,
            priority: 0,
            received_at_ms: 1,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"",
            routing_key: b"q",
            head: &[],
            body: &pieces,
        };
        message.write(&[QueueId(8)], &mut buffer);
    }
    (buffer.seal(), offsets)
}

fn queue() -> Arc<QueueDefinition> {
    Arc::new(QueueDefinition {
        id: QueueId(8),
        vhost: VhostId(1),
        vhost_name: "/".into(),
        name: "q".into(),
        log: LogId(3),
        queue_type: QueueType::Quorum,
        durable: true,
        exclusive: None,
        auto_delete: false,
        declared_by: Some("ann".into()),
        arguments: Default::default(),
    })
}

/// It comes back as it was, and whatever is cut off or added to it is refused.
#[track_caller]
fn check(said: Said) -> LogWord {
    let word = word(said);
    let mut out = Output::default();
    write(&word, &mut out).unwrap();
    let bytes = out.to_vec();
    let again = read(&bytes).unwrap_or_else(|fault| panic!("{word:?}: {fault}"));
    let mut out = Output::default();
    write(&again, &mut out).unwrap();
    assert!(out.to_vec() == bytes, "{word:?} has one form");
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes of {word:?}");
    }
    assert_eq!(read(&[&bytes[..], b"x"].concat()).unwrap_err(), Fault::Trailing(1));
    again
}

/// As [`check`], and it looks the same.
#[track_caller]
fn check_same(said: Said) {
    let before = format!("{:?}", word(said.clone()));
    assert_eq!(format!("{:?}", check(said)), before);
}

fn bring(item: Item) -> Said {
    Said::Bring { at: 11, catalog: LogIndex(4), item }
}

#[test]
fn words_come_back_as_they_were() {
    check_same(Said::Led);
    check_same(Said::Come);
    check_same(Said::Welcome { recorded: 1 });
    check_same(Said::Taken { taken: 2, done: 1 });
    check_same(Said::GoBack { from: 3 });
    check_same(Said::Stranger);
    check_same(Said::Heard { number: 4, has_gap: true });
    check_same(Said::Past { life: 5 });
    check_same(Said::Stopped);
    check_same(bring(Item::Nothing));
    check_same(bring(Item::Claimed));
    let (memory, offsets) = records(&[b"one", &[7; 5000]]);
    let all = 16..memory.len();
    let said = check(bring(Item::Records { number: 9, memory: memory.clone(), range: all.clone() })).said;
    let Said::Bring { at: 11, item: Item::Records { number: 9, memory: again, range }, .. } = said else {
        panic!("{said:?}")
    };
    assert_eq!(again[range], memory[all]);
    let (one, _) = records(&[b"one"]);
    let mut alone = Buffer::default();
    alone.extend(&one[16..]);
    let waiter = Some(Waiter { port: PORT, publisher: 1, first: 2, last: 2 });
    check_same(bring(Item::Ask { number: 3, memory: alone.seal(), waiter, needs_flush: true }));
    assert_eq!(offsets.len(), 2);
}

#[test]
fn commands_come_back_as_they_were() {
    let consumer = NewConsumer {
        credit: Credit::Prefetch(7),
        settled: false,
        exclusive: true,
        priority: -3,
        browses: Some(Browse { from: QueueSeq(5), held: true }),
        timeout_ms: Some(9),
    };
    let ranges: Box<[SeqRange]> = Box::new([range(1, 4), range(9, 9)]);
    let (token, handle) = (1, 2);
    let all = [
        QueueCommand::Consume { token, handle, consumer },
        QueueCommand::Consume { token, handle, consumer: NewConsumer { credit: Credit::Link, ..consumer } },
        QueueCommand::Cancel { token: None, handle, held: Held::Kept },
        QueueCommand::Cancel { token: Some(3), handle, held: Held::GoesBack },
        QueueCommand::Get { token, handle, settled: true, behind: false, by_node: true },
        QueueCommand::Pick { token, handle, position: QueueSeq(4) },
        QueueCommand::Credit { handle, limit: u32::MAX, drain: true, echo: false },
        QueueCommand::Prefetch { handle, prefetch: 0 },
        QueueCommand::Pause { handle, paused: true },
        QueueCommand::Settle { handle, range: range(1, 2), outcome: Outcome::Undeliverable },
        QueueCommand::Accept { handle, ranges: ranges.clone() },
        QueueCommand::Unsent { handle, range: range(1, 2) },
        QueueCommand::LeaseOver(Box::new(LeaseOver {
            handle,
            asked: ranges.clone(),
            over: Box::default(),
            is_late: true,
        })),
        QueueCommand::SettleOver { handle, range: range(3, 3) },
        QueueCommand::Renew { handle, range: range(3, 3) },
        QueueCommand::Modify(Box::new(Modified {
            handle,
            range: range(1, 1),
            outcome: Outcome::Failed,
            annotations: b"map"[..].into(),
            due_at_ms: Some(77),
        })),
        QueueCommand::Purge { token },
        QueueCommand::Discard { token, position: QueueSeq(1) },
        QueueCommand::SettleAt(Box::new(SettleAt {
            token,
            positions: Box::new([QueueSeq(1)]),
            rejects: true,
        })),
        QueueCommand::Delete { token, if_unused: true, if_empty: false },
        QueueCommand::Counts { token },
        QueueCommand::Leave,
    ];
    for command in all {
        check_same(bring(Item::Command { queue: QueueId(8), port: PORT, command: Box::new(command) }));
    }
    let ann = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };
    let text = b"body.a = 'it''s' AND header.priority > 3";
    let selector = Selector::parse(text, Names::Own, Macros::none(), &ann).unwrap();
    let select = QueueCommand::Select { token, handle, consumer, selector: selector.clone() };
    let command = Box::new(select);
    check(bring(Item::Command { queue: QueueId(8), port: PORT, command }));
    let claim = Claim {
        queue: QueueId(8),
        port: PORT,
        handle,
        consumer: Some(consumer),
        selector: Some(selector.clone()),
        limit: Some(4),
        delivered: 5,
        is_paused: true,
        is_active: true,
        held: ranges,
    };
    let said = check(bring(Item::Claim(claim.into()))).said;
    let Said::Bring { item: Item::Claim(again), .. } = said else { panic!("{said:?}") };
    let again = again.selector.as_ref().unwrap();
    assert_eq!(again.expression().to_string(), selector.expression().to_string());
}

#[test]
fn events_come_back_as_they_were() {
    let (memory, offsets) = records(&[b"one", b"two", &[7; 5000]]);
    let (other, other_offsets) = records(&[b"three"]);
    let delivery = |seq: u64, offset: u32| Delivery { seq: QueueSeq(seq), offset, marks: 1 << 31 | 3 };
    let items = vec![
        delivery(1, offsets[0]),
        delivery(2, offsets[2]),
        delivery(7, other_offsets[0]),
        delivery(3, offsets[1]),
    ];
    let text = "no queue 'q' in vhost '/'";
    let refusal = Refusal::new(ReplyCode::NotFound, Reason::NotFound(Object::Queue), text);
    let argument = Reason::InvalidArgument { argument: "x-priority".into() };
    let invalid = Refusal::new(ReplyCode::PreconditionFailed, argument, "invalid arg");
    let ranges: Box<[SeqRange]> = Box::new([range(1, 4)]);
    let declared = Reply::Declared { queue: queue(), is_new: true, ready: 4, consumers: 5 };
    let (consumer, token) = (5, 6);
    let list = vec![
        Event::Deliver { consumer, memory: 0, items: 0..2 },
        Event::Reply { token, reply: Ok(Reply::Consuming) },
        Event::Reply { token, reply: Ok(declared) },
        Event::Reply { token, reply: Ok(Reply::Settled { missing: Box::new([QueueSeq(1)]) }) },
        Event::Reply { token, reply: Err(refusal.clone()) },
        Event::Reply { token, reply: Err(invalid) },
        Event::Got { token, consumer, memory: 1, item: 2, ready: 9 },
        Event::Barrier { consumer, memory: 0, item: 3 },
        Event::Shown { consumer, memory: 0, item: 3 },
        Event::Confirmed { publisher: 1, first: 2, last: 3 },
        Event::Refused { publisher: 1, first: 2, last: 3, queue: QueueId(8) },
        Event::Active { consumer, active: true },
        Event::Introduce,
        Event::Drained { consumer, unused: 3 },
        Event::Available { consumer, ready: 3 },
        Event::TimedOut { consumer, range: range(1, 2), has_more: true },
        Event::Leased { consumer, lease_ms: Some(3) },
        Event::LeaseOver { consumer, ranges },
        Event::Cancelled { consumer, queue: queue() },
        Event::QueueDeleted { watcher: 1, queue: QueueId(8) },
        Event::Close { refusal },
        Event::Reply { token, reply: Ok(Reply::MayDelete { queue: QueueId(8), messages: 2 }) },
    ];
    let list = list.into_iter().map(|event| (PORT, event)).collect();
    let events = Events { list, items, memories: vec![memory, other] };
    let bodies = |events: &Events| {
        let mut bodies = Vec::new();
        for (_, event) in &events.list {
            let (memory, items) = match event {
                Event::Deliver { memory, items, .. } => (*memory, items.clone()),
                Event::Got { memory, item, .. }
                | Event::Barrier { memory, item, .. }
                | Event::Shown { memory, item, .. } => (*memory, *item..*item + 1),
                _ => continue,
            };
            for item in &events.items[items.start as usize..items.end as usize] {
                bodies.push((item.seq, item.marks, events.message(memory, item).body.to_vec()));
            }
        }
        bodies
    };
    let before = bodies(&events);
    let said = check(Said::Events { number: 1, done: 3, events: Arc::new(events) }).said;
    let Said::Events { events: again, .. } = said else { panic!("{said:?}") };
    assert_eq!(bodies(&again), before);
    assert_eq!(again.memories.len(), 1);
    let Event::Cancelled { queue: named, .. } = &again.list[18].1 else { panic!("{again:?}") };
    assert_eq!(named.named(), queue().named());
}

#[test]
fn what_is_of_a_stream_is_not_written() {
    let check = |said: Said| {
        let mut out = Output::default();
        assert_eq!(write(&word(said), &mut out), Err(Fault::OfStream));
        assert!(out.is_empty());
    };
    let command = Box::new(QueueCommand::Stream(Box::new(StreamCommand::Stats { token: 1 })));
    check(bring(Item::Command { queue: QueueId(8), port: PORT, command }));
    let of = |event| Arc::new(Events { list: vec![(PORT, event)], ..Events::default() });
    check(Said::Events { number: 1, done: 3, events: of(Event::StreamRestarted { queue: QueueId(8) }) });
    // A reply is written, and read by nobody.
    let reply = Event::Reply { token: 1, reply: Ok(Reply::Stream(StreamReply::Offset(None))) };
    let mut out = Output::default();
    write(&word(Said::Events { number: 1, done: 3, events: of(reply) }), &mut out).unwrap();
    assert_eq!(read(&out.to_vec()).unwrap_err(), Fault::OfStream);
}

#[test]
fn bytes_that_are_no_word_are_refused() {
    let head = |tag: u8| {
        let mut bytes = vec![0; 4 + 8 + 8 + 8 + 4];
        bytes.push(tag);
        bytes
    };
    let check = |bytes: Vec<u8>, expected: Fault| assert_eq!(read(&bytes).unwrap_err(), expected);
    check(head(12), Fault::Tag { of: "Said", tag: 12 });
    let item = |rest: &[u8]| [&head(4)[..], &[0; 16], rest].concat();
    check(item(&[7]), Fault::Tag { of: "item", tag: 7 });
    // Records: of a length that is none, and of one that is not there.
    let records = |bytes: &[u8]| [&[6][..], &[0; 8], &(bytes.len() as u32).to_le_bytes(), bytes].concat();
    check(item(&records(&[0; 16])), Fault::Record);
    check(item(&records(&[64, 0, 0, 0, 1, 0, 0, 0])), Fault::Record);
    // A list of more than there is.
    let accept = [&[5][..], &[0; 8], &[0; 12], &[10], &[0; 4], &u32::MAX.to_le_bytes()].concat();
    check(item(&accept), Fault::Count(u32::MAX as usize));
    let settle = [&[5][..], &[0; 8], &[0; 12], &[9], &[0; 4], &[1; 8], &[0; 8], &[1]].concat();
    check(item(&settle), Fault::Range);
}

#[test]
fn every_number_of_a_reason_is_that_of_one() {
    let whole = refusal_bytes(&Refusal::new(ReplyCode::NotFound, Reason::Closed, ""));
    let mut known = 0;
    for number in 0..=u8::MAX {
        for detail in [&[][..], &[3], &[4, 0, 0, 0, b't', b'y', b'p', b'e']] {
            let bytes = [&[number], detail, &whole[1..]].concat();
            if let Ok(refusal) = read_refusal(&bytes) {
                assert_eq!(refusal_bytes(&refusal), bytes, "{refusal:?}");
                known += 1;
                break;
            }
        }
    }
    assert_eq!(known, 35, "there are so many reasons");
}
