//! Events, one after the other.

use super::*;
use crate::{Attempt, Response};

impl Bench {
    /// The answer to a request that is asked again with the counters that the answer before had.
    pub(super) fn listen(&self, user: &str, line: &str, before: Option<&Response>) -> Response {
        let (method, target) = line.split_once(' ').unwrap();
        let mut request = Request::new(method, &format!("/api/{target}"), Vec::new(), true).unwrap();
        request.authorization = Some(format!("Basic {}", BASE64.encode(format!("{user}:{user}").as_bytes())));
        request.seen = before.and_then(|before| before.next.clone());
        handle(self, &request)
    }

    fn count(&self, vhost: &str, count: Count, more: u64) {
        let id = self.catalog.lock().unwrap().vhost(vhost).unwrap();
        self.survey.lock().unwrap().vhosts.entry(id).or_default().add(count, more);
    }
}

fn told(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let text = std::str::from_utf8(&response.body).unwrap();
    let data = text.strip_prefix("event: rates\ndata: ").and_then(|text| text.strip_suffix("\n\n"));
    let data = data.expect("one event");
    assert!(!data.contains('\n'), "an event's data is one line");
    serde_json::from_str(data).unwrap()
}

#[test]
fn each_event_has_what_happened_since_the_one_before() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/own", "", 201)]);
    bench.count("v", Count::Publish, 100);
    let line = "GET x/events?vhost=v&queue=own&queue=none";
    let first = bench.listen("guest", line, None);
    let event = told(&first);
    assert_eq!((&event["milliseconds"], &event["message_stats"]["publish"]), (&Value::Null, &json!(100)));
    assert_eq!(event["message_stats"]["publish_details"], json!({ "rate": 0.0 }), "nothing to go by yet");
    *bench.uptime_ms.lock().unwrap() = 2000;
    bench.count("v", Count::Publish, 50);
    let second = bench.listen("guest", line, Some(&first));
    let event = told(&second);
    assert_eq!((&event["milliseconds"], &event["message_stats"]["publish"]), (&json!(2000), &json!(150)));
    assert_eq!(event["message_stats"]["publish_details"], json!({ "rate": 25.0 }));
    let [own, none] = [0, 1].map(|at| event["queues"][at].clone());
    assert_eq!(none, json!({ "name": "none", "vhost": "v", "gone": true }));
    assert_eq!((&own["vhost"], &event["node"]["mem_used"]), (&json!("v"), &json!(7)));
    let node = ["name", "uptime", "mem_alarm"].map(|name| event["node"][name].clone());
    assert_eq!(node, [json!(bench.about.node), json!(2000), json!(true)]);
    assert_eq!(own["message_stats"]["publish_details"], json!({ "rate": 25.0 }));
    let lengths = ["messages", "messages_ready", "messages_unacknowledged", "consumers"];
    assert_eq!(lengths.map(|name| own[name].as_u64()), [3, 2, 1, 3].map(Some));
    // Counters that begin anew do not run backwards.
    *bench.uptime_ms.lock().unwrap() = 3000;
    bench.survey.lock().unwrap().vhosts.clear();
    let event = told(&bench.listen("guest", line, Some(&second)));
    assert_eq!(event["message_stats"]["publish_details"], json!({ "rate": 0.0 }));
}

#[test]
fn events_end_when_as_many_as_were_asked_for_are_told() {
    let bench = Bench::new();
    let line = "GET x/events?count=2";
    let first = bench.listen("guest", line, None);
    assert!(first.next.is_some());
    let second = bench.listen("guest", line, Some(&first));
    assert_eq!((second.status, second.next), (200, None));
    let head = bench.listen("guest", "HEAD x/events", None);
    assert_eq!((head.status, head.body.len(), head.next), (200, 0, None));
}

#[test]
fn who_listens_hears_of_what_they_may_see() {
    let bench = Bench::new();
    bench.count("v", Count::Publish, 7);
    bench.count("/", Count::Publish, 100);
    for (user, expected) in [("manager", 7), ("monitor", 107), ("guest", 107)] {
        let event = told(&bench.listen(user, "GET x/events", None));
        assert_eq!(event["message_stats"]["publish"], expected, "{user}");
        assert_eq!(event["node"].is_null(), user == "manager", "{user}");
    }
    let many = "&queue=q".repeat(bench.about.limits.event_queues_max + 1);
    let rows = [
        ("nobody", "x/events", 401),
        ("manager", "x/events?vhost=%2F&queue=q", 404),
        ("manager", "x/events?vhost=v&queue=q", 200),
        ("guest", "x/events?queue=q", 400),
        ("guest", "x/events?vhost=none&queue=q", 404),
        ("guest", "x/events?vhost=v&queue=q&vhost=%2F&queue=q", 200),
        ("manager", "x/events?vhost=v&queue=q&vhost=%2F&queue=q", 404),
        ("guest", "x/events?queue=q&vhost=v", 200),
        ("guest", "x/events?count=0", 400),
        ("guest", "x/events?count=x", 400),
        ("guest", &format!("x/events?vhost=v{many}"), 400),
    ];
    for (user, path, status) in rows {
        let response = bench.listen(user, &format!("GET {path}"), None);
        assert_eq!((response.status, response.next.is_some()), (status, status == 200), "{user} {path}");
    }
}

#[test]
fn who_may_not_listen_any_more_is_told_nothing_more() {
    let bench = Bench::new();
    let first = bench.listen("manager", "GET x/events", None);
    let before = *bench.logins.lock().unwrap();
    let second = bench.listen("manager", "GET x/events", Some(&first));
    assert_eq!(*bench.logins.lock().unwrap(), before, "an event is no login");
    bench.request(Op::DeleteUser { name: "manager".into() }).unwrap();
    let third = bench.listen("manager", "GET x/events", Some(&second));
    assert_eq!((third.status, third.login, third.next), (401, Attempt::Refused, None));
}
