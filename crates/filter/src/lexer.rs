//! From characters to tokens, AMQP Filter Expressions 1.0 section 6.3: always the longest that fits.
//!
//! Places in the body are one token each (`body.a[0]`, `/a/0`). A stroke starts one only where an operand may stand, which
//! the parser says: behind an operand it divides.
//!
//! Keywords are upper case, but in selectors of JMS; the same words in any case are reserved and no names. Before a
//! point a name takes hyphens (`message-annotations.x`), so `a-b.c` is one unknown field and no difference.

use crate::error::{Error, ErrorKind};
use crate::expression::{Literal, Name};
use crate::limits::Limits;
use crate::operator::{Arithmetic, Comparison};
use crate::path::{Path, Step};
use crate::site::Names;
use crate::value::Property;

/// A token and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Literal(Literal),
    Name(Name),
    /// A name without section and brackets: of an application property, a function, or a word of the language that only its
    /// place makes one.
    Word(String),
    Keyword(Keyword),
    Comparison(Comparison),
    Arithmetic(Arithmetic),
    Open,
    Close,
    Comma,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Or,
    Not,
    Like,
    In,
    Is,
    Null,
    Escape,
    Utc,
}

/// The section of places in the body.
const BODY: &str = "body";

/// In place of a section before the names of Qpid's selectors, which are words.
const QPID: &str = "amqp";

/// The section of message annotations.
const ANNOTATIONS: &str = "annotations";

/// Words that are no names, in lower case.
const RESERVED: [&str; 20] = [
    "and",
    "or",
    "not",
    "like",
    "in",
    "is",
    "null",
    "escape",
    "true",
    "false",
    "exists",
    "nan",
    "inf",
    "lower",
    "upper",
    "left",
    "right",
    "substring",
    "utc",
    "date",
];

/// Whether a name needs no brackets.
pub(crate) fn is_regular(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| is_name_byte(&byte))
        && !is_reserved(name)
}

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name))
}

fn is_name_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

fn is_section_byte(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-')
}

/// Gives the tokens of a text one after the other.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens_left: usize,
    tokens_max: usize,
    naming: Names,
    /// Whether an operand comes next, if all is well.
    pub(crate) awaits_operand: bool,
    /// No name that starts before this place has a section before it: the result of one look ahead holds for all names
    /// inside of the text it saw, and so a long row of hyphens is looked at once.
    sectionless_before: usize,
}

impl<'a> Lexer<'a> {
    /// # Errors
    /// A text that is too long.
    pub(crate) fn new(text: &'a str, limits: &Limits, naming: Names) -> Result<Lexer<'a>, Error> {
        if let Some((at, _)) = text.char_indices().nth(limits.characters_max) {
            return Err(Error { at, kind: ErrorKind::TooLong { characters_max: limits.characters_max } });
        }
        Ok(Lexer {
            text,
            at: 0,
            tokens_left: limits.tokens_max,
            tokens_max: limits.tokens_max,
            naming,
            awaits_operand: true,
            sectionless_before: 0,
        })
    }

    /// The next token; at the end [`TokenKind::End`], again and again.
    pub(crate) fn next(&mut self) -> Result<Token, Error> {
        self.at += self.count(0, |byte| matches!(byte, b' ' | b'\t' | b'\x0c' | b'\n' | b'\r'));
        let at = self.at;
        let Some(first) = self.byte(0) else { return Ok(Token { at, kind: TokenKind::End }) };
        if self.tokens_left == 0 {
            return Err(Error { at, kind: ErrorKind::TooManyTokens { tokens_max: self.tokens_max } });
        }
        self.tokens_left -= 1;
        let second = self.byte(1);
        let kind = match (first, second) {
            (b'a'..=b'z' | b'A'..=b'Z', _) => self.word(),
            (b'0'..=b'9', _) => self.number(),
            (b'\'' | b'"', _) => self.string(first),
            (b'[', _) => self.bracketed_name(),
            (b'<', Some(b'>')) | (b'!', Some(b'=')) => {
                Ok(self.sign(2, TokenKind::Comparison(Comparison::NotEqual)))
            }
            (b'<', Some(b'=')) => Ok(self.sign(2, TokenKind::Comparison(Comparison::LessOrEqual))),
            (b'>', Some(b'=')) => Ok(self.sign(2, TokenKind::Comparison(Comparison::GreaterOrEqual))),
            (b'<', _) => Ok(self.sign(1, TokenKind::Comparison(Comparison::Less))),
            (b'>', _) => Ok(self.sign(1, TokenKind::Comparison(Comparison::Greater))),
            (b'=', _) => Ok(self.sign(1, TokenKind::Comparison(Comparison::Equal))),
            (b'+', _) => Ok(self.sign(1, TokenKind::Arithmetic(Arithmetic::Add))),
            (b'-', _) => Ok(self.sign(1, TokenKind::Arithmetic(Arithmetic::Subtract))),
            (b'*', _) => Ok(self.sign(1, TokenKind::Arithmetic(Arithmetic::Multiply))),
            (b'/', Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'@')) if self.awaits_operand => {
                self.strokes()
            }
            (b'/', _) => Ok(self.sign(1, TokenKind::Arithmetic(Arithmetic::Divide))),
            (b'%', _) => Ok(self.sign(1, TokenKind::Arithmetic(Arithmetic::Remainder))),
            (b'(', _) => Ok(self.sign(1, TokenKind::Open)),
            (b')', _) => Ok(self.sign(1, TokenKind::Close)),
            (b',', _) => Ok(self.sign(1, TokenKind::Comma)),
            _ => Err(ErrorKind::IllegalCharacter(self.text[at..].chars().next().unwrap_or_default())),
        };
        kind.map(|kind| Token { at, kind }).map_err(|kind| Error { at, kind })
    }

