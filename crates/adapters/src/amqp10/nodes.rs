//! Nodes that are made for a link (§3.5.3, §3.5.4 `dynamic`) and go with it: temporary queues, and volatile queues for
//! replies.
//!
//! A temporary queue is an exclusive classic queue with a name of ours; it is deleted when the link that asked for it
//! detaches. A volatile queue is no queue at all: its address leads straight to the link, see [`broker::ReplyAddress`].

use super::link::{Activity, Aim, ConsumerAt, End, Link, Particulars};
use super::pending::{Making, Waiting};
use super::receiving::Receiving;
use super::refused::Refused;
use super::selecting::Selecting;
use super::{Adapter, termini};
use crate::context::{Context, Gravity};
use ::amqp10::{
    Attach, Error, LinkId, ReceiverSettleMode, Role, SenderSettleMode, SessionId, Source, Symbols, Target,
    condition,
};
use base::id::{LogId, QueueId};
use base::percent;
use broker::catalog::{MADE_FOR_LINK, Object, Op, QueueDefinition, QueueType, Refusal, generated_name};
use broker::{QueueCommand, Reply, ReplyAddress};
use message::amqp10::{Encoder, Map};
use routing::Arguments;

/// The capability that asks for a queue that goes with its link.
const TEMPORARY: &str = "temporary-queue";

/// The capability that asks for an address that replies go to.
const VOLATILE: &str = "rabbitmq:volatile-queue";

/// Nodes go when their link is detached (§3.5.7).
const LINK_DETACH: &str = "link-detach";

/// Bytes of a link's name that are repeated in the name of its queue, so that people can tell its link.
const LINK_NAME_BYTES_MAX: usize = 128;

/// A temporary queue and its link.
#[derive(Debug)]
struct Node {
    session: SessionId,
    link: LinkId,
    log: LogId,
    queue: QueueId,
}

/// The temporary queues of a connection.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// Bytes of memory it holds.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Nodes>() + self.0.capacity() * size_of::<Node>()
    }
}

/// The properties of a node of ours: it goes with its link, and its messages are moved.
fn node_properties(bytes: &mut Vec<u8>) -> Map<'_> {
    bytes.clear();
    let mut encoder = Encoder::new(bytes);
    encoder.symbol("lifetime-policy");
    // A described list without fields (§3.5.10).
    encoder.encoding(&[0x00]);
    encoder.symbol("amqp:delete-on-close:list");
    encoder.encoding(&[0x45]);
    encoder.symbol("supported-dist-modes");
    encoder.symbols(["move"].into_iter());
    Map::new(4, bytes)
}

/// The source as it is told to the receiver that asked for it, with the outcomes it had asked for.
fn dynamic_source<'a>(address: &'a str, outcomes: Symbols<'a>, bytes: &'a mut Vec<u8>) -> Source<'a> {
    Source {
        address: Some(address),
        expiry_policy: Some(LINK_DETACH),
        dynamic: true,
        dynamic_node_properties: node_properties(bytes),
        distribution_mode: Some("move"),
        outcomes,
        ..Source::default()
    }
}

