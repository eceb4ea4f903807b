//! The deaths of a message as its head tells them: where it died, why, how often, and how it was routed before.
//!
//! [`dead_letter`] makes of a stored message the one that is published in its place when it has died in a queue: the
//! same message, its head changed. [`History`] reads the deaths in a head. Neither knows queues, exchanges or where the
//! dead go to.
//!
//! In a head deaths are: in AMQP 0-9-1 the header `x-death`, an array of tables; in AMQP 1.0 the message annotation
//! `x-opt-deaths`, an array of maps; in both the newest first, one for each queue and reason, with a count. Beside
//! it stand queue, reason and exchange of the first and the last death, under names of their own, and which queues the list has
//! no room for (`forgotten`). All of it counts only
//! where [`flag::DEATHS`] says that a broker wrote it; else it is a client's, and goes when the message first dies.
//!
//! Invariant: the deaths written are bounded by [`DEATHS_MAX`] and [`HISTORY_MAX`], the newest death excepted, and all
//! that is not about deaths or the time to live keeps its bytes.

mod amqp091;
mod amqp10;
mod forgotten;

pub use forgotten::FORGOTTEN_MAX;

use crate::amqp10::Value as Value10;
use crate::amqp10::value::code;
use crate::amqp091::Array as Array091;
use crate::record::{DeathReason, Enqueue, Format, flag};
use forgotten::Forgotten;

/// Deaths a head holds at most; the oldest make room, and of those the queues alone are known, for cycles.
pub const DEATHS_MAX: usize = 64;

/// Bytes that the list of deaths takes at most beside the newest, and that the routing keys of the newest take; the oldest
/// deaths make room, and the last keys.
pub const HISTORY_MAX: usize = 32 * 1024;

/// The header that lists deaths in AMQP 0-9-1.
pub(crate) const HEADER: &str = "x-death";
/// The annotation that lists them in AMQP 1.0.
pub(crate) const ANNOTATION: &str = "x-opt-deaths";

/// Names beside the list: queue, reason and exchange of the first death.
const FIRST: [&str; 3] = ["x-first-death-queue", "x-first-death-reason", "x-first-death-exchange"];
/// The same of the last.
const LAST: [&str; 3] = ["x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"];

/// The reason of a death after which the message may come again to where it died before.
const REJECTED: &[u8] = DeathReason::Rejected.name().as_bytes();

/// Whether `name` is one under which a head tells of deaths, in either protocol.
pub(crate) fn is_own(name: &str) -> bool {
    [HEADER, ANNOTATION, forgotten::HEADER, forgotten::ANNOTATION].contains(&name)
        || FIRST.contains(&name)
        || LAST.contains(&name)
}

/// A death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death<'a> {
    /// The queue it happened in.
    pub queue: &'a str,
    /// Why.
    pub reason: DeathReason,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// A death as a head has it: an entry of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry<'a> {
    queue: &'a [u8],
    reason: &'a [u8],
    /// How often it happened.
    count: u64,
    /// When it first did, milliseconds since 1970; seconds are all that 0-9-1 keeps.
    first_ms: u64,
    /// When it last did, which 0-9-1 does not tell.
    last_ms: u64,
    /// The time to live the message had of its own.
    ttl_ms: Option<u64>,
    /// Where the message had been published to.
    exchange: &'a [u8],
    /// The keys it had been routed by.
    keys: Vec<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// A death that happens for the first time.
    fn new(death: &'a Death<'_>, exchange: &'a [u8], keys: &'a [&'a [u8]], ttl_ms: Option<u64>) -> Entry<'a> {
        Entry {
            queue: death.queue.as_bytes(),
            reason: death.reason.name().as_bytes(),
            count: 1,
            first_ms: death.at_ms,
            last_ms: death.at_ms,
            ttl_ms,
            exchange,
            keys: fitting(keys).collect(),
        }
    }
}

/// Appends the deaths of the header `x-death`, of which a broker wrote it, as the value of the annotation
/// [`ANNOTATION`]. Entries that are no death are left out.
pub(crate) fn as_annotation(header: &Array091<'_>, into: &mut Vec<u8>) {
    let tables = header.iter().filter_map(|death| death.as_table());
    amqp10::write_list(tables.filter_map(|table| amqp091::read(&table)), into);
}

/// The deaths of the annotation [`ANNOTATION`], as the values of the header [`HEADER`]. Entries that are no death are
/// left out; nothing where it is no array of maps.
pub(crate) fn as_header(annotation: &Value10<'_>) -> Option<Vec<u8>> {
    let Value10::Array(array) = annotation else { return None };
    let is_of_maps = matches!(array.code(), code::MAP8 | code::MAP32) && array.descriptor().is_none();
    let mut list = Vec::new();
    for death in array.iter() {
        if let Value10::Map(map) = death
            && let Some(entry) = amqp10::read(&map)
        {
            amqp091::write_entry(&entry, &mut list);
        }
    }
    is_of_maps.then_some(list)
}

/// The message published in place of one that died: all else of its record stays, but that its own time to live is
/// gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter<'a> {
    /// The record's flags.
    pub flags: u8,
    /// The head, in the message's format.
    pub head: Vec<u8>,
    /// The keys it is routed by: at least one, of which the first is the record's routing key.
    pub keys: Vec<&'a [u8]>,
}