    /// Goes on behind what is no token, a character at least.
    pub(crate) fn pass(&mut self, fault: &Error) {
        if self.at == fault.at {
            self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        }
    }

    /// Goes on counting tokens where another text of the same expression was left.
    pub(crate) fn share_tokens(&mut self, before: &Lexer<'_>) {
        self.tokens_left = before.tokens_left;
    }

    /// Counts so many tokens, if they may come.
    pub(crate) fn take_tokens(&mut self, count: usize) -> bool {
        let left = self.tokens_left.checked_sub(count);
        self.tokens_left = left.unwrap_or(self.tokens_left);
        left.is_some()
    }

    /// Where in the text a string holds so many bytes before, that starts here: its quotation marks stand there twice.
    pub(crate) fn place_in_string(&self, start: usize, before: &str) -> usize {
        let quote = char::from(self.text.as_bytes()[start]);
        if !matches!(quote, '\'' | '"') {
            // A parameter stands for it.
            return start;
        }
        start + 1 + before.len() + before.matches(quote).count()
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// How many bytes in a row are of a kind, from `ahead` on.
    fn count(&self, ahead: usize, is_kind: impl Fn(&u8) -> bool) -> usize {
        self.text.as_bytes()[self.at + ahead..].iter().take_while(|byte| is_kind(byte)).count()
    }

    fn sign(&mut self, length: usize, kind: TokenKind) -> TokenKind {
        self.at += length;
        kind
    }

    fn take(&mut self, length: usize) -> &'a str {
        let taken = &self.text[self.at..self.at + length];
        self.at += length;
        taken
    }

    /// How long a name with a section is here, and how much of it is before the point.
    fn section_length(&mut self) -> Option<(usize, usize)> {
        if self.at < self.sectionless_before {
            return None;
        }
        let section = self.count(0, is_section_byte);
        let starts_name = self.byte(section + 1).is_some_and(|byte| byte.is_ascii_alphabetic());
        if self.byte(section) != Some(b'.') || !starts_name {
            self.sectionless_before = self.at + section;
            return None;
        }
        Some((section + 1 + self.count(section + 1, is_name_byte), section))
    }

