//! Rows of lists: what a shard tells of queues, of connections and what they have open, and of users, each filled once and read by the HTTP API, the command
//! line and metrics; and the sums of them.

pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod queues;
pub(crate) mod sums;
pub(crate) mod tenants;
