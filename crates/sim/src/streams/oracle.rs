//! The judge of streams: knows every message that was published to one, and the content seen at each offset.
//!
//! - Confirmed messages are there, once: nothing that was published once, and nothing of one publishing id of a
//!   reference, has two offsets.
//! - Offsets are dense, and an offset holds for ever what it was seen to hold, in the same chunk.
//! - Messages of one publisher stay in their order.
//! - Messages up to the publishing id that the node reports for a reference are stored.
//! - An offset that the node reports as stored is one that the client stored. While the node runs, none is older than
//!   one reported before; one reported after a restart, or there when the node rested, was on disk, and no older one
//!   comes ever. As with RabbitMQ, an offset that was stored just before the node went down may be lost: nobody
//!   confirms it. None is forgotten because of offsets that others store (`owners`).
//!
//! Where something is damaged, missing messages are not held against the node, if it reported it; those that come must
//! be right.

mod feeds;
mod owners;

use super::client::Arrived;
use super::names::{FIRST_MESSAGE, Reference, value_of};
use crate::oracle::{Check, Stage};
use base::id::LogId;
use broker::QueueRow;
use feeds::Fed;
use owners::Owners;
use std::collections::BTreeMap;

/// The publisher of a message, where order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Publisher {
    /// The holder of this reference.
    Reference(usize),
    /// A publisher of a connection.
    Plain(u64, u8),
    /// A connection of AMQP.
    Amqp(u64),
}

/// The messages of a reference, by publishing id, from 1 on.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// The connection that has it.
    pub owner: Option<u64>,
    /// The messages of each id.
    pub sent: Vec<Vec<u64>>,
}

#[derive(Clone, Debug)]
struct Message {
    stream: usize,
    publisher: Publisher,
    is_confirmed: bool,
    offset: Option<u64>,
    /// Its filter value, among [`VALUES`].
    value: Option<usize>,
}

/// The offset that a client stored in a stream under one name.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// The offset it stored last: each is above the one before.
    stored: u64,
    /// The least offset that is on disk.
    durable: u64,
    /// The greatest offset reported since the node came up.
    told: u64,
    /// The node went down since: there will be no more.
    is_closed: bool,
}

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How far it is.
    pub stage: Stage,
    /// Its first messages go when there are too many.
    pub retains: bool,
    /// The node said that something of it cannot be read, and will not be.
    pub is_torn: bool,
    /// The node said that something of it cannot be read now.
    pub is_unreadable: bool,
    /// It said so once: a queue that is filled from it passed over what could not be read then.
    pub was_unreadable: bool,
    /// The messages of each reference.
    pub outboxes: BTreeMap<usize, Outbox>,
    log: Option<LogId>,
    found: BTreeMap<u64, u64>,
    chunks: BTreeMap<u64, (usize, u32, i64)>,
    tracks: BTreeMap<Reference, Track>,
    owners: Owners,
}

impl Stream {
    /// Nobody may be held to what is missing.
    fn has_gaps(&self) -> bool {
        self.is_torn || self.is_unreadable
    }

    /// The end of the stream, as far as it is known.
    pub fn end(&self) -> u64 {
        self.found.last_key_value().map_or(0, |(offset, _)| offset + 1)
    }
}

/// The judge of streams.
#[derive(Debug, Default)]
pub struct Oracle {
    /// By number.
    pub streams: Vec<Stream>,
    /// Queues that are filled from them.
    fed: Vec<Fed>,
    messages: Vec<Message>,
    /// Names under which offsets are stored that a stream keeps.
    pub names_max: usize,
    /// Offsets that were told once, and are forgotten.
    pub driven_out: u64,
}

/// Of the stream with this name, the number.
pub fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('s')?.parse().ok()
}

impl Oracle {
    /// A stream is asked for.
    pub fn new_stream(&mut self, retains: bool) -> usize {
        self.streams.push(Stream {
            stage: Stage::Asked,
            retains,
            is_torn: false,
            is_unreadable: false,
            was_unreadable: false,
            outboxes: BTreeMap::new(),
            log: None,
            found: BTreeMap::new(),
            chunks: BTreeMap::new(),
            tracks: BTreeMap::new(),
            owners: Owners::default(),
        });
        self.streams.len() - 1
    }

    /// The streams that are there.
    pub fn there(&self) -> Vec<usize> {
        let there = self.streams.iter().enumerate().filter(|(_, stream)| stream.stage == Stage::There);
        there.map(|(number, _)| number).collect()
    }

