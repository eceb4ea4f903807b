//! From a data folder to shards that are where they were: identity, snapshots, journal, streams.
//!
//! Everything is recovered before the first connection is accepted. Damage that is found is told also where the node
//! does not start for it; a damaged log is stopped, and the others go on, but for the catalog's.

use crate::Stop;
use crate::keeper::Keeper;
use crate::replicas::{Applied, Coming as Replica};
use base::brief;
use base::id::{LogId, LogIndex, NodeNo, ShardId};
use base::{Now, Secrets};
use broker::access::AccessRules;
use broker::ledger::Ledger;
use broker::{CATALOG_LOG, Limits, Placement, RecoveryError, SECTION, Shard, ShardSettings};
use consensus::mark::{self, Covered, FoundContent, Recovery};
use consensus::standing::{self, Standing};
use journal::{
    Cover, Damage, Disk, DiskError, FileId, FileKind, Identity, Journal, RecoveredBatch, Snapshot, Snapshots,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use stream_files::{Stray, Strays, stream_files};

/// How many logs a data folder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// A new one.
    pub new: u32,
    /// One that has fewer is given as many; `None`: it keeps what it has.
    pub least: Option<u32>,
}

/// The settings of a start.
#[derive(Clone, Debug)]
pub struct Makeup {
    /// The name of the node.
    pub name: Arc<str>,
    /// Shards wanted; there are no more than logs.
    pub shards: u32,
    /// Logs wanted.
    pub logs: Logs,
    /// The journal's bounds.
    pub journal: journal::Limits,
    /// The operator's rules beside users and permissions.
    pub rules: Arc<AccessRules>,
    /// Arguments of queues of a wrong type are taken where they can be.
    pub relaxes_types: bool,
    /// The ledger of memory.
    pub ledger: Arc<Ledger>,
}

/// News of a start for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The data folder has more logs than wanted: so many, and so many are wanted.
    MoreLogs(u32, u32),
    /// A snapshot is damaged and was moved aside.
    BadSnapshot(String),
    /// No snapshot of a log is sound.
    NoSnapshot(LogId),
    /// The journal is damaged.
    Damage(Damage),
    /// The journal takes back the tail of a log from an index on.
    GoesBack(LogId, LogIndex),
    /// The replica of a log is not what any replica writes, and why: others have to replace it.
    BadReplica(LogId, mark::Fault),
    /// A log is stopped: records are missing in it.
    Stopped(LogId),
    /// The last write before the node stopped was torn, and so many bytes were cut.
    Torn(u64),
    /// So many bytes in so many batches were replayed.
    Replayed(u64, u64),
    /// A file of streams is not known.
    Stray(Stray),
}

/// How grave a [`Found`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// Good to know.
    Info,
    /// Somebody should look.
    Warning,
    /// Something is lost, or may be.
    Error,
}

impl Found {
    /// How grave it is.
    pub fn gravity(&self) -> Gravity {
        match self {
            Found::Torn(_) | Found::Replayed(..) => Gravity::Info,
            Found::MoreLogs(..) | Found::Stray(_) => Gravity::Warning,
            Found::BadSnapshot(_)
            | Found::NoSnapshot(_)
            | Found::Damage(_)
            | Found::GoesBack(..)
            | Found::BadReplica(..)
            | Found::Stopped(_) => Gravity::Error,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::MoreLogs(has, wanted) => {
                write!(f, "leveret.logs = {wanted} has no effect: the data folder has {has} logs")
            }
            Found::BadSnapshot(name) => write!(f, "snapshot {name} is damaged and was moved aside"),
            Found::NoSnapshot(log) => write!(
                f,
                "no snapshot of log {log} is sound: those in quarantine/ that begin with {:08x} are damaged. Put a sound copy \
                 of the last one back into snapshots/; without any of them in quarantine/ the node goes on with what the \
                 journal has of the log, be it nothing",
                log.0
            ),
            Found::Damage(damage) => {
                write!(f, "the journal is damaged, and what is named is lost: {damage}")
            }
            Found::GoesBack(log, base) => write!(
                f,
                "the journal takes back what log {log} had from {base} on and writes it anew, which no log of this version does"
            ),
            Found::BadReplica(log, fault) => write!(f, "the replica of log {log} cannot be read: {fault}"),
            Found::Stopped(log) => f.write_str(&stopped(*log)),
            Found::Torn(bytes) => {
                write!(f, "the last write before the node stopped was torn; {bytes} bytes cut")
            }
            Found::Replayed(bytes, batches) => write!(f, "recovered {bytes} bytes in {batches} batches"),
            Found::Stray(stray) => stray.fmt(f),
        }
    }
}

