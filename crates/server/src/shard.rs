//! The loop of one shard: sockets in, turns of the broker, sockets out.
//!
//! In which order things are done in a turn is [`node::turn`]'s part; here is how. A socket brings at most
//! [`READ_BYTES_TURN`] in a turn, and every dirty connection is written once.
//! Invariants: `sockets[slot]` is there exactly while the frontend has a connection of that number; a socket with
//! something to read is on the run list or waits for the broker.

mod requests;

use crate::allotment::Allotment;
use crate::clock::Clock;
use crate::committer::{Committer, Handed};
use crate::door::{CancelDelayed, Door, Letter, Outcome, Room, Tried, outcome};
use crate::end::End;
use crate::entrance::{Copied, Entrance};
use crate::lanes::Lanes;
use crate::layer::Bench;
use crate::linger::{LINGER, Lingering};
use crate::log::Logger;
use crate::log::level::Level;
use crate::mailbox::Sleeper;
use crate::passwords::{self, Passwords};
use crate::reader::{Ask, Asks};
use crate::seat;
use crate::socket::{Arrival, Brought, Reading, Socket, Warmth};
use crate::timers::Timers;
use crate::turns::Turns;
use adapters::{Frontend, Gravity, Note, Trying};
use base::Now;
use base::id::{LogId, ShardId};
use broker::catalog::Op;
use broker::{Mail, Shard};
use journal::{Place, Sealed};
use mio::{Events, Interest, Poll, Token};
use node::Stop;
use node::commit::Written;
use node::keeper::Answer;
use node::replicas::Replicas;
use node::snapped::Part;
use node::space::Signs;
use node::turn::{Home, Outputs, Turn};
use requests::Requests;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Bytes one connection may bring in one turn.
pub const READ_BYTES_TURN: usize = 256 << 10;

/// Bytes written to all connections together before sockets are read again. Connections with at most `LITTLE_BYTES`
/// to send are written even when this budget is spent.
const WRITE_BYTES_TURN: usize = 256 << 10;

/// Bytes of output that are little.
const LITTLE_BYTES: usize = 16 << 10;

/// Readiness events taken at once.
const EVENTS_MAX: usize = 1024;

/// Nanoseconds after which a connection that was quiet gives back its buffers.
const WARM_NS: u64 = 250_000_000;

/// Bytes of output that are copied in one turn so that clients that do not read keep no more alive, about.
const DETACHED_MAX: usize = 8 << 20;

/// Nanoseconds a connection that is over has to send what is left.
const PART_NS: u64 = 5_000_000_000;

const WAKE: Token = Token(usize::MAX - 1);

/// The parts of the node that a shard's loop needs.
pub struct Surroundings {
    /// All shards' doors, by number.
    pub doors: Arc<[Door]>,
    /// Where batches are committed.
    pub committer: Arc<Committer>,
    /// Where reads are asked for.
    pub reader: Asks,
    /// Where passwords are brought that take long to compare.
    pub passwords: Passwords,
    /// The lanes to other nodes, where there are any.
    pub lanes: Option<Arc<Lanes>>,
    /// The time.
    pub clock: Clock,
    /// The log.
    pub logger: Logger,
    /// Units of work that a turn may have, at most.
    pub turn_work_max: u32,
    /// Where clients of a node of a cluster wait.
    pub entrance: Arc<Entrance>,
    /// Tells the node that it must stop, or begin anew.
    pub tell: Box<dyn Fn(End) + Send>,
}

/// A shard whose turns are over.
pub struct Ended {
    /// The shard.
    pub shard: Shard,
    /// The parts of its replicas; none of one whose snapshot is not to be written.
    pub parts: Vec<(LogId, Option<Part>)>,
}

/// One shard's loop.
pub struct ShardLoop {
    home: Home,
    poll: Poll,
    around: Surroundings,
    sockets: Vec<Option<Socket>>,
    lingering: Lingering,
    timers: Timers,
    run_list: Vec<u32>,
    /// Connections with more to send than the kernel took in their turn, which can take more now.
    unsent: Vec<u32>,
    warm: Vec<u32>,
    warm_at: u64,
    /// Shared by all reads: a kept tail, then what the socket brings.
    buffer: Vec<u8>,
    /// Shared by all connections over TLS or WebSocket.
    bench: Bench,
    /// Requests of the node to the catalog that were not answered yet.
    requests: Requests,
    /// Where the answer to the keeper's errand goes.
    errand: Option<Sender<Answer>>,
    turns: Turns,
    allotment: Allotment,
    /// The node was told to begin anew.
    is_over: bool,
    /// The copy of the catalog, as it was told at the entrance.
    copied: Copied,
    scratch: Scratch,
}

