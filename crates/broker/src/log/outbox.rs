//! The things that this node has for a log which nodes agree on: records that are not in it yet, as far as is known here, with the
//! publishes that wait for that, and commands that the leader is not done with.
//!
//! A parcel of records is in one batch of the log, whole, behind the [`Stamp`] with its number. It stays here, with its memory,
//! until it is seen in the log; whoever leads meanwhile may come to have it, more than once. Numbers rise, and are given out
//! here. Commands stay until their effects are recorded, and those that want an answer until it is there.
//! Not here: the way to the node that leads ([`super::visit`]), and what is recorded ([`super::origins`]).

use super::foreign::Records;
use crate::event::{Event, Events};
use crate::mail::{Charge, Waiter};
use crate::request::QueueCommand;
use crate::word::Item;
use base::id::{NodeNo, PortId, QueueId};
use message::record::{Origin, Stamp};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of memory that a command counts for, besides what it holds.
const COMMAND_BYTES: usize = 128;

/// Parcels among which one is looked for that a command makes needless.
const LOOKED_AT_MAX: usize = 64;

/// The content of a parcel.
#[derive(Debug)]
pub(crate) enum Content {
    /// Records.
    Records(Records),
    /// A message that a queue may refuse: whoever leads asks it.
    Ask { record: Records, needs_flush: bool },
    /// A command of a connection.
    Command {
        queue: QueueId,
        port: PortId,
        command: QueueCommand,
        /// It waits for an event of this kind.
        awaits: Awaits,
    },
}

/// The event that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// None.
    Nothing,
    /// The answer with this token.
    Answer(u32),
    /// That the credit of this consumer is used up.
    Drained(u32),
    /// How much there is for this consumer.
    Available(u32),
}

impl Awaits {
    fn of(command: &QueueCommand) -> Awaits {
        match command {
            QueueCommand::Credit { handle, drain: true, .. } => Awaits::Drained(*handle),
            QueueCommand::Credit { handle, echo: true, .. } => Awaits::Available(*handle),
            command => command.token().map_or(Awaits::Nothing, Awaits::Answer),
        }
    }

    fn is_over(self, event: &Event) -> bool {
        match (self, event) {
            (Awaits::Nothing, _) => true,
            (Awaits::Answer(wanted), Event::Reply { token, .. } | Event::Got { token, .. }) => {
                wanted == *token
            }
            (
                Awaits::Drained(handle),
                Event::Drained { consumer, .. } | Event::Cancelled { consumer, .. },
            )
            | (
                Awaits::Available(handle),
                Event::Available { consumer, .. } | Event::Cancelled { consumer, .. },
            ) => handle == *consumer,
            _ => false,
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// That of its records in the log; 0: a command has none.
    pub(crate) number: u64,
    pub(crate) content: Content,
    pub(crate) waiters: Vec<Waiter>,
    /// Its position along the visit of its node with the leader; 0: it was not brought in this one.
    pub(crate) at: u64,
    /// The connections that its bytes are charged to, and how many to each.
    charged: Vec<(PortId, u64)>,
}

impl Parcel {
    /// One of records that was not brought to anybody.
    pub(crate) fn new(number: u64, records: Records, waiters: Vec<Waiter>) -> Parcel {
        Parcel { number, content: Content::Records(records), waiters, at: 0, charged: Vec::new() }
    }

    /// As it is brought.
    pub(crate) fn item(&self) -> Item {
        match &self.content {
            Content::Records(Records { memory, range }) => {
                Item::Records { number: self.number, memory: memory.clone(), range: range.clone() }
            }
            Content::Ask { record, needs_flush } => Item::Ask {
                number: self.number,
                memory: record.memory.clone(),
                waiter: self.waiters.first().copied(),
                needs_flush: *needs_flush,
            },
            Content::Command { queue, port, command, .. } => {
                Item::Command { queue: *queue, port: *port, command: Box::new(command.clone()) }
            }
        }
    }

    /// It waits for what the leader says of it.
    fn waits(&self) -> bool {
        match &self.content {
            Content::Records(_) => false,
            Content::Ask { .. } => !self.waiters.is_empty(),
            Content::Command { awaits, .. } => *awaits != Awaits::Nothing,
        }
    }

    /// Bytes of the records in its item: see [`Item::bytes`].
    pub(crate) fn record_bytes(&self) -> usize {
        match &self.content {
            Content::Records(records) => records.range.len(),
            Content::Ask { record, .. } => record.memory.len(),
            Content::Command { .. } => 0,
        }
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Records(records) | Content::Ask { record: records, .. } => records.memory.len(),
            Content::Command { command: QueueCommand::Accept { ranges, .. }, .. } => {
                COMMAND_BYTES + size_of_val(&**ranges)
            }
            Content::Command { .. } => COMMAND_BYTES,
        }
    }
}

impl Parcel {
    /// The connections of this node that its bytes are charged to. Those of records are divided by the publishes that wait for
    /// them; what nobody waits for is charged to nobody, and bounded with all that is in flight.
    fn shares(&self) -> Vec<(PortId, u64)> {
        let bytes = self.bytes() as u64;
        let shares: Vec<(PortId, u64)> = match &self.content {
            Content::Command { port, .. } => vec![(*port, bytes)],
            Content::Records(_) | Content::Ask { .. } => {
                let count = |waiter: &Waiter| (waiter.last - waiter.first).saturating_add(1);
                let all: u64 = self.waiters.iter().map(count).sum();
                self.waiters.iter().map(|waiter| (waiter.port, bytes * count(waiter) / all.max(1))).collect()
            }
        };
        let is_own = |port: &PortId| port.node == NodeNo::ONLY;
        shares.into_iter().filter(|(port, bytes)| is_own(port) && *bytes > 0).collect()
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    origin: Origin,
    /// The number that was given out last.
    last: u64,
    parcels: VecDeque<Parcel>,
    /// Bytes of their memory.
    bytes: usize,
    /// How many of them are no commands.
    messages: usize,
    /// The charges to connections since they were asked for last; none: nobody is charged.
    charges: Option<BTreeMap<PortId, Charge>>,
}

impl Outbox {
    /// The origin of what this node sends.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// This node begins a life, later than all before.
    ///
    /// # Panics
    /// In the midst of another.
    pub(crate) fn begin(&mut self, origin: Origin) {
        assert!(self.last == 0, "a node has one life at a time");
        self.origin = origin;
    }

