//! Memory that many delayed messages take, all of it as the allocator sees it: one test, since it counts for the process.

#[allow(dead_code, reason = "shared; this test uses a part")]
mod owner;

use base::random::Random;
use owner::Owner;
use peak_alloc::PeakAlloc;
use queue::{Arrival, Fifo, Settings};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Messages delayed.
const COUNT: usize = 200_000;

#[test]
fn delayed_messages_cost_a_few_bytes_each_and_a_snapshot_little_more_than_itself() {
    let mut dice = Random::new(9);
    let before = ALLOCATED.current_usage();
    let mut owner = Owner::with(Settings::default());
    ALLOCATED.reset_peak_usage();
    for _ in 0..COUNT {
        // Within a day, in no order.
        let due_at_ms = 1_000_000 + dice.below(86_400_000);
        owner.arrive(Arrival { due_at_ms, ..Arrival::default() });
    }
    let each = |bytes: usize| (bytes - before) / COUNT;
    assert!(each(ALLOCATED.current_usage()) < 16, "{} bytes each", each(ALLOCATED.current_usage()));
    assert!(each(ALLOCATED.peak_usage()) < 20, "{} bytes each at most", each(ALLOCATED.peak_usage()));
    assert!(
        each(owner.fifo.memory_bytes()) < 16,
        "as the queue tells it: {}",
        each(owner.fifo.memory_bytes())
    );

    let mut snapshot = Vec::with_capacity(COUNT * 32);
    let live = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    owner.fifo.write_snapshot(&mut snapshot);
    let besides = ALLOCATED.peak_usage() - live;
    assert!(besides < 256 << 10, "{besides} bytes besides the snapshot's {}", snapshot.len());
    let mut again = Vec::new();
    Fifo::read_snapshot(&snapshot).expect("it was just written").write_snapshot(&mut again);
    assert!(again == snapshot, "the same state gives the same bytes");
}
