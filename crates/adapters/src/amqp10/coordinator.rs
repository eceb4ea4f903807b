//! Transactions (part 4): a coordinator that declares and discharges them, messages posted and deliveries retired within.
//!
//! Posted messages and the outcomes of retired deliveries are held back until the discharge and then take effect in one
//! turn, see [`crate::transaction`]; the discharge is answered when all its publishes are safe. A discharge that cannot
//! be done as a whole is not begun: one whose messages are routed nowhere, or whose deliveries went back to
//! their queue with their link, is refused and the transaction undone. Undone, retired deliveries go back as failed
//! ones. A transaction ends with the link of its coordinator. Ids are valid on their connection, in any session.
//! RabbitMQ has none of this.

use super::link::{ConsumerAt, End, Link, Particulars};
use super::outcomes::{Added, outcome_of, wire_outcome};
use super::publishing::Addressed;
use super::refused::{Refused, named};
use super::transactions::{
    Doomed, Open, Retired, TOO_DEAR, TOO_LARGE, TRANSACTIONS_MAX, TransactionId, Transactions, Waiting,
};
use super::{Adapter, annotations, termini};
use crate::context::{Context, Gravity};
use crate::handles::numbered;
use crate::transaction::{HeldPublish, NoRoom, Room, Transaction, price_of_few};
use ::amqp10::{
    Attach, Control, Disposition, Error, LinkId, Outcome as WireOutcome, ReceiverSettleMode, Role, Run,
    SessionId, Source, Symbols, Target, Transfer, condition,
};
use base::id::QueueSeq;
use broker::access::AccessCache;
use broker::catalog::ReplyCode;
use broker::fields::{Fields10, Unstamped};
use broker::ledger::Kind;
use broker::{Count, Publish, Published, Publisher, QueueCommand, price_of_queues};
use message::amqp10::{BodyKind, Decoder, Encoder, Map, Message, Value};
use message::record::{Format, Outcome, SeqRange};
use message::stamps::Stamps;

/// Requests a controller may have open at once.
const CREDIT: u32 = 8;

/// Bytes that holding a message takes besides the message, at most: two names and its entry.
const ENTRY_BYTES_MAX: usize = 1024;

/// The capabilities of the coordinator (§4.5.7).
const CAPABILITIES: [&str; 3] =
    ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];

/// The request in a message to a coordinator.
fn control<'a>(message: &Message<'a>) -> Option<Control<'a>> {
    let value = message.body.sections().next().filter(|_| message.body.kind == BodyKind::Value)?;
    Control::read(value).ok()?
}

impl Adapter {
    /// A controller wants a coordinator.
    pub(super) fn attach_coordinator(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        let Some(actor) = self.actor.clone() else { return Ok(()) };
        if self.sessions.get(id).is_none() {
            return Ok(());
        }
        let particulars = Particulars {
            sender_settle_mode: attach.sender_settle_mode,
            lacks_rejected: !termini::takes_rejected(attach.source.as_ref()),
            ..Particulars::default()
        };
        self.add_link(id, Link { id: link, end: End::Coordinator, particulars });
        let next = &mut self.next_session;
        let transactions = self.transactions.get_or_insert_with(|| {
            let handle = numbered(next, id.0);
            let publisher = Publisher::new(context.port, handle, AccessCache::new(actor));
            Box::new(Transactions::new(publisher, handle))
        });
        transactions.links += 1;
        let target =
            Target { is_coordinator: true, capabilities: Symbols::Given(&CAPABILITIES), ..Target::default() };
        let outcomes = ["amqp:accepted:list", "amqp:rejected:list", "amqp:declared:list"];
        let asked = attach.source.unwrap_or_default();
        let outcomes = match asked.outcomes.iter().next() {
            Some(_) => asked.outcomes,
            None => Symbols::Given(&outcomes),
        };
        let source = Source { outcomes, ..asked };
        let answer = Attach {
            sender_settle_mode: attach.sender_settle_mode,
            receiver_settle_mode: ReceiverSettleMode::First,
            source: Some(source),
            target: Some(target),
            max_message_size: Some(context.limits10.message_bytes_max),
            ..Attach::new(attach.name, Role::Receiver)
        };
        self.machine.answer_attach(id, link, &answer);
        self.machine.grant(id, link, CREDIT, false);
        Ok(())
    }

    /// A coordinator's link is gone, and with it the transactions that were not discharged.
    pub(super) fn drop_coordinator(&mut self, context: &mut Context<'_>, id: SessionId, link: LinkId) {
        let Some(transactions) = &mut self.transactions else { return };
        let gone = transactions.take_of((id, link));
        self.drop_if_idle(context);
        for open in gone {
            self.undo(context, open.held);
        }
    }

