//! The thread that keeps house: moves [`node::keeper::Keeper`] on, whose questions it takes to the shards.
//!
//! Copying and writing happen here, gently, so that flushes get through. A shard that does not answer in time is asked nothing
//! more before it has.

use crate::clock::Clock;
use crate::committer::Committer;
use crate::door::{Door, Letter};
use crate::gentle::Gentle;
use crate::lanes::{Lanes, States};
use crate::log::Logger;
use crate::log::level::Level;
use base::id::{LogId, ShardId};
use broker::Shard;
use journal::{Disk, DiskError, Journal};
use node::Stop;
use node::keeper::{Answer, Errand, Finding, House, Next};
use node::replicas::Wanting;
use node::snapped::Part;
use node::start::stopped;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// How long a shard may take to answer before the round is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a snapshot waits for the journal to have what it knows.
const WRITTEN_PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub struct Keeper {
    keeper: node::keeper::Keeper,
    around: Around,
    /// The lanes to other nodes, where there are any.
    lanes: Option<(Arc<Lanes>, Clock)>,
    /// How long a shard may take to answer.
    patience: Duration,
    /// Where the answer comes that the last round ended without.
    late: Option<Receiver<Answer>>,
}

/// The parts of the node that the keeper works with.
struct Around {
    committer: Arc<Committer>,
    doors: Arc<[Door]>,
    logger: Logger,
}

/// The way to keepers of other nodes, if there are any.
struct Between<'a>(Option<&'a (Arc<Lanes>, Clock)>);

impl Between<'_> {
    /// Brings the keeper what other nodes and shards said of states of logs, and them its words.
    fn talk(&self, keeper: &mut node::keeper::Keeper, rooms: &mut Rooms<'_>) -> Result<(), DiskError> {
        let Some((lanes, clock)) = self.0 else { return Ok(()) };
        let now = clock.now();
        let States { heard, wanted } = lanes.take_states();
        heard.into_iter().for_each(|(from, fetch)| keeper.hear(from, *fetch));
        for Wanting { log, from, least } in wanted {
            keeper.offered(now, log, from, least);
        }
        let mut words = Vec::new();
        keeper.talk(now, rooms, &mut words)?;
        if !words.is_empty() {
            // Shards have their lanes for their own; one is as good as another.
            lanes.post(ShardId(0), &mut words);
        }
        Ok(())
    }
}

/// The same, and a disk.
struct Rooms<'a> {
    around: &'a Around,
    disk: &'a dyn Disk,
}

impl House for Rooms<'_> {
    fn disk(&self) -> &dyn Disk {
        self.disk
    }

    fn with_journal(&mut self, work: &mut dyn FnMut(&mut Journal)) {
        self.around.committer.with_journal(work);
    }

    fn note(&mut self, finding: Finding) {
        let (level, text) = match finding {
            Finding::Damaged(log, base) => {
                let text =
                    format!("log {log}: the batch at {base} is damaged on disk; its messages are lost");
                self.around.logger.log(Level::Error, text);
                (Level::Error, stopped(log))
            }
            Finding::NoSpace => {
                let text = "journal files cannot be released: there is no space for what is left in them elsewhere; make \
                            room on the disk, or let consumers take messages";
                (Level::Warning, text.to_owned())
            }
        };
        self.around.logger.log(level, text);
    }

    fn room_to_move(&mut self) -> Result<u64, DiskError> {
        self.around.committer.room_to_move()
    }

    fn give_up_spare(&mut self) -> bool {
        self.around.committer.give_up_spare()
    }

    fn has_waited_for_writes(&mut self) -> bool {
        // The snapshot is written anyhow: that the journal has what it knows helps a start that finds it damaged.
        let _ = self.around.committer.wait_written(WRITTEN_PATIENCE);
        true
    }
}

impl Keeper {
    /// One that moves `keeper` on.
    pub fn new(
        keeper: node::keeper::Keeper,
        committer: Arc<Committer>,
        doors: Arc<[Door]>,
        logger: Logger,
    ) -> Keeper {
        let around = Around { committer, doors, logger };
        Keeper { keeper, around, lanes: None, patience: PATIENCE, late: None }
    }

    /// It talks with those of other nodes about states of logs from now on.
    pub fn join(&mut self, lanes: Arc<Lanes>, clock: Clock) {
        self.lanes = Some((lanes, clock));
    }

    /// Does a round, if there is one to be done: see [`node::keeper::Keeper::begin`]. False: there was no space for it.
    ///
    /// # Errors
    /// The text of one that must stop the node.
    pub fn round(&mut self, is_tight: bool) -> Result<bool, String> {
        let committer = self.around.committer.clone();
        let in_hurry = || committer.is_in_hurry();
        let disk = Gentle::new(&**committer.disk(), &in_hurry);
        let Keeper { keeper, around, lanes, patience, late } = self;
        let mut rooms = Rooms { around, disk: &disk };
        let between = Between(lanes.as_ref());
        if let Err(error) = between.talk(keeper, &mut rooms) {
            return Err(format!("states of logs cannot be exchanged: {error}"));
        }
        match late.as_ref().map(Receiver::try_recv) {
            None => {}
            Some(Err(TryRecvError::Empty)) => return Ok(!keeper.is_behind()),
            Some(Err(TryRecvError::Disconnected)) => keeper.forget(),
            Some(Ok(answer)) => keeper.answer(answer),
        }
        *late = None;
        let mut outcome = Ok(());
        if keeper.begin(&mut rooms, is_tight) {
            loop {
                match keeper.step(&mut rooms) {
                    Ok(Next::Step) => {
                        if let Err(error) = between.talk(keeper, &mut rooms) {
                            outcome = Err(error);
                            break;
                        }
                    }
                    Ok(Next::Over) => break,
                    Ok(Next::Ask(shard, errand)) => {
                        if let Errand::Install(arrival) = &errand {
                            let text =
                                format!("log {}: its state on another node is put in place", arrival.log);
                            around.logger.info(text);
                        }
                        let (sender, receiver) = channel();
                        around.doors[usize::from(shard.0)].letters.put(Letter::Errand(errand, sender));
                        match receiver.recv_timeout(*patience) {
                            Ok(answer) => keeper.answer(answer),
                            Err(_) => {
                                keeper.give_up();
                                *late = Some(receiver);
                                break;
                            }
                        }
                    }
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
        }
        // A sync that failed counts, also where something else ended the work before it was told.
        match disk.failure().map_or(outcome, Err) {
            Ok(()) => Ok(!keeper.is_behind()),
            Err(error) => Err(format!("moving messages out of the journal failed: {error}")),
        }
    }

    /// Writes the last snapshots of these shards, whose threads have ended; `parts` are those of their replicas.
    ///
    /// # Errors
    /// The device's error, as the reason why the node must stop.
    pub fn write_snapshots(
        &mut self,
        shards: &mut [Shard],
        parts: &mut BTreeMap<LogId, Option<Part>>,
    ) -> Result<(), Stop> {
        let disk = self.around.committer.disk().clone();
        let mut rooms = Rooms { around: &self.around, disk: &*disk };
        let doors = self.around.doors.clone();
        let left = |shard: ShardId| {
            let mut mail = Vec::new();
            doors[usize::from(shard.0)].mail.take(&mut mail);
            mail
        };
        node::stop::write_snapshots(shards, left, parts, &mut self.keeper, &mut rooms)
    }
}