    /// The log of a stream, where it is known.
    pub fn log(&self, stream: usize) -> Option<LogId> {
        self.streams[stream].log
    }

    /// Which logs streams are on.
    pub fn learn(&mut self, rows: &[QueueRow]) {
        for row in rows {
            if let Some(stream) = number_of(&row.definition.name).and_then(|at| self.streams.get_mut(at)) {
                stream.log = Some(row.definition.log);
            }
            self.learn_fed(row);
        }
    }

    /// A message is about to be published: its number.
    pub fn publishing(&mut self, stream: usize, publisher: Publisher) -> u64 {
        self.messages.push(Message { stream, publisher, is_confirmed: false, offset: None, value: None });
        FIRST_MESSAGE + self.messages.len() as u64 - 1
    }

    /// A message is published with a filter value, if it has one.
    pub fn has_value(&mut self, id: u64) {
        self.messages[(id - FIRST_MESSAGE) as usize].value = value_of(id);
    }

    /// The message just numbered was not published after all.
    pub fn not_published(&mut self) {
        self.messages.pop();
    }

    /// The node says that a message is safe.
    pub fn confirmed(&mut self, id: u64) {
        self.messages[(id - FIRST_MESSAGE) as usize].is_confirmed = true;
    }

    /// The node did not take a message.
    pub fn refused(&self, id: u64, is_damaged: bool) -> Check {
        let stream = self.messages[(id - FIRST_MESSAGE) as usize].stream;
        let is_there = self.streams[stream].stage == Stage::There;
        if is_there && !is_damaged {
            return Err(format!("message {id} is refused though stream {stream} is there"));
        }
        Ok(())
    }

    /// The stream a message was published to.
    pub fn stream_of(&self, id: u64) -> usize {
        self.messages[(id - FIRST_MESSAGE) as usize].stream
    }

    /// How far a reference must have come that is asked about now: to the last of what is confirmed.
    pub fn come_to(&self, stream: usize, reference: usize) -> u64 {
        let Stream { outboxes, .. } = &self.streams[stream];
        let Some(outbox) = outboxes.get(&reference).filter(|_| !self.streams[stream].has_gaps()) else {
            return 0;
        };
        let is_confirmed = |id: &u64| self.messages[(*id - FIRST_MESSAGE) as usize].is_confirmed;
        let last = outbox.sent.iter().rposition(|ids| ids.iter().any(is_confirmed));
        last.map_or(0, |at| at as u64 + 1)
    }

    /// A reference that nobody has and whose last messages are not known to be stored: whoever takes it publishes them again,
    /// unless they are. With its stream.
    pub fn left_behind(&self) -> Option<(usize, usize)> {
        let streams = self.there().into_iter();
        let mut all = streams
            .flat_map(|at| self.streams[at].outboxes.iter().map(move |(name, outbox)| (at, name, outbox)));
        all.find(|(at, name, outbox)| {
            outbox.owner.is_none() && self.come_to(*at, **name) < outbox.sent.len() as u64
        })
        .map(|(at, name, _)| (at, *name))
    }

    /// The node says how far a reference has come: all up to there is safe. What is behind it, to be published again: each
    /// publishing id with its messages. It had come to `least` when it was asked: what another connection still has on its
    /// way may be confirmed before the answer is heard.
    pub fn reached(
        &mut self,
        stream: usize,
        reference: usize,
        last: u64,
        least: u64,
    ) -> Result<Vec<(u64, Vec<u64>)>, String> {
        let Some(outbox) = self.streams[stream].outboxes.get(&reference) else { return Ok(Vec::new()) };
        let sent = outbox.sent.clone();
        if last > sent.len() as u64 {
            return Err(format!(
                "reference {reference} has come to {last} in stream {stream} and published {}",
                sent.len()
            ));
        }
        let (stored, missing) = sent.split_at(last as usize);
        for id in stored.iter().flatten() {
            self.confirmed(*id);
        }
        if !self.streams[stream].has_gaps() && last < least {
            return Err(format!(
                "reference {reference} has come to {last} in stream {stream}, and {least} was confirmed before it was asked"
            ));
        }
        Ok((last + 1..).zip(missing.iter().cloned()).collect())
    }

