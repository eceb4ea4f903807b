//! Two peers, no socket.

mod captured;
mod codec;
mod hostile;
mod pair;
mod refusals;
mod splits;
mod support;
mod timers;
