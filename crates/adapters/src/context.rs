//! The surroundings an adapter works in: time, shard and settings, memory to work in, and lines for the log.

use crate::scattered::Scattered;
use crate::settings::Settings;
use base::Now;
use base::id::{PortId, QueueId};
use broker::access::{Guard, Trial};
use broker::{Events, Item, Shard};
use std::ops::Range;
use std::sync::Arc;

/// The surroundings an adapter works with while it is called.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time of this turn.
    pub now: Now,
    /// The shard the connection is at home on.
    pub shard: &'a mut Shard,
    /// The connection.
    pub port: PortId,
    /// Settings all connections have in common.
    pub settings: &'a Settings,
    /// Bounds of AMQP 1.0 connections, which each of them refers to.
    pub limits10: &'a Arc<::amqp10::Limits>,
    /// Lines for the log, at most a few a connection.
    pub notes: &'a mut Vec<Note>,
    /// Passwords that are to be compared elsewhere.
    pub(crate) trials: &'a mut Vec<Trying>,
    /// Memory to work in.
    pub scratch: &'a mut Scratch,
}

impl Context<'_> {
    /// The connection waits for the comparison of its password.
    pub(crate) fn await_trial(&mut self, trial: Box<Trial>) {
        self.trials.push(Trying { slot: self.port.slot, generation: self.port.generation, trial });
    }

    /// The time, and the guard of passwords.
    pub(crate) fn watch(&self) -> (Now, &Guard) {
        (self.now, &self.settings.guard)
    }

    /// The connection is open from here on. Where users have shares, the rest of its input is for the share of its user.
    pub(crate) fn now_known(&mut self) {
        if std::mem::take(&mut self.scratch.is_stranger) {
            self.shard.work().allow(0);
        }
    }

    /// Tells the firehose of deliveries from a queue over a channel, or session.
    #[cold]
    pub(crate) fn trace_delivered(
        &mut self,
        channel: u16,
        queue: QueueId,
        (memory, items): (u32, Range<u32>),
        events: &Events,
    ) {
        for item in &events.items[items.start as usize..items.end as usize] {
            self.trace(channel, queue, (memory, item), events);
        }
    }

    /// The same of one.
    #[cold]
    pub(crate) fn trace(
        &mut self,
        channel: u16,
        queue: QueueId,
        (memory, item): (u32, &Item),
        events: &Events,
    ) {
        let message = events.message(memory, item);
        self.shard.trace_delivery(self.now, (self.port, channel), queue, &message, item.is_redelivered());
    }
}

/// Memory that all connections of a shard work in, one after the other.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The sections in front of the body of AMQP 1.0 deliveries.
    pub(crate) heads: crate::amqp10::Heads,
    /// A message being made one of AMQP 0-9-1.
    pub(crate) amqp091: message::convert::Amqp091,
    /// Positions being settled.
    pub(crate) scattered: Scattered,
    /// Clients' descriptions of themselves.
    pub(crate) clients: crate::clients::Clients,
    /// Users have shares of the turn, and the connection at work was not open when its input came.
    pub(crate) is_stranger: bool,
}

/// The password of a connection that is to be compared with a hash that takes memory and time. The outcome goes to
/// [`crate::Frontend::tried`] of the same shard.
#[derive(Debug)]
pub struct Trying {
    /// The connection's number.
    pub slot: u32,
    /// Which of those that had this number.
    pub generation: u32,
    /// The comparison.
    pub trial: Box<Trial>,
}

/// How grave a [`Note`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// For a close look.
    Info,
    /// Something was refused.
    Warning,
    /// Something failed.
    Error,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How grave.
    pub gravity: Gravity,
    /// The event, and advice for the operator.
    pub text: String,
}

impl Note {
    /// One for information.
    pub(crate) fn info(text: String) -> Note {
        Note { gravity: Gravity::Info, text }
    }
}
