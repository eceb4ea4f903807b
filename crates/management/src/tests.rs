//! Requests and responses, against a node that is a catalog and nothing else.

mod answers;
mod beyond;
mod counted;
mod first_page;
mod imported;
mod listened;
mod looked;
mod macros;
mod meant;
mod operated;
mod paged;
mod shared;
mod told;
mod unserved;
mod walked;
mod weighed;

use crate::endpoints::ENDPOINTS;
use crate::history::{History, Whose};
use crate::node::{
    About, Action, Begun, BrowsersSee, Busy, Compared, Condition, Delayed, Found, Goal, Got, Login, Memory,
    Node, Outcome, TURN_BOUNDS_US, Trouble, Turns, Which, Writing,
};
use crate::openapi;
use crate::pool::PoolRow;
use crate::request::{Request, Tried};
use crate::routes::handle;
use crate::web_sessions::WebSessions;
use base::Now;
use base::hash::MapById;
use base::id::{PortId, QueueSeq, ShardId};
use broker::access::{Hashing, LONG_SALT, PasswordHash, SALT, Trial};
use broker::catalog::{Actor, Catalog, Object, Op, Places, QueueDefinition, Refusal, VhostDefaults, VhostId};
use broker::{
    Begin, ChannelRow, ConnectionId, ConnectionRow, ConnectionSums, ConsumerRow, Count, ExchangeTally,
    HeldCounts, HeldRow, LinkEnd, LinkRow, OpenSums, Opened, Protocol, Pulse, QueueRow, QueueSums, QuorumRow,
    SessionRow, Standing, StreamConsumerRow, StreamPublisherRow, Survey, Tally, TenantRow, Tracking,
};
use data_encoding::BASE64;
use message::amqp091::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, OnceLock};

const PORT: PortId = PortId::here(ShardId(0), 0, 1);

struct Bench {
    catalog: Mutex<Catalog>,
    /// Actions in a client's name, counted.
    acted: Mutex<u32>,
    /// Those that were begun and are waited for: now, and at most.
    begun: Mutex<[usize; 2]>,
    connections: Mutex<Vec<ConnectionRow>>,
    opened: Mutex<Vec<(u16, Opened)>>,
    /// Of each connection that speaks AMQP 1.0.
    sessions: Mutex<Vec<SessionRow>>,
    survey: Mutex<Survey>,
    history: Mutex<History>,
    logins: Mutex<[u64; 2]>,
    tenants: Mutex<Vec<TenantRow>>,
    /// How often users were listed.
    listed: Mutex<u32>,
    pools: Mutex<Vec<PoolRow>>,
    forgotten: Mutex<Vec<[u64; 2]>>,
    uptime_ms: Mutex<u64>,
    /// Looks that somebody had at the catalog.
    looks: Mutex<u32>,
    /// Lines of the node's log.
    lines: Mutex<Vec<String>>,
    /// Queues in each question for rows or pulses.
    shown: Mutex<Vec<usize>>,
    about: About,
}

/// Counters of each queue.
fn tally() -> Tally {
    let mut tally = Tally::default();
    tally.add(Count::Publish, 10);
    tally.add(Count::Deliver, 6);
    tally.add(Count::GetNoAck, 1);
    tally
}

