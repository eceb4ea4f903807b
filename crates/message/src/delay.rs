//! The header of a message about its delay, once that was taken.

use crate::amqp091::{Properties, Table, TableWriter, Value};
use crate::record::Format;

/// The header that asks for a delay, milliseconds.
const DELAY: &[u8] = b"x-delay";

/// The head of a message whose delay of `delay_ms` is taken: the header is negated, so that consumers see that there was
/// one and nobody takes it again. `None` where the head stays as it is: it has no such header (AMQP 1.0 has annotations).
///
/// `head`: in pieces, as of [`crate::record::NewEnqueue`].
pub fn taken(format: Format, head: &[&[u8]], delay_ms: u64) -> Option<Vec<u8>> {
    let ([head], Format::Amqp091) = (head, format) else { return None };
    let properties = Properties::read(head).ok()?;
    let headers = properties.headers()?;
    headers.get(DELAY)?;
    let negated = i64::try_from(delay_ms).map_or(i64::MIN, |delay_ms| -delay_ms);
    let fields = TableWriter::fields(|table| {
        for (name, encoding) in headers.encodings() {
            match name {
                DELAY => table.put(name, Value::I64(negated)),
                name => table.encoding(name, encoding),
            }
        }
    });
    let mut kept = properties.to_new();
    // Nested no deeper than they were.
    kept.headers = Some(Table::new(&fields).ok()?);
    let mut taken = Vec::with_capacity(head.len() + 8);
    kept.write(&mut taken);
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp091::NewProperties;

    fn head(fill: impl FnOnce(&mut TableWriter<'_>)) -> Vec<u8> {
        let fields = TableWriter::fields(fill);
        let headers = Some(Table::new(&fields).unwrap());
        let mut head = Vec::new();
        NewProperties { headers, priority: Some(3), ..Default::default() }.write(&mut head);
        head
    }

    #[test]
    fn is_negated_as_a_long_integer() {
        for value in [Value::I32(250), Value::I64(250), Value::U8(250), Value::Text(b"250")] {
            let asked = head(|table| {
                table.put(b"a", Value::Text(b"b"));
                table.put(b"x-delay", value);
                table.put(b"c", Value::Bool(true));
            });
            let expected = head(|table| {
                table.put(b"a", Value::Text(b"b"));
                table.put(b"x-delay", Value::I64(-250));
                table.put(b"c", Value::Bool(true));
            });
            assert_eq!(taken(Format::Amqp091, &[&asked], 250), Some(expected));
        }
    }

    #[test]
    fn heads_without_stay() {
        let without = head(|table| table.put(b"a", Value::Void));
        assert_eq!(taken(Format::Amqp091, &[&without], 250), None);
        assert_eq!(taken(Format::Amqp091, &[b"\0\0"], 250), None);
        assert_eq!(taken(Format::Amqp10, &[&without], 250), None);
    }
}
