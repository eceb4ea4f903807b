//! Messages in, outcomes and credit out.

use super::address::{self, Destination};
use super::annotations::{self, Wrong};
use super::link::{Aim, End, Link};
use super::refused::Refused;
use super::session::Session;
use super::watched;
use super::{Adapter, HELD};
use crate::context::{Context, Gravity};
use ::amqp10::{Error, LinkId, Outcome, SessionId, Transfer, condition};
use base::id::QueueId;
use broker::catalog::{Refusal, ReplyCode};
use broker::fields::{Fields10, Unstamped};
use broker::{Count, Protocol, Publish, Published, Publisher};
use message::amqp10::properties::Property;
use message::amqp10::{Encoder, Map, Message, Plain};
use message::record::Format;
use routing::NoHeaders;

/// A message of a sender's link, and where it goes or why nowhere.
pub(super) struct Addressed<'a> {
    pub(super) message: Message<'a>,
    pub(super) destination: Result<Destination, String>,
}

impl Adapter {
    #[inline]
    pub(super) fn transfer(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>) {
        self.has_published = true;
        if self.is_blocked {
            let bytes = self.blocked_bytes.saturating_add(transfer.payload.len() as u32);
            self.blocked_bytes = if bytes > context.settings.blocked_bytes_max { HELD } else { bytes };
        }
        let Some(session) = self.sessions.get_mut(transfer.session) else {
            return;
        };
        let Session { handle, publisher, links, unconfirmed, watched, .. } = session;
        let Some(Link { end: End::Target { aim, credit }, .. }) =
            links.iter_mut().find(|link| link.id == transfer.link)
        else {
            return self.rare_transfer(context, transfer);
        };
        let most = context.settings.link_credit_max;
        credit.came(context.now, transfer.payload.len(), transfer.credit, most);
        if !credit.has_sent {
            credit.has_sent = watched::first_sent(context, *handle, publisher, watched, aim.destination());
        }
        let seq = publisher.align(transfer.delivery_id);
        if let (Aim::To(destination), Some(plain)) = (&*aim, Plain::read(transfer.payload)) {
            let publish = Publish {
                exchange: destination.exchange.as_bytes(),
                routing_key: destination.key.as_bytes(),
                more: None,
                headers: &NoHeaders,
                format: Format::Amqp10,
                durable: plain.durable,
                priority: None,
                ttl_ms: None,
                head: &[plain.head],
                body: &[plain.bare],
                confirm: !transfer.settled,
            };
            let published = context.shard.publish(context.now, publisher, &publish);
            if published == Ok(Published::Waiting) {
                credit.wait();
                unconfirmed.wait(transfer.link, seq);
                self.is_due = true;
                return;
            }
            return self.published(context, transfer, published, false);
        }
        self.transfer_any(context, transfer, seq);
    }

