//! The position of a message in its queue, told with it to the peer that names it later, and whether a consumer holds it.
//!
//! Both are one number, so that no publisher can claim either: where the message is held, its position with all bits inverted.

use super::{NewProperties, Properties, Table, TableWriter, Value, write_header};

/// No header that a client would use.
const POSITION: &[u8] = b"x-leveret-position";

/// Appends `head` to `into`, with a header that tells the position of the message in its queue, in place of one that
/// tells it already. A head that cannot be read is passed on as it is.
pub fn write_position(head: &[u8], position: u64, into: &mut Vec<u8>) {
    write_header(head, POSITION, Value::I64(position as i64), into);
}

/// As [`write_position`], of a message that a consumer holds.
pub fn write_held(head: &[u8], position: u64, into: &mut Vec<u8>) {
    write_header(head, POSITION, Value::I64(!position as i64), into);
}

fn told(properties: &Properties<'_>) -> Option<i64> {
    properties.headers()?.get(POSITION)?.as_i64()
}

/// The position in the output of [`write_position`] or [`write_held`].
pub fn position_of(properties: &Properties<'_>) -> Option<u64> {
    let told = told(properties)?;
    Some(if told < 0 { !told as u64 } else { told as u64 })
}

/// It is the output of [`write_held`].
pub fn is_held(properties: &Properties<'_>) -> bool {
    told(properties).is_some_and(|told| told < 0)
}

/// Reads the output of [`write_position`] or [`write_held`]: the position, and the head without it. A table of headers that had nothing
/// else goes too.
pub fn take_position(properties: &Properties<'_>) -> Option<(u64, Vec<u8>)> {
    let (position, headers) = (position_of(properties)?, properties.headers()?);
    let fields = TableWriter::fields(|table| {
        for (name, encoding) in headers.encodings().filter(|(name, _)| *name != POSITION) {
            table.encoding(name, encoding);
        }
    });
    let headers = Table::new(&fields).ok().filter(|_| !fields.is_empty());
    let mut head = Vec::new();
    NewProperties { headers, ..properties.to_new() }.write(&mut head);
    Some((position, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_and_goes_and_nothing_else_changes() {
        let check = |fields: &[(&[u8], Value<'_>)], position: u64| {
            let write = |fields: &[(&[u8], Value<'_>)]| {
                let encoded = TableWriter::fields(|table| {
                    fields.iter().for_each(|(name, value)| table.put(name, *value));
                });
                let headers = Table::new(&encoded).ok().filter(|_| !fields.is_empty());
                let mut head = Vec::new();
                NewProperties { headers, delivery_mode: Some(2), ..Default::default() }.write(&mut head);
                head
            };
            let kept: Vec<_> = fields.iter().copied().filter(|(name, _)| *name != POSITION).collect();
            let check = |write_it: fn(&[u8], u64, &mut Vec<u8>), held: bool| {
                let mut told = Vec::new();
                write_it(&write(fields), position, &mut told);
                let told = Properties::read(&told).expect("just written");
                assert_eq!((position_of(&told), is_held(&told)), (Some(position), held));
                assert_eq!(take_position(&told), Some((position, write(&kept))));
            };
            check(write_position, false);
            check(write_held, true);
        };
        check(&[], 0);
        check(&[(b"a", Value::I64(1)), (b"x-death", Value::Text(b"q"))], 1 << 40);
        // A publisher's claim is not believed.
        check(&[(POSITION, Value::I64(7)), (b"b", Value::Bool(true))], 8);
        check(&[(POSITION, Value::I64(-8))], 8);
        let mut plain = Vec::new();
        NewProperties { delivery_mode: Some(1), ..Default::default() }.write(&mut plain);
        assert_eq!(take_position(&Properties::read(&plain).expect("just written")), None);
    }
}
