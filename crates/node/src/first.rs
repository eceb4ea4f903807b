//! The steps before anything listens: an empty node is given its first content, and the news of recovery are put on
//! disk.
//!
//! The first content is made by the same requests as anybody's.

use crate::Stop;
use crate::start::Recovered;
use base::Now;
use base::id::{PortId, ShardId};
use broker::catalog::{Actor, Op, VhostId};
use broker::{Event, Events, Mail};
use journal::Disk;

/// The connection that the first requests come from: a slot no socket has.
const PORT: PortId = PortId::here(ShardId(0), u32::MAX, 0);

/// Turns after which a request that was not answered never will be.
const TURNS_MAX: usize = 100;

/// Makes the first content of a node. All of it goes to disk in one batch: a node that is killed meanwhile has all of it when it
/// starts again, or nothing.
///
/// # Errors
/// The refusal, or the device's error.
pub fn make_content(
    node: &mut Recovered,
    disk: &dyn Disk,
    now: &dyn Fn() -> Now,
    content: Vec<Op>,
) -> Result<(), Stop> {
    let mut waits: Vec<u32> = (0..content.len() as u32).collect();
    node.shards[0].open_port(PORT, Actor::internal(VhostId::default(), PORT));
    for (token, op) in content.into_iter().enumerate() {
        node.shards[0].request(now(), PORT, token as u32, op);
    }
    let mut events = Events::default();
    for _ in 0..TURNS_MAX {
        turn(node, disk, now)?;
        node.shards[0].take_events(&mut events);
        for (_, event) in &events.list {
            if let Event::Reply { token, reply } = event {
                reply.as_ref().map_err(|refusal| Stop(refusal.peer_text().to_owned()))?;
                waits.retain(|waiting| waiting != token);
            }
        }
        if waits.is_empty() {
            node.shards[0].close_port(now(), PORT);
            return Ok(());
        }
    }
    Err(Stop("the catalog does not answer".into()))
}

/// Puts the finding of recovery on disk: that the snapshot of a clean end is not the last word any more. Without it a
/// node that is killed right after its first deliveries would hand them out again unmarked. A device with less than a
/// new journal file left might refuse; there it is written with the first batch that finds space.
///
/// # Errors
/// The device's error.
pub fn flush(node: &mut Recovered, disk: &dyn Disk, now: &dyn Fn() -> Now) -> Result<(), Stop> {
    match disk.free_bytes()? < node.journal.limits().file_bytes {
        true => Ok(()),
        false => turn(node, disk, now),
    }
}

