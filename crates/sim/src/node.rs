//! A whole node in one thread: shards, committer, readers and housekeeper over one disk, each moved on only when told to.

use crate::committer::Committer;
use crate::home::{Home, Letter, Moving};
use crate::keeper::Keeper;
use crate::net::Net;
use crate::plan::Tally;
use adapters::{Alarm, Following, Frontend, Protocol, Settings};
use base::id::{LogId, ShardId};
use base::{Now, Random, Secrets};
use broker::access::AccessRules;
use broker::catalog::{FirstContent, Overflow};
use broker::{
    CATALOG_LOG, Limits, Placement, QueueRow, ReadRequest, RecoveryError, SECTION, Shard, ShardSettings,
    StreamDamage,
};
use journal::{Disk, FaultyDisk, FileKind, Identity, Journal, Snapshots};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stream_files::{Strays, StreamJob, stream_files};

/// Why a node whose catalog is damaged does not start.
pub const CATALOG_LOST: &str = "the catalog's log is damaged";

/// The node must stop, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop(pub String);

/// What does not change while a data folder lives.
#[derive(Clone, Debug)]
pub struct Makeup {
    /// The broker's bounds.
    pub limits: Limits,
    /// The journal's bounds.
    pub journal: journal::Limits,
    /// The connections' settings.
    pub settings: Settings,
    /// Connections go to the shard of the queue they use.
    pub follows: bool,
    /// What a shard sends in a turn arrives together, as it does in a server, and not piece by piece.
    pub whole_turns: bool,
    /// Logs of a new folder, and how many an older one is given where it has fewer.
    pub logs: u32,
}

/// A node.
#[derive(Debug)]
pub struct Node {
    /// Its shards.
    pub homes: Vec<Home>,
    /// Its commit path.
    pub committer: Committer,
    keeper: Keeper,
    disk: FaultyDisk,
    /// Reads under way, and for which shard.
    reads: Vec<(usize, ReadRequest)>,
    /// Connections between two shards: from which, to which.
    moving: Vec<(usize, usize, Box<Moving>)>,
    /// What streams want of the disk, by shard, in the order they asked.
    jobs: Vec<(usize, StreamJob)>,
    alarm: bool,
    placement: Placement,
    whole_turns: bool,
    /// Logs of which the node said that something on disk is not what was written; none: it may be any.
    pub damages: Vec<Option<LogId>>,
    /// What it said of streams.
    pub torn: Vec<StreamDamage>,
}

