//! The machine under a node, in one thread: its shards, its writer, its readers and its housekeeper over one disk, each moved on only
//! when told to.

use crate::berth::{Berth, Busy, HAND_TOKEN, Letter, Moving};
use crate::books::Books;
use crate::double::agreed_on;
use crate::net::Net;
use crate::plan::Tally;
use crate::rules::macros;
use crate::seat::{Seat, node_no};
use crate::tenant;
use adapters::{Following, Frontend, NODE_SLOT, Protocol, Settings};
use base::id::{LogId, LogIndex, NodeNo, PortId, QueueId, ShardId};
use base::{Now, Random, Secrets};
use broker::access::{AccessRules, SALT};
use broker::catalog::{Actor, FirstContent, Op, Overflow, Refusal, VhostId};
use broker::{CATALOG_LOG, CommitRule, Limits, Mail, QueueRow, ReadRequest, Reply, Shard, StreamDamage};
use consensus::{EntryId, ReplicaId, Vote};
use journal::{Disk, DiskError, FaultyDisk, FileName, Identity, Journal, Place, Sealed, SpareMaker};
use node::commit::Written;
use node::keeper::{Finding, House, Keeper, Next};
use node::replicas::{Coming, Keeps, Replicas, Wanting};
use node::start::{self, Common, Found, Logs};
use node::turn::{Home, Raised, Turn};
use node::word::Word;
use node::{Stop, first, stop};
use std::collections::BTreeMap;
use std::sync::Arc;
use stream_files::StreamJob;

/// Tokens of the node's own requests begin here, behind that of requests to hand a log over.
const FIRST_TOKEN: u32 = HAND_TOKEN + 1;

/// Times a step of the housekeeper waits for the writer before it goes on without.
const WAITS_MAX: u32 = 20;

/// One in so many times the housekeeper gives up on a shard that has not answered.
const GIVES_UP: u64 = 30;

/// The settings that stay while a data folder lives.
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
    /// The mail of a turn arrives together, as it does in a server, and not piece by piece.
    pub whole_turns: bool,
    /// Logs of a new folder, and how many an older one is given where it has fewer.
    pub logs: u32,
    /// All logs but the catalog's are agreed on with others.
    pub agrees: bool,
    /// The place of the node among others that are there; none: it is alone, or they are played.
    pub seat: Option<Seat>,
}

impl Makeup {
    /// The logs that are agreed on: several nodes agree on that of the catalog too.
    pub fn agreed(&self) -> impl Iterator<Item = LogId> + use<> {
        let catalog = self.seat.map(|_| CATALOG_LOG);
        catalog.into_iter().chain(agreed_on(self.logs))
    }
}

/// See the module.
#[derive(Debug)]
pub struct Machine {
    /// Its shards.
    pub berths: Vec<Berth>,
    /// Its logs on disk.
    pub logs: u32,
    /// Logs that went from one shard to another.
    pub handed: u64,
    /// Turns after which somebody owed work.
    pub held_back: u64,
    /// Flushes that logs waited for before they went.
    flushes: BTreeMap<LogId, u32>,
    /// The journal and what waits for it.
    pub books: Books,
    keeper: Keeper,
    /// The shard the housekeeper waits for.
    asked: Option<usize>,
    /// Times it has waited for the writer.
    waits: u32,
    /// A snapshot was written without waiting for all that it knows to be in the journal.
    pub has_outrun: bool,
    disk: FaultyDisk,
    /// Files nobody needs, and one that is being prepared.
    unneeded: Vec<FileName>,
    making: Option<SpareMaker>,
    /// Reads under way, and for which shard.
    reads: Vec<(usize, ReadRequest)>,
    /// Connections between two shards: from which, to which.
    moving: Vec<(usize, usize, Box<Moving>)>,
    /// Work of streams on the disk, by shard, in the order they asked.
    jobs: Vec<(usize, StreamJob)>,
    alarm: bool,
    shortages: u64,
    whole_turns: bool,
    /// Logs of which the node said that something on disk is not what was written; none: it may be any.
    pub damages: Vec<Option<LogId>>,
    /// Damage of streams that it told of.
    pub torn: Vec<StreamDamage>,
    /// Words to other nodes.
    pub words: Vec<(NodeNo, Word)>,
    /// Answers to requests of the node's own, by their tokens.
    pub answers: Vec<(u32, Result<Reply, Refusal>)>,
}

