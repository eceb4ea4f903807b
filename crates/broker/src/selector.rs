//! The expression that a consumer of a queue chooses by, over the messages in it.

use filter::{Asker, Expression, Known, Limits, Names, Site};
use std::sync::Arc;

/// The messages of a queue that a consumer is to be given, or a browser to be shown: those of which an expression is true
/// when they come. Shared, and like no other.
#[derive(Clone, Debug)]
pub struct Selector(pub Arc<Expression>);

impl Selector {
    /// The functions of the message that have a value in a queue.
    pub const KNOWN: Known = Known::PUBLISHED;

    /// By an expression, in names of ours or of JMS, for a client.
    ///
    /// # Errors
    /// In words: it is no UTF-8, or no expression, and where the fault is.
    pub fn parse(text: &[u8], names: Names, asker: &Asker<'_>) -> Result<Selector, String> {
        let text = str::from_utf8(text).map_err(|error| error.to_string())?;
        let site = Site { limits: Limits::content(), known: Selector::KNOWN.and_asker(), names };
        let expression = Expression::parse_at(text, &site).map_err(|error| error.to_string())?;
        Ok(Selector(Arc::new(expression.bound(asker))))
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Selector) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Selector {}
