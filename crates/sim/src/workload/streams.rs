//! Operations of clients on streams. One file for all: each is a few lines over the client's own methods.

use crate::client::{Begin, ID_BYTES, Target};
use crate::oracle::{Check, Stage};
use crate::rules::MessageOptions;
use crate::streams::{Asked, Publisher, Reference, Spec, VALUES, reference_name, stream_name};
use crate::world::World;
use base::Random;
use std::collections::BTreeMap;
use stream_protocol::{List, Pair, Request};

/// Streams of a run.
const STREAMS_MAX: usize = 6;

/// Queues that are filled from streams at once.
const FED_MAX: usize = 4;

/// References that publishers of a stream have.
const REFERENCES: u64 = 2;

/// A client of the stream protocol connects.
pub fn connect(world: &mut World) -> Check {
    world.connect_stream();
    Ok(())
}

/// A stream is created, or a publisher declared for one.
pub fn declare(world: &mut World) -> Check {
    let Some(at) = world.any_stream_client() else { return Ok(()) };
    if world.streams.oracle.streams.len() < STREAMS_MAX && world.dice.one_in(2) {
        return create(world, at);
    }
    let there = world.streams.oracle.there();
    let Some(any) = world.any_of(&there) else { return create(world, at) };
    let World { streams, dice, trace, now, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return Ok(()) };
    // Mostly whoever lost a connection comes back under its name.
    let left = streams.oracle.left_behind().filter(|_| !dice.one_in(4));
    let any_reference = (!dice.one_in(3)).then(|| dice.below(REFERENCES) as usize);
    let (stream, reference) =
        left.map_or((any, any_reference), |(stream, reference)| (stream, Some(reference)));
    if let Some(reference) = reference {
        let outbox = streams.oracle.streams[stream].outboxes.entry(reference).or_default();
        if outbox.owner.is_some() {
            return Ok(());
        }
        outbox.owner = Some(client.number);
    }
    let Some(id) = client.take_id() else { return Ok(()) };
    trace.note(format!("c{} declares publisher {id} of s{stream}, reference {reference:?}", client.number));
    let (name, own) = (stream_name(stream), reference.map(reference_name).unwrap_or_default());
    let (reference_bytes, stream_bytes) = (own.as_bytes(), name.as_bytes());
    let request =
        Request::DeclarePublisher { publisher_id: id, reference: reference_bytes, stream: stream_bytes };
    client.declare(*now, id, stream, reference, &request);
    Ok(())
}

fn create(world: &mut World, at: usize) -> Check {
    if world.streams.oracle.streams.len() >= STREAMS_MAX {
        return Ok(());
    }
    let World { streams, dice, trace, now, .. } = world;
    let retains = dice.one_in(4);
    let segment = [300, 2000, 20_000][dice.below(3) as usize];
    let stream = streams.oracle.new_stream(retains);
    let Some(client) = &mut streams.clients[at] else { return Ok(()) };
    trace.note(format!("c{} creates s{stream}, segments of {segment}, retains {retains}", client.number));
    let (name, segment, most) = (stream_name(stream), segment.to_string(), (segment * 3).to_string());
    // Chunks of one, two, four; of two, four, eight; and mostly a batch in one.
    let first_chunk = ["1", "2", "128"][stream % 3];
    let arguments = [
        Pair::new("stream-max-segment-size-bytes", &segment),
        Pair::new("stream-first-chunk-messages", first_chunk),
        Pair::new("max-length-bytes", &most),
    ];
    let arguments = List::new(if retains { &arguments } else { &arguments[..2] });
    client.ask(*now, Asked::Create(stream), &Request::Create { stream: name.as_bytes(), arguments });
    Ok(())
}

/// Bytes of a message: mostly few.
fn len(dice: &mut Random) -> usize {
    match dice.below(20) {
        0 => dice.between(4000, 20_000) as usize,
        1..4 => dice.between(300, 2000) as usize,
        _ => dice.between(ID_BYTES as u64, 100) as usize,
    }
}

