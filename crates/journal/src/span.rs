//! Pieces of one file that lie near each other, read with one call.
//!
//! Knows nothing of what is in them: whoever asked checks each piece by its own sum.

use crate::disk::{Disk, DiskError, FileName};
use base::Buffer;
use std::io::IoSliceMut;

/// Bytes between two pieces that are read along and forgotten: fewer cost less than a call more.
pub const GAP_BYTES_MAX: u64 = 32 << 10;

/// Pieces of one read, with those between them still fewer than one system call takes.
pub const SPANS_MAX: usize = 256;

/// Some bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: FileName,
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

impl Span {
    /// `next` lies behind it, so close that both are better read at once.
    pub fn is_followed_by(&self, next: &Span) -> bool {
        let gap = self.offset.checked_add(self.len).and_then(|end| next.offset.checked_sub(end));
        self.file == next.file && gap.is_some_and(|gap| gap <= GAP_BYTES_MAX)
    }
}

/// Reads `spans`, each of which the one before is followed by ([`Span::is_followed_by`]), with one call where the disk
/// can: a buffer for each. A file that ends before they do is `Io(0)`.
pub fn read_spans(disk: &dyn Disk, spans: &[Span], into: Vec<Buffer>) -> Result<Vec<Buffer>, DiskError> {
    let Some(first) = spans.first() else { return Ok(Vec::new()) };
    let size = |len: u64| usize::try_from(len).map_err(|_| DiskError::Io(0));
    let mut into = into.into_iter();
    let mut buffers: Vec<Buffer> = Vec::with_capacity(spans.len());
    for span in spans {
        let mut buffer = into.next().unwrap_or_default();
        buffer.stretch(size(span.len)?);
        buffers.push(buffer);
    }
    let gaps = spans.windows(2).map(|pair| pair[1].offset.saturating_sub(pair[0].offset + pair[0].len));
    let gaps: Vec<usize> = gaps.map(size).collect::<Result<_, _>>()?;
    let mut between = Buffer::default();
    let mut between = between.stretch(gaps.iter().sum());
    let mut pieces = Vec::with_capacity(2 * spans.len());
    let mut wanted = 0;
    for (at, buffer) in buffers.iter_mut().enumerate() {
        wanted += buffer.len();
        pieces.push(IoSliceMut::new(buffer.bytes_mut()));
        if let Some(gap) = gaps.get(at).filter(|gap| **gap > 0) {
            let (piece, rest) = between.split_at_mut(*gap);
            pieces.push(IoSliceMut::new(piece));
            between = rest;
            wanted += gap;
        }
    }
    let read = disk.read_pieces_at(first.file, first.offset, &mut pieces)?;
    drop(pieces);
    if read == wanted { Ok(buffers) } else { Err(DiskError::Io(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FileKind;
    use crate::faulty::FaultyDisk;
    use std::io::IoSlice;

    const FILE: FileName = FileName::new(FileKind::Segment, 1);

    fn span(offset: u64, len: u64) -> Span {
        Span { file: FILE, offset, len }
    }

    #[test]
    fn pieces_come_with_what_lies_between_left_out() {
        let disk = FaultyDisk::new(1);
        let bytes: Vec<u8> = (0..60_000u32).map(|at| (at % 251) as u8).collect();
        disk.create(FILE, 0).unwrap();
        disk.write_at(FILE, 0, &[IoSlice::new(&bytes)]).unwrap();
        for spans in [
            vec![],
            vec![span(0, 60_000)],
            vec![span(5, 10), span(15, 20)],
            vec![span(8, 8), span(4096, 100), span(4200, 0), span(30_000, 30_000)],
        ] {
            let read = read_spans(&disk, &spans, vec![Buffer::with_capacity(9)]).unwrap();
            assert_eq!(read.len(), spans.len());
            for (span, buffer) in spans.iter().zip(&read) {
                let (from, to) = (span.offset as usize, (span.offset + span.len) as usize);
                assert_eq!(buffer.bytes(), &bytes[from..to], "{spans:?}");
            }
        }
        assert_eq!(
            read_spans(&disk, &[span(0, 8), span(59_999, 2)], Vec::new()).unwrap_err(),
            DiskError::Io(0)
        );
    }

    #[test]
    fn neighbours_are_near_and_behind() {
        let check = |next: Span, expected: bool| {
            assert_eq!(span(1000, 24).is_followed_by(&next), expected, "{next:?}");
        };
        check(span(1024, 5), true);
        check(span(1024 + GAP_BYTES_MAX, 5), true);
        check(span(1025 + GAP_BYTES_MAX, 5), false);
        check(span(1023, 5), false);
        check(Span { file: FileName::new(FileKind::Segment, 2), ..span(1024, 5) }, false);
        assert!(!span(u64::MAX, 2).is_followed_by(&span(0, 1)));
    }
}