/// The words for people about a log that is stopped.
pub fn stopped(log: LogId) -> String {
    format!(
        "log {log} is stopped: records are missing in it. Its queues refuse everything, to be deleted too, and its files stay \
         as they are: restore the data folder from a copy"
    )
}

/// A node before it runs.
#[derive(Debug)]
pub struct Recovered {
    /// The commit path.
    pub journal: Journal,
    /// Housekeeping.
    pub keeper: Keeper,
    /// The shards, by number.
    pub shards: Vec<Shard>,
    /// Logs and shards.
    pub placement: Placement,
    /// The number of the data folder.
    pub identity: u128,
    /// Replicas of logs that other nodes have too.
    pub replicas: Vec<Replica>,
}

/// Opens the data folder, or makes one of an empty one: its identity, with the logs it is to have. Those it has not yet come with
/// [`recover`].
///
/// # Errors
/// Why not.
pub fn identity(
    disk: &dyn Disk,
    secrets: &mut Secrets,
    logs: Logs,
    tell: &mut dyn FnMut(Found),
) -> Result<Identity, Stop> {
    let mut identity = Identity::open(disk, secrets, logs.new).map_err(|error| Stop(error.to_string()))?;
    if let Some(least) = logs.least {
        if least > identity.logs {
            identity.logs = least;
        } else if least < identity.logs {
            tell(Found::MoreLogs(identity.logs, least));
        }
    }
    Ok(identity)
}

/// Shards of a folder of this identity with nothing in them yet. `limits` are given the number of shards; `dice` seed a shard.
pub fn shards(
    makeup: &Makeup,
    identity: &Identity,
    limits: impl Fn(u16) -> Limits,
    secrets: &mut Secrets,
    mut dice: impl FnMut(&mut Secrets) -> u64,
) -> Vec<Shard> {
    let shards = makeup.shards.clamp(1, identity.logs) as u16;
    let placement = Placement { shards, logs: identity.logs };
    let limits = limits(shards);
    let shard = |id| {
        let settings = ShardSettings {
            id: ShardId(id),
            placement,
            limits,
            rules: makeup.rules.clone(),
            node: makeup.name.clone(),
            relaxes_types: makeup.relaxes_types,
            ledger: makeup.ledger.clone(),
            seed: dice(secrets),
        };
        Shard::new(settings, secrets.fork())
    };
    (0..shards).map(shard).collect()
}

/// The logs that a node has in common with others.
#[derive(Clone, Debug)]
pub struct Common {
    /// The number of the node.
    pub node: NodeNo,
    /// The logs.
    pub logs: BTreeSet<LogId>,
}

/// A node by itself.
pub const ALONE: Common = Common { node: NodeNo::ONLY, logs: BTreeSet::new() };

