//! The event exchange: what happens on a node, told to the queues that are bound to `amq.rabbitmq.event`.

pub(crate) mod alarms;
pub(crate) mod announce;
pub(crate) mod connections;
