//! One shard with its connections, as its loop would drive them; but how much of everything one turn takes is rolled.

use crate::committer::{Committer, Written};
use crate::net::Net;
use crate::node::Stop;
use adapters::{Alarm, Frontend, Mover, Peer, Protocol};
use base::id::ShardId;
use base::{Now, Random};
use broker::{Damaged, Mail, ReadBytes, ReadRequest, Shard, StreamDamage};
use journal::Sealed;
use std::collections::{BTreeMap, VecDeque};
use stream_files::{StreamDone, StreamJob};

/// Bytes one connection brings in a turn, at most.
const READ_BYTES_MAX: u64 = 16 << 10;

/// Bytes a line takes before it is full.
const LINE_BYTES_MAX: usize = 32 << 10;

/// Rounds of commit and delivery in a turn.
const ROUNDS_MAX: usize = 4;

/// What comes from elsewhere on the node, mail apart.
#[derive(Debug)]
pub enum Letter {
    /// A client connected over this line.
    Accepted(usize, Protocol),
    /// A connection left another shard for this one.
    Moved(Box<Moving>),
    /// Batches are on disk.
    Written(Vec<Written>),
    /// A read ended.
    Loaded(ReadRequest, Vec<Option<ReadBytes>>),
    /// Something was done for a stream.
    Streamed(Box<StreamDone>),
    /// The alarm that holds now.
    Alarm(Option<Alarm>),
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

/// A shard at home.
#[derive(Debug)]
pub struct Home {
    /// The broker's part.
    pub shard: Shard,
    /// Its connections.
    pub front: Frontend,
    /// In the order they came.
    pub letters: VecDeque<Letter>,
    /// By who sent it, in the order it was sent: what is together arrives together.
    pub mail: Vec<VecDeque<Vec<Mail>>>,
    sockets: BTreeMap<u32, Socket>,
    outstanding: usize,
    was_congested: bool,
    is_stopping: bool,
}

/// What a turn gave out.
#[derive(Debug, Default)]
pub struct Given {
    /// Reads that deliveries wait for.
    pub reads: Vec<ReadRequest>,
    /// What streams want of the disk.
    pub jobs: Vec<StreamJob>,
    /// What was found damaged of streams.
    pub torn: Vec<StreamDamage>,
    /// Mail for each shard.
    pub mail: Vec<Vec<Mail>>,
    /// Connections that go to other shards, once that mail is there.
    pub moving: Vec<(usize, Box<Moving>)>,
}

impl Home {
    /// A shard without connections among `shards`.
    pub fn new(shard: Shard, front: Frontend, shards: usize) -> Home {
        Home {
            shard,
            front,
            letters: VecDeque::new(),
            mail: (0..shards).map(|_| VecDeque::new()).collect(),
            sockets: BTreeMap::new(),
            outstanding: 0,
            was_congested: false,
            is_stopping: false,
        }
    }

    /// Nothing came and nothing is to be done.
    pub fn is_idle(&self, now: Now) -> bool {
        self.letters.is_empty()
            && self.mail.iter().all(VecDeque::is_empty)
            && !self.shard.has_work()
            && self.shard.deadline().is_none_or(|deadline| deadline > now.mono_ns)
            && self.outstanding == 0
    }

