//! A queue at its owner: the machine, and which connections its consumers belong to.
//!
//! Costs little while idle: what only queues with consumers need is boxed and goes with the last of them.

use crate::catalog::QueueDefinition;
use crate::event::{Event, LEASED, TRACED};
use crate::latency::Watch;
use crate::message_keys::cache_ttl_ms;
use crate::placed::queue::browse::Browser;
use crate::placed::queue::features::Features;
use crate::tally::{Count, Tally};
use base::Now;
use base::hash::MapById;
use base::id::{LogIndex, PortId, QueueId, QueueSeq};
use message::record::{Enqueue, Refer, SeqRange, flag};
use queue::{Arrival, ConsumerId, Fifo, GroupKey, MessageKey, Settings};
use std::collections::VecDeque;
use std::sync::Arc;

/// A consumer's connection and the handle it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) port: PortId,
    pub(crate) handle: u32,
}

impl Member {
    /// As deliveries call it.
    pub(crate) fn shown(self, is_traced: bool) -> Member {
        let handle = if is_traced { self.handle | TRACED } else { self.handle };
        Member { handle, ..self }
    }
}

/// The marks of deliveries ([`TRACED`], [`LEASED`]).
#[derive(Clone, Copy, Debug)]
struct Marks(u32);

impl Marks {
    /// The handle that deliveries to a consumer have; what is settled at once is not leased.
    fn on(self, member: Member, counts: Option<Count>) -> u32 {
        let marks = if counts == Some(Count::DeliverNoAck) { self.0 & !LEASED } else { self.0 };
        member.handle | marks
    }
}

/// A consumer, and how many messages were handed to it since it came, and credit of its link used up, wrapping.
#[derive(Clone, Copy, Debug)]
struct Seat {
    member: Member,
    /// The number that deliveries have for it: its handle, with [`Marks`].
    shown: u32,
    delivered: u32,
    /// The count that its deliveries add to; none: it gets, and gets are counted as such.
    counts: Option<Count>,
    /// The node itself gets.
    is_own: bool,
}

/// The consumers of one queue.
#[derive(Debug, Default)]
pub(crate) struct Members {
    slots: slab::Slab<Seat>,
    by_member: MapById<Member, u32>,
    /// When it is looked next at what they hold, monotonic nanoseconds.
    looks_at: Option<u64>,
}

impl Members {
    pub(crate) fn find(&self, member: Member) -> Option<ConsumerId> {
        // One consumer is the common case and needs no hash.
        if self.slots.len() == 1
            && let Some((slot, only)) = self.slots.iter().next()
        {
            return (only.member == member).then_some(ConsumerId(slot as u32));
        }
        self.by_member.get(&member).map(|slot| ConsumerId(*slot))
    }

    /// Adds a member; it must not be one yet.
    fn add(&mut self, member: Member, marks: Marks, counts: Option<Count>) -> ConsumerId {
        let shown = marks.on(member, counts);
        let slot = self.slots.insert(Seat { member, shown, delivered: 0, counts, is_own: false }) as u32;
        let was = self.by_member.insert(member, slot);
        assert!(was.is_none(), "a handle names one consumer");
        ConsumerId(slot)
    }

    pub(crate) fn remove(&mut self, id: ConsumerId) {
        let seat = self.slots.remove(id.0 as usize);
        self.by_member.remove(&seat.member);
    }

    #[inline]
    pub(crate) fn get(&self, id: ConsumerId) -> Option<Member> {
        self.slots.get(id.0 as usize).map(|seat| seat.member)
    }

    /// A consumer, by the handle that deliveries to it have.
    #[inline]
    pub(crate) fn recipient(&self, id: ConsumerId) -> Option<Member> {
        let Seat { member, shown, .. } = self.slots.get(id.0 as usize)?;
        Some(Member { port: member.port, handle: *shown })
    }

    /// From now on deliveries to all of them have these marks.
    fn mark(&mut self, marks: Marks) {
        for (_, seat) in &mut self.slots {
            seat.shown = marks.on(seat.member, seat.counts);
        }
    }

