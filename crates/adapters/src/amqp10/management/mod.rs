//! The management node: queues, exchanges and bindings by requests over a pair of links to `/management`.
//!
//! HTTP over AMQP 1.0 in the manner of RabbitMQ's management version 2: requests come over one link of a pair, answers go
//! over the other, which has the same name. `request` reads them, `answer` writes them; here is the work between. A
//! request is worked on at once; while the broker's answer to it is awaited nothing further is read, so requests are
//! answered one after the other.
//! A request that the user has no permission for ends the session; all others are answered.

mod answer;
mod arguments;
mod renewing;
mod request;

use super::Adapter;
use super::link::{End, Link, Particulars};
use super::pending::{Asked, Asking, Waiting};
use super::refused::Refused;
use super::session::Session;
use crate::context::{Context, Gravity};
use ::amqp10::{
    Attach, Body, Delivery, LinkId, NotSent, Outcome, ReceiverSettleMode, Role, SenderSettleMode, SessionId,
    Source, Symbols, Target, Transfer, condition,
};
use broker::access::{Access, Resource};
use broker::catalog::{
    Actor, Binding, Catalog, Destination, Object, Op, QueueDefinition, Reason, Refusal, ReplyCode,
};
use broker::{QueueCommand, Reply, ReplyAddress};
use message::amqp10::{Encoder, Message, Value};
use request::{Request, Wrong};
use routing::{Arguments, Kind};
use std::sync::Arc;

/// The node's address.
const NODE: &str = "/management";

/// The property of both links that makes them a pair.
const PAIRED: &str = "paired";

/// Requests a client may send ahead.
const CREDIT: u32 = 8;

/// Bytes of a request: its names and arguments are small, and are read into values that take more room than their
/// bytes. As much as RabbitMQ takes, which ends the session where a request is in more than one frame.
const REQUEST_BYTES_MAX: u64 = 128 << 10;

/// Two links of one name, one for each direction.
#[derive(Debug)]
struct Pair {
    session: SessionId,
    name: Box<str>,
    requests: Option<LinkId>,
    answers: Option<LinkId>,
    /// Answers so far, their tag.
    tag: u32,
}

/// The pairs of a connection.
#[derive(Debug, Default)]
pub(super) struct Management {
    pairs: Vec<Pair>,
    /// The answer being written.
    bytes: Vec<u8>,
}

impl Management {
    fn pair(&mut self, session: SessionId, link: LinkId) -> Option<&mut Pair> {
        self.pairs.iter_mut().find(|pair| {
            pair.session == session && (pair.requests == Some(link) || pair.answers == Some(link))
        })
    }

    /// Bytes of memory it holds.
    pub(super) fn heap_bytes(&self) -> usize {
        let names: usize = self.pairs.iter().map(|pair| pair.name.len()).sum();
        size_of::<Management>() + self.pairs.capacity() * size_of::<Pair>() + names + self.bytes.capacity()
    }
}

/// How a request went.
enum Went {
    /// The broker will answer.
    Waits(u32, Asking),
    Wrong(Wrong),
    /// The user may not.
    Refused(Refusal),
    Nothing,
    /// A token was set.
    Renewed,
    Count(u64),
    Bindings {
        source: Box<str>,
        end: request::End,
        found: Vec<Arc<Binding>>,
    },
}

impl From<Refusal> for Went {
    fn from(refusal: Refusal) -> Went {
        Went::Refused(refusal)
    }
}

impl From<Wrong> for Went {
    fn from(wrong: Wrong) -> Went {
        Went::Wrong(wrong)
    }
}

/// Whether an attach is for one end of a pair. Links to the node that settle otherwise are none.
pub(super) fn is_wanted(attach: &Attach<'_>) -> bool {
    match attach.role {
        Role::Sender => {
            attach.sender_settle_mode == SenderSettleMode::Settled
                && attach.target.is_some_and(|target| target.address == Some(NODE))
        }
        Role::Receiver => attach.source.is_some_and(|source| source.address == Some(NODE)),
    }
}

