//! Where messages lie: moved to segments and found again.

use super::*;

impl Bench {
    pub(super) fn move_out(&mut self) {
        let bound = LogIndex(self.dice.below(self.next_place + 2));
        let live: Vec<_> = self.fifo.live_below(bound).collect();
        let expected = self.messages.iter().enumerate().filter_map(|(seq, message)| match message.place {
            Where::Log(place) if place < bound && message.state != State::Gone => {
                Some((QueueSeq(seq as u64), place))
            }
            _ => None,
        });
        assert_eq!(live, expected.collect::<Vec<_>>());
        let mut runs = Vec::new();
        let mut rest = &live[..];
        while !rest.is_empty() {
            let (block, others) = rest.split_at(rest.len().min(self.dice.between(1, 30) as usize));
            rest = others;
            runs.push(Run {
                first: block[0].0,
                last: block[block.len() - 1].0,
                count: block.len() as u32,
                segment: self.dice.below(9),
                offset: self.dice.below(1 << 40),
                len: self.dice.below(1 << 20) as u32,
            });
        }
        // While the segment was written, some left.
        self.commit();
        self.fifo.move_out(&runs, &mut self.effects);
        let mut empty = Vec::new();
        let mut live = live.iter();
        for run in &runs {
            let at = self.runs.len();
            let mut left = 0;
            for (seq, _) in live.by_ref().take(run.count as usize) {
                let message = &mut self.messages[seq.0 as usize];
                if message.state != State::Gone {
                    message.place = Where::Run(at);
                    left += 1;
                }
            }
            if left == 0 {
                empty.push(*run);
            }
            self.runs.push((*run, left));
        }
        assert_eq!(std::mem::take(&mut self.effects.runs_left), empty);
        assert!(self.effects.is_empty());
        self.tail.push(Entry::MoveOut(runs.clone()));
        self.history.push(Entry::MoveOut(runs));
    }

    pub(super) fn check_places(&mut self) {
        let first = self.dice.below(self.messages.len() as u64 + 1);
        let last = first + self.dice.below(50);
        let mut listed = Vec::new();
        for stretch in self.fifo.stretches(range(first, last)) {
            match stretch {
                Stretch::Log(stretch) => {
                    let bound = stretch.first().expect("no stretch is empty").1;
                    let (below, behind) = stretch.split_at(LogIndex(bound.0 + self.dice.below(3)));
                    let both = below.iter().chain(behind.iter());
                    listed.extend(both.map(|(seq, index)| (seq, Place::Log(index))));
                }
                Stretch::Segment { first, last, run } => {
                    listed.extend((first.0..=last.0).map(|seq| (QueueSeq(seq), Place::Segment(run))));
                }
            }
        }
        let mut live = Vec::new();
        for seq in first..=last {
            let message = self.messages.get(seq as usize).filter(|message| message.state != State::Gone);
            let place = self.fifo.place(QueueSeq(seq));
            assert_eq!(place.is_some(), message.is_some());
            assert_eq!(self.fifo.place(QueueSeq(seq)).is_some(), message.is_some());
            if let (Some(place), Some(message)) = (place, message) {
                match message.place {
                    Where::Log(index) => assert_eq!(place, Place::Log(index)),
                    Where::Run(at) => assert_eq!(place, Place::Segment(&self.runs[at].0)),
                }
                live.push((QueueSeq(seq), place));
                let counts = self.fifo.counts(QueueSeq(seq));
                if self.counts {
                    assert_eq!(
                        (counts.delivery_count, counts.acquired_count),
                        (message.failed, message.acquired)
                    );
                }
            }
        }
        assert_eq!(listed, live);
    }
}
