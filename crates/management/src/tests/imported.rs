//! Definitions of many things: how many are under way at once, the report where some are refused, and the objects that
//! are kept.

use super::*;

fn binding(number: usize, queue: &str) -> Value {
    json!({"source": "amq.topic", "vhost": "/", "destination": queue, "destination_type": "queue",
           "routing_key": format!("k.{number}"), "arguments": {}})
}

fn bindings_of_q(bench: &Bench) -> usize {
    // The one to the default exchange is not counted.
    bench.get("queues/%2F/q/bindings").as_array().map_or(0, |list| list.len() - 1)
}

#[test]
fn many_things_are_under_way_at_once_and_no_more_than_may_be() {
    let bench = Bench::new();
    let queues: Vec<Value> =
        (0..100).map(|number| json!({"name": format!("q{number}"), "vhost": "/", "durable": true})).collect();
    let queue = json!({"name": "q", "vhost": "/", "durable": true});
    let all = [&queues[..], &[queue]].concat();
    let bindings: Vec<Value> = (0..1000).map(|number| binding(number, "q")).collect();
    let body = json!({"queues": all, "bindings": bindings}).to_string();
    for _ in 0..2 {
        bench.statuses(&[("POST definitions", &body, 204)]);
        assert_eq!(bindings_of_q(&bench), 1000);
        assert_eq!(*bench.begun.lock().unwrap(), [0, bench.about.limits.import_begun_max]);
    }
}

/// The answer to an import that must be refused: its entries, each with its remark.
fn refused(bench: &Bench, body: &Value) -> Vec<String> {
    let (status, answer, _) = bench.ask("guest", "POST definitions", &body.to_string());
    assert_eq!((status, &answer["imported"]), (400, &json!(false)), "{answer}");
    let rows = answer["refused"].as_array().unwrap();
    assert_eq!(answer["refused_count"], rows.len());
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let lines: Vec<String> = rows
        .iter()
        .map(|row| ["list", "entry", "vhost", "reason"].map(|key| text(row, key)).join(" | "))
        .collect();
    for row in rows {
        assert!(answer["reason"].as_str().unwrap().contains(row["entry"].as_str().unwrap()), "{answer}");
    }
    lines
}

#[test]
fn all_that_is_refused_is_told_and_nothing_is_imported() {
    let bench = Bench::new();
    let mut bindings: Vec<Value> = (0..1000).map(|number| binding(number, "q")).collect();
    (bindings[0], bindings[700], bindings[999]) =
        (binding(0, "none"), binding(0, "later"), json!({"vhost": "/"}));
    let body = json!({
        "vhosts": [{"name": "w"}, {"name": "x", "default_queue_type": "zz"}],
        "users": {"name": "u"},
        "permissions": [{"user": "nobody-known", "vhost": "w", "configure": "", "write": "", "read": ""},
                        {"user": "guest", "vhost": "none", "configure": "", "write": "", "read": ""},
                        {"user": "guest", "vhost": "w", "configure": "(", "write": "", "read": ""}],
        "policies": [{"name": "p", "vhost": "/", "pattern": "", "definition": {"ha-mode": "all"}}],
        "queues": [{"name": "q", "vhost": "/"}, {"name": 5, "vhost": "/"}, {"name": "part"}, {"name": "n".repeat(256), "vhost": "/"}],
        "bindings": bindings,
    });
    let found = refused(&bench, &body);
    let long = "n".repeat(255);
    let expected = [
        "vhosts | 'x' | - | zz is not a valid queue type".to_owned(),
        "users |  | - | users is not a list of objects".to_owned(),
        "permissions | of user 'nobody-known' | w | no user 'nobody-known'".to_owned(),
        "permissions | of user 'guest' | none | Please create virtual host \"none\" prior to importing definitions.".to_owned(),
        found.iter().find(|line| line.contains("regular expression '('")).unwrap().clone(),
        "policies | 'p' | / | Validation failed\n\n[{<<\"ha-mode\">>,<<\"all\">>}] are not recognised policy settings\n".to_owned(),
        "queues | entry 2 | / | name is not a string".to_owned(),
        "queues | 'part' | - | no virtual host is named (key vhost): what was exported of one virtual host is imported into one"
            .to_owned(),
        format!("queues | '{long}' | / | a name is longer than 255 bytes"),
        "bindings | entry 1000 | / | [{key_missing,destination_type}]".to_owned(),
        "bindings | from 'amq.topic' to queue 'none' with key 'k.0' | / | no queue 'none' in vhost '/'".to_owned(),
        "bindings | from 'amq.topic' to queue 'later' with key 'k.0' | / | no queue 'later' in vhost '/'".to_owned(),
    ];
    let sorted = |lines: &[String]| {
        let mut lines = lines.to_vec();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&found), sorted(&expected));
    bench.statuses(&[("GET queues/%2F/q", "", 404), ("GET vhosts/w", "", 404)]);
    assert_eq!(*bench.begun.lock().unwrap(), [0, 0], "nothing was begun");
}