/// Lists that are filled and emptied every turn and keep their memory.
#[derive(Default)]
struct Scratch {
    slots: Vec<u32>,
    leaving: Vec<(u32, ShardId)>,
    mail: Vec<Mail>,
    letters: Vec<Letter>,
    outcomes: Vec<Outcome>,
    places: Vec<Place>,
    notes: Vec<Note>,
    trials: Vec<Trying>,
}

/// The poll of a shard's loop, and the sleeper by which it is woken.
///
/// # Errors
/// The system's error.
pub fn poll() -> std::io::Result<(Poll, Arc<Sleeper>)> {
    let poll = Poll::new()?;
    let waker = mio::Waker::new(poll.registry(), WAKE)?;
    // A loop that cannot be woken is gone.
    let sleeper = Sleeper::new(move || waker.wake().unwrap_or_default());
    Ok((poll, sleeper))
}

impl Turn for ShardLoop {
    fn home(&mut self) -> &mut Home {
        &mut self.home
    }

    fn later(&self, _: Now) -> Now {
        self.around.clock.now()
    }

    fn signs(&self) -> Signs {
        self.around.committer.signs()
    }

    fn take_letters(&mut self, now: Now) -> Result<(), Stop> {
        self.read_letters(now)
    }

    fn take_mail(&mut self, now: Now) {
        self.read_mail(now);
    }

    fn read(&mut self, now: Now) {
        let (before, began_ns) = (self.home.front.work(), self.began_ns(now));
        self.read_sockets(now);
        self.measure(before, began_ns);
    }

    fn fire_timers(&mut self, now: Now) {
        self.fire_due(now);
    }

    fn hand_in(
        &mut self,
        outstanding: usize,
        sealed: &mut Vec<Sealed>,
        written: &mut Vec<Written>,
    ) -> Result<usize, Stop> {
        self.commit_batches(outstanding, sealed, written)
    }

    fn give_out(&mut self) {
        self.share_out();
    }

    fn send_mail(&mut self) {
        self.post_mail();
    }

    fn write(&mut self, now: Now) {
        self.write_sockets(now);
    }

    fn let_go(&mut self, now: Now) {
        self.hand_over(now);
    }

    fn resume(&mut self, now: Now) {
        let (before, began_ns) = (self.home.front.work(), self.began_ns(now));
        self.go_on_reading();
        self.measure(before, began_ns);
    }
}

impl ShardLoop {
    /// The loop of `shard` with the connections of `front`, the replicas of its logs that other nodes have too, and the content of a
    /// catalog in which nothing is, which nodes agree on.
    pub fn new(
        id: ShardId,
        poll: Poll,
        mut shard: Shard,
        front: Frontend,
        (replicas, content): (Option<Box<Replicas>>, Option<Vec<Op>>),
        around: Surroundings,
    ) -> ShardLoop {
        let allotment = Allotment::new(shard.turn_work(), around.turn_work_max);
        shard.set_turn_work(allotment.units());
        let mut home = Home::new(id, shard, front);
        (home.replicas, home.first_content) = (replicas, content);
        ShardLoop {
            home,
            poll,
            around,
            sockets: Vec::new(),
            lingering: Lingering::default(),
            timers: Timers::default(),
            run_list: Vec::new(),
            unsent: Vec::new(),
            warm: Vec::new(),
            warm_at: 0,
            buffer: vec![0; READ_BYTES_TURN],
            bench: Bench::default(),
            requests: Requests::default(),
            errand: None,
            turns: Turns::default(),
            allotment,
            is_over: false,
            copied: Copied::default(),
            scratch: Scratch::default(),
        }
    }