    /// So far its node has come in the log, where this one leads: numbers go on behind that. False: the log knows of a later life
    /// of this node than this one, and will take nothing of this.
    pub(crate) fn go_on_behind(&mut self, last: Stamp) -> bool {
        if last.origin == self.origin {
            self.last = self.last.max(last.number);
        }
        last.origin.incarnation <= self.origin.incarnation
    }

    /// The next number.
    pub(crate) fn next_stamp(&mut self) -> Stamp {
        self.last += 1;
        Stamp { origin: self.origin, number: self.last }
    }

    /// From now on connections are charged for what is kept of theirs.
    pub(crate) fn begin_to_charge(&mut self) {
        self.charges.get_or_insert_default();
    }

    /// The charges to connections since they were asked for last.
    pub(crate) fn take_charges(&mut self) -> BTreeMap<PortId, Charge> {
        self.charges.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn charge(&mut self, parcel: &mut Parcel) {
        if let Some(charges) = &mut self.charges {
            parcel.charged = parcel.shares();
            for (port, bytes) in &parcel.charged {
                let charge = charges.entry(*port).or_default();
                charge.bytes += *bytes as i64;
                charge.is_asked |= matches!(parcel.content, Content::Command { .. });
            }
        }
    }

    fn give_back(&mut self, parcel: &mut Parcel) {
        let charged = std::mem::take(&mut parcel.charged);
        if let Some(charges) = &mut self.charges {
            charged.iter().for_each(|(port, bytes)| charges.entry(*port).or_default().bytes -= *bytes as i64);
        }
    }

    /// Keeps a parcel, whose number is the highest of all.
    pub(crate) fn put(&mut self, mut parcel: Parcel) {
        self.charge(&mut parcel);
        self.bytes += parcel.bytes();
        self.messages += usize::from(parcel.number > 0);
        self.parcels.push_back(parcel);
    }

    /// Keeps a command of a connection. Where it says what an earlier one said otherwise, which was brought to nobody, it
    /// takes its place. `is_known`: its consumer is there, and hears of its credit.
    pub(crate) fn put_command(
        &mut self,
        port: PortId,
        queue: QueueId,
        command: QueueCommand,
        is_known: bool,
    ) {
        // Answers are for nobody, and what is asked for would come to nobody.
        let ends = |last: &QueueCommand, awaits: Awaits| match command {
            QueueCommand::Leave => awaits != Awaits::Nothing,
            QueueCommand::Cancel { handle, .. } => {
                last.getter() == Some(handle)
                    || matches!(awaits, Awaits::Drained(of) | Awaits::Available(of) if of == handle)
            }
            _ => false,
        };
        if matches!(command, QueueCommand::Leave | QueueCommand::Cancel { .. }) {
            self.take_out(|parcel| match &parcel.content {
                Content::Command { port: of, queue: from, command, awaits } => {
                    (*of, *from) == (port, queue) && ends(command, *awaits)
                }
                _ => false,
            });
        }
        let awaits = match Awaits::of(&command) {
            Awaits::Drained(_) | Awaits::Available(_) if !is_known => Awaits::Nothing,
            awaits => awaits,
        };
        if awaits == Awaits::Nothing
            && let Some(last) = self.last_like(port, &command)
        {
            *last = command;
            return;
        }
        self.put(Parcel {
            number: 0,
            content: Content::Command { queue, port, command, awaits },
            waiters: Vec::new(),
            at: 0,
            charged: Vec::new(),
        });
    }

    /// A command that was brought to nobody so far, and which this one makes needless, among the last ones. What came between them
    /// does not ask how much the consumer may have.
    fn last_like(&mut self, port: PortId, command: &QueueCommand) -> Option<&mut QueueCommand> {
        let unsent = self.parcels.iter_mut().rev().take(LOOKED_AT_MAX).take_while(|parcel| parcel.at == 0);
        let mut commands = unsent.filter_map(|parcel| match &mut parcel.content {
            Content::Command { port: of, command, awaits: Awaits::Nothing, .. } if *of == port => {
                Some(command)
            }
            _ => None,
        });
        commands.find(|last| replaces(command, last))
    }

    /// Keeps a message that a queue may refuse.
    pub(crate) fn put_ask(&mut self, record: Records, waiter: Option<Waiter>, needs_flush: bool) {
        let number = self.next_stamp().number;
        let content = Content::Ask { record, needs_flush };
        let waiters = waiter.into_iter().collect();
        self.put(Parcel { number, content, waiters, at: 0, charged: Vec::new() });
    }

    /// Takes out all parcels of which this is true.
    fn take_out(&mut self, mut goes: impl FnMut(&Parcel) -> bool) -> Vec<Parcel> {
        let mut out = Vec::new();
        let which: Vec<bool> = self.parcels.iter().map(&mut goes).collect();
        if which.contains(&true) {
            for (parcel, goes) in std::mem::take(&mut self.parcels).into_iter().zip(which) {
                match goes {
                    true => out.push(parcel),
                    false => self.parcels.push_back(parcel),
                }
            }
        }
        for parcel in &mut out {
            self.give_back(parcel);
            self.bytes -= parcel.bytes();
            self.messages -= usize::from(parcel.number > 0);
        }
        out
    }

    /// Takes the commands, for a node that leads now itself.
    pub(crate) fn take_commands(&mut self) -> Vec<(PortId, QueueId, QueueCommand)> {
        let commands = self.take_out(|parcel| matches!(parcel.content, Content::Command { .. }));
        let each = commands.into_iter().filter_map(|parcel| match parcel.content {
            Content::Command { queue, port, command, .. } => Some((port, queue, command)),
            Content::Records(_) | Content::Ask { .. } => None,
        });
        each.collect()
    }

    /// The records of all, for a node that leads now itself: nobody is asked any more.
    pub(crate) fn proposed_again(&mut self) -> impl Iterator<Item = (Stamp, Records)> + '_ {
        let origin = self.origin;
        self.parcels.iter_mut().filter_map(move |parcel| {
            if let Content::Ask { record, .. } = &parcel.content {
                parcel.content = Content::Records(record.clone());
            }
            match &parcel.content {
                Content::Records(records) => Some((Stamp { origin, number: parcel.number }, records.clone())),
                Content::Ask { .. } | Content::Command { .. } => None,
            }
        })
    }

