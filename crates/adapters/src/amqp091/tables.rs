//! What the values of field tables are called and become.

pub(super) use broker::fields::arguments;
use message::amqp091::Value as Wire;

/// What RabbitMQ calls the type of a value.
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
