//! One adapter per protocol: protocol events to broker requests and back.
