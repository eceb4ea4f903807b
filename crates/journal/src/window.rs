//! Reading a file from front to back in large pieces that can be shared.

use crate::disk::{Disk, DiskError, FileName, read_exact};
use base::{Buffer, Memory};
use std::ops::Range;

/// The part of a file that was read last.
pub(crate) struct Window<'a> {
    disk: &'a dyn Disk,
    size: u64,
    name: Option<FileName>,
    start: u64,
    memory: Memory,
}

impl<'a> Window<'a> {
    pub fn new(disk: &'a dyn Disk, size: usize) -> Window<'a> {
        Window { disk, size: size as u64, name: None, start: 0, memory: Buffer::default().seal() }
    }

    /// The bytes of the file, `file_len` long, from `offset` on: at least `wanted` of them, or up to its end.
    pub fn from(
        &mut self,
        name: FileName,
        file_len: u64,
        offset: u64,
        wanted: u64,
    ) -> Result<&[u8], DiskError> {
        self.load(name, file_len, offset, wanted)?;
        Ok(&self.memory[(offset - self.start) as usize..])
    }

    /// As [`Window::from`], as memory to keep and where in it the `wanted` bytes are.
    pub fn memory(
        &mut self,
        name: FileName,
        file_len: u64,
        offset: u64,
        wanted: u64,
    ) -> Result<(Memory, Range<usize>), DiskError> {
        self.load(name, file_len, offset, wanted)?;
        let at = (offset - self.start) as usize;
        let end = self.memory.len().min(at + wanted as usize);
        Ok((self.memory.clone(), at..end))
    }

    fn load(&mut self, name: FileName, file_len: u64, offset: u64, wanted: u64) -> Result<(), DiskError> {
        let end = file_len.min(offset.saturating_add(wanted));
        let is_loaded = self.name == Some(name)
            && offset >= self.start
            && end.saturating_sub(self.start) <= self.memory.len() as u64;
        if is_loaded {
            return Ok(());
        }
        let ahead = file_len.min(offset.saturating_add(wanted.max(self.size)));
        self.name = None;
        let old = std::mem::replace(&mut self.memory, Buffer::default().seal());
        let mut buffer = old.recycle().unwrap_or_default();
        // Where not all of it can be read, perhaps what is asked for can.
        let read = self.read(name, offset, ahead, &mut buffer);
        if ahead > end {
            read.or_else(|_| self.read(name, offset, end, &mut buffer))?;
        } else {
            read?;
        }
        self.memory = buffer.seal();
        self.name = Some(name);
        self.start = offset;
        Ok(())
    }

    fn read(&self, name: FileName, from: u64, to: u64, into: &mut Buffer) -> Result<(), DiskError> {
        read_exact(self.disk, name, from, into.stretch(to.saturating_sub(from) as usize))
    }
}
