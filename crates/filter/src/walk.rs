//! The walk through a document: one pass, led by the paths that are wanted, the same for every format of maps and lists.
//!
//! Of two members of one name the first counts. A part that no path leads into is passed over unseen; nothing behind a
//! fault counts. It ends where all is found. It recurses along paths alone, so [`crate::STEPS_MAX`] bounds its depth.

use crate::found::{Found, Room, VALUES_MAX};
use crate::path::{self, Node, Paths, number_of};
use crate::tree::Key;
use crate::value::Value;

/// Keys that are compared with wanted ones in a unit of [work](crate::Program::price).
const KEYS_A_UNIT: usize = 3;

/// Keys that a member, an element or a field that is walked to counts as, beside those that it is compared with.
const WALKED: usize = 2 * KEYS_A_UNIT;

/// The document does not go on as its format does, ends, or asks for more work than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

/// Kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Map,
    List,
    /// Neither.
    Scalar,
}

/// A place in a document, and the ways on from there.
pub(crate) trait Cursor<'a> {
    /// Its knowledge of a map or a list that it is in.
    type Within: Copy;

    /// Bytes before it.
    fn at(&self) -> usize;

    /// Goes back to where it was.
    fn go_back(&mut self, at: usize);

    /// The kind of the value that begins here.
    fn kind(&mut self) -> Result<Kind, Fault>;

    /// Into the map or list that begins here.
    fn open(&mut self) -> Result<Self::Within, Fault>;

    /// To the value of the next member: its key. `None`: the map is passed.
    fn next_member(&mut self, within: &mut Self::Within, room: &'a Room) -> Result<Option<Key<'a>>, Fault>;

    /// To the next element. False: the list is passed.
    fn next_element(&mut self, within: &mut Self::Within) -> Result<bool, Fault>;

    /// The value that begins here and is neither map nor list.
    fn scalar(&mut self, room: &'a Room) -> Result<Value<'a>, Fault>;

    /// From such a value to behind it.
    fn pass_scalar(&mut self) -> Result<(), Fault>;

    /// From any value to behind it.
    fn pass_value(&mut self) -> Result<(), Fault>;

    /// From behind a member or an element to behind the map or list.
    fn pass_rest(&mut self, within: Self::Within) -> Result<(), Fault>;
}

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All was found, or the value is passed.
    Whole,
    /// The document faults there; so it does for who looks for other paths, if that is its end.
    Fault,
    /// It faults within a value that would have been looked at once more, or too much work was asked for: who looks for less
    /// may come further.
    Early,
}

/// Looks for paths in the value where the cursor is. Bytes that are looked at once more may be `again_max`.
/// Returns how many were.
pub(crate) fn find<'a, C: Cursor<'a>>(
    cursor: &mut C,
    paths: &Paths,
    again_max: usize,
    found: &mut Found<'a>,
) -> (usize, Ended) {
    let keys = Keys::new(found.room());
    let mut walk = Walk { cursor, paths, found, again: 0, again_max, is_twice: false, keys };
    let ended = match walk.value(0, false) {
        Ok(_) => Ended::Whole,
        Err(Fault) if walk.is_twice || walk.keys.is_spent() => Ended::Early,
        Err(Fault) => Ended::Fault,
    };
    walk.keys.spend(walk.found.room());
    (walk.again, ended)
}

/// Members, elements and fields that are walked to, counted as keys that are compared with wanted ones: so many may be as
/// there is work left.
pub(crate) struct Keys {
    compared: usize,
    most: usize,
}

impl Keys {
    pub(crate) fn new(room: &Room) -> Keys {
        Keys { compared: 0, most: room.left().saturating_mul(KEYS_A_UNIT) }
    }

    /// One is walked to, and compared with so many.
    #[inline]
    pub(crate) fn compare(&mut self, wanted: usize) -> Result<(), Fault> {
        self.compared += WALKED + wanted;
        if self.compared > self.most { Err(Fault) } else { Ok(()) }
    }

    /// There is no more work left.
    fn is_spent(&self) -> bool {
        self.compared > self.most
    }

    /// Counts the work.
    pub(crate) fn spend(self, room: &Room) {
        room.spend(self.compared / KEYS_A_UNIT);
    }
}

