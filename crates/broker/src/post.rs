//! Where a shard puts what leaves it this turn: events for its own connections, mail for other shards, what it has to report.

use crate::ahead::Ahead;
use crate::catalog::Refusal;
use crate::damages::Damages;
use crate::event::{Event, Events, Item};
use crate::mail::{Fate, Handed, Heard, Mail, Waiter};
use crate::notices::Notices;
use crate::parcels::Parcels;
use crate::reply::Replies;
use crate::request::{Placement, Reply};
use crate::shard::PLANNER;
use crate::trays::Trays;
use crate::whereabouts::Whereabouts;
use crate::word::LogWord;
use base::id::{LogId, NodeNo, PortId, QueueId, ShardId};
use base::{Buffer, Memory};
use routing::ExchangeId;
use std::collections::VecDeque;
use std::ops::Range;

/// The queue of a refusal that is for no client.
const NO_QUEUE: QueueId = QueueId(u64::MAX);

/// Bytes of records in one piece of penned mail, beyond which the next begins.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Mail for a log that is between two shards, or that takes it in. How much there is, is bounded for records as for all that are
/// under way; it is taken in piece by piece, so that nobody waits for all of it.
#[derive(Debug)]
struct Pen {
    log: LogId,
    mail: VecDeque<Mail>,
    /// The mail that came last, to which records may be added.
    last: Vec<Mail>,
    /// Pieces that were left when some were taken out last; none: none were yet.
    left: Option<usize>,
}

impl Pen {
    /// Where the next piece goes, or records that are added to the last one.
    fn last(&mut self) -> &mut Vec<Mail> {
        let is_open =
            |mail: &Mail| matches!(mail, Mail::Append { records, .. } if records.len() < PIECE_BYTES_MAX);
        let open = usize::from(self.last.last().is_some_and(is_open));
        self.mail.extend(self.last.drain(..self.last.len() - open));
        &mut self.last
    }

    /// All of it.
    fn close(&mut self) -> &mut VecDeque<Mail> {
        self.mail.extend(self.last.drain(..));
        &mut self.mail
    }
}

/// A queue that a connection may delete, and the token of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayDelete {
    pub(crate) queue: QueueId,
    pub(crate) port: PortId,
    pub(crate) token: u32,
    pub(crate) messages: u64,
}

/// The outgoing tray.
#[derive(Debug)]
pub(crate) struct Post {
    me: ShardId,
    /// Where what is for a log goes.
    pub(crate) whereabouts: Whereabouts,
    /// Events for the connections of each shard; this shard's own are handed out, the others' become mail.
    events: Vec<Events>,
    mail: Vec<Vec<Mail>>,
    /// How far this shard is in the changes of the catalog, and the others know that it is.
    pub(crate) ahead: Ahead,
    /// Mail that waits until it is known where its log is.
    pens: Vec<Pen>,
    /// Records in the mail, and in pens.
    pub(crate) parcels: Parcels,
    /// The words of logs about publishes of the shard's own.
    pub(crate) heard: Vec<Heard>,
    /// On the shard that plans: messages that exchanges are to remember, as records for no queue.
    pub(crate) to_remember: VecDeque<(Vec<ExchangeId>, Buffer)>,
    /// Events for connections of nodes that visit this one.
    guests: Trays,
    /// Words about logs to other nodes.
    pub(crate) words: Vec<(NodeNo, LogWord)>,
    /// Queues that connections of this node's may delete, as other nodes say that lead their logs.
    pub(crate) may_delete: Vec<MayDelete>,
    /// Other nodes know of a later life of this node than the one it lives.
    pub(crate) outlived: Option<u64>,
    /// Damage that was found.
    pub(crate) damages: Damages,
    /// Messages that a rule let go of.
    pub(crate) notices: Notices,
}

impl Post {
    /// The tray of shard `me`.
    pub(crate) fn new(me: ShardId, placement: Placement) -> Post {
        let shards = placement.shards;
        Post {
            me,
            whereabouts: Whereabouts::at_start(placement),
            events: (0..shards).map(|_| Events::default()).collect(),
            mail: (0..shards).map(|_| Vec::new()).collect(),
            ahead: Ahead::new(shards),
            pens: Vec::new(),
            parcels: Parcels::new(shards),
            heard: Vec::new(),
            to_remember: VecDeque::new(),
            guests: Trays::default(),
            words: Vec::new(),
            may_delete: Vec::new(),
            outlived: None,
            damages: Damages::default(),
            notices: Notices::default(),
        }
    }

