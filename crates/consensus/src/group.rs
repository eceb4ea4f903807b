//! One replica of a log, with the engine's tasks for it.

use crate::engine::{
    Proposal, Respond, Types, config, from_appended, from_transferred, from_vote, from_voted, to_append,
    to_candidacy, to_snapshot, to_transfer, to_vote,
};
use crate::entry::{Entry, EntryId, Members, ReplicaId, Vote};
use crate::executor::Executor;
use crate::machine::{Installing, Machine, Offer, Told};
use crate::mark;
use crate::message::{Answer, Body, Install, Message, Request, SnapshotName};
use crate::network::{Post, Way};
use crate::settings::Settings;
use crate::store::{Store, Write};
use base::id::{LogId, LogIndex};
use journal::Sealed;
use openraft::async_runtime::WatchReceiver;
use openraft::vote::leader_id_std::CommittedLeaderId;
use openraft::{ChangeMembers, Raft, ServerState};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// The state that a replica comes up with.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Its last promise.
    pub vote: Option<Vote>,
    /// The snapshot that it has.
    pub snapshot: SnapshotName,
    /// All that another replica needs to have that.
    pub manifest: Vec<u8>,
    /// All entries behind the snapshot, in order. None where those of the journal do not go on from it.
    pub entries: Vec<Entry>,
    /// It is known that all up to this one is agreed on.
    pub agreed: Option<EntryId>,
}

impl Recovered {
    /// From the snapshot of a log, and what its journal has behind that.
    pub fn new(snapshot: SnapshotName, manifest: Vec<u8>, journal: &mark::Recovered) -> Recovered {
        let entries: Vec<Entry> = journal.entries.iter().map(mark::Found::to_entry).collect();
        let is_agreed = |id: &&EntryId| journal.agreed.is_some_and(|agreed| id.index <= agreed);
        let agreed = entries.iter().map(|entry| &entry.id).take_while(is_agreed).last().copied();
        Recovered { vote: journal.vote, agreed: agreed.or(snapshot.last), snapshot, manifest, entries }
    }
}

/// The part of a replica in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It proposes entries, in this term. All that earlier leaders agreed on comes before what it proposes.
    Leads {
        /// The term.
        term: u64,
    },
    /// Another does, or nobody.
    #[default]
    Follows,
    /// Its engine has ended: it takes part in nothing until it comes up again.
    Mute,
}

type Engine = Raft<Types, Machine>;

/// Proposals on their way into the engine, and those in it.
#[derive(Default)]
struct Proposing {
    /// In order; the engine takes one after the other.
    queue: RefCell<VecDeque<(u64, Sealed)>>,
    is_handing_in: Cell<bool>,
    /// Handed to the engine, or on their way, without an outcome.
    count: Cell<usize>,
    /// One of them was refused, which was not told yet: those behind it are no good either.
    is_refused: Cell<bool>,
}

/// A proposal without an outcome.
struct Pending {
    proposing: Rc<Proposing>,
    is_agreed: bool,
}

impl Pending {
    fn new(proposing: &Rc<Proposing>) -> Pending {
        Pending { proposing: Rc::clone(proposing), is_agreed: false }
    }

    fn ends(mut self, is_agreed: bool) {
        self.is_agreed = is_agreed;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.proposing.count.set(self.proposing.count.get() - 1);
        if !self.is_agreed {
            self.proposing.is_refused.set(true);
        }
    }
}

/// Members that are to be.
#[derive(Default)]
struct Changing {
    /// To be asked for when the change that is under way has ended.
    next: RefCell<Option<Members>>,
    is_under_way: Cell<bool>,
}

/// See the module.
pub(crate) struct Group {
    log: LogId,
    me: ReplicaId,
    store: Store,
    told: Rc<RefCell<Told>>,
    /// Once it is up.
    engine: Rc<OnceCell<Engine>>,
    /// It did not come up.
    is_dead: Rc<Cell<bool>>,
    proposing: Rc<Proposing>,
    changing: Rc<Changing>,
    role: Role,
}

impl Group {
    /// Begins a replica's tasks.
    ///
    /// # Errors
    /// What it comes up with does not fit together.
    pub(crate) fn new(
        log: LogId,
        me: ReplicaId,
        recovered: Recovered,
        settings: &Settings,
        executor: &Rc<Executor>,
        post: &Rc<RefCell<Post>>,
    ) -> Result<Group, String> {
        let snapshot = recovered.snapshot.clone();
        let store = Store::new(recovered, settings.message_bytes_max)?;
        let told = Rc::<RefCell<Told>>::default();
        let machine = Machine::new(&snapshot, store.clone(), Rc::clone(&told));
        let Settings { retry_ms, answer_ms, .. } = *settings;
        let way = Way { post: Rc::clone(post), log, from: me, to: me, retry_ms, answer_ms };
        let config = config(settings).validate().map_err(|error| error.to_string())?;
        let engine = Rc::<OnceCell<Engine>>::default();
        let is_dead = Rc::<Cell<bool>>::default();
        let (coming, died, log_store) = (Rc::clone(&engine), Rc::clone(&is_dead), store.clone());
        executor.spawn(async move {
            match Raft::new(me, Arc::new(config), way, log_store, machine).await {
                Ok(engine) => _ = coming.set(engine),
                Err(_) => died.set(true),
            }
        });
        let (proposing, changing) = Default::default();
        Ok(Group { log, me, store, told, engine, is_dead, proposing, changing, role: Role::Follows })
    }

