//! A node that follows a log and the one that leads it, with words between them that are lost, come twice and overtake each other.

use super::super::pipeline::{Brings, Due};
use super::*;
use crate::commit::CommitRule;
use crate::event::Event;
use crate::mail::Waiter;
use crate::request::Placement;
use crate::spare::Spare;
use base::Random;
use base::id::ShardId;
use journal::{FileId, FileKind, FileName, Place, Sealed};
use message::record::{self, Close, Kind, Origin};
use proptest::prelude::*;

const LOG: LogId = LogId(3);
const PORT: PortId = PortId::here(ShardId(0), 0, 1);

/// A node's side of the log, with a stand-in for the machines: what is applied is noted.
struct Side {
    node: NodeNo,
    pipeline: Pipeline,
    peers: Peers,
    origins: Origins,
    post: Post,
    spare: Spare,
    applied: Vec<u64>,
    out: Vec<Sealed>,
}

impl Side {
    fn new(node: u16, other: u16, life: u64) -> Side {
        let mut pipeline = Pipeline::new(LOG, CommitRule::Synced);
        pipeline.set_rule(CommitRule::Quorum);
        pipeline.outbox_mut().begin(Origin { node: NodeNo(node), incarnation: life });
        Side {
            node: NodeNo(node),
            pipeline,
            peers: Peers::new(LOG, vec![NodeNo(other)]),
            origins: Origins::default(),
            post: Post::new(ShardId(0), Placement { shards: 1, logs: 4 }),
            spare: Spare::default(),
            applied: Vec::new(),
            out: Vec::new(),
        }
    }

    /// A connection publishes something that is known by its number.
    fn publish(&mut self, now: Now, number: u64) {
        let close = Close { id: QueueId(number), at_ms: 1 };
        self.pipeline.append(now, Brings::messages(true), |records| close.write(records));
        self.pipeline.wait(Waiter { port: PORT, publisher: 1, first: number, last: number });
    }

    fn lead(&mut self, now: Now, limits: &Limits) {
        let outbox = self.pipeline.outbox_mut();
        if let Some(last) = self.origins.of(self.node) {
            assert!(outbox.go_on_behind(last));
        }
        self.pipeline.cut();
        assert!(self.pipeline.lead(now, &mut self.spare).is_empty());
        self.peers.lead(now, &self.pipeline, limits);
    }

    fn resign(&mut self) {
        self.pipeline.resign();
        self.pipeline.forget_reports();
        self.peers.resign(&mut self.post);
    }

    fn hear(&mut self, now: Now, limits: &Limits, from: NodeNo, word: LogWord) {
        let Side { pipeline, peers, origins, post, .. } = self;
        let mut turn = Turn::new(now, limits, post);
        if pipeline.follows() {
            return peers.hear_leader(&mut turn, (from, &word), pipeline);
        }
        let begins = !pipeline.leads();
        let origin = Origin { node: from, incarnation: word.life };
        match peers.hear_guest(&mut turn, (from, word), origins, begins) {
            Brought::Nothing => {}
            Brought::Item(Item::Records { number, memory, range }) => {
                let stamp = Stamp { origin, number };
                let is_new = peers.guests.is_new(from, number) && number > origins.recorded(origin);
                let until = match is_new {
                    true => pipeline.take_in(now, stamp, super::super::Records { memory, range }),
                    false => pipeline.next(),
                };
                peers.guests.took(from, until);
            }
            Brought::Item(item) => panic!("nobody brought {item:?}"),
        }
    }

    /// A batch is agreed on: it is applied as a log applies it.
    fn apply(&mut self, mut records: &[u8]) {
        let mut counts = true;
        while let Some((kind, record, rest)) = record::split(records) {
            match kind {
                Kind::Origin => counts = self.origins.take(Stamp::read(record).expect("a stamp")),
                Kind::Close if counts => self.applied.push(Close::read(record).expect("ours").id.0),
                _ => {}
            }
            records = rest;
        }
        if self.pipeline.follows() && self.peers.visits() {
            return;
        }
        let outbox = self.pipeline.outbox_mut();
        let recorded = outbox.take_recorded(self.origins.recorded(outbox.origin()));
        self.peers.are_done(recorded, &mut self.post);
    }

    /// Gives out what is open, if nothing is under way.
    fn give_out(&mut self, now: Now) {
        if self.out.is_empty() && self.pipeline.due(now, &Limits::default()) == Due::Write {
            self.pipeline.give_out(now, &mut self.spare, &mut self.out);
        }
    }

    /// The first batch that is under way is agreed on.
    fn agree(&mut self) -> Option<Sealed> {
        let batch = (!self.out.is_empty()).then(|| self.out.remove(0))?;
        let name = FileName::new(FileKind::Journal, 1);
        let place =
            Place { file: FileId(1), name, offset: batch.base.0, len: batch.len as u64, crc: batch.crc };
        self.pipeline.written(batch.base, place);
        self.pipeline.agreed(batch.next());
        let (closed, _) = self.pipeline.take_committed().expect("it is the next");
        assert_eq!(closed.sealed.base, batch.base);
        self.apply(batch.records());
        closed.waiters.iter().for_each(|waiter| self.post.confirm(waiter));
        self.pipeline.begins();
        Some(batch)
    }

    /// The publishes that were confirmed.
    fn confirmed(&mut self, into: &mut Vec<u64>) {
        let mut events = crate::event::Events::default();
        self.post.take_events(&mut events);
        for (port, event) in events.list {
            let Event::Confirmed { publisher: 1, first, last } = event else { panic!("{port:?} {event:?}") };
            into.extend(first..=last);
        }
    }
}

