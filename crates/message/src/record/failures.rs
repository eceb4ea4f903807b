//! How often the delivery of a message failed before it came: of a dead letter, which keeps that count.
//!
//! It lies in the upper two bytes of the due time, which needs the lower six for nine thousand years, and counts where
//! [`flag::FAILED`] says so: other records neither have nor cost anything.

use super::{Enqueue, NewEnqueue, flag};

/// Milliseconds since 1970 that are told beside a count.
const DUE: u64 = (1 << 48) - 1;

/// The value in place of a record's due time when the delivery failed so often before the message came; it goes with
/// [`flag::FAILED`]. A due time after the year 10,889 counts as that year.
pub fn due_with_failures(due_at_ms: u64, failures: u16) -> u64 {
    due_at_ms.min(DUE) | u64::from(failures) << 48
}

impl Enqueue<'_> {
    /// How often its delivery failed before it came.
    #[inline]
    pub fn failures(&self) -> u16 {
        if self.flags & flag::FAILED != 0 { (self.due_at_ms >> 48) as u16 } else { 0 }
    }

    /// Until when it is delayed, milliseconds since 1970; 0: it is not.
    pub fn due_ms(&self) -> u64 {
        match (self.flags & flag::DELAYED != 0, self.flags & flag::FAILED != 0) {
            (false, _) => 0,
            (true, false) => self.due_at_ms,
            (true, true) => self.due_at_ms & DUE,
        }
    }
}

impl NewEnqueue<'_> {
    /// The value of its due time when it is to be delayed until `due_at_ms`, milliseconds since 1970.
    pub fn due_at(&self, due_at_ms: u64) -> u64 {
        match self.flags & flag::FAILED != 0 {
            true => due_with_failures(due_at_ms, (self.due_at_ms >> 48) as u16),
            false => due_at_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Format;
    use base::memory::Buffer;

    fn check(flags: u8, due_at_ms: u64, failures: u16, due_ms: u64) {
        let new = NewEnqueue {
            flags,
            format: Format::Amqp091,
            priority: 0,
            received_at_ms: 1,
            expires_at_ms: 0,
            due_at_ms,
            keys: None,
            exchange: b"",
            routing_key: b"q",
            head: &[b"\0\0"],
            body: &[],
        };
        let mut buffer = Buffer::default();
        new.write(&[], &mut buffer);
        let read = Enqueue::read(buffer.bytes()).unwrap();
        let delayed = Enqueue { due_at_ms: new.due_at(7), flags: flags | flag::DELAYED, ..read };
        assert_eq!((delayed.failures(), delayed.due_ms()), (failures, 7));
        assert_eq!((read.failures(), read.due_ms()), (failures, due_ms), "{flags} {due_at_ms:x}");
    }

    #[test]
    fn both_come_back() {
        for failures in [0, 1, 999, u16::MAX] {
            for due_ms in [0, 1, 2_000_000_000_000, DUE] {
                let both = due_with_failures(due_ms, failures);
                check(flag::FAILED | flag::DELAYED, both, failures, due_ms);
                check(flag::FAILED, both, failures, 0);
            }
        }
        check(flag::FAILED | flag::DELAYED, due_with_failures(u64::MAX, 3), 3, DUE);
    }

    #[test]
    fn records_of_before_have_a_time_of_eight_bytes() {
        check(0, u64::MAX, 0, 0);
        check(flag::DELAYED, u64::MAX, 0, u64::MAX);
    }
}
