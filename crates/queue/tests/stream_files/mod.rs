//! Files in memory that do a stream's work, the plain way.

use message::chunk::{Chunk, HEADER_LEN, Header};
use queue::stream::{
    Block, BlockChunk, Common, Done, Effect, Next, ReaderId, Seek, SeekFor, Sought, Stream, SyncFailure,
    Work, WorkError, Write,
};
use std::collections::{BTreeMap, VecDeque};

/// The files of a log, and the work that waits.
#[derive(Clone, Default)]
pub struct Files {
    pub files: BTreeMap<u64, Vec<u8>>,
    pub waiting: VecDeque<Work>,
    pub reads: usize,
}

impl Files {
    /// Takes the work out of `effects`; the rest stays.
    pub fn take(&mut self, effects: &mut Vec<Effect>) {
        let waiting = &mut self.waiting;
        effects.retain(|effect| match effect {
            Effect::Work(work) => {
                waiting.push_back(work.clone());
                false
            }
            _ => true,
        });
    }

    /// Does the first work that waits.
    pub fn work(&mut self, stream: &mut Stream, common: &mut Common, effects: &mut Vec<Effect>) -> bool {
        let Some(work) = self.waiting.pop_front() else { return false };
        let done = self.carry_out(work);
        stream.done(done, common, effects);
        self.take(effects);
        true
    }

    pub fn carry_out(&mut self, work: Work) -> Done {
        match work {
            Work::Write(write) => {
                let result = self.write(&write);
                Done::Written(write.done(result))
            }
            Work::Sync(sync) => {
                let result = self.write(&sync.write).map_err(SyncFailure::Write);
                assert!(
                    result.is_err() || sync.segments.iter().all(|segment| self.files.contains_key(segment))
                );
                Done::Synced(sync.done(result))
            }
            Work::Remove(remove) => {
                remove.segments.iter().for_each(|segment| {
                    self.files.remove(segment);
                });
                Done::Removed(Ok(()))
            }
            Work::Seek(seek) => {
                let result = self.seek(&seek);
                Done::Sought(seek.done(result))
            }
            Work::Read(read) => {
                self.reads += 1;
                let result = self.files.get(&read.place.segment).ok_or(WorkError::Missing).map(|file| {
                    let mut block = Block {
                        to: read.place.position,
                        chunks: Vec::new(),
                        memory: base::Buffer::default().seal(),
                        damages: Vec::new(),
                    };
                    let mut bytes = base::Buffer::default();
                    while block.to < read.end {
                        let (chunk, _) = Chunk::read(&file[block.to as usize..]).expect("a chunk");
                        chunk.check().expect("what was written");
                        let len = chunk.header.stored_len();
                        if !block.chunks.is_empty() && bytes.len() as u64 + len > u64::from(read.bytes) {
                            break;
                        }
                        if read.filter.as_ref().is_none_or(|filter| filter.may_match(chunk.bloom)) {
                            block.chunks.push(BlockChunk {
                                position: block.to,
                                at: bytes.len() as u32,
                                len: len as u32,
                                first_offset: chunk.header.first_offset,
                                records: chunk.header.records,
                                bloom_len: chunk.header.bloom_len,
                            });
                            bytes.extend(&file[block.to as usize..][..len as usize]);
                        }
                        block.to += len;
                    }
                    block.memory = bytes.seal();
                    block
                });
                Done::Read(read.done(result))
            }
        }
    }

