//! Counts of what filters were asked.

/// Messages that filters were asked of, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that one filter or more was asked of.
    pub messages: u64,
    /// Filters that were looked at, each once a message; those that an index passed over are not among them.
    pub evaluations: u64,
    /// Messages whose body was looked into and could not be read as far as was needed: it is faulty, too long, compressed,
    /// or of no format that is known.
    pub unreadable: u64,
}

impl Counts {
    /// Nothing was asked.
    pub fn is_empty(&self) -> bool {
        *self == Counts::default()
    }

    /// One filter was asked of one message more.
    #[must_use]
    pub fn and_one(self, is_unreadable: bool) -> Counts {
        let Counts { messages, evaluations, unreadable } = self;
        let unreadable = unreadable + u64::from(is_unreadable);
        Counts { messages: messages + 1, evaluations: evaluations + 1, unreadable }
    }

    /// All of another's as well.
    pub fn merge(&mut self, other: &Counts) {
        self.messages += other.messages;
        self.evaluations += other.evaluations;
        self.unreadable += other.unreadable;
    }
}
