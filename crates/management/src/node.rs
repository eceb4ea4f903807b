//! The node as the handlers see it: questions and requests to it, and the types of the answers.

use crate::history::History;
use crate::members::{Lanes, Member, Replicas};
use crate::pool::PoolRow;
use crate::request::Tried;
use crate::web_sessions::WebSessions;
use base::Now;
use base::hash::MapById;
use base::id::QueueSeq;
use broker::access::{AccessRules, Guard, Hashing, PasswordHash, Trial};
use broker::catalog::{Catalog, Op, QueueDefinition, Refusal, VhostDefaults, VhostId};
use broker::ledger::Ledger;
use broker::{
    Begin, ConnectionId, ConnectionRow, HeldCounts, HeldRow, OpenSums, Opened, Pulse, QueueRow, QueueSums,
    SessionRow, Standing, Survey, TenantRow, Tracking,
};
use std::sync::Arc;

/// A node to ask. Every question may be answered by other threads; one that is not answered in time is [`Busy`].
pub trait Node {
    /// The settings and names that do not change while it runs.
    fn about(&self) -> &About;

    /// How it is now.
    fn condition(&self) -> Condition;

    /// The same, but files and threads, which take long to count, are 0 of as many as there may be.
    fn vitals(&self) -> Condition;

    /// Has a look at the catalog. The look is had on a shard's thread: it takes what it needs and leaves the rest for later.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Catalog) -> T + Send + 'static) -> Result<T, Busy>;

    /// Queues, in no order; `is_sampled`: with estimates for all messages of each by a sample of them.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn queues(&self, which: Which, is_sampled: bool) -> Result<Vec<QueueRow>, Busy>;

    /// Has `each` look at queues, in no order: they are not gathered.
    ///
    /// # Errors
    /// The node did not answer in time; some were looked at.
    fn each_queue(&self, which: Which, each: impl FnMut(&QueueRow)) -> Result<(), Busy>;

    /// The definitions of all queues, by virtual host and name: without a look at the messages of any.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn queue_names(&self) -> Result<Arc<[Arc<QueueDefinition>]>, Busy>;

    /// All queues by a column, as `sort` has them now or had them a moment ago: where there are many, an order is kept for
    /// all that ask (see [`crate::Limits::order_kept_ms`]).
    ///
    /// # Errors
    /// Those of `sort`.
    fn queue_order<E>(
        &self,
        column: &str,
        sort: impl FnOnce() -> Result<Vec<Arc<QueueDefinition>>, E>,
    ) -> Result<Arc<[Arc<QueueDefinition>]>, E>;

    /// These queues, in this order; those that are gone are left out. Nothing is asked of any other.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn rows_of(&self, queues: &[Arc<QueueDefinition>]) -> Result<Vec<QueueRow>, Busy>;

    /// Queues with messages, streams apart, in brief and in no order.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn standings(&self) -> Result<Vec<Standing>, Busy>;

    /// Sums over the queues of each virtual host that has any.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn queue_sums(&self) -> Result<MapById<VhostId, QueueSums>, Busy>;

    /// How queues are just now, in this order; none: it is not there. Nothing is asked of any other.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn pulses(&self, queues: Vec<(VhostId, String)>) -> Result<Vec<Option<Pulse>>, Busy>;

    /// The connections, in no order.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn connections(&self) -> Result<Vec<ConnectionRow>, Busy>;

    /// How many connections there are.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn connection_count(&self) -> Result<u64, Busy>;

    /// When the certificates of each listener with TLS end, the first of them, seconds since 1970.
    fn certificate_ends_s(&self) -> Vec<u64>;

    /// The time, seconds since 1970.
    fn now_s(&self) -> u64;

    /// The same in milliseconds.
    fn now_ms(&self) -> u64;

    /// Milliseconds since it started.
    fn uptime_ms(&self) -> u64;

    /// Reads the certificates of all listeners anew, for connections from now on: of how many kinds of listeners.
    ///
    /// # Errors
    /// The file that cannot be used and its error; listeners with that file keep the certificate they have.
    fn reload_certificates(&self) -> Result<usize, String>;

    /// The channels, consumers and other things that connections have open, each with its shard; in no order.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn opened(&self) -> Result<Vec<(u16, Opened)>, Busy>;

