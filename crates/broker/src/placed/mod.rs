//! The machines placed on a log: queues, streams, whatever kinds there are, in one slab.
//!
//! A machine's kind is asked for here alone, once for each call ([`At`], [`Placed`], and what comes and goes in [`Machines`]).
//! A machine at work is itself, the state that all machines of the log share ([`Commons`]), and what those of its kind
//! share ([`OfStreams`]).
//! Not here: what a kind does ([`queue`], [`stream`]), and when a log asks for it ([`crate::log`]).

pub(crate) mod queue;
pub(crate) mod stream;

use crate::batches::Batches;
use crate::catalog::{QueueDefinition, QueueRules, QueueType};
use crate::limits::Limits;
use crate::log::{Commons, NO_QUEUE};
use crate::post::Post;
use crate::recovery::Kept;
use crate::request::QueueCommand;
use crate::rows::queues::QueueRow;
use crate::tally::Tally;
use crate::turn::Turn;
use ::queue::stream::{Settings as StreamSettings, Stream};
use ::queue::{Fifo, Settings};
use base::cursor::{Reader, Short};
use base::hash::MapById;
use base::id::{LogIndex, PortId, QueueId, QueueSeq};
use base::{Now, Pieces};
use message::record::{Kind, Machine, Open};
use queue::at::AtQueue;
use queue::commands::{Done, answer_gone};
use queue::owned::OwnedQueue;
use queue::sizing::Sample;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use stream::{AtStream, OfStreams, OwnedStream};

/// A machine of a log, with what its owner keeps of it.
///
/// A queue is not boxed: nearly all machines are queues, and each of their messages would cost one more step through memory.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(crate) enum Placed {
    Queue(OwnedQueue),
    Stream(Box<OwnedStream>),
}

/// State of a log's machines that is needed only while the node comes up.
#[derive(Debug, Default)]
pub(crate) struct Recovering {
    /// Batches that may be taken back, in order: see [`crate::log::Log::replay`].
    pub(crate) kept: VecDeque<Kept>,
    /// How far delivery had come in each queue.
    pub(crate) cursors: MapById<QueueId, QueueSeq>,
    /// Something was replayed: the node had not stopped in order.
    pub(crate) has_replayed: bool,
}

impl Recovering {
    /// How far delivery had come in a queue, where nothing was handed out since.
    fn cursor(&self, queue: QueueId) -> Option<QueueSeq> {
        self.cursors.get(&queue).copied().filter(|_| !self.has_replayed)
    }
}

/// The fate of a machine's messages in a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovered {
    /// It has messages, and it is known which of them were never delivered.
    pub(crate) has_undelivered: bool,
    /// Each of its messages is in a batch, or in a segment.
    pub(crate) is_whole: bool,
}

/// The machines placed on a log, by their slots and by their ids.
#[derive(Debug)]
pub(crate) struct Machines {
    slab: Slab<Placed>,
    by_id: MapById<QueueId, u32>,
    last_lookup: (QueueId, u32),
}

impl Default for Machines {
    fn default() -> Machines {
        Machines { slab: Slab::new(), by_id: MapById::default(), last_lookup: (NO_QUEUE, 0) }
    }
}

impl Machines {
    #[inline]
    pub(crate) fn slot(&mut self, id: QueueId) -> Option<u32> {
        if self.last_lookup.0 == id {
            return Some(self.last_lookup.1);
        }
        let slot = *self.by_id.get(&id)?;
        self.last_lookup = (id, slot);
        Some(slot)
    }

    /// As [`Machines::slot`], of a machine that is owned here: others take no commands.
    #[inline]
    pub(crate) fn owned_slot(&mut self, id: QueueId) -> Option<u32> {
        self.slot(id).filter(|slot| self.slab[*slot as usize].is_owned())
    }

    /// The id of the machine in a slot. There must be one.
    pub(crate) fn id_at(&self, slot: u32) -> QueueId {
        self.slab[slot as usize].id()
    }

