//! All replicas of a shard as one value: time, messages, finished writes and proposals in; messages, writes, agreed entries and roles
//! out.

use crate::entry::{Entry, Members, ReplicaId, Vote};
use crate::executor::Executor;
use crate::group::{Group, Recovered, Role};
use crate::machine::{Installing, Offer};
use crate::message::{Body, Message, SnapshotName};
use crate::network::Post;
use crate::settings::Settings;
use crate::store::Write;
use base::Now;
use base::id::{LogId, LogIndex};
use journal::Sealed;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The output of [`Consensus::turn`]; empty again after it was taken.
#[derive(Debug, Default)]
pub struct Output {
    /// To be sent.
    pub messages: Vec<Message>,
    /// To be journaled, of each log in order; [`Consensus::written`] says that it is on disk.
    pub writes: Vec<(LogId, Write)>,
    /// Agreed on, of each log in order.
    pub agreed: Vec<(LogId, Entry)>,
    /// Replicas with another part than before. What is agreed on comes first.
    pub roles: Vec<(LogId, Role)>,
    /// Snapshots of leaders, who have let go of entries that are missing here, each told again and again: once all is here that
    /// one takes, or a later one, [`Consensus::install`] says so.
    pub offers: Vec<(LogId, Offer)>,
    /// To be put in place; [`Consensus::installed`] says that it is. Its place on disk is free: entries that it replaces are
    /// gone from there.
    pub installs: Vec<(LogId, Installing)>,
}

/// See the module. It stays on the thread where it was made.
pub struct Consensus {
    settings: Settings,
    groups: BTreeMap<LogId, Group>,
    post: Rc<RefCell<Post>>,
    executor: Rc<Executor>,
    /// Agreed entries, while they are taken.
    agreed: Vec<Entry>,
}

impl Consensus {
    /// One without replicas. All chance comes of the seed; tasks that are ready run in one of its orders if they are to be shuffled.
    pub fn new(settings: Settings, seed: u64, is_shuffled: bool, now: Now) -> Consensus {
        let grid_ns = settings.grid_ms.saturating_mul(base::time::NS_PER_MS);
        let executor = Executor::new(seed, now.mono_ns, grid_ns, is_shuffled);
        let post = Post::new(&executor);
        Consensus { settings, groups: BTreeMap::new(), post, executor, agreed: Vec::new() }
    }

    /// A replica comes up.
    ///
    /// # Errors
    /// What it comes up with does not fit together, or there is one of this log.
    pub fn open(&mut self, log: LogId, me: ReplicaId, recovered: Recovered) -> Result<(), String> {
        if self.groups.contains_key(&log) {
            return Err(format!("log {log} has a replica here"));
        }
        let Consensus { settings, executor, post, .. } = self;
        let group = executor.enter(|| Group::new(log, me, recovered, settings, executor, post))?;
        self.groups.insert(log, group);
        Ok(())
    }

    /// A replica begins a log, with these who vote, unless it has begun. To be said again until something is agreed on: it may be
    /// lost. False: the replica is not up yet.
    pub fn found(&self, log: LogId, voters: BTreeSet<ReplicaId>) -> bool {
        self.with(log, |group| group.found(&self.executor, voters))
    }

    /// Proposes a batch, as the leader of this term; one that is not is told so by its [`Role`]. Batches follow on each other,
    /// from where the records ended when the role was told.
    pub fn propose(&self, log: LogId, term: u64, batch: Sealed) {
        self.with(log, |group| {
            group.propose(&self.executor, term, batch);
            true
        });
    }

    /// Whether something that was proposed here has no outcome so far.
    pub fn has_proposals(&self, log: LogId) -> bool {
        self.groups.get(&log).is_some_and(Group::has_proposals)
    }

    /// Has the members changed, if this replica leads. What became of it is told by the entry that says so. False: there is
    /// no such replica, or it is not up yet.
    pub fn change_members(&self, log: LogId, members: Members) -> bool {
        self.with(log, |group| group.change_members(&self.executor, members))
    }

    /// Has another lead, if this replica does. False as in [`Consensus::change_members`].
    pub fn transfer(&self, log: LogId, to: ReplicaId) -> bool {
        self.with(log, |group| group.transfer(&self.executor, to))
    }

    /// Has a replica ask for votes. False as in [`Consensus::change_members`].
    pub fn elect(&self, log: LogId) -> bool {
        self.with(log, |group| group.elect(&self.executor))
    }

    /// Whether all entries up to this index are on disk here, as far as they are here: a snapshot of them may be put
    /// there. One before its entries could come up after a crash with others behind it, which were to be taken away.
    pub fn is_on_disk(&self, log: LogId, index: u64) -> bool {
        self.groups.get(&log).is_some_and(|group| group.is_on_disk(index))
    }

