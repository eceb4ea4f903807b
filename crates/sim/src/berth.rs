//! Where a shard of the simulation lies: lines in place of sockets, and how much of everything one turn takes is rolled.

use crate::books::Books;
use crate::net::Net;
use crate::tenant;
use adapters::{Mover, Peer, Protocol};
use base::id::{NodeNo, ShardId};
use base::{Now, Random};
use broker::catalog::Refusal;
use broker::{Damaged, Mail, ReadRequest, Reply, StreamDamage};
use journal::Sealed;
use node::Stop;
use node::commit::Written;
use node::replicas::Wanting;
use node::space::Signs;
use node::turn::{Home, Outputs, Turn};
use node::word::Word;
use std::collections::{BTreeMap, VecDeque};
use stream_files::StreamJob;

/// The token of requests to hand a log to another shard; no other request has it.
pub const HAND_TOKEN: u32 = 77;

/// Bytes one connection brings in a turn, at most.
const READ_BYTES_MAX: u64 = 16 << 10;

/// Bytes a line takes before it is full.
const LINE_BYTES_MAX: usize = 32 << 10;

/// A letter from elsewhere on the node; mail comes from other shards.
#[derive(Debug)]
pub enum Letter {
    /// A client connected over this line.
    Accepted(usize, Protocol),
    /// A connection left another shard for this one.
    Moved(Box<Moving>),
    /// A letter of the node.
    Node(node::turn::Letter),
}

#[derive(Debug)]
struct Socket {
    line: usize,
    tail: Vec<u8>,
    is_waiting: bool,
}

/// A connection on its way to another shard.
#[derive(Debug)]
pub struct Moving {
    socket: Socket,
    mover: Mover,
}

/// See the module.
#[derive(Debug)]
pub struct Berth {
    /// The shard and its connections.
    pub home: Home,
    /// In the order they came.
    pub letters: VecDeque<Letter>,
    /// By the shard that sent it, in the order it was sent: mail sent together arrives together.
    pub mail: Vec<VecDeque<Vec<Mail>>>,
    sockets: BTreeMap<u32, Socket>,
    /// Units of work that dead letters have had.
    dead_letters_work: u64,
}

/// The output of a turn.
#[derive(Debug, Default)]
pub struct Given {
    /// Reads that deliveries wait for.
    pub reads: Vec<ReadRequest>,
    /// Work of streams on the disk.
    pub jobs: Vec<StreamJob>,
    /// Damage of streams.
    pub torn: Vec<StreamDamage>,
    /// Mail for each shard.
    pub mail: Vec<Vec<Mail>>,
    /// Logs that are where they were to go.
    pub handed: u64,
    /// Answers to other requests of the node's own, by their tokens.
    pub answers: Vec<(u32, Result<Reply, Refusal>)>,
    /// Words to other nodes.
    pub words: Vec<(NodeNo, Word)>,
    /// States that are to be had from other nodes.
    pub wants: Vec<Wanting>,
    /// Connections that go to other shards, once that mail is there.
    pub moving: Vec<(usize, Box<Moving>)>,
}

impl Berth {
    /// A shard among `shards`, whose connections have no lines yet.
    pub fn new(home: Home, shards: usize) -> Berth {
        let mail = (0..shards).map(|_| VecDeque::new()).collect();
        Berth { home, letters: VecDeque::new(), mail, sockets: BTreeMap::new(), dead_letters_work: 0 }
    }

    /// The node says something.
    pub fn tell(&mut self, letter: node::turn::Letter) {
        self.letters.push_back(Letter::Node(letter));
    }

    /// The first thing that came or is to be done, in words.
    pub fn work(&mut self, now: Now) -> Option<&'static str> {
        let has_traffic = self.has_traffic();
        let Home { shard, .. } = &self.home;
        let all = [
            (!self.letters.is_empty(), "letters"),
            (self.mail.iter().any(|mail| !mail.is_empty()), "mail between shards"),
            (self.home.has_work(), "work of a shard"),
            (shard.deadline().is_some_and(|deadline| deadline <= now.mono_ns), "a deadline of a shard"),
            (!self.home.is_quiet(), "writes or errands of a shard"),
            (shard.has_wishes(), "wishes about the catalog"),
            (has_traffic, "output of connections"),
        ];
        all.iter().find(|(is_there, _)| *is_there).map(|(_, name)| *name)
    }

    /// Connections there are.
    pub fn connections(&self) -> usize {
        self.sockets.len()
    }

    /// Something a connection brought or has to say is not done with.
    pub fn has_traffic(&mut self) -> bool {
        let Berth { home, sockets, .. } = self;
        sockets.keys().any(|slot| !home.front.output(*slot).is_empty())
    }
}