    pub(crate) fn me(&self) -> ReplicaId {
        self.me
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    fn spawn<F>(&self, executor: &Executor, work: impl FnOnce(Engine) -> F) -> bool
    where
        F: Future<Output = ()> + 'static,
    {
        let engine = self.engine.get();
        if let Some(engine) = engine {
            executor.spawn(work(engine.clone()));
        }
        engine.is_some()
    }

    /// The log begins with these members, unless it has begun.
    pub(crate) fn found(&self, executor: &Executor, voters: BTreeSet<ReplicaId>) -> bool {
        self.spawn(executor, |engine| async move {
            // One that has begun refuses.
            let _has_begun = engine.initialize(voters).await;
        })
    }

    /// Proposes a batch, as the leader of this term.
    pub(crate) fn propose(&self, executor: &Executor, term: u64, batch: Sealed) {
        self.proposing.queue.borrow_mut().push_back((term, batch));
        self.proposing.count.set(self.proposing.count.get() + 1);
        if self.proposing.is_handing_in.replace(true) {
            return;
        }
        let (proposing, engine) = (Rc::clone(&self.proposing), Rc::clone(&self.engine));
        executor.spawn(async move {
            loop {
                let next = proposing.queue.borrow_mut().pop_front();
                let Some((term, batch)) = next else { break };
                let pending = Pending::new(&proposing);
                let Some(engine) = engine.get() else { continue };
                let respond = Respond(Box::new(move |result: Result<_, _>| pending.ends(result.is_ok())));
                let request = engine.write(Proposal::new(batch)).with_leader(CommittedLeaderId::new(term));
                // A request that is not taken drops what responds.
                let _has_ended = request.responder(respond).await;
            }
            proposing.is_handing_in.set(false);
        });
    }

    /// Whether something that was proposed has no outcome.
    pub(crate) fn has_proposals(&self) -> bool {
        self.proposing.count.get() > 0
    }

    /// Changes the members to these: those who vote, in two steps, and those who only follow, afterwards. One change at a
    /// time: of those that come meanwhile, the last is next.
    pub(crate) fn change_members(&self, executor: &Executor, members: Members) -> bool {
        if self.engine.get().is_none() {
            return false;
        }
        self.changing.next.replace(Some(members));
        if self.changing.is_under_way.replace(true) {
            return true;
        }
        let (me, changing) = (self.me, Rc::clone(&self.changing));
        self.spawn(executor, |engine| async move {
            loop {
                let next = changing.next.take();
                let Some(members) = next else { break };
                change(&engine, me, members).await;
            }
            changing.is_under_way.set(false);
        })
    }

    /// Has another lead.
    pub(crate) fn transfer(&self, executor: &Executor, to: ReplicaId) -> bool {
        self.spawn(executor, |engine| async move { _ = engine.trigger().transfer_leader(to).await })
    }

    /// Asks for votes now.
    pub(crate) fn elect(&self, executor: &Executor) -> bool {
        self.spawn(executor, |engine| async move { _ = engine.trigger().elect(true).await })
    }

    /// A snapshot of this name was made, and is on disk; entries up to `purge` may go.
    pub(crate) fn snapshot_made(
        &self,
        executor: &Executor,
        name: &SnapshotName,
        manifest: Vec<u8>,
        purge: Option<u64>,
    ) -> Result<(), String> {
        if !name.last.is_none_or(|last| self.is_on_disk(last.index)) {
            return Err("a snapshot was there before all that it covers".into());
        }
        let snapshot = crate::engine::Snapshot { end: name.end, manifest };
        self.store.with(|kept| kept.keep_snapshot(crate::engine::to_meta(name), snapshot))?;
        self.spawn(executor, |engine| async move {
            let is_taken = engine.trigger().snapshot().await;
            if let (Ok(()), Some(upto)) = (is_taken, purge) {
                let _ended = engine.trigger().purge_log(upto).await;
            }
        });
        Ok(())
    }

    /// Snapshots that leaders have, since the last call.
    pub(crate) fn take_offers(&self) -> Vec<Offer> {
        std::mem::take(&mut self.told.borrow_mut().offers)
    }

    /// All is here that it takes to have a snapshot, which a leader with this vote offered, or a later one of the same log.
    pub(crate) fn install(&self, executor: &Executor, vote: Vote, installing: Installing) -> bool {
        if self.told.borrow().is_asked {
            return false;
        }
        let told = Rc::clone(&self.told);
        let Installing { snapshot, manifest } = installing;
        let install = Install { vote, snapshot, manifest };
        let is_up = self.spawn(executor, |engine| async move {
            let _told_by_what_it_installs =
                engine.install_full_snapshot(to_vote(vote), to_snapshot(install)).await;
            told.borrow_mut().is_asked = false;
        });
        self.told.borrow_mut().is_asked = is_up;
        is_up
    }

    /// The engine was asked to install a snapshot, and has not answered.
    pub(crate) fn is_installing(&self) -> bool {
        self.told.borrow().is_asked
    }

    /// The last of the entries up to `covered` that may be let go of, where `entries` of those behind it stay, or as many as have
    /// `bytes` of records.
    pub(crate) fn needless(&self, covered: u64, entries: u64, bytes: usize) -> Option<u64> {
        self.store.with(|kept| kept.needless(covered, entries, bytes))
    }

    /// The snapshot that was to be installed is on disk, and its state is here.
    pub(crate) fn installed(&self) {
        let install = self.told.borrow_mut().installing.take();
        if let Some(install) = install {
            let _the_task_may_be_gone = install.done.send(());
        }
    }

    /// The snapshot that was to be installed cannot be: the replica ends.
    pub(crate) fn refuse_install(&self) {
        // The task that waits for it hears that nobody will ever say that it is there.
        self.told.borrow_mut().installing = None;
    }

    /// The snapshot to be installed, once, when its place on disk is free.
    pub(crate) fn take_installing(&self) -> Option<Installing> {
        let mut told = self.told.borrow_mut();
        let install = told.installing.as_mut().filter(|install| !install.is_told)?;
        install.is_told = self.store.with(|kept| kept.has_written(install.after));
        install.is_told.then(|| install.installing.clone())
    }

    /// Whether no entry up to this index is still to be written.
    pub(crate) fn is_on_disk(&self, index: u64) -> bool {
        self.store.with(|kept| kept.is_on_disk(index))
    }

    /// Takes entries that are agreed on since the last call, in order.
    pub(crate) fn take_agreed(&self, into: &mut Vec<Entry>) {
        into.extend(self.told.borrow_mut().agreed.drain(..));
    }

    /// Takes writes to be journaled since the last call, in order.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        self.store.take_writes()
    }