    /// A message to a coordinator.
    pub(super) fn coordinate(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>) {
        let message = Message::read(transfer.payload).ok();
        match message.as_ref().and_then(control) {
            Some(Control::Declare { is_global: false }) => self.declare(context, transfer),
            Some(Control::Declare { is_global: true }) => {
                let text = "transactions with a global id are not coordinated here";
                self.reject(context, transfer, &Refused::new(condition::NOT_IMPLEMENTED, text));
            }
            Some(Control::Discharge { id, fail }) => self.discharge(context, transfer, id, fail),
            None => {
                let text = "a coordinator takes declare and discharge alone";
                let refused = Refused::new(condition::DECODE_ERROR, text);
                return self.end_link(context, transfer, &refused);
            }
        }
        self.allow_requests(transfer.session, transfer.link);
    }

    /// Gives a controller credit for as many requests as may still be open.
    fn allow_requests(&mut self, id: SessionId, link: LinkId) {
        let Some(transactions) = &self.transactions else { return };
        let waiting = transactions.waiting.iter().filter(|it| it.tell == Some((id, link))).count();
        let credit = CREDIT.saturating_sub(u32::try_from(waiting).unwrap_or(CREDIT));
        if self.machine.credit(id, link).is_some_and(|(left, _)| left < credit.min(CREDIT / 2)) {
            self.machine.grant(id, link, credit, false);
        }
    }

    fn declare(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>) {
        let Some(transactions) = &mut self.transactions else { return };
        if transactions.open.len() >= TRANSACTIONS_MAX {
            let text = "too many transactions on one connection";
            let refused = Refused::new(condition::RESOURCE_LIMIT_EXCEEDED, text);
            return self.reject(context, transfer, &refused);
        }
        let id: TransactionId = context.shard.secret_bytes();
        transactions.begin(context.now, id, (transfer.session, transfer.link));
        self.tell(transfer, &WireOutcome::Declared(&id));
    }

    fn discharge(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>, id: &[u8], fail: bool) {
        let Some(transactions) = &mut self.transactions else { return };
        let Some(at) = transactions.find(id) else {
            let refused = Refused::new(condition::UNKNOWN_TRANSACTION, "there is no such transaction");
            return self.reject(context, transfer, &refused);
        };
        let Open { held, doomed, .. } = transactions.open.swap_remove(at);
        let refusal = doomed.or_else(|| self.obstacle(context, &held));
        match refusal {
            _ if fail => self.tell(transfer, &WireOutcome::Accepted),
            Some(Doomed { condition, text }) => {
                self.reject(context, transfer, &Refused::new(condition, text));
            }
            None => return self.carry_out_transaction(context, transfer, held),
        }
        self.undo(context, held);
    }

    /// The obstacle to carrying out a transaction as a whole, in one turn. The work that looking takes is counted, and
    /// what carrying it out takes besides publishing.
    fn obstacle(&mut self, context: &mut Context<'_>, held: &Transaction<Retired>) -> Option<Doomed> {
        let publisher = &mut self.transactions.as_mut()?.publisher;
        let stamps = stamps(context);
        let most = context.settings.transaction_work_max;
        context.shard.work().spend(held.price());
        let mut units = held.price();
        for publish in held.publishes() {
            if units > most {
                return Some(TOO_DEAR);
            }
            let queues = with_publish(&publish, stamps, |publish| {
                context.shard.would_publish(context.now, publisher, publish)
            });
            // The work that publishing counts is counted when it is done.
            let to = *queues.as_ref().unwrap_or(&0);
            let (counted, few) = (price_of_queues(to), price_of_few(to));
            let looked = publisher.take_steps().saturating_add(if counted == 0 { few } else { 0 });
            context.shard.work().spend(looked);
            units = units.saturating_add(looked).saturating_add(counted);
            let text = match queues {
                Ok(0) => "a message of the transaction is routed nowhere",
                Ok(_) => continue,
                Err(_) => "a message of the transaction may no longer be published",
            };
            return Some(Doomed { condition: condition::ROLLED_BACK, text });
        }
        if held.settles().iter().any(|retired| self.consumers.get(retired.consumer).is_none()) {
            let text = "a link has gone whose deliveries are retired in the transaction";
            return Some(Doomed { condition: condition::ROLLED_BACK, text });
        }
        None
    }

