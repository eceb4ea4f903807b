//! Direct reply-to: names that lead straight to a consumer of a connection, without a queue and without a log.
//!
//! A requester opens a reply consumer and is given a name. What is published to that name through the default exchange
//! goes to the shard the name says, and from there to the consumer if it is still there and can take it: at most once,
//! and the publisher does not learn which. A secret key in the name keeps replies to an earlier consumer from a later
//! one, and everybody else from answering in place of the client that was asked. A name means something in the virtual
//! host of its requester alone. Not here: the pseudo-queue's own name, which each protocol treats in its own way.

use crate::catalog::{Refusal, VhostId};
use crate::event::{Event, Item};
use crate::ledger::{Holding, Kind};
use crate::limits::Limits;
use crate::mail::Mail;
use crate::ports::Ports;
use crate::post::Post;
use crate::request::{Credit, Reply};
use base::id::{NodeNo, PortId, QueueSeq, ShardId};
use base::{Buffer, Memory};
use message::record::NewEnqueue;
use std::collections::BTreeMap;
use std::fmt;
use subtle::ConstantTimeEq;

/// The pseudo-queue requesters consume from, and what they write into a request's reply-to.
pub const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// The beginning of the names of reply consumers.
const PREFIX: &[u8] = b"amq.rabbitmq.reply-to.";

/// Where a reply goes: what the name of a reply consumer says in a virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyAddress {
    /// The requester's connection.
    pub port: PortId,
    /// The handle the connection chose for the consumer.
    pub handle: u32,
    /// The virtual host of the connection that names it: no part of the name.
    vhost: VhostId,
    key: ReplyKey,
}

/// The secret that tells a reply consumer from others that had or will have its place, known only to clients that were
/// told.
#[derive(Clone, Copy)]
struct ReplyKey(u128);

/// Takes the same time wherever two keys differ: a quick answer tells nothing of a key.
impl PartialEq for ReplyKey {
    fn eq(&self, other: &ReplyKey) -> bool {
        self.0.to_le_bytes()[..].ct_eq(&other.0.to_le_bytes()[..]).into()
    }
}

impl Eq for ReplyKey {}

/// Keys are not for logs.
impl fmt::Debug for ReplyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyKey(..)")
    }
}

/// Digits of a key.
const KEY_DIGITS: usize = 2 * size_of::<u128>();

/// Hexadecimal digits of an address.
const DIGITS: usize = 2 * (2 + 2 + 4 + 4 + 4) + KEY_DIGITS;

impl ReplyAddress {
    /// The address of a consumer of a connection of `vhost`, with a key made of `secret`.
    pub(crate) fn new(port: PortId, handle: u32, vhost: VhostId, secret: [u8; 16]) -> ReplyAddress {
        ReplyAddress { port, handle, vhost, key: ReplyKey(u128::from_le_bytes(secret)) }
    }

    /// The address in a name that somebody in `vhost` names; `None`: it is not the name of any reply consumer.
    pub fn read(name: &[u8], vhost: VhostId) -> Option<ReplyAddress> {
        let digits = name.strip_prefix(PREFIX)?;
        if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = str::from_utf8(digits).ok()?;
        let number = |from: usize, len: usize| u64::from_str_radix(&digits[from..from + len], 16).ok();
        let port = PortId {
            node: NodeNo(number(0, 4)? as u16),
            shard: ShardId(number(4, 4)? as u16),
            slot: number(8, 8)? as u32,
            generation: number(16, 8)? as u32,
        };
        let key = ReplyKey(u128::from_str_radix(&digits[32..32 + KEY_DIGITS], 16).ok()?);
        Some(ReplyAddress { port, handle: number(24, 8)? as u32, vhost, key })
    }

    /// The name replies are published to.
    pub fn name(&self) -> String {
        let ReplyAddress { port, handle, key: ReplyKey(key), .. } = *self;
        let PortId { node: NodeNo(node), shard: ShardId(shard), slot, generation } = port;
        format!("{REPLY_TO}.{node:04x}{shard:04x}{slot:08x}{generation:08x}{handle:08x}{key:0KEY_DIGITS$x}")
    }
}

/// A reply consumer.
#[derive(Debug)]
struct ReplyConsumer {
    key: ReplyKey,
    /// Where its connection is: replies from elsewhere are not for it.
    vhost: VhostId,
    /// Messages it may have been sent in all, wrapping; none: any number.
    limit: Option<u32>,
    /// Messages it was sent, wrapping.
    delivered: u32,
    /// Its connection has much to send.
    is_paused: bool,
    /// Bytes handed to it since it was paused.
    paused_bytes: usize,
}