#[test]
fn refusals_beyond_the_bound_are_counted() {
    let bench = Bench::new();
    let bindings: Vec<Value> = (0..300).map(|number| binding(number, "none")).collect();
    let body = json!({"bindings": bindings}).to_string();
    let (status, answer, _) = bench.ask("guest", "POST definitions", &body);
    let most = bench.about.limits.import_told_max;
    assert_eq!((status, &answer["refused_count"]), (400, &json!(300)));
    assert_eq!(answer["refused"].as_array().unwrap().len(), most);
    assert!(answer["reason"].as_str().unwrap().ends_with(&format!("and {} more", 300 - most)));
}

#[test]
fn a_rehearsal_changes_nothing() {
    let bench = Bench::new();
    let good = json!({"vhosts": [{"name": "w"}], "queues": [{"name": "q", "vhost": "w", "durable": true}],
        "bindings": [{"source": "amq.topic", "vhost": "w", "destination": "q", "destination_type": "queue", "routing_key": "k"}]});
    let (status, answer, _) = bench.ask("guest", "POST definitions?dry_run=true", &good.to_string());
    assert_eq!((status, &answer["imported"]), (200, &json!(false)));
    assert_eq!(answer["entries"], json!({"vhosts": 1, "queues": 1, "bindings": 1}));
    bench.statuses(&[
        ("GET vhosts/w", "", 404),
        ("POST definitions?dry_run=yes", "{}", 400),
        ("POST definitions?strip=all", "{}", 400),
        ("POST definitions?report=1", "{}", 400),
    ]);
    assert!(bench.lines.lock().unwrap().is_empty());
    // Queues that are there are known to a rehearsal, which looks at those that the file names.
    bench.statuses(&[("POST definitions", &good.to_string(), 204)]);
    let again =
        json!({"bindings": good["bindings"], "queues": [{"name": "q", "vhost": "w", "durable": false}]});
    bench.statuses(&[
        ("POST definitions?dry_run=true", &again.to_string(), 200),
        ("POST definitions", &again.to_string(), 204),
    ]);
    assert_eq!(bench.lines.lock().unwrap()[0], "Asked to import definitions. Acting user: 'guest'");
}

#[test]
fn who_may_not_make_a_queue_is_told_which() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT users/few", r#"{"password": "few", "tags": "administrator"}"#, 201),
        ("PUT permissions/v/few", r#"{"configure": "^a", "write": "", "read": ""}"#, 201),
    ]);
    let body = json!({"queues": [{"name": "a", "vhost": "v"}, {"name": "b", "vhost": "v"}, {"name": "c", "vhost": "/"}]});
    let (status, answer, _) = bench.ask("few", "POST definitions", &body.to_string());
    assert_eq!(status, 400);
    let reasons: Vec<&str> =
        answer["refused"].as_array().unwrap().iter().map(|row| row["reason"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "configure access to queue 'b' in vhost 'v' refused for user 'few'",
            "access to vhost '/' refused for user 'few'"
        ]
    );
    bench.statuses(&[("GET queues/v/a", "", 404)]);
}