    /// Sums over connections, and over all that they have open.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn open_sums(&self) -> Result<OpenSums, Busy>;

    /// The sessions of a connection over AMQP 1.0; none: there is no such connection, or not there any more.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn sessions(&self, connection: ConnectionId) -> Result<Option<Vec<SessionRow>>, Busy>;

    /// Counters since the node started.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn survey(&self) -> Result<Survey, Busy>;

    /// Has a look at how counters grow. From now on they are sampled for a while.
    fn history<T>(&self, look: impl FnOnce(&History) -> T) -> T;

    /// Users of connections: their work, and what holds them back.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn tenants(&self) -> Result<Vec<TenantRow>, Busy>;

    /// How often connections were held back since the node started, of all users together.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn held_back(&self) -> Result<HeldCounts, Busy>;

    /// Places that clients share.
    fn pools(&self) -> Vec<PoolRow>;

    /// Logins over HTTP: how many were tried, and how many of them refused.
    fn logins(&self) -> [u64; 2];

    /// The time.
    fn now(&self) -> Now;

    /// Somebody tried to log in over HTTP.
    fn login_tried(&self, is_refused: bool);

    /// How counters grew is forgotten.
    fn forget_history(&self);

    /// Logins by protocol that are not to be told of any more.
    fn forget_logins(&self, logins: Vec<[u64; 2]>);

    /// Those.
    fn forgotten_logins(&self) -> Vec<[u64; 2]>;

    /// The offsets and numbers that a stream keeps of its consumers and publishers; none: there is no such stream.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn tracking(&self, vhost: VhostId, stream: &str) -> Result<Option<Tracking>, Busy>;

    /// Bytes of memory by their uses, in the words of RabbitMQ's memory breakdown.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn memory(&self) -> Result<Memory, Busy>;

    /// Counters of writes to the disk.
    fn writing(&self) -> Writing;

    /// How long the turns of each shard take.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn turns(&self) -> Result<Vec<Turns>, Busy>;

    /// The nodes of its cluster, itself among them, in the order of their names; none: it is alone.
    fn members(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Its replicas of logs that other nodes have too.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn replicas(&self) -> Result<Replicas, Busy> {
        Ok(Replicas::default())
    }

    /// Its lanes to other nodes, where there are any.
    fn lanes(&self) -> Option<Lanes> {
        None
    }

    /// Closes a connection; whether there was one of this name.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn close_connection(&self, name: &str, reason: &str) -> Result<bool, Busy>;

    /// Has the catalog changed in the node's own name, and waits until that is on disk.
    ///
    /// # Errors
    /// The node did not answer in time, or the catalog refuses the request.
    fn request(&self, op: Op) -> Result<(), Trouble>;

    /// Does a client's action, with that client's rights.
    ///
    /// # Errors
    /// The broker's refusal, or the reason why it could not be asked.
    fn act(&self, login: &Login, vhost: &str, action: Action) -> Result<Outcome, Trouble>;

    /// Begins the work of [`Node::request`]. Requests that were begun are granted in their order.
    fn begin_request(&self, op: Op) -> Begun<'_>;

    /// Begins the work of [`Node::act`]. Actions are done in the order they were begun in, but for queues, which are
    /// declared in any.
    fn begin_act(&self, login: &Login, vhost: &str, action: Action) -> Begun<'_>;

    /// Lets go of the segments of a stream that have no offset from `before` on, and waits until that is on disk: the first
    /// offset from then on.
    ///
    /// # Errors
    /// The node did not answer in time, or there is no such stream.
    fn truncate_stream(&self, vhost: &str, stream: &str, before: u64) -> Result<u64, Trouble>;

    /// Where browsing begins in a queue, and how many messages are ready from there on, as far as `most`. None: there is no
    /// such queue.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn ready_from(
        &self,
        vhost: VhostId,
        queue: &str,
        begin: Begin,
        most: u64,
    ) -> Result<Option<(u64, u64)>, Busy>;

    /// Messages of a queue that wait for their time, at most so many, those that are due first: when each is due, milliseconds since
    /// 1970, and its number in the queue. None: there is no such queue.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn delayed(&self, vhost: &str, queue: &str, count_max: usize) -> Result<Option<Delayed>, Busy>;

