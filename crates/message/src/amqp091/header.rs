//! One header of a message, written into its properties.

use super::{NewProperties, Properties, Table, TableWriter, Value};

/// Appends `head` to `into`, with a header of this name and value, in place of one of that name. A head that cannot be
/// read is passed on as it is.
pub fn write_header(head: &[u8], name: &[u8], value: Value<'_>, into: &mut Vec<u8>) {
    let Ok(properties) = Properties::read(head) else { return into.extend_from_slice(head) };
    let fields = TableWriter::fields(|table| {
        for (own, encoding) in properties.headers().unwrap_or_default().encodings() {
            if own != name {
                table.encoding(own, encoding);
            }
        }
        table.put(name, value);
    });
    let headers = Table::new(&fields).expect("fields of a table, and a value");
    NewProperties { headers: Some(headers), ..properties.to_new() }.write(into);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_takes_the_place_of_one_of_its_name() {
        for theirs in [&[][..], &[(&b"a"[..], Value::I64(1)), (b"x", Value::Bool(true))]] {
            let fields = TableWriter::fields(|table| {
                theirs.iter().for_each(|(name, value)| table.put(name, *value));
            });
            let headers = Some(Table::new(&fields).unwrap()).filter(|_| !theirs.is_empty());
            let (mut head, mut written) = (Vec::new(), Vec::new());
            NewProperties { headers, delivery_mode: Some(2), ..Default::default() }.write(&mut head);
            write_header(&head, b"x", Value::I64(7), &mut written);
            let properties = Properties::read(&written).unwrap();
            let found: Vec<_> = properties.headers().unwrap().iter().collect();
            let kept = theirs.iter().copied().filter(|(name, _)| *name != b"x");
            let expected: Vec<_> = kept.chain([(&b"x"[..], Value::I64(7))]).collect();
            assert_eq!((found, properties.delivery_mode()), (expected, Some(2)));
        }
    }

    #[test]
    fn a_head_that_cannot_be_read_stays() {
        let mut written = Vec::new();
        write_header(b"?", b"x", Value::I64(7), &mut written);
        assert_eq!(written, b"?");
    }
}
