//! A permission's regular expression over names.
//!
//! RabbitMQ's patterns are PCRE. Those that match in linear time are matched so, because a pattern must not be able to stop the
//! broker. Those that look around or refer back are for administrators alone, have a bound of steps, and what came of a name is
//! kept. Matching is unanchored, as RabbitMQ's is.

use super::pcre::translated;
use regex_lite::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Bytes of a bad pattern that are quoted back.
const PATTERN_SHOWN_MAX: usize = 100;

/// Bytes a compiled pattern may take.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Groups within groups in a pattern.
const NESTING_MAX: u32 = 32;

/// Steps back that a match may take; then it is given up.
pub const STEPS_MAX: usize = 10_000;

/// Names of which one pattern keeps what came of them.
const NAMES_KEPT_MAX: usize = 1024;

/// Bytes of a name that is kept.
const NAME_KEPT_BYTES_MAX: usize = 255;

/// Matches that were given up since the process began, of all patterns: they are asked for where nobody counts.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// The pattern that was given up last.
static GIVEN_UP_LAST: Mutex<String> = Mutex::new(String::new());

/// How many matches were given up, since they took too many steps; and the pattern of the last of them.
pub fn given_up() -> (u64, String) {
    let last = GIVEN_UP_LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (GIVEN_UP.load(Ordering::Relaxed), last)
}

#[derive(Clone)]
enum Matcher {
    /// Every name: `.*`.
    All,
    /// No name but the empty one: `^$`, and the empty pattern, which RabbitMQ takes to mean the same.
    Empty,
    Compiled(Regex),
    /// A pattern that the linear engine does not have.
    Other(Arc<Other>),
}

/// A pattern for the engine with look-around, shared between the shards' copies of what it is of.
struct Other {
    regex: fancy_regex::Regex,
    /// It takes more than one pass.
    backtracks: bool,
    /// Results by name: a turn that asks about one again pays once. Forgotten all at once when it is full.
    kept: Mutex<FxHashMap<Box<str>, bool>>,
}

impl Other {
    fn new(source: &str) -> Result<Other, String> {
        let translated = translated(source)?;
        let mut builder = fancy_regex::RegexBuilder::new(&translated.text);
        builder.backtrack_limit(STEPS_MAX);
        builder.delegate_size_limit(PROGRAM_BYTES_MAX).delegate_dfa_size_limit(PROGRAM_BYTES_MAX);
        let regex = builder.build().map_err(|error| error.to_string())?;
        Ok(Other { regex, backtracks: translated.backtracks, kept: Mutex::default() })
    }

    /// `source` is what the pattern is known by.
    fn matches(&self, source: &str, name: &str) -> bool {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return *known;
        }
        let found = self.regex.is_match(name).unwrap_or_else(|_| {
            GIVEN_UP.fetch_add(1, Ordering::Relaxed);
            let shown = &source[..source.floor_char_boundary(PATTERN_SHOWN_MAX)];
            shown.clone_into(&mut GIVEN_UP_LAST.lock().unwrap_or_else(PoisonError::into_inner));
            false
        });
        if name.len() <= NAME_KEPT_BYTES_MAX {
            let mut kept = lock();
            if kept.len() >= NAMES_KEPT_MAX {
                kept.clear();
            }
            kept.insert(name.into(), found);
        }
        found
    }
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
    /// The fault.
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
                match builder.build() {
                    Ok(regex) if !is_spelled_otherwise(source) => Matcher::Compiled(regex),
                    _ => Matcher::Other(Arc::new(Other::new(source).map_err(bad)?)),
                }
            }
        };
        Ok(Pattern { source: source.into(), matcher })
    }

    /// As it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether matching it may take more than one pass over a name: such patterns are for administrators.
    pub fn backtracks(&self) -> bool {
        matches!(&self.matcher, Matcher::Other(other) if other.backtracks)
    }

    /// Whether it matches anywhere in `name`. A match that takes too many steps is none.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::All => true,
            Matcher::Empty => name.is_empty(),
            Matcher::Compiled(regex) => regex.is_match(name),
            Matcher::Other(other) => other.matches(&self.source, name),
        }
    }
}

/// Spellings that the linear engine takes and PCRE2 means otherwise: quantifiers that give nothing back are to it two quantifiers, a
/// bracket behind a backslash the edge of a word, recursion a flag, and letters of a class the difference of two.
const SPELLED_OTHERWISE: [&str; 13] =
    ["*+", "++", "?+", "}+", "\\<", "\\>", "\\b{", "\\B{", "(?R", "(?u", "&&", "--", "~~"];

