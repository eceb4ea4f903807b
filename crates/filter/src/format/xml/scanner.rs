//! A place in a document of XML, and the ways on from there: tags, comments, and what stands between them.

use super::{BYTE_ORDER_MARK, is_readable};
use crate::walk::Fault;
use wide::u8x16;

/// The kinds of markup in an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// `</`
    End,
    /// `<` before a name.
    Element,
    /// `<![CDATA[`
    Data,
    /// `<!--`
    Comment,
    /// `<?`
    Instruction,
}

/// The name of an element or attribute.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    pub(super) whole: &'a [u8],
    has_colon: bool,
}

impl<'a> Name<'a> {
    /// The name behind the prefix, where it has one.
    #[inline]
    pub(super) fn local(self) -> Option<&'a [u8]> {
        let colon = self.has_colon.then(|| self.whole.iter().position(|byte| *byte == b':'))??;
        Some(&self.whole[colon + 1..])
    }
}

/// An attribute of a tag, its value as it is written.
#[derive(Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a [u8],
    pub(super) raw: &'a [u8],
}

pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The block that was looked at last.
    block: Block,
    /// The bytes ended where more had to come.
    is_out: bool,
    /// Steps from mark to mark, and how many there may be.
    steps: usize,
    steps_max: usize,
}

/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// A bit for each byte of a block that may begin or end something.
struct Block {
    /// Bytes before it.
    start: usize,
    /// `<`
    tags: u64,
    /// `>`
    ends: u64,
    /// `"`
    quotes: u64,
    /// `'`
    apostrophes: u64,
}

impl Block {
    fn of(bytes: &[u8], start: usize) -> Block {
        let rest = &bytes[start..];
        let mut padded = [0; BLOCK];
        let block = rest.first_chunk::<BLOCK>().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let mut marks = Block { start, tags: 0, ends: 0, quotes: 0, apostrophes: 0 };
        for (number, lanes) in block.as_chunks::<16>().0.iter().enumerate() {
            let lanes = u8x16::new(*lanes);
            let bits = |byte| u64::from(lanes.simd_eq(u8x16::splat(byte)).to_bitmask()) << (16 * number);
            marks.tags |= bits(b'<');
            marks.ends |= bits(b'>');
            marks.quotes |= bits(b'"');
            marks.apostrophes |= bits(b'\'');
        }
        marks
    }
}

/// Bits of bytes that have a meaning.
const IN_NAME: u8 = 1;
const FIRST_IN_NAME: u8 = 2;
const SPACE: u8 = 4;
const COLON: u8 = 8;

/// The meanings of bytes, section 2.3. All beyond ASCII may stand in names.
const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => IN_NAME | FIRST_IN_NAME,
            b':' => IN_NAME | FIRST_IN_NAME | COLON,
            b'0'..=b'9' | b'-' | b'.' => IN_NAME,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            _ => 0,
        };
        byte += 1;
    }
    bytes
};

