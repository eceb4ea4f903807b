//! The expression that a consumer of a queue chooses by, over the messages in it.

use filter::{Asker, Expression, Known, Limits, Macros, Names, Program, Site};
use std::sync::Arc;

/// Bytes that an index takes for an expression beside its program, at most: where it shares its places with others it is less.
const INDEX_BYTES: usize = 1024;

/// Bytes of memory that an index takes for the expression of a program, at most.
pub(crate) fn index_bytes(program: &Program) -> usize {
    program.memory() + INDEX_BYTES
}

/// The messages of a queue that a consumer is to be given, or a browser to be shown: those of which an expression is true
/// when they come. Shared, and like no other.
#[derive(Clone, Debug)]
pub struct Selector {
    expression: Arc<Expression>,
    bytes: usize,
}

impl Selector {
    /// The functions of the message that have a value in a queue.
    pub const KNOWN: Known = Known::PUBLISHED;

    /// By an expression whose client is known.
    ///
    /// # Errors
    /// In words: it is no program.
    pub fn new(expression: Expression) -> Result<Selector, String> {
        let program = Program::compile(&expression).map_err(|error| error.to_string())?;
        Ok(Selector { expression: Arc::new(expression), bytes: index_bytes(&program) })
    }

    /// The expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Bytes of memory that a queue takes for it, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// By an expression, in names of ours or of JMS, with these macros, for a client.
    ///
    /// # Errors
    /// In words: it is no UTF-8, or no expression or program, and where the fault is.
    pub fn parse(text: &[u8], names: Names, macros: &Macros, asker: &Asker<'_>) -> Result<Selector, String> {
        let text = str::from_utf8(text).map_err(|error| error.to_string())?;
        let site = Site { limits: Limits::content(), known: Selector::KNOWN.and_asker(), names, macros };
        let expression = Expression::parse_at(text, &site).map_err(|error| error.to_string())?;
        Selector::new(expression.bound(asker))
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        Arc::ptr_eq(&self.expression, &other.expression)
    }
}

impl Eq for Selector {}

#[cfg(test)]
mod tests {
    use super::*;
    use filter::Index;

    const ANN: Asker<'_> = Asker { user: "ann", vhost: "/", client_id: None, claims: &[] };

    #[test]
    fn the_bytes_of_selectors_are_at_least_those_of_all_in_one_index() {
        let words = "x".repeat(300);
        let make = |number: usize| match number % 5 {
            0 => format!("body.tenant = 't{number}'"),
            1 => format!("body.a.b{number} > {number} AND header.priority = 3"),
            2 => format!("REGEXP_LIKE(body.name, '^{number}[a-z]+$')"),
            3 => format!("body.note LIKE '%{words}{number}%' OR body.note IN ('a', 'b', '{number}')"),
            _ => format!("LENGTH(body.name) + {number} > ABS(body.size)"),
        };
        for kind in 0..6 {
            let mut all = Index::new();
            let mut sum = 0;
            for number in (0..1000).filter(|number| kind == 5 || number % 5 == kind) {
                let selector = Selector::parse(make(number).as_bytes(), Names::Own, Macros::none(), &ANN)
                    .expect("an expression");
                all.add(selector.expression()).expect("a program");
                sum += selector.bytes();
            }
            let ratio = sum as f64 / all.memory() as f64;
            assert!((1.0..5.0).contains(&ratio), "{} bytes, counted as {sum}", all.memory());
        }
    }
}
