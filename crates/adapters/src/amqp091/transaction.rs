//! A channel's transaction under way: publishes and acks that are held back until it is committed or rolled back.

use super::unacked::{Delivery, Unacked};
use crate::context::Context;
use crate::transaction::{HeldPublish, Made, NoRoom, Room, Transaction};
use broker::access::AccessCache;
use broker::catalog::{Object, Reason, Refusal, ReplyCode};
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
    pub(super) held: Transaction<HeldSettle>,
    /// While it is committed: how much of it is.
    pub(super) made: Made,
}

impl ChannelTransaction {
    /// Whether an ack of something this consumer was sent is held back.
    pub(super) fn holds(&self, consumer: u32) -> bool {
        self.held.settles_left(&self.made).iter().any(|settle| settle.delivery.holder() == consumer)
    }

    /// Publishes and settled deliveries that are held back.
    pub(super) fn held_counts(&self) -> (u64, u64) {
        (self.held.publishes_left(&self.made) as u64, self.held.settles_left(&self.made).len() as u64)
    }

    /// Holds back a publish that was found in order.
    pub(super) fn hold_publish(
        &mut self,
        context: &mut Context<'_>,
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
        let held = self.held.publish(&mut Room::of(context), &publish);
        held.map_err(|none| no_room(context, &none))
    }

    /// Holds back the ack of one delivery, or of all up to it; false: there is none with this tag.
    pub(super) fn hold_settle(
        &mut self,
        context: &mut Context<'_>,
        unacked: &mut Unacked,
        (tag, multiple): (u64, bool),
        outcome: Outcome,
    ) -> Result<bool, Refusal> {
        let mut held = Ok(());
        let mut hold = |tag, delivery| {
            let settle = HeldSettle { tag, delivery, outcome };
            if let Err(none) = self.held.settle(&mut Room::of(context), settle, 0) {
                held = Err(no_room(context, &none));
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

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<ChannelTransaction>() + self.held_bytes()
    }

    /// Bytes of memory of what is held back, as the ledger counts them.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.heap_bytes()
    }
}

#[cold]
fn no_room(context: &Context<'_>, none: &NoRoom) -> Refusal {
    match none {
        NoRoom::Transaction => {
            let most = context.settings.transaction_bytes_max;
            let text = format!("transaction is larger than configured max size {most}");
            Refusal::precondition(Reason::TooLarge(Object::Transaction), text)
        }
        NoRoom::Ledger(full) => full.refuse(ReplyCode::PreconditionFailed, "the transaction"),
    }
}
