//! The trail that administration leaves in the log.

use super::Bench;
use serde_json::json;

/// The lines that a request of the administrator adds.
fn lines(bench: &Bench, line: &str, body: &str, status: u16) -> Vec<String> {
    bench.lines.lock().unwrap().clear();
    bench.statuses(&[(line, body, status)]);
    std::mem::take(&mut *bench.lines.lock().unwrap())
}

#[test]
fn each_change_is_told_with_its_user_and_without_secrets() {
    let bench = Bench::new();
    let check = |line: &str, body: &str, status: u16, expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|text| format!("{text}. Acting user: 'guest'")).collect();
        assert_eq!(lines(&bench, line, body, status), expected, "{line}");
    };
    let permission = r#"{"configure": "^a", "write": ".*", "read": ""}"#;
    let tags = "Successfully set user tags for user 'app' to";
    check(
        "PUT users/app",
        r#"{"password": "s3cret", "tags": "management,a b"}"#,
        201,
        &["Created user 'app'", &format!("{tags} [management,'a b']")],
    );
    check(
        "PUT users/app",
        r#"{"password": "s3cret", "tags": ""}"#,
        204,
        &["Successfully changed password for user 'app'", &format!("{tags} []")],
    );
    check(
        "PUT users/app?only=existing",
        r#"{"password_hash": ""}"#,
        204,
        &["Clearing password for user 'app'"],
    );
    let granted = "Successfully set permissions for user 'app' in virtual host 'v' to '^a', '.*', ''";
    check("PUT permissions/v/app", permission, 201, &[granted]);
    check(
        "DELETE permissions/v/app",
        "",
        204,
        &["Successfully cleared permissions for user 'app' in virtual host 'v'"],
    );
    check(
        "PUT topic-permissions/v/app",
        r#"{"exchange": "amq.topic", "write": "^a", "read": "b"}"#,
        201,
        &[
            "Successfully set topic permissions on exchange 'amq.topic' for user 'app' in virtual host 'v' to '^a', 'b'",
        ],
    );
    check(
        "DELETE topic-permissions/v/app/amq.topic",
        "",
        204,
        &[
            "Successfully cleared topic permissions on exchange 'amq.topic' for user 'app' in virtual host 'v'",
        ],
    );
    check(
        "PUT user-limits/app/max-channels",
        r#"{"value": 3}"#,
        204,
        &["Successfully set limits of user 'app': connections unlimited, channels 3"],
    );
    check(
        "PUT user-limits/app/max-memory-bytes",
        r#"{"value": 5000}"#,
        204,
        &["Successfully set limits of user 'app': connections unlimited, channels 3, memory 5000 bytes"],
    );
    check("DELETE users/app", "", 204, &["Deleted user 'app'"]);
    check(
        "PUT vhosts/w",
        r#"{"description": "d", "tags": "a,b", "tracing": true}"#,
        201,
        &[
            "Adding vhost 'w' (description: 'd', tags: [a,b])",
            "Enabling tracing for vhost 'w'",
            "Successfully set permissions for user 'guest' in virtual host 'w' to '.*', '.*', '.*'",
        ],
    );
    check(
        "POST vhosts/w/deletion/protection",
        "",
        204,
        &["Updated metadata of vhost 'w' (protected from deletion: true)"],
    );
    check("DELETE vhosts/w", "", 412, &[]);
    check(
        "PUT vhost-limits/w/max-queues",
        r#"{"value": 7}"#,
        204,
        &["Successfully set limits of virtual host 'w': connections unlimited, queues 7"],
    );
    check(
        "PUT policies/w/p",
        r#"{"pattern": "^q", "definition": {"max-length": 5}, "apply-to": "queues"}"#,
        201,
        &["Successfully set policy 'p' matching queues names in virtual host 'w' using pattern '^q'"],
    );
    check("DELETE policies/w/p", "", 204, &["Successfully cleared policy 'p' in virtual host 'w'"]);
    check(
        "PUT operator-policies/w/o",
        r#"{"pattern": "", "definition": {"max-length": 5}}"#,
        201,
        &["Successfully set operator policy 'o' matching all names in virtual host 'w' using pattern ''"],
    );
    check(
        "PUT global-parameters/g",
        r#"{"value": "s3cret"}"#,
        201,
        &["Successfully set global parameter 'g'"],
    );
    check("DELETE global-parameters/g", "", 204, &["Successfully cleared global parameter 'g'"]);
    check("PUT queues/v/q", "{}", 201, &[]);
    check("DELETE queues/v/q/contents", "", 204, &["Purged queue 'q' in virtual host 'v'"]);
    check("DELETE queues/v/q", "", 204, &["Deleted queue 'q' in virtual host 'v'"]);
    check("DELETE queues/v/q", "", 404, &[]);
    check("PUT policies/v/p", r#"{"pattern": "(", "definition": {"max-length": 5}}"#, 400, &[]);
}

#[test]
fn a_parameter_is_told_without_its_value() {
    let bench = Bench::new();
    let value = r#"{"value": {"src-uri": "amqp://u:s3cret@h", "dest-uri": "amqp://", "src-queue": "q"}}"#;
    let told = lines(&bench, "PUT parameters/shovel/v/s", value, 201);
    assert_eq!(
        told,
        [
            "Successfully set runtime parameter 's' in vhost 'v' for component 'shovel'. Acting user: 'guest'",
            "parameter 's' in vhost 'v': kept; shovel is not served yet"
        ]
    );
}

#[test]
fn an_import_is_told_with_the_users_that_it_makes_and_counts_of_the_rest() {
    let bench = Bench::new();
    let body = json!({
        "users": [{"name": "a\nb", "password": "s3cret", "tags": "administrator"}],
        "permissions": [{"user": "a\nb", "vhost": "v", "configure": "", "write": "", "read": ".*"}],
        "queues": [{"name": "q", "vhost": "v"}, {"name": "amq.x\ny", "vhost": "v"}],
    });
    let told = lines(&bench, "POST definitions", &body.to_string(), 204);
    let expected = [
        "Asked to import definitions. Acting user: 'guest'",
        r"Created user 'a\nb'. Acting user: 'guest'",
        r"Successfully set user tags for user 'a\nb' to [administrator]. Acting user: 'guest'",
        r"Successfully set permissions for user 'a\nb' in virtual host 'v' to '', '', '.*'. Acting user: 'guest'",
        r"Importing definitions: queues: 'amq.x\ny' in vhost 'v': left out: the name is reserved",
        "Imported definitions (permissions: 1, queues: 2, users: 1). Acting user: 'guest'",
    ];
    assert_eq!(told, expected);
    let refused = json!({"users": [{"name": "x"}]}).to_string();
    let told = lines(&bench, "POST definitions", &refused, 400);
    assert_eq!(
        told,
        [
            "Asked to import definitions. Acting user: 'guest'",
            "Definitions were not imported: entries that are refused: 1. Acting user: 'guest'"
        ]
    );
    assert!(lines(&bench, "POST definitions?dry_run=true", &body.to_string(), 200).is_empty());
}