/// A shard in its turn, with what it has around it.
pub struct Busy<'a> {
    berth: &'a mut Berth,
    dice: &'a mut Random,
    net: &'a mut Net,
    books: &'a mut Books,
    now: Now,
    given: Given,
}

impl<'a> Busy<'a> {
    /// The shard of `berth`, whose turn it is.
    pub fn new(
        berth: &'a mut Berth,
        now: Now,
        dice: &'a mut Random,
        net: &'a mut Net,
        books: &'a mut Books,
    ) -> Busy<'a> {
        let mail = berth.mail.iter().map(|_| Vec::new()).collect();
        Busy { berth, dice, net, books, now, given: Given { mail, ..Given::default() } }
    }

    /// The output of the turn.
    pub fn into_given(self) -> Given {
        self.given
    }

    fn slots(&self) -> Vec<u32> {
        self.berth.sockets.keys().copied().collect()
    }

    fn read_one(&mut self, now: Now, slot: u32) {
        let Berth { home: Home { shard, front, .. }, sockets, .. } = &mut *self.berth;
        let Some(socket) = sockets.get_mut(&slot) else { return };
        if socket.is_waiting || front.is_over(slot) {
            return;
        }
        let line = self.net.line(socket.line);
        if line.up.is_empty() {
            if line.up_ended {
                line.down_ended = true;
                sockets.remove(&slot);
                front.closed(now, shard, slot);
            }
            return;
        }
        let most = (line.up.len() as u64).min(READ_BYTES_MAX);
        let count = if self.dice.one_in(3) { self.dice.between(1, most) } else { most };
        socket.tail.extend(line.up.drain(..count as usize));
        let taken = front.input(now, shard, slot, &socket.tail);
        socket.tail.drain(..taken.consumed);
        socket.is_waiting = taken.is_waiting;
    }

    fn write_one(&mut self, now: Now, slot: u32) {
        let Berth { home: Home { shard, front, .. }, sockets, .. } = &mut *self.berth;
        let Some(socket) = sockets.get(&slot) else { return };
        let line = self.net.line(socket.line);
        let is_over = front.is_over(slot);
        let output = front.output(slot);
        if line.up_ended && (line.up.is_empty() || is_over) {
            // Nobody reads it any more; of a connection that is over what came is not read either.
            let len = output.len();
            output.sent(len);
        }
        let room = LINE_BYTES_MAX.saturating_sub(line.down.len()).min(output.len());
        if room > 0 {
            let count = if self.dice.one_in(4) { self.dice.between(1, room as u64) as usize } else { room };
            let mut left = count;
            output.slices(usize::MAX, |slice| {
                let part = &slice[..slice.len().min(left)];
                left -= part.len();
                line.down.extend_from_slice(part);
            });
            output.sent(count);
            front.sent(now, shard, slot);
        }
        if !front.output(slot).is_empty() {
            front.unsent(now, shard, slot);
        }
        if front.is_over(slot) && front.output(slot).is_empty() {
            self.close(now, slot);
        }
    }

    fn close(&mut self, now: Now, slot: u32) {
        let Berth { home: Home { shard, front, .. }, sockets, .. } = &mut *self.berth;
        let Some(socket) = sockets.remove(&slot) else { return };
        self.net.line(socket.line).down_ended = true;
        front.closed(now, shard, slot);
    }
}