    /// Runs until the node stops; the shard as it is then. Who asks it something afterwards hears
    /// at once that nobody answers.
    pub fn run(mut self) -> Ended {
        self.turns();
        self.around.doors[self.home.id.0 as usize].letters.close();
        let Home { shard, replicas, .. } = self.home;
        Ended { shard, parts: replicas.iter().flat_map(|replicas| replicas.parts()).collect() }
    }

    fn turns(&mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        // The start may have left reads to ask for, and nobody need ever knock.
        let mut timeout = Some(Duration::ZERO);
        loop {
            if let Err(error) = self.wait(&mut events, timeout) {
                return (self.around.tell)(End::Failed(format!("waiting for sockets failed: {error}")));
            }
            let now = self.around.clock.now();
            for event in &events {
                self.note_readiness(now, event);
            }
            let mut outcome = self.turn(now);
            self.end_turn(now);
            let is_finished = outcome.is_ok() && self.home.is_finished(now);
            if is_finished {
                outcome = self.write_out(now);
            }
            if let Err(Stop(why)) = outcome {
                return (self.around.tell)(End::Failed(why));
            }
            if is_finished {
                return;
            }
            timeout = self.timeout();
        }
    }

    /// Work at the end of a turn: callers waiting for an answer get it (see [`Outcome`]).
    fn end_turn(&mut self, now: Now) {
        if !self.requests.is_empty() {
            self.answer_requests(now);
        }
        self.write_notes();
        if self.home.replicas.is_some() {
            self.tell_of_replicas();
        }
        self.turns.add(now.mono_ns, self.around.clock.mono_ns());
        self.scratch.outcomes.drain(..).for_each(|outcome| outcome());
        if let Some(answer) = self.home.take_answer()
            && let Some(errand) = self.errand.take()
        {
            // The keeper may have given up.
            errand.send(answer).unwrap_or_default();
        }
    }

    /// Replicas that ended are told of, that one of them has the node begin anew, and how far the copy of the catalog is.
    #[cold]
    fn tell_of_replicas(&mut self) {
        let shard = &self.home.shard;
        let has_content = shard.catalog().vhosts().next().is_some();
        let copied = Copied { is_caught_up: shard.is_caught_up(), has_content };
        if shard.plans() && copied != self.copied {
            self.copied = copied;
            self.around.entrance.tell(copied);
        }
        let begins_anew = self.home.replicas.as_ref().is_some_and(|replicas| replicas.begins_anew());
        if begins_anew && !std::mem::replace(&mut self.is_over, true) {
            (self.around.tell)(End::Anew);
        }
        if let Some(life) = self.home.shard.outlived()
            && !std::mem::replace(&mut self.is_over, true)
        {
            (self.around.tell)(End::Failed(format!(
                "other nodes know of life {life} of this node, which is later than the one that its folder has: the folder is \
                 that of an earlier time"
            )));
        }
        let ended = self.home.replicas.iter_mut().flat_map(|replicas| replicas.take_ended());
        for (log, why) in ended {
            self.around.logger.error(format!("the replica of log {log} takes part no more: {why}"));
        }
    }

    // ---- measuring

    /// The moment at which reading begins, in a turn that began at `now`. The clock is read where users have shares: dear
    /// work is likely then, and taken for longer than it was it would only be less.
    fn began_ns(&self, now: Now) -> u64 {
        if self.home.front.is_sharing() { self.around.clock.mono_ns() } else { now.mono_ns }
    }

    /// Sets the units of the next turn by the time that those took which were read since then: `before` had been done before.
    #[inline]
    fn measure(&mut self, before: u64, began_ns: u64) {
        let units = self.home.front.work() - before;
        if units > 0 {
            self.allot(units, began_ns);
        }
    }

    #[cold]
    fn allot(&mut self, units: u64, began_ns: u64) {
        let took_ns = self.around.clock.mono_ns().saturating_sub(began_ns);
        if let Some(next) = self.allotment.took(units, took_ns) {
            self.home.shard.set_turn_work(next);
        }
    }

    // ---- waiting

