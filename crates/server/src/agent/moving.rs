//! Looks at messages of a queue, and moves of messages to another place.
//!
//! A message that moves is taken as a consumer takes it, published with its properties, and acknowledged when its copy
//! is safe. When the node dies in between it is in both places: nothing is lost, something may come twice.
//!
//! Messages that are named by position are asked for with methods that AMQP does not have and that other connections
//! are refused. Messages that are looked at come with their positions in a header, which is taken out again.
//!
//! It is published over a connection of its own: a refusal closes that one's channel, and an alarm stops the reading of
//! it. Messages that were taken over the other go back by name, which is no failed delivery; with a channel that closes
//! it would be one, and after some of them a quorum queue drops the message.

use super::{Agent, CHANNEL, Code, TICK, delivered, refused, unexpected};
use amqp091::method::{BasicConsume, BasicGet, BasicPick, BasicQos, ConfirmSelect, QueueDiscard};
use amqp091::{Body, Event, Method, PublishPrefix};
use management::{Goal, Got, Outcome, Pace, Trouble};
use message::amqp091::{Properties, Table, TableWriter, Value, take_position};
use std::time::{Duration, Instant};

/// How long a browser that was promised more waits for it: somebody else may have taken it.
const PAUSE: Duration = Duration::from_secs(1);

/// The header that says where a message died first.
const ORIGIN: &[u8] = b"x-first-death-queue";

/// Prefixes, or whole names, of headers that record deaths.
const DEATHS: [&[u8]; 3] = [b"x-first-death-", b"x-last-death-", b"x-death"];

/// Headers that name further queues: these had their copies when the message was new.
const COPIES: [&[u8]; 2] = [b"CC", b"BCC"];

/// A message that was taken.
struct Taken {
    tag: u64,
    properties: Vec<u8>,
    body: Vec<u8>,
}

/// The time of a slice of a move.
struct Slice<'p> {
    pace: &'p Pace,
    /// When the messages that are passed had been looked at.
    behind_ms: Option<u64>,
}

impl Slice<'_> {
    fn new(pace: &Pace) -> Slice<'_> {
        Slice { pace, behind_ms: None }
    }

    /// Whether the slice is to end, `ms` milliseconds after its beginning, when so many messages were looked at. At
    /// least one is that no slice before looked at.
    fn is_late(&mut self, ms: u64, looked_at: u32) -> bool {
        let Pace { passed, ms_max, slice_ms, .. } = *self.pace;
        if looked_at >= passed {
            self.behind_ms.get_or_insert(ms);
        }
        let spent_ms = self.behind_ms.map_or(0, |since| ms - since);
        ms >= ms_max || (looked_at > passed && spent_ms >= slice_ms)
    }
}

