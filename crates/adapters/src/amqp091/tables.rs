//! Values of field tables: RabbitMQ's names of their types, and the arguments they become.

use crate::context::Context;
use base::id::QueueSeq;
use broker::Browse;
use broker::catalog::{QueueDefinition, Refusal};
pub(super) use broker::fields::arguments;
use message::amqp091::{Table, Value as Wire};
use routing::Arguments;

/// Whether a consumer with these arguments is to be shown messages and to take none (`x-browse`).
///
/// # Errors
/// The argument is no truth value, or the consumer wants the queue for itself, which a browser cannot have.
pub(super) fn browses(
    arguments: &Table<'_>,
    is_exclusive: bool,
    queue: &QueueDefinition,
) -> Result<bool, Refusal> {
    let refused =
        |why: &str| Err(Refusal::invalid_argument("x-browse", &queue.named(), &format!(": \"{why}\"")));
    match arguments.get(b"x-browse") {
        None => Ok(false),
        Some(Wire::Bool(true)) if is_exclusive => refused("who browses cannot be exclusive"),
        Some(Wire::Bool(browses)) => Ok(browses),
        Some(other) => refused(&format!("expected boolean, got {}", type_name(&other))),
    }
}

/// Whether a consumer with these arguments is told the position of each message; only this node's own connections ask that.
pub(super) fn tells_positions(arguments: &Table<'_>) -> bool {
    arguments.get(b"x-leveret-position") == Some(Wire::Bool(true))
}

/// The messages that a browser with these arguments is shown; only this node's own connections ask for some.
pub(super) fn shown(arguments: &Table<'_>) -> Browse {
    let position = arguments.get(b"x-leveret-from").and_then(|value| value.as_i64());
    let from = QueueSeq(position.and_then(|position| u64::try_from(position).ok()).unwrap_or(0));
    Browse { from, held: arguments.get(b"x-leveret-held") == Some(Wire::Bool(true)) }
}

/// The arguments of a consumer, as they are kept: mostly there are none. Their memory is taken from the connection's
/// account; [`give_back`] is to follow.
///
/// # Errors
/// They may not be kept, see [`broker::Shard::take_arguments`].
pub(super) fn keep(context: &mut Context<'_>, table: &Table<'_>) -> Result<Option<Box<Arguments>>, Refusal> {
    let arguments = arguments(table);
    context.shard.take_arguments(context.port, &arguments)?;
    Ok((!arguments.is_empty()).then(|| Box::new(arguments)))
}

/// The arguments of a consumer are kept no more.
pub(super) fn give_back(context: &mut Context<'_>, kept: Option<&Arguments>) {
    if let Some(arguments) = kept {
        context.shard.give_arguments(context.port, arguments);
    }
}

/// RabbitMQ's name for the type of a value.
pub(super) fn type_name(value: &Wire<'_>) -> &'static str {
    match value {
        Wire::Bool(_) => "bool",
        Wire::I8(_) => "byte",
        Wire::U8(_) => "unsignedbyte",
        Wire::I16(_) => "short",
        Wire::U16(_) => "unsignedshort",
        Wire::I32(_) => "signedint",
        Wire::U32(_) => "unsignedint",
        Wire::I64(_) | Wire::U64(_) => "long",
        Wire::F32(_) => "float",
        Wire::F64(_) => "double",
        Wire::Decimal { .. } => "decimal",
        Wire::Text(_) => "longstr",
        Wire::Bytes(_) => "binary",
        Wire::Array(_) => "array",
        Wire::Timestamp(_) => "timestamp",
        Wire::Table(_) => "table",
        Wire::Void => "void",
    }
}