    /// A chunk came.
    pub fn arrived(&mut self, stream: usize, chunk: &Arrived, rots: bool) -> Check {
        let Arrived { first_offset, crc, timestamp_ms, messages, .. } = chunk;
        let messages = messages
            .as_ref()
            .map_err(|why| format!("the chunk at {first_offset} of stream {stream}: {why}"))?;
        let of = &mut self.streams[stream];
        // A time is under no checksum.
        let seen = (messages.len(), *crc, if rots { 0 } else { *timestamp_ms });
        let before = *of.chunks.entry(*first_offset).or_insert(seen);
        if before != seen {
            return Err(format!(
                "the chunk at {first_offset} of stream {stream} was {before:?} and is {seen:?}"
            ));
        }
        for (offset, id) in (*first_offset..).zip(messages) {
            let Some(message) =
                id.checked_sub(FIRST_MESSAGE).and_then(|at| self.messages.get_mut(at as usize))
            else {
                return Err(format!(
                    "offset {offset} of stream {stream} holds message {id}, which nobody published"
                ));
            };
            if message.stream != stream {
                return Err(format!(
                    "offset {offset} of stream {stream} holds message {id} of {}",
                    message.stream
                ));
            }
            let other = *of.found.entry(offset).or_insert(*id);
            if other != *id {
                return Err(format!(
                    "offset {offset} of stream {stream} held message {other} and holds {id}"
                ));
            }
            let other = *message.offset.get_or_insert(offset);
            if other != offset {
                return Err(format!("message {id} of stream {stream} is at {other} and at {offset}"));
            }
        }
        Ok(())
    }

    // ---- offsets of consumers

    /// A client of this user stores the next offset under a name: which.
    pub fn storing(&mut self, stream: usize, reference: Reference, user: usize, step: u64) -> u64 {
        let of = &mut self.streams[stream];
        of.owners.storing(reference, user);
        let track = of.tracks.entry(reference);
        let track = track.or_insert(Track { stored: 0, durable: 0, told: 0, is_closed: false });
        track.stored += step;
        track.stored
    }

    /// Names under which something was stored in a stream.
    pub fn tracked(&self, stream: usize) -> Vec<Reference> {
        self.streams[stream].tracks.keys().copied().collect()
    }

    /// Those of them that cannot be forgotten.
    pub fn safe(&self, stream: usize) -> Vec<Reference> {
        let of = &self.streams[stream];
        of.tracks.keys().copied().filter(|name| of.owners.is_safe(*name, self.names_max)).collect()
    }

    /// The least offset that a query sent now must be answered with; `is_own`: the client that asks is the one that
    /// stored it.
    pub fn least(&self, stream: usize, reference: Reference, is_own: bool) -> u64 {
        let track = self.streams[stream].tracks.get(&reference);
        track.map_or(0, |track| if is_own { track.stored } else { track.told.max(track.durable) })
    }

    /// The node reported the offset stored under a name; 0: none.
    pub fn told(&mut self, stream: usize, reference: Reference, offset: u64, least: u64) -> Check {
        let names_max = self.names_max;
        let of = &mut self.streams[stream];
        let is_forgotten = offset == 0 && least > 0 && !of.retains;
        let is_free = offset == 0 && (of.retains || !of.owners.is_safe(reference, names_max));
        let Some(track) = of.tracks.get_mut(&reference) else { return Ok(()) };
        if offset > track.stored || offset < least && !is_free {
            return Err(format!(
                "{} was stored under {reference} in stream {stream} last, at least {least} must be known, and {offset} is",
                track.stored
            ));
        }
        self.driven_out += u64::from(is_forgotten);
        track.told = track.told.max(offset);
        if track.is_closed {
            track.durable = track.durable.max(offset);
        }
        Ok(())
    }

    /// The node rests: offsets that a connected client stored are on disk.
    pub fn rests(&mut self, client: u64) {
        for stream in &mut self.streams {
            stream.owners.rests(client);
            let its = Reference::tracker(client)..=Reference { client, number: u64::MAX };
            stream.tracks.range_mut(its).for_each(|(_, track)| track.durable = track.stored);
        }
    }

    // ---- down and up

    /// A connection is over: its references are free.
    pub fn client_gone(&mut self, client: u64) {
        for outbox in self.streams.iter_mut().flat_map(|stream| stream.outboxes.values_mut()) {
            outbox.owner = outbox.owner.filter(|owner| *owner != client);
        }
    }

    /// The node went down.
    pub fn went_down(&mut self) {
        for stream in &mut self.streams {
            stream.is_unreadable = false;
            for track in stream.tracks.values_mut() {
                (track.told, track.is_closed) = (track.durable, true);
            }
        }
    }