    /// One turn of the loop.
    pub fn turn(
        &mut self,
        me: usize,
        now: Now,
        dice: &mut Random,
        net: &mut Net,
        committer: &mut Committer,
    ) -> Result<Given, Stop> {
        self.take_letters(now, net);
        self.take_mail(now, dice);
        let slots: Vec<u32> = self.sockets.keys().copied().collect();
        for slot in &slots {
            if !dice.one_in(4) {
                self.read(now, dice, net, *slot);
            }
        }
        self.fire_timers(now, net);
        for _ in 0..ROUNDS_MAX {
            self.commit(me, now, dice, committer)?;
            self.front.handle_events(now, &mut self.shard);
            if !self.shard.has_work() {
                break;
            }
        }
        self.front.end_turn(now, &mut self.shard);
        self.front.take_dirty(&mut Vec::new());
        self.front.take_node_answers(&mut Vec::new());
        let slots: Vec<u32> = self.sockets.keys().copied().collect();
        for slot in slots {
            self.write(now, dice, net, slot);
        }
        let mut given = Given::default();
        self.shard.take_reads(&mut given.reads);
        self.shard.take_stream_jobs(&mut given.jobs);
        let mut damages = Vec::new();
        self.shard.take_damages(&mut damages);
        // Of messages it is known from what was read for them.
        given.torn.extend(damages.into_iter().filter_map(|damage| match damage {
            Damaged::Stream(damage) => Some(damage),
            Damaged::Messages(_) | Damaged::Dropped { .. } => None,
        }));
        for to in 0..self.mail.len() {
            let mut mail = Vec::new();
            if to != me {
                self.shard.take_mail(ShardId(to as u16), &mut mail);
            }
            given.mail.push(mail);
        }
        given.moving = self.let_go(now);
        self.resume(now);
        self.front.take_notes(&mut Vec::new());
        Ok(given)
    }

    /// Connections whose queue is another shard's go there.
    fn let_go(&mut self, now: Now) -> Vec<(usize, Box<Moving>)> {
        let mut leaving = Vec::new();
        self.front.take_leaving(&mut leaving);
        let mut moving = Vec::new();
        for (slot, to) in leaving {
            if !self.is_stopping
                && self.sockets.contains_key(&slot)
                && let Some(mover) = self.front.leave(now, &mut self.shard, slot)
                && let Some(socket) = self.sockets.remove(&slot)
            {
                moving.push((to.0 as usize, Box::new(Moving { socket, mover })));
            }
        }
        moving
    }

    /// Every connection is told that the node stops, and none is accepted any more.
    pub fn stop(&mut self, now: Now) {
        self.is_stopping = true;
        self.front.shut_down(now, &mut self.shard);
    }

    fn take_letters(&mut self, now: Now, net: &mut Net) {
        while let Some(letter) = self.letters.pop_front() {
            match letter {
                Letter::Accepted(line, _) if self.is_stopping => net.line(line).down_ended = true,
                Letter::Accepted(line, protocol) => {
                    let peer = Peer { protocol, ..Peer::new(&format!("client {line}"), true).agent() };
                    let slot = self.front.accept(now, peer);
                    self.sockets.insert(slot, Socket { line, tail: Vec::new(), is_waiting: false });
                }
                Letter::Moved(moved) => {
                    let Moving { mut socket, mover } = *moved;
                    let slot = self.front.adopt(now, &mut self.shard, mover);
                    socket.is_waiting = true;
                    self.sockets.insert(slot, socket);
                    if self.is_stopping {
                        self.front.shut_down_one(now, &mut self.shard, slot);
                    }
                }
                Letter::Written(written) => {
                    self.outstanding -= written.len();
                    self.report(now, &written);
                }
                Letter::Loaded(request, brought) => self.shard.read_done(now, request, brought),
                Letter::Streamed(done) => self.shard.stream_done(now, *done),
                Letter::Alarm(alarm) => {
                    self.shard.set_short(alarm.is_some());
                    self.front.set_alarm(now, &mut self.shard, alarm);
                }
            }
        }
    }

    fn report(&mut self, now: Now, written: &[Written]) {
        for Written { log, base, place } in written {
            self.shard.written(now, *log, *base, *place);
        }
    }

    fn take_mail(&mut self, now: Now, dice: &mut Random) {
        for from in 0..self.mail.len() {
            let waiting = self.mail[from].len() as u64;
            let taken = if dice.one_in(2) { waiting } else { dice.between(0, waiting) };
            for mail in self.mail[from].drain(..taken as usize).flatten() {
                if let Some(events) = self.shard.receive(now, mail) {
                    self.front.handle_mail(now, &mut self.shard, &events);
                }
            }
        }
    }

