//! tx.select, tx.commit and tx.rollback (AMQP 0-9-1 §1.9).
//!
//! Publishes are checked when they come and made at the commit; acks take effect at the commit and are undone by a
//! rollback, which puts the deliveries back among those that can be settled. The commit is answered when everything it
//! published is safe.

use super::Adapter;
use super::pending::BrokerRequest;
use super::publishing::stamped;
use super::transaction::{HeldSettle, MANDATORY};
use crate::context::Context;
use crate::transaction::{HeldPublish, Transaction};
use ::amqp091::method::{MethodId, TxCommitOk, TxRollbackOk, TxSelectOk};
use broker::Count;
use broker::Published;
use broker::catalog::{Reason, Refusal, ReplyCode};
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

    /// Makes the publishes and settles held back; the answer follows when they are safe.
    pub(super) fn commit(
        &mut self,
        context: &mut Context<'_>,
        number: u16,
        method: MethodId,
    ) -> Result<(), Refusal> {
        let held = self.take_transaction(number)?;
        for publish in held.publishes() {
            let published = self.publish_held(context, number, &publish);
            match published {
                Ok(Published::Waiting) => {
                    if let Some(channel) = self.channels.get(number) {
                        channel.unconfirmed += 1;
                    }
                }
                Ok(Published::Done) => {}
                Ok(Published::Unroutable) => {
                    let is_mandatory = publish.mark & MANDATORY != 0;
                    let what = if is_mandatory { Count::ReturnUnroutable } else { Count::DropUnroutable };
                    if let Some(channel) = self.channels.get(number) {
                        channel.note(context, None, what, 1);
                    }
                    self.return_held(context, number, &publish);
                }
                // Its exchange was there when it was published; one deleted since leads nowhere.
                Err(refusal) if refusal.code == ReplyCode::NotFound => {
                    self.return_held(context, number, &publish)
                }
                Err(refusal) => return Err(refusal),
            }
        }
        for HeldSettle { delivery, outcome, .. } in held.into_settles() {
            self.settle_one(context, delivery, outcome);
        }
        self.pass_on_settled(context);
        self.requests.wait(number, method, false, BrokerRequest::Commit);
        self.see_whether_committed(number);
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
            && self.requests.is_waiting_for_commit(number)
        {
            self.requests.give_up();
            self.machine.send(number, &TxCommitOk {});
        }
    }

    pub(super) fn roll_back(&mut self, number: u16) -> Result<(), Refusal> {
        let held = self.take_transaction(number)?;
        if let Some(channel) = self.channels.get(number) {
            let settles = held.into_settles().into_iter();
            channel.unacked.put_back(settles.map(|HeldSettle { tag, delivery, .. }| (tag, delivery)));
        }
        // Cancelled consumers may hold later ones again than were left of them.
        for consumer in self.consumers.iter_mut().filter(|consumer| consumer.channel == number) {
            consumer.newest = u64::MAX;
        }
        self.machine.send(number, &TxRollbackOk {});
        Ok(())
    }

    fn take_transaction(&mut self, number: u16) -> Result<Transaction<HeldSettle>, Refusal> {
        let channel = self.channels.get(number);
        let Some(transaction) = channel.and_then(|channel| channel.transaction.as_mut()) else {
            let text = "channel is not transactional";
            return Err(Refusal::precondition(Reason::WrongState, text));
        };
        Ok(transaction.take())
    }
}
