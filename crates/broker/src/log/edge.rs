//! Consumers that connections of this node have at the queues of a log which nodes agree on: what they asked for, what was
//! delivered to them, and what they hold. From this the next leader hears what it cannot know.
//!
//! What a command changes counts once the leader is done with it: until then it is brought again, to each leader that comes,
//! behind the claims. While this node leads, deliveries are with its queues, and stand here once it has resigned.
//! Browsers are here, and do not go on: they end with their leader. Not here: consumers of streams, which any replica serves.

use crate::event::{Event, Events, LEASED, TRACED};
use crate::request::{Credit, Held, NewConsumer, QueueCommand, Reply};
use crate::selector::Selector;
use crate::word::Claim;
use base::RangeSet;
use base::id::{PortId, QueueId, QueueSeq};
use base::ranges::Range;
use message::record::SeqRange;
use std::collections::BTreeMap;

/// A consumer of a connection that ends here, though its connection has not asked for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) queue: QueueId,
    pub(crate) port: PortId,
    pub(crate) handle: u32,
}

/// A get that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    queue: QueueId,
    handle: u32,
    /// Its message is settled at once.
    settled: bool,
}

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

impl Seat {
    fn new(
        queue: QueueId,
        consumer: Option<NewConsumer>,
        selector: Option<Selector>,
        token: Option<u32>,
    ) -> Seat {
        Seat {
            queue,
            consumer,
            selector,
            token,
            limit: None,
            is_paused: false,
            is_active: false,
            delivered: 0,
            held: RangeSet::new(),
        }
    }

    fn browses(&self) -> bool {
        self.consumer.is_some_and(|consumer| consumer.browses.is_some())
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    seats: BTreeMap<(PortId, u32), Seat>,
    /// By the tokens of their answers.
    gets: BTreeMap<(PortId, u32), Asked>,
}

impl Edge {
    /// Nobody consumes.
    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.gets.is_empty()
    }

    /// There is such a consumer.
    pub(crate) fn has(&self, port: PortId, handle: u32) -> bool {
        self.seats.contains_key(&(port, handle))
    }

    /// A connection asks for something; `is_here`: this node leads, and has the answer.
    pub(crate) fn asked(&mut self, port: PortId, queue: QueueId, command: &QueueCommand, is_here: bool) {
        let mut sit = |handle, consumer: NewConsumer, selector, token| {
            // While this node leads, the queue has its browsers, and tells them when it does no more.
            if !(is_here && consumer.browses.is_some()) {
                let token = Some(token).filter(|_| !is_here);
                self.seats.insert((port, handle), Seat::new(queue, Some(consumer), selector, token));
            }
        };
        match command {
            QueueCommand::Consume { token, handle, consumer } => sit(*handle, *consumer, None, *token),
            QueueCommand::Select { token, handle, consumer, selector } => {
                sit(*handle, *consumer, Some(selector.clone()), *token);
            }
            QueueCommand::Get { token, handle, settled, .. } if !is_here => {
                self.gets.insert((port, *token), Asked { queue, handle: *handle, settled: *settled });
            }
            QueueCommand::Pick { token, handle, .. } if !is_here => {
                self.gets.insert((port, *token), Asked { queue, handle: *handle, settled: false });
            }
            // A message that comes for a get all the same goes back.
            QueueCommand::Cancel { handle, held: Held::Fails | Held::GoesBack, .. } => {
                self.gets.retain(|(of, _), get| (*of, get.handle) != (port, *handle));
            }
            QueueCommand::Leave => self.gets.retain(|(of, _), get| (*of, get.queue) != (port, queue)),
            _ => {}
        }
    }

