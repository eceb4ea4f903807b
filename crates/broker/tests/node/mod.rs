//! One and more shards as values: no sockets, no files; what would be written is handed back as written.

use base::crc::crc32c;
use base::id::{LogId, PortId, QueueSeq, ShardId};
use base::{Now, Secrets};
use broker::access::{AccessCache, AccessRules};
use broker::catalog::{Actor, FirstContent, Op, Refusal, VhostId};
use broker::ledger::Ledger;
use broker::{
    Credit, Event, Events, Limits, Mail, NewConsumer, Placement, Publish, Published, Publisher, QueueCommand,
    Reply, Shard, ShardSettings,
};
use journal::{Disk, FaultyDisk, FileId, FileKind, FileName, Place, Sealed};
use message::amqp091::Properties;
use message::record::{Enqueue, Format, Outcome, SeqRange};
use routing::{NoHeaders, Value};
use std::io::IoSlice;
use std::sync::Arc;

/// When a node begins.
pub const NOW: Now = Now { mono_ns: 1_000_000_000, wall_ms: 1_000 };

const JOURNAL_FILE: FileName = FileName::new(FileKind::Journal, 1);
const JOURNAL_BYTES: u64 = 64 << 20;

/// Shards that are handed each other's mail, and whose batches are "written" when asked.
pub struct Node {
    pub shards: Vec<Shard>,
    pub unwritten: Vec<(usize, Sealed)>,
    /// The batches that were written, and their places.
    pub written: Vec<(usize, Sealed, Place)>,
    /// The events, shown as text, in order.
    pub seen: Vec<String>,
    /// All that was in the messages that were handed out.
    pub handed: Vec<String>,
    pub ports: Vec<PortId>,
    /// Where what was written can be read again, one batch after another in one file.
    pub disk: FaultyDisk,
    pub disk_end: u64,
    /// The time.
    pub now: Now,
}

impl Node {
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn new(shards: u16) -> Node {
        Node::with_limits(shards, Limits::default())
    }

    pub fn with_limits(shards: u16, limits: Limits) -> Node {
        Node::with_logs(shards, u32::from(shards), limits)
    }