    /// As [`Adapter::transfer`], of a message with rare parts, whose number is `seq`.
    #[cold]
    #[inline(never)]
    fn transfer_any(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>, seq: u64) {
        let Some(session) = self.sessions.get_mut(transfer.session) else {
            return;
        };
        let Session { publisher, links, unconfirmed, .. } = session;
        let Some(Link { end: End::Target { aim, credit }, .. }) =
            links.iter_mut().find(|link| link.id == transfer.link)
        else {
            return;
        };
        if let Aim::To(destination) = &*aim
            && let Some(published) = publish_with_header(context, publisher, destination, transfer)
        {
            if published == Ok(Published::Waiting) {
                credit.wait();
                unconfirmed.wait(transfer.link, seq);
                self.is_due = true;
                return;
            }
            return self.published(context, transfer, published, false);
        }
        let message = match Message::read(transfer.payload) {
            Ok(message) => message,
            Err(malformed) => {
                publisher.skip();
                let refused = Refused::new(condition::DECODE_ERROR, malformed.to_string());
                return self.end_link(context, transfer, &refused);
            }
        };
        let more = match annotations::more(&message) {
            Ok(more) => more,
            Err(Wrong::Address(refused)) => {
                publisher.skip();
                let is_anonymous = matches!(aim, Aim::Each);
                return self.unaddressed(context, transfer, is_anonymous, &refused);
            }
            Err(Wrong::Message(refused)) => {
                publisher.skip();
                return self.end_link(context, transfer, &refused);
            }
        };
        let is_anonymous = matches!(aim, Aim::Each);
        let resolved;
        let destination = match aim {
            Aim::To(destination) | Aim::Stamped(destination) => destination,
            aim => match resolve(aim, &message) {
                Ok(destination) => {
                    resolved = destination;
                    &resolved
                }
                Err(text) => {
                    publisher.skip();
                    let refused = Refused::new(condition::PRECONDITION_FAILED, text);
                    return self.unaddressed(context, transfer, true, &refused);
                }
            },
        };
        let stamps = context.settings.stamps.as_deref();
        let whole = stamps.and_then(|stamps| stamps.on_amqp10(&message, context.now.wall_ms));
        let message = whole.as_ref().and_then(|whole| Message::read(whole).ok()).unwrap_or(message);
        let fields = Fields10::of(&message);
        let unstamped = Unstamped(&fields);
        let has_time = stamps.is_some_and(|stamps| stamps.time.is_some());
        let publish = Publish {
            exchange: destination.exchange.as_bytes(),
            routing_key: destination.key.as_bytes(),
            more: more.as_ref(),
            headers: if has_time { &unstamped } else { &fields },
            format: Format::Amqp10,
            durable: message.header.durable,
            priority: message.header.priority,
            ttl_ms: message.header.ttl_ms.map(u64::from),
            head: &[message.head],
            body: &[message.bare],
            confirm: !transfer.settled,
        };
        let published = context.shard.publish(context.now, publisher, &publish);
        if published == Ok(Published::Waiting) {
            credit.wait();
            unconfirmed.wait(transfer.link, seq);
        }
        self.published(context, transfer, published, is_anonymous);
    }

    /// Sends the outcome of a message, if that is known already.
    fn published(
        &mut self,
        context: &mut Context<'_>,
        transfer: &Transfer<'_>,
        published: Result<Published, Refusal>,
        is_anonymous: bool,
    ) {
        match published {
            Ok(Published::Waiting) => {}
            Ok(Published::Done) => {
                self.count(context, Count::Confirm, u64::from(!transfer.settled));
                self.tell(transfer, &Outcome::Accepted);
            }
            Ok(Published::Unroutable) => {
                let what = if transfer.settled { Count::DropUnroutable } else { Count::ReturnUnroutable };
                self.count(context, what, 1);
                self.tell(transfer, &Outcome::Released);
            }
            Err(refusal) => {
                let code = refusal.code;
                let refused = Refused::from(refusal);
                match code {
                    ReplyCode::AccessRefused if refused.ends_session => {
                        self.end_session(context, transfer.session, refused.condition, &refused.text);
                    }
                    ReplyCode::AccessRefused | ReplyCode::WrongUser => {
                        self.end_link(context, transfer, &refused);
                    }
                    ReplyCode::NotFound => self.unaddressed(context, transfer, is_anonymous, &refused),
                    _ => self.reject(context, transfer, &refused),
                }
            }
        }
        self.is_due = true;
    }

    /// A transfer on a link to an end that is no exchange or queue.
    #[cold]
    pub(super) fn rare_transfer(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>) {
        let session = self.sessions.get_mut(transfer.session);
        match session.and_then(|session| session.link(transfer.link)).map(|link| &link.end) {
            Some(End::Management) => self.manage(context, transfer),
            Some(End::Coordinator) => self.coordinate(context, transfer),
            Some(End::Target { .. } | End::Source { .. }) | None => {}
        }
    }

