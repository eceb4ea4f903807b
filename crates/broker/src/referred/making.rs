//! A queue at work finds messages that lie in segments of streams, and makes them.

use super::{Made, Sought};
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::delivery::Site;
use crate::placed::stream::Recipient;
use crate::reading::{ReadWhat, StretchKey};
use base::id::QueueSeq;
use base::{Buffer, Memory};
use journal::{FileKind, FileName};
use message::record::{self, Refer};

impl AtQueue<'_> {
    /// As [`AtQueue::locate`], in a queue whose messages may lie in segments of a stream.
    #[cold]
    #[inline(never)]
    pub(crate) fn locate_referred(&mut self, seq: QueueSeq) -> Site<'_> {
        let queue = &*self.queue;
        let id = queue.id;
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
        // A queue that goes by keys is fed copies.
        let recipient = Recipient { queue, now_ms: received_at_ms, key_rule: None };
        let is_made = converter.write_fed(message, (offset, name), recipient, &mut record);
        assert!(is_made, "it was made when it was fed");
        Some(record.seal())
    }
}
