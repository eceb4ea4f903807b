//! What is done before anything listens: an empty node is given a virtual host and a user, and what recovery has to tell
//! is put on disk.
//!
//! The first content is made by the same wishes as anybody's.

use crate::clock::Clock;
use crate::config::Config;
use base::Secrets;
use base::id::{PortId, ShardId};
use broker::access::{PasswordHash, SALT};
use broker::catalog::{Actor, Op, VhostId};
use broker::{Event, Events, Mail, Shard};
use journal::{Disk, Journal};

/// The connection that the first wishes come from: a slot no socket has.
const PORT: PortId = PortId { shard: ShardId(0), slot: u32::MAX, generation: 0 };

/// Turns after which a wish that was not answered never will be.
const TURNS_MAX: usize = 100;

/// Bytes from the system's random source.
///
/// # Errors
/// Why there are none.
fn system_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system has no randomness: {error}"))?;
    Ok(bytes)
}

/// A source of secrets seeded by the system: all that the node has come from it.
///
/// # Errors
/// Why there is none.
pub fn secrets() -> Result<Secrets, String> {
    Ok(Secrets::new(system_bytes()?))
}

/// A salt for a password's hash.
///
/// # Errors
/// Why there is none.
pub fn salt() -> Result<[u8; SALT], String> {
    system_bytes()
}

/// The same, where nobody could be told that there is none.
///
/// # Panics
/// When the system has no randomness, though it had some when the node started.
pub fn sure_salt() -> [u8; SALT] {
    salt().expect("the system had randomness when the node started")
}

/// Makes the configured virtual host and user where there is no virtual host yet, and no definitions are imported.
///
/// # Errors
/// Why that cannot be.
pub fn first_user(
    config: &Config,
    clock: Clock,
    shards: &mut [Shard],
    journal: &mut Journal,
    disk: &dyn Disk,
) -> Result<(), String> {
    let user = &config.default_user;
    // As in RabbitMQ, definitions say who there is from the beginning.
    if !config.definitions.paths.is_empty() && shards[0].catalog().vhosts().next().is_none() {
        return Ok(());
    }
    if shards[0].catalog().vhosts().next().is_some() {
        // A data folder may be older than the event exchange.
        shards[0].have_event_exchange(clock.now(), &user.vhost);
        return Ok(());
    }
    let salt = salt()?;
    let name: Box<str> = user.name.as_str().into();
    let vhost: Box<str> = user.vhost.as_str().into();
    let mut defaults = config.defaults_of_vhost(&vhost, &mut sure_salt);
    defaults.about.description = "Default virtual host".into();
    let wishes = [
        Op::AddVhost { name: vhost.clone(), defaults },
        Op::AddUser {
            name: name.clone(),
            password: Some(PasswordHash::new(&user.password, salt)),
            tags: user.tags.iter().map(|tag| tag.as_str().into()).collect(),
        },
        Op::SetPermissions {
            user: name,
            vhost,
            configure: user.configure.as_str().into(),
            write: user.write.as_str().into(),
            read: user.read.as_str().into(),
        },
    ];
    shards[0].open_port(PORT, Actor::internal(VhostId::default(), PORT));
    let mut pump = Pump { clock, shards, journal, disk };
    for (token, wish) in wishes.into_iter().enumerate() {
        let now = clock.now();
        pump.shards[0].request(now, PORT, token as u32, wish);
        pump.until_answered(token as u32)?;
    }
    shards[0].close_port(clock.now(), PORT);
    Ok(())
}

/// Puts on disk what recovery has told: that the snapshot of a clean end is not the last word any more. Without it a node
/// that is killed right after its first deliveries would hand them out again unmarked. A device with less than a new
/// journal file of `file_bytes` left might refuse; there it is written with the first batch that finds space.
///
/// # Errors
/// What the device said.
pub fn flush(
    clock: Clock,
    shards: &mut [Shard],
    journal: &mut Journal,
    disk: &dyn Disk,
    file_bytes: u64,
) -> Result<(), String> {
    if disk.free_bytes().map_err(|error| error.to_string())? < file_bytes {
        return Ok(());
    }
    Pump { clock, shards, journal, disk }.turn()
}

/// Turns of all shards in one thread.
struct Pump<'a> {
    clock: Clock,
    shards: &'a mut [Shard],
    journal: &'a mut Journal,
    disk: &'a dyn Disk,
}