#[inline]
fn is(byte: u8, bits: u8) -> bool {
    BYTES[usize::from(byte)] & bits != 0
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8], steps_max: usize) -> Scanner<'a> {
        Scanner { bytes, at: 0, block: Block::of(bytes, 0), is_out: false, steps: 0, steps_max }
    }

    /// Steps so far.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// Steps that there may still be.
    pub(super) fn steps_left(&self) -> usize {
        self.steps_max.saturating_sub(self.steps)
    }

    /// Counts what takes as long as so many steps.
    #[inline(always)]
    pub(super) fn count(&mut self, steps: usize) -> Result<(), Fault> {
        self.steps += steps;
        if self.steps > self.steps_max { Err(Fault) } else { Ok(()) }
    }

    /// Bytes before it.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether the bytes ended where more had to come.
    pub(super) fn is_out(&self) -> bool {
        self.is_out
    }

    #[cold]
    fn out(&mut self) -> Fault {
        self.at = self.bytes.len();
        self.is_out = true;
        Fault
    }

    #[inline]
    fn peek(&mut self) -> Result<u8, Fault> {
        match self.bytes.get(self.at) {
            Some(byte) => Ok(*byte),
            None => Err(self.out()),
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek()? != byte {
            return Err(Fault);
        }
        self.at += 1;
        Ok(())
    }

    /// To the next one of some bytes.
    #[inline(always)]
    fn find(&mut self, of: impl Fn(&Block) -> u64) -> Result<(), Fault> {
        self.count(1)?;
        let marks = of(&self.block).unbounded_shr((self.at - self.block.start) as u32);
        if marks == 0 {
            return self.find_later(of);
        }
        self.at += marks.trailing_zeros() as usize;
        Ok(())
    }

    /// The same beyond the block that was looked at last.
    #[inline(never)]
    fn find_later(&mut self, of: impl Fn(&Block) -> u64) -> Result<(), Fault> {
        loop {
            // Names and spaces, which are passed otherwise, may reach beyond the next block.
            let start = self.at.max(self.block.start + BLOCK);
            if start >= self.bytes.len() {
                return Err(self.out());
            }
            self.block = Block::of(self.bytes, start);
            let marks = of(&self.block);
            if marks != 0 {
                self.at = start + marks.trailing_zeros() as usize;
                return Ok(());
            }
        }
    }

    /// To behind the next one of some bytes, and the bytes before it.
    #[inline(always)]
    fn until(&mut self, of: impl Fn(&Block) -> u64) -> Result<&'a [u8], Fault> {
        let from = self.at;
        self.find(of)?;
        let before = &self.bytes[from..self.at];
        self.at += 1;
        Ok(before)
    }

    /// The same up to two or three bytes, the last of which is `>`.
    fn until_all(&mut self, bytes: &[u8]) -> Result<&'a [u8], Fault> {
        let from = self.at;
        loop {
            self.until(|block| block.ends)?;
            let passed = &self.bytes[from..self.at];
            if let Some(before) = passed.strip_suffix(bytes) {
                return Ok(before);
            }
        }
    }

    /// Whether there were spaces.
    #[inline]
    fn pass_space(&mut self) -> bool {
        let from = self.at;
        while self.bytes.get(self.at).is_some_and(|byte| is(*byte, SPACE)) {
            self.at += 1;
        }
        self.at > from
    }

    /// To behind the `<` of the outermost element. Nothing behind a declaration that is none, or says that another character
    /// set is used, or of a document type, counts.
    pub(super) fn pass_prolog(&mut self) -> Result<(), Fault> {
        if self.bytes.starts_with(&BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
        }
        loop {
            self.pass_space();
            self.expect(b'<')?;
            match self.mark()? {
                Mark::Element => return Ok(()),
                Mark::Comment => self.pass_comment()?,
                Mark::Instruction => {
                    let instruction = self.instruction()?;
                    if !encoding(instruction).is_none_or(is_readable) {
                        return Err(Fault);
                    }
                }
                Mark::End | Mark::Data => return Err(Fault),
            }
        }
    }

    /// From behind the outermost element to the end.
    pub(super) fn pass_epilog(&mut self) -> Result<(), Fault> {
        loop {
            self.pass_space();
            if self.at == self.bytes.len() {
                return Ok(());
            }
            self.expect(b'<')?;
            match self.mark()? {
                Mark::Comment => self.pass_comment()?,
                Mark::Instruction => _ = self.instruction()?,
                Mark::End | Mark::Element | Mark::Data => return Err(Fault),
            }
        }
    }

    /// The text up to the next `<`, behind which it stops.
    #[inline]
    pub(super) fn text(&mut self) -> Result<&'a [u8], Fault> {
        self.until(|block| block.tags)
    }

    /// The markup whose `<` was passed; to behind its first bytes, but of an element to its name.
    #[inline(always)]
    pub(super) fn mark(&mut self) -> Result<Mark, Fault> {
        let first = self.peek()?;
        if first == b'/' {
            self.at += 1;
            return Ok(Mark::End);
        }
        if is(first, FIRST_IN_NAME) { Ok(Mark::Element) } else { self.other_mark(first) }
    }

    fn other_mark(&mut self, first: u8) -> Result<Mark, Fault> {
        let (mark, length) = match first {
            b'?' => (Mark::Instruction, 1),
            b'!' => self.declaration()?,
            _ => return Err(Fault),
        };
        self.at += length;
        Ok(mark)
    }

    fn declaration(&mut self) -> Result<(Mark, usize), Fault> {
        let rest = &self.bytes[self.at..];
        for (mark, start) in [(Mark::Comment, &b"!--"[..]), (Mark::Data, b"![CDATA[")] {
            if rest.starts_with(start) {
                return Ok((mark, start.len()));
            }
            if start.starts_with(rest) {
                return Err(self.out());
            }
        }
        // A document type, or nothing that there is.
        Err(Fault)
    }

    /// To behind a comment.
    pub(super) fn pass_comment(&mut self) -> Result<(), Fault> {
        self.until_all(b"-->").map(|_| ())
    }

    /// To behind a processing instruction: its insides.
    pub(super) fn instruction(&mut self) -> Result<&'a [u8], Fault> {
        self.until_all(b"?>")
    }

    /// To behind text that is marked as such: the text.
    pub(super) fn data(&mut self) -> Result<&'a [u8], Fault> {
        self.until_all(b"]]>")
    }

    /// The name that begins here.
    #[inline]
    pub(super) fn name(&mut self) -> Result<Name<'a>, Fault> {
        if !is(self.peek()?, FIRST_IN_NAME) {
            return Err(Fault);
        }
        let rest = &self.bytes[self.at..];
        let mut seen = 0;
        let mut is_in = |byte: &u8| {
            let bits = BYTES[usize::from(*byte)];
            seen |= bits;
            bits & IN_NAME != 0
        };
        let Some(length) = rest.iter().position(|byte| !is_in(byte)) else { return Err(self.out()) };
        self.at += length;
        Ok(Name { whole: &rest[..length], has_colon: seen & COLON != 0 })
    }

    /// The next attribute of a tag. None: the tag ends.
    #[inline]
    pub(super) fn attribute(&mut self) -> Result<Option<Attribute<'a>>, Fault> {
        let has_space = self.pass_space();
        if matches!(self.peek()?, b'>' | b'/') {
            return Ok(None);
        }
        if !has_space {
            return Err(Fault);
        }
        let name = self.name()?.whole;
        self.pass_space();
        self.expect(b'=')?;
        self.pass_space();
        let quote = self.peek()?;
        if !matches!(quote, b'"' | b'\'') {
            return Err(Fault);
        }
        self.at += 1;
        Ok(Some(Attribute { name, raw: self.quoted(quote)? }))
    }

    /// To behind the tag that ends here. Returns whether the element ends with it.
    #[inline]
    pub(super) fn tag_end(&mut self) -> Result<bool, Fault> {
        let is_empty = self.peek()? == b'/';
        self.at += usize::from(is_empty);
        self.expect(b'>')?;
        Ok(is_empty)
    }

    /// From within a tag to behind it. Returns whether the element ends with it.
    #[inline]
    pub(super) fn pass_tag(&mut self) -> Result<bool, Fault> {
        loop {
            self.find(|block| block.ends | block.quotes | block.apostrophes)?;
            let found = self.bytes[self.at];
            self.at += 1;
            match found {
                // A name is before it, at least.
                b'>' => return Ok(self.bytes[self.at - 2] == b'/'),
                quote => self.quoted(quote)?,
            };
        }
    }

    /// From behind a quotation mark to behind the next one that is like it: the bytes between.
    #[inline]
    fn quoted(&mut self, quote: u8) -> Result<&'a [u8], Fault> {
        match quote {
            b'"' => self.until(|block| block.quotes),
            _ => self.until(|block| block.apostrophes),
        }
    }

    /// From behind `</` to behind the end of an element.
    #[inline]
    pub(super) fn pass_end(&mut self, name: &[u8]) -> Result<(), Fault> {
        let rest = &self.bytes[self.at..];
        if !rest.starts_with(name) {
            return Err(if name.starts_with(rest) { self.out() } else { Fault });
        }
        self.at += name.len();
        self.pass_space();
        self.expect(b'>')
    }

    /// From the name of an element to behind it.
    pub(super) fn pass_any(&mut self) -> Result<(), Fault> {
        let name = self.name()?.whole;
        self.pass_element(name)
    }

    /// From behind the name of an element to behind it. The elements in it are counted, whatever their names.
    pub(super) fn pass_element(&mut self, name: &[u8]) -> Result<(), Fault> {
        let mut open = usize::from(!self.pass_tag()?);
        while open > 0 {
            self.find(|block| block.tags)?;
            self.at += 1;
            match self.mark()? {
                Mark::Element => open += usize::from(!self.pass_tag()?),
                Mark::End => {
                    open -= 1;
                    match open {
                        0 => self.pass_end(name)?,
                        _ => _ = self.until(|block| block.ends)?,
                    }
                }
                Mark::Comment => self.pass_comment()?,
                Mark::Data => _ = self.data()?,
                Mark::Instruction => _ = self.instruction()?,
            }
        }
        Ok(())
    }
}

/// The encoding that an instruction says the document has, if it is the declaration and says one; empty where it cannot be
/// read.
fn encoding(instruction: &[u8]) -> Option<&[u8]> {
    let declaration =
        instruction.strip_prefix(b"xml").filter(|rest| rest.first().is_some_and(|byte| is(*byte, SPACE)))?;
    let name = b"encoding";
    let place = declaration.windows(name.len()).position(|part| part == name)?;
    let rest = declaration[place + name.len()..].trim_ascii_start();
    let value = rest.strip_prefix(b"=").map(<[u8]>::trim_ascii_start);
    let (quote, value) = value.and_then(<[u8]>::split_first).unwrap_or((&0, &[]));
    let end = value.iter().position(|byte| byte == quote).filter(|_| matches!(quote, b'"' | b'\''));
    Some(&value[..end.unwrap_or(0)])
}
