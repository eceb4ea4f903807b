//! A channel's transaction under way: publishes and acks that are held back until it is committed or rolled back.

use super::unacked::{Delivery, Unacked};
use crate::context::Context;
use crate::transaction::{HeldPublish, Transaction};
use broker::access::AccessCache;
use broker::catalog::{Object, Reason, Refusal};
use message::record::Outcome;

/// An ack that is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldSettle {
    pub(super) tag: u64,
    pub(super) delivery: Delivery,
    pub(super) outcome: Outcome,
}

/// The mark of a publish that is to be returned when it is routed nowhere.
pub(super) const MANDATORY: u64 = 1;

/// A transactional channel's transaction under way.
#[derive(Debug, Default)]
pub(super) struct ChannelTransaction {
    held: Transaction<HeldSettle>,
}

impl ChannelTransaction {
    /// Whether an ack of something this consumer was sent is held back.
    pub(super) fn holds(&self, consumer: u32) -> bool {
        self.held.settles().iter().any(|settle| settle.delivery.consumer == consumer)
    }

    /// Publishes and settled deliveries that are held back.
    pub(super) fn held_counts(&self) -> (u64, u64) {
        (self.held.publishes().count() as u64, self.held.settles().len() as u64)
    }

    /// Holds back a publish that was found in order.
    pub(super) fn hold_publish(
        &mut self,
        context: &Context<'_>,
        access: &mut AccessCache,
        publish: &HeldPublish<'_>,
        mandatory: bool,
    ) -> Result<(), Refusal> {
        access.check_publish(
            context.shard.catalog(),
            publish.exchange,
            publish.keys(),
            publish.more.user_id,
        )?;
        let publish = HeldPublish { mark: if mandatory { MANDATORY } else { 0 }, ..publish.clone() };
        self.held.publish(context.settings, &publish).map_err(|_| too_large(context))
    }

    /// Holds back the ack of one delivery, or of all up to it; false: there is none with this tag.
    pub(super) fn hold_settle(
        &mut self,
        context: &Context<'_>,
        unacked: &mut Unacked,
        (tag, multiple): (u64, bool),
        outcome: Outcome,
    ) -> Result<bool, Refusal> {
        let mut held = Ok(());
        let mut hold = |tag, delivery| {
            let settle = HeldSettle { tag, delivery, outcome };
            if self.held.settle(context.settings, settle, 0).is_err() {
                held = Err(too_large(context));
            }
        };
        let is_known = if multiple {
            unacked.take_through(tag, hold)
        } else {
            let taken = unacked.take(tag);
            taken.map(|delivery| hold(tag, delivery)).is_some()
        };
        held.map(|()| is_known)
    }

    /// Takes all that is held back; another transaction begins.
    pub(super) fn take(&mut self) -> Transaction<HeldSettle> {
        std::mem::take(&mut self.held)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<ChannelTransaction>() + self.held.len_bytes()
    }
}

fn too_large(context: &Context<'_>) -> Refusal {
    let most = context.settings.transaction_bytes_max;
    let text = format!("transaction is larger than configured max size {most}");
    Refusal::precondition(Reason::TooLarge(Object::Transaction), text)
}