impl Bench {
    /// With the users of the tags there are, each with its name as password, and a virtual host `v` for `manager`.
    fn new() -> Bench {
        let about = About {
            node: "rabbit@hare".into(),
            cluster: "burrow".into(),
            version: "4.3.6".into(),
            listeners: vec![crate::Listener { protocol: "amqp".into(), port: 5672, ..Default::default() }],
            web_sessions: Some(Arc::new(WebSessions::new(Default::default(), base::Secrets::simulated(5)))),
            ..About::default()
        };
        let bench = Bench {
            catalog: Mutex::default(),
            acted: Mutex::default(),
            begun: Mutex::default(),
            connections: Mutex::default(),
            opened: Mutex::default(),
            sessions: Mutex::default(),
            survey: Mutex::default(),
            history: Mutex::default(),
            logins: Mutex::default(),
            tenants: Mutex::default(),
            listed: Mutex::default(),
            pools: Mutex::default(),
            forgotten: Mutex::default(),
            uptime_ms: Mutex::default(),
            looks: Mutex::default(),
            lines: Mutex::default(),
            shown: Mutex::default(),
            about,
        };
        let tags = ["administrator", "monitoring", "policymaker", "management", "none"];
        for (name, tag) in ["guest", "monitor", "policymaker", "manager", "nobody"].into_iter().zip(tags) {
            let password = Some(PasswordHash::new(name, [0; SALT]));
            bench.request(Op::AddUser { name: name.into(), password, tags: vec![tag.into()] }).unwrap();
        }
        for vhost in ["/", "v"] {
            bench.request(Op::AddVhost { name: vhost.into(), defaults: VhostDefaults::default() }).unwrap();
            bench.request(crate::vhosts::giving(vhost, "guest")).unwrap();
        }
        bench.request(crate::vhosts::giving("v", "manager")).unwrap();
        bench.request(crate::vhosts::giving("v", "policymaker")).unwrap();
        bench
    }

    fn plan(&self, actor: &Actor, op: &Op) -> Result<(), Trouble> {
        let mut catalog = self.catalog.lock().unwrap();
        let plan = catalog.plan(actor, op, Places::default()).map_err(Trouble::Refused)?;
        plan.changes.iter().for_each(|change| drop(catalog.apply(change)));
        // As a start does; a node in slices.
        let in_force = catalog.policies_in_force();
        catalog.go_by_policies(&in_force);
        Ok(())
    }

    fn request(user: &str, line: &str, body: &str) -> Request {
        let (method, target) = line.split_once(' ').unwrap();
        let target = format!("/api/{target}");
        let mut request = Request::new(method, &target, body.as_bytes().to_vec(), true).unwrap();
        if !user.is_empty() {
            request.authorization =
                Some(format!("Basic {}", BASE64.encode(format!("{user}:{user}").as_bytes())));
        }
        request.content_type = Some("application/json".to_owned());
        request
    }

    fn ask(&self, user: &str, line: &str, body: &str) -> (u16, Value, Vec<(&'static str, String)>) {
        let request = Bench::request(user, line, body);
        let response = handle(self, &request);
        let (method, _) = line.split_once(' ').unwrap();
        assert!(is_described(method, &request.path, response.status), "{line} {body}: {}", response.status);
        let body = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        (response.status, body, response.headers)
    }

    /// It is done already, and is waited for all the same.
    fn begun(&self, done: Result<(), Trouble>) -> Begun<'_> {
        let [begun, most] = &mut *self.begun.lock().unwrap();
        *begun += 1;
        *most = (*most).max(*begun);
        Box::new(|| {
            self.begun.lock().unwrap()[0] -= 1;
            done
        })
    }

    /// Statuses of requests of the administrator, one after the other.
    fn statuses(&self, rows: &[(&str, &str, u16)]) {
        for (line, body, status) in rows {
            let (found, answer, _) = self.ask("guest", line, body);
            assert_eq!(found, *status, "{line} {body}: {answer}");
        }
    }

