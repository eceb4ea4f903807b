//! The scenarios: each names the cases it measures, one row of the table per case.
//!
//! The loads of record stand in DESIGN.md section 5; values of the command line replace a scenario's own.

use crate::content;
use crate::options::{Bench, Placement, Protocol, QueueType, Transport};
use crate::trial::{SETTLE_SECONDS, Trial};
use crate::uri::Uri;
use crate::users;
use clap::ValueEnum;
use serde::Serialize;

/// A named load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Scenario {
    /// AMQP 1.0, classic queue: 1 M durable 12-byte messages, credit 200
    ClassicAmqp10,
    /// AMQP 0-9-1, classic queue: persistent, mandatory, confirm window 192, prefetch and multi-ack 200
    ClassicAmqp091,
    /// AMQP 1.0, quorum queue: credit 5000
    QuorumAmqp10,
    /// AMQP 0-9-1, quorum queue: confirm window 3000, prefetch and multi-ack 5000
    QuorumAmqp091,
    /// Idle connections with two sessions or channels each: opens per second, memory of each, how many dropped
    Connections,
    /// Bodies of 256 bytes to 64 KiB, ack batches of 80, backlog 100, beside transient messages and the bare disk
    FsyncBound,
    /// One exchange to 1, 10 and 100 queues
    FanOut,
    /// 10,000 queues in turn
    ManyQueues,
    /// 5,000 messages a second, each protocol and queue type
    Trickle,
    /// A backlog is built, then drained: one queue, and spread over 1,000
    Backlog,
    /// The classic loads over plain TCP, WebSocket, TLS and both together
    Websocket,
    /// 10 quorum queues, 500 messages of 1 KiB a second each, consumed at once: does memory stay flat?
    FlatMemory,
    /// 6,000 messages of 20 KB a second; after a minute come 10 consumers: do the publishers keep their rate?
    BacklogDrain,
    /// One publisher and one reader of a stream over the stream protocol, both with their clients' usual batches.
    StreamNative,
    /// One publisher at full speed and 1 and 50 readers of a stream over the stream protocol, each of which gets all of
    /// it: does the publisher keep its rate?
    StreamFanOut,
    /// Streams of 1 to 384 messages a chunk, read over the stream protocol and AMQP 0-9-1, with read-ahead and without
    StreamSmallChunks,
    /// One stream of 20 GB: how long attaching to it, starting with it and deleting most of it take
    StreamLarge,
    /// One stream of 4 GB, read from its first message by one reader and by four at once: the broker's CPU for each megabyte
    StreamReplay,
    /// 200 messages a second, confirmed and consumed, alone and beside a tenant: another user at full speed whose messages are
    /// dear to route, to 100 queues, by patterns and by headers
    Tenants,
    /// 1 KiB of JSON to an exchange that looks into bodies: without a filter, with one, with 10,000 of five conditions each, and
    /// with 100 more that no index can look up
    ContentBindings,
    /// 1 KiB of JSON to a queue with 16 consumers: without selectors, and each with one of its own
    ContentSelectors,
    /// 1 KiB of JSON in a stream, and readers who each want one in 997, by five conditions: one reader of what is stored, then 1
    /// and 50 while it is written
    ContentReaders,
    /// One queue with 1,000 consumers, in turn and by share (x-fairness)
    ContentShares,
    /// Three nodes, quorum queue, both protocols: clients at the node that leads it and at another, one message at a time, and
    /// what publishers wait when the leader is killed
    ClusterQuorum,
    /// AMQP 1.0, stream: credit 5000, read from the end while it is written
    StreamAmqp10,
    /// AMQP 0-9-1, stream: confirm window 3000, prefetch and multi-ack 5000, read from the end while it is written
    StreamAmqp091,
}

/// How messages find the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Each message to one queue, in turn.
    Turn,
    /// Each message to every queue, through a fanout exchange.
    Copy,
    /// Each message of the one stream there is to every consumer.
    Readers,
}

