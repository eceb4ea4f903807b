//! Messages that the node itself names by their positions in a queue, for requests of users: `queue.settle`, which AMQP does
//! not have.

use super::Adapter;
use super::pending::BrokerRequest;
use crate::context::Context;
use ::amqp091::method::{MethodId, QueueSettle, QueueSettleOk};
use base::id::QueueSeq;
use broker::access::Access;
use broker::catalog::Refusal;
use broker::{QueueCommand, SettleAt};

/// Bytes of a position.
const BYTES: usize = 8;

impl Adapter {
    /// `queue.settle`.
    pub(super) fn settle_at(
        &mut self,
        context: &mut Context<'_>,
        (number, method): (u16, MethodId),
        settle: &QueueSettle<'_>,
    ) -> Result<(), Refusal> {
        self.check_agent(method)?;
        let queue = self.queue(context, number, Access::Read, settle.queue)?;
        let (positions, _) = settle.positions.as_chunks::<BYTES>();
        context.shard.work().spend(positions.len() as u32);
        let positions = positions.iter().map(|position| QueueSeq(u64::from_be_bytes(*position))).collect();
        let token = self.requests.wait(number, method, false, BrokerRequest::Settle);
        let settle = SettleAt { token, positions, rejects: settle.rejects };
        self.command(context, &queue, QueueCommand::SettleAt(Box::new(settle)));
        Ok(())
    }

    /// `queue.settle-ok`.
    pub(super) fn settled_at(&mut self, channel: u16, missing: &[QueueSeq]) {
        let missing: Vec<u8> = missing.iter().flat_map(|position| position.0.to_be_bytes()).collect();
        self.machine.send(channel, &QueueSettleOk { missing: &missing });
    }
}
