//! Consumers that connections of this node have at the queues of a log which nodes agree on: what they asked for, what was
//! delivered to them, and what they hold. From this the next leader hears what it cannot know.
//!
//! What a command changes counts once the leader is done with it: until then it is brought again, to each leader that comes,
//! behind the claims. While this node leads, deliveries are with its queues, and stand here once it has resigned.
//! Not here: consumers of streams, which any replica serves, and browsers, which hold nothing.

use crate::event::{Event, Events, LEASED, TRACED};
use crate::request::{Credit, Held, NewConsumer, QueueCommand, Reply};
use crate::selector::Selector;
use crate::word::Claim;
use base::RangeSet;
use base::id::{PortId, QueueId, QueueSeq};
use base::ranges::Range;
use message::record::SeqRange;
use std::collections::{BTreeMap, BTreeSet};

/// A consumer, or one that stands for gets.
#[derive(Debug)]
struct Seat {
    queue: QueueId,
    /// As it was asked for; none: it stands for gets, or was cancelled, and only holds.
    consumer: Option<NewConsumer>,
    selector: Option<Selector>,
    /// The token of the answer that it waits for: until then its command opens it.
    token: Option<u32>,
    /// The limit of its link's credit.
    limit: Option<u32>,
    is_paused: bool,
    is_active: bool,
    delivered: u32,
    held: RangeSet,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    seats: BTreeMap<(PortId, u32), Seat>,
    /// Gets whose message is settled at once, by their tokens.
    settled_gets: BTreeSet<(PortId, u32)>,
}

impl Edge {
    /// Nobody consumes.
    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// There is such a consumer.
    pub(crate) fn has(&self, port: PortId, handle: u32) -> bool {
        self.seats.contains_key(&(port, handle))
    }

    /// A connection asks for something; `is_here`: this node leads, and has the answer.
    pub(crate) fn asked(&mut self, port: PortId, queue: QueueId, command: &QueueCommand, is_here: bool) {
        let wanted = |token: u32| Some(token).filter(|_| !is_here);
        let seat = |consumer, selector, token| Seat {
            queue,
            consumer,
            selector,
            token,
            limit: None,
            is_paused: false,
            is_active: false,
            delivered: 0,
            held: RangeSet::new(),
        };
        match command {
            QueueCommand::Consume { consumer, .. } | QueueCommand::Select { consumer, .. }
                if consumer.browses.is_some() => {}
            QueueCommand::Consume { token, handle, consumer } => {
                self.seats.insert((port, *handle), seat(Some(*consumer), None, wanted(*token)));
            }
            QueueCommand::Select { token, handle, consumer, selector } => {
                let selector = Some(selector.clone());
                self.seats.insert((port, *handle), seat(Some(*consumer), selector, wanted(*token)));
            }
            QueueCommand::Get { token, settled: true, .. } if !is_here => {
                self.settled_gets.insert((port, *token));
            }
            QueueCommand::Get { handle, .. } | QueueCommand::Pick { handle, .. } => {
                self.seats.entry((port, *handle)).or_insert_with(|| seat(None, None, None));
            }
            _ => {}
        }
    }

    /// The leader is done with a command.
    pub(crate) fn done(&mut self, port: PortId, command: &QueueCommand) {
        let at = |handle: u32| (port, handle);
        match command {
            QueueCommand::Cancel { handle, held, .. } => match held {
                Held::Kept => {
                    if let Some(seat) = self.seats.get_mut(&at(*handle)) {
                        seat.consumer = None;
                    }
                    self.forget_idle(at(*handle));
                }
                Held::Fails | Held::GoesBack => _ = self.seats.remove(&at(*handle)),
            },
            QueueCommand::Credit { handle, limit, .. } => {
                if let Some(seat) = self.seats.get_mut(&at(*handle)) {
                    seat.limit = Some(*limit);
                    seat.consumer.iter_mut().for_each(|consumer| consumer.credit = Credit::Link);
                }
            }
            QueueCommand::Prefetch { handle, prefetch } => {
                if let Some(seat) = self.seats.get_mut(&at(*handle)) {
                    let credit = Credit::Prefetch(*prefetch);
                    seat.consumer.iter_mut().for_each(|consumer| consumer.credit = credit);
                }
            }
            QueueCommand::Pause { handle, paused } => {
                if let Some(seat) = self.seats.get_mut(&at(*handle)) {
                    seat.is_paused = *paused;
                }
            }
            QueueCommand::Settle { handle, range, .. } => self.let_go(at(*handle), &[*range]),
            QueueCommand::Accept { handle, ranges } => self.let_go(at(*handle), ranges),
            QueueCommand::Unsent { handle, range } => {
                self.let_go(at(*handle), &[*range]);
                if let Some(seat) = self.seats.get_mut(&at(*handle)) {
                    let count = range.last.0 - range.first.0 + 1;
                    seat.delivered = seat.delivered.wrapping_sub(count as u32);
                }
            }
            QueueCommand::LeaseOver(over) => self.let_go(at(over.handle), &over.over),
            QueueCommand::Modify(modified) => self.let_go(at(modified.handle), &[modified.range]),
            QueueCommand::Leave => {
                let theirs = self.seats.range((port, 0)..=(port, u32::MAX));
                let theirs: Vec<_> = theirs.map(|(member, _)| *member).collect();
                theirs.iter().for_each(|member| _ = self.seats.remove(member));
                self.settled_gets.retain(|(of, _)| *of != port);
            }
            _ => {}
        }
    }