/// One measured load: one row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name among the scenario's other cases.
    pub label: String,
    /// Both sides' protocol.
    pub protocol: Protocol,
    /// Its transport.
    pub transport: Transport,
    /// The queues' type.
    pub queue_type: QueueType,
    /// Messages published, over all publishers.
    pub messages: u64,
    /// Bytes of a body.
    pub size: u32,
    /// Whether messages are durable.
    pub is_durable: bool,
    /// Unconfirmed messages a publisher may have; 0: see [`Bench::confirm_window`].
    pub confirm_window: u32,
    /// Prefetch or link credit.
    pub credit: u32,
    /// Messages settled at a time.
    pub ack_every: u32,
    /// Publishing connections.
    pub publishers: u32,
    /// Consuming connections, each consuming from all queues (one of `queues` each in turn where there are more).
    pub consumers: u32,
    /// Queues.
    pub queues: u32,
    /// How messages find them.
    pub spread: Spread,
    /// Messages per second over all publishers.
    pub rate: Option<u64>,
    /// How far publishers may be ahead of the consumers, messages.
    pub lead: Option<u64>,
    /// Whether all is published before anything is consumed.
    pub is_backlog: bool,
    /// How many priorities messages have, in turn; 0: they have none.
    pub priorities: u32,
    /// Messages are of JSON, and go through an exchange whose bindings have filters: of these.
    pub filters: Option<Filters>,
    /// Messages are of JSON, and consumers choose among them by so many selectors; 0: they take all.
    pub selectors: Option<u32>,
    /// The rule of the queue by which consumers take messages, if it has one.
    pub fairness: Option<&'static str>,
    /// Messages are of JSON, and each reader of the stream wants a few of them.
    pub has_choosy_readers: bool,
    /// Demands on the load besides.
    pub trial: Trial,
}

impl Case {
    /// Messages are of JSON.
    pub fn is_content(&self) -> bool {
        self.filters.is_some() || self.selectors.is_some() || self.has_choosy_readers
    }
}

/// The filters of bindings of an exchange that messages go through, beside the binding of the load's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// The load's queue has one, which every message passes.
    pub of_all: bool,
    /// Filters that an index can look up.
    pub count: u32,
    /// Filters that it cannot.
    pub unindexable: u32,
}

impl Case {
    /// Deliveries that are due once everything was published.
    pub fn deliveries(&self) -> u64 {
        match self.spread {
            Spread::Turn => self.messages,
            Spread::Copy => self.messages * u64::from(self.queues),
            Spread::Readers if self.has_choosy_readers => {
                let each =
                    |reader| (0..self.publishers).map(move |one| content::wanted(reader, self.quota_of(one)));
                (0..self.consumers).flat_map(each).sum()
            }
            Spread::Readers => self.messages * u64::from(self.consumers),
        }
    }

    /// Messages of one of the publishers.
    pub fn quota_of(&self, publisher: u32) -> u64 {
        let publishers = u64::from(self.publishers);
        self.messages / publishers + u64::from(u64::from(publisher) < self.messages % publishers)
    }

    /// Whether it is the same load as `plain` over another transport.
    pub fn is_carried_twin_of(&self, plain: &Case) -> bool {
        let load = |case: &Case| {
            let Case { protocol, queue_type, size, publishers, consumers, queues, is_durable, .. } = *case;
            (protocol, queue_type, size, publishers, consumers, queues, is_durable)
        };
        plain.transport == Transport::Tcp && self.transport != Transport::Tcp && load(self) == load(plain)
    }

    /// Whether it is the same load as `few` but for its having more readers.
    pub fn has_more_readers_than(&self, few: &Case) -> bool {
        let load = |case: &Case| {
            let Case { spread, protocol, size, publishers, messages, is_backlog, .. } = *case;
            (spread, protocol, size, publishers, messages, is_backlog)
        };
        self.spread == Spread::Readers && self.consumers > few.consumers && load(self) == load(few)
    }

    /// Whether it is the same load as `durable` but for its messages being transient.
    pub fn is_twin_of(&self, durable: &Case) -> bool {
        let load = |case: &Case| {
            let Case { protocol, transport, queue_type, size, publishers, consumers, queues, .. } = *case;
            (protocol, transport, queue_type, size, publishers, consumers, queues)
        };
        durable.is_durable && !self.is_durable && load(self) == load(durable)
    }
}

const MILLION: u64 = 1_000_000;

