//! The expression that a consumer of a queue chooses by: the argument `x-filter`, which RabbitMQ does not have.

use super::Adapter;
use crate::asking::Client;
use crate::context::Context;
use ::amqp091::method::BasicConsume;
use broker::Selector;
use broker::catalog::{QueueDefinition, Refusal};
use filter::Names;
use message::amqp091::Value;

/// The argument.
const X_FILTER: &str = "x-filter";

impl Adapter {
    /// The expression that a consumer chooses by, if it has one.
    ///
    /// # Errors
    /// It is no expression.
    pub(super) fn selector(
        &self,
        context: &Context<'_>,
        consume: &BasicConsume<'_>,
        queue: &QueueDefinition,
    ) -> Result<Option<Selector>, Refusal> {
        let refuse = |why: &str| Refusal::invalid_argument(X_FILTER, &queue.named(), &format!(": {why}"));
        match consume.arguments.get(X_FILTER.as_bytes()) {
            None => Ok(None),
            Some(Value::Text(text) | Value::Bytes(text)) => {
                let catalog = context.shard.catalog();
                let client = Client::of(catalog, self.actor.as_ref(), self.peer.given_name());
                let parsed = Selector::parse(text, Names::Own, client.macros, &client.asker);
                parsed.map(Some).map_err(|why| refuse(&why))
            }
            Some(_) => Err(refuse("it is to be an expression")),
        }
    }
}
