//! Events as bytes, each delivery with its record. Those that are read have one memory of their own.

use super::Fault;
use super::wire::Wire;
use crate::event::{Event, Events, Item};
use base::id::{PortId, QueueSeq};
use base::{Buffer, Memory, Output, Reader};
use message::record::{self, Enqueue, Kind};

/// The kinds of events.
mod kind {
    pub const REPLY: u8 = 1;
    pub const CONFIRMED: u8 = 2;
    pub const REFUSED: u8 = 3;
    pub const ACTIVE: u8 = 4;
    pub const INTRODUCE: u8 = 5;
    pub const DELIVER: u8 = 6;
    pub const GOT: u8 = 7;
    pub const BARRIER: u8 = 8;
    pub const SHOWN: u8 = 9;
    pub const DRAINED: u8 = 10;
    pub const AVAILABLE: u8 = 11;
    pub const TIMED_OUT: u8 = 12;
    pub const LEASED: u8 = 13;
    pub const LEASE_OVER: u8 = 14;
    pub const CANCELLED: u8 = 15;
    pub const QUEUE_DELETED: u8 = 16;
    pub const CLOSE: u8 = 17;
}

/// Whether all of them can be sent: nothing of a stream can.
pub(super) fn can_be_sent(events: &Events) -> bool {
    let is_of_stream = |event: &Event| matches!(event, Event::Chunk { .. } | Event::StreamRestarted { .. });
    !events.list.iter().any(|(_, event)| is_of_stream(event))
}

/// Appends them.
pub(super) fn put(events: &Events, out: &mut Output) {
    (events.list.len() as u32).put(out);
    for (port, event) in &events.list {
        port.put(out);
        put_event(events, event, out);
    }
}

fn put_event(events: &Events, event: &Event, out: &mut Output) {
    let tag = |tag: u8, out: &mut Output| out.extend(&[tag]);
    let item = |memory: u32, item: u32, out: &mut Output| {
        put_item(&events.memories[memory as usize], &events.items[item as usize], out);
    };
    match event {
        Event::Reply { token, reply } => {
            tag(kind::REPLY, out);
            token.put(out);
            reply.is_ok().put(out);
            match reply {
                Ok(reply) => reply.put(out),
                Err(refusal) => refusal.put(out),
            }
        }
        Event::Confirmed { publisher, first, last } => {
            tag(kind::CONFIRMED, out);
            publisher.put(out);
            first.put(out);
            last.put(out);
        }
        Event::Refused { publisher, first, last, queue } => {
            tag(kind::REFUSED, out);
            publisher.put(out);
            first.put(out);
            last.put(out);
            queue.put(out);
        }
        Event::Active { consumer, active } => {
            tag(kind::ACTIVE, out);
            consumer.put(out);
            active.put(out);
        }
        Event::Introduce => tag(kind::INTRODUCE, out),
        Event::Deliver { consumer, memory, items } => {
            tag(kind::DELIVER, out);
            consumer.put(out);
            (items.len() as u32).put(out);
            items.clone().for_each(|at| item(*memory, at, out));
        }
        Event::Got { token, consumer, memory, item: at, ready } => {
            tag(kind::GOT, out);
            token.put(out);
            consumer.put(out);
            ready.put(out);
            item(*memory, *at, out);
        }
        Event::Barrier { consumer, memory, item: at } => {
            tag(kind::BARRIER, out);
            consumer.put(out);
            item(*memory, *at, out);
        }
        Event::Shown { consumer, memory, item: at } => {
            tag(kind::SHOWN, out);
            consumer.put(out);
            item(*memory, *at, out);
        }
        Event::Drained { consumer, unused } => {
            tag(kind::DRAINED, out);
            consumer.put(out);
            unused.put(out);
        }
        Event::Available { consumer, ready } => {
            tag(kind::AVAILABLE, out);
            consumer.put(out);
            ready.put(out);
        }
        Event::TimedOut { consumer, range, has_more } => {
            tag(kind::TIMED_OUT, out);
            consumer.put(out);
            range.put(out);
            has_more.put(out);
        }
        Event::Leased { consumer, lease_ms } => {
            tag(kind::LEASED, out);
            consumer.put(out);
            lease_ms.put(out);
        }
        Event::LeaseOver { consumer, ranges } => {
            tag(kind::LEASE_OVER, out);
            consumer.put(out);
            ranges.put(out);
        }
        Event::Cancelled { consumer, queue } => {
            tag(kind::CANCELLED, out);
            consumer.put(out);
            queue.put(out);
        }
        Event::QueueDeleted { watcher, queue } => {
            tag(kind::QUEUE_DELETED, out);
            watcher.put(out);
            queue.put(out);
        }
        Event::Close { refusal } => {
            tag(kind::CLOSE, out);
            refusal.put(out);
        }
        // The writer is asked before; a reader takes none of this kind.
        Event::Chunk { .. } | Event::StreamRestarted { .. } => tag(0, out),
    }
}

