//! The nodes of a trie of topic patterns that a key has reached.

use base::hash::SetById;

/// Memory for walking a trie; belongs to the caller that routes. Grows with the nodes a key reaches, not with the trie.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) current: Vec<u32>,
    pub(crate) next: Vec<u32>,
    /// The `#` nodes of `next`: they are reached from above and by staying.
    pub(crate) reached: SetById<u32>,
}

impl Walk {
    /// A step begins, in which nothing is reached yet.
    pub(crate) fn advance(&mut self) {
        if !self.reached.is_empty() {
            self.reached.clear();
        }
    }
}
