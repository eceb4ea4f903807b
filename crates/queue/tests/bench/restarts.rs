//! Snapshots, replays and new owners.

use super::*;

impl Bench {
    /// Snapshot and tail, and everything from the start, reach the same state byte for byte.
    pub(super) fn check_replay(&mut self) {
        let now = snapshot(&self.fifo);
        let mut again = Fifo::read_snapshot(&self.base).unwrap();
        assert_eq!(snapshot(&again), self.base);
        replay(&mut again, &self.tail);
        assert_eq!(snapshot(&again), now);
        assert_eq!(snapshot(&Fifo::read_snapshot(&now).unwrap()), now);
        self.base = now;
        self.tail.clear();
    }

    pub(super) fn restart_sometimes(&mut self) {
        if !self.dice.one_in(10) {
            return;
        }
        self.check_replay();
        let mut fifo = Fifo::read_snapshot(&self.base).unwrap();
        let recovery = match self.dice.one_in(2) {
            true => Recovery::Dirty,
            false => Recovery::Clean(self.fifo.cursor()),
        };
        let cursor = self.fifo.cursor().0;
        fifo.recover(recovery, &mut self.effects);
        self.fifo = fifo;
        // Records that were not committed are lost with the owner.
        self.log.clear();
        self.consumers.clear();
        self.forget_selectors();
        self.model_left();
        self.turns.clear();
        self.out.clear();
        self.draining.clear();
        self.active = None;
        self.offered_below = self.messages.len();
        self.began_ms = None;
        let rules = std::mem::take(&mut self.rules);
        let mut dropped = Vec::new();
        let mut gone = Vec::new();
        for seq in 0..self.messages.len() as u64 {
            if self.messages[seq as usize].state == State::Gone {
                continue;
            }
            self.turn_to(seq, State::Away);
            let message = &mut self.messages[seq as usize];
            if !self.counts {
                message.failed = 0;
                message.is_tried = false;
            }
            message.is_returning = false;
            message.is_postponing = false;
            message.came_back = false;
            message.behind = None;
            let is_below = recovery == Recovery::Dirty || seq < cursor;
            let was_out = message.was_delivered || self.barrier.was_given(seq);
            assert!(is_below || !was_out, "{seq} was out, and the cursor is {cursor}");
            message.was_delivered = is_below;
            let (transient, place) = (message.transient, message.place);
            let is_delayed = message.due_ms.is_some();
            self.turn_to(
                seq,
                match (transient, is_delayed) {
                    (true, _) => State::Gone,
                    (false, true) => State::Delayed,
                    (false, false) => State::Ready,
                },
            );
            self.model_waits_still(seq);
            if transient {
                *self.ended.entry("purged").or_default() += 1;
                dropped.push((Kind::Purge, Outcome::Released, seq));
                gone.push(place);
            }
        }
        self.write(&dropped);
        self.expect_left(&gone);
        for entry in &dropped {
            let positions = range(entry.2, entry.2);
            self.history.push(Entry::Record(Record::Purge { range: positions }));
        }
        self.barrier = barriers::Turn::default();
        self.go_by(rules);
        self.base = snapshot(&self.fifo);
        self.tail.clear();
    }
}
