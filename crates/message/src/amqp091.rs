//! Field tables and basic properties of AMQP 0-9-1.
