//! Users as tenants of one node: what each takes of what all share, and what holds each back.

use crate::call::Call;
use crate::list;
use crate::node::Node;
use crate::pool::{PlacesOf, PoolRow};
use crate::response::Answer;
use broker::ledger::AccountRow;
use broker::{HeldBack, HeldCounts, TenantRow};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A number for each reason, by name.
fn by_reason(counts: &HeldCounts) -> Value {
    HeldBack::ALL.into_iter().map(|why| (why.name(), Value::from(counts[why as usize]))).collect()
}

fn shown(row: &TenantRow, memory: Option<&AccountRow>, pools: &[PoolRow], held_logins: u64) -> Value {
    let own = |pool: &PoolRow| pool.by_user.get(&*row.user).copied().unwrap_or_default();
    let places: Map<String, Value> = pools
        .iter()
        .filter(|pool| pool.name != PoolRow::CONNECTIONS)
        .map(|pool| {
            let PlacesOf { taken, refused } = own(pool);
            (pool.name.to_owned(), json!({ "taken": taken, "refused": refused }))
        })
        .collect();
    let refused: u64 = pools.iter().map(|pool| own(pool).refused).sum();
    json!({
        "name": &*row.user,
        "connections": row.connections,
        "held_back": row.held.iter().sum::<u64>(),
        "held_back_by": by_reason(&row.held),
        "held_back_total": row.times.iter().sum::<u64>(),
        "held_back_total_by": by_reason(&row.times),
        "work_units": row.units,
        "work_owed": row.owed,
        "memory_held": memory.map_or(0, |account| account.held),
        "memory_max": memory.and_then(|account| account.most),
        "memory_refused": memory.map_or(0, |account| account.refusals),
        "places": places,
        "places_refused": refused,
        "logins_held_back": held_logins,
    })
}

/// `GET /api/x/tenants`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>) -> Answer {
    let mut rows: BTreeMap<String, TenantRow> =
        base::brief::collect(call.node.tenants()?.into_iter().map(|row| (row.user.to_string(), row)));
    let pools = call.node.pools();
    // A user may have places of the HTTP API, or be refused some, and have no connection.
    for user in pools.iter().flat_map(|pool| pool.by_user.keys()) {
        let row = || TenantRow { user: user.as_str().into(), ..TenantRow::default() };
        rows.entry(user.clone()).or_insert_with(row);
    }
    let about = call.node.about();
    let held = |user: &str| if user.is_empty() { 0 } else { about.guard.held_of(user) };
    let accounts = about.ledger.rows().users;
    let memory = |user: &str| {
        let at = accounts.binary_search_by(|account| (*account.name).cmp(user)).ok()?;
        Some(&accounts[at])
    };
    let items = rows.values().map(|row| shown(row, memory(&row.user), &pools, held(&row.user))).collect();
    list::answer(items, call.request, &about.limits, &["name"])
}

/// `GET /api/x/places`.
pub(crate) fn places<N: Node>(call: &Call<'_, N>) -> Answer {
    let shown = |pool: &PoolRow| {
        let users: Map<String, Value> = base::brief::collect(
            pool.by_user
                .iter()
                .map(|(user, own)| (user.clone(), json!({ "taken": own.taken, "refused": own.refused }))),
        );
        json!({
            "name": pool.name,
            "places": pool.most,
            "taken": pool.taken,
            "refused": pool.refused,
            "given_up": pool.given_up,
            "users": users,
        })
    };
    let items = call.node.pools().iter().map(shown).collect();
    list::answer(items, call.request, &call.node.about().limits, &["name"])
}
