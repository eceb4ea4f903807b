//! The plan of a run, and its outcome.

/// The plan of a run. Everything else is rolled from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Operations of the workload.
    pub operations: u32,
    /// The process is killed and the power fails.
    pub crashes: bool,
    /// Writes, syncs and reads fail.
    pub io_errors: bool,
    /// The disk runs full, and has space again.
    pub full_disk: bool,
    /// Bits of what was written change, in a part of the runs.
    pub rot: bool,
    /// The run is of a rolled [shape](crate::shape), starts fail too, the process is killed more often than the power
    /// fails, and logs are added.
    pub wide: bool,
    /// Clients also use what fewer applications do: transactions, replies, the management node.
    pub rich: bool,
    /// An administrator limits queues of rich clients in bytes, and removes the limits again.
    pub limits: bool,
    /// Clients of the stream protocol come too, and AMQP clients publish to streams.
    pub streams: bool,
    /// Messages are also taken and thrown away by position.
    pub picks: bool,
    /// With streams: their clients are several users, and store offsets under more names than there is room for.
    pub crowds: bool,
    /// All logs but the catalog's are agreed on with others, which are played.
    pub double: bool,
    /// Logs go from shard to shard.
    pub hands: bool,
    /// A tenant in another virtual host does what is dear.
    pub hostile: bool,
    /// Few queues, with barriers and many consumers, and nothing by which a message goes but these.
    pub barriers: bool,
    /// So many nodes agree on all logs but the catalog's; 0: one node is alone.
    pub nodes: usize,
    /// Lines of the trace that are kept for a failure.
    pub trace_lines: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            operations: 500,
            crashes: true,
            io_errors: true,
            full_disk: true,
            rot: true,
            wide: false,
            rich: false,
            limits: false,
            streams: false,
            picks: false,
            crowds: false,
            double: false,
            hands: false,
            hostile: false,
            barriers: false,
            nodes: 0,
            trace_lines: 80,
        }
    }
}

/// How much a run did, to see that it did anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Steps of the scheduler.
    pub steps: u64,
    /// Messages published.
    pub published: u64,
    /// Publishes confirmed.
    pub confirmed: u64,
    /// Messages that arrived at a consumer.
    pub delivered: u64,
    /// Times the node went down without order.
    pub crashes: u64,
    /// Times it stopped in order.
    pub stops: u64,
    /// Times it found its disk full.
    pub full: u64,
    /// Bits that rotted.
    pub rotten: u64,
    /// Files of the journal begun.
    pub rolls: u64,
    /// Logs whose live remains were moved.
    pub moves: u64,
    /// States of logs that a node had from another.
    pub installs: u64,
    /// Reads that deliveries waited for.
    pub reads: u64,
    /// Batches that went to files of their own.
    pub bulk: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Transactions that could not be done as a whole.
    pub undone: u64,
    /// Messages a full queue refused.
    pub refused: u64,
    /// Dead letters that arrived at a consumer.
    pub buried: u64,
    /// Messages that came with annotations of a receiver's.
    pub noted: u64,
    /// Messages gone whose time was over.
    pub expired: u64,
    /// Replies that came straight to the requester.
    pub replies: u64,
    /// Transactions begun over AMQP 1.0.
    pub begun: u64,
    /// Requests that the management node of AMQP 1.0 granted.
    pub managed: u64,
    /// Delayed messages that arrived at a consumer.
    pub delayed: u64,
    /// Messages given back to come later.
    pub postponed: u64,
    /// Delayed messages thrown away.
    pub cancelled: u64,
    /// Messages that browsers were shown.
    pub shown: u64,
    /// Messages that came to another consumer because one held them for too long.
    pub taken_back: u64,
    /// Messages that came to consumers that choose.
    pub chosen: u64,
    /// Barriers that came to consumers.
    pub barriers: u64,
    /// Limits in bytes that came to a queue with messages in it.
    pub limits: u64,
    /// Messages published to streams.
    pub stream_published: u64,
    /// Of these, those that were confirmed over the stream protocol.
    pub stream_confirmed: u64,
    /// Messages published again under their publishing id.
    pub republished: u64,
    /// Chunks that arrived at a subscription.
    pub chunks: u64,
    /// Messages in them.
    pub stream_delivered: u64,
    /// Answers to what somebody stored of how far it is.
    pub offsets_told: u64,
    /// Offsets stored under names of which a client has many.
    pub crowded: u64,
    /// Offsets that were known to be stored, and are forgotten.
    pub driven_out: u64,
    /// Messages that came out of queues filled from streams.
    pub fed: u64,
    /// Of these, those that were not in their stream any more.
    pub outlived: u64,
    /// Damages of streams that the node told of.
    pub torn: u64,
    /// Times a log was the same in leader and replica.
    pub compared: u64,
    /// Times a leader of a log resigned.
    pub resigned: u64,
    /// Batches that a leader took back when it resigned, and that were agreed on after all.
    pub after_all: u64,
    /// Times the replica of an agreed log began anew.
    pub begun_anew: u64,
    /// Times a node began to lead a log, or ceased to.
    pub led: u64,
    /// Records, and messages that queues were asked about, which nodes brought to those that lead their log.
    pub brought: u64,
    /// Commands that they brought.
    pub asked: u64,
    /// Consumers that went on at another leader.
    pub claimed: u64,
    /// Queues declared at nodes of several, or declared again.
    pub declared: u64,
    /// Requests of an administrator at several nodes that were answered.
    pub administered: u64,
    /// Queues found by somebody who looked.
    pub looked: u64,
    /// Queues deleted.
    pub deleted: u64,
    /// Changes of the catalog that nobody made in time.
    pub timed_out: u64,
    /// Logs that went from one shard to another.
    pub handed: u64,
    /// Things that the hostile tenant did.
    pub hostile: u64,
    /// Turns after which somebody owed work.
    pub held_back: u64,
    /// Rounds of a world that rests in which nothing moved for a client that waited for an answer, at most.
    pub answered_after: u64,
}

