//! The Erlang terms of `advanced.config`, as far as configurations use them: atoms, numbers, strings, binaries, lists
//! and tuples. Not a parser for Erlang.

/// Terms within terms.
const DEPTH_MAX: usize = 32;

/// One term.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `name` or `'name'`.
    Atom(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// `"text"` or `<<"text">>`.
    Text(String),
    /// `[a, b]`.
    List(Vec<Term>),
    /// `{a, b}`.
    Tuple(Vec<Term>),
}

/// Reads one term and the full stop behind it.
///
/// # Errors
/// The line, from 1, and what was expected there.
pub fn read(text: &str) -> Result<Term, (usize, &'static str)> {
    read_placed(text).map(|(term, _)| term)
}

/// The same, with the lines, from 1, in which its tuples begin, outer ones before those within them.
///
/// # Errors
/// As there.
pub fn read_placed(text: &str) -> Result<(Term, Vec<u32>), (usize, &'static str)> {
    let mut reader = Reader { text, rest: text, tuples: Vec::new() };
    let line = |reader: &Reader<'_>| 1 + text[..text.len() - reader.rest.len()].matches('\n').count();
    let term = reader.term(0).map_err(|expected| (line(&reader), expected))?;
    if !reader.skip(".") {
        return Err((line(&reader), "a full stop after the list"));
    }
    reader.skip_space();
    if !reader.rest.is_empty() {
        return Err((line(&reader), "nothing after the full stop"));
    }
    let (mut line, mut behind) = (1, 0);
    let lines = reader.tuples.into_iter().map(|at| {
        line += text[behind..at].matches('\n').count() as u32;
        behind = at;
        line
    });
    Ok((term, lines.collect()))
}

impl Term {
    /// The number of tuples that it is or holds.
    pub fn tuples(&self) -> usize {
        match self {
            Term::List(items) => items.iter().map(Term::tuples).sum(),
            Term::Tuple(items) => 1 + items.iter().map(Term::tuples).sum::<usize>(),
            Term::Atom(_) | Term::Integer(_) | Term::Float(_) | Term::Text(_) => 0,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    /// Where tuples begin, in bytes.
    tuples: Vec<usize>,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('%') {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_comment, rest)| rest);
        }
    }

    /// Skips `word` and the space before it, if it comes next.
    fn skip(&mut self, word: &str) -> bool {
        self.skip_space();
        let behind = self.rest.strip_prefix(word);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn term(&mut self, depth: usize) -> Result<Term, &'static str> {
        if depth == DEPTH_MAX {
            return Err("fewer terms within terms");
        }
        if self.skip("[") {
            return self.items("]", depth).map(Term::List);
        }
        if self.skip("{") {
            self.tuples.push(self.text.len() - self.rest.len());
            return self.items("}", depth).map(Term::Tuple);
        }
        if self.skip("<<") {
            let text = if self.skip("\"") { self.quoted('"')? } else { String::new() };
            self.skip("/utf8");
            return if self.skip(">>") { Ok(Term::Text(text)) } else { Err("a binary of text") };
        }
        if self.skip("\"") {
            return self.quoted('"').map(Term::Text);
        }
        if self.skip("'") {
            return self.quoted('\'').map(Term::Atom);
        }
        self.word()
    }

    fn items(&mut self, end: &str, depth: usize) -> Result<Vec<Term>, &'static str> {
        let mut items = Vec::new();
        if self.skip(end) {
            return Ok(items);
        }
        loop {
            items.push(self.term(depth + 1)?);
            if self.skip(end) {
                return Ok(items);
            }
            if !self.skip(",") {
                return Err(if end == "]" { "',' or ']'" } else { "',' or '}'" });
            }
        }
    }

    fn quoted(&mut self, end: char) -> Result<String, &'static str> {
        let mut value = String::new();
        let mut characters = self.rest.chars();
        loop {
            match characters.next() {
                None => return Err("a closing quote"),
                Some(next) if next == end => break,
                Some('\\') => value.push(characters.next().ok_or("a closing quote")?),
                Some(next) => value.push(next),
            }
        }
        self.rest = characters.as_str();
        Ok(value)
    }

    fn word(&mut self) -> Result<Term, &'static str> {
        let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '-' | '+');
        let mut len = self.rest.find(|c: char| !is_inside(c)).unwrap_or(self.rest.len());
        let is_number = self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if is_number && self.rest[len..].starts_with('.') {
            let digits = &self.rest[len + 1..];
            let more = digits.find(|c: char| !is_inside(c)).unwrap_or(digits.len());
            len += if more > 0 { 1 + more } else { 0 };
        }
        let (word, rest) = self.rest.split_at(len);
        let term = match word.chars().next() {
            Some(first) if first.is_lowercase() => Some(Term::Atom(word.to_owned())),
            Some(_) if is_number => {
                let integer = word.parse().map(Term::Integer).ok();
                integer.or_else(|| word.parse().map(Term::Float).ok())
            }
            _ => None,
        };
        self.rest = if term.is_some() { rest } else { self.rest };
        debug_assert!(self.text.ends_with(self.rest));
        term.ok_or("a term")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn atom(name: &str) -> Term {
        Term::Atom(name.to_owned())
    }

    #[test]
    fn terms_are_read() {
        let check = |text: &str, expected: Result<Term, (usize, &'static str)>| {
            assert_eq!(read(text), expected, "{text}");
        };
        check("[].", Ok(Term::List(vec![])));
        check("a.", Ok(atom("a")));
        check("'A b'. % end", Ok(atom("A b")));
        check("-12.", Ok(Term::Integer(-12)));
        check("0.5.", Ok(Term::Float(0.5)));
        check("<<\"x\">>.", Ok(Term::Text("x".into())));
        check("<<\"x\"/utf8>>.", Ok(Term::Text("x".into())));
        check("<<>>.", Ok(Term::Text(String::new())));
        let pair =
            Term::Tuple(vec![atom("credit"), Term::Tuple(vec![Term::Integer(400), Term::Integer(200)])]);
        let rabbit = Term::Tuple(vec![atom("rabbit"), Term::List(vec![pair])]);
        check("%% head\n[\n {rabbit, [{credit, {400, 200}}]}\n].\n", Ok(Term::List(vec![rabbit])));
        check("[a,\n b", Err((2, "',' or ']'")));
        check("[a]", Err((1, "a full stop after the list")));
        check("[a].\nb.", Err((2, "nothing after the full stop")));
        check("{a, B}.", Err((1, "a term")));
        check("\"a", Err((1, "a closing quote")));
        check(&"[".repeat(100_000), Err((1, "fewer terms within terms")));
    }

    #[test]
    fn tuples_have_their_lines() {
        let text = "% head\n[{a,\n  [{b, {1, 2}},\n\n {c, [{d, 1}]}]},\n {e, []}].";
        let (term, lines) = read_placed(text).expect("read");
        assert_eq!(lines, [2, 3, 3, 5, 5, 6]);
        assert_eq!(term.tuples(), lines.len());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[\\[\\]{}<>'\"a-cA-C0-9.,%\\\\é \n-]{0,60}") {
            let _ = read(&text);
        }
    }
}