    /// So many more were handed to it.
    #[inline]
    fn hand(&mut self, id: ConsumerId, count: u32) -> Option<Count> {
        let seat = self.slots.get_mut(id.0 as usize)?;
        seat.delivered = seat.delivered.wrapping_add(count);
        seat.counts
    }

    /// The credit that is left when `limit` is all it may have had; none where it has had more.
    pub(crate) fn credit(&self, id: ConsumerId, limit: u32) -> u32 {
        let delivered = self.slots.get(id.0 as usize).map_or(limit, |seat| seat.delivered);
        let credit = limit.wrapping_sub(delivered);
        if credit > u32::MAX / 2 { 0 } else { credit }
    }

    pub(crate) fn of_port(&self, port: PortId) -> Vec<ConsumerId> {
        let theirs = self.slots.iter().filter(|(_, seat)| seat.member.port == port);
        theirs.map(|(slot, _)| ConsumerId(slot as u32)).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Member> {
        self.slots.iter().map(|(_, seat)| seat.member)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// A delivery that was decided and waits for its bytes to be read from disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) consumer: ConsumerId,
    pub(crate) seq: QueueSeq,
    /// As in [`crate::event::Item`].
    pub(crate) marks: u32,
    /// The token of the get that took it.
    pub(crate) token: Option<u32>,
    /// It is settled once it is delivered, and not before: what is settled is nowhere to be read.
    pub(crate) settles: bool,
    /// It has annotations.
    pub(crate) is_annotated: bool,
    /// It is a barrier, which others may wait for too.
    pub(crate) is_barrier: bool,
}

impl Waiting {
    /// Of a message as most are.
    pub(crate) fn new(consumer: ConsumerId, seq: QueueSeq, marks: u32, token: Option<u32>) -> Waiting {
        Waiting { consumer, seq, marks, token, settles: false, is_annotated: false, is_barrier: false }
    }
}

/// Notices to a consumer that come behind the deliveries that were decided before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// See [`crate::Event::Drained`].
    Drained { unused: u32 },
    /// See [`crate::Event::Available`].
    Available { ready: u64 },
}

impl Notice {
    /// The event that tells the consumer with this handle.
    pub(crate) fn event(self, consumer: u32) -> Event {
        match self {
            Notice::Drained { unused } => Event::Drained { consumer, unused },
            Notice::Available { ready } => Event::Available { consumer, ready },
        }
    }
}

/// The line of deliveries that wait for bytes to be read, each with its number, and of notices that come once all of a lower number
/// are out. It ends with the last of both.
#[derive(Debug, Default)]
struct Line {
    deliveries: VecDeque<(u64, Waiting)>,
    /// The number of the next delivery.
    next: u64,
    notices: VecDeque<(u64, ConsumerId, Notice)>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.notices.is_empty()
    }

    /// Takes out the first notice, where no delivery is in front of it.
    fn take_notice(&mut self) -> Option<(ConsumerId, Notice)> {
        let first = self.deliveries.front().map_or(u64::MAX, |(number, _)| *number);
        let (_, consumer, notice) = self.notices.pop_front_if(|(number, ..)| *number <= first)?;
        Some((consumer, notice))
    }
}

/// The size of a message as limits in bytes of a queue count it, which is RabbitMQ's way: in a quorum queue with its
/// properties.
pub(crate) fn size_in(is_quorum: bool, message: &Enqueue<'_>) -> u64 {
    let head = if is_quorum { message.head.len() } else { 0 };
    (head + message.body.len()) as u64
}

/// Counts of the consumers and gets of a queue.
#[derive(Debug, Default)]
struct Counted {
    tally: Tally,
    watch: Watch,
    /// Leases that were over.
    leases_over: u64,
    /// Consumers that barriers passed over.
    passed_over: u64,
}