impl Adapter {
    /// One end of a pair.
    pub(super) fn attach_management(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        if attach.properties.get(PAIRED) != Some(Value::Boolean(true)) {
            let text = "Link property 'paired' is not set to boolean value 'true'";
            return Err(Refused::new(condition::INVALID_FIELD, text));
        }
        if self.sessions.get(id).is_none() {
            return Ok(());
        }
        let pairs = &mut self.management.get_or_insert_default().pairs;
        let is_request = attach.role == Role::Sender;
        let is_open = |pair: &Pair| if is_request { pair.requests.is_none() } else { pair.answers.is_none() };
        let half =
            pairs.iter_mut().find(|pair| pair.session == id && *pair.name == *attach.name && is_open(pair));
        match half {
            Some(pair) if is_request => pair.requests = Some(link),
            Some(pair) => pair.answers = Some(link),
            None => {
                let (requests, answers) = if is_request { (Some(link), None) } else { (None, Some(link)) };
                pairs.push(Pair { session: id, name: attach.name.into(), requests, answers, tag: 0 });
            }
        }
        let particulars = Particulars {
            address: Some(NODE.into()),
            sender_settle_mode: SenderSettleMode::Settled,
            ..Particulars::default()
        };
        self.add_link(id, Link { id: link, end: End::Management, particulars });
        let bytes_max = context.limits10.message_bytes_max.min(REQUEST_BYTES_MAX);
        let mut answer = Attach::new(attach.name, attach.role.other());
        answer.sender_settle_mode = SenderSettleMode::Settled;
        answer.receiver_settle_mode = ReceiverSettleMode::First;
        let terminus = (attach.source.and_then(|it| it.address), attach.target.and_then(|it| it.address));
        answer.source = Some(Source { address: terminus.0, ..Source::default() });
        answer.target = Some(Target { address: terminus.1, ..Target::default() });
        answer.properties = attach.properties;
        answer.offered_capabilities = Symbols::default();
        answer.max_message_size = if is_request { Some(bytes_max) } else { attach.max_message_size };
        self.machine.answer_attach(id, link, &answer);
        if is_request {
            self.machine.grant(id, link, CREDIT, false);
        }
        Ok(())
    }

    /// An end of a pair is gone.
    pub(super) fn drop_management(&mut self, id: SessionId, link: LinkId) {
        let Some(management) = &mut self.management else { return };
        for pair in management.pairs.iter_mut().filter(|pair| pair.session == id) {
            pair.requests = pair.requests.filter(|requests| *requests != link);
            pair.answers = pair.answers.filter(|answers| *answers != link);
        }
        management.pairs.retain(|pair| pair.requests.is_some() || pair.answers.is_some());
        if management.pairs.is_empty() {
            self.management = None;
        }
    }