/// A turn of every shard, all that is committed written at once.
fn turn(node: &mut Recovered, disk: &dyn Disk, now: &dyn Fn() -> Now) -> Result<(), Stop> {
    let Recovered { journal, shards, .. } = node;
    let now = now();
    let mut sealed = Vec::new();
    let mut places = Vec::new();
    for shard in shards.iter_mut() {
        shard.end_turn(now, &mut sealed);
        if !sealed.is_empty() {
            journal.write(disk, &sealed, &mut places).map_err(|error| Stop(error.to_string()))?;
            for (batch, place) in sealed.drain(..).zip(&places) {
                shard.written(now, batch.log, batch.base, *place);
            }
        }
    }
    for from in 0..shards.len() {
        for to in (0..shards.len()).filter(|to| *to != from) {
            let mut mail: Vec<Mail> = Vec::new();
            shards[from].take_mail(ShardId(to as u16), &mut mail);
            for mail in mail {
                // No connection is there yet that events could be for.
                let _ = shards[to].receive(now, mail);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::start::{self, Found, Gravity, Logs, Makeup};
    use crate::stop::write_snapshots;
    use base::Secrets;
    use broker::access::{AccessCache, AccessRules, SALT};
    use broker::catalog::FirstContent;
    use broker::{Limits, Publish, Publisher, Shard};
    use journal::faulty::Call;
    use journal::{DiskError, FaultyDisk};
    use message::record::Format;
    use routing::NoHeaders;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    pub(crate) const NOW: Now = Now { mono_ns: 1, wall_ms: 1 };

    fn start(disk: &FaultyDisk) -> Result<Recovered, Stop> {
        start_with(disk, 1, &mut |_| {})
    }

    /// A node on one shard in a folder that has, or comes to have, so many logs.
    pub(crate) fn start_with(
        disk: &FaultyDisk,
        logs: u32,
        found: &mut dyn FnMut(Found),
    ) -> Result<Recovered, Stop> {
        let file_bytes = 256 << 10;
        let (spare_files, spare_files_max) = (1, 1);
        let journal = journal::Limits {
            file_bytes,
            first_file_bytes: file_bytes,
            spare_files,
            spare_files_max,
            ..Default::default()
        };
        let logs = Logs { new: logs, least: Some(logs) };
        let (name, rules) = ("rabbit@test".into(), Arc::new(AccessRules::default()));
        let makeup =
            Makeup { name, shards: 1, logs, journal, rules, relaxes_types: false, ledger: Arc::default() };
        let mut secrets = Secrets::simulated(1);
        let tell = &mut |found: Found| assert!(found.gravity() != Gravity::Error, "{found}");
        let identity = start::identity(disk, &mut secrets, logs, tell)?;
        let shards = start::shards(&makeup, &identity, |_| Limits::default(), &mut secrets, |_| 1);
        start::recover(disk, &identity, journal, &start::ALONE, shards, &|| NOW, found)
    }

    pub(crate) fn content() -> Vec<Op> {
        FirstContent::guest([1; SALT]).requests()
    }

    /// A node on one shard that has a queue with one message, and has ended in order.
    fn ended(disk: &FaultyDisk) {
        let mut node = start(disk).unwrap();
        make_content(&mut node, disk, &|| NOW, content()).unwrap();
        post(&mut node, disk, b"one");
        end(node, disk);
    }

    /// A queue `q` with one more message.
    pub(crate) fn post(node: &mut Recovered, disk: &FaultyDisk, body: &[u8]) {
        declare(node, disk);
        publish(&mut node.shards[0], body);
        turn(node, disk, &|| NOW).unwrap();
    }

    /// A queue `q`.
    pub(crate) fn declare(node: &mut Recovered, disk: &FaultyDisk) {
        let op = Op::DeclareQueue {
            name: "q".into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Default::default(),
            random: [0; 16],
        };
        make_content(node, disk, &|| NOW, vec![op]).unwrap();
    }

    /// A message for it comes.
    pub(crate) fn publish(shard: &mut Shard, body: &[u8]) {
        let actor = Actor::internal(VhostId(0), PORT);
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
            body: &[body],
            confirm: false,
        };
        shard.publish(NOW, &mut publisher, &publish).unwrap();
    }

    /// Ends in order.
    pub(crate) fn end(mut node: Recovered, disk: &FaultyDisk) {
        // As the last turn of a shard does.
        for shard in &mut node.shards {
            let logs: Vec<_> = shard.logs().on_disk().collect();
            logs.into_iter().for_each(|log| shard.logs_mut().write_out(log));
        }
        turn(&mut node, disk, &|| NOW).unwrap();
        let Recovered { journal, mut keeper, mut shards, .. } = node;
        let mut house = crate::keeper::tests::Bench::over(disk.clone(), journal);
        write_snapshots(&mut shards, |_| Vec::new(), &mut BTreeMap::new(), &mut keeper, &mut house).unwrap();
    }

    #[test]
    fn what_recovery_tells_is_on_disk_before_anything_listens() {
        for (free_bytes, expected) in [(1 << 30, 1), (128 << 10, 0)] {
            let disk = FaultyDisk::new(1);
            ended(&disk);
            disk.set_capacity(disk.used_bytes() + free_bytes);
            let mut node = start(&disk).unwrap();
            for _ in 0..2 {
                flush(&mut node, &disk, &|| NOW).unwrap();
                assert_eq!(node.journal.counters().batches, expected, "with {free_bytes} bytes free");
            }
        }
    }

    /// Wherever the first start is cut off, the next one finds all of the first content or none of it.
    #[test]
    fn a_first_start_that_is_cut_off_leaves_no_half_of_its_content() {
        let (mut whole, mut none) = (0, 0);
        for calls in 1..60 {
            let disk = FaultyDisk::new(calls);
            disk.power_off(calls);
            let made = start(&disk).and_then(|mut node| make_content(&mut node, &disk, &|| NOW, content()));
            let is_made = made.is_ok();
            disk.crash();
            let node = start(&disk).unwrap();
            let catalog = node.shards[0].catalog();
            let has_vhost = catalog.vhost("/").is_some();
            assert_eq!(has_vhost, catalog.user("guest").is_some(), "cut off in call {calls}");
            assert!(has_vhost || !is_made, "cut off in call {calls}");
            if has_vhost { whole += 1 } else { none += 1 }
        }
        assert!(whole > 0 && none > 0, "{whole} {none}");
    }

    /// It is made with the first content, and is the catalog's for good: from the log as from a snapshot.
    #[test]
    fn the_key_of_digests_outlives_restarts() {
        let disk = FaultyDisk::new(1);
        let mut node = start(&disk).unwrap();
        assert_eq!(node.shards[0].catalog().digest_key(), None);
        make_content(&mut node, &disk, &|| NOW, content()).unwrap();
        let key = node.shards[0].catalog().digest_key();
        assert!(key.is_some());
        drop(node);
        disk.crash();
        let node = start(&disk).unwrap();
        assert_eq!(node.shards[0].catalog().digest_key(), key);
        end(node, &disk);
        let mut node = start(&disk).unwrap();
        assert_eq!(node.shards[0].catalog().digest_key(), key);
        post(&mut node, &disk, b"one");
        assert_eq!(node.shards[0].catalog().digest_key(), key);
    }

    #[test]
    fn a_device_that_fails_is_told_and_a_refusal_is_too() {
        let disk = FaultyDisk::new(3);
        let mut node = start(&disk).unwrap();
        let twice = [content(), content()].concat();
        let refused = make_content(&mut node, &disk, &|| NOW, vec![Op::DeleteUser { name: "nobody".into() }]);
        assert!(refused.is_err_and(|Stop(why)| why.contains("nobody")));
        disk.fail(Call::Sync, 1, DiskError::Io(5));
        assert!(make_content(&mut node, &disk, &|| NOW, twice).is_err());
    }
}
