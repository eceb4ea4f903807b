//! Bytes a connection has to send: own bytes, with references into message memory where a body is large.
//!
//! Protocol machines append; the shell writes [`Output::slices`] with one vectored write and reports the bytes written
//! with [`Output::sent`]. Holds no memory once everything is sent and [`Output::release`] was called.

use crate::memory::{BLOCK, Buffer, Memory};
use std::collections::VecDeque;
use std::ops::Range;

/// Bodies shorter than this are copied: a reference costs more than the copy.
pub const REFERENCE_MIN: usize = 4096;

/// Bytes of its own that are not given back while it is in use.
pub const KEPT_MAX: usize = 16 << 10;

#[derive(Debug)]
struct Piece {
    /// The piece goes out after this many own bytes, counted like `own_end`.
    at: u64,
    memory: Memory,
    range: Range<usize>,
}

/// A part of what an output has to send.
#[derive(Debug)]
pub enum Part<'a> {
    /// Bytes of its own.
    Own(&'a [u8]),
    /// A range of memory that it refers to.
    Shared(&'a Memory, Range<usize>),
}

/// Bytes waiting for a socket.
#[derive(Debug, Default)]
pub struct Output {
    own: Vec<u8>,
    /// Own bytes sent already, an offset into `own`.
    own_sent: usize,
    /// Own bytes ever dropped from the front of `own`.
    own_base: u64,
    /// The most own bytes there were since [`Output::cool`].
    most: usize,
    pieces: VecDeque<Piece>,
    pieces_len: usize,
}

impl Output {
    /// Bytes not yet sent.
    #[inline]
    pub fn len(&self) -> usize {
        self.own.len() - self.own_sent + self.pieces_len
    }

    /// Nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory of its own.
    pub fn capacity(&self) -> usize {
        self.own.capacity() + self.pieces.capacity() * size_of::<Piece>()
    }

    /// Bytes of memory that it keeps: of its own, and what it refers to.
    pub fn kept_bytes(&self) -> usize {
        self.capacity() + self.pieces_len
    }

    /// The bytes of its own, to append to. Those in front must stay as they are.
    #[inline]
    pub fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Appends `memory[range]`, by copy when short, by reference when long.
    #[inline]
    pub fn extend_from(&mut self, memory: &Memory, range: Range<usize>) {
        if range.len() < REFERENCE_MIN {
            self.own.extend_from_slice(&memory[range]);
        } else {
            self.pieces_len += range.len();
            let at = self.own_base + self.own.len() as u64;
            self.pieces.push_back(Piece { at, memory: memory.clone(), range });
        }
    }

    /// Calls `each` with up to `most` slices, in the order they go out.
    pub fn slices<'a>(&'a self, most: usize, mut each: impl FnMut(&'a [u8])) {
        let mut from = self.own_sent;
        let mut left = most;
        for piece in &self.pieces {
            let to = (piece.at - self.own_base) as usize;
            if to > from {
                if left == 0 {
                    return;
                }
                left -= 1;
                each(&self.own[from..to]);
                from = to;
            }
            if left == 0 {
                return;
            }
            left -= 1;
            each(&piece.memory[piece.range.clone()]);
        }
        if left > 0 && from < self.own.len() {
            each(&self.own[from..]);
        }
    }

    /// Calls `each` with all that is unsent, in the order it goes out: own bytes, or a range of shared memory.
    pub fn parts<'a>(&'a self, mut each: impl FnMut(Part<'a>)) {
        let mut from = self.own_sent;
        for piece in &self.pieces {
            let to = (piece.at - self.own_base) as usize;
            if to > from {
                each(Part::Own(&self.own[from..to]));
                from = to;
            }
            each(Part::Shared(&piece.memory, piece.range.clone()));
        }
        if from < self.own.len() {
            each(Part::Own(&self.own[from..]));
        }
    }

    /// The first `count` unsent bytes went out.
    pub fn sent(&mut self, mut count: usize) {
        assert!(count <= self.len(), "more sent than there was");
        self.most = self.most.max(self.own.len());
        while let Some(piece) = self.pieces.front_mut() {
            let own = ((piece.at - self.own_base) as usize - self.own_sent).min(count);
            self.own_sent += own;
            count -= own;
            if count == 0 {
                break;
            }
            let gone = piece.range.len().min(count);
            self.pieces_len -= gone;
            count -= gone;
            piece.range.start += gone;
            if !piece.range.is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
        self.own_sent += count;
        if self.is_empty() || self.own_sent > self.own.len() / 2 {
            self.own_base += self.own_sent as u64;
            self.own.drain(..self.own_sent);
            self.own_sent = 0;
        }
    }

    /// Gives back memory that is far beyond the need since the last call: the memory of one burst is not held for as
    /// long as the connection is busy.
    pub fn cool(&mut self) {
        let most = std::mem::take(&mut self.most).max(self.own.len());
        if self.own.capacity() > KEPT_MAX && self.own.capacity() / 4 > most {
            self.own.shrink_to(KEPT_MAX.max(2 * most));
        }
    }

    /// Copies what it refers to where that keeps more than twice as much memory alive as there is to send of it, for a
    /// peer that does not read: how many bytes.
    pub fn detach(&mut self) -> usize {
        let (mut at, mut copied) = (0, 0);
        while let Some(first) = self.pieces.get(at) {
            let memory = first.memory.clone();
            let run = self.pieces.range(at..).take_while(|piece| piece.memory.same(&memory)).count();
            let pieces = at..at + run;
            at += run;
            let len = self.pieces.range(pieces.clone()).map(|piece| piece.range.len()).sum();
            if memory.capacity() <= 2 * (len + BLOCK) {
                continue;
            }
            let mut own = Buffer::with_capacity(len);
            for piece in self.pieces.range_mut(pieces.clone()) {
                let from = own.len();
                own.extend(&memory[piece.range.clone()]);
                piece.range = from..own.len();
            }
            let own = own.seal();
            self.pieces.range_mut(pieces).for_each(|piece| piece.memory = own.clone());
            copied += len;
        }
        copied
    }

    /// Gives the memory back; only bytes already sent are forgotten, so call it when empty.
    pub fn release(&mut self) -> Vec<u8> {
        assert!(self.is_empty());
        self.own_base = 0;
        self.own_sent = 0;
        self.pieces = VecDeque::new();
        std::mem::take(&mut self.own)
    }

    /// Takes an empty vector with capacity to append to, when it has none of its own.
    pub fn provide(&mut self, spare: Vec<u8>) {
        if self.own.capacity() == 0 {
            self.own = spare;
            self.own.clear();
        }
    }

    /// Everything unsent, copied; for tests and for peers in one process.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.slices(usize::MAX, |slice| all.extend_from_slice(slice));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, Output, Part, REFERENCE_MIN};
    use crate::memory::Buffer;

    /// A memory of so many bytes, of which all are different enough.
    fn memory(len: usize) -> crate::memory::Memory {
        let mut buffer = Buffer::default();
        buffer.extend(&(0..len).map(|i| (i % 251) as u8).collect::<Vec<_>>());
        buffer.seal()
    }

    #[test]
    fn what_is_not_read_keeps_little_more_alive_than_itself() {
        let (large, small) = (memory(1 << 20), memory(20_000));
        let mut output = Output::default();
        output.extend(b"front");
        output.extend_from(&large, 0..5000);
        output.extend(b"between");
        output.extend_from(&large, 9000..15_000);
        output.extend_from(&small, 0..18_000);
        output.extend_from(&large, 500_000..505_000);
        output.sent(100);
        let expected = output.to_vec();
        assert_eq!(output.detach(), 4905 + 6000 + 5000);
        assert_eq!(output.to_vec(), expected);
        assert!(large.recycle().is_some(), "nothing of it is left");
        assert!(small.recycle().is_none(), "it is sent as it is");
        assert_eq!(output.detach(), 0);
        output.sent(expected.len() - 1);
        assert_eq!((output.detach(), output.to_vec().len()), (0, 1));
        output.sent(1);
        output.release();
    }

    #[test]
    fn parts_are_all_that_is_unsent() {
        let memory = memory(2 * REFERENCE_MIN);
        let mut output = Output::default();
        output.extend(b"front");
        output.extend_from(&memory, 1..REFERENCE_MIN + 1);
        output.extend_from(&memory, 5..2 * REFERENCE_MIN);
        output.extend(b"tail");
        for sent in [0, 3, 2, 1000, REFERENCE_MIN, REFERENCE_MIN] {
            output.sent(sent);
            let mut all = Vec::new();
            output.parts(|part| match part {
                Part::Own(bytes) => all.extend_from_slice(bytes),
                Part::Shared(of, range) => {
                    assert!(of.same(&memory), "it is not copied");
                    all.extend_from_slice(&of[range]);
                }
            });
            assert!(all == output.to_vec(), "after {sent}");
        }
    }

    #[test]
    fn any_split_of_the_sending_gives_the_same_bytes() {
        let mut body = Buffer::default();
        body.extend(&(0..REFERENCE_MIN * 2).map(|i| i as u8).collect::<Vec<_>>());
        let body = body.seal();
        for step in [1, 3, 100, 4096, 5000, 100_000] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            let mut actual: Vec<u8> = Vec::new();
            for round in 0..5u8 {
                output.extend(&[round; 10]);
                output.extend_from(&body, 0..5);
                output.extend_from(&body, 10..10 + REFERENCE_MIN);
                output.extend_from(&body, 0..REFERENCE_MIN);
                expected.extend([round; 10]);
                expected.extend(&body[0..5]);
                expected.extend(&body[10..10 + REFERENCE_MIN]);
                expected.extend(&body[0..REFERENCE_MIN]);
                let count = step.min(output.len());
                actual.extend(&output.to_vec()[..count]);
                output.sent(count);
            }
            while !output.is_empty() {
                let count = step.min(output.len());
                let mut first = Vec::new();
                output.slices(2, |slice| first.extend_from_slice(slice));
                let count = count.min(first.len());
                actual.extend(&first[..count]);
                output.sent(count);
            }
            assert!(actual == expected, "step {step}");
            output.release();
            assert_eq!(output.capacity(), 0);
        }
    }

    #[test]
    fn what_a_burst_took_is_given_back_while_it_is_in_use() {
        let mut output = Output::default();
        let say = |output: &mut Output, bytes: usize| {
            output.extend(&vec![7; bytes]);
            output.sent(bytes);
        };
        say(&mut output, 1 << 20);
        output.cool();
        assert!(output.capacity() >= 1 << 20, "it was needed just now");
        (0..9).for_each(|_| say(&mut output, 20_000));
        output.cool();
        assert!((40_000..100_000).contains(&output.capacity()), "{}", output.capacity());
        say(&mut output, 100);
        output.cool();
        assert_eq!(output.capacity(), KEPT_MAX);
        output.extend(&[1; 15_000]);
        output.cool();
        assert_eq!((output.len(), output.capacity()), (15_000, KEPT_MAX));
    }
}
