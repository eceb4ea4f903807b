//! Any bytes as the snapshot of a log, with and without the head of one that has streams and references: taken in or refused, and the
//! shard that took it in goes on and writes one that is taken in again.
#![no_main]

use base::id::{LogId, LogIndex, ShardId};
use base::{Now, Secrets};
use broker::access::AccessRules;
use broker::{Limits, Placement, Shard, ShardSettings};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::sync::Arc;

const LOG: LogId = LogId(1);

/// No queue, streams with references: version 2, the next file, how many streams.
const HEAD: [u8; 32] = {
    let mut head = [0; 32];
    head[12] = 2;
    head[16] = 9;
    head
};

fn shard() -> Shard {
    let settings = ShardSettings {
        id: ShardId(0),
        placement: Placement { shards: 1, logs: 2 },
        limits: Limits::default(),
        rules: Arc::new(AccessRules::default()),
        ledger: Arc::default(),
        node: "rabbit@fuzz".into(),
        relaxes_types: false,
        seed: 8,
    };
    Shard::new(settings, Secrets::simulated(8))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut snapshot = if how & 1 == 0 { HEAD.to_vec() } else { Vec::new() };
    snapshot.extend(bytes);
    let mut shard_one = shard();
    if shard_one.restore(LOG, LogIndex(7), &snapshot).is_err() {
        return;
    }
    shard_one.logs_mut().recover_streams(LOG, &BTreeMap::new());
    _ = shard_one.finish_recovery(Now::default());
    let Some(written) = shard_one.snapshot(LOG, false) else { return };
    shard().restore(LOG, written.covered, &written.bytes.to_vec()).expect("what was written is taken in");
});
