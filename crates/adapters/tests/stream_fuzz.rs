//! Stream clients that log in as they should and then send anything: legal frames in any order, illegal ones, mutated bytes,
//! cut off anywhere; against the whole broker in one process.
//!
//! With any deeds of theirs, they hear whole frames of the server's, and a bystander gets every message of its own, in order,
//! while it happens. `SESSION_FUZZ_COUNT` says how many sequences, `SESSION_FUZZ_SEED` from which seed on; a failure names
//! the seed of its world, which alone, with a count of [`WORLD_SEQUENCES`], shows it again.

mod harness;
mod stream_client;

use adapters::Protocol;
use base::random::Random;
use harness::World;
use message::chunk::SubBatch;
use stream_client::Client;
use stream_protocol::frame::{put_command, put_request, put_response, put_tune};
use stream_protocol::key::Versions;
use stream_protocol::{Command, Frame, Key, List, OffsetSpec, Pair, Request, Response, ResponseCode, Tune};

/// Sequences until the world is made anew: its disk grows.
const WORLD_SEQUENCES: u64 = 500;

const NAMES: [&[u8]; 6] = [b"s", b"t", b"p-0", b"super", b"", b"amq.x"];
const IDS: [u8; 4] = [0, 1, 2, 255];

fn one<T: Copy>(dice: &mut Random, of: &[T]) -> T {
    of[dice.below(of.len() as u64) as usize]
}

fn offset(dice: &mut Random) -> OffsetSpec {
    let number = one(dice, &[0, 1, 5, 1 << 40, u64::MAX]);
    match dice.below(5) {
        0 => OffsetSpec::First,
        1 => OffsetSpec::Last,
        2 => OffsetSpec::Next,
        3 => OffsetSpec::Offset(number),
        _ => OffsetSpec::Timestamp(number as i64),
    }
}

/// Appends a frame, mostly a legal one.
fn any(dice: &mut Random, out: &mut Vec<u8>) {
    let name = one(dice, &NAMES);
    let (stream, super_stream, reference) = (name, name, one(dice, &[&b""[..], b"r", b"q"]));
    let (subscription_id, publisher_id) = (one(dice, &IDS), one(dice, &IDS));
    let all = [
        Pair::new("single-active-consumer", "true"),
        Pair::new("name", "group"),
        Pair::new("filter.0", "x"),
        Pair::new("match-unfiltered", "true"),
        Pair::new("super-stream", "super"),
    ];
    let from = dice.below(all.len() as u64 + 1) as usize;
    let properties = List::new(&all[from..]);
    let arguments =
        [Pair::new("max-age", "1h"), Pair::new("stream-filter-size-bytes", one(dice, &["20", "x"]))];
    let arguments = List::new(&arguments[dice.below(3) as usize..]);
    let (streams, keys) = ([&b"p-0"[..], b"p-1", name], [&b"0"[..], b"1", b"2"]);
    let versions = [Versions { key: Key::Deliver as u16, min: 1, max: 2 }];
    let offset = offset(dice);
    let request = match dice.below(26) {
        0 | 1 => Request::DeclarePublisher { publisher_id, reference, stream },
        2 => Request::DeletePublisher { publisher_id },
        3 => Request::QueryPublisherSequence { reference, stream },
        4..=6 => {
            let credit = one(dice, &[0, 1, 10, u16::MAX]);
            Request::Subscribe { subscription_id, stream, offset, credit, properties }
        }
        7 => Request::QueryOffset { reference, stream },
        8 => Request::Unsubscribe { subscription_id },
        9 | 10 => Request::Create { stream, arguments },
        11 => Request::Delete { stream },
        12 => Request::Metadata { streams: List::new(&streams) },
        13 => Request::Route { routing_key: one(dice, &keys), super_stream },
        14 => Request::Partitions { super_stream },
        15 => Request::ExchangeCommandVersions { versions: List::new(&versions) },
        16 => Request::StreamStats { stream },
        17 => {
            let (partitions, binding_keys) = (List::new(&streams), List::new(&keys));
            Request::CreateSuperStream { name, partitions, binding_keys, arguments }
        }
        18 => Request::DeleteSuperStream { name },
        19 => Request::ResolveOffsetSpec { stream, offset, properties },
        20 if dice.below(8) == 0 => {
            Request::SaslAuthenticate { mechanism: b"PLAIN", response: b"\0guest\0guest" }
        }
        21 if dice.below(20) == 0 => Request::Close { code: ResponseCode::OK, reason: b"bye" },
        22 => {
            return put_command(
                out,
                &Command::Credit { subscription_id, credit: one(dice, &[-5, 1, 100, i16::MAX]) },
            );
        }
        23 => return put_command(out, &Command::StoreOffset { reference, stream, offset: dice.bits() }),
        24 => {
            let response = Response::ConsumerUpdate { code: ResponseCode::OK, offset: Some(offset) };
            return put_response(out, dice.below(4) as u32, &response);
        }
        25 if dice.below(20) == 0 => return put_tune(out, Tune { frame_max: 0, heartbeat_s: 0 }),
        _ => return publish(dice, publisher_id, out),
    };
    put_request(out, dice.bits() as u32, &request);
}

