//! Which code of the product may roll dice, and which may ask the system for randomness.
//!
//! Secrets, which nobody may foretell, come from `base::Secrets`. Dice (`base::Random`) give their state away to
//! anybody that sees some of their numbers: only numbers that anybody may foretell come from them, and each place that
//! rolls them is named here.

use crate::text;

/// Folders and files of the product whose code may roll dice, and the use it makes of them.
const ROLLS_DICE: &[(&str, &str)] = &[
    ("crates/base/src/", "what they are, and which samples are kept"),
    ("crates/broker/src/publisher/route.rs", "the lots that exchanges draw"),
    ("crates/consensus/src/executor.rs", "when replicas ask for votes, and numbers of questions among peers"),
    ("crates/journal/src/faulty.rs", "faults of a simulated disk"),
    ("crates/journal/src/file.rs", "the mark of a file, which the format mixes from the folder's secret"),
    ("crates/perf/", "the load"),
    ("crates/sim/", "the simulation"),
];

/// Files of the product that may ask the system for randomness, and make a source of secrets of it.
const ASKS_THE_SYSTEM: &[(&str, &str)] = &[
    ("crates/base/src/secrets.rs", "what a source is"),
    ("crates/ctl/src/objects.rs", "a salt, without a node"),
    ("crates/perf/src/nodes.rs", "the secret of nodes that it starts"),
    ("crates/server/src/seed.rs", "the seed of all that a node has"),
];

/// Files whose code may make a source of secrets from a seed that anybody may know.
const SIMULATES: &[(&str, &str)] =
    &[("crates/base/src/secrets.rs", "what it is"), ("crates/sim/", "the simulation")];

/// Words that show the use of a source, in halves so that this file passes its own check.
struct Rule {
    words: &'static [&'static str],
    /// Where they may stand, and why.
    places: &'static [(&'static str, &'static str)],
    what: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        words: &[concat!("Rand", "om::new"), concat!("base::Rand", "om")],
        places: ROLLS_DICE,
        what: "rolls dice",
    },
    Rule {
        words: &[
            concat!("getrand", "om::"),
            concat!("/dev/uran", "dom"),
            concat!("/dev/rand", "om"),
            concat!("Secrets::", "new("),
        ],
        places: ASKS_THE_SYSTEM,
        what: "asks the system for randomness",
    },
    Rule {
        words: &[concat!("Secrets::sim", "ulated")],
        places: SIMULATES,
        what: "makes secrets that are none",
    },
];

/// Every line of the product's code that uses a source of randomness it may not use. Tests use what they like.
pub fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in files {
        for (number, line) in text::code(name, text) {
            for Rule { words, places, what } in RULES {
                let is_named = places.iter().any(|(place, _)| name.starts_with(place));
                if !is_named && words.iter().any(|word| line.contains(word)) {
                    let rule = "see crates/xtask/src/secrets.rs";
                    complaints.push(format!("{name}:{number}: {what}, which it may not: {rule}"));
                }
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: usize) {
        assert_eq!(complaints(&[(name.to_owned(), text.to_owned())]).len(), expected, "{name}: {text}");
    }

    #[test]
    fn dice_and_secrets_stay_where_they_may_be() {
        let dice = concat!("let dice = Rand", "om::new(7);");
        let system = concat!("getrand", "om::fill(&mut bytes)");
        let simulated = concat!("Secrets::sim", "ulated(7)");
        check("crates/broker/src/reply.rs", dice, 1);
        check("crates/broker/src/reply.rs", concat!("use base::Rand", "om;"), 1);
        check("crates/broker/src/publisher/route.rs", dice, 0);
        check("crates/server/src/node.rs", system, 1);
        check("crates/server/src/seed.rs", system, 0);
        check("crates/server/src/seed.rs", simulated, 1);
        check("crates/server/src/seed.rs", &format!("#[cfg(test)]\n{simulated}"), 0);
        check("crates/broker/tests/shard.rs", dice, 0);
        check("crates/broker/src/reply.rs", &format!("// {dice}"), 0);
        check("crates/sim/src/node.rs", simulated, 0);
    }
}
