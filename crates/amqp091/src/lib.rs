//! AMQP 0-9-1: frame codec and connection machine, for both peers.
