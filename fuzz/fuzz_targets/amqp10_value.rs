#![no_main]
//! Values and messages of AMQP 1.0: a checked value is walked, skipped and written again.

use libfuzzer_sys::fuzz_target;
use message::amqp10::{Decoder, Encoder, Message, Value};

fn walk(value: Value<'_>, steps: &mut usize) {
    *steps += 1;
    match value {
        Value::List(list) => list.iter().for_each(|value| walk(value, steps)),
        Value::Map(map) => map.iter().for_each(|(key, value)| {
            walk(key, steps);
            walk(value, steps);
        }),
        Value::Array(array) => array.iter().for_each(|value| walk(value, steps)),
        Value::Described(described) => walk(described.value(), steps),
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut checked = Decoder::new(bytes);
    let _ = Decoder::new(bytes).skip();
    if checked.check().is_ok() {
        let Ok(value) = Decoder::new(bytes).value() else { panic!("checked and yet malformed") };
        let mut steps = 0;
        walk(value, &mut steps);
        assert!(steps <= 64 * bytes.len());
        let mut again = Vec::new();
        Encoder::new(&mut again).value(value);
        assert!(Decoder::new(&again).check().is_ok());
    }
    if let Ok(message) = Message::read(bytes) {
        assert_eq!(message.head.len() + message.bare.len(), bytes.len());
        assert!(Message::read_parts(message.head, message.bare).is_ok());
        let _ = (message.properties.fields(), message.body.sections().count());
    }
});
