//! Messages of queues that lie in segments of streams: found where their records say, and made as they were when they were fed.
//!
//! What a consumer gets does not differ from a message that was copied. One at a time is made, in memory of its own, when it
//! is to be handed out, shown or published anew; the one that was made last is kept. A record whose message has to be read is kept
//! until then: else, where little is kept of what is read, the reads of both would drive each other out for ever.
//! Not here: who holds the segments (`streams::references`), reading them ([`crate::reading`]).

use crate::delivery::Site;
use crate::log::AtQueue;
use crate::owned::OwnedQueue;
use crate::reading::{ReadWhat, StretchKey};
use crate::streams::Converter;
use base::id::{QueueId, QueueSeq};
use base::{Buffer, Memory};
use journal::{FileKind, FileName};
use message::record::{self, Refer};
use slab::Slab;

/// Records that are kept before it is looked whether their messages are still there.
const SOUGHT_MAX: usize = 64;

/// Messages that were made, and those that are sought.
#[derive(Debug, Default)]
pub(crate) struct Referred {
    made: Option<Made>,
    sought: Vec<Sought>,
    converter: Option<Box<Converter>>,
}

/// A message that was made.
#[derive(Debug)]
struct Made {
    queue: QueueId,
    seq: QueueSeq,
    memory: Memory,
}

/// The record of a message that has to be read.
#[derive(Debug)]
struct Sought {
    slot: u32,
    queue: QueueId,
    seq: QueueSeq,
    record: Box<[u8]>,
}

impl Referred {
    /// The message that was made last is not kept any longer.
    pub(crate) fn forget_made(&mut self) {
        self.made = None;
    }

    /// Many records are kept: those go whose messages are not in their queues any more.
    #[inline]
    pub(crate) fn forget_gone(&mut self, queues: &Slab<OwnedQueue>) {
        if self.sought.len() > SOUGHT_MAX {
            self.sought.retain(|sought| {
                queues.get(sought.slot as usize).is_some_and(|queue| {
                    queue.definition.id == sought.queue && queue.fifo.place(sought.seq).is_some()
                })
            });
        }
    }

    fn sought(&self, queue: QueueId, seq: QueueSeq) -> Option<usize> {
        self.sought.iter().position(|sought| (sought.queue, sought.seq) == (queue, seq))
    }
}

impl AtQueue<'_> {
    /// As [`AtQueue::locate`], in a queue whose messages may lie in segments of a stream.
    #[cold]
    #[inline(never)]
    pub(crate) fn locate_referred(&mut self, seq: QueueSeq) -> Site<'_> {
        let queue = &*self.queue;
        let id = queue.definition.id;
        let is_made =
            self.commons.reads.referred.made.as_ref().is_some_and(|made| (made.queue, made.seq) == (id, seq));
        if queue.fifo.place(seq).is_none() {
            return Site::Gone;
        }
        if !is_made {
            let sought = self.commons.reads.referred.sought(id, seq);
            let record: Box<[u8]> = match sought {
                Some(at) => self.commons.reads.referred.sought.swap_remove(at).record,
                None => match self.locate_record(seq) {
                    Site::Away(what) => return Site::Away(what),
                    Site::Gone => return Site::Gone,
                    Site::Here(memory, offset) => {
                        let found = record::split(&memory[offset as usize..]);
                        match found.filter(|(kind, ..)| *kind == record::Kind::Refer) {
                            Some((_, record, _)) => record.into(),
                            None => return self.locate_record(seq),
                        }
                    }
                },
            };
            let refer = Refer::read(&record).expect("a committed batch holds whole records");
            let Some(memory) = self.make(&refer) else {
                let key = self.stretch_of(&refer);
                self.commons.reads.referred.sought.push(Sought { slot: self.slot, queue: id, seq, record });
                return Site::Away(ReadWhat::Stretch(key));
            };
            self.commons.reads.referred.made = Some(Made { queue: id, seq, memory });
        }
        match &self.commons.reads.referred.made {
            Some(made) => Site::Here(&made.memory, 0),
            None => Site::Gone,
        }
    }

    fn stretch_of(&self, refer: &Refer<'_>) -> StretchKey {
        let Refer { segment, position, len, crc, .. } = *refer;
        StretchKey { file: FileName::of_log(FileKind::Stream, self.commons.id, segment), position, len, crc }
    }

    /// The message, as a record for its queue, if it was read.
    fn make(&mut self, refer: &Refer<'_>) -> Option<Memory> {
        let Refer { queue, received_at_ms, offset, len, name, .. } = *refer;
        let (memory, at) = self.commons.reads.loaded.stretch(self.stretch_of(refer))?;
        let message = &memory[at..at + len as usize];
        let mut record = Buffer::default();
        let converter = self.commons.reads.referred.converter.get_or_insert_default();
        let is_made = converter.write_fed(message, (offset, name), (queue, received_at_ms), &mut record);
        assert!(is_made, "it was made when it was fed");
        Some(record.seal())
    }
}