    /// Messages of a queue that consumers hold, at most so many from a position on, lowest first. None: there is no such
    /// queue.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn held(
        &self,
        vhost: VhostId,
        queue: &str,
        from: QueueSeq,
        count_max: usize,
    ) -> Result<Option<Vec<HeldRow>>, Busy>;

    /// The position behind the last message of a queue that a consumer holds; 0: none does. None: there is no such queue.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn held_end(&self, vhost: VhostId, queue: &str) -> Result<Option<u64>, Busy>;

    /// Throws away those of these messages of a queue that wait for their time: how many. None: there is no such queue.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn cancel_delayed(&self, vhost: &str, queue: &str, ids: Vec<u64>) -> Result<Option<u64>, Busy>;

    /// Has a stream remember that a consumer has read nothing of it, and waits until that is on disk.
    ///
    /// # Errors
    /// The node did not answer in time, or there is no such stream.
    fn reset_offset(&self, vhost: &str, stream: &str, reference: &str) -> Result<(), Trouble>;

    /// Has the publishers and readers of a stream over the stream protocol come again; whether there is such a stream.
    ///
    /// # Errors
    /// The node did not answer in time.
    fn restart_stream(&self, vhost: &str, stream: &str) -> Result<bool, Busy>;

    /// The settings that a new virtual host of this name begins with.
    fn vhost_defaults(&self, name: &str) -> VhostDefaults;

    /// Lines of the log with their levels, of those that are kept: from number `next` on, or all; and the number of the one to
    /// come.
    fn log_lines(&self, next: Option<u64>) -> (Vec<(&'static str, String)>, u64);

    /// Has a line in the node's log.
    fn log(&self, line: String);

    /// The hash of a new password. A memory-hard one takes its time.
    ///
    /// # Errors
    /// The system has no randomness, or too many passwords wait.
    fn hash(&self, password: &str, hashing: Hashing) -> Result<PasswordHash, Busy>;

    /// Compares the password of a login with a memory-hard hash: whether it is let in.
    ///
    /// # Errors
    /// Too many passwords wait.
    fn carry_out(&self, trial: Box<Trial>) -> Result<Tried, Busy>;

    /// The same for a caller that goes on at once: `then` has the outcome, on another thread, unless the node stops.
    fn compare(&self, trial: Box<Trial>, then: Compared);
}

/// The next step of a login whose password was compared.
pub type Compared = Box<dyn FnOnce(Tried) + Send>;

/// Messages that wait for their time: when each is due, milliseconds since 1970, and its number in its queue.
pub type Delayed = Vec<(u64, QueueSeq)>;

/// Work that was begun: waits until it is done, and gives the outcome. It is done also where nobody waits.
pub type Begun<'a> = Box<dyn FnOnce() -> Result<(), Trouble> + 'a>;

/// Queues that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those of a virtual host.
    Of(VhostId),
    /// One, by name.
    One(VhostId, String),
}

impl Which {
    /// Whether this is one of them.
    pub fn has(&self, queue: &QueueDefinition) -> bool {
        match self {
            Which::All => true,
            Which::Of(vhost) => queue.vhost == *vhost,
            Which::One(vhost, name) => queue.vhost == *vhost && *queue.name == **name,
        }
    }
}

/// The node did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The broker says no.
    Refused(Refusal),
    /// It could not be asked.
    Broken(String),
    /// Nobody may publish for now, and why.
    Held(String),
}

impl From<Busy> for Trouble {
    fn from(_: Busy) -> Trouble {
        Trouble::Broken("a shard did not answer in time".to_owned())
    }
}

