//! The connection machine against bytes: captured sessions, every refusal, any split, and itself.

mod captured;
mod hostile;
mod pair;
mod refusals;
mod splits;
mod support;
mod timers;