/// A queue of a log: its machine, and what its owner keeps of it. Where it has no owner there is the machine alone.
///
/// Records go by the machine, which has all that they need; the catalog's definition is the owner's.
#[derive(Debug)]
pub(crate) struct OwnedQueue {
    pub(crate) id: QueueId,
    /// None: it has no owner here.
    definition: Option<Arc<QueueDefinition>>,
    pub(crate) fifo: Fifo,
    /// The record is applied that opens it: other records that name it have an effect.
    pub(crate) is_open: bool,
    members: Option<Box<Members>>,
    /// Deliveries that wait for bytes, in order; while there are any, all further ones come behind them, and where consumers
    /// choose each consumer's behind its own. Boxed: eight bytes in every idle queue.
    waiting: Option<Box<Line>>,
    /// The features that only some queues have.
    pub(crate) features: Option<Box<Features>>,
    /// It is on the list of queues to dispatch.
    pub(crate) is_dirty: bool,
    /// It has had a consumer: the last one's leaving deletes an auto-delete queue.
    pub(crate) had_consumer: bool,
    /// Messages of it may lie in segments of a stream: they are made when they are needed.
    pub(crate) refers: bool,
    /// Deliveries from it are traced.
    is_traced: bool,
    /// Counts of consumers and gets; none yet.
    counted: Option<Box<Counted>>,
    /// The position of the first message that is counted.
    begun_at: u64,
}

impl OwnedQueue {
    fn new(id: QueueId, definition: Option<Arc<QueueDefinition>>, fifo: Fifo, is_open: bool) -> OwnedQueue {
        OwnedQueue {
            id,
            definition,
            fifo,
            is_open,
            members: None,
            waiting: None,
            features: None,
            is_dirty: false,
            had_consumer: false,
            refers: false,
            is_traced: false,
            counted: None,
            begun_at: 0,
        }
    }

    /// A queue that was declared, and that no record has opened yet.
    pub(crate) fn declared(definition: Arc<QueueDefinition>) -> OwnedQueue {
        let fifo = Fifo::new(Settings { counts: definition.is_quorum(), ..Settings::default() });
        OwnedQueue::new(definition.id, Some(definition), fifo, false)
    }

    /// A queue that its log knows, and that nobody owns here.
    pub(crate) fn bare(id: QueueId, fifo: Fifo) -> OwnedQueue {
        OwnedQueue::new(id, None, fifo, true)
    }

    /// The record that opens it is applied.
    pub(crate) fn opened(&mut self, groups: bool) {
        self.is_open = true;
        if groups {
            self.fifo.group();
        }
    }

    /// The machine is what a snapshot said.
    pub(crate) fn restore(&mut self, fifo: Fifo) {
        self.fifo = fifo;
        self.is_open = true;
    }

    /// From now on it is owned here, by this definition.
    pub(crate) fn claim(&mut self, definition: Arc<QueueDefinition>) {
        self.definition = Some(definition);
    }

    /// From now on it is not owned here: what its owner kept of it is gone.
    pub(crate) fn resign(&mut self) {
        self.definition = None;
        self.members = None;
        self.waiting = None;
        self.features = None;
        self.counted = None;
        self.is_dirty = false;
        self.is_traced = false;
    }

    /// It is owned here.
    #[inline]
    pub(crate) fn is_owned(&self) -> bool {
        self.definition.is_some()
    }

    /// The definition of a queue that is owned here.
    ///
    /// # Panics
    /// Where it is not.
    #[inline]
    pub(crate) fn definition(&self) -> &Arc<QueueDefinition> {
        self.definition.as_ref().expect("an owner has the definition of its queue")
    }

    /// Failed deliveries are counted, a majority commits it, and every message in it is durable.
    #[inline]
    pub(crate) fn is_quorum(&self) -> bool {
        self.fifo.is_counting()
    }

    /// The queue, or its owner, keeps more of messages than their places.
    #[inline]
    pub(crate) fn has_features(&self) -> bool {
        self.features.is_some() || self.fifo.has_features()
    }

