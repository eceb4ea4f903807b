//! Everything of one run: the node, its disk, the clients, the clock, and the dice that decide what happens next.

use crate::client::{Asked, CLIENTS_MAX, Client, Delivery, Held, Kind, Seen, State, Verdict, read_body};
use crate::cluster::Cluster;
use crate::double::{Double, LOGS_MAX};
use crate::machine::{Machine, Makeup};
use crate::makeup;
use crate::net::Net;
use crate::oracle::{Check, Oracle, Stage};
use crate::patience::{self, Patience};
use crate::plan::{Plan, Tally};
use crate::rotten::Rotten;
use crate::rules::{DELAYS_MS, Rules};
use crate::seat::Seat;
use crate::shape::Shape;
use crate::streams::{FIRST_FED, FIRST_MESSAGE, STREAM_CLIENTS_MAX, Streams, USERS};
use crate::tenant::{self, TENANT, TENANT_CLIENTS_MAX, TenantClient};
use crate::trace::Trace;
use crate::workload::transact;
use adapters::Protocol;
use base::time::NS_PER_MS;
use base::{Now, Random};
use journal::faulty::{Call, Temper};
use journal::{Disk, DiskError, FaultyDisk, FileKind, FileName};
use node::Stop;
use node::start::CATALOG_LOST;
use node::turn::STOP_NS;

/// Rounds after which a node that still is not at rest never will be.
const ROUNDS_MAX: usize = 4000;

/// Milliseconds of a round of a world that rests.
const ROUND_MS: u64 = 30;

/// Starts in a row that faults may spoil.
const STARTS_MAX: usize = 8;

/// Bytes at the beginning of a snapshot, behind which is what is in it.
const SNAPSHOT_HEAD: u64 = 8;

/// A node that begins to lead waits until all others have said what their connections hold, however long that takes.
fn makeup_waits(makeup: &Makeup) -> bool {
    makeup.limits.claims_ms_max == makeup::CLAIMS_AWAITED_MS
}

/// A run.
#[derive(Debug)]
pub struct World {
    /// The plan of the run.
    pub plan: Plan,
    /// Decide.
    pub dice: Random,
    /// The time.
    pub now: Now,
    /// The node's disk.
    pub disk: FaultyDisk,
    /// The node.
    pub node: Machine,
    /// Between node and clients.
    pub net: Net,
    /// The clients.
    pub clients: Vec<Option<Client>>,
    /// The judge.
    pub oracle: Oracle,
    /// Streams, and their clients.
    pub streams: Streams,
    /// The hostile tenant's connections.
    pub tenant: Vec<Option<TenantClient>>,
    /// The events so far.
    pub trace: Trace,
    /// How much happened.
    pub tally: Tally,
    /// Something on disk may fail from here to the next crash.
    pub has_faults: bool,
    /// Bits rot in this run.
    pub rots: bool,
    /// Where they have rotted so far.
    pub rotten: Rotten,
    /// The shape of the workload.
    pub shape: Shape,
    /// The others of a quorum, where the logs have one that is played.
    pub double: Option<Double>,
    /// The nodes beside the one that is looked at, where there are several.
    pub cluster: Option<Cluster>,
    /// That of the node that is looked at.
    pub makeup: Makeup,
    connections: u64,
    /// The node is stopping, and tells its clients.
    pub is_stopping: bool,
    /// Clients accept their deliveries at once.
    is_draining: bool,
    /// The catalog is damaged, the node says so and does not start: there is nothing more to see.
    pub is_lost: bool,
}