    fn get(&self, path: &str) -> Value {
        let (status, body, _) = self.ask("guest", &format!("GET {path}"), "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

/// Whether the OpenAPI document tells of this status, of a verb that it tells of. 405 and 5xx are nobody's own.
fn is_described(method: &str, path: &[String], status: u16) -> bool {
    static RESPONSES: OnceLock<BTreeMap<(String, String), Vec<u16>>> = OnceLock::new();
    let responses = RESPONSES.get_or_init(|| {
        let document = openapi::describe(ENDPOINTS, "1", "");
        let mut all = BTreeMap::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let statuses = operation["responses"].as_object();
                let statuses = statuses.into_iter().flat_map(|it| it.keys().map(|key| key.parse().unwrap()));
                all.insert((method.to_uppercase(), path.clone()), statuses.collect());
            }
        }
        all
    });
    let path: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
    let Some((endpoint, _)) = crate::routes::find(&path) else { return true };
    let told = responses.get(&(method.to_owned(), format!("/{}", endpoint.path)));
    told.is_none_or(|told| told.contains(&status) || status >= 500)
}

fn connection(name: &str, user: &str, vhost: &str) -> ConnectionRow {
    ConnectionRow {
        calls: [5, 6],
        id: (0, 0, 0),
        frame_max: 131_072,
        channel_max: 2047,
        timeout_s: 60,
        mechanism: "PLAIN",
        name: name.into(),
        given_name: Some("mine".into()),
        container: None,
        client: None,
        protocol: "AMQP 0-9-1",
        user: user.into(),
        vhost: vhost.into(),
        state: "running",
        held_back: None,
        channels: 1,
        held: 6,
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 5672,
        peer_host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        peer_port: 1,
        received: 2,
        sent: 3,
        connected_at: 4,
        encryption: None,
    }
}

#[test]
fn who_is_not_known_is_told_so() {
    let bench = Bench::new();
    let (status, body, headers) = bench.ask("", "GET overview", "");
    assert_eq!((status, body), (401, Value::Null));
    assert!(headers.contains(&("www-authenticate", "Basic realm=\"RabbitMQ Management\"".to_owned())));
    let refused = [
        ("nobody", json!({"error": "not_authorised", "reason": "Not management user"})),
        ("stranger", json!({"error": "not_authorized", "reason": "Not_Authorized"})),
    ];
    for (user, expected) in refused {
        let (status, body, _) = bench.ask(user, "GET overview", "");
        assert_eq!((status, body), (401, expected), "{user}");
    }
    assert_eq!(bench.ask("", "GET health/checks/is-in-service", "").0, 200);
    assert_eq!(bench.ask("", "GET health/checks/alarms", "").0, 401);
}

#[test]
fn tags_say_how_far_one_goes() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/%2F/other", "", 201), ("PUT queues/v/own", "", 201)]);
    let check = |line: &str, expected: [u16; 4]| {
        let found = ["guest", "monitor", "policymaker", "manager"].map(|user| bench.ask(user, line, "").0);
        assert_eq!(found, expected, "{line}");
    };
    check("GET whoami", [200; 4]);
    check("GET users", [200, 401, 401, 401]);
    check("GET nodes", [200, 200, 401, 401]);
    check("GET nodes/other", [404, 404, 401, 401]);
    check("GET permissions", [200, 401, 401, 401]);
    check("GET parameters", [200, 401, 200, 401]);
    check("GET definitions", [200, 401, 401, 401]);
    check("GET queues/%2F", [200, 404, 404, 404]);
    check("GET queues/v", [200, 404, 200, 200]);
    check("GET queues/v/own", [200, 404, 200, 200]);
    check("GET policies/v", [200, 404, 200, 200]);
    check("GET queues/none", [404; 4]);
    check("GET nothing", [404; 4]);
    check("POST queues/v/own", [405; 4]);
    check("PUT vhosts/new", [201, 401, 401, 401]);
    check("DELETE vhosts/new", [204, 401, 401, 401]);
    let names = |user: &str| bench.ask(user, "GET queues?columns=name", "").1;
    assert_eq!(names("guest"), json!([{"name": "other"}, {"name": "own"}]));
    assert_eq!([names("monitor"), names("manager")], [json!([]), json!([{"name": "own"}])]);
    let policy = r#"{"pattern": "x", "definition": {"max-length": 1}}"#;
    let put = |user: &str, line: &str| bench.ask(user, line, policy).0;
    assert_eq!(put("manager", "PUT policies/v/p"), 401);
    assert_eq!(put("policymaker", "PUT policies/%2F/p"), 404);
    assert_eq!(put("policymaker", "PUT policies/v/p"), 201);
    assert_eq!(put("policymaker", "PUT operator-policies/v/p"), 401);
}