/// Brings new `shards` to where those of this folder were. Other nodes have replicas of the logs `common`, which agree on them.
/// `now` tells what time it is.
///
/// # Errors
/// Why the node cannot start.
pub fn recover(
    disk: &dyn Disk,
    identity: &Identity,
    journal: journal::Limits,
    common: &Common,
    shards: Vec<Shard>,
    now: &dyn Fn() -> Now,
    tell: &mut dyn FnMut(Found),
) -> Result<Recovered, Stop> {
    let placement = Placement { shards: shards.len() as u16, logs: identity.logs };
    let mut coming = Coming { disk, placement, shards, stopped: BTreeSet::new(), now, tell };
    let mut reading: BTreeMap<LogId, Reading> =
        brief::collect(common.logs.iter().map(|log| (*log, Reading::default())));
    let stored = Identity::load(disk).map_err(|error| Stop(error.to_string()))?;
    let had = stored.map_or(identity.logs, |stored| stored.logs);
    let (mut snapshots, loaded, bad) = Snapshots::load(disk).map_err(|error| Stop(error.to_string()))?;
    bad.into_iter().for_each(|bad| (coming.tell)(Found::BadSnapshot(bad.name.to_string())));
    for log in snapshots.lost() {
        (coming.tell)(Found::NoSnapshot(log));
        coming.stop(log);
    }
    if had < identity.logs {
        coming.begin_logs(had..identity.logs, &mut snapshots)?;
        identity.store(disk)?;
    }
    coming.restore(&loaded)?;
    coming.begin_replicas(&loaded, &mut reading);
    drop(loaded);
    let mut strays = coming.recover_streams()?;
    let start = snapshots.start(identity.secret, coming.logs());
    let mut trouble = None;
    let opened = Journal::open(disk, journal, start, &mut |batch| {
        if let Some(reading) = reading.get_mut(&batch.log) {
            reading.visit(batch);
            return;
        }
        if batch.void_to.is_some() && !coming.may_go_back(batch.log) {
            coming.refuse_back(batch.log, batch.base);
            return;
        }
        let records = &batch.memory[batch.records.clone()];
        let mut gap = None;
        for shard in &mut coming.shards {
            match shard.replay(batch.log, batch.base, records, batch.place) {
                Ok(()) => {}
                Err(RecoveryError::Gap(log)) => gap = Some(log),
                Err(error) => trouble = Some(error),
            }
        }
        coming.carry_out_streams();
        gap.into_iter().for_each(|log| coming.stop(log));
    });
    let (journal, found) = opened.map_err(|error| Stop(error.to_string()))?;
    let is_whole = found.damages.is_empty();
    for damage in found.damages {
        let log = damage.log;
        (coming.tell)(Found::Damage(damage));
        log.into_iter().for_each(|log| coming.stop(log));
    }
    let replicas = coming.replay_replicas(reading)?;
    if let Some(error) = trouble {
        return Err(Stop(format!("the journal holds what cannot be read: {error:?}")));
    }
    coming.finish(&mut strays)?;
    if found.torn_bytes > 0 {
        (coming.tell)(Found::Torn(found.torn_bytes));
    }
    if found.batches > 0 {
        (coming.tell)(Found::Replayed(found.record_bytes, found.batches));
    }
    // Files that were damaged in an earlier run still lie in quarantine.
    let is_sound = is_whole && coming.stopped.is_empty() && disk.list(FileKind::Quarantined)?.is_empty();
    for stray in strays.end(disk, is_sound, |log| coming.stopped.contains(&log))? {
        (coming.tell)(Found::Stray(stray));
    }
    let shards = coming.shards;
    let in_use: BTreeSet<u64> =
        brief::collect(shards.iter().flat_map(|shard| shard.logs().segments_in_use()));
    let keeper = Keeper::new(disk, &journal, placement, snapshots, is_sound.then_some(&in_use), common.node)?;
    Ok(Recovered { journal, keeper, shards, placement, identity: identity.node, replicas })
}

/// The journal of a replica, while it is read.
#[derive(Debug, Default)]
struct Reading {
    standing: Standing,
    /// The journal file that the replay of the log begins in.
    from: FileId,
    recovery: Recovery,
    fault: Option<mark::Fault>,
}

impl Reading {
    /// Behind a snapshot that says this, and needs the journal from this file on.
    fn behind(standing: Standing, from: FileId) -> Reading {
        Reading { recovery: Recovery::new(standing.start()), standing, from, fault: None }
    }

    fn visit(&mut self, batch: RecoveredBatch) {
        if self.fault.is_none() {
            self.fault = self.recovery.visit(batch).err();
        }
    }

    /// The state of the replica, and how far the snapshot is.
    fn finish(self) -> Result<(mark::Recovered, Applied), mark::Fault> {
        let Reading { standing, from, recovery, fault } = self;
        let found = fault.map_or_else(|| recovery.finish(), Err)?;
        Ok((found, Applied { name: standing.name, file: from }))
    }
}

/// Shards that are coming up.
struct Coming<'a> {
    disk: &'a dyn Disk,
    placement: Placement,
    shards: Vec<Shard>,
    stopped: BTreeSet<LogId>,
    now: &'a dyn Fn() -> Now,
    tell: &'a mut dyn FnMut(Found),
}

