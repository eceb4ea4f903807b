//! Patterns of topic bindings over one routing key: `*` is one word, `#` any number of them, none included.
//!
//! Words are the parts between dots, and may be empty; an empty text has none. Only the last `#` takes more words when
//! the rest does not fit: what stands before it was found as early as it comes, and later would leave less. Comparisons of
//! words, at most (words of the key) × (words of the pattern), are counted in the room.

use crate::found::Room;
use crate::value::Value;

/// Bytes of a topic pattern, as of the routing key of a binding (a short string, AMQP 0-9-1 section 4.2.5.3).
pub const PATTERN_BYTES_MAX: usize = 255;

/// Bytes of two words that are compared in a unit of work, beside the one of each comparison.
const BYTES_A_UNIT: usize = 8;

/// A topic pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPattern {
    text: Box<str>,
}

impl TopicPattern {
    /// The pattern of a text; none of a text of more than [`PATTERN_BYTES_MAX`].
    pub fn new(text: String) -> Option<TopicPattern> {
        (text.len() <= PATTERN_BYTES_MAX).then(|| TopicPattern { text: text.into() })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes it keeps on the heap.
    pub(crate) fn memory(&self) -> usize {
        self.text.len()
    }

    /// Whether it matches a routing key: unknown if that is no text, or takes more work than is left.
    pub(crate) fn matches(&self, key: Value<'_>, room: &Room) -> Value<'static> {
        key.ask(|key| match key {
            Value::Bytes(key) => self.is_of(key, room),
            _ => None,
        })
    }

    fn is_of(&self, key: &[u8], room: &Room) -> Option<bool> {
        let (mut words, mut pattern) = (Words::of(key), Words::of(self.text.as_bytes()));
        // The pattern behind the last `#`, and the words that it has not passed over.
        let mut again: Option<(Words<'_>, Words<'_>)> = None;
        loop {
            let (word, wanted) = (words.clone().next(), pattern.next());
            let compared = word.unwrap_or_default().len().min(wanted.unwrap_or_default().len());
            if !room.affords(1 + compared / BYTES_A_UNIT) {
                return None;
            }
            match (word, wanted) {
                (_, Some(b"#")) => {
                    again = Some((pattern.clone(), words.clone()));
                    continue;
                }
                (None, None) => return Some(true),
                (Some(_), Some(b"*")) => {
                    words.next();
                    continue;
                }
                (Some(word), Some(wanted)) if word == wanted => {
                    words.next();
                    continue;
                }
                // No word is left that the last `#` could pass over.
                (None, Some(_)) => return Some(false),
                (Some(_), _) => {}
            }
            let Some((behind, left)) = &mut again else { return Some(false) };
            left.next();
            (pattern, words) = (behind.clone(), left.clone());
        }
    }
}

/// The words of a text that are left.
#[derive(Clone)]
struct Words<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Words<'a> {
    fn of(text: &'a [u8]) -> Words<'a> {
        Words { rest: (!text.is_empty()).then_some(text) }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let length = rest.iter().position(|byte| *byte == b'.').unwrap_or(rest.len());
        self.rest = rest.get(length + 1..);
        Some(&rest[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pattern: &str, key: &str) -> Value<'static> {
        TopicPattern::new(pattern.to_owned()).unwrap().matches(Value::Bytes(key.as_bytes()), &Room::default())
    }

    #[test]
    fn words_are_matched() {
        for (pattern, key, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.", true),
            ("*", "", false),
            ("#", "", true),
            ("", "", true),
            ("", "a", false),
            (".", "..", false),
            ("*.*", ".", true),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("#.c", "a.b.c", true),
            ("#.c", "a.b.c.d", false),
            ("#.b.#", "a.b.c", true),
            ("#.b.#", "a.c", false),
            ("a.#.b.#.c", "a.x.b.b.y.c", true),
            ("a.#.b.*.c", "a.b.b.x.c", true),
            ("a.#.b.*.c", "a.b.x.y.c", false),
            ("#.#", "", true),
            ("*.#.*", "a", false),
            ("*.#.*", "a.b", true),
            ("a*", "ab", false),
            ("a#", "a#", true),
        ] {
            assert_eq!(verdict(pattern, key), Value::Bool(expected), "{pattern} {key}");
        }
    }

    #[test]
    fn all_keys_of_three_letters_are_matched_as_by_trying() {
        fn tries(pattern: &[&str], key: &[&str]) -> bool {
            match (pattern, key) {
                ([], []) => true,
                (["#", rest @ ..], key) => tries(rest, key) || !key.is_empty() && tries(pattern, &key[1..]),
                ([wanted, rest @ ..], [word, words @ ..]) => {
                    (*wanted == "*" || wanted == word) && tries(rest, words)
                }
                _ => false,
            }
        }
        fn all<'a>(words: &[&'a str], most: usize) -> Vec<Vec<&'a str>> {
            let mut found = vec![vec![]];
            let mut from = 0;
            for _ in 0..most {
                let end = found.len();
                for at in from..end {
                    let longer = words.iter().map(|word| [&found[at][..], &[*word]].concat());
                    let longer: Vec<_> = longer.collect();
                    found.extend(longer);
                }
                from = end;
            }
            found
        }
        for pattern in all(&["a", "b", "*", "#"], 4) {
            for key in all(&["a", "b"], 5) {
                let expected = Value::Bool(tries(&pattern, &key));
                assert_eq!(verdict(&pattern.join("."), &key.join(".")), expected, "{pattern:?} {key:?}");
            }
        }
    }

    #[test]
    fn work_is_bounded_and_linear_where_one_wildcard_is() {
        let pattern = |text: &str| TopicPattern::new(text.to_owned()).unwrap();
        assert_eq!(TopicPattern::new("a".repeat(PATTERN_BYTES_MAX + 1)), None);
        let spent = |text: &str, key: &str| {
            let room = Room::default();
            let verdict = pattern(text).matches(Value::Bytes(key.as_bytes()), &room);
            (verdict, room.spent())
        };
        for words in [100, 200, 30_000] {
            let (verdict, units) = spent("#.b", &"a.".repeat(words));
            assert_eq!(verdict, Value::Bool(false));
            assert!((words..=3 * words + 10).contains(&units), "{units} for {words}");
        }
        let (verdict, units) = spent(&("#.".to_owned() + &"a.".repeat(120) + "b"), &"a.".repeat(30_000));
        assert_eq!(verdict, Value::Null);
        assert!(units <= crate::WORK_MAX, "{units}");
    }
}
