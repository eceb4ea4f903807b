//! Users as tenants: their places, their work and the reasons that hold them back, in lists and in metrics.

use super::*;
use crate::node::Node;
use broker::HeldBack;
use broker::ledger::{Holding, Kind};

fn tenanted() -> Bench {
    let bench = Bench::new();
    let row = |user: &str, of: u64| TenantRow {
        user: user.into(),
        connections: of,
        held: [0, 0, 0, 1, of],
        times: [0, 0, of, 2, 0],
        units: 100 * of,
        owed: of,
    };
    *bench.tenants.lock().unwrap() = vec![row("", 1), row("busy", 7), row("quiet", 2)];
    let mut pool = PoolRow::new("event_streams", Some(10));
    (pool.taken, pool.refused, pool.given_up) = (3, 5, 4);
    (pool.of("busy").taken, pool.of("other").refused) = (3, 5);
    *bench.pools.lock().unwrap() =
        vec![PoolRow::new(PoolRow::CONNECTIONS, Some(50)), pool, PoolRow::new("bodies", None)];
    bench
}

/// A connection of the user `busy` that holds 1,000 bytes of his million, and was refused another million.
fn holding_of_busy(bench: &Bench) -> Holding {
    let ledger = &bench.about().ledger;
    ledger.set_user_max("busy", Some(1_000_000));
    let mut holding = ledger.open(&"busy".into(), &"/".into());
    holding.take(Kind::Transactions, 1_000).unwrap();
    holding.take(Kind::Transactions, 1_000_000).unwrap_err();
    holding
}

#[test]
fn users_are_listed_with_what_they_take_and_what_holds_them_back() {
    let bench = tenanted();
    let holding = holding_of_busy(&bench);
    let rows = bench.get("x/tenants");
    drop(holding);
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["", "busy", "other", "quiet"]);
    let none = json!({"taken": 0, "refused": 0});
    assert_eq!(
        rows[1],
        json!({
            "name": "busy", "connections": 7, "held_back": 8,
            "held_back_by": {"memory_alarm": 0, "disk_alarm": 0, "flow": 0, "share_of_work": 1, "unread_output": 7},
            "held_back_total": 9,
            "held_back_total_by":
                {"memory_alarm": 0, "disk_alarm": 0, "flow": 7, "share_of_work": 2, "unread_output": 0},
            "work_units": 700, "work_owed": 7,
            "memory_held": 5096, "memory_max": 1_000_000, "memory_refused": 1,
            "places": {"event_streams": {"taken": 3, "refused": 0}, "bodies": none},
            "places_refused": 0, "logins_held_back": 0,
        })
    );
    assert_eq!((&rows[2]["connections"], &rows[2]["places_refused"]), (&json!(0), &json!(5)));
    let sorted = bench.get("x/tenants?sort=work_units&sort_reverse=true&columns=name");
    assert_eq!(sorted, json!([{"name": "busy"}, {"name": "quiet"}, {"name": ""}, {"name": "other"}]));
    let places = bench.get("x/places");
    assert_eq!(
        places[2],
        json!({"name": "event_streams", "places": 10, "taken": 3, "refused": 5, "given_up": 4,
               "users": {"busy": {"taken": 3, "refused": 0}, "other": {"taken": 0, "refused": 5}}})
    );
    assert_eq!(places[0]["places"], Value::Null);
    for path in ["x/tenants", "x/places"] {
        let status = |user: &str| bench.ask(user, &format!("GET {path}"), "").0;
        assert_eq!([status("manager"), status("monitor")], [401, 200], "{path}");
    }
}

#[test]
fn a_connection_says_why_its_input_is_left_alone() {
    let bench = Bench::new();
    let name = "127.0.0.1:1 -> 127.0.0.1:5672";
    for (held_back, expected) in [(None, "none"), (Some(HeldBack::Flow), "flow")] {
        let row = ConnectionRow { user: "guest".into(), held_back, ..ConnectionRow::default().named(name) };
        *bench.connections.lock().unwrap() = vec![row];
        assert_eq!(bench.get("connections")[0]["held_back"], expected);
    }
}

