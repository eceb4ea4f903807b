//! AMQP 1.0: frame codec, connection, session and link machines, for both peers.