    /// Where events for a connection go.
    #[inline]
    fn tray(&mut self, port: PortId) -> &mut Events {
        match port.node == NodeNo::ONLY {
            true => &mut self.events[port.shard.0 as usize],
            false => self.guests.tray(port.node),
        }
    }

    /// The shard that this is the tray of.
    pub(crate) fn me(&self) -> ShardId {
        self.me
    }

    #[inline]
    pub(crate) fn deliver(&mut self, port: PortId, consumer: u32, memory: &Memory, item: Item) {
        self.tray(port).deliver(port, consumer, memory, item);
    }

    #[inline]
    pub(crate) fn deliver_all(
        &mut self,
        port: PortId,
        consumer: u32,
        memory: &Memory,
        items: impl Iterator<Item = Item>,
    ) {
        self.tray(port).deliver_all(port, consumer, memory, items);
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
        let events = self.tray(port);
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
        let events = self.tray(port);
        let memory = events.memory(memory);
        let at = events.items.len() as u32;
        events.items.push(item);
        events.list.push((port, Event::Got { token, consumer, memory, item: at, ready }));
    }

    /// A barrier for a consumer.
    #[cold]
    pub(crate) fn deliver_barrier(&mut self, port: PortId, consumer: u32, memory: &Memory, item: Item) {
        let events = self.tray(port);
        let memory = events.memory(memory);
        let at = events.items.len() as u32;
        events.items.push(item);
        events.list.push((port, Event::Barrier { consumer, memory, item: at }));
    }

    /// A held message for a browser.
    #[cold]
    pub(crate) fn show(&mut self, port: PortId, browser: u32, memory: &Memory, item: Item) {
        let events = self.tray(port);
        let memory = events.memory(memory);
        let at = events.items.len() as u32;
        events.items.push(item);
        events.list.push((port, Event::Shown { consumer: browser, memory, item: at }));
    }

    #[inline]
    pub(crate) fn confirm(&mut self, waiter: &Waiter) {
        if waiter.is_own() {
            return self.answer(waiter, Fate::Safe);
        }
        let events = self.tray(waiter.port);
        events.confirm(waiter.port, waiter.publisher, waiter.first, waiter.last);
    }

    #[cold]
    pub(crate) fn refuse(&mut self, waiter: &Waiter, queue: QueueId) {
        if waiter.is_own() {
            return self.answer(waiter, Fate::Refused);
        }
        let events = self.tray(waiter.port);
        events.refuse(waiter.port, waiter.publisher, waiter.first, waiter.last, queue);
    }

    /// Tells a shard of publishes of its own.
    #[cold]
    pub(crate) fn answer(&mut self, waiter: &Waiter, fate: Fate) {
        let heard = Heard { first: waiter.first, last: waiter.last, fate };
        let to = waiter.port.shard;
        if waiter.port.node != NodeNo::ONLY {
            let (publisher, first, last) = (waiter.publisher, waiter.first, waiter.last);
            let event = match fate {
                Fate::Safe => Event::Confirmed { publisher, first, last },
                Fate::Refused | Fate::Stopped => Event::Refused { publisher, first, last, queue: NO_QUEUE },
            };
            return self.event(waiter.port, event);
        }
        if to == self.me {
            return self.heard.push(heard);
        }
        let Heard { first, last, fate } = heard;
        self.send(to, Mail::Answered { first, last, fate });
    }

    pub(crate) fn event(&mut self, port: PortId, event: Event) {
        self.tray(port).list.push((port, event));
    }

    pub(crate) fn reply(&mut self, port: PortId, token: u32, reply: Result<Reply, Refusal>) {
        self.event(port, Event::Reply { token, reply });
    }

    /// Puts mail for another shard; what is for this one is the caller's to do at once.
    pub(crate) fn send(&mut self, to: ShardId, mail: Mail) {
        debug_assert!(to != self.me, "a shard does not write to itself");
        self.mail[to.0 as usize].push(mail);
    }