#[test]
fn metrics_tell_of_users_only_where_objects_are_told_one_by_one() {
    let bench = tenanted();
    let text = |path: &str| {
        let response = crate::metrics(&bench, &Request::new("GET", path, Vec::new(), true).unwrap());
        String::from_utf8(response.body).unwrap()
    };
    let plain = text("/metrics");
    for line in [
        "rabbitmq_leveret_held_back_total{reason=\"flow\"} 10",
        "rabbitmq_leveret_places{pool=\"event_streams\"} 10",
        "rabbitmq_leveret_places_taken{pool=\"event_streams\"} 3",
        "rabbitmq_leveret_places_refused_total{pool=\"event_streams\"} 5",
        "rabbitmq_leveret_places_given_up_total{pool=\"event_streams\"} 4",
    ] {
        assert!(plain.lines().any(|own| own == line), "{line}");
    }
    assert_eq!(*bench.listed.lock().unwrap(), 0, "sums take no rows of users");
    assert!(!plain.contains("busy") && !plain.contains("places{pool=\"bodies\"}"));
    let holding = holding_of_busy(&bench);
    let each = text("/metrics/per-object");
    drop(holding);
    for line in [
        "rabbitmq_leveret_user_connections{user=\"busy\"} 7",
        "rabbitmq_leveret_user_held_back_total{user=\"busy\",reason=\"flow\"} 7",
        "rabbitmq_leveret_user_connections_held_back{user=\"quiet\",reason=\"unread_output\"} 2",
        "rabbitmq_leveret_user_work_owed{user=\"quiet\"} 2",
        "rabbitmq_leveret_user_memory_bytes{user=\"busy\"} 5096",
        "rabbitmq_leveret_user_memory_refusals_total{user=\"busy\"} 1",
        "rabbitmq_leveret_user_places_taken{user=\"busy\",pool=\"event_streams\"} 3",
        "rabbitmq_leveret_user_places_refused_total{user=\"other\",pool=\"event_streams\"} 5",
    ] {
        assert!(each.lines().any(|own| own == line), "{line}\n{each}");
    }
    assert!(!each.contains("user=\"\""));
    assert!(text("/metrics/detailed?family=leveret_user_metrics").contains("user=\"busy\""));
}

#[test]
fn each_family_tells_of_the_users_that_have_most_of_it() {
    let bench = Bench::new();
    // All of them do as much work, and the last by name have most of all else.
    let names: Vec<String> = (0..1001).map(|number| format!("user{number:04}")).collect();
    let last = names.last().unwrap();
    let row = |user: &String| {
        let of = u64::from(user == last);
        TenantRow {
            user: user.as_str().into(),
            connections: 1 + of,
            held: [0, 0, 1 + of, 0, 0],
            times: [0, 0, 1 + of, 0, 0],
            units: 10 - of,
            owed: 1 + of,
        }
    };
    *bench.tenants.lock().unwrap() = names.iter().map(row).collect();
    let mut pool = PoolRow::new("event_streams", Some(10));
    for user in &names {
        let of = u64::from(user == last);
        *pool.of(user) = crate::pool::PlacesOf { taken: 1 + of, refused: 1 + of };
    }
    *bench.pools.lock().unwrap() = vec![pool];
    let path = "/metrics/detailed?family=leveret_user_metrics";
    let response = crate::metrics(&bench, &Request::new("GET", path, Vec::new(), true).unwrap());
    let text = String::from_utf8(response.body).unwrap();
    let check = |family: &str, has_last: bool| {
        let name = format!("_leveret_user_{family}{{");
        let told: Vec<&str> = text.lines().filter(|line| line.contains(&name)).collect();
        let has = |user: &String| told.iter().any(|line| line.contains(user.as_str()));
        assert_eq!((told.len(), has(last), has(&names[0])), (1000, has_last, true), "{family}");
    };
    check("work_units_total", false);
    for family in [
        "connections",
        "work_owed",
        "connections_held_back",
        "held_back_total",
        "places_taken",
        "places_refused_total",
    ] {
        check(family, true);
    }
}
