//! Metrics of users as tenants: what holds them back, the work that is done for them, and the places that they have.

use super::facts::{Detail, Facts};
use super::text::{Kind, Text};
use crate::node::Node;
use crate::pool::PlacesOf;
use crate::response::Response;
use Kind::{Counter, Gauge};
use base::brief;
use broker::ledger::AccountRow;
use broker::{HeldBack, TenantRow};
use std::cmp::Reverse;

/// Users that a family tells of one by one: those that have most of what it tells.
const USERS_MAX: usize = 1000;

/// A family's name, its type, its help and the source of its values.
type FamilyOf<F> = (&'static str, Kind, &'static str, F);

/// A number of a user's row for the reason with this number.
type OfReason = fn(&TenantRow, usize) -> u64;

/// A number of a user's places.
type OfPlaces = fn(&PlacesOf) -> u64;

/// All users together.
pub(super) fn totals<N: Node>(node: &N, text: &mut Text) -> Result<(), Response> {
    let times = node.held_back()?;
    text.family(
        "leveret_held_back_total",
        Counter,
        "Times that a connection's input was left alone, by reason",
    );
    for why in HeldBack::ALL {
        text.sample(&[("reason", why.name())], times[why as usize]);
    }
    let pools = node.pools();
    text.family("leveret_places", Gauge, "Places that clients share, by kind");
    for pool in &pools {
        if let Some(most) = pool.most {
            text.sample(&[("pool", pool.name)], most);
        }
    }
    text.family("leveret_places_taken", Gauge, "Places that are taken");
    pools.iter().for_each(|pool| text.sample(&[("pool", pool.name)], pool.taken));
    text.family("leveret_places_refused_total", Counter, "Times that a client had to go without a place");
    pools.iter().for_each(|pool| text.sample(&[("pool", pool.name)], pool.refused));
    text.family(
        "leveret_places_given_up_total",
        Counter,
        "Times that a client with a place was closed for another one",
    );
    pools.iter().for_each(|pool| text.sample(&[("pool", pool.name)], pool.given_up));
    Ok(())
}

/// Each user, where objects are told of one by one.
pub(super) fn users<N: Node>(node: &N, facts: &Facts, text: &mut Text) -> Result<(), Response> {
    if facts.detail == Detail::Sums {
        return Ok(());
    }
    let mut rows = node.tenants()?;
    rows.retain(|row| !row.user.is_empty());
    let each = |text: &mut Text, name: &'static str, kind, help, of: fn(&TenantRow) -> u64| {
        text.family(name, kind, help);
        for row in most(&rows, of, |row| &row.user) {
            text.sample(&[("user", &row.user)], of(row));
        }
    };
    each(text, "leveret_user_connections", Gauge, "Open connections of a user", |row| row.connections);
    let help = "Units of work that were done for connections of a user";
    each(text, "leveret_user_work_units_total", Counter, help, |row| row.units);
    let help = "Units of work of a user that later turns have to pay for";
    each(text, "leveret_user_work_owed", Gauge, help, |row| row.owed);
    let accounts = node.about().ledger.rows().users;
    let each = |text: &mut Text, name: &'static str, kind, help, of: fn(&AccountRow) -> u64| {
        text.family(name, kind, help);
        for account in most(&accounts, of, |account| &account.name) {
            text.sample(&[("user", &account.name)], of(account));
        }
    };
    let help = "Bytes of memory that connections of a user hold";
    each(text, "leveret_user_memory_bytes", Gauge, help, |account| account.held);
    let help = "Requests for memory that a bound of a user, or of one connection, refused";
    each(text, "leveret_user_memory_refusals_total", Counter, help, |account| account.refusals);
    let reasons: [FamilyOf<OfReason>; 2] = [
        (
            "leveret_user_connections_held_back",
            Gauge,
            "Connections of a user whose input is left alone",
            |row, why| row.held[why],
        ),
        (
            "leveret_user_held_back_total",
            Counter,
            "Times that a user's connection was held back",
            |row, why| row.times[why],
        ),
    ];
    for (name, kind, help, of) in reasons {
        text.family(name, kind, help);
        let all = |row: &TenantRow| HeldBack::ALL.into_iter().map(|why| of(row, why as usize)).sum();
        for row in most(&rows, all, |row| &row.user) {
            // Most users are never held back: what is 0 is not told of each.
            for why in HeldBack::ALL.into_iter().filter(|why| of(row, *why as usize) > 0) {
                text.sample(&[("user", &row.user), ("reason", why.name())], of(row, why as usize));
            }
        }
    }
    let pools = node.pools();
    let places: [FamilyOf<OfPlaces>; 2] = [
        ("leveret_user_places_taken", Gauge, "Places that a user has, by kind", |own| own.taken),
        (
            "leveret_user_places_refused_total",
            Counter,
            "Times that a user had to go without a place",
            |own| own.refused,
        ),
    ];
    for (name, kind, help, of) in places {
        text.family(name, kind, help);
        for pool in &pools {
            let some: Vec<_> = pool.by_user.iter().filter(|(_, own)| of(own) > 0).collect();
            for (user, own) in most(&some, |(_, own)| of(own), |(user, _)| user) {
                text.sample(&[("user", user), ("pool", pool.name)], of(own));
            }
        }
    }
    Ok(())
}

/// The rows with the highest values, at most [`USERS_MAX`] of them; of equal ones those whose names come first.
fn most<'r, R>(rows: &'r [R], of: impl Fn(&R) -> u64, name: impl Fn(&'r R) -> &'r str) -> Vec<&'r R> {
    let mut found: Vec<&R> = rows.iter().collect();
    brief::sort_by_key(&mut found, |row| (Reverse(of(row)), name(row)));
    found.truncate(USERS_MAX);
    found
}
