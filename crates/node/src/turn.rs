//! A turn of a shard: in which order its doors are used.
//!
//! One turn: take letters and mail; read the connections that have something; fire timers; end the broker's turn and
//! hand in its batches; hand events to the connections; send the mail; write the connections. Nothing here decides
//! anything about messages: that is [`broker`]'s and [`adapters`]' part. How each thing is done is [`Turn`]'s, whose
//! implementor has the sockets, or their substitutes; steps that need neither are [`Home`]'s.

use crate::Stop;
use crate::commit::Written;
use crate::keeper::{Answer, Errand};
use crate::replicas::{Replicas, Wanting};
use crate::snapped::{Given, Snapped};
use crate::space::Signs;
use crate::word::Word;
use adapters::{Alarm, Frontend};
use base::Now;
use base::id::{LogId, NodeNo, ShardId};
use base::time::NS_PER_MS;
use broker::catalog::Op;
use broker::{CatalogWord, Damaged, LogWord, Mail, Notice, ReadBytes, ReadRequest, Shard};
use journal::Sealed;
use stream_files::{StreamDone, StreamJob};

/// Rounds of commit and delivery before connections are looked at again.
const ROUNDS_MAX: usize = 4;

/// Nanoseconds a stopping shard waits for the disk and for its peers.
pub const STOP_NS: u64 = 2000 * NS_PER_MS;

/// Which alarms hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// More memory is used than allowed.
    pub memory: bool,
    /// Less disk is free than demanded.
    pub disk: bool,
}

impl Raised {
    /// As they are called outside.
    pub fn names(self) -> Vec<String> {
        let names = [(self.memory, "memory"), (self.disk, "disk")];
        names.iter().filter(|(holds, _)| *holds).map(|(_, name)| (*name).to_owned()).collect()
    }
}

/// A letter of the node to a shard; mail comes from other shards.
#[derive(Debug)]
pub enum Letter {
    /// Batches are on disk.
    Written(Vec<Written>),
    /// A read that deliveries waited for.
    Loaded(ReadRequest, Vec<Option<ReadBytes>>),
    /// The outcome of something that was done for a stream.
    Streamed(Box<StreamDone>),
    /// The alarms that hold now.
    Alarm(Raised),
    /// A word of another node.
    Word(NodeNo, Word),
    /// The keeper wants something done: [`Home::take_answer`] has the answer when the turn is over.
    Errand(Errand),
    /// Finish the work that was begun, and end.
    Stop,
}

/// The output of a turn, apart from mail and the bytes of connections.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Reads that deliveries wait for.
    pub reads: Vec<ReadRequest>,
    /// Work of streams on the disk.
    pub jobs: Vec<StreamJob>,
    /// Damage that was found, and messages that were dropped because a log is damaged.
    pub damages: Vec<Damaged>,
    /// Things that a rule let go of.
    pub notices: Vec<Notice>,
    /// Words to other nodes.
    pub words: Vec<(NodeNo, Word)>,
    /// States of logs that are to be had from other nodes: for the keeper.
    pub wants: Vec<Wanting>,
}

/// A shard with its connections, but without their sockets.
#[derive(Debug)]
pub struct Home {
    /// Which shard it is.
    pub id: ShardId,
    /// The broker's part.
    pub shard: Shard,
    /// The connections.
    pub front: Frontend,
    /// The replicas of its logs that other nodes have too, where there are any.
    pub replicas: Option<Box<Replicas>>,
    /// The content of a catalog in which nothing is, made when this node leads it among several.
    pub first_content: Option<Vec<Op>>,
    /// The output of the turn so far.
    pub outputs: Outputs,
    /// Batches that wait for the writer, or are reported and not heard of yet.
    outstanding: usize,
    was_congested: bool,
    /// The alarms it was told of last.
    raised: Raised,
    /// The keeper's errand, until the log is here for it, or elsewhere.
    errand: Option<Errand>,
    answer: Option<Answer>,
    /// The keeper waits until a state is in place.
    is_installing: bool,
    stop_at: Option<u64>,
    sealed: Vec<Sealed>,
    written: Vec<Written>,
    words: Vec<(NodeNo, CatalogWord)>,
    said: Vec<(NodeNo, LogWord)>,
}

