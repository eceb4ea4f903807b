//! Streams: queues whose messages stay, and are read from wherever a reader likes.
//!
//! The streams of a log are beside its queues, in a box that is there once the log has a stream. Records are applied to
//! them as to queues; what that makes ready, and what readers ask for, is carried out when the log hands out. What
//! disks are to do leaves as [`StreamJob`]s and comes back with what came of it.
//! Not here: the machine (crate `queue`), files (crate `stream_files`).

mod alike;
mod consumer;
mod cursor;
mod desk;
mod feeding;
mod messages;
mod owned;
mod pace;
mod progress;
mod readers;
mod recovery;
mod references;
mod request;
mod share;
mod shown;
mod truncating;
mod writing;

pub use request::{
    CONSUMER_NAME_MAX, FILTER_VALUES_MAX, Messages, NewMessages, RATE_MAX, SingleActive, StreamCommand,
    StreamFilter, StreamFrom, StreamReply, StreamStats, Wanted,
};

use crate::catalog::{QueueDefinition, StreamRules};
use crate::damages::StreamDamage;
use crate::log::NO_QUEUE;
use crate::notices::DrivenOut;
use crate::placed::queue::owned::Member;
use base::id::{LogId, QueueId};
use base::{Memory, Now};
use feeding::Fed;
use message::record::{Append, Enqueue, Kind, Track, Truncate};
pub(crate) use messages::{Converter, Recipient};
pub(crate) use owned::OwnedStream;
pub(crate) use progress::OffsetRules;
use progress::Settled;
use queue::stream::{self, Common, Effect, ReaderId, Remove, Settings, Storing, Stream, Work};
use references::References;
use rustc_hash::FxHashMap;
use share::Share;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use stream_files::StreamJob;
use truncating::Truncations;

/// The streams of a log.
#[derive(Debug)]
pub(crate) struct Streams {
    log: LogId,
    common: Common,
    offset_rules: OffsetRules,
    owned: Slab<OwnedStream>,
    by_id: FxHashMap<QueueId, u32>,
    last_lookup: (QueueId, u32),
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
    /// Files to be removed, of streams that are there and of those that are gone.
    removals: Vec<StreamJob>,
    /// Streams that are gone whose files are still being written to.
    leaving: FxHashMap<QueueId, Stream>,
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
    handed: [Option<Memory>; readers::HANDED_MAX],
    /// Streams of a snapshot that the catalog has not named yet; only until the replay is over.
    restored: FxHashMap<QueueId, Stream>,
}

/// The settings of a machine for a stream with these rules.
fn settings(rules: &StreamRules) -> Settings {
    let StreamRules { segment_bytes_max, filter_len, chunk_entries_first, bytes_max, age_max_ms } = *rules;
    Settings { filter_len, chunk_entries_first, segment_bytes_max, bytes_max, age_max_ms }
}

impl Streams {
    /// Begins the count of publishes; messages that are in the streams already are not counted.
    pub(crate) fn begin_tally(&mut self) {
        for (_, stream) in &mut self.owned {
            stream.begun_at = stream.machine.next_offset();
        }
    }

    fn new(log: LogId, offset_rules: OffsetRules) -> Streams {
        let offsets_max = offset_rules.names_max;
        Streams {
            log,
            common: Common::new(stream::Limits { offsets_max, ..stream::Limits::default() }),
            offset_rules,
            owned: Slab::new(),
            by_id: FxHashMap::default(),
            last_lookup: (NO_QUEUE, 0),
            open: Vec::new(),
            effects: Vec::new(),
            ready: VecDeque::new(),
            turns: Vec::new(),
            share: Share::default(),
            jobs: Vec::new(),
            removals: Vec::new(),
            leaving: FxHashMap::default(),
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
            restored: FxHashMap::default(),
        }
    }

    #[inline]
    fn slot(&mut self, id: QueueId) -> Option<u32> {
        if self.last_lookup.0 == id {
            return Some(self.last_lookup.1);
        }
        let slot = *self.by_id.get(&id)?;
        self.last_lookup = (id, slot);
        Some(slot)
    }

