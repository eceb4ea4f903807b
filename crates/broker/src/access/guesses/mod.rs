//! Guesses of passwords, over all protocols together: which logins are tried, and which are refused without a look at
//! the password.
//!
//! A login is taken out of the buckets of its account and of its origin before it is tried, and put back when it was
//! right. Where either is empty, no login is tried, unless this account has logged in from this origin of late
//! ([`known`]). So nobody guesses one account faster than its bucket fills, from however many addresses, and nobody is
//! locked out of the places it works from. Nothing that somebody else does fills a bucket.
//! Accounts are counted by name whether there is such a user or not: a refusal does not tell.
//! A pure value: time comes in as an argument.

mod buckets;
mod known;

pub use buckets::Rate;

use base::{Digest, DigestKey, Digester};
use buckets::Buckets;
use known::Known;
use std::net::IpAddr;

/// Bounds of guesses. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessLimits {
    /// Refused logins of one account that are tried; none: any number.
    pub account: Option<Rate>,
    /// Refused logins from one origin that are tried; none: any number.
    pub origin: Option<Rate>,
    /// Further ones of an account from one origin it is known from.
    pub known_pair: Rate,
    /// The same from all origins it is known from.
    pub known_account: Rate,
    /// Accounts whose refusals are counted.
    pub accounts_max: usize,
    /// Origins whose refusals are counted.
    pub origins_max: usize,
    /// Pairs of account and origin that are known.
    pub known_max: usize,
    /// Those of one account.
    pub known_account_max: usize,
    /// How long a pair is known after it was used last.
    pub known_kept_ns: u64,
    /// Between two answers to logins from one origin that are refused without a try.
    pub answer_each_ns: u64,
    /// Until such an answer at most.
    pub answer_wait_ns_max: u64,
    /// Between two lines of the log about one account or origin.
    pub line_gap_ns: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Default for GuessLimits {
    /// In no second are more than 41 guesses of one account tried: 20 and 1 of its bucket, 10 and 10 of the places it
    /// is known from.
    fn default() -> GuessLimits {
        GuessLimits {
            account: Some(Rate::per_second(1, FREE_SECONDS)),
            origin: Some(Rate::per_second(5, FREE_SECONDS)),
            known_pair: Rate::per_second(1, 10),
            known_account: Rate::per_second(10, 1),
            accounts_max: 16_384,
            origins_max: 16_384,
            known_max: 1024,
            known_account_max: 128,
            known_kept_ns: 24 * 3600 * SECOND,
            answer_each_ns: SECOND,
            answer_wait_ns_max: 20 * SECOND,
            line_gap_ns: 60 * SECOND,
        }
    }
}

/// A bucket holds what it is filled with in so many seconds.
pub const FREE_SECONDS: u32 = 20;

/// The part of an address that counts as one: all of an IPv4 address, the network (/64) of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(u64, bool);

impl Origin {
    /// The first of all.
    const FIRST: Origin = Origin(0, false);

    /// The origin of a peer; of peers that have no address, one for all.
    pub fn of(address: Option<IpAddr>) -> Origin {
        match address.map(|address| address.to_canonical()) {
            None => Origin::FIRST,
            Some(IpAddr::V4(address)) => Origin(u32::from(address).into(), true),
            // The loopback address is in a network that has no other: ::1 is not 0.0.0.0, nor nobody.
            Some(IpAddr::V6(address)) if address.is_loopback() => Origin(1, false),
            Some(IpAddr::V6(address)) => Origin((address.to_bits() >> 64) as u64, false),
        }
    }
}

/// The bucket that was empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// The account's.
    Account,
    /// The origin's.
    Origin,
    /// None: so many passwords are being compared that there is no room for this one.
    Work,
}

/// A login that is refused without a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Why.
    pub by: HeldBy,
    /// Nanoseconds until its answer.
    pub wait_ns: u64,
    /// The log is to have a line: so many were held since the last one.
    pub told: Option<u64>,
}

/// A login that is being tried. To be handed to [`Guesses::judged`].
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    account: Digest,
    origin: Origin,
    /// It was taken out of the account's bucket.
    of_account: bool,
    /// It was taken out of the origin's bucket.
    of_origin: bool,
    /// It was taken out of the buckets of its pair.
    of_pair: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Guesses {
    limits: GuessLimits,
    key: DigestKey,
    accounts: Buckets<Digest>,
    origins: Buckets<Origin>,
    known: Known,
    /// When the log hears that there is no room for more comparisons.
    work: Buckets<()>,
    /// Logins that were refused without a try, by [`HeldBy`].
    held: [u64; 3],
}