impl Pump<'_> {
    fn until_answered(&mut self, wanted: u32) -> Result<(), String> {
        let mut events = Events::default();
        for _ in 0..TURNS_MAX {
            self.turn()?;
            self.shards[0].take_events(&mut events);
            for (_, event) in &events.list {
                if let Event::Reply { token, reply } = event
                    && *token == wanted
                {
                    let refused = |refusal: &broker::catalog::Refusal| refusal.text.clone();
                    return reply.as_ref().map(|_| ()).map_err(refused);
                }
            }
        }
        Err("the catalog does not answer".into())
    }

    fn turn(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        let mut sealed = Vec::new();
        let mut places = Vec::new();
        for shard in self.shards.iter_mut() {
            shard.end_turn(now, &mut sealed);
            if !sealed.is_empty() {
                self.journal.write(self.disk, &sealed, &mut places).map_err(|error| error.to_string())?;
                for (batch, place) in sealed.drain(..).zip(&places) {
                    shard.written(now, batch.log, batch.base, *place);
                }
            }
        }
        for from in 0..self.shards.len() {
            for to in (0..self.shards.len()).filter(|to| *to != from) {
                let mut mail: Vec<Mail> = Vec::new();
                self.shards[from].take_mail(ShardId(to as u16), &mut mail);
                for mail in mail {
                    // No connection is there yet that events could be for.
                    let _ = self.shards[to].receive(now, mail);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::id::LogId;
    use broker::access::{AccessCache, AccessRules};
    use broker::catalog::FirstContent;
    use broker::{Limits, Placement, Publish, Publisher, SECTION, ShardSettings};
    use journal::{FaultyDisk, Identity, Snapshots};
    use message::record::Format;
    use routing::NoHeaders;
    use std::sync::Arc;

    fn shard() -> Shard {
        let (rules, placement) = (Arc::new(AccessRules::default()), Placement { shards: 1, logs: 1 });
        let settings = ShardSettings {
            id: ShardId(0),
            placement,
            limits: Limits::default(),
            rules,
            node: "rabbit@test".into(),
            relaxes_types: false,
            seed: 1,
        };
        Shard::new(settings, Secrets::simulated(1))
    }

    /// A node on one shard that has a queue with one message, and has ended in order.
    fn ended(disk: &FaultyDisk, clock: Clock, secret: u64) {
        let mut snapshots = Snapshots::default();
        let start = snapshots.start(secret, [LogId(0)]);
        let (mut journal, _) = Journal::open(disk, journal::Limits::default(), start, &mut |_| {}).unwrap();
        let mut shards = [shard()];
        assert_eq!(shards[0].finish_recovery(clock.now()), []);
        shards[0].begin(clock.now(), &FirstContent::with_salt([1; SALT])).unwrap();
        let actor = Actor::internal(VhostId(0), PORT);
        shards[0].open_port(PORT, actor.clone());
        let op = Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
            log: LogId(0),
            random: [0; 16],
        };
        shards[0].request(clock.now(), PORT, 1, op);
        let mut pump = Pump { clock, shards: &mut shards, journal: &mut journal, disk };
        pump.until_answered(1).unwrap();
        let mut publisher = Publisher::new(PORT, 1, AccessCache::new(actor));
        let publish = Publish {
            exchange: b"",
            routing_key: b"q",
            more: None,
            headers: &NoHeaders,
            format: Format::Amqp091,
            durable: true,
            priority: None,
            ttl_ms: None,
            head: &[b"\0\0"],
            body: &[b"one"],
            confirm: false,
        };
        pump.shards[0].publish(clock.now(), &mut publisher, &publish).unwrap();
        pump.turn().unwrap();
        let snapshot = shards[0].snapshot(LogId(0), true).unwrap();
        let cover = journal::Cover {
            log: LogId(0),
            covered: snapshot.covered,
            from_file: journal.files().next().unwrap().id,
            from_offset: 0,
        };
        let pieces: Vec<&[u8]> = snapshot.bytes.iter().collect();
        snapshots.write(disk, cover, &[(SECTION, &pieces)]).unwrap();
    }

    #[test]
    fn what_recovery_tells_is_on_disk_before_anything_listens() {
        for (free_bytes, expected) in [(1 << 30, 1), (1 << 20, 0)] {
            let (disk, clock) = (FaultyDisk::new(1), Clock::new());
            let secret = Identity::open(&disk, &mut Secrets::simulated(1), 1).unwrap().secret;
            ended(&disk, clock, secret);
            disk.set_capacity(disk.used_bytes() + free_bytes);
            let (snapshots, loaded, _) = Snapshots::load(&disk).unwrap();
            let mut shards = [shard()];
            let bytes = loaded[0].section(SECTION).unwrap();
            shards[0].restore(LogId(0), loaded[0].cover.covered, bytes).unwrap();
            let start = snapshots.start(secret, [LogId(0)]);
            let (mut journal, _) = Journal::open(&disk, journal::Limits::default(), start, &mut |batch| {
                let records = &batch.memory[batch.records.clone()];
                shards[0].replay(batch.log, batch.base, records, batch.place).unwrap();
            })
            .unwrap();
            assert_eq!(shards[0].finish_recovery(clock.now()), []);
            for _ in 0..2 {
                flush(clock, &mut shards, &mut journal, &disk, 64 << 20).unwrap();
                assert_eq!(journal.counters().batches, expected, "with {free_bytes} bytes free");
            }
        }
    }
}
