//! Requests of an owner whose consumers choose messages: selectors, and the classes of messages.

use super::Fifo;
use crate::ranges::{numbers, positions};
use crate::selector_sets::{SelectorId, SelectorSet};
use crate::selectors::Selectors;
use base::id::QueueSeq;
use message::record::SeqRange;

impl Fifo {
    /// From now on the owner tells of messages whether this selector is true of them, of those that are there too
    /// ([`Fifo::to_classify`]). Not recorded: gone with the owner. Panics where it is there already.
    pub fn open_selector(&mut self, id: SelectorId) {
        let (features, line) = self.with_features();
        let new = || Box::new(Selectors::new(&line.live));
        features.selectors.get_or_insert_with(new).open(id, &line.live);
    }

    /// The selector is used no more. Passed over where it is not there. Panics where a consumer has it.
    pub fn close_selector(&mut self, id: SelectorId) {
        let used = self.consumers.as_ref().is_some_and(|all| all.iter().any(|(_, one)| one.wants(id)));
        assert!(!used, "a consumer has {id:?}");
        if let Some(selectors) = self.features.as_mut().and_then(|features| features.selectors.as_mut()) {
            selectors.close(id);
        }
        self.tidy();
    }

    /// Messages that are to be classified next, some of which may be gone: those that came, then those that were there when
    /// a selector was opened.
    #[inline]
    pub fn to_classify(&self) -> Option<SeqRange> {
        let selectors = self.features.as_ref()?.selectors.as_ref()?;
        selectors.to_read(&self.line.live).map(positions)
    }

    /// A message has this class: selectors that are not open are passed over, and so is a message that is gone.
    pub fn classify(&mut self, seq: QueueSeq, class: SelectorSet) {
        let Fifo { line, features: Some(features), .. } = self else { return };
        if line.live.contains(seq.0) {
            features.classify(seq.0, class, line);
        }
    }

    /// All live messages of `range` have their class; it is the beginning of [`Fifo::to_classify`].
    pub fn classified(&mut self, range: SeqRange) {
        let Fifo { line, features: Some(features), .. } = self else { return };
        if let Some((selectors, range)) = features.selectors.as_mut().zip(numbers(range)) {
            selectors.was_read(range, &line.live);
        }
    }

    /// The selectors that consumers have.
    pub fn selectors_used(&self) -> SelectorSet {
        let consumers = self.consumers.iter().flat_map(|all| all.iter());
        let theirs = consumers.filter(|(_, one)| one.is_consumer()).filter_map(|(_, one)| one.selector);
        theirs.fold(SelectorSet::default(), SelectorSet::with)
    }

    /// Messages that no consumer wants, among those that were classified, where all consumers choose; else 0.
    pub fn unmatched(&self) -> u64 {
        let selectors = self.features.as_ref().and_then(|features| features.selectors.as_ref());
        let wanted =
            self.consumers.as_ref().filter(|all| all.consumers() > 0).and_then(|all| all.selectors());
        selectors.zip(wanted).map_or(0, |(selectors, wanted)| selectors.count_without(&wanted))
    }
}