/// Appends messages, in either version, sub-batches among them.
fn publish(dice: &mut Random, publisher_id: u8, out: &mut Vec<u8>) {
    let is_filtered = dice.below(3) == 0;
    let count = dice.below(4) as u32;
    let mut body = vec![publisher_id];
    body.extend(count.to_be_bytes());
    for _ in 0..count {
        body.extend(dice.below(20).to_be_bytes());
        if is_filtered {
            body.extend(one(dice, &[&b"\0\x01x"[..], b"\xff\xff", b"\0\0"]));
        } else if dice.below(3) == 0 {
            let batch = SubBatch {
                compression: dice.below(8) as u8,
                records: one(dice, &[0, 1, 2, u16::MAX]),
                uncompressed_len: one(dice, &[0, 10, 1 << 20, u32::MAX]),
                body: b"\0\0\0\x01x\0\0\0\x01y",
            };
            body.extend(batch.head());
            body.extend(batch.body);
            continue;
        }
        body.extend(b"\0\0\0\x05hello");
    }
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend([0, 2, 0, 1 + u8::from(is_filtered)]);
    out.extend(body);
}

/// Judges the whole frames that a client heard; the bytes that are not whole yet stay.
fn judge(heard: &mut Vec<u8>, came: &[u8]) {
    heard.extend_from_slice(came);
    let mut rest = &heard[..];
    while let Some((size, behind)) = rest.split_first_chunk() {
        let size = u32::from_be_bytes(*size) as usize;
        let Some(body) = behind.get(..size) else { break };
        let frame = Frame::decode(body).unwrap_or_else(|why| panic!("{why}: {}", body.escape_ascii()));
        if let Frame::Deliver(deliver) = frame {
            assert_eq!(deliver.chunk.check(), Ok(()), "a chunk that is none");
        }
        rest = &behind[size..];
    }
    *heard = rest.to_vec();
}

/// The frames of a login, as the server wants them.
fn login() -> Vec<u8> {
    let mut out = Vec::new();
    put_request(&mut out, 1, &Request::PeerProperties { properties: List::default() });
    put_request(&mut out, 2, &Request::SaslHandshake);
    let (mechanism, response) = (&b"PLAIN"[..], &b"\0guest\0guest"[..]);
    put_request(&mut out, 3, &Request::SaslAuthenticate { mechanism, response });
    put_tune(&mut out, Tune { frame_max: 1 << 20, heartbeat_s: 0 });
    put_request(&mut out, 4, &Request::Open { virtual_host: b"/" });
    out
}

fn misbehave(world: &mut World, dice: &mut Random) {
    let wire = world.connect_to(dice.below(world.fronts.len() as u64) as usize, Protocol::Stream);
    let mut heard = Vec::new();
    world.send(wire, &login());
    world.run();
    for _ in 0..dice.between(1, 12) {
        let mut bytes = Vec::new();
        for _ in 0..dice.between(1, 6) {
            let start = bytes.len();
            any(dice, &mut bytes);
            if dice.below(60) == 0 {
                let at = start + dice.below((bytes.len() - start) as u64) as usize;
                match dice.below(3) {
                    0 => bytes[at] ^= 1 << dice.below(8),
                    1 => bytes.truncate(at),
                    _ => bytes.insert(at, dice.bits() as u8),
                }
            }
        }
        let cut = dice.below(bytes.len() as u64 + 1) as usize;
        for piece in [&bytes[..cut], &bytes[cut..]] {
            world.send(wire, piece);
            world.run();
            judge(&mut heard, &world.take(wire));
        }
        world.notes.clear();
        if world.is_gone(wire) {
            return;
        }
    }
    world.cut(wire);
    world.run();
}

/// A client whose stream nobody else touches.
struct Bystander {
    client: Client,
    sent: u64,
}

impl Bystander {
    fn new(world: &mut World) -> Bystander {
        let mut client = Client::open(world, 0);
        let (stream, properties) = (&b"calm"[..], List::default());
        client.asks(world, &Request::Create { stream, arguments: properties }, "Create 1");
        let declare = Request::DeclarePublisher { publisher_id: 1, reference: b"", stream };
        client.asks(world, &declare, "DeclarePublisher 1");
        let (offset, credit) = (OffsetSpec::First, 10);
        let subscribe = Request::Subscribe { subscription_id: 1, stream, offset, credit, properties };
        client.asks(world, &subscribe, "Subscribe 1");
        Bystander { client, sent: 0 }
    }

    fn goes_on(&mut self, world: &mut World) {
        let Bystander { client, sent } = self;
        assert!(client.machine.publish(1, false).message(*sent, None, format!("{sent}").as_bytes()));
        client.listen(world, "/");
        let mut heard = std::mem::take(&mut client.heard);
        heard.sort();
        assert_eq!(heard, [format!("chunk 1 at {sent}, false: {sent}"), format!("confirmed 1: [{sent}]")]);
        client.machine.send(&Command::Credit { subscription_id: 1, credit: 1 });
        *sent += 1;
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn nobody_is_disturbed() {
    let (count, first) = (number("SESSION_FUZZ_COUNT", 2_000), number("SESSION_FUZZ_SEED", 1));
    for seed in first..first + count.div_ceil(WORLD_SEQUENCES) {
        println!("seed {seed}");
        let mut dice = Random::new(seed);
        let mut world = World::new(1 + dice.below(2) as u16);
        let mut bystander = Bystander::new(&mut world);
        for _ in 0..WORLD_SEQUENCES.min(count) {
            misbehave(&mut world, &mut dice);
            bystander.goes_on(&mut world);
        }
    }
}
