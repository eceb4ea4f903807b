//! The room between a shard and the replicas of its logs on this node.
//!
//! Batches that the shard gives out of such a log are proposed. What a replica promises and appends is journaled, in batches
//! with marks; what is agreed on and on this disk is applied, once and in order. Roles of replicas become those of logs.
//! Invariants: the shard hears of an entry once it is both agreed on and on this disk; it leads a log while a majority was
//! heard of late, and begins to only when all that its replica has is applied, so that nothing it proposed has an outcome to
//! come.
//! Not here: how replicas agree (`consensus`), what records mean (`broker`), where messages go.

use crate::commit::Written;
use crate::snapped::{Arrival, Part, Snapped};
use crate::word::Word;
use base::brief;
use base::id::{LogId, LogIndex, NodeNo};
use base::time::NS_PER_MS;
use base::{Now, Pieces, Sink};
use broker::{CATALOG_LOG, LogSnapshot, Shard};
use consensus::mark::Note;
use consensus::standing::Standing;
use consensus::{Consensus, Content, Entry, EntryId, Installing, Message, Output, ReplicaId, Role, Settings};
use consensus::{SnapshotName, Vote, Write};
use journal::{FileId, Place, Sealed};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Milliseconds between two tries to begin a log.
const FOUND_MS: u64 = 200;

/// The same while its replica is not up.
const COMES_UP_MS: u64 = 5;

/// A replica that comes up: see [`Replicas::open`].
#[derive(Debug)]
pub struct Coming {
    /// The log.
    pub log: LogId,
    /// The state of the replica.
    pub recovered: consensus::Recovered,
    /// Its entries that the shard has not applied, and where those are.
    pub places: Vec<(EntryId, Place)>,
    /// Where the records of all it has end.
    pub end: LogIndex,
    /// How far the shard is.
    pub applied: Applied,
}

/// How far a shard is in the entries of a log.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The last entry, the end of the records, and the members there.
    pub name: SnapshotName,
    /// No entry behind that is in a journal file before this one.
    pub file: FileId,
}

impl Applied {
    /// The next entry is applied, which is at `place`.
    pub(crate) fn pass(&mut self, Entry { id, content }: &Entry, place: Place) {
        self.name.last = Some(*id);
        match content {
            Content::Batch(batch) => self.name.end = batch.next(),
            Content::Members(members) => {
                (self.name.members, self.name.members_at) = (members.clone(), Some(*id));
            }
            Content::Blank => {}
        }
        self.file = place.file;
    }
}

/// A leader of another node has let go of entries that a replica lacks: the state of the log is to be had there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanting {
    /// The log.
    pub log: LogId,
    /// The node.
    pub from: NodeNo,
    /// It is to cover this entry.
    pub least: EntryId,
}

/// A batch that is handed in to be journaled.
#[derive(Clone, Copy, Debug)]
struct Expected {
    base: LogIndex,
    /// It is this entry, or the last part of it.
    entry: Option<EntryId>,
    /// It is this promise.
    vote: Option<Vote>,
    /// It is the last of its write.
    ends: bool,
}

/// A replica and its log.
#[derive(Debug)]
struct Hosted {
    me: ReplicaId,
    /// Those it begins the log with, as long as nothing is agreed on.
    founders: Option<BTreeSet<ReplicaId>>,
    /// When it tries next.
    found_at: u64,
    /// Where the records end of what was handed in to be journaled.
    end: LogIndex,
    /// Handed in and not reported.
    expected: VecDeque<Expected>,
    /// On disk here and not applied, by index.
    placed: BTreeMap<u64, (EntryId, Place)>,
    /// Agreed on and not applied.
    agreed: VecDeque<Entry>,
    /// How far the shard is.
    applied: Applied,
    /// The last promise on disk: one that is not may be lost, and a snapshot that has it would be ahead of the journal.
    vote: Option<Vote>,
    /// The name of the snapshot that was made last, until it is on disk.
    snapped: Option<SnapshotName>,
    /// The vote of the leader that offered a snapshot last.
    offered_by: Option<Vote>,
    /// A state of another node's, until the replica says when it is to be put in place.
    arrival: Option<Box<Arrival>>,
    /// Its state on disk is another than in memory: the node is about to begin anew.
    is_over: bool,
    /// The replica's part.
    role: Role,
    /// The shard leads in this term.
    leads: Option<u64>,
    /// The term in which the shard's batches were proposed last.
    proposed_in: Option<u64>,
    /// The term in which it is not to lead any more: another was asked to.
    left: Option<u64>,
}