    /// A question came: it is answered when the engine has done so.
    pub(crate) fn asked(&self, executor: &Executor, post: &Rc<RefCell<Post>>, message: Message) {
        let Message { log, from, to, call, body: Body::Ask(request) } = message else { return };
        let post = Rc::clone(post);
        if !crate::message::is_sound(from, &request) {
            return;
        }
        if let Request::Install(Install { vote, snapshot, manifest }) = &request
            && snapshot.last > self.told.borrow().applied
        {
            // It takes a while to have it, and the engine would answer nothing else meanwhile.
            let installing = Installing { snapshot: snapshot.clone(), manifest: manifest.clone() };
            self.told.borrow_mut().offers.push(Offer { from, vote: *vote, installing });
            let body = Body::Answer(Answer::Unable);
            return post.borrow_mut().out.push(Message { log, from: to, to: from, call, body });
        }
        self.spawn(executor, |engine| async move {
            let answer = answer(&engine, request).await;
            let body = Body::Answer(answer.unwrap_or(Answer::Unable));
            post.borrow_mut().out.push(Message { log, from: to, to: from, call, body });
        });
    }

    /// Looks at the engine: its role, if that is another since the last call.
    pub(crate) fn take_role(&mut self) -> Option<Role> {
        let mut role = self.look();
        if self.proposing.is_refused.get() && matches!(role, Role::Leads { .. }) {
            // It leads again, in the same term or another, when all that it proposed has an outcome, and that was told.
            let is_told = self.role == Role::Follows;
            if is_told && self.proposing.count.get() == 0 {
                self.proposing.is_refused.set(false);
            } else {
                role = Role::Follows;
            }
        }
        let changed = role != self.role;
        self.role = role;
        changed.then_some(role)
    }