/// The settings and names of a node, which do not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// As in `rabbit@host`.
    pub node: String,
    /// The name of the cluster.
    pub cluster: String,
    /// The identity of the cluster, which stays when its name changes.
    pub cluster_id: String,
    /// Metrics tell of each object where nothing else is asked for.
    pub metrics_each: bool,
    /// The path of metrics, in its parts; none: `metrics`.
    pub metrics_path: Vec<String>,
    /// The version that clients are told.
    pub version: String,
    /// The product's own name.
    pub product: String,
    /// And its version.
    pub product_version: String,
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// The settings as in its configuration file, later ones winning.
    pub settings: Vec<(String, String)>,
    /// Every setting that was read with where that was, in the order of reading; secrets are stars.
    pub settings_read: Vec<(String, String, String)>,
    /// Files its configuration was read from.
    pub config_files: Vec<String>,
    /// Where it keeps everything.
    pub data_dir: String,
    /// The process.
    pub pid: u32,
    /// Cores it may use.
    pub processors: u32,
    /// The operator's rules beside users and permissions.
    pub access: Arc<AccessRules>,
    /// The guard of passwords, one for all protocols.
    pub guard: Arc<Guard>,
    /// The ledger of memory.
    pub ledger: Arc<Ledger>,
    /// Logins of browsers; none: there can be none.
    pub web_sessions: Option<Arc<WebSessions>>,
    /// Queues that are neither durable nor exclusive may be declared.
    pub permits_transient_queues: bool,
    /// A prefetch may be shared by the consumers of a channel.
    pub permits_global_qos: bool,
    /// Addresses of the first version may be used over AMQP 1.0.
    pub permits_address_v1: bool,
    /// Connections open at once; none: any number.
    pub connections_max: Option<u64>,
    /// Milliseconds a consumer of a quorum queue may hold a message.
    pub consumer_timeout_ms: u64,
    /// Parts of messages that browsers are shown.
    pub browsers_see: BrowsersSee,
    /// The path that the API is below, without a slash at its end.
    pub prefix: String,
    /// Bounds.
    pub limits: crate::Limits,
}

/// The parts of messages that logins of browsers are shown; other clients are shown what their permissions allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowsersSee {
    /// All of them.
    #[default]
    Full,
    /// Properties and headers: payloads are nobody's business.
    Headers,
    /// Nothing.
    None,
}

impl BrowsersSee {
    /// As the configuration names it.
    pub fn name(self) -> &'static str {
        match self {
            BrowsersSee::Full => "full",
            BrowsersSee::Headers => "headers",
            BrowsersSee::None => "none",
        }
    }
}

/// A port somebody may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listener {
    /// The address it is bound to: `::` for all.
    pub address: String,
    /// The port.
    pub port: u16,
    /// As RabbitMQ names it: `amqp`.
    pub protocol: String,
    /// Connections are opened so many at a time before they are accepted.
    pub backlog: u32,
}

impl Listener {
    /// TLS comes first.
    pub(crate) fn is_secure(&self) -> bool {
        self.protocol.ends_with("/ssl") || self.protocol.starts_with("https")
    }
}

/// Counters of writes to the disk since a node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writing {
    /// Groups of batches committed.
    pub groups: u64,
    /// Batches committed.
    pub batches: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Bytes of records committed.
    pub record_bytes: u64,
    /// Flushes.
    pub syncs: u64,
    /// How long one takes, nanoseconds, smoothed.
    pub sync_ns: u64,
    /// Groups by how long committing them took: see [`FLUSH_BOUNDS_US`].
    pub flushes: [u64; FLUSH_BOUNDS_US.len() + 1],
    /// Nanoseconds they took together.
    pub flush_sum_ns: u64,
    /// Nanoseconds of the longest.
    pub flush_longest_ns: u64,
    /// Groups by their bytes of records: see [`COMMIT_BOUNDS`].
    pub commits: [u64; COMMIT_BOUNDS.len() + 1],
    /// Reads for deliveries and for streams.
    pub reads: u64,
    /// Nanoseconds they took together.
    pub read_ns: u64,
    /// Bytes they brought.
    pub read_bytes: u64,
}

/// Durations of the turns of a shard's loop: a connection of the shard may have to wait for as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// By how long they took: see [`TURN_BOUNDS_US`].
    pub groups: [u64; TURN_BOUNDS_US.len() + 1],
    /// Nanoseconds they took together.
    pub sum_ns: u64,
    /// Nanoseconds of the longest of the last half minute to minute.
    pub longest_ns: u64,
    /// Nanoseconds of the longest look that somebody had at the shard in one of them.
    pub longest_look_ns: u64,
    /// Nanoseconds that the shard had a processor in such a look, at most: the rest of the time went to others on the
    /// machine.
    pub longest_look_work_ns: u64,
    /// Units of work that connections had whose cost has no other bound.
    pub work: u64,
    /// Units of it that a turn has now.
    pub work_max: u32,
}