    fn word(&mut self) -> Result<TokenKind, ErrorKind> {
        for (section, name) in [(BODY, None), (ANNOTATIONS, Some(Name::Annotation as fn(String) -> Name))] {
            let is_section = self.text[self.at..].starts_with(section)
                && matches!(self.byte(section.len()), Some(b'.' | b'['));
            if is_section {
                return self.steps(section, name);
            }
        }
        if let Some((length, section_length)) = self.section_length() {
            let word = self.take(length);
            let (section, name) = (&word[..section_length], &word[section_length + 1..]);
            if section == QPID && self.naming == Names::Jms {
                return Ok(TokenKind::Word(word.to_owned()));
            }
            let name = match section {
                "header" | "h" => (name == "priority").then_some(Name::Priority),
                "properties" | "p" => Property::named(name).map(Name::Property),
                "application_properties" | "a" => Some(Name::ApplicationProperty(name.to_owned())),
                _ => None,
            };
            return name.map(TokenKind::Name).ok_or_else(|| ErrorKind::UnknownField(word.to_owned()));
        }
        let length = self.count(0, is_name_byte);
        let word = self.take(length);
        let keyword = match self.naming {
            Names::Jms if is_reserved(word) => &*word.to_ascii_uppercase(),
            _ => word,
        };
        Ok(match keyword {
            "AND" => TokenKind::Keyword(Keyword::And),
            "OR" => TokenKind::Keyword(Keyword::Or),
            "NOT" => TokenKind::Keyword(Keyword::Not),
            "LIKE" => TokenKind::Keyword(Keyword::Like),
            "IN" => TokenKind::Keyword(Keyword::In),
            "IS" => TokenKind::Keyword(Keyword::Is),
            "NULL" => TokenKind::Keyword(Keyword::Null),
            "ESCAPE" => TokenKind::Keyword(Keyword::Escape),
            "UTC" => TokenKind::Keyword(Keyword::Utc),
            "TRUE" => TokenKind::Literal(Literal::Bool(true)),
            "FALSE" => TokenKind::Literal(Literal::Bool(false)),
            _ if is_reserved(word) && !self.starts_arguments() => {
                return Err(ErrorKind::ReservedWord(word.to_owned()));
            }
            _ => TokenKind::Word(word.to_owned()),
        })
    }

    /// Whether an opening bracket comes next.
    fn starts_arguments(&self) -> bool {
        self.text[self.at..].trim_start_matches([' ', '\t', '\x0c', '\n', '\r']).starts_with('(')
    }

