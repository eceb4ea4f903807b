//! From tokens to a tree, AMQP Filter Expressions 1.0 section 6.4, loosest first:
//!
//! ```text
//! any        = all {OR all}
//! all        = negation {AND negation}
//! negation   = NOT negation | condition
//! condition  = predicate {IS [NOT] (TRUE | FALSE | UNKNOWN)}
//! predicate  = sum [comparison sum | [NOT] LIKE string [ESCAPE string] | [NOT] IN (sum {, sum})
//!              | [NOT] BETWEEN sum AND sum]
//!            | name IS [NOT] NULL, where a function of the message or of the client is a name too
//! sum        = product {(+ | -) product}
//! product    = signed {(* | / | %) signed}
//! signed     = [+ | -] operand
//! operand    = (any) | literal | name | UTC() | CASE WHEN any THEN sum {WHEN any THEN sum} [ELSE sum] END
//!            | function ([sum {, sum}]) | function of the message () | TOPIC_MATCH (string)
//!            | function of the client () | CLAIM (string) | JSON_VALUE (BODY (), string)
//!            | REGEXP_REPLACE (sum, string, string [, 'i']) | REGEXP_LIKE (sum, string [, 'i'])
//!            | CAST (sum AS type) | EXISTS (name) | macro ([any {, any}])
//! ```
//!
//! Comparisons do not chain, and neither do signs: `a = b = c` and `--a` are refused. `IS TRUE` and its like, `BETWEEN`,
//! `CASE` and functions are ours; their words are words only where a name could not stand, so that each of them may be the
//! name of an application property.

use crate::error::{Error, ErrorKind};
use crate::expression::{Expression, Literal, Name};
use crate::function::Function;
use crate::lexer::{Keyword, Lexer, Token, TokenKind};
use crate::limits::Limits;
use crate::macros::{Macro, Macros};
use crate::operator::Arithmetic;
use crate::path::Path;
use crate::pattern::{LikePattern, PatternError};
use crate::regexp::Regexp;
use crate::site::{Known, Names, Site};
use std::collections::BTreeSet;

mod expanding;
mod said;

use expanding::Scope;

impl Expression {
    /// The expression a text says.
    ///
    /// # Errors
    /// The fault of the text and its place; `limits` bound the cost of parsing.
    pub fn parse(text: &str, limits: &Limits) -> Result<Expression, Error> {
        Expression::parse_at(
            text,
            &Site { limits: *limits, known: Known::ALL, names: Names::Own, macros: Macros::none() },
        )
    }

    /// The expression a text says at a site.
    ///
    /// # Errors
    /// As [`Expression::parse`], and [`ErrorKind::NotKnown`].
    pub fn parse_at(text: &str, site: &Site<'_>) -> Result<Expression, Error> {
        let mut lexer = Lexer::new(text, &site.limits, site.names)?;
        let token = lexer.next()?;
        let tally = Tally::of(text, site);
        let mut parser = Parser { lexer, token, depth: 0, tally, site: *site, scope: None };
        parser.whole().map(|part| part.expression)
    }
}

/// Whether the expression of a macro can be read, whatever its arguments are.
///
/// # Errors
/// Its fault.
pub(crate) fn check_macro(own: &Macro, macros: &Macros) -> Result<(), Error> {
    let site = Site { limits: Limits::content(), known: Known::ALL, names: Names::Own, macros };
    let mut lexer = Lexer::new(own.text(), &site.limits, site.names)?;
    let token = lexer.next()?;
    let tally = Tally::of(own.text(), &site);
    let scope = Some(Scope::unbound(own));
    Parser { lexer, token, depth: 0, tally, site, scope }.whole().map(drop)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that comes next.
    token: Token,
    /// Open brackets and negations: the bound of the parser's own recursion.
    depth: usize,
    tally: Tally,
    site: Site<'a>,
    /// The macro that the text is of, if it is of one.
    scope: Option<Scope<'a>>,
}

/// The parts of an expression so far, with those of the macros that were expanded in it.
#[derive(Default)]
struct Tally {
    /// Places in the body.
    paths: BTreeSet<Path>,
    /// Names that are none of those.
    names: usize,
    /// Regular expressions.
    regexps: usize,
    /// Characters that macros may still be expanded to.
    characters_left: usize,
}

impl Tally {
    /// Of a text that has not been read.
    fn of(text: &str, site: &Site<'_>) -> Tally {
        let left = || site.limits.characters_max.saturating_sub(text.chars().count());
        Tally { characters_left: if site.macros.is_empty() { 0 } else { left() }, ..Tally::default() }
    }
}

