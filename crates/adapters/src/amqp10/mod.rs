//! AMQP 1.0 and the broker.
