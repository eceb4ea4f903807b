//! What connections ask of the queues of a log: consume, get, credit, settle, purge, delete.

use crate::catalog::{QueueDefinition, Refusal};
use crate::event::Event;
use crate::limits::Limits;
use crate::log::Log;
use crate::modified::Modified;
use crate::owned::{Member, Notice, Waiting};
use crate::post::Post;
use crate::request::{Held, NewConsumer, QueueCommand, Reply};
use crate::streams::StreamCommand;
use crate::tally::Count;
use crate::turn::Turn;
use base::Now;
use base::id::{LogIndex, PortId, QueueId};
use message::record::{Outcome, SeqRange};
use queue::{Command, Consume, ConsumerId};
use std::sync::Arc;

/// A command that would miss messages which its connection published before it and which are not in the queue yet: it
/// is carried out when they are. Each connection has at most one that waits for its answer.
#[derive(Debug)]
pub(crate) struct Parked {
    /// All records before this are to be applied first.
    until: LogIndex,
    pub(crate) queue: QueueId,
    pub(crate) port: PortId,
    pub(crate) command: QueueCommand,
}

/// What is left to do for somebody who knows the catalog.
#[derive(Debug)]
pub(crate) enum Done {
    /// Nothing.
    Nothing,
    /// Delete the queue; `token`: of who asked, to be told how many messages went with it.
    Delete { definition: Arc<QueueDefinition>, token: Option<u32>, messages: u64 },
}

/// Whom a command names that is for nobody of the machine's.
pub(crate) const NO_CONSUMER: ConsumerId = ConsumerId(u32::MAX);

impl Log {
    /// Carries out a connection's command, or parks it behind the messages under way. A queue that is gone answers
    /// not-found to those who want an answer.
    pub(crate) fn command(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        if matches!(
            command,
            QueueCommand::Get { .. }
                | QueueCommand::Pick { .. }
                | QueueCommand::Purge { .. }
                | QueueCommand::Discard { .. }
                | QueueCommand::Counts { .. }
                | QueueCommand::Delete { .. }
        ) && let Some(until) = self.end_of_news(queue)
            && let Some((_, owned)) = self.queue_mut(queue)
            && (owned.fifo.ready() == 0 || owned.fifo.is_returning() || command.counts_news())
        {
            self.parked.push_back(Parked { until, queue, port, command });
            return Done::Nothing;
        }
        if let QueueCommand::Stream(asked) = &command
            && matches!(**asked, StreamCommand::Sequence { .. })
            && let Some(until) = self.pipeline.arrivals_end()
        {
            // Who goes on behind what it is told must not find its numbers used by what is under way.
            self.parked.push_back(Parked { until, queue, port, command });
            return Done::Nothing;
        }
        self.carry(turn, queue, port, command)
    }

    /// Where the records end among which are messages that are in no queue yet, or that came back to this one.
    fn end_of_news(&mut self, queue: QueueId) -> Option<LogIndex> {
        let is_returning = self.queue_mut(queue).is_some_and(|(_, owned)| owned.fifo.is_returning());
        self.pipeline.arrivals_end().or_else(|| is_returning.then(|| self.pipeline.next()))
    }

    /// The first parked command whose time has come, taken out.
    pub(crate) fn take_due(&mut self) -> Option<Parked> {
        let applied = self.pipeline.applied();
        self.parked.pop_front_if(|parked| parked.until <= applied)
    }

