//! How often a message was delivered before, in its headers.

use super::{NewProperties, Properties, Table, TableWriter, Value};

const FAILED: &[u8] = b"x-delivery-count";
const ACQUIRED: &[u8] = b"x-acquired-count";

/// Appends `head` to `into`, with headers that say how often a queue that counts handed the message out before
/// (`x-acquired-count`) and how often that failed (`x-delivery-count`, where it did). Headers of these names in `head`
/// go. A head that cannot be read is passed on as it is.
pub fn write_counts(head: &[u8], delivery_count: u32, acquired_count: u32, into: &mut Vec<u8>) {
    let Ok(properties) = Properties::read(head) else { return into.extend_from_slice(head) };
    let headers = properties.headers().unwrap_or_default();
    let fields = TableWriter::fields(|table| {
        for (name, encoding) in headers.encodings() {
            if name != ACQUIRED && (name != FAILED || delivery_count == 0) {
                table.encoding(name, encoding);
            }
        }
        table.put(ACQUIRED, Value::I64(acquired_count.into()));
        if delivery_count > 0 {
            table.put(FAILED, Value::I64(delivery_count.into()));
        }
    });
    let headers = Table::new(&fields).expect("fields of a table, and two numbers");
    NewProperties { headers: Some(headers), ..properties.to_new() }.write(into);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(fields: &[(&[u8], Value<'_>)], delivery_count: u32, acquired_count: u32) -> Vec<u8> {
        let fields = TableWriter::fields(|table| {
            fields.iter().for_each(|(name, value)| table.put(name, *value));
        });
        let mut head = Vec::new();
        let headers = Some(Table::new(&fields).unwrap());
        NewProperties { headers, delivery_mode: Some(2), ..Default::default() }.write(&mut head);
        let mut written = Vec::new();
        write_counts(&head, delivery_count, acquired_count, &mut written);
        written
    }

    #[test]
    fn counts_take_the_place_of_what_a_client_said() {
        let head = counted(&[(b"x-delivery-count", Value::I64(7)), (b"a", Value::Bool(true))], 1, 2);
        let properties = Properties::read(&head).unwrap();
        let headers = properties.headers().unwrap();
        assert_eq!(properties.delivery_mode(), Some(2));
        let found: Vec<_> = headers.iter().collect();
        let expected = [
            (&b"a"[..], Value::Bool(true)),
            (&b"x-acquired-count"[..], Value::I64(2)),
            (&b"x-delivery-count"[..], Value::I64(1)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_never_failed_has_no_count_of_failures() {
        let head = counted(&[], 0, 3);
        let headers = Properties::read(&head).unwrap().headers().unwrap();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [(&b"x-acquired-count"[..], Value::I64(3))]);
    }

    #[test]
    fn without_headers_it_gets_some_and_what_cannot_be_read_stays() {
        let mut written = Vec::new();
        write_counts(b"\0\0", 0, 1, &mut written);
        assert!(Properties::read(&written).unwrap().headers().is_some());
        written.clear();
        write_counts(b"\xff", 0, 1, &mut written);
        assert_eq!(written, b"\xff");
    }
}