    /// A stream, to be looked at; the look-up is not remembered.
    pub(crate) fn get(&self, id: QueueId) -> Option<&OwnedStream> {
        self.owned.get(*self.by_id.get(&id)? as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.owned.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OwnedStream> {
        self.owned.iter().map(|(_, owned)| owned)
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

    fn open(&mut self, slot: u32, at_ms: u64) {
        let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
        let open_at_ms = &mut self.owned[slot as usize].open_at_ms;
        if open_at_ms.is_none() {
            self.open.push(slot);
        }
        *open_at_ms = (*open_at_ms).max(Some(at_ms));
    }

    /// A message came, for one stream.
    fn enqueue(&mut self, id: QueueId, message: &Enqueue<'_>) {
        let Some(slot) = self.slot(id) else { return };
        self.open(slot, message.received_at_ms);
        let Streams { owned, common, effects, converter, .. } = self;
        let (parts, filter_value) = converter.store(message);
        let at_ms = i64::try_from(message.received_at_ms).unwrap_or(i64::MAX);
        owned[slot as usize].machine.push_message(at_ms, &parts, filter_value, common, effects);
        self.sort(slot);
    }

    fn append(&mut self, append: &Append<'_>) {
        let Some(slot) = self.slot(append.stream) else { return };
        self.open(slot, append.at_ms);
        let Streams { owned, common, effects, .. } = self;
        let at_ms = i64::try_from(append.at_ms).unwrap_or(i64::MAX);
        let published = append.messages().map(|message| stream::Published {
            id: message.publishing_id,
            filter_value: message.filter_value,
            entry: message.entry,
        });
        let reference = append.reference.unwrap_or_default();
        owned[slot as usize].machine.publish(at_ms, reference, published, common, effects);
        self.sort(slot);
    }

    fn track(&mut self, track: &Track<'_>) {
        if let Some(queue) = feeding::queue_of(track.reference) {
            self.references.has_come(queue, track.offset);
        }
        let Some(slot) = self.slot(track.stream) else { return };
        let Streams { owned, common, .. } = self;
        let stream = &mut owned[slot as usize];
        let gone = match stream.machine.store_offset(track.reference, track.offset, track.owner, common) {
            Storing::Stored => None,
            Storing::InPlaceOf { reference, offset } => Some((reference, offset)),
            Storing::NoRoom => Some((track.reference.into(), track.offset)),
        };
        if let Some((reference, offset)) = gone {
            self.driven_out.0 += 1;
            self.driven_out.1 = Some(DrivenOut { stream: stream.definition.clone(), reference, offset });
        }
        if stream.told.get(track.reference) == Some(&track.offset) {
            stream.told.remove(track.reference);
        }
        if self.has_feeds {
            self.fed_upto(slot, track.reference, track.offset);
        }
    }

    /// The batch ends: its chunks are whole.
    fn close(&mut self) {
        while let Some(slot) = self.open.pop() {
            let Streams { owned, common, effects, .. } = self;
            let stream = &mut owned[slot as usize];
            if let Some(at_ms) = stream.open_at_ms.take() {
                stream.machine.close(at_ms, common, effects);
            }
            self.sort(slot);
            self.write_some(slot);
        }
    }

    /// Puts what a machine asked for where it is carried out from.
    fn sort(&mut self, slot: u32) {
        if self.effects.is_empty() {
            return;
        }
        let stream = self.owned[slot as usize].definition.id;
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Ready(reader) => self.ready.push_back((slot, reader)),
                Effect::Active { reader, active } => self.turns.push((slot, reader, active)),
                Effect::Work(Work::Remove(Remove { segments })) => {
                    let segments = self.references.doom(segments);
                    if !segments.is_empty() {
                        let work = Work::Remove(Remove { segments });
                        self.removals.push(StreamJob { log: self.log, stream, work });
                    }
                }
                Effect::Work(work) => self.jobs.push(StreamJob { log: self.log, stream, work }),
                Effect::Damaged(damage) => {
                    let definition = self.owned[slot as usize].definition.clone();
                    self.damages.push(StreamDamage { log: self.log, stream: definition, damage });
                }
            }
        }
    }
}

impl Streams {
    /// Of a log without any yet.
    pub(crate) fn of(
        (log, offset_rules): (LogId, OffsetRules),
        feeds_wait: bool,
        is_replaying: bool,
    ) -> Streams {
        Streams { feeds_wait, references: References::new(is_replaying), ..Streams::new(log, offset_rules) }
    }

    /// A stream was declared; what a snapshot held of it is given back to it. Nothing goes for being too much before the
    /// rules are known: see [`Streams::go_by`].
    pub(crate) fn create(&mut self, definition: Arc<QueueDefinition>, declared: &StreamRules) {
        let id = definition.id;
        let declared = Settings { bytes_max: None, age_max_ms: None, ..settings(declared) };
        let machine = match self.restored.remove(&id) {
            Some(mut machine) => {
                machine.configure(0, declared, &mut self.common, &mut self.effects);
                machine
            }
            None => Stream::new(declared),
        };
        let slot = self.owned.insert(OwnedStream::new(definition, machine)) as u32;
        self.by_id.insert(id, slot);
        self.sort(slot);
        self.count(slot);
    }

    /// From now on the stream goes by these rules.
    pub(crate) fn go_by(&mut self, now: Now, id: QueueId, rules: &StreamRules) {
        let Some(slot) = self.slot(id) else { return };
        let Streams { owned, common, effects, .. } = self;
        let machine = &mut owned[slot as usize].machine;
        let settings = settings(rules);
        if *machine.settings() != settings {
            machine.configure(now.wall_ms as i64, settings, common, effects);
        }
        self.sort(slot);
        self.count(slot);
    }

    /// Deliveries of a stream are told of from now on, or no longer.
    pub(crate) fn trace(&mut self, id: QueueId, on: bool) {
        if let Some(slot) = self.slot(id) {
            self.owned[slot as usize].is_traced = on;
        }
    }

    pub(crate) fn has(&self, id: QueueId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// A record for streams is applied.
    #[cold]
    #[inline(never)]
    pub(crate) fn apply(&mut self, kind: Kind, record: &[u8]) {
        let whole = "a committed batch holds whole records";
        match kind {
            Kind::Append => {
                self.share.published(record.len());
                self.append(&Append::read(record).expect(whole));
            }
            Kind::Track => self.track(&Track::read(record).expect(whole)),
            Kind::Truncate => self.truncate(&Truncate::read(record).expect(whole)),
            kind => unreachable!("{kind:?} is no record of streams"),
        }
    }

    /// A message came for what is no queue of the log: a stream, or nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn apply_message(&mut self, id: QueueId, record: &[u8]) {
        let message = Enqueue::read(record).expect("it was read before");
        self.share.published(record.len());
        self.enqueue(id, &message);
    }

    /// The batch ends whose records were applied.
    #[inline]
    pub(crate) fn close_chunks(&mut self) {
        if !self.open.is_empty() {
            self.close();
        }
    }
}