    /// As [`Machines::slot`], remembering nothing.
    pub(crate) fn slot_of(&self, id: QueueId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// A machine, to look at.
    pub(crate) fn get(&self, id: QueueId) -> Option<&Placed> {
        self.slab.get(self.slot_of(id)? as usize)
    }

    /// A machine, to be changed but by its log's records.
    pub(crate) fn get_mut(&mut self, id: QueueId) -> Option<&mut Placed> {
        let slot = self.slot(id)?;
        self.slab.get_mut(slot as usize)
    }

    /// The machines from a slot on, without passing over those before it.
    pub(crate) fn iter_from(&self, slot: usize) -> impl Iterator<Item = (usize, &Placed)> {
        (slot..self.slab.capacity()).filter_map(|own| Some((own, self.slab.get(own)?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Placed> {
        self.slab.iter().map(|(_, placed)| placed)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Placed> {
        self.slab.iter_mut().map(|(_, placed)| placed)
    }

    /// The slots that are taken, lowest first.
    pub(crate) fn slots(&self) -> Vec<u32> {
        self.slab.iter().map(|(slot, _)| slot as u32).collect()
    }

    /// The machine in a slot, at work. There must be one.
    #[inline]
    pub(crate) fn at<'a>(
        &'a mut self,
        slot: u32,
        commons: &'a mut Commons,
        streams: &'a mut OfStreams,
    ) -> At<'a> {
        At { slot, placed: &mut self.slab[slot as usize], commons, streams }
    }

    fn insert(&mut self, id: QueueId, placed: Placed) -> u32 {
        let slot = self.slab.insert(placed) as u32;
        self.by_id.insert(id, slot);
        slot
    }

    fn remove(&mut self, id: QueueId) -> Option<(u32, Placed)> {
        let slot = self.by_id.remove(&id)?;
        self.last_lookup = (NO_QUEUE, 0);
        Some((slot, self.slab.remove(slot as usize)))
    }

    // ---- those of one kind

    /// The queue in a slot, to be looked at.
    #[inline]
    pub(crate) fn queue(&self, slot: u32) -> Option<&OwnedQueue> {
        self.slab.get(slot as usize)?.as_queue()
    }

    /// As [`Machines::queue`], to be changed.
    #[inline]
    pub(crate) fn queue_mut(&mut self, slot: u32) -> Option<&mut OwnedQueue> {
        match self.slab.get_mut(slot as usize)? {
            Placed::Queue(queue) => Some(queue),
            Placed::Stream(_) => None,
        }
    }

    /// A queue by its id, and its slot.
    pub(crate) fn find_queue(&mut self, id: QueueId) -> Option<(u32, &mut OwnedQueue)> {
        let slot = self.slot(id)?;
        Some((slot, self.queue_mut(slot)?))
    }

    /// The queues, by their slots.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &OwnedQueue> {
        self.iter().filter_map(Placed::as_queue)
    }

    /// The stream in a slot, to be looked at.
    #[inline]
    pub(crate) fn stream(&self, slot: u32) -> Option<&OwnedStream> {
        self.slab.get(slot as usize)?.as_stream()
    }

    /// As [`Machines::stream`], to be changed.
    #[inline]
    pub(crate) fn stream_mut(&mut self, slot: u32) -> Option<&mut OwnedStream> {
        match self.slab.get_mut(slot as usize)? {
            Placed::Stream(stream) => Some(stream),
            Placed::Queue(_) => None,
        }
    }
}

impl Machines {
    /// A machine is owned here from now on: it was declared, or a snapshot or a record brought it before. False: no record
    /// has opened it yet.
    ///
    /// # Panics
    /// When its log has something else of this id.
    pub(crate) fn claim(&mut self, definition: Arc<QueueDefinition>, streams: &mut OfStreams) -> bool {
        let id = definition.id;
        if let Some(slot) = self.slot(id) {
            match (&mut self.slab[slot as usize], definition.queue_type) {
                (Placed::Queue(queue), QueueType::Classic | QueueType::Quorum) => queue.claim(definition),
                (Placed::Stream(stream), QueueType::Stream) => stream.claim(definition),
                _ => panic!("{} has another machine in its place", definition.named()),
            }
            return self.slab[slot as usize].is_open();
        }
        match definition.queue_type {
            QueueType::Classic | QueueType::Quorum => {
                self.insert(id, Placed::Queue(OwnedQueue::declared(definition)));
            }
            QueueType::Stream => {
                let slot = self.insert(id, Placed::Stream(Box::new(OwnedStream::declared(definition))));
                streams.make().came(slot);
            }
        }
        false
    }

    /// The record is applied that opens a machine, and none that closes it.
    pub(crate) fn is_open(&self, id: QueueId) -> bool {
        self.slot_of(id).is_some_and(|slot| self.slab[slot as usize].is_open())
    }

    /// The record is applied that opens a machine.
    pub(crate) fn open(&mut self, open: &Open, streams: &mut OfStreams) {
        let Some(slot) = self.slot(open.id) else {
            match open.machine {
                Machine::Queue { counts, groups } => {
                    let fifo = Fifo::new(Settings { counts, ..Settings::default() });
                    let mut queue = OwnedQueue::bare(open.id, fifo);
                    queue.opened(groups);
                    self.insert(open.id, Placed::Queue(queue));
                }
                Machine::Stream => {
                    self.insert_stream(open.id, Stream::new(StreamSettings::default()), streams)
                }
            }
            return;
        };
        match (&mut self.slab[slot as usize], open.machine) {
            (Placed::Queue(queue), Machine::Queue { groups, .. }) => queue.opened(groups),
            (Placed::Stream(stream), Machine::Stream) => stream.is_open = true,
            _ => panic!("{open:?} opens another machine"),
        }
    }

    /// A stream that nobody owns here.
    fn insert_stream(&mut self, id: QueueId, machine: Stream, streams: &mut OfStreams) {
        let slot = self.insert(id, Placed::Stream(Box::new(OwnedStream::bare(id, machine))));
        streams.make().came(slot);
    }

    /// A machine is not owned here any more: its consumers are told, unless it `keeps` them for the next owner, and what its
    /// owner kept of it is gone. Where no record
    /// has opened it, or will, it is gone with all. False: there is none.
    pub(crate) fn resign(
        &mut self,
        id: QueueId,
        (commons, streams): (&mut Commons, &mut OfStreams),
        post: &mut Post,
        keeps: bool,
    ) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        match &mut self.slab[slot as usize] {
            Placed::Queue(queue) => {
                queue.tell_members(post, keeps);
                AtQueue { slot, queue, commons }.resign();
            }
            Placed::Stream(stream) => streams.make().resign(slot, stream, post),
        }
        true
    }

    /// A machine is on its log no more, with all that was in it.
    pub(crate) fn close(
        &mut self,
        id: QueueId,
        (commons, streams): (&mut Commons, &mut OfStreams),
        is_replaying: bool,
        limits: &Limits,
    ) {
        match self.remove(id) {
            None => {}
            Some((_, Placed::Queue(queue))) => {
                if let Some(streams) = streams.get_mut() {
                    // It lets go of the segments of streams that it referred to.
                    streams.references.forget(id, commons.pipeline.next());
                }
                commons.let_queue_go(&queue.fifo, is_replaying, limits.spare_buffers_max);
            }
            Some((slot, Placed::Stream(stream))) => streams.make().close(slot, *stream),
        }
    }

    /// Carries out a connection's command for the machine in a slot; where it is not owned here the queue is gone.
    pub(crate) fn carry(
        &mut self,
        slot: u32,
        (commons, streams): (&mut Commons, &mut OfStreams),
        turn: &mut Turn<'_>,
        port: PortId,
        command: QueueCommand,
    ) -> Done {
        match &mut self.slab[slot as usize] {
            Placed::Queue(queue) if queue.is_owned() => {
                AtQueue { slot, queue, commons }.carry(turn, port, command)
            }
            Placed::Stream(stream) if stream.is_owned() => {
                streams.make().carry((self, commons), turn, slot, port, command)
            }
            _ => {
                answer_gone(turn.post, port, command);
                Done::Nothing
            }
        }
    }

    /// The recorded state of all machines.
    ///
    /// ```text
    ///   | queues, see `queue::recovery` | streams, see `stream::recovery`, if the log has, or had, any
    /// ```
    pub(crate) fn write_snapshot(&self, is_clean: bool, streams: &OfStreams, bytes: &mut Pieces) {
        self.write_queues(is_clean, bytes);
        if let Some(streams) = streams.get() {
            streams.write_snapshot(self, bytes);
        }
    }

    /// Takes in what [`Machines::write_snapshot`] wrote.
    pub(crate) fn restore(
        &mut self,
        bytes: &[u8],
        (commons, streams): (&mut Commons, &mut OfStreams),
        recovering: &mut Recovering,
    ) -> Result<(), Short> {
        let mut reader = Reader::new(bytes);
        let queues = queue::recovery::read(&mut reader)?;
        let mut restored = Vec::new();
        if !reader.rest().is_empty() {
            streams.make().restore(&mut reader, &mut restored)?;
        }
        self.restore_queues(queues, &mut commons.store, recovering);
        for (id, machine) in restored {
            match self.slot(id).and_then(|slot| self.stream_mut(slot)) {
                Some(stream) => stream.restore(machine),
                None => self.insert_stream(id, machine, streams),
            }
        }
        Ok(())
    }
}

/// A machine of a log at work: see the module's head.
#[derive(Debug)]
pub(crate) struct At<'a> {
    slot: u32,
    placed: &'a mut Placed,
    commons: &'a mut Commons,
    streams: &'a mut OfStreams,
}

impl At<'_> {
    /// A message came, in this record with these flags; `asks`: a machine may keep more of it than its place. How many
    /// messages of the log's batches live by that; none: no record has opened the machine, and it takes nothing.
    #[inline]
    pub(crate) fn take_in(self, at: LogIndex, record: &[u8], flags: u8, asks: bool) -> Option<u32> {
        let At { slot, placed, commons, streams } = self;
        match placed {
            Placed::Queue(queue) if queue.is_open => {
                Some(AtQueue { slot, queue, commons }.take_in(at, record, flags, asks))
            }
            Placed::Stream(stream) if stream.is_open => {
                AtStream { slot, stream, streams: streams.make() }.take_in(record);
                Some(0)
            }
            _ => None,
        }
    }