impl Coming<'_> {
    fn logs(&self) -> impl Iterator<Item = LogId> + use<> {
        (0..self.placement.logs).map(LogId)
    }

    /// Logs that the folder is given now have nothing in the journal so far: their first snapshots say so, before they count. A log
    /// without one would have all of the journal read for it, also files that were let go of.
    fn begin_logs(&mut self, new: Range<u32>, snapshots: &mut Snapshots) -> Result<(), Stop> {
        let newest = (0..new.start).filter_map(|log| snapshots.newest(LogId(log)));
        let from_file = newest.map(|cover| cover.from_file).max().unwrap_or_default();
        for log in new.map(LogId) {
            let snapshot = self.owner(log).snapshot(log, true).expect("nothing is under way in a new shard");
            let cover = Cover { log, covered: snapshot.covered, from_file, from_offset: 0 };
            let pieces: Vec<&[u8]> = snapshot.bytes.iter().collect();
            snapshots.write(self.disk, cover, &[(SECTION, &pieces)])?;
        }
        Ok(())
    }

    fn stop(&mut self, log: LogId) {
        self.stopped.insert(log);
        self.shards.iter_mut().for_each(|shard| shard.stop_log(log));
    }

    /// Others have to agree on the log: its tail may have been taken back.
    fn may_go_back(&self, log: LogId) -> bool {
        self.shards.iter().any(|shard| shard.logs().is_agreed_on(log))
    }

    /// Stops a log whose tail was taken back from `base` on: machines may have applied it. Where nobody has to agree on a log,
    /// one that goes back is damaged in a way that nothing else shows.
    fn refuse_back(&mut self, log: LogId, base: LogIndex) {
        if !self.stopped.contains(&log) {
            (self.tell)(Found::GoesBack(log, base));
            self.stop(log);
        }
    }

    fn owner(&mut self, log: LogId) -> &mut Shard {
        &mut self.shards[usize::from(self.placement.owner_at_start(log).0)]
    }

    fn restore(&mut self, loaded: &[Snapshot]) -> Result<(), Stop> {
        for snapshot in loaded {
            let bytes = snapshot.section(SECTION).unwrap_or_default();
            for shard in &mut self.shards {
                let restored = shard.restore(snapshot.cover.log, snapshot.cover.covered, bytes);
                restored.map_err(|error| Stop(format!("a snapshot cannot be read: {error:?}")))?;
            }
        }
        Ok(())
    }

    /// The streams of logs that are not stopped go on with the files there are; files of others are set aside.
    fn recover_streams(&mut self) -> Result<Strays, DiskError> {
        let mut known = BTreeMap::new();
        for log in self.logs() {
            if !self.stopped.contains(&log) {
                let lengths = stream_files(self.disk, log)?;
                known.insert(log, self.owner(log).logs_mut().recover_streams(log, &lengths));
            }
        }
        Strays::set_aside(self.disk, &known)
    }

    /// Does the work of streams on the disk while the journal is replayed: chunks that are made again are not kept in
    /// memory.
    fn carry_out_streams(&mut self) {
        let mut jobs = Vec::new();
        for shard in &mut self.shards {
            shard.take_stream_jobs(&mut jobs);
            for job in jobs.drain(..) {
                shard.stream_done((self.now)(), job.carry_out(self.disk));
            }
        }
    }

    /// Replicas go on behind the snapshots of their logs. One that says nothing of a replica is of an empty log.
    fn begin_replicas(&mut self, loaded: &[Snapshot], reading: &mut BTreeMap<LogId, Reading>) {
        for snapshot in loaded {
            let Cover { log, covered, from_file, .. } = snapshot.cover;
            let Some(reading) = reading.get_mut(&log) else { continue };
            let standing = match snapshot.section(standing::SECTION) {
                Some(bytes) => Standing::read(bytes).ok().filter(|standing| standing.name.end == covered),
                None => (covered == LogIndex(0)).then(Standing::default),
            };
            match standing {
                Some(standing) => *reading = Reading::behind(standing, from_file),
                None => reading.fault = Some(mark::Fault::OtherSnapshot { end: covered }),
            }
        }
    }

    /// Applies what is known to be agreed on; the rest is for the replica to say.
    fn replay_replicas(&mut self, reading: BTreeMap<LogId, Reading>) -> Result<Vec<Replica>, Stop> {
        let mut replicas = Vec::new();
        for (log, reading) in reading {
            let (found, mut applied) = match reading.finish() {
                Ok(found) => found,
                Err(fault) => {
                    (self.tell)(Found::BadReplica(log, fault));
                    self.stop(log);
                    continue;
                }
            };
            let recovered = consensus::Recovered::new(applied.name.clone(), Vec::new(), &found);
            for Covered { base, place } in &found.covered {
                self.owner(log).replay_covered(log, *base, *place);
            }
            let agreed = found.entries.iter().take_while(|entry| Some(entry.id.index) <= found.agreed);
            for entry in agreed {
                if let FoundContent::Batch(batch) = &entry.content {
                    let records = &batch.memory[batch.records.clone()];
                    // Each shard has a copy of the catalog.
                    let mut shards = self.shards.iter_mut();
                    let replayed =
                        shards.try_for_each(|shard| shard.replay(log, batch.base, records, batch.place));
                    replayed.map_err(|error| Stop(format!("log {log} cannot be replayed: {error:?}")))?;
                    self.carry_out_streams();
                }
                applied.pass(&entry.to_entry(), entry.place);
            }
            let is_behind =
                |entry: &&mark::Found| Some(entry.id.index) > applied.name.last.map(|last| last.index);
            let places =
                brief::collect(found.entries.iter().filter(is_behind).map(|entry| (entry.id, entry.place)));
            replicas.push(Replica { log, recovered, places, end: found.end, applied });
        }
        Ok(replicas)
    }

    /// The journal is read to its end.
    fn finish(&mut self, strays: &mut Strays) -> Result<(), Stop> {
        self.shards.iter_mut().for_each(Shard::end_replay);
        self.carry_out_streams();
        for log in self.logs() {
            let made = self.owner(log).logs().stream_segments(log);
            strays.note_made(self.disk, log, &made)?;
        }
        // Logs are stopped also for a fault that only shows when all is read: messages whose records are nowhere.
        let now = (self.now)();
        let policies = self.shards.first().map(Shard::policies_in_force).unwrap_or_default();
        self.shards.iter_mut().for_each(|shard| shard.go_by_policies(&policies));
        let missing: Vec<LogId> =
            self.shards.iter_mut().flat_map(|shard| shard.finish_recovery(now)).collect();
        missing.into_iter().for_each(|log| self.stop(log));
        for log in &self.stopped {
            (self.tell)(Found::Stopped(*log));
        }
        match self.stopped.contains(&CATALOG_LOG) {
            true => Err(Stop(CATALOG_LOST.to_owned())),
            false => Ok(()),
        }
    }
}

