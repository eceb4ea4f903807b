//! Arguments of queues, exchanges, bindings and consumers, kept as bytes: once, whoever holds them.
//!
//! A client chooses them, and a value of one byte on the wire would take 24 as a tree, in the catalog and in the tables
//! of each shard. Values are decoded when they are looked at ([`Argument`]).

use crate::argument::{Argument, Fields, FieldsLeft, Items, ItemsLeft, put, put_fields};
use crate::value::Value;
use base::put_varint;
use std::sync::Arc;

/// The counts beside shared bytes.
const COUNTS: usize = 2 * size_of::<usize>();

/// Named values, sorted by name; each name once. A clone shares the bytes. Nothing on the heap while empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arguments(pub(crate) Option<Arc<[u8]>>);

/// Values in order, of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct List(pub(crate) Box<[u8]>);

impl Arguments {
    /// No arguments.
    pub const fn new() -> Arguments {
        Arguments(None)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.fields().len()
    }

    /// The arguments as a table's.
    #[inline]
    pub fn fields(&self) -> Fields<'_> {
        Fields(self.0.as_deref().unwrap_or_default())
    }

    /// The value of `name`.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Argument<'_>> {
        self.fields().get(name)
    }

    /// Sets `name`; the value it had. It costs as much as making all of them anew.
    pub fn insert(&mut self, name: &[u8], value: Value) -> Option<Value> {
        let before = self.get(name).map(Argument::to_value);
        let others = self.iter().filter(|(other, _)| *other != name);
        let others = others.map(|(other, value)| (Box::<[u8]>::from(other), value.to_value()));
        *self = others.chain([(Box::from(name), value)]).collect();
        before
    }

    /// All of them, sorted by name.
    #[inline]
    pub fn iter(&self) -> FieldsLeft<'_> {
        self.fields().iter()
    }

    /// Bytes on the heap, which all clones share.
    pub fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |bytes| COUNTS + bytes.len())
    }
}

impl<N: Into<Box<[u8]>>> FromIterator<(N, Value)> for Arguments {
    /// Of a name that comes twice, the last value counts.
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(values: I) -> Arguments {
        let mut list: Vec<(Box<[u8]>, Value)> =
            values.into_iter().map(|(name, value)| (name.into(), value)).collect();
        // Stable, so that of equal names the last given comes first when read backwards.
        list.reverse();
        list.sort_by(|(a, _), (b, _)| a.cmp(b));
        list.dedup_by(|(later, _), (kept, _)| later == kept);
        let mut bytes = Vec::new();
        put_fields(&mut bytes, &list);
        Arguments((!bytes.is_empty()).then(|| bytes.into()))
    }
}