    /// Puts mail for the shard that plans changes of the catalog; on that shard it is the caller's to do at once.
    pub(crate) fn send_to_planner(&mut self, mail: Mail) {
        self.send(PLANNER, mail);
    }

    /// Puts mail for the shard that has `log`, which is another one, or for the log itself while that is between two shards.
    pub(crate) fn send_to_log(&mut self, log: LogId, mail: Mail) {
        let Post { me, whereabouts, mail: trays, pens, .. } = self;
        tray(*me, whereabouts, trays, pens, log).push(mail);
    }

    /// As [`Post::send_to_log`], of a record by itself.
    pub(crate) fn send_record(&mut self, log: LogId, bytes: usize, mail: Mail) {
        self.parcels.sent(bytes);
        self.send_to_log(log, mail);
    }

    /// Adds what `write` writes to the records for a log of another shard, with the waiter for them. `flush`: somebody
    /// waits for the disk.
    #[inline]
    pub(crate) fn add_records(
        &mut self,
        log: LogId,
        flush: bool,
        write: impl FnOnce(&mut Buffer, &mut Vec<Waiter>),
    ) {
        let Post { me, whereabouts, mail, pens, .. } = self;
        let mail = tray(*me, whereabouts, mail, pens, log);
        // In a pen may be what another shard sent, too.
        if !matches!(mail.last(), Some(Mail::Append { from, log: last, .. }) if *last == log && from == me) {
            let (from, records, waiters) = (self.me, self.parcels.buffer(), Vec::new());
            mail.push(Mail::Append { from, log, records, waiters, needs_flush: false });
        }
        if let Some(Mail::Append { records, waiters, needs_flush, .. }) = mail.last_mut() {
            let before = records.len();
            write(records, waiters);
            self.parcels.sent(records.len() - before);
            *needs_flush |= flush;
        }
    }

    /// Tells other shards that the parcels they sent are taken in.
    pub(crate) fn acknowledge(&mut self) {
        // Records that waited here for a log that came here were sent to nobody.
        let mut own = 0;
        for (to, bytes, buffer) in self.parcels.acknowledge() {
            match to == self.me {
                true => own += bytes,
                false => self.mail[to.0 as usize].push(Mail::Taken { bytes, buffer }),
            }
        }
        self.parcels.taken(own, None, 0);
    }

    /// Adds to the replies for reply consumers of another shard.
    pub(crate) fn add_reply(&mut self, owner: ShardId, add: impl FnOnce(&mut Replies)) {
        let mail = &mut self.mail[owner.0 as usize];
        if !matches!(mail.last(), Some(Mail::Replies { .. })) {
            mail.push(Mail::Replies { from: self.me, replies: Replies::default() });
        }
        if let Some(Mail::Replies { replies, .. }) = mail.last_mut() {
            let before = replies.records.len();
            add(replies);
            self.parcels.sent(replies.records.len() - before);
        }
    }