    /// A snapshot was made of what was agreed on, and is on disk, where it may be put ([`Consensus::is_on_disk`]).
    /// Entries up to the index `purge` may go.
    ///
    /// # Errors
    /// It does not fit the log.
    pub fn snapshot_made(
        &self,
        log: LogId,
        name: &SnapshotName,
        manifest: Vec<u8>,
        purge: Option<u64>,
    ) -> Result<(), String> {
        let Some(group) = self.groups.get(&log) else { return Ok(()) };
        self.executor.enter(|| group.snapshot_made(&self.executor, name, manifest, purge))
    }

    /// The last of the entries up to `covered` that may be let go of, if any may, where so many `entries` up to there stay, or as many
    /// as have so many `bytes` of records: those who are a little behind need no snapshot.
    pub fn needless(&self, log: LogId, covered: u64, entries: u64, bytes: usize) -> Option<u64> {
        self.groups.get(&log)?.needless(covered, entries, bytes)
    }

    /// All is here that it takes to have a snapshot: that of an offer of a leader with this vote, or a later one of the same
    /// log. What becomes of it is told by [`Output::installs`], or it is refused ([`Consensus::is_installing`]). False: the
    /// engine is not up, or does so already.
    pub fn install(&self, log: LogId, vote: Vote, installing: Installing) -> bool {
        self.with(log, |group| group.install(&self.executor, vote, installing))
    }

    /// Whether a snapshot is to be installed, and was neither put in place nor refused.
    pub fn is_installing(&self, log: LogId) -> bool {
        self.groups.get(&log).is_some_and(Group::is_installing)
    }

    /// The snapshot that was to be installed is on disk, and its state is here.
    pub fn installed(&self, log: LogId) {
        self.with(log, |group| {
            group.installed();
            true
        });
    }

    /// The snapshot that was to be installed cannot be had: the replica ends ([`Role::Mute`]).
    pub fn refuse_install(&self, log: LogId) {
        self.with(log, |group| {
            group.refuse_install();
            true
        });
    }

    /// So many more writes of a log are on disk, in the order in which they were handed out.
    pub fn written(&self, log: LogId, count: usize) {
        self.with(log, |group| {
            group.store().written(count);
            true
        });
    }

    /// A message came.
    pub fn receive(&self, message: Message) {
        let Some(group) = self.groups.get(&message.log).filter(|group| group.me() == message.to) else {
            return;
        };
        self.executor.enter(|| match message.body {
            Body::Ask(_) => group.asked(&self.executor, &self.post, message),
            Body::Answer(answer) => {
                self.post.borrow_mut().answered(message.log, message.from, message.call, answer);
            }
        });
    }

    fn with(&self, log: LogId, work: impl FnOnce(&Group) -> bool) -> bool {
        self.groups.get(&log).is_some_and(|group| self.executor.enter(|| work(group)))
    }

    /// Does all there is to do at this time.
    pub fn turn(&mut self, now: Now, output: &mut Output) {
        self.executor.run(now.mono_ns);
        let Consensus { groups, executor, agreed, .. } = self;
        executor.enter(|| {
            for (log, group) in groups {
                output.writes.extend(group.take_writes().into_iter().map(|write| (*log, write)));
                group.take_agreed(agreed);
                output.agreed.extend(agreed.drain(..).map(|entry| (*log, entry)));
                output.offers.extend(group.take_offers().into_iter().map(|offer| (*log, offer)));
                output.installs.extend(group.take_installing().map(|installing| (*log, installing)));
                output.roles.extend(group.take_role().map(|role| (*log, role)));
            }
        });
        output.messages.append(&mut self.post.borrow_mut().out);
    }

    /// When there is something to do though nothing comes, monotonic nanoseconds; 0: at once.
    pub fn deadline(&self) -> Option<u64> {
        if self.executor.has_ready() { Some(0) } else { self.executor.deadline() }
    }

    /// The part of a replica, as it was told last.
    pub fn role(&self, log: LogId) -> Option<Role> {
        self.groups.get(&log).map(Group::role)
    }

    /// The replica that leads a log, as far as is known here.
    pub fn leader(&self, log: LogId) -> Option<ReplicaId> {
        self.groups.get(&log)?.leader()
    }

    /// When the leader here last heard of a majority, monotonic nanoseconds; none: it does not lead.
    pub fn heard_ns(&self, log: LogId) -> Option<u64> {
        self.groups.get(&log)?.heard_ns()
    }

    /// Where the records end of all that a replica has, agreed on or not.
    pub fn end(&self, log: LogId) -> Option<LogIndex> {
        self.groups.get(&log).map(Group::end_index)
    }

    /// Why a replica is mute.
    pub fn why_mute(&self, log: LogId) -> Option<String> {
        self.groups.get(&log)?.end()
    }
}

impl Drop for Consensus {
    fn drop(&mut self) {
        let groups = std::mem::take(&mut self.groups);
        self.executor.enter(|| drop(groups));
        let tasks = Rc::clone(&self.executor);
        self.executor.enter(|| tasks.end());
    }
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.groups.iter().map(|(log, group)| (log, group.role()))).finish()
    }
}
