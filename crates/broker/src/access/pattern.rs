//! A permission's regular expression over names.
//!
//! RabbitMQ's patterns are PCRE; these are the subset that matches in linear time (no look-around, no back-references),
//! because a pattern must not be able to stop the broker. Matching is unanchored, as RabbitMQ's is.

use regex_lite::{Regex, RegexBuilder};
use std::fmt;

/// Longest pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Bytes of a bad pattern that are quoted back.
const PATTERN_SHOWN_MAX: usize = 100;

/// Bytes a compiled pattern may take.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Groups within groups in a pattern.
const NESTING_MAX: u32 = 32;

#[derive(Clone)]
enum Matcher {
    /// Every name: `.*`.
    All,
    /// No name but the empty one: `^$`, and the empty pattern, which RabbitMQ takes to mean the same.
    Empty,
    Compiled(Regex),
}

/// A pattern, compiled.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    matcher: Matcher,
}

/// The pattern is not one: too long, too deep, or not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern, or its beginning.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// Compiles `source`, at most [`PATTERN_BYTES_MAX`] long.
    pub fn new(source: &str) -> Result<Pattern, BadPattern> {
        let bad = |why: String| {
            let shown = &source[..source.floor_char_boundary(PATTERN_SHOWN_MAX)];
            BadPattern { pattern: shown.to_owned(), why }
        };
        if source.len() > PATTERN_BYTES_MAX {
            return Err(bad(format!("longer than {PATTERN_BYTES_MAX} bytes")));
        }
        let matcher = match source {
            ".*" => Matcher::All,
            "" | "^$" => Matcher::Empty,
            _ => {
                let mut builder = RegexBuilder::new(source);
                builder.size_limit(PROGRAM_BYTES_MAX).nest_limit(NESTING_MAX);
                Matcher::Compiled(builder.build().map_err(|error| bad(error.to_string()))?)
            }
        };
        Ok(Pattern { source: source.into(), matcher })
    }

    /// As it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches anywhere in `name`.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::All => true,
            Matcher::Empty => name.is_empty(),
            Matcher::Compiled(regex) => regex.is_match(name),
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_rabbitmq_does() {
        // Seen on 4.3.6 by setting the pattern as configure permission and declaring a queue of the name.
        let rows = [
            ("", "pq", false),
            ("^$", "pq", false),
            (".*", "pq", true),
            ("q$", "pq", true),
            ("q$", "pqx", false),
            ("^(pq|zz)$", "pq", true),
            ("(?i)^PQ$", "pq", true),
            ("^amq\\.default$", "amq.default", true),
            ("^amq\\.default$", "amqxdefault", false),
            ("é", "caféine", true),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(Pattern::new(pattern).unwrap().matches(name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        let deep = format!("{}a{}", "(".repeat(40), ")".repeat(40));
        for pattern in ["[", "(", "*", "a{1000000}", "(?!a)", "(a)\\1", &long, &deep] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new(&"a".repeat(PATTERN_BYTES_MAX)).is_ok());
    }
}
