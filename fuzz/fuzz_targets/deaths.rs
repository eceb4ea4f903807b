#![no_main]
//! Any head dies any number of deaths: it stays readable, grows by little, and tells the last death first.

use base::memory::Buffer;
use libfuzzer_sys::fuzz_target;
use message::amqp10::Message;
use message::amqp091::Properties;
use message::deaths::{DEATHS_MAX, Death, History, dead_letter};
use message::record::{DeathReason, Enqueue, Format, NewEnqueue, split};

fuzz_target!(|bytes: &[u8]| {
    let &[format, mut flags, ref deaths, ref head @ ..] = bytes else { return };
    let format = if format & 1 == 0 { Format::Amqp091 } else { Format::Amqp10 };
    let is_read = |head: &[u8]| match format {
        Format::Amqp091 => Properties::read(head).is_ok(),
        Format::Amqp10 => Message::head_sections(head).is_ok(),
    };
    let (was_read, len) = (is_read(head), head.len());
    let mut head = head.to_vec();
    let mut count = usize::from(deaths & 7) + 1;
    // A ring that the list has no room for.
    let is_ring = (deaths >> 6) & 1 != 0;
    if is_ring {
        count += DEATHS_MAX;
    }
    for death in 0..count {
        let mut record = Buffer::default();
        NewEnqueue {
            flags,
            format,
            priority: 0,
            received_at_ms: 0,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: b"exchange",
            routing_key: b"key",
            head: &[&head],
            body: &[],
        }
        .write(&[], &mut record);
        let (_, record, _) = split(record.bytes()).expect("a record");
        let message = Enqueue::read(record).expect("of a message");
        let in_ring = format!("q{death}");
        let queue = match (deaths >> 3) & 1 {
            _ if is_ring => &in_ring[..],
            0 => "queue",
            _ => ["a", "b"][death & 1],
        };
        let reason = [DeathReason::Rejected, DeathReason::Expired][usize::from((deaths >> 4) & 1)];
        let key = ((deaths >> 5) & 1 != 0).then_some(&b"other"[..]);
        let letter = dead_letter(&message, &Death { queue, reason, at_ms: u64::MAX }, key);
        let history = History::read(format, letter.flags, &letter.head);
        if was_read {
            assert_eq!(history.queues().next(), Some(queue.as_bytes()));
            assert_eq!(history.is_cycle(queue, reason), reason == DeathReason::Expired);
            if is_ring {
                assert_eq!(history.is_cycle("q0", reason), reason == DeathReason::Expired);
            }
        }
        (flags, head) = (letter.flags, letter.head);
    }
    assert_eq!(is_read(&head), was_read);
    assert!(head.len() <= 32 * len + 1024 * count);
});
