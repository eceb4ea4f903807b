//! Bounds on one expression, checked before it has been looked at any closer.

/// Bounds of an expression. The defaults are RabbitMQ's where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Characters (not bytes) of an expression.
    pub characters_max: usize,
    /// Tokens of an expression: names, literals, keywords, operators, brackets and commas.
    pub tokens_max: usize,
    /// Levels of the tree, where each operator is one level above its operands, and of open brackets. With the default
    /// number of tokens it cannot be reached; it bounds recursion if somebody allows more of them.
    pub depth_max: usize,
    /// Entries of one list of `IN`. With the default number of tokens it cannot be reached.
    pub list_max: usize,
    /// Fields of one filter by reference values.
    pub references_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { characters_max: 4096, tokens_max: 200, depth_max: 200, list_max: 200, references_max: 16 }
    }
}
