//! Messages of JSON, and filters over what is in them: orders of a shop, of which each filter wants few.

use std::fmt::Write;

/// Different documents, published in turn: no divisor of the figures in them.
pub const DOCUMENTS: u32 = 997;

/// Customers that filters ask for.
const CUSTOMERS: u32 = 100_000;

/// Desks that documents are for, in turn.
pub const DESKS: u32 = 16;

/// A selector that the documents for a desk pass.
pub fn of_desk(desk: u32) -> String {
    format!("body.desk = 'd{desk}'")
}

/// A filter of five conditions for a reader, which one document passes: all pass the first four. Up to [`DOCUMENTS`] readers
/// want different ones.
pub fn of_reader(reader: u32) -> String {
    format!(
        "body.kind = 'order' AND body.region IN ('eu', 'us', 'apac') AND body.total >= 0 AND body.lines.quantity > 0 AND \
         body.customer.name = 'Customer {}'",
        document_of(reader)
    )
}

/// The document that a reader wants.
fn document_of(reader: u32) -> u32 {
    (reader * 19 + 500) % DOCUMENTS
}

/// Of so many messages of one publisher, those that a reader wants.
pub fn wanted(reader: u32, messages: u64) -> u64 {
    let behind = messages.saturating_sub(u64::from(document_of(reader)));
    behind.div_ceil(u64::from(DOCUMENTS))
}

/// A filter that every document passes.
pub const OF_ALL: &str = "body.kind = 'order'";

/// Documents of so many bytes, the last of which are overwritten by a stamp: whatever is behind a document is not looked at
/// once all is found that is looked for.
pub fn documents(size: usize) -> Vec<Vec<u8>> {
    (0..DOCUMENTS).map(|number| document(number, size)).collect()
}

fn document(number: u32, size: usize) -> Vec<u8> {
    let region = ["eu", "us", "apac"][number as usize % 3];
    let customer = number * (CUSTOMERS / DOCUMENTS);
    let mut text = format!(
        "{{\"kind\":\"order\",\"id\":\"o-{number:08}\",\"customer\":{{\"id\":{customer},\"name\":\"Customer {number}\"}},\
         \"region\":\"{region}\",\"desk\":\"d{}\",\"total\":{}.25,\"paid\":{},\"lines\":[",
        number % DESKS,
        number * 103 % 10_000,
        number.is_multiple_of(2),
    );
    for line in 0..4 {
        let between = if line == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{between}{{\"sku\":\"sku-{:05}\",\"quantity\":{},\"price\":{}.5}}",
            (number * 31 + line * 7) % 500,
            1 + line,
            number % 90 + line
        );
    }
    text.push_str("],\"note\":\"");
    // The end of the text, and room for a stamp.
    let end = "\"}";
    let left = size.saturating_sub(text.len() + end.len() + crate::stamp::STAMP);
    text.extend(std::iter::repeat_n('.', left));
    text.push_str(end);
    let mut body = text.into_bytes();
    body.resize(size.max(body.len() + crate::stamp::STAMP), b' ');
    body
}

/// As many filters of five conditions each, all different: of ten, seven ask for a customer and three for a range of totals.
pub fn filters(count: u32) -> Vec<String> {
    let filter = |number: u32| {
        let sku = number % 500;
        match number % 10 {
            0..7 => format!(
                "body.customer.id = {} AND body.total > {} AND body.region IN ('eu', 'us') AND body.kind = 'order' AND \
                 body.lines.sku LIKE 'sku-{sku:05}%'",
                u64::from(number) * 7 % u64::from(CUSTOMERS),
                number % 9000,
            ),
            _ => format!(
                "body.total BETWEEN {} AND {} AND body.paid AND body.region = 'eu' AND body.kind = 'order' AND \
                 body.lines.quantity > {}",
                number % 10_000,
                number % 10_000 + 2,
                number % 7
            ),
        }
    };
    (0..count).map(filter).collect()
}

/// As many filters, all different, that no index can look up.
pub fn unindexable(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("NOT body.kind = 'order' OR body.total + {number} < {number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn documents_are_json_of_their_size_with_room_for_a_stamp() {
        let documents = documents(1024);
        assert_eq!(documents.iter().collect::<BTreeSet<_>>().len(), DOCUMENTS as usize);
        for document in documents {
            assert_eq!(document.len(), 1024);
            let (text, room) = document.split_at(1024 - crate::stamp::STAMP);
            assert!(room.iter().all(|byte| *byte == b' '));
            let value: serde_json::Value = serde_json::from_slice(text).unwrap();
            assert_eq!(value["lines"].as_array().unwrap().len(), 4);
        }
    }

    #[test]
    fn each_reader_wants_another_document() {
        let all: BTreeSet<String> = (0..50).map(of_reader).collect();
        assert_eq!(all.len(), 50);
        for (messages, expected) in [(0, 0), (500, 0), (501, 1), (1497, 1), (1498, 2)] {
            assert_eq!(wanted(0, messages), expected, "{messages}");
        }
    }

    #[test]
    fn filters_are_different() {
        let all: BTreeSet<String> = filters(10_000).into_iter().chain(unindexable(100)).collect();
        assert_eq!(all.len(), 10_100);
    }
}
