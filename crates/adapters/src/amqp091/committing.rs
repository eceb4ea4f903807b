//! tx.select, tx.commit and tx.rollback (AMQP 0-9-1 §1.9).
//!
//! Publishes are checked when they come and made at the commit; acks take effect at the commit and are undone by a
//! rollback, which puts the deliveries back among those that can be settled. The commit is answered when everything it
//! published is safe. One that takes more than a turn is for, see [`Settings::transaction_work_max`], is made in several;
//! until it is done nothing further is read.

use super::Adapter;
use super::pending::BrokerRequest;
use super::publishing::stamped;
use super::transaction::{ChannelTransaction, HeldSettle, MANDATORY};
use crate::context::Context;
#[cfg(doc)]
use crate::settings::Settings;
use crate::transaction::{HeldPublish, price_of_few};
use ::amqp091::method::{MethodId, TxCommitOk, TxRollbackOk, TxSelectOk};
use broker::Count;
use broker::Published;
use broker::catalog::{Reason, Refusal, ReplyCode};
use broker::ledger::Kind;
use message::amqp091::Properties;

impl Adapter {
    pub(super) fn select_transactions(&mut self, number: u16) -> Result<(), Refusal> {
        let Some(channel) = self.channels.get(number) else { return Ok(()) };
        if channel.confirms.is_some() {
            let text = "cannot switch from confirm to tx mode";
            return Err(Refusal::precondition(Reason::WrongState, text));
        }
        channel.transaction.get_or_insert_default();
        channel.does_more = true;
        self.machine.send(number, &TxSelectOk {});
        Ok(())
    }

    /// Begins to make the publishes and settles held back; the answer follows when all are made and safe.
    pub(super) fn commit(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        method: MethodId,
    ) -> Result<(), Refusal> {
        self.transaction(number)?;
        self.requests.wait(number, method, false, BrokerRequest::Commit { is_made: false });
        self.commit_on(context, number)
    }

    /// A commit has more to make than a turn is for.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.requests.unfinished().is_some()
    }

    /// Goes on with a commit that had more to make than a turn is for; false: there is none.
    #[cold]
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) -> bool {
        let Some((number, method)) = self.requests.unfinished() else { return false };
        if let Err(refusal) = self.commit_on(context, number) {
            self.refuse(context, number, &refusal, method);
        }
        true
    }

    /// Makes as much of a transaction as one turn is for.
    fn commit_on(&mut self, context: &mut Context<'_>, number: u16) -> Result<(), Refusal> {
        let channel = self.channels.get(number);
        let Some(mut transaction) = channel.and_then(|channel| channel.transaction.take()) else {
            return Ok(());
        };
        let made = self.make(context, number, &mut transaction);
        if made != Ok(false) {
            context.shard.give(context.port, Kind::Transactions, transaction.held_bytes());
            *transaction = ChannelTransaction::default();
        }
        if let Some(channel) = self.channels.get(number) {
            channel.transaction = Some(transaction);
        }
        self.pass_on_settled(context);
        if made? {
            self.requests.note_made(number);
            self.see_whether_committed(number);
        }
        Ok(())
    }

    /// As [`Adapter::commit_on`]: whether it is all of it.
    fn make(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        transaction: &mut ChannelTransaction,
    ) -> Result<bool, Refusal> {
        let ChannelTransaction { held, made } = transaction;
        let most = match context.settings.transaction_work_max {
            u32::MAX => u64::MAX,
            most => context.shard.work().spent() + u64::from(most),
        };
        loop {
            if context.shard.work().spent() >= most && context.shard.has_worked_enough() {
                return Ok(false);
            }
            context.shard.work().spend(held.next_price(made));
            if let Some(publish) = held.next_publish(made) {
                self.make_publish(context, number, &publish)?;
            } else if let Some(&HeldSettle { delivery, outcome, .. }) = held.next_settle(made) {
                self.settle_one(context, delivery, outcome);
            } else {
                return Ok(true);
            }
        }
    }

    fn make_publish(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        publish: &HeldPublish<'_>,
    ) -> Result<(), Refusal> {
        let published = self.publish_held(context, number, publish);
        let Some(channel) = self.channels.get(number) else { return Ok(()) };
        context.shard.work().spend(price_of_few(channel.publisher.uncounted_queues()));
        match published {
            Ok(Published::Waiting) => channel.unconfirmed += 1,
            Ok(Published::Done) => {}
            Ok(Published::Unroutable) => {
                let is_mandatory = publish.mark & MANDATORY != 0;
                let what = if is_mandatory { Count::ReturnUnroutable } else { Count::DropUnroutable };
                channel.note(context, None, what, 1);
                self.return_held(context, number, publish);
            }
            // Its exchange was there when it was published; one deleted since leads nowhere.
            Err(refusal) if refusal.code == ReplyCode::NotFound => self.return_held(context, number, publish),
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    fn return_held(&mut self, context: &Context<'_>, number: u16, publish: &HeldPublish<'_>) {
        if publish.mark & MANDATORY != 0 {
            let properties = Properties::read(publish.head).expect("it was read when it came");
            let stamped = stamped(context, &properties);
            let head = stamped.as_ref().map_or(publish.head, |stamped| &stamped.head);
            self.send_back(number, publish.exchange, publish.routing_key, head, publish.body);
        }
    }

    /// Answers the commit when nothing of it is waited for any more.
    pub(super) fn see_whether_committed(&mut self, number: u16) {
        if self.channels.get(number).is_some_and(|channel| channel.unconfirmed == 0)
            && self.requests.has_made_commit(number)
        {
            self.requests.give_up();
            self.machine.send(number, &TxCommitOk {});
        }
    }

    pub(super) fn roll_back(&mut self, context: &mut Context<'_>, number: u16) -> Result<(), Refusal> {
        let transaction = self.transaction(number)?;
        let ChannelTransaction { held, .. } = std::mem::take(transaction);
        context.shard.give(context.port, Kind::Transactions, held.heap_bytes());
        if let Some(channel) = self.channels.get(number) {
            let settles = held.into_settles().into_iter();
            channel.unacked.put_back(settles.map(|HeldSettle { tag, delivery, .. }| (tag, delivery)));
            self.is_resized = true;
        }
        // Cancelled consumers may hold later ones again than were left of them.
        for consumer in self.consumers.iter_mut().filter(|consumer| consumer.channel == number) {
            consumer.newest = u64::MAX;
        }
        self.machine.send(number, &TxRollbackOk {});
        Ok(())
    }

    fn transaction(&mut self, number: u16) -> Result<&mut ChannelTransaction, Refusal> {
        let channel = self.channels.get(number);
        channel.and_then(|channel| channel.transaction.as_deref_mut()).ok_or_else(|| {
            let text = "channel is not transactional";
            Refusal::precondition(Reason::WrongState, text)
        })
    }
}
