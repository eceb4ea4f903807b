//! The house rule: a crate imports only from floors below its own.
//!
//! Reads the arrows that the manifests declare, those of tests included: a test that needs a higher floor belongs there.

use crate::cargo::Metadata;

/// Every crate of the house and its floor. `xtask` stands apart: it may use none and none may use it.
const FLOORS: &[(&str, u8)] = &[
    ("server", 8),
    ("sim", 8),
    ("node", 7),
    ("cluster", 6),
    ("ctl", 6),
    ("perf", 6),
    ("adapters", 5),
    ("management", 5),
    ("ui", 5),
    ("broker", 4),
    ("stream_files", 4),
    ("consensus", 3),
    ("routing", 3),
    ("queue", 3),
    ("amqp10", 2),
    ("amqp091", 2),
    ("stream_protocol", 2),
    ("mqtt", 2),
    ("stomp", 2),
    ("websocket", 2),
    ("filter", 2),
    ("journal", 2),
    ("message", 1),
    ("base", 0),
];

/// Crates on a mezzanine: below the others of their floor, which may import them, and not below one another.
const MEZZANINES: &[&str] = &["stream_files"];

/// Names that say nothing about the contents.
const NAMES_FORBIDDEN: &[&str] = &["common", "utils", "util", "core", "helpers", "misc"];

/// How high a crate is; comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Height {
    floor: u8,
    /// `false`: on the mezzanine of its floor.
    is_full: bool,
}

fn height(name: &str) -> Option<Height> {
    let (_, floor) = FLOORS.iter().find(|(crate_name, _)| *crate_name == name)?;
    Some(Height { floor: *floor, is_full: !MEZZANINES.contains(&name) })
}

impl std::fmt::Display for Height {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_full { "floor" } else { "mezzanine of floor" };
        write!(f, "{kind} {}", self.floor)
    }
}

/// Every arrow that does not go down and every crate without a floor.
pub fn complaints(metadata: &Metadata) -> Vec<String> {
    let ours = metadata.packages.iter().filter(|package| package.source.is_none());
    let arrows = ours.flat_map(|package| {
        let inside = package.dependencies.iter().filter(|dependency| dependency.source.is_none());
        let targets = inside.map(|dependency| dependency.name.as_str()).collect();
        std::iter::once((package.name.as_str(), targets))
    });
    complaints_of(arrows)
}

fn complaints_of<'a>(crates: impl Iterator<Item = (&'a str, Vec<&'a str>)>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, targets) in crates {
        if NAMES_FORBIDDEN.contains(&name) {
            complaints.push(format!("{name} is no noun: find the one it lacks"));
        }
        let own = match (name, height(name)) {
            ("xtask", _) => Height { floor: 0, is_full: false },
            (_, Some(own)) => own,
            (_, None) => {
                complaints.push(format!("{name} has no floor: add it to the table in crates/xtask"));
                continue;
            }
        };
        for target in targets {
            match height(target) {
                Some(below) if below < own => {}
                Some(above) => complaints.push(format!("{name} ({own}) may not import {target} ({above})")),
                None => complaints.push(format!("{name} may not import {target}, which has no floor")),
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::complaints_of;

    fn check(name: &str, targets: &[&str], expected: usize) {
        let found = complaints_of([(name, targets.to_vec())].into_iter());
        assert_eq!(found.len(), expected, "{name} -> {targets:?}: {found:?}");
    }

    #[test]
    fn arrows_go_down() {
        check("server", &["broker", "base", "ctl"], 0);
        check("broker", &["routing", "journal"], 0);
        check("queue", &["routing"], 1);
        check("amqp10", &["broker", "message"], 1);
        check("base", &["base"], 1);
    }

    #[test]
    fn a_mezzanine_is_below_its_floor_and_above_the_next() {
        check("broker", &["stream_files"], 0);
        check("stream_files", &["queue", "journal"], 0);
        check("stream_files", &["broker"], 1);
        check("stream_files", &["stream_files"], 1);
        check("queue", &["stream_files"], 1);
    }

    #[test]
    fn xtask_stands_apart() {
        check("xtask", &["base"], 1);
        check("server", &["xtask"], 1);
    }

    #[test]
    fn every_crate_has_a_floor_and_a_noun() {
        check("attic", &[], 1);
        check("utils", &[], 2);
    }
}
