//! The shard: catalog, permissions, logs and their machines, delivery, flow control.