#[test]
fn what_came_to_be_otherwise_is_remarked() {
    let bench = Bench::new();
    let body = json!({
        "users": [{"name": "u", "password_hash": "AQIDBA==", "hashing_algorithm": "rabbit_password_hashing_sha1", "tags": ""}],
        "parameters": [{"component": "shovel", "vhost": "v", "name": "s",
                        "value": {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "q"}}],
        "queues": [{"name": "amq.gen-x", "vhost": "v"}, {"name": "typed", "vhost": "v", "durable": true, "type": "rabbit_quorum_queue"}],
        "exchanges": [{"name": "amq.mine", "vhost": "v", "type": "topic"}, {"name": "amq.direct", "vhost": "v", "type": "direct"}],
        "bindings": [{"source": "amq.direct", "vhost": "v", "destination": "amq.gen-x", "destination_type": "queue"}],
    });
    let (status, _, headers) = bench.ask("guest", "POST definitions", &body.to_string());
    assert_eq!(status, 204);
    let remarks = &headers.iter().find(|(name, _)| *name == "leveret-remarks").unwrap().1;
    let expected = [
        "users: 'u': without a password: the hash is none of 'rabbit_password_hashing_sha1' as it is known here",
        "parameters: 's' of component 'shovel' in vhost 'v': kept; shovel is not served yet",
        "queues: 'amq.gen-x' in vhost 'v': left out: the name is reserved",
        "exchanges: 'amq.mine' in vhost 'v': left out: the name is reserved",
        "bindings: from 'amq.direct' to queue 'amq.gen-x' with key '' in vhost 'v': left out with its queue",
    ];
    assert_eq!(
        remarks.split("; ").collect::<Vec<_>>().len(),
        expected.len() + 1,
        "one has a semicolon: {remarks}"
    );
    let lines = bench.lines.lock().unwrap().clone();
    for line in expected {
        assert!(remarks.contains(line), "{line}: {remarks}");
        assert!(lines.contains(&format!("Importing definitions: {line}")), "{line}: {lines:?}");
    }
    let exported = bench.get("definitions");
    assert_eq!(exported["parameters"][0]["value"]["src-queue"], "q");
    bench.statuses(&[
        ("DELETE parameters/shovel/v/s", "", 204),
        ("DELETE parameters/shovel/v/s", "", 404),
        ("PUT parameters/somebody/v/s", r#"{"value": 5}"#, 400),
        ("PUT parameters/federation-upstream/v/u", r#"{"value": {"uri": "amqp://"}}"#, 201),
        ("PUT parameters/federation-upstream/v/u", r#"{"value": {"uri": "amqp://a"}}"#, 204),
        ("PUT parameters/federation-upstream/v/u", r#"{"value": {}}"#, 400),
        ("PUT parameters/federation-upstream/none/u", r#"{"value": {"uri": "amqp://"}}"#, 404),
    ]);
    assert_eq!(bench.get("parameters/federation-upstream/v/u")["value"], json!({"uri": "amqp://a"}));
}

#[test]
fn a_policymaker_may_not_look_around() {
    let bench = Bench::new();
    let policy = |pattern: &str| json!({"pattern": pattern, "definition": {"max-length": 5}}).to_string();
    let ask = |user: &str, line: &str, pattern: &str| {
        let (status, answer, _) = bench.ask(user, line, &policy(pattern));
        (status, answer["reason"].as_str().unwrap_or_default().to_owned())
    };
    for pattern in [r"^(?!amq\.).*", "(?<=a)b", r"(a)\1", "(?>a)b", "a++"] {
        let (status, reason) = ask("policymaker", "PUT policies/v/mine", pattern);
        assert!(status == 401 && reason.contains("'mine'") && reason.contains(pattern), "{status} {reason}");
        assert_eq!(ask("guest", "PUT policies/v/mine", pattern).0 / 100, 2, "{pattern}");
    }
    assert_eq!(ask("policymaker", "PUT policies/v/mine", r"^\p{L}a").0, 204);
    let value =
        json!({"value": {"pattern": "(?=a)", "definition": {"max-length": 5}, "priority": 0}}).to_string();
    assert_eq!(bench.ask("policymaker", "PUT parameters/operator_policy/v/o", &value).0, 401);
    assert_eq!(bench.ask("guest", "PUT parameters/operator_policy/v/o", &value).0, 201);
}

#[test]
fn the_first_queue_of_a_name_counts() {
    let bench = Bench::new();
    let queue = |durable: bool| json!({"name": "q", "vhost": "/", "durable": durable});
    let body = json!({"queues": [queue(true), queue(false)]}).to_string();
    bench.statuses(&[("POST definitions", &body, 204)]);
    assert_eq!(bench.get("queues/%2F/q")["durable"], json!(true));
    assert_eq!(bench.begun.lock().unwrap()[1], 1, "the second waits for the first");
}

#[test]
fn virtual_hosts_and_users_are_under_way_together_in_the_order_of_the_file() {
    let bench = Bench::new();
    let vhosts: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("v{number}"), "limits": {"max-queues": 5}, "tracing": number == 7}))
        .collect();
    let users: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("u{number}"), "password": "p", "tags": "management", "limits": {}}))
        .collect();
    // The last of a name counts.
    let again = json!({"name": "v3", "description": "again"});
    let changed = json!({"name": "u3", "password": "p", "tags": "monitoring", "limits": {"max-channels": 2}});
    let permissions: Vec<Value> = (0..100)
        .map(|number| {
            json!({"user": format!("u{number}"), "vhost": format!("v{number}"), "configure": "", "write": "w", "read": ""})
        })
        .collect();
    let (vhosts, users) = ([&vhosts[..], &[again]].concat(), [&users[..], &[changed]].concat());
    let body = json!({"vhosts": vhosts, "users": users, "permissions": permissions}).to_string();
    for _ in 0..2 {
        *bench.looks.lock().unwrap() = 0;
        bench.statuses(&[("POST definitions", &body, 204)]);
        assert!(*bench.looks.lock().unwrap() <= 5, "who is there is asked once");
        assert_eq!(*bench.begun.lock().unwrap(), [0, bench.about.limits.import_begun_max]);
        let vhost = bench.get("vhosts/v3");
        assert_eq!(
            (&vhost["description"], &bench.get("vhosts/v7")["tracing"]),
            (&json!("again"), &json!(true))
        );
        assert_eq!(bench.get("vhost-limits/v99")[0]["value"], json!({"max-queues": 5}));
        let user = bench.get("users/u3");
        assert_eq!((&user["tags"], &user["limits"]), (&json!(["monitoring"]), &json!({"max-channels": 2})));
        assert_eq!(bench.get("permissions/v99/u99")["write"], "w");
        // The user that imports may use the virtual hosts that were made.
        assert_eq!(bench.get("permissions/v99/guest")["write"], ".*");
    }
}

#[test]
fn nothing_is_imported_of_a_file_with_a_row_that_is_no_json() {
    for bad in [r#"{"name": "\ud800"}"#, r#"{"name": 1e999}"#, r#"{"name": }"#] {
        let bench = Bench::new();
        let body = format!(r#"{{"queues": [{{"name": "q", "vhost": "/"}}], "bindings": [{bad}]}}"#);
        let (status, answer, _) = bench.ask("guest", "POST definitions", &body);
        assert_eq!((status, &answer["reason"]), (400, &json!("failed_to_parse_json")), "{bad}");
        bench.statuses(&[("GET queues/%2F/q", "", 404)]);
    }
}