/// Whether the linear engine may take something in it for what it is not.
fn is_spelled_otherwise(source: &str) -> bool {
    SPELLED_OTHERWISE.iter().any(|spelling| source.contains(spelling))
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
    fn what_the_linear_engine_does_not_have_matches_too() {
        // RabbitMQ 4.3.6 takes each of these.
        let rows = [
            (r"^(?!amq\.).*", "orders", true),
            (r"^(?!amq\.).*", "amq.gen-x", false),
            (r"^(?!(amq\.)|(.*_fanout_)|(reply_)).*", "scheduler_fanout_2", false),
            (r"^(.*(?<![E|e]rror))?$", "orders", true),
            (r"^(.*(?<![E|e]rror))?$", "ordersError", false),
            ("(?<=q)1", "q1", true),
            ("(?<=a|bc)d", "bcd", true),
            (r"^(q)\1$", "qq", true),
            (r"^(q)\1$", "q", false),
            (r"^(?<a>q)\k<a>", "qq", true),
            ("^(?>q+)1", "qq1", true),
            ("^(?>q+)q", "qqq", false),
            ("^q++1", "qq1", true),
            ("^q*+q", "qqq", false),
            ("^(q)?(?(1)1|2)", "q1", true),
            ("^(q)?(?(1)1|2)", "2", true),
            ("q(?#all)1", "q1", true),
            (r"q\K1", "q1", true),
            (r"^\p{L}\d$", "q1", true),
            (r"^q\h?1", "q 1", true),
            (r"^q\h?1", "qa1", false),
            (r"q1\Z", "q1", true),
            (r"^\Qq.\E1", "q.1", true),
            (r"^\Qq.\E1", "qx1", false),
            ("(?|(q)|(r))1", "r1", true),
            (r"^q\R?1", "q1", true),
            ("q{a}", "q{a}", true),
            (r"\Gq", "q1", true),
            (r"\Gq", "1q", false),
            ("[*+]++", "a", false),
            ("^[a&&b]$", "&", true),
            (r"\<q", "q1", false),
            (r"\<q\>", "<q>", true),
            (r"q\b{1}", "q-", true),
        ];
        for (pattern, name, expected) in rows {
            let pattern = Pattern::new(pattern).unwrap_or_else(|bad| panic!("{pattern}: {}", bad.why));
            for _ in 0..2 {
                assert_eq!(pattern.matches(name), expected, "{pattern:?} on {name}");
            }
        }
    }

    #[test]
    fn patterns_that_need_several_passes_are_known() {
        let rows = [
            ("^a.*$", false),
            (".*", false),
            ("", false),
            (r"^\p{L}$", false),
            ("q(?#all)1", false),
            ("(?=a)", true),
            ("(?!a)", true),
            ("(?<=a)", true),
            ("(?<!a)", true),
            (r"(a)\1", true),
            ("(?>a)", true),
            ("a++", true),
            (r"a\K", true),
        ];
        for (pattern, expected) in rows {
            assert_eq!(Pattern::new(pattern).unwrap().backtracks(), expected, "{pattern}");
        }
    }

    #[test]
    fn a_match_ends() {
        let name = "a".repeat(255);
        let before = given_up().0;
        for pattern in [r"^(a+)+\1$(?<!a)", r"^((a|aa)+)+(?=b)", r"(?=(a+))(\1a*)*b", r"^(?:(a*)*)*\1b"] {
            let pattern = Pattern::new(pattern).unwrap_or_else(|bad| panic!("{pattern}: {}", bad.why));
            assert!(!pattern.matches(&name), "{pattern:?}");
        }
        assert!(given_up().0 > before);
        let (after, pattern) = (given_up().0, Pattern::new(r"^(a+)+\1$(?<!a)").unwrap());
        assert!(!pattern.matches(&name) && !pattern.matches(&name));
        assert!(given_up().0 <= after + 1, "what came of a name is kept");
    }

    #[test]
    fn what_came_of_names_is_bounded() {
        let pattern = Pattern::new("^(?!b)").unwrap();
        for number in 0..3 * NAMES_KEPT_MAX {
            assert!(pattern.matches(&number.to_string()));
        }
        assert!(pattern.matches(&"a".repeat(100_000)));
        let Matcher::Other(other) = &pattern.matcher else { panic!("not linear") };
        let kept = other.kept.lock().unwrap();
        assert!(kept.len() <= NAMES_KEPT_MAX && kept.keys().all(|name| name.len() <= NAME_KEPT_BYTES_MAX));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        let deep = format!("{}a{}", "(".repeat(300), ")".repeat(300));
        let verbs =
            ["q(*FAIL)", "(?R)", "(?u)a", "(?1)", r"q\2", r"^\q", "(?<=q*)1", "q{0,70000}", "(?!(?!a)"];
        for pattern in ["[", "(", "*", "a{1000000}", &long, &deep].into_iter().chain(verbs) {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new(&"a".repeat(PATTERN_BYTES_MAX)).is_ok());
    }
}
