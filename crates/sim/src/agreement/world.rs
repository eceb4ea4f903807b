//! The bed: nodes, what is under way between them, and time.

use super::checks::{Checks, number_of};
use super::disk::{Disk, Saved};
use super::faults::Faults;
use super::member::{Hosted, Member};
use super::state::State;
use super::{AgreementTally, Planted};
use crate::oracle::Check;
use crate::trace::Trace;
use base::id::{LogId, NodeNo};
use base::{Buffer, Random};
use consensus::{
    Consensus, Content, Entry, Installing, Members, Message, Offer, Output, ReplicaId, Role, Settings, Write,
    codec,
};
use journal::Batch;
use std::collections::{BTreeMap, BTreeSet};

/// Microseconds of faults, and until all must be well behind them.
const FAULTY_US: u64 = 4_000_000;
const MENDED_US: u64 = 10_000_000;
/// Microseconds after all was mended until which each log takes proposals again.
const SERVING_US: u64 = 3_000_000;
/// Microseconds after all was mended until which something is proposed.
const LAST_PROPOSAL_US: u64 = 5_000_000;

/// Microseconds that a proposal waits, at most, for the turn of its node.
const PATIENCE_US: u64 = 2000;

/// Microseconds between looks at members that are half changed.
const RECONCILE_US: u64 = 300_000;

/// An event at a time.
#[derive(Debug)]
enum Event {
    Arrives(Message),
    Flushed { node: usize, life: u64 },
    Wakes { node: usize, life: u64 },
    Fetched { node: usize, life: u64, log: LogId, offer: Offer },
    Propose(LogId),
    Snapshot(LogId),
    Reconcile,
    Fault,
}

/// The message that a node reads where another sent this one.
fn recoded(message: &Message) -> Result<Message, String> {
    let (limits, mut bytes) = (codec::Limits::default(), base::Output::default());
    codec::write(message, &limits, &mut bytes)
        .map_err(|fault| format!("{message:?} is not written: {fault}"))?;
    codec::read(&bytes.to_vec(), &limits).map_err(|fault| format!("{message:?} is not read: {fault}"))
}

/// See the module.
pub struct World {
    planted: Option<Planted>,
    dice: Random,
    faults: Faults,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    members: Vec<Member>,
    logs: Vec<LogId>,
    /// Messages from the first to the second are lost.
    cut: BTreeSet<(usize, usize)>,
    checks: Checks,
    is_shuffled: bool,
    /// Messages go as bytes.
    is_coded: bool,
    is_mended: bool,
    /// Members that were asked for last, of each log.
    wishes: BTreeMap<LogId, Members>,
    proposals: u64,
    pub trace: Trace,
    pub tally: AgreementTally,
}

impl World {
    /// That of a seed.
    pub fn new(seed: u64, planted: Option<Planted>, trace_lines: usize) -> World {
        let mut dice = Random::new(seed);
        let nodes = if dice.one_in(3) { 5 } else { 3 };
        let faults = Faults::roll(&mut dice);
        // Promises that are lost, and early snapshots, are the model's to lose.
        let is_journaled = faults.is_journaled() && planted.is_none();
        let mut member = |number| {
            let clock = (dice.below(1_000_000_000), dice.below(500));
            Member::new(NodeNo(number), clock, Disk::new(is_journaled.then(|| dice.bits())))
        };
        let members = (1..=nodes).map(&mut member).collect();
        let logs = (0..=dice.below(3) as u32).map(LogId).collect();
        World {
            planted,
            is_shuffled: dice.one_in(2),
            is_coded: faults.is_journaled(),
            faults,
            now: 0,
            events: BTreeMap::new(),
            numbers: 0,
            members,
            logs,
            cut: BTreeSet::new(),
            checks: Checks::default(),
            is_mended: false,
            wishes: BTreeMap::new(),
            proposals: 0,
            trace: Trace::new(trace_lines),
            tally: AgreementTally::default(),
            dice,
        }
    }