impl ReplyConsumer {
    /// Whether it can take a message of so many bytes; counts it if so. `holding`: what its connection holds, until what it is
    /// handed is part of its output, which is counted.
    fn take(&mut self, bytes: usize, limits: &Limits, holding: Option<&mut Holding>) -> bool {
        if self.limit.is_some_and(|limit| !is_below(self.delivered, limit)) {
            return false;
        }
        if self.is_paused {
            if self.paused_bytes + bytes > limits.reply_bytes_max {
                return false;
            }
            if holding.is_some_and(|holding| holding.take(Kind::Replies, bytes).is_err()) {
                return false;
            }
            self.paused_bytes += bytes;
        }
        self.delivered = self.delivered.wrapping_add(1);
        true
    }
}

/// Whether a wrapping count is before another.
fn is_below(count: u32, limit: u32) -> bool {
    let left = limit.wrapping_sub(count);
    left != 0 && left <= u32::MAX / 2
}

/// Replies on their way to one shard: whole records, and where each of them goes.
#[derive(Debug, Default)]
pub struct Replies {
    pub(crate) records: Buffer,
    /// Where a record begins, and whom it is for.
    to: Vec<(u32, ReplyAddress)>,
}

impl Replies {
    fn add(&mut self, message: &NewEnqueue<'_>, address: ReplyAddress) {
        self.to.push((self.records.len() as u32, address));
        message.write(&[], &mut self.records);
    }
}

/// The reply consumers of a shard's connections, and the replies of this turn for them.
#[derive(Debug, Default)]
pub(crate) struct ReplyConsumers {
    consumers: BTreeMap<(PortId, u32), ReplyConsumer>,
    open: Replies,
}

impl ReplyConsumers {
    fn find(&mut self, address: &ReplyAddress) -> Option<&mut ReplyConsumer> {
        let found = self.consumers.get_mut(&(address.port, address.handle))?;
        (found.key == address.key && found.vhost == address.vhost).then_some(found)
    }

    /// Opens a consumer of a connection of `vhost`; `secret` is what its name's key is made of.
    pub(crate) fn open(
        &mut self,
        port: PortId,
        handle: u32,
        vhost: VhostId,
        secret: [u8; 16],
        credit: Credit,
    ) -> ReplyAddress {
        let address = ReplyAddress::new(port, handle, vhost, secret);
        let (key, limit) = (address.key, (credit == Credit::Link).then_some(0));
        let consumer = ReplyConsumer { key, vhost, limit, delivered: 0, is_paused: false, paused_bytes: 0 };
        self.consumers.insert((port, handle), consumer);
        address
    }

    /// Closes a consumer; what still comes for it goes nowhere.
    pub(crate) fn close(&mut self, port: PortId, handle: u32) {
        self.consumers.remove(&(port, handle));
    }

    /// Sets a consumer's link credit. Nothing is ever ready, so a drain is answered at once.
    pub(crate) fn credit(
        &mut self,
        post: &mut Post,
        (port, handle): (PortId, u32),
        limit: u32,
        drain: bool,
        echo: bool,
    ) {
        let Some(consumer) = self.consumers.get_mut(&(port, handle)) else { return };
        consumer.limit = Some(limit);
        if drain {
            let unused =
                if is_below(consumer.delivered, limit) { limit.wrapping_sub(consumer.delivered) } else { 0 };
            consumer.delivered = limit;
            post.event(port, Event::Drained { consumer: handle, unused });
        }
        if echo {
            post.event(port, Event::Available { consumer: handle, ready: 0 });
        }
    }

    /// A consumer's connection has much to send, or no longer.
    pub(crate) fn pause(&mut self, port: PortId, handle: u32, paused: bool) {
        if let Some(consumer) = self.consumers.get_mut(&(port, handle)) {
            consumer.is_paused = paused;
            consumer.paused_bytes = 0;
        }
    }

    /// Answers whether the consumer of this address is there, or has its shard answer.
    pub(crate) fn ask(
        &mut self,
        post: &mut Post,
        (port, token): (PortId, u32),
        address: ReplyAddress,
        missing: Refusal,
    ) {
        let owner = address.port.shard;
        if owner == post.me() {
            let found = self.find(&address).map(|_| Reply::Done);
            post.reply(port, token, found.ok_or(missing));
        } else if post.has(owner) {
            post.send(owner, Mail::ReplyAsked { port, token, address, missing: Box::new(missing) });
        } else {
            post.reply(port, token, Err(missing));
        }
    }

    /// Sends a message to consumers, wherever they are.
    #[cold]
    pub(crate) fn send(&mut self, post: &mut Post, message: &NewEnqueue<'_>, addresses: &[ReplyAddress]) {
        for address in addresses {
            let owner = address.port.shard;
            if owner == post.me() {
                self.open.add(message, *address);
            } else if post.has(owner) {
                post.add_reply(owner, |replies| replies.add(message, *address));
            }
        }
    }