    pub fn with_logs(shards: u16, logs: u32, limits: Limits) -> Node {
        let placement = Placement { shards, logs };
        let ledger = Arc::<Ledger>::default();
        let make = |id| {
            let rules = Arc::new(AccessRules::default());
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
        let mut node = Node {
            shards: (0..shards).map(make).collect(),
            unwritten: Vec::new(),
            written: Vec::new(),
            seen: Vec::new(),
            handed: Vec::new(),
            ports: Vec::new(),
            disk: FaultyDisk::new(7),
            disk_end: 0,
            now: NOW,
        };
        node.disk.create(JOURNAL_FILE, JOURNAL_BYTES).unwrap();
        assert!(node.shards.iter_mut().all(|shard| shard.finish_recovery(NOW).is_empty()));
        let port = PortId::here(ShardId(0), u32::MAX, 0);
        node.shards[0].open_port(port, Actor::internal(VhostId::default(), port));
        for op in FirstContent::guest([1; 4]).requests() {
            node.shards[0].request(NOW, port, 1, op);
        }
        node.settle();
        node.shards[0].close_port(NOW, port);
        node.settle();
        node.take_seen();
        for shard in 0..shards {
            let port = PortId::here(ShardId(shard), 0, 1);
            node.shards[shard as usize].open_port(port, Node::actor(port));
            node.ports.push(port);
        }
        node
    }

    pub fn actor(port: PortId) -> Actor {
        Actor::new("guest".into(), VhostId(0), port)
    }

    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn publisher(&self, port: usize) -> Publisher {
        Publisher::new(self.ports[port], 5, AccessCache::new(Node::actor(self.ports[port])))
    }

    /// Ends turns and passes mail on until nothing moves; writes nothing.
    pub fn turn(&mut self) {
        let now = self.now;
        loop {
            let mut mail: Vec<Vec<Mail>> = self.shards.iter().map(|_| Vec::new()).collect();
            for (at, shard) in self.shards.iter_mut().enumerate() {
                let mut sealed = Vec::new();
                shard.end_turn(now, &mut sealed);
                self.unwritten.extend(sealed.into_iter().map(|sealed| (at, sealed)));
                let mut events = Events::default();
                shard.take_events(&mut events);
                show(&events, (&mut self.seen, &mut self.handed));
                for (to, mail) in mail.iter_mut().enumerate().filter(|(to, _)| *to != at) {
                    shard.take_mail(ShardId(to as u16), mail);
                }
            }
            if mail.iter().all(Vec::is_empty) && !self.shards.iter().any(Shard::has_work) {
                return;
            }
            for (to, mail) in mail.into_iter().enumerate() {
                for mail in mail {
                    if let Some(events) = self.shards[to].receive(now, mail) {
                        show(&events, (&mut self.seen, &mut self.handed));
                    }
                }
            }
        }
    }

    /// Ends the turn of one shard; its mail for each of the others, by their numbers.
    #[allow(dead_code, reason = "shared; not every test hands mail over by itself")]
    pub fn turn_of(&mut self, at: usize) -> Vec<Vec<Mail>> {
        let mut sealed = Vec::new();
        self.shards[at].end_turn(self.now, &mut sealed);
        self.unwritten.extend(sealed.into_iter().map(|sealed| (at, sealed)));
        let mut mail: Vec<Vec<Mail>> = self.shards.iter().map(|_| Vec::new()).collect();
        for (to, mail) in mail.iter_mut().enumerate().filter(|(to, _)| *to != at) {
            self.shards[at].take_mail(ShardId(to as u16), mail);
        }
        mail
    }

    /// A shard takes in mail, in which nothing is for connections.
    #[allow(dead_code, reason = "shared; not every test hands mail over by itself")]
    pub fn receive(&mut self, at: usize, mail: Vec<Mail>) {
        for mail in mail {
            let events = self.shards[at].receive(self.now, mail);
            assert!(events.is_none_or(|events| events.is_empty()));
        }
    }

    /// Everything sealed so far is on disk now.
    pub fn write(&mut self) {
        for (at, sealed) in std::mem::take(&mut self.unwritten) {
            let offset = self.disk_end;
            self.disk.write_at(JOURNAL_FILE, offset, &[IoSlice::new(sealed.records())]).unwrap();
            self.disk_end += sealed.len as u64;
            let place = Place {
                file: FileId(1),
                name: JOURNAL_FILE,
                offset,
                len: sealed.len as u64,
                crc: sealed.crc,
            };
            self.shards[at].written(self.now, sealed.log, sealed.base, place);
            self.written.push((at, sealed, place));
        }
    }

    /// A shard as it comes up after this node's first, and only, one: from a snapshot, and what is on disk, all of which
    /// that covers. Its recovery is not finished.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn restarted(&self) -> Shard {
        self.restarted_with(Limits::default())
    }