    /// There are records with numbers up to this one.
    pub(crate) fn has_recorded(&self, number: u64) -> bool {
        let first = self.parcels.iter().find(|parcel| parcel.number > 0);
        first.is_some_and(|parcel| parcel.number <= number)
    }

    /// Takes out what is done with, as records up to this number are in the log. Commands in front of such records are done: who
    /// recorded those had carried out the commands before, which is in the same batch or in an earlier one.
    pub(crate) fn take_recorded(&mut self, number: u64) -> Vec<Parcel> {
        let is_recorded = |parcel: &Parcel| parcel.number > 0 && parcel.number <= number;
        let mut left = self.parcels.iter().filter(|parcel| is_recorded(parcel)).count();
        self.take_out(|parcel| {
            let is_front = left > 0;
            left -= usize::from(is_recorded(parcel));
            is_front && !parcel.waits()
        })
    }

    /// Takes out what was brought up to this position, all of which is done, but for what waits for an answer.
    pub(crate) fn take_done(&mut self, at: u64) -> Vec<Parcel> {
        self.take_out(|parcel| (1..=at).contains(&parcel.at) && !parcel.waits())
    }

    /// The leader has told these: what waited for one of them is done with.
    pub(crate) fn take_answered(&mut self, events: &Events) -> Vec<Parcel> {
        let answers: Vec<_> = events.list.iter().filter(|(_, event)| may_be_answer(event)).collect();
        if answers.is_empty() {
            return Vec::new();
        }
        let is_answer = |parcel: &Parcel, of: PortId, event: &Event| match (&parcel.content, event) {
            (Content::Command { port, awaits, .. }, event) => *port == of && awaits.is_over(event),
            (
                Content::Ask { .. },
                Event::Confirmed { publisher, first, last } | Event::Refused { publisher, first, last, .. },
            ) => parcel.waiters.iter().any(|waiter| {
                (waiter.port, waiter.publisher) == (of, *publisher)
                    && (*first..=*last).contains(&waiter.first)
            }),
            _ => false,
        };
        self.take_out(|parcel| {
            parcel.waits() && answers.iter().any(|(of, event)| is_answer(parcel, *of, event))
        })
    }

