//! How the rest of the node speaks to a shard: mail from other shards, letters from everybody else.

use crate::mailbox::{Mailbox, Sleeper};
use crate::socket::{Arrival, Socket};
use crate::turns::Turns;
use adapters::{Frontend, Mover};
use base::id::{LogId, NodeNo, ShardId};
use broker::catalog::{Op, Refusal};
use broker::{Mail, Reply, Shard};
use node::keeper::{Answer, Errand};
use node::replicas::Replicas;
use node::word::Word;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A letter of the node to a shard; messages travel by the other mailbox.
pub enum Letter {
    /// A connection was accepted.
    Accepted(Arrival),
    /// The password of a connection was compared.
    Tried(Box<Tried>),
    /// A connection left another shard for this one.
    Moved(Box<(Socket, Mover)>),
    /// A letter that any node, a simulated one too, sends to its shards.
    Node(node::turn::Letter),
    /// A word of another node, and the bytes that it counts for while it waits.
    Word(NodeNo, Word, usize),
    /// The keeper wants something done, and waits for the answer.
    Errand(Errand, Sender<Answer>),
    /// A request of the node to the catalog, and where its outcome goes.
    Request(Box<Op>, Sender<Result<Reply, Refusal>>),
    /// A log is to be handed to a shard, see [`Shard::move_log`]; the outcome, when it is there.
    MoveLog(LogId, ShardId, Sender<Result<Reply, Refusal>>),
    /// Another node is to lead a log; whether this one led it.
    GiveLead(LogId, NodeNo, Sender<bool>),
    /// Delayed messages of a queue are to be thrown away; how many there were, where the queue lives here.
    CancelDelayed(Box<CancelDelayed>, Sender<Option<u64>>),
    /// The beginning of a stream is to go; the outcome.
    Truncate(Box<Truncate>, Sender<Result<Reply, Refusal>>),
    /// A stream is to remember that a consumer has read nothing; the outcome.
    ResetOffset(Box<ResetOffset>, Sender<Result<Reply, Refusal>>),
    /// A stream, by virtual host and name, is to let go of its readers by chunks; the outcome.
    DisbandStream(Box<(String, String)>, Sender<Result<Reply, Refusal>>),
    /// A stream, by virtual host and name, is restarted; whether it is known here.
    RestartStream(Box<(String, String)>, Sender<bool>),
    /// The node wants something done in a virtual host; the outcome.
    Act(Box<Act>, Sender<Result<Reply, Refusal>>),
    /// Somebody has a look, a quick one: connections wait meanwhile.
    Look(Look),
    /// Somebody has a look at the connections too, a quick one.
    Visit(Visit),
    /// The connection of this name is to be closed, and why; whether it is here.
    CloseConnection(Box<(String, String)>, Sender<bool>),
    /// The connection of this slot and number is to be closed for the memory that it holds; the text that it is told.
    Evict((u32, u32), String),
}

/// Hands a result to the thread that asked, and wakes it: done when the turn is over. A thread that is woken earlier
/// may take the processor, and clients served in that turn would wait with the shard.
pub type Outcome = Box<dyn FnOnce() + Send>;

/// The outcome of comparing the password of a connection.
pub struct Tried {
    /// The connection's number.
    pub slot: u32,
    /// Which of those that had this number.
    pub generation: u32,
    /// The outcome.
    pub outcome: adapters::Outcome,
}

/// A look at a shard.
pub type Look = Box<dyn FnOnce(&Shard) -> Outcome + Send>;

/// A shard with its connections.
pub struct Room<'a> {
    /// Which one it is.
    pub id: ShardId,
    /// The shard.
    pub shard: &'a Shard,
    /// The replicas of its logs that other nodes have too, if there are any.
    pub replicas: Option<&'a Replicas>,
    /// Its connections.
    pub front: &'a Frontend,
    /// Their sockets, by slot.
    pub sockets: &'a [Option<Socket>],
    /// How long its turns take.
    pub turns: &'a Turns,
    /// Bytes of memory of the loop's own lists and buffers.
    pub loop_bytes: usize,
}

/// A look at a shard and its connections.
pub type Visit = Box<dyn FnOnce(&Room<'_>) -> Outcome + Send>;

/// The outcome that `found` is sent.
pub fn outcome<T: Send + 'static>(to: Sender<T>, found: T) -> Outcome {
    // The thread that asked may have given up.
    Box::new(move || to.send(found).unwrap_or_default())
}

/// Delayed messages of a queue that are to be thrown away.
#[derive(Clone, Debug)]
pub struct CancelDelayed {
    /// The virtual host.
    pub vhost: String,
    /// The queue.
    pub queue: String,
    /// The positions of the messages.
    pub ids: Vec<u64>,
}

/// A stream of which the beginning is to go.
#[derive(Clone, Debug)]
pub struct Truncate {
    /// The virtual host.
    pub vhost: String,
    /// The stream.
    pub stream: String,
    /// Offsets below it are to go.
    pub before: u64,
}

/// A consumer of a stream that is to begin anew.
#[derive(Clone, Debug)]
pub struct ResetOffset {
    /// The virtual host.
    pub vhost: String,
    /// The stream.
    pub stream: String,
    /// The name under which the consumer stores its offsets.
    pub reference: String,
}

/// An action to be done in a virtual host.
#[derive(Clone, Debug)]
pub struct Act {
    /// The user in whose name and with whose rights it is done; none: in the node's own.
    pub user: Option<String>,
    /// The virtual host.
    pub vhost: String,
    /// Anything but publishing and getting.
    pub action: management::Action,
}

/// How to reach a shard.
pub struct Door {
    /// From other shards.
    pub mail: Mailbox<Mail>,
    /// From the node.
    pub letters: Mailbox<Letter>,
    /// The shard's thread.
    pub sleeper: Arc<Sleeper>,
}

impl Door {
    /// The door of the shard that `sleeper` is.
    pub fn new(sleeper: Arc<Sleeper>) -> Door {
        Door { mail: Mailbox::new(sleeper.clone()), letters: Mailbox::new(sleeper.clone()), sleeper }
    }

    /// The result of `look`, a quick one: connections wait meanwhile. None: the shard did not answer within `patience`.
    pub fn look<T: Send + 'static>(
        &self,
        patience: Duration,
        look: impl FnOnce(&Shard) -> T + Send + 'static,
    ) -> Option<T> {
        self.ask(patience, |slot, done| {
            Letter::Look(Box::new(move |shard| {
                slot.fill(look(shard));
                outcome(done, ())
            }))
        })
    }

    /// The result of `visit` in the shard and its connections: as [`Door::look`].
    pub fn visit<T: Send + 'static>(
        &self,
        patience: Duration,
        visit: impl FnOnce(&Room<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        self.ask(patience, |slot, done| {
            Letter::Visit(Box::new(move |room| {
                slot.fill(visit(room));
                outcome(done, ())
            }))
        })
    }

    /// Puts the letter that is made and waits until it is answered. The result has a place of its own, so that there is one kind
    /// of channel for all: each kind is 4 KB of code.
    fn ask<T>(
        &self,
        patience: Duration,
        letter: impl FnOnce(Arc<Slot<T>>, Sender<()>) -> Letter,
    ) -> Option<T> {
        let slot = Arc::new(Slot(Mutex::new(None)));
        let (done, is_done) = channel();
        self.letters.put(letter(slot.clone(), done));
        is_done.recv_timeout(patience).ok()?;
        slot.take()
    }
}

/// The place of a result.
struct Slot<T>(Mutex<Option<T>>);

impl<T> Slot<T> {
    fn fill(&self, result: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