    /// Any other record that names the machine is applied. As [`At::take_in`].
    #[inline]
    pub(crate) fn apply(self, at: LogIndex, kind: Kind, record: &[u8]) -> Option<u32> {
        let At { slot, placed, commons, streams } = self;
        match placed {
            Placed::Queue(queue) if queue.is_open => {
                Some(AtQueue { slot, queue, commons }.apply(at, kind, record, streams))
            }
            Placed::Stream(stream) if stream.is_open => {
                AtStream { slot, stream, streams: streams.make() }.apply(kind, record);
                Some(0)
            }
            _ => None,
        }
    }

    /// The machine goes by these rules from now on. What it records of that is appended.
    pub(crate) fn go_by(self, turn: &mut Turn<'_>, rules: QueueRules) {
        let At { slot, placed, commons, streams } = self;
        match placed {
            Placed::Queue(queue) => AtQueue { slot, queue, commons }.go_by(turn, rules),
            Placed::Stream(stream) => {
                let mut at = AtStream { slot, stream, streams: streams.make() };
                rules.stream.iter().for_each(|rules| at.go_by(commons, turn.now, rules));
            }
        }
    }

    /// Where the records end that are applied before this command is carried out; none: there are none.
    #[inline]
    pub(crate) fn comes_after(&self, port: PortId, command: &QueueCommand) -> Option<LogIndex> {
        match &*self.placed {
            Placed::Queue(queue) if queue.is_owned() => queue.comes_after(self.commons, port, command),
            // Until the log has a leader here nobody knows whether the queue is gone.
            Placed::Queue(_) => (!self.commons.pipeline.leads()).then(|| self.commons.pipeline.applied()),
            Placed::Stream(_) => None,
        }
    }

