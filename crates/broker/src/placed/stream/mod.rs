//! Streams: queues whose messages stay, and are read from wherever a reader likes.
//!
//! A stream at work is itself and the part of its log that the log's streams share ([`AtStream`]), which is there once the
//! log has a stream. Records are applied to it as to a queue; what that makes ready, and what readers ask for, is carried
//! out when the log hands out. What disks are to do leaves as [`StreamJob`]s and comes back with what came of it.
//! Not here: the machine (crate `queue`), files (crate `stream_files`).

mod alike;
mod applying;
mod choosing;
mod consumer;
mod cursor;
mod desk;
mod feeding;
mod messages;
mod opening;
mod owned;
mod pace;
mod progress;
mod readers;
mod recovery;
mod references;
mod request;
mod row;
mod share;
mod shown;
mod truncating;
mod verdicts;
mod writing;

pub use request::{
    CONSUMER_NAME_MAX, FILTER_VALUES_MAX, Messages, NewMessages, RATE_MAX, SingleActive, StreamCommand,
    StreamFilter, StreamFrom, StreamReply, StreamStats, Wanted,
};

pub use shown::Envelope;
pub(crate) use shown::{Shown, look, read, size};

use crate::damages::StreamDamage;
use crate::notices::DrivenOut;
use crate::placed::Machines;
use crate::placed::queue::owned::Member;
use base::Memory;
use base::hash::MapById;
use base::id::{LogId, QueueId};
use feeding::Fed;
pub(crate) use messages::{Converter, Recipient};
pub(crate) use owned::OwnedStream;
pub(crate) use progress::OffsetRules;
use progress::Settled;
use queue::stream::{self, Common, Effect, ReaderId, Remove, Stream, Work};
use references::References;
use share::Share;
use std::collections::{BTreeSet, VecDeque};
use stream_files::StreamJob;
use truncating::Truncations;

/// Pieces handed out last that are kept: one is mostly done with when so many more have followed.
const HANDED_MAX: usize = 2;

/// The part of a log that its streams share, made once the log has a stream.
#[derive(Debug)]
pub(crate) struct OfStreams {
    log: LogId,
    /// The rules for offsets that consumers store in the streams.
    offset_rules: OffsetRules,
    /// No queue is filled from a stream for now.
    feeds_wait: bool,
    /// The journal is replayed.
    is_replaying: bool,
    made: Option<Box<Streams>>,
}

impl OfStreams {
    /// Of a log with no stream yet, whose journal is to be replayed.
    pub(crate) fn new(log: LogId, offset_rules: OffsetRules) -> OfStreams {
        OfStreams { log, offset_rules, feeds_wait: false, is_replaying: true, made: None }
    }

    /// The part that the streams share, if the log has, or had, any.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Streams> {
        self.made.as_deref()
    }

    /// As [`OfStreams::get`].
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut Streams> {
        self.made.as_deref_mut()
    }

    /// As [`OfStreams::get`]; it is made if it is not there.
    #[inline]
    pub(crate) fn make(&mut self) -> &mut Streams {
        if self.made.is_none() {
            self.made = Some(self.new_streams());
        }
        self.made.as_mut().expect("they are made")
    }

    #[cold]
    #[inline(never)]
    fn new_streams(&self) -> Box<Streams> {
        let references = References::new(self.is_replaying);
        let streams = Streams::new(self.log, self.offset_rules);
        Box::new(Streams { feeds_wait: self.feeds_wait, references, ..streams })
    }

    /// The replay is over.
    pub(crate) fn end_replay(&mut self) {
        self.is_replaying = false;
    }

    /// No queue is filled from a stream for now.
    pub(crate) fn feeds_wait(&self) -> bool {
        self.feeds_wait
    }

    /// No queue is filled from a stream while an alarm holds.
    pub(crate) fn hold_feeds(&mut self, machines: &mut Machines, hold: bool) {
        self.feeds_wait = hold;
        if let Some(streams) = &mut self.made {
            streams.hold_feeds(machines, hold);
        }
    }
}