    fn look(&self) -> Role {
        if self.is_dead.get() {
            return Role::Mute;
        }
        let Some(engine) = self.engine.get() else { return Role::Follows };
        let metrics = engine.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.running_state.is_err() {
            return Role::Mute;
        }
        let vote = from_vote(&metrics.vote);
        let leads = metrics.state == ServerState::Leader
            && vote.is_won
            && vote.candidate == self.me
            // The entry with which it began its term is applied, and with it all before.
            && metrics.last_applied.is_some_and(|applied| **applied.committed_leader_id() == vote.term);
        if leads { Role::Leads { term: vote.term } } else { Role::Follows }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// When a majority was last heard, monotonic nanoseconds; none: never, or it does not lead.
    pub(crate) fn heard_ns(&self) -> Option<u64> {
        let metrics = self.engine.get()?.metrics();
        let metrics = metrics.borrow_watched();
        metrics.last_quorum_acked.map(|at| at.into_inner().ns())
    }

    /// The replica that leads, as far as is known here.
    pub(crate) fn leader(&self) -> Option<ReplicaId> {
        self.engine.get()?.metrics().borrow_watched().current_leader
    }

    /// The error with which the engine ended.
    pub(crate) fn end(&self) -> Option<String> {
        let metrics = self.engine.get()?.metrics();
        let metrics = metrics.borrow_watched();
        metrics.running_state.as_ref().err().map(|error| format!("{:?}: {error}", self.log))
    }

    /// Where the records end of all that it has.
    pub(crate) fn end_index(&self) -> LogIndex {
        self.store.end()
    }
}

/// The members of the last entry that says so.
fn replicas_of(engine: &Engine) -> BTreeSet<ReplicaId> {
    let metrics = engine.metrics();
    let metrics = metrics.borrow_watched();
    metrics.membership_config.membership().nodes().map(|(replica, _)| *replica).collect()
}

/// Takes the steps to these members, if this replica leads.
async fn change(engine: &Engine, me: ReplicaId, members: Members) {
    let wanted = members.all();
    let voters: BTreeSet<ReplicaId> = members.voters.into_iter().flatten().collect();
    let of = |replicas: &BTreeSet<ReplicaId>| {
        replicas.iter().map(|replica| (*replica, openraft::EmptyNode {})).collect::<BTreeMap<_, _>>()
    };
    // A leader that does not vote any more is about to go, and the engine takes no changes from it: the next one is asked.
    // The truth is told by entries: a step that is refused is no reason to leave out the next.
    if let [_, last] = &sets_of(engine)[..] {
        // A change whose leader went in its midst is ended first: else the first set may go with this leader in it.
        let _ended = engine.change_membership(last.clone(), false).await;
    }
    let new: BTreeSet<ReplicaId> = voters.difference(&replicas_of(engine)).copied().collect();
    if !new.is_empty() && votes(engine, me) {
        let _ended = engine.change_membership(ChangeMembers::AddNodes(of(&new)), false).await;
    }
    if votes(engine, me) {
        let _ended = engine.change_membership(voters, false).await;
    }
    // One that voted and is to follow went with the voters, and one that followed and is to go did not.
    if votes(engine, me) && replicas_of(engine) != wanted {
        let _ended = engine.change_membership(ChangeMembers::ReplaceAllNodes(of(&wanted)), false).await;
    }
}

/// The sets of voters of the last entry that says so.
fn sets_of(engine: &Engine) -> Vec<BTreeSet<ReplicaId>> {
    let metrics = engine.metrics();
    let metrics = metrics.borrow_watched();
    metrics.membership_config.membership().get_joint_config().clone()
}

/// Whether a replica votes by the last entry that says so.
fn votes(engine: &Engine, replica: ReplicaId) -> bool {
    sets_of(engine).iter().any(|voters| voters.contains(&replica))
}

async fn answer(engine: &Engine, request: Request) -> Option<Answer> {
    Some(match request {
        Request::Append(append) => from_appended(engine.append_entries(to_append(append)).await.ok()?),
        Request::Vote(candidacy) => from_voted(&engine.vote(to_candidacy(candidacy)).await.ok()?),
        Request::PreVote(candidacy) => from_voted(&engine.pre_vote(to_candidacy(candidacy)).await.ok()?),
        Request::Transfer(transfer) => {
            from_transferred(engine.handle_transfer_leader(to_transfer(transfer)).await.ok()?)
        }
        Request::Install(install) => {
            let vote = to_vote(install.vote);
            let done = engine.install_full_snapshot(vote, to_snapshot(install)).await.ok()?;
            Answer::Installed(from_vote(&done.vote))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_leaves_nothing_behind() {
        let check = |end: fn(Pending), is_refused: bool| {
            let proposing = Rc::<Proposing>::default();
            proposing.count.set(1);
            end(Pending::new(&proposing));
            assert_eq!((proposing.count.get(), proposing.is_refused.get()), (0, is_refused));
            assert_eq!(Rc::strong_count(&proposing), 1);
        };
        check(|pending| pending.ends(true), false);
        check(|pending| pending.ends(false), true);
        check(drop, true);
    }
}