impl Node {
    /// Opens the data folder and recovers what is in it. What is found damaged is told also where it does not start.
    ///
    /// # Errors
    /// Why it cannot start.
    pub fn start(
        disk: &FaultyDisk,
        makeup: &Makeup,
        shards: u16,
        now: Now,
        dice: &mut Random,
        damages: &mut Vec<Option<LogId>>,
    ) -> Result<Node, Stop> {
        let stop = |what: &str, error: &dyn std::fmt::Display| Stop(format!("{what}: {error}"));
        // No die is thrown for secrets but three for those of a new folder: named seeds mean what they meant when secrets
        // were dice.
        let seed = dice.clone().bits();
        let mut secrets = Secrets::simulated(seed);
        let opened = Identity::open(disk, &mut secrets, makeup.logs);
        if secrets.bytes::<16>() != Secrets::simulated(seed).bytes() {
            (0..3).for_each(|_| _ = dice.bits());
        }
        let mut identity = opened.map_err(|error| stop("identity", &error))?;
        if makeup.logs > identity.logs {
            identity.logs = makeup.logs;
            identity.store(disk).map_err(|error| stop("identity", &error))?;
        }
        let placement = Placement { shards: shards.min(identity.logs as u16), logs: identity.logs };
        let rules = Arc::new(AccessRules::default());
        let mut new_shard = |id| {
            let (limits, rules) = (makeup.limits, rules.clone());
            let settings = ShardSettings {
                id: ShardId(id),
                placement,
                limits,
                rules,
                node: "rabbit@test".into(),
                relaxes_types: false,
                seed: dice.bits(),
            };
            Shard::new(settings, secrets.fork())
        };
        let mut shards: Vec<Shard> = (0..placement.shards).map(&mut new_shard).collect();
        let (snapshots, loaded, _) = Snapshots::load(disk).map_err(|error| stop("snapshots", &error))?;
        let mut stopped: BTreeSet<LogId> = snapshots.lost().collect();
        stopped.iter().for_each(|log| shards.iter_mut().for_each(|shard| shard.stop_log(*log)));
        for snapshot in &loaded {
            let bytes = snapshot.section(SECTION).unwrap_or_default();
            for shard in &mut shards {
                let restored = shard.restore(snapshot.cover.log, snapshot.cover.covered, bytes);
                restored.map_err(|error| Stop(format!("a snapshot cannot be read: {error:?}")))?;
            }
        }
        let of_streams = |error| stop("streams", &error);
        let mut known = BTreeMap::new();
        for log in (0..placement.logs).map(LogId).filter(|log| !stopped.contains(log)) {
            let lengths = stream_files(disk, log).map_err(of_streams)?;
            known.insert(log, shards[placement.owner(log).0 as usize].recover_streams(log, &lengths));
        }
        let mut strays = Strays::set_aside(disk, &known).map_err(of_streams)?;
        let start = snapshots.start(identity.secret, (0..placement.logs).map(LogId));
        let mut trouble = None;
        let (journal, found) = Journal::open(disk, makeup.journal, start, &mut |batch| {
            let records = &batch.memory[batch.records.clone()];
            let mut gap = None;
            for shard in &mut shards {
                match shard.replay(batch.log, batch.base, records, batch.place) {
                    Ok(()) => {}
                    Err(RecoveryError::Gap(log)) => gap = Some(log),
                    Err(error) => trouble = Some(error),
                }
            }
            for shard in &mut shards {
                let mut jobs = Vec::new();
                shard.take_stream_jobs(&mut jobs);
                jobs.into_iter().for_each(|job| shard.stream_done(now, job.carry_out(disk)));
            }
            if let Some(log) = gap {
                stopped.insert(log);
                shards.iter_mut().for_each(|shard| shard.stop_log(log));
            }
        })
        .map_err(|error| stop("journal", &error))?;
        damages.extend(found.damages.iter().map(|damage| damage.log));
        for log in found.damages.iter().filter_map(|damage| damage.log) {
            stopped.insert(log);
            shards.iter_mut().for_each(|shard| shard.stop_log(log));
        }
        if let Some(error) = trouble {
            return Err(Stop(format!("the journal holds what cannot be read: {error:?}")));
        }
        for log in (0..placement.logs).map(LogId) {
            let made = shards[placement.owner(log).0 as usize].stream_segments(log);
            strays.note_made(disk, log, &made).map_err(of_streams)?;
        }
        let missing: Vec<LogId> = shards.iter_mut().flat_map(|shard| shard.finish_recovery(now)).collect();
        for log in missing {
            stopped.insert(log);
            shards.iter_mut().for_each(|shard| shard.stop_log(log));
        }
        damages.extend(stopped.iter().map(|log| Some(*log)));
        if stopped.contains(&CATALOG_LOG) {
            return Err(Stop(CATALOG_LOST.to_owned()));
        }
        if shards[0].catalog().vhosts().next().is_none() {
            let begun = shards[0].begin(now, &FirstContent::with_salt([7; broker::access::SALT]));
            begun.map_err(|refusal| Stop(refusal.text))?;
        }
        let quarantined = disk.list(FileKind::Quarantined).map_err(|error| stop("quarantine", &error))?;
        let is_sound = found.damages.is_empty() && stopped.is_empty() && quarantined.is_empty();
        strays.end(disk, is_sound, |log| stopped.contains(&log)).map_err(of_streams)?;
        let in_use: BTreeSet<u64> = shards.iter().flat_map(Shard::segments_in_use).collect();
        let keeper = Keeper::new(disk, &journal, placement, snapshots, is_sound.then_some(&in_use));
        let keeper = keeper.map_err(|error| stop("segments", &error))?;
        let count = shards.len();
        let following = makeup.follows.then(|| Arc::new(Following::new(placement.shards)));
        let settings = Arc::new(Settings { following, ..makeup.settings.clone() });
        let home = |(number, shard)| {
            let front = Frontend::new(ShardId(number as u16), settings.clone());
            Home::new(shard, front, count)
        };
        Ok(Node {
            homes: shards.into_iter().enumerate().map(home).collect(),
            committer: Committer::new(journal, disk.clone()),
            keeper,
            disk: disk.clone(),
            reads: Vec::new(),
            moving: Vec::new(),
            jobs: Vec::new(),
            alarm: false,
            placement,
            whole_turns: makeup.whole_turns,
            damages: Vec::new(),
            torn: Vec::new(),
        })
    }

