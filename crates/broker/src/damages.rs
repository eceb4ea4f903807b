//! Damage that is found when messages are handed out, and drops where a log is damaged, to be told to the operator.
//!
//! A place is told once, however many messages lie there and however often they are handed out anew, and a shard tells
//! [`PLACES_TOLD_MAX`] of them until it starts again: a disk that rots as a whole must not fill the log.
//! Not here: what becomes of such messages (`Log::pass_over_damage`), and what streams find (they have machines of their own).

use crate::catalog::QueueDefinition;
use crate::reading::ReadWhat;
use base::id::LogId;
use journal::{FileKind, FileName};
use queue::stream::Damage;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Places a shard tells.
pub(crate) const PLACES_TOLD_MAX: usize = 64;

/// Messages of a queue whose bytes are not what was written, or cannot be read.
#[derive(Clone, Debug)]
pub struct MessageDamage {
    /// The queue's log.
    pub log: LogId,
    /// The first queue that wanted something that lies there.
    pub queue: Arc<QueueDefinition>,
    /// Where they lie.
    pub what: ReadWhat,
    /// It is the last one that is told of.
    pub is_last: bool,
}

/// Something of a stream on disk that is not what was written: it is left out, and the rest is served.
#[derive(Clone, Debug)]
pub struct StreamDamage {
    /// The log.
    pub log: LogId,
    /// The stream.
    pub stream: Arc<QueueDefinition>,
    /// The damage: its place and the reason.
    pub damage: Damage,
}

/// Something on disk that is not what was written, or what it led to.
#[derive(Clone, Debug)]
pub enum Damaged {
    /// A piece of a stream: readers go on behind it.
    Stream(StreamDamage),
    /// Messages of a queue: they stay in it, and those behind them are handed out.
    Messages(MessageDamage),
    /// Records that were on their way to a log when it was stopped.
    Dropped {
        /// The log.
        log: LogId,
        /// Publishes, those of whom somebody waits for included.
        publishes: u64,
    },
}

/// The damage that a shard has found.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    told: Vec<ReadWhat>,
    unreported: Vec<MessageDamage>,
    /// By log: publishes that were dropped and are not told.
    dropped: BTreeMap<LogId, u64>,
}

impl Damages {
    /// A queue wanted a message that cannot be delivered: `what` is where it lies.
    #[cold]
    pub(crate) fn note(&mut self, log: LogId, queue: &Arc<QueueDefinition>, what: ReadWhat) {
        if self.told.len() == PLACES_TOLD_MAX || self.told.iter().any(|told| is_same(told, &what)) {
            return;
        }
        self.told.push(what);
        let is_last = self.told.len() == PLACES_TOLD_MAX;
        self.unreported.push(MessageDamage { log, queue: queue.clone(), what, is_last });
    }

    /// Publishes came for a log that is stopped, from a shard that did not know: until it does, which is soon.
    #[cold]
    pub(crate) fn note_dropped(&mut self, log: LogId, publishes: u64) {
        if publishes > 0 {
            *self.dropped.entry(log).or_default() += publishes;
        }
    }

    /// Moves damage that was not told yet into `into`.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut Vec<Damaged>) {
        if !self.unreported.is_empty() || !self.dropped.is_empty() {
            self.take_all(into);
        }
    }

    #[cold]
    fn take_all(&mut self, into: &mut Vec<Damaged>) {
        into.extend(self.unreported.drain(..).map(Damaged::Messages));
        while let Some((log, publishes)) = self.dropped.pop_first() {
            into.push(Damaged::Dropped { log, publishes });
        }
    }
}

/// One line is for both. Messages in a stream's segment are read one by one, and are as many as it holds.
fn is_same(told: &ReadWhat, what: &ReadWhat) -> bool {
    match (told, what) {
        (ReadWhat::Stretch(told), ReadWhat::Stretch(what)) => told.file == what.file,
        _ => told == what,
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damaged::Stream(damage) => damage.fmt(f),
            Damaged::Messages(damage) => damage.fmt(f),
            Damaged::Dropped { log, publishes } => write!(
                f,
                "log {log}: publishes that were on their way to it when it was stopped are dropped, {publishes} of them. Who waits \
                 for a confirm of one is told, who does not is told with the next"
            ),
        }
    }
}

impl fmt::Display for MessageDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageDamage { log, queue, what, is_last } = self;
        write!(f, "{}, log {log}: what is in ", queue.named())?;
        match what {
            ReadWhat::Batch { base, place } => {
                write!(f, "{} from byte {} (the batch at {base})", place.name, place.offset)?;
            }
            ReadWhat::Block(key) => {
                let (first, last) = (key.place.first, key.place.last);
                let file = FileName::new(FileKind::Segment, key.segment);
                write!(f, "{file} from byte {} (positions {first} to {last})", key.place.offset)?;
            }
            ReadWhat::Stretch(key) => write!(f, "{} from byte {}", key.file, key.position)?,
        }
        f.write_str(
            " is damaged or cannot be read. Its messages are not delivered and stay in their queue: restore the data \
             folder from a copy, or purge the queue after a restart to go on without them",
        )?;
        if *is_last {
            f.write_str(". Further places are not told until the node starts again")?;
        }
        Ok(())
    }
}

impl fmt::Display for StreamDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamDamage { log, stream, damage } = self;
        let file = FileName::of_log(FileKind::Stream, *log, damage.place.segment);
        let (at, reason) = (damage.place.position, &damage.reason);
        write!(f, "{}: what is in {file} from byte {at} is damaged and left out: {reason}", stream.named())
    }
}
