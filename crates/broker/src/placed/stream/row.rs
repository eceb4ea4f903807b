//! A stream as it is listed.

use super::OwnedStream;
use crate::placed::queue::sizing::Sample;
use crate::rows::queues::{QueueRow, StreamRow, Tracking};

impl OwnedStream {
    pub(crate) fn row(&self) -> QueueRow {
        let machine = &self.machine;
        QueueRow {
            definition: self.definition().clone(),
            ready: machine.messages(),
            ready_bytes: Some(machine.bytes()),
            sample: Sample::default(),
            unsettled: 0,
            delayed: 0,
            selectors: 0,
            unmatched: 0,
            transient: 0,
            leases_over: None,
            barriers: None,
            returned: 0,
            dying: 0,
            quorum: None,
            consumers: self.consumers(),
            memory_bytes: size_of_val(self)
                + self.verdicts.as_ref().map_or(0, |verdicts| verdicts.heap_bytes()),
            tally: self.tally(),
            head: machine.first_offset(),
            end: machine.next_offset(),
            stream: Some(StreamRow {
                segments: machine.segments().count(),
                readers: machine.readers(),
                first_offset: machine.first_offset(),
                next_offset: machine.next_offset(),
                first_timestamp_ms: machine.first_timestamp_ms(),
                filtered: self.filtered,
            }),
            active: None,
        }
    }

    /// Stored offsets and publishing ids.
    pub(crate) fn tracking(&self) -> Tracking {
        let text = |reference: &[u8]| String::from_utf8_lossy(reference).into_owned();
        let mut tracking = Tracking::default();
        self.machine.each_offset(|reference, offset| tracking.offsets.push((text(reference), offset)));
        self.machine.each_sequence(|reference, id| tracking.writers.push((text(reference), id)));
        tracking
    }
}