/// The load that the classic scenarios share; the others change some values.
fn base(protocol: Protocol, queue_type: QueueType) -> Case {
    let is_wide = match queue_type {
        QueueType::Classic => false,
        QueueType::Quorum => true,
        QueueType::Stream => protocol != Protocol::Stream,
    };
    let confirm_window = match (protocol, is_wide) {
        (Protocol::Amqp091, false) => 192,
        (Protocol::Amqp091, true) => 3000,
        (Protocol::Amqp10, _) => 0,
        // Unconfirmed messages that stream clients let wait.
        (Protocol::Stream, _) => 10_000,
    };
    let credit = if is_wide { 5000 } else { 200 };
    // A 1.0 client renews its credit when half of it is used, and settles messages with the same write.
    let ack_every = match protocol {
        Protocol::Amqp091 => credit,
        Protocol::Amqp10 => credit / 2,
        // Each chunk makes room for another.
        Protocol::Stream => 1,
    };
    Case {
        label: String::new(),
        protocol,
        transport: Transport::Tcp,
        queue_type,
        messages: MILLION,
        size: 12,
        is_durable: true,
        confirm_window,
        credit,
        ack_every,
        publishers: 1,
        consumers: 1,
        queues: 1,
        spread: Spread::Turn,
        rate: None,
        lead: None,
        is_backlog: false,
        priorities: 0,
        filters: None,
        selectors: None,
        fairness: None,
        has_choosy_readers: false,
        trial: Trial::None,
    }
}

impl Scenario {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Protocol and queue type where the name says them.
    fn fixed(self) -> Option<(Protocol, QueueType)> {
        match self {
            Scenario::ClassicAmqp10 => Some((Protocol::Amqp10, QueueType::Classic)),
            Scenario::ClassicAmqp091 => Some((Protocol::Amqp091, QueueType::Classic)),
            Scenario::QuorumAmqp10 => Some((Protocol::Amqp10, QueueType::Quorum)),
            Scenario::QuorumAmqp091 => Some((Protocol::Amqp091, QueueType::Quorum)),
            Scenario::StreamNative | Scenario::StreamFanOut => Some((Protocol::Stream, QueueType::Stream)),
            Scenario::ContentBindings | Scenario::ContentSelectors | Scenario::ContentShares => {
                Some((Protocol::Amqp091, QueueType::Classic))
            }
            Scenario::StreamAmqp10 => Some((Protocol::Amqp10, QueueType::Stream)),
            Scenario::StreamAmqp091 => Some((Protocol::Amqp091, QueueType::Stream)),
            _ => None,
        }
    }

    /// The cases to measure under `bench`'s options; none for [`Scenario::Connections`], which moves no messages.
    ///
    /// # Errors
    /// In words for people: options that contradict each other or the scenario.
    pub fn cases(self, bench: &Bench) -> Result<Vec<Case>, String> {
        if self.fixed().is_some() && (bench.protocol.is_some() || bench.queue_type.is_some()) {
            return Err(format!("{} names its protocol and queue type itself", self.name()));
        }
        if self == Scenario::ContentReaders
            && (bench.queue_type.is_some() || bench.protocol == Some(Protocol::Stream))
        {
            return Err(format!("{} reads a stream over AMQP", self.name()));
        }
        if bench.placement != Placement::Any && self.transports(bench) != [Transport::Tcp] {
            return Err("where connections land is known over plain TCP alone".to_owned());
        }
        self.check_seconds(bench)?;
        if self.is_native() && (bench.queue.is_some() || !bench.transport.is_empty()) {
            return Err(format!("{} makes a stream of its own, and reads it over plain TCP", self.name()));
        }
        self.check_readers(bench)?;
        self.check_tenants(bench)?;
        self.check_own(bench)?;
        self.check_nodes(bench)?;
        let protocols = match (self.fixed(), bench.protocol) {
            (Some((protocol, _)), _) | (None, Some(protocol)) => vec![protocol],
            (None, None)
                if matches!(
                    self,
                    Scenario::Trickle
                        | Scenario::Websocket
                        | Scenario::ContentReaders
                        | Scenario::ClusterQuorum
                ) =>
            {
                vec![Protocol::Amqp091, Protocol::Amqp10]
            }
            (None, None) => vec![Protocol::Amqp091],
        };
        let queue_types = match (self.fixed(), bench.queue_type) {
            _ if self == Scenario::ContentReaders => vec![QueueType::Stream],
            (Some((_, queue_type)), _) | (None, Some(queue_type)) => vec![queue_type],
            (None, None) if self == Scenario::Trickle => vec![QueueType::Classic, QueueType::Quorum],
            (None, None)
                if matches!(
                    self,
                    Scenario::FlatMemory | Scenario::BacklogDrain | Scenario::ClusterQuorum
                ) =>
            {
                vec![QueueType::Quorum]
            }
            (None, None) => vec![QueueType::Classic],
        };
        let mut cases = Vec::new();
        for &protocol in &protocols {
            for &queue_type in &queue_types {
                for transport in self.transports(bench) {
                    let base = Case { transport, ..base(protocol, queue_type) };
                    self.add_cases(bench, base, &mut cases);
                }
            }
        }
        for case in &mut cases {
            case.is_durable &= !bench.transient;
            check(case)?;
            case.label = label(case);
        }
        Ok(cases)
    }