    /// Reads the message of a transfer that is not published at once; `None`: the link leads to no exchange or queue.
    pub(super) fn address<'a>(
        &mut self,
        context: &Context<'_>,
        transfer: &Transfer<'a>,
    ) -> Result<Option<Addressed<'a>>, Refused> {
        let Some(session) = self.session(transfer.session) else { return Ok(None) };
        let Some(Link { end: End::Target { aim, credit }, .. }) = session.link(transfer.link) else {
            return Ok(None);
        };
        credit.came(context.now, transfer.payload.len(), transfer.credit, context.settings.link_credit_max);
        let message = Message::read(transfer.payload)
            .map_err(|malformed| Refused::new(condition::DECODE_ERROR, malformed.to_string()))?;
        let destination = resolve(aim, &message);
        Ok(Some(Addressed { message, destination }))
    }

    /// A message breaks a rule that ends its link: it goes with the link, without an outcome of its own.
    #[cold]
    pub(super) fn end_link(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>, refused: &Refused) {
        let Refused { condition, text, .. } = refused;
        self.note(context, Gravity::Error, format!("a link ends: {condition}: {text}"));
        self.machine.detach(transfer.session, transfer.link, Some(Error::new(condition, text)), true);
        self.drop_link(context, transfer.session, transfer.link);
    }

    #[inline]
    pub(super) fn tell(&mut self, transfer: &Transfer<'_>, outcome: &Outcome<'_>) {
        if !transfer.settled {
            let id = transfer.delivery_id;
            self.machine.settle_incoming(transfer.session, id, id, outcome);
        }
    }

    /// Rejects a message, or ends its link where the source takes no such outcome (§3.2.1).
    #[cold]
    pub(super) fn reject(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>, refused: &Refused) {
        if !self.takes_rejected(transfer.session, transfer.link) {
            return self.end_link(context, transfer, refused);
        }
        self.is_due = true;
        self.tell(transfer, &Outcome::Rejected(Some(Error::new(refused.condition, &refused.text))));
    }

    /// Whether a sender can be told that a message is rejected.
    pub(super) fn takes_rejected(&mut self, id: SessionId, link: LinkId) -> bool {
        let link = self.session(id).and_then(|session| session.link(link));
        !link.is_some_and(|link| link.particulars.lacks_rejected)
    }

    /// The broker confirmed publishes of a session.
    pub(super) fn confirmed(&mut self, context: &mut Context<'_>, publisher: u32, first: u64, last: u64) {
        let Some(session) = self.sessions.of_publisher(publisher) else {
            return self.confirmed_transaction(context, publisher, first, last);
        };
        let Session { id, publisher, links, unconfirmed, .. } = session;
        let (machine, id) = (&mut self.machine, *id);
        let mut count = 0;
        publisher.confirmed(first, last, |first, last| {
            count += last - first + 1;
            // Delivery numbers are the lower halves of publish numbers.
            machine.settle_incoming(id, first as u32, last as u32, &Outcome::Accepted);
            unconfirmed.take(first, last, |link, count| {
                let found = links.iter_mut().find(|it| it.id == link);
                if let Some(Link { end: End::Target { credit, .. }, .. }) = found {
                    credit.confirmed(count);
                }
            });
        });
        self.is_due = true;
        self.count(context, Count::Confirm, count);
    }

    /// So many more of something that is of no queue.
    fn count(&self, context: &mut Context<'_>, count: Count, more: u64) {
        if let Some(actor) = &self.actor {
            context.shard.tallies().note(actor.vhost, Protocol::Amqp10, count, more);
        }
    }

    /// A queue was full for publishes of a session: each is rejected.
    #[cold]
    pub(super) fn publishes_refused(
        &mut self,
        context: &mut Context<'_>,
        publisher: u32,
        (first, last): (u64, u64),
        queue: QueueId,
    ) {
        let Some(session) = self.sessions.of_publisher(publisher) else {
            return self.refused_transaction(context, publisher, first, last);
        };
        let Session { id, publisher, links, unconfirmed, .. } = session;
        let (machine, id) = (&mut self.machine, *id);
        // It may have been deleted meanwhile.
        let queue = context.shard.catalog().queue(queue).map_or("", |queue| &queue.name);
        let text = format!("queue '{queue}' exceeded maximum length");
        let mut info = Vec::new();
        let mut encoder = Encoder::new(&mut info);
        encoder.symbol("queue");
        encoder.string(queue);
        encoder.symbol("reason");
        encoder.symbol("maxlen");
        let error =
            Error { info: Map::new(4, &info), ..Error::new(condition::RESOURCE_LIMIT_EXCEEDED, &text) };
        publisher.refused(first, last, |seq| {
            machine.settle_incoming(id, seq as u32, seq as u32, &Outcome::Rejected(Some(error)));
            unconfirmed.take(seq, seq, |link, count| {
                let found = links.iter_mut().find(|it| it.id == link);
                if let Some(Link { end: End::Target { credit, .. }, .. }) = found {
                    credit.confirmed(count);
                }
            });
        });
        self.is_due = true;
    }

    /// Gives senders credit again.
    pub(super) fn top_up(&mut self, context: &mut Context<'_>) {
        if context.shard.is_congested() {
            // The last confirm may be there before there is room again: it comes back here when there is.
            self.is_due = true;
            return;
        }
        let least = context.settings.link_credit_min;
        for session in self.sessions.iter_mut() {
            // Credit that the session's window keeps from being used is worth nothing.
            let windows = session.links.iter().map(|link| match &link.end {
                End::Target { credit, .. } => credit.window(),
                _ => 0,
            });
            let window = windows.fold(0, u32::saturating_add).min(context.settings.session_window_max);
            self.machine.widen(session.id, window);
            for link in &mut session.links {
                let End::Target { credit, .. } = &mut link.end else { continue };
                let left = self.machine.credit(session.id, link.id).map_or(0, |(left, _)| left);
                if let Some(grant) = credit.grant(context.now, left, least) {
                    self.machine.grant(session.id, link.id, grant, false);
                }
            }
        }
    }

    /// Whether a link is a sender's: then its credit is looked at after a flow. An echo the machine has answered.
    pub(super) fn is_target(&self, id: SessionId, link: LinkId) -> bool {
        let session = self.sessions.get(id);
        session.is_some_and(|session| session.links.iter().any(|it| it.id == link && it.is_publishing()))
    }
}

