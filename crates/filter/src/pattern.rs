//! Patterns of `LIKE`: `%` is any number of characters, `_` is one, all else is itself.
//!
//! A pattern without `_` and with at most one `%` compares bytes. All others run as an automaton over characters whose
//! states are bits, one per character of the pattern: each character of the subject costs one step for 64 of them,
//! whatever the pattern, so there is nothing to be gained by a malicious one.
//!
//! In the second kind wildcards do not match a line feed, and one at the very end of the subject is passed over; a
//! subject that is not UTF-8 has no answer. RabbitMQ makes regular expressions of them, so it is the same there.

/// Characters of a pattern, wildcards included.
pub(crate) const CHARACTERS_MAX: usize = 4096;

/// Words of the automaton's state: a bit for each place between characters.
const WORDS_MAX: usize = CHARACTERS_MAX / 64 + 1;

/// A pattern that has a meaning, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikePattern {
    text: String,
    escape: Option<char>,
}

/// Why a pattern has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It ends in its escape character.
    EscapeAtEnd,
    /// It holds a control character.
    ControlCharacter,
    /// It has more than so many characters.
    TooLong {
        /// The bound.
        characters_max: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Symbol {
    Many,
    One,
    Character(char),
}

impl LikePattern {
    /// A pattern; after `escape`, if there is one, a character stands for itself.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn new(text: impl Into<String>, escape: Option<char>) -> Result<LikePattern, PatternError> {
        let pattern = LikePattern { text: text.into(), escape };
        if pattern.text.chars().count() > CHARACTERS_MAX {
            return Err(PatternError::TooLong { characters_max: CHARACTERS_MAX });
        }
        for symbol in pattern.symbols() {
            if matches!(symbol?, Symbol::Character(character) if character.is_ascii_control()) {
                return Err(PatternError::ControlCharacter);
            }
        }
        Ok(pattern)
    }

    /// The pattern of all subjects that start with a text, which may be anything.
    pub(crate) fn prefix(text: &str) -> LikePattern {
        LikePattern { text: escaped(text) + "%", escape: Some(ESCAPE) }
    }

    /// The pattern of all subjects that end in a text, which may be anything.
    pub(crate) fn suffix(text: &str) -> LikePattern {
        LikePattern { text: "%".to_owned() + &escaped(text), escape: Some(ESCAPE) }
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its escape character.
    pub fn escape(&self) -> Option<char> {
        self.escape
    }

    fn symbols(&self) -> impl Iterator<Item = Result<Symbol, PatternError>> {
        let mut characters = self.text.chars();
        std::iter::from_fn(move || {
            let character = characters.next()?;
            // The escape character is looked for first: it may be a wildcard or a control character.
            Some(match character {
                _ if Some(character) == self.escape => {
                    characters.next().map(Symbol::Character).ok_or(PatternError::EscapeAtEnd)
                }
                '%' => Ok(Symbol::Many),
                '_' => Ok(Symbol::One),
                _ => Ok(Symbol::Character(character)),
            })
        })
    }

    /// The pattern ready to be matched. Only the patterns of `prefix` and `suffix` can be longer than
    /// [`CHARACTERS_MAX`], and those need no automaton.
    pub(crate) fn matcher(&self) -> Matcher {
        // A pattern was checked when it was made: there are no errors among its symbols.
        let symbols = || self.symbols().flatten();
        let is_plain = |symbol: Symbol| matches!(symbol, Symbol::Character(_));
        let text = |symbols: &mut dyn Iterator<Item = Symbol>| {
            let characters = symbols.map_while(|symbol| match symbol {
                Symbol::Character(character) => Some(character),
                _ => None,
            });
            characters.collect::<String>().into_bytes().into_boxed_slice()
        };
        let (many, one) = symbols().fold((0, 0), |(many, one), symbol| match symbol {
            Symbol::Many => (many + 1, one),
            Symbol::One => (many, one + 1),
            Symbol::Character(_) => (many, one),
        });
        match (many, one) {
            (0, 0) => Matcher::Exact(text(&mut symbols())),
            (1, 0) => Matcher::Affixes {
                prefix: text(&mut symbols()),
                suffix: text(&mut symbols().skip_while(|symbol| is_plain(*symbol)).skip(1)),
            },
            _ => Matcher::Wild(Box::new(Automaton::new(symbols()))),
        }
    }
}

/// A pattern ready to be matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Matcher {
    Exact(Box<[u8]>),
    Affixes { prefix: Box<[u8]>, suffix: Box<[u8]> },
    Wild(Box<Automaton>),
}

