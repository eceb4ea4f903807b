//! Calls in a text: which names it uses as functions that the language does not have itself.
//!
//! The text alone decides, not the macros there are: whoever counts the uses of macros finds the same when a text comes
//! and when it goes. Of an expression that can be read all calls are found; of others as many as are seen.

use crate::asker::Asked;
use crate::error::ErrorKind;
use crate::function::Function;
use crate::lexer::{Lexer, TokenKind, is_reserved};
use crate::limits::Limits;
use crate::macros::folded;
use crate::message::MessageField;
use crate::site::Names;
use std::collections::BTreeSet;

/// Functions that are in no table, and words that the parser alone knows.
const WORDS: [&str; 16] = [
    "AS",
    "BETWEEN",
    "BODY",
    "CASE",
    "CAST",
    "CLAIM",
    "ELSE",
    "END",
    "EXISTS",
    "JSON_VALUE",
    "REGEXP_LIKE",
    "REGEXP_REPLACE",
    "THEN",
    "TOPIC_MATCH",
    "UNKNOWN",
    "WHEN",
];

/// Whether a name is a function or a word of the language, in any case.
pub(crate) fn is_built_in(name: &str) -> bool {
    is_reserved(name)
        || WORDS.iter().any(|word| word.eq_ignore_ascii_case(name))
        || Function::named(name).or_else(|| Function::of_type(name)).is_some()
        || MessageField::named(name).is_some()
        || Asked::named(name).is_some()
}

/// The names that stand before an opening bracket and are not the language's own, [folded].
pub fn calls(text: &str) -> BTreeSet<Box<str>> {
    let mut found = BTreeSet::new();
    let boundless = Limits { characters_max: usize::MAX, tokens_max: usize::MAX, ..Limits::content() };
    let Ok(mut lexer) = Lexer::new(text, &boundless, Names::Own) else { return found };
    let mut before: Option<String> = None;
    loop {
        match lexer.next() {
            Ok(token) => {
                // Behind a word a stroke may begin a path, as in `WHEN /a/b`. It is read as a quotient of words either
                // way: there are the same calls in it.
                lexer.awaits_operand = !matches!(
                    token.kind,
                    TokenKind::Literal(_) | TokenKind::Name(_) | TokenKind::Word(_) | TokenKind::Close
                );
                match token.kind {
                    TokenKind::End => return found,
                    TokenKind::Open => {
                        found.extend(
                            before.take().filter(|name| !is_built_in(name)).map(|name| folded(&name)),
                        );
                    }
                    TokenKind::Word(word) => before = Some(word),
                    _ => before = None,
                }
            }
            // There is no end of it in a text that can be read, and to look for one at each place takes long.
            Err(fault) if fault.kind == ErrorKind::Unterminated => return found,
            Err(fault) => {
                lexer.pass(&fault);
                before = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Site;
    use crate::{Expression, Macros};

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<_> = calls(text).into_iter().collect();
        assert_eq!(found.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn calls_are_names_before_brackets() {
        check("a = 1 AND NOT (b)", &[]);
        check("big(1) OR Fat (/a/b)", &["BIG", "FAT"]);
        check("UPPER(x) = big(low(1)) AND EXISTS(a) AND a IN (1, one())", &["BIG", "LOW", "ONE"]);
        check("'big(1)' = [small(1)] AND body['x(1)'] = \"y(1)\"", &[]);
        check("CASE WHEN (a) THEN (b) WHEN big(1) THEN (c) ELSE (d) END", &["BIG"]);
        check("CASE WHEN /@id = 1 THEN f(/@x) ELSE /a / g(1) END", &["F", "G"]);
        check("x BETWEEN /Order/@id AND f(1) AND a/g(1) > 0", &["F", "G"]);
        check("a IS UNKNOWN OR CAST(f(1) AS NUMBER) = 1 AND UTC() > 0", &["F"]);
        check("p.subject = f() OR header.priority > g()", &["F", "G"]);
    }

    #[test]
    fn texts_that_cannot_be_read_are_gone_through_once() {
        check("§ f(1) ?? g(2) é", &["F", "G"]);
        check("f(1) = 'open g(1)", &["F"]);
        // To look for an end at each place would take long.
        check(&"[".repeat(64 << 10), &[]);
        check(&"?".repeat(64 << 10), &[]);
        check(&"a-".repeat(32 << 10), &[]);
    }

    #[test]
    fn the_language_knows_its_own_words() {
        let site = Site {
            limits: Limits::content(),
            known: crate::Known::ALL,
            names: Names::Own,
            macros: Macros::none(),
        };
        let own = WORDS.into_iter().filter(|word| {
            let fault = Expression::parse_at(&format!("{word}('$.a')"), &site);
            !matches!(fault, Err(error) if matches!(error.kind, ErrorKind::UnknownFunction(_)))
        });
        let functions =
            ["BODY", "CAST", "CLAIM", "EXISTS", "JSON_VALUE", "REGEXP_LIKE", "REGEXP_REPLACE", "TOPIC_MATCH"];
        assert_eq!(own.collect::<Vec<_>>(), functions);
        for name in ["and", "Left", "case", "size", "user", "claim", "timestamp", "text", "utc", "date"] {
            assert!(is_built_in(name), "{name}");
        }
        assert!(!is_built_in("big") && !is_built_in("order"));
    }
}