    fn carry_out_transaction(
        &mut self,
        context: &mut Context<'_>,
        transfer: &Transfer<'_>,
        held: Transaction<Retired>,
    ) {
        context.shard.give(context.port, Kind::Transactions, held.heap_bytes());
        let Some(transactions) = &mut self.transactions else { return };
        let publisher = &mut transactions.publisher;
        let first = publisher.next_seq();
        let stamps = stamps(context);
        let mut left = 0;
        for publish in held.publishes() {
            let published = with_publish(&publish, stamps, |publish| {
                context.shard.publish_rare(context.now, publisher, publish)
            });
            // Whether it may be published and is routed was asked in this turn, of the same message and catalog.
            if published == Ok(Published::Waiting) {
                left += 1;
            }
        }
        let end = publisher.next_seq();
        for retired in held.into_settles() {
            self.settle_retired(context, &retired, retired.outcome, retired.added.as_ref());
            if !retired.settled {
                self.tell_retired(&retired, &wire_outcome(retired.outcome));
            }
        }
        if left == 0 {
            return self.tell(transfer, &WireOutcome::Accepted);
        }
        if let Some(transactions) = &mut self.transactions {
            let tell = Some((transfer.session, transfer.link));
            let delivery_id = transfer.delivery_id;
            let was_refused = false;
            transactions.waiting.push_back(Waiting { tell, delivery_id, first, end, left, was_refused });
        }
    }

    /// The broker confirmed publishes of transactions.
    pub(super) fn confirmed_transaction(
        &mut self,
        context: &mut Context<'_>,
        publisher: u32,
        first: u64,
        last: u64,
    ) {
        let Some(transactions) = self.transactions.as_mut().filter(|it| it.handle == publisher) else {
            return;
        };
        transactions.confirmed(first, last);
        self.answer_discharges(context);
    }

    /// A queue was full for publishes of a discharge: the others are made, and it is rejected.
    pub(super) fn refused_transaction(
        &mut self,
        context: &mut Context<'_>,
        publisher: u32,
        first: u64,
        last: u64,
    ) {
        let Some(transactions) = self.transactions.as_mut().filter(|it| it.handle == publisher) else {
            return;
        };
        transactions.refused(first, last);
        self.answer_discharges(context);
    }

    /// Answers the discharges nothing is waited for any more, in order.
    fn answer_discharges(&mut self, context: &mut Context<'_>) {
        let Some(transactions) = &mut self.transactions else { return };
        for Waiting { tell, delivery_id, was_refused, .. } in transactions.take_done() {
            if let Some((session, link)) = tell {
                let full = Error::new(condition::RESOURCE_LIMIT_EXCEEDED, "a queue is full");
                if was_refused && !self.takes_rejected(session, link) {
                    self.machine.detach(session, link, Some(full), true);
                    self.drop_link(context, session, link);
                    continue;
                }
                let outcome =
                    if was_refused { WireOutcome::Rejected(Some(full)) } else { WireOutcome::Accepted };
                self.machine.settle_incoming(session, delivery_id, delivery_id, &outcome);
                self.allow_requests(session, link);
            }
        }
        self.drop_if_idle(context);
    }

    /// Forgets a coordinator with neither links nor transactions.
    fn drop_if_idle(&mut self, context: &mut Context<'_>) {
        if let Some(mut idle) = self.transactions.take_if(|transactions| transactions.is_idle()) {
            context.shard.forget_routes(&mut idle.publisher);
        }
    }

    /// A message came in a transaction (§4.4.1).
    #[cold]
    pub(super) fn post(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>, id: &[u8]) {
        let Some(at) = self.transactions.as_mut().and_then(|transactions| transactions.find(id)) else {
            let refused = Refused::new(condition::UNKNOWN_TRANSACTION, "there is no such transaction");
            return self.end_link(context, transfer, &refused);
        };
        let addressed = match self.address(context, transfer) {
            Ok(Some(addressed)) => addressed,
            // A request of a controller is part of no transaction.
            Ok(None) => return self.rare_transfer(context, transfer),
            Err(refused) => return self.end_posting(context, transfer, id, &refused),
        };
        let Addressed { message, destination } = addressed;
        let more = match annotations::more(&message) {
            Ok(more) => more.unwrap_or_default(),
            Err(wrong) => return self.end_posting(context, transfer, id, &wrong.refused()),
        };
        let destination = match destination {
            Ok(destination) => destination,
            Err(text) => {
                let refused = Refused::new(condition::PRECONDITION_FAILED, text);
                return self.refuse_posted(context, transfer, id, &refused);
            }
        };
        let Some(transactions) = &mut self.transactions else { return };
        let access = transactions.publisher.access();
        let (exchange, key) = (destination.exchange.as_bytes(), destination.key.as_bytes());
        let keys = std::iter::once(key).chain(more.keys.iter().copied());
        if let Err(refusal) = access.check_publish(context.shard.catalog(), exchange, keys, more.user_id) {
            if refusal.code == ReplyCode::WrongUser {
                return self.end_posting(context, transfer, id, &refusal.into());
            }
            return self.refuse_posted(context, transfer, id, &refusal.into());
        }
        let publish = HeldPublish {
            exchange,
            routing_key: key,
            more,
            format: Format::Amqp10,
            durable: message.header.durable,
            priority: message.header.priority,
            ttl_ms: message.header.ttl_ms.map(u64::from),
            head: message.head,
            body: message.bare,
            mark: 0,
        };
        let left = context.settings.transaction_bytes_max.saturating_sub(transactions.held_bytes());
        let open = &mut transactions.open[at];
        if open.doomed.is_none() {
            let held = match transfer.payload.len() + ENTRY_BYTES_MAX > left {
                true => Err(NoRoom::Transaction),
                false => open.held.publish(&mut Room::of(context), &publish),
            };
            open.doomed = held.err().map(|none| Doomed::for_room(&none));
        }
        let doomed = open.doomed;
        self.is_due = true;
        match doomed {
            None => self.tell_posted(transfer, id, &WireOutcome::Accepted),
            Some(Doomed { condition, text }) => {
                let error = Error::new(condition, text);
                self.tell_posted(transfer, id, &WireOutcome::Rejected(Some(error)));
            }
        }
    }

