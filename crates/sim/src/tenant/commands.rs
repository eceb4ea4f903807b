//! The tenant's commands, rolled.

use super::{CHANNELS, COMMITTED_MAX, EXCHANGES, FLOODED_QUEUES, QUEUES_MAX, TenantClient};
use crate::net::Net;
use ::amqp091::method::{
    BasicConsume, BasicGet, BasicQos, BasicRecover, ExchangeBind, ExchangeDeclare, ExchangeDelete, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge, QueueUnbind, TxCommit, TxRollback,
};
use ::amqp091::{Body, PublishPrefix};
use base::Random;
use message::amqp091::{NewProperties, Table, TableWriter, Value};

/// Types of his exchanges, by their numbers.
const KINDS: [&[u8]; EXCHANGES as usize] = [
    b"topic",
    b"headers",
    b"x-content",
    b"direct",
    b"x-consistent-hash",
    b"topic",
    b"fanout",
    b"x-recent-history",
];

/// Bindings made, or taken back, at once.
const BINDINGS_MAX: u64 = 25;

/// Messages published at once.
const MESSAGES_MAX: u64 = 15;

/// Messages published at once to all queues of a flood.
const FLOOD: usize = 150;

/// The fanout exchange of floods.
const FLOODED: &[u8] = b"hx6";

/// Bytes that a body is said to have which never comes.
const HALF_BODY_BYTES: u64 = 500_000;

fn queue(dice: &mut Random) -> Vec<u8> {
    format!("hq{}", dice.below(QUEUES_MAX)).into_bytes()
}

fn exchange(dice: &mut Random) -> Vec<u8> {
    format!("hx{}", dice.below(EXCHANGES)).into_bytes()
}

/// A key, or a pattern: many words `a`, and in a pattern as many wildcards.
fn key(dice: &mut Random, is_pattern: bool) -> Vec<u8> {
    let words = dice.between(1, 50);
    let word = |dice: &mut Random| match dice.below(if is_pattern { 6 } else { 3 }) {
        0 | 1 => "a",
        2 => "b",
        3 | 4 => "*",
        _ => "#",
    };
    let words: Vec<&str> = (0..words).map(|_| word(dice)).collect();
    words.join(".").into_bytes()
}

/// Expressions of his bindings: dear ones, and one that nothing can look up.
const FILTERS: [&[u8]; 4] = [
    b"REGEXP_LIKE(body.s, '(a|aa)+$')",
    b"body.a = 1 AND h1 = 1",
    b"NOT h2 = 1 OR body.list.x LIKE '%a%a%'",
    b"body.a BETWEEN 1 AND 5 AND h3 IN (1, 2)",
];

/// Headers of a message, or arguments of a binding that asks for some of them.
fn headers(dice: &mut Random, of_binding: bool) -> Vec<u8> {
    let count = dice.between(0, 40);
    TableWriter::fields(|table| {
        if dice.one_in(2) {
            table.put(b"x-match", Value::Text(if dice.one_in(2) { b"any" } else { b"all" }));
        }
        if of_binding && dice.one_in(3) {
            table.put(b"x-filter", Value::Text(FILTERS[dice.below(FILTERS.len() as u64) as usize]));
        }
        for at in 0..count {
            table.put(format!("h{at}").as_bytes(), Value::I64(dice.below(3) as i64));
        }
    })
}

impl TenantClient {
    /// One of his commands, or a mass of them.
    pub fn command(&mut self, dice: &mut Random, net: &mut Net) {
        if !self.open.iter().all(|open| *open) {
            return;
        }
        if dice.one_in(40) {
            return self.flood();
        }
        match dice.below(20) {
            0..3 => (0..dice.between(1, 6)).for_each(|_| self.declare_queue(dice)),
            3 | 4 => self.declare_exchange(dice),
            5..8 => (0..dice.between(1, BINDINGS_MAX)).for_each(|_| self.bind(dice)),
            8 => (0..dice.between(1, BINDINGS_MAX)).for_each(|_| self.unbind(dice)),
            9..14 => (0..dice.between(1, MESSAGES_MAX)).for_each(|_| self.publish(dice, CHANNELS[0])),
            14 => self.transact(dice),
            15 => self.consume(dice),
            16 => self.take_away(dice),
            17 => self.begin_body(net),
            18 => self.is_deaf = true,
            _ => self.ask_much(dice),
        }
    }

