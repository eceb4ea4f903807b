#![no_main]
//! Conversion is total, bounded, and its results can be read.

use libfuzzer_sys::fuzz_target;
use message::amqp10::Message;
use message::amqp091::Properties;
use message::convert::{Amqp10, Amqp091, GROWTH_CONSTANT, GROWTH_MAX};
use message::stamps::Stamps;

fuzz_target!(|bytes: &[u8]| {
    let overwrites = bytes.last().is_some_and(|byte| byte & 1 == 1);
    let stamps = Stamps { time: Some(overwrites), node: Some(("rabbit@fuzz".into(), overwrites)) };
    let grown_max = GROWTH_MAX * bytes.len() + GROWTH_CONSTANT;
    if let Ok(message) = Message::read(bytes) {
        let mut converted = Amqp091::default();
        let body = converted.convert(&message);
        let body = converted.body(body).len();
        assert!(body <= bytes.len());
        assert!(Properties::read(&converted.properties).is_ok());
        assert!(converted.properties.len() <= grown_max);
        let stamped = stamps.on_amqp10(&message, 7).expect("it can be read");
        Amqp091::default().convert_at(&Message::read(&stamped).unwrap(), 7);
    }
    let (raw, body) = bytes.split_at(bytes.len() / 2);
    if let Ok(properties) = Properties::read(raw) {
        let mut converted = Amqp10::default();
        converted.convert(&properties, body, raw.first().copied().unwrap_or(0));
        let bare = [&converted.bare, body].concat();
        assert!(Message::read_parts(&[], &bare).is_ok());
        assert!(converted.bare.len() + converted.annotations.len() <= grown_max);
        let stamped = stamps.on_amqp091(&properties, 7).expect("it can be read");
        Properties::read(&stamped.head).unwrap();
    }
});
