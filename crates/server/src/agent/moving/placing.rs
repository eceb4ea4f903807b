//! Copies of messages that are published, and what becomes of them.
//!
//! A return does not say which message it is of. So a sign follows each publish, channel.flow, which the broker answers in
//! the order of its frames: a return is of the first publish whose sign has no answer yet. By their contents they could not
//! be told apart: messages may be alike, and a node may add stamps to them.
//!
//! A refusal closes the channel, and the confirms of what was published before it and is not safe yet never come: these
//! messages are in both places then. So a message that may be refused for what it is goes alone, and one for all of them,
//! the first, does too (see [`window`](super::window)). What is left is an exchange that is deleted, or a permission
//! taken away, while a window is under way.

use super::taking::Taken;
use crate::agent::{Agent, CHANNEL, unexpected};
use amqp091::method::{BasicAck, BasicNack, ChannelFlow, ConfirmSelect};
use amqp091::{Body, Event, Method, PublishPrefix};
use broker::REPLY_TO;
use management::{Goal, Trouble};
use message::amqp091::{Properties, Table, TableWriter};

/// Bytes of publishes that the broker has not given a sign of: returns of so many it can write without being read, as it is while
/// more is written to it.
const UNHEARD_BYTES_MAX: usize = 512 << 10;

/// Larger bodies go alone: a flush is little beside them, and the node may have been told to take none as large.
const LARGE: usize = 1 << 20;

/// The header that says where a message died first.
const ORIGIN: &[u8] = b"x-first-death-queue";

/// Prefixes, or whole names, of headers that record deaths.
const DEATHS: [&[u8]; 3] = [b"x-first-death-", b"x-last-death-", b"x-death"];

/// Headers that name further queues: these had their copies when the message was new.
const COPIES: [&[u8]; 2] = [b"CC", b"BCC"];

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was not published.
    Untried,
    /// It was, and nothing is known of its copy.
    UnderWay,
    /// Its copy is safe.
    Safe,
    /// No queue took it, it does not say where it came from, or its properties are larger than a frame of a client's.
    Unplaced,
}

/// Publishes copies over a connection of its own.
pub(super) struct Placer<'p, 'a> {
    agent: &'p mut Agent<'a>,
    goal: &'p Goal,
    underway: Underway,
}

/// A copy that can be published.
struct Fresh {
    to: PublishPrefix,
    properties: Vec<u8>,
    /// It may be refused for what it is.
    may_be_refused: bool,
}

impl<'p, 'a> Placer<'p, 'a> {
    pub(super) fn new(agent: &'p mut Agent<'a>, goal: &'p Goal) -> Placer<'p, 'a> {
        agent.connection.send(CHANNEL, &ConfirmSelect { nowait: false });
        Placer { agent, goal, underway: Underway::default() }
    }

    /// Publishes copies in the order of the messages and waits until all are safe; else until there is trouble, which ends it
    /// for good.
    pub(super) fn place_all(&mut self, messages: &[&Taken]) -> (Vec<Fate>, Option<Trouble>) {
        self.underway.begin(messages.len());
        let trouble = self.publish_all(messages).err();
        (std::mem::take(&mut self.underway.fates), trouble)
    }

    fn publish_all(&mut self, messages: &[&Taken]) -> Result<(), Trouble> {
        for (index, message) in messages.iter().enumerate() {
            let Some(fresh) = self.fresh(message) else {
                self.underway.fates[index] = Fate::Unplaced;
                continue;
            };
            if fresh.may_be_refused {
                self.wait_until(Underway::is_known)?;
            }
            let Fresh { to, properties, may_be_refused } = fresh;
            self.agent.connection.publish(&to, &properties, &Body::Bytes(&message.body));
            self.agent.connection.send(CHANNEL, &ChannelFlow { active: true });
            self.underway.published(index, properties.len() + message.body.len());
            match may_be_refused {
                true => self.wait_until(Underway::is_known)?,
                false => self.wait_until(|underway| underway.unheard_bytes <= UNHEARD_BYTES_MAX)?,
            }
        }
        self.wait_until(Underway::is_known)
    }