    fn declare_queue(&mut self, dice: &mut Random) {
        let queue = queue(dice);
        let other = self::queue(dice);
        let graveyard = exchange(dice);
        let arguments = TableWriter::fields(|table| match dice.below(7) {
            // Dead letters that come round again, at once.
            0 => {
                table.put(b"x-message-ttl", Value::I32(0));
                table.put(b"x-dead-letter-exchange", Value::Text(b""));
                table.put(b"x-dead-letter-routing-key", Value::Text(&other));
            }
            1 => {
                table.put(b"x-max-length", Value::I32(dice.below(4) as i32));
                table.put(b"x-dead-letter-exchange", Value::Text(&graveyard));
                if dice.one_in(2) {
                    table.put(b"x-overflow", Value::Text(b"reject-publish-dlx"));
                }
            }
            2 => {
                table.put(b"x-message-ttl", Value::I32(0));
                table.put(b"x-dead-letter-exchange", Value::Text(&graveyard));
            }
            3 => {
                table.put(b"x-queue-type", Value::Text(b"stream"));
                table.put(b"x-max-length-bytes", Value::I64(100_000));
            }
            4 => {
                table.put(b"x-source-stream", Value::Text(&other));
                table.put(b"x-source-filter", Value::Text(b"a = 1 OR h2 LIKE '%x%y%' OR h3 IN (1, 2)"));
            }
            5 => {
                table.put(b"x-queue-type", Value::Text(b"quorum"));
                table.put(b"x-max-length", Value::I32(20));
                table.put(b"x-dead-letter-exchange", Value::Text(&graveyard));
            }
            _ => table.put(b"x-max-length", Value::I32(30)),
        });
        let arguments = Table::new(&arguments).unwrap_or_default();
        let declare = QueueDeclare { queue: &queue, durable: true, arguments, ..QueueDeclare::default() };
        self.connection.send(CHANNELS[0], &declare);
    }

    fn declare_exchange(&mut self, dice: &mut Random) {
        let number = dice.below(EXCHANGES);
        let arguments = TableWriter::fields(|table| {
            if number == 3 {
                table.put(b"alternate-exchange", Value::Text(b"hx0"));
            }
        });
        let arguments = Table::new(&arguments).unwrap_or_default();
        let (exchange, kind) = (format!("hx{number}"), KINDS[number as usize]);
        let exchange = exchange.as_bytes();
        self.connection.send(
            CHANNELS[0],
            &ExchangeDeclare { exchange, kind, durable: true, arguments, ..ExchangeDeclare::default() },
        );
    }

    fn bind(&mut self, dice: &mut Random) {
        let (queue, exchange, arguments) = (queue(dice), exchange(dice), headers(dice, true));
        let routing_key = if exchange == b"hx4" { b"3".to_vec() } else { key(dice, true) };
        let arguments = Table::new(&arguments).unwrap_or_default();
        if dice.one_in(12) {
            let (destination, source) = (&self::exchange(dice)[..], &exchange[..]);
            let bind = ExchangeBind { destination, source, routing_key: &routing_key, ..Default::default() };
            return self.connection.send(CHANNELS[0], &bind);
        }
        let bind = QueueBind {
            queue: &queue,
            exchange: &exchange,
            routing_key: &routing_key,
            arguments,
            ..QueueBind::default()
        };
        self.connection.send(CHANNELS[0], &bind);
    }

    fn unbind(&mut self, dice: &mut Random) {
        let (queue, exchange, routing_key) = (queue(dice), exchange(dice), key(dice, true));
        let unbind = QueueUnbind {
            queue: &queue,
            exchange: &exchange,
            routing_key: &routing_key,
            ..Default::default()
        };
        self.connection.send(CHANNELS[0], &unbind);
    }