    fn timeout(&self) -> Option<Duration> {
        if !self.run_list.is_empty() || !self.unsent.is_empty() || self.home.has_work() {
            return Some(Duration::ZERO);
        }
        let warm = (!self.warm.is_empty()).then_some(self.warm_at);
        let moments = [self.timers.next(), self.home.deadline(), warm, self.lingering.next()];
        let next = moments.into_iter().flatten().min()?;
        let now = self.around.clock.now().mono_ns;
        Some(Duration::from_nanos(next.saturating_sub(now)))
    }

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> std::io::Result<()> {
        let door = &self.around.doors[self.home.id.0 as usize];
        let mut timeout = timeout;
        let sleeps = timeout != Some(Duration::ZERO);
        if sleeps {
            door.sleeper.going_to_sleep();
            if !door.mail.is_empty() || !door.letters.is_empty() {
                timeout = Some(Duration::ZERO);
            }
        }
        let result = self.poll.poll(events, timeout);
        if sleeps {
            door.sleeper.is_up();
        }
        match result {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    fn note_readiness(&mut self, now: Now, event: &mio::event::Event) {
        let token = event.token();
        if token == WAKE {
            return;
        }
        if token >= LINGER {
            return self.lingering.hear(token);
        }
        // An event of a socket that was closed after it was reported finds no connection, or the slot's next one, which
        // then looks once in vain.
        let slot = token.0 as u32;
        let Some(Some(socket)) = self.sockets.get_mut(slot as usize) else { return };
        if event.is_writable() {
            socket.can_write = true;
            if !self.home.front.output(slot).is_empty() || socket.has_unsent() {
                go_on(&mut self.unsent, socket, slot);
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            socket.can_read = true;
            socket.is_ending |= event.is_read_closed() || event.is_error();
            let is_gone = event.is_error() || event.is_write_closed();
            if is_gone && socket.reading == Reading::Waiting {
                // Nobody will read it on to its end, and nobody is there to hear what it waits for.
                return self.close(now, slot);
            }
            list(&mut self.run_list, socket, slot);
        }
    }

    // ---- what other threads sent

    fn read_letters(&mut self, now: Now) -> Result<(), Stop> {
        let mut outcome = Ok(());
        let mut letters = std::mem::take(&mut self.scratch.letters);
        self.around.doors[self.home.id.0 as usize].letters.take(&mut letters);
        for letter in letters.drain(..) {
            match letter {
                Letter::Accepted(arrival) => self.accept(now, arrival),
                Letter::Tried(tried) => {
                    let Tried { slot, generation, outcome } = *tried;
                    self.home.front.tried(now, &mut self.home.shard, slot, generation, outcome);
                }
                Letter::Moved(moved) => {
                    let (socket, mover) = *moved;
                    let slot = self.home.front.adopt(now, &mut self.home.shard, mover);
                    self.serve(now, slot, socket);
                    if self.home.is_stopping() {
                        self.home.front.shut_down_one(now, &mut self.home.shard, slot);
                    }
                }
                Letter::Node(letter) => outcome = outcome.and(self.home.hear(now, letter)),
                Letter::Word(from, word, weight) => {
                    if let Some(lanes) = &self.around.lanes {
                        lanes.heard(self.home.id, weight);
                    }
                    outcome = outcome.and(self.home.hear(now, node::turn::Letter::Word(from, word)));
                }
                Letter::Errand(errand, answer) => {
                    self.errand = Some(answer);
                    outcome = outcome.and(self.home.hear(now, node::turn::Letter::Errand(errand)));
                }
                Letter::Request(request, answer) => self.request(now, *request, answer),
                Letter::MoveLog(log, to, answer) => self.move_log(log, to, answer),
                Letter::GiveLead(log, to, answer) => {
                    let Home { shard, replicas, .. } = &mut self.home;
                    let led = replicas.as_mut().is_some_and(|own| seat::give_lead(own, now, shard, log, to));
                    self.tell(answer, led);
                }
                Letter::CancelDelayed(asked, answer) => {
                    let CancelDelayed { vhost, queue, ids } = *asked;
                    let cancelled = self.home.shard.cancel_delayed(now, &vhost, &queue, &ids);
                    self.tell(answer, cancelled);
                }
                Letter::Truncate(asked, answer) => self.truncate(now, &asked, answer),
                Letter::ResetOffset(asked, answer) => self.reset_offset(now, &asked, answer),
                Letter::DisbandStream(named, answer) => self.disband_stream(now, &named, answer),
                Letter::RestartStream(named, answer) => self.restart_stream(&named, answer),
                Letter::Act(asked, answer) => self.act(now, *asked, answer),
                Letter::Look(look) => {
                    let began = self.around.clock.moment();
                    self.scratch.outcomes.push(look(&self.home.shard));
                    self.turns.looked(began, self.around.clock.moment());
                }
                Letter::Visit(visit) => {
                    let began = self.around.clock.moment();
                    let found = visit(&Room {
                        id: self.home.id,
                        shard: &self.home.shard,
                        replicas: self.home.replicas.as_deref(),
                        front: &self.home.front,
                        sockets: &self.sockets,
                        turns: &self.turns,
                        loop_bytes: self.loop_bytes(),
                    });
                    self.scratch.outcomes.push(found);
                    self.turns.looked(began, self.around.clock.moment());
                }
                Letter::CloseConnection(asked, answer) => {
                    let (name, reason) = *asked;
                    let closed = self.home.front.close_named(now, &mut self.home.shard, &name, &reason);
                    self.tell(answer, closed);
                }
                Letter::Evict(at, text) => {
                    if self.home.front.evict(now, &mut self.home.shard, at, &text) {
                        // A client that does not read its close keeps the memory no longer than others.
                        self.part_soon(now, at.0);
                    }
                }
            }
        }
        self.scratch.letters = letters;
        outcome
    }

    /// Answers a caller when the turn is over (see [`Outcome`]).
    fn tell<T: Send + 'static>(&mut self, to: Sender<T>, found: T) {
        self.scratch.outcomes.push(outcome(to, found));
    }

    fn read_mail(&mut self, now: Now) {
        let mut mail = std::mem::take(&mut self.scratch.mail);
        self.around.doors[self.home.id.0 as usize].mail.take(&mut mail);
        for mail in mail.drain(..) {
            self.home.receive(now, mail);
        }
        self.scratch.mail = mail;
    }

    fn post_mail(&mut self) {
        let doors = self.around.doors.clone();
        for (number, door) in doors.iter().enumerate() {
            if number != self.home.id.0 as usize {
                self.home.shard.take_mail(ShardId(number as u16), &mut self.scratch.mail);
                door.mail.put_all(&mut self.scratch.mail);
                self.scratch.mail.clear();
            }
        }
    }

    fn accept(&mut self, now: Now, Arrival { stream, peer, layer }: Arrival) {
        if self.home.is_stopping() {
            return;
        }
        if self.around.logger.takes(Level::Info) {
            let protocol = peer.protocol.name();
            self.around.logger.info(format!("accepting {protocol} connection {}", peer.name));
        }
        let slot = self.home.front.accept(now, peer);
        self.serve(now, slot, Socket::new(stream, layer, now.wall_ms));
    }

    /// The socket of the connection `slot` is read and written here from now on.
    fn serve(&mut self, now: Now, slot: u32, mut socket: Socket) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut socket.stream, Token(slot as usize), interest)
        {
            self.around.logger.error(format!("a connection could not be served: {error}"));
            self.home.front.closed(now, &mut self.home.shard, slot);
            return;
        }
        let index = slot as usize;
        if index >= self.sockets.len() {
            self.sockets.resize_with(index + 1, || None);
        }
        let socket = self.sockets[index].insert(socket);
        list(&mut self.run_list, socket, slot);
        self.timers.set(slot, self.home.front.deadline(slot));
    }

