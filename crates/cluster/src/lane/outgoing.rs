//! A body on its way out: bytes of its own and ranges of shared memory, cut into frames as the window allows.
//!
//! Ranges go to the output as [`base::Output`] has them: by reference, unless they are short. Own bytes are copied
//! there, so a long one belongs into memory.

use base::crc::crc32c_append;
use base::output;
use base::{Memory, Output};
use std::collections::VecDeque;
use std::ops::Range;

/// A body to be sent. Its parts go out in the order in which they were added.
#[derive(Debug, Default)]
pub struct Outgoing {
    own: Vec<u8>,
    /// Own bytes that went out.
    own_sent: usize,
    parts: VecDeque<Part>,
    /// Bytes that are left.
    len: usize,
}

/// A range of shared memory that is not empty.
#[derive(Debug)]
struct Part {
    /// It goes out after so many own bytes.
    at: usize,
    memory: Memory,
    range: Range<usize>,
}

impl Outgoing {
    /// A body that begins with these bytes.
    pub fn new(own: Vec<u8>) -> Outgoing {
        Outgoing { len: own.len(), own, ..Outgoing::default() }
    }

    /// Appends a copy of `bytes`.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.own.extend_from_slice(bytes);
    }

    /// Appends `memory[range]` without a copy.
    ///
    /// # Panics
    /// When the range is not in the memory.
    pub fn extend_from(&mut self, memory: &Memory, range: Range<usize>) {
        assert!(memory.get(range.clone()).is_some(), "a range of the memory");
        if !range.is_empty() {
            self.len += range.len();
            self.parts.push_back(Part { at: self.own.len(), memory: memory.clone(), range });
        }
    }

    /// A body of what `output` has to send: memory that it refers to is not copied.
    pub fn of(output: &Output) -> Outgoing {
        let mut body = Outgoing::default();
        output.parts(|part| match part {
            output::Part::Own(bytes) => body.extend(bytes),
            output::Part::Shared(memory, range) => body.extend_from(memory, range),
        });
        body
    }

    /// Bytes that are left to be sent.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory of its own.
    pub(crate) fn capacity(&self) -> usize {
        self.own.capacity() + self.parts.capacity() * size_of::<Part>()
    }

    /// Moves the first `count` bytes to `output`, and answers their checksum behind those that `crc` covers.
    pub(crate) fn put(&mut self, mut count: usize, mut crc: u32, output: &mut Output) -> u32 {
        assert!(count <= self.len, "no more than is left");
        self.len -= count;
        while count > 0 {
            let own_end = self.parts.front().map_or(self.own.len(), |part| part.at);
            if self.own_sent < own_end {
                let end = own_end.min(self.own_sent + count);
                let own = &self.own[self.own_sent..end];
                crc = crc32c_append(crc, own);
                output.extend(own);
                count -= own.len();
                self.own_sent = end;
            } else if let Some(part) = self.parts.front_mut() {
                let end = part.range.end.min(part.range.start + count);
                let range = part.range.start..end;
                crc = crc32c_append(crc, &part.memory[range.clone()]);
                output.extend_from(&part.memory, range.clone());
                count -= range.len();
                part.range.start = end;
                if part.range.is_empty() {
                    self.parts.pop_front();
                }
            }
        }
        crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Buffer;
    use base::crc::crc32c;
    use base::output::REFERENCE_MIN;

    fn memory(len: usize) -> Memory {
        let mut buffer = Buffer::default();
        buffer.extend(&(0..len).map(|at| (at % 251) as u8).collect::<Vec<_>>());
        buffer.seal()
    }

    #[test]
    fn any_cut_gives_the_same_bytes() {
        let memory = memory(3 * REFERENCE_MIN);
        let mut expected = b"head".to_vec();
        expected.extend(&memory[1..REFERENCE_MIN + 9]);
        expected.extend(b"between");
        expected.extend(&memory[7..20]);
        expected.extend(&memory[REFERENCE_MIN..]);
        expected.extend(b"tail");
        for step in [1, 3, 100, REFERENCE_MIN, 1 << 20] {
            let mut body = Outgoing::new(b"head".to_vec());
            body.extend_from(&memory, 1..REFERENCE_MIN + 9);
            body.extend(b"betw");
            body.extend(b"een");
            body.extend_from(&memory, 7..20);
            body.extend_from(&memory, 5..5);
            body.extend_from(&memory, REFERENCE_MIN..memory.len());
            body.extend(b"tail");
            assert_eq!(body.len(), expected.len());
            let (mut output, mut crc) = (Output::default(), 0);
            while !body.is_empty() {
                crc = body.put(step.min(body.len()), crc, &mut output);
            }
            assert!(output.to_vec() == expected, "in steps of {step}");
            assert_eq!(crc, crc32c(&expected), "in steps of {step}");
        }
    }

    #[test]
    fn an_output_becomes_a_body() {
        let memory = memory(3 * REFERENCE_MIN);
        let mut output = Output::default();
        output.extend(b"head");
        output.extend_from(&memory, 3..2 * REFERENCE_MIN);
        output.extend(b"tail");
        let mut body = Outgoing::of(&output);
        assert_eq!((body.len(), body.own.len()), (output.len(), 8));
        let mut sent = Output::default();
        body.put(body.len(), 0, &mut sent);
        assert!(sent.to_vec() == output.to_vec());
    }

    #[test]
    fn long_ranges_are_not_copied() {
        let memory = memory(1 << 20);
        let mut body = Outgoing::new(b"head".to_vec());
        body.extend_from(&memory, 0..1 << 20);
        let mut output = Output::default();
        body.put(4 + (1 << 19), 0, &mut output);
        assert_eq!(output.len(), 4 + (1 << 19));
        assert!(output.capacity() < 4096, "{}", output.capacity());
        output.sent(4 + (1 << 19));
        body.put(1 << 19, 0, &mut output);
        output.sent(1 << 19);
        drop(body);
        assert!(memory.recycle().is_some(), "nothing else holds it");
    }
}
