//! Requests about objects that are there, or are not; the policies that are meant for a thing.

use super::*;

#[test]
fn what_is_to_be_new_is_refused_where_it_is_there_and_the_other_way_round() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT users/u?only=existing", r#"{"tags": "x"}"#, 404),
        ("PUT users/u?only=new", r#"{"password": "p", "tags": "a"}"#, 201),
        ("PUT users/u?only=new", r#"{"password": "q", "tags": "b"}"#, 409),
        ("PUT users/u?only=some", r#"{"password": "q", "tags": "b"}"#, 400),
        ("PUT vhosts/w?only=existing", r#"{"tracing": true}"#, 404),
        ("PUT vhosts/w?only=new", r#"{"description": "d"}"#, 201),
        ("PUT vhosts/w?only=new", r#"{"description": "e"}"#, 409),
        ("PUT vhosts/w?only=existing", r#"{"tags": ["c"]}"#, 204),
        ("PUT vhosts/w?only=", "", 400),
    ]);
    let user = || bench.get("users/u");
    let password = |password| Value::from(PasswordHash::new(password, [7; SALT]).to_text());
    assert_eq!((&user()["password_hash"], &user()["tags"]), (&password("p"), &json!(["a"])));
    assert_eq!(
        (&bench.get("vhosts/w")["description"], &bench.get("vhosts/w")["tags"]),
        (&json!("d"), &json!(["c"]))
    );
}

#[test]
fn of_what_is_there_stays_what_is_not_named() {
    let bench = Bench::new();
    bench.statuses(&[("PUT users/u", r#"{"password": "p", "tags": "a"}"#, 201)]);
    let password = |password| PasswordHash::new(password, [7; SALT]).to_text();
    let (p, q) = (password("p"), password("q"));
    for (body, status, hash, tags) in [
        ("{}", 204, p.as_str(), json!(["a"])),
        (r#"{"tags": ["b", "c"]}"#, 204, &p, json!(["b", "c"])),
        (r#"{"password": "q"}"#, 204, &q, json!(["b", "c"])),
        (r#"{"password": "", "tags": ""}"#, 204, &password(""), json!([])),
        (r#"{"password_hash": ""}"#, 204, "", json!([])),
        (r#"{"password": "q", "tags": "d"}"#, 204, &q, json!(["d"])),
        (r#"{"password": 1}"#, 400, &q, json!(["d"])),
        (r#"{"password": "p", "password_hash": "h"}"#, 400, &q, json!(["d"])),
        (r#"{"tags": 7}"#, 400, &q, json!(["d"])),
    ] {
        bench.statuses(&[("PUT users/u?only=existing", body, status)]);
        let user = bench.get("users/u");
        assert_eq!((&user["password_hash"], &user["tags"]), (&json!(hash), &tags), "{body}");
    }
}

#[test]
fn policies_that_match_are_told_those_that_count_most_first() {
    let bench = Bench::new();
    let policy = |pattern: &str, apply_to: &str, priority: i64, key: &str| {
        json!({"pattern": pattern, "apply-to": apply_to, "priority": priority, "definition": {key: "x"}})
            .to_string()
    };
    let alternate = "alternate-exchange";
    bench.statuses(&[
        ("PUT vhosts/w", "", 201),
        ("PUT queues/w/q", "", 201),
        ("PUT exchanges/w/q", "", 201),
        ("PUT policies/w/low", &policy("^q", "queues", 1, "dead-letter-exchange"), 201),
        ("PUT policies/w/high", &policy("q", "queues", 7, "dead-letter-exchange"), 201),
        ("PUT policies/w/other", &policy("^other", "queues", 9, "dead-letter-exchange"), 201),
        ("PUT policies/w/of-exchanges", &policy(".", "exchanges", 3, alternate), 201),
        ("PUT policies/%2F/elsewhere", &policy(".", "queues", 3, "dead-letter-exchange"), 201),
        ("GET x/queues/w/none/policies", "", 404),
        ("GET x/exchanges/w/none/policies", "", 404),
        ("GET x/queues/none/q/policies", "", 404),
    ]);
    let check = |path: &str, expected: &[&str]| {
        let told = bench.get(path);
        let names: Vec<&str> =
            told.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{path}");
    };
    check("x/queues/w/q/policies", &["high", "low"]);
    check("x/exchanges/w/q/policies", &["of-exchanges"]);
    check("x/exchanges/w/amq.direct/policies", &["of-exchanges"]);
    assert_eq!(
        bench.get("x/queues/w/q/policies")[1],
        json!({"vhost": "w", "name": "low", "pattern": "^q", "apply-to": "queues", "priority": 1,
               "definition": {"dead-letter-exchange": "x"}})
    );
}

#[test]
fn delayed_messages_are_told_and_thrown_away() {
    let bench = Bench::new();
    let rows = |ids: std::ops::Range<u64>| -> Value {
        ids.map(|id| json!({ "id": id, "due_at": 1000 + id })).collect()
    };
    assert_eq!(bench.get("x/queues/%2F/q/delayed"), rows(3..9));
    assert_eq!(bench.get("x/queues/%2F/q/delayed?count=2"), rows(3..5));
    let many = json!({ "ids": (0..2000).collect::<Vec<_>>() }).to_string();
    bench.statuses(&[
        ("GET x/queues/%2F/none/delayed", "", 404),
        ("GET x/queues/none/q/delayed", "", 404),
        ("GET x/queues/%2F/q/delayed?count=-1", "", 400),
        ("POST x/queues/%2F/none/delayed/cancel", r#"{"ids": [3]}"#, 404),
        ("POST x/queues/%2F/q/delayed/cancel", "{}", 400),
        ("POST x/queues/%2F/q/delayed/cancel", r#"{"ids": ["3"]}"#, 400),
        ("POST x/queues/%2F/q/delayed/cancel", &many, 400),
        ("POST x/queues/%2F/q/delayed/cancel", r#"{"ids": []}"#, 200),
    ]);
    let (status, body, _) =
        bench.ask("guest", "POST x/queues/%2F/q/delayed/cancel", r#"{"ids": [2, 3, 8, 9, 3]}"#);
    assert_eq!((status, body), (200, json!({ "cancelled": 2 })));
}

#[test]
fn streams_forget_offsets_and_are_restarted() {
    let bench = Bench::new();
    bench.statuses(&[
        ("DELETE x/streams/%2F/s/offsets/c", "", 204),
        ("DELETE x/streams/%2F/s/offsets/other", "", 404),
        ("DELETE x/streams/%2F/none/offsets/c", "", 404),
        ("DELETE x/streams/none/s/offsets/c", "", 404),
        ("POST x/streams/%2F/s/restart", "", 204),
        ("POST x/streams/%2F/none/restart", "", 404),
        ("POST x/streams/none/s/restart", "", 404),
    ]);
    assert_eq!(*bench.acted.lock().unwrap(), 1);
}