/// Why a node does not start that cannot know its queues.
pub const CATALOG_LOST: &str =
    "the catalog's log is damaged: the node cannot know its queues. Restore the data folder from a copy";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::first::make_content;
    use crate::first::tests::{NOW, content, end, post, start_with};
    use base::Buffer;
    use broker::catalog::{Op, VhostId};
    use journal::{Batch, FaultyDisk, Mark, Sealed};

    /// A tail that was taken back is refused by name: machines have applied it.
    #[test]
    fn a_log_that_goes_back_is_stopped() {
        let disk = FaultyDisk::new(1);
        let mut node = start_with(&disk, 1, &mut |_| {}).unwrap();
        make_content(&mut node, &disk, &|| NOW, content()).unwrap();
        let again = Batch::new(CATALOG_LOG, LogIndex(0), Buffer::default()).seal(1);
        let again = Sealed { mark: Some(Mark([1; Mark::LEN])), ..again };
        node.journal.write(&disk, &[again], &mut Vec::new()).unwrap();
        let mut found = Vec::new();
        let tell = &mut |what: Found| found.extend((what.gravity() == Gravity::Error).then_some(what));
        let refused = start_with(&disk, 1, tell).unwrap_err();
        assert_eq!(refused.0, CATALOG_LOST);
        assert_eq!(found, [Found::GoesBack(CATALOG_LOG, LogIndex(0)), Found::Stopped(CATALOG_LOG)]);
    }

    /// A log that a folder is given later needs none of the files that were let go of before.
    #[test]
    fn a_folder_of_few_files_is_given_more_logs() {
        let disk = FaultyDisk::new(1);
        let mut node = start_with(&disk, 1, &mut |_| {}).unwrap();
        make_content(&mut node, &disk, &|| NOW, content()).unwrap();
        for _ in 0..4 {
            (0..3).for_each(|_| post(&mut node, &disk, &[7; 100_000]));
            let id = node.shards[0].catalog().queue_by_name(VhostId(0), b"q").unwrap().id;
            make_content(&mut node, &disk, &|| NOW, vec![Op::DeleteQueue { id }]).unwrap();
            end(node, &disk);
            node = start_with(&disk, 1, &mut |_| {}).unwrap();
        }
        let unneeded = node.journal.take_unneeded();
        assert!(!unneeded.is_empty(), "the start lets go of files");
        unneeded.iter().for_each(|name| disk.remove(*name).unwrap());
        drop(node);
        // Wherever the start that brings more logs is cut off.
        let (mut grown, mut cut) = (0, 0);
        for calls in 1..80 {
            let disk = disk.fork();
            disk.power_off(calls);
            let mut found = Vec::new();
            let mut start = |disk: &FaultyDisk, logs| {
                start_with(disk, logs, &mut |what| {
                    found.extend((what.gravity() == Gravity::Error).then(|| what.to_string()))
                })
            };
            match start(&disk, 3) {
                Ok(_) => grown += 1,
                Err(_) => cut += 1,
            }
            disk.crash();
            for logs in [1, 3, 4] {
                let node = start(&disk, logs).unwrap();
                assert_eq!(node.shards[0].catalog().vhosts().count(), 1);
            }
            assert_eq!(found, Vec::<String>::new(), "cut off in call {calls}");
        }
        assert!(grown > 0 && cut > 0, "{grown} {cut}");
    }
}
