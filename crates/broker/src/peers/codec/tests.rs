use super::*;
use crate::access::{PasswordHash, SALT};
use crate::catalog::{
    DefaultPolicy, DefaultUser, Object, Op, PolicyKind, QueueType, Reason, Refusal, ReplyCode, UserLimits,
    VhostAbout, VhostDefaults, VhostLimits,
};
use base::id::{NodeNo, PortId, ShardId};
use base::{Buffer, Random};
use message::record::{Format, NewEnqueue};
use routing::{Arguments, Value};

/// Words of every kind, drawn at random.
struct Maker(Random);

impl Maker {
    fn flag(&mut self) -> bool {
        self.0.one_in(2)
    }

    fn text(&mut self) -> Box<str> {
        let len = self.0.below(6);
        (0..len).map(|_| ['a', '.', 'é', '#', '\0'][self.0.below(5) as usize]).collect()
    }

    fn optional<T>(&mut self, make: impl FnOnce(&mut Maker) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    fn tags(&mut self) -> Vec<Box<str>> {
        (0..self.0.below(3)).map(|_| self.text()).collect()
    }

    fn arguments(&mut self, depth: u32) -> Arguments {
        let names = [&b"a"[..], b"x-max-length", b"x-queue-type", b"z"];
        let count = self.0.below(3) as usize;
        names[..count].iter().map(|name| (*name, self.value(depth))).collect()
    }

    fn value(&mut self, depth: u32) -> Value {
        match self.0.below(if depth < 3 { 7 } else { 5 }) {
            0 => Value::Void,
            1 => Value::Bool(self.flag()),
            2 => Value::long(self.0.bits() as i64),
            3 => Value::text(&self.text()),
            4 => Value::Timestamp(self.0.bits()),
            5 => Value::Table(self.arguments(depth + 1)),
            _ => Value::List((0..self.0.below(3)).map(|_| self.value(depth + 1)).collect()),
        }
    }

    fn password(&mut self) -> Option<PasswordHash> {
        self.optional(|maker| PasswordHash::new(&maker.text(), [7; SALT]))
    }

    fn port(&mut self) -> PortId {
        let (node, shard) = (NodeNo(self.0.bits() as u16), ShardId(self.0.bits() as u16));
        PortId { node, shard, slot: self.0.bits() as u32, generation: self.0.bits() as u32 }
    }

    fn limits(&mut self) -> ([Option<u32>; 2], Option<u64>) {
        let counts = [(); 2].map(|()| self.optional(|maker| maker.0.bits() as u32));
        (counts, self.optional(|maker| maker.0.bits()))
    }

    fn vhost_limits(&mut self) -> VhostLimits {
        let ([connections_max, queues_max], memory_bytes_max) = self.limits();
        VhostLimits { connections_max, queues_max, memory_bytes_max }
    }

    fn defaults(&mut self) -> VhostDefaults {
        let policy = |maker: &mut Maker| DefaultPolicy {
            name: maker.text(),
            pattern: maker.text(),
            apply_to: maker.text(),
            definition: maker.arguments(0),
        };
        let user = |maker: &mut Maker| DefaultUser {
            name: maker.text(),
            password: maker.password(),
            tags: maker.tags(),
            configure: maker.text(),
            write: maker.text(),
            read: maker.text(),
        };
        VhostDefaults {
            queue_type: QueueType::ALL[self.0.below(3) as usize],
            limits: self.vhost_limits(),
            operator_policies: (0..self.0.below(3)).map(|_| policy(self)).collect(),
            users: (0..self.0.below(3)).map(|_| user(self)).collect(),
            about: VhostAbout { description: self.text(), tags: self.tags(), is_protected: self.flag() },
            tells_events: self.flag(),
        }
    }

    /// A request of this number, from 1; none: there is none.
    fn op(&mut self, number: u64) -> Option<Op> {
        let [a, b, c, d, e] = [(); 5].map(|()| self.text());
        let arguments = self.arguments(0);
        let kind = if self.flag() { PolicyKind::User } else { PolicyKind::Operator };
        let [first, second, third, fourth] = [(); 4].map(|()| self.flag());
        Some(match number {
            1 => Op::DeclareExchange {
                name: a,
                kind: b,
                passive: first,
                durable: second,
                auto_delete: third,
                internal: fourth,
                arguments,
            },
            2 => Op::DeleteExchange { name: a, if_unused: first },
            3 => Op::DeclareQueue {
                name: a,
                passive: first,
                durable: second,
                exclusive: third,
                auto_delete: fourth,
                arguments,
                random: [self.0.bits() as u8; 16],
            },
            4 => Op::MakeSuperStream { name: a, partitions: vec![(b, c), (d, e)], arguments },
            5 => Op::DeleteQueue { id: QueueId(self.0.bits()) },
            6 => Op::DeleteExclusive { port: self.port() },
            7 => Op::BindQueue { queue: a, exchange: b, key: c, arguments },
            8 => Op::UnbindQueue { queue: a, exchange: b, key: c, arguments },
            9 => Op::BindExchange { source: a, destination: b, key: c, arguments },
            10 => Op::UnbindExchange { source: a, destination: b, key: c, arguments },
            11 => Op::AddVhost { name: a, defaults: self.defaults() },
            12 => Op::UpdateVhost {
                name: a,
                description: self.optional(Maker::text),
                tags: self.optional(Maker::tags),
                queue_type: self.optional(|maker| QueueType::ALL[maker.0.below(3) as usize]),
                is_protected: self.optional(Maker::flag),
            },
            13 => Op::DeleteVhost { name: a },
            14 => Op::AddUser { name: a, password: self.password(), tags: self.tags() },
            15 => Op::DeleteUser { name: a },
            16 => Op::ChangePassword { name: a, password: self.password() },
            17 => Op::SetUserTags { name: a, tags: self.tags() },
            18 => Op::SetPermissions { user: a, vhost: b, configure: c, write: d, read: e },
            19 => Op::ClearPermissions { user: a, vhost: b },
            20 => {
                let priority = self.0.bits() as i64;
                let (vhost, name, pattern, apply_to) = (a, b, c, d);
                Op::SetPolicy { kind, vhost, name, pattern, apply_to, priority, definition: arguments }
            }
            21 => Op::ClearPolicy { kind, vhost: a, name: b },
            22 => Op::SetTopicPermissions { user: a, vhost: b, exchange: c, write: d, read: e },
            23 => Op::ClearTopicPermissions { user: a, vhost: b, exchange: self.optional(Maker::text) },
            24 => Op::SetVhostLimits { vhost: a, limits: self.vhost_limits() },
            25 => Op::SetParameter { name: a, value: self.optional(Maker::text) },
            26 => {
                let value = self.optional(Maker::text);
                Op::SetVhostParameter { vhost: a, component: b, name: c, value }
            }
            27 => Op::Trace { vhost: a, on: first },
            28 => {
                let ([connections_max, channels_max], memory_bytes_max) = self.limits();
                let limits = UserLimits { connections_max, channels_max, memory_bytes_max };
                Op::SetUserLimits { user: a, limits }
            }
            _ => return None,
        })
    }

    fn wish(&mut self, op: Op) -> CatalogWord {
        let actor = Actor {
            user: self.text().into(),
            vhost: VhostId(self.0.bits() as u32),
            port: self.port(),
            is_internal: self.flag(),
            is_tool: self.flag(),
        };
        CatalogWord::Wish(Box::new(Wish {
            incarnation: self.0.bits(),
            number: self.0.bits(),
            below: self.0.bits(),
            reign: Reign { incarnation: self.0.bits(), tenure: self.0.bits() as u32 },
            actor,
            is_asked: self.flag(),
            led: (0..self.0.below(4)).map(|log| LogId(log as u32)).collect(),
            op,
        }))
    }
}

fn encoded(word: &CatalogWord) -> Vec<u8> {
    let mut bytes = Vec::new();
    word.encode_to(&mut bytes);
    bytes
}

/// It comes back as it was, and no part of it is a word.
fn check(word: &CatalogWord) {
    let bytes = encoded(word);
    let read = CatalogWord::decode(&bytes);
    assert_eq!(read.as_ref(), Ok(word));
    for len in 0..bytes.len() {
        assert!(CatalogWord::decode(&bytes[..len]).is_err(), "{len} bytes of {word:?}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(CatalogWord::decode(&longer), Err(BadWord::Change(BadChange::Long)));
}

#[test]
fn wishes_come_back_as_they_were() {
    let mut maker = Maker(Random::new(1));
    let mut kinds = 0;
    for number in 1.. {
        let Some(op) = maker.op(number) else { break };
        kinds = number;
        check(&maker.wish(op));
        for _ in 0..40 {
            let op = maker.op(number).expect("it is one");
            check(&maker.wish(op));
        }
    }
    assert_eq!(kinds, 28, "there are so many kinds of requests");
}

#[test]
fn refusals_come_back_as_they_were() {
    let answer = |reason: Reason, code: ReplyCode| {
        let outcome = Outcome::Refused(Refusal::new(code, reason, "no queue 'q' in vhost '/'"));
        CatalogWord::Answer { incarnation: 7, number: 8, at: LogIndex(9), outcome }
    };
    let mut reasons = vec![
        Reason::Closed,
        Reason::InternalExchange { exchange: "exchange 'e' in vhost '/'".into() },
        Reason::Locked { queue: "queue 'q' in vhost '/'".into() },
        Reason::InvalidProperty { property: "non-durable".into() },
        Reason::Inequivalent { argument: "durable".into() },
        Reason::NoLeader,
        Reason::WrongUser,
    ];
    for object in [Object::Binding, Object::Queue, Object::VirtualHost] {
        reasons.extend([Reason::NotFound(object), Reason::Exists(object), Reason::Unsuited(object)]);
    }
    let codes = [ReplyCode::ConnectionForced, ReplyCode::NotFound, ReplyCode::WorkExceeded];
    for reason in reasons {
        codes.into_iter().for_each(|code| check(&answer(reason.clone(), code)));
    }
}

#[test]
fn other_words_come_back_as_they_were() {
    let at = LogIndex(1 << 40);
    let reign = Reign { incarnation: u64::MAX, tenure: 3 };
    let message = NewEnqueue {
        flags: 0,
        format: Format::Amqp091,
        priority: 0,
        received_at_ms: 7,
        expires_at_ms: 0,
        due_at_ms: 0,
        keys: None,
        exchange: b"e",
        routing_key: b"k",
        head: &[b"\0\0"],
        body: &[b"body"],
    };
    let mut bytes = Buffer::default();
    message.write(&[], &mut bytes);
    for word in [
        CatalogWord::Answer { incarnation: 1, number: 2, at, outcome: Outcome::Unchanged },
        CatalogWord::Answer { incarnation: 1, number: 2, at, outcome: Outcome::There(QueueId(5)) },
        CatalogWord::Ask { incarnation: 1, call: 0 },
        CatalogWord::Leads { reign, incarnation: 0, call: 2, at },
        CatalogWord::Outdated { incarnation: 9 },
        CatalogWord::Seen { at },
        CatalogWord::Remember {
            exchanges: [ExchangeId(3), ExchangeId(u64::MAX)].into(),
            record: bytes.bytes().into(),
        },
        CatalogWord::HaveSeen { at },
    ] {
        check(&word);
    }
}

/// A message that an exchange is to remember becomes a change of the catalog, which every node has to be able to read.
#[test]
fn a_message_to_be_remembered_is_one() {
    let word = CatalogWord::Remember { exchanges: [ExchangeId(3)].into(), record: b"no record"[..].into() };
    assert_eq!(CatalogWord::decode(&encoded(&word)), Err(BadWord::Change(BadChange::Message)));
}

/// Words with bytes that are others, or of random alone: an error, or a word that has a form.
#[test]
fn any_bytes_are_read_without_harm() {
    let mut maker = Maker(Random::new(2));
    for round in 0..60_000 {
        let mut bytes = match round % 3 {
            0 => {
                let mut bytes = vec![0; maker.0.below(80) as usize];
                maker.0.fill(&mut bytes);
                bytes
            }
            _ => {
                let number = maker.0.between(1, 28);
                let op = maker.op(number).expect("it is one");
                encoded(&maker.wish(op))
            }
        };
        for _ in 0..maker.0.below(4) {
            let at = maker.0.below(bytes.len().max(1) as u64) as usize;
            let value = maker.0.bits() as u8;
            bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
        }
        if let Ok(word) = CatalogWord::decode(&bytes) {
            assert_eq!(CatalogWord::decode(&encoded(&word)), Ok(word));
        }
    }
}

/// Counts of more than there are bytes take no memory.
#[test]
fn counts_that_lie_are_refused() {
    let word = CatalogWord::Remember { exchanges: [].into(), record: [].into() };
    let mut bytes = encoded(&word);
    bytes[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(CatalogWord::decode(&bytes), Err(BadWord::Change(BadChange::Count)));
}
