//! All endpoints, one after the other: that each is found, described, and closed to users that may only watch.

use super::{Bench, connection};
use crate::caller::Need;
use crate::endpoint::{Endpoint, Takes};
use crate::endpoints::ENDPOINTS;
use crate::openapi;
use crate::request::Method;
use crate::routes::find;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A path of this endpoint, with something for each name in it.
fn sample(endpoint: &Endpoint, of: impl Fn(&str) -> &'static str) -> String {
    let segment = |own: &'static str| match own.strip_prefix('{').and_then(|own| own.strip_suffix('}')) {
        Some(name) => of(name),
        None => own,
    };
    endpoint.path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn thing(name: &str) -> &'static str {
    match name {
        "vhost" => "v",
        "node" => "rabbit@hare",
        "user" => "manager",
        "queue" | "destination" => "own",
        "exchange" | "source" => "amq.topic",
        "limit" => "max-queues",
        "component" => "operator_policy",
        "connection" => "c",
        "port" => "5672",
        "within" => "1",
        "unit" => "days",
        _ => "thing",
    }
}

/// A body that a request of this kind may have.
fn body(takes: Takes) -> Value {
    let (Takes::Object(fields) | Takes::Form(fields)) = takes else { return Value::Null };
    let value = |name: &str| match name {
        "value" | "count" | "before" => json!(1),
        "tags" => json!("administrator"),
        "users" => json!(["manager"]),
        "definition" => json!({ "max-length": 1 }),
        "properties" => json!({}),
        "payload_encoding" => json!("string"),
        "encoding" => json!("auto"),
        "node" => json!("rabbit@hare"),
        _ => json!("x"),
    };
    fields
        .iter()
        .filter(|field| field.is_needed)
        .map(|field| (field.name.to_owned(), value(field.name)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn each_path_means_its_endpoint() {
    for endpoint in ENDPOINTS {
        let sample = sample(endpoint, thing);
        let path: Vec<&str> = sample.split('/').collect();
        let (found, named) = find(&path).expect(&sample);
        assert_eq!(found.name, endpoint.name, "{sample}");
        assert_eq!(named.len(), endpoint.names().count(), "{sample}");
        assert!(
            find(&[&path[..], &["more", "and", "more"]].concat()).is_none_or(|it| it.0.name != found.name)
        );
    }
    assert!(find(&["nowhere"]).is_none());
}

#[test]
fn what_is_routed_is_described_and_the_other_way_round() {
    let document = openapi::describe(ENDPOINTS, "1", "");
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters")
        {
            described.insert(format!("{} {path}", method.to_uppercase()));
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
            assert!(!operation["responses"].as_object().unwrap().is_empty(), "{method} {path}");
        }
        let names = item.get("parameters").map_or(0, |own| own.as_array().unwrap().len());
        assert_eq!(names, path.matches('{').count(), "{path}");
    }
    let mut routed = BTreeSet::new();
    let bench = Bench::new();
    for endpoint in ENDPOINTS {
        let path = sample(endpoint, thing);
        let (status, _, headers) = bench.ask("guest", &format!("OPTIONS {path}"), "");
        assert_eq!(status, 200, "{path}");
        let allowed = headers.iter().find(|(name, _)| *name == "allow").map(|(_, text)| text).unwrap();
        for method in allowed.split(", ").filter(|name| !["HEAD", "OPTIONS"].contains(name)) {
            routed.insert(format!("{method} /{}", endpoint.path));
        }
    }
    assert_eq!(described, routed);
    let ids: Vec<&Value> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .filter_map(|operation| operation.get("operationId"))
        .collect();
    assert_eq!(ids.iter().map(|id| id.as_str()).collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn who_may_watch_changes_nothing() {
    let bench = Bench::new();
    bench.statuses(&[("PUT queues/v/own", "", 201), ("PUT queues/%2F/own", "", 201)]);
    bench.connections.lock().unwrap().push(connection("c", "manager", "v"));
    let version = || bench.catalog.lock().unwrap().version();
    let (before, acted) = (version(), *bench.acted.lock().unwrap());
    let mut asked = 0;
    for endpoint in ENDPOINTS {
        for verb in endpoint.verbs.iter().filter(|verb| verb.method != Method::Get) {
            let line = format!("{} {}", verb.method.name(), sample(endpoint, thing));
            let (status, answer, _) = bench.ask("monitor", &line, &body(verb.takes).to_string());
            let for_all = ["connections/username/{user}", "x/filter/check"];
            let is_for_all = verb.need == Need::Nobody || for_all.contains(&endpoint.path);
            assert!(is_for_all || [401, 404].contains(&status), "{line}: {status} {answer}");
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
    assert_eq!((version(), *bench.acted.lock().unwrap()), (before, acted));
    assert_eq!(bench.connections.lock().unwrap().len(), 1);
}
