//! Functions whose arguments are more than values: of the message, of the client, and with patterns and paths.

use super::{Parsed, Parser};
use crate::asker::Asked;
use crate::error::{Error, ErrorKind};
use crate::expression::{Expression, Name};
use crate::jms;
use crate::lexer::TokenKind;
use crate::message::MessageField;
use crate::replacement::{self, Replacement};
use crate::site::Names;
use crate::sql_json;
use crate::topic::{PATTERN_BYTES_MAX, TopicPattern};

impl Parser<'_> {
    /// The function of this name, if it is one of those; behind its opening bracket.
    pub(super) fn said(&mut self, at: usize, name: &str) -> Option<Parsed> {
        if name.eq_ignore_ascii_case("TOPIC_MATCH") {
            return Some(self.topic(at));
        }
        if name.eq_ignore_ascii_case("JSON_VALUE") {
            return Some(self.json_value());
        }
        if name.eq_ignore_ascii_case("REGEXP_REPLACE") {
            return Some(self.regexp_replace());
        }
        if name.eq_ignore_ascii_case("BODY") {
            return Some(Err(Error { at, kind: ErrorKind::Expected("JSON_VALUE around BODY()") }));
        }
        if let Some(field) = MessageField::named(name) {
            return Some(self.of_message(at, field));
        }
        let asked = match () {
            () if name.eq_ignore_ascii_case("CLAIM") => match self.expect_string("a name in quotation marks")
            {
                Ok(name) => Asked::Claim(name),
                Err(error) => return Some(Err(error)),
            },
            () => Asked::named(name)?,
        };
        Some(self.of_asker(at, asked))
    }

    /// The flag `'i'` behind a comma, if it comes.
    pub(super) fn ignores_case(&mut self) -> Result<bool, Error> {
        if self.token.kind != TokenKind::Comma {
            return Ok(false);
        }
        self.advance()?;
        let at = self.token.at;
        let flags = self.expect_string("'i' or ''")?;
        if flags != "i" && !flags.is_empty() {
            return Err(Error { at, kind: ErrorKind::Expected("'i' or ''") });
        }
        Ok(flags == "i")
    }

    pub(super) fn count_regexps(&mut self, at: usize, more: usize) -> Result<(), Error> {
        self.tally.regexps += more;
        let regexps_max = self.site.limits.regexps_max;
        let is_fit = self.tally.regexps <= regexps_max;
        if is_fit { Ok(()) } else { Err(Error { at, kind: ErrorKind::TooManyRegexps { regexps_max } }) }
    }

    /// The name that the word that comes stands for, if that is computed of a message.
    pub(super) fn computed(&self) -> Option<Expression> {
        let TokenKind::Word(word) = &self.token.kind else { return None };
        let meaning = (self.site.names == Names::Jms).then(|| jms::meaning(word)).flatten()?;
        (!matches!(meaning, Expression::Field(_))).then_some(meaning)
    }

    /// A word that is a name: an application property, or something that JMS has another name for.
    pub(super) fn word(&mut self, at: usize, word: String) -> Parsed {
        match (self.site.names == Names::Jms).then(|| jms::meaning(&word)).flatten() {
            Some(meaning) => {
                let field = jms::reads(&meaning);
                if let Some(field) = field {
                    self.check_known(at, field, field.name())?;
                }
                match (meaning, field) {
                    (Expression::Field(name), _) => self.name(at, name),
                    (computed, field) => {
                        field.map(|field| self.name(at, Name::Message(field))).transpose()?;
                        // An operator, and the field.
                        self.part(computed, 1)
                    }
                }
            }
            None if word.contains('.') => Err(Error { at, kind: ErrorKind::UnknownField(word) }),
            None => self.name(at, Name::ApplicationProperty(word)),
        }
    }

    /// A place in the body, as SQL/JSON has it; behind the opening bracket.
    fn json_value(&mut self) -> Parsed {
        match &self.token.kind {
            TokenKind::Word(word) if word.eq_ignore_ascii_case("BODY") => self.advance()?,
            _ => return Err(self.expected("BODY()")),
        };
        self.expect(&TokenKind::Open, "()")?;
        self.expect(&TokenKind::Close, "a closing bracket")?;
        self.expect(&TokenKind::Comma, "a comma")?;
        let at = self.token.at;
        let text = self.expect_string("a path in quotation marks")?;
        let path = sql_json::path(&text).map_err(|fault| Error {
            at: self.lexer.place_in_string(at, &text[..fault.at]),
            kind: fault.kind,
        })?;
        self.name(at, Name::Body(path))
    }

    /// `REGEXP_REPLACE`, behind the opening bracket.
    fn regexp_replace(&mut self) -> Parsed {
        let subject = self.sum()?;
        self.expect(&TokenKind::Comma, "a comma")?;
        let at = self.token.at;
        let pattern = self.expect_string("a pattern in quotation marks")?;
        self.expect(&TokenKind::Comma, "a comma")?;
        let with_at = self.token.at;
        let with = self.expect_string("a replacement in quotation marks")?;
        if let Some(group) = replacement::reference(&with) {
            let at = self.lexer.place_in_string(with_at, &with[..group.start]);
            return Err(Error { at, kind: ErrorKind::Group(with[group].to_owned()) });
        }
        let ignores_case = self.ignores_case()?;
        self.count_regexps(at, 1)?;
        let replacement = Replacement::new((pattern, ignores_case), with, self.site.limits.regexp_bytes_max)
            .map_err(|why| Error { at, kind: ErrorKind::Regexp(why) })?;
        self.one(subject, |subject| Expression::Replace(subject, replacement))
    }

    fn of_asker(&mut self, at: usize, asked: Asked) -> Parsed {
        self.expect_close(at, asked.function())?;
        if !self.site.known.has_asker() {
            return Err(Error { at, kind: ErrorKind::NotKnown(asked.function()) });
        }
        self.part(Expression::Asked(asked), 0)
    }

    fn of_message(&mut self, at: usize, field: MessageField) -> Parsed {
        self.expect_close(at, field.name())?;
        self.check_known(at, field, field.name())?;
        self.name(at, Name::Message(field))
    }

    fn topic(&mut self, at: usize) -> Parsed {
        let pattern_at = self.token.at;
        let pattern = self.expect_string("a pattern in quotation marks")?;
        self.check_known(at, MessageField::RoutingKey, "TOPIC_MATCH")?;
        let kind = || ErrorKind::TopicTooLong { bytes_max: PATTERN_BYTES_MAX };
        let pattern = TopicPattern::new(pattern).ok_or_else(|| Error { at: pattern_at, kind: kind() })?;
        self.name(at, Name::Message(MessageField::RoutingKey))?;
        self.part(Expression::Topic(pattern), 0)
    }

    fn check_known(&self, at: usize, field: MessageField, function: &'static str) -> Result<(), Error> {
        let kind = ErrorKind::NotKnown(function);
        if self.site.known.has(field) { Ok(()) } else { Err(Error { at, kind }) }
    }

    /// No argument, or no further one, comes.
    fn expect_close(&self, at: usize, function: &'static str) -> Result<(), Error> {
        if self.token.kind == TokenKind::Close {
            return Ok(());
        }
        let most = usize::from(function == "CLAIM");
        Err(Error { at, kind: ErrorKind::Arguments { function, takes: (most, most) } })
    }
}