    /// A posted message leads nowhere, or where it may not go. It is rejected; where that cannot be told the link ends, or the
    /// sender hears nothing for it has settled. Then the transaction can only be undone (§4.3).
    #[cold]
    fn refuse_posted(
        &mut self,
        context: &mut Context<'_>,
        transfer: &Transfer<'_>,
        id: &[u8],
        refused: &Refused,
    ) {
        if !transfer.settled && self.takes_rejected(transfer.session, transfer.link) {
            let info = named(transfer);
            let error = Error { info: Map::new(2, &info), ..Error::new(refused.condition, &refused.text) };
            return self.tell_posted(transfer, id, &WireOutcome::Rejected(Some(error)));
        }
        self.doom(id);
        if !transfer.settled {
            self.end_anonymous(context, transfer, refused);
        }
    }

    /// A posted message breaks a rule that ends its link.
    #[cold]
    fn end_posting(
        &mut self,
        context: &mut Context<'_>,
        transfer: &Transfer<'_>,
        id: &[u8],
        refused: &Refused,
    ) {
        self.doom(id);
        self.end_link(context, transfer, refused);
    }

    /// A message of a transaction could not be posted: it can only be undone.
    fn doom(&mut self, id: &[u8]) {
        if let Some(transactions) = &mut self.transactions {
            transactions.doom(id);
        }
    }

    /// Tells the state of a posted message: its outcome at the discharge.
    fn tell_posted(&mut self, transfer: &Transfer<'_>, id: &[u8], outcome: &WireOutcome<'_>) {
        let mut bytes = Vec::new();
        outcome.write(&mut Encoder::new(&mut bytes));
        let outcome = Decoder::new(&bytes).value().unwrap_or(Value::Null);
        self.tell(transfer, &WireOutcome::Transactional { id, outcome });
    }

    /// The peer told the outcome that deliveries are to have when a transaction is discharged (§4.4.2).
    #[cold]
    pub(super) fn retire(
        &mut self,
        context: &mut Context<'_>,
        disposition: &Disposition<'_>,
        id: &[u8],
        outcome: Value<'_>,
    ) {
        let Disposition { session, first, last, settled, .. } = *disposition;
        let at = self.transactions.as_mut().and_then(|transactions| transactions.find(id));
        let (outcome, added) = match WireOutcome::read(outcome) {
            Ok(Some(outcome)) if outcome.is_terminal() => (outcome_of(&outcome), Added::of(&outcome)),
            // No outcome yet: nothing to hold.
            _ if !settled => return,
            _ => (Outcome::Released, Ok(None)),
        };
        let added = match added {
            Ok(added) => added,
            Err(text) => return self.end_session(context, session, condition::INVALID_FIELD, text),
        };
        let mut retired = Vec::new();
        let Some(found) = self.sessions.get(session) else { return };
        let mut links = Vec::new();
        self.machine.settle(session, first, last, |Run { link, delivery_id, token, count }| {
            let end = found.links.iter().find(|it| it.id.0 == link).map(|link| &link.end);
            let Some(End::Source { consumer, .. }) = end else { return };
            if !links.contains(&LinkId(link)) {
                links.push(LinkId(link));
            }
            let range = SeqRange { first: QueueSeq(token), last: QueueSeq(token + u64::from(count) - 1) };
            let (consumer, added) = (*consumer, added.clone());
            retired.push(Retired { session, consumer, delivery_id, range, outcome, added, settled });
        });
        self.look_at_room(context, session);
        let Some(at) = at else {
            // They go back with their link.
            for link in links {
                let (condition, text) = (condition::UNKNOWN_TRANSACTION, "there is no such transaction");
                self.note(context, Gravity::Error, format!("a link ends: {condition}: {text}"));
                self.machine.detach(session, link, Some(Error::new(condition, text)), true);
                self.drop_link(context, session, link);
            }
            return;
        };
        for retired in retired {
            let Some(transactions) = &mut self.transactions else { return };
            let is_full = transactions.held_bytes() > context.settings.transaction_bytes_max;
            let open = &mut transactions.open[at];
            let bytes = retired.added.as_ref().map_or(0, Added::len_bytes);
            if open.doomed.is_none()
                && !is_full
                && open.held.settle(&mut Room::of(context), retired.clone(), bytes).is_ok()
            {
                continue;
            }
            open.doomed.get_or_insert(TOO_LARGE);
            self.undo_retired(context, &retired);
        }
    }

