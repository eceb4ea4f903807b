//! Looking at what is ready without taking it: whoever browses keeps a position and asks for the next one.
//!
//! Nothing here changes the queue, and a queue costs no more for being looked at. What a consumer holds, what waits for
//! its time, what is dying and what is gone is passed over.

use crate::delivery::Counts;
use crate::fifo::Fifo;
use base::id::QueueSeq;
use base::ranges::Range;

impl Fifo {
    /// The first position from `from` on that could be handed out, in order of arrival, whatever its priority.
    pub fn next_ready_at(&self, from: QueueSeq) -> Option<QueueSeq> {
        let from = from.0;
        let features = self.features.as_ref();
        let of_levels = features.and_then(|features| features.levels.next_ready(from));
        let lined = features.and_then(|features| features.delays.lined.next_present(from));
        let groups = features.and_then(|features| features.groups.as_ref());
        let passed = groups.and_then(|groups| groups.passed().next_present(from));
        let next =
            [self.line.ready.returned().next_present(from), of_levels, lined, passed, self.next_ahead(from)];
        next.into_iter().flatten().min().map(QueueSeq)
    }

    /// It has messages of another priority than the usual one: what is handed out next need not be the first.
    pub fn has_levels(&self) -> bool {
        self.features.as_ref().is_some_and(|features| !features.levels.is_empty())
    }

    /// What of the priority that is handed out next is ready from `from` on, in order of arrival.
    pub fn coming(&self, from: QueueSeq) -> impl Iterator<Item = QueueSeq> + '_ {
        let levels =
            self.features.as_ref().map(|features| (&features.levels, features.settings.priorities.usual()));
        let usual = |from| {
            [self.line.ready.returned().next_present(from), self.next_ahead(from)].into_iter().flatten().min()
        };
        let next = levels.and_then(|(levels, usual_level)| {
            let first = |is_asked: fn(&u8, &u8) -> bool| {
                let is_asked = |level: u8| is_asked(&level, &usual_level);
                levels.first_returned(is_asked).or_else(|| levels.first(is_asked))
            };
            let below = || if usual(0).is_none() { first(u8::lt) } else { None };
            first(u8::gt).or_else(below).map(|next| (levels, next))
        });
        let mut from = from.0;
        std::iter::from_fn(move || {
            let seq = match next {
                Some((levels, next)) => levels.next_ready_of(next, from)?,
                None => usual(from)?,
            };
            from = seq + 1;
            Some(QueueSeq(seq))
        })
    }

    /// The first position from `from` on that is ready through the cursor.
    fn next_ahead(&self, from: u64) -> Option<u64> {
        let mut at = from.max(self.line.ready.cursor());
        loop {
            let mut to = self.line.live.settled().next_absent(at);
            if let Some(features) = &self.features {
                to = features.levels.next_usual(features.elsewhere.next_absent(to));
            }
            if to == at {
                return (at < self.line.live.next_seq()).then_some(at);
            }
            at = to;
        }
    }

    /// Whether a ready message may have been out before, and how often it was and failed: what its next consumer will be
    /// told, unless it was delayed from before this owner until after: then that knows that it was never out.
    pub fn past(&self, seq: QueueSeq) -> (bool, Counts) {
        let mut counts = self.counts(seq).shown();
        if let Some((failures, _)) = self.line.returns.seen_failures(Range { first: seq.0, last: seq.0 }) {
            counts.delivery_count = failures;
        }
        let came_back = self.line.ready.returned().contains(seq.0)
            || self.features.as_ref().is_some_and(|features| features.came_back(seq.0));
        (came_back || seq.0 < self.line.ready.redelivered_below() || self.is_tried(seq), counts)
    }
}