/// A delivery: its position, its marks, and the record, by reference.
fn put_item(memory: &Memory, item: &Item, out: &mut Output) {
    item.seq.put(out);
    item.marks.put(out);
    let begin = item.offset as usize;
    let len = record::split(&memory[begin..]).map_or(0, |(_, record, _)| record.len());
    out.extend_from(memory, begin..begin + len);
}

/// Reads what [`put`] wrote.
pub(super) fn take(reader: &mut Reader<'_>) -> Result<Events, Fault> {
    let count = reader.u32_le()? as usize;
    if count > reader.len() {
        return Err(Fault::Count(count));
    }
    let mut taking = Taking { items: Vec::new(), records: Buffer::default() };
    let mut list = Vec::new();
    for _ in 0..count {
        list.push((PortId::take(reader)?, taking.event(reader)?));
    }
    let Taking { items, records } = taking;
    let memories = if items.is_empty() { Vec::new() } else { vec![records.seal()] };
    Ok(Events { list, items, memories })
}

/// Events that are being read.
struct Taking {
    items: Vec<Item>,
    /// The records of all deliveries.
    records: Buffer,
}

impl Taking {
    fn event(&mut self, reader: &mut Reader<'_>) -> Result<Event, Fault> {
        let memory = 0;
        Ok(match reader.u8()? {
            kind::REPLY => {
                let token = Wire::take(reader)?;
                let reply = match bool::take(reader)? {
                    true => Ok(Wire::take(reader)?),
                    false => Err(Wire::take(reader)?),
                };
                Event::Reply { token, reply }
            }
            kind::CONFIRMED => Event::Confirmed {
                publisher: Wire::take(reader)?,
                first: Wire::take(reader)?,
                last: Wire::take(reader)?,
            },
            kind::REFUSED => Event::Refused {
                publisher: Wire::take(reader)?,
                first: Wire::take(reader)?,
                last: Wire::take(reader)?,
                queue: Wire::take(reader)?,
            },
            kind::ACTIVE => Event::Active { consumer: Wire::take(reader)?, active: Wire::take(reader)? },
            kind::INTRODUCE => Event::Introduce,
            kind::DELIVER => {
                let (consumer, count) = (Wire::take(reader)?, u32::take(reader)?);
                let first = self.items.len() as u32;
                for _ in 0..count {
                    self.item(reader)?;
                }
                Event::Deliver { consumer, memory, items: first..self.items.len() as u32 }
            }
            kind::GOT => {
                let (token, consumer, ready) =
                    (Wire::take(reader)?, Wire::take(reader)?, Wire::take(reader)?);
                Event::Got { token, consumer, memory, item: self.item(reader)?, ready }
            }
            kind::BARRIER => {
                Event::Barrier { consumer: Wire::take(reader)?, memory, item: self.item(reader)? }
            }
            kind::SHOWN => Event::Shown { consumer: Wire::take(reader)?, memory, item: self.item(reader)? },
            kind::DRAINED => Event::Drained { consumer: Wire::take(reader)?, unused: Wire::take(reader)? },
            kind::AVAILABLE => Event::Available { consumer: Wire::take(reader)?, ready: Wire::take(reader)? },
            kind::TIMED_OUT => Event::TimedOut {
                consumer: Wire::take(reader)?,
                range: Wire::take(reader)?,
                has_more: Wire::take(reader)?,
            },
            kind::LEASED => Event::Leased { consumer: Wire::take(reader)?, lease_ms: Wire::take(reader)? },
            kind::LEASE_OVER => {
                Event::LeaseOver { consumer: Wire::take(reader)?, ranges: Wire::take(reader)? }
            }
            kind::CANCELLED => Event::Cancelled { consumer: Wire::take(reader)?, queue: Wire::take(reader)? },
            kind::QUEUE_DELETED => {
                Event::QueueDeleted { watcher: Wire::take(reader)?, queue: Wire::take(reader)? }
            }
            kind::CLOSE => Event::Close { refusal: Wire::take(reader)? },
            tag => return Err(Fault::Tag { of: "event", tag }),
        })
    }

    /// Reads a delivery, and says which it is.
    fn item(&mut self, reader: &mut Reader<'_>) -> Result<u32, Fault> {
        let (seq, marks) = (QueueSeq::take(reader)?, u32::take(reader)?);
        let (kind, record, _) = record::split(reader.rest()).ok_or(Fault::Record)?;
        if kind != Kind::Enqueue || Enqueue::read(record).is_none() {
            return Err(Fault::Record);
        }
        let record = reader.take(record.len())?;
        let offset = u32::try_from(self.records.bytes().len()).map_err(|_| Fault::Record)?;
        self.records.extend(record);
        self.items.push(Item { seq, offset, marks });
        Ok(self.items.len() as u32 - 1)
    }
}
