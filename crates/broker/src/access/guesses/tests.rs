//! Tables of logins: when, of which account, from where, with the right password or not; tried or held.

use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn from(last: u8) -> Origin {
    Origin::of(Some(Ipv4Addr::new(10, 0, 0, last).into()))
}

fn guesses(limits: GuessLimits) -> Guesses {
    Guesses::new(limits, DigestKey::new([7; 16]))
}

/// Buckets of three logins for an account, of six for an origin, one a second each.
fn small() -> GuessLimits {
    let rate = |free| Rate { free, each_ns: SECOND };
    GuessLimits {
        account: Some(rate(3)),
        origin: Some(rate(6)),
        known_pair: rate(2),
        known_account: rate(3),
        known_max: 4,
        known_account_max: 3,
        ..GuessLimits::default()
    }
}

impl Guesses {
    /// Tries a login: whether it was tried.
    fn attempt(&mut self, now_ns: u64, account: &str, origin: Origin, is_right: bool) -> bool {
        let admitted = self.admit(now_ns, account, origin);
        admitted.map(|ticket| self.judged(now_ns, ticket, is_right)).is_ok()
    }
}

type Row = (u64, &'static str, u8, bool, bool);

fn check(rows: &[Row]) {
    let mut guesses = guesses(small());
    for (at, row) in rows.iter().enumerate() {
        let (second, account, last, is_right, expected) = *row;
        let found = guesses.attempt(second * SECOND, account, from(last), is_right);
        assert_eq!(found, expected, "row {at}: {row:?}");
    }
}

#[test]
fn an_account_has_so_many_refusals_from_everywhere() {
    check(&[
        (0, "a", 1, false, true),
        (0, "a", 2, false, true),
        (0, "a", 3, false, true),
        (0, "a", 4, false, false),
        // The right password is not looked at either, where it was never used.
        (0, "a", 4, true, false),
        (0, "b", 4, false, true),
        (1, "a", 5, false, true),
        (1, "a", 5, false, false),
    ]);
}

#[test]
fn an_origin_has_so_many_over_all_accounts() {
    check(&[
        (0, "a", 1, false, true),
        (0, "b", 1, false, true),
        (0, "c", 1, false, true),
        (0, "d", 1, false, true),
        (0, "e", 1, false, true),
        (0, "f", 1, false, true),
        (0, "g", 1, false, false),
        (0, "g", 2, false, true),
        (1, "g", 1, false, true),
        (1, "h", 1, false, false),
    ]);
}

#[test]
fn a_login_of_somebody_else_forgives_nothing() {
    check(&[
        (0, "boss", 1, false, true),
        (0, "me", 1, true, true),
        (0, "boss", 1, false, true),
        (0, "me", 1, true, true),
        (0, "boss", 1, false, true),
        (0, "me", 1, true, true),
        (0, "boss", 1, false, false),
        // Nor does one of the same account.
        (0, "a", 2, false, true),
        (0, "a", 2, true, true),
        (0, "a", 3, false, true),
        (0, "a", 3, false, true),
        (0, "a", 3, false, false),
    ]);
}

#[test]
fn right_logins_count_for_nothing() {
    let mut guesses = guesses(small());
    assert!((0..1000).all(|_| guesses.attempt(0, "a", from(1), true)));
    assert_eq!(guesses.counts(0), GuessCounts { known: 1, ..GuessCounts::default() });
}

#[test]
fn an_account_is_not_locked_out_of_where_it_logged_in() {
    check(&[
        (0, "a", 1, true, true),
        (0, "a", 2, false, true),
        (0, "a", 2, false, true),
        (0, "a", 2, false, true),
        (0, "a", 2, false, false),
        (0, "a", 1, true, true),
        (0, "a", 1, true, true),
        // That may be guessed from as well, and has its own bound.
        (0, "a", 1, false, true),
        (0, "a", 1, false, true),
        (0, "a", 1, false, false),
        (0, "a", 1, true, false),
        // The account's and the pair's.
        (1, "a", 1, false, true),
        (1, "a", 1, false, true),
        (1, "a", 1, false, false),
        (24 * 3600, "a", 2, false, true),
        (24 * 3600, "a", 2, false, true),
        (24 * 3600, "a", 2, false, true),
        (24 * 3600, "a", 1, true, true),
        (48 * 3600 + 1, "a", 2, false, true),
        (48 * 3600 + 1, "a", 2, false, true),
        (48 * 3600 + 1, "a", 2, false, true),
        // That was more than a day ago.
        (48 * 3600 + 1, "a", 1, true, false),
    ]);
}

#[test]
fn it_is_not_locked_out_by_others_at_its_own_address_either() {
    let mut guesses = guesses(small());
    assert!(guesses.attempt(0, "a", from(1), true));
    while guesses.attempt(0, "b", from(1), false) || guesses.attempt(0, "c", from(1), false) {}
    assert!(guesses.attempt(0, "a", from(1), true));
    assert!(!guesses.attempt(0, "d", from(1), true), "one that never logged in from there");
    assert!(guesses.attempt(0, "d", from(2), true));
}

#[test]
fn the_least_recently_used_pair_goes_of_an_account_with_its_share_its_own() {
    let mut guesses = guesses(small());
    let pair = |guesses: &Guesses, account: &str, last| (guesses.digest(account), from(last));
    // When, whose, from where, and whether each of four pairs is known afterwards.
    let rows = [
        (1, "a", 1, [true, false, false, false]),
        (2, "b", 1, [true, true, false, false]),
        (3, "b", 2, [true, true, true, false]),
        (4, "a", 1, [true, true, true, false]),
        (5, "b", 3, [true, true, true, true]),
        // The account has three.
        (6, "b", 4, [true, false, true, true]),
        // There are four.
        (7, "c", 1, [true, false, false, true]),
    ];
    for (second, account, last, expected) in rows {
        assert!(guesses.attempt(second * SECOND, account, from(last), true));
        let of = [("a", 1), ("b", 1), ("b", 2), ("b", 3)];
        let found =
            of.map(|(account, last)| guesses.known.has(second * SECOND, pair(&guesses, account, last)));
        assert_eq!(found, expected, "{second}");
        assert!(guesses.counts(0).known <= 4);
    }
}

#[test]
fn held_logins_are_counted_told_once_a_minute_and_answered_one_by_one() {
    let mut guesses = guesses(small());
    while guesses.attempt(0, "a", from(1), false) {}
    let mut held = |now_ns, account, last| guesses.admit(now_ns, account, from(last)).unwrap_err();
    let expected = |by, wait, told| Held { by, wait_ns: wait * SECOND, told };
    assert_eq!(held(0, "a", 1), expected(HeldBy::Account, 2, None));
    assert_eq!(held(0, "a", 2), expected(HeldBy::Account, 1, None));
    for _ in 0..50 {
        assert!(held(0, "a", 1).wait_ns <= 20 * SECOND);
    }
    assert_eq!(guesses.counts(0).held_by_account, 53);
    while guesses.attempt(0, "b", from(1), false) {}
    while guesses.attempt(0, "c", from(1), false) {}
    let found = guesses.admit(0, "d", from(1)).unwrap_err();
    assert_eq!((found.by, found.told), (HeldBy::Origin, None), "it was told of the address before");
    let counts = guesses.counts(0);
    assert_eq!((counts.accounts, counts.origins, counts.held_by_origin), (2, 2, 2));
}

#[test]
fn as_shipped_an_account_is_guessed_fewer_than_fifty_times_in_any_second() {
    let mut guesses = guesses(GuessLimits::default());
    // It has logged in from 40 addresses, and is guessed from all of them, and from 200 others.
    (0..40).for_each(|last| assert!(guesses.attempt(0, "boss", from(last), true)));
    let mut tried = Vec::new();
    for ms in (0..10_000).step_by(10) {
        for last in 0..240 {
            let now_ns = 2 * SECOND + ms * 1_000_000;
            if guesses.attempt(now_ns, "boss", from(last), false) {
                tried.push(ms);
            }
        }
    }
    let most = (0..9_000).map(|begin| tried.iter().filter(|ms| (begin..begin + 1000).contains(*ms)).count());
    let most = most.max().unwrap();
    assert!((30..=42).contains(&most), "{most} in a second");
    assert!(tried.len() <= 150, "{} in ten seconds", tried.len());
}

#[test]
fn origins() {
    let of = |text: &str| Origin::of(Some(text.parse().unwrap()));
    let same = [("10.0.0.1", "::ffff:10.0.0.1"), ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9")];
    same.iter().for_each(|(one, other)| assert_eq!(of(one), of(other)));
    let all = [
        "10.0.0.1",
        "10.0.0.2",
        "0.0.0.0",
        "0.0.0.1",
        "::1",
        "127.0.0.1",
        "2001:db8:1:2::1",
        "2001:db8:1:3::1",
    ];
    let mut distinct: Vec<Origin> = all.iter().map(|text| of(text)).collect();
    distinct.push(Origin::of(None));
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), all.len() + 1);
    assert_eq!(Origin::of(Some(Ipv6Addr::UNSPECIFIED.into())), Origin::of(None));
}