    /// Steps behind the name of a section: `.name`, `['any name']`, and in the body `[0]` and `[*]`.
    fn steps(&mut self, section: &str, single: Option<fn(String) -> Name>) -> Result<TokenKind, ErrorKind> {
        self.at += section.len();
        let mut steps = Vec::new();
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(b'.'), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_')) => {
                    self.at += 1;
                    let length = self.count(0, is_name_byte);
                    steps.push(Step::Name(self.take(length).to_owned()));
                }
                (Some(b'['), Some(quote @ (b'\'' | b'"'))) => {
                    self.at += 1;
                    let TokenKind::Literal(Literal::String(name)) = self.string(quote)? else {
                        unreachable!("a string was there")
                    };
                    self.close_step()?;
                    steps.push(Step::Name(name));
                }
                (Some(b'['), Some(b'*')) => {
                    self.at += 2;
                    self.close_step()?;
                    steps.push(Step::Each);
                }
                (Some(b'['), _) => {
                    self.at += 1;
                    steps.push(self.place()?);
                    self.close_step()?;
                }
                (Some(b'.'), _) => return Err(ErrorKind::Expected("a name behind the point")),
                _ => break,
            }
        }
        let Some(name) = single else { return path(steps) };
        match <[Step; 1]>::try_from(steps) {
            Ok([Step::Name(step)]) => Ok(TokenKind::Name(name(step))),
            _ => Err(ErrorKind::Expected("one name behind the section")),
        }
    }

    fn close_step(&mut self) -> Result<(), ErrorKind> {
        match self.byte(0) {
            Some(b']') => {
                self.at += 1;
                Ok(())
            }
            _ => Err(ErrorKind::Expected("a closing bracket behind the step")),
        }
    }

    /// The number of an element.
    fn place(&mut self) -> Result<Step, ErrorKind> {
        let length = self.count(0, u8::is_ascii_digit);
        self.take(length)
            .parse()
            .map(Step::Number)
            .map_err(|_| ErrorKind::Expected("a place in a list, * or a name in quotation marks"))
    }

    /// A path as XPath has it: `/name`, `/@name` and `/0`, and one place in brackets at the end.
    fn strokes(&mut self) -> Result<TokenKind, ErrorKind> {
        let mut steps = Vec::new();
        while let (Some(b'/'), Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'@')) =
            (self.byte(0), self.byte(1))
        {
            self.at += 1;
            let sign = usize::from(self.byte(0) == Some(b'@'));
            let length = sign + self.count(sign, is_name_byte);
            let word = self.take(length);
            if word == "@" {
                return Err(ErrorKind::Expected("a name behind the @"));
            }
            let is_place = word.bytes().all(|byte| byte.is_ascii_digit());
            steps.push(match word.parse() {
                Ok(place) if is_place => Step::Number(place),
                _ => Step::Name(word.to_owned()),
            });
        }
        if self.byte(0) == Some(b'[') {
            self.at += 1;
            steps.push(self.place()?);
            self.close_step()?;
        }
        path(steps)
    }

    /// A binary, `0x` and pairs of upper-case digits; an approximate number, digits on both sides of its point; or an
    /// exact one. The rest is left to the next token.
    fn number(&mut self) -> Result<TokenKind, ErrorKind> {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        if self.byte(0) == Some(b'0') && self.byte(1) == Some(b'x') {
            let pairs = self.count(2, is_hex) / 2;
            if pairs > 0 {
                let digits = &self.take(2 + 2 * pairs)[2..];
                let pair = |pair: &[u8]| pair.iter().fold(0u8, |byte, digit| byte << 4 | hex(*digit));
                return Ok(TokenKind::Literal(Literal::Binary(
                    digits.as_bytes().chunks(2).map(pair).collect(),
                )));
            }
        }
        let whole = self.count(0, u8::is_ascii_digit);
        let fraction = match self.byte(whole) {
            Some(b'.') => self.count(whole + 1, u8::is_ascii_digit),
            _ => 0,
        };
        if fraction == 0 {
            let digits = self.take(whole);
            return match digits.parse() {
                Ok(integer) => Ok(TokenKind::Literal(Literal::Integer(integer))),
                // Beyond 128 bits nothing in a message is exact either.
                Err(_) => float(digits),
            };
        }
        let mut length = whole + 1 + fraction;
        if self.byte(length) == Some(b'E') {
            let sign = usize::from(matches!(self.byte(length + 1), Some(b'+' | b'-')));
            match self.count(length + 1 + sign, u8::is_ascii_digit) {
                0 => {}
                digits => length += 1 + sign + digits,
            }
        }
        float(self.take(length))
    }

    /// A string; a quotation mark in it is written twice.
    fn string(&mut self, quote: u8) -> Result<TokenKind, ErrorKind> {
        let quote = char::from(quote);
        let inside = &self.text[self.at + 1..];
        let mut string = String::new();
        let mut start = 0;
        while let Some(length) = inside[start..].find(quote) {
            let end = start + length;
            string.push_str(&inside[start..end]);
            start = end + 1;
            if !inside[start..].starts_with(quote) {
                self.at += 1 + start;
                return Ok(TokenKind::Literal(Literal::String(string)));
            }
            string.push(quote);
            start += 1;
        }
        Err(ErrorKind::Unterminated)
    }

    /// The name of an application property in brackets; a bracket in it is written twice.
    fn bracketed_name(&mut self) -> Result<TokenKind, ErrorKind> {
        let mut name = String::new();
        let mut characters = self.text[self.at + 1..].char_indices().peekable();
        while let Some((index, character)) = characters.next() {
            let is_bracket = matches!(character, '[' | ']');
            if is_bracket && characters.next_if(|(_, next)| *next == character).is_none() {
                if character == '[' {
                    return Err(ErrorKind::Unterminated);
                }
                self.at += 1 + index + 1;
                return Ok(TokenKind::Name(Name::ApplicationProperty(name)));
            }
            if character.is_ascii_control() {
                return Err(ErrorKind::ControlCharacter);
            }
            name.push(character);
        }
        Err(ErrorKind::Unterminated)
    }
}

fn path(steps: Vec<Step>) -> Result<TokenKind, ErrorKind> {
    Path::new(steps).map(|path| TokenKind::Name(Name::Body(path))).ok_or(ErrorKind::PathTooLong)
}

fn float(digits: &str) -> Result<TokenKind, ErrorKind> {
    match digits.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(TokenKind::Literal(Literal::Float(float))),
        _ => Err(ErrorKind::NumberTooLarge),
    }
}

fn hex(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'A' + 10 }
}