impl Agent<'_> {
    /// Shows messages and takes none: `count` behind the first `skip` from position `from` on, once the queue has so many; both together are at most
    /// 65,535. Refused where those in front take longer than `ms_max` milliseconds; then no more than are there by that time.
    pub(super) fn peek(
        &mut self,
        queue: &[u8],
        (from, skip): (u64, u32),
        count: u32,
        bytes_max: usize,
        ms_max: u64,
    ) -> Result<Outcome, Trouble> {
        let arguments = TableWriter::fields(|table| {
            table.put(b"x-browse", Value::Bool(true));
            table.put(b"x-leveret-from", Value::I64(from as i64));
            table.put(b"x-leveret-position", Value::Bool(true));
        });
        let arguments = super::table(&arguments)?;
        let all = skip.saturating_add(count);
        // 0 would be no bound at all.
        let prefetch_count = u16::try_from(all).unwrap_or(u16::MAX);
        self.connection.send(CHANNEL, &BasicQos { prefetch_count, ..BasicQos::default() });
        self.connection.send(CHANNEL, &BasicConsume { queue, arguments, ..BasicConsume::default() });
        let mut messages: Vec<Got> = Vec::new();
        let (mut seen, mut size) = (0, 0);
        let begin = Instant::now();
        let is_late = || begin.elapsed() >= Duration::from_millis(ms_max);
        while seen < all && !self.is_stopping() && (messages.is_empty() || (size < bytes_max && !is_late())) {
            let shown = self.wait_for(Some(PAUSE), |_, _, event| match event {
                Event::Deliver { deliver, properties, body, .. } => {
                    seen += 1;
                    if seen <= skip {
                        return if is_late() { Err(late(skip, ms_max)) } else { Ok(None) };
                    }
                    let found = take_position(&properties);
                    let position = found.as_ref().map(|(position, _)| *position);
                    let properties = found.map_or_else(|| properties.raw().to_vec(), |(_, without)| without);
                    Ok(Some(delivered(&deliver, position, properties, body)))
                }
                Event::Method { .. } => Ok(None),
                other => Err(unexpected(&other)),
            })?;
            let Some(shown) = shown else { break };
            size += shown.body.len() + shown.properties.len();
            messages.push(shown);
        }
        Ok(Outcome::Got(messages))
    }

    /// Moves messages at that pace, those at the `chosen` positions or else the first ones, until the node stops; `publisher` is
    /// another connection of the same user's.
    pub(super) fn move_all(
        &mut self,
        publisher: &mut Agent<'_>,
        queue: &[u8],
        goal: &Goal,
        chosen: Option<&[u64]>,
        pace: &Pace,
    ) -> Result<Outcome, Trouble> {
        publisher.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
        let begin = Instant::now();
        let (mut moved, mut unplaced, mut held) = (0, 0, None);
        let (mut missing, mut rest) = (Vec::new(), chosen.unwrap_or_default().iter());
        let (mut is_over, mut slice) = (false, Slice::new(pace));
        let trouble = loop {
            is_over |= match chosen {
                Some(_) => rest.len() == 0,
                None => moved == pace.count || moved + unplaced == pace.among,
            };
            let looked_at = moved + unplaced + missing.len() as u32;
            let is_late = slice.is_late(begin.elapsed().as_millis() as u64, looked_at);
            if is_over || is_late || unplaced == pace.unplaced_max || self.is_stopping() {
                break None;
            }
            let position = rest.next().copied();
            let taken = match self.take(queue, position) {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    match position {
                        Some(position) => missing.push(position),
                        None => is_over = true,
                    }
                    continue;
                }
                Err(trouble) => {
                    // Its channel is closed, and holds nothing any more.
                    held = None;
                    break Some(trouble);
                }
            };
            match publisher.place(goal, &taken) {
                Ok(true) => {
                    self.connection.ack(CHANNEL, taken.tag, false);
                    moved += 1;
                }
                Ok(false) => {
                    held = Some(taken.tag);
                    unplaced += 1;
                }
                Err(trouble) => {
                    held = Some(taken.tag);
                    break Some(trouble);
                }
            }
            if pace.per_second > 0 {
                let due = Duration::from_secs_f64(f64::from(moved) / f64::from(pace.per_second));
                // However slow the pace is, the node need not wait for it.
                while !self.is_stopping()
                    && let Some(rest) = due.checked_sub(begin.elapsed()).filter(|rest| !rest.is_zero())
                {
                    std::thread::sleep(rest.min(TICK));
                }
            }
        };
        if let Some(last) = held {
            self.connection.nack(CHANNEL, last, true, true);
        }
        Ok(Outcome::Moved { moved, unplaced, missing, is_over, trouble })
    }

    /// Throws messages away, and hears of each whether it was there.
    pub(super) fn discard(&mut self, queue: &[u8], positions: &[u64]) -> Result<Outcome, Trouble> {
        let (mut deleted, mut missing) = (0, Vec::new());
        for &position in positions {
            self.connection.send(CHANNEL, &QueueDiscard { queue, position, ..QueueDiscard::default() });
            let count = self.wait(|_, _, event| match event {
                Event::Method { method: Method::QueuePurgeOk(purged), .. } => Ok(Some(purged.message_count)),
                other => Err(unexpected(&other)),
            })?;
            match count {
                0 => missing.push(position),
                _ => deleted += 1,
            }
        }
        Ok(Outcome::Discarded { deleted, missing })
    }

    /// Rejects messages, and hears of each whether it was there.
    pub(super) fn reject(&mut self, queue: &[u8], positions: &[u64]) -> Result<Outcome, Trouble> {
        let (mut deleted, mut missing) = (0, Vec::new());
        for &position in positions {
            match self.take(queue, Some(position))? {
                Some(taken) => {
                    self.connection.reject(CHANNEL, taken.tag, false);
                    deleted += 1;
                }
                None => missing.push(position),
            }
        }
        Ok(Outcome::Discarded { deleted, missing })
    }

    /// Takes the message at a position, or else the first one; none where none is ready there.
    fn take(&mut self, queue: &[u8], position: Option<u64>) -> Result<Option<Taken>, Trouble> {
        match position {
            Some(position) => {
                self.connection.send(CHANNEL, &BasicPick { queue, position, ..BasicPick::default() });
            }
            None => self.connection.send(CHANNEL, &BasicGet { queue, no_ack: false, ..BasicGet::default() }),
        }
        self.wait(|_, _, event| match event {
            Event::GetOk { get_ok, properties, body, .. } => Ok(Some(Some(Taken {
                tag: get_ok.delivery_tag,
                properties: properties.raw().to_vec(),
                body: body.to_vec(),
            }))),
            Event::Method { method: Method::BasicGetEmpty(_), .. } => Ok(Some(None)),
            Event::Method { .. } => Ok(None),
            other => Err(unexpected(&other)),
        })
    }

    /// Publishes a copy and waits until it is safe; false: no queue took it, it does not say where it came from, or its properties
    /// are larger than a frame of a client's.
    fn place(&mut self, goal: &Goal, taken: &Taken) -> Result<bool, Trouble> {
        let properties = Properties::read(&taken.properties).ok();
        let origin = properties.as_ref().and_then(origin);
        let (exchange, key) = match (goal, &origin) {
            (Goal::Exchange { exchange, key }, _) => (exchange.as_bytes(), key.as_bytes()),
            (Goal::Origin, Some(queue)) => (&b""[..], queue.as_slice()),
            (Goal::Origin, None) => return Ok(false),
        };
        if exchange.len() > 255 || key.len() > 255 {
            return Ok(false);
        }
        let fresh = properties.map_or_else(|| taken.properties.clone(), |own| anew(&own, &self.user));
        if !self.is_taken(&fresh) {
            return Ok(false);
        }
        let prefix = PublishPrefix::new(CHANNEL, exchange, key, true);
        self.connection.publish(&prefix, &fresh, &Body::Bytes(&taken.body));
        let mut is_routed = true;
        self.wait(|_, _, event| match event {
            Event::Method { method: Method::BasicAck(_), .. } => Ok(Some(is_routed)),
            Event::Method { method: Method::BasicNack(_), .. } => Ok(Some(false)),
            Event::Method { .. } => Ok(None),
            Event::Return { .. } => {
                is_routed = false;
                Ok(None)
            }
            other => Err(unexpected(&other)),
        })
    }
}