    /// Forgets the posted messages and gives back the retired deliveries.
    fn undo(&mut self, context: &mut Context<'_>, held: Transaction<Retired>) {
        context.shard.give(context.port, Kind::Transactions, held.heap_bytes());
        for retired in held.into_settles() {
            self.undo_retired(context, &retired);
        }
    }

    fn undo_retired(&mut self, context: &mut Context<'_>, retired: &Retired) {
        self.settle_retired(context, retired, Outcome::Failed, None);
        if !retired.settled {
            self.tell_retired(retired, &wire_outcome(Outcome::Failed));
        }
    }

    fn settle_retired(
        &mut self,
        context: &mut Context<'_>,
        retired: &Retired,
        outcome: Outcome,
        added: Option<&Added>,
    ) {
        // Without its consumer it is back in the queue already.
        let Some(ConsumerAt { at: Some(at), of, .. }) = self.consumers.get(retired.consumer).copied() else {
            return;
        };
        let (handle, range) = (at.handle, retired.range);
        if outcome == Outcome::Accepted {
            self.note_of(context, of, Count::Ack, range.last.0 - range.first.0 + 1);
        }
        let command = match added {
            Some(added) => added.command(handle, range, outcome),
            None => QueueCommand::Settle { handle, range, outcome },
        };
        context.shard.command(context.now, context.port, at.log, at.queue, command);
    }

    /// A receiver that waits for us to settle is told how it went.
    fn tell_retired(&mut self, retired: &Retired, outcome: &WireOutcome<'_>) {
        let count = (retired.range.last.0 - retired.range.first.0) as u32;
        let (first, last) = (retired.delivery_id, retired.delivery_id.wrapping_add(count));
        self.machine.dispose(retired.session, Role::Sender, first, last, true, Some(outcome));
    }

    /// Gives up transactions that have taken too long.
    pub(super) fn end_late_transactions(&mut self, context: &mut Context<'_>) {
        let Some(transactions) = &mut self.transactions else { return };
        let late = transactions.take_late(context.now);
        for held in late {
            self.undo(context, held);
        }
    }
}

/// The node's stamps, and the time that messages come at: that of the discharge.
fn stamps<'c>(context: &Context<'c>) -> Option<(&'c Stamps, u64)> {
    Some((context.settings.stamps.as_deref()?, context.now.wall_ms))
}

/// Calls `work` with a publish that was held back, with the node's stamps of now.
fn with_publish<T>(
    held: &HeldPublish<'_>,
    stamps: Option<(&Stamps, u64)>,
    work: impl FnOnce(&Publish<'_>) -> T,
) -> T {
    let message = Message::read_parts(held.head, held.body).expect("it was read when it came");
    let whole = stamps.and_then(|(stamps, at_ms)| stamps.on_amqp10(&message, at_ms));
    let message = whole.as_ref().and_then(|whole| Message::read(whole).ok()).unwrap_or(message);
    let fields = Fields10::of(&message);
    let unstamped = Unstamped(&fields);
    let has_time = stamps.is_some_and(|(stamps, _)| stamps.time.is_some());
    work(&Publish {
        exchange: held.exchange,
        routing_key: held.routing_key,
        more: held.more.some(),
        headers: if has_time { &unstamped } else { &fields },
        format: Format::Amqp10,
        durable: held.durable,
        priority: held.priority,
        ttl_ms: held.ttl_ms,
        head: &[message.head],
        body: &[message.bare],
        confirm: true,
    })
}