    /// Connections whose queue is another shard's go there, with everything that was said on them. What they said before is
    /// in the mail already.
    fn hand_over(&mut self, now: Now) {
        let mut leaving = std::mem::take(&mut self.scratch.leaving);
        self.home.front.take_leaving(&mut leaving);
        for (slot, to) in leaving.drain(..) {
            let Some(Some(socket)) = self.sockets.get(slot as usize) else { continue };
            if self.home.is_stopping() || socket.is_parting || to == self.home.id {
                continue;
            }
            let Some(mover) = self.home.front.leave(now, &mut self.home.shard, slot) else { continue };
            let Some(mut socket) = self.sockets[slot as usize].take() else { continue };
            // Registered anew where it comes, it hears of everything it is ready for.
            let _ = self.poll.registry().deregister(&mut socket.stream);
            self.timers.set(slot, None);
            socket.moves();
            self.around.doors[usize::from(to.0)].letters.put(Letter::Moved(Box::new((socket, mover))));
        }
        self.scratch.leaving = leaving;
    }

    // ---- reading

    fn read_sockets(&mut self, now: Now) {
        let mut slots = std::mem::take(&mut self.scratch.slots);
        std::mem::swap(&mut slots, &mut self.run_list);
        for slot in slots.drain(..) {
            self.read_socket(now, slot);
        }
        self.scratch.slots = slots;
        self.lingering.drain(&mut self.buffer);
    }