    pub(crate) fn close_port(&mut self, port: PortId) {
        if self.consumers.is_empty() {
            return;
        }
        let theirs = self.consumers.range((port, 0)..=(port, u32::MAX));
        let theirs: Vec<_> = theirs.map(|(consumer, _)| *consumer).collect();
        theirs.iter().for_each(|consumer| _ = self.consumers.remove(consumer));
    }

    /// Hands the replies that came to those of their consumers that can take them.
    pub(crate) fn deliver(&mut self, replies: Replies, limits: &Limits, ports: &mut Ports, post: &mut Post) {
        let Replies { records, to } = replies;
        let memory: Memory = records.seal();
        for (at, (offset, address)) in to.iter().enumerate() {
            let end = to.get(at + 1).map_or(memory.len(), |(next, _)| *next as usize);
            let Some(consumer) = self.find(address) else { continue };
            let holding = ports.get_mut(address.port).map(|state| &mut state.holding);
            if consumer.take(end - *offset as usize, limits, holding) {
                let item = Item { seq: QueueSeq(0), offset: *offset, marks: 0 };
                post.deliver(address.port, address.handle, &memory, item);
            }
        }
    }

    /// Hands out the replies of this turn that came from this shard.
    #[inline]
    pub(crate) fn end_turn(&mut self, limits: &Limits, ports: &mut Ports, post: &mut Post) {
        if !self.open.to.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.deliver(open, limits, ports, post);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, LedgerLimits};
    use std::sync::Arc;

    fn address() -> ReplyAddress {
        let port = PortId { node: NodeNo(2), ..PortId::here(ShardId(3), 70_000, 9) };
        ReplyAddress { port, handle: 0x1_0002, vhost: VhostId(4), key: ReplyKey(u128::MAX - 5) }
    }

    #[test]
    fn a_name_says_where_replies_go() {
        let name = address().name();
        assert!(name.starts_with("amq.rabbitmq.reply-to.00020003") && name.len() < 128, "{name}");
        assert_eq!(ReplyAddress::read(name.as_bytes(), VhostId(4)), Some(address()));
        assert_ne!(ReplyAddress::read(name.as_bytes(), VhostId(5)), Some(address()));
    }

    #[test]
    fn other_names_are_none() {
        let name = address().name();
        for other in [
            "",
            REPLY_TO,
            "amq.rabbitmq.reply-to.",
            "amq.rabbitmq.reply-to.garbage",
            &name[..name.len() - 1],
            &format!("{name}0"),
            &name.replace("fffa", "+ffa"),
            &name.replace("fffa", "ééa"),
        ] {
            assert_eq!(ReplyAddress::read(other.as_bytes(), VhostId(4)), None, "{other}");
        }
    }

    #[test]
    fn takes_what_credit_and_bytes_allow() {
        let limits = Limits { reply_bytes_max: 10, ..Limits::default() };
        let (key, vhost) = (ReplyKey(0), VhostId(0));
        let fresh =
            |limit| ReplyConsumer { key, vhost, limit, delivered: 0, is_paused: false, paused_bytes: 0 };
        let mut any = fresh(None);
        assert!((0..100).all(|_| any.take(1000, &limits, None)));
        any.is_paused = true;
        assert!(
            any.take(6, &limits, None)
                && !any.take(6, &limits, None)
                && any.take(4, &limits, None)
                && !any.take(1, &limits, None)
        );
        let mut linked = fresh(Some(0));
        assert!(!linked.take(1, &limits, None));
        (linked.delivered, linked.limit) = (u32::MAX, Some(1));
        assert!(
            linked.take(1, &limits, None) && linked.take(1, &limits, None) && !linked.take(1, &limits, None)
        );
        linked.limit = Some(0);
        assert!(!linked.take(1, &limits, None));
    }

    #[test]
    fn takes_what_its_connection_has_room_for() {
        let bounds = LedgerLimits { connection_max: Some(1000), ..LedgerLimits::default() };
        let mut holding = Arc::new(Ledger::new(bounds)).open(&"u".into(), &"v".into());
        let limits = Limits::default();
        let (key, vhost) = (ReplyKey(0), VhostId(0));
        let mut one =
            ReplyConsumer { key, vhost, limit: None, delivered: 0, is_paused: false, paused_bytes: 0 };
        assert!(one.take(5000, &limits, Some(&mut holding)));
        assert_eq!(holding.held(), 0, "what it is handed goes into its output at once");
        one.is_paused = true;
        assert!(one.take(600, &limits, Some(&mut holding)) && !one.take(600, &limits, Some(&mut holding)));
        assert!(one.take(400, &limits, Some(&mut holding)));
        assert_eq!((holding.held_of(Kind::Replies), one.delivered, one.paused_bytes), (1000, 3, 1000));
    }
}