    fn fresh(&self, message: &Taken) -> Option<Fresh> {
        let properties = Properties::read(&message.properties).ok();
        let origin = properties.as_ref().and_then(origin);
        let (exchange, key) = match (self.goal, &origin) {
            (Goal::Exchange { exchange, key }, _) => (exchange.as_bytes(), key.as_bytes()),
            (Goal::Origin, Some(queue)) => (&b""[..], queue.as_slice()),
            (Goal::Origin, None) => return None,
        };
        if exchange.len() > 255 || key.len() > 255 {
            return None;
        }
        let may_be_refused = message.body.len() > LARGE || properties.as_ref().is_none_or(are_refusable);
        let fresh = properties.map_or_else(|| message.properties.clone(), |own| anew(&own, &self.agent.user));
        let to = PublishPrefix::new(CHANNEL, exchange, key, true);
        self.agent.is_taken(&fresh).then_some(Fresh { to, properties: fresh, may_be_refused })
    }

    fn wait_until(&mut self, is_enough: impl Fn(&Underway) -> bool) -> Result<(), Trouble> {
        let Placer { agent, underway, .. } = self;
        if is_enough(underway) {
            return Ok(());
        }
        agent.wait(|_, _, event| {
            let is_ours = match &event {
                Event::Method { method: Method::BasicAck(BasicAck { delivery_tag, multiple }), .. } => {
                    underway.confirmed(*delivery_tag, *multiple, Fate::Safe)
                }
                Event::Method { method: Method::BasicNack(nack), .. } => {
                    let BasicNack { delivery_tag, multiple, .. } = nack;
                    underway.confirmed(*delivery_tag, *multiple, Fate::Unplaced)
                }
                Event::Method { method: Method::ChannelFlowOk(_), .. } => underway.heard(),
                Event::Method { .. } => true,
                Event::Return { .. } => underway.returned(),
                _ => false,
            };
            if !is_ours {
                return Err(unexpected(&event));
            }
            Ok(is_enough(underway).then_some(()))
        })
    }
}

/// Copies that are published, in the order they were published in.
#[derive(Default)]
struct Underway {
    /// Fates of messages.
    fates: Vec<Fate>,
    copies: Vec<Copy>,
    /// Copies whose sign is answered.
    heard: usize,
    /// The first copy that is neither confirmed nor refused.
    unknown: usize,
    /// Copies before these in the life of the channel.
    before: u64,
    /// Bytes of copies whose sign is not answered.
    unheard_bytes: usize,
}

struct Copy {
    /// The message it is of.
    index: usize,
    bytes: usize,
    is_returned: bool,
}

impl Underway {
    /// So many messages are to have copies; what there was before is known.
    fn begin(&mut self, messages: usize) {
        self.before += self.copies.len() as u64;
        self.copies.clear();
        self.fates = vec![Fate::Untried; messages];
        (self.heard, self.unknown, self.unheard_bytes) = (0, 0, 0);
    }

    fn published(&mut self, index: usize, bytes: usize) {
        self.fates[index] = Fate::UnderWay;
        self.copies.push(Copy { index, bytes, is_returned: false });
        self.unheard_bytes += bytes;
    }

    /// Nothing is waited for.
    fn is_known(&self) -> bool {
        self.unknown == self.copies.len() && self.heard == self.copies.len()
    }

    /// The next sign is answered; false: there is none.
    fn heard(&mut self) -> bool {
        let Some(copy) = self.copies.get(self.heard) else { return false };
        self.unheard_bytes -= copy.bytes;
        self.heard += 1;
        true
    }

    /// A copy came back, which is of the first publish without a sign; false: there is none.
    fn returned(&mut self) -> bool {
        let Some(copy) = self.copies.get_mut(self.heard) else { return false };
        copy.is_returned = true;
        true
    }