    /// All of it.
    pub fn run(&mut self) -> Check {
        for node in 0..self.members.len() {
            self.begin(node)?;
        }
        for log in self.logs.clone() {
            self.found(log)?;
            self.schedule(1, Event::Propose(log));
            if self.faults.snapshot_us > 0 {
                self.schedule(self.faults.snapshot_us, Event::Snapshot(log));
            }
        }
        self.schedule(self.faults.every_us, Event::Fault);
        self.run_until(FAULTY_US, |_| false)?;
        let mended = self.now;
        self.mend()?;
        let before: Vec<_> =
            self.logs.iter().map(|log| self.checks.last(*log).map(|last| last.index)).collect();
        let serves = |world: &World| {
            let mut logs = world.logs.iter().zip(&before);
            logs.all(|(log, before)| world.checks.last_batch(*log) > *before)
        };
        self.run_until(FAULTY_US + SERVING_US, serves)?;
        if !serves(self) {
            return Err(format!(
                "nothing was agreed on in {} s after all was mended",
                SERVING_US / 1_000_000
            ));
        }
        self.tally.serving_us = self.now - mended;
        let is_well = |world: &World| world.logs.iter().all(|log| world.is_well(*log));
        self.run_until(FAULTY_US + MENDED_US, is_well)?;
        if is_well(self) {
            return Ok(());
        }
        let states: Vec<String> = self.members.iter().map(|member| self.describe(member)).collect();
        Err(format!("all was mended {} s ago, and it is not well: {states:#?}", MENDED_US / 1_000_000))
    }

    fn describe(&self, member: &Member) -> String {
        let logs: Vec<String> = member
            .logs
            .iter()
            .map(|(log, hosted)| {
                let consensus = member.consensus.as_ref();
                let role = consensus.and_then(|consensus| consensus.role(*log));
                let why = consensus.and_then(|consensus| consensus.why_mute(*log));
                format!("{log:?} {role:?} {why:?} applied {:?}", hosted.state.last)
            })
            .collect();
        format!("{:?}: {logs:?}", member.node)
    }