    /// A message came that may have a time or a priority of its own, or of which the queue keeps more than its place.
    /// False: it is a duplicate, and is not in the queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn arrive(&mut self, at: LogIndex, record: &[u8], transient: bool) -> bool {
        // Where nothing was counted as arriving there is nothing to count off.
        if self
            .features
            .as_ref()
            .is_none_or(|features| features.arriving == 0 && features.arriving_bytes == 0)
            && let Some(priority) = Enqueue::priority_alone(record)
            && self.fifo.arrive_simply(at, transient, priority)
        {
            return true;
        }
        self.arrive_anyhow(at, record, transient)
    }

    /// Whether an arriving message is a duplicate, which is to be passed over.
    fn is_duplicate(&mut self, message: &Enqueue<'_>) -> bool {
        if self.fifo.window().is_none() {
            return false;
        }
        let Some(key) = message.keys().message else { return false };
        !self.fifo.admit(MessageKey(key), message.received_at_ms, cache_ttl_ms(message))
    }

    #[inline(never)]
    fn arrive_anyhow(&mut self, at: LogIndex, record: &[u8], transient: bool) -> bool {
        let message = Enqueue::read(record).expect("it was read before");
        if self.is_duplicate(&message) {
            let bytes = self.size_of(&message);
            self.features.iter_mut().for_each(|features| features.arrived(bytes));
            return false;
        }
        let bytes = self.size_of(&message);
        let keys = message.keys();
        let arrival = Arrival {
            transient,
            priority: keys.priority.or((message.flags & flag::PRIORITY != 0).then_some(message.priority)),
            received_at_ms: message.received_at_ms,
            expires_at_ms: message.expires_at_ms,
            due_at_ms: message.due_ms(),
            bytes: bytes.try_into().unwrap_or(u32::MAX),
            failures: message.failures(),
            group: keys.group.filter(|_| self.fifo.is_grouped()).map(GroupKey),
            barrier: keys.barrier,
        };
        self.take_in(at, &arrival, bytes);
        true
    }

    /// A message came that lies in a segment of a stream.
    pub(crate) fn arrive_referred(&mut self, at: LogIndex, refer: &Refer<'_>) {
        let bytes = self.size_of_referred(refer);
        let arrival = Arrival {
            transient: false,
            priority: refer.priority,
            received_at_ms: refer.received_at_ms,
            expires_at_ms: 0,
            due_at_ms: 0,
            bytes: bytes.try_into().unwrap_or(u32::MAX),
            failures: 0,
            group: None,
            barrier: false,
        };
        self.take_in(at, &arrival, bytes);
    }

    fn take_in(&mut self, at: LogIndex, arrival: &Arrival, bytes: u64) {
        let Arrival { transient, priority, expires_at_ms, due_at_ms, failures, group, barrier, .. } =
            *arrival;
        // Of all priorities one stands for none.
        let is_usual = priority.is_none_or(|of| of == self.fifo.usual_priority());
        let is_new = due_at_ms == 0 && failures == 0 && group.is_none() && !barrier;
        if is_usual && expires_at_ms == 0 && is_new && self.fifo.takes_plain() {
            self.fifo.enqueue(at, transient);
        } else {
            self.fifo.arrive(at, arrival);
        }
        if let Some(features) = &mut self.features {
            features.arrived(bytes);
        }
    }

    pub(crate) fn features_mut(&mut self, now: Now) -> &mut Features {
        let new = || Box::new(Features { used_at_ms: now.wall_ms, ..Features::default() });
        self.features.get_or_insert_with(new)
    }

    pub(crate) fn find(&self, member: Member) -> Option<ConsumerId> {
        self.members.as_ref()?.find(member)
    }

    #[inline]
    pub(crate) fn member(&self, id: ConsumerId) -> Option<Member> {
        self.members.as_ref()?.get(id)
    }

    /// See [`Members::recipient`].
    #[inline]
    pub(crate) fn recipient(&self, id: ConsumerId) -> Option<Member> {
        self.members.as_ref()?.recipient(id)
    }

    /// Whether deliveries from it are traced.
    pub(crate) fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// From now on what is delivered from it is told of, or no longer.
    pub(crate) fn trace(&mut self, on: bool) {
        self.is_traced = on;
        self.mark_deliveries();
    }

    /// Deliveries have their marks from now on.
    fn mark_deliveries(&mut self) {
        let marks = self.marks();
        self.members.iter_mut().for_each(|members| members.mark(marks));
    }

    fn marks(&self) -> Marks {
        let traced = if self.is_traced { TRACED } else { 0 };
        Marks(traced | if self.lease_ms().is_some() { LEASED } else { 0 })
    }

    /// How long a consumer has a message, milliseconds, if that has an end.
    pub(crate) fn lease_ms(&self) -> Option<u64> {
        self.features.as_ref()?.rules.lease_ms
    }

    /// The lease is another from now on: deliveries are marked. The consumers that settle, for them to be told.
    pub(crate) fn changed_lease(&mut self) -> Vec<Member> {
        self.mark_deliveries();
        let members = self.members.iter().flat_map(|members| &members.slots);
        let leased = members.filter(|(_, seat)| seat.counts != Some(Count::DeliverNoAck));
        leased.map(|(_, seat)| seat.member).collect()
    }

    /// So many leases were over.
    pub(crate) fn count_over(&mut self, more: u64) {
        self.counted.get_or_insert_default().leases_over += more;
    }

    /// How many leases were over since the node started, where something is leased or was over.
    pub(crate) fn leases_over(&self) -> Option<u64> {
        let count = self.counted.as_ref().map_or(0, |counted| counted.leases_over);
        (count > 0 || self.lease_ms().is_some()).then_some(count)
    }

    /// A barrier passed over so many consumers.
    pub(crate) fn count_passed_over(&mut self, more: u32) {
        self.counted.get_or_insert_default().passed_over += u64::from(more);
    }

    /// Barriers there are, and consumers that were passed over since the node started, where the queue has barriers.
    pub(crate) fn barriers(&self) -> Option<(u64, u64)> {
        let passed_over = self.counted.as_ref().map_or(0, |counted| counted.passed_over);
        self.has_barriers().then(|| (self.fifo.barriers(), passed_over))
    }

    /// See [`Members::hand`].
    #[inline]
    pub(crate) fn hand(&mut self, id: ConsumerId, count: u32, is_again: bool) {
        let Some(members) = &mut self.members else { return };
        let counts = members.hand(id, count);
        let Counted { tally, .. } = &mut **self.counted.get_or_insert_default();
        if let Some(counts) = counts {
            tally.add(counts, count.into());
        }
        if is_again {
            tally.add(Count::Redeliver, count.into());
        }
    }

    /// Watches the delivery just handed to a consumer that settles, unless something else is watched: see [`Watch::handed`].
    #[inline]
    pub(crate) fn watch(&mut self, id: ConsumerId, first: QueueSeq, now: Now) -> Option<u64> {
        let seat = self.members.as_ref()?.slots.get(id.0 as usize)?;
        let counted = self.counted.as_mut().filter(|_| seat.counts == Some(Count::Deliver))?;
        counted.watch.handed(first, now.mono_ns)
    }

    /// See [`Watch::settled`].
    #[inline]
    pub(crate) fn watched(&mut self, range: SeqRange, now: Now) -> Option<u64> {
        self.counted.as_mut()?.watch.settled(range, now.mono_ns)
    }

    /// Since when the message is held that is watched, if one is: see [`Watch::any_since`].
    pub(crate) fn held_since_ns(&self) -> Option<u64> {
        self.counted.as_ref()?.watch.any_since()
    }

    /// Since when a message is held, where it is the one that is watched: see [`Watch::since`].
    pub(crate) fn watched_since(&self, seq: QueueSeq) -> Option<u64> {
        self.counted.as_ref()?.watch.since(seq)
    }

    /// So many more of something.
    #[inline]
    pub(crate) fn count(&mut self, count: Count, more: u64) {
        self.counted.get_or_insert_default().tally.add(count, more);
    }

    /// The counts since the node started.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.counted.as_ref().map(|counted| counted.tally).unwrap_or_default();
        tally.add(Count::Publish, self.fifo.next_seq().0.saturating_sub(self.begun_at));
        tally
    }

    /// Where one consumer is active at a time: which.
    pub(crate) fn active(&self) -> Option<Member> {
        if !self.has_single_active() {
            return None;
        }
        self.member(self.fifo.active()?)
    }

    /// Counting begins here.
    pub(crate) fn begin_tally(&mut self) {
        self.begun_at = self.fifo.next_seq().0;
    }

    /// So many of what was handed to a consumer were never sent, and have gone back: its link's credit is as before.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_back(&mut self, id: ConsumerId, count: u32) {
        self.unsent(id, count);
        self.fifo.restore_credit(id, count);
    }

    /// So many of what was handed to a consumer were not sent, for want of credit on its link, and have gone back: what its link
    /// grants next counts from before them. It gets no credit back for them: it has none.
    #[cold]
    pub(crate) fn unsent(&mut self, id: ConsumerId, count: u32) {
        if let Some(seat) = self.seat(id) {
            seat.delivered = seat.delivered.wrapping_sub(count);
        }
    }

    /// A consumer had so much of its credit used up: its link counts that as delivered.
    pub(crate) fn used_up(&mut self, id: ConsumerId, unused: u32) {
        if let Some(seat) = self.seat(id) {
            seat.delivered = seat.delivered.wrapping_add(unused);
        }
    }

    fn seat(&mut self, id: ConsumerId) -> Option<&mut Seat> {
        self.members.as_mut()?.slots.get_mut(id.0 as usize)
    }

    /// So many were handed to a consumer by the owner before.
    pub(crate) fn set_delivered(&mut self, id: ConsumerId, delivered: u32) {
        if let Some(seat) = self.seat(id) {
            seat.delivered = delivered;
        }
    }

    /// All consumers, and how many messages were handed to each.
    pub(crate) fn all_seats(&self) -> impl Iterator<Item = (ConsumerId, Member, u32)> + '_ {
        let slots = self.members.iter().flat_map(|members| &members.slots);
        slots.map(|(slot, seat)| (ConsumerId(slot as u32), seat.member, seat.delivered))
    }

    /// The positions of a consumer's deliveries that wait, lowest first.
    pub(crate) fn waiting_of(&self, id: ConsumerId) -> impl Iterator<Item = QueueSeq> + '_ {
        let line = self.waiting.iter().flat_map(|line| &line.deliveries);
        let mut theirs: Vec<QueueSeq> =
            line.filter(|(_, waiting)| waiting.consumer == id).map(|(_, waiting)| waiting.seq).collect();
        theirs.sort_unstable();
        theirs.into_iter()
    }

    /// The notices to a consumer that come behind deliveries which wait.
    pub(crate) fn left_notices(&self, id: ConsumerId) -> impl Iterator<Item = Notice> + '_ {
        let all = self.waiting.iter().flat_map(|line| &line.notices);
        all.filter(move |(_, consumer, _)| *consumer == id).map(|(.., notice)| *notice)
    }

    /// See [`Members::credit`].
    pub(crate) fn credit(&self, id: ConsumerId, limit: u32) -> u32 {
        self.members.as_ref().map_or(0, |members| members.credit(id, limit))
    }

    pub(crate) fn add_member(&mut self, member: Member, counts: Option<Count>) -> ConsumerId {
        let marks = self.marks();
        self.members.get_or_insert_default().add(member, marks, counts)
    }

    /// A member is the node itself.
    pub(crate) fn mark_own(&mut self, id: ConsumerId) {
        if let Some(seat) = self.seat(id) {
            seat.is_own = true;
        }
    }

    /// A member is the node itself, which holds messages on their way to somewhere else.
    pub(crate) fn is_own(&self, id: ConsumerId) -> bool {
        let seat = self.members.as_ref().and_then(|members| members.slots.get(id.0 as usize));
        seat.is_some_and(|seat| seat.is_own)
    }

    /// When it is looked next at what consumers hold, monotonic nanoseconds.
    pub(crate) fn looks_at(&self) -> Option<u64> {
        self.members.as_ref()?.looks_at
    }

    /// It is looked next then.
    pub(crate) fn set_looks_at(&mut self, at: Option<u64>) {
        if let Some(members) = &mut self.members {
            members.looks_at = at;
        }
    }

    /// Forgets a consumer and its waiting deliveries.
    pub(crate) fn remove_member(&mut self, id: ConsumerId) {
        if let Some(members) = &mut self.members {
            members.remove(id);
            if members.is_empty() {
                self.members = None;
            }
        }
        self.forget_waiting(id);
    }

    pub(crate) fn members_of(&self, port: PortId) -> Vec<ConsumerId> {
        self.members.as_ref().map_or_else(Vec::new, |members| members.of_port(port))
    }

    pub(crate) fn all_members(&self) -> Vec<Member> {
        let members = self.members.iter().flat_map(|members| members.iter());
        members.chain(self.browsers().iter().map(|browser| browser.member)).collect()
    }

    /// The browsers.
    pub(crate) fn browsers(&self) -> &[Browser] {
        self.features.as_ref().map_or(&[], |features| &features.browsers)
    }

    /// The gets that wait for their message's bytes: the member that asked, and the token.
    pub(crate) fn waiting_gets(&self) -> Vec<(Member, u32)> {
        let waiting = self.waiting.iter().flat_map(|line| &line.deliveries);
        waiting.filter_map(|(_, delivery)| Some((self.member(delivery.consumer)?, delivery.token?))).collect()
    }

    /// One consumer at a time is active.
    pub(crate) fn has_single_active(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.rules.single_active)
    }

    /// The size of a message as limits in bytes count it.
    pub(crate) fn size_of(&self, message: &Enqueue<'_>) -> u64 {
        size_in(self.is_quorum(), message)
    }

    /// As [`OwnedQueue::size_of`], of a message that lies in a segment of a stream.
    pub(crate) fn size_of_referred(&self, refer: &Refer<'_>) -> u64 {
        let head = if self.is_quorum() { refer.head_len } else { 0 };
        u64::from(head) + u64::from(refer.body_len)
    }

    /// All it keeps of its messages comes from their heads alone: they may lie elsewhere.
    pub(crate) fn may_refer(&self) -> bool {
        self.fifo.window().is_none() && !self.fifo.is_grouped() && !self.has_barriers()
    }

    /// It has an expression that says which messages are barriers.
    pub(crate) fn has_barriers(&self) -> bool {
        self.definition.as_ref().is_some_and(|queue| queue.has_barriers())
    }

    /// Somebody consumes from it, or, of a quorum queue, holds something: it does not end unused. As RabbitMQ has it.
    pub(crate) fn is_used(&self) -> bool {
        self.fifo.consumers() > 0 || (self.is_quorum() && self.fifo.unsettled() > 0)
    }

    /// Something may be due in it though nothing happens.
    #[inline]
    pub(crate) fn has_clock(&self) -> bool {
        self.features.is_some() || self.fifo.next_deadline_ms().is_some()
    }

    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(crate) fn wait(&mut self, waiting: Waiting) {
        let line = self.waiting.get_or_insert_default();
        line.deliveries.push_back((line.next, waiting));
        line.next += 1;
    }

    /// A consumer is told this once the deliveries that wait now are out.
    pub(crate) fn tell_behind(&mut self, consumer: ConsumerId, notice: Notice) {
        let line = self.waiting.get_or_insert_default();
        line.notices.push_back((line.next, consumer, notice));
    }

    /// Takes out what is told next, where no delivery is in front of it.
    pub(crate) fn take_notice(&mut self) -> Option<(ConsumerId, Notice)> {
        let line = self.waiting.as_mut()?;
        let notice = line.take_notice();
        if line.is_empty() {
            self.waiting = None;
        }
        notice
    }

    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.as_ref().map_or(0, |line| line.deliveries.len())
    }

    /// The positions of the deliveries that wait, in the order in which they are delivered.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = QueueSeq> + '_ {
        self.waiting.iter().flat_map(|line| &line.deliveries).map(|(_, waiting)| waiting.seq)
    }

    pub(crate) fn first_waiting(&self) -> Option<Waiting> {
        self.waiting.as_ref()?.deliveries.front().map(|(_, waiting)| *waiting)
    }

    /// The first delivery is out, or never will be: [`crate::log::Log::tell_due`] what waited for it.
    pub(crate) fn pop_waiting(&mut self) {
        if let Some(line) = &mut self.waiting {
            line.deliveries.pop_front();
            if line.is_empty() {
                self.waiting = None;
            }
        }
    }

    /// The delivery that waits behind so many others.
    pub(crate) fn waiting_at(&self, at: usize) -> Option<Waiting> {
        self.waiting.as_ref()?.deliveries.get(at).map(|(_, waiting)| *waiting)
    }

    /// The delivery behind so many others is out: as [`OwnedQueue::pop_waiting`].
    pub(crate) fn take_waiting(&mut self, at: usize) {
        if let Some(line) = &mut self.waiting {
            line.deliveries.remove(at);
            if line.is_empty() {
                self.waiting = None;
            }
        }
    }

    /// Marks what of `range` waits as to be settled when it is delivered, and calls `each` for the rest.
    pub(crate) fn settle_later(&mut self, range: SeqRange, mut each: impl FnMut(SeqRange)) {
        let mut from = range.first.0;
        let theirs = self.waiting.iter_mut().flat_map(|line| &mut line.deliveries);
        let mut later: Vec<u64> = theirs
            .map(|(_, delivery)| delivery)
            .filter(|delivery| (range.first..=range.last).contains(&delivery.seq))
            .map(|delivery| {
                delivery.settles = true;
                delivery.seq.0
            })
            .collect();
        later.sort_unstable();
        for seq in later {
            if from < seq {
                each(SeqRange { first: QueueSeq(from), last: QueueSeq(seq - 1) });
            }
            from = seq + 1;
        }
        if from <= range.last.0 {
            each(SeqRange { first: QueueSeq(from), last: range.last });
        }
    }

    /// Some consumer waits for the bytes of this barrier.
    pub(crate) fn waits_for_barrier(&self, seq: QueueSeq) -> bool {
        let mut waiting = self.waiting.iter().flat_map(|line| &line.deliveries);
        waiting.any(|(_, delivery)| delivery.is_barrier && delivery.seq == seq)
    }

    /// Drops the deliveries that wait for this consumer, and the notices behind them, and returns the deliveries.
    pub(crate) fn forget_waiting(&mut self, id: ConsumerId) -> Vec<Waiting> {
        if let Some(line) = &mut self.waiting {
            line.notices.retain(|(_, consumer, _)| *consumer != id);
        }
        self.forget_waiting_of(id, SeqRange { first: QueueSeq(0), last: QueueSeq(u64::MAX) })
    }

    /// Drops and returns the deliveries of `range` that wait for this consumer: [`crate::log::Log::tell_due`] sends the
    /// notices that waited for them.
    pub(crate) fn forget_waiting_of(&mut self, id: ConsumerId, range: SeqRange) -> Vec<Waiting> {
        let Some(line) = &mut self.waiting else { return Vec::new() };
        let mut dropped = Vec::new();
        line.deliveries.retain(|(_, delivery)| {
            let is_theirs = delivery.consumer == id && (range.first..=range.last).contains(&delivery.seq);
            if is_theirs {
                dropped.push(*delivery);
            }
            !is_theirs
        });
        if line.is_empty() {
            self.waiting = None;
        }
        dropped
    }
}
