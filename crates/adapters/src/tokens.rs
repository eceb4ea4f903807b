//! Tokens, by which a connection tells the broker's answers apart.

/// The tokens of a connection, one after the other. They wrap: few answers are waited for at once.
#[derive(Debug, Default)]
pub(crate) struct Tokens(u32);

impl Tokens {
    /// The next one.
    pub(crate) fn next(&mut self) -> u32 {
        self.next_of(1)
    }

    /// The first of so many that follow each other; at least 1.
    pub(crate) fn next_of(&mut self, count: u32) -> u32 {
        let first = self.0.wrapping_add(1);
        self.0 = self.0.wrapping_add(count.max(1));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_follow_each_other_and_wrap() {
        let mut tokens = Tokens(u32::MAX - 2);
        assert_eq!(
            [tokens.next(), tokens.next_of(2), tokens.next_of(0), tokens.next()],
            [u32::MAX - 1, u32::MAX, 1, 2]
        );
    }
}