impl Adapter {
    /// The peer wants to receive from a node that is made for it.
    pub(super) fn attach_dynamic_source(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        let source = attach.source.unwrap_or_default();
        if source.capabilities.contains(TEMPORARY) {
            let receiving = Receiving::new(
                attach,
                &Source { outcomes: source.outcomes, ..Source::default() },
                Selecting::default(),
            );
            return self.make_queue(context, id, link, attach.name, Making::Source(receiving));
        }
        let is_volatile = source.capabilities.contains(VOLATILE)
            && attach.sender_settle_mode == SenderSettleMode::Settled
            && source.expiry_policy == Some(LINK_DETACH)
            && source.durable == 0;
        if !is_volatile {
            termini::check_node_properties(source.dynamic_node_properties)?;
            return Err(Refused::new(condition::NOT_IMPLEMENTED, "Dynamic source not supported"));
        }
        let consumer = ConsumerAt {
            session: id,
            link,
            at: None,
            of: QueueType::Classic,
            settled: true,
            lacks_credit: false,
        };
        let Some(handle) = self.consumers.add(|_| consumer) else {
            return Err(Refused::new(condition::RESOURCE_LIMIT_EXCEEDED, "too many links to queues"));
        };
        let name = context.shard.open_reply(context.port, handle, broker::Credit::Link).name();
        if self.begins_paused(id, true) {
            context.shard.pause_reply(context.port, handle, true);
        }
        let address = format!("/queues/{name}");
        if self.session(id).is_none() {
            return Ok(());
        }
        let attached = Link {
            id: link,
            end: End::Source {
                consumer: handle,
                settled: true,
                mixes: false,
                tag: 0,
                activity: Activity::Never,
            },
            particulars: Particulars { address: Some(address.as_str().into()), ..Particulars::default() },
        };
        self.add_link(id, attached);
        let mut bytes = Vec::new();
        let answer = Attach {
            sender_settle_mode: SenderSettleMode::Settled,
            receiver_settle_mode: attach.receiver_settle_mode,
            source: Some(dynamic_source(&address, Symbols::default(), &mut bytes)),
            target: Some(Target::default()),
            max_message_size: attach.max_message_size,
            ..Attach::new("", Role::Sender)
        };
        self.machine.answer_attach(id, link, &answer);
        Ok(())
    }

    /// The peer wants to send to a node that is made for it.
    pub(super) fn attach_dynamic_target(
        &mut self,
        context: &mut Context<'_>,
        id: SessionId,
        link: LinkId,
        attach: &Attach<'_>,
    ) -> Result<(), Refused> {
        let target = attach.target.unwrap_or_default();
        if !target.capabilities.contains(TEMPORARY) {
            termini::check_node_properties(target.dynamic_node_properties)?;
            return Err(Refused::new(condition::NOT_IMPLEMENTED, "Dynamic target not supported"));
        }
        let making = Making::Target { sender_settle_mode: attach.sender_settle_mode };
        self.make_queue(context, id, link, attach.name, making)
    }

    fn make_queue(
        &mut self,
        context: &mut Context<'_>,
        session: SessionId,
        link: LinkId,
        link_name: &str,
        making: Making,
    ) -> Result<(), Refused> {
        let random = context.shard.secret_bytes();
        let link_name = &link_name[..link_name.floor_char_boundary(LINK_NAME_BYTES_MAX)];
        let link_name = link_name.replace(['\r', '\n'], "");
        let name = generated_name(&format!("{MADE_FOR_LINK}{link_name}-"), &random).into();
        let op = Op::DeclareQueue {
            name,
            passive: false,
            durable: true,
            exclusive: true,
            auto_delete: false,
            arguments: Arguments::default(),
            random,
        };
        let token = self.tokens.next();
        let waiting = Waiting::Queue(making);
        self.requests.wait(token, (session, link), waiting);
        context.shard.request(context.now, context.port, token, op);
        Ok(())
    }

    /// The queue for a link is there, or may not be.
    pub(super) fn made(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        making: Making,
        reply: Result<Reply, Refusal>,
    ) {
        let queue = match reply {
            Ok(Reply::Declared { queue, .. }) => queue,
            Ok(_) => return,
            Err(refusal) => {
                let role = if let Making::Source(_) = making { Role::Sender } else { Role::Receiver };
                return self.refuse(context, (id, link), "", role, &refusal.into());
            }
        };
        let node = Node { session: id, link, log: queue.log, queue: queue.id };
        self.nodes.get_or_insert_default().0.push(node);
        if self.session(id).is_none() {
            // It ended meanwhile.
            return self.drop_node(context, id, link);
        }
        match making {
            Making::Target { sender_settle_mode } => {
                self.answer_dynamic_target(context, (id, link), &queue, sender_settle_mode);
            }
            Making::Source(mut receiving) => {
                let address = format!("/queues/{}", percent::encoded(&queue.name));
                let asked = Source::from_bytes(&receiving.source).unwrap_or_default();
                let source = termini::answered(
                    &dynamic_source(&address, asked.outcomes, &mut Vec::new()),
                    &Selecting::default(),
                );
                receiving.source = source;
                if let Err(refused) = self.consume(context, id, link, &queue, receiving) {
                    self.drop_node(context, id, link);
                    self.refuse(context, (id, link), "", Role::Sender, &refused);
                }
            }
        }
    }