    /// Nothing of it is wanted any more.
    pub(crate) fn forget_all(&mut self) {
        self.take_out(|_| true);
    }

    /// Nothing was brought so far: another visit begins.
    pub(crate) fn unsend(&mut self) {
        self.parcels.iter_mut().for_each(|parcel| parcel.at = 0);
    }

    /// The first parcel that was not brought so far is brought as this position.
    pub(crate) fn send(&mut self, at: u64) -> Option<Item> {
        let first = self.parcels.partition_point(|parcel| parcel.at > 0);
        let parcel = self.parcels.get_mut(first)?;
        parcel.at = at;
        Some(parcel.item())
    }

    /// Those that were brought from this position on, in order.
    pub(crate) fn sent(&self, from: u64) -> impl Iterator<Item = &Parcel> {
        let end = self.parcels.partition_point(|parcel| parcel.at > 0);
        let begin = self.parcels.partition_point(|parcel| parcel.at > 0 && parcel.at < from);
        self.parcels.range(begin..end)
    }

    /// All of them.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Parcel> {
        self.parcels.iter()
    }

    /// The waiters of all parcels, taken out: they do not hear of anything.
    pub(crate) fn take_waiters(&mut self) -> impl Iterator<Item = Waiter> {
        self.parcels.iter_mut().flat_map(|parcel| parcel.waiters.drain(..))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Records wait.
    pub(crate) fn has_messages(&self) -> bool {
        self.messages > 0
    }

    /// Its content, in words.
    pub(crate) fn in_words(&self) -> String {
        let each = self.parcels.iter().map(|parcel| match &parcel.content {
            Content::Records(records) => {
                format!("{} bytes as {}@{}", records.range.len(), parcel.number, parcel.at)
            }
            Content::Ask { .. } => format!("a question as {}@{}", parcel.number, parcel.at),
            Content::Command { port, command, .. } => format!("{port:?} {command:?}@{}", parcel.at),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Parcels there are.
    pub(crate) fn len(&self) -> usize {
        self.parcels.len()
    }

    /// Bytes of memory of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Something may wait for an event of this kind.
fn may_be_answer(event: &Event) -> bool {
    matches!(
        event,
        Event::Reply { .. }
            | Event::Got { .. }
            | Event::Drained { .. }
            | Event::Available { .. }
            | Event::Cancelled { .. }
            | Event::Confirmed { .. }
            | Event::Refused { .. }
    )
}

/// A command says the same as one before, of later.
fn replaces(command: &QueueCommand, last: &QueueCommand) -> bool {
    match (command, last) {
        (QueueCommand::Credit { handle, .. }, QueueCommand::Credit { handle: of, .. })
        | (QueueCommand::Prefetch { handle, .. }, QueueCommand::Prefetch { handle: of, .. })
        | (QueueCommand::Pause { handle, .. }, QueueCommand::Pause { handle: of, .. }) => handle == of,
        _ => false,
    }
}
