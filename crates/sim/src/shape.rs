//! The shape of a run's workload: plain, or one of the kinds a plain run does not reach.

use base::Random;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Queues of a run.
    pub queues_max: usize,
    /// Queues declared at once.
    pub declares_max: u64,
    /// Exchanges of a run.
    pub exchanges_max: usize,
    /// One in so many publishes goes to an exchange, where there is one.
    pub to_exchange_one_in: u64,
    /// Bytes of a body.
    pub body_bytes_max: u64,
    /// One in so many consumers is given messages it need not settle.
    pub settled_one_in: u64,
}

impl Shape {
    /// The shape of every run before there were others.
    pub const PLAIN: Shape = Shape {
        queues_max: 12,
        declares_max: 1,
        exchanges_max: 4,
        to_exchange_one_in: 4,
        body_bytes_max: 20_000,
        settled_one_in: 8,
    };

    /// Many queues on few logs, bodies of many files, fan-out to all there is, or none of it.
    pub fn roll(dice: &mut Random) -> Shape {
        match dice.below(4) {
            0 => Shape { queues_max: 80, declares_max: 12, ..Shape::PLAIN },
            1 => Shape { body_bytes_max: 150_000, settled_one_in: 20, ..Shape::PLAIN },
            2 => Shape {
                queues_max: 30,
                declares_max: 4,
                exchanges_max: 12,
                to_exchange_one_in: 1,
                ..Shape::PLAIN
            },
            _ => Shape::PLAIN,
        }
    }
}