struct Bench {
    dice: Random,
    now: Now,
    limits: Limits,
    sides: [Side; 2],
    /// By their number, the side they go to, and the sender.
    under_way: Vec<(usize, NodeNo, LogWord)>,
    published: [u64; 2],
    confirmed: [Vec<u64>; 2],
    is_calm: bool,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let mut dice = Random::new(seed);
        let limits = Limits {
            visit_items_max: 1 + dice.below(6),
            visit_bytes_max: 1 + dice.below(200) as usize,
            outbox_parcels_max: 1 + dice.below(5) as usize,
            ..Limits::default()
        };
        let now = Now::at_ms(1_000);
        let mut sides = [Side::new(1, 2, 7), Side::new(2, 1, 9)];
        sides[0].lead(now, &limits);
        sides[0].pipeline.begins();
        sides[1].peers.heed_leader(Some(NodeNo(1)));
        let (under_way, published, confirmed) = Default::default();
        Bench { dice, now, limits, sides, under_way, published, confirmed, is_calm: false }
    }

    /// Publishes of the two sides are apart by their lowest bit.
    fn publish(&mut self, at: usize) {
        self.published[at] += 1;
        self.sides[at].publish(self.now, 2 * self.published[at] + at as u64);
    }

    fn leader(&self) -> Option<usize> {
        self.sides.iter().position(|side| !side.pipeline.follows())
    }

    /// The sides end their turns, and what they say is on its way, or lost.
    fn turn(&mut self) {
        let Bench { dice, now, limits, sides, under_way, confirmed, is_calm, .. } = self;
        now.mono_ns += dice.below(40) * base::time::NS_PER_MS;
        for (at, side) in sides.iter_mut().enumerate() {
            let waits = side.peers.waits_for_claims(*now);
            if side.pipeline.is_beginning() && !waits && side.pipeline.begins() {
                assert!(side.peers.take_claims().is_empty(), "nobody consumes");
            }
            side.give_out(*now);
            let recorded = side.origins.recorded(side.pipeline.outbox().origin());
            let replica = (&mut side.pipeline, recorded);
            side.peers.turn(*now, LogIndex(0), replica, (limits, &mut side.post));
            for (to, word) in side.post.words.drain(..) {
                let times = if *is_calm { 1 } else { [0, 1, 1, 2][dice.below(4) as usize] };
                let to = usize::from(to.0) - 1;
                (0..times).for_each(|_| under_way.push((to, side.node, word.clone())));
            }
            side.confirmed(&mut confirmed[at]);
        }
    }

    /// A word arrives, whichever it is.
    fn arrive(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let at = if self.is_calm { 0 } else { self.dice.below(self.under_way.len() as u64) as usize };
        let (to, from, word) = self.under_way.remove(at);
        self.sides[to].hear(self.now, &self.limits, from, word);
    }

    /// The batch that is under way is agreed on, at both.
    fn agree(&mut self) {
        let Some(leader) = self.leader() else { return };
        if let Some(batch) = self.sides[leader].agree() {
            let other = &mut self.sides[1 - leader];
            other.apply(batch.records());
            other.pipeline.followed(batch.next());
        }
    }

    /// The leader leads no more: what is under way is agreed on all the same, or a part of it, or nothing. Then one of the two
    /// leads.
    fn change(&mut self) {
        let Some(before) = self.leader() else { return };
        let batches = std::mem::take(&mut self.sides[before].out);
        self.sides[before].resign();
        for batch in batches {
            if !self.dice.one_in(2) {
                break;
            }
            for side in &mut self.sides {
                side.apply(batch.records());
                side.pipeline.followed(batch.next());
            }
        }
        let next = self.dice.below(2) as usize;
        self.sides[next].lead(self.now, &self.limits);
        self.sides[1 - next].peers.heed_leader(Some(NodeNo(next as u16 + 1)));
    }

    fn run(mut self, steps: u64) {
        for _ in 0..steps {
            match self.dice.below(12) {
                0 | 1 => self.publish(0),
                2 | 3 => self.publish(1),
                4..=7 => self.arrive(),
                8 => self.agree(),
                9 if self.dice.one_in(8) => self.change(),
                _ => self.turn(),
            }
        }
        self.is_calm = true;
        for _ in 0..2_000 {
            self.turn();
            (0..20).for_each(|_| self.arrive());
            self.agree();
        }
        let [one, other] = &self.sides;
        assert_eq!(one.applied, other.applied);
        for at in 0..2 {
            let all: Vec<u64> = (1..=self.published[at]).map(|number| 2 * number + at as u64).collect();
            let applied: Vec<u64> =
                one.applied.iter().copied().filter(|number| number % 2 == at as u64).collect();
            assert_eq!(applied, all, "each once, and in order");
            assert_eq!(self.confirmed[at], all, "each is confirmed once, and in order");
        }
        for side in &self.sides {
            assert!(side.pipeline.outbox().is_empty(), "{}", side.pipeline.outbox().in_words());
        }
    }
}

/// A node that was started with fewer shards may hear of connections of those it had.
#[test]
fn events_for_shards_that_are_not_there_go_nowhere() {
    let mut side = Side::new(1, 2, 7);
    let mut events = crate::event::Events::default();
    let far = PortId::here(ShardId(7), 0, 1);
    events.confirm(far, 1, 1, 1);
    events.confirm(crate::mail::own_port(ShardId(7)), 0, 1, 1);
    events.confirm(PORT, 1, 2, 3);
    side.post.bring(&events, |_, _| true);
    let mut confirmed = Vec::new();
    side.confirmed(&mut confirmed);
    assert_eq!(confirmed, [2, 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_brought_is_recorded_once_and_in_order(seed: u64, steps in 0u64..600) {
        Bench::new(seed).run(steps);
    }
}