impl Home {
    /// A shard with the connections of `front`.
    pub fn new(id: ShardId, shard: Shard, front: Frontend) -> Home {
        Home {
            id,
            shard,
            front,
            replicas: None,
            first_content: None,
            outputs: Outputs::default(),
            outstanding: 0,
            was_congested: false,
            raised: Raised::default(),
            errand: None,
            answer: None,
            is_installing: false,
            stop_at: None,
            sealed: Vec::new(),
            written: Vec::new(),
            words: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Takes in a letter of the node.
    ///
    /// # Errors
    /// The device failed.
    pub fn hear(&mut self, now: Now, letter: Letter) -> Result<(), Stop> {
        match letter {
            Letter::Written(written) => {
                self.outstanding -= written.len();
                self.report(now, &written);
            }
            Letter::Loaded(request, brought) => self.shard.read_done(now, request, brought),
            Letter::Streamed(done) => match done.failure() {
                None => self.shard.stream_done(now, *done),
                Some(error) => return Err(Stop(format!("making a stream durable failed: {error}"))),
            },
            Letter::Alarm(raised) => self.set_raised(now, raised),
            Letter::Word(_, Word::Fetch(_)) => {}
            Letter::Word(_, Word::Replica(message)) => {
                if let Some(replicas) = &mut self.replicas {
                    replicas.receive(*message);
                }
            }
            Letter::Word(from, Word::Catalog(word)) => self.shard.hear_of_catalog(now, from, word),
            Letter::Word(from, Word::Log(word)) => self.shard.hear(now, from, *word),
            Letter::Errand(errand) => self.run(now, errand),
            Letter::Stop => self.stop(now),
        }
        Ok(())
    }

    /// Takes in mail of another shard.
    pub fn receive(&mut self, now: Now, mail: Mail) {
        if let Some(events) = self.shard.receive(now, mail) {
            self.front.handle_mail(now, &mut self.shard, &events);
        }
    }

    fn report(&mut self, now: Now, written: &[Written]) {
        for batch in written {
            let Written { log, base, place } = *batch;
            match &mut self.replicas {
                Some(replicas) if replicas.hosts(log) => replicas.written(batch),
                _ => self.shard.written(now, log, base, place),
            }
        }
    }

    /// Other nodes have this log too.
    fn has_replica(&self, log: LogId) -> bool {
        self.replicas.as_ref().is_some_and(|replicas| replicas.hosts(log))
    }

    /// The part of replicas at the begin of a turn.
    fn check_leases(&mut self, now: Now) {
        if let Some(replicas) = &mut self.replicas {
            replicas.check_leases(now, &mut self.shard);
        }
    }

    /// The part of replicas behind the shard's turn.
    fn replicate(&mut self, now: Now, sealed: &mut Vec<Sealed>) {
        if let Some(replicas) = &mut self.replicas {
            let Outputs { words, wants, .. } = &mut self.outputs;
            replicas.turn(now, &mut self.shard, sealed, (words, wants));
            if let Some(installed) = replicas.take_installed() {
                self.answer = Some(Answer::Installed(installed));
                self.is_installing = false;
            }
            if let Some(content) = &self.first_content {
                self.shard.found(now, || content.clone());
            }
            self.shard.take_words_of_catalog(&mut self.words);
            let words = self.words.drain(..).map(|(to, word)| (to, Word::Catalog(word)));
            self.outputs.words.extend(words);
        }
    }

    /// Something is to be done at once that comes before connections.
    fn has_pressing_work(&self) -> bool {
        self.shard.has_pressing_work() || self.replicas.as_ref().is_some_and(|replicas| replicas.has_work())
    }

    // ---- alarms

    /// Alarms as they are now.
    fn set_raised(&mut self, now: Now, raised: Raised) {
        for (source, was, is) in
            [("memory", self.raised.memory, raised.memory), ("disk", self.raised.disk, raised.disk)]
        {
            if was != is {
                self.shard.alarm_changed(now, source, is);
            }
        }
        self.raised = raised;
        self.shard.logs_mut().hold_feeds(raised != Raised::default());
        self.front.set_alarm(now, &mut self.shard, Alarm::of(raised.memory, raised.disk));
    }

    /// Goes by how much space there is.
    fn heed(&mut self, now: Now, signs: Signs) {
        if signs.lacks_space && !self.raised.disk {
            self.heed_shortage(now);
        }
        self.shard.set_short(signs.is_nearly_full);
        self.shard.keep_logs(signs.lacks_space);
    }

    /// Publishers stop in the turn in which space is found to be lacking: until the node tells, their messages would
    /// take the room that is left to settle messages. That it is over, the node tells.
    #[cold]
    #[inline(never)]
    fn heed_shortage(&mut self, now: Now) {
        self.set_raised(now, Raised { disk: true, ..self.raised });
    }

    // ---- errands of the keeper

    /// Where the log is between two shards, it is seen in each turn where it is now.
    fn run(&mut self, now: Now, errand: Errand) {
        let is_free = self.answer.is_none() && self.errand.is_none() && !self.is_installing;
        assert!(is_free, "one errand after the other");
        match errand.log().map(|log| self.shard.host(log)) {
            Some(None) => return self.errand = Some(errand),
            Some(Some(shard)) if shard != self.id => {
                return self.answer = Some(Answer::Elsewhere(shard, errand));
            }
            _ => {}
        }
        self.answer = Some(match errand {
            Errand::List(log, bound) => Answer::Listed(self.shard.logs().begin_move(log, bound)),
            Errand::Point(moved) => {
                self.shard.finish_move(&moved);
                Answer::Done
            }
            Errand::Streamed(done) => {
                self.shard.stream_done(now, *done);
                Answer::Done
            }
            Errand::Kept(log) => {
                self.shard.logs_mut().snapshot_written(log);
                self.replicas.iter_mut().for_each(|replicas| replicas.kept(log));
                Answer::Done
            }
            Errand::Give(log) => Answer::Given(self.give(log).map(Box::new)),
            Errand::Install(arrival) => {
                let Some(replicas) = &mut self.replicas else {
                    return self.answer = Some(Answer::Installed(None));
                };
                replicas.arrive(arrival);
                return self.is_installing = true;
            }
            Errand::Installed(log) => {
                self.replicas.iter_mut().for_each(|replicas| replicas.installed(log));
                Answer::Done
            }
            Errand::Snapshot(log) => self.snapshot(log),
            Errand::Dead => Answer::Dead(self.shard.logs_mut().take_dead_segments()),
        });
    }

    /// The records that the snapshot knows are written when the turn is over, or handed in: the answer must not be told before.
    fn snapshot(&mut self, log: LogId) -> Answer {
        if !self.has_replica(log) {
            self.shard.logs_mut().write_out(log);
        }
        let snapshot = self.snap(log, false).map(Box::new);
        Answer::Snapshot(snapshot.map(|snapshot| (snapshot, self.shard.logs_mut().take_stream_syncs(log))))
    }

    /// The state of a log to be written as a snapshot. `is_clean`: the shard stops now. None: there is none now.
    pub(crate) fn snap(&mut self, log: LogId, is_clean: bool) -> Option<Snapped> {
        let state = self.shard.snapshot(log, is_clean)?;
        let replicas = self.replicas.as_mut().filter(|replicas| replicas.hosts(log));
        let replica = match replicas {
            Some(replicas) => Some(replicas.snap(log, state.covered)?),
            None => None,
        };
        Some(Snapped { state, replica, is_installed: false })
    }

    /// The state of a log for another node; none: there is none now.
    fn give(&self, log: LogId) -> Option<Given> {
        let state = self.shard.snapshot(log, false)?;
        let name = self.replicas.as_ref()?.name(log, state.covered)?;
        let logs = self.shard.logs();
        let (segments, job) = (logs.segments_of(log)?, logs.begin_move(log, state.covered)?);
        // Files of streams do not go along.
        logs.stream_segments(log).is_empty().then_some(Given { state, name, segments, job })
    }

    /// Goes on with an errand that waits for its log.
    fn run_on(&mut self, now: Now) {
        if let Some(errand) = self.errand.take() {
            self.run(now, errand);
        }
    }

    /// The answer to the errand it was last sent on, once a turn is over.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.answer.take()
    }

    // ---- waiting

    /// When something is to be done here though nothing comes, the connections' own timers apart; monotonic nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let replicas = self.replicas.as_ref().and_then(|replicas| replicas.deadline());
        [self.shard.deadline(), self.stop_at, replicas].into_iter().flatten().min()
    }