    /// The node is up, with these queues. `is_damaged`: something of a log is lost.
    pub fn came_up(&mut self, rows: &[QueueRow], is_damaged: impl Fn(Option<LogId>) -> bool) -> Check {
        self.learn(rows);
        let found: BTreeMap<usize, u64> =
            rows.iter().filter_map(|row| Some((number_of(&row.definition.name)?, row.ready))).collect();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let ready = found.get(&number);
            let what = match (stream.stage, ready) {
                (Stage::There, None) => Some("is lost"),
                (Stage::Gone, Some(_)) => Some("is back though it was deleted"),
                (Stage::Missing, Some(_)) => Some("is back though it was not there after a start before"),
                _ => None,
            };
            // The catalog's log is one of those that are damaged then.
            if let Some(what) = what.filter(|_| !is_damaged(Some(LogId(0)))) {
                return Err(format!("stream {number} {what}"));
            }
            stream.stage = match stream.stage {
                // As a queue that was to go it may have lost anything: nobody uses it any more.
                Stage::Leaving if ready.is_some() => Stage::Leaving,
                _ if ready.is_some() => Stage::There,
                Stage::Gone => Stage::Gone,
                _ => Stage::Missing,
            };
        }
        self.fed_came_up(rows, &is_damaged)?;
        self.check_counts(rows, is_damaged)
    }

    /// Checks the counts of messages that the node reports.
    pub fn check_counts(&self, rows: &[QueueRow], is_damaged: impl Fn(Option<LogId>) -> bool) -> Check {
        for row in rows {
            let Some(number) = number_of(&row.definition.name) else { continue };
            let stream = &self.streams[number];
            if stream.retains
                || stream.stage != Stage::There
                || is_damaged(stream.log)
                || is_damaged(Some(row.definition.log))
            {
                continue;
            }
            let its = || self.messages.iter().filter(|message| message.stream == number);
            let (must, may) = (its().filter(|message| message.is_confirmed).count(), its().count());
            if row.ready < stream.end().max(must as u64) || row.ready > may as u64 {
                return Err(format!(
                    "stream {number} says it holds {}; {must} are confirmed, {may} published, and {} was read",
                    row.ready,
                    stream.end()
                ));
            }
        }
        self.check_fed_counts(rows, &is_damaged)
    }

    /// All of a stream was read, from `first` to before `end`, and the node says that it ends there.
    pub fn check_all(&self, number: usize, first: u64, end: u64) -> Check {
        let stream = &self.streams[number];
        if stream.has_gaps() {
            return Ok(());
        }
        let mut latest: BTreeMap<Publisher, u64> = BTreeMap::new();
        let mut before = first;
        for (offset, id) in stream.found.range(first..) {
            if *offset != before {
                return Err(format!("stream {number} has nothing at {before}, and message {id} at {offset}"));
            }
            before += 1;
            let publisher = self.messages[(id - FIRST_MESSAGE) as usize].publisher;
            if let Some(earlier) = latest.insert(publisher, *id).filter(|earlier| earlier > id) {
                return Err(format!(
                    "message {id} of {publisher:?} comes behind {earlier} in stream {number}"
                ));
            }
        }
        if before != end {
            return Err(format!("stream {number} was read up to {before} and ends at {end}"));
        }
        if stream.retains {
            return Ok(());
        }
        if first != 0 && end != 0 {
            return Err(format!("stream {number} begins at {first}"));
        }
        let its = self.messages.iter().enumerate().filter(|(_, message)| message.stream == number);
        let mut lost = its.filter(|(_, message)| message.is_confirmed && message.offset.is_none());
        match lost.next() {
            Some((at, message)) => Err(format!(
                "message {} of {:?} is confirmed and is not in stream {number}",
                FIRST_MESSAGE + at as u64,
                message.publisher
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const PLAIN: Publisher = Publisher::Plain(1, 0);

    /// A stream of three messages, of which nothing is known yet.
    fn three() -> (Oracle, [u64; 3]) {
        let mut oracle = Oracle { names_max: 20, ..Oracle::default() };
        let stream = oracle.new_stream(false);
        oracle.streams[stream].stage = Stage::There;
        let ids = [0; 3].map(|_| oracle.publishing(stream, PLAIN));
        (oracle, ids)
    }

    pub fn chunk(first_offset: u64, crc: u32, messages: &[u64]) -> Arrived {
        Arrived { subscription: 0, first_offset, timestamp_ms: 5, crc, messages: Ok(messages.to_vec()) }
    }

    #[test]
    fn an_offset_holds_what_it_held_and_nothing_is_there_twice() {
        let (mut oracle, [a, b, c]) = three();
        let mut check = |chunk: &Arrived, is_right| {
            assert_eq!(oracle.arrived(0, chunk, false).is_ok(), is_right, "{chunk:?}");
        };
        check(&chunk(0, 1, &[a, b]), true);
        check(&chunk(0, 1, &[a, b]), true);
        check(&chunk(0, 2, &[a, b]), false);
        check(&chunk(1, 3, &[c]), false);
        check(&chunk(2, 3, &[a]), false);
        check(&chunk(3, 3, &[FIRST_MESSAGE + 3]), false);
        let broken = Arrived { messages: Err("short".to_owned()), ..chunk(4, 1, &[]) };
        check(&broken, false);
    }

    #[test]
    fn all_that_is_confirmed_is_read_in_order() {
        let (mut oracle, [a, b, c]) = three();
        oracle.arrived(0, &chunk(0, 1, &[a, b]), false).unwrap();
        assert!(oracle.check_all(0, 0, 2).is_ok());
        assert!(oracle.check_all(0, 0, 3).is_err());
        oracle.confirmed(c);
        assert!(oracle.check_all(0, 0, 2).is_err());
        oracle.streams[0].is_torn = true;
        assert!(oracle.check_all(0, 0, 2).is_ok());

        let (mut oracle, [a, b, _]) = three();
        oracle.arrived(0, &chunk(0, 1, &[b, a]), false).unwrap();
        assert!(oracle.check_all(0, 0, 2).is_err());
    }

    #[test]
    fn what_a_reference_has_reached_is_safe() {
        let (mut oracle, [a, b, c]) = three();
        let outbox = Outbox { owner: None, sent: vec![vec![a], vec![b], vec![c]] };
        oracle.streams[0].outboxes.insert(7, outbox);
        assert_eq!((oracle.come_to(0, 7), oracle.come_to(0, 8)), (0, 0));
        assert_eq!(oracle.reached(0, 7, 1, 0), Ok(vec![(2, vec![b]), (3, vec![c])]));
        assert_eq!(oracle.come_to(0, 7), 1);
        assert!(oracle.reached(0, 7, 4, 1).is_err());
        oracle.confirmed(b);
        assert_eq!(oracle.come_to(0, 7), 2);
        assert!(oracle.reached(0, 7, 1, 2).is_err());
        assert!(oracle.reached(0, 7, 1, 1).is_ok(), "it was confirmed after the question");
        assert!(oracle.check_all(0, 0, 0).is_err());
    }

    #[test]
    fn a_stored_offset_does_not_go_back_behind_what_was_on_disk() {
        let (mut oracle, _) = three();
        let name = Reference::tracker(1);
        assert_eq!([oracle.storing(0, name, 0, 3), oracle.storing(0, name, 0, 4)], [3, 7]);
        assert_eq!((oracle.least(0, name, true), oracle.least(0, name, false)), (7, 0));
        assert!(oracle.told(0, name, 8, 0).is_err());
        assert!(oracle.told(0, name, 7, 0).is_ok());
        assert_eq!(oracle.least(0, name, false), 7);
        oracle.went_down();
        // It may be lost; but what is told now is on disk.
        assert_eq!(oracle.least(0, name, false), 0);
        assert!(oracle.told(0, name, 3, 0).is_ok());
        oracle.went_down();
        assert!(oracle.told(0, name, 0, oracle.least(0, name, false)).is_err());
    }

    #[test]
    fn an_offset_is_not_forgotten_for_what_others_store() {
        let (mut oracle, _) = three();
        let (quiet, other) = (Reference::tracker(1), |number| Reference { client: 2, number });
        oracle.storing(0, quiet, 0, 3);
        (0..100).for_each(|number| _ = oracle.storing(0, other(number), 0, 1));
        [1, 2].into_iter().for_each(|client| oracle.rests(client));
        assert_eq!((oracle.least(0, quiet, false), oracle.safe(0).len() < 20), (3, true));
        assert!(oracle.told(0, quiet, 0, 3).is_err());
        assert!(oracle.told(0, other(99), 0, 1).is_err());
        assert!(oracle.told(0, other(0), 0, 1).is_ok());
        assert_eq!(oracle.driven_out, 1);
    }
}