fn late(skip: u32, ms_max: u64) -> Trouble {
    let text = format!("passing over {skip} messages takes longer than {ms_max} ms");
    refused(Code::PreconditionFailed, &text)
}

/// The queue a message died in first.
fn origin(properties: &Properties<'_>) -> Option<Vec<u8>> {
    properties.headers()?.get(ORIGIN)?.as_bytes().map(<[u8]>::to_vec)
}

/// Properties without what tells of deaths or of further queues, and without another's name.
fn anew(properties: &Properties<'_>, user: &str) -> Vec<u8> {
    let is_old = |name: &[u8]| DEATHS.iter().any(|begin| name.starts_with(begin)) || COPIES.contains(&name);
    let headers = properties.headers().map(|headers| {
        TableWriter::fields(|table| {
            for (name, encoding) in headers.encodings().filter(|(name, _)| !is_old(name)) {
                table.encoding(name, encoding);
            }
        })
    });
    let mut new = properties.to_new();
    new.headers = headers.as_ref().and_then(|bytes| Table::new(bytes).ok());
    new.user_id = new.user_id.filter(|name| *name == user.as_bytes());
    let mut written = Vec::new();
    new.write(&mut written);
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp091::NewProperties;

    #[test]
    fn a_slice_has_its_time_behind_the_messages_that_it_passes_over() {
        let check = |passed: u32, steps: &[(u64, u32, bool)]| {
            let pace = Pace {
                count: 100,
                among: 100,
                unplaced_max: 100,
                per_second: 0,
                ms_max: 5000,
                slice_ms: 1000,
                passed,
            };
            let mut slice = Slice::new(&pace);
            for &(ms, looked_at, expected) in steps {
                assert_eq!(slice.is_late(ms, looked_at), expected, "{passed} {ms} {looked_at}");
            }
        };
        // Nothing is passed over: one message at least.
        check(0, &[(0, 0, false), (2000, 0, false), (2001, 1, true)]);
        check(0, &[(0, 0, false), (999, 1, false), (1000, 2, true)]);
        // Three are, which took longer than a slice.
        check(3, &[(0, 0, false), (1500, 2, false), (2000, 3, false), (2999, 9, false), (3000, 10, true)]);
        check(3, &[(2000, 3, false), (3500, 3, false), (3600, 4, true)]);
        // The time of the whole is over for all.
        check(3, &[(5000, 1, true)]);
    }

    #[test]
    fn a_message_goes_back_without_its_deaths_and_copies() {
        let headers = TableWriter::fields(|table| {
            table.put(b"a", Value::I64(1));
            table.put(b"BCC", Value::Text(b"orders"));
            table.put(b"CC", Value::Text(b"orders"));
            table.put(b"CCC", Value::Text(b"no queue"));
            table.put(b"x-first-death-queue", Value::Text(b"orders"));
            table.put(b"x-last-death-reason", Value::Text(b"expired"));
            table.tables(b"x-death", [0], |_, table| table.put(b"queue", Value::Text(b"orders")));
        });
        let given = NewProperties {
            headers: Table::new(&headers).ok(),
            user_id: Some(b"guest"),
            message_id: Some(b"m"),
            delivery_mode: Some(2),
            ..NewProperties::default()
        };
        let mut raw = Vec::new();
        given.write(&mut raw);
        let read = Properties::read(&raw).expect("just written");
        assert_eq!(origin(&read), Some(b"orders".to_vec()));
        let check = |user: &str, user_id: Option<&[u8]>| {
            let written = anew(&read, user);
            let fresh = Properties::read(&written).expect("just written");
            let names: Vec<_> =
                fresh.headers().expect("there").iter().map(|(name, _)| name.to_vec()).collect();
            assert_eq!(names, [b"a".to_vec(), b"CCC".to_vec()]);
            assert_eq!((fresh.user_id(), fresh.message_id()), (user_id, Some(&b"m"[..])));
            assert_eq!((fresh.delivery_mode(), origin(&fresh)), (Some(2), None));
        };
        check("guest", Some(b"guest"));
        check("other", None);
    }
}