    /// The leader is done with a command.
    pub(crate) fn done(&mut self, port: PortId, queue: QueueId, command: &QueueCommand) {
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
                let is_its =
                    |member: &(PortId, u32), seat: &mut Seat| (member.0, seat.queue) == (port, queue);
                self.seats.extract_if((port, 0)..=(port, u32::MAX), is_its).for_each(drop);
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

    /// This node leads no more. Of each consumer that its connections have it is said how many were delivered to it, what it holds,
    /// and whether it is the active one; others that were here are gone. What is to be asked of the next leader.
    pub(crate) fn keep(
        &mut self,
        kept: impl Iterator<Item = (QueueId, Kept)>,
    ) -> Vec<(PortId, QueueId, QueueCommand)> {
        let mut before = std::mem::take(&mut self.seats);
        let mut asks = Vec::new();
        for (queue, Kept { port, handle, delivered, is_active, drains, held }) in kept {
            let seat = before.remove(&(port, handle)).filter(|seat| seat.queue == queue);
            let mut seat = seat.unwrap_or_else(|| Seat::new(queue, None, None, None));
            (seat.delivered, seat.is_active) = (delivered, is_active);
            seat.held.clear();
            held.into_iter().for_each(|range| _ = seat.held.insert(numbers(range)));
            if let Some(limit) = seat.limit.filter(|_| drains) {
                asks.push((port, queue, QueueCommand::Credit { handle, limit, drain: true, echo: false }));
            }
            if seat.consumer.is_some() || !seat.held.is_empty() {
                self.seats.insert((port, handle), seat);
            }
        }
        asks
    }

    /// A queue is gone, and its consumers with it.
    pub(crate) fn forget_queue(&mut self, queue: QueueId) -> Vec<Over> {
        self.gets.retain(|_, get| get.queue != queue);
        self.take(|seat| seat.queue == queue)
    }

    /// Browsers that another leader had opened: the next knows nothing of them.
    pub(crate) fn end_browsers(&mut self) -> Vec<Over> {
        self.take(|seat| seat.browses() && seat.token.is_none())
    }

    /// Takes these out: those of them that are consumers.
    fn take(&mut self, goes: impl Fn(&Seat) -> bool) -> Vec<Over> {
        let out = self.seats.extract_if(.., |_, seat| goes(seat));
        let consumers = out.filter(|(_, seat)| seat.consumer.is_some());
        consumers.map(|((port, handle), seat)| Over { queue: seat.queue, port, handle }).collect()
    }

    /// The leader has told this, one of `events`. False: it is for a consumer that is not there any more.
    pub(crate) fn hear(&mut self, port: PortId, event: &Event, events: &Events) -> bool {
        let is_known = event.consumer().is_none_or(|consumer| self.has(port, consumer));
        if is_known {
            self.note(port, event, events);
        }
        is_known
    }

    fn note(&mut self, port: PortId, event: &Event, events: &Events) {
        let plain = |consumer: u32| (port, consumer & !(TRACED | LEASED));
        match event {
            Event::Reply { token, reply } => {
                self.gets.remove(&(port, *token));
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
                if let Some(Asked { queue, settled: false, .. }) = self.gets.remove(&(port, *token)) {
                    let seq = events.items[*item as usize].seq.0;
                    let getter = || Seat::new(queue, None, None, None);
                    let seat = self.seats.entry((port, plain(*consumer).1)).or_insert_with(getter);
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

    /// The words to the next leader about consumers that have their answer.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim> + '_ {
        let goes_on = |seat: &Seat| seat.token.is_none() && !seat.browses();
        let known = self.seats.iter().filter(move |(_, seat)| goes_on(seat));
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

/// A consumer as it was when its leader ceased to lead.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) port: PortId,
    pub(crate) handle: u32,
    /// Messages that were delivered to it since it came, wrapping.
    pub(crate) delivered: u32,
    pub(crate) is_active: bool,
    /// It is to hear when nothing is left for its credit.
    pub(crate) drains: bool,
    pub(crate) held: Vec<SeqRange>,
}

fn positions(range: Range) -> SeqRange {
    SeqRange { first: QueueSeq(range.first), last: QueueSeq(range.last) }
}

fn numbers(range: SeqRange) -> Range {
    Range { first: range.first.0, last: range.last.0 }
}

#[cfg(test)]
mod tests;