    /// Carries out a connection's command.
    pub(crate) fn carry(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        let Some((slot, _)) = self.queue_mut(queue) else {
            if self.has_stream(queue) {
                return self.at_stream(turn, queue, port, command);
            }
            match command {
                QueueCommand::Consume { token, .. }
                | QueueCommand::Get { token, .. }
                | QueueCommand::Pick { token, .. }
                | QueueCommand::Purge { token }
                | QueueCommand::Discard { token, .. }
                | QueueCommand::Counts { token } => turn.post.reply(port, token, Err(Refusal::queue_gone())),
                QueueCommand::Stream(command) => {
                    if let Some(token) = command.token() {
                        turn.post.reply(port, token, Err(Refusal::queue_gone()));
                    }
                }
                QueueCommand::Delete { token, .. } => {
                    turn.post.reply(port, token, Ok(Reply::Deleted { messages: 0 }));
                }
                QueueCommand::Cancel { token: Some(token), .. } => {
                    turn.post.reply(port, token, Ok(Reply::Cancelled));
                }
                _ => {}
            }
            return Done::Nothing;
        };
        if command.looks() {
            self.queues[slot as usize].fifo.cut(&mut self.effects);
            self.carry_out(turn, slot, None);
        }
        let owned = &mut self.queues[slot as usize];
        match command {
            QueueCommand::Consume { token, handle, consumer } if consumer.browses => {
                self.browse(turn.now, slot, Member { port, handle }, consumer);
                turn.post.reply(port, token, Ok(Reply::Consuming));
            }
            QueueCommand::Consume { token, handle, consumer } => {
                let answer = self.consume(turn.now, slot, Member { port, handle }, consumer, turn.limits);
                turn.post.reply(port, token, answer);
                self.carry_out(turn, slot, None);
                self.mark_dirty(slot);
            }
            QueueCommand::Get { token, .. } if owned.definition.is_quorum() && owned.has_single_active() => {
                turn.post.reply(port, token, Err(Refusal::get_from_single_active(&owned.definition)));
            }
            QueueCommand::Get { token, handle, settled, .. } => {
                let member = Member { port, handle };
                let id = match owned.find(member) {
                    Some(id) => id,
                    None => self.add_getter(turn.now, slot, member, turn.limits),
                };
                let owned = &mut self.queues[slot as usize];
                let taken = owned.fifo.take(id, settled, turn.now.wall_ms, &mut self.effects);
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
                self.carry_out(turn, slot, Some(token));
                self.used(turn.now, slot);
            }
            QueueCommand::Pick { token, handle, position } => {
                self.pick(turn, slot, Member { port, handle }, (token, position));
            }
            QueueCommand::Discard { token, position } => {
                self.discard(turn, slot, port, (token, position));
            }
            QueueCommand::Counts { token } => {
                // Of quorum queues a declaration is no use, as RabbitMQ has it.
                if let Some(features) = &mut owned.features
                    && !owned.definition.is_quorum()
                {
                    features.used_at_ms = turn.now.wall_ms;
                }
                let reply = Reply::Declared {
                    queue: owned.definition.clone(),
                    is_new: false,
                    ready: owned.fifo.ready(),
                    consumers: owned.fifo.consumers(),
                };
                turn.post.reply(port, token, Ok(reply));
            }
            QueueCommand::Purge { token } => {
                let messages = owned.fifo.ready() + owned.fifo.delayed();
                turn.post.reply(port, token, Ok(Reply::Purged { messages }));
                self.queues[slot as usize].fifo.apply(Command::Purge, &mut self.effects);
                self.carry_out(turn, slot, None);
            }
            QueueCommand::Delete { token, if_unused, if_empty } => {
                let definition = owned.definition.clone();
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
                self.parked.retain(|parked| {
                    let is_get = parked.command.getter() == Some(handle);
                    (parked.port, parked.queue) != (port, queue) || !is_get
                });
                let (_, owned) = self.queue_mut(queue).expect("found above");
                if let Some(token) = token {
                    turn.post.reply(port, token, Ok(Reply::Cancelled));
                }
                match owned.find(Member { port, handle }) {
                    Some(id) => return self.leave(turn, slot, id, held),
                    None => self.end_browsing(slot, |member| member == Member { port, handle }),
                }
            }
            QueueCommand::Leave => {
                self.parked.retain(|parked| {
                    let is_get = parked.command.getter().is_some();
                    (parked.port, parked.queue) != (port, queue) || !is_get
                });
                let (_, owned) = self.queue_mut(queue).expect("found above");
                let mut done = Done::Nothing;
                let members = owned.members_of(port);
                self.end_browsing(slot, |member| member.port == port);
                for id in members {
                    done = self.leave(turn, slot, id, Held::Fails);
                }
                return done;
            }
            QueueCommand::Credit { handle, limit, drain, echo } => {
                let id = owned.find(Member { port, handle });
                let credit = match id {
                    Some(id) => owned.credit(id, limit),
                    None => owned.browsing_credit(Member { port, handle }, limit),
                };
                self.with(turn, slot, port, handle, |consumer| Command::Credit { consumer, credit, drain });
                if echo {
                    self.dispatch(turn);
                    let owned = &self.queues[slot as usize];
                    match id {
                        Some(id) => {
                            let ready = owned.fifo.ready();
                            self.tell(slot, id, Notice::Available { ready }, turn.post);
                        }
                        None => {
                            let ready = owned.ready_to_browse(Member { port, handle });
                            turn.post.event(port, Event::Available { consumer: handle, ready });
                        }
                    }
                }
            }
            QueueCommand::Prefetch { handle, prefetch } => {
                self.with(turn, slot, port, handle, |consumer| Command::Prefetch { consumer, prefetch });
            }
            QueueCommand::Pause { handle, paused } => {
                self.with(turn, slot, port, handle, |consumer| Command::Pause { consumer, paused });
            }
            QueueCommand::Settle { handle, range, outcome } => {
                let held_ns = owned.watched(range, turn.now);
                if outcome == Outcome::Accepted {
                    owned.count(Count::Ack, range.last.0 - range.first.0 + 1);
                }
                // While something of it is held a quorum queue is in use.
                if let Some(features) = &owned.features
                    && owned.definition.is_quorum()
                {
                    if features.has_late {
                        self.settle_late(slot, Member { port, handle }, range);
                    }
                    self.used(turn.now, slot);
                }
                if let Some(held_ns) = held_ns {
                    self.latencies.deliver_to_settle.add(held_ns, 1);
                }
                self.with(turn, slot, port, handle, |consumer| Command::Settle { consumer, range, outcome });
            }
            QueueCommand::Accept { handle, ranges } => {
                self.accept_all(turn, slot, Member { port, handle }, &ranges);
            }
            QueueCommand::Unsent { handle, range } => {
                match owned.find(Member { port, handle }) {
                    Some(id) => owned.unsent(id, (range.last.0 - range.first.0 + 1) as u32),
                    None => self.show_again(slot, Member { port, handle }, range),
                }
                let outcome = Outcome::Released;
                self.with(turn, slot, port, handle, |consumer| Command::Settle { consumer, range, outcome });
            }
            QueueCommand::Modify(modified) => self.modify(turn, slot, port, &modified),
            QueueCommand::Stream(command) => {
                if let Some(token) = command.token() {
                    turn.post.reply(port, token, Err(Refusal::no_stream(&owned.definition)));
                }
            }
        }
        Done::Nothing
    }

