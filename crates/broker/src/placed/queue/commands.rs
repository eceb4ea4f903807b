//! Commands of connections to the queues of a log: consume, get, credit, settle, purge, delete.

use crate::catalog::{QueueDefinition, Refusal};
use crate::event::Event;
use crate::limits::Limits;
use crate::log::Commons;
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::modified::Modified;
use crate::placed::queue::owned::{Member, Notice, OwnedQueue, Waiting};
use crate::post::Post;
use crate::request::{Held, NewConsumer, QueueCommand, Reply};
use crate::selector::Selector;
use crate::tally::Count;
use crate::turn::Turn;
use base::Now;
use base::id::{LogIndex, NodeNo, PortId};
use message::record::{Outcome, SeqRange};
use queue::{Command, Consume, ConsumerId};
use std::sync::Arc;

/// The rest of a command, for a caller that knows the catalog.
#[derive(Debug)]
pub(crate) enum Done {
    /// Nothing.
    Nothing,
    /// Have the log hand out, and tell this consumer how much is ready then: the log does it.
    Echo(Member),
    /// Delete the queue; `token`: of the request, whose answer tells how many messages went with it.
    Delete { definition: Arc<QueueDefinition>, token: Option<u32>, messages: u64 },
}

/// Placeholder consumer for commands that concern no consumer of the queue machine.
pub(crate) const NO_CONSUMER: ConsumerId = ConsumerId(u32::MAX);

/// Answers a command for a queue that is gone, where an answer is wanted.
pub(crate) fn answer_gone(post: &mut Post, port: PortId, command: QueueCommand) {
    match command {
        QueueCommand::Consume { token, .. }
        | QueueCommand::Select { token, .. }
        | QueueCommand::Get { token, .. }
        | QueueCommand::Pick { token, .. }
        | QueueCommand::Purge { token }
        | QueueCommand::Discard { token, .. }
        | QueueCommand::Counts { token } => post.reply(port, token, Err(Refusal::queue_gone())),
        QueueCommand::SettleAt(settle) => post.reply(port, settle.token, Err(Refusal::queue_gone())),
        QueueCommand::Stream(command) => {
            if let Some(token) = command.token() {
                post.reply(port, token, Err(Refusal::queue_gone()));
            }
        }
        QueueCommand::Delete { token, .. } => {
            post.reply(port, token, Ok(Reply::Deleted { messages: 0 }));
        }
        QueueCommand::Cancel { token: Some(token), .. } => {
            post.reply(port, token, Ok(Reply::Cancelled));
        }
        _ => {}
    }
}