    fn answer_dynamic_target(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        queue: &QueueDefinition,
        sender_settle_mode: SenderSettleMode,
    ) {
        let address = format!("/queues/{}", percent::encoded(&queue.name));
        let mut bytes = Vec::new();
        let target = Target {
            address: Some(&address),
            expiry_policy: Some(LINK_DETACH),
            dynamic: true,
            dynamic_node_properties: node_properties(&mut bytes),
            capabilities: Symbols::Given(&[TEMPORARY]),
            ..Target::default()
        };
        let destination = super::address::Destination { exchange: "".into(), key: queue.name.clone() };
        let answer = Attach {
            sender_settle_mode,
            receiver_settle_mode: ReceiverSettleMode::First,
            source: Some(Source::default()),
            target: Some(target),
            max_message_size: Some(context.limits10.message_bytes_max),
            ..Attach::new("", Role::Receiver)
        };
        self.open_target(context, id, link, Aim::To(destination), &answer);
    }

    /// A link is gone, and with it the queue that was made for it.
    pub(super) fn drop_node(&mut self, context: &mut Context<'_>, id: SessionId, link: LinkId) {
        let Some(nodes) = &mut self.nodes else { return };
        let Some(at) = nodes.0.iter().position(|node| (node.session, node.link) == (id, link)) else {
            return;
        };
        let Node { log, queue, .. } = nodes.0.swap_remove(at);
        if nodes.0.is_empty() {
            self.nodes = None;
        }
        // Nobody waits for the answer: no request has this token.
        let delete = QueueCommand::Delete { token: 0, if_unused: false, if_empty: false };
        context.shard.command(context.now, context.port, log, queue, delete);
    }

    /// Whether the reply consumer that an address leads to is there is asked where it lives.
    pub(super) fn ask_reply(
        &mut self,
        context: &mut Context<'_>,
        (session, link): (SessionId, LinkId),
        attach: &Attach<'_>,
        (address, name): (ReplyAddress, Box<str>),
    ) -> Result<(), Refused> {
        let Some(actor) = &self.actor else { return Ok(()) };
        let vhost = context.shard.catalog().vhost_definition(actor.vhost).map_or("", |vhost| &vhost.name);
        let missing = Refusal::missing(Object::Queue, &name, vhost);
        let token = self.tokens.next();
        let waiting = Waiting::Reply { name, sender_settle_mode: attach.sender_settle_mode };
        self.requests.wait(token, (session, link), waiting);
        context.shard.ask_reply(context.port, token, address, missing);
        Ok(())
    }

    /// Whether the reply consumer is there.
    pub(super) fn asked_reply(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        (name, sender_settle_mode): (Box<str>, SenderSettleMode),
        reply: Result<Reply, Refusal>,
    ) {
        if let Err(refusal) = reply {
            return self.refuse(context, (id, link), "", Role::Receiver, &refusal.into());
        }
        let address = format!("/queues/{name}");
        let answer = Attach {
            sender_settle_mode,
            source: Some(Source::default()),
            target: Some(Target { address: Some(&address), ..Target::default() }),
            max_message_size: Some(context.limits10.message_bytes_max),
            ..Attach::new("", Role::Receiver)
        };
        let destination = super::address::Destination { exchange: "".into(), key: name };
        self.open_target(context, id, link, Aim::To(destination), &answer);
    }

    /// Says no to an attach: ends the session where the user may not, else the link alone.
    pub(super) fn refuse(
        &mut self,
        context: &mut Context<'_>,
        (id, link): (SessionId, LinkId),
        name: &str,
        role: Role,
        refused: &Refused,
    ) {
        let Refused { condition, text, ends_session } = refused;
        self.note(context, Gravity::Error, format!("link '{name}' refused: {condition}: {text}"));
        if *ends_session {
            return self.end_session(context, id, condition, text);
        }
        self.machine.refuse_attach(id, link, &Attach::new(name, role), Error::new(condition, text));
    }
}
