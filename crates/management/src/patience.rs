//! The delay of answers for clients that guess passwords.
//!
//! Counted is by address, not by user: nobody can lock somebody else out. A client that has just logged in does not
//! wait; an answer without a login says nothing about guesses, and changes nothing.

use crate::{Attempt, Limits};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Logins that were refused, by where they came from.
#[derive(Debug, Default)]
pub struct Refusals {
    /// How many in a row, and when the last was, milliseconds.
    by_address: BTreeMap<IpAddr, (u32, u64)>,
}

impl Refusals {
    /// Counts a login from here: milliseconds that its answer is to wait.
    pub fn note(&mut self, now_ms: u64, address: IpAddr, attempt: Attempt, limits: &Limits) -> u64 {
        match attempt {
            Attempt::None => return 0,
            Attempt::Accepted => {
                self.by_address.remove(&address);
                return 0;
            }
            Attempt::Refused => {}
        }
        let is_old = |at_ms: u64| now_ms.saturating_sub(at_ms) > limits.refusals_kept_ms;
        if self.by_address.len() >= limits.refusing_addresses_max && !self.by_address.contains_key(&address) {
            self.by_address.retain(|_, (_, at_ms)| !is_old(*at_ms));
            if self.by_address.len() >= limits.refusing_addresses_max {
                // So many come at once that each is one too many.
                return limits.refusal_delay_ms;
            }
        }
        let (count, at_ms) = self.by_address.entry(address).or_default();
        *count = if is_old(*at_ms) { 1 } else { count.saturating_add(1) };
        *at_ms = now_ms;
        if *count > limits.refusals_free { limits.refusal_delay_ms } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LIMITS: fn() -> Limits = || Limits {
        refusals_free: 2,
        refusal_delay_ms: 1000,
        refusals_kept_ms: 60_000,
        refusing_addresses_max: 3,
        ..Limits::default()
    };

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn who_is_refused_again_and_again_waits() {
        let mut refusals = Refusals::default();
        let mut check = |now_ms, from, attempt, expected| {
            let waits = refusals.note(now_ms, address(from), attempt, &LIMITS());
            assert_eq!(waits, expected, "{now_ms} {from}");
        };
        for (now_ms, expected) in [(1, 0), (2, 0), (3, 1000), (4, 1000)] {
            check(now_ms, 1, Attempt::Refused, expected);
        }
        check(5, 2, Attempt::Refused, 0);
        // A request without a login is no reason to forget.
        check(5, 1, Attempt::None, 0);
        check(5, 1, Attempt::Refused, 1000);
        check(6, 1, Attempt::Accepted, 0);
        check(7, 1, Attempt::Refused, 0);
        check(8, 1, Attempt::Refused, 0);
        check(9, 1, Attempt::Refused, 1000);
        check(70_000, 1, Attempt::Refused, 0);
    }

    #[test]
    fn addresses_have_a_bound() {
        let mut refusals = Refusals::default();
        let mut note = |now_ms, from| refusals.note(now_ms, address(from), Attempt::Refused, &LIMITS());
        assert_eq!([note(1, 1), note(1, 2), note(1, 3)], [0, 0, 0]);
        assert_eq!([note(2, 4), note(2, 1)], [1000, 0]);
        assert_eq!(note(70_000, 4), 0);
        assert!(refusals.by_address.len() <= 3);
    }
}
