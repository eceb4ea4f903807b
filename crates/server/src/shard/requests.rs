//! Requests of the node, mostly in its own name: to the catalog, to queues, to streams.
//!
//! Each request comes over a port of its own, which no socket has and which is closed with the answer. Requests in the
//! node's own name are not checked for permissions: that is the caller's matter.

use super::ShardLoop;
use crate::door::{Act, ResetOffset, Truncate};
use adapters::NODE_SLOT;
use base::Now;
use base::id::{LogId, PortId, ShardId};
use broker::access::open_vhost;
use broker::catalog::{Actor, Object, Op, QueueDefinition, Reason, Refusal, ReplyCode, VhostId};
use broker::{QueueCommand, Reply, StreamCommand};
use management::{Action, TOOL_USER};
use message::amqp091::Table;
use routing::Arguments;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Bytes of a name, AMQP 0-9-1 §4.2.5.3.
const NAME_BYTES_MAX: usize = 255;

/// The way back of a request's outcome.
pub type Answer = Sender<Result<Reply, Refusal>>;

/// Requests that wait for their answers.
#[derive(Default)]
pub struct Requests {
    waiting: Vec<(PortId, Answer)>,
    last: u32,
}

impl Requests {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// An action, as a request to the catalog or a command to a queue.
enum Asked {
    Op(Op),
    Command(Arc<QueueDefinition>, QueueCommand),
    /// The queue to be deleted does not exist: there is nothing to do.
    Nothing,
}

impl ShardLoop {
    /// Asks the catalog in the node's own name.
    pub(super) fn request(&mut self, now: Now, request: Op, answer: Answer) {
        let (port, token) = self.await_answer(VhostId::default(), None, answer);
        self.home.shard.request(now, port, token, request);
    }

    /// Has a log handed to another shard.
    pub(super) fn move_log(&mut self, log: LogId, to: ShardId, answer: Answer) {
        let (port, token) = self.await_answer(VhostId::default(), None, answer);
        self.home.shard.move_log(port, token, log, to);
    }

    /// Has the beginning of a stream let go of, in the node's own name.
    pub(super) fn truncate(&mut self, now: Now, asked: &Truncate, answer: Answer) {
        let Some((stream, answer)) = self.stream(&asked.vhost, &asked.stream, answer) else { return };
        let (port, token) = self.await_answer(stream.vhost, None, answer);
        self.ask_stream(now, port, &stream, StreamCommand::Truncate { token, before: asked.before });
    }

    /// Has a stream remember that a consumer has read nothing, in the node's own name.
    pub(super) fn reset_offset(&mut self, now: Now, asked: &ResetOffset, answer: Answer) {
        let Some((stream, answer)) = self.stream(&asked.vhost, &asked.stream, answer) else { return };
        let (port, token) = self.await_answer(stream.vhost, None, answer);
        let reference = asked.reference.as_bytes().into();
        self.ask_stream(now, port, &stream, StreamCommand::StoreOffset { user: 0, reference, offset: 0 });
        // Nobody is told when an offset is on disk. A command behind it in the log is done after it: one that lets go
        // of nothing.
        self.ask_stream(now, port, &stream, StreamCommand::Truncate { token, before: 0 });
    }

    /// Ends all that connections of the stream protocol read of a stream, wherever they are: each is to be told then
    /// ([`ShardLoop::restart_stream`]).
    pub(super) fn disband_stream(&mut self, now: Now, (vhost, stream): &(String, String), answer: Answer) {
        let Some((stream, answer)) = self.stream(vhost, stream, answer) else { return };
        if !stream.is_stream() {
            return self.tell(answer, Err(Refusal::missing(Object::Stream, &stream.name, vhost)));
        }
        let (port, token) = self.await_answer(stream.vhost, None, answer);
        self.ask_stream(now, port, &stream, StreamCommand::Disband { token });
    }

    /// Has connections of this shard that publish to a stream or read it told that it is restarted. Nothing else happens: its one
    /// member is here, and there is nobody to elect another.
    pub(super) fn restart_stream(&mut self, (vhost, stream): &(String, String), answer: Sender<bool>) {
        let catalog = self.home.shard.catalog();
        let found = catalog.vhost(vhost).and_then(|vhost| catalog.queue_by_name(vhost, stream.as_bytes()));
        let found = found.filter(|found| found.is_stream()).map(|found| found.id);
        if let Some(id) = found {
            self.home.shard.stream_restarted(id);
        }
        self.tell(answer, found.is_some());
    }

    /// A stream by name. None: the caller has been told that it is not there.
    fn stream(
        &mut self,
        vhost: &str,
        stream: &str,
        answer: Answer,
    ) -> Option<(Arc<QueueDefinition>, Answer)> {
        let catalog = self.home.shard.catalog();
        let found = catalog.vhost(vhost).and_then(|vhost| catalog.queue_by_name(vhost, stream.as_bytes()));
        let Some(found) = found.cloned() else {
            self.tell(answer, Err(Refusal::missing(Object::Queue, stream, vhost)));
            return None;
        };
        Some((found, answer))
    }

    fn ask_stream(&mut self, now: Now, port: PortId, stream: &QueueDefinition, command: StreamCommand) {
        self.home.shard.command(now, port, stream.log, stream.id, QueueCommand::Stream(Box::new(command)));
    }

