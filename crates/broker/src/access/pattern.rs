//! A permission's regular expression over names.
//!
//! RabbitMQ's patterns are PCRE. Those that match in linear time are matched so, because a pattern must not be able to stop the
//! broker. Those that look around or refer back are for administrators alone, have a bound of steps, and what came of a name is
//! kept. Matching is unanchored, as RabbitMQ's is.

use super::pcre::translated;
use base::hash::MapByBytes;
use regex_lite::{Regex, RegexBuilder};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Longest pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Bytes of a bad pattern that are quoted back.
const PATTERN_SHOWN_MAX: usize = 100;

/// Bytes a compiled pattern may take.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Groups within groups in a pattern.
const NESTING_MAX: u32 = 32;

/// Bytes of a compiled pattern below which its size is not told apart.
const PROGRAM_BYTES_MIN: usize = 1 << 10;

/// Bytes that a state of a compiled pattern takes.
const STATE_BYTES: usize = 32;

/// Steps of a match that costs next to nothing.
const STEPS_MIN: u64 = 32;

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
    Compiled(Box<Compiled>),
    /// A pattern that the linear engine does not have.
    Other(Arc<Other>),
}

/// A pattern for the linear engine.
#[derive(Clone)]
struct Compiled {
    regex: Regex,
    /// Letters with which a name begins that it matches.
    beginning: Box<str>,
    program_bytes: OnceLock<usize>,
}

impl Compiled {
    fn new(source: &str) -> Option<Compiled> {
        let regex = linear(source, PROGRAM_BYTES_MAX)?;
        let beginning = beginning(source).into();
        Some(Compiled { regex, beginning, program_bytes: OnceLock::new() })
    }

    fn matches(&self, name: &str) -> bool {
        name.starts_with(&*self.beginning) && self.regex.is_match(name)
    }
}

fn linear(source: &str, bytes_max: usize) -> Option<Regex> {
    RegexBuilder::new(source).size_limit(bytes_max).nest_limit(NESTING_MAX).build().ok()
}

/// The letters that every name begins with which a pattern matches: those behind `^`, where nothing else can take
/// their place.
fn beginning(source: &str) -> &str {
    let Some(rest) = source.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return "" };
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let len = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
    // A quantifier is of the letter before it.
    match rest[len..].chars().next() {
        Some('*' | '?' | '+' | '{') => &rest[..len.saturating_sub(1)],
        _ => &rest[..len],
    }
}

/// Bytes of a compiled pattern, rounded up to a power of two: the smallest bound within which it compiles. All tries
/// together take about as long as the last two.
fn program_bytes(compiles: impl Fn(usize) -> bool) -> usize {
    let mut bytes = PROGRAM_BYTES_MIN;
    while bytes < PROGRAM_BYTES_MAX && !compiles(bytes) {
        bytes *= 2;
    }
    bytes
}

/// A pattern for the engine with look-around, shared between the shards' copies of what it is of.
struct Other {
    regex: fancy_regex::Regex,
    /// It takes more than one pass.
    backtracks: bool,
    program_bytes: OnceLock<usize>,
    /// Results by name: a turn that asks about one again pays once. Forgotten all at once when it is full.
    kept: Mutex<MapByBytes<Box<str>, bool>>,
}

impl Other {
    fn new(source: &str) -> Result<Other, String> {
        let translated = translated(source)?;
        let regex = going_back(&translated.text, PROGRAM_BYTES_MAX)?;
        let (backtracks, program_bytes) = (translated.backtracks, OnceLock::new());
        Ok(Other { regex, backtracks, program_bytes, kept: Mutex::default() })
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

fn going_back(source: &str, bytes_max: usize) -> Result<fancy_regex::Regex, String> {
    let mut builder = fancy_regex::RegexBuilder::new(source);
    builder.backtrack_limit(STEPS_MAX);
    builder.delegate_size_limit(bytes_max).delegate_dfa_size_limit(PROGRAM_BYTES_MAX);
    builder.build().map_err(|error| error.to_string())
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
            _ => match Compiled::new(source).filter(|_| !is_spelled_otherwise(source)) {
                Some(compiled) => Matcher::Compiled(Box::new(compiled)),
                None => Matcher::Other(Arc::new(Other::new(source).map_err(bad)?)),
            },
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
            Matcher::Compiled(compiled) => compiled.matches(name),
            Matcher::Other(other) => other.matches(&self.source, name),
        }
    }
}