/// Where a message goes: of a link without an address its `to` says.
fn resolve(aim: &Aim, message: &Message<'_>) -> Result<Destination, String> {
    match aim {
        Aim::To(destination) | Aim::Stamped(destination) => return Ok(destination.clone()),
        Aim::Subject(exchange) => {
            let key = message.properties.subject().unwrap_or_default();
            return Ok(Destination { exchange: exchange.clone(), key: key.into() });
        }
        Aim::Each => {}
    }
    match message.properties.get(Property::To).as_str() {
        Some(to) => address::destination(to).map_err(|_| format!("bad 'to' address string: {to}")),
        None => Err("anonymous terminus requires 'to' address to be set".to_owned()),
    }
}

/// Publishes a message that is plain but for its header, as one with a priority; `None`: there is more to it.
#[cold]
#[inline(never)]
fn publish_with_header(
    context: &mut Context<'_>,
    publisher: &mut Publisher,
    to: &Destination,
    transfer: &Transfer<'_>,
) -> Option<Result<Published, Refusal>> {
    let (header, plain) = Plain::read_with_header(transfer.payload)?;
    let publish = Publish {
        exchange: to.exchange.as_bytes(),
        routing_key: to.key.as_bytes(),
        more: None,
        headers: &NoHeaders,
        format: Format::Amqp10,
        durable: header.durable,
        priority: header.priority,
        ttl_ms: header.ttl_ms.map(u64::from),
        head: &[plain.head],
        body: &[plain.bare],
        confirm: !transfer.settled,
    };
    Some(context.shard.publish(context.now, publisher, &publish))
}