impl Machine {
    /// Opens the data folder and recovers its content. Damage is reported also where the node does not start.
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
    ) -> Result<Machine, Stop> {
        let tell = &mut |found| damages.extend(damaged(&found));
        let logs = Logs { new: makeup.logs, least: Some(makeup.logs) };
        let wanted = start::Makeup {
            name: "rabbit@test".into(),
            shards: u32::from(shards),
            logs,
            journal: makeup.journal,
            rules: Arc::new(AccessRules::default()),
            relaxes_types: false,
            ledger: Arc::default(),
        };
        let (identity, mut secrets) = identity(disk, logs, dice, tell)?;
        let shards = start::shards(&wanted, &identity, |_| makeup.limits, &mut secrets, |_| dice.bits());
        let mut shards = shards;
        if let Some(seat) = makeup.seat {
            shards.iter_mut().for_each(|shard| shard.join(seat.membership()));
        }
        if makeup.agrees {
            for shard in &mut shards {
                makeup.agreed().for_each(|log| shard.logs_mut().set_commit_rule(log, CommitRule::Quorum));
            }
        }
        let clock = || now;
        let common = makeup.seat.map_or(start::ALONE, |seat| Common {
            node: node_no(seat.number),
            logs: makeup.agreed().collect(),
        });
        let mut node = start::recover(disk, &identity, makeup.journal, &common, shards, &clock, tell)?;
        let content: Vec<_> = FirstContent::guest([7; SALT]).requests().into_iter().chain(macros()).collect();
        if makeup.seat.is_none() && node.shards[0].catalog().vhosts().next().is_none() {
            first::make_content(&mut node, disk, &clock, content.clone())?;
        }
        first::flush(&mut node, disk, &clock)?;
        if makeup.agrees && makeup.seat.is_none() {
            for shard in &mut node.shards {
                agreed_on(makeup.logs).for_each(|log| shard.lead(now, log));
            }
        }
        let mut replicas = std::mem::take(&mut node.replicas);
        let (count, logs) = (node.shards.len(), node.placement.logs);
        let following = makeup.follows.then(|| Arc::new(Following::new(node.placement.shards)));
        let settings = Arc::new(Settings { following, ..makeup.settings.clone() });
        let placement = node.placement;
        let berth = |(number, shard): (usize, Shard)| {
            let id = ShardId(number as u16);
            let mut home = Home::new(id, shard, Frontend::new(id, settings.clone()));
            if let Some(seat) = makeup.seat {
                let own = replicas.extract_if(.., |replica| placement.owner_at_start(replica.log) == id);
                home.replicas = Some(Box::new(replicas_of(seat, own, now, dice)?));
                home.first_content = (number == 0).then(|| content.clone());
            }
            Ok(Berth::new(home, count))
        };
        Ok(Machine {
            berths: node.shards.into_iter().enumerate().map(berth).collect::<Result<_, Stop>>()?,
            logs,
            handed: 0,
            held_back: 0,
            flushes: BTreeMap::new(),
            books: Books::new(node.journal, disk.clone()),
            keeper: node.keeper,
            asked: None,
            waits: 0,
            has_outrun: false,
            disk: disk.clone(),
            unneeded: Vec::new(),
            making: None,
            reads: Vec::new(),
            moving: Vec::new(),
            jobs: Vec::new(),
            alarm: false,
            shortages: 0,
            whole_turns: makeup.whole_turns,
            damages: Vec::new(),
            torn: Vec::new(),
            words: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// A turn of one shard.
    pub fn turn(&mut self, at: usize, now: Now, dice: &mut Random, net: &mut Net) -> Result<(), Stop> {
        self.bring_movers(at);
        let mut busy = Busy::new(&mut self.berths[at], now, dice, net, &mut self.books);
        let outcome = busy.turn(now);
        let given = busy.into_given();
        outcome?;
        let Home { shard, front, .. } = &self.berths[at].home;
        tenant::check_work(shard, front);
        self.held_back += u64::from(front.is_sharing());
        self.handed += given.handed;
        let Machine { berths, flushes, .. } = &mut *self;
        let is_leaving =
            |log| berths.iter().any(|berth| berth.home.shard.logs().leaving().any(|it| it == log));
        flushes.retain(|log, _| is_leaving(*log));
        self.reads.extend(given.reads.into_iter().map(|request| (at, request)));
        self.torn.extend(given.torn);
        self.words.extend(given.words);
        for Wanting { log, from, least } in given.wants {
            self.keeper.offered(now, log, from, least);
        }
        for (token, answer) in given.answers {
            let Some(number) = token.checked_sub(FIRST_TOKEN) else { continue };
            let port = PortId::here(ShardId(at as u16), NODE_SLOT, token);
            self.berths[at].home.shard.close_port(now, port);
            self.answers.push((number, answer));
        }
        self.jobs.extend(given.jobs.into_iter().map(|job| (at, job)));
        for (to, mail) in given.mail.into_iter().enumerate() {
            let to = &mut self.berths[to].mail[at];
            match self.whole_turns {
                true if mail.is_empty() => {}
                true => to.push_back(mail),
                false => to.extend(mail.into_iter().map(|mail| vec![mail])),
            }
        }
        self.moving.extend(given.moving.into_iter().map(|(to, moving)| (at, to, moving)));
        if self.moving.is_empty() {
            tenant::check_ledger(self.berths.iter().map(|berth| &berth.home.shard));
        }
        self.tell_alarm();
        Ok(())
    }

    /// Connections that come to a shard, where all mail that was sent before they left has been read.
    fn bring_movers(&mut self, at: usize) {
        let Machine { berths, moving, .. } = self;
        let due: Vec<_> = moving
            .extract_if(.., |(from, to, _)| {
                *to == at && berths.iter().all(|berth| berth.mail[*from].is_empty())
            })
            .collect();
        for (_, _, moving) in due {
            berths[at].letters.push_back(Letter::Moved(moving));
        }
    }

    /// Publishers are told when there is no space, and when there is again. Shards have seen the first for themselves.
    fn tell_alarm(&mut self) {
        let (lacks_space, shortages) = (self.books.space.signs().lacks_space, self.books.space.shortages());
        if self.alarm != lacks_space || self.shortages != shortages {
            (self.alarm, self.shortages) = (lacks_space, shortages);
            let raised = Raised { memory: false, disk: lacks_space };
            self.berths.iter_mut().for_each(|berth| berth.tell(node::turn::Letter::Alarm(raised)));
        }
    }

    /// An operator has a log handed to a shard.
    pub fn hand(&mut self, log: LogId, to: ShardId) {
        let planner = ShardId(0);
        let port = PortId::here(planner, NODE_SLOT, 0);
        self.berths[usize::from(planner.0)].home.shard.move_log(port, HAND_TOKEN, log, to);
    }

    /// The node itself asks for a change of the catalog.
    pub fn ask(&mut self, at: usize, now: Now, token: u32, op: Op) {
        let port = PortId::here(ShardId(at as u16), NODE_SLOT, FIRST_TOKEN + token);
        let shard = &mut self.berths[at].home.shard;
        shard.open_port(port, Actor::internal(VhostId::default(), port));
        shard.request(now, port, FIRST_TOKEN + token, op);
    }

    /// A log that is about to go waits for one flush at most, where there is space.
    fn count_flushes(&mut self, shard: ShardId, written: &[Written]) {
        let leaving = self.berths[usize::from(shard.0)].home.shard.logs().leaving();
        for log in leaving.filter(|log| written.iter().any(|batch| batch.log == *log)) {
            let flushes = self.flushes.entry(log).or_default();
            *flushes += 1;
            assert!(*flushes == 1, "log {log} waits for a second flush before it goes");
        }
    }

    /// The writer writes what has gathered.
    pub fn write(&mut self, now: Now) -> Result<(), Stop> {
        let was_out = self.books.space.is_out();
        for (shard, written) in self.books.write(now)? {
            if !was_out && !self.books.space.is_out() {
                self.count_flushes(shard, &written);
            }
            self.berths[usize::from(shard.0)].tell(node::turn::Letter::Written(written));
        }
        self.tell_alarm();
        Ok(())
    }

    /// One of the reads under way ends.
    pub fn read(&mut self, dice: &mut Random, tally: &mut Tally) -> Result<(), Stop> {
        if !self.jobs.is_empty() && (self.reads.is_empty() || dice.one_in(2)) {
            // The threads that do it are several: one may overtake another.
            let at = dice.below(self.jobs.len() as u64) as usize;
            let (shard, job) = self.jobs.remove(at);
            let done = job.carry_out(&self.disk);
            self.berths[shard].tell(node::turn::Letter::Streamed(Box::new(done)));
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
        self.berths[shard].tell(node::turn::Letter::Loaded(request, brought));
        Ok(())
    }

    /// The housekeeper does a step.
    pub fn keep(&mut self, now: Now, dice: &mut Random, tally: &mut Tally) -> Result<(), Stop> {
        let Machine { keeper, asked, waits, has_outrun, books, berths, disk, damages, alarm, words, .. } =
            self;
        let failed = |error: DiskError| Stop(format!("housekeeping failed: {error}"));
        let answer = asked.and_then(|at| berths[at].home.take_answer());
        let is_answered = answer.is_some();
        let mut rooms = Rooms { now, books, berths, disk, damages, waits, has_outrun };
        keeper.talk(now, &mut rooms, words).map_err(failed)?;
        if let Some(answer) = answer {
            tally.installs += u64::from(matches!(answer, node::keeper::Answer::Installed(Some(_))));
            *asked = None;
            keeper.answer(answer);
        }
        match (&asked, keeper.is_idle()) {
            (Some(_), _) => {
                if !is_answered && !keeper.is_late() && dice.one_in(GIVES_UP) {
                    keeper.give_up();
                }
            }
            (None, false) => match keeper.step(&mut rooms).map_err(failed)? {
                Next::Step => {}
                Next::Ask(shard, errand) => {
                    tally.moves += u64::from(matches!(&errand, node::keeper::Errand::Point(_)));
                    let at = usize::from(shard.0);
                    *asked = Some(at);
                    rooms.berths[at].tell(node::turn::Letter::Errand(errand));
                }
                Next::Over => {}
            },
            (None, true) => {
                books.use_released(now);
                let had_space = !keeper.is_behind();
                books.space.judge(now.mono_ns, &books.journal, disk, had_space);
                let mut rooms = Rooms { now, books, berths, disk, damages, waits, has_outrun };
                keeper.begin(&mut rooms, *alarm);
            }
        }
        self.tell_alarm();
        Ok(())
    }

    /// Files are prepared ahead, or removed, one step. A failure harms nobody.
    pub fn prepare(&mut self) {
        let Machine { books: Books { journal, space, .. }, disk, unneeded, making, .. } = self;
        unneeded.append(&mut journal.take_unneeded());
        if let Some(name) = unneeded.pop() {
            // A file that is not removed is found again by the next start.
            let _ = disk.remove(name);
            return;
        }
        let Some(mut maker) = making.take().or_else(|| space.wanted_spare(journal, disk)) else { return };
        match maker.step(disk) {
            Ok(Some(spare)) => journal.add_spare(spare),
            Ok(None) => *making = Some(maker),
            Err(_) => journal.spare_failed(),
        }
    }

    /// A client connects to a shard.
    pub fn accept(&mut self, at: usize, line: usize, protocol: Protocol) {
        self.berths[at].letters.push_back(Letter::Accepted(line, protocol));
    }

    /// Nothing is under way inside the node.
    pub fn is_idle(&mut self, now: Now) -> bool {
        self.work(now).is_none()
    }

    /// The first thing that is under way inside the node, in words.
    pub fn work(&mut self, now: Now) -> Option<&'static str> {
        let own = [
            (!self.reads.is_empty(), "reads"),
            (!self.moving.is_empty(), "connections that move"),
            (!self.jobs.is_empty(), "jobs of streams"),
            (!self.books.line.is_empty(), "batches in line"),
            (self.asked.is_some(), "a question of the keeper's"),
            (!self.keeper.is_idle(), "work of the keeper's"),
        ];
        let own = own.iter().find(|(is_there, _)| *is_there).map(|(_, name)| *name);
        own.or_else(|| self.berths.iter_mut().find_map(|berth| berth.work(now)))
    }

    /// Every connection is told that the node stops, and none is accepted any more.
    pub fn shut_down(&mut self) {
        self.berths.iter_mut().for_each(|berth| berth.tell(node::turn::Letter::Stop));
    }

    /// Connections there are.
    pub fn connections(&self) -> usize {
        self.berths.iter().map(Berth::connections).sum::<usize>() + self.moving.len()
    }

    /// The end of a node that stops in order, every shard of which is finished. Whether a snapshot has outrun the journal.
    /// `look` sees what the shards have given out last.
    pub fn end(
        mut self,
        now: Now,
        dice: &mut Random,
        net: &mut Net,
        mut look: impl FnMut(&Shard),
    ) -> Result<bool, Stop> {
        for berth in &mut self.berths {
            Busy::new(berth, now, dice, net, &mut self.books).write_out(now)?;
            look(&berth.home.shard);
        }
        self.books.write(now)?;
        let Machine { mut keeper, mut books, berths, disk, mut has_outrun, .. } = self;
        has_outrun |= !books.line.is_empty();
        let mut parts = BTreeMap::new();
        for berth in &berths {
            parts.extend(berth.home.replicas.iter().flat_map(|replicas| replicas.parts()));
        }
        let end = |berth: Berth| (berth.home.shard, berth.mail.into_iter().flatten().flatten().collect());
        let (mut shards, mut left): (Vec<Shard>, Vec<Vec<Mail>>) = berths.into_iter().map(end).unzip();
        let left = |shard: ShardId| std::mem::take(&mut left[usize::from(shard.0)]);
        let (mut nobody, mut damages, mut waits) = (Vec::new(), Vec::new(), 0);
        let mut rooms = Rooms {
            now,
            books: &mut books,
            berths: &mut nobody,
            disk: &disk,
            damages: &mut damages,
            waits: &mut waits,
            has_outrun: &mut has_outrun,
        };
        stop::write_snapshots(&mut shards, left, &mut parts, &mut keeper, &mut rooms)?;
        books.seal_end().map(|_| has_outrun)
    }

    // ---- replicas

    /// A word of another node comes.
    pub fn hear(&mut self, from: NodeNo, word: Word) {
        if let Word::Fetch(fetch) = word {
            return self.keeper.hear(from, *fetch);
        }
        let hosts = |berth: &&mut Berth| {
            berth.home.replicas.as_ref().is_some_and(|replicas| replicas.hosts(word.log()))
        };
        if let Some(berth) = self.berths.iter_mut().find(hosts) {
            berth.tell(node::turn::Letter::Word(from, word));
        }
    }

    fn replicas(&self) -> impl Iterator<Item = &Replicas> {
        self.berths.iter().filter_map(|berth| berth.home.replicas.as_deref())
    }

    /// How often it began to lead logs, and ceased to.
    pub fn roles(&self) -> (u64, u64) {
        let all = self.replicas().map(Replicas::changes);
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// A replica that has ended since the last call, and why.
    pub fn take_ended(&mut self) -> Option<(LogId, String)> {
        let replicas = self.berths.iter_mut().filter_map(|berth| berth.home.replicas.as_deref_mut());
        replicas.flat_map(Replicas::take_ended).next()
    }

    /// The term in which a shard leads a log.
    pub fn leads_in(&self, shard: usize, log: LogId) -> Option<u64> {
        self.berths[shard].home.replicas.as_ref()?.leads_in(log)
    }

    /// The last entry of a log that it has applied.
    pub fn agreed(&self, log: LogId) -> Option<EntryId> {
        self.replicas().find(|replicas| replicas.hosts(log))?.applied(log)
    }

    /// The promise of its replica of a log that is on disk.
    pub fn promised(&self, log: LogId) -> Option<Vote> {
        self.replicas().find(|replicas| replicas.hosts(log))?.promised(log)
    }

    /// It is to begin anew, with the catalog of another node.
    pub fn begins_anew(&self) -> bool {
        self.replicas().any(Replicas::begins_anew)
    }

    /// Its replicas wait for nothing but the others.
    pub fn has_quiet_replicas(&self) -> bool {
        self.replicas().all(Replicas::is_quiet)
    }

    /// Has another lead a log that it leads.
    pub fn transfer(&mut self, now: Now, log: LogId, to: ReplicaId) {
        for berth in &mut self.berths {
            let Home { replicas, shard, .. } = &mut berth.home;
            if let Some(replicas) = replicas {
                replicas.transfer(now, shard, log, to);
            }
        }
    }

    /// No message of a log that was moved to a segment came at this index or behind it.
    pub fn moved_below(&self, log: LogId) -> LogIndex {
        self.home_of_agreed(log).map_or(LogIndex(0), |shard| shard.logs().moved_below(log))
    }

    /// The state of a log that is the same in each replica, with the places of messages from there on.
    pub fn canonical_from(&self, log: LogId, from: LogIndex) -> BTreeMap<QueueId, Vec<u8>> {
        self.home_of_agreed(log).map(|shard| shard.logs().canonical(log, from)).unwrap_or_default()
    }

    // ---- the catalog of several nodes

    /// The shard that has the catalog's log.
    pub fn planning(&self) -> &Shard {
        &self.berths[0].home.shard
    }

    /// The catalog, with all that is transient: the same in each node that has applied as much of its log.
    pub fn catalog_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.planning().catalog().write_all(&mut bytes);
        bytes
    }

    /// The catalogs of all shards are the same.
    pub fn has_one_catalog(&self) -> bool {
        let mut bytes = self.shards().map(|shard| {
            let mut bytes = Vec::new();
            shard.catalog().write_all(&mut bytes);
            bytes
        });
        let first = bytes.next();
        bytes.all(|other| Some(other) == first)
    }

    /// Every shard knows of a queue.
    pub fn knows(&self, name: &str) -> bool {
        self.shards().all(|shard| {
            let catalog = shard.catalog();
            catalog.vhost("/").is_some_and(|vhost| catalog.queue_by_name(vhost, name.as_bytes()).is_some())
        })
    }

    /// Every shard knows of an exchange, and that a queue is bound to it.
    pub fn knows_binding(&self, exchange: &str, queue: &str) -> bool {
        self.shards().all(|shard| {
            let catalog = shard.catalog();
            let Some(vhost) = catalog.vhost("/") else { return false };
            let source = catalog.exchange(vhost, exchange.as_bytes()).map(|entry| entry.definition.id);
            let queue = catalog.queue_by_name(vhost, queue.as_bytes());
            queue.is_some_and(|queue| {
                catalog.queue_bindings(queue.id).any(|binding| Some(binding.source) == source)
            })
        })
    }

    // ---- logs that others agree on

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.berths.iter().map(|berth| &berth.home.shard)
    }

    fn with_shards(&mut self, mut each: impl FnMut(&mut Shard)) {
        self.berths.iter_mut().for_each(|berth| each(&mut berth.home.shard));
    }

    /// The shard that has a log, if others agree on it and it is not in the mail.
    fn home_of_agreed(&self, log: LogId) -> Option<&Shard> {
        self.shards().find(|shard| shard.logs().is_agreed_on(log))
    }

    /// Everything of a log before this is applied, if there is such a log and others agree on it.
    pub fn applied(&self, log: LogId) -> Option<LogIndex> {
        self.home_of_agreed(log)?.logs().applied(log)
    }

    /// Everything of a log before this is committed, if there is such a log and others agree on it.
    pub fn committed(&self, log: LogId) -> Option<LogIndex> {
        self.home_of_agreed(log)?.logs().committed(log)
    }

    /// Records are not on disk, whether or not anybody waits for them.
    pub fn has_unwritten(&self) -> bool {
        self.shards().any(|shard| shard.logs().bytes_in_flight() > 0)
    }

    /// The things that wait for nodes that lead logs, in words.
    pub fn waiting_in_words(&self) -> String {
        self.shards().map(|shard| shard.logs().waiting_in_words()).collect::<Vec<_>>().join("; ")
    }

    /// Commands wait for a leader, though their clients may be gone.
    pub fn has_parked(&self) -> bool {
        self.shards().any(|shard| shard.logs().has_parked())
    }

    /// It leads a log.
    pub fn leads(&self, log: LogId) -> bool {
        self.shards().any(|shard| shard.logs().leads(log))
    }

    /// The state of a log that is the same in each replica, and from where on with the places of messages.
    pub fn canonical(&self, log: LogId) -> (LogIndex, BTreeMap<QueueId, Vec<u8>>) {
        let from = self.moved_below(log);
        (from, self.canonical_from(log, from))
    }

    /// The others agree on a log up to there. False: the log is between two shards, and hears of it when it is there.
    pub fn commit_outside(&mut self, now: Now, log: LogId, end: LogIndex) -> bool {
        let at = self.shards().position(|shard| shard.logs().applied(log).is_some());
        self.berths[at.unwrap_or(0)].home.shard.commit_outside(now, log, end);
        at.is_some()
    }

    /// It leads a log from now on.
    pub fn lead(&mut self, now: Now, log: LogId) {
        self.with_shards(|shard| shard.lead(now, log));
    }

    /// Nobody leads a log from now on.
    pub fn resign(&mut self, now: Now, log: LogId) {
        self.with_shards(|shard| shard.resign(now, log));
    }

    /// Batches of a log that it has proposed, and nobody agrees on so far.
    pub fn proposed(&self, log: LogId) -> Vec<Sealed> {
        let shard = self.home_of_agreed(log);
        shard
            .map(|shard| shard.logs().proposed(log).map(|(batch, _)| batch.clone()).collect())
            .unwrap_or_default()
    }

    /// The next batch that it proposed before it resigned is agreed on after all, and is at `place`. False: the log is in the mail.
    pub fn apply_taken_back(&mut self, now: Now, log: LogId, batch: &Sealed, place: Place) -> bool {
        let is_here = self.applied(log).is_some();
        self.with_shards(|shard| shard.apply_agreed(now, log, batch.base, batch.records(), place));
        is_here
    }

    /// Writes a batch of those that agree, behind all that waits; where it is. None where there is no space for it.
    pub fn write_mark(&mut self, now: Now, batch: Sealed) -> Result<Option<Place>, Stop> {
        self.write(now)?;
        if !self.books.line.is_empty() {
            return Ok(None);
        }
        self.books.write_alone(now, batch)
    }

    /// The queues that are limited in bytes, and drop what is too much: to how many.
    pub fn limited(&self) -> Vec<(QueueRow, u64)> {
        let rows = self.berths.iter().flat_map(|berth| {
            let shard = &berth.home.shard;
            shard.listing().rows().map(|row| (shard.catalog().rules(&row.definition), row))
        });
        let drops = rows.filter(|(rules, _)| rules.overflow == Overflow::DropHead);
        drops.filter_map(|(rules, row)| Some((row, rules.bytes_max?))).collect()
    }

    /// All queues, by name.
    pub fn queues(&self) -> Vec<QueueRow> {
        let mut rows: Vec<QueueRow> =
            self.berths.iter().flat_map(|berth| berth.home.shard.listing().rows()).collect();
        rows.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        rows
    }
}

/// The identity of the data folder, and a source of secrets. No die is thrown for secrets but three for those of a new folder: named seeds
/// mean what they meant when secrets were dice.
fn identity(
    disk: &FaultyDisk,
    logs: Logs,
    dice: &mut Random,
    tell: &mut dyn FnMut(Found),
) -> Result<(Identity, Secrets), Stop> {
    let seed = dice.clone().bits();
    let mut secrets = Secrets::simulated(seed);
    let opened = start::identity(disk, &mut secrets, logs, tell);
    if secrets.bytes::<16>() != Secrets::simulated(seed).bytes() {
        (0..3).for_each(|_| _ = dice.bits());
    }
    Ok((opened?, secrets))
}

/// The replicas of a shard that comes up.
fn replicas_of(
    seat: Seat,
    coming: impl Iterator<Item = Coming>,
    now: Now,
    dice: &mut Random,
) -> Result<Replicas, Stop> {
    let is_shuffled = dice.one_in(2);
    let mut replicas = Replicas::new(consensus::Settings::default(), dice.bits(), is_shuffled, now);
    // A replica that is a little behind has entries or a state, as it comes.
    let entries = [0, 3, 40, 4096][dice.below(4) as usize];
    replicas.keep(Keeps { entries, ..Keeps::default() });
    for coming in coming {
        replicas.open(seat.replica(), coming, seat.founders()).map_err(Stop)?;
    }
    Ok(replicas)
}

/// The log that a start found to be damaged, or that it may be any.
fn damaged(found: &Found) -> Option<Option<LogId>> {
    match found {
        Found::Damage(damage) => Some(damage.log),
        Found::NoSnapshot(log)
        | Found::GoesBack(log, _)
        | Found::BadReplica(log, _)
        | Found::Stopped(log) => Some(Some(*log)),
        Found::MoreLogs(..)
        | Found::BadSnapshot(_)
        | Found::Torn(_)
        | Found::Replayed(..)
        | Found::Stray(_) => None,
    }
}

/// The surroundings of the housekeeper.
struct Rooms<'a> {
    now: Now,
    books: &'a mut Books,
    berths: &'a mut Vec<Berth>,
    disk: &'a FaultyDisk,
    damages: &'a mut Vec<Option<LogId>>,
    waits: &'a mut u32,
    has_outrun: &'a mut bool,
}

