//! Any bytes as a message between replicas: refused, or the one form of a message. So that fuzzing gets past the sums, a message of one
//! batch is made of the input as well, with the sum that its records have.
#![no_main]

use base::Output;
use base::crc::crc32c;
use consensus::codec::{Limits, read, write};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { entries_max: 64, manifest_bytes_max: 4096, message_bytes_max: 64 << 10 };

/// Bytes of entries to append before the length of their first batch: head, vote, no entry before, none agreed on, count, kind, name,
/// base and time.
const LEN_AT: usize = 29 + 17 + 1 + 1 + 4 + 1 + 24 + 16;

fn check(bytes: &[u8]) {
    let Ok(message) = read(bytes, &LIMITS) else { return };
    let mut again = Output::default();
    assert_eq!(write(&message, &LIMITS, &mut again), Ok(bytes.len()));
    assert_eq!(again.to_vec(), bytes);
}

/// The input as entries to append, the first of which is a batch.
fn with_batch(input: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = input.to_vec();
    let (head, records) = bytes.split_at_mut_checked(LEN_AT + 8)?;
    head[28] = 1;
    // Small terms, a flag, nothing before, few entries, the first of which is a batch of index 0.
    head[36] = 0;
    head[45] &= 1;
    head[46..48].fill(0);
    head[49..52].fill(0);
    head[52] = 1;
    head[60] = 0;
    head[69..77].fill(0);
    head[84] = 0;
    let len = usize::from(head[LEN_AT]) * 8;
    let records = records.get(..len)?;
    head[LEN_AT..LEN_AT + 4].copy_from_slice(&(len as u32).to_le_bytes());
    head[LEN_AT + 4..].copy_from_slice(&crc32c(records).to_le_bytes());
    Some(bytes)
}

fuzz_target!(|input: &[u8]| {
    check(input);
    if let Some(bytes) = with_batch(input) {
        check(&bytes);
    }
});