    /// Something is to be done at once.
    pub fn has_work(&self) -> bool {
        self.has_pressing_work() || self.shard.has_work() || self.front.has_work()
    }

    /// Nothing is under way between it and the disk or the keeper.
    pub fn is_quiet(&self) -> bool {
        let is_free = self.errand.is_none() && self.answer.is_none() && !self.is_installing;
        self.outstanding == 0 && is_free
    }

    /// Connections that no longer wait: the input that was kept of them is to be read again.
    pub fn take_resumed(&mut self, slots: &mut Vec<u32>) {
        let is_congested = self.shard.is_congested();
        if self.was_congested && !is_congested {
            self.front.release_held();
        }
        self.was_congested = is_congested;
        self.front.take_resumed(slots);
    }

    // ---- the end

    fn stop(&mut self, now: Now) {
        if self.stop_at.is_none() {
            self.stop_at = Some(now.mono_ns + STOP_NS);
            self.front.shut_down(now, &mut self.shard);
        }
    }

    /// It was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop_at.is_some()
    }

    /// It was told to stop, and has done all it could.
    pub fn is_finished(&self, now: Now) -> bool {
        let Some(stop_at) = self.stop_at else { return false };
        let is_still = self.outstanding == 0 && !self.shard.has_work() && !self.shard.has_moves();
        let is_done = self.front.is_empty() && is_still;
        is_done || now.mono_ns >= stop_at
    }
}