    /// Positions are not held any more.
    fn let_go(&mut self, member: (PortId, u32), ranges: &[SeqRange]) {
        if let Some(seat) = self.seats.get_mut(&member) {
            for range in ranges.iter().filter(|range| range.first <= range.last) {
                seat.held.remove(numbers(*range), |_| {});
            }
            self.forget_idle(member);
        }
    }

    /// One that stands for gets goes with the last message it holds.
    fn forget_idle(&mut self, member: (PortId, u32)) {
        let is_idle = |seat: &Seat| seat.consumer.is_none() && seat.held.is_empty();
        if self.seats.get(&member).is_some_and(is_idle) {
            self.seats.remove(&member);
        }
    }

    /// A consumer has so much of its own, while this node led: how many were delivered to it, and what it holds.
    pub(crate) fn keep(
        &mut self,
        (port, handle): (PortId, u32),
        delivered: u32,
        held: impl Iterator<Item = SeqRange>,
    ) {
        if let Some(seat) = self.seats.get_mut(&(port, handle)) {
            seat.delivered = delivered;
            seat.held.clear();
            held.for_each(|range| _ = seat.held.insert(numbers(range)));
        }
    }

    /// Those that this is not true of are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(QueueId, PortId, u32) -> bool) {
        self.seats.retain(|(port, handle), seat| is_there(seat.queue, *port, *handle));
    }

    /// The leader has told these.
    pub(crate) fn heard(&mut self, events: &Events) {
        for (port, event) in &events.list {
            self.heard_one(*port, event, events);
        }
    }

    fn heard_one(&mut self, port: PortId, event: &Event, events: &Events) {
        let plain = |consumer: u32| (port, consumer & !(TRACED | LEASED));
        match event {
            Event::Reply { token, reply } => {
                self.settled_gets.remove(&(port, *token));
                let mut theirs = self.seats.range_mut((port, 0)..=(port, u32::MAX));
                let Some((member, seat)) = theirs.find(|(_, seat)| seat.token == Some(*token)) else {
                    return;
                };
                let member = *member;
                match reply {
                    Ok(Reply::Consuming) => seat.token = None,
                    _ => _ = self.seats.remove(&member),
                }
            }
            Event::Deliver { consumer, items, .. } => {
                if let Some(seat) = self.seats.get_mut(&plain(*consumer)) {
                    seat.delivered = seat.delivered.wrapping_add(items.len() as u32);
                    if seat.consumer.is_none_or(|consumer| !consumer.settled) {
                        for item in &events.items[items.start as usize..items.end as usize] {
                            seat.held.insert(Range { first: item.seq.0, last: item.seq.0 });
                        }
                    }
                }
            }
            Event::Got { token, consumer, item, .. } => {
                if !self.settled_gets.remove(&(port, *token))
                    && let Some(seat) = self.seats.get_mut(&plain(*consumer))
                {
                    let seq = events.items[*item as usize].seq.0;
                    seat.held.insert(Range { first: seq, last: seq });
                }
            }
            Event::Drained { consumer, unused } => {
                if let Some(seat) = self.seats.get_mut(&plain(*consumer)) {
                    seat.delivered = seat.delivered.wrapping_add(*unused);
                }
            }
            Event::Active { consumer, active } => {
                if let Some(seat) = self.seats.get_mut(&plain(*consumer)) {
                    seat.is_active = *active;
                }
            }
            Event::TimedOut { consumer, range, .. } => self.let_go(plain(*consumer), &[*range]),
            Event::Cancelled { consumer, .. } => _ = self.seats.remove(&plain(*consumer)),
            _ => {}
        }
    }

    /// What the next leader is to know, of those that have their answer.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim> + '_ {
        let known = self.seats.iter().filter(|(_, seat)| seat.token.is_none());
        known.map(|((port, handle), seat)| Claim {
            queue: seat.queue,
            port: *port,
            handle: *handle,
            consumer: seat.consumer,
            selector: seat.selector.clone(),
            limit: seat.limit,
            delivered: seat.delivered,
            is_paused: seat.is_paused,
            is_active: seat.is_active,
            held: seat.held.iter().map(positions).collect(),
        })
    }
}

fn positions(range: Range) -> SeqRange {
    SeqRange { first: QueueSeq(range.first), last: QueueSeq(range.last) }
}

fn numbers(range: SeqRange) -> Range {
    Range { first: range.first.0, last: range.last.0 }
}