impl Matcher {
    /// Bytes it keeps on the heap.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Matcher::Exact(text) => text.len(),
            Matcher::Affixes { prefix, suffix } => prefix.len() + suffix.len(),
            Matcher::Wild(automaton) => {
                size_of::<Automaton>()
                    + size_of_val(&*automaton.loops)
                    + size_of_val(&*automaton.any)
                    + size_of_val(&*automaton.characters)
                    + size_of_val(&*automaton.places)
            }
        }
    }

    /// Words of state that each character of a subject is held against.
    pub(crate) fn words(&self) -> usize {
        match self {
            Matcher::Exact(_) | Matcher::Affixes { .. } => 1,
            Matcher::Wild(automaton) => automaton.loops.len(),
        }
    }

    /// Whether it looks at every character of a subject, not at its ends alone.
    pub(crate) fn sees_all(&self) -> bool {
        matches!(self, Matcher::Wild(_))
    }

    /// Whether the pattern is like this; `None` if nobody can say.
    pub(crate) fn matches(&self, subject: &[u8]) -> Option<bool> {
        match self {
            Matcher::Exact(text) => Some(subject == &**text),
            Matcher::Affixes { prefix, suffix } => {
                let is_long = subject.len() >= prefix.len() + suffix.len();
                Some(is_long && subject.starts_with(prefix) && subject.ends_with(suffix))
            }
            Matcher::Wild(automaton) => {
                let subject = std::str::from_utf8(subject).ok()?;
                let subject = subject.strip_suffix('\n').unwrap_or(subject);
                Some(automaton.matches(subject))
            }
        }
    }
}

/// Bit `i` of the state: the subject so far is like the first `i` characters of the pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Automaton {
    /// Whether any number of characters may stand before character `i`, or after the last one.
    loops: Box<[u64]>,
    /// Whether character `i` may be any.
    any: Box<[u64]>,
    /// The characters of the pattern in order, each once, with the first of its `places`.
    characters: Box<[(char, u16)]>,
    /// Where a character stands: words that are not zero, in order.
    places: Box<[(u16, u64)]>,
    /// Where an ASCII character stands among `characters`; [`ABSENT`] if nowhere.
    ascii: [u8; 128],
    /// The place after the last character.
    end: usize,
}

/// No character of the pattern. Control characters are none, so fewer than 128 characters are ASCII.
const ABSENT: u8 = u8::MAX;

impl Automaton {
    fn new(symbols: impl Iterator<Item = Symbol>) -> Automaton {
        let mut loops = vec![0u64];
        let mut any = vec![0u64];
        let mut letters = Vec::new();
        let mut end = 0;
        for symbol in symbols {
            match symbol {
                Symbol::Many => {
                    loops[end / 64] |= 1 << (end % 64);
                    continue;
                }
                Symbol::One => any[end / 64] |= 1 << (end % 64),
                Symbol::Character(character) => letters.push((character, end)),
            }
            end += 1;
            loops.resize(end / 64 + 1, 0);
            any.resize(end / 64 + 1, 0);
        }
        letters.sort_unstable();
        let mut characters: Vec<(char, u16)> = Vec::new();
        let mut places: Vec<(u16, u64)> = Vec::new();
        for (character, place) in letters {
            let (word, bit) = (word_number(place / 64), 1 << (place % 64));
            if characters.last().is_none_or(|last| last.0 != character) {
                characters.push((character, word_number(places.len())));
                places.push((word, bit));
            } else {
                match places.last_mut() {
                    Some(last) if last.0 == word => last.1 |= bit,
                    _ => places.push((word, bit)),
                }
            }
        }
        let mut ascii = [ABSENT; 128];
        for (index, (character, _)) in (0u8..).zip(characters.iter().take_while(|letter| letter.0.is_ascii()))
        {
            ascii[*character as usize] = index;
        }
        Automaton {
            loops: loops.into_boxed_slice(),
            any: any.into_boxed_slice(),
            characters: characters.into_boxed_slice(),
            places: places.into_boxed_slice(),
            ascii,
            end,
        }
    }

    fn index(&self, character: char) -> Option<usize> {
        match self.ascii.get(character as usize) {
            Some(&ABSENT) => None,
            Some(&index) => Some(usize::from(index)),
            None => self.characters.binary_search_by_key(&character, |letter| letter.0).ok(),
        }
    }

    fn matches(&self, subject: &str) -> bool {
        match self.loops.len() {
            1 => self.matches_short(subject),
            _ => self.matches_long(subject),
        }
    }

    fn matches_short(&self, subject: &str) -> bool {
        let (loops, any) = (self.loops[0], self.any[0]);
        let mut state = 1u64;
        for character in subject.chars() {
            if character == '\n' {
                return false;
            }
            // Of one word there is one place a character.
            let bits = self.index(character).map_or(0, |index| self.places[index].1);
            state = (state & (any | bits)) << 1 | state & loops;
            if state == 0 {
                return false;
            }
        }
        state >> self.end & 1 == 1
    }

