//! Where the time of a run went: its parts in the order in which they ended.

use std::fmt;
use std::time::{Duration, Instant};

/// Measures parts of a run that follow each other.
pub struct Clock {
    began: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Clock {
    /// A clock for the part that begins now.
    pub fn start() -> Clock {
        Clock { began: Instant::now(), parts: Vec::new() }
    }

    /// The part that ran until now was `name`; the next one begins.
    pub fn lap(&mut self, name: &'static str) {
        self.parts.push((name, self.began.elapsed()));
        self.began = Instant::now();
    }
}

/// One line: each part with its minutes, and their sum.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = |time: Duration| time.as_secs_f64() / 60.0;
        let sum = self.parts.iter().map(|(_, time)| *time).sum();
        write!(f, "minutes: {:.1}", minutes(sum))?;
        for (at, (name, time)) in self.parts.iter().enumerate() {
            write!(f, "{} {name} {:.1}", if at == 0 { ":" } else { "," }, minutes(*time))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_their_sum_are_told() {
        let parts = vec![("tidy", Duration::from_secs(30)), ("foreign clients", Duration::from_secs(1200))];
        let clock = Clock { began: Instant::now(), parts };
        assert_eq!(clock.to_string(), "minutes: 20.5: tidy 0.5, foreign clients 20.0");
        assert_eq!(Clock::start().to_string(), "minutes: 0.0");
    }
}