struct Walk<'w, 'a, C> {
    cursor: &'w mut C,
    paths: &'w Paths,
    found: &'w mut Found<'a>,
    /// Bytes that were looked at once more, and how many may be.
    again: usize,
    again_max: usize,
    /// A value was being looked at that would have been looked at once more.
    is_twice: bool,
    keys: Keys,
}

/// Whether the walk goes on, or all is found.
type Step = Result<Then, Fault>;

#[derive(Clone, Copy, PartialEq)]
enum Then {
    GoOn,
    Stop,
}

impl<'a, C: Cursor<'a>> Walk<'_, 'a, C> {
    /// A value where a node of the tree is. `in_list`: others of its kind may come.
    fn value(&mut self, number: usize, in_list: bool) -> Step {
        let paths = self.paths;
        let node = paths.node(number);
        match self.cursor.kind()? {
            Kind::Map => {
                if let Some(each) = node.each {
                    self.as_well(|walk| walk.value(each, in_list))?;
                }
                self.map(node, true, in_list)
            }
            Kind::List => self.list(node, in_list),
            Kind::Scalar => {
                let is_wanted = node.slot.is_some() || node.each.is_some();
                self.scalar(node, is_wanted)
            }
        }
    }

    /// Neither map nor list.
    fn scalar(&mut self, node: &Node, is_wanted: bool) -> Step {
        if !is_wanted {
            self.cursor.pass_scalar()?;
            return Ok(Then::GoOn);
        }
        let value = self.cursor.scalar(self.found.room())?;
        let mut at = Some(node);
        // A value that is no list is the one element of a step to each.
        while let Some(node) = at {
            if let Some(slot) = node.slot {
                self.found.put(slot, value);
            }
            at = node.each.map(|each| self.paths.node(each));
        }
        Ok(Then::GoOn)
    }

    /// A map: its members that the node names. `with_numbers`: also those it has numbers of.
    fn map(&mut self, node: &Node, with_numbers: bool, in_list: bool) -> Step {
        if let Some(slot) = node.slot {
            self.found.put(slot, Value::Composite);
        }
        let numbers = if with_numbers { &node.numbers[..] } else { &[] };
        let of_node = node.names.len() + numbers.len();
        if of_node == 0 {
            return self.cursor.pass_value().map(|()| Then::GoOn);
        }
        let mut wanted = of_node;
        // Members that were there, by their place among those that are wanted.
        let mut met = Met::new(of_node);
        let mut within = self.cursor.open()?;
        while let Some(key) = self.cursor.next_member(&mut within, self.found.room())? {
            self.keys.compare(of_node)?;
            let (named, number) = match key {
                Key::Name(key) if numbers.is_empty() => (node.named(key), None),
                Key::Name(key) => (node.named(key), number_of(key)),
                Key::Number(key) => (None, u32::try_from(key).ok()),
                Key::Other => (None, None),
            };
            let numbered = number.and_then(|number| path::numbered(numbers, number));
            let named = named.filter(|at| met.is_first(*at)).map(|at| node.names[at].1);
            let numbered = numbered.filter(|at| met.is_first(node.names.len() + at)).map(|at| numbers[at].1);
            let then = match (named, numbered) {
                (None, None) => {
                    self.cursor.pass_value()?;
                    continue;
                }
                (Some(child), None) | (None, Some(child)) => self.member(child, in_list)?,
                (Some(named), Some(numbered)) => {
                    self.as_well(|walk| walk.member(named, in_list))?;
                    wanted -= 1;
                    self.member(numbered, in_list)?
                }
            };
            if then == Then::Stop {
                return Ok(Then::Stop);
            }
            wanted -= 1;
            if wanted == 0 {
                return self.cursor.pass_rest(within).map(|()| Then::GoOn);
            }
        }
        Ok(Then::GoOn)
    }

    fn member(&mut self, child: usize, in_list: bool) -> Step {
        let then = self.value(child, in_list)?;
        if in_list || then == Then::Stop {
            return Ok(then);
        }
        let paths = self.paths;
        self.found.close(&paths.node(child).below);
        Ok(if self.found.is_complete() { Then::Stop } else { Then::GoOn })
    }

