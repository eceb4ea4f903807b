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
    let check = |user: &str, path: &str, total: usize, asked: usize| {
        let (status, page, _) = bench.ask(user, &format!("GET {path}"), "");
        assert_eq!((status, &page["total_count"]), (200, &json!(total)), "{user} {path}: {page}");
        assert_eq!(shown(&bench), [asked], "{user} {path}");
        assert_eq!(page["item_count"], page["items"].as_array().unwrap().len());
        page["items"].clone()
    };
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
    // How many messages there are, only the shards know.
    check("guest", "queues?page=1&page_size=3&sort=messages", 31, 31);
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
