//! Checks that hold at any time: every message is somewhere, once.

use super::*;

impl Bench {
    pub(super) fn check_counts(&self) {
        // Every message is somewhere, once.
        let count = |which: fn(State) -> bool| self.messages.iter().filter(|m| which(m.state)).count() as u64;
        assert_eq!(self.fifo.ready(), count(|state| state == State::Ready));
        assert_eq!(self.fifo.ready(), self.ready.len() as u64);
        assert_eq!(self.fifo.dying(), count(|state| state == State::Dying));
        assert_eq!(self.fifo.ready_bytes(), self.model_ready_bytes());
        let deadlines = self.ready.iter().filter_map(|(_, seq)| self.messages[*seq as usize].deadline_ms);
        if let Some(first_ms) = deadlines.min() {
            assert!(self.fifo.next_deadline_ms().is_some_and(|next_ms| next_ms <= first_ms), "late");
        }
        let is_reached = |max: Option<u64>, now: u64| max.is_some_and(|max| now + 1 >= max);
        let delayed = self.model_delayed();
        assert_eq!(self.fifo.delayed(), delayed.len() as u64);
        let bytes_of = |seq: u64| u64::from(self.messages[seq as usize].bytes);
        let delayed_bytes: u64 = delayed.iter().map(|(_, seq)| bytes_of(*seq)).sum();
        let listed = self.fifo.delayed_list(usize::MAX);
        assert_eq!(listed.into_iter().map(|(due_ms, seq)| (due_ms, seq.0)).collect::<Vec<_>>(), delayed);
        if let Some((first_ms, _)) = delayed.first() {
            assert!(self.fifo.next_deadline_ms().is_some_and(|next_ms| next_ms <= *first_ms), "late");
        }
        let is_full = is_reached(self.rules.length_max, self.fifo.ready() + self.fifo.delayed())
            || is_reached(self.rules.bytes_max, self.fifo.ready_bytes() + delayed_bytes);
        assert_eq!(self.fifo.is_full(1, 1), is_full && !self.rules.drops_head);
        assert_eq!(self.fifo.unsettled(), count(|state| matches!(state, State::Held(_))));
        assert_eq!(self.fifo.total(), count(|state| state != State::Gone));
        assert_eq!(self.fifo.next_seq().0, self.messages.len() as u64);
        let consumers = self.consumers.values().filter(|consumer| consumer.is_consumer).count();
        assert_eq!(self.fifo.consumers() as usize, consumers);
        let barriers = self.messages.iter().filter(|one| one.is_barrier && one.state != State::Gone);
        assert_eq!(self.fifo.barriers(), barriers.count() as u64);
        self.check_choice();
        if self.steps.is_multiple_of(8) {
            self.check_browsing();
        }
    }

    /// A browser sees all that is ready, in order of arrival, marked as its consumer would see it.
    fn check_browsing(&self) {
        let mut next = QueueSeq(0);
        let seen = std::iter::from_fn(|| {
            let seq = self.fifo.next_ready_at(next)?;
            next = QueueSeq(seq.0 + 1);
            let (redelivered, counts) = self.fifo.past(seq);
            Some((seq.0, redelivered, counts.delivery_count, counts.acquired_count))
        });
        let ready = self.messages.iter().enumerate().filter(|(_, message)| message.state == State::Ready);
        let expected = ready.map(|(seq, message)| {
            let acquired = match message.acquired {
                _ if !self.counts => 0,
                // Before it first comes back, it was out as often as it failed elsewhere.
                0 => message.failed,
                acquired => acquired,
            };
            (seq as u64, message.was_delivered || message.is_tried, message.failed, acquired)
        });
        let seen: Vec<_> = seen.collect();
        let expected: Vec<_> = expected.collect();
        assert_eq!(seen.len(), expected.len());
        for (seen, mut expected) in seen.into_iter().zip(expected) {
            // For delayed messages it is not looked up whether they certainly were never out.
            expected.1 |= seen.1 && self.messages[seen.0 as usize].due_ms.is_some();
            assert_eq!(seen, expected);
        }
    }
}