/// Microseconds that turns are told apart by.
pub const TURN_BOUNDS_US: [u64; 10] = [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 100_000];

/// Microseconds that times of flushes are told apart by.
pub const FLUSH_BOUNDS_US: [u64; 12] =
    [20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 100_000, 1_000_000];

/// Bytes that commits are told apart by.
pub const COMMIT_BOUNDS: [u64; 8] = [1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000, 16_000_000];

/// How a node is at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Bytes of memory in use.
    pub memory_used: u64,
    /// Bytes of memory from which publishers are blocked.
    pub memory_limit: u64,
    /// They are.
    pub is_memory_alarm: bool,
    /// Bytes of free disk.
    pub disk_free: u64,
    /// Bytes of free disk below which publishers are blocked.
    pub disk_limit: u64,
    /// They are.
    pub is_disk_alarm: bool,
    /// Files and sockets open, and how many there may be.
    pub files: [u64; 2],
    /// Threads, and how many there may be.
    pub threads: [u64; 2],
}

/// Memory by its uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes by pool of RabbitMQ's, with the rest under `other_system`; those that are not named are 0.
    pub pools: Vec<(&'static str, u64)>,
    /// Bytes in use, as far as pools account for them.
    pub in_use: u64,
    /// The same, and the free parts of heaps.
    pub allocated: u64,
    /// Bytes that the process has in memory.
    pub resident: u64,
}

/// The user of a request, with the password that the broker asks for.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// In the clear.
    pub password: String,
    /// The node itself: nobody's permissions are asked, and there is no password.
    pub is_own: bool,
}

/// Passwords are not for logs.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// An action of a client. Tables are field tables of AMQP 0-9-1 (§4.2.5.5) without their length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have a queue like this.
    DeclareQueue {
        /// Its name.
        name: String,
        /// It survives a restart.
        durable: bool,
        /// It goes with the last of its consumers.
        auto_delete: bool,
        /// Its arguments.
        arguments: Vec<u8>,
    },
    /// Have no such queue.
    DeleteQueue {
        /// Its name.
        name: String,
        /// Only where nobody consumes.
        if_unused: bool,
        /// Only where nothing is ready.
        if_empty: bool,
    },
    /// Throw away its ready messages.
    Purge {
        /// The queue.
        queue: String,
    },
    /// Have an exchange like this.
    DeclareExchange {
        /// Its name.
        name: String,
        /// Its type.
        kind: String,
        /// It survives a restart.
        durable: bool,
        /// It goes with the last binding from it.
        auto_delete: bool,
        /// Clients may not publish to it.
        internal: bool,
        /// Its arguments.
        arguments: Vec<u8>,
    },
    /// Have no such exchange.
    DeleteExchange {
        /// Its name.
        name: String,
        /// Only where no binding is from it.
        if_unused: bool,
    },
    /// Have a binding, or no such binding.
    Bind {
        /// Have it.
        on: bool,
        /// Where messages come from.
        source: String,
        /// Where they go.
        destination: String,
        /// That is an exchange.
        to_exchange: bool,
        /// Its key.
        key: String,
        /// Its arguments.
        arguments: Vec<u8>,
    },
    /// Publish a message, and wait until it is safe.
    Publish(Publication),
    /// Be shown messages, and take none.
    Peek {
        /// From here.
        queue: String,
        /// At this position or behind it.
        from: u64,
        /// Behind so many.
        skip: u32,
        /// At most so many.
        count: u32,
        /// Not so many bytes of them, once there is one.
        bytes_max: usize,
        /// Refused where it takes longer until there is one; no more of them after so long.
        ms_max: u64,
    },
    /// Be shown messages of a stream.
    Read {
        /// The stream.
        stream: String,
        /// Where they begin.
        from: ReadFrom,
        /// At most so many.
        count: u32,
        /// None from this offset on, at which the next message comes.
        end: u64,
        /// Not so many bytes of them, once there is one.
        bytes_max: usize,
        /// No more of them after so long.
        ms_max: u64,
    },
    /// Be shown messages of which a condition is true.
    Search(Search),
    /// Have messages elsewhere: each leaves when its copy is safe.
    Move {
        /// From here.
        queue: String,
        /// To there.
        goal: Goal,
        /// Those at these positions, in this order; else the first ones.
        positions: Option<Vec<u64>>,
        /// How many, and how fast.
        pace: Pace,
    },
    /// Have messages gone.
    Discard {
        /// From here.
        queue: String,
        /// Those at these positions.
        positions: Vec<u64>,
        /// As rejected ones: they die, where the queue sends its dead anywhere. Those that wait for their time stay.
        rejects: bool,
        /// Those that consumers hold, too: the holders lose them.
        held: bool,
    },
    /// Get messages.
    Get {
        /// From here.
        queue: String,
        /// At most so many.
        count: u32,
        /// Not so many bytes of them, once there is one.
        bytes_max: usize,
        /// Their fate.
        mode: GetMode,
    },
}