    /// A turn of one shard.
    pub fn turn(&mut self, at: usize, now: Now, dice: &mut Random, net: &mut Net) -> Result<(), Stop> {
        self.bring_movers(at);
        let given = self.homes[at].turn(at, now, dice, net, &mut self.committer)?;
        self.reads.extend(given.reads.into_iter().map(|request| (at, request)));
        self.torn.extend(given.torn);
        self.jobs.extend(given.jobs.into_iter().map(|job| (at, job)));
        for (to, mail) in given.mail.into_iter().enumerate() {
            let to = &mut self.homes[to].mail[at];
            match self.whole_turns {
                true if mail.is_empty() => {}
                true => to.push_back(mail),
                false => to.extend(mail.into_iter().map(|mail| vec![mail])),
            }
        }
        self.moving.extend(given.moving.into_iter().map(|(to, moving)| (at, to, moving)));
        self.raise_alarm();
        Ok(())
    }

    /// Connections that come to a shard, where all mail that was sent before they left has been read.
    fn bring_movers(&mut self, at: usize) {
        let Node { homes, moving, .. } = self;
        let due: Vec<_> = moving
            .extract_if(.., |(from, to, _)| *to == at && homes.iter().all(|home| home.mail[*from].is_empty()))
            .collect();
        for (_, _, moving) in due {
            homes[at].letters.push_back(Letter::Moved(moving));
        }
    }

    /// Publishers are told when there is no space, and when there is again.
    fn raise_alarm(&mut self) {
        if self.alarm != self.committer.is_out_of_space {
            self.alarm = self.committer.is_out_of_space;
            let alarm = self.alarm.then_some(Alarm::Disk);
            self.homes.iter_mut().for_each(|home| home.letters.push_back(Letter::Alarm(alarm)));
        }
    }

    /// The writer writes what has gathered.
    pub fn write(&mut self) -> Result<(), Stop> {
        for (shard, written) in self.committer.write()? {
            self.homes[shard].letters.push_back(Letter::Written(written));
        }
        self.raise_alarm();
        Ok(())
    }

    /// One of the reads under way ends.
    pub fn read(&mut self, dice: &mut Random, tally: &mut Tally) -> Result<(), Stop> {
        if !self.jobs.is_empty() && (self.reads.is_empty() || dice.one_in(2)) {
            // The threads that do it are several: one may overtake another.
            let at = dice.below(self.jobs.len() as u64) as usize;
            let (shard, job) = self.jobs.remove(at);
            let done = job.carry_out(&self.disk);
            if let Some(error) = done.failure() {
                return Err(Stop(format!("making a stream durable failed: {error}")));
            }
            self.homes[shard].letters.push_back(Letter::Streamed(Box::new(done)));
            return Ok(());
        }
        if self.reads.is_empty() {
            return Ok(());
        }
        let at = dice.below(self.reads.len() as u64) as usize;
        let (shard, mut request) = self.reads.remove(at);
        let brought = request.carry_out(&self.disk);
        tally.reads += 1;
        if brought.iter().any(|part| matches!(part, Ok(None))) {
            self.damages.push(Some(request.log));
        }
        let brought = brought.into_iter().map(|part| part.ok().flatten()).collect();
        self.homes[shard].letters.push_back(Letter::Loaded(request, brought));
        Ok(())
    }