impl AtQueue<'_> {
    /// Carries out a connection's command.
    pub(crate) fn carry(&mut self, turn: &mut Turn<'_>, port: PortId, command: QueueCommand) -> Done {
        if command.looks() {
            self.queue.fifo.cut(&mut self.commons.effects);
            self.carry_out(turn, None);
        }
        let owned = &mut *self.queue;
        match command {
            QueueCommand::Consume { token, handle, consumer } if consumer.browses.is_some() => {
                self.browse(turn.now, Member { port, handle }, consumer, None);
                turn.post.reply(port, token, Ok(Reply::Consuming));
            }
            QueueCommand::Consume { token, handle, consumer } => {
                let answer = self.consume(turn.now, Member { port, handle }, consumer, None, turn.limits);
                let is_leased = answer.is_ok() && !consumer.settled;
                turn.post.reply(port, token, answer);
                if is_leased {
                    self.tell_lease(Member { port, handle }, turn.post);
                }
                self.carry_out(turn, None);
                self.mark_dirty();
            }
            QueueCommand::Select { token, handle, consumer, selector } => {
                self.select(turn, Member { port, handle }, (token, consumer), &selector);
            }
            QueueCommand::Get { token, .. } if owned.is_quorum() && owned.has_single_active() => {
                turn.post.reply(port, token, Err(Refusal::get_from_single_active(owned.definition())));
            }
            QueueCommand::Get { token, handle, settled, by_node, .. } => {
                let member = Member { port, handle };
                let id = match owned.find(member) {
                    Some(id) => id,
                    None => self.add_getter(turn, member, by_node),
                };
                let owned = &mut *self.queue;
                let taken = owned.fifo.take(id, settled, turn.now.wall_ms, &mut self.commons.effects);
                owned.count(
                    match (taken, settled) {
                        (false, _) => Count::GetEmpty,
                        (true, false) => Count::Get,
                        (true, true) => Count::GetNoAck,
                    },
                    1,
                );
                if !taken {
                    turn.post.reply(port, token, Ok(Reply::Empty));
                }
                self.carry_out(turn, Some(token));
                self.used(turn.now);
            }
            QueueCommand::Pick { token, handle, position } => {
                self.pick(turn, Member { port, handle }, (token, position));
            }
            QueueCommand::Discard { token, position } => {
                self.discard(turn, port, (token, position));
            }
            QueueCommand::SettleAt(settle) => self.settle_at(turn, port, &settle),
            QueueCommand::Counts { token } => {
                // Of quorum queues a declaration is no use, as RabbitMQ has it.
                if !owned.is_quorum()
                    && let Some(features) = &mut owned.features
                {
                    features.used_at_ms = turn.now.wall_ms;
                }
                let reply = Reply::Declared {
                    queue: owned.definition().clone(),
                    is_new: false,
                    ready: owned.fifo.ready(),
                    consumers: owned.fifo.consumers(),
                };
                turn.post.reply(port, token, Ok(reply));
            }
            QueueCommand::Purge { token } => {
                let messages = owned.fifo.ready() + owned.fifo.delayed();
                turn.post.reply(port, token, Ok(Reply::Purged { messages }));
                self.queue.fifo.apply(Command::Purge, &mut self.commons.effects);
                self.carry_out(turn, None);
            }
            QueueCommand::Delete { token, if_unused, if_empty } => {
                let definition = owned.definition().clone();
                let messages = owned.fifo.ready() + owned.fifo.delayed();
                if if_unused && owned.fifo.consumers() > 0 {
                    turn.post.reply(port, token, Err(Refusal::queue_in_use(&definition)));
                } else if if_empty && messages > 0 {
                    turn.post.reply(port, token, Err(Refusal::queue_not_empty(&definition)));
                } else {
                    return Done::Delete { definition, token: Some(token), messages };
                }
            }
            QueueCommand::Cancel { token, handle, held } => {
                let is_its =
                    |waits: &QueueCommand| waits.getter() == Some(handle) || waits.credited() == Some(handle);
                self.commons.agenda.give_up(port, owned.id, is_its);
                if let Some(token) = token {
                    turn.post.reply(port, token, Ok(Reply::Cancelled));
                }
                match owned.find(Member { port, handle }) {
                    Some(id) => return self.leave(turn, id, held),
                    None => self.end_browsing(|member| member == Member { port, handle }),
                }
            }
            QueueCommand::Leave => {
                let is_its = |waits: &QueueCommand| waits.getter().is_some() || waits.credited().is_some();
                self.commons.agenda.give_up(port, owned.id, is_its);
                let mut done = Done::Nothing;
                let members = owned.members_of(port);
                self.end_browsing(|member| member.port == port);
                for id in members {
                    done = self.leave(turn, id, Held::Fails);
                }
                return done;
            }
            QueueCommand::Credit { handle, limit, drain, echo } => {
                let id = owned.find(Member { port, handle });
                let credit = match id {
                    Some(id) => owned.credit(id, limit),
                    None => owned.browsing_credit(Member { port, handle }, limit),
                };
                self.with(turn, port, handle, |consumer| Command::Credit { consumer, credit, drain });
                if echo {
                    return Done::Echo(Member { port, handle });
                }
            }
            QueueCommand::Prefetch { handle, prefetch } => {
                self.with(turn, port, handle, |consumer| Command::Prefetch { consumer, prefetch });
            }
            QueueCommand::Pause { handle, paused } => {
                self.with(turn, port, handle, |consumer| Command::Pause { consumer, paused });
            }
            QueueCommand::Settle { handle, range, outcome } => {
                let held_ns = owned.watched(range, turn.now);
                if outcome == Outcome::Accepted {
                    owned.count(Count::Ack, range.last.0 - range.first.0 + 1);
                }
                // While something of it is held a quorum queue is in use.
                if let Some(features) = &owned.features
                    && owned.is_quorum()
                {
                    if features.has_late {
                        self.settle_late(Member { port, handle }, range);
                    }
                    self.used(turn.now);
                }
                if let Some(held_ns) = held_ns {
                    self.commons.figures.latencies.deliver_to_settle.add(held_ns, 1);
                }
                self.with(turn, port, handle, |consumer| Command::Settle { consumer, range, outcome });
            }
            QueueCommand::Accept { handle, ranges } => {
                self.accept_all(turn, Member { port, handle }, &ranges);
            }
            QueueCommand::Unsent { handle, range } => {
                match owned.find(Member { port, handle }) {
                    Some(id) => owned.unsent(id, (range.last.0 - range.first.0 + 1) as u32),
                    None => self.show_again(Member { port, handle }, range),
                }
                let outcome = Outcome::Released;
                self.with(turn, port, handle, |consumer| Command::Settle { consumer, range, outcome });
            }
            QueueCommand::LeaseOver(over) => self.lease_over(turn, port, &over),
            QueueCommand::SettleOver { handle, range } => self.settle_over(Member { port, handle }, range),
            QueueCommand::Renew { handle, range } => self.renew(Member { port, handle }, range),
            QueueCommand::Modify(modified) => self.modify(turn, port, &modified),
            QueueCommand::Stream(command) => {
                if let Some(token) = command.token() {
                    turn.post.reply(port, token, Err(Refusal::no_stream(owned.definition())));
                }
            }
        }
        Done::Nothing
    }

    /// Tells a consumer how much is ready, behind what it was handed.
    pub(crate) fn tell_ready(&mut self, turn: &mut Turn<'_>, member: Member) {
        match self.queue.find(member) {
            Some(id) => {
                let ready = self.queue.fifo.ready();
                self.tell(id, Notice::Available { ready }, turn.post);
            }
            None => {
                let ready = self.queue.ready_to_browse(member);
                turn.post.event(member.port, Event::Available { consumer: member.handle, ready });
            }
        }
    }

    /// Positions are settled, as with [`QueueCommand::Settle`], and annotated where they come back, at once or delayed.
    #[cold]
    #[inline(never)]
    fn modify(&mut self, turn: &mut Turn<'_>, port: PortId, modified: &Modified) {
        let Modified { handle, range, outcome, .. } = *modified;
        let owned = &*self.queue;
        if let Some(features) = &owned.features
            && owned.is_quorum()
        {
            if features.has_late {
                self.settle_late(Member { port, handle }, range);
            }
            self.used(turn.now);
        }
        if let Some(id) = self.queue.find(Member { port, handle }) {
            self.annotate_held(turn.now, id, modified, turn.limits);
        }
        // Rejected and undeliverable messages do not come back.
        let is_back = !matches!(outcome, Outcome::Rejected | Outcome::Undeliverable);
        let due_at_ms = modified.due_at_ms.filter(|due_at_ms| is_back && *due_at_ms > turn.now.wall_ms);
        let queue = &mut *self.queue;
        if let (Some(due_at_ms), Some(id)) = (due_at_ms, queue.find(Member { port, handle })) {
            queue.fifo.postpone(id, range, outcome, due_at_ms, &mut self.commons.effects);
            self.carry_out(turn, None);
            self.mark_dirty();
            return;
        }
        let settle = |consumer| Command::Settle { consumer, range, outcome };
        self.with(turn, port, handle, settle);
    }

    /// Has the machine carry out a command for one of its consumers; one that browses has its own way, and one
    /// that is gone is passed over.
    #[inline]
    fn with(
        &mut self,
        turn: &mut Turn<'_>,
        port: PortId,
        handle: u32,
        command: impl FnOnce(ConsumerId) -> Command,
    ) {
        let owned = &mut *self.queue;
        let Some(id) = owned.find(Member { port, handle }) else {
            return self.tell_browser(Member { port, handle }, command(NO_CONSUMER));
        };
        owned.fifo.apply(command(id), &mut self.commons.effects);
        self.carry_out(turn, None);
        self.mark_dirty();
    }

    /// Opens a consumer that chooses, or a browser.
    #[cold]
    fn select(
        &mut self,
        turn: &mut Turn<'_>,
        member: Member,
        (token, consumer): (u32, NewConsumer),
        selector: &Selector,
    ) {
        let answer = match consumer.browses {
            Some(_) => self.browse_chosen(turn.now, member, consumer, selector),
            None => self.consume(turn.now, member, consumer, Some(selector), turn.limits),
        };
        let is_leased = answer.is_ok() && !consumer.settled && consumer.browses.is_none();
        turn.post.reply(member.port, token, answer);
        if is_leased {
            self.tell_lease(member, turn.post);
        }
        self.carry_out(turn, None);
        self.mark_dirty();
    }

    pub(super) fn consume(
        &mut self,
        now: Now,
        member: Member,
        consumer: NewConsumer,
        selector: Option<&Selector>,
        limits: &Limits,
    ) -> Result<Reply, Refusal> {
        let owned = &mut *self.queue;
        if member.port.node != NodeNo::ONLY && owned.find(member).is_some() {
            // A command that another node brings may come twice.
            return Ok(Reply::Consuming);
        }
        let NewConsumer { credit, settled, exclusive, priority, timeout_ms, .. } = consumer;
        let credit = credit.at_first();
        // One at a time is active, or one has it for itself: not both.
        if exclusive && owned.has_single_active() {
            return Err(Refusal::exclusive_use(owned.definition()));
        }
        let selector = selector.map(|selector| self.open_selector(now, selector)).transpose()?;
        let owned = &mut *self.queue;
        let counts = if settled { Count::DeliverNoAck } else { Count::Deliver };
        let id = owned.add_member(member, Some(counts));
        let new = Consume { consumer: id, credit, settled, exclusive, priority, selector };
        match owned.fifo.consume(new) {
            Ok(()) => {
                owned.had_consumer = true;
                if !settled {
                    self.watch(now, id, timeout_ms, limits);
                }
                Ok(Reply::Consuming)
            }
            Err(_) => {
                owned.remove_member(id);
                Err(Refusal::exclusive_use(owned.definition()))
            }
        }
    }

    /// The consumer that stands for a channel's gets: it has no credit of its own. `by_node`: the node itself gets.
    pub(crate) fn add_getter(&mut self, turn: &mut Turn<'_>, member: Member, by_node: bool) -> ConsumerId {
        let owned = &mut *self.queue;
        let id = owned.add_member(member, None);
        if by_node {
            owned.mark_own(id);
        }
        owned.fifo.add_getter(id);
        self.watch(turn.now, id, None, turn.limits);
        self.tell_lease(member, turn.post);
        id
    }

    /// A consumer of a quorum queue may hold a message for so long: as it says, or the queue, or the node. As RabbitMQ has
    /// it, a policy that changes later means nothing to it. Where the queue leases its messages, that counts.
    fn watch(&mut self, now: Now, id: ConsumerId, timeout_ms: Option<u64>, limits: &Limits) {
        let owned = &mut *self.queue;
        if owned.is_quorum() {
            let of_queue = || owned.features.as_ref()?.rules.consumer_timeout_ms;
            let timeout_ms = timeout_ms.or_else(of_queue).unwrap_or(limits.consumer_timeout_ms);
            owned.fifo.watch(id, timeout_ms);
        }
        self.arm_look(now);
    }

    fn leave(&mut self, turn: &mut Turn<'_>, id: ConsumerId, held: Held) -> Done {
        let owned = &mut *self.queue;
        // Deliveries that were decided but not sent go back untouched.
        for Waiting { seq, settles, is_barrier, .. } in owned.forget_waiting(id) {
            let range = SeqRange { first: seq, last: seq };
            if is_barrier {
                self.barrier_unsent(turn.now, seq);
            } else if settles {
                // It counted as delivered when it was handed out, and is settled on record once it is.
                self.queue.fifo.unsent(range, &mut self.commons.effects);
            } else {
                let command = Command::Settle { consumer: id, range, outcome: Outcome::Released };
                self.queue.fifo.apply(command, &mut self.commons.effects);
            }
        }
        self.tell_due(turn.post);
        let owned = &mut *self.queue;
        if held == Held::GoesBack && owned.fifo.settings().counts {
            let ranges: Vec<SeqRange> = owned.fifo.held(id).collect();
            for range in ranges {
                let command = Command::Settle { consumer: id, range, outcome: Outcome::Released };
                owned.fifo.apply(command, &mut self.commons.effects);
            }
        }
        let keep = held == Held::Kept;
        let command = if keep { Command::Cancel { consumer: id } } else { Command::Close { consumer: id } };
        owned.fifo.apply(command, &mut self.commons.effects);
        if !keep {
            owned.remove_member(id);
        }
        self.carry_out(turn, None);
        self.mark_dirty();
        self.used(turn.now);
        if self.queue.is_chosen_from() {
            self.make_room_for_selectors(turn.limits);
        }
        let owned = &*self.queue;
        if owned.definition().auto_delete && owned.had_consumer && owned.fifo.consumers() == 0 {
            let messages = owned.fifo.ready() + owned.fifo.delayed();
            return Done::Delete { definition: owned.definition().clone(), token: None, messages };
        }
        Done::Nothing
    }
}

impl OwnedQueue {
    /// Where the records end that are applied before a command is carried out whose answer tells what is in the queue: messages
    /// that are in no queue yet, or that came back to this one. None: it need not wait.
    #[inline]
    pub(crate) fn comes_after(
        &self,
        commons: &Commons,
        port: PortId,
        command: &QueueCommand,
    ) -> Option<LogIndex> {
        let is_returning = self.fifo.is_returning();
        let lacks_some = match *command {
            QueueCommand::Credit { handle, limit, drain: true, .. } => {
                let id = self.find(Member { port, handle });
                let wanted = id.map_or(limit, |id| self.credit(id, limit));
                self.is_chosen_from() || self.fifo.ready() < u64::from(wanted)
            }
            _ if command.looks_in() => self.fifo.ready() == 0 || command.counts_news(),
            _ => return None,
        };
        let pipeline = &commons.pipeline;
        let until = pipeline.arrivals_end().or_else(|| is_returning.then(|| pipeline.next()))?;
        (lacks_some || is_returning).then_some(until)
    }
}
