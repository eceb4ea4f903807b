//! Where a shard puts what leaves it this turn: events for its own connections, mail for other shards, what it has to report.

use crate::catalog::Refusal;
use crate::damages::Damages;
use crate::dead_letters::{Heard, is_own};
use crate::event::{Event, Events, Item};
use crate::mail::{Fate, Mail, Waiter};
use crate::notices::Notices;
use crate::request::Reply;
use base::Memory;
use base::id::{PortId, QueueId, ShardId};
use std::ops::Range;

/// The outgoing tray.
#[derive(Debug)]
pub(crate) struct Post {
    me: ShardId,
    /// Events for the connections of each shard; this shard's own are handed out, the others' become mail.
    events: Vec<Events>,
    mail: Vec<Vec<Mail>>,
    /// The words of logs about publishes of the shard's own.
    pub(crate) heard: Vec<Heard>,
    /// Damage that was found.
    pub(crate) damages: Damages,
    /// Messages that a rule let go of.
    pub(crate) notices: Notices,
}

impl Post {
    pub(crate) fn new(me: ShardId, shards: u16) -> Post {
        Post {
            me,
            events: (0..shards).map(|_| Events::default()).collect(),
            mail: (0..shards).map(|_| Vec::new()).collect(),
            heard: Vec::new(),
            damages: Damages::default(),
            notices: Notices::default(),
        }
    }

    #[inline]
    pub(crate) fn deliver(&mut self, port: PortId, consumer: u32, memory: &Memory, item: Item) {
        self.events[port.shard.0 as usize].deliver(port, consumer, memory, item);
    }

    #[inline]
    pub(crate) fn deliver_all(
        &mut self,
        port: PortId,
        consumer: u32,
        memory: &Memory,
        items: impl Iterator<Item = Item>,
    ) {
        self.events[port.shard.0 as usize].deliver_all(port, consumer, memory, items);
    }

    /// A chunk for a subscription.
    pub(crate) fn chunk(
        &mut self,
        port: PortId,
        subscription: u32,
        memory: &Memory,
        bytes: Range<u32>,
        (committed_chunk_id, asks): (u64, bool),
    ) {
        let events = &mut self.events[port.shard.0 as usize];
        let memory = events.memory(memory);
        let event = Event::Chunk { subscription, memory, bytes, committed_chunk_id, asks };
        events.list.push((port, event));
    }

    pub(crate) fn got(
        &mut self,
        port: PortId,
        token: u32,
        consumer: u32,
        memory: &Memory,
        item: Item,
        ready: u64,
    ) {
        let events = &mut self.events[port.shard.0 as usize];
        let memory = events.memory(memory);
        let at = events.items.len() as u32;
        events.items.push(item);
        events.list.push((port, Event::Got { token, consumer, memory, item: at, ready }));
    }

    #[inline]
    pub(crate) fn confirm(&mut self, waiter: &Waiter) {
        if is_own(waiter) {
            return self.answer(waiter, Fate::Safe);
        }
        let events = &mut self.events[waiter.port.shard.0 as usize];
        events.confirm(waiter.port, waiter.publisher, waiter.first, waiter.last);
    }

    #[cold]
    pub(crate) fn refuse(&mut self, waiter: &Waiter, queue: QueueId) {
        if is_own(waiter) {
            return self.answer(waiter, Fate::Refused);
        }
        let events = &mut self.events[waiter.port.shard.0 as usize];
        events.refuse(waiter.port, waiter.publisher, waiter.first, waiter.last, queue);
    }

    /// Tells a shard of publishes of its own.
    #[cold]
    pub(crate) fn answer(&mut self, waiter: &Waiter, fate: Fate) {
        let heard = Heard { first: waiter.first, last: waiter.last, fate };
        let to = waiter.port.shard;
        if to == self.me {
            return self.heard.push(heard);
        }
        let Heard { first, last, fate } = heard;
        self.send(to, Mail::Answered { first, last, fate });
    }

    pub(crate) fn event(&mut self, port: PortId, event: Event) {
        self.events[port.shard.0 as usize].list.push((port, event));
    }

    pub(crate) fn reply(&mut self, port: PortId, token: u32, reply: Result<Reply, Refusal>) {
        self.event(port, Event::Reply { token, reply });
    }

    /// Puts mail for another shard; what is for this one is the caller's to do at once.
    pub(crate) fn send(&mut self, to: ShardId, mail: Mail) {
        debug_assert!(to != self.me, "a shard does not write to itself");
        self.mail[to.0 as usize].push(mail);
    }

    /// The last mail put for `to`, to be added to.
    pub(crate) fn last_for(&mut self, to: ShardId) -> Option<&mut Mail> {
        self.mail[to.0 as usize].last_mut()
    }

    /// Every shard but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = ShardId> + use<> {
        let me = self.me;
        (0..self.mail.len() as u16).map(ShardId).filter(move |shard| *shard != me)
    }

    /// Swaps this turn's own events out for an empty collection.
    pub(crate) fn take_events(&mut self, empty: &mut Events) {
        empty.clear();
        std::mem::swap(empty, &mut self.events[self.me.0 as usize]);
    }

    /// Whether there are events for this shard's connections.
    pub(crate) fn has_events(&self) -> bool {
        !self.events[self.me.0 as usize].is_empty()
    }

    /// Moves what is for shard `to` into `into`.
    pub(crate) fn take_mail(&mut self, to: ShardId, into: &mut Vec<Mail>) {
        let mail = &mut self.mail[to.0 as usize];
        let events = &mut self.events[to.0 as usize];
        into.append(mail);
        if !events.is_empty() {
            into.push(Mail::Events(Box::new(std::mem::take(events))));
        }
    }
}
