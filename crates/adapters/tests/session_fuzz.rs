//! Peers that log in as they should and then send anything: legal frames in any order, illegal ones, mutated bytes, cut
//! off anywhere. Both protocols, against the whole broker in one process.
//!
//! With any deeds of theirs, the answer is a legal one (`judge`), and two bystanders, one of each protocol, get every message
//! of theirs, in order, while it happens. `SESSION_FUZZ_COUNT` says how many sequences, `SESSION_FUZZ_SEED` from which
//! seed on; a failure names the seed of its world, which alone, with a count of [`WORLD_SEQUENCES`], shows it again.

#[path = "session_fuzz/bystander.rs"]
mod bystander;
#[path = "session_fuzz/frames091.rs"]
mod frames091;
#[path = "session_fuzz/frames10.rs"]
mod frames10;
mod harness;
#[path = "session_fuzz/judge.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod judge;

use base::random::Random;
use bystander::{Bystander10, Bystander091};
use harness::World;
use judge::{Judge10, Judge091};
use std::collections::BTreeSet;

/// Sequences until the world is made anew: its disk grows.
const WORLD_SEQUENCES: u64 = 500;

/// Connections that misbehave at the same time.
const PEERS_MAX: usize = 4;

/// A connection that misbehaves.
struct Peer {
    wire: usize,
    judge: Judge,
}

enum Judge {
    Amqp091(Judge091),
    Amqp10(Judge10),
}

impl Peer {
    fn open(world: &mut World, dice: &mut Random) -> Peer {
        let shard = dice.below(world.fronts.len() as u64) as usize;
        let wire = world.connect(shard);
        let (hello, judge) = match dice.below(2) {
            0 => (frames091::login(), Judge::Amqp091(Judge091::default())),
            _ => (frames10::login(), Judge::Amqp10(Judge10::default())),
        };
        let mut peer = Peer { wire, judge };
        for bytes in hello {
            peer.says(world, &bytes);
        }
        assert!(!world.is_gone(wire), "the handshake was refused");
        peer
    }

    fn says(&mut self, world: &mut World, bytes: &[u8]) {
        world.send(self.wire, bytes);
        world.run();
        let answer = world.take(self.wire);
        match &mut self.judge {
            Judge::Amqp091(judge) => judge.hears(&answer),
            Judge::Amqp10(judge) => judge.hears(&answer),
        }
    }

    /// A few frames, mostly in one piece.
    fn misbehave(&mut self, world: &mut World, dice: &mut Random) {
        let mut bytes = Vec::new();
        for _ in 0..dice.between(1, 6) {
            let start = bytes.len();
            match &mut self.judge {
                Judge::Amqp091(judge) => frames091::any(dice, judge, &mut bytes),
                Judge::Amqp10(judge) => frames10::any(dice, judge, &mut bytes),
            }
            if dice.below(60) == 0 {
                mutate(dice, &mut bytes, start);
            }
        }
        let at = match dice.below(3) {
            0 => dice.below(bytes.len() as u64 + 1) as usize,
            _ => bytes.len(),
        };
        self.says(world, &bytes[..at]);
        self.says(world, &bytes[at..]);
    }
}

/// Changes, removes, repeats or inserts a few bytes behind `start`.
fn mutate(dice: &mut Random, bytes: &mut Vec<u8>, start: usize) {
    for _ in 0..dice.between(1, 3) {
        if bytes.len() == start {
            return;
        }
        let at = dice.between(start as u64, bytes.len() as u64 - 1) as usize;
        match dice.below(6) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5) as usize],
            2 => drop(bytes.drain(at..(at + dice.between(1, 8) as usize).min(bytes.len()))),
            3 => bytes.insert(at, dice.bits() as u8),
            4 if at + 4 <= bytes.len() => {
                let number = [0, 1, 255, 1 << 20, u32::MAX / 2, u32::MAX][dice.below(6) as usize];
                bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
            }
            _ => bytes.truncate(at),
        }
    }
}

/// Says which seed it was when a world ends in panic.
struct Telling(u64);

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SESSION_FUZZ_SEED={} SESSION_FUZZ_COUNT={WORLD_SEQUENCES} shows this again", self.0);
        }
    }
}

/// Counts of the events in some worlds.
#[derive(Default)]
struct Tally {
    connections: usize,
    methods: BTreeSet<(u16, u16)>,
    performatives: BTreeSet<u64>,
}

impl Tally {
    fn add(&mut self, peer: Peer) {
        match peer.judge {
            Judge::Amqp091(judge) => self.methods.extend(judge.heard),
            Judge::Amqp10(judge) => self.performatives.extend(judge.heard),
        }
    }
}

/// Plays sequences in one world.
fn play(seed: u64, count: u64, tally: &mut Tally) {
    let _telling = Telling(seed);
    let mut dice = Random::new(seed);
    let mut world = World::new(2);
    let mut bystanders = (Bystander091::open(&mut world, 0), Bystander10::open(&mut world, 1));
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..count {
        if peers.len() < PEERS_MAX && (peers.is_empty() || dice.below(4) == 0) {
            peers.push(Peer::open(&mut world, &mut dice));
            tally.connections += 1;
        }
        let at = dice.below(peers.len() as u64) as usize;
        world.is_disk_slow = dice.below(4) == 0;
        peers[at].misbehave(&mut world, &mut dice);
        world.is_disk_slow = false;
        if dice.below(16) == 0 {
            world.cut(peers[at].wire);
        }
        if world.is_gone(peers[at].wire) {
            tally.add(peers.swap_remove(at));
        }
        bystanders.0.exchange(&mut world);
        bystanders.1.exchange(&mut world);
        world.notes.clear();
    }
    for peer in peers {
        world.cut(peer.wire);
        tally.add(peer);
    }
    world.run();
    assert_eq!(
        world.fronts.iter().map(|front| front.len()).sum::<usize>(),
        2,
        "only the bystanders are left"
    );
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn any_sequence_is_answered_legally_and_disturbs_nobody() {
    let (first, count) = (number("SESSION_FUZZ_SEED", 1), number("SESSION_FUZZ_COUNT", 20_000));
    let mut tally = Tally::default();
    for world in 0..count.div_ceil(WORLD_SEQUENCES) {
        play(first + world, WORLD_SEQUENCES.min(count - world * WORLD_SEQUENCES), &mut tally);
        if world % 200 == 199 {
            println!("{} sequences, {} connections", (world + 1) * WORLD_SEQUENCES, tally.connections);
        }
    }
    println!("{count} sequences from seed {first}, {} connections", tally.connections);
    println!("methods {:?}, performatives {:x?}", tally.methods, tally.performatives);
    if count >= 20_000 {
        // Else the sequences would not get anywhere.
        for method in [
            (10, 50),
            (20, 40),
            (40, 11),
            (50, 11),
            (50, 21),
            (60, 21),
            (60, 50),
            (60, 60),
            (60, 71),
            (60, 80),
        ] {
            assert!(tally.methods.contains(&method), "no {method:?}");
        }
        for performative in (0x10..=0x18).chain([0x33]) {
            assert!(tally.performatives.contains(&performative), "no {performative:#x}");
        }
    }
}