    fn read_socket(&mut self, now: Now, slot: u32) {
        let Some(Some(socket)) = self.sockets.get_mut(slot as usize) else { return };
        if socket.reading != Reading::Listed {
            return;
        }
        socket.reading = Reading::Idle;
        let mut have = socket.tail.len();
        if self.buffer.len() < have + READ_BYTES_TURN {
            self.buffer.resize(have + READ_BYTES_TURN, 0);
        }
        self.buffer[..have].copy_from_slice(&socket.tail);
        socket.tail.clear();
        let mut left = READ_BYTES_TURN;
        let mut ended = None;
        while socket.can_read && left > 0 {
            match socket.read(&mut self.buffer[have..have + left], &mut self.bench) {
                Brought::Nothing => break,
                end @ (Brought::End | Brought::Over) => {
                    ended = Some(end);
                    break;
                }
                brought @ (Brought::Bytes(count) | Brought::Dear(count)) => {
                    left -= count;
                    let end = have + count;
                    let is_counting = self.home.shard.catalog().has_delaying_exchanges();
                    let now = if is_counting { later(&self.around.clock, now) } else { now };
                    let taken = self.home.front.input(now, &mut self.home.shard, slot, &self.buffer[..end]);
                    have = end - taken.consumed;
                    if taken.consumed > 0 && have > 0 {
                        self.buffer.copy_within(taken.consumed..end, 0);
                    }
                    if taken.is_waiting {
                        socket.reading = Reading::Waiting;
                    }
                    if taken.is_waiting || self.home.front.is_over(slot) || brought == Brought::Dear(count) {
                        break;
                    }
                }
            }
        }
        match ended {
            None => {}
            Some(Brought::Over) => return self.part(now, slot),
            Some(_) => return self.close(now, slot),
        }
        if socket.has_unsent() {
            go_on(&mut self.unsent, socket, slot);
        }
        if have > 0 {
            socket.tail.extend_from_slice(&self.buffer[..have]);
        }
        warm_up(&mut self.warm, socket, slot);
        recount(&mut self.home.front, &mut self.home.shard, now, (slot, socket));
        if socket.can_read && !self.home.front.is_over(slot) {
            list(&mut self.run_list, socket, slot);
        }
    }

    /// Connections that no longer wait get their kept input again, and then what the socket has.
    fn go_on_reading(&mut self) {
        let mut slots = std::mem::take(&mut self.scratch.slots);
        self.home.take_resumed(&mut slots);
        let now = self.around.clock.now();
        for slot in slots.drain(..) {
            let Some(Some(socket)) = self.sockets.get_mut(slot as usize) else { continue };
            if socket.reading == Reading::Waiting {
                socket.reading = Reading::Idle;
            }
            if !socket.tail.is_empty() || self.home.front.is_unfinished(slot) {
                let taken = self.home.front.input(now, &mut self.home.shard, slot, &socket.tail);
                socket.tail.drain(..taken.consumed);
                if taken.is_waiting {
                    socket.reading = Reading::Waiting;
                }
            }
            if socket.can_read {
                list(&mut self.run_list, socket, slot);
            }
        }
        self.scratch.slots = slots;
    }

    // ---- committing

    fn commit_batches(
        &mut self,
        outstanding: usize,
        sealed: &mut Vec<Sealed>,
        written: &mut Vec<Written>,
    ) -> Result<usize, Stop> {
        let places = &mut self.scratch.places;
        match self.around.committer.commit(self.home.id, outstanding, sealed, places, written) {
            Handed::Written => Ok(0),
            Handed::Queued(count) => Ok(count),
            Handed::Failed(why) => Err(Stop(why)),
        }
    }