/// The surroundings of a turn, and the turn itself.
pub trait Turn {
    /// The shard whose turn it is.
    fn home(&mut self) -> &mut Home;

    /// The time by now, in a turn that began at `now` and has waited for the disk.
    fn later(&self, now: Now) -> Now;

    /// How much space there is.
    fn signs(&self) -> Signs;

    /// Takes the node's messages: each [`Letter`] goes to [`Home::hear`].
    ///
    /// # Errors
    /// The error of [`Home::hear`].
    fn take_letters(&mut self, now: Now) -> Result<(), Stop>;

    /// Takes the mail of other shards: [`Home::receive`].
    fn take_mail(&mut self, now: Now);

    /// Reads the connections that have something.
    fn read(&mut self, now: Now);

    /// Fires the connections' timers.
    fn fire_timers(&mut self, now: Now);

    /// Takes batches to be committed, and leaves none. Those written at once go to `written`; how many are to be reported later.
    ///
    /// # Errors
    /// The device failed.
    fn hand_in(
        &mut self,
        outstanding: usize,
        sealed: &mut Vec<Sealed>,
        written: &mut Vec<Written>,
    ) -> Result<usize, Stop>;

    /// Takes the contents of [`Home::outputs`].
    fn give_out(&mut self);

    /// Sends mail to other shards.
    fn send_mail(&mut self);

    /// Writes the connections that have something to send.
    fn write(&mut self, now: Now);

    /// Has connections go whose queue is another shard's.
    fn let_go(&mut self, now: Now);

    /// Goes on with the input of connections that no longer wait: [`Home::take_resumed`].
    fn resume(&mut self, now: Now);

    /// One turn.
    ///
    /// # Errors
    /// The node must stop.
    fn turn(&mut self, now: Now) -> Result<(), Stop> {
        self.home().check_leases(now);
        self.take_letters(now)?;
        let signs = self.signs();
        self.home().heed(now, signs);
        self.take_mail(now);
        self.home().run_on(now);
        self.read(now);
        self.fire_timers(now);
        for _ in 0..ROUNDS_MAX {
            self.commit(now)?;
            let Home { front, shard, .. } = self.home();
            front.handle_events(now, shard);
            if !self.home().has_pressing_work() {
                break;
            }
        }
        let Home { front, shard, .. } = self.home();
        front.end_turn(now, shard);
        // First the mail for other shards, then the answers: a client that was told that a message is taken finds it in
        // its queue from any connection. Writing may make mail again, as consumers go on when there is room.
        self.send_mail();
        self.write(now);
        self.send_mail();
        self.let_go(now);
        self.resume(now);
        Ok(())
    }

    /// Ends the broker's turn and hands in its batches.
    ///
    /// # Errors
    /// The device failed.
    fn commit(&mut self, now: Now) -> Result<(), Stop> {
        let home = self.home();
        let mut sealed = std::mem::take(&mut home.sealed);
        home.shard.end_turn(now, &mut sealed);
        home.replicate(now, &mut sealed);
        if !sealed.is_empty() {
            let outstanding = home.outstanding;
            let mut written = std::mem::take(&mut home.written);
            let handed_in = self.hand_in(outstanding, &mut sealed, &mut written);
            let later = self.later(now);
            let home = self.home();
            home.outstanding += *handed_in.as_ref().unwrap_or(&0);
            home.report(later, &written);
            written.clear();
            home.written = written;
            handed_in?;
        }
        let home = self.home();
        home.sealed = sealed;
        let Home { shard, outputs, said, .. } = home;
        if let Some(life) = shard.outlived() {
            return Err(Stop(format!("other nodes know of a later start of this one, number {life}")));
        }
        shard.take_words(said);
        outputs.words.extend(said.drain(..).map(|(to, word)| (to, Word::Log(Box::new(word)))));
        shard.take_reads(&mut outputs.reads);
        shard.take_stream_jobs(&mut outputs.jobs);
        shard.take_damages(&mut outputs.damages);
        shard.take_notices(now, &mut outputs.notices);
        self.give_out();
        Ok(())
    }

    /// The last of a shard that is finished: the records that the last snapshots know are in the journal before they
    /// are written.
    ///
    /// # Errors
    /// The device failed.
    fn write_out(&mut self, now: Now) -> Result<(), Stop> {
        let shard = &mut self.home().shard;
        shard.logs_mut().end_handing();
        let logs: Vec<LogId> = shard.logs().on_disk().collect();
        logs.into_iter().for_each(|log| shard.logs_mut().write_out(log));
        self.commit(now)
    }
}