impl Turn for Busy<'_> {
    fn home(&mut self) -> &mut Home {
        &mut self.berth.home
    }

    fn later(&self, now: Now) -> Now {
        now
    }

    fn signs(&self) -> Signs {
        self.books.space.signs()
    }

    fn take_letters(&mut self, now: Now) -> Result<(), Stop> {
        let Berth { home, sockets, letters, .. } = &mut *self.berth;
        while let Some(letter) = letters.pop_front() {
            match letter {
                Letter::Accepted(line, _) if home.is_stopping() => self.net.line(line).down_ended = true,
                Letter::Accepted(line, protocol) => {
                    let peer = Peer { protocol, ..Peer::new(&format!("client {line}"), true).agent() };
                    let slot = home.front.accept(now, peer);
                    sockets.insert(slot, Socket { line, tail: Vec::new(), is_waiting: false });
                }
                Letter::Moved(moved) => {
                    let Moving { mut socket, mover } = *moved;
                    let slot = home.front.adopt(now, &mut home.shard, mover);
                    socket.is_waiting = true;
                    sockets.insert(slot, socket);
                    if home.is_stopping() {
                        home.front.shut_down_one(now, &mut home.shard, slot);
                    }
                }
                Letter::Node(letter) => home.hear(now, letter)?,
            }
        }
        Ok(())
    }

    fn take_mail(&mut self, now: Now) {
        let Berth { home, mail, .. } = &mut *self.berth;
        for mail in mail {
            let waiting = mail.len() as u64;
            let taken = if self.dice.one_in(2) { waiting } else { self.dice.between(0, waiting) };
            mail.drain(..taken as usize).flatten().for_each(|mail| home.receive(now, mail));
        }
    }

    fn read(&mut self, now: Now) {
        for slot in self.slots() {
            if !self.dice.one_in(4) {
                self.read_one(now, slot);
            }
        }
    }

    fn fire_timers(&mut self, now: Now) {
        for slot in self.slots() {
            let Home { shard, front, .. } = &mut self.berth.home;
            if front.deadline(slot).is_some_and(|deadline| deadline <= now.mono_ns) {
                if front.is_over(slot) {
                    self.close(now, slot);
                } else {
                    front.handle_deadline(now, shard, slot);
                }
            }
        }
    }

    fn hand_in(
        &mut self,
        outstanding: usize,
        sealed: &mut Vec<Sealed>,
        written: &mut Vec<Written>,
    ) -> Result<usize, Stop> {
        let whose = (self.berth.home.id, outstanding);
        self.books.hand_in(self.now, self.dice, whose, sealed, written)
    }

    /// Behind each round of the turn: logs that go and come have made no more work in it than they may.
    fn give_out(&mut self) {
        let (logs, limits) = (self.berth.home.shard.logs(), self.berth.home.shard.limits());
        // One that goes and one that comes have the numbers counted again, with that of the log in memory.
        let numbers = 2 * (logs.on_disk().count() + 2);
        let (steps, most) = (logs.move_steps(), limits.taken_in_at_once_max + numbers);
        assert!(steps <= most, "{steps} steps for moves in one round, {most} at most");
        let Berth { home, dead_letters_work, .. } = &mut *self.berth;
        tenant::check_dead_letters(&home.shard, dead_letters_work);
        let Outputs { reads, jobs, damages, notices, words, wants } = &mut self.berth.home.outputs;
        self.given.words.append(words);
        self.given.wants.append(wants);
        self.given.reads.append(reads);
        self.given.jobs.append(jobs);
        // Of messages it is known from what was read for them.
        self.given.torn.extend(damages.drain(..).filter_map(|damage| match damage {
            Damaged::Stream(damage) => Some(damage),
            Damaged::Messages(_) | Damaged::Dropped { .. } => None,
        }));
        notices.clear();
        let mut trials = Vec::new();
        self.berth.home.front.take_trials(&mut trials);
        assert!(trials.is_empty(), "passwords of the simulation are compared at once");
    }

    fn send_mail(&mut self) {
        let me = self.berth.home.id;
        for (to, mail) in self.given.mail.iter_mut().enumerate() {
            if to != usize::from(me.0) {
                self.berth.home.shard.take_mail(ShardId(to as u16), mail);
            }
        }
    }

    fn write(&mut self, now: Now) {
        let front = &mut self.berth.home.front;
        front.take_dirty(&mut Vec::new());
        let mut answers = Vec::new();
        front.take_node_answers(&mut answers);
        let is_done = |(token, answer): &&(u32, _)| *token == HAND_TOKEN && matches!(answer, Ok(Reply::Done));
        self.given.handed += answers.iter().filter(is_done).count() as u64;
        self.given.answers.extend(answers.into_iter().filter(|(token, _)| *token != HAND_TOKEN));
        for slot in self.slots() {
            self.write_one(now, slot);
        }
    }

    fn let_go(&mut self, now: Now) {
        let Berth { home, sockets, .. } = &mut *self.berth;
        let mut leaving = Vec::new();
        home.front.take_leaving(&mut leaving);
        for (slot, to) in leaving {
            if !home.is_stopping()
                && sockets.contains_key(&slot)
                && let Some(mover) = home.front.leave(now, &mut home.shard, slot)
                && let Some(socket) = sockets.remove(&slot)
            {
                self.given.moving.push((to.0 as usize, Box::new(Moving { socket, mover })));
            }
        }
    }

    fn resume(&mut self, now: Now) {
        let Berth { home, sockets, .. } = &mut *self.berth;
        let mut slots = Vec::new();
        home.take_resumed(&mut slots);
        for slot in slots {
            let Some(socket) = sockets.get_mut(&slot) else { continue };
            socket.is_waiting = false;
            if !socket.tail.is_empty() || home.front.is_unfinished(slot) {
                let taken = home.front.input(now, &mut home.shard, slot, &socket.tail);
                socket.tail.drain(..taken.consumed);
                socket.is_waiting = taken.is_waiting;
            }
        }
        home.front.take_notes(&mut Vec::new());
    }
}
