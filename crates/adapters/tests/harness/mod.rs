//! A node without sockets and files: shards and their fronts, mail between them, a disk that keeps the batches it is
//! given, and wires whose other ends the tests hold. Time stands still unless a test moves it.

#![allow(dead_code, reason = "each test file uses its part")]

use adapters::{Frontend, NODE_SLOT, Note, Peer, Protocol, Settings, Trying};
use base::id::{LogId, PortId, ShardId};
use base::{Buffer, Memory, Now, Quantum, Secrets};
use broker::access::{AccessRules, Anonymous, PasswordHash};
use broker::catalog::{Actor, FirstContent, Op, VhostId};
use broker::ledger::Ledger;
use broker::{
    ConnectionRow, ConnectionSums, Limits, Mail, OpenSums, Placement, ReadBytes, ReadRequest, ReadWhat,
    SessionRow, Shard, ShardSettings,
};
use journal::{FileId, FileKind, FileName, Place, Sealed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A connection's server end, as the loop around it would keep it.
#[derive(Debug, Default)]
struct Wire {
    shard: usize,
    slot: u32,
    /// Sent by the client and not done with.
    kept: Vec<u8>,
    is_waiting: bool,
    /// The client reads nothing: its output stays where it is.
    is_ignored: bool,
    /// For the client.
    sent: Vec<u8>,
    is_gone: bool,
}

/// The usual ones, and ANONYMOUS stands for guest because it is named.
fn rules() -> AccessRules {
    let rules = AccessRules::default();
    let named = |own: Anonymous| Anonymous { is_named: true, ..own };
    AccessRules { anonymous: rules.anonymous.map(named), ..rules }
}

/// The node.
pub struct World {
    pub now: Now,
    pub shards: Vec<Shard>,
    pub fronts: Vec<Frontend>,
    wires: Vec<Wire>,
    /// The batches on disk.
    disk: BTreeMap<(LogId, u64), Memory>,
    unwritten: Vec<(usize, Sealed)>,
    /// The disk takes its time: nothing is written until this is false again.
    pub is_disk_slow: bool,
    pub notes: Vec<Note>,
    /// Batches read back.
    pub reads: usize,
    /// Passwords are compared only by [`World::compare`].
    pub is_hashing_slow: bool,
    /// Passwords that wait for it, each with its shard.
    pub trials: Vec<(usize, Trying)>,
    settings: Arc<Settings>,
}

impl World {
    pub fn new(shards: u16) -> World {
        World::with(shards, Limits::default(), Settings::new("rabbit@test"))
    }

    pub fn with(shards: u16, limits: Limits, settings: Settings) -> World {
        World::with_ledger(shards, limits, settings, Arc::default())
    }

    pub fn with_ledger(shards: u16, limits: Limits, settings: Settings, ledger: Arc<Ledger>) -> World {
        let now = Now { mono_ns: 1_000_000_000, wall_ms: 1_000 };
        let placement = Placement { shards, logs: u32::from(shards) };
        let settings = Arc::new(settings);
        let shard = |id| {
            let rules = Arc::new(rules());
            let settings = ShardSettings {
                id: ShardId(id),
                placement,
                limits,
                rules,
                node: "rabbit@test".into(),
                relaxes_types: false,
                ledger: ledger.clone(),
                seed: 7,
            };
            Shard::new(settings, Secrets::simulated(u64::from(id)))
        };
        let mut world = World {
            now,
            shards: (0..shards).map(shard).collect(),
            fronts: (0..shards).map(|id| Frontend::new(ShardId(id), settings.clone())).collect(),
            wires: Vec::new(),
            disk: BTreeMap::new(),
            unwritten: Vec::new(),
            is_disk_slow: false,
            notes: Vec::new(),
            reads: 0,
            is_hashing_slow: false,
            trials: Vec::new(),
            settings,
        };
        assert!(world.shards.iter_mut().all(|shard| shard.finish_recovery(now).is_empty()));
        let port = PortId::here(ShardId(0), NODE_SLOT, 0);
        world.shards[0].open_port(port, Actor::internal(VhostId::default(), port));
        for op in FirstContent::guest([1; 4]).requests() {
            world.shards[0].request(now, port, 1, op);
        }
        world.run();
        world.shards[0].close_port(now, port);
        world.run();
        world
    }

    /// A user who may do everything in `/`, with the name as password.
    pub fn add_user(&mut self, name: &str) {
        let port = PortId::here(ShardId(0), NODE_SLOT, 0);
        self.shards[0].open_port(port, Actor::internal(VhostId::default(), port));
        let content = FirstContent {
            user: name.into(),
            password: PasswordHash::new(name, [2; 4]),
            ..FirstContent::guest([1; 4])
        };
        for op in content.requests().into_iter().skip(1) {
            self.shards[0].request(self.now, port, 1, op);
        }
        self.run();
        self.shards[0].close_port(self.now, port);
        self.run();
    }

    /// Has an administrator make a change.
    pub fn request(&mut self, op: Op) {
        let port = PortId::here(ShardId(0), NODE_SLOT, 0);
        self.shards[0].open_port(port, Actor::internal(VhostId::default(), port));
        self.shards[0].request(self.now, port, 1, op);
        self.run();
        self.shards[0].close_port(self.now, port);
        self.run();
    }

    /// A client connects to a shard, to speak AMQP: its wire.
    pub fn connect(&mut self, shard: usize) -> usize {
        self.connect_to(shard, Protocol::Amqp)
    }

    /// A client connects to a shard: its wire.
    pub fn connect_to(&mut self, shard: usize, protocol: Protocol) -> usize {
        let port = if protocol == Protocol::Stream { 5552 } else { 5672 };
        let name = format!("127.0.0.1:{} -> 127.0.0.1:{port}", 50_000 + self.wires.len());
        let peer = Peer { protocol, ..Peer::new(&name, true) };
        let slot = self.fronts[shard].accept(self.now, peer);
        self.wires.push(Wire { shard, slot, ..Wire::default() });
        self.wires.len() - 1
    }

    /// The client sends bytes.
    pub fn send(&mut self, wire: usize, bytes: &[u8]) {
        self.wires[wire].kept.extend_from_slice(bytes);
        if !self.wires[wire].is_waiting {
            self.input(wire);
        }
    }

    /// The client's output is sent, and the node comes to rest: the bytes the client was sent since the last time.
    pub fn exchange(&mut self, wire: usize, output: &mut base::Output) -> Vec<u8> {
        if !output.is_empty() {
            let bytes = output.to_vec();
            output.sent(bytes.len());
            self.send(wire, &bytes);
        }
        self.run();
        self.take(wire)
    }

    /// The bytes the client was sent since the last time.
    pub fn take(&mut self, wire: usize) -> Vec<u8> {
        std::mem::take(&mut self.wires[wire].sent)
    }

    /// The connections of a shard as they are listed, a few at a time.
    pub fn rows(&self, shard: usize) -> Vec<ConnectionRow> {
        let (mut rows, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let (front, shard) = (&self.fronts[shard], &self.shards[shard]);
            from = front.rows_from(shard, at, &mut Quantum::of(3), |_, _| true, &mut rows);
        }
        rows
    }

    /// The sums of connections, channels and consumers, added up in the shards a few at a time: the same as of the
    /// listed ones.
    pub fn sums(&self) -> OpenSums {
        let (mut sums, mut listed) = (OpenSums::default(), OpenSums::default());
        let traffic = |slot: u32| ConnectionSums { received: slot.into(), ..ConnectionSums::default() };
        for (at, (front, shard)) in self.fronts.iter().zip(&self.shards).enumerate() {
            let (mut from, mut rows) = (Some(0), Vec::new());
            while let Some(at) = from {
                from = front.sums_from(shard.catalog(), at, &mut Quantum::of(3), traffic, &mut sums);
            }
            assert_eq!(front.opened(shard.catalog(), 0, &mut Quantum::of(1000), &mut rows), None);
            rows.iter().for_each(|opened| listed.add(opened));
            for row in self.rows(at).iter().filter(|row| !row.user.is_empty()) {
                let channels = row.channels;
                let own = ConnectionSums { connections: 1, channels, ..traffic(row.id.1) };
                listed.connections.merge(&own);
            }
        }
        assert_eq!(sums, listed);
        sums
    }

    /// The sessions of a client's connection over AMQP 1.0.
    pub fn sessions(&self, wire: usize) -> Vec<SessionRow> {
        let Wire { shard, slot, .. } = self.wires[wire];
        let (front, catalog) = (&self.fronts[shard], self.shards[shard].catalog());
        let row = self.rows(shard).into_iter().find(|row| row.id.1 == slot).expect("it is there");
        front.sessions(catalog, (row.id.1, row.id.2)).expect("it has sessions")
    }

    /// Bytes the client sent that were not taken yet.
    pub fn kept(&self, wire: usize) -> usize {
        self.wires[wire].kept.len()
    }

    /// From now on the client reads none of the bytes it is to be sent, or all of them again.
    pub fn ignore(&mut self, wire: usize, is_ignored: bool) {
        self.wires[wire].is_ignored = is_ignored;
        if !is_ignored {
            self.read(wire, usize::MAX);
        }
    }

    /// Bytes the client is to be sent, and has not read.
    pub fn unread(&mut self, wire: usize) -> usize {
        let Wire { shard, slot, .. } = self.wires[wire];
        self.fronts[shard].output(slot).len()
    }

    /// The client reads so many of the bytes it is to be sent.
    pub fn read(&mut self, wire: usize, most: usize) {
        let Wire { shard, slot, sent, .. } = &mut self.wires[wire];
        let output = self.fronts[*shard].output(*slot);
        let count = output.len().min(most);
        sent.extend_from_slice(&output.to_vec()[..count]);
        output.sent(count);
        self.fronts[*shard].sent(self.now, &mut self.shards[*shard], *slot);
    }

    /// The server has closed the socket.
    pub fn is_gone(&self, wire: usize) -> bool {
        self.wires[wire].is_gone
    }

    /// The client is gone without a word.
    pub fn cut(&mut self, wire: usize) {
        let Wire { shard, slot, is_gone, .. } = &mut self.wires[wire];
        if !std::mem::replace(is_gone, true) {
            self.fronts[*shard].closed(self.now, &mut self.shards[*shard], *slot);
        }
    }

    /// Time goes by, and the deadlines due on a connection are handled.
    pub fn wait(&mut self, wire: usize, ms: u64) {
        self.now = Now { mono_ns: self.now.mono_ns + ms * 1_000_000, wall_ms: self.now.wall_ms + ms };
        let Wire { shard, slot, is_gone, .. } = self.wires[wire];
        if !is_gone {
            self.fronts[shard].handle_deadline(self.now, &mut self.shards[shard], slot);
        }
    }

    /// Compares the passwords that wait.
    pub fn compare(&mut self) {
        for (at, Trying { slot, generation, trial }) in std::mem::take(&mut self.trials) {
            let outcome = trial.carry_out(self.now, &self.settings.guard, &rules());
            self.fronts[at].tried(self.now, &mut self.shards[at], slot, generation, outcome);
        }
    }

    fn input(&mut self, wire: usize) {
        let Wire { shard, slot, kept, is_waiting, is_gone, .. } = &mut self.wires[wire];
        if !*is_gone && (!kept.is_empty() || self.fronts[*shard].is_unfinished(*slot)) {
            let taken = self.fronts[*shard].input(self.now, &mut self.shards[*shard], *slot, kept);
            kept.drain(..taken.consumed);
            *is_waiting = taken.is_waiting;
        }
    }

    /// Turns of all shards until nothing moves.
    pub fn run(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for at in 0..self.shards.len() {
                moved |= self.turn(at);
            }
            if !self.is_hashing_slow && !self.trials.is_empty() {
                moved = true;
                self.compare();
            }
            if !moved {
                return;
            }
        }
        panic!("the node does not come to rest");
    }

    /// One turn of each shard; whether something moved, or would in the next.
    pub fn turns(&mut self) -> bool {
        (0..self.shards.len()).fold(false, |moved, at| self.turn(at) | moved)
    }

    /// The client waits to be handed its input again.
    pub fn is_waiting(&self, wire: usize) -> bool {
        self.wires[wire].is_waiting
    }

    fn turn(&mut self, at: usize) -> bool {
        let mut moved = false;
        let (shard, front, now) = (&mut self.shards[at], &mut self.fronts[at], self.now);
        let mut sealed = Vec::new();
        shard.end_turn(now, &mut sealed);
        self.unwritten.extend(sealed.into_iter().map(|sealed| (at, sealed)));
        if !self.is_disk_slow {
            for (owner, sealed) in self.unwritten.extract_if(.., |(owner, _)| *owner == at) {
                moved = true;
                let mut buffer = Buffer::default();
                buffer.extend(sealed.records());
                self.disk.insert((sealed.log, sealed.base.0), buffer.seal());
                let name = FileName::new(FileKind::Journal, 1);
                let len = sealed.len as u64;
                let place = Place { file: FileId(1), name, offset: 4096, len, crc: sealed.crc };
                assert_eq!(owner, at);
                shard.written(now, sealed.log, sealed.base, place);
            }
        }
        let mut reads: Vec<ReadRequest> = Vec::new();
        shard.take_reads(&mut reads);
        for request in reads {
            moved = true;
            self.reads += 1;
            let parts = request.parts.iter().map(|part| {
                let ReadWhat::Batch { base, .. } = part else { panic!("no segments here") };
                self.disk.get(&(request.log, base.0)).cloned().map(ReadBytes::Batch)
            });
            let brought = parts.collect();
            shard.read_done(now, request, brought);
        }
        front.handle_events(now, shard);
        if !shard.is_congested() {
            front.release_held();
        }
        front.end_turn(now, shard);
        front.take_notes(&mut self.notes);
        let mut trials = Vec::new();
        front.take_trials(&mut trials);
        self.trials.extend(trials.into_iter().map(|trial| (at, trial)));
        let (mut dirty, mut resumed) = (Vec::new(), Vec::new());
        front.take_dirty(&mut dirty);
        front.take_resumed(&mut resumed);
        for slot in dirty {
            let Some(wire) =
                self.wires.iter_mut().find(|wire| (wire.shard, wire.slot, wire.is_gone) == (at, slot, false))
            else {
                continue;
            };
            let output = self.fronts[at].output(slot);
            let len = output.len();
            if len > 0 && !wire.is_ignored {
                moved = true;
                wire.sent.extend(output.to_vec());
                output.sent(len);
                drop(output.release());
                self.fronts[at].sent(now, &mut self.shards[at], slot);
            } else if len > 0 {
                self.fronts[at].unsent(now, &mut self.shards[at], slot);
            }
            if self.fronts[at].is_over(slot) {
                moved = true;
                wire.is_gone = true;
                self.fronts[at].closed(now, &mut self.shards[at], slot);
            }
        }
        for slot in resumed {
            moved = true;
            let found =
                self.wires.iter().position(|wire| (wire.shard, wire.slot, wire.is_gone) == (at, slot, false));
            if let Some(wire) = found {
                self.wires[wire].is_waiting = false;
                self.input(wire);
            }
        }
        for to in (0..self.shards.len()).filter(|to| *to != at) {
            let mut mail: Vec<Mail> = Vec::new();
            self.shards[at].take_mail(ShardId(to as u16), &mut mail);
            for mail in mail {
                moved = true;
                if let Some(events) = self.shards[to].receive(now, mail) {
                    self.fronts[to].handle_mail(now, &mut self.shards[to], &events);
                }
            }
        }
        moved |= self.let_go(at);
        moved | self.shards[at].has_work() | self.fronts[at].has_work()
    }

    /// Connections whose queue is another shard's go there.
    fn let_go(&mut self, at: usize) -> bool {
        let mut leaving = Vec::new();
        self.fronts[at].take_leaving(&mut leaving);
        let mut moved = false;
        for (slot, to) in leaving {
            let is_it = |wire: &&mut Wire| (wire.shard, wire.slot, wire.is_gone) == (at, slot, false);
            let Some(wire) = self.wires.iter_mut().find(is_it) else { continue };
            if let Some(mover) = self.fronts[at].leave(self.now, &mut self.shards[at], slot) {
                let to = usize::from(to.0);
                wire.shard = to;
                wire.slot = self.fronts[to].adopt(self.now, &mut self.shards[to], mover);
                wire.is_waiting = true;
                moved = true;
            }
        }
        moved
    }

    /// The shard a client's connection is at home on.
    pub fn shard_of(&self, wire: usize) -> usize {
        self.wires[wire].shard
    }
}