    /// Positions are settled, as with [`QueueCommand::Settle`], and annotated where they come back, at once or delayed.
    #[cold]
    #[inline(never)]
    fn modify(&mut self, turn: &mut Turn<'_>, slot: u32, port: PortId, modified: &Modified) {
        let Modified { handle, range, outcome, .. } = *modified;
        let owned = &self.queues[slot as usize];
        if let Some(features) = &owned.features
            && owned.definition.is_quorum()
        {
            if features.has_late {
                self.settle_late(slot, Member { port, handle }, range);
            }
            self.used(turn.now, slot);
        }
        if let Some(id) = self.queues[slot as usize].find(Member { port, handle }) {
            self.annotate_held(turn.now, slot, id, modified, turn.limits);
        }
        // What is rejected does not come back.
        let is_back = !matches!(outcome, Outcome::Rejected | Outcome::Undeliverable);
        let due_at_ms = modified.due_at_ms.filter(|due_at_ms| is_back && *due_at_ms > turn.now.wall_ms);
        let queue = &mut self.queues[slot as usize];
        if let (Some(due_at_ms), Some(id)) = (due_at_ms, queue.find(Member { port, handle })) {
            queue.fifo.postpone(id, range, outcome, due_at_ms, &mut self.effects);
            self.carry_out(turn, slot, None);
            self.mark_dirty(slot);
            return;
        }
        let settle = |consumer| Command::Settle { consumer, range, outcome };
        self.with(turn, slot, port, handle, settle);
    }