impl House for Rooms<'_> {
    fn disk(&self) -> &dyn Disk {
        self.disk
    }

    fn with_journal(&mut self, work: &mut dyn FnMut(&mut Journal)) {
        work(&mut self.books.journal);
    }

    fn note(&mut self, finding: Finding) {
        match finding {
            Finding::Damaged(log, _) => self.damages.push(Some(log)),
            Finding::NoSpace => {}
        }
    }

    fn room_to_move(&mut self) -> Result<u64, DiskError> {
        let Books { journal, space, line, .. } = &*self.books;
        space.room_to_move(self.now.mono_ns, journal, self.disk, line.is_empty())
    }

    fn give_up_spare(&mut self) -> bool {
        let Books { journal, space, line, .. } = &mut *self.books;
        let spare = space.give_up_spare(self.now.mono_ns, journal, self.disk, line.is_empty());
        spare.is_some_and(|(name, _)| self.disk.remove(name).is_ok())
    }

    fn has_waited_for_writes(&mut self) -> bool {
        *self.waits += 1;
        let is_over = self.books.line.is_empty() || self.books.space.is_out() || *self.waits > WAITS_MAX;
        if is_over {
            *self.waits = 0;
            *self.has_outrun |= !self.books.line.is_empty();
        }
        is_over
    }
}