    fn share_out(&mut self) {
        let Outputs { reads, jobs, damages, notices, words, wants } = &mut self.home.outputs;
        if !words.is_empty() {
            match &self.around.lanes {
                Some(lanes) => lanes.post(self.home.id, words),
                // Nobody is there to be told anything.
                None => words.clear(),
            }
        }
        if !wants.is_empty() {
            self.around.lanes.iter().for_each(|lanes| lanes.want(wants));
            wants.clear();
        }
        for request in reads.drain(..) {
            self.around.reader.ask(self.home.id, Ask::Read(request));
        }
        for job in jobs.drain(..) {
            self.around.reader.ask(self.home.id, Ask::Stream(Box::new(job)));
        }
        for damage in damages.drain(..) {
            self.around.logger.log(Level::Error, damage.to_string());
        }
        for notice in notices.drain(..) {
            self.around.logger.log(Level::Warning, notice.to_string());
        }
        self.home.front.take_trials(&mut self.scratch.trials);
        for trying in self.scratch.trials.drain(..) {
            self.around.passwords.put(passwords::Ask::Connection(self.home.id, trying));
        }
    }

    // ---- writing

    fn write_sockets(&mut self, now: Now) {
        let mut slots = std::mem::take(&mut self.scratch.slots);
        slots.append(&mut self.unsent);
        self.home.front.take_dirty(&mut slots);
        for slot in &slots {
            if let Some(Some(socket)) = self.sockets.get_mut(*slot as usize) {
                socket.goes_on = false;
            }
        }
        let mut left = WRITE_BYTES_TURN;
        for slot in slots.drain(..) {
            let Some(Some(socket)) = self.sockets.get_mut(slot as usize) else { continue };
            if left == 0 && socket.can_write && self.home.front.output(slot).len() > LITTLE_BYTES {
                go_on(&mut self.unsent, socket, slot);
            } else {
                left = left.saturating_sub(self.write_socket(now, slot));
            }
        }
        self.scratch.slots = slots;
        self.cool(now);
        self.lingering.give_up(now);
    }

    /// How many bytes it could be written.
    fn write_socket(&mut self, now: Now, slot: u32) -> usize {
        let Some(Some(socket)) = self.sockets.get_mut(slot as usize) else { return 0 };
        if !socket.is_known && self.home.front.is_open(slot) {
            socket.is_known = true;
            socket.stream.know();
        }
        let output = self.home.front.output(slot);
        let before = output.len();
        let sent = match output.is_empty() && !socket.has_unsent() {
            true => Ok(false),
            false => socket.write(output, &mut self.bench),
        };
        let is_sent = output.is_empty() && !socket.has_unsent();
        let written = before - output.len();
        match sent {
            Err(()) => {
                self.close(now, slot);
                return written;
            }
            Ok(true) => self.home.front.sent(now, &mut self.home.shard, slot),
            Ok(false) => {}
        }
        if !is_sent {
            self.home.front.unsent(now, &mut self.home.shard, slot);
        }
        if !is_sent && socket.can_write {
            // Others had their turn to wait for; this one goes on in the next.
            go_on(&mut self.unsent, socket, slot);
        }
        warm_up(&mut self.warm, socket, slot);
        if !self.home.front.is_over(slot) {
            if !socket.is_parting {
                self.timers.set(slot, self.home.front.deadline(slot));
            }
        } else if is_sent {
            self.part(now, slot);
        } else {
            self.part_soon(now, slot);
        }
        written
    }

    /// The connection of a socket is over, or about to be: it has a while to send what is left.
    fn part_soon(&mut self, now: Now, slot: u32) {
        if let Some(Some(socket)) = self.sockets.get_mut(slot as usize)
            && !socket.is_parting
        {
            socket.is_parting = true;
            self.timers.set(slot, Some(now.mono_ns + PART_NS));
        }
    }