    /// A list: its elements stand for it, but where a place in it is wanted.
    fn list(&mut self, node: &Node, in_list: bool) -> Step {
        if let Some(slot) = node.slot {
            self.found.is_list(slot);
        }
        self.found.open_list(&node.several);
        let has_elements = node.slot.is_some() || !node.names.is_empty();
        let last = node.numbers.last().map(|(number, _)| *number);
        if !has_elements && node.each.is_none() && last.is_none() {
            return self.cursor.pass_value().map(|()| Then::GoOn);
        }
        let mut within = self.cursor.open()?;
        let mut place = 0;
        loop {
            let is_numbered = last.is_some_and(|last| place <= last);
            let is_idle = !has_elements && node.each.is_none();
            if !is_numbered && (is_idle || (place as usize > VALUES_MAX && self.is_full(node))) {
                return self.cursor.pass_rest(within).map(|()| Then::GoOn);
            }
            if !self.cursor.next_element(&mut within)? {
                return Ok(Then::GoOn);
            }
            self.keys.compare(if is_numbered { node.numbers.len() } else { 0 })?;
            let numbered = match is_numbered {
                true => path::numbered(&node.numbers, place).map(|at| node.numbers[at].1),
                false => None,
            };
            place = place.saturating_add(1);
            let last_user =
                [has_elements, node.each.is_some(), numbered.is_some()].iter().rposition(|is_user| *is_user);
            let Some(last_user) = last_user else {
                self.cursor.pass_value()?;
                continue;
            };
            if has_elements {
                self.perhaps_again(last_user > 0, |walk| walk.element(node))?;
            }
            if let Some(each) = node.each {
                self.perhaps_again(last_user > 1, |walk| walk.value(each, true))?;
            }
            if let Some(child) = numbered
                && self.member(child, in_list)? == Then::Stop
            {
                return Ok(Then::Stop);
            }
        }
    }

    /// Whether more elements of a list change nothing, as there are more values already than count.
    fn is_full(&self, node: &Node) -> bool {
        let is_full =
            |node: &Node| node.names.is_empty() && node.slot.is_none_or(|slot| self.found.is_full(slot));
        let each = node.each.map(|each| self.paths.node(each));
        is_full(node)
            && each.is_none_or(|each| each.each.is_none() && each.numbers.is_empty() && is_full(each))
    }

    /// An element of a list, in place of the list.
    fn element(&mut self, node: &Node) -> Step {
        match self.cursor.kind()? {
            Kind::Map => self.map(node, false, true),
            Kind::List => {
                // A list in a list is no value, and has no members.
                if let Some(slot) = node.slot {
                    self.found.put(slot, Value::Composite);
                }
                self.cursor.pass_value().map(|()| Then::GoOn)
            }
            Kind::Scalar => {
                if let Some(slot) = node.slot {
                    let value = self.cursor.scalar(self.found.room())?;
                    self.found.put(slot, value);
                } else {
                    self.cursor.pass_scalar()?;
                }
                Ok(Then::GoOn)
            }
        }
    }

    fn perhaps_again(&mut self, is_again: bool, look: impl FnOnce(&mut Self) -> Step) -> Result<(), Fault> {
        if is_again { self.as_well(look) } else { look(self).map(|_| ()) }
    }

    /// Looks at a value that will be looked at once more.
    fn as_well(&mut self, look: impl FnOnce(&mut Self) -> Step) -> Result<(), Fault> {
        let from = self.cursor.at();
        let was_twice = std::mem::replace(&mut self.is_twice, true);
        look(self)?;
        self.again += self.cursor.at() - from;
        if self.again > self.again_max {
            return Err(Fault);
        }
        self.is_twice = was_twice;
        self.cursor.go_back(from);
        Ok(())
    }
}

/// Members of a map that were met already: the first of a name counts.
struct Met {
    few: u64,
    many: Vec<bool>,
}

impl Met {
    fn new(members: usize) -> Met {
        Met { few: 0, many: if members > 64 { vec![false; members] } else { Vec::new() } }
    }

    fn is_first(&mut self, member: usize) -> bool {
        match self.many.get_mut(member) {
            Some(is_met) => !std::mem::replace(is_met, true),
            None => {
                let bit = 1 << member;
                let is_first = self.few & bit == 0;
                self.few |= bit;
                is_first
            }
        }
    }
}
