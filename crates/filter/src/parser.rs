//! From tokens to a tree, AMQP Filter Expressions 1.0 section 6.4, loosest first:
//!
//! ```text
//! any        = all {OR all}
//! all        = negation {AND negation}
//! negation   = NOT negation | condition
//! condition  = sum [comparison sum | [NOT] LIKE string [ESCAPE string] | [NOT] IN (sum {, sum})]
//!            | name IS [NOT] NULL
//! sum        = product {(+ | -) product}
//! product    = signed {(* | / | %) signed}
//! signed     = [+ | -] operand
//! operand    = (any) | literal | name | UTC()
//! ```
//!
//! Comparisons do not chain, and neither do signs: `a = b = c` and `--a` are refused.

use crate::error::{Error, ErrorKind};
use crate::expression::{Arithmetic, Expression, Literal};
use crate::lexer::{Keyword, Lexer, Token, TokenKind};
use crate::limits::Limits;
use crate::pattern::{LikePattern, PatternError};

impl Expression {
    /// The expression a text says.
    ///
    /// # Errors
    /// The fault of the text and its place; `limits` bound the cost of parsing.
    pub fn parse(text: &str, limits: &Limits) -> Result<Expression, Error> {
        let mut lexer = Lexer::new(text, limits)?;
        let token = lexer.next()?;
        let mut parser = Parser { lexer, token, depth: 0, limits: *limits };
        let part = parser.any()?;
        match parser.token.kind {
            TokenKind::End => Ok(part.expression),
            _ => Err(parser.expected("an operator or the end")),
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that comes next.
    token: Token,
    /// Open brackets and negations: the bound of the parser's own recursion.
    depth: usize,
    limits: Limits,
}

/// A tree and its levels.
struct Part {
    expression: Expression,
    depth: usize,
}

type Parsed = Result<Part, Error>;

impl Parser<'_> {
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
        let starts_with_name = matches!(self.token.kind, TokenKind::Name(_));
        let left = self.sum()?;
        match self.token.kind {
            TokenKind::Comparison(comparison) => {
                self.advance()?;
                let right = self.sum()?;
                self.two(left, right, |left, right| Expression::Compare(comparison, left, right))
            }
            TokenKind::Keyword(Keyword::Is) => match left.expression {
                // A name in brackets or with a sign is none any more.
                Expression::Field(name) if starts_with_name => {
                    self.advance()?;
                    let is_negated = self.accept_keyword(Keyword::Not)?;
                    self.expect_keyword(Keyword::Null, "NULL")?;
                    self.negated(Part { expression: Expression::IsNull(name), depth: 1 }, is_negated)
                }
                _ => Err(self.expected("an operator or the end")),
            },
            TokenKind::Keyword(Keyword::Not | Keyword::Like | Keyword::In) => {
                let is_negated = self.accept_keyword(Keyword::Not)?;
                let condition = if self.accept_keyword(Keyword::Like)? {
                    self.like(left)?
                } else if self.accept_keyword(Keyword::In)? {
                    self.list(left)?
                } else {
                    return Err(self.expected("LIKE or IN"));
                };
                self.negated(condition, is_negated)
            }
            _ => Ok(left),
        }
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
            if entries.len() == self.limits.list_max {
                let kind = ErrorKind::ListTooLong { list_max: self.limits.list_max };
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
            TokenKind::Literal(_) | TokenKind::Name(_) => match self.advance()?.kind {
                TokenKind::Literal(literal) => self.part(Expression::Literal(literal), 0),
                TokenKind::Name(name) => self.part(Expression::Field(name), 0),
                _ => unreachable!("one of the two was there"),
            },
            _ => Err(self.expected("a value")),
        }
    }

    /// One level above the deepest of its operands.
    fn part(&self, expression: Expression, operands_depth: usize) -> Parsed {
        let depth = operands_depth + 1;
        if depth > self.limits.depth_max {
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
        if self.depth > self.limits.depth_max { Err(self.too_deep()) } else { Ok(()) }
    }

    fn advance(&mut self) -> Result<Token, Error> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
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
        Error { at: self.token.at, kind: ErrorKind::TooDeep { depth_max: self.limits.depth_max } }
    }
}