impl World {
    /// The world of `seed`, with a node on an empty disk.
    ///
    /// # Errors
    /// The node does not start.
    pub fn new(seed: u64, plan: Plan) -> Result<World, String> {
        let mut dice = Random::new(seed);
        let disk = FaultyDisk::new(dice.bits());
        let is_one_of_several = plan.nodes > 0;
        let mut makeup = makeup::roll(&mut dice, plan.rich, plan.double || is_one_of_several);
        if is_one_of_several {
            makeup.seat = Some(Seat { number: 0, nodes: plan.nodes, life: 1 });
            // Leaders come and go, with votes and entries in each log: a round of housekeeping for every few of those would never
            // end.
            makeup.journal.file_bytes *= 16;
            makeup.journal.first_file_bytes *= 16;
            // A node leads for a second or so, and one message at a time would take all day.
            makeup.settings.unconfirmed_max = makeup.settings.unconfirmed_max.max(16);
        }
        if plan.crowds {
            makeup.limits.stream_offsets_max = dice.between(20, 120) as usize;
        }
        if plan.hostile {
            tenant::tighten(&mut makeup, &mut dice);
        }
        let now = Now { mono_ns: 1_000_000, wall_ms: 1_700_000_000_000 };
        let shards = dice.between(1, 4) as u16;
        if plan.wide && dice.one_in(3) {
            // The very first start fails somewhere, or the power goes behind it.
            disk.power_off(dice.between(1, 20));
            let _may_fail = Machine::start(&disk, &makeup, shards, now, &mut dice, &mut Vec::new());
            disk.crash();
        }
        let node = Machine::start(&disk, &makeup, shards, now, &mut dice, &mut Vec::new());
        let node = node.map_err(|stop| stop.0)?;
        let cluster = match plan.nodes {
            0 => None,
            nodes => Some(Cluster::new(&makeup, nodes, (now, &mut dice))?),
        };
        let rots = plan.rot && dice.one_in(6);
        let takes_back = plan.double && dice.one_in(2);
        let shape = if plan.wide { Shape::roll(&mut dice) } else { Shape::PLAIN };
        let mut world = World {
            plan,
            dice,
            now,
            disk,
            node,
            net: Net::default(),
            clients: (0..CLIENTS_MAX).map(|_| None).collect(),
            oracle: Oracle::new(now.wall_ms, plan.double || is_one_of_several),
            streams: Streams::new(makeup.limits.stream_offsets_max),
            tenant: (0..TENANT_CLIENTS_MAX).map(|_| None).collect(),
            trace: Trace::new(plan.trace_lines),
            tally: Tally::default(),
            has_faults: false,
            rots,
            rotten: Rotten::default(),
            shape,
            double: plan.double.then(|| Double::new(makeup.limits, now, takes_back)),
            cluster,
            makeup,
            connections: 0,
            is_stopping: false,
            is_draining: false,
            is_lost: false,
        };
        world.oracle.waits_for_claims = is_one_of_several && makeup_waits(&world.makeup);
        match is_one_of_several {
            true => world.settle_together(USERS[0])?,
            false => world.settle_in(USERS[0]).map_err(|stop| stop.0)?,
        }
        if plan.crowds {
            world.add_users();
            world.settle_in(world.last_user()).map_err(|stop| stop.0)?;
        }
        if plan.hostile {
            world.add_tenant();
            world.settle_in(TENANT).map_err(|stop| stop.0)?;
        }
        Ok(world)
    }

    /// Notes a line.
    pub fn note(&mut self, line: impl Into<String>) {
        self.trace.note(line.into());
    }

    /// Time passes.
    pub fn pass(&mut self, ms: u64) {
        self.now.mono_ns += ms * NS_PER_MS;
        self.now.wall_ms += ms;
        self.oracle.now_ms = self.now.wall_ms;
    }

    /// A node that must stop goes down. That it must is a mistake where nothing was made to fail.
    pub fn unless_stopped(&mut self, result: Result<(), Stop>) -> Check {
        self.learn_of_damage()?;
        self.learn_of_torn()?;
        let Err(Stop(why)) = result else {
            if self.node.begins_anew() {
                self.note("the node begins anew, with the catalog of another");
                self.crash(Some(Temper::Kill))?;
                // No fault: a rest goes on.
                self.tally.crashes -= 1;
            }
            return Ok(());
        };
        self.note(format!("the node stops: {why}"));
        if !self.has_faults && !self.rots {
            return Err(format!("the node stops though nothing failed: {why}"));
        }
        let temper = self.started_again();
        self.crash(temper)
    }

    /// The supervisor starts the node again at once when it stops or does not start: the machine lives on.
    fn started_again(&mut self) -> Option<Temper> {
        (self.plan.wide && self.dice.one_in(2)).then_some(Temper::Kill)
    }

    fn learn_of_damage(&mut self) -> Check {
        self.rotten.note_outrun(self.node.has_outrun);
        if !self.node.damages.is_empty() {
            self.check_damages(&self.node.damages)?;
            let rows = self.node.queues();
            self.oracle.learn(&rows);
            self.streams.oracle.learn(&rows);
            let damages = std::mem::take(&mut self.node.damages);
            self.learn_of(damages);
        }
        Ok(())
    }

    fn learn_of_torn(&mut self) -> Check {
        let torn = std::mem::take(&mut self.node.torn);
        if let Some(double) = self.double.as_mut().filter(|_| !torn.is_empty()) {
            double.lose();
        }
        torn.iter().try_for_each(|damage| self.stream_torn(damage))
    }

    /// Of two snapshots of a log one may rot, and nothing is lost by that.
    fn check_damages(&self, damages: &[Option<base::id::LogId>]) -> Check {
        let may_be = self.has_faults || (self.rots && self.rotten.may_lose());
        if damages.is_empty() || may_be {
            return Ok(());
        }
        Err(format!("damage is reported though nothing is lost by what failed: {damages:?}"))
    }

    fn learn_of(&mut self, damages: Vec<Option<base::id::LogId>>) {
        if let Some(double) = self.double.as_mut().filter(|_| !damages.is_empty()) {
            double.lose();
        }
        for log in damages {
            self.note(format!("damage is reported of log {log:?}"));
            self.oracle.damage_reported(log);
        }
    }

    // ---- the others of a quorum

    /// Takes note of what the node proposes.
    pub fn watch(&mut self) -> Check {
        let World { double: Some(double), node, .. } = self else { return Ok(()) };
        node.berths.iter().try_for_each(|berth| double.watch(&berth.home.shard))
    }

