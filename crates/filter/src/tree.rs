//! Bodies of values that tell what they are and where they end, as AMQP's: walked by the paths that are wanted. The rules
//! are those of [JSON](crate::json).

use crate::found::Found;
use crate::path::{self, Node, Paths, number_of};
use crate::value::Value;

/// A value of a format: a map, a list, or neither.
pub trait Item<'a>: Copy {
    /// Neither map nor list: its value, [`Value::Null`] where there is none to compare.
    fn scalar(self) -> Value<'a>;

    /// Members of a map, in their order; none if it is no map.
    fn members(self) -> Option<impl Iterator<Item = (Key<'a>, Self)>>;

    /// Elements of a list, in their order; none if it is no list.
    fn elements(self) -> Option<impl Iterator<Item = Self>>;
}

/// The key of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A text.
    Name(&'a [u8]),
    /// A whole number.
    Number(i128),
    /// Something that no step says.
    Other,
}

/// Looks for paths in a value.
pub fn find<'a>(item: impl Item<'a>, paths: &Paths, found: &mut Found<'a>) {
    Walk { paths, found }.value(item, paths.node(0));
}

struct Walk<'w, 'a> {
    paths: &'w Paths,
    found: &'w mut Found<'a>,
}

impl<'a> Walk<'_, 'a> {
    fn value(&mut self, item: impl Item<'a>, node: &Node) {
        if let Some(elements) = item.elements() {
            self.list(elements, node);
            return;
        }
        // A value that is no list is the one element of a step to each.
        if let Some(each) = node.each {
            self.value(item, self.paths.node(each));
        }
        self.single(item, node, true);
    }

    /// A value that is no list, or stands in one.
    fn single(&mut self, item: impl Item<'a>, node: &Node, with_numbers: bool) {
        let is_composite = item.elements().is_some();
        let members = if is_composite { None } else { item.members() };
        if let Some(slot) = node.slot {
            let value = if is_composite || members.is_some() { Value::Composite } else { item.scalar() };
            self.found.put(slot, value);
        }
        let numbers = if with_numbers { &node.numbers[..] } else { &[] };
        let mut wanted = node.names.len() + numbers.len();
        let mut met = vec![false; wanted];
        let Some(members) = members else { return };
        for (key, member) in members {
            if wanted == 0 {
                return;
            }
            let (named, number) = match key {
                Key::Name(name) => (node.named(name), number_of(name)),
                Key::Number(number) => (None, u32::try_from(number).ok()),
                Key::Other => (None, None),
            };
            let numbered = number.and_then(|number| path::numbered(numbers, number));
            let places = [named, numbered.map(|place| node.names.len() + place)];
            for place in places.into_iter().flatten() {
                if std::mem::replace(&mut met[place], true) {
                    continue;
                }
                wanted -= 1;
                let child = match place.checked_sub(node.names.len()) {
                    None => node.names[place].1,
                    Some(place) => numbers[place].1,
                };
                self.value(member, self.paths.node(child));
            }
        }
    }

    fn list<I: Item<'a>>(&mut self, elements: impl Iterator<Item = I>, node: &Node) {
        if let Some(slot) = node.slot {
            self.found.is_list(slot);
        }
        self.found.open_list(&node.several);
        for (place, element) in elements.enumerate() {
            self.single(element, node, false);
            if let Some(each) = node.each {
                self.value(element, self.paths.node(each));
            }
            let numbered = u32::try_from(place).ok().and_then(|place| path::numbered(&node.numbers, place));
            if let Some(at) = numbered {
                self.value(element, self.paths.node(node.numbers[at].1));
            }
        }
    }
}
