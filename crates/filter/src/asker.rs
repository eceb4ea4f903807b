//! Clients that have messages chosen. What an expression asks of its client becomes constants when that attaches: a
//! program knows nothing of it.

use crate::expression::{Expression, Literal};
use crate::print::quoted;
use std::fmt;

/// A function of the client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// `USER()`: the name of its user.
    User,
    /// `VHOST()`: the virtual host of its connection.
    Vhost,
    /// `CLIENT_ID()`: the name that it gave its connection.
    ClientId,
    /// `CLAIM('name')`: a claim of its token.
    Claim(String),
}

/// A client that has messages chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker<'a> {
    /// The name of its user.
    pub user: &'a str,
    /// The virtual host of its connection.
    pub vhost: &'a str,
    /// The name that it gave its connection, if it gave one.
    pub client_id: Option<&'a str>,
    /// The claims of its token, each once; none where it has no token.
    pub claims: &'a [(&'a str, Literal)],
}

impl Asked {
    /// The name of the function.
    pub fn function(&self) -> &'static str {
        match self {
            Asked::User => "USER",
            Asked::Vhost => "VHOST",
            Asked::ClientId => "CLIENT_ID",
            Asked::Claim(_) => "CLAIM",
        }
    }

    /// The function of this name, in any case, that takes no argument.
    pub(crate) fn named(name: &str) -> Option<Asked> {
        let without = [Asked::User, Asked::Vhost, Asked::ClientId];
        without.into_iter().find(|asked| asked.function().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Claim(name) => {
                out.write_str("CLAIM(")?;
                quoted(out, name)?;
                out.write_str(")")
            }
            _ => write!(out, "{}()", self.function()),
        }
    }
}

impl Asker<'_> {
    fn answer(&self, asked: &Asked) -> Literal {
        let text = |text: &str| Literal::String(text.to_owned());
        match asked {
            Asked::User => text(self.user),
            Asked::Vhost => text(self.vhost),
            Asked::ClientId => self.client_id.map_or(Literal::Null, text),
            Asked::Claim(name) => {
                let claim = self.claims.iter().find(|(of, _)| of == name);
                claim.map_or(Literal::Null, |(_, claim)| claim.clone())
            }
        }
    }
}

impl Expression {
    /// The expression of a client: its name and claims are constants. What is not known of it is null.
    pub fn bound(&self, asker: &Asker<'_>) -> Expression {
        let mut bound = self.clone();
        bound.each(&mut |part| match part {
            Expression::Asked(asked) => *part = Expression::Literal(asker.answer(asked)),
            Expression::AskedIsNull(asked) => {
                *part = Expression::Literal(Literal::Bool(asker.answer(asked) == Literal::Null));
            }
            _ => {}
        });
        bound
    }

    /// All that it asks of the client, each once.
    pub fn asks(&self) -> Vec<Asked> {
        let mut all = Vec::new();
        self.clone().each(&mut |part| {
            if let Expression::Asked(asked) | Expression::AskedIsNull(asked) = part {
                all.push(asked.clone());
            }
        });
        all.sort();
        all.dedup();
        all
    }

    /// Looks at each part of the tree, and at the whole.
    pub(crate) fn each(&mut self, look: &mut dyn FnMut(&mut Expression)) {
        match self {
            Expression::Literal(_)
            | Expression::Field(_)
            | Expression::Asked(_)
            | Expression::AskedIsNull(_)
            | Expression::Utc
            | Expression::Topic(_)
            | Expression::IsNull(_)
            | Expression::IsPresent(_) => {}
            Expression::Plus(one)
            | Expression::Minus(one)
            | Expression::Not(one)
            | Expression::Like(one, _)
            | Expression::Regexp(one, _)
            | Expression::Replace(one, _)
            | Expression::Is(one, _) => one.each(look),
            Expression::Arithmetic(_, left, right)
            | Expression::Compare(_, left, right)
            | Expression::And(left, right)
            | Expression::Or(left, right) => {
                left.each(look);
                right.each(look);
            }
            Expression::Between(value, least, most) => {
                [value, least, most].into_iter().for_each(|part| part.each(look));
            }
            Expression::In(value, entries) => {
                value.each(look);
                entries.iter_mut().for_each(|entry| entry.each(look));
            }
            Expression::Case(branches, otherwise) => {
                for (condition, value) in branches {
                    condition.each(look);
                    value.each(look);
                }
                if let Some(value) = otherwise {
                    value.each(look);
                }
            }
            Expression::Call(_, arguments) => arguments.iter_mut().for_each(|argument| argument.each(look)),
        }
        look(self);
    }
}