    /// A request came.
    #[cold]
    pub(super) fn manage(&mut self, context: &mut Context<'_>, transfer: &Transfer<'_>) {
        let (id, link) = (transfer.session, transfer.link);
        let Some(pair) = self.management.as_mut().and_then(|management| management.pair(id, link)) else {
            return;
        };
        let Some(answers) = pair.answers else {
            let text = "received transfer on half open management link pair";
            return self.end_session(context, id, condition::PRECONDITION_FAILED, text);
        };
        if self.machine.credit(id, answers).is_none_or(|(credit, _)| credit == 0) {
            let text = "insufficient credit (0) for management link from RabbitMQ to client";
            return self.end_session(context, id, condition::PRECONDITION_FAILED, text);
        }
        if !transfer.settled {
            self.machine.settle_incoming(id, transfer.delivery_id, transfer.delivery_id, &Outcome::Accepted);
        }
        if transfer.credit <= CREDIT / 2 {
            self.machine.grant(id, link, CREDIT, false);
        }
        let mut correlation = Vec::new();
        let mut encoder = Encoder::new(&mut correlation);
        let ordered = request::in_order(transfer.payload);
        let request = match Message::read(ordered.as_deref().unwrap_or(transfer.payload)) {
            Err(malformed) => {
                encoder.null();
                Err(Wrong::new("400", malformed.to_string()))
            }
            Ok(message) => {
                encoder.value(message.properties.message_id());
                Request::read(&message)
            }
        };
        let Some(actor) = self.actor.clone() else { return };
        let went = match request {
            Ok(request) => self.carry_out(context, id, &actor, request).unwrap_or_else(|went| went),
            Err(wrong) => Went::Wrong(wrong),
        };
        match went {
            Went::Waits(token, what) => {
                let waiting = Waiting::Request(Asked { correlation: correlation.into(), what });
                self.requests.wait(token, (id, link), waiting);
            }
            Went::Refused(refusal) => {
                let Refused { condition, text, .. } = refusal.into();
                self.end_session(context, id, condition, &text);
            }
            Went::Wrong(Wrong { status, text }) => {
                self.note(context, Gravity::Warning, format!("management request refused: {status}: {text}"));
                self.answer(context, id, link, status, &correlation, |encoder| encoder.string(&text));
            }
            Went::Nothing => self.answer(context, id, link, "204", &correlation, |encoder| encoder.null()),
            Went::Renewed => {
                // The answer goes ahead of the ends of links it causes, as in RabbitMQ.
                self.answer(context, id, link, "204", &correlation, |encoder| encoder.null());
                self.check_links(context);
            }
            Went::Count(messages) => {
                self.answer(context, id, link, "200", &correlation, |encoder| {
                    answer::count(messages, encoder)
                });
            }
            Went::Bindings { source, end, found } => {
                let found: Vec<&Binding> = found.iter().map(|binding| &**binding).collect();
                self.answer(context, id, link, "200", &correlation, |encoder| {
                    answer::bindings(&source, &end, &found, encoder);
                });
            }
        }
    }

