//! Bounds on one expression, checked before it has been looked at any closer. Macros count as what they are expanded
//! to.

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
    /// Times that an expression names properties and annotations: each is looked for in all of them.
    pub names_max: usize,
    /// Different places in the body that one expression reads.
    pub paths_max: usize,
    /// Regular expressions in one expression.
    pub regexps_max: usize,
    /// Bytes that a compiled regular expression may take.
    pub regexp_bytes_max: usize,
    /// Macros that are expanded within one another.
    pub macro_depth_max: usize,
    /// Parameters of a macro.
    pub macro_parameters_max: usize,
    /// Fields of one filter by reference values.
    pub references_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            characters_max: 4096,
            tokens_max: 200,
            depth_max: 200,
            list_max: 200,
            // There cannot be more than tokens.
            names_max: usize::MAX,
            paths_max: 64,
            regexps_max: 16,
            regexp_bytes_max: 64 << 10,
            macro_depth_max: 16,
            macro_parameters_max: 16,
            references_max: 16,
        }
    }
}

impl Limits {
    /// Those of expressions that RabbitMQ knows nothing of: arguments `x-filter` and what else selects by content.
    pub fn content() -> Limits {
        Limits {
            characters_max: 65_536,
            tokens_max: 4096,
            list_max: 4096,
            names_max: 200,
            ..Limits::default()
        }
    }
}