    /// Somebody leads, the members are those that were asked for, and all have applied the same.
    fn is_well(&self, log: LogId) -> bool {
        let Some(leader) = self.members.iter().find(|member| member.leads(log)) else { return false };
        let members = &leader.logs[&log].state.members;
        let last = self.checks.last(log);
        members.voters.len() == 1
            && self.wishes.get(&log).is_none_or(|wish| wish == members)
            && members.all().iter().all(|replica| {
                let member = &self.members[usize::from(replica.node().0) - 1];
                member.logs.get(&log).is_some_and(|hosted| hosted.state.last == last)
            })
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now + after, self.numbers), event);
    }

    fn run_until(&mut self, end: u64, is_done: impl Fn(&World) -> bool) -> Check {
        while let Some(next) = self.events.first_entry() {
            if next.key().0 > end || is_done(self) {
                break;
            }
            let Some(((at, _), event)) = self.events.pop_first() else { break };
            self.now = at;
            self.happen(event)?;
        }
        Ok(())
    }

    fn is_current(&self, node: usize, life: u64) -> bool {
        self.members[node].life == life && self.members[node].consensus.is_some()
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Arrives(message) => {
                let node = usize::from(message.to.node().0) - 1;
                if self.members[node].still_until > self.now {
                    let after = self.members[node].still_until - self.now;
                    self.schedule(after, Event::Arrives(message));
                    return Ok(());
                }
                if let Some(consensus) = &self.members[node].consensus {
                    consensus.receive(message);
                    self.turn(node)?;
                }
            }
            Event::Flushed { node, life } => {
                if self.is_current(node, life) {
                    let now = self.members[node].time(self.now);
                    let told = self.members[node].disk.flushed(now.wall_ms)?;
                    for (log, count) in told {
                        self.consensus(node)?.written(log, count);
                    }
                    self.begin_flush(node);
                    self.turn(node)?;
                }
            }
            Event::Wakes { node, life } => {
                if self.is_current(node, life) && self.members[node].wakes_at.is_some_and(|at| at <= self.now)
                {
                    self.members[node].wakes_at = None;
                    self.turn(node)?;
                }
            }
            Event::Fetched { node, life, log, offer: Offer { vote, installing, .. } } => {
                if self.is_current(node, life) {
                    self.consensus(node)?.install(log, vote, installing);
                    self.turn(node)?;
                }
            }
            Event::Propose(log) => {
                self.propose(log)?;
                let after = 1 + self.dice.below(2 * self.faults.propose_us);
                if self.now + after < FAULTY_US + LAST_PROPOSAL_US {
                    self.schedule(after, Event::Propose(log));
                }
            }
            Event::Snapshot(log) => {
                let node = self.dice.below(self.members.len() as u64) as usize;
                self.snapshot(node, log)?;
                let after = 1 + self.dice.below(2 * self.faults.snapshot_us);
                self.schedule(after, Event::Snapshot(log));
            }
            Event::Reconcile => {
                self.reconcile()?;
                self.schedule(RECONCILE_US, Event::Reconcile);
            }
            Event::Fault if !self.is_mended => {
                self.fault()?;
                let after = 1 + self.dice.below(2 * self.faults.every_us);
                self.schedule(after, Event::Fault);
            }
            Event::Fault => {}
        }
        Ok(())
    }

    fn consensus(&mut self, node: usize) -> Result<&mut Consensus, String> {
        self.members[node].consensus.as_mut().ok_or_else(|| format!("node {node} is down"))
    }

    // ---- nodes

    /// A node comes up.
    fn begin(&mut self, node: usize) -> Check {
        let settings = Settings {
            restores_leaders: self.planted == Some(Planted::RestoredLeaders),
            ..Settings::default()
        };
        let seed = self.dice.bits();
        let member = &mut self.members[node];
        member.life += 1;
        (member.still_until, member.wakes_at) = (0, None);
        member.disk.open()?;
        let mut consensus = Consensus::new(settings, seed, self.is_shuffled, member.time(self.now));
        for log in &self.logs {
            let recovered = member.disk.recover(*log)?;
            let state = State::restored(&Saved {
                name: recovered.snapshot.clone(),
                state: recovered.manifest.clone(),
            });
            consensus.open(*log, member.replica(), recovered)?;
            member.logs.insert(*log, Hosted { state, ..Hosted::default() });
        }
        member.consensus = Some(consensus);
        self.note(format!("{node} is up"));
        self.turn(node)
    }

    fn crash(&mut self, node: usize) -> Check {
        if self.members[node].consensus.take().is_none() {
            return Ok(());
        }
        let member = &mut self.members[node];
        let now = member.time(self.now);
        member.logs.clear();
        self.tally.crashes += 1;
        let lost = member.disk.crash(&mut self.dice, now.wall_ms)? as u64;
        self.tally.lost_writes += lost;
        match self.planted {
            Some(Planted::LostVotes) => member.disk.lose_votes(),
            Some(Planted::EarlyPurge) => member.disk.lose_snapshots(),
            _ => {}
        }
        self.note(format!("{node} crashes, {lost} writes lost"));
        Ok(())
    }

    fn note(&mut self, line: String) {
        self.trace.note(format!("{:>9} {line}", self.now));
    }

    /// A node does what there is to do.
    fn turn(&mut self, node: usize) -> Check {
        let member = &mut self.members[node];
        if member.still_until > self.now {
            self.wake_at(node, self.members[node].still_until);
            return Ok(());
        }
        let now = member.time(self.now);
        let mut output = Output::default();
        let consensus = self.consensus(node)?;
        consensus.turn(now, &mut output);
        self.carry_out(node, output)?;
        let deadline = self.consensus(node)?.deadline();
        if let Some(deadline) = deadline {
            let at = self.members[node].bed_time(deadline, self.now);
            self.wake_at(node, at);
        }
        Ok(())
    }

    fn wake_at(&mut self, node: usize, at: u64) {
        let member = &mut self.members[node];
        if member.wakes_at.is_none_or(|wakes| wakes > at) {
            member.wakes_at = Some(at);
            let life = member.life;
            self.schedule(at.saturating_sub(self.now), Event::Wakes { node, life });
        }
    }

    fn carry_out(&mut self, node: usize, output: Output) -> Check {
        let Output { messages, writes, agreed, roles, offers, installs } = output;
        for message in messages {
            let message = if self.is_coded { recoded(&message)? } else { message };
            self.send(node, message);
        }
        let is_early = self.planted == Some(Planted::EarlyFlush);
        for (log, write) in writes {
            self.tally.truncations += u64::from(matches!(write, Write::Truncate(..)));
            self.trace.note(format!("{:>9} {node} writes {log:?} {write:?}", self.now));
            self.members[node].disk.hand_in(log, write, !is_early);
            if is_early {
                self.consensus(node)?.written(log, 1);
            }
        }
        self.begin_flush(node);
        for (log, entry) in agreed {
            self.apply(node, log, &entry)?;
        }
        for (log, offer) in offers {
            let life = self.members[node].life;
            let after = 1 + self.dice.below(50_000);
            self.schedule(after, Event::Fetched { node, life, log, offer });
        }
        for (log, installing) in installs {
            self.install(node, log, installing)?;
        }
        for (log, role) in roles {
            self.change_role(node, log, role)?;
        }
        if is_early && self.consensus(node)?.deadline() == Some(0) {
            self.turn(node)?;
        }
        Ok(())
    }

    fn change_role(&mut self, node: usize, log: LogId, role: Role) -> Check {
        self.note(format!("{node} {log:?} {role:?}"));
        let end = self.consensus(node)?.end(log).unwrap_or_default();
        let who = self.members[node].replica();
        let Some(hosted) = self.members[node].logs.get_mut(&log) else { return Ok(()) };
        match role {
            Role::Leads { term } => {
                // Proposals follow on all that earlier leaders agreed on, and on nothing else.
                if hosted.state.end != end {
                    return Err(format!(
                        "{who} is told to lead {log:?} from {end}, and has applied up to {}",
                        hosted.state.end
                    ));
                }
                hosted.leads = Some((term, end));
                self.tally.leaders += 1;
                self.checks.leads(log, who, term)
            }
            Role::Follows => {
                hosted.leads = None;
                hosted.unconfirmed.clear();
                Ok(())
            }
            Role::Mute => {
                let why = self.consensus(node)?.why_mute(log);
                Err(format!("{node} is mute in {log:?}: {why:?}"))
            }
        }
    }

    fn begin_flush(&mut self, node: usize) {
        if self.members[node].disk.begin() {
            let life = self.members[node].life;
            let after = self.faults.flush(&mut self.dice);
            self.schedule(after, Event::Flushed { node, life });
        }
    }

    fn send(&mut self, node: usize, message: Message) {
        self.tally.messages += 1;
        let to = usize::from(message.to.node().0) - 1;
        // The rare message that comes twice comes at two times, and other messages may be between.
        for _ in 0..1 + u64::from(self.faults.is_twice(&mut self.dice)) {
            let delay = self.faults.message(&mut self.dice);
            let Some(delay) = delay.filter(|_| !self.cut.contains(&(node, to))) else { continue };
            self.schedule(delay, Event::Arrives(message.clone()));
        }
    }

    fn apply(&mut self, node: usize, log: LogId, entry: &Entry) -> Check {
        let who = self.members[node].replica();
        let Some(hosted) = self.members[node].logs.get_mut(&log) else { return Ok(()) };
        hosted.state.apply(entry).map_err(|why| format!("{log:?} of {who}: {why}"))?;
        let state = hosted.state.clone();
        let is_mine = match &entry.content {
            Content::Batch(batch) => hosted.unconfirmed.remove(&number_of(batch)),
            Content::Blank | Content::Members(_) => false,
        };
        self.note(format!("{node} applies {log:?} {:?} {:x}", entry.id, state.chain));
        self.checks.applied(log, who, entry, &state)?;
        if is_mine {
            self.tally.confirmed += 1;
            // Where members change, who has to have it depends on what is not agreed on yet.
            if !self.faults.changes && !self.is_mended {
                let members = &self.members;
                let disk = |node: NodeNo| &members[usize::from(node.0) - 1].disk;
                self.checks.confirmed(log, entry, &state.members, disk)?;
            }
        }
        Ok(())
    }

    // ---- work

    fn found(&mut self, log: LogId) -> Check {
        let voters: BTreeSet<ReplicaId> = self.members.iter().take(3).map(Member::replica).collect();
        self.consensus(0)?.found(log, voters);
        self.turn(0)
    }

    /// Any of those who lead proposes something; where nobody ever led, the first may have been lost with the first words.
    fn propose(&mut self, log: LogId) -> Check {
        if self.checks.last(log).is_none() && self.members[0].consensus.is_some() {
            self.found(log)?;
        }
        for node in 0..self.members.len() {
            let several = self.dice.one_in(4);
            for _ in 0..1 + if several { self.dice.below(4) } else { 0 } {
                self.propose_at(node, log)?;
            }
            // A node may do other things first, and what was proposed before and after those waits for one turn.
            if self.dice.one_in(4) {
                let at = self.now + 1 + self.dice.below(PATIENCE_US);
                self.wake_at(node, at);
            } else if self.members[node].consensus.is_some() {
                self.turn(node)?;
            }
        }
        Ok(())
    }

    fn propose_at(&mut self, node: usize, log: LogId) -> Check {
        let member = &mut self.members[node];
        let now = member.time(self.now);
        let Some(hosted) = member.logs.get_mut(&log) else { return Ok(()) };
        let Some((term, base)) = hosted.leads.filter(|_| member.still_until <= self.now) else {
            return Ok(());
        };
        self.proposals += 1;
        let mut batch = Batch::new(log, base, Buffer::default());
        let words = 1 + self.dice.below(8) as usize;
        batch.records().extend(&[self.proposals.to_le_bytes(), self.dice.bits().to_le_bytes()].concat());
        (1..words).for_each(|_| batch.records().extend(&[0; 8]));
        let sealed = batch.seal(now.wall_ms);
        hosted.leads = Some((term, sealed.next()));
        hosted.unconfirmed.insert(self.proposals);
        self.checks.proposed(self.proposals);
        self.consensus(node)?.propose(log, term, sealed);
        Ok(())
    }

    fn snapshot(&mut self, node: usize, log: LogId) -> Check {
        let member = &mut self.members[node];
        let Some(hosted) = member.logs.get(&log) else { return Ok(()) };
        let saved = hosted.state.saved();
        let before = member.disk.saved(log).and_then(|saved| saved.name.last);
        let Some(last) = saved.name.last.filter(|last| Some(*last) > before) else { return Ok(()) };
        let is_on_disk =
            member.consensus.as_ref().is_some_and(|consensus| consensus.is_on_disk(log, last.index));
        if !is_on_disk {
            return Ok(());
        }
        member.disk.save(log, saved.clone());
        self.tally.snapshots += 1;
        let purge = last.index.checked_sub(self.faults.keep_entries);
        self.note(format!("{node} makes a snapshot of {log:?} up to {last:?}, purges up to {purge:?}"));
        self.consensus(node)?.snapshot_made(log, &saved.name, saved.state, purge)?;
        self.turn(node)
    }

    fn install(&mut self, node: usize, log: LogId, installing: Installing) -> Check {
        let Installing { snapshot: name, manifest: state } = installing;
        let saved = Saved { name, state };
        let state = State::restored(&saved);
        let who = self.members[node].replica();
        self.note(format!("{node} installs {log:?} up to {:?}", state.last));
        self.checks.installed(log, who, &state)?;
        self.tally.installs += 1;
        let member = &mut self.members[node];
        member.disk.save(log, saved);
        if let Some(hosted) = member.logs.get_mut(&log) {
            hosted.state = state;
        }
        self.consensus(node)?.installed(log);
        Ok(())
    }

    // ---- faults

    fn fault(&mut self) -> Check {
        let count = self.members.len();
        let node = self.dice.below(count as u64) as usize;
        match self.dice.below(12) {
            0..3 => self.crash(node)?,
            3 => {
                for node in 0..count {
                    self.crash(node)?;
                }
            }
            4..6 => {
                let other = self.dice.below(count as u64) as usize;
                self.cut.insert((node, other));
                if self.dice.one_in(2) {
                    self.cut.insert((other, node));
                }
                self.tally.cuts += 1;
            }
            6 => {
                let others = (0..count).filter(|other| *other != node);
                others.for_each(|other| self.cut.extend([(node, other), (other, node)]));
                self.tally.cuts += 1;
            }
            7 => self.cut.clear(),
            8 => {
                let still = self.dice.below(1_500_000);
                self.members[node].still_until = self.now + still;
                self.note(format!("{node} stands still for {still} us"));
            }
            9 => {
                let log = self.logs[self.dice.below(self.logs.len() as u64) as usize];
                let to = self.members[self.dice.below(count as u64) as usize].replica();
                let is_election = self.dice.one_in(2);
                if let Some(consensus) = &self.members[node].consensus {
                    _ = if is_election { consensus.elect(log) } else { consensus.transfer(log, to) };
                    self.turn(node)?;
                }
            }
            10.. if self.faults.changes => self.change_members()?,
            _ => {}
        }
        for node in 0..count {
            if self.members[node].consensus.is_none() && self.dice.one_in(2) {
                self.begin(node)?;
            }
        }
        Ok(())
    }

    fn change_members(&mut self) -> Check {
        let log = self.logs[self.dice.below(self.logs.len() as u64) as usize];
        let mut replicas: Vec<ReplicaId> = self.members.iter().map(Member::replica).collect();
        let mut learners = BTreeSet::new();
        while replicas.len() > 3 || (replicas.len() > 2 && self.dice.one_in(4)) {
            let at = self.dice.below(replicas.len() as u64) as usize;
            let replica = replicas.swap_remove(at);
            if self.dice.one_in(3) {
                learners.insert(replica);
            }
        }
        let members = Members { learners, ..Members::voting(replicas) };
        for node in 0..self.members.len() {
            if self.members[node].leads(log) {
                self.tally.changes += 1;
                self.note(format!("{node} is to have {log:?} with {members:?}"));
                self.consensus(node)?.change_members(log, members.clone());
                self.turn(node)?;
            }
        }
        self.wishes.insert(log, members);
        Ok(())
    }

    /// A change of members whose leader went in its midst is asked for again.
    fn reconcile(&mut self) -> Check {
        for (log, members) in self.wishes.clone() {
            for node in 0..self.members.len() {
                let member = &self.members[node];
                let is_short = member.leads(log) && member.logs[&log].state.members != members;
                if is_short {
                    self.consensus(node)?.change_members(log, members.clone());
                    self.turn(node)?;
                }
            }
        }
        Ok(())
    }

    /// All faults end, and all nodes are up.
    fn mend(&mut self) -> Check {
        self.is_mended = true;
        self.faults.end();
        self.cut.clear();
        self.note("all is mended".into());
        self.schedule(RECONCILE_US, Event::Reconcile);
        for node in 0..self.members.len() {
            self.members[node].still_until = self.members[node].still_until.min(self.now);
            if self.members[node].consensus.is_none() {
                self.begin(node)?;
            } else {
                self.turn(node)?;
            }
        }
        Ok(())
    }
}