/// Makes a dead letter of `message`. It is routed by `routing_key`, which the queue may demand, or by the message's
/// keys before: its own, and those in its `CC` (AMQP 0-9-1) or `x-cc` (AMQP 1.0). A head that cannot be read is passed
/// on as it is.
#[cold]
#[inline(never)]
pub fn dead_letter<'a>(
    message: &Enqueue<'a>,
    death: &Death<'_>,
    routing_key: Option<&'a [u8]>,
) -> DeadLetter<'a> {
    let before = routing_keys(message);
    let mut head = Vec::with_capacity(message.head.len() + 512);
    match message.format {
        Format::Amqp091 => amqp091::write(message, &before, death, &mut head),
        Format::Amqp10 => amqp10::write(message, &before, death, &mut head),
    }
    let one_key = if routing_key.is_some() { flag::ONE_KEY } else { 0 };
    DeadLetter {
        flags: message.flags | flag::DEATHS | one_key,
        head,
        keys: routing_key.map_or(before, |key| vec![key]),
    }
}

/// The keys a stored message was routed by: its own first, then those its head lists, unless one was put in the place
/// of all.
pub fn routing_keys<'a>(message: &Enqueue<'a>) -> Vec<&'a [u8]> {
    let mut keys = vec![message.routing_key];
    if message.flags & flag::ONE_KEY == 0 {
        match message.format {
            Format::Amqp091 => amqp091::more_keys(message.head, &mut keys),
            Format::Amqp10 => amqp10::more_keys(message.head, &mut keys),
        }
    }
    keys
}

/// Those of `keys` that a death lists: as many as [`HISTORY_MAX`] leaves room for.
fn fitting<'k>(keys: &'k [&'k [u8]]) -> impl Iterator<Item = &'k [u8]> {
    let mut room = HISTORY_MAX;
    // As large as a key is in either encoding.
    keys.iter().copied().take_while(move |key| {
        let fits = key.len() + 5 <= room;
        room = room.saturating_sub(key.len() + 5);
        fits
    })
}

/// Times that a message died in the queue where it died last, for the reason it died for there: the count of the newest
/// death that a head tells of. 0 without [`flag::DEATHS`], or where it cannot be read.
pub fn count_of_newest(format: Format, flags: u8, head: &[u8]) -> u64 {
    match format {
        _ if flags & flag::DEATHS == 0 => None,
        Format::Amqp091 => amqp091::count_of_newest(head),
        Format::Amqp10 => amqp10::count_of_newest(head),
    }
    .unwrap_or(0)
}

/// The deaths of a message, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History<'a> {
    /// Queue and reason as they are written; deaths with neither are left out.
    deaths: Vec<(&'a [u8], &'a [u8])>,
    /// Queues of deaths before those.
    forgotten: Forgotten<'a>,
}

impl<'a> History<'a> {
    /// The deaths that a head tells of: none without [`flag::DEATHS`], or where it cannot be read.
    pub fn read(format: Format, flags: u8, head: &'a [u8]) -> History<'a> {
        match format {
            _ if flags & flag::DEATHS == 0 => History::default(),
            Format::Amqp091 => amqp091::history(head),
            Format::Amqp10 => amqp10::history(head),
        }
    }

    /// The queues it died in, the latest first; one comes again for each further reason.
    pub fn queues(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.deaths.iter().map(|(queue, _)| *queue)
    }

    /// Whether a message whose newest death is of this `reason` would go round for ever if it came into `target`: it
    /// died there before, and nobody has rejected it since. So it would, for all that is known, where it has died in
    /// more queues than are remembered.
    pub fn is_cycle(&self, target: &str, reason: DeathReason) -> bool {
        if reason.is_refusal() {
            return false;
        }
        for (queue, reason) in &self.deaths {
            if *reason == REJECTED {
                return false;
            }
            if *queue == target.as_bytes() {
                return true;
            }
        }
        self.forgotten.knows(target.as_bytes())
    }
}

#[cfg(test)]
mod tests;
