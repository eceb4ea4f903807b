//! The model of sizes that are asked for late.

use super::*;

impl Bench {
    pub(super) fn model_sizes_kept(&mut self, before: SizesKept, now: SizesKept) {
        let mut live = (0..).zip(&self.messages).filter(|(_, message)| message.state != State::Gone);
        match (before, now) {
            (SizesKept::All, SizesKept::All) => {}
            (_, SizesKept::All) => {
                let first = live.next().map(|(seq, _)| seq);
                self.unweighed = first.map(|first| (first, self.messages.len() as u64 - 1));
            }
            (_, SizesKept::Coming) => self.unweighed = None,
            (_, SizesKept::None) => {
                self.unweighed = None;
                self.messages.iter_mut().for_each(|message| message.bytes = 0);
            }
        }
        self.check_unweighed();
    }

    fn check_unweighed(&self) {
        let unweighed = self.unweighed.map(|(first, last)| range(first, last));
        assert_eq!(self.fifo.to_weigh(), unweighed);
    }

    pub(super) fn model_weigh(&mut self, positions: SeqRange, sizes: &[(QueueSeq, u32)]) {
        if let Some((first, last)) = self.unweighed.filter(|(first, _)| positions.first.0 <= *first) {
            for (QueueSeq(seq), size) in sizes {
                let message = &mut self.messages[*seq as usize];
                if (first..=last).contains(seq) && message.state != State::Gone {
                    message.bytes = *size;
                }
            }
            let next = first.max(positions.last.0 + 1);
            self.unweighed = (next <= last).then_some((next, last));
        }
        self.check_unweighed();
        self.expect_left(&[]);
    }

    /// As its owner does, which now and then is behind the times.
    pub(super) fn weigh(&mut self) {
        let Some(unweighed) = self.fifo.to_weigh() else { return };
        let first = unweighed.first.0 + if self.dice.one_in(10) { self.dice.below(3) } else { 0 };
        let last = (first + self.dice.below(60)).min(unweighed.last.0).max(first);
        let positions = range(first, last);
        let sizes = self.fifo.live_within(positions).map(|seq| (seq, self.messages[seq.0 as usize].size));
        let sizes = sizes.collect();
        self.log.push_back(Record::Weigh { range: positions, sizes });
    }
}