    fn publish(&mut self, dice: &mut Random, channel: u16) {
        let (exchange, key) = match dice.below(4) {
            0 => (Vec::new(), queue(dice)),
            _ => (exchange(dice), key(dice, false)),
        };
        let headers = headers(dice, false);
        let properties = NewProperties {
            headers: Table::new(&headers).ok(),
            delivery_mode: dice.one_in(2).then_some(2),
            expiration: dice.one_in(4).then_some(&b"0"[..]),
            ..NewProperties::default()
        };
        let mut head = Vec::new();
        properties.write(&mut head);
        let is_mandatory = dice.one_in(3);
        let prefix = PublishPrefix::new(channel, &exchange, &key, is_mandatory);
        let mut body = vec![b'a'; dice.between(0, 300) as usize];
        if dice.one_in(4) {
            let (number, text) = (dice.below(9), "a".repeat(dice.below(3000) as usize));
            body = format!(r#"{{"a":{number},"list":[{{"x":"{text}"}}],"s":"{text}b"}}"#).into_bytes();
        }
        self.connection.publish(&prefix, &head, &Body::Bytes(&body));
    }

    /// Many messages, each to as many queues.
    fn flood(&mut self) {
        let declare =
            ExchangeDeclare { exchange: FLOODED, kind: KINDS[6], durable: true, ..Default::default() };
        self.connection.send(CHANNELS[0], &declare);
        let arguments = TableWriter::fields(|table| table.put(b"x-max-length", Value::I32(1)));
        let arguments = Table::new(&arguments).unwrap_or_default();
        for at in 0..FLOODED_QUEUES {
            let queue = format!("hf{at}").into_bytes();
            self.connection
                .send(CHANNELS[0], &QueueDeclare { queue: &queue, arguments, ..Default::default() });
            let bind = QueueBind { queue: &queue, exchange: FLOODED, ..QueueBind::default() };
            self.connection.send(CHANNELS[0], &bind);
        }
        let mut head = Vec::new();
        NewProperties::default().write(&mut head);
        for at in 0..FLOOD {
            let key = at.to_string().into_bytes();
            let prefix = PublishPrefix::new(CHANNELS[0], FLOODED, &key, false);
            self.connection.publish(&prefix, &head, &Body::Bytes(b"x"));
        }
    }

    fn transact(&mut self, dice: &mut Random) {
        (0..dice.between(1, COMMITTED_MAX)).for_each(|_| self.publish(dice, CHANNELS[1]));
        match dice.one_in(4) {
            true => self.connection.send(CHANNELS[1], &TxRollback {}),
            false => self.connection.send(CHANNELS[1], &TxCommit {}),
        }
    }

    fn consume(&mut self, dice: &mut Random) {
        let queue = queue(dice);
        self.connection.send(CHANNELS[0], &BasicQos { prefetch_count: 5, ..BasicQos::default() });
        let no_ack = dice.one_in(3);
        self.connection.send(CHANNELS[0], &BasicConsume { queue: &queue, no_ack, ..BasicConsume::default() });
    }

    fn take_away(&mut self, dice: &mut Random) {
        match dice.below(4) {
            0 => {
                let exchange = exchange(dice);
                let delete = ExchangeDelete { exchange: &exchange, ..ExchangeDelete::default() };
                self.connection.send(CHANNELS[0], &delete);
            }
            1 => {
                let queue = queue(dice);
                self.connection.send(CHANNELS[0], &QueuePurge { queue: &queue, ..QueuePurge::default() });
            }
            2 => self.connection.send(CHANNELS[0], &BasicRecover { requeue: true }),
            _ => {
                let queue = queue(dice);
                self.connection.send(CHANNELS[0], &QueueDelete { queue: &queue, ..QueueDelete::default() });
            }
        }
    }

    /// A body begins, large, and its end never comes.
    fn begin_body(&mut self, net: &mut Net) {
        if std::mem::replace(&mut self.has_half_body, true) {
            return;
        }
        // basic.publish with no exchange and the key `hq0`, and the header of its content.
        let publish = [&[0, 60, 0, 40, 0, 0, 0, 3][..], b"hq0", &[0]].concat();
        let header = [&[0, 60, 0, 0][..], &HALF_BODY_BYTES.to_be_bytes(), &[0, 0]].concat();
        let up = &mut net.line(self.line).up;
        crate::client::push(self.connection.output_mut(), up);
        for (kind, payload) in [(1, &publish[..]), (2, &header), (3, &[b'x'; 3000])] {
            up.push(kind);
            up.extend_from_slice(&CHANNELS[2].to_be_bytes());
            up.extend_from_slice(&(payload.len() as u32).to_be_bytes());
            up.extend_from_slice(payload);
            up.push(0xCE);
        }
    }

    /// Many small questions, whose answers he may not read.
    fn ask_much(&mut self, dice: &mut Random) {
        for _ in 0..dice.between(1, 60) {
            let queue = queue(dice);
            self.connection.send(CHANNELS[0], &BasicGet { queue: &queue, ..BasicGet::default() });
            if dice.one_in(20) {
                break;
            }
            self.connection.send(CHANNELS[0], &BasicQos { prefetch_count: 7, ..BasicQos::default() });
        }
    }
}
