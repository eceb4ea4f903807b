//! XML 1.0, read in one pass to the end of the outermost element: any element but that one may come again.
//!
//! The body is a map of its outermost element. An element without elements in it is its text, an [untyped](Untyped) value;
//! one with elements is a map of them, and text between them is not looked at. Attributes are members whose names begin with
//! `@`. Elements of one name in one element are a list, of which a number in the path is one, `[0]` the first even if it is
//! the only one. A name without a colon is that of elements with any prefix; one with a colon, and that of an attribute, is
//! meant as it is written.
//!
//! Nothing behind a document type declaration counts, so entities are those that need none. Elements that no path leads into
//! are passed over by their tags: names that do not match, in there, and entities that are none are not seen.
//!
//! `quick-xml` was measured: its events alone, before any of them is held against a path, take twice the instructions of all of
//! this, and it keeps the names of open elements on the heap.

mod scanner;
mod text;

use crate::found::{Found, VALUES_MAX};
use crate::path::{self, Node, Paths};
use crate::untyped::Untyped;
use crate::value::Value;
use crate::walk::{Fault, Keys};
use bumpalo::collections::Vec as BumpVec;
use scanner::{Attribute, Mark, Scanner};
use text::{Kind, Text};

/// Bytes that are looked at in a unit of [work](crate::Program::price), beside steps from mark to mark.
const BYTES_A_UNIT: usize = 8;

/// Steps in one.
const STEPS_A_UNIT: usize = 2;

/// Steps that a text counts as, and each reference and end of a line in it beside.
const STEPS_A_TEXT: usize = 4;
const STEPS_A_CHANGE: usize = 2;

/// The byte order mark, in UTF-8.
pub(super) const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Whether texts of a character set can be read.
pub(super) fn is_readable(charset: &[u8]) -> bool {
    let readable: [&[u8]; 4] = [b"utf-8", b"utf8", b"us-ascii", b"ascii"];
    readable.iter().any(|name| name.eq_ignore_ascii_case(charset))
}

/// Looks for paths in a document, of which at most the first `bytes_max` bytes are looked at. Returns units of work, and
/// whether all that was needed could be read.
pub(super) fn find<'a>(
    document: &'a [u8],
    paths: &Paths,
    bytes_max: usize,
    found: &mut Found<'a>,
) -> (usize, bool) {
    let seen = &document[..document.len().min(bytes_max)];
    let scanner = Scanner::new(seen, found.room().left().saturating_mul(STEPS_A_UNIT));
    let Some(mut walk) = Walk::new(scanner, paths, found) else { return (0, false) };
    let halt = walk.document().err();
    let Walk { scanner, keys, .. } = walk;
    if halt == Some(Halt::Fault) {
        // Those that were found may come again.
        (0..paths.slots()).for_each(|slot| found.begin_several(slot));
        if scanner.is_out() {
            found.ends_alike();
        }
    }
    keys.spend(found.room());
    (scanner.at() / BYTES_A_UNIT + scanner.steps() / STEPS_A_UNIT, halt != Some(Halt::Fault))
}

/// The end of a walk before the end of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    Fault,
    /// All is found.
    Found,
}

impl From<Fault> for Halt {
    fn from(Fault: Fault) -> Halt {
        Halt::Fault
    }
}

struct Walk<'w, 'a> {
    scanner: Scanner<'a>,
    paths: &'w Paths,
    found: &'w mut Found<'a>,
    keys: Keys,
    /// Where the elements that are open are in the tree of paths, those of the innermost last.
    places: BumpVec<'a, Place>,
    /// Of each node of the tree, how often its element was there.
    met: BumpVec<'a, Met>,
    /// Elements that were walked into, so that each has a number of its own.
    elements: u32,
}

/// A place in the tree of paths.
#[derive(Clone, Copy)]
struct Place {
    node: usize,
    /// No other element can come to be here.
    is_sole: bool,
}

#[derive(Clone, Copy, Default)]
struct Met {
    /// The number of the element in which this was met.
    within: u32,
    times: u32,
}