    /// The same with other limits.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn restarted_with(&self, limits: Limits) -> Shard {
        let snapshot = self.shards[0].snapshot(LogId(0), false).unwrap();
        let mut shard = Node::fresh_with(limits);
        shard.restore(LogId(0), snapshot.covered, &snapshot.bytes.to_vec()).unwrap();
        for (_, sealed, place) in &self.written {
            shard.replay(LogId(0), sealed.base, sealed.records(), *place).unwrap();
        }
        shard
    }

    /// The only shard of a node, with nothing in it.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn fresh() -> Shard {
        Node::fresh_with(Limits::default())
    }

    fn fresh_with(limits: Limits) -> Shard {
        Node::fresh_of(limits, 1)
    }

    /// The only shard of a node with so many logs, with nothing in it.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn fresh_with_logs(logs: u32) -> Shard {
        Node::fresh_of(Limits::default(), logs)
    }

    fn fresh_of(limits: Limits, logs: u32) -> Shard {
        let rules = Arc::new(AccessRules::default());
        let placement = Placement { shards: 1, logs };
        let settings = ShardSettings {
            id: ShardId(0),
            placement,
            limits,
            rules,
            node: "rabbit@test".into(),
            relaxes_types: false,
            ledger: Arc::default(),
            seed: 8,
        };
        Shard::new(settings, Secrets::simulated(8))
    }

    /// Turns and writes until nothing is left to write.
    pub fn settle(&mut self) {
        self.turn();
        while !self.unwritten.is_empty() {
            self.write();
            self.turn();
        }
    }

    /// Reads what shards wait for, and settles.
    #[allow(dead_code, reason = "shared; not every test needs reads")]
    pub fn read(&mut self) {
        for shard in &mut self.shards {
            let mut reads = Vec::new();
            shard.take_reads(&mut reads);
            for mut read in reads {
                let brought = read.carry_out(&self.disk).into_iter().map(Result::unwrap).collect();
                shard.read_done(self.now, read, brought);
            }
        }
        self.settle();
    }

    /// The damage that a shard reports.
    #[allow(dead_code, reason = "shared; not every test damages something")]
    pub fn damages(&mut self, shard: usize) -> Vec<String> {
        let mut found = Vec::new();
        self.shards[shard].take_damages(&mut found);
        found.iter().map(|damage| damage.to_string()).collect()
    }

    /// The words of `came` about all that is in a queue: a consumer takes it and gives it back.
    #[allow(dead_code, reason = "shared; not every test looks into queues")]
    pub fn look_into<T>(&mut self, queue: &str, came: impl Fn(&mut Node) -> Vec<T>) -> Vec<T> {
        self.work();
        self.take_seen();
        self.consume(0, queue, 77, 0);
        let came = came(self);
        let held = broker::Held::GoesBack;
        self.command(0, queue, QueueCommand::Cancel { token: None, handle: 77, held });
        self.work();
        self.take_seen();
        came
    }

    /// Does what streams want of the disk, and settles, until they want nothing more.
    #[allow(dead_code, reason = "shared; not every test needs streams")]
    pub fn work(&mut self) {
        self.settle();
        loop {
            let mut jobs = Vec::new();
            for (at, shard) in self.shards.iter_mut().enumerate() {
                let mut theirs = Vec::new();
                shard.take_stream_jobs(&mut theirs);
                jobs.extend(theirs.into_iter().map(|job| (at, job)));
            }
            if jobs.is_empty() {
                return;
            }
            for (at, job) in jobs {
                self.shards[at].stream_done(self.now, job.carry_out(&self.disk));
            }
            self.settle();
        }
    }

    pub fn take_seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.seen)
    }

    /// Declares a queue from a port's shard and says which log it is on.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn declare(&mut self, port: usize, name: &str, durable: bool) -> LogId {
        self.declare_with(port, name, durable, &[])
    }

    /// The request that declares a queue.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn declaration(name: &str, durable: bool, arguments: &[(&str, Value)]) -> Op {
        Op::DeclareQueue {
            name: name.into(),
            passive: false,
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect(),
            random: [0; 16],
        }
    }

    /// Declares a queue with arguments.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn declare_with(
        &mut self,
        port: usize,
        name: &str,
        durable: bool,
        arguments: &[(&str, Value)],
    ) -> LogId {
        let now = self.now;
        let shard = &mut self.shards[port];
        shard.request(now, self.ports[port], 1, Node::declaration(name, durable, arguments));
        self.settle();
        assert_eq!(self.take_seen(), [format!("{port}: declared {name} 0 0")]);
        self.shards[port].catalog().queue_by_name(VhostId(0), name.as_bytes()).expect("it is declared").log
    }

    pub fn command(&mut self, port: usize, queue: &str, command: QueueCommand) {
        let now = self.now;
        let shard = &mut self.shards[port];
        let found = shard.catalog().queue_by_name(VhostId(0), queue.as_bytes()).unwrap().clone();
        shard.command(now, self.ports[port], found.log, found.id, command);
    }

    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn consume(&mut self, port: usize, queue: &str, handle: u32, prefetch: u32) {
        let credit = Credit::Prefetch(prefetch);
        let (settled, exclusive, browses) = (false, false, None);
        let consumer = NewConsumer { credit, settled, exclusive, priority: 0, browses, timeout_ms: None };
        self.command(port, queue, QueueCommand::Consume { token: 2, handle, consumer });
    }

    /// Time passes, and what is due happens.
    #[allow(dead_code, reason = "shared; not every test needs time")]
    pub fn pass(&mut self, ms: u64) {
        self.now = Now { mono_ns: self.now.after_ms(ms), wall_ms: self.now.wall_ms + ms };
        self.settle();
    }

    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn publish(
        &mut self,
        port: usize,
        publisher: &mut Publisher,
        key: &str,
        body: &str,
        durable: bool,
    ) -> Published {
        self.try_to_publish(port, publisher, (key, body), durable).unwrap()
    }

    /// Publishes a durable message, or hears why not.
    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn try_publish(
        &mut self,
        port: usize,
        publisher: &mut Publisher,
        key: &str,
    ) -> Result<Published, Refusal> {
        self.try_to_publish(port, publisher, (key, "x"), true)
    }

    fn try_to_publish(
        &mut self,
        port: usize,
        publisher: &mut Publisher,
        (key, body): (&str, &str),
        durable: bool,
    ) -> Result<Published, Refusal> {
        let publish = Publish {
            exchange: b"",
            routing_key: key.as_bytes(),
            more: None,
            headers: &NoHeaders,
            format: Format::Amqp091,
            durable,
            priority: None,
            ttl_ms: None,
            head: &[b"\0\0"],
            body: &[body.as_bytes()],
            confirm: true,
        };
        let now = self.now;
        self.shards[port].publish(now, publisher, &publish)
    }

    #[allow(dead_code, reason = "shared; not every test needs it")]
    pub fn settled(
        &mut self,
        port: usize,
        queue: &str,
        handle: u32,
        (first, last): (u64, u64),
        outcome: Outcome,
    ) {
        let range = SeqRange { first: QueueSeq(first), last: QueueSeq(last) };
        self.command(port, queue, QueueCommand::Settle { handle, range, outcome });
    }
}

