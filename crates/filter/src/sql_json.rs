//! Paths in the body as SQL/JSON writes them (ISO 9075-2 section 9.39): `$.a.b[0]`, `$."any name"`, `$.a[*]`. They are
//! lax, as all paths are; filters, methods, `.*` and ranges of places are no part of them.

use crate::error::ErrorKind;
use crate::json;
use crate::path::{Path, Step};

/// The fault of a path, and bytes before its place.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) kind: ErrorKind,
}

/// The path that a text is.
///
/// # Errors
/// The fault and its place.
pub(crate) fn path(text: &str) -> Result<Path, Fault> {
    let mut reader = Reader { text, at: 0 };
    reader.blanks();
    if reader.rest().starts_with("lax ") {
        reader.at += 4;
        reader.blanks();
    }
    reader.expect('$', "$")?;
    let mut steps = Vec::new();
    loop {
        reader.blanks();
        let at = reader.at;
        steps.push(match reader.rest().chars().next() {
            None if steps.is_empty() => return Err(reader.expected("a step behind the $")),
            None => break,
            Some('.') => {
                reader.at += 1;
                reader.blanks();
                Step::Name(reader.name()?)
            }
            Some('[') => {
                reader.at += 1;
                reader.blanks();
                let step = reader.place()?;
                reader.blanks();
                reader.expect(']', "a closing bracket behind the step")?;
                step
            }
            Some(_) => return Err(reader.expected("a point, a bracket or the end of the path")),
        });
        if Path::new(vec![Step::Each; steps.len()]).is_none() {
            return Err(Fault { at, kind: ErrorKind::PathTooLong });
        }
    }
    Path::new(steps).ok_or(Fault { at: 0, kind: ErrorKind::PathTooLong })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.count(|character| matches!(character, ' ' | '\t' | '\n' | '\r'));
    }

    /// Bytes of the characters of a kind that come.
    fn count(&self, is_kind: impl Fn(char) -> bool) -> usize {
        let rest = self.rest();
        rest.find(|character| !is_kind(character)).unwrap_or(rest.len())
    }

    fn expected(&self, what: &'static str) -> Fault {
        Fault { at: self.at, kind: ErrorKind::Expected(what) }
    }

    fn expect(&mut self, character: char, what: &'static str) -> Result<(), Fault> {
        if !self.rest().starts_with(character) {
            return Err(self.expected(what));
        }
        self.at += character.len_utf8();
        Ok(())
    }

    /// A name behind a point, or a text in double quotation marks.
    fn name(&mut self) -> Result<String, Fault> {
        let fault = self.expected("a name behind the point");
        let rest = self.rest();
        if let Some(inside) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let end = inside.find(|character| {
                let ends = character == '"' && !is_escaped;
                is_escaped = character == '\\' && !is_escaped;
                ends
            });
            let end = end.ok_or(Fault { at: self.at, kind: ErrorKind::Unterminated })?;
            let name = json::unescaped(&inside[..end]).ok_or(fault)?;
            self.at += end + 2;
            return Ok(name);
        }
        let length = self.count(|character| character.is_alphanumeric() || matches!(character, '_' | '$'));
        if length == 0 || rest.starts_with(char::is_numeric) {
            return Err(fault);
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    /// A place in a list, or all of them.
    fn place(&mut self) -> Result<Step, Fault> {
        if self.rest().starts_with('*') {
            self.at += 1;
            return Ok(Step::Each);
        }
        let length = self.count(|character| character.is_ascii_digit());
        let place = self.rest()[..length].parse().map_err(|_| self.expected("a place in a list, or *"))?;
        self.at += length;
        Ok(Step::Number(place))
    }
}