    /// The others of the quorum agree on something, or take something back.
    pub fn agree(&mut self) -> Check {
        let World { double: Some(double), node, now, dice, oracle, .. } = self else { return Ok(()) };
        let before = double.resigned;
        let outcome = double.step(node, *now, dice);
        if double.resigned > before {
            oracle.leader_lost();
            self.note("the leader of a log resigns");
        }
        match outcome {
            Ok(checked) => checked,
            Err(stop) => self.unless_stopped(Err(stop)),
        }
    }

    // ---- clients

    /// Bytes move between a client and the node, and what the client heard is judged.
    pub fn exchange(&mut self, at: usize, all: bool) -> Check {
        let World { clients, net, dice, now, .. } = self;
        let Some(client) = &mut clients[at] else { return Ok(()) };
        let mut seen = Vec::new();
        client.exchange(*now, (!all).then_some(dice), net, &mut seen);
        for event in seen {
            self.heard(at, event)?;
        }
        if self.clients[at].as_ref().is_some_and(|client| client.state == State::Over) {
            self.forget_client(at, true);
        }
        Ok(())
    }

    fn heard(&mut self, at: usize, event: Seen) -> Check {
        let Some(client) = &mut self.clients[at] else { return Ok(()) };
        let number = client.number;
        match event {
            Seen::Open => self.note(format!("c{number} is open")),
            Seen::Confirmed(id) if id >= FIRST_MESSAGE => {
                self.note(format!("c{number} hears that m{id} is confirmed"));
                self.streams.oracle.confirmed(id);
            }
            Seen::Returned(id) | Seen::Refused(id) if id >= FIRST_MESSAGE => {
                self.note(format!("c{number} hears that m{id} is not taken"));
                let is_damaged = self.is_stream_damaged(self.streams.oracle.stream_of(id));
                self.streams.oracle.refused(id, is_damaged)?;
            }
            Seen::Confirmed(id) => {
                self.tally.confirmed += 1;
                self.note(format!("c{number} hears that m{id} is confirmed"));
                self.oracle.confirmed(id)?;
            }
            Seen::Returned(id) => {
                self.note(format!("c{number} hears that m{id} goes nowhere"));
                self.oracle.returned(id)?;
            }
            Seen::Delivered(delivery) if client.browses(delivery.consumer) => self.shown(at, &delivery)?,
            Seen::Delivered(delivery) if delivery.queue >= FIRST_FED => {
                let id = read_body(&delivery.body).map(|(id, _)| id);
                self.note(format!("c{number} gets {id:?} from the fed queue {}", delivery.queue));
                self.streams.oracle.fed_came(delivery.queue, id)?;
            }
            Seen::Done(Asked::Declare(queue), _) if queue >= FIRST_FED => {
                self.note(format!("c{number} hears that the fed queue {queue} is there"));
                let fed = self.streams.oracle.fed(queue);
                fed.stage = if fed.stage == Stage::Asked { Stage::There } else { fed.stage };
            }
            Seen::Done(Asked::Purge(queue), count) if queue >= FIRST_FED => {
                self.note(format!("c{number} hears that the fed queue {queue} is emptied: {count:?}"));
            }
            Seen::Done(Asked::Delete(queue), _) if queue >= FIRST_FED => {
                self.note(format!("c{number} hears that the fed queue {queue} is gone"));
                self.streams.oracle.fed(queue).stage = Stage::Gone;
            }
            Seen::Delivered(delivery) => {
                self.tally.delivered += 1;
                let id = self.oracle.delivered(number, &delivery);
                let mark = if delivery.redelivered { " again" } else { "" };
                let (queue, tag) = (delivery.queue, delivery.tag);
                let consumer = delivery.consumer.map_or("get".to_owned(), |handle| handle.to_string());
                let settled = if delivery.settled { " settled" } else { "" };
                let message = id.as_ref().map_or("what it must not".to_owned(), |id| format!("m{id}"));
                self.trace.note(format!(
                    "c{number} gets {message} from q{queue} for {consumer} as {tag}{mark}{settled}"
                ));
                let (message, consumer) = (id?, delivery.consumer);
                if let Some(address) = delivery.reply_to {
                    client.requests.push((message, address));
                }
                let is_barrier = consumer.is_some() && self.oracle.is_barrier(queue, message);
                let may_be_settled = !client.can_ask() && consumer.is_some_and(|handle| handle % 2 == 1);
                if is_barrier && may_be_settled && !delivery.settled && self.oracle.has_place(message) {
                    return Err(format!("barrier {message} of queue {queue} comes unsettled"));
                }
                let held = Held { message, queue, consumer, tag, is_barrier };
                if client.state == State::Closing {
                    // The broker takes it back when it reads the good-bye, which may be long before we hear of it.
                    self.oracle.settling(number, &[held], Verdict::Release);
                } else if !delivery.settled {
                    client.held.push(held);
                }
            }
            Seen::Done(asked, count) => {
                self.note(format!("c{number} hears that {asked:?} is done {count:?}"));
                self.oracle.done(number, asked, count)?;
                match asked {
                    Asked::Declare(queue) => {
                        self.tally.declared += 1;
                        self.is_known(at, queue)?;
                    }
                    Asked::Look(..) => self.tally.looked += 1,
                    Asked::Delete(_) => self.tally.deleted += 1,
                    _ => {}
                }
                if let Asked::Consume(handle) = asked
                    && let Some(client) = &self.clients[at]
                    && let Some(consumer) = client.consumers.iter().find(|it| it.handle == handle)
                    && !consumer.browses
                    && !consumer.is_over
                {
                    self.oracle.opened(number, handle, consumer.queue);
                }
                let is_managed = self.clients[at].as_ref().is_some_and(|client| !client.can_ask());
                self.tally.managed += u64::from(is_managed);
            }
            Seen::Refused(id) => {
                self.tally.refused += 1;
                self.note(format!("c{number} hears that m{id} is refused"));
                self.oracle.refused(id)?;
            }
            Seen::Replied(body) => {
                self.tally.replies += 1;
                let reply = self.oracle.replied(number, &body)?;
                self.note(format!("c{number} gets the reply m{reply}"));
            }
            Seen::Begun => {
                self.tally.begun += 1;
                self.note(format!("c{number} begins a transaction"));
            }
            Seen::Undone(transaction) => {
                self.tally.undone += 1;
                let held = (transaction.published.len(), transaction.settled.len());
                self.note(format!("c{number} hears that its transaction of {held:?} is undone"));
                self.oracle.undone(number, &transaction);
            }
            Seen::Empty(queue) => self.note(format!("c{number} hears that q{queue} is empty")),
            Seen::Cancelled(handle) => {
                self.oracle.browsing_ended(number, handle);
                self.note(format!("c{number} loses consumer {handle}"));
            }
            Seen::Closed => {
                self.note(format!("c{number} is closed"));
                self.forget_client(at, true);
            }
            Seen::Failed(why) => {
                self.note(format!("c{number} fails: {why}"));
                let is_gone = ["404", "amqp:not-found", "amqp:resource-deleted"];
                let is_forced = ["320", "amqp:connection:forced"];
                let is_late =
                    why.starts_with("406") && why.contains("timed out") && self.oracle.has_timeouts();
                let is_without_room = self.tally.full > 0 && why.contains("no disk space is left");
                let is_late_catalog =
                    self.cluster.is_some() && why.starts_with("541") && why.contains("time");
                if self.cluster.is_some() && why.starts_with("404") && !self.oracle.has_damage() {
                    self.oracle.is_missing(&why)?;
                }
                self.tally.timed_out += u64::from(is_late_catalog);
                let is_expected = self.oracle.has_damage()
                    || is_late_catalog
                    || is_late
                    || is_without_room
                    || is_gone.iter().any(|text| why.starts_with(text))
                    || self.is_stopping && is_forced.iter().any(|text| why.starts_with(text))
                    || why == "the connection was cut" && self.is_stopping;
                if !is_expected {
                    return Err(format!("connection {number} ({}) failed: {why}", self.protocol(at)));
                }
                self.forget_client(at, false);
            }
        }
        Ok(())
    }