/// A publisher publishes, some of it in batches.
pub fn publish(world: &mut World) -> Check {
    let Some(at) = world.any_stream_client() else { return Ok(()) };
    let World { streams, dice, trace, tally, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return Ok(()) };
    let fit: Vec<u8> = (client.publishers.iter())
        .filter(|(_, publisher)| publisher.is_ready && !publisher.is_over)
        .map(|(id, _)| *id)
        .collect();
    if fit.is_empty() {
        return Ok(());
    }
    let id = fit[dice.below(fit.len() as u64) as usize];
    let publisher = &client.publishers[&id];
    let (stream, reference) = (publisher.stream, publisher.reference);
    let who = reference.map_or(Publisher::Plain(client.number, id), Publisher::Reference);
    let mut entries = Vec::new();
    for publishing_id in (publisher.last + 1..).take(dice.between(1, 12) as usize) {
        let count = if dice.one_in(8) { dice.between(2, 4) } else { 1 };
        let messages: Vec<u64> = (0..count).map(|_| streams.oracle.publishing(stream, who)).collect();
        entries.push((publishing_id, messages));
    }
    if let Some(reference) = reference {
        let outbox = streams.oracle.streams[stream].outboxes.entry(reference).or_default();
        outbox.sent.extend(entries.iter().map(|(_, messages)| messages.clone()));
    }
    let len = len(dice);
    tally.stream_published += entries.iter().map(|(_, messages)| messages.len() as u64).sum::<u64>();
    trace.note(format!("c{} publishes {entries:?} to s{stream} as {id}, {len} bytes each", client.number));
    // A message that is published again must be the same.
    let has_values = reference.is_none() && entries.iter().all(|(_, messages)| messages.len() == 1);
    if has_values {
        entries.iter().flat_map(|(_, messages)| messages).for_each(|id| streams.oracle.has_value(*id));
    }
    client.publish(id, &entries, len, has_values);
    Ok(())
}