    /// The housekeeper does a step.
    pub fn keep(&mut self, tally: &mut Tally) -> Result<(), Stop> {
        let Node { keeper, committer, homes, disk, .. } = self;
        keeper.step(disk, homes, &mut committer.journal, tally)?;
        self.damages.extend(keeper.damaged.drain(..).map(Some));
        Ok(())
    }

    /// Files are prepared ahead, or removed, one step. A failure harms nobody.
    pub fn prepare(&mut self) -> bool {
        self.committer.journal.prepare(&self.disk).unwrap_or(false)
    }

    /// A client connects to a shard.
    pub fn accept(&mut self, at: usize, line: usize, protocol: Protocol) {
        self.homes[at].letters.push_back(Letter::Accepted(line, protocol));
    }

    /// Nothing is under way inside the node.
    pub fn is_idle(&mut self, now: Now) -> bool {
        self.reads.is_empty()
            && self.moving.is_empty()
            && self.jobs.is_empty()
            && self.committer.is_idle()
            && self.keeper.is_idle()
            && self.homes.iter_mut().all(|home| home.is_idle(now) && !home.has_traffic())
    }

    /// Every connection is told that the node stops, and none is accepted any more.
    pub fn shut_down(&mut self, now: Now) {
        self.homes.iter_mut().for_each(|home| home.stop(now));
    }

    /// Connections there are.
    pub fn connections(&self) -> usize {
        self.homes.iter().map(Home::connections).sum::<usize>() + self.moving.len()
    }

    /// The end of a node that stops in order: nothing is in flight, and every log gets a snapshot.
    pub fn end(mut self) -> Result<(), Stop> {
        for log in (0..self.placement.logs).map(LogId) {
            let owner = self.placement.owner(log).0 as usize;
            let shard = &mut self.homes[owner].shard;
            if let Some(snapshot) = shard.snapshot(log, true) {
                let dones: Vec<_> =
                    shard.take_stream_syncs(log).into_iter().map(|job| job.carry_out(&self.disk)).collect();
                if let Some(error) = dones.iter().find_map(|done| done.failure()) {
                    return Err(Stop(format!("a stream was not made durable: {error}")));
                }
                if !dones.iter().all(|done| done.is_durable()) {
                    continue;
                }
                let written = self.keeper.write(&self.disk, &self.committer.journal, &snapshot);
                written.map_err(|error| Stop(format!("a snapshot was not written: {error}")))?;
            }
        }
        self.committer.seal_end().map(|_| ())
    }

    /// The queues that are limited in bytes, and drop what is too much: to how many.
    pub fn limited(&self) -> Vec<(QueueRow, u64)> {
        let rows = self.homes.iter().flat_map(|home| {
            let rows = home.shard.queue_rows();
            rows.map(|row| (home.shard.catalog().rules(&row.definition), row))
        });
        let drops = rows.filter(|(rules, _)| rules.overflow == Overflow::DropHead);
        drops.filter_map(|(rules, row)| Some((row, rules.bytes_max?))).collect()
    }

    /// All queues, by name.
    pub fn queues(&self) -> Vec<QueueRow> {
        let mut rows: Vec<QueueRow> = self.homes.iter().flat_map(|home| home.shard.queue_rows()).collect();
        rows.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        rows
    }
}