#[test]
fn streams_are_truncated_by_who_may_configure_them() {
    let bench = Bench::new();
    bench.statuses(&[
        ("POST x/streams/%2F/events/truncate", r#"{"before": "x"}"#, 400),
        ("POST x/streams/%2F/events/truncate", r#"{"before": -1}"#, 400),
        ("POST x/streams/%2F/events/truncate", "{}", 400),
        ("POST x/streams/%2F/none/truncate", r#"{"before": 17}"#, 404),
        ("POST x/streams/none/events/truncate", r#"{"before": 17}"#, 404),
        ("GET x/streams/%2F/events/truncate", "", 405),
    ]);
    let (status, body, _) = bench.ask("guest", "POST x/streams/%2F/events/truncate", r#"{"before": 17}"#);
    assert_eq!((status, body), (200, json!({"first_offset": 10})));
    let own = r#"{"configure": "^events$", "write": "", "read": ""}"#;
    let others = r#"{"configure": "^other$", "write": ".*", "read": ".*"}"#;
    bench.statuses(&[
        ("PUT permissions/v/policymaker", others, 204),
        ("PUT permissions/%2F/manager", own, 201),
        ("PUT permissions/v/monitor", own, 201),
    ]);
    let truncate = |user: &str, vhost: &str| {
        bench.ask(user, &format!("POST x/streams/{vhost}/events/truncate"), r#"{"before": 17}"#).0
    };
    assert_eq!([truncate("policymaker", "v"), truncate("monitor", "v")], [401, 404]);
    assert_eq!([truncate("manager", "%2F"), truncate("monitor", "%2F")], [200, 404]);
}

#[test]
fn things_come_change_and_go() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT vhosts/w", r#"{"description": "d", "tags": "a, b", "default_queue_type": "quorum"}"#, 201),
        ("PUT vhosts/w", r#"{"tags": ["c"]}"#, 204),
        ("PUT vhosts/x", r#"{"default_queue_type": "zz"}"#, 400),
        ("POST vhosts/w/deletion/protection", "", 204),
        ("DELETE vhosts/w", "", 412),
        ("DELETE vhosts/w/deletion/protection", "", 204),
        ("PUT users/u", r#"{"password": "p", "tags": "management"}"#, 201),
        ("PUT users/u", r#"{"password": "p"}"#, 400),
        ("PUT users/u", r#"{"password": "p", "password_hash": "h", "tags": ""}"#, 400),
        ("PUT users/u", r#"{"password_hash": "h", "tags": ""}"#, 400),
        ("PUT users/u", r#"{"tags": "x"}"#, 204),
        ("PUT permissions/w/u", r#"{"configure": "", "write": "a", "read": "b"}"#, 201),
        ("PUT permissions/w/u", r#"{"configure": "", "write": "a", "read": "c"}"#, 204),
        ("PUT permissions/w/u", r#"{"write": "a", "read": "c"}"#, 400),
        ("PUT permissions/w/none", r#"{"configure": "", "write": "a", "read": "c"}"#, 400),
        ("PUT permissions/none/u", r#"{"configure": "", "write": "a", "read": "c"}"#, 400),
        ("PUT topic-permissions/w/u", r#"{"exchange": "amq.topic", "write": "a", "read": "c"}"#, 201),
        ("PUT vhost-limits/w/max-queues", r#"{"value": 9}"#, 204),
        ("PUT vhost-limits/w/zz", r#"{"value": 9}"#, 400),
        ("DELETE vhost-limits/w/zz", "", 204),
        ("PUT vhost-limits/w/max-queues", "{}", 400),
        ("PUT vhost-limits/w/max-queues", r#"{"value": "x"}"#, 400),
        ("PUT user-limits/u/max-channels", r#"{"value": 8}"#, 204),
        ("PUT user-limits/u/max-memory-bytes", r#"{"value": 5000000000}"#, 204),
        ("PUT vhost-limits/w/max-memory-bytes", r#"{"value": 6000000000}"#, 204),
        ("PUT user-limits/none/max-channels", r#"{"value": 8}"#, 400),
        (
            "PUT policies/w/p",
            r#"{"pattern": "^q", "definition": {"max-length": 10}, "apply-to": "queues"}"#,
            201,
        ),
        ("PUT policies/w/p", r#"{"definition": {"max-length": 10}}"#, 400),
        (
            "PUT operator-policies/w/o",
            r#"{"pattern": "", "definition": {"max-length": 5}, "priority": 2}"#,
            201,
        ),
        ("PUT exchanges/w/e", r#"{"type": "topic", "durable": true}"#, 201),
        ("PUT exchanges/w/e", r#"{"type": "fanout", "durable": true}"#, 400),
        ("PUT queues/w/q", r#"{"durable": true}"#, 201),
        ("PUT queues/w/q", r#"{"durable": true}"#, 204),
        ("PUT queues/w/q", r#"{"durable": "zz"}"#, 400),
        ("PUT queues/w/q", "[]", 400),
        ("PUT queues/none/q", "", 404),
        ("POST bindings/w/e/e/q/q", r#"{"routing_key": "a/b"}"#, 201),
        ("GET bindings/w/e/e/q/q/a%252Fb", "", 200),
        ("GET bindings/w/e/e/q/q/a%2Fb", "", 200),
        ("GET bindings/w/e/e/q/q/other", "", 404),
        ("GET bindings/w/e/e/q/none", "", 200),
        ("GET bindings/none/e/e/q/q", "", 404),
        ("POST bindings/w/e/e/q/none", "", 404),
    ]);
    let w = bench.get("vhosts/w");
    assert_eq!(
        (&w["description"], &w["tags"], &w["default_queue_type"]),
        (&json!("d"), &json!(["c"]), &json!("quorum"))
    );
    assert_eq!((&w["messages"], &w["messages_ready"]), (&json!(3), &json!(2)));
    let user = bench.get("users/u");
    assert_eq!(
        user,
        json!({"name": "u", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256",
               "tags": ["x"], "limits": {"max-channels": 8, "max-memory-bytes": 5_000_000_000u64}})
    );
    assert_eq!(
        bench.get("user-limits"),
        json!([{"user": "u", "value": {"max-channels": 8, "max-memory-bytes": 5_000_000_000u64}}])
    );
    assert_eq!(
        bench.get("vhost-limits/w"),
        json!([{"vhost": "w", "value": {"max-queues": 9, "max-memory-bytes": 6_000_000_000u64}}])
    );
    let permission = json!({"user": "u", "vhost": "w", "configure": "", "write": "a", "read": "c"});
    assert_eq!(bench.get("permissions/w/u"), permission);
    assert_eq!(bench.get("users/u/permissions"), json!([permission]));
    let topics = json!([{"user": "u", "vhost": "w", "exchange": "amq.topic", "write": "a", "read": "c"}]);
    assert_eq!(bench.get("topic-permissions/w/u"), topics);
    let queue = bench.get("queues/w/q");
    assert_eq!((&queue["policy"], &queue["operator_policy"]), (&json!("p"), &json!("o")));
    assert_eq!(queue["effective_policy_definition"], json!({"max-length": 5}));
    assert_eq!((&queue["messages"], &queue["consumers"]), (&json!(3), &json!(3)));
    let binding = json!({"source": "e", "vhost": "w", "destination": "q", "destination_type": "queue",
        "routing_key": "a/b", "arguments": {}, "properties_key": "a%2Fb"});
    assert_eq!(bench.get("exchanges/w/e/bindings/source"), json!([binding]));
    assert_eq!(bench.get("queues/w/q/bindings")[1], binding);
    assert_eq!(bench.get("exchanges/w/amq.default")["name"], "");
    let policy = json!({"vhost": "w", "name": "p", "pattern": "^q", "apply-to": "queues", "priority": 0,
        "definition": {"max-length": 10}});
    assert_eq!(bench.get("policies"), json!([policy]));
    assert_eq!(bench.get("parameters").as_array().map(Vec::len), Some(2));
    bench.statuses(&[
        ("DELETE bindings/w/e/e/q/q/a%252Fb", "", 204),
        ("DELETE exchanges/w/e", "", 204),
        ("DELETE exchanges/w/e", "", 404),
        ("DELETE policies/w/p", "", 204),
        ("DELETE operator-policies/w/o", "", 204),
        ("DELETE vhost-limits/w/max-queues", "", 204),
        ("DELETE user-limits/u/max-channels", "", 204),
        ("DELETE user-limits/u/max-memory-bytes", "", 204),
        ("DELETE vhost-limits/w/max-memory-bytes", "", 204),
        ("DELETE topic-permissions/w/u", "", 204),
        ("DELETE permissions/w/u", "", 204),
        ("DELETE permissions/w/u", "", 404),
        ("DELETE users/u", "", 204),
        ("DELETE users/u", "", 404),
        ("DELETE vhosts/w", "", 204),
        ("DELETE vhosts/w", "", 404),
    ]);
    assert_eq!(bench.get("parameters"), json!([]));
}

/// Binds a queue for each of these values of an argument, then lists and removes each binding by its key, which leaves the
/// others.
fn remove_each_binding(values: &[routing::Value]) {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/%2F/q", "", 201)]);
    let actor = Actor::internal(VhostId(0), PORT);
    for value in values {
        let arguments = [(&b"x-match"[..], routing::Value::text("all")), (b"version", value.clone())]
            .into_iter()
            .collect();
        let (queue, exchange, key) = ("q".into(), "amq.headers".into(), "k".into());
        bench.plan(&actor, &Op::BindQueue { queue, exchange, key, arguments }).unwrap();
    }
    let is_left = |value: &routing::Value| {
        let catalog = bench.catalog.lock().unwrap();
        let queue = catalog.queue_by_name(VhostId(0), b"q").unwrap().id;
        catalog.queue_bindings(queue).any(|binding| binding.arguments.get(b"version") == Some(value.view()))
    };
    let listed = bench.get("bindings/%2F/e/amq.headers/q/q");
    let keys: Vec<&str> =
        listed.as_array().unwrap().iter().map(|row| row["properties_key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), values.len());
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{key} stands for two");
        let before = values.iter().filter(|value| is_left(value)).count();
        bench.statuses(&[(&format!("DELETE bindings/%2F/e/amq.headers/q/q/{key}"), "", 204)]);
        assert_eq!(values.iter().filter(|value| is_left(value)).count(), before - 1, "{values:?}");
    }
    assert_eq!(bench.get("bindings/%2F/e/amq.headers/q/q"), json!([]));
}

#[test]
fn bindings_are_removed_whatever_their_arguments_are() {
    use routing::{IntType, Value};
    let all = [
        Value::Int(IntType::SignedInt, 1),
        Value::Timestamp(5),
        Value::Bytes(b"x"[..].into()),
        Value::Decimal { scale: 1, value: 15 },
        Value::list([Value::Int(IntType::Byte, 1)]),
    ];
    all.into_iter().for_each(|value| remove_each_binding(&[value]));
}

#[test]
fn bindings_of_other_types_have_other_keys() {
    use routing::{IntType, Value};
    let int = |kind| Value::Int(kind, 1);
    remove_each_binding(&[
        int(IntType::SignedInt),
        int(IntType::Long),
        int(IntType::Byte),
        Value::Timestamp(1),
    ]);
    remove_each_binding(&[Value::text("x"), Value::Bytes(b"x"[..].into())]);
}

#[test]
fn connections_are_shown_to_whom_they_concern() {
    let bench = Bench::new();
    *bench.connections.lock().unwrap() = vec![
        connection("a -> b", "guest", "/"),
        connection("c -> d", "manager", "v"),
        connection("new", "", ""),
    ];
    let names = |user: &str| bench.ask(user, "GET connections?columns=name", "").1;
    let both = json!([{"name": "a -> b"}, {"name": "c -> d"}]);
    assert_eq!([names("guest"), names("monitor")], [both.clone(), both]);
    assert_eq!([names("manager"), names("policymaker")], [json!([{"name": "c -> d"}]), json!([])]);
    let one = bench.get("connections/a%20-%3E%20b");
    assert_eq!((&one["user_provided_name"], &one["ssl_protocol"]), (&json!("mine"), &Value::Null));
    assert_eq!(bench.ask("manager", "DELETE connections/a%20-%3E%20b", "").0, 401);
    assert_eq!(bench.ask("monitor", "DELETE connections/a%20-%3E%20b", "").0, 401);
    assert_eq!(bench.ask("manager", "DELETE connections/c%20-%3E%20d", "").0, 204);
    assert_eq!(bench.ask("guest", "DELETE connections/username/guest", "").0, 204);
    assert_eq!(bench.get("connections"), json!([]));
    assert_eq!(bench.ask("guest", "DELETE connections/none", "").0, 404);
}

/// RabbitMQ's definitions hold the exchange it logs to, and the bindings of that.
const OF_RABBITMQ: &str = r#"{
    "exchanges": [{ "name": "amq.rabbitmq.log", "vhost": "/", "type": "topic", "durable": true, "auto_delete": false }],
    "bindings": [{ "source": "amq.rabbitmq.log", "vhost": "/", "destination": "q", "destination_type": "queue",
                   "routing_key": "a.b", "arguments": {} }]
}"#;

#[test]
fn what_is_exported_can_be_imported() {
    let (old, new) = (Bench::new(), Bench::new());
    old.statuses(&[
        ("PUT vhosts/w", r#"{"description": "d"}"#, 201),
        ("PUT vhost-limits/w/max-queues", r#"{"value": 9}"#, 204),
        ("PUT users/u", r#"{"password": "p", "tags": "management"}"#, 201),
        ("PUT permissions/w/u", r#"{"configure": "", "write": "a", "read": "b"}"#, 201),
        ("PUT policies/w/p", r#"{"pattern": "^q", "definition": {"max-length": 10}}"#, 201),
        ("PUT operator-policies/w/o", r#"{"pattern": "", "definition": {"max-length": 5}}"#, 201),
        ("PUT exchanges/w/e", r#"{"type": "topic", "durable": true}"#, 201),
        ("PUT queues/w/q", r#"{"durable": true}"#, 201),
        ("POST bindings/w/e/e/q/q", r#"{"routing_key": "k"}"#, 201),
    ]);
    let exported = old.get("definitions");
    for _ in 0..2 {
        new.statuses(&[("POST definitions", &exported.to_string(), 204)]);
        assert_eq!(new.get("definitions"), exported);
    }
    let etag = |bench: &Bench| {
        bench.ask("guest", "GET definitions", "").2.iter().find(|(name, _)| *name == "etag").cloned()
    };
    assert!(etag(&old).is_some() && etag(&old) == etag(&new));
    let single = old.get("definitions/w");
    assert!(single["queues"][0].get("vhost").is_none() && single["policies"][0].get("vhost").is_none());
    new.statuses(&[
        ("PUT vhosts/z", "", 201),
        ("POST definitions/z", &single.to_string(), 204),
        ("POST definitions/none", "{}", 404),
        ("POST definitions", OF_RABBITMQ, 204),
        ("POST definitions", "[]", 400),
        ("POST definitions", r#"{"queues": [1]}"#, 400),
        (
            "POST definitions",
            r#"{"parameters": [{"component": "shovel", "vhost": "z", "name": "s", "value": {}}]}"#,
            400,
        ),
    ]);
    assert_eq!(new.get("queues/z?columns=name"), json!([{"name": "q"}]));
}

#[test]
fn shovels_that_are_kept_are_told_as_what_has_ended() {
    let bench = Bench::new();
    let shovel =
        r#"{"value": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}}"#;
    for path in
        ["shovels", "shovels/v", "federation-links", "federation-links/v", "federation-links/state/down"]
    {
        assert_eq!(bench.get(path), json!([]), "{path}");
    }
    bench.statuses(&[
        ("PUT parameters/shovel/v/s", shovel, 201),
        ("GET shovels/none", "", 404),
        ("GET federation-links/none", "", 404),
        ("GET shovels/vhost/v/none", "", 404),
    ]);
    let rows = bench.get("shovels");
    assert_eq!(rows, bench.get("shovels/v"));
    let told = ["name", "vhost", "type", "state"].map(|key| rows[0][key].as_str().unwrap_or_default());
    assert_eq!(told, ["s", "v", "dynamic", "terminated"]);
    assert_eq!(bench.get("shovels/vhost/v/s"), bench.get("parameters/shovel/v/s"));
    assert_eq!(bench.ask("manager", "GET shovels", "").0, 401);
    assert_eq!(bench.ask("manager", "DELETE shovels/vhost/v/s", "").0, 401);
    bench.statuses(&[("DELETE shovels/vhost/v/s", "", 204), ("DELETE shovels/vhost/v/s", "", 204)]);
    assert_eq!(bench.get("shovels"), json!([]));
}

#[test]
fn health_is_told() {
    let bench = Bench::new();
    let check = |path: &str, status: u16, body: Value| {
        let (found, answer, _) = bench.ask("guest", &format!("GET health/checks/{path}"), "");
        assert_eq!((found, answer), (status, body), "{path}");
    };
    let ok = || json!({"status": "ok"});
    let alarm = json!({"status": "failed", "reason": "There are alarms in effect on the node",
        "alarms": [{"node": "rabbit@hare", "resource": "memory"}]});
    check("local-alarms", 503, alarm);
    check("virtual-hosts", 200, ok());
    check("metadata-store/initialized/with-data", 200, ok());
    check("port-listener/5672", 200, json!({"status": "ok", "port": 5672}));
    let failed = json!({"status": "failed", "reason": "No active listener", "missing": 1, "ports": [5672]});
    check("port-listener/1", 503, failed);
    check("protocol-listener/amqp091,amqp10", 200, json!({"status": "ok", "protocols": ["amqp"]}));
    let failed =
        json!({"status": "failed", "reason": "No active listener", "missing": ["zz"], "protocols": ["amqp"]});
    check("protocol-listener/amqp,zz", 503, failed);
    check("certificate-expiration/1/months", 200, ok());
    assert_eq!(bench.ask("guest", "GET health/checks/certificate-expiration/1/moons", "").0, 400);
    assert_eq!(bench.ask("guest", "GET health/checks/else", "").0, 404);
}

#[test]
fn large_bodies_are_read_of_whom_they_are_taken() {
    let bench = Bench::new();
    let ask = |user: &str, line: &str| {
        let (method, target) = line.split_once(' ').unwrap();
        let mut request = Request::new(method, target, Vec::new(), true).unwrap();
        request.authorization = Some(format!("Basic {}", BASE64.encode(format!("{user}:{user}").as_bytes())));
        request.awaits_body = true;
        handle(&bench, &request).status
    };
    assert_eq!(ask("guest", "PUT /api/queues/v/q"), 100);
    assert_eq!(ask("stranger", "PUT /api/queues/v/q"), 401);
    assert_eq!(ask("manager", "POST /api/definitions"), 401);
    assert_eq!(ask("guest", "PUT /api/nothing"), 404);
    assert_eq!(ask("guest", "POST /api/queues/v/q"), 405);
    // Requests that take no user are not asked to go on.
    assert_eq!(ask("guest", "POST /api/login"), 413);
    assert_eq!(ask("guest", "GET /api/health/checks/is-in-service"), 413);
    assert_eq!(bench.get("queues"), json!([]));
    // A login is counted when the body has come.
    assert_eq!(*bench.logins.lock().unwrap(), [2, 1]);
}

#[test]
fn any_request_is_answered() {
    let bench = Bench::new();
    let bodies =
        ["", "{", "null", "[]", "{\"a\":[[[[", "\"x\"", "{\"value\":{}}", "{\"tags\":5,\"definition\":5}"];
    let paths = [
        "users/u",
        "permissions/v/u",
        "policies/v/p",
        "queues/v/q",
        "vhosts/v/x",
        "definitions",
        "bindings/v/e/a/q/b",
        "exchanges/v/amq.direct/publish",
        "queues/v/q/get",
        "users/bulk-delete",
        "health/checks",
        "x/y/z/1/2/3/4/5/6",
    ];
    for (path, body) in paths.iter().flat_map(|path| bodies.map(|body| (path, body))) {
        for method in ["PUT", "POST", "GET", "HEAD", "OPTIONS", "PATCH"] {
            let (status, ..) = bench.ask("guest", &format!("{method} {path}"), body);
            assert!((200..500).contains(&status), "{method} {path} {body}: {status}");
        }
    }
}