    /// Has something done in a virtual host, in the node's own name or with a user's rights.
    pub(super) fn act(&mut self, now: Now, asked: Act, answer: Answer) {
        let user = asked.user.as_deref();
        // The token is known once the request can be one.
        let found = self.enter(user, &asked.vhost).and_then(|vhost| Ok((vhost, self.asked(vhost, &asked)?)));
        match found {
            Ok((vhost, Asked::Op(op))) => {
                let (port, token) = self.await_answer(vhost, user, answer);
                self.home.shard.request(now, port, token, op);
            }
            Ok((vhost, Asked::Command(queue, command))) => {
                let (port, token) = self.await_answer(vhost, user, answer);
                let command = match command {
                    QueueCommand::Delete { if_unused, if_empty, .. } => {
                        QueueCommand::Delete { token, if_unused, if_empty }
                    }
                    _ => QueueCommand::Purge { token },
                };
                self.home.shard.command(now, port, queue.log, queue.id, command);
            }
            Ok((_, Asked::Nothing)) => self.tell(answer, Ok(Reply::Unchanged)),
            Err(refusal) => self.tell(answer, Err(refusal)),
        }
    }

    /// The virtual host of this name; a user must be let in.
    fn enter(&self, user: Option<&str>, vhost: &str) -> Result<VhostId, Refusal> {
        let catalog = self.home.shard.catalog();
        match user {
            Some(user) => open_vhost(catalog, user, vhost),
            None => catalog.vhost(vhost).ok_or_else(|| {
                let text = format!("vhost '{vhost}' not found");
                Refusal::new(ReplyCode::NotFound, Reason::NotFound(Object::VirtualHost), text)
            }),
        }
    }

    fn asked(&mut self, vhost: VhostId, asked: &Act) -> Result<Asked, Refusal> {
        Ok(Asked::Op(match &asked.action {
            Action::DeclareQueue { name, durable, auto_delete, arguments } => Op::DeclareQueue {
                name: text(name)?,
                passive: false,
                durable: *durable,
                exclusive: false,
                auto_delete: *auto_delete,
                arguments: table(arguments)?,
                random: self.home.shard.secret_bytes(),
            },
            Action::DeleteQueue { name, if_unused, if_empty } => {
                let (if_unused, if_empty) = (*if_unused, *if_empty);
                let command = QueueCommand::Delete { token: 0, if_unused, if_empty };
                return Ok(self
                    .queue(vhost, name)
                    .map_or(Asked::Nothing, |queue| Asked::Command(queue, command)));
            }
            Action::Purge { queue } => {
                let found = self.queue(vhost, queue);
                let found = found.ok_or_else(|| Refusal::missing(Object::Queue, queue, &asked.vhost))?;
                return Ok(Asked::Command(found, QueueCommand::Purge { token: 0 }));
            }
            Action::DeclareExchange { name, kind, durable, auto_delete, internal, arguments } => {
                Op::DeclareExchange {
                    name: text(name)?,
                    kind: text(kind)?,
                    passive: false,
                    durable: *durable,
                    auto_delete: *auto_delete,
                    internal: *internal,
                    arguments: table(arguments)?,
                }
            }
            Action::DeleteExchange { name, if_unused } => {
                Op::DeleteExchange { name: text(name)?, if_unused: *if_unused }
            }
            Action::Bind { on, source, destination, to_exchange, key, arguments } => {
                let (source, destination) = (text(source)?, text(destination)?);
                let (key, arguments) = (text(key)?, table(arguments)?);
                match (to_exchange, on) {
                    (true, true) => Op::BindExchange { source, destination, key, arguments },
                    (true, false) => Op::UnbindExchange { source, destination, key, arguments },
                    (false, true) => Op::BindQueue { queue: destination, exchange: source, key, arguments },
                    (false, false) => {
                        Op::UnbindQueue { queue: destination, exchange: source, key, arguments }
                    }
                }
            }
            Action::Publish(_)
            | Action::Get { .. }
            | Action::Peek { .. }
            | Action::Read { .. }
            | Action::Search(_)
            | Action::Move { .. }
            | Action::Discard { .. } => {
                let text = "messages are published and got in a user's name";
                return Err(Refusal::not_served(text));
            }
        }))
    }

    fn queue(&self, vhost: VhostId, name: &str) -> Option<Arc<QueueDefinition>> {
        self.home.shard.catalog().queue_by_name(vhost, name.as_bytes()).cloned()
    }

    /// A port of the node itself, or with a user's rights, and the token that an answer comes back with.
    fn await_answer(&mut self, vhost: VhostId, user: Option<&str>, answer: Answer) -> (PortId, u32) {
        let token = self.requests.last.wrapping_add(1);
        self.requests.last = token;
        let port = PortId::here(self.home.id, NODE_SLOT, token);
        let actor = match user {
            Some(user) => Actor::new(user.into(), vhost, port),
            None => Actor { user: TOOL_USER.into(), ..Actor::internal(vhost, port) },
        };
        self.home.shard.open_port(port, actor);
        self.requests.waiting.push((port, answer));
        (port, token)
    }

    /// Hands out the outcomes of requests.
    pub(super) fn answer_requests(&mut self, now: Now) {
        let mut answers = Vec::new();
        self.home.front.take_node_answers(&mut answers);
        for (token, reply) in answers {
            let waiting = &mut self.requests.waiting;
            if let Some(at) = waiting.iter().position(|(port, _)| port.generation == token) {
                let (port, answer) = waiting.swap_remove(at);
                self.tell(answer, reply);
                self.home.shard.close_port(now, port);
            }
        }
    }
}

fn text(name: &str) -> Result<Box<str>, Refusal> {
    match name.len() {
        0..=NAME_BYTES_MAX => Ok(name.into()),
        _ => Err(Refusal::precondition(Reason::TooLong, "a name is longer than 255 bytes")),
    }
}

fn table(bytes: &[u8]) -> Result<Arguments, Refusal> {
    let bad = |_| Refusal::precondition(Reason::TooLong, "the arguments are too many or too deep");
    Ok(broker::fields::arguments(&Table::new(bytes).map_err(bad)?))
}