    fn write(&mut self, write: &Write) -> Result<(), WorkError> {
        for piece in &write.pieces {
            let file = self.files.entry(piece.segment).or_default();
            if piece.begins_segment() && file.is_empty() {
                file.extend(b"OSIL\0\0\0\x01");
            }
            let mut at = piece.position as usize;
            if file.is_empty() {
                self.files.remove(&piece.segment);
                return Err(WorkError::Missing);
            }
            assert!(file.len() >= at, "no gap in front of what is written");
            for (memory, range) in &piece.parts {
                let bytes = &memory[range.start as usize..range.end as usize];
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
            for entry in &piece.index {
                let file = &self.files[&piece.segment];
                let header = header_at(file, entry.position);
                assert_eq!(
                    (header.first_offset, header.timestamp_ms),
                    (entry.first_offset, entry.timestamp_ms)
                );
            }
        }
        Ok(())
    }

    fn seek(&self, seek: &Seek) -> Result<Sought, WorkError> {
        let file = self.files.get(&seek.segment).ok_or(WorkError::Missing)?;
        let mut position = 8;
        while position < seek.end {
            let header = header_at(file, position);
            let is_it = match seek.want {
                SeekFor::Offset(offset) => offset < header.next_offset(),
                SeekFor::Timestamp(timestamp_ms) => timestamp_ms <= header.timestamp_ms,
            };
            if is_it {
                return Ok(Sought { position, first_offset: Some(header.first_offset), damages: Vec::new() });
            }
            position += header.stored_len();
        }
        Ok(Sought { position, first_offset: None, damages: Vec::new() })
    }
}

fn header_at(file: &[u8], position: u64) -> Header {
    let bytes: &[u8; HEADER_LEN] = file[position as usize..].first_chunk().expect("a header");
    Header::read(bytes).expect("a header")
}

/// A stream with its surroundings. Not all users need all of it.
pub struct Bench {
    pub stream: Stream,
    pub common: Common,
    pub effects: Vec<Effect>,
    pub files: Files,
}

#[allow(dead_code, reason = "each test file is a crate of its own")]
impl Bench {
    pub fn new(settings: queue::stream::Settings, limits: queue::stream::Limits) -> Bench {
        Bench {
            stream: Stream::new(settings),
            common: Common::new(limits),
            effects: Vec::new(),
            files: Files::default(),
        }
    }

    /// Does all work that waits.
    pub fn settle(&mut self) {
        self.files.take(&mut self.effects);
        while self.files.work(&mut self.stream, &mut self.common, &mut self.effects) {}
    }

    /// Writes the chunks that are not written.
    pub fn write(&mut self) {
        self.settle();
        if let Some(work) = self.stream.take_write() {
            self.files.waiting.push_back(work);
        }
        self.settle();
    }

    /// A batch of messages.
    pub fn batch(&mut self, at_ms: i64, messages: &[&[u8]]) {
        for message in messages {
            self.stream.push_message(at_ms, &[message], b"", &mut self.common, &mut self.effects);
        }
        self.stream.close(at_ms, &mut self.common, &mut self.effects);
    }

    /// A batch from a publisher.
    pub fn publish(&mut self, at_ms: i64, reference: &[u8], messages: &[(u64, &[u8], &[u8])]) {
        let entries: Vec<Vec<u8>> = messages
            .iter()
            .map(|(_, body, _)| [&(body.len() as u32).to_be_bytes()[..], body].concat())
            .collect();
        let published =
            entries.iter().zip(messages).map(|(entry, (id, _, filter_value))| queue::stream::Published {
                id: *id,
                filter_value,
                entry: message::chunk::Entry::split(entry).expect("an entry").0,
            });
        self.stream.publish(at_ms, reference, published, &mut self.common, &mut self.effects);
        self.stream.close(at_ms, &mut self.common, &mut self.effects);
    }

    pub fn next(&mut self, reader: ReaderId) -> Next {
        let next = self.stream.next(reader, &mut self.common, &mut self.effects);
        self.files.take(&mut self.effects);
        next
    }

    /// The offsets of the chunks that a reader gets until it waits for new ones.
    pub fn read_all(&mut self, reader: ReaderId) -> Vec<u64> {
        let mut offsets = Vec::new();
        loop {
            match self.next(reader) {
                Next::Chunk(chunk) => {
                    let (read, rest) = Chunk::read(chunk.bytes()).expect("a chunk");
                    read.check().expect("what was written");
                    assert!(rest.is_empty());
                    assert_eq!(
                        (read.header.first_offset, read.header.records, read.header.bloom_len),
                        (chunk.first_offset, chunk.records, chunk.bloom_len)
                    );
                    offsets.push(chunk.first_offset);
                }
                Next::NoCredit => return offsets,
                Next::Wait if self.files.work(&mut self.stream, &mut self.common, &mut self.effects) => {}
                Next::Wait => return offsets,
            }
        }
    }
}