    fn answer(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        status: &str,
        correlation: &[u8],
        body: impl FnOnce(&mut Encoder<'_>),
    ) {
        let Some(management) = &mut self.management else { return };
        let mut bytes = std::mem::take(&mut management.bytes);
        if let Some(pair) = management.pair(id, link)
            && let Some(answers) = pair.answers
        {
            pair.tag = pair.tag.wrapping_add(1);
            answer::write(&mut bytes, status, correlation, body);
            let tag = pair.tag.to_be_bytes();
            let delivery =
                Delivery { tag: &tag, settled: true, token: 0, head: &[&bytes], body: Body::Bytes(&[]) };
            // There was credit when the request came, and nothing but answers uses it.
            if self.machine.transfer_rare(id, answers, &delivery) == Err(NotSent::TooLarge) {
                let size = delivery.bytes();
                return self.too_large(context, id, answers, size);
            }
        }
        bytes.clear();
        bytes.shrink_to(1024);
        if let Some(management) = &mut self.management {
            management.bytes = bytes;
        }
    }

    /// Carries out a request, as far as that is done here. The error is an answer all the same.
    fn carry_out(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        actor: &Actor,
        request: Request,
    ) -> Result<Went, Went> {
        let token = self.tokens.next();
        let Some(session) = self.sessions.get_mut(id) else {
            return Ok(Went::Nothing);
        };
        let (op, asking) = match request {
            Request::DeclareQueue { name, durable, exclusive, auto_delete, arguments } => {
                session.may(context, Access::Configure, Resource::Queue(&name))?;
                if context.shard.catalog().queue_by_name(actor.vhost, name.as_bytes()).is_none() {
                    check_not_reserved(context.shard.catalog(), actor, Resource::Queue(&name))?;
                }
                let random = context.shard.secret_bytes();
                let op = Op::DeclareQueue {
                    name,
                    passive: false,
                    durable,
                    exclusive,
                    auto_delete,
                    arguments,
                    random,
                };
                (op, Asking::DeclareQueue)
            }
            Request::GetQueue(name) => {
                let catalog = context.shard.catalog();
                catalog.check_any_access(actor, Resource::Queue(&name))?;
                let Some(queue) = catalog.queue_by_name(actor.vhost, name.as_bytes()).cloned() else {
                    let vhost = vhost_name(catalog, actor);
                    let text = format!("queue '{name}' in vhost '{vhost}' not found");
                    let Some(address) = ReplyAddress::read(name.as_bytes(), actor.vhost) else {
                        return Ok(Wrong::new("404", text).into());
                    };
                    let missing = Refusal::new(ReplyCode::NotFound, Reason::NotFound(Object::Queue), text);
                    context.shard.ask_reply(context.port, token, address, missing);
                    return Ok(Went::Waits(token, Asking::GetReply(name)));
                };
                self.command(context, &queue, QueueCommand::Counts { token });
                return Ok(Went::Waits(token, Asking::GetQueue));
            }
            Request::DeleteQueue(name) => {
                session.may(context, Access::Configure, Resource::Queue(&name))?;
                let queue = match context.shard.catalog().open_queue(actor, &name) {
                    Ok(queue) => queue.clone(),
                    Err(refusal) if refusal.code == ReplyCode::NotFound => return Ok(Went::Count(0)),
                    Err(refusal) => return Ok(Wrong::new("400", Refused::from(refusal).text).into()),
                };
                let delete = QueueCommand::Delete { token, if_unused: false, if_empty: false };
                self.command(context, &queue, delete);
                return Ok(Went::Waits(token, Asking::DeleteQueue));
            }
            Request::PurgeQueue(name) => {
                session.may(context, Access::Read, Resource::Queue(&name))?;
                let queue = match context.shard.catalog().open_queue(actor, &name) {
                    Ok(queue) => queue.clone(),
                    Err(refusal) => {
                        let Some(address) = ReplyAddress::read(name.as_bytes(), actor.vhost) else {
                            return Ok(Wrong::new(status(refusal.code), Refused::from(refusal).text).into());
                        };
                        context.shard.ask_reply(context.port, token, address, refusal);
                        return Ok(Went::Waits(token, Asking::PurgeReply));
                    }
                };
                self.command(context, &queue, QueueCommand::Purge { token });
                return Ok(Went::Waits(token, Asking::PurgeQueue));
            }
            Request::DeclareExchange { name, kind, durable, auto_delete, internal, arguments } => {
                if Kind::from_name(kind.as_bytes()).is_none() {
                    return Ok(Wrong::new("400", format!("unknown exchange type '{kind}'")).into());
                }
                check_not_default(&name)?;
                session.may(context, Access::Configure, Resource::Exchange(&name))?;
                let catalog = context.shard.catalog();
                if catalog.exchange(actor.vhost, name.as_bytes()).is_none() {
                    check_not_reserved(catalog, actor, Resource::Exchange(&name))?;
                    check_alternate(&arguments)?;
                }
                let op = Op::DeclareExchange {
                    name,
                    kind,
                    passive: false,
                    durable,
                    auto_delete,
                    internal,
                    arguments,
                };
                (op, Asking::DeclareExchange)
            }
            Request::DeleteExchange(name) => {
                check_not_default(&name)?;
                check_not_reserved(context.shard.catalog(), actor, Resource::Exchange(&name))?;
                session.may(context, Access::Configure, Resource::Exchange(&name))?;
                (Op::DeleteExchange { name, if_unused: false }, Asking::DeleteExchange)
            }
            Request::Bind { source, end, key, arguments } => {
                session.may_bind(context, &source, &end, &key)?;
                (binding_op(source, end, key, arguments), Asking::Bind)
            }
            Request::ListBindings { source, end, key } => {
                session.may_bind(context, &source, &end, &key)?;
                let found = find_bindings(context.shard.catalog(), actor, &source, &end, &key);
                return Ok(Went::Bindings { source, end, found });
            }
            Request::Unbind { source, end, key, hash } => {
                session.may_bind(context, &source, &end, &key)?;
                let found = find_bindings(context.shard.catalog(), actor, &source, &end, &key);
                let Some(binding) = found.iter().find(|it| answer::hash(&it.arguments) == *hash) else {
                    return Ok(Went::Nothing);
                };
                let arguments = binding.arguments.clone();
                let op = match end {
                    request::End::Queue(queue) => Op::UnbindQueue { queue, exchange: source, key, arguments },
                    request::End::Exchange(destination) => {
                        Op::UnbindExchange { source, destination, key, arguments }
                    }
                };
                (op, Asking::Unbind)
            }
            // A login with user and password has nothing that a token could renew: as in RabbitMQ any is taken.
            Request::RenewToken => return Ok(Went::Renewed),
        };
        context.shard.request(context.now, context.port, token, op);
        Ok(Went::Waits(token, asking))
    }

    fn command(&self, context: &mut Context<'_>, queue: &QueueDefinition, command: QueueCommand) {
        context.shard.command(context.now, context.port, queue.log, queue.id, command);
    }

    /// The broker's answer to a management request.
    pub(super) fn answered_request(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        asked: &Asked,
        reply: Result<Reply, Refusal>,
    ) {
        let correlation = &asked.correlation;
        let node = context.settings.node.clone();
        match (&asked.what, reply) {
            (Asking::GetReply(name), Ok(_)) => {
                let Some(actor) = &self.actor else { return };
                let vhost = vhost_name(context.shard.catalog(), actor).to_owned();
                self.answer(context, id, link, "200", correlation, |encoder| {
                    answer::reply_queue(name, &vhost, &node, encoder);
                });
            }
            (Asking::PurgeReply, Ok(_)) => {
                self.answer(context, id, link, "200", correlation, |encoder| answer::count(0, encoder));
            }
            (_, Ok(Reply::Declared { queue, is_new, ready, consumers })) => {
                let status = if is_new { "201" } else { "200" };
                self.answer(context, id, link, status, correlation, |encoder| {
                    answer::queue(&queue, ready, consumers, &node, encoder);
                });
            }
            (_, Ok(Reply::Purged { messages } | Reply::Deleted { messages })) => {
                self.answer(context, id, link, "200", correlation, |encoder| {
                    answer::count(messages, encoder)
                });
            }
            (_, Ok(_)) => self.answer(context, id, link, "204", correlation, |encoder| encoder.null()),
            // Somebody else was quicker.
            (Asking::DeleteQueue, Err(refusal)) if refusal.code == ReplyCode::NotFound => {
                self.answer(context, id, link, "200", correlation, |encoder| answer::count(0, encoder));
            }
            // Rules were asked before: the remaining refusals are permissions on names in arguments.
            (_, Err(refusal)) if refusal.code == ReplyCode::AccessRefused => {
                let Refused { condition, text, .. } = refusal.into();
                self.end_session(context, id, condition, &text);
            }
            (what, Err(refusal)) => {
                let status = match (what, refusal.code) {
                    (Asking::DeclareQueue | Asking::DeclareExchange, ReplyCode::PreconditionFailed) => "409",
                    (
                        Asking::GetQueue | Asking::PurgeQueue | Asking::GetReply(_) | Asking::PurgeReply,
                        ReplyCode::NotFound,
                    ) => "404",
                    _ => "400",
                };
                let text = Refused::from(refusal).text;
                self.note(context, Gravity::Warning, format!("management request refused: {status}: {text}"));
                self.answer(context, id, link, status, correlation, |encoder| encoder.string(&text));
            }
        }
    }
}

impl Session {
    /// Whether the user may; if not, the session ends.
    fn may(&mut self, context: &Context<'_>, access: Access, resource: Resource<'_>) -> Result<(), Went> {
        Ok(self.publisher.access().check(context.shard.catalog(), access, resource)?)
    }