    /// Whether its load goes over the stream protocol.
    fn is_native(self) -> bool {
        matches!(self.fixed(), Some((Protocol::Stream, _)))
    }

    /// Whether it fills streams of its own before anything is measured.
    fn makes_streams(self) -> bool {
        matches!(self, Scenario::StreamSmallChunks | Scenario::StreamLarge | Scenario::StreamReplay)
    }

    /// The scenarios that are no [`Case`]s have options of their own, and not those of the others.
    fn check_own(self, bench: &Bench) -> Result<(), String> {
        let (has_chunks, has_bytes) = (!bench.chunks.is_empty(), bench.bytes.is_some());
        let is_loaded = bench.messages.is_some() || bench.queue.is_some();
        match self {
            Scenario::StreamSmallChunks if is_loaded || bench.protocol == Some(Protocol::Amqp10) => {
                Err("stream-small-chunks writes --bytes of streams of its own for each cell, and reads them over the stream \
                     protocol and AMQP 0-9-1"
                    .to_owned())
            }
            Scenario::StreamLarge if is_loaded || has_chunks || bench.protocol.is_some() || bench.uri.is_some() => {
                Err("stream-large writes --bytes of one stream of a broker of its own".to_owned())
            }
            Scenario::StreamReplay if is_loaded || has_chunks || bench.protocol.is_some() => {
                Err("stream-replay writes --bytes of one stream, and reads it over the stream protocol".to_owned())
            }
            Scenario::StreamSmallChunks | Scenario::StreamLarge | Scenario::StreamReplay => Ok(()),
            _ if has_chunks || has_bytes => {
                Err("--chunks is for stream-small-chunks, --bytes for stream-large and stream-replay too".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// A cluster has three nodes: all are ours, or none is.
    fn check_nodes(self, bench: &Bench) -> Result<(), String> {
        if self != Scenario::ClusterQuorum {
            return match bench.nodes.is_empty() && bench.kills.is_none() {
                true => Ok(()),
                false => Err("--nodes and --kills are for cluster-quorum".to_owned()),
            };
        }
        let is_plain = |uri: &Uri| uri.transport == Transport::Tcp;
        if self.transports(bench) != [Transport::Tcp] || !bench.nodes.iter().all(is_plain) {
            return Err("clusters are measured over plain TCP".to_owned());
        }
        if bench.queue.is_some() || bench.queue_type.is_some_and(|queue_type| queue_type != QueueType::Quorum)
        {
            return Err("cluster-quorum makes a quorum queue of its own".to_owned());
        }
        let most = if bench.broker_pid.is_empty() { 0 } else { 1 };
        match (&bench.uri, bench.nodes.len()) {
            (None, 0) => Ok(()),
            (Some(_), 2) if bench.kills.unwrap_or(0) > most => {
                Err("a node that is not ours is killed once (--kills 1), where --broker-pid names it: it is not started again"
                    .to_owned())
            }
            (Some(_), 2) => Ok(()),
            _ => Err("cluster-quorum takes the addresses of three nodes: --uri, and --nodes with the two others".to_owned()),
        }
    }

    /// Readers are of one stream, which all of them read from its first message on.
    fn check_readers(self, bench: &Bench) -> Result<(), String> {
        if !matches!(self, Scenario::StreamFanOut | Scenario::StreamReplay) {
            let is_given = !bench.readers.is_empty();
            let words = "--readers is for stream-fan-out and stream-replay";
            return if is_given { Err(words.to_owned()) } else { Ok(()) };
        }
        match bench.consumers.is_some() || !bench.queues.is_empty() || bench.lead.is_some() {
            true => {
                Err(format!("{} has one stream, --readers, and a publisher who waits for none", self.name()))
            }
            false => Ok(()),
        }
    }

    /// A tenant beside the load is a user of its own.
    fn check_tenants(self, bench: &Bench) -> Result<(), String> {
        let is_tenants = self == Scenario::Tenants;
        if !is_tenants && bench.tenant.is_some() {
            return Err("--tenant is for tenants".to_owned());
        }
        if !is_tenants {
            return Ok(());
        }
        let is_plain = |uri: &Uri| uri.transport == Transport::Tcp;
        if self.transports(bench) != [Transport::Tcp] || !bench.tenant.iter().all(is_plain) {
            return Err("tenants are measured over plain TCP".to_owned());
        }
        match (&bench.uri, &bench.tenant) {
            (Some(uri), Some(tenant)) if uri.user == tenant.user => {
                Err("the tenant (--tenant) is another user than that of --uri: users are what is kept apart"
                    .to_owned())
            }
            (Some(_), None) => Err("tenants needs a second user at the broker of --uri: --tenant".to_owned()),
            _ => Ok(()),
        }
    }

    /// Some loads are measured in seconds, not in messages.
    fn check_seconds(self, bench: &Bench) -> Result<(), String> {
        let is_timed = matches!(self, Scenario::FlatMemory | Scenario::BacklogDrain | Scenario::Tenants);
        if is_timed && bench.messages.is_some() {
            return Err(format!("{} is measured in seconds (--seconds), not in messages", self.name()));
        }
        if !is_timed && bench.seconds.is_some() {
            return Err(format!("{} is not measured in seconds", self.name()));
        }
        if self == Scenario::FlatMemory && bench.seconds.is_some_and(|seconds| seconds <= SETTLE_SECONDS) {
            return Err(format!("memory has {SETTLE_SECONDS} s to settle before it is judged"));
        }
        if self == Scenario::BacklogDrain && (bench.one_thread || bench.placement != Placement::Any) {
            return Err(
                "the consumers come later, on a thread of their own and wherever they land".to_owned()
            );
        }
        if self == Scenario::Tenants && bench.one_thread {
            return Err("the publishers of tenants end in time, which consumers wait for on another thread"
                .to_owned());
        }
        Ok(())
    }

    /// Settings of the broker that is started for it.
    pub fn settings(self) -> Vec<String> {
        match self {
            Scenario::Connections => {
                ["sndbuf", "recbuf"].map(|buffer| format!("tcp_listen_options.{buffer}=2048")).to_vec()
            }
            Scenario::Tenants => users::settings(),
            _ => Vec::new(),
        }
    }

    /// The transports of the load: that of the address, or else those of the command line, or else the scenario's.
    pub fn transports(self, bench: &Bench) -> Vec<Transport> {
        match (&bench.uri, &bench.transport[..]) {
            _ if self.is_native() || self.makes_streams() => vec![Transport::Stream],
            (Some(uri), _) => vec![uri.transport],
            (None, [_, ..]) => bench.transport.clone(),
            (None, []) if self == Scenario::Websocket => Transport::ALL.to_vec(),
            (None, []) => vec![Transport::Tcp],
        }
    }

    /// The cases of one protocol, queue type and transport.
    fn add_cases(self, bench: &Bench, base: Case, cases: &mut Vec<Case>) {
        let (sizes, publishers, queues): (&[u32], &[u32], &[u32]) = match self {
            Scenario::FsyncBound => (&[256, 1024, 4096, 16 << 10, 64 << 10], &[1, 4], &[1]),
            Scenario::FanOut => (&[12], &[1], &[1, 10, 100]),
            Scenario::ManyQueues => (&[12], &[1], &[10_000]),
            Scenario::Backlog => (&[12], &[1], &[1, 1000]),
            Scenario::FlatMemory => (&[1024], &[10], &[10]),
            Scenario::BacklogDrain => (&[20_000], &[1], &[1]),
            Scenario::ContentBindings | Scenario::ContentSelectors | Scenario::ContentReaders => {
                (&[1024], &[1], &[1])
            }
            _ => (&[12], &[1], &[1]),
        };
        let or = |given: &[u32], own: &[u32]| if given.is_empty() { own.to_vec() } else { given.to_vec() };
        for size in or(&bench.size, sizes) {
            for publishers in or(&bench.publishers, publishers) {
                for queues in or(&bench.queues, queues) {
                    let case = Case { size, publishers, queues, ..base.clone() };
                    if self == Scenario::StreamFanOut {
                        for consumers in or(&bench.readers, &[1, 50]) {
                            let case = Case { consumers, spread: Spread::Readers, ..case.clone() };
                            self.add_case(bench, case, cases);
                        }
                        continue;
                    }
                    if self == Scenario::ContentBindings {
                        for (of_all, count, unindexable) in
                            [(false, 0, 0), (true, 0, 0), (false, 10_000, 0), (false, 10_000, 100)]
                        {
                            let filters = Some(Filters { of_all, count, unindexable });
                            let case = Case { filters, spread: Spread::Copy, ..case.clone() };
                            self.add_case(bench, case, cases);
                        }
                        continue;
                    }
                    if self == Scenario::ContentSelectors {
                        for selectors in [0, content::DESKS] {
                            let selectors = Some(selectors);
                            let case = Case { selectors, consumers: content::DESKS, ..case.clone() };
                            self.add_case(bench, case, cases);
                        }
                        continue;
                    }
                    if self == Scenario::ContentShares {
                        for fairness in [None, Some("proportional")] {
                            self.add_case(bench, Case { fairness, consumers: 1000, ..case.clone() }, cases);
                        }
                        continue;
                    }
                    if self == Scenario::ContentReaders {
                        let plain = Case { spread: Spread::Readers, ..case.clone() };
                        for (is_backlog, consumers) in [(true, 1), (false, 1), (false, 50)] {
                            let case =
                                Case { is_backlog, consumers, has_choosy_readers: true, ..plain.clone() };
                            self.add_case(bench, case, cases);
                        }
                        continue;
                    }
                    self.add_case(bench, case, cases);
                }
            }
        }
    }

    fn add_case(self, bench: &Bench, mut case: Case, cases: &mut Vec<Case>) {
        match self {
            Scenario::FsyncBound => {
                // So many bytes that a row takes about a second on a fast disk.
                case.messages = ((1 << 30) / u64::from(case.size + 2048)).clamp(10_000, 300_000);
                case.ack_every = 80;
                case.credit = 100;
                case.confirm_window = 100;
                case.consumers = case.publishers;
            }
            Scenario::FanOut => {
                case.spread = Spread::Copy;
                case.messages = MILLION / u64::from(case.queues).clamp(1, 100);
            }
            Scenario::StreamFanOut => case.messages = 10 * MILLION,
            Scenario::ContentBindings | Scenario::ContentSelectors => case.messages = 300_000,
            Scenario::ContentReaders | Scenario::ContentShares => case.messages = MILLION / 2,
            // A prefetch counts per consumer, and there is one on every queue.
            Scenario::ManyQueues => case.confirm_window = case.confirm_window.max(3000),
            Scenario::Trickle => {
                case.rate = Some(5000);
                case.messages = 50_000;
                case.ack_every = 1;
            }
            Scenario::Backlog => {
                case.is_backlog = true;
                case.confirm_window = case.confirm_window.max(3000);
                case.credit = 5000;
                case.ack_every = 2500;
            }
            Scenario::FlatMemory => {
                case.trial = Trial::FlatMemory;
                case.rate = Some(500 * u64::from(case.queues));
                case.consumers = case.queues;
                case.credit = 200;
                case.ack_every = 10;
            }
            Scenario::BacklogDrain => {
                case.trial = Trial::Drain { build_seconds: bench.seconds.unwrap_or(60) };
                case.rate = Some(6000);
                case.consumers = 10;
                case.confirm_window = 1000;
                case.credit = 300;
                case.ack_every = 10;
            }
            Scenario::Tenants => {
                case.trial = Trial::Timed { seconds: bench.seconds.unwrap_or(30) };
                case.rate = Some(200);
                case.ack_every = 1;
            }
            _ => {}
        }
        case.messages = bench.messages.unwrap_or(case.messages);
        case.confirm_window = bench.confirm_window.unwrap_or(case.confirm_window);
        case.consumers = bench.consumers.unwrap_or(case.consumers);
        case.rate = bench.rate.or(case.rate);
        case.priorities = bench.priorities.unwrap_or(0);
        let seconds = match case.trial {
            Trial::None => None,
            Trial::FlatMemory => Some(bench.seconds.unwrap_or(180)),
            Trial::Drain { .. } | Trial::Timed { .. } => case.trial.seconds_max(),
        };
        if let (Some(seconds), Some(rate)) = (seconds, case.rate) {
            case.messages = rate * u64::from(seconds);
        }
        case.lead = bench.lead.or(case.lead);
        let credit = match case.protocol {
            Protocol::Amqp091 => bench.prefetch,
            Protocol::Amqp10 => bench.credit,
            // Counted in chunks, and as clients have it.
            Protocol::Stream => None,
        };
        if let Some(credit) = credit {
            case.credit = credit;
            // Keep to the messages that the broker will give out, unless the command line says otherwise too.
            let most = if case.protocol == Protocol::Amqp10 { credit.div_ceil(2) } else { credit };
            if most > 0 {
                case.ack_every = case.ack_every.min(most);
            }
        }
        case.ack_every = bench.ack_every.unwrap_or(case.ack_every);
        if case.is_content() {
            // Shorter ones would not hold a document.
            case.size = case.size.max(512);
        }
        let has_transient_twin = self == Scenario::FsyncBound && !bench.transient;
        let twin = has_transient_twin.then(|| Case { is_durable: false, ..case.clone() });
        cases.push(case);
        cases.extend(twin);
    }
}

fn check(case: &Case) -> Result<(), String> {
    if case.messages == 0 {
        return Err("no messages to publish".to_owned());
    }
    if case.credit > 0 && case.ack_every > case.credit {
        return Err(format!(
            "settling every {} messages with only {} granted would wait for ever",
            case.ack_every, case.credit
        ));
    }
    if case.protocol == Protocol::Amqp10 && case.credit == 0 {
        return Err("an AMQP 1.0 consumer needs credit".to_owned());
    }
    if case.protocol == Protocol::Amqp091 && case.credit > u32::from(u16::MAX) {
        return Err(format!("a prefetch of {} does not fit AMQP 0-9-1's 16 bits", case.credit));
    }
    if case.lead.is_some() && case.is_backlog {
        return Err("a bounded lead builds no backlog".to_owned());
    }
    if case.lead.is_some_and(|lead| lead < u64::from(case.ack_every)) {
        return Err("a lead smaller than what is settled at a time would wait for ever".to_owned());
    }
    Ok(())
}

/// The values that tell a case from its neighbours.
fn label(case: &Case) -> String {
    let protocol = match case.protocol {
        Protocol::Amqp091 => "0-9-1",
        Protocol::Amqp10 => "1.0",
        Protocol::Stream => "native",
    };
    let mut label = format!("{protocol} {} {} B", case.queue_type.name(), case.size);
    if !case.is_durable {
        label.push_str(" transient");
    }
    if case.spread == Spread::Readers {
        let many = if case.consumers == 1 { "" } else { "s" };
        label.push_str(&format!(", {} reader{many}", case.consumers));
        if case.has_choosy_readers {
            let of_what = if case.is_backlog { "what is stored" } else { "what comes" };
            label.push_str(&format!(
                " of {of_what} who want{} one in {}",
                if case.consumers == 1 { "s" } else { "" },
                content::DOCUMENTS
            ));
        }
    }
    if case.spread != Spread::Readers && (case.publishers > 1 || case.consumers > 1) {
        label.push_str(&format!(", {} to {}", case.publishers, case.consumers));
    }
    if case.queues > 1 {
        let how = if case.spread == Spread::Copy { "copied to" } else { "over" };
        label.push_str(&format!(", {how} {} queues", case.queues));
    }
    if !matches!(case.transport, Transport::Tcp | Transport::Stream) {
        label.push_str(&format!(", {}", case.transport.name()));
    }
    if case.priorities > 0 {
        label.push_str(&format!(", {} priorities", case.priorities));
    }
    if let Some(Filters { of_all, count, unindexable }) = case.filters {
        let own = if of_all { ", filtered" } else { "" };
        let more =
            if unindexable > 0 { format!(" and {unindexable} without an index") } else { String::new() };
        label.push_str(&format!("{own}, {count} filters{more}"));
    }
    if let Some(selectors) = case.selectors {
        label.push_str(&format!(", {} consumers, {selectors} selectors", case.consumers));
    }
    if let Some(fairness) = case.fairness {
        label.push_str(&format!(", {fairness}"));
    }
    if let Some(rate) = case.rate {
        label.push_str(&format!(", {rate}/s"));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    fn bench(line: &str) -> Bench {
        let command = Bench::augment_args(Command::new("bench"));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        Bench::from_arg_matches(&matches).unwrap()
    }

    fn cases(line: &str) -> Result<Vec<Case>, String> {
        let bench = bench(line);
        bench.scenario.cases(&bench)
    }

    #[test]
    fn the_published_loads() {
        let of = |name: &str| {
            let case = cases(&format!("bench {name}")).unwrap().remove(0);
            (case.messages, case.size, case.confirm_window, case.credit, case.ack_every, case.is_durable)
        };
        assert_eq!(of("classic-amqp091"), (1_000_000, 12, 192, 200, 200, true));
        assert_eq!(of("quorum-amqp091"), (1_000_000, 12, 3000, 5000, 5000, true));
        assert_eq!(of("classic-amqp10"), (1_000_000, 12, 0, 200, 100, true));
        assert_eq!(of("quorum-amqp10"), (1_000_000, 12, 0, 5000, 2500, true));
    }

    #[test]
    fn loads_that_are_measured_in_seconds() {
        let of = |line: &str| {
            let case = cases(line).unwrap().remove(0);
            (case.queue_type, case.messages, case.size, case.queues, case.consumers, case.credit, case.rate)
        };
        let quorum = QueueType::Quorum;
        assert_eq!(of("bench flat-memory"), (quorum, 900_000, 1024, 10, 10, 200, Some(5000)));
        assert_eq!(of("bench flat-memory --seconds 30").1, 150_000);
        assert_eq!(of("bench backlog-drain"), (quorum, 3_960_000, 20_000, 1, 10, 300, Some(6000)));
        assert_eq!(of("bench backlog-drain --seconds 2 --rate 50").1, 1100);
        assert_eq!(of("bench tenants"), (QueueType::Classic, 6000, 12, 1, 1, 200, Some(200)));
        assert_eq!(of("bench tenants --seconds 2 --rate 50").1, 100);
    }

    #[test]
    fn how_many_rows_each_has() {
        for (line, rows) in [
            ("bench classic-amqp10", 1),
            ("bench fan-out", 3),
            ("bench many-queues", 1),
            ("bench stream-fan-out", 2),
            ("bench stream-fan-out --readers 1,10,50 --size 12,1000", 6),
            ("bench stream-replay --readers 1,8 --bytes 1000000", 1),
            ("bench trickle", 4),
            ("bench trickle --protocol amqp10", 2),
            ("bench fsync-bound", 20),
            ("bench fsync-bound --transient", 10),
            ("bench fsync-bound --size 65536 --publishers 1,8", 4),
            ("bench backlog", 2),
            ("bench websocket", 8),
            ("bench websocket --protocol amqp10 --transport tcp,wss", 2),
            ("bench websocket --uri wss://h", 2),
            ("bench classic-amqp10 --transport tls,ws", 2),
            ("bench flat-memory", 1),
            ("bench backlog-drain --seconds 10 --rate 500", 1),
            ("bench tenants", 1),
            ("bench tenants --uri amqp://a:a@h --tenant amqp://b:b@h --protocol amqp10", 1),
        ] {
            assert_eq!(cases(line).unwrap().len(), rows, "{line}");
        }
    }

    #[test]
    fn labels_differ() {
        for name in ["fan-out", "trickle", "fsync-bound", "backlog", "websocket", "stream-fan-out"] {
            let mut labels: Vec<_> =
                cases(&format!("bench {name}")).unwrap().into_iter().map(|case| case.label).collect();
            let rows = labels.len();
            labels.sort();
            labels.dedup();
            assert_eq!(labels.len(), rows, "{name}");
        }
    }

    #[test]
    fn contradictions_are_told() {
        for line in [
            "bench classic-amqp10 --protocol amqp091",
            "bench classic-amqp091 --prefetch 100 --ack-every 101",
            "bench classic-amqp10 --credit 0",
            "bench classic-amqp091 --prefetch 70000",
            "bench classic-amqp091 --messages 0",
            "bench classic-amqp091 --lead 10",
            "bench backlog --lead 10000",
            "bench classic-amqp10 --transport tls --placement same",
            "bench classic-amqp10 --seconds 10",
            "bench flat-memory --seconds 20",
            "bench flat-memory -n 1000",
            "bench backlog-drain -n 1000",
            "bench backlog-drain --one-thread",
            "bench tenants -n 1000",
            "bench tenants --one-thread",
            "bench tenants --transport tls",
            "bench tenants --uri amqp://a:a@h",
            "bench tenants --uri amqp://a:a@h --tenant amqp://a:a@h",
            "bench tenants --uri amqp://a:a@h --tenant amqps://b:b@h",
            "bench trickle --uri amqp://a:a@h --tenant amqp://b:b@h",
            "bench stream-fan-out --consumers 5",
            "bench stream-fan-out --lead 1000",
            "bench stream-small-chunks --protocol amqp10",
            "bench stream-large --chunks 5",
            "bench stream-large --protocol stream",
            "bench stream-replay --chunks 5",
            "bench stream-replay -n 1000",
            "bench stream-replay --protocol stream",
            "bench stream-replay --consumers 5",
            "bench stream-native --chunks 5",
            "bench stream-native --readers 5",
        ] {
            assert!(cases(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_smaller_grant_settles_more_often() {
        assert_eq!(cases("bench classic-amqp091 --prefetch 50").unwrap()[0].ack_every, 50);
        assert_eq!(cases("bench classic-amqp10 --credit 50").unwrap()[0].ack_every, 25);
    }
}