    /// The broker says of a publish, or of all up to it, that this is the copy's fate unless it came back; false: there is no such
    /// publish.
    fn confirmed(&mut self, tag: u64, with_all_before: bool, fate: Fate) -> bool {
        let Some(last) = tag.checked_sub(self.before + 1).map(|last| last as usize) else { return false };
        if last >= self.copies.len() {
            return false;
        }
        let first = if with_all_before { self.unknown } else { last };
        for copy in self.copies.get(first..=last).unwrap_or_default() {
            let known = &mut self.fates[copy.index];
            if *known == Fate::UnderWay {
                *known = if copy.is_returned { Fate::Unplaced } else { fate };
            }
        }
        let is_known = |copy: &Copy| self.fates[copy.index] != Fate::UnderWay;
        self.unknown += self.copies[self.unknown..].iter().take_while(|copy| is_known(copy)).count();
        true
    }
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

/// Whether the broker may refuse a message for its properties.
fn are_refusable(properties: &Properties<'_>) -> bool {
    properties.expiration_ms().is_err() || properties.reply_to() == Some(REPLY_TO.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::amqp091::{NewProperties, Value};

    #[test]
    fn returns_and_confirms_are_related_to_their_publishes() {
        use Fate::{Safe, UnderWay, Unplaced, Untried};
        enum Said {
            Heard,
            Returned,
            Ack(u64),
            AckAll(u64),
            Nack(u64),
        }
        use Said::*;
        // Five messages, of which the third is not published; a window of two was before.
        let check = |said: &[Said], fates: [Fate; 5], is_known: bool| {
            let mut underway = Underway::default();
            underway.begin(2);
            (0..2).for_each(|index| underway.published(index, 10));
            assert!(underway.heard() && underway.heard() && underway.confirmed(2, true, Safe));
            assert!(underway.is_known());
            underway.begin(5);
            [0, 1, 3, 4].into_iter().for_each(|index| underway.published(index, 10));
            for said in said {
                assert!(match *said {
                    Heard => underway.heard(),
                    Returned => underway.returned(),
                    Ack(tag) => underway.confirmed(tag, false, Safe),
                    AckAll(tag) => underway.confirmed(tag, true, Safe),
                    Nack(tag) => underway.confirmed(tag, false, Unplaced),
                });
            }
            assert_eq!((&underway.fates[..], underway.is_known()), (&fates[..], is_known));
        };
        check(&[], [UnderWay, UnderWay, Untried, UnderWay, UnderWay], false);
        check(&[Heard, Heard, Heard, Heard, AckAll(6)], [Safe, Safe, Untried, Safe, Safe], true);
        // All in memory: acks come at once, with those before.
        check(
            &[Heard, Returned, AckAll(4), Heard, Heard, Heard, AckAll(6)],
            [Safe, Unplaced, Untried, Safe, Safe],
            true,
        );
        // The first waits for the disk: that of the returned one comes in front.
        check(
            &[Heard, Returned, Ack(4), Heard, Heard, Returned, Ack(6), Heard, AckAll(5)],
            [Safe, Unplaced, Untried, Safe, Unplaced],
            true,
        );
        // A full queue among them.
        check(
            &[Returned, Heard, Heard, Heard, Heard, Ack(3), Nack(4), AckAll(6)],
            [Unplaced, Unplaced, Untried, Safe, Safe],
            true,
        );
        // It ends in the middle.
        check(&[Heard, Heard, Ack(4)], [UnderWay, Safe, Untried, UnderWay, UnderWay], false);
        check(&[Heard, Heard, Heard, AckAll(6)], [Safe, Safe, Untried, Safe, Safe], false);

        let mut underway = Underway::default();
        underway.begin(1);
        assert!(!underway.heard() && !underway.returned() && !underway.confirmed(1, true, Safe));
        underway.published(0, 10);
        assert!(underway.heard() && !underway.returned() && !underway.confirmed(2, false, Safe));
    }

    #[test]
    fn messages_that_may_be_refused_are_known() {
        let check = |given: &NewProperties<'_>, expected: bool| {
            let mut raw = Vec::new();
            given.write(&mut raw);
            let read = Properties::read(&raw).expect("just written");
            assert_eq!(are_refusable(&read), expected, "{given:?}");
        };
        let none = NewProperties::default();
        check(&none, false);
        check(&NewProperties { expiration: Some(b"1000"), reply_to: Some(b"own"), ..none }, false);
        check(&NewProperties { expiration: Some(b"soon"), ..none }, true);
        check(&NewProperties { reply_to: Some(b"amq.rabbitmq.reply-to"), ..none }, true);
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
