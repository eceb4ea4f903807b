//! The type system and message sections of AMQP 1.0.