impl Tally {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Tally) {
        self.steps += other.steps;
        self.published += other.published;
        self.confirmed += other.confirmed;
        self.delivered += other.delivered;
        self.crashes += other.crashes;
        self.stops += other.stops;
        self.full += other.full;
        self.rotten += other.rotten;
        self.rolls += other.rolls;
        self.moves += other.moves;
        self.installs += other.installs;
        self.reads += other.reads;
        self.bulk += other.bulk;
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.undone += other.undone;
        self.begun += other.begun;
        self.managed += other.managed;
        self.delayed += other.delayed;
        self.postponed += other.postponed;
        self.cancelled += other.cancelled;
        self.shown += other.shown;
        self.taken_back += other.taken_back;
        self.chosen += other.chosen;
        self.barriers += other.barriers;
        self.limits += other.limits;
        self.stream_published += other.stream_published;
        self.stream_confirmed += other.stream_confirmed;
        self.republished += other.republished;
        self.chunks += other.chunks;
        self.stream_delivered += other.stream_delivered;
        self.offsets_told += other.offsets_told;
        self.crowded += other.crowded;
        self.driven_out += other.driven_out;
        self.fed += other.fed;
        self.outlived += other.outlived;
        self.torn += other.torn;
        self.compared += other.compared;
        self.resigned += other.resigned;
        self.after_all += other.after_all;
        self.begun_anew += other.begun_anew;
        self.led += other.led;
        self.brought += other.brought;
        self.asked += other.asked;
        self.claimed += other.claimed;
        self.declared += other.declared;
        self.administered += other.administered;
        self.looked += other.looked;
        self.deleted += other.deleted;
        self.timed_out += other.timed_out;
        self.handed += other.handed;
        self.hostile += other.hostile;
        self.held_back += other.held_back;
        self.answered_after = self.answered_after.max(other.answered_after);
        self.replies += other.replies;
        self.refused += other.refused;
        self.buried += other.buried;
        self.noted += other.noted;
        self.expired += other.expired;
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The hash of the trace: the same seed and plan give the same.
    pub trace_hash: u64,
    /// Counts of its events.
    pub tally: Tally,
    /// The first rule that was broken, or a panic.
    pub failure: Option<Failure>,
}

/// A broken rule, or a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub why: String,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}
