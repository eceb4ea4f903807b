//! Macros over HTTP: as parameters, in expressions that are looked at, and in definitions.

use super::*;

fn value(parameters: &[&str], text: &str) -> String {
    json!({ "value": { "parameters": parameters, "expression": text } }).to_string()
}

#[test]
fn macros_are_parameters_that_stay_while_they_are_used() {
    let bench = Bench::new();
    bench.statuses(&[
        ("PUT parameters/filter-macro/v/big", &value(&["low"], "/qty > low"), 201),
        ("PUT parameters/filter-macro/v/huge", &value(&[], "big(9)"), 201),
        ("PUT parameters/filter-macro/v/big", &value(&["low"], "/qty > low"), 204),
    ]);
    let check = |line: &str, body: &str, expected: (u16, &str)| {
        let (status, told, _) = bench.ask("policymaker", line, body);
        assert_eq!((status, told["reason"].as_str().unwrap_or_default()), expected, "{line} {body}");
    };
    let used = (409, "macro 'big' in vhost 'v' is used by macro 'huge'");
    check("PUT parameters/filter-macro/v/big", &value(&["low"], "/qty >= low"), used);
    check("DELETE parameters/filter-macro/v/big", "", used);
    let wrong = |why: &str| format!("Validation failed\n\nmacro 'm': {why}\n");
    for (body, why) in [
        (r#"{"value": {"expression": "a = "}}"#, "at byte 4: a value expected"),
        (
            r#"{"value": {"expression": "1", "more": 1}}"#,
            "more is no key of a macro: it has expression and parameters",
        ),
        (r#"{"value": {"expression": "1", "parameters": [["x"]]}}"#, "parameters are to be a list of texts"),
        (r#"{"value": 7}"#, "it is to be an object"),
        (r#"{"value": {"expression": "none()"}}"#, "at byte 0: none is no function"),
    ] {
        check("PUT parameters/filter-macro/v/m", body, (400, &wrong(why)));
    }
    let told = json!({
        "value": { "expression": "big(9)", "parameters": [] }, "vhost": "v", "component": "filter-macro", "name": "huge",
    });
    assert_eq!(bench.get("parameters/filter-macro/v/huge"), told);
    assert_eq!(bench.ask("manager", "PUT parameters/filter-macro/v/m", &value(&[], "1")).0, 401);
    bench.statuses(&[
        ("DELETE parameters/filter-macro/v/huge", "", 204),
        ("DELETE parameters/filter-macro/v/big", "", 204),
        ("DELETE parameters/filter-macro/v/big", "", 404),
    ]);
}

#[test]
fn expressions_are_explained_without_the_macros_in_them() {
    let bench = Bench::new();
    bench.statuses(&[("PUT parameters/filter-macro/v/big", &value(&["low"], "/qty > low"), 201)]);
    let check = |user: &str, asked: Value| {
        let (status, told, _) = bench.ask(user, "POST x/filter/check", &asked.to_string());
        (status, told)
    };
    let (status, told) =
        check("guest", json!({ "filter": "NOT big(2)", "vhost": "v", "payload": r#"{"qty": 1}"# }));
    assert_eq!((status, &told["filter"], &told["matches"]), (200, &json!("NOT body.qty > 2"), &json!(true)));
    let (status, told) = check("guest", json!({ "filter": "NOT big(2)" }));
    assert_eq!((status, &told["reason"]), (400, &json!("filter: at byte 4: big is no function")));
    let (_, told) = check("guest", json!({ "filter": "NOT big(2)", "as_answer": true }));
    assert_eq!(told, json!({ "fault": "at byte 4: big is no function", "at": 4 }));
    // A virtual host that one does not see is not there.
    assert_eq!(check("guest", json!({ "filter": "a", "vhost": "none" })).0, 404);
}

#[test]
fn definitions_have_macros_in_any_order() {
    let bench = Bench::new();
    let row = |name: &str, text: &str| json!({ "vhost": "v", "component": "filter-macro", "name": name, "value": { "expression": text } });
    let file = |rows: Value| json!({ "parameters": rows }).to_string();
    let all = json!([row("a", "b() OR c()"), row("b", "c()"), row("c", "/qty > 1")]);
    bench.statuses(&[
        ("POST definitions", &file(all.clone()), 204),
        ("POST definitions", &file(all.clone()), 204),
        ("POST definitions", &file(json!([row("b", "FALSE")])), 400),
        ("POST definitions", &file(json!([row("d", "e()"), row("e", "d()")])), 400),
        ("POST definitions", &file(json!([row("f", "a(1)")])), 400),
    ]);
    assert_eq!(bench.get("definitions")["parameters"], all);
    let (_, told, _) = bench.ask("guest", "POST definitions", &file(json!([row("f", "a(1)")])));
    let told = told.to_string();
    assert!(
        told.contains("'f' of component 'filter-macro'") && told.contains("a takes no arguments"),
        "{told}"
    );
}