    /// Whether there is a shard of this number.
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        usize::from(shard.0) < self.mail.len()
    }

    // ---- nodes that visit this one

    /// A tray for the events of a guest's connections, and the node under which they are known here.
    pub(crate) fn open_tray(&mut self) -> NodeNo {
        self.guests.open()
    }

    /// Events for a guest go nowhere from now on.
    pub(crate) fn close_tray(&mut self, alias: NodeNo) {
        self.guests.close(alias);
    }

    /// Takes the events for a guest's connections, if there are any.
    pub(crate) fn take_tray(&mut self, alias: NodeNo) -> Option<Events> {
        self.guests.take(alias)
    }

    /// Events that another node had for connections of this one: those that `is_meant`, and that are for a shard that there is.
    pub(crate) fn bring(&mut self, events: &Events, mut is_meant: impl FnMut(PortId, &Event) -> bool) {
        for (port, event) in &events.list {
            let port = *port;
            if !is_meant(port, event) || !self.has(port.shard) {
                continue;
            }
            let waiter = |first, last| Waiter { port, publisher: 0, first, last };
            match event {
                Event::Confirmed { first, last, .. } if waiter(*first, *last).is_own() => {
                    self.answer(&waiter(*first, *last), Fate::Safe);
                }
                Event::Refused { first, last, .. } if waiter(*first, *last).is_own() => {
                    self.answer(&waiter(*first, *last), Fate::Refused);
                }
                Event::Reply { token, reply: Ok(Reply::MayDelete { queue, messages }) } => {
                    let (queue, token, messages) = (*queue, *token, *messages);
                    self.may_delete.push(MayDelete { queue, port, token, messages });
                }
                event => self.events[usize::from(port.shard.0)].take_over(port, event, events),
            }
        }
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

    /// Whether there are events for this shard's connections, or those of guests.
    pub(crate) fn has_events(&self) -> bool {
        !self.events[self.me.0 as usize].is_empty() || self.guests.has_any()
    }

    /// Moves the mail for shard `to` into `into`.
    pub(crate) fn take_mail(&mut self, to: ShardId, into: &mut Vec<Mail>) {
        if !self.mail[to.0 as usize].is_empty()
            && let Some(number) = self.ahead.tell(to)
        {
            into.push(Mail::Reached { number });
        }
        self.put_events(to);
        into.append(&mut self.mail[to.0 as usize]);
    }

    /// Events for another shard's connections are put behind the mail for it.
    fn put_events(&mut self, to: ShardId) {
        let events = &mut self.events[to.0 as usize];
        if !events.is_empty() {
            self.mail[to.0 as usize].push(Mail::Events(Box::new(std::mem::take(events))));
        }
    }

    // ---- logs that are handed from shard to shard

    /// A log goes from here to shard `to`: every other shard hears of that behind all events of the log.
    pub(crate) fn hand(&mut self, log: LogId, to: ShardId, handed: Handed) {
        self.others().for_each(|shard| self.put_events(shard));
        self.send(to, Mail::Handed(handed));
        for shard in self.others().filter(|shard| *shard != to) {
            self.send(shard, Mail::Follow { log, at: to });
        }
        self.settle(log, to);
    }

    /// A log that was about to leave does not: every other shard hears of that.
    pub(crate) fn stay(&mut self, log: LogId) {
        self.whereabouts.stay(log);
        for shard in self.others() {
            self.send(shard, Mail::Follow { log, at: self.me });
        }
    }

    /// The log is at shard `at` now, and what was penned for it goes there.
    pub(crate) fn settle(&mut self, log: LogId, at: ShardId) {
        self.whereabouts.settle(log, at);
        if let Some(pen) = self.pens.iter().position(|pen| pen.log == log) {
            let mut pen = self.pens.swap_remove(pen);
            self.mail[at.0 as usize].extend(pen.close().drain(..));
        }
    }

    /// Takes pieces out of the pen of a log that is here: as many as have come since the last time, and at most `most` of
    /// those that waited before, which is how it ends however much comes. How many those are is returned too.
    pub(crate) fn unpen(&mut self, log: LogId, most: usize) -> (Vec<Mail>, usize) {
        let Some(pen) = self.pens.iter_mut().find(|pen| pen.log == log) else { return Default::default() };
        let all = pen.close().len();
        let waited = pen.left.unwrap_or(all);
        let left = waited.saturating_sub(most);
        pen.left = Some(left);
        (pen.mail.drain(..all - left).collect(), waited - left)
    }

    /// Something is penned for the log.
    pub(crate) fn has_penned(&self, log: LogId) -> bool {
        self.pens.iter().any(|pen| pen.log == log && !(pen.mail.is_empty() && pen.last.is_empty()))
    }
}

/// Where mail for a log goes that is not here.
#[inline]
fn tray<'a>(
    me: ShardId,
    whereabouts: &Whereabouts,
    mail: &'a mut [Vec<Mail>],
    pens: &'a mut Vec<Pen>,
    log: LogId,
) -> &'a mut Vec<Mail> {
    match whereabouts.home(log) {
        Some(owner) => {
            debug_assert!(owner != me, "a shard does not write to itself");
            &mut mail[owner.0 as usize]
        }
        None => pen(pens, log),
    }
}

#[cold]
fn pen(pens: &mut Vec<Pen>, log: LogId) -> &mut Vec<Mail> {
    let at = pens.iter().position(|pen| pen.log == log).unwrap_or_else(|| {
        pens.push(Pen { log, mail: VecDeque::new(), last: Vec::new(), left: None });
        pens.len() - 1
    });
    pens[at].last()
}