    /// A browser was shown a message, and settles it at once in one way or another, if at all.
    fn shown(&mut self, at: usize, delivery: &Delivery) -> Check {
        let World { clients, oracle, dice, trace, tally, .. } = self;
        let Some(client) = &mut clients[at] else { return Ok(()) };
        tally.shown += 1;
        let (number, queue) = (client.number, delivery.queue);
        let id = oracle.shown(number, delivery)?;
        trace.note(format!("c{number} is shown m{id} from q{queue} for {:?}", delivery.consumer));
        if !delivery.settled && client.state == State::Open && client.transaction.is_none() {
            let verdicts = [Verdict::Accept, Verdict::Reject, Verdict::Release, Verdict::Fail];
            client.settle_shown(delivery.tag, verdicts[dice.below(4) as usize]);
        }
        Ok(())
    }

    fn protocol(&self, at: usize) -> &'static str {
        self.clients[at].as_ref().map_or("gone", Client::protocol)
    }

    fn forget_client(&mut self, at: usize, in_order: bool) {
        let Some(mut client) = self.clients[at].take() else { return };
        // Without an answer to its last question nobody knows whether its channel was closed before what came behind.
        let in_order = in_order && !client.is_waiting();
        client.vanish(&mut self.net);
        self.oracle.client_gone(client.number, &client.take_held(), in_order);
    }

    /// A client connects, if there is a place for it.
    pub fn connect(&mut self, kind: Kind) -> Option<usize> {
        let at = self.clients.iter().position(Option::is_none)?;
        if self.is_down() || !self.node.planning().is_caught_up() {
            return None;
        }
        let line = self.net.open(self.here());
        let shard = self.dice.below(self.node.berths.len() as u64) as usize;
        let number = self.next_connection();
        let client = Client::new(number, line, self.now, kind, &mut self.dice);
        self.note(format!("c{} connects to shard {shard} over {}", client.number, client.protocol()));
        self.clients[at] = Some(client);
        self.node.accept(shard, line, Protocol::Amqp);
        Some(at)
    }

    /// The number of one connection more.
    pub fn next_connection(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    /// A client is gone without a word.
    pub fn vanish(&mut self, at: usize) {
        if let Some(client) = &self.clients[at] {
            let number = client.number;
            self.note(format!("c{number} vanishes"));
            self.forget_client(at, false);
        }
    }

    /// An open client, rolled; `can_ask`: one that can ask for queues and the like.
    pub fn any_client(&mut self, can_ask: bool) -> Option<usize> {
        let is_fit = |client: &Client| client.state == State::Open && (!can_ask || client.can_ask());
        let open: Vec<usize> =
            (0..CLIENTS_MAX).filter(|at| self.clients[*at].as_ref().is_some_and(is_fit)).collect();
        self.any_of(&open)
    }

    /// An open client of AMQP 1.0, rolled.
    pub fn any_managing(&mut self) -> Option<usize> {
        let is_fit = |client: &Client| client.state == State::Open && !client.can_ask();
        let open: Vec<usize> =
            (0..CLIENTS_MAX).filter(|at| self.clients[*at].as_ref().is_some_and(is_fit)).collect();
        self.any_of(&open)
    }

    /// An open client of 0-9-1 that has confirms, and requests to reply to if `was_asked`, rolled.
    pub fn any_confirmed(&mut self, was_asked: bool) -> Option<usize> {
        let is_fit = |client: &Client| {
            client.state == State::Open
                && client.can_ask()
                && client.transaction.is_none()
                && !(was_asked && client.requests.is_empty())
        };
        let fit: Vec<usize> =
            (0..CLIENTS_MAX).filter(|at| self.clients[*at].as_ref().is_some_and(is_fit)).collect();
        self.any_of(&fit)
    }

    /// An open client that can have a transaction, rolled.
    pub fn any_transactional(&mut self) -> Option<usize> {
        let is_fit = |client: &Client| {
            client.state == State::Open && (client.transaction.is_some() || !client.can_ask())
        };
        let fit: Vec<usize> =
            (0..CLIENTS_MAX).filter(|at| self.clients[*at].as_ref().is_some_and(is_fit)).collect();
        self.any_of(&fit)
    }

    /// One of these, rolled.
    pub fn any_of(&mut self, list: &[usize]) -> Option<usize> {
        (!list.is_empty()).then(|| list[self.dice.below(list.len() as u64) as usize])
    }

    // ---- down and up

    /// The node goes down without order, and comes up again.
    pub fn crash(&mut self, temper: Option<Temper>) -> Check {
        self.tally.crashes += 1;
        let temper = match temper {
            Some(temper) => {
                self.disk.crash_as(temper);
                temper
            }
            None => self.disk.crash(),
        };
        self.note(format!("crash: {temper:?}"));
        self.go_down()?;
        if self.stay_down() { Ok(()) } else { self.come_up() }
    }

    fn go_down(&mut self) -> Check {
        self.watch()?;
        self.tally.rolls += self.node.books.journal.counters().rolls;
        self.tally.bulk += self.node.books.journal.counters().bulk_files;
        self.tally.handed += self.node.handed;
        self.tally.held_back += self.node.held_back;
        let here = self.here();
        self.net.cut_all(here);
        for at in 0..CLIENTS_MAX {
            let is_here = |client: &Client, net: &mut Net| net.line(client.line()).home == here;
            if self.clients[at].as_ref().is_some_and(|client| is_here(client, &mut self.net)) {
                self.forget_client(at, false);
            }
        }
        (0..STREAM_CLIENTS_MAX).for_each(|at| self.vanish_stream(at));
        self.vanish_tenant();
        let rows = self.node.queues();
        self.oracle.learn(&rows);
        match self.cluster {
            Some(_) => self.oracle.node_lost(),
            None => self.oracle.went_down(),
        }
        self.streams.oracle.learn(&rows);
        self.streams.oracle.went_down();
        self.disk.set_capacity(u64::MAX);
        Ok(())
    }

    /// The node comes up again.
    pub fn come_up(&mut self) -> Check {
        for attempt in 1..=STARTS_MAX {
            self.has_faults = false;
            let may_fail = attempt < STARTS_MAX && !self.is_calm();
            if may_fail && self.plan.crashes && self.dice.one_in(8) {
                self.has_faults = true;
                let calls = self.dice.between(1, 40);
                self.note(format!("the power will go in {calls} calls"));
                self.disk.power_off(calls);
            } else if may_fail && self.plan.wide && self.plan.io_errors && self.dice.one_in(6) {
                self.has_faults = true;
                let calls =
                    [Call::Write, Call::Sync, Call::SyncFolder, Call::Create, Call::Rename, Call::Remove];
                let call = calls[self.dice.below(6) as usize];
                let nth = self.dice.between(1, 12);
                self.note(format!("{call:?} will fail, number {nth} of the start"));
                self.disk.fail(call, nth, DiskError::Io(5));
            }
            if self.plan.wide && self.makeup.logs < LOGS_MAX && self.dice.one_in(8) {
                self.makeup.logs += 1;
                self.note(format!("{} logs are wanted", self.makeup.logs));
            }
            let shards = self.dice.between(1, 4) as u16;
            self.begin_life();
            let World { disk, makeup, now, dice, .. } = self;
            let (mut damages, mut followed) = (Vec::new(), Ok(()));
            let started = Machine::start(disk, makeup, shards, *now, dice, &mut damages).and_then(|node| {
                self.node = node;
                if let Some(double) = &mut self.double {
                    if !damages.is_empty() {
                        double.lose();
                    }
                    followed = double.restarted(&mut self.node, self.now);
                }
                match self.cluster.is_some() {
                    // It hears of that from the others.
                    true => Ok(()),
                    false => self.settle_in(self.last_user()),
                }
            });
            followed?;
            self.check_damages(&damages)?;
            self.learn_of(damages);
            match started {
                Ok(()) => {
                    self.note(format!("the node is up with {} shards", self.node.berths.len()));
                    self.learn_of_damage()?;
                    let rows = self.node.queues();
                    if self.cluster.is_some() {
                        self.is_up();
                        self.oracle.learn(&rows);
                        return Ok(());
                    }
                    for row in &rows {
                        self.note(format!("{} has {} ready", row.definition.name, row.ready));
                    }
                    self.oracle.came_up(&rows)?;
                    return self.streams.oracle.came_up(&rows, |log| self.oracle.has_lost(log));
                }
                Err(Stop(why)) => {
                    self.note(format!("the node does not start: {why}"));
                    if why == CATALOG_LOST && self.oracle.has_damage() {
                        self.is_lost = true;
                        return Ok(());
                    }
                    if !self.has_faults {
                        return Err(format!("the node does not start: {why}"));
                    }
                    let temper = self.started_again();
                    let temper = match temper {
                        Some(temper) => {
                            self.disk.crash_as(temper);
                            temper
                        }
                        None => self.disk.crash(),
                    };
                    self.note(format!("crash while starting: {temper:?}"));
                }
            }
        }
        Err("the node does not start after faults have ended".to_owned())
    }

    /// The user that was made last.
    fn last_user(&self) -> &'static str {
        match self.plan {
            Plan { hostile: true, .. } => TENANT,
            Plan { crowds: true, .. } => USERS[USERS.len() - 1],
            _ => USERS[0],
        }
    }

    /// The first content is on disk and every shard knows it, up to this user.
    fn settle_in(&mut self, user: &str) -> Result<(), Stop> {
        for _ in 0..100 {
            for at in 0..self.node.berths.len() {
                let World { node, now, dice, net, .. } = self;
                node.turn(at, *now, dice, net)?;
                // A fault is seen again in the next turn.
                let _ = self.watch();
            }
            self.node.write(self.now)?;
            let has_user = |berth: &crate::berth::Berth| berth.home.shard.catalog().user(user).is_some();
            if self.node.berths.iter().all(has_user) && self.node.books.line.is_empty() {
                return Ok(());
            }
        }
        Err(Stop("the catalog does not reach every shard".to_owned()))
    }

    /// The node stops in order, and comes up again.
    pub fn stop(&mut self) -> Check {
        if self.has_faults {
            return self.crash(None);
        }
        self.note("the node is to stop");
        self.heal();
        self.is_stopping = true;
        self.node.shut_down();
        // A client in the midst of its login does not hear of it, and is left behind.
        let stop_at = self.now.mono_ns + STOP_NS;
        let stopped = self.rest_while(|world| world.node.connections() > 0 && world.now.mono_ns < stop_at);
        let stopped = stopped.and_then(|is_at_rest| {
            // A catalog that was damaged on the way keeps the node from starting: there is none to end.
            if is_at_rest && !self.is_lost { self.end_in_order() } else { Ok(()) }
        });
        self.is_stopping = false;
        stopped
    }

    fn end_in_order(&mut self) -> Check {
        self.tally.stops += 1;
        self.go_down()?;
        let shards = 1;
        let World { node, disk, makeup, now, dice, net, double, .. } = self;
        // The node is consumed by its end; until the next start a node without a disk stands in its place.
        let empty = FaultyDisk::new(0);
        let nothing = Machine::start(&empty, makeup, shards, *now, &mut dice.fork(), &mut Vec::new());
        let nothing = nothing.map_err(|stop| stop.0)?;
        let mut seen = Ok(());
        let ended = std::mem::replace(node, nothing).end(*now, dice, net, |shard| {
            if let Some(double) = double {
                seen = std::mem::replace(&mut seen, Ok(())).and_then(|()| double.watch(shard));
            }
        });
        disk.crash_as(Temper::Kill);
        seen?;
        match ended {
            Ok(has_outrun) => self.rotten.note_outrun(has_outrun),
            Err(Stop(why)) => return Err(format!("the node does not end in order: {why}")),
        }
        self.note("the node has stopped");
        self.come_up()
    }

    /// Faults end, and there is space again.
    pub fn heal(&mut self) {
        self.disk.set_capacity(u64::MAX);
        self.disk.set_faults(journal::faulty::Faults::default());
    }

    // ---- rest

    /// Everything goes on, and nothing new is begun, until nothing is left to do; then what must be so is.
    pub fn rest(&mut self) -> Check {
        self.note("rest");
        self.heal_all();
        let is_at_rest = self.rest_while(|_| false)?;
        if is_at_rest {
            let rows = self.rows();
            self.doubts_end()?;
            self.oracle.rests(&rows, self.has_faults)?;
            self.check_hunger(&rows)?;
            self.oracle.check_bytes(&self.node.limited())?;
            self.streams_rest()?;
            if !self.has_faults {
                // A browser goes on behind what cannot be read.
                self.oracle.check_browsers()?;
            }
            if !self.rots && self.cluster.is_none() {
                self.look_ahead()?;
            }
        }
        self.begin_link_faults();
        Ok(())
    }

    /// Starts a node from the disk as it would be after losing power now: at rest it finds everything, also where the
    /// newest snapshot of a log rots meanwhile.
    fn look_ahead(&mut self) -> Check {
        let disk = self.disk.fork();
        disk.crash_as(Temper::LoseAll);
        self.check_start(&disk, "that lost its power at rest")?;
        if self.rotten.has_outrun() {
            return Ok(());
        }
        let mut snapshots = disk.list(FileKind::Snapshot).map_err(|error| error.to_string())?;
        snapshots.sort_unstable_by_key(|file| (file.log, file.number));
        let newest = snapshots.windows(2).filter(|two| two[0].log == two[1].log).map(|two| two[1]);
        let newest: Vec<FileName> = newest.collect();
        let mut dice = Random::new(self.tally.steps);
        if newest.is_empty() || dice.one_in(2) {
            return Ok(());
        }
        let file = newest[dice.below(newest.len() as u64) as usize];
        // Behind its head: that of another version would be another matter.
        disk.ruin(file, SNAPSHOT_HEAD + dice.below(SNAPSHOT_HEAD));
        self.check_start(&disk, "whose newest snapshot is damaged")
    }

    fn check_start(&self, disk: &FaultyDisk, what: &str) -> Check {
        let mut dice = Random::new(self.tally.steps);
        let mut damages = Vec::new();
        let node = Machine::start(disk, &self.makeup, 2, self.now, &mut dice, &mut damages);
        let node = node.map_err(|stop| format!("a node {what}: {}", stop.0))?;
        if !damages.is_empty() {
            return Err(format!("a node {what} reports damage: {damages:?}"));
        }
        let checked = self.oracle.check_on_disk(&node.queues());
        let checked = checked
            .and_then(|()| self.streams.oracle.check_counts(&node.queues(), |log| self.oracle.has_lost(log)));
        checked.map_err(|why| format!("a node {what}: {why}"))
    }

    /// False where the node went down meanwhile.
    pub fn rest_while(&mut self, goes_on: impl Fn(&World) -> bool) -> Result<bool, String> {
        let (mut quiet, mut patience) = (0, Patience::default());
        let crashes = self.tally.crashes;
        let rounds = if self.cluster.is_some() { 4 * ROUNDS_MAX } else { ROUNDS_MAX };
        for _ in 0..rounds {
            // Before anything else: timed work is done in the round that looks whether all is quiet.
            self.pass(ROUND_MS);
            for at in 0..CLIENTS_MAX {
                self.wait_with(at, &mut patience)?;
                self.exchange(at, true)?;
                // A leased message that nobody settles comes again for ever.
                let is_draining = self.is_draining;
                self.accept(at, |rules| is_draining || rules.lease_ms.is_some());
                if let Some(client) = &self.clients[at] {
                    patience.note(at, client, &mut self.net);
                }
            }
            for at in 0..STREAM_CLIENTS_MAX {
                self.exchange_stream(at, true)?;
            }
            (0..TENANT_CLIENTS_MAX).for_each(|at| self.exchange_tenant(at, true));
            if !self.round(crashes)? {
                return Ok(false);
            }
            let is_quiet = !goes_on(self)
                && self.unrest().is_none()
                && self.double.as_ref().is_none_or(|double| double.is_idle(&self.node))
                && self.net.under_way() == 0
                && self.clients.iter().flatten().all(|client| !client.is_waiting())
                && self.streams.clients.iter().flatten().all(|client| !client.is_waiting());
            quiet = if is_quiet { quiet + 1 } else { 0 };
            // A leased message that cannot be read is read again when its lease ends, and again.
            let enough = if self.oracle.leases_what_is_lost() { 4 } else { 8 };
            if quiet >= enough {
                return Ok(true);
            }
        }
        let waiting: Vec<u64> =
            self.clients.iter().flatten().filter(|it| it.is_waiting()).map(|it| it.number).collect();
        let why = self.unrest().unwrap_or_else(|| "it is idle".to_owned());
        let under_way = self.net.under_way();
        Err(format!(
            "the node does not come to rest: connections {waiting:?} wait, {under_way} bytes are under way, {why}"
        ))
    }

    /// A round of the node that is looked at. False: it went down.
    pub fn round_of_node(&mut self, crashes: u64) -> Result<bool, String> {
        for at in 0..self.node.berths.len() {
            if self.cluster.is_some() {
                self.turn(at)?;
            } else {
                let World { node, now, dice, net, .. } = self;
                let result = node.turn(at, *now, dice, net);
                self.watch()?;
                self.unless_stopped(result)?;
            }
            if self.tally.crashes != crashes {
                return Ok(false);
            }
        }
        if let World { double: Some(double), node, now, .. } = self {
            double.agree_all(node, *now)?;
        }
        let result = self.node.write(self.now);
        self.unless_stopped(result)?;
        if self.tally.crashes != crashes {
            return Ok(false);
        }
        let result = self.node.keep(self.now, &mut self.dice, &mut self.tally);
        self.unless_stopped(result)?;
        if self.tally.crashes != crashes {
            return Ok(false);
        }
        for _ in 0..4 {
            let result = self.node.read(&mut self.dice, &mut self.tally);
            self.unless_stopped(result)?;
            if self.tally.crashes != crashes {
                return Ok(false);
            }
        }
        self.learn_of_damage()?;
        self.node.prepare();
        Ok(true)
    }

    /// A round more in which the client at `at` may wait for an answer.
    fn wait_with(&mut self, at: usize, patience: &mut Patience) -> Check {
        let World { clients, net, tally, plan, node, .. } = self;
        let Some(client) = &clients[at] else { return Ok(()) };
        if node.books.space.signs().lacks_space {
            // Publishers wait for the housekeeper.
            *patience = Patience::default();
        }
        let rounds = patience.look(at, client, net);
        tally.answered_after = tally.answered_after.max(rounds);
        let is_excused = self.has_faults || self.rots || self.oracle.has_damage();
        if plan.hostile && rounds > patience::ROUNDS_MAX && !is_excused {
            return Err(format!(
                "c{} waits for {rounds} rounds in which nothing moves for it",
                client.number
            ));
        }
        Ok(())
    }

    /// The client at `at` accepts what it holds of queues with these rules, and commits what it settled of them.
    fn accept(&mut self, at: usize, is_meant: impl Fn(&Rules) -> bool) {
        let World { clients, oracle, .. } = self;
        let Some(client) = &mut clients[at] else { return };
        let meant = |oracle: &Oracle, held: &Held| is_meant(oracle.rules_of(held.queue));
        while let Some(tag) = client.held.iter().find(|held| meant(oracle, held)).map(|held| held.tag) {
            let held = client.settle(tag, false, Verdict::Accept);
            if client.transaction.is_none() {
                oracle.settling(client.number, &held, Verdict::Accept);
            }
        }
        let settled = client.transaction.iter().flat_map(|transaction| &transaction.settled);
        if settled.into_iter().any(|(held, _)| meant(oracle, held)) {
            transact::end(self, at, true);
        }
    }

    /// Everything is taken out of every queue, and it is what must be there.
    pub fn drain(&mut self) -> Check {
        for at in 0..CLIENTS_MAX {
            self.vanish(at);
        }
        (0..STREAM_CLIENTS_MAX).for_each(|at| self.vanish_stream(at));
        self.vanish_tenant();
        self.rest()?;
        if self.is_lost {
            return Ok(());
        }
        match self.dice.below(3) {
            0 if self.cluster.is_some() => self.crash_all()?,
            0 => self.crash(None)?,
            1 if self.cluster.is_none() => self.stop()?,
            _ => {}
        }
        self.heal_all();
        // Faults that are still planned end with a crash.
        self.end_faults()?;
        if self.is_lost {
            return Ok(());
        }
        self.note("drain");
        self.visit(0);
        if let Some(cluster) = &self.cluster {
            let nodes = cluster.nodes() as u64;
            self.rest_while(|_| false)?;
            let number = self.dice.below(nodes) as usize;
            self.visit(number);
        }
        let kind = if self.dice.one_in(2) { Kind::Amqp10 } else { Kind::Amqp091 };
        let at = self.connect(kind).ok_or("no place for a client")?;
        let is_open =
            |world: &World| world.clients[at].as_ref().is_some_and(|client| client.state == State::Open);
        self.rest_while(|world| !is_open(world))?;
        self.oracle.begin_drain();
        let number = self.connections;
        for queue in self.oracle.queues_there() {
            if self.oracle.is_damaged(queue) {
                // It may refuse everything.
                continue;
            }
            self.oracle.consuming(number, queue, false);
            if let Some(client) = &mut self.clients[at] {
                client.consume(queue, 0, false, None);
            }
        }
        self.is_draining = true;
        self.rest_while(|_| false)?;
        // Delayed messages come when they are due, and are late by less than a round.
        let end_ms = self.now.wall_ms + DELAYS_MS[DELAYS_MS.len() - 1] + ROUND_MS;
        self.rest_while(|world| world.now.wall_ms <= end_ms)?;
        if self.clients[at].is_none() {
            return Err("the draining connection is lost".to_owned());
        }
        self.oracle.end_drain()?;
        self.rest()?;
        self.vanish(at);
        self.drain_streams()?;
        self.rest()
    }
}