/// Where reading of a stream begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At this offset.
    Offset(u64),
    /// With the last chunk.
    Last,
    /// With the chunk of this time, seconds since 1970.
    Time(u64),
    /// With the chunk of so long ago: `1h`.
    Age(String),
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Where to.
    pub exchange: String,
    /// With which key.
    pub key: String,
    /// Property flags and list, AMQP 0-9-1 §2.3.5.2.
    pub properties: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// Where messages move to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The queue in which each died first.
    Origin,
    /// Where an exchange sends them.
    Exchange {
        /// The exchange.
        exchange: String,
        /// The key.
        key: String,
    },
}

/// How many messages move, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// At most so many.
    pub count: u32,
    /// Of the first so many of the queue: messages that came later stay, also those that came back.
    pub among: u32,
    /// It ends when so many could not be placed.
    pub unplaced_max: u32,
    /// At most so many a second; 0: any number.
    pub per_second: u32,
    /// For so many milliseconds.
    pub ms_max: u64,
    /// For so many milliseconds where others wait for their turns, from behind those that are passed.
    pub slice_ms: u64,
    /// The first messages of which so many could not be placed before.
    pub passed: u32,
}

/// The fate of messages that were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetMode {
    /// They are gone.
    Remove,
    /// They are gone as rejected ones.
    Reject,
    /// They are back where they were.
    Requeue,
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The message is safe; whether any queue took it.
    Published(bool),
    /// These messages.
    Got(Vec<Got>),
    /// The outcome of a search.
    Found(Found),
    /// Messages moved.
    Moved {
        /// So many.
        moved: u32,
        /// So many stay, since no queue takes them or they do not say where they came from.
        unplaced: u32,
        /// At these positions, of those that were named, nothing was ready.
        missing: Vec<u64>,
        /// There are no others, or no more were wanted.
        is_over: bool,
        /// The reason that it ended before, where it did.
        trouble: Option<Trouble>,
    },
    /// Messages are gone.
    Discarded {
        /// So many.
        deleted: u32,
        /// At these positions nothing was ready or delayed.
        missing: Vec<u64>,
    },
}

/// A search among the messages of a queue or a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The queue, or the stream.
    pub queue: String,
    /// It is a stream.
    pub is_stream: bool,
    /// In a queue, messages that consumers hold are looked at, too.
    pub held: bool,
    /// Where it begins; an offset is a position where it is in a queue.
    pub from: ReadFrom,
    /// Nothing is looked at from this offset or position on.
    pub end: u64,
    /// True of the messages that are looked for: an expression in SQL without faults.
    pub condition: String,
    /// The present, milliseconds since 1970, for expressions that ask for it.
    pub now_ms: u64,
    /// Not more than so many are found.
    pub count: u32,
    /// Not so many bytes of them, once there is one.
    pub bytes_max: usize,
    /// It ends after so many milliseconds.
    pub ms_max: u64,
}

/// The outcome of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The messages.
    pub messages: Vec<Got>,
    /// Messages that were looked at.
    pub looked_at: u64,
    /// Where to go on; none: all that there was was looked at.
    pub next: Option<u64>,
}

/// A message that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// It was delivered before.
    pub redelivered: bool,
    /// Where it was published to.
    pub exchange: String,
    /// With which key.
    pub key: String,
    /// Messages that were left.
    pub left: u32,
    /// Where in its queue it is, if that was asked for.
    pub position: Option<u64>,
    /// Property flags and list, AMQP 0-9-1 §2.3.5.2.
    pub properties: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}
