//! The model of selectors: which of them are true of a message, how far messages were read for each, and who takes turns.

use super::*;

/// Selectors that there are now and then.
const SELECTORS: u8 = 4;

/// State of selectors.
#[derive(Debug, Default)]
pub struct Choice {
    /// Those that are open, with the positions that were there before and were not read.
    open: BTreeMap<SelectorId, (u64, u64)>,
    /// Messages below were read when they came, or were there before any selector.
    read_to: u64,
    /// The selector, or none, of the consumer that was given something last.
    pub served: Option<SelectorId>,
}

/// The selectors that are true of a message: by chance, and always the same.
fn class_of(seq: u64) -> SelectorSet {
    let mut dice = Random::new(seq);
    let all = (0..SELECTORS).map(SelectorId);
    all.filter(|_| dice.one_in(3)).fold(SelectorSet::default(), SelectorSet::with)
}

impl Bench {
    /// Something happens to selectors: one comes or goes, or messages are read.
    pub(super) fn choose(&mut self) {
        let id = SelectorId(self.dice.below(SELECTORS.into()) as u8);
        match self.dice.below(8) {
            0 | 1 if !self.choice.open.contains_key(&id) => self.open_selector(id),
            0 => self.close_selector(id),
            _ => self.read(),
        }
    }

    fn open_selector(&mut self, id: SelectorId) {
        self.fifo.open_selector(id);
        if self.choice.open.is_empty() {
            self.choice.read_to = self.messages.len() as u64;
        }
        let there = (self.fifo.head().0, self.choice.read_to);
        self.choice.open.insert(id, there);
    }

    fn close_selector(&mut self, id: SelectorId) {
        let is_used = self.consumers.values().any(|one| one.is_consumer && one.selector == Some(id));
        if is_used || self.choice.open.remove(&id).is_none() {
            return;
        }
        self.fifo.close_selector(id);
        for message in &mut self.messages {
            message.class.iter_mut().for_each(|class| class.remove(id));
        }
        if self.choice.open.is_empty() {
            self.forget_selectors();
        }
    }

    pub(super) fn close_selectors(&mut self) {
        for id in self.choice.open.keys().copied().collect::<Vec<_>>() {
            self.close_selector(id);
        }
    }

    /// There are none, and nothing was read.
    pub(super) fn forget_selectors(&mut self) {
        let served = self.choice.served;
        self.choice = Choice { served, ..Choice::default() };
        self.messages.iter_mut().for_each(|message| message.class = None);
    }

    /// One that is open, or none.
    pub(super) fn any_selector(&mut self) -> Option<SelectorId> {
        let at = self.dice.below(self.choice.open.len() as u64 * 2 + 1) as usize;
        self.choice.open.keys().nth(at).copied()
    }

    /// Positions that were not read for a selector.
    fn rest(&self, id: SelectorId) -> Option<(u64, u64)> {
        let (first, end) = self.choice.open.get(&id).copied().unwrap_or_default();
        let first = first.max(self.fifo.head().0);
        (first < end).then_some((first, end))
    }

    /// Positions that are to be read next.
    fn to_read(&self) -> Option<(u64, u64)> {
        let first = self.choice.read_to.max(self.fifo.head().0);
        let end = self.messages.len() as u64;
        if first < end && !self.choice.open.is_empty() {
            return Some((first, end));
        }
        let rests = self.choice.open.keys().filter_map(|id| self.rest(*id));
        rests.min_by_key(|(first, end)| (*first, Reverse(*end)))
    }

    /// Some of the messages that are to be read are.
    fn read(&mut self) {
        let Some((first, end)) = self.to_read() else { return };
        let end = if self.dice.one_in(2) { end } else { end.min(first + 1 + self.dice.below(90)) };
        let open = self.choice.open.keys().copied().fold(SelectorSet::default(), SelectorSet::with);
        for seq in first..end {
            self.fifo.classify(QueueSeq(seq), class_of(seq));
            let message = &mut self.messages[seq as usize];
            if message.state != State::Gone {
                message.class = Some(class_of(seq).and(&open));
            }
        }
        let rests: Vec<_> = self.choice.open.keys().map(|id| (*id, self.rest(*id))).collect();
        for (id, rest) in rests {
            let (from, to) = rest.unwrap_or_default();
            let from = if (first..end).contains(&from) { end } else { from };
            self.choice.open.insert(id, (from, to));
        }
        self.choice.read_to = self.choice.read_to.max(end);
        self.fifo.classified(range(first, end - 1));
    }

    /// Not all that a selector is true of is known.
    pub(super) fn is_behind(&self, id: SelectorId) -> bool {
        let has_more = !self.choice.open.is_empty() && self.choice.read_to < self.messages.len() as u64;
        self.rest(id).is_some() || has_more
    }

    /// Hands out the first message of the highest priority of which the selector is true, of those in front of the first that was
    /// not read.
    pub(super) fn model_choose(
        &mut self,
        slot: u32,
        selector: SelectorId,
        settled: bool,
    ) -> Option<(u32, u64, bool, u32)> {
        let end = self.rest(selector).map_or(u64::MAX, |(first, _)| first).min(self.bar());
        let wanted = |seq: &u64| {
            let class = self.messages[*seq as usize].class;
            *seq < end && class.is_some_and(|class| class.contains(selector))
        };
        let ready = self.ready.iter().map(|(_, seq)| *seq).filter(wanted);
        let seq = ready.min_by_key(|seq| (Reverse(self.messages[*seq as usize].level), *seq))?;
        self.chosen += 1;
        let (slot, seq, redelivered, failed) = self.model_take(seq, slot, settled);
        // For delayed messages it is not looked up whether they certainly were never out.
        Some((slot, seq, redelivered || self.fifo_says_again(seq), failed))
    }

    pub(super) fn model_served(&mut self, selector: Option<SelectorId>) {
        if !self.choice.open.is_empty() {
            self.choice.served = selector;
        }
    }

    /// A consumer is gone; the turn of selectors is forgotten with the last one.
    pub(super) fn model_left(&mut self) {
        if self.consumers.is_empty() {
            self.choice.served = None;
        }
    }

    /// The line that a consumer stands in.
    pub(super) fn ring(&self, slot: u32) -> (i32, Option<SelectorId>) {
        let consumer = &self.consumers[&slot];
        (consumer.priority, consumer.selector)
    }

    pub(super) fn check_choice(&self) {
        let to_read = self.fifo.to_classify().map(|range| (range.first.0, range.last.0 + 1));
        assert_eq!(to_read, self.to_read());
        let consumers = self.consumers.values().filter(|consumer| consumer.is_consumer);
        let wanted: Option<Vec<SelectorId>> = consumers.map(|consumer| consumer.selector).collect();
        let live = self.messages.iter().filter(|message| message.state != State::Gone);
        let unmatched = wanted.filter(|wanted| !wanted.is_empty()).map_or(0, |wanted| {
            let is_unwanted = |class: SelectorSet| !wanted.iter().any(|id| class.contains(*id));
            live.filter(|message| message.class.is_some_and(is_unwanted)).count() as u64
        });
        assert_eq!(self.fifo.unmatched(), unmatched);
    }
}