/// Counts of guesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuessCounts {
    /// Logins that were refused without a try since their accounts' buckets were empty.
    pub held_by_account: u64,
    /// The same since their origins' were.
    pub held_by_origin: u64,
    /// The same since too many comparisons waited.
    pub held_by_work: u64,
    /// Accounts with refusals that count.
    pub accounts: usize,
    /// Origins with refusals that count.
    pub origins: usize,
    /// Pairs of account and origin that are known.
    pub known: usize,
}

impl Guesses {
    /// Nothing was refused yet. Names are kept as digests under `key`.
    pub fn new(limits: GuessLimits, key: DigestKey) -> Guesses {
        Guesses {
            limits,
            key,
            accounts: Buckets::new(limits.account, limits.accounts_max),
            origins: Buckets::new(limits.origin, limits.origins_max),
            known: Known::new(&limits),
            work: Buckets::new(None, 1),
            held: [0; 3],
        }
    }

    fn digest(&self, name: &str) -> Digest {
        let mut digester = Digester::new(&self.key);
        digester.write(name.as_bytes());
        digester.finish()
    }

    /// Whether a login of an account from an origin is to be tried.
    pub fn admit(&mut self, now_ns: u64, account: &str, origin: Origin) -> Result<Ticket, Held> {
        let account = self.digest(account);
        let of_account = self.accounts.has(now_ns, account);
        let of_origin = self.origins.has(now_ns, origin);
        let of_pair = !(of_account && of_origin);
        if of_pair && !self.known.has(now_ns, (account, origin)) {
            return Err(self.hold(now_ns, account, origin, of_account));
        }
        if of_account {
            self.accounts.take(now_ns, account);
        }
        if of_origin {
            self.origins.take(now_ns, origin);
        }
        if of_pair {
            self.known.take(now_ns, (account, origin));
        }
        Ok(Ticket { account, origin, of_account, of_origin, of_pair })
    }

    /// Refuses a login as there is no room for its comparison. Its ticket, if it has one, counts for nothing.
    pub fn refuse_for_work(&mut self, now_ns: u64, ticket: Option<Ticket>) -> Held {
        if let Some(ticket) = ticket {
            self.give_back(now_ns, &ticket);
        }
        self.held[HeldBy::Work as usize] += 1;
        let told = self.work.hold(now_ns, (), self.limits.line_gap_ns);
        Held { by: HeldBy::Work, wait_ns: 0, told }
    }

    fn hold(&mut self, now_ns: u64, account: Digest, origin: Origin, is_by_origin: bool) -> Held {
        let limits = &self.limits;
        let (by, told) = match is_by_origin {
            false => (HeldBy::Account, self.accounts.hold(now_ns, account, limits.line_gap_ns)),
            true => (HeldBy::Origin, self.origins.hold(now_ns, origin, limits.line_gap_ns)),
        };
        self.held[by as usize] += 1;
        let (each_ns, most_ns) = (limits.answer_each_ns, limits.answer_wait_ns_max);
        let at = self.origins.answer_at(now_ns, origin, each_ns, most_ns);
        Held { by, wait_ns: at.saturating_sub(now_ns), told }
    }

    /// The outcome of a login that was tried. One that was right counts for nothing, and its account is known from its
    /// origin.
    pub fn judged(&mut self, now_ns: u64, ticket: Ticket, is_right: bool) {
        if is_right {
            self.give_back(now_ns, &ticket);
            self.known.learn(now_ns, (ticket.account, ticket.origin));
        }
    }

    /// A ticket for a password that is being tried already: it counts for nothing.
    pub fn again(&mut self, now_ns: u64, ticket: Ticket) -> Ticket {
        self.give_back(now_ns, &ticket);
        Ticket { of_account: false, of_origin: false, of_pair: false, ..ticket }
    }

    fn give_back(&mut self, now_ns: u64, ticket: &Ticket) {
        let Ticket { account, origin, of_account, of_origin, of_pair } = *ticket;
        if of_account {
            self.accounts.give_back(now_ns, account);
        }
        if of_origin {
            self.origins.give_back(now_ns, origin);
        }
        if of_pair {
            self.known.give_back(now_ns, (account, origin));
        }
    }

    /// Logins of an account that were refused without a try of late: since its bucket was full.
    pub fn held_of(&self, account: &str) -> u64 {
        self.accounts.held(self.digest(account))
    }

    /// Counts for metrics.
    pub fn counts(&mut self, now_ns: u64) -> GuessCounts {
        GuessCounts {
            held_by_account: self.held[0],
            held_by_origin: self.held[1],
            held_by_work: self.held[2],
            accounts: self.accounts.count(now_ns),
            origins: self.origins.count(now_ns),
            known: self.known.len(),
        }
    }
}

#[cfg(test)]
mod tests;