impl Pattern {
    /// Bytes that it takes compiled, about: less than 1 KiB is not told apart. The first call compiles it again, a few
    /// times.
    pub fn program_bytes(&self) -> usize {
        match &self.matcher {
            Matcher::All | Matcher::Empty => 0,
            Matcher::Compiled(compiled) => {
                let compiles = |bytes| linear(&self.source, bytes).is_some();
                *compiled.program_bytes.get_or_init(|| program_bytes(compiles))
            }
            Matcher::Other(other) => {
                let compiles = |bytes| going_back(other.regex.as_str(), bytes).is_ok();
                *other.program_bytes.get_or_init(|| program_bytes(compiles))
            }
        }
    }

    /// Steps that [`Pattern::matches`] takes at most, some 3 ns each.
    pub fn steps(&self, name: &str) -> u64 {
        let passes = match &self.matcher {
            Matcher::All | Matcher::Empty => return STEPS_MIN,
            Matcher::Compiled(compiled) if !name.starts_with(&*compiled.beginning) => return STEPS_MIN,
            Matcher::Compiled(_) => 0,
            Matcher::Other(other) if other.backtracks => STEPS_MAX as u64,
            Matcher::Other(_) => 0,
        };
        let states = (self.program_bytes() / STATE_BYTES) as u64;
        STEPS_MIN + states * (name.len() as u64 + 1) + passes * STEPS_MIN
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

    #[test]
    fn names_that_begin_otherwise_are_told_apart_at_once() {
        let rows = [
            ("^orders", "orders"),
            ("^orders-[a-z]+$", "orders-"),
            ("^a_b-9$", "a_b-9"),
            (r"^amq\.gen", "amq"),
            ("^ab*", "a"),
            ("^ab?c", "a"),
            ("^ab+", "a"),
            ("^ab{0}", "a"),
            ("^a.c", "a"),
            ("^a|b", ""),
            ("^a(b|c)", ""),
            ("^*a", ""),
            ("^?", ""),
            ("^é", ""),
            ("^(?i)ab", ""),
            ("(?i)^ab", ""),
            ("ab", ""),
            ("", ""),
        ];
        for (pattern, expected) in rows {
            assert_eq!(beginning(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn the_size_of_a_program_is_told_within_a_factor_of_two() {
        let size = |pattern: &str| Pattern::new(pattern).unwrap().program_bytes();
        assert_eq!([size(".*"), size(""), size("^orders-[a-z]+$")], [0, 0, PROGRAM_BYTES_MIN]);
        let rows = [
            ("(a?b?c?d?){255}(a|b|c|d|e){240}$", 64 << 10, 512 << 10),
            (&*"a".repeat(PATTERN_BYTES_MAX), 64 << 10, 256 << 10),
            ("(a{100}){100}", 256 << 10, 512 << 10),
            (r"^\p{L}", 1 << 10, 64 << 10),
            (r"^\p{L}{20}$", 64 << 10, 1 << 20),
            (r"^(?!amq\.).*", 1 << 10, 1 << 10),
        ];
        for (pattern, least, most) in rows {
            assert!((least..=most).contains(&size(pattern)), "{pattern}: {}", size(pattern));
        }
    }

    #[test]
    fn steps_are_those_of_what_is_looked_at() {
        let steps = |pattern: &str, name: &str| Pattern::new(pattern).unwrap().steps(name);
        assert_eq!([steps(".*", "orders"), steps("^orders", "invoices")], [STEPS_MIN; 2]);
        assert_eq!(steps("^orders", "orders"), STEPS_MIN + (PROGRAM_BYTES_MIN / STATE_BYTES) as u64 * 7);
        let (dear, long) = ("(a?b?c?d?){255}(a|b|c|d|e){240}$", "abcd".repeat(62));
        assert!(steps(dear, &long) > 200 * steps("orders", &long));
        assert!(steps(r"^(?!amq\.).*", "q") > STEPS_MAX as u64);
    }
}