    fn read(&mut self, now: Now, dice: &mut Random, net: &mut Net, slot: u32) {
        let Some(socket) = self.sockets.get_mut(&slot) else { return };
        if socket.is_waiting || self.front.is_over(slot) {
            return;
        }
        let line = net.line(socket.line);
        if line.up.is_empty() {
            if line.up_ended {
                line.down_ended = true;
                self.sockets.remove(&slot);
                self.front.closed(now, &mut self.shard, slot);
            }
            return;
        }
        let most = (line.up.len() as u64).min(READ_BYTES_MAX);
        let count = if dice.one_in(3) { dice.between(1, most) } else { most };
        socket.tail.extend(line.up.drain(..count as usize));
        let taken = self.front.input(now, &mut self.shard, slot, &socket.tail);
        socket.tail.drain(..taken.consumed);
        socket.is_waiting = taken.is_waiting;
    }

    fn resume(&mut self, now: Now) {
        let is_congested = self.shard.is_congested();
        if self.was_congested && !is_congested {
            self.front.release_held();
        }
        self.was_congested = is_congested;
        let mut slots = Vec::new();
        self.front.take_resumed(&mut slots);
        for slot in slots {
            let Some(socket) = self.sockets.get_mut(&slot) else { continue };
            socket.is_waiting = false;
            if !socket.tail.is_empty() {
                let taken = self.front.input(now, &mut self.shard, slot, &socket.tail);
                socket.tail.drain(..taken.consumed);
                socket.is_waiting = taken.is_waiting;
            }
        }
    }

    fn commit(
        &mut self,
        me: usize,
        now: Now,
        dice: &mut Random,
        committer: &mut Committer,
    ) -> Result<(), Stop> {
        let mut sealed: Vec<Sealed> = Vec::new();
        self.shard.end_turn(now, &mut sealed);
        if !sealed.is_empty() {
            let mut written = Vec::new();
            self.outstanding += committer.commit(dice, me, self.outstanding, &mut sealed, &mut written)?;
            self.report(now, &written);
        }
        Ok(())
    }

    fn write(&mut self, now: Now, dice: &mut Random, net: &mut Net, slot: u32) {
        let Some(socket) = self.sockets.get(&slot) else { return };
        let line = net.line(socket.line);
        let is_over = self.front.is_over(slot);
        let output = self.front.output(slot);
        if line.up_ended && (line.up.is_empty() || is_over) {
            // Nobody reads it any more; of a connection that is over what came is not read either.
            let len = output.len();
            output.sent(len);
        }
        let room = LINE_BYTES_MAX.saturating_sub(line.down.len()).min(output.len());
        if room > 0 {
            let count = if dice.one_in(4) { dice.between(1, room as u64) as usize } else { room };
            let mut left = count;
            output.slices(usize::MAX, |slice| {
                let part = &slice[..slice.len().min(left)];
                left -= part.len();
                line.down.extend_from_slice(part);
            });
            output.sent(count);
            self.front.sent(now, &mut self.shard, slot);
        }
        if self.front.is_over(slot) && self.front.output(slot).is_empty() {
            self.close(now, net, slot);
        }
    }

    fn fire_timers(&mut self, now: Now, net: &mut Net) {
        let slots: Vec<u32> = self.sockets.keys().copied().collect();
        for slot in slots {
            if self.front.deadline(slot).is_some_and(|deadline| deadline <= now.mono_ns) {
                if self.front.is_over(slot) {
                    self.close(now, net, slot);
                } else {
                    self.front.handle_deadline(now, &mut self.shard, slot);
                }
            }
        }
    }

    fn close(&mut self, now: Now, net: &mut Net, slot: u32) {
        let Some(socket) = self.sockets.remove(&slot) else { return };
        net.line(socket.line).down_ended = true;
        self.front.closed(now, &mut self.shard, slot);
    }

    /// Connections there are.
    pub fn connections(&self) -> usize {
        self.sockets.len()
    }

    /// Something a connection brought or has to say is not done with.
    pub fn has_traffic(&mut self) -> bool {
        let Home { front, sockets, .. } = self;
        sockets.keys().any(|slot| !front.output(*slot).is_empty())
    }
}