/// The part that the streams of a log share.
#[derive(Debug)]
pub(crate) struct Streams {
    log: LogId,
    common: Common,
    offset_rules: OffsetRules,
    /// The slots of the streams among the machines of the log.
    slots: BTreeSet<u32>,
    /// Those with an open chunk: the batch that fills it goes on.
    open: Vec<u32>,
    /// Effects of the machines, until they are sorted.
    effects: Vec<Effect>,
    /// Readers that may have something to be handed out.
    ready: VecDeque<(u32, ReaderId)>,
    /// Readers to be told that they are active, or no more.
    turns: Vec<(u32, ReaderId, bool)>,
    /// The budget of this turn for handing out to readers.
    share: Share,
    jobs: Vec<StreamJob>,
    /// Streams that are gone whose files are still being written to.
    leaving: MapById<QueueId, Stream>,
    pub(crate) damages: Vec<StreamDamage>,
    /// Memory of chunks that are not written.
    unwritten: usize,
    /// When what could not be written is tried again, monotonic nanoseconds.
    retry_at: Option<u64>,
    /// Consumers that get so many messages a second, and when each may have its next: monotonic nanoseconds.
    paced: Vec<(u64, u32, Member)>,
    pub(crate) converter: Converter,
    truncations: Truncations,
    /// Segments held by queues that are fed.
    pub(crate) references: References,
    /// Queues are fed from a stream.
    has_feeds: bool,
    /// Nothing is fed for now.
    feeds_wait: bool,
    /// Readers for queues that have no room.
    starved: Vec<(u32, ReaderId)>,
    /// Pieces taken out for queues, to be put into the log.
    fed: Vec<Fed>,
    /// How far consumers with names have come, to be stored at the end of the turn.
    progress: Vec<(QueueId, Settled)>,
    /// Stored offsets that others took the place of: their number, and the last one with its stream and name.
    driven_out: (u64, Option<DrivenOut>),
    /// Messages as consumers were handed them last.
    handed: [Option<Memory>; HANDED_MAX],
}

/// A stream of a log at work: it, and what it shares with the others.
#[derive(Debug)]
pub(crate) struct AtStream<'a> {
    pub(crate) slot: u32,
    pub(crate) stream: &'a mut OwnedStream,
    pub(crate) streams: &'a mut Streams,
}

impl Streams {
    fn new(log: LogId, offset_rules: OffsetRules) -> Streams {
        let offsets_max = offset_rules.names_max;
        Streams {
            log,
            common: Common::new(stream::Limits { offsets_max, ..stream::Limits::default() }),
            offset_rules,
            slots: BTreeSet::new(),
            open: Vec::new(),
            effects: Vec::new(),
            ready: VecDeque::new(),
            turns: Vec::new(),
            share: Share::default(),
            jobs: Vec::new(),
            leaving: MapById::default(),
            damages: Vec::new(),
            unwritten: 0,
            retry_at: None,
            paced: Vec::new(),
            converter: Converter::default(),
            truncations: Truncations::default(),
            references: References::default(),
            has_feeds: false,
            feeds_wait: false,
            starved: Vec::new(),
            fed: Vec::new(),
            progress: Vec::new(),
            driven_out: (0, None),
            handed: Default::default(),
        }
    }

    /// The stream in a slot, at work, if there is one.
    #[inline]
    fn at<'a>(&'a mut self, machines: &'a mut Machines, slot: u32) -> Option<AtStream<'a>> {
        Some(AtStream { slot, stream: machines.stream_mut(slot)?, streams: self })
    }

    /// The slots of all streams, lowest first, for what is rarely done to each.
    fn all(&self) -> Vec<u32> {
        self.slots.iter().copied().collect()
    }

    /// Memory of chunks that are not written, bytes.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten
    }

    /// Memory of chunks that were read back, bytes.
    pub(crate) fn loaded_bytes(&self) -> usize {
        self.common.loaded_bytes()
    }

    /// A reader may have something to be handed out.
    pub(crate) fn has_work(&self) -> bool {
        let may_hand = !self.ready.is_empty() && self.share.resume_at().is_none();
        may_hand || !self.turns.is_empty() || self.truncations.has_answers()
    }

    /// When what could not be written is tried again, or a consumer's next message is due, monotonic nanoseconds.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let resume_at = self.share.resume_at().filter(|_| !self.ready.is_empty());
        self.paced.iter().map(|(at, ..)| *at).chain(self.retry_at).chain(resume_at).min()
    }
}

impl AtStream<'_> {
    /// Puts what a machine asked for where it is carried out from; mostly that is nothing.
    #[inline]
    fn sort(&mut self) {
        if !self.streams.effects.is_empty() {
            self.sort_some();
        }
    }

    fn sort_some(&mut self) {
        let AtStream { slot, stream: OwnedStream { id, definition, .. }, streams } = self;
        let (slot, log, stream) = (*slot, streams.log, *id);
        for effect in streams.effects.drain(..) {
            match effect {
                Effect::Ready(reader) => streams.ready.push_back((slot, reader)),
                Effect::Active { reader, active } => streams.turns.push((slot, reader, active)),
                Effect::Work(Work::Remove(Remove { segments })) => {
                    let segments = streams.references.doom(segments);
                    if !segments.is_empty() {
                        let work = Work::Remove(Remove { segments });
                        streams.jobs.push(StreamJob { log, stream, work });
                    }
                }
                Effect::Work(work) => streams.jobs.push(StreamJob { log, stream, work }),
                Effect::Damaged(damage) => {
                    // Of one that nobody owns nobody asks.
                    let stream = definition.clone();
                    streams.damages.extend(stream.map(|stream| StreamDamage { log, stream, damage }));
                }
            }
        }
    }
}