/// The entries of a log that stay in memory although a snapshot covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// So many, at most.
    pub entries: u64,
    /// With so many bytes of records, at most.
    pub bytes: usize,
}

impl Default for Keeps {
    fn default() -> Keeps {
        Keeps { entries: 4096, bytes: 8 << 20 }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Replicas {
    consensus: Consensus,
    hosted: BTreeMap<LogId, Hosted>,
    /// Nanoseconds without a word of a majority after which another may lead.
    lease_ns: u64,
    output: Output,
    batches: Vec<Sealed>,
    /// Something was reported since the replicas did what there was to do.
    has_news: bool,
    /// Replicas that ended, and why.
    ended: Vec<(LogId, String)>,
    /// States that are in place now and are to be written, or were refused.
    installed: Vec<Option<Box<Snapped>>>,
    /// Entries that stay when a snapshot covers them, for those who are a little behind.
    keeps: Keeps,
    begins_anew: bool,
    /// How often the shard began to lead a log, and ceased to.
    changes: (u64, u64),
}

impl Replicas {
    /// Those of a shard: none so far. All chance comes of the seed; see [`Consensus::new`].
    pub fn new(settings: Settings, seed: u64, is_shuffled: bool, now: Now) -> Replicas {
        // Clocks of nodes differ by less than a tenth.
        let lease_ns = settings.election_ms.1 * NS_PER_MS / 10 * 9;
        Replicas {
            consensus: Consensus::new(settings, seed, is_shuffled, now),
            hosted: BTreeMap::new(),
            lease_ns,
            output: Output::default(),
            batches: Vec::new(),
            has_news: true,
            ended: Vec::new(),
            installed: Vec::new(),
            keeps: Keeps::default(),
            begins_anew: false,
            changes: (0, 0),
        }
    }

    /// A replica comes up, as `me`. `founders`: it begins the log with these as long as nothing is in it.
    ///
    /// # Errors
    /// What it comes up with does not fit together.
    pub fn open(
        &mut self,
        me: ReplicaId,
        coming: Coming,
        founders: Option<BTreeSet<ReplicaId>>,
    ) -> Result<(), String> {
        let Coming { log, recovered, places, end, applied } = coming;
        let placed = brief::collect(places.into_iter().map(|(id, place)| (id.index, (id, place))));
        let vote = recovered.vote;
        self.consensus.open(log, me, recovered)?;
        let hosted = Hosted {
            me,
            founders,
            found_at: 0,
            end,
            expected: VecDeque::new(),
            placed,
            agreed: VecDeque::new(),
            applied,
            vote,
            snapped: None,
            offered_by: None,
            arrival: None,
            is_over: false,
            role: Role::Follows,
            leads: None,
            proposed_in: None,
            left: None,
        };
        self.hosted.insert(log, hosted);
        Ok(())
    }

    /// There is a replica of this log.
    pub fn hosts(&self, log: LogId) -> bool {
        self.hosted.contains_key(&log)
    }

    /// A word of another replica.
    pub fn receive(&mut self, message: Message) {
        self.consensus.receive(message);
        self.has_news = true;
    }

    /// A batch that was handed in is on disk. Those of a log are told in the order they were handed in.
    ///
    /// # Panics
    /// When it is another.
    pub fn written(&mut self, written: &Written) {
        let Some(hosted) = self.hosted.get_mut(&written.log) else { return };
        let expected = hosted.expected.pop_front();
        let expected = expected.filter(|expected| expected.base == written.base);
        let Expected { entry, vote, ends, .. } = expected.expect("batches are reported in order");
        hosted.vote = vote.or(hosted.vote);
        if let Some(id) = entry {
            // Those behind it are of entries that it replaces.
            _ = hosted.placed.split_off(&id.index);
            hosted.placed.insert(id.index, (id, written.place));
        }
        if ends {
            self.consensus.written(written.log, 1);
        }
        self.has_news = true;
    }

    /// Ceases to lead logs of which no majority was heard of late: another may lead them, and give out what is in their
    /// queues. At the begin of a turn, before anything else.
    pub fn check_leases(&mut self, now: Now, shard: &mut Shard) {
        for (log, hosted) in &mut self.hosted {
            if hosted.leads.is_some() && !is_heard(&self.consensus, *log, self.lease_ns, now) {
                resign(*log, hosted, now, shard);
                self.changes.1 += 1;
            }
        }
    }

    /// Does what there is to do at the end of a shard's turn. Of the batches that it gave out, `batches`, those of logs with
    /// replicas are proposed, and those to be journaled for them come in their place; what is for other nodes goes to `words`, and
    /// states that are to be had from others to `wants`.
    ///
    /// # Panics
    /// When the shard gives out a batch of a log it was not told to lead.
    pub fn turn(
        &mut self,
        now: Now,
        shard: &mut Shard,
        batches: &mut Vec<Sealed>,
        (words, wants): (&mut Vec<(NodeNo, Word)>, &mut Vec<Wanting>),
    ) {
        let Replicas { consensus, hosted, .. } = &mut *self;
        for batch in batches.extract_if(.., |batch| hosted.contains_key(&batch.log)) {
            let term = hosted.get(&batch.log).and_then(|hosted| hosted.leads);
            consensus.propose(batch.log, term.expect("batches are given out of logs that are led"), batch);
        }
        self.found(now);
        let mut output = std::mem::take(&mut self.output);
        self.consensus.turn(now, &mut output);
        self.has_news = false;
        for (log, write) in output.writes.drain(..) {
            self.hand_in(now, log, &write);
        }
        batches.append(&mut self.batches);
        for (log, entry) in output.agreed.drain(..) {
            let hosted = self.hosted.get_mut(&log).expect("an open replica");
            // After a start the replica begins with its snapshot, and the shard may be further.
            if hosted.applied.name.last.is_none_or(|applied| entry.id.index > applied.index) {
                hosted.agreed.push_back(entry);
            }
        }
        for (log, role) in output.roles.drain(..) {
            self.hosted.get_mut(&log).expect("an open replica").role = role;
            if role == Role::Mute {
                self.ended.push((log, self.consensus.why_mute(log).unwrap_or_default()));
            }
        }
        for (log, offer) in output.offers.drain(..) {
            let hosted = self.hosted.get_mut(&log).expect("an open replica");
            hosted.offered_by = Some(offer.vote);
            let (from, least) = (offer.from.node(), offer.installing.snapshot.last);
            wants.extend(least.map(|least| Wanting { log, from, least }));
        }
        for (log, _) in output.installs.drain(..) {
            self.install(now, shard, log);
        }
        self.drop_refused();
        words.extend(output.messages.drain(..).map(Word::of_replica));
        self.output = output;
        for (log, hosted) in &mut self.hosted {
            let leader = self.consensus.leader(*log).filter(|leader| *leader != hosted.me);
            shard.logs_mut().heed_leader(*log, leader.map(ReplicaId::node));
            apply(*log, hosted, now, shard);
            let before = hosted.leads;
            follow_role(*log, hosted, (&self.consensus, self.lease_ns), now, shard);
            self.changes.1 += u64::from(before.is_some() && hosted.leads != before);
            self.changes.0 += u64::from(hosted.leads.is_some() && hosted.leads != before);
        }
    }

    fn hand_in(&mut self, now: Now, log: LogId, write: &Write) {
        let hosted = self.hosted.get_mut(&log).expect("an open replica");
        let from = self.batches.len();
        hosted.end = write.batches(log, hosted.end, now.wall_ms, &mut self.batches);
        let new = &self.batches[from..];
        hosted.expected.extend(new.iter().map(|batch| {
            let mark = batch.mark.expect("all batches of a replica have marks");
            let (entry, vote) = match Note::read(mark) {
                Ok(Note::Batch(id) | Note::Blank(id) | Note::Members(id)) => (Some(id), None),
                Ok(Note::Vote(vote)) => (None, Some(vote)),
                _ => (None, None),
            };
            Expected { base: batch.base, entry, vote, ends: false }
        }));
        match hosted.expected.back_mut().filter(|_| self.batches.len() > from) {
            Some(last) => last.ends = true,
            None => self.consensus.written(log, 1),
        }
    }

    /// Logs in which nothing is are begun.
    fn found(&mut self, now: Now) {
        for (log, hosted) in &mut self.hosted {
            if hosted.applied.name.last.is_some() || !hosted.agreed.is_empty() {
                hosted.founders = None;
            }
            if let Some(founders) = &hosted.founders
                && hosted.found_at <= now.mono_ns
            {
                let is_asked = self.consensus.found(*log, founders.clone());
                hosted.found_at = now.after_ms(if is_asked { FOUND_MS } else { COMES_UP_MS });
            }
        }
    }

    // ---- states of logs

    /// The entries that stay when a snapshot covers them are so many from now on.
    pub fn keep(&mut self, keeps: Keeps) {
        self.keeps = keeps;
    }

    /// The part of a replica in a snapshot that covers what its shard has applied, up to `covered`; none: it does not.
    pub fn snap(&mut self, log: LogId, covered: LogIndex) -> Option<Part> {
        let hosted = self.hosted.get_mut(&log).filter(|hosted| !hosted.is_over)?;
        (hosted.applied.name.end == covered).then(|| {
            hosted.snapped = Some(hosted.applied.name.clone());
            hosted.part()
        })
    }

    /// The parts of all replicas in the last snapshots of a node that ends; none: there is one on disk that is further.
    pub fn parts(&self) -> impl Iterator<Item = (LogId, Option<Part>)> {
        self.hosted.iter().map(|(log, hosted)| (*log, (!hosted.is_over).then(|| hosted.part())))
    }

    /// Up to where a state covers a log, all of which its shard has applied up to `covered`; none: it does not, or there is
    /// nothing.
    pub fn name(&self, log: LogId, covered: LogIndex) -> Option<SnapshotName> {
        let name = self.hosted.get(&log).map(|hosted| &hosted.applied.name)?;
        (name.last.is_some() && name.end == covered).then(|| name.clone())
    }

    /// The snapshot of a log that was made last is on disk: entries that it covers may go, but for the last of them.
    pub fn kept(&mut self, log: LogId) {
        let Some(name) = self.hosted.get_mut(&log).and_then(|hosted| hosted.snapped.take()) else { return };
        let Some(last) = name.last else { return };
        let Keeps { entries, bytes } = self.keeps;
        let needless = self.consensus.needless(log, last.index, entries, bytes);
        if let Err(why) = self.consensus.snapshot_made(log, &name, Vec::new(), needless) {
            self.ended.push((log, why));
        }
        self.has_news = true;
    }

    /// A state of another node's is here. What becomes of it is told by [`Replicas::take_installed`].
    pub fn arrive(&mut self, arrival: Box<Arrival>) {
        let Replicas { consensus, hosted, installed, .. } = self;
        let log = arrival.log;
        let Some(hosted) = hosted.get_mut(&log) else { return installed.push(None) };
        let is_wanted = hosted.leads.is_none() && arrival.name.last > hosted.applied.name.last;
        let vote = hosted.offered_by.filter(|_| is_wanted && hosted.arrival.is_none());
        let Some(vote) = vote else { return installed.push(None) };
        let installing = Installing { snapshot: arrival.name.clone(), manifest: Vec::new() };
        match consensus.install(log, vote, installing) {
            true => hosted.arrival = Some(arrival),
            false => installed.push(None),
        }
        self.has_news = true;
    }

    /// The state that was put in place is on disk.
    pub fn installed(&mut self, log: LogId) {
        if self.hosted.get(&log).is_some_and(|hosted| hosted.is_over) {
            return self.begins_anew = true;
        }
        self.consensus.installed(log);
        self.has_news = true;
    }

    /// The node is to begin anew at once, with what is on its disk: it has the catalog of another.
    pub fn begins_anew(&self) -> bool {
        self.begins_anew
    }

    /// A state that came is in place now, and is to be written, or was refused.
    pub fn take_installed(&mut self) -> Option<Option<Box<Snapped>>> {
        self.installed.pop()
    }

    /// Puts a state in place.
    fn install(&mut self, now: Now, shard: &mut Shard, log: LogId) {
        let hosted = self.hosted.get_mut(&log).expect("an open replica");
        let arrival = hosted.arrival.take().expect("the replica was told of one");
        let end = arrival.end();
        let Arrival { name, state, moved, .. } = *arrival;
        if shard.logs().stopped().contains(&log) {
            return self.refuse(log, "it is damaged here, and stays as it is".to_owned());
        }
        if log == CATALOG_LOG {
            return self.install_catalog(name, &state);
        }
        if let Err(error) = shard.replace_log(now, log, (end, &state), &moved) {
            return self.refuse(log, format!("the state that another node gave cannot be had: {error:?}"));
        }
        let last = name.last.expect("a state covers something");
        hosted.agreed.retain(|entry| entry.id.index > last.index);
        hosted.placed = hosted.placed.split_off(&(last.index + 1));
        hosted.applied.name = name;
        hosted.founders = None;
        let replica = Some(hosted.part());
        let state = shard.snapshot(log, false);
        self.installed.push(state.map(|state| Box::new(Snapped { state, replica, is_installed: true })));
    }

    /// A catalog is not put in the place of another, on which all that is in memory rests: it is written, and the node begins
    /// anew with it.
    fn install_catalog(&mut self, name: SnapshotName, state: &[u8]) {
        if !Shard::is_catalog(state) {
            return self.refuse(CATALOG_LOG, "the catalog that another node gave is none".to_owned());
        }
        let hosted = self.hosted.get_mut(&CATALOG_LOG).expect("an open replica");
        let mut bytes = Pieces::default();
        bytes.put(state);
        let state = LogSnapshot { log: CATALOG_LOG, covered: name.end, bytes };
        let from = Some(hosted.applied.file);
        let part = Part { standing: Standing { name, vote: hosted.vote }, from };
        self.installed.push(Some(Box::new(Snapped { state, replica: Some(part), is_installed: true })));
        hosted.is_over = true;
    }

    /// A state is not put in place: the replica ends, and whoever brought it hears so.
    fn refuse(&mut self, log: LogId, why: String) {
        self.consensus.refuse_install(log);
        self.ended.push((log, why));
        self.installed.push(None);
        self.has_news = true;
    }

    /// States that replicas do not want any more.
    fn drop_refused(&mut self) {
        for (log, hosted) in &mut self.hosted {
            if hosted.arrival.is_some() && !self.consensus.is_installing(*log) {
                hosted.arrival = None;
                self.installed.push(None);
            }
        }
    }

    // ---- for who leads

    /// Has another replica lead a log that this node leads. It proposes nothing more in this term.
    pub fn transfer(&mut self, now: Now, shard: &mut Shard, log: LogId, to: ReplicaId) {
        let Some(hosted) = self.hosted.get_mut(&log) else { return };
        if let Role::Leads { term } = hosted.role
            && to != hosted.me
        {
            hosted.left = Some(term);
            self.changes.1 += u64::from(hosted.leads.is_some());
            resign(log, hosted, now, shard);
            self.consensus.transfer(log, to);
            self.has_news = true;
        }
    }

    /// The last entry of a log that was applied here.
    pub fn applied(&self, log: LogId) -> Option<EntryId> {
        self.hosted.get(&log)?.applied.name.last
    }

    /// The promise of a replica that is on disk, as far as is known here.
    pub fn promised(&self, log: LogId) -> Option<Vote> {
        self.hosted.get(&log)?.vote
    }

    /// The replica that leads a log, as far as is known here.
    pub fn leader(&self, log: LogId) -> Option<ReplicaId> {
        self.consensus.leader(log)
    }

    /// The term in which the shard leads a log, and hands out what is in its queues.
    pub fn leads_in(&self, log: LogId) -> Option<u64> {
        self.hosted.get(&log)?.leads
    }

    /// How often the shard began to lead a log, and how often it ceased to.
    pub fn changes(&self) -> (u64, u64) {
        self.changes
    }

    /// Takes replicas that ended since the last call, and why.
    pub fn take_ended(&mut self) -> Vec<(LogId, String)> {
        std::mem::take(&mut self.ended)
    }

    // ---- waiting

    /// Something is to be done at once.
    pub fn has_work(&self) -> bool {
        self.has_news
    }

    /// When there is something to do though nothing comes, monotonic nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let founding = |hosted: &Hosted| hosted.founders.is_some().then_some(hosted.found_at);
        let found_at = self.hosted.values().filter_map(founding).min();
        [self.consensus.deadline(), found_at].into_iter().flatten().min()
    }

    /// Nothing that was handed in is still to be reported, and nothing agreed on is to be applied.
    pub fn is_quiet(&self) -> bool {
        let is_quiet = |hosted: &Hosted| {
            hosted.expected.is_empty() && hosted.agreed.is_empty() && hosted.arrival.is_none()
        };
        !self.has_news && self.installed.is_empty() && self.hosted.values().all(is_quiet)
    }
}

impl Hosted {
    /// Its part in a snapshot of all that the shard has applied.
    fn part(&self) -> Part {
        let Applied { name, file } = &self.applied;
        let has_all = self.expected.is_empty() && self.placed.is_empty() && self.agreed.is_empty();
        let from = (!has_all).then_some(*file);
        Part { standing: Standing { name: name.clone(), vote: self.vote }, from }
    }
}

/// Applies what is agreed on and on this disk.
fn apply(log: LogId, hosted: &mut Hosted, now: Now, shard: &mut Shard) {
    if shard.logs().stopped().contains(&log) {
        // Nobody will ever apply them here.
        hosted.agreed.clear();
        hosted.placed.clear();
        return;
    }
    while let Some(entry) = hosted.agreed.front() {
        let placed = hosted.placed.get(&entry.id.index).filter(|(id, _)| *id == entry.id);
        let Some((_, place)) = placed.copied() else { return };
        let entry = hosted.agreed.pop_front().expect("it was there");
        let Entry { id, content } = &entry;
        hosted.placed.remove(&id.index);
        if let Content::Batch(batch) = content {
            if hosted.leads.is_some() && Some(id.term) == hosted.proposed_in {
                shard.written(now, log, batch.base, place);
                shard.commit_outside(now, log, batch.next());
            } else {
                shard.apply_agreed(now, log, batch.base, batch.records(), place);
            }
        }
        hosted.applied.pass(&entry, place);
    }
}

/// The shard leads the log, or ceases to, as the replica does.
fn follow_role(
    log: LogId,
    hosted: &mut Hosted,
    (consensus, lease_ns): (&Consensus, u64),
    now: Now,
    shard: &mut Shard,
) {
    let leads = match hosted.role {
        // A log that is damaged serves nobody.
        Role::Leads { .. } if shard.logs().stopped().contains(&log) => None,
        Role::Leads { term } => Some(term).filter(|term| hosted.left != Some(*term)),
        Role::Follows | Role::Mute => None,
    };
    if hosted.leads.is_some() && hosted.leads != leads {
        resign(log, hosted, now, shard);
    }
    let Some(term) = leads.filter(|_| hosted.leads.is_none()) else { return };
    let is_all_applied = hosted.agreed.is_empty()
        && !consensus.has_proposals(log)
        && consensus.end(log) == shard.logs().applied(log);
    if is_all_applied && is_heard(consensus, log, lease_ns, now) {
        (hosted.leads, hosted.proposed_in) = (Some(term), Some(term));
        shard.lead(now, log);
    }
}

fn resign(log: LogId, hosted: &mut Hosted, now: Now, shard: &mut Shard) {
    if hosted.leads.take().is_some() {
        shard.resign(now, log);
        shard.logs_mut().forget_reports(log);
    }
}

/// A majority was heard of late.
fn is_heard(consensus: &Consensus, log: LogId, lease_ns: u64, now: Now) -> bool {
    consensus.heard_ns(log).is_some_and(|heard| now.mono_ns < heard + lease_ns)
}

#[cfg(test)]
mod tests;
