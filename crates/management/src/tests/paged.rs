//! Lists of queues: which are shown to which user, and which of them the shards are asked about.

use super::Bench;
use serde_json::{Value, json};

/// Fifteen queues in each of two virtual hosts; one of `manager` in the second.
fn bench() -> Bench {
    let bench = Bench::new();
    for number in 0..15 {
        for vhost in ["%2F", "v"] {
            bench.statuses(&[(&format!("PUT queues/{vhost}/q{number:02}"), r#"{"durable": true}"#, 201)]);
        }
    }
    assert_eq!(bench.ask("manager", "PUT queues/v/own", r#"{"durable": true}"#).0, 201);
    bench.shown.lock().unwrap().clear();
    bench
}

/// The numbers of queues that the node was asked about, since the last call.
fn shown(bench: &Bench) -> Vec<usize> {
    std::mem::take(&mut bench.shown.lock().unwrap())
}

#[test]
fn of_a_page_by_name_the_shards_are_asked_for_its_own_queues_alone() {
    let bench = bench();
    let all = bench.get("queues");
    assert_eq!(shown(&bench), [31]);
    let check_all = |user: &str, path: &str, total: usize, asked: &[usize]| {
        let (status, page, _) = bench.ask(user, &format!("GET {path}"), "");
        assert_eq!((status, &page["total_count"]), (200, &json!(total)), "{user} {path}: {page}");
        assert_eq!(shown(&bench), asked, "{user} {path}");
        assert_eq!(page["item_count"], page["items"].as_array().unwrap().len());
        page["items"].clone()
    };
    let check = |user: &str, path: &str, total: usize, asked: usize| check_all(user, path, total, &[asked]);
    let part = |from: usize, len: usize| Value::from(all.as_array().unwrap()[from..from + len].to_vec());
    assert_eq!(check("guest", "queues?page=1", 31, 31), all);
    assert_eq!(check("guest", "queues?page=2&page_size=10", 31, 10), part(10, 10));
    assert_eq!(check("guest", "queues/v?page=2&page_size=10", 16, 6), part(25, 6));
    assert_eq!(check("manager", "queues?page=1&page_size=3", 16, 3), part(15, 3));
    assert_eq!(check("manager", "queues?page=1&page_size=3&name=own", 16, 1), part(15, 1));
    let names = |items: &Value| -> Vec<String> {
        items.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let turned = check("guest", "queues?page=1&page_size=3&sort=name&sort_reverse=true", 31, 3);
    assert_eq!(names(&turned), ["q14", "q14", "q13"]);
    // How many messages there are, only the shards know: of all for their order, and then of those on the page.
    check_all("guest", "queues?page=1&page_size=3&sort=messages", 31, &[31, 3]);
    check_all("manager", "queues?page=1&page_size=3&sort=messages", 16, &[31, 3]);
    check_all("guest", "queues/v?page=6&page_size=3&sort=message_stats.publish", 16, &[31, 1]);
    for query in ["sort=messages&page=x", "sort=messages&page=1&page_size=501"] {
        assert_eq!(bench.ask("guest", &format!("GET queues?{query}"), "").0, 400);
        assert!(shown(&bench).is_empty(), "{query}");
    }
    assert_eq!(bench.ask("guest", "GET queues?page=5&page_size=10", "").0, 400);
    assert!(shown(&bench).is_empty());
}

#[test]
fn queues_of_a_user_are_those_the_user_declared() {
    let bench = bench();
    let names = |user: &str, path: &str| {
        let (status, found, _) = bench.ask(user, &format!("GET users/{path}"), "");
        assert_eq!(status, 200, "{user} {path}: {found}");
        let items = found.get("items").unwrap_or(&found).as_array().unwrap().clone();
        items.iter().map(|item| format!("{}/{}", item["vhost"], item["name"])).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("guest", "guest/queues").matches('q').count(), 30);
    assert_eq!(names("guest", "manager/queues"), r#""v"/"own""#);
    assert_eq!(names("manager", "guest/queues?page=1&page_size=2"), r#""v"/"q00" "v"/"q01""#);
    // In no virtual host that this one sees.
    assert_eq!(names("monitor", "guest/queues"), "");
    assert_eq!(names("guest", "stranger/queues"), "");
    // They are whole queues, and a page of them asks for no others.
    shown(&bench);
    let page = bench.get("users/guest/queues?page=2&page_size=4&name=q1");
    assert_eq!((&page["filtered_count"], &page["total_count"]), (&json!(10), &json!(30)));
    assert_eq!(shown(&bench), [4]);
    assert_eq!(page["items"][0], bench.get("queues?page=1&name=q14&page_size=1")["items"][0]);
    // A user that is gone declared them all the same.
    bench.statuses(&[("DELETE users/manager", "", 204)]);
    assert_eq!(names("guest", "manager/queues"), r#""v"/"own""#);
    assert_eq!(bench.ask("nobody", "GET users/guest/queues", "").0, 401);
    assert_eq!(bench.ask("guest", "DELETE users/guest/queues", "").0, 405);
}

#[test]
fn without_figures_there_is_what_was_declared() {
    let bench = bench();
    let keys = |row: &Value| row.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let rows = bench.get("queues/v?disable_stats=true&name=q00&page=1");
    let told = keys(&rows["items"][0]);
    assert!(
        ["name", "vhost", "type", "arguments", "policy"].iter().all(|key| told.iter().any(|own| own == key))
    );
    let figures = |key: &&String| key.starts_with("message") || key.ends_with("_details") || *key == "memory";
    assert_eq!(told.iter().find(figures), None);
    let one = bench.get("queues/v/own?disable_stats=true&enable_queue_totals=true");
    assert_eq!((&one["messages"], &one["messages_ready"]), (&json!(3), &json!(2)));
    assert!(one.get("memory").is_none() && one.get("consumer_details").is_none());
    let overview = bench.get("overview?disable_stats=true");
    assert_eq!(keys(&overview["object_totals"]), ["connections", "exchanges", "queues"]);
    assert!(overview.get("message_stats").is_none());
    assert_eq!(bench.get("overview")["disable_stats"], json!(false));
    assert_eq!(
        bench.get("nodes/rabbit@hare?disable_stats=true"),
        json!({"name": "rabbit@hare", "type": "disc", "running": true, "being_drained": false})
    );
}