/// An AMQP client publishes to a stream.
pub fn publish_amqp(world: &mut World) -> Check {
    let there = world.streams.oracle.there();
    let (Some(at), Some(stream)) = (world.any_client(false), world.any_of(&there)) else { return Ok(()) };
    let World { clients, streams, dice, trace, tally, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    if client.transaction.is_some() {
        return Ok(());
    }
    for _ in 0..dice.between(1, 6) {
        let id = streams.oracle.publishing(stream, Publisher::Amqp(client.number));
        let (len, is_durable) = (len(dice), !dice.one_in(4));
        if !client.publish(Target::Stream(stream), id, len, is_durable, false, &MessageOptions::default()) {
            streams.oracle.not_published();
            break;
        }
        tally.stream_published += 1;
        trace.note(format!("c{} publishes m{id} to s{stream}, {len} bytes", client.number));
    }
    Ok(())
}

/// A queue is declared that is filled from a stream, or emptied, or deleted again.
pub fn feed(world: &mut World) -> Check {
    let (fed, there) = (world.streams.oracle.fed_there(), world.streams.oracle.there());
    let (Some(at), Some(stream)) = (world.any_client(true), world.any_of(&there)) else { return Ok(()) };
    let gone = if world.dice.one_in(8) { world.any_of(&fed) } else { None };
    let is_emptied = gone.is_some() && world.dice.one_in(2);
    let World { clients, streams, dice, trace, .. } = world;
    let Some(client) = &mut clients[at] else { return Ok(()) };
    if let Some(queue) = gone.filter(|_| is_emptied) {
        trace.note(format!("c{} purges the fed queue {queue}", client.number));
        streams.oracle.purging_fed(queue);
        client.ask(crate::client::Asked::Purge(queue));
        return Ok(());
    }
    if let Some(queue) = gone {
        trace.note(format!("c{} deletes the fed queue {queue}", client.number));
        streams.oracle.fed(queue).stage = Stage::Leaving;
        client.ask(crate::client::Asked::Delete(queue));
        return Ok(());
    }
    if fed.len() >= FED_MAX {
        return Ok(());
    }
    let end = streams.oracle.streams[stream].end();
    let begin = match dice.below(5) {
        0 => Begin::Next,
        1 => Begin::Offset(dice.between(0, end + 5)),
        _ => Begin::First,
    };
    let value = dice.one_in(3).then(|| dice.below(VALUES.len() as u64) as usize);
    let (is_quorum, queue) = (dice.one_in(2), streams.oracle.new_fed(stream, begin, value));
    trace.note(format!("c{} declares {queue}, fed from s{stream}, {begin:?}, {value:?}", client.number));
    let length_max = streams.oracle.fed(queue).length_max;
    let value = value.map(|value| VALUES[value]);
    client.declare_fed(queue, is_quorum, &stream_name(stream), begin, value, length_max);
    Ok(())
}

/// A subscription is opened.
pub fn subscribe(world: &mut World) -> Check {
    let there = world.streams.oracle.there();
    let (Some(at), Some(stream)) = (world.any_stream_client(), world.any_of(&there)) else { return Ok(()) };
    let end = world.streams.oracle.streams[stream].end();
    let spec = match world.dice.below(6) {
        0 => Spec::Last,
        1 => Spec::Next,
        2 => Spec::Offset(world.dice.between(0, end + 3)),
        _ => Spec::First,
    };
    let (credit, is_single) = (world.dice.between(1, 8) as u16, world.dice.one_in(6));
    world.note(format!("the client at {at} subscribes to s{stream} from {spec:?}, credit {credit}"));
    world.subscribe(at, stream, spec, credit, is_single);
    Ok(())
}

/// A subscription may be sent more.
pub fn give_credit(world: &mut World) -> Check {
    let Some(at) = world.any_stream_client() else { return Ok(()) };
    let World { streams, dice, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return Ok(()) };
    let ids: Vec<u8> = client.subscriptions.keys().copied().collect();
    if !ids.is_empty() {
        let id = ids[dice.below(ids.len() as u64) as usize];
        client.give_credit(id, dice.between(1, 5) as u8);
    }
    Ok(())
}

/// An offset is stored, or asked for.
pub fn track(world: &mut World) -> Check {
    let there = world.streams.oracle.there();
    let (Some(at), Some(stream)) = (world.any_stream_client(), world.any_of(&there)) else { return Ok(()) };
    if world.dice.one_in(3) {
        let tracked = world.streams.oracle.tracked(stream);
        if !tracked.is_empty() {
            let of = tracked[world.dice.below(tracked.len() as u64) as usize];
            world.query_offset(at, stream, of);
        }
        return Ok(());
    }
    let World { streams, dice, trace, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return Ok(()) };
    let reference = Reference::tracker(client.number);
    let offset = streams.oracle.storing(stream, reference, client.user, dice.between(1, 5));
    trace.note(format!("c{} stores offset {offset} of s{stream}", client.number));
    client.store(&reference.to_string(), &stream_name(stream), offset);
    Ok(())
}

/// A publisher, a subscription, a connection or a stream ends.
pub fn leave(world: &mut World) -> Check {
    let Some(at) = world.any_stream_client() else { return Ok(()) };
    let choice = world.dice.below(10);
    match choice {
        0 => delete(world, at),
        1..3 => world.vanish_stream(at),
        3 => {
            let World { streams, trace, now, .. } = world;
            if let Some(client) = &mut streams.clients[at] {
                trace.note(format!("c{} closes", client.number));
                client.close(*now);
            }
        }
        4..7 => end(world, at, true),
        _ => end(world, at, false),
    }
    Ok(())
}

fn any_key<V>(dice: &mut Random, map: &BTreeMap<u8, V>) -> Option<u8> {
    let at = (!map.is_empty()).then(|| dice.below(map.len() as u64) as usize)?;
    map.keys().nth(at).copied()
}

fn end(world: &mut World, at: usize, publishes: bool) {
    let World { streams, dice, now, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return };
    if publishes {
        let Some(id) = any_key(dice, &client.publishers) else { return };
        let publisher = &client.publishers[&id];
        let (stream, reference) = (publisher.stream, publisher.reference);
        if client.end_publisher(*now, id)
            && let Some(reference) = reference
            && let Some(outbox) = streams.oracle.streams[stream].outboxes.get_mut(&reference)
        {
            outbox.owner = None;
        }
    } else if let Some(id) = any_key(dice, &client.subscriptions) {
        client.ask(*now, Asked::Unsubscribe(id), &Request::Unsubscribe { subscription_id: id });
    }
}

fn delete(world: &mut World, at: usize) {
    let there = world.streams.oracle.there();
    let Some(stream) = world.any_of(&there) else { return };
    let World { streams, trace, now, .. } = world;
    let Some(client) = &mut streams.clients[at] else { return };
    let name = stream_name(stream);
    if client.ask(*now, Asked::Delete(stream), &Request::Delete { stream: name.as_bytes() }) {
        streams.oracle.streams[stream].stage = Stage::Leaving;
        trace.note(format!("c{} deletes s{stream}", client.number));
    }
}
