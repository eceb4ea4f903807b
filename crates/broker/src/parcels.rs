//! Parcels: records that go from shard to shard. How many bytes of them are under way, which came and are not acknowledged, and
//! the buffers they travel in, which come back with the acknowledgement.
//!
//! Not here: the mail that they go in ([`crate::mail::Mail`]), and when they are acknowledged, which the shard decides.

use crate::spare::Spare;
use base::Buffer;
use base::id::ShardId;

/// Parcels of another shard that came and are not acknowledged yet.
#[derive(Debug, Default)]
struct Unacknowledged {
    /// Bytes of records.
    bytes: usize,
    /// The memory the last of them came in, emptied.
    buffer: Option<Buffer>,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Parcels {
    /// Bytes of records sent to other shards that they have not said to have taken in.
    under_way: usize,
    /// Parcels of each shard that are not acknowledged yet.
    unacknowledged: Vec<Unacknowledged>,
    /// Buffers for records that go to other shards.
    spare: Spare,
}

impl Parcels {
    pub(crate) fn new(shards: u16) -> Parcels {
        let unacknowledged = (0..shards).map(|_| Unacknowledged::default()).collect();
        Parcels { under_way: 0, unacknowledged, spare: Spare::default() }
    }

    /// A buffer for a parcel.
    pub(crate) fn buffer(&mut self) -> Buffer {
        self.spare.take()
    }

    /// So many bytes of records are sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.under_way += bytes;
    }

    /// So many bytes that were sent are taken in; the memory some of them went in comes back, of which at most `spare_max` bytes are kept.
    pub(crate) fn taken(&mut self, bytes: usize, buffer: Option<Buffer>, spare_max: usize) {
        self.under_way -= bytes;
        if let Some(buffer) = buffer {
            self.spare.put_empty(buffer, spare_max);
        }
    }

    /// Bytes sent that nobody said to have taken in.
    #[inline]
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// So many bytes of records came from a shard.
    pub(crate) fn came(&mut self, from: ShardId, bytes: usize) {
        self.unacknowledged[from.0 as usize].bytes += bytes;
    }

    /// Records came from a shard, in memory that is to go back there.
    pub(crate) fn came_in(&mut self, from: ShardId, mut records: Buffer) {
        let unacknowledged = &mut self.unacknowledged[from.0 as usize];
        unacknowledged.bytes += records.len();
        records.truncate(0);
        unacknowledged.buffer = Some(records);
    }

    /// Takes the acknowledgements that are due: the shard, the bytes, and the memory some of them came in.
    pub(crate) fn acknowledge(&mut self) -> impl Iterator<Item = (ShardId, usize, Option<Buffer>)> {
        let waiting = self.unacknowledged.iter_mut().enumerate().filter(|(_, it)| it.bytes > 0);
        waiting.map(|(to, unacknowledged)| {
            let Unacknowledged { bytes, buffer } = std::mem::take(unacknowledged);
            (ShardId(to as u16), bytes, buffer)
        })
    }

    /// A buffer is kept.
    pub(crate) fn has_spares(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Lets go of the buffers that were not needed lately.
    pub(crate) fn forget_spares(&mut self) {
        self.spare.forget_unused();
    }

    /// Bytes of memory of the buffers kept.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.spare.heap_bytes()
    }
}
