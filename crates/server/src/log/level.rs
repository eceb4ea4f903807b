//! The levels of lines in the log.

use crate::config::value::one_of;

/// How much the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Debug,
    /// Events of normal running.
    Info,
    /// Events an operator may want to know of.
    Notice,
    /// Events that may lead to a failure.
    Warning,
    /// Failures.
    Error,
    /// Failures that stop the node.
    Critical,
    /// No line.
    None,
}

impl Level {
    /// As the configuration names it.
    pub fn read(value: &str) -> Result<Level, String> {
        let levels = [
            Level::Debug,
            Level::Info,
            Level::Notice,
            Level::Warning,
            Level::Error,
            Level::Critical,
            Level::None,
        ];
        match value {
            // RabbitMQ knows two more, which nothing has.
            "alert" | "emergency" => Ok(Level::Critical),
            _ => one_of(value, &levels.map(|level| (level.name(), level))),
        }
    }

    /// As it stands in a log line.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::None => "none",
        }
    }
}