/// A tree and its levels.
struct Part {
    expression: Expression,
    depth: usize,
}

type Parsed = Result<Part, Error>;

impl<'a> Parser<'a> {
    fn whole(&mut self) -> Parsed {
        let part = self.any()?;
        match self.token.kind {
            TokenKind::End => Ok(part),
            _ => Err(self.expected("an operator or the end")),
        }
    }

    fn any(&mut self) -> Parsed {
        let mut left = self.all()?;
        while self.accept_keyword(Keyword::Or)? {
            let right = self.all()?;
            left = self.two(left, right, Expression::Or)?;
        }
        Ok(left)
    }

    fn all(&mut self) -> Parsed {
        let mut left = self.negation()?;
        while self.accept_keyword(Keyword::And)? {
            let right = self.negation()?;
            left = self.two(left, right, Expression::And)?;
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed {
        if !self.accept_keyword(Keyword::Not)? {
            return self.condition();
        }
        self.enter()?;
        let operand = self.negation()?;
        self.depth -= 1;
        self.one(operand, Expression::Not)
    }

    fn condition(&mut self) -> Parsed {
        let starts_with_name = matches!(self.token.kind, TokenKind::Name(_) | TokenKind::Word(_));
        let computed = self.computed();
        let mut condition = self.predicate()?;
        while self.accept_keyword(Keyword::Is)? {
            let is_negated = self.accept_keyword(Keyword::Not)?;
            let tested = match (self.truth()?, condition.expression) {
                (Some(truth), expression) => {
                    self.one(Part { expression, ..condition }, |operand| Expression::Is(operand, truth))?
                }
                // A name in brackets or with a sign is none any more.
                (None, Expression::Field(name)) if starts_with_name => {
                    self.expect_keyword(Keyword::Null, "NULL, TRUE, FALSE or UNKNOWN")?;
                    Part { expression: Expression::IsNull(name), depth: 1 }
                }
                (None, Expression::Asked(asked)) if starts_with_name => {
                    self.expect_keyword(Keyword::Null, "NULL, TRUE, FALSE or UNKNOWN")?;
                    Part { expression: Expression::AskedIsNull(asked), depth: 1 }
                }
                (None, expression) if computed.as_ref() == Some(&expression) => {
                    self.expect_keyword(Keyword::Null, "NULL, TRUE, FALSE or UNKNOWN")?;
                    Part { expression: Expression::Literal(Literal::Bool(false)), depth: 1 }
                }
                _ => return Err(self.expected("TRUE, FALSE or UNKNOWN")),
            };
            condition = self.negated(tested, is_negated)?;
        }
        Ok(condition)
    }

    fn predicate(&mut self) -> Parsed {
        let left = self.sum()?;
        match self.token.kind {
            TokenKind::Comparison(comparison) => {
                self.advance()?;
                let right = self.sum()?;
                self.two(left, right, |left, right| Expression::Compare(comparison, left, right))
            }
            TokenKind::Keyword(Keyword::Not | Keyword::Like | Keyword::In) => {
                let is_negated = self.accept_keyword(Keyword::Not)?;
                let condition = if self.accept_keyword(Keyword::Like)? {
                    self.like(left)?
                } else if self.accept_keyword(Keyword::In)? {
                    self.list(left)?
                } else if self.accept_word("BETWEEN")? {
                    self.between(left)?
                } else {
                    return Err(self.expected("LIKE, IN or BETWEEN"));
                };
                self.negated(condition, is_negated)
            }
            TokenKind::Word(_) if self.is_word("BETWEEN") => {
                self.accept_word("BETWEEN")?;
                self.between(left)
            }
            _ => Ok(left),
        }
    }

    /// `TRUE`, `FALSE` or `UNKNOWN` behind `IS`; none if it is another.
    fn truth(&mut self) -> Result<Option<Option<bool>>, Error> {
        let truth = match &self.token.kind {
            TokenKind::Literal(Literal::Bool(truth)) => Some(*truth),
            TokenKind::Word(word) if word == "UNKNOWN" => None,
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(truth))
    }

    fn between(&mut self, value: Part) -> Parsed {
        let least = self.sum()?;
        self.expect_keyword(Keyword::And, "AND")?;
        let most = self.sum()?;
        let depth = value.depth.max(least.depth).max(most.depth);
        let [value, least, most] = [value, least, most].map(|part| Box::new(part.expression));
        self.part(Expression::Between(value, least, most), depth)
    }

    fn like(&mut self, subject: Part) -> Parsed {
        let at = self.token.at;
        let pattern = self.expect_string("a pattern in quotation marks")?;
        let mut escape = None;
        if self.accept_keyword(Keyword::Escape)? {
            let at = self.token.at;
            let string = self.expect_string("a character in quotation marks")?;
            let mut characters = string.chars();
            escape = characters.next();
            if escape.is_none() || characters.next().is_some() {
                return Err(Error { at, kind: ErrorKind::EscapeLength });
            }
        }
        let pattern = LikePattern::new(pattern, escape).map_err(|error| Error {
            at,
            kind: match error {
                PatternError::EscapeAtEnd => ErrorKind::EscapeAtEnd,
                PatternError::ControlCharacter => ErrorKind::ControlCharacter,
                PatternError::TooLong { characters_max } => ErrorKind::TooLong { characters_max },
            },
        })?;
        self.one(subject, |subject| Expression::Like(subject, pattern))
    }

    fn list(&mut self, value: Part) -> Parsed {
        self.expect(&TokenKind::Open, "a list in brackets")?;
        let (mut entries, mut depth) = (Vec::new(), value.depth);
        loop {
            if entries.len() == self.site.limits.list_max {
                let kind = ErrorKind::ListTooLong { list_max: self.site.limits.list_max };
                return Err(Error { at: self.token.at, kind });
            }
            let entry = self.sum()?;
            depth = depth.max(entry.depth);
            entries.push(entry.expression);
            if self.token.kind != TokenKind::Comma {
                break;
            }
            self.advance()?;
        }
        self.expect(&TokenKind::Close, "a comma or a closing bracket")?;
        self.part(Expression::In(Box::new(value.expression), entries), depth)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let TokenKind::Arithmetic(sign @ (Arithmetic::Add | Arithmetic::Subtract)) = self.token.kind {
            self.advance()?;
            let right = self.product()?;
            left = self.two(left, right, |left, right| Expression::Arithmetic(sign, left, right))?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        while let TokenKind::Arithmetic(
            sign @ (Arithmetic::Multiply | Arithmetic::Divide | Arithmetic::Remainder),
        ) = self.token.kind
        {
            self.advance()?;
            let right = self.signed()?;
            left = self.two(left, right, |left, right| Expression::Arithmetic(sign, left, right))?;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed {
        match self.token.kind {
            TokenKind::Arithmetic(Arithmetic::Add) => {
                self.advance()?;
                let operand = self.operand()?;
                self.one(operand, Expression::Plus)
            }
            TokenKind::Arithmetic(Arithmetic::Subtract) => {
                self.advance()?;
                let operand = self.operand()?;
                self.one(operand, Expression::Minus)
            }
            _ => self.operand(),
        }
    }

    fn operand(&mut self) -> Parsed {
        match self.token.kind {
            TokenKind::Open => {
                self.enter()?;
                self.advance()?;
                let inside = self.any()?;
                self.expect(&TokenKind::Close, "an operator or a closing bracket")?;
                self.depth -= 1;
                Ok(inside)
            }
            TokenKind::Keyword(Keyword::Utc) => {
                self.advance()?;
                self.expect(&TokenKind::Open, "()")?;
                self.expect(&TokenKind::Close, "a closing bracket")?;
                self.part(Expression::Utc, 0)
            }
            TokenKind::Literal(_) | TokenKind::Name(_) | TokenKind::Word(_) => {
                let Token { at, kind } = self.advance()?;
                match kind {
                    TokenKind::Literal(literal) => self.part(Expression::Literal(literal), 0),
                    TokenKind::Name(name) => self.name(at, name),
                    TokenKind::Word(word) if self.token.kind == TokenKind::Open => self.call(at, &word),
                    TokenKind::Word(word) if word == "CASE" && self.accept_word("WHEN")? => self.case(),
                    TokenKind::Word(word) => match self.given(at, &word) {
                        Some(argument) => argument,
                        None => self.word(at, word),
                    },
                    _ => unreachable!("one of the three was there"),
                }
            }
            _ => Err(self.expected("a value")),
        }
    }

    fn name(&mut self, at: usize, name: Name) -> Parsed {
        let Limits { paths_max, .. } = self.site.limits;
        let paths = &mut self.tally.paths;
        match &name {
            Name::Body(path) if paths.contains(path) => {}
            Name::Body(_) if paths.len() == paths_max => {
                return Err(Error { at, kind: ErrorKind::TooManyPaths { paths_max } });
            }
            Name::Body(path) => _ = paths.insert(path.clone()),
            _ => self.count_names(at, 1)?,
        }
        self.part(Expression::Field(name), 0)
    }

    fn count_names(&mut self, at: usize, more: usize) -> Result<(), Error> {
        let names_max = self.site.limits.names_max;
        if more > names_max - self.tally.names {
            return Err(Error { at, kind: ErrorKind::TooManyNames { names_max } });
        }
        self.tally.names += more;
        Ok(())
    }

    /// Behind the first `WHEN`.
    fn case(&mut self) -> Parsed {
        self.enter()?;
        let (mut branches, mut depth) = (Vec::new(), 0);
        loop {
            let condition = self.any()?;
            self.expect_word("THEN")?;
            let value = self.sum()?;
            depth = depth.max(condition.depth).max(value.depth);
            branches.push((condition.expression, value.expression));
            if !self.accept_word("WHEN")? {
                break;
            }
        }
        let otherwise = if self.accept_word("ELSE")? { Some(self.sum()?) } else { None };
        depth = depth.max(otherwise.as_ref().map_or(0, |part| part.depth));
        // An operator follows, as behind every other operand.
        if !self.is_word("END") {
            return Err(self.expected("WHEN, ELSE or END"));
        }
        self.advance()?;
        self.depth -= 1;
        self.part(Expression::Case(branches, otherwise.map(|part| Box::new(part.expression))), depth)
    }

    /// A function by its name, and what it takes, from the opening bracket on.
    fn call(&mut self, at: usize, name: &str) -> Parsed {
        self.enter()?;
        self.advance()?;
        let part = match () {
            () if name.eq_ignore_ascii_case("EXISTS") => self.exists()?,
            () if name.eq_ignore_ascii_case("CAST") => self.cast()?,
            () if name.eq_ignore_ascii_case("REGEXP_LIKE") => self.regexp()?,
            () if let Some(part) = self.said(at, name) => part?,
            () => match (Function::named(name), self.site.macros.get(name)) {
                (Some(function), _) => self.arguments(at, function)?,
                (None, Some(own)) => self.expand(at, own)?,
                (None, None) => {
                    return Err(Error { at, kind: ErrorKind::UnknownFunction(name.to_owned()) });
                }
            },
        };
        self.expect(&TokenKind::Close, "a comma or a closing bracket")?;
        self.depth -= 1;
        Ok(part)
    }

    fn arguments(&mut self, at: usize, function: Function) -> Parsed {
        let (least, most) = function.takes();
        let (mut arguments, mut depth) = (Vec::new(), 0);
        while self.token.kind != TokenKind::Close {
            let argument = self.sum()?;
            depth = depth.max(argument.depth);
            arguments.push(argument.expression);
            if self.token.kind != TokenKind::Comma {
                break;
            }
            self.advance()?;
        }
        if self.token.kind == TokenKind::Close && !(least..=most).contains(&arguments.len()) {
            let kind = ErrorKind::Arguments { function: function.name(), takes: (least, most) };
            return Err(Error { at, kind });
        }
        self.part(Expression::Call(function, arguments), depth)
    }

    fn exists(&mut self) -> Parsed {
        let part = match self.advance()? {
            Token { at, kind: TokenKind::Name(name) } => self.name(at, name)?,
            Token { at, kind: TokenKind::Word(word) } => match self.given(at, &word) {
                None => self.word(at, word)?,
                Some(argument) => match argument? {
                    argument @ Part { expression: Expression::Field(_), .. } => argument,
                    _ => return Err(Error { at, kind: ErrorKind::Expected("a name or a path") }),
                },
            },
            Token { at, .. } => return Err(Error { at, kind: ErrorKind::Expected("a name or a path") }),
        };
        match part.expression {
            Expression::Field(name) => {
                self.negated(Part { expression: Expression::IsNull(name), depth: 1 }, true)
            }
            // A value that is computed of a message is always there.
            _ => self.part(Expression::Literal(Literal::Bool(true)), 0),
        }
    }

    fn cast(&mut self) -> Parsed {
        let value = self.sum()?;
        self.expect_word("AS")?;
        let function = match &self.token.kind {
            TokenKind::Word(word) => Function::of_type(word),
            _ => None,
        };
        let function = function.ok_or_else(|| self.expected("NUMBER, TEXT, BOOLEAN or TIMESTAMP"))?;
        self.advance()?;
        self.part(Expression::Call(function, vec![value.expression]), value.depth)
    }

    fn regexp(&mut self) -> Parsed {
        let subject = self.sum()?;
        self.expect(&TokenKind::Comma, "a comma")?;
        let at = self.token.at;
        let pattern = self.expect_string("a pattern in quotation marks")?;
        let ignores_case = self.ignores_case()?;
        self.count_regexps(at, 1)?;
        let regexp = Regexp::new(pattern, ignores_case, self.site.limits.regexp_bytes_max)
            .map_err(|why| Error { at, kind: ErrorKind::Regexp(why) })?;
        self.one(subject, |subject| Expression::Regexp(subject, regexp))
    }

    /// One level above the deepest of its operands.
    fn part(&self, expression: Expression, operands_depth: usize) -> Parsed {
        let depth = operands_depth + 1;
        if depth > self.site.limits.depth_max {
            return Err(self.too_deep());
        }
        Ok(Part { expression, depth })
    }

    fn one(&self, operand: Part, operator: impl FnOnce(Box<Expression>) -> Expression) -> Parsed {
        self.part(operator(Box::new(operand.expression)), operand.depth)
    }

    fn two(
        &self,
        left: Part,
        right: Part,
        operator: impl FnOnce(Box<Expression>, Box<Expression>) -> Expression,
    ) -> Parsed {
        let depth = left.depth.max(right.depth);
        self.part(operator(Box::new(left.expression), Box::new(right.expression)), depth)
    }

    fn negated(&self, part: Part, is_negated: bool) -> Parsed {
        if is_negated { self.one(part, Expression::Not) } else { Ok(part) }
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > self.site.limits.depth_max { Err(self.too_deep()) } else { Ok(()) }
    }

    fn advance(&mut self) -> Result<Token, Error> {
        // Behind a value comes an operator.
        self.lexer.awaits_operand = !matches!(
            self.token.kind,
            TokenKind::Literal(_) | TokenKind::Name(_) | TokenKind::Word(_) | TokenKind::Close
        );
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Passes a word where no name can stand; an operand comes behind it.
    fn accept_word(&mut self, wanted: &str) -> Result<bool, Error> {
        let is_there = self.is_word(wanted);
        if is_there {
            self.lexer.awaits_operand = true;
            self.token = self.lexer.next()?;
        }
        Ok(is_there)
    }

    fn is_word(&self, wanted: &str) -> bool {
        let is_wanted = |word: &str| match self.site.names {
            Names::Own => word == wanted,
            Names::Jms => word.eq_ignore_ascii_case(wanted),
        };
        matches!(&self.token.kind, TokenKind::Word(word) if is_wanted(word))
    }

    fn expect_word(&mut self, word: &'static str) -> Result<(), Error> {
        if self.accept_word(word)? { Ok(()) } else { Err(self.expected(word)) }
    }

    fn accept_keyword(&mut self, keyword: Keyword) -> Result<bool, Error> {
        let is_there = self.token.kind == TokenKind::Keyword(keyword);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn expect_keyword(&mut self, keyword: Keyword, what: &'static str) -> Result<(), Error> {
        self.expect(&TokenKind::Keyword(keyword), what)
    }

    fn expect(&mut self, kind: &TokenKind, what: &'static str) -> Result<(), Error> {
        if self.token.kind != *kind {
            return Err(self.expected(what));
        }
        self.advance().map(|_| ())
    }

    fn expect_string(&mut self, what: &'static str) -> Result<String, Error> {
        if let TokenKind::Word(word) = &self.token.kind
            && let Some(given) = self.given_string(word)
        {
            let given = given.ok_or_else(|| self.expected(what))?;
            self.count_characters(self.token.at, given.len())?;
            self.advance()?;
            return Ok(given);
        }
        if !matches!(self.token.kind, TokenKind::Literal(Literal::String(_))) {
            return Err(self.expected(what));
        }
        match self.advance()?.kind {
            TokenKind::Literal(Literal::String(string)) => Ok(string),
            _ => unreachable!("a string was there"),
        }
    }

    fn expected(&self, what: &'static str) -> Error {
        Error { at: self.token.at, kind: ErrorKind::Expected(what) }
    }

    fn too_deep(&self) -> Error {
        Error { at: self.token.at, kind: ErrorKind::TooDeep { depth_max: self.site.limits.depth_max } }
    }
}