    /// Has the machine carry out a command for one of its consumers; one that browses has its own way, and one
    /// that is gone is passed over.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn with(
        &mut self,
        turn: &mut Turn<'_>,
        slot: u32,
        port: PortId,
        handle: u32,
        command: impl FnOnce(ConsumerId) -> Command,
    ) {
        let owned = &mut self.queues[slot as usize];
        let Some(id) = owned.find(Member { port, handle }) else {
            return self.tell_browser(slot, Member { port, handle }, command(NO_CONSUMER));
        };
        owned.fifo.apply(command(id), &mut self.effects);
        self.carry_out(turn, slot, None);
        self.mark_dirty(slot);
    }

    fn consume(
        &mut self,
        now: Now,
        slot: u32,
        member: Member,
        consumer: NewConsumer,
        limits: &Limits,
    ) -> Result<Reply, Refusal> {
        let owned = &mut self.queues[slot as usize];
        let NewConsumer { credit, settled, exclusive, priority, timeout_ms, .. } = consumer;
        let credit = credit.at_first();
        // One at a time is active, or one has it for itself: not both.
        if exclusive && owned.has_single_active() {
            return Err(Refusal::exclusive_use(&owned.definition));
        }
        let counts = if settled { Count::DeliverNoAck } else { Count::Deliver };
        let id = owned.add_member(member, Some(counts));
        let new = Consume { consumer: id, credit, settled, exclusive, priority };
        match owned.fifo.consume(new) {
            Ok(()) => {
                owned.had_consumer = true;
                if !settled {
                    self.watch(now, slot, id, timeout_ms, limits);
                }
                Ok(Reply::Consuming)
            }
            Err(_) => {
                owned.remove_member(id);
                Err(Refusal::exclusive_use(&owned.definition))
            }
        }
    }

    /// The consumer that stands for a channel's gets: it has no credit of its own.
    pub(crate) fn add_getter(&mut self, now: Now, slot: u32, member: Member, limits: &Limits) -> ConsumerId {
        let owned = &mut self.queues[slot as usize];
        let id = owned.add_member(member, None);
        owned.fifo.add_getter(id);
        self.watch(now, slot, id, None, limits);
        id
    }

    /// A consumer of a quorum queue may hold a message for so long: as it says, or the queue, or the node. As RabbitMQ has
    /// it, a policy that changes later means nothing to it.
    fn watch(&mut self, now: Now, slot: u32, id: ConsumerId, timeout_ms: Option<u64>, limits: &Limits) {
        let owned = &mut self.queues[slot as usize];
        if !owned.definition.is_quorum() {
            return;
        }
        let of_queue = || owned.features.as_ref()?.rules.consumer_timeout_ms;
        let timeout_ms = timeout_ms.or_else(of_queue).unwrap_or(limits.consumer_timeout_ms);
        owned.fifo.watch(id, timeout_ms);
        self.arm_look(now, slot);
    }

    fn leave(&mut self, turn: &mut Turn<'_>, slot: u32, id: ConsumerId, held: Held) -> Done {
        let owned = &mut self.queues[slot as usize];
        // What was decided but not sent goes back untouched.
        for Waiting { seq, settles, .. } in owned.forget_waiting(id) {
            let range = SeqRange { first: seq, last: seq };
            if settles {
                // It counted as delivered when it was handed out, and is settled on record once it is.
                owned.fifo.unsent(range, &mut self.effects);
            } else {
                let command = Command::Settle { consumer: id, range, outcome: Outcome::Released };
                owned.fifo.apply(command, &mut self.effects);
            }
        }
        self.tell_due(slot, turn.post);
        let owned = &mut self.queues[slot as usize];
        if held == Held::GoesBack && owned.fifo.settings().counts {
            let ranges: Vec<SeqRange> = owned.fifo.held(id).collect();
            for range in ranges {
                let command = Command::Settle { consumer: id, range, outcome: Outcome::Released };
                owned.fifo.apply(command, &mut self.effects);
            }
        }
        let keep = held == Held::Kept;
        let command = if keep { Command::Cancel { consumer: id } } else { Command::Close { consumer: id } };
        owned.fifo.apply(command, &mut self.effects);
        if !keep {
            owned.remove_member(id);
        }
        self.carry_out(turn, slot, None);
        self.mark_dirty(slot);
        self.used(turn.now, slot);
        let owned = &self.queues[slot as usize];
        if owned.definition.auto_delete && owned.had_consumer && owned.fifo.consumers() == 0 {
            let messages = owned.fifo.ready() + owned.fifo.delayed();
            return Done::Delete { definition: owned.definition.clone(), token: None, messages };
        }
        Done::Nothing
    }

    /// Tells the consumers of a queue that is gone, and first who waits for a single message of it.
    pub(crate) fn tell_members(queue: &crate::owned::OwnedQueue, post: &mut Post) {
        for (Member { port, .. }, token) in queue.waiting_gets() {
            post.reply(port, token, Err(Refusal::queue_gone()));
        }
        for Member { port, handle } in queue.all_members() {
            let queue = queue.definition.clone();
            post.event(port, Event::Cancelled { consumer: handle, queue });
        }
    }
}