/// An element that is open, or the document.
#[derive(Clone, Copy)]
struct Open {
    /// Its number.
    number: u32,
    /// Where its places begin, of which there is one at least, and where they end.
    first: usize,
    end: usize,
    /// Names that members are compared with.
    names: usize,
    has_slot: bool,
}

impl<'w, 'a> Walk<'w, 'a> {
    /// None where there is no room for it.
    fn new(scanner: Scanner<'a>, paths: &'w Paths, found: &'w mut Found<'a>) -> Option<Walk<'w, 'a>> {
        let room = found.room();
        let mut met = BumpVec::new_in(room.bump());
        met.try_reserve_exact(paths.nodes()).ok()?;
        met.resize(paths.nodes(), Met::default());
        let (keys, places) = (Keys::new(room), BumpVec::new_in(room.bump()));
        Some(Walk { scanner, paths, found, keys, places, met, elements: 0 })
    }

    /// The whole of it.
    fn document(&mut self) -> Result<(), Halt> {
        self.scanner.pass_prolog()?;
        self.push(0, true)?;
        let document = self.open(0);
        // It is a map, and the one element of a step to each.
        self.put(document, Value::Composite);
        self.element_in(document, true)?;
        Ok(self.scanner.pass_epilog()?)
    }

    /// An element, from its name on. `is_sole`: no other can stand where it does.
    fn element_in(&mut self, parent: Open, is_sole: bool) -> Result<(), Halt> {
        let name = self.scanner.name()?;
        self.keys.compare(parent.names)?;
        let (first, paths) = (self.places.len(), self.paths);
        for place in parent.first..parent.end {
            let place = self.places[place];
            let node = paths.node(place.node);
            if let Some(at) = node.named(name.whole) {
                self.meet(node.names[at].1, parent.number, is_sole, place.is_sole)?;
            }
            if let Some(at) = name.local().and_then(|local| node.named(local)) {
                self.meet(node.names[at].1, parent.number, is_sole, place.is_sole)?;
            }
        }
        let name = name.whole;
        if self.places.len() == first {
            return Ok(self.scanner.pass_element(name)?);
        }
        let element = self.open(first);
        let is_empty = match element.names {
            0 => self.scanner.pass_tag()?,
            _ => self.attributes(element)?,
        };
        if is_empty {
            self.put_text(element, b"");
        } else {
            self.content(element, name)?;
        }
        self.close(element)?;
        self.places.truncate(first);
        Ok(())
    }

    /// A member of a node is there, for the first time in its parent or once more.
    fn meet(
        &mut self,
        number: usize,
        within: u32,
        is_sole: bool,
        is_sole_by_number: bool,
    ) -> Result<(), Fault> {
        let paths = self.paths;
        let node = paths.node(number);
        let met = &mut self.met[number];
        if met.within != within {
            *met = Met { within, times: 0 };
        }
        let times = met.times;
        met.times += 1;
        if times == 1 {
            // A list, of which there is one already.
            node.several.iter().for_each(|slot| self.found.begin_several(*slot));
            self.found.open_list(&node.several);
        }
        if times as usize <= VALUES_MAX || !self.is_full(node) {
            self.push(number, is_sole)?;
        }
        match path::numbered(&node.numbers, times) {
            Some(at) => self.push(node.numbers[at].1, is_sole_by_number),
            None => Ok(()),
        }
    }

    /// Whether more elements of a list change nothing, as there are more values already than count.
    fn is_full(&self, node: &Node) -> bool {
        let mut nodes = std::iter::successors(Some(node), |node| node.each.map(|each| self.paths.node(each)));
        nodes.all(|node| node.names.is_empty() && node.slot.is_none_or(|slot| self.found.is_full(slot)))
    }

    /// An element is at a node, and where steps to each lead from there. Nothing else is looked for where a node has
    /// neither names nor a slot.
    fn push(&mut self, number: usize, is_sole: bool) -> Result<(), Fault> {
        let mut at = Some(number);
        while let Some(number) = at {
            let node = self.paths.node(number);
            if node.slot.is_some() || !node.names.is_empty() {
                self.places.try_reserve(1).map_err(|_| Fault)?;
                self.places.push(Place { node: number, is_sole });
            }
            at = node.each;
        }
        Ok(())
    }