    /// Takes the buffers of connections that have been quiet since the last time, and of the others what is far more than
    /// they needed.
    fn cool(&mut self, now: Now) {
        if now.mono_ns < self.warm_at {
            return;
        }
        self.warm_at = now.mono_ns + WARM_NS;
        let Self { warm, sockets, home: Home { front, shard, .. }, .. } = self;
        let mut detached = 0;
        warm.retain(|slot| {
            let Some(Some(socket)) = sockets.get_mut(*slot as usize) else { return false };
            let output = front.output(*slot);
            let was_active = socket.warmth == Warmth::Active;
            socket.warmth = Warmth::Warm;
            if was_active || !output.is_empty() {
                output.cool();
                if !was_active && detached < DETACHED_MAX {
                    detached += output.detach();
                }
                socket.trim();
                front.cooled(now, shard, *slot);
                recount(front, shard, now, (*slot, socket));
                return true;
            }
            socket.cool();
            drop(output.release());
            front.cooled(now, shard, *slot);
            recount(front, shard, now, (*slot, socket));
            if socket.tail.is_empty() {
                socket.warmth = Warmth::Cold;
            }
            socket.warmth == Warmth::Warm
        });
    }

    // ---- time

    fn fire_due(&mut self, now: Now) {
        while let Some(slot) = self.timers.due(now.mono_ns) {
            let Some(Some(socket)) = self.sockets.get(slot as usize) else { continue };
            if socket.is_parting || self.home.front.is_over(slot) {
                // It had its time to read what was said last.
                self.close(now, slot);
            } else {
                self.home.front.handle_deadline(now, &mut self.home.shard, slot);
            }
        }
    }

    // ---- the end of a connection

    /// The socket is gone.
    fn close(&mut self, now: Now, slot: u32) {
        let Some(mut socket) = self.sockets.get_mut(slot as usize).and_then(Option::take) else { return };
        // A socket that is dropped is deregistered anyhow.
        let _ = self.poll.registry().deregister(&mut socket.stream);
        self.timers.set(slot, None);
        self.home.front.closed(now, &mut self.home.shard, slot);
    }

    /// All was said. The peer gets time to read it: closing a socket with unread input would tear it from its hands.
    fn part(&mut self, now: Now, slot: u32) {
        let Some(mut socket) = self.sockets.get_mut(slot as usize).and_then(Option::take) else { return };
        socket.say_farewell(&mut self.bench);
        self.timers.set(slot, None);
        self.home.front.closed(now, &mut self.home.shard, slot);
        if !socket.is_ending {
            self.lingering.add(now, socket.stream, self.poll.registry());
        }
    }

    // ---- what people see

    fn write_notes(&mut self) {
        self.home.front.take_notes(&mut self.scratch.notes);
        for Note { gravity, text } in self.scratch.notes.drain(..) {
            let level = match gravity {
                Gravity::Info => Level::Info,
                Gravity::Warning => Level::Warning,
                Gravity::Error => Level::Error,
            };
            self.around.logger.log(level, text);
        }
    }

    /// Bytes of memory of the loop's own lists and buffers.
    fn loop_bytes(&self) -> usize {
        let sockets = self.sockets.capacity() * size_of::<Option<Socket>>();
        sockets + self.buffer.len() + self.timers.heap_bytes()
    }
}

/// The socket is read in this turn or the next, unless its connection wants no input.
fn list(run_list: &mut Vec<u32>, socket: &mut Socket, slot: u32) {
    if socket.reading == Reading::Idle {
        socket.reading = Reading::Listed;
        run_list.push(slot);
    }
}

/// Counts the memory that what was read of a socket is kept in, where that has changed.
fn recount(front: &mut Frontend, shard: &mut Shard, now: Now, (slot, socket): (u32, &mut Socket)) {
    if let Some(kept) = socket.recount() {
        front.keep_input(now, shard, slot, kept);
    }
}

/// Something happened on the socket: its buffers are kept for now.
fn warm_up(warm: &mut Vec<u32>, socket: &mut Socket, slot: u32) {
    if std::mem::replace(&mut socket.warmth, Warmth::Active) == Warmth::Cold {
        warm.push(slot);
    }
}

/// The rest of a connection's output is sent in the next turn.
fn go_on(unsent: &mut Vec<u32>, socket: &mut Socket, slot: u32) {
    if !socket.goes_on {
        socket.goes_on = true;
        unsent.push(slot);
    }
}

/// The time of day, a turn having gone on: delays count from when a message came, which may be long after the turn began. The
/// rest of the turn knows nothing of it, nor does what counts in monotonic time.
#[cold]
#[inline(never)]
fn later(clock: &Clock, now: Now) -> Now {
    Now { wall_ms: clock.now().wall_ms, ..now }
}
