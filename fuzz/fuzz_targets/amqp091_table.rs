//! Any bytes as a field table, an array and a property list; what is taken is written again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use message::amqp091::{Array, Properties, Table, TableWriter, Value};

fn show(value: Value<'_>) -> usize {
    match value {
        Value::Table(table) => table.iter().map(|(name, value)| name.len() + show(value)).sum(),
        Value::Array(array) => array.iter().map(show).sum(),
        other => other.as_bytes().map_or(1, <[u8]>::len),
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(table) = Table::new(bytes) {
        assert!(show(Value::Table(table)) <= bytes.len());
        let again =
            TableWriter::fields(|writer| table.iter().for_each(|(name, value)| writer.put(name, value)));
        assert_eq!(again.len(), bytes.len());
        assert!(Table::new(&again).is_ok());
    }
    if let Ok(array) = Array::new(bytes) {
        assert!(show(Value::Array(array)) <= bytes.len());
    }
    if let Ok(properties) = Properties::read(bytes) {
        let mut again = Vec::new();
        properties.to_new().write(&mut again);
        assert_eq!(again[2..], bytes[2..]);
        let _ = properties.expiration_ms().map_err(|error| error.to_string());
    }
});
