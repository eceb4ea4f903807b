//! Macros, expanded where they are called: the expression of one is parsed there, with its parameters standing for the
//! arguments, which were parsed before.
//!
//! All that this makes counts as if it were written: tokens, characters, names and regular expressions of a macro at
//! each of its calls, those of an argument each time that its parameter stands somewhere, but for the first. So the
//! work is bounded by the limits of the site, whatever macros are made of one another. An argument is counted by its
//! tree, in which macros are expanded already.

use super::{Parsed, Parser, Part};
use crate::error::{Error, ErrorKind};
use crate::expression::{Expression, Literal, Name};
use crate::lexer::{Lexer, TokenKind};
use crate::macros::Macro;
use crate::site::{Names, Site};

/// The value that a parameter has where a macro is looked at and not expanded, and a text is needed: it is fit for
/// patterns and names, not for the escape character of a pattern.
const ANY_TEXT: &str = "";

/// The macro that is expanded, and its arguments.
pub(super) struct Scope<'a> {
    own: &'a Macro,
    /// In the order of the parameters; none where it is looked at alone.
    arguments: Option<Vec<Argument>>,
    /// Macros within one another, this one included.
    level: usize,
}

/// An argument.
struct Argument {
    part: Part,
    size: Size,
    /// Its parameter stood somewhere.
    is_used: bool,
    /// It is a parameter of the macro that is looked at: it may be any text too.
    is_free: bool,
}

/// The parts of a tree, as they are counted.
#[derive(Clone, Copy, Default)]
struct Size {
    tokens: usize,
    characters: usize,
    names: usize,
    regexps: usize,
}

impl<'a> Scope<'a> {
    /// A macro that is looked at, whatever its arguments are.
    pub(super) fn unbound(own: &'a Macro) -> Scope<'a> {
        Scope { own, arguments: None, level: 1 }
    }

    /// Whether an argument is a parameter of the macro that is looked at, handed on.
    fn is_free(&self, argument: &Expression) -> bool {
        match (&self.arguments, argument) {
            (None, Expression::Field(Name::ApplicationProperty(name))) => self.place(name).is_some(),
            (None, _) => false,
            (Some(arguments), argument) => {
                arguments.iter().any(|own| own.is_free && own.part.expression == *argument)
            }
        }
    }

    fn place(&self, word: &str) -> Option<usize> {
        self.own.parameters().iter().position(|parameter| **parameter == *word)
    }
}

impl Size {
    fn of(part: &mut Part) -> Size {
        let characters = part.expression.to_string().len();
        let mut size = Size { characters, ..Size::default() };
        part.expression.each(&mut |part| {
            size.tokens += 1;
            match part {
                Expression::Field(Name::Body(_)) | Expression::IsNull(Name::Body(_)) => {}
                Expression::Field(_) | Expression::IsNull(_) | Expression::Topic(_) => size.names += 1,
                Expression::Regexp(..) | Expression::Replace(..) => size.regexps += 1,
                _ => {}
            }
        });
        size
    }
}

impl<'a> Parser<'a> {
    /// The tree that a call of a macro stands for, from behind its opening bracket to before the closing one.
    pub(super) fn expand(&mut self, at: usize, own: &'a Macro) -> Parsed {
        let arguments = self.macro_arguments(at, own)?;
        let level = self.scope.as_ref().map_or(0, |scope| scope.level) + 1;
        let depth_max = self.site.limits.macro_depth_max;
        if level > depth_max {
            return Err(Error { at, kind: ErrorKind::MacrosTooDeep { depth_max } });
        }
        self.count_characters(at, own.text().len())?;
        let scope = Some(Scope { own, arguments: Some(arguments), level });
        // It is written in our names, whoever calls it.
        let site = Site { names: Names::Own, ..self.site };
        let inside = |fault| {
            let fault = Box::new(fault);
            Error { at, kind: ErrorKind::InMacro { name: own.name().to_owned(), fault } }
        };
        let mut lexer = Lexer::new(own.text(), &site.limits, site.names).map_err(inside)?;
        lexer.share_tokens(&self.lexer);
        let token = lexer.next().map_err(inside)?;
        let (depth, tally) = (self.depth, std::mem::take(&mut self.tally));
        let mut parser = Parser { lexer, token, depth, tally, site, scope };
        let expanded = parser.whole().map_err(inside);
        self.lexer.share_tokens(&parser.lexer);
        self.tally = parser.tally;
        expanded
    }

    fn macro_arguments(&mut self, at: usize, own: &Macro) -> Result<Vec<Argument>, Error> {
        let mut arguments = Vec::new();
        let mut is_more = self.token.kind != TokenKind::Close;
        while is_more {
            let mut part = self.any()?;
            let size = Size::of(&mut part);
            let is_free = self.scope.as_ref().is_some_and(|scope| scope.is_free(&part.expression));
            arguments.push(Argument { part, size, is_used: false, is_free });
            is_more = self.token.kind == TokenKind::Comma;
            if is_more {
                self.advance()?;
            }
        }
        let takes = own.parameters().len();
        if self.token.kind == TokenKind::Close && arguments.len() != takes {
            let name = own.name().to_owned();
            return Err(Error { at, kind: ErrorKind::MacroArguments { name, takes } });
        }
        if self.token.kind != TokenKind::Close {
            return Err(self.expected("a comma or a closing bracket"));
        }
        Ok(arguments)
    }

    /// The argument that a word stands for, if it is a parameter of the macro that is expanded.
    pub(super) fn given(&mut self, at: usize, word: &str) -> Option<Parsed> {
        let scope = self.scope.as_mut()?;
        let place = scope.place(word)?;
        let Some(arguments) = &mut scope.arguments else {
            let name = Name::ApplicationProperty(word.to_owned());
            return Some(self.part(Expression::Field(name), 0));
        };
        let Argument { part, size, is_used, .. } = &mut arguments[place];
        let part = Part { expression: part.expression.clone(), depth: part.depth };
        let size = if *is_used { *size } else { Size::default() };
        *is_used = true;
        Some(self.count(at, size).map(|()| part))
    }

    /// The text that a word stands for, if it is such a parameter; none where its argument is no text.
    pub(super) fn given_string(&self, word: &str) -> Option<Option<String>> {
        let scope = self.scope.as_ref()?;
        let place = scope.place(word)?;
        let Some(arguments) = &scope.arguments else { return Some(Some(ANY_TEXT.to_owned())) };
        Some(match &arguments[place].part.expression {
            _ if arguments[place].is_free => Some(ANY_TEXT.to_owned()),
            Expression::Literal(Literal::String(text)) => Some(text.clone()),
            _ => None,
        })
    }

    fn count(&mut self, at: usize, Size { tokens, characters, names, regexps }: Size) -> Result<(), Error> {
        if !self.lexer.take_tokens(tokens) {
            let tokens_max = self.site.limits.tokens_max;
            return Err(Error { at, kind: ErrorKind::TooManyTokens { tokens_max } });
        }
        self.count_characters(at, characters)?;
        self.count_names(at, names)?;
        self.count_regexps(at, regexps)
    }

    pub(super) fn count_characters(&mut self, at: usize, more: usize) -> Result<(), Error> {
        match self.tally.characters_left.checked_sub(more) {
            Some(left) => self.tally.characters_left = left,
            None => {
                let characters_max = self.site.limits.characters_max;
                return Err(Error { at, kind: ErrorKind::TooLong { characters_max } });
            }
        }
        Ok(())
    }
}