    /// Hands out what is ready, as much as a turn may, where the machine is on the log's agenda. Streams have lists of
    /// their readers instead.
    #[inline]
    pub(crate) fn hand_out(self, turn: &mut Turn<'_>) {
        let At { slot, placed, commons, .. } = self;
        match placed {
            Placed::Queue(queue) => AtQueue { slot, queue, commons }.hand_out(turn),
            Placed::Stream(_) => {}
        }
    }

    /// The timer rings that the machine has on the log's agenda. One that was unused for too long is added to `ended`: it
    /// is to be deleted.
    pub(crate) fn ring(self, now: Now, ended: &mut Vec<Arc<QueueDefinition>>) {
        let At { slot, placed, commons, .. } = self;
        match placed {
            Placed::Queue(queue) => AtQueue { slot, queue, commons }.ring(now, ended),
            Placed::Stream(_) => {}
        }
    }

    /// The log is led from here on: the machine begins, if it is owned here.
    pub(crate) fn begin(self, turn: &mut Turn<'_>) {
        let At { slot, placed, commons, .. } = self;
        match placed {
            Placed::Queue(queue) => AtQueue { slot, queue, commons }.begin(turn),
            Placed::Stream(_) => {}
        }
    }

    /// The replay is over: the machine begins. `batches` are those of the log, in which its messages are counted.
    pub(crate) fn recover(
        self,
        turn: &mut Turn<'_>,
        recovering: &Recovering,
        batches: &mut Batches,
    ) -> Recovered {
        let At { slot, placed, commons, .. } = self;
        match placed {
            Placed::Queue(queue) => AtQueue { slot, queue, commons }.recover(turn, recovering, batches),
            Placed::Stream(_) => Recovered { has_undelivered: false, is_whole: true },
        }
    }
}

