//! The filter of a list by names: a part of them, or a regular expression.

use crate::Limits;
use crate::response::Response;
use filter::{Pattern, TooDear};
use std::borrow::Cow;

/// States that an expression may pass over in all names of a list: half a second of one processor, or one where each
/// takes the most.
pub(crate) const PATTERN_WORK: u64 = 40_000_000;

/// The same for clients without a login, as for metrics: a few milliseconds, enough for a simple expression over the
/// names of 100,000 queues, as new steps are met in the first few.
pub(crate) const PATTERN_WORK_UNKNOWN: u64 = PATTERN_WORK / 100;

/// Names that are asked for.
pub(crate) enum Names {
    /// Those that have this in them, whatever the case.
    With(String),
    Matching(Box<Pattern>),
    /// None: an expression that is none is in no name.
    None,
}

impl Names {
    /// Those that have `text` in them, or match it, for which the expression may do so much `work`.
    pub(crate) fn new(text: &str, is_pattern: bool, work: u64, limits: &Limits) -> Names {
        if !is_pattern {
            return Names::With(text.to_lowercase());
        }
        let text = Some(text).filter(|text| text.len() <= limits.pattern_bytes_max);
        text.and_then(|text| Pattern::new(text, work))
            .map_or(Names::None, |own| Names::Matching(Box::new(own)))
    }

    /// The things that have such a name.
    ///
    /// # Errors
    /// The response to an expression that takes more than its work over so many names.
    pub(crate) fn kept<T>(
        mut self,
        mut things: Vec<T>,
        name: impl Fn(&T) -> Option<Cow<'_, str>>,
    ) -> Result<Vec<T>, Response> {
        let mut is_too_dear = false;
        things.retain(|thing| {
            name(thing).filter(|_| !is_too_dear).is_some_and(|name| match &mut self {
                Names::With(part) => name.to_lowercase().contains(part.as_str()),
                Names::Matching(pattern) => pattern.is_in(&name).unwrap_or_else(|TooDear| {
                    is_too_dear = true;
                    false
                }),
                Names::None => false,
            })
        });
        match is_too_dear {
            true => Err(Response::bad_request("the expression takes too long over so many names")),
            false => Ok(things),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_expressions_match_nothing() {
        let dots = |length: usize| {
            let names = Names::new(&".".repeat(length), true, PATTERN_WORK, &Limits::default());
            !names.kept(vec!["x".repeat(2000)], |name| Some(name.into())).unwrap().is_empty()
        };
        let most = Limits::default().pattern_bytes_max;
        assert!(dots(most) && !dots(most + 1));
    }

    /// Names as those of queues are, and as those that a server makes.
    fn many(count: usize) -> [Vec<String>; 2] {
        let mut dice = 1_u64;
        let mut random = move || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            dice >> 32
        };
        let given = |number| format!("orders.{}.customer-{number}", ["eu", "us", "größer"][number % 3]);
        let made =
            |_| format!("{:08x}-{:04x}-{:012x}", random(), random() & 0xffff, (random() << 16) ^ random());
        [(0..count).map(given).collect(), (0..count).map(made).collect()]
    }

    #[test]
    fn dear_expressions_over_many_names_are_refused() {
        let check = |names: &[String], pattern: &str, work: u64, expected: bool| {
            let own = Names::new(pattern, true, work, &Limits::default());
            assert!(matches!(own, Names::Matching(_)), "{pattern}");
            let kept = own.kept(names.iter().collect(), |name| Some(name.as_str().into()));
            assert_eq!(kept.is_ok(), expected, "{pattern} {work}");
        };
        let many = many(100_000);
        for pattern in [
            "^orders\\..*",
            "customer-7",
            "(eu|us)\\.customer-[0-9]{3,}$",
            "^[\\w.-]{1,50}$",
            "^.{1,100}$",
            ".{0,255}x",
            "(.*a.*){8}",
            "(a?){50}a{50}",
            "([0-9a-f]+-){2}[0-9a-f]+9",
            "[0-9].{8}[0-9].{4}$",
            &".{200}".repeat(5),
        ] {
            for names in &many {
                check(names, pattern, PATTERN_WORK, true);
            }
        }
        // Nobody logs in for metrics.
        for pattern in ["^orders\\..*", "customer-7", "(eu|us)\\.customer-[0-9]{3,}$", "^[a-z.-]{1,50}$"] {
            for names in &many {
                check(names, pattern, PATTERN_WORK_UNKNOWN, true);
            }
        }
        // The most that is allowed takes an unoptimized test long: a part of it.
        let [_, made] = &many;
        for pattern in ["[0-7].{100,200}!", "[ab].{0,200}[cd].{0,200}!", "[0-9][^x]{30}y"] {
            check(made, pattern, PATTERN_WORK_UNKNOWN, false);
            check(&made[..2], pattern, PATTERN_WORK_UNKNOWN, true);
        }
    }
}