    /// Checks the permissions for binding, unbinding and looking at bindings.
    fn may_bind(
        &mut self,
        context: &Context<'_>,
        source: &str,
        end: &request::End,
        key: &str,
    ) -> Result<(), Went> {
        match end {
            request::End::Queue(name) => self.may(context, Access::Write, Resource::Queue(name))?,
            request::End::Exchange(name) => {
                check_not_default(name)?;
                self.may(context, Access::Write, Resource::Exchange(name))?;
            }
        }
        check_not_default(source)?;
        self.may(context, Access::Read, Resource::Exchange(source))?;
        let (catalog, access) = (context.shard.catalog(), self.publisher.access());
        if let Some(entry) = catalog.exchange(access.vhost(), source.as_bytes()) {
            catalog.check_topic_access(access.actor(), Access::Read, &entry.definition, key.as_bytes())?;
        }
        Ok(())
    }
}

fn check_not_default(exchange: &str) -> Result<(), Wrong> {
    if exchange.is_empty() {
        return Err(Wrong::new("403", "operation not permitted on the default exchange"));
    }
    Ok(())
}

fn check_not_reserved(catalog: &Catalog, actor: &Actor, resource: Resource<'_>) -> Result<(), Wrong> {
    let name = resource.pattern_name();
    if !name.starts_with("amq.") {
        return Ok(());
    }
    let (kind, vhost) = (resource.kind(), vhost_name(catalog, actor));
    Err(Wrong::new("403", format!("{kind} '{name}' in vhost '{vhost}' starts with reserved prefix 'amq.'")))
}

fn check_alternate(arguments: &Arguments) -> Result<(), Wrong> {
    match arguments.get(b"alternate-exchange") {
        None | Some(routing::Argument::Text(_)) => Ok(()),
        Some(other) => {
            let text = format!("invalid type '{}' for arg 'alternate-exchange'", other.type_name());
            Err(Wrong::new("400", text))
        }
    }
}

fn vhost_name<'c>(catalog: &'c Catalog, actor: &Actor) -> &'c str {
    catalog.vhost_definition(actor.vhost).map_or("", |vhost| &vhost.name)
}