/// The machine that a queue of this definition is.
pub(crate) fn machine_of(definition: &QueueDefinition) -> Machine {
    match definition.queue_type {
        QueueType::Classic | QueueType::Quorum => {
            Machine::Queue { counts: definition.is_quorum(), groups: definition.group_header().is_some() }
        }
        QueueType::Stream => Machine::Stream,
    }
}

impl Placed {
    #[inline]
    pub(crate) fn as_queue(&self) -> Option<&OwnedQueue> {
        match self {
            Placed::Queue(queue) => Some(queue),
            Placed::Stream(_) => None,
        }
    }

    /// The stream, if it is one.
    #[inline]
    pub(crate) fn as_stream(&self) -> Option<&OwnedStream> {
        match self {
            Placed::Stream(stream) => Some(stream),
            Placed::Queue(_) => None,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.as_stream().is_some()
    }

    /// The definition of a machine that is owned here.
    ///
    /// # Panics
    /// Where it is not.
    pub(crate) fn definition(&self) -> &Arc<QueueDefinition> {
        match self {
            Placed::Queue(queue) => queue.definition(),
            Placed::Stream(stream) => stream.definition(),
        }
    }

    /// It is owned here.
    #[inline]
    pub(crate) fn is_owned(&self) -> bool {
        match self {
            Placed::Queue(queue) => queue.is_owned(),
            Placed::Stream(stream) => stream.is_owned(),
        }
    }

    /// The record is applied that opens it.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Placed::Queue(queue) => queue.is_open,
            Placed::Stream(stream) => stream.is_open,
        }
    }

    /// It has files that no other machine has.
    pub(crate) fn has_files(&self) -> bool {
        match self {
            Placed::Queue(_) => false,
            Placed::Stream(_) => true,
        }
    }

    pub(crate) fn id(&self) -> QueueId {
        match self {
            Placed::Queue(queue) => queue.id,
            Placed::Stream(stream) => stream.id,
        }
    }

    /// Deliveries are told of from now on, or no longer.
    pub(crate) fn trace(&mut self, on: bool) {
        match self {
            Placed::Queue(queue) => queue.trace(on),
            Placed::Stream(stream) => stream.is_traced = on,
        }
    }

    /// Counting begins here: messages that are there already are not counted.
    pub(crate) fn begin_tally(&mut self) {
        match self {
            Placed::Queue(queue) => queue.begin_tally(),
            Placed::Stream(stream) => stream.begin_tally(),
        }
    }

    /// As it is listed.
    pub(crate) fn row(&self) -> QueueRow {
        match self {
            Placed::Queue(queue) => queue.row(),
            Placed::Stream(stream) => stream.row(),
        }
    }

    /// Appends what is the same in each replica of its log; of a queue without places before `from`.
    pub(crate) fn write_canonical(&self, from: LogIndex, out: &mut Vec<u8>) {
        match self {
            Placed::Queue(queue) => queue.fifo.write_canonical(from, out),
            Placed::Stream(stream) => stream.machine.write_canonical(out),
        }
    }

    /// Looks at some of its messages that are in memory, and says how many that were.
    pub(crate) fn sample(&self, batches: &Batches) -> (Sample, usize) {
        match self {
            Placed::Queue(queue) => batches.sample(queue),
            Placed::Stream(_) => Default::default(),
        }
    }

    /// Counts since the node started.
    pub(crate) fn tally(&self) -> Tally {
        match self {
            Placed::Queue(queue) => queue.tally(),
            Placed::Stream(stream) => stream.tally(),
        }
    }

    /// How many of its messages are ready, how many are held, and its consumers.
    pub(crate) fn lengths(&self) -> ([u64; 2], u32) {
        match self {
            Placed::Queue(queue) => queue.lengths(),
            Placed::Stream(stream) => ([stream.machine.messages(), 0], stream.consumers()),
        }
    }

    /// Bytes of memory it takes, messages apart.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Placed::Queue(queue) => queue.bytes(),
            Placed::Stream(stream) => size_of_val(&**stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_what_a_queue_takes() {
        assert!(size_of::<Placed>() <= size_of::<OwnedQueue>() + 8);
    }
}
