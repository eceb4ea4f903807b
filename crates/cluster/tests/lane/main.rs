//! Lanes against each other, with a pretend clock, and against peers that mean no good.

mod bench;
mod bodies;
mod faults;
mod hostile;
mod opening;
mod time;