impl List {
    /// Its values.
    pub fn items(&self) -> Items<'_> {
        Items(&self.0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values in order.
    pub fn iter(&self) -> ItemsLeft<'_> {
        self.items().iter()
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> List {
        let (mut count, mut items) = (0u64, Vec::new());
        for value in values {
            put(&mut items, value.view());
            count += 1;
        }
        if count == 0 {
            return List::default();
        }
        let mut bytes = Vec::with_capacity(items.len() + 10);
        put_varint(&mut bytes, count);
        bytes.append(&mut items);
        List(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Float, IntType};

    fn one_of_each() -> Vec<Value> {
        let types = [
            IntType::Byte,
            IntType::UnsignedByte,
            IntType::Short,
            IntType::UnsignedShort,
            IntType::SignedInt,
            IntType::UnsignedInt,
            IntType::Long,
        ];
        let numbers = [0, 1, -1, 63, -64, 64, 127, 1 << 40, i64::MAX, i64::MIN];
        let ints = types.iter().flat_map(|of_type| numbers.map(|number| Value::Int(*of_type, number)));
        let long = vec![7; 300];
        let nested: Arguments = [("z", Value::Void), ("", Value::Bool(false))]
            .map(|(name, value)| (name.as_bytes(), value))
            .into_iter()
            .collect();
        let mut all: Vec<Value> = ints.collect();
        all.extend([
            Value::Void,
            Value::Bool(true),
            Value::Bool(false),
            Value::Unsigned(u64::MAX),
            Value::Float(Float(-0.0)),
            Value::Float(Float(f64::NAN)),
            Value::Decimal { scale: 255, value: u32::MAX },
            Value::text(""),
            Value::text("text"),
            Value::Bytes(long.into()),
            Value::Timestamp(1 << 60),
            Value::list([]),
            Value::list([Value::Void, Value::list([Value::long(5)]), Value::Table(nested.clone())]),
            Value::Table(Arguments::new()),
            Value::Table(nested),
        ]);
        all
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let all = one_of_each();
        let named = all.iter().enumerate().map(|(number, value)| (format!("{number:03}"), value.clone()));
        let arguments: Arguments = named.map(|(name, value)| (name.into_bytes(), value)).collect();
        assert_eq!((arguments.len(), arguments.iter().len()), (all.len(), all.len()));
        for (number, (name, value)) in arguments.iter().enumerate() {
            assert_eq!(name, format!("{number:03}").as_bytes());
            assert_eq!(value.to_value(), all[number]);
            assert_eq!(arguments.get(name), Some(value));
        }
        assert_eq!([arguments.get(b""), arguments.get(b"0000"), arguments.get(b"9")], [None; 3]);
        let list: List = all.iter().cloned().collect();
        assert_eq!(list.len(), all.len());
        assert!(list.iter().map(Argument::to_value).eq(all));
    }

    #[test]
    fn equal_arguments_are_equal_bytes_in_whatever_order_they_come() {
        let all: Vec<_> = one_of_each().into_iter().enumerate().collect();
        let named = |(number, value): &(usize, Value)| (number.to_be_bytes(), value.clone());
        let forwards: Arguments = all.iter().map(named).collect();
        let mut backwards: Arguments = all.iter().rev().skip(1).map(named).collect();
        assert_ne!(forwards, backwards);
        let (last, value) = named(&all[all.len() - 1]);
        assert_eq!(backwards.insert(&last, value), None);
        assert_eq!(forwards, backwards);
        for (at, (_, one)) in all.iter().enumerate() {
            for (other_at, (_, other)) in all.iter().enumerate() {
                assert_eq!(one == other, at == other_at, "{one:?} {other:?}");
            }
        }
    }

    /// Three times what a protocol's table takes, at most: of each kind of value, as small as it can be.
    #[test]
    fn a_byte_on_the_wire_is_at_most_three_in_memory() {
        let nested: Arguments = [(&b"n"[..], Value::Void)].into_iter().collect();
        let rows = [
            (Value::Void, 1),
            (Value::Bool(true), 2),
            (Value::Int(IntType::Byte, -128), 2),
            (Value::Int(IntType::Short, i16::MIN.into()), 3),
            (Value::Int(IntType::SignedInt, i32::MIN.into()), 5),
            (Value::long(i64::MIN), 9),
            (Value::Unsigned(u64::MAX), 9),
            (Value::Float(Float(0.5)), 5),
            (Value::Decimal { scale: 1, value: 1 }, 6),
            (Value::text(""), 5),
            (Value::Timestamp(u64::MAX), 9),
            (Value::list([]), 5),
            (Value::Table(Arguments::new()), 5),
            (Value::Table(nested), 5 + 3),
        ];
        const COUNT: usize = 1000;
        for (value, wire) in rows {
            let list: List = std::iter::repeat_n(value.clone(), COUNT).collect();
            assert!(list.0.len() <= 3 * (5 + COUNT * wire), "{} for {value:?}", list.0.len());
            let named = (0..COUNT as u16).map(|name| (name.to_be_bytes(), value.clone()));
            let arguments: Arguments = named.collect();
            let most = 3 * COUNT * (1 + 2 + wire);
            assert!(arguments.heap_bytes() <= most, "{} for {value:?}", arguments.heap_bytes());
        }
    }

    #[test]
    fn arguments_are_sorted_and_unique() {
        let arguments: Arguments = [("b", 1), ("a", 2), ("b", 3)]
            .map(|(name, n)| (name.as_bytes(), Value::long(n)))
            .into_iter()
            .collect();
        assert_eq!(arguments.len(), 2);
        assert_eq!(arguments.get(b"b"), Some(Argument::Int(IntType::Long, 3)));
        assert_eq!(arguments.iter().next().map(|(name, _)| name), Some(&b"a"[..]));
        let mut grown = arguments.clone();
        assert_eq!(grown.insert(b"aa", Value::Void), None);
        assert_eq!(grown.insert(b"aa", Value::Bool(true)), Some(Value::Void));
        assert_eq!(grown.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&b"a"[..], b"aa", b"b"]);
        assert_eq!(arguments.len(), 2, "a clone shares bytes, not changes");
    }
}