fn status(code: ReplyCode) -> &'static str {
    if code == ReplyCode::NotFound { "404" } else { "400" }
}

fn binding_op(source: Box<str>, end: request::End, key: Box<str>, arguments: Arguments) -> Op {
    match end {
        request::End::Queue(queue) => Op::BindQueue { queue, exchange: source, key, arguments },
        request::End::Exchange(destination) => Op::BindExchange { source, destination, key, arguments },
    }
}

/// The bindings with this key between two ends; none where an end is not there.
fn find_bindings(
    catalog: &Catalog,
    actor: &Actor,
    source: &str,
    end: &request::End,
    key: &str,
) -> Vec<Arc<Binding>> {
    let Some(source) = catalog.exchange(actor.vhost, source.as_bytes()) else { return Vec::new() };
    let is_meant = |binding: &&Arc<Binding>| binding.source == source.definition.id && *binding.key == *key;
    match destination(catalog, actor, end) {
        None => Vec::new(),
        Some(Destination::Queue(id)) => catalog.queue_bindings(id).filter(is_meant).cloned().collect(),
        Some(Destination::Exchange(id)) => catalog.exchange_bindings(id).filter(is_meant).cloned().collect(),
    }
}

fn destination(catalog: &Catalog, actor: &Actor, end: &request::End) -> Option<Destination> {
    match end {
        request::End::Queue(name) => {
            Some(Destination::Queue(catalog.queue_by_name(actor.vhost, name.as_bytes())?.id))
        }
        request::End::Exchange(name) => {
            Some(Destination::Exchange(catalog.exchange(actor.vhost, name.as_bytes())?.definition.id))
        }
    }
}