/// The header `x-note`, or of a long one its length.
fn note(head: &[u8]) -> String {
    let headers = Properties::read(head).ok().and_then(|properties| properties.headers());
    match headers.and_then(|headers| headers.get(b"x-note")).as_ref().and_then(|note| note.as_bytes()) {
        Some(note) if note.len() > 100 => format!(" noted {} bytes", note.len()),
        Some(note) => format!(" noted {}", String::from_utf8_lossy(note)),
        None => String::new(),
    }
}

/// All that is in a message, what is long by its sum.
fn whole(item: &broker::Item, message: &Enqueue<'_>) -> String {
    let Enqueue { flags, format, priority, received_at_ms, exchange, routing_key, head, body, .. } = message;
    let (head, body) = (crc32c(head), (body.len(), crc32c(body)));
    let queues: Vec<_> = message.queues().collect();
    let (seq, marks) = (item.seq, item.marks);
    format!(
        "{seq} {marks} {flags} {format:?} {priority} {received_at_ms} {exchange:?} {routing_key:?} {head} {body:?} {queues:?}"
    )
}

fn show(events: &Events, (seen, handed): (&mut Vec<String>, &mut Vec<String>)) {
    for (port, event) in &events.list {
        let port = port.shard;
        let mut message = |memory: u32, item: &broker::Item| {
            let message = events.message(memory, item);
            handed.push(whole(item, &message));
            let body = String::from_utf8_lossy(message.body).into_owned();
            let again = if item.is_redelivered() { " again" } else { "" };
            format!("{body}@{}{again}{}", item.seq, note(message.head))
        };
        match event {
            Event::Cancelled { consumer, .. } => {
                seen.push(format!("{port}: Cancelled {{ consumer: {consumer} }}"))
            }
            Event::Deliver { consumer, memory, items } => {
                for item in &events.items[items.start as usize..items.end as usize] {
                    seen.push(format!("{port}: {consumer} gets {}", message(*memory, item)));
                }
            }
            Event::Confirmed { publisher, first, last } => {
                seen.push(format!("{port}: {publisher} confirmed {first}-{last}"));
            }
            Event::Refused { publisher, first, last, .. } => {
                seen.push(format!("{port}: {publisher} refused {first}-{last}"));
            }
            Event::Reply { reply: Ok(Reply::Declared { queue, ready, consumers, .. }), .. } => {
                seen.push(format!("{port}: declared {} {ready} {consumers}", queue.name));
            }
            Event::Reply { reply: Ok(reply), .. } => seen.push(format!("{port}: {reply:?}")),
            Event::Reply { reply: Err(refusal), .. } => seen.push(format!("{port}: {refusal}")),
            Event::Chunk { subscription, memory, bytes, committed_chunk_id, asks } => {
                let bytes = &events.memories[*memory as usize][bytes.start as usize..bytes.end as usize];
                let chunk = message::chunk::Chunk::read(bytes).unwrap().0;
                chunk.check().unwrap();
                let (first, records) = (chunk.header.first_offset, chunk.header.records);
                let committed = committed_chunk_id;
                let asks = if *asks { " and asks" } else { "" };
                seen.push(format!(
                    "{port}: {subscription} gets chunk {first}+{records} of {committed}{asks}"
                ));
            }
            Event::Barrier { consumer, memory, item } => {
                let barrier = message(*memory, &events.items[*item as usize]);
                seen.push(format!("{port}: {consumer} gets barrier {barrier}"));
            }
            Event::Shown { consumer, memory, item } => {
                let shown = message(*memory, &events.items[*item as usize]);
                seen.push(format!("{port}: {consumer} is shown {shown}"));
            }
            Event::Got { consumer, memory, item, ready, .. } => {
                let got = message(*memory, &events.items[*item as usize]);
                seen.push(format!("{port}: {consumer} takes {got}, {ready} left"));
            }
            other => seen.push(format!("{port}: {other:?}")),
        }
    }
}
