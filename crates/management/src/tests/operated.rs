//! Parameters, requests of operators to a node, and metrics.

use super::*;
use crate::Attempt;
use broker::access::{Guard, GuessLimits, Rate};

#[test]
fn parameters_are_set_and_cleared() {
    let bench = Bench::new();
    let policy = r#"{"value": {"pattern": "a", "definition": {"max-length": 5}, "apply-to": "queues", "priority": 0}}"#;
    bench.statuses(&[
        ("PUT parameters/vhost-limits/v/limits", r#"{"value": {"max-connections": 10}}"#, 201),
        ("PUT parameters/vhost-limits/v/limits", r#"{"value": {"max-connections": 11}}"#, 204),
        ("PUT parameters/operator_policy/v/x", policy, 201),
        ("PUT parameters/shovel/v/x", r#"{"value": {}}"#, 400),
        ("PUT parameters/vhost-limits/v/limits", "{}", 400),
    ]);
    assert_eq!(bench.get("parameters/vhost-limits/v/limits")["value"], json!({ "max-connections": 11 }));
    assert_eq!(bench.get("vhost-limits/v")[0]["value"], json!({ "max-connections": 11 }));
    assert_eq!(bench.get("operator-policies/v/x")["definition"], json!({ "max-length": 5 }));
    bench.statuses(&[
        ("DELETE parameters/vhost-limits/v/limits", "", 204),
        ("DELETE parameters/vhost-limits/v/limits", "", 404),
        ("DELETE parameters/operator_policy/v/x", "", 204),
        ("GET operator-policies/v/x", "", 404),
    ]);
    assert_eq!(bench.ask("manager", "PUT parameters/vhost-limits/v/limits", r#"{"value": {}}"#).0, 401);
}

#[test]
fn policymakers_set_parameters_but_not_policies() {
    let bench = Bench::new();
    bench.statuses(&[("PUT policies/v/p", r#"{"pattern": "a", "definition": {"max-length": 5}}"#, 201)]);
    let check = |line: &str, body: &str, expected: u16, reason: &str| {
        for user in ["policymaker", "guest"] {
            let (status, answer, _) = bench.ask(user, line, body);
            assert_eq!(
                (status, answer["reason"].as_str().unwrap_or_default()),
                (expected, reason),
                "{line} {body}"
            );
            if status == 201 {
                let path = line.strip_prefix("PUT ").unwrap();
                assert_eq!(bench.ask(user, &format!("DELETE {path}"), "").0, 204, "{line}");
            }
        }
        assert_eq!(bench.ask("manager", line, body).0, 401, "{line}");
    };
    let value = |fields: &str| format!(r#"{{"value": {fields}}}"#);
    let whole = value(r#"{"pattern": "a", "definition": {"max-length": 5}, "priority": 0}"#);
    check("PUT parameters/operator_policy/v/o", &whole, 201, "");
    check("PUT parameters/vhost-limits/v/limits", &value(r#"{"max-connections": 10}"#), 201, "");
    let refused = "policies may not be set using this method";
    check("PUT parameters/policy/v/new", &whole, 400, refused);
    check("PUT parameters/policy/v/p", &value("7"), 400, refused);
    check("PUT parameters/policy/v/p", "{}", 400, "[{key_missing,value}]");
    check("DELETE parameters/policy/v/p", "", 400, "policies may not be cleared using this method");
    check("DELETE parameters/policy/v/none", "", 404, "Not Found");
    let wrong = |fields: &str, lines: &str| {
        check(
            "PUT parameters/operator_policy/v/o",
            &value(fields),
            400,
            &format!("Validation failed\n\n{lines}"),
        );
    };
    let missing = |key: &str| format!("Key \"{key}\" not found in o\n");
    wrong(r#"{"pattern": "a", "definition": {"max-length": 5}}"#, &missing("priority"));
    let all = ["definition", "pattern", "priority"].map(missing).concat();
    wrong("{}", &all);
    wrong("[]", &all);
    wrong("7", "o not a list 7\n");
    wrong(
        r#"{"pattern": "a", "definition": {"max-length": 5}, "priority": 0, "more": 1}"#,
        "Unrecognised terms [{<<\"more\">>,1}] in o\n",
    );
    let other = "Validation failed\n\nother is no parameter of vhost-limits: the only one is limits\n";
    check("PUT parameters/vhost-limits/v/other", &value("{}"), 400, other);
    // Policies are shown where they alone are asked for, and not among all.
    let told = json!({
        "value": {"pattern": "a", "definition": {"max-length": 5}, "priority": 0, "apply-to": "all"},
        "vhost": "v", "component": "policy", "name": "p",
    });
    assert_eq!(bench.ask("policymaker", "GET parameters/policy/v/p", "").1, told);
    assert_eq!(
        [bench.get("parameters/policy"), bench.get("parameters/policy/v")],
        [json!([told]), json!([told])]
    );
    assert_eq!(bench.get("parameters"), json!([]));
    assert_eq!(bench.ask("policymaker", "GET operator-policies/v/o", "").0, 401);
}

#[test]
fn the_node_has_parameters_too() {
    let bench = Bench::new();
    assert_eq!(bench.get("cluster-name"), json!({ "name": "burrow" }));
    bench.statuses(&[
        ("PUT global-parameters/x", r#"{"value": {"a": [1, "b"]}}"#, 201),
        ("PUT global-parameters/x", r#"{"value": {"a": [2, "b"]}}"#, 204),
        ("PUT global-parameters/x", "{}", 400),
        ("PUT global-parameters/cluster_tags", r#"{"value": {"region": "r"}}"#, 201),
        ("PUT cluster-name", r#"{"name": "warren"}"#, 204),
    ]);
    assert_eq!(bench.get("global-parameters/x")["value"], json!({ "a": [2, "b"] }));
    assert_eq!(bench.get("cluster-name"), json!({ "name": "warren" }));
    let overview = bench.get("overview");
    assert_eq!(
        (&overview["cluster_name"], &overview["cluster_tags"]),
        (&json!("warren"), &json!({ "region": "r" }))
    );
    let exported = bench.get("definitions")["global_parameters"].take();
    let other = Bench::new();
    other.statuses(&[("POST definitions", &json!({ "global_parameters": exported }).to_string(), 204)]);
    assert_eq!(other.get("global-parameters"), bench.get("global-parameters"));
    bench.statuses(&[
        ("DELETE global-parameters/x", "", 204),
        ("DELETE global-parameters/x", "", 404),
        ("GET global-parameters/x", "", 404),
    ]);
    assert_eq!(bench.ask("monitor", "PUT cluster-name", r#"{"name": "x"}"#).0, 401);
}

#[test]
fn operators_are_served() {
    let bench = Bench::new();
    bench.statuses(&[
        ("POST rebalance/queues", "", 204),
        ("DELETE reset", "", 204),
        ("DELETE reset/rabbit@hare", "", 204),
        ("DELETE reset/other", "", 404),
        ("PUT feature-flags/khepri_db/enable", "{}", 204),
        ("PUT feature-flags/none/enable", "{}", 400),
        ("GET queues/detailed", "", 200),
    ]);
    assert_eq!(bench.get("version"), "4.3.6");
    let (status, body, _) = bench.ask("", "POST login", "username=guest&password=guest");
    assert_eq!(
        (status, &body["user"]["name"], &body["token"]["type"]),
        (200, &json!("guest"), &json!("basic"))
    );
    assert_eq!(bench.ask("", "POST login", r#"{"username": "guest", "password": "no"}"#).0, 401);
    bench.statuses(&[("DELETE auth/attempts/rabbit@hare", "", 204)]);
    bench.ask("stranger", "GET whoami", "");
    let attempts = bench.get("auth/attempts/rabbit@hare");
    let expected = json!([{ "protocol": "http", "auth_attempts": 2, "auth_attempts_failed": 1, "auth_attempts_succeeded": 1 }]);
    assert_eq!(attempts, expected);
    bench.statuses(&[("GET auth/attempts/other", "", 404)]);
    let memory = bench.get("nodes/rabbit@hare/memory")["memory"].take();
    assert_eq!(
        (&memory["binary"], &memory["queue_procs"], &memory["strategy"]),
        (&json!(1000), &json!(500), &json!("rss"))
    );
    assert_eq!(bench.get("nodes/rabbit@hare/memory/relative")["memory"]["binary"], 50);
    bench.statuses(&[("GET nodes/other/memory", "", 404)]);
    assert_eq!(bench.ask("manager", "GET nodes/rabbit@hare/memory", "").0, 401);
}

fn scraped(bench: &Bench, path: &str) -> (u16, String) {
    let request = Request::new("GET", path, Vec::new(), false).unwrap();
    let response = crate::metrics(bench, &request);
    (response.status, String::from_utf8(response.body).unwrap())
}

/// The value of a sample, by all that stands before it.
fn sample(text: &str, name: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn metrics_agree_with_what_was_counted() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/q", "{}", 201), ("PUT queues/v/other", "{}", 201)]);
    let vhost = bench.catalog.lock().unwrap().vhost("v").unwrap();
    {
        let mut survey = bench.survey.lock().unwrap();
        survey.vhosts.insert(vhost, tally());
        let own = &mut survey.protocols[Protocol::Amqp091 as usize];
        (own.received, own.routed, own.size_bytes) = (10, 9, 700);
        own.own.add(Count::DropUnroutable, 1);
        own.sizes[0] = 7;
        own.sizes[2] = 3;
        own.by_type[1] = tally();
        survey.ends[0][1][2] = 4;
        survey.stream_errors[0] = 2;
        survey.churn.channel_created = 5;
    }
    let (status, text) = scraped(&bench, "/metrics");
    assert_eq!(status, 200);
    for (name, value) in [
        ("rabbitmq_global_messages_received_total{protocol=\"amqp091\"}", 10.0),
        ("rabbitmq_global_messages_routed_total{protocol=\"amqp091\"}", 9.0),
        ("rabbitmq_global_messages_unroutable_dropped_total{protocol=\"amqp091\"}", 1.0),
        (
            "rabbitmq_global_messages_delivered_total{protocol=\"amqp091\",queue_type=\"rabbit_quorum_queue\"}",
            7.0,
        ),
        (
            "rabbitmq_global_messages_dead_lettered_rejected_total{queue_type=\"rabbit_classic_queue\",dead_letter_strategy=\"at_most_once\"}",
            4.0,
        ),
        ("rabbitmq_global_stream_error_stream_does_not_exist_total{protocol=\"stream\"}", 2.0),
        ("rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"100.0\"}", 7.0),
        ("rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"+Inf\"}", 10.0),
        ("rabbitmq_message_size_bytes_sum{protocol=\"amqp091\"}", 700.0),
        ("rabbitmq_channels_opened_total", 5.0),
        ("rabbitmq_queues", 2.0),
        ("rabbitmq_queue_messages_ready", 4.0),
        ("rabbitmq_queue_messages", 6.0),
        ("rabbitmq_queue_messages_delivered_ack_total", 12.0),
        ("rabbitmq_alarms_memory_used_watermark", 1.0),
        ("rabbitmq_io_sync_ops_total", 3.0),
    ] {
        assert_eq!(sample(&text, name), value, "{name}");
    }
    assert!(text.contains("rabbitmq_endpoint=\"aggregated\""), "{text}");
    let (_, each) = scraped(&bench, "/metrics/per-object");
    assert_eq!(sample(&each, "rabbitmq_queue_messages_ready{vhost=\"v\",queue=\"q\"}"), 2.0);
    // Each family once, with a type before its samples.
    let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut names: Vec<&str> = families.iter().map(|line| line.split(' ').next().unwrap()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn metrics_are_told_in_detail_where_asked_for() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/q", "{}", 201), ("PUT queues/%2F/p", "{}", 201)]);
    let of = |query: &str| scraped(&bench, &format!("/metrics/detailed?{query}")).1;
    let coarse = of("family=queue_coarse_metrics&vhost=v");
    assert_eq!(sample(&coarse, "rabbitmq_detailed_queue_messages_ready{vhost=\"v\",queue=\"q\"}"), 2.0);
    assert!(!coarse.contains("queue=\"p\"") && !coarse.contains("consumer_capacity"), "{coarse}");
    assert!(!of("family=queue_coarse_metrics&queue=^p$").contains("queue=\"q\""));
    assert!(of("").contains("identity_info") && !of("").contains("queue_messages"));
    assert_eq!(sample(&of("family=vhost_status"), "rabbitmq_cluster_vhost_status{vhost=\"v\"}"), 1.0);
    assert!(!of("family=queue_coarse_metrics&queue=(").contains("queue=\"q\""));
    let (_, memory) = scraped(&bench, "/metrics/memory-breakdown");
    assert_eq!(sample(&memory, "rabbitmq_memory_binary_heap_bytes"), 1000.0);
    assert_eq!((scraped(&bench, "/metrics/none").0, scraped(&bench, "/").0), (404, 404));
    let head = Request::new("HEAD", "/metrics", Vec::new(), false).unwrap();
    let response = crate::metrics(&bench, &head);
    assert_eq!((response.status, response.body.len()), (204, 0));
}

#[test]
fn dear_expressions_are_for_who_logs_in() {
    let bench = Bench::new();
    let mut dice = 1_u64;
    for _ in 0..50 {
        let mut digit = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'0' + (dice >> 63) as u8)
        };
        let name: String = (0..250).map(|_| digit()).collect();
        bench.statuses(&[(&format!("PUT queues/%2F/{name}"), "{}", 201)]);
    }
    // Nearly each byte is a step that was not met before, over 1,500 states.
    let dear = "1.{500}.{500}.{500}x";
    bench.statuses(&[(&format!("GET queues?page=1&page_size=1&use_regex=true&name={dear}"), "", 200)]);
    let scrape = |pattern: &str| {
        scraped(&bench, &format!("/metrics/detailed?family=queue_coarse_metrics&queue={pattern}")).0
    };
    assert_eq!((scrape("^0*1.*$"), scrape(dear)), (200, 400));
}

#[test]
fn only_who_logs_in_is_said_to() {
    let bench = Bench::new();
    let check = |line: &str, authorization: Option<&str>, body: &str, expected: Attempt| {
        let (method, target) = line.split_once(' ').unwrap();
        let mut request = Request::new(method, target, body.as_bytes().to_vec(), true).unwrap();
        request.authorization = authorization.map(str::to_owned);
        assert_eq!(handle(&bench, &request).login, expected, "{line} {authorization:?}");
    };
    let coded = |text: &str| format!("Basic {}", BASE64.encode(text.as_bytes()));
    let (right, wrong) = (coded("guest:guest"), coded("guest:x"));
    check("GET /api/overview", Some(&right), "", Attempt::Accepted);
    check("GET /api/users/none", Some(&right), "", Attempt::Accepted);
    check("GET /api/overview", Some(&wrong), "", Attempt::Refused);
    for malformed in ["Basic zz", "Basic", "Bearer x", &coded("guest")] {
        check("GET /api/overview", Some(malformed), "", Attempt::None);
    }
    check("GET /api/overview", None, "", Attempt::None);
    // Nobody looks at the login here.
    check("GET /api/none", Some(&wrong), "", Attempt::None);
    check("GET /api/health/checks/is-in-service", Some(&wrong), "", Attempt::None);
    check("GET /api/x/openapi.json", Some(&right), "", Attempt::None);
    check("POST /api/login", None, "username=guest&password=guest", Attempt::Accepted);
    check("POST /api/login", None, "username=guest&password=x", Attempt::Refused);
    check("POST /api/login", Some(&right), "username=guest", Attempt::None);
}

#[test]
fn a_browser_is_given_a_cookie_for_its_login() {
    let bench = Bench::new();
    let sessions = bench.about.web_sessions.clone().unwrap();
    let request = |method: &str, body: &str| {
        let mut request = Request::new(method, "/api/x/session", body.into(), true).unwrap();
        request.host = crate::Authority::read("localhost:15672");
        request
    };
    let wrong = handle(&bench, &request("POST", r#"{"username": "guest", "password": "x"}"#));
    assert_eq!((wrong.status, wrong.header("set-cookie"), sessions.len()), (401, None, 0));
    let right = r#"{"username": "guest", "password": "guest"}"#;
    let answer = handle(&bench, &request("POST", right));
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("leveret-session-15672="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let told = serde_json::from_slice::<Value>(&answer.body).unwrap();
    assert_eq!((&told["name"], &told["cluster_name"]), (&json!("guest"), &json!("burrow")));
    let secure = Request { is_secure: true, ..request("POST", right) };
    assert!(handle(&bench, &secure).header("set-cookie").unwrap().ends_with("; Secure"));
    assert_eq!(sessions.len(), 2);
    let (key, authorization) = sessions.find(bench.now(), &cookie, Some(15672)).unwrap();
    let known = |method: &str| {
        let authorization = Some(authorization.clone());
        Request { session: Some(key), authorization, ..request(method, "") }
    };
    let whose = |request: &Request| {
        let answer = handle(&bench, request);
        serde_json::from_slice::<Value>(&answer.body).unwrap()["name"].clone()
    };
    assert_eq!(whose(&known("GET")), json!("guest"));
    assert_eq!(whose(&request("GET", "")), json!(null));
    let gone = handle(&bench, &known("DELETE"));
    assert_eq!(gone.status, 204);
    assert!(gone.header("set-cookie").unwrap().ends_with("; Max-Age=0"));
    assert_eq!(sessions.len(), 1);
}

#[test]
fn a_login_that_is_wrong_by_now_ends_its_session() {
    let bench = Bench::new();
    let sessions = bench.about.web_sessions.clone().unwrap();
    let secret = sessions.begin(bench.now(), "guest", format!("Basic {}", BASE64.encode(b"guest:former")));
    let (key, authorization) =
        sessions.find(bench.now(), &format!("leveret-session={secret}"), None).unwrap();
    let mut request = Request::new("GET", "/api/overview", Vec::new(), true).unwrap();
    (request.session, request.authorization, request.is_script) = (Some(key), Some(authorization), true);
    assert_eq!(handle(&bench, &request).status, 401);
    assert!(sessions.is_empty());
    // The browser does not ask for a password by itself.
    let nobody = Request { session: None, authorization: None, ..request };
    let answer = handle(&bench, &nobody);
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, None));
    assert_eq!(answer.login, Attempt::None);
}

#[test]
fn a_session_lasts_while_its_password_is_compared_or_its_account_held_back() {
    let mut bench = Bench::new();
    let limits = GuessLimits { account: Some(Rate::per_second(1, 3)), ..GuessLimits::default() };
    bench.about.guard = Arc::new(Guard::new(limits, &mut base::Secrets::simulated(6)));
    let sessions = bench.about.web_sessions.clone().unwrap();
    let hard = r#"{"password": "hard", "tags": "management", "hashing_algorithm": "argon2id"}"#;
    bench.statuses(&[("PUT users/hard", hard, 201)]);
    let begin = |user: &str| {
        let authorization = format!("Basic {}", BASE64.encode(format!("{user}:{user}").as_bytes()));
        let secret = sessions.begin(bench.now(), user, authorization);
        sessions.find(bench.now(), &format!("leveret-session={secret}"), None).unwrap()
    };
    let ask = |(key, authorization): &(crate::WebSessionKey, String)| {
        let mut request = Request::new("GET", "/api/x/session", Vec::new(), true).unwrap();
        (request.session, request.authorization) = (Some(*key), Some(authorization.clone()));
        request.takes_turns = true;
        handle(&bench, &request)
    };
    // It is asked again with the outcome.
    assert!(ask(&begin("hard")).trial.is_some());
    let own = begin("manager");
    // Somebody else guesses, from elsewhere, until the account is held back.
    for number in 0..10u32 {
        let mut guess = Request::new("GET", "/api/whoami", Vec::new(), false).unwrap();
        guess.authorization = Some(format!("Basic {}", BASE64.encode(b"manager:guess")));
        guess.from = Some(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number * 256)));
        handle(&bench, &guess);
    }
    let held = ask(&own);
    assert_eq!(held.status, 429, "it is not looked at, and no reason to log out");
    assert_eq!(sessions.len(), 2);
}

#[test]
fn browsers_see_of_messages_what_they_may() {
    let mut bench = Bench::new();
    bench.statuses(&[("PUT queues/v/q", "", 201)]);
    let ask = |bench: &Bench, method: &str, path: &str, body: &str, is_browser: bool| {
        let mut request = Request::new(method, &format!("/api/{path}"), body.into(), true).unwrap();
        request.authorization = Some(format!("Basic {}", BASE64.encode(b"guest:guest")));
        request.session = is_browser.then_some([7; 32]);
        let answer = handle(bench, &request);
        (answer.status, serde_json::from_slice::<Value>(&answer.body).unwrap_or_default())
    };
    let (look, get) = (
        "x/queues/v/q/messages?count=1",
        r#"{"count": 0, "ackmode": "ack_requeue_true", "encoding": "auto"}"#,
    );
    for (sees, is_browser, looked, payload, got) in [
        (BrowsersSee::Full, true, 200, json!("body"), 200),
        (BrowsersSee::Headers, true, 200, json!(""), 401),
        (BrowsersSee::None, true, 401, Value::Null, 401),
        (BrowsersSee::None, false, 200, json!("body"), 200),
    ] {
        bench.about.browsers_see = sees;
        let (status, page) = ask(&bench, "GET", look, "", is_browser);
        assert_eq!((status, &page["messages"][0]["payload"]), (looked, &payload), "{sees:?} {is_browser}");
        let is_hidden = page["messages"][0]["payload_hidden"] == true;
        assert_eq!(is_hidden, sees == BrowsersSee::Headers, "{sees:?}");
        if got != 200 {
            assert_eq!(ask(&bench, "POST", "queues/v/q/get", get, is_browser).0, got, "{sees:?}");
        }
    }
}