    /// The element whose places are the last ones.
    fn open(&mut self, first: usize) -> Open {
        self.elements += 1;
        let nodes = self.places[first..].iter().map(|place| self.paths.node(place.node));
        let (mut names, mut has_slot) = (0, false);
        for node in nodes {
            names += node.names.len();
            has_slot |= node.slot.is_some();
        }
        Open { number: self.elements, first, end: self.places.len(), names, has_slot }
    }

    /// An element is passed: of places where it is the only one all was found.
    fn close(&mut self, element: Open) -> Result<(), Halt> {
        let paths = self.paths;
        for place in self.places[element.first..element.end].iter().filter(|place| place.is_sole) {
            self.found.close(&paths.node(place.node).below);
        }
        if self.found.is_complete() { Err(Halt::Found) } else { Ok(()) }
    }

    /// From behind the name of an element to behind its tag. Returns whether the element ends there.
    fn attributes(&mut self, element: Open) -> Result<bool, Halt> {
        while let Some(Attribute { name, raw }) = self.scanner.attribute()? {
            self.keys.compare(element.names)?;
            let (first, paths) = (self.places.len(), self.paths);
            for place in element.first..element.end {
                let place = self.places[place];
                let node = paths.node(place.node);
                // Of two attributes of one name the first counts.
                if let Some(child) = node.attribute(name)
                    && self.met[child].within != element.number
                {
                    self.meet(child, element.number, place.is_sole, place.is_sole)?;
                }
            }
            if self.places.len() > first {
                let attribute = self.open(first);
                let text = self.plain(raw, Kind::Attribute)?;
                self.put_text(attribute, text);
                self.close(attribute)?;
                self.places.truncate(first);
            }
        }
        Ok(self.scanner.tag_end()?)
    }

    /// From behind the tag of an element to behind its end.
    fn content(&mut self, element: Open, name: &[u8]) -> Result<(), Halt> {
        // None: its text is not asked for, or there are elements in it.
        let mut text = element.has_slot.then(|| Text::new(self.found.room()));
        loop {
            let piece = self.scanner.text()?;
            if let Some(text) = &mut text
                && !piece.is_empty()
            {
                let plain = self.plain(piece, Kind::Text)?;
                text.add(plain)?;
            }
            match self.scanner.mark()? {
                Mark::End => {
                    self.scanner.pass_end(name)?;
                    if let Some(text) = text {
                        self.put_text(element, text.whole());
                    }
                    return Ok(());
                }
                Mark::Element => {
                    if text.take().is_some() {
                        self.put(element, Value::Composite);
                    }
                    match element.names {
                        0 => self.scanner.pass_any()?,
                        _ => self.element_in(element, false)?,
                    }
                }
                Mark::Data => {
                    let data = self.scanner.data()?;
                    if let Some(text) = &mut text {
                        let plain = self.plain(data, Kind::Data)?;
                        text.add(plain)?;
                    }
                }
                Mark::Comment => self.scanner.pass_comment()?,
                Mark::Instruction => _ = self.scanner.instruction()?,
            }
        }
    }

    /// A text as it is meant.
    fn plain(&mut self, raw: &'a [u8], kind: Kind) -> Result<&'a [u8], Fault> {
        let changes_max = self.scanner.steps_left() / STEPS_A_CHANGE;
        let mut changes_left = changes_max;
        let plain = text::plain(raw, kind, &mut changes_left, self.found.room());
        self.scanner.count(STEPS_A_TEXT + STEPS_A_CHANGE * (changes_max - changes_left))?;
        plain
    }

    fn put_text(&mut self, element: Open, text: &'a [u8]) {
        let is_full =
            |place: &Place| self.paths.node(place.node).slot.is_none_or(|slot| self.found.is_full(slot));
        if !self.places[element.first..element.end].iter().all(is_full) {
            let value = Untyped::value(text, self.found.room());
            self.put(element, value);
        }
    }

    fn put(&mut self, element: Open, value: Value<'a>) {
        for place in &self.places[element.first..element.end] {
            if let Some(slot) = self.paths.node(place.node).slot {
                self.found.put(slot, value);
            }
        }
    }
}