    fn matches_long(&self, subject: &str) -> bool {
        let mut state = [0u64; WORDS_MAX];
        let state = &mut state[..self.loops.len()];
        state[0] = 1;
        for character in subject.chars() {
            if character == '\n' {
                return false;
            }
            let mut places = self.places_of(character).iter().peekable();
            let (mut carry, mut alive) = (0, 0);
            for (word, state) in state.iter_mut().enumerate() {
                let bits = places.next_if(|place| usize::from(place.0) == word).map_or(0, |place| place.1);
                let moved = *state & (self.any[word] | bits);
                *state = moved << 1 | carry | *state & self.loops[word];
                carry = moved >> 63;
                alive |= *state;
            }
            if alive == 0 {
                return false;
            }
        }
        state[self.end / 64] >> (self.end % 64) & 1 == 1
    }

    fn places_of(&self, character: char) -> &[(u16, u64)] {
        let Some(index) = self.index(character) else { return &[] };
        let first = usize::from(self.characters[index].1);
        let last = self.characters.get(index + 1).map_or(self.places.len(), |next| usize::from(next.1));
        &self.places[first..last]
    }
}

/// The escape character of patterns made here: it stands before `%`, `_` and itself where they are meant literally.
const ESCAPE: char = '\\';

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if matches!(character, '%' | '_' | ESCAPE) {
            escaped.push(ESCAPE);
        }
        escaped.push(character);
    }
    escaped
}

fn word_number(number: usize) -> u16 {
    u16::try_from(number).expect("a pattern has at most CHARACTERS_MAX characters")
}

#[cfg(test)]
mod tests {
    use super::{CHARACTERS_MAX, LikePattern, PatternError};

    fn check(pattern: &str, subject: &str, expected: bool) {
        let matcher = LikePattern::new(pattern, Some('\\')).expect("a pattern").matcher();
        assert_eq!(matcher.matches(subject.as_bytes()), Some(expected), "{subject:?} LIKE {pattern:?}");
    }

    #[test]
    fn wildcards_stand_for_characters() {
        for (pattern, subject, expected) in [
            ("", "", true),
            ("", "a", false),
            ("a%a", "a", false),
            ("a%a", "aa", true),
            ("%%", "", true),
            ("_", "", false),
            ("_", "ä", true),
            ("__", "ä", false),
            ("%a%b%", "xbxa", false),
            ("%a%b%", "xaxb", true),
            ("%ab%", "aab", true),
            ("_%_", "a", false),
            ("\\_%x%", "_x", true),
            ("\\_%x%", "ax", false),
            ("%🥕_", "🥕🥕x", true),
        ] {
            check(pattern, subject, expected);
        }
    }

    #[test]
    fn a_line_feed_is_no_character_of_the_wildcards_of_two() {
        check("a%", "a\nb", true);
        check("%%", "a\nb", false);
        check("a_b", "a\nb", false);
        check("a_", "ab\n", true);
        check("a_", "ab\n\n", false);
        check("_%", "\n", false);
        check("%%", "\n", true);
    }

    #[test]
    fn a_pattern_crosses_words() {
        for length in [62, 63, 64, 65, 127, 128, 129, 1000, CHARACTERS_MAX - 2] {
            let long = "ab🥕".chars().cycle().take(length).collect::<String>();
            check(&format!("{long}_%"), &format!("{long}x"), true);
            check(&format!("{long}_%"), &long, false);
            check(&format!("%_{long}"), &format!("{long}x{long}"), true);
            check(&format!("_%{long}"), &format!("x{}", &long[1..]), false);
        }
    }

    #[test]
    fn a_pattern_without_meaning_is_refused() {
        let error = |pattern: &str| LikePattern::new(pattern, Some('!')).expect_err("no pattern");
        assert_eq!(error("_a!"), PatternError::EscapeAtEnd);
        assert_eq!(error("%a\u{7f}"), PatternError::ControlCharacter);
        assert_eq!(error("!\n"), PatternError::ControlCharacter);
        assert!(LikePattern::new("x".repeat(CHARACTERS_MAX), None).is_ok());
        assert_eq!(
            error(&"x".repeat(CHARACTERS_MAX + 1)),
            PatternError::TooLong { characters_max: CHARACTERS_MAX }
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_like_no_wildcard() {
        let matches =
            |pattern: &str| LikePattern::new(pattern, None).expect("a pattern").matcher().matches(&[97, 255]);
        assert_eq!(matches("a%"), Some(true));
        assert_eq!(matches("a_"), None);
    }
}
