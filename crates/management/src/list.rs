//! Lists: filtered by name, sorted, cut into pages, with the columns that were asked for.

use crate::Limits;
use crate::request::Request;
use crate::response::{Answer, Response};
use regex_lite::RegexBuilder;
use serde_json::{Map, Number, Value, json};
use std::cmp::Ordering;

/// Items of a page where nothing else is asked for.
const PAGE: usize = 100;

/// Bytes a compiled expression over names may take: the least of these in which it has room tells how dear it is.
const PATTERN_MEMORIES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// Bytes of a compiled expression that each byte of a name may be held against, times the bytes of all names: three seconds of one
/// processor.
pub(crate) const PATTERN_WORK: usize = 16 << 30;

/// The same for who asks without a login, as for metrics: half of that, which is enough for a simple expression over the names
/// of 100,000 queues.
pub(crate) const PATTERN_WORK_UNKNOWN: usize = 8 << 30;

/// Whether a name is one that is asked for.
pub(crate) type Matcher = Box<dyn Fn(&str) -> bool>;

/// A list of objects as it is asked for; without a wish, in the order of these columns.
pub(crate) fn answer(mut items: Vec<Value>, request: &Request, limits: &Limits, order: &[&str]) -> Answer {
    check_columns(request, limits)?;
    let page = Page::asked(request, limits)?;
    let total = items.len();
    if page.is_some()
        && let Some(name) = request.asked("name").filter(|name| !name.is_empty())
    {
        let bytes = items.iter().filter_map(|item| item["name"].as_str()).map(str::len).sum();
        let matches = matcher(name, request.says("use_regex"), bytes, PATTERN_WORK, limits)?;
        items.retain(|item| item["name"].as_str().is_some_and(&matches));
    }
    sort(&mut items, request, order);
    let columns = request.asked("columns").map(|columns| columns.split(',').collect::<Vec<_>>());
    let show = |item: Value| columns.as_ref().map_or_else(|| item.clone(), |columns| only(&item, columns));
    let Some(page) = page else {
        return Ok(Response::ok(&items.into_iter().map(show).collect()));
    };
    let filtered = items.len();
    let first = page.first(filtered)?;
    let items = items.into_iter().skip(first).take(page.size).map(show).collect();
    Ok(page.answer(items, filtered, total))
}

/// The same of a list that has no pages.
pub(crate) fn whole(mut items: Vec<Value>, request: &Request, limits: &Limits, order: &[&str]) -> Answer {
    check_columns(request, limits)?;
    sort(&mut items, request, order);
    if let Some(columns) = request.asked("columns") {
        let columns: Vec<&str> = columns.split(',').collect();
        items.iter_mut().for_each(|item| *item = only(item, &columns));
    }
    Ok(Response::ok(&items.into()))
}

/// Something of a virtual host that has a name.
pub(crate) trait Named {
    /// That.
    fn name(&self) -> &str;
}

/// Whether a page is asked for that what it is of is enough to find: by virtual host and name, or by one of them.
pub(crate) fn is_page_by_name(request: &Request) -> bool {
    request.asked("page").is_some() && matches!(wish(request), None | Some("vhost" | "name"))
}

/// The same of things that are dear to show, of which [such a page](is_page_by_name) is asked for: only its own are shown. They
/// come by virtual host and name.
pub(crate) fn page_by_name<T: Named>(
    mut things: Vec<T>,
    request: &Request,
    limits: &Limits,
    show: impl FnOnce(&[T]) -> Result<Vec<Value>, Response>,
) -> Answer {
    check_columns(request, limits)?;
    let page = Page::asked(request, limits)?.ok_or_else(|| Response::bad_request("no page is asked for"))?;
    let total = things.len();
    if let Some(name) = request.asked("name").filter(|name| !name.is_empty()) {
        let bytes = things.iter().map(|thing| thing.name().len()).sum();
        let matches = matcher(name, request.says("use_regex"), bytes, PATTERN_WORK, limits)?;
        things.retain(|thing| matches(thing.name()));
    }
    if wish(request) == Some("name") {
        things.sort_by(|a, b| a.name().cmp(b.name()));
    }
    if wish(request).is_some() && request.says("sort_reverse") {
        things.reverse();
    }
    let filtered = things.len();
    let first = page.first(filtered)?.min(filtered);
    let mut items = show(&things[first..filtered.min(first.saturating_add(page.size))])?;
    if let Some(columns) = request.asked("columns") {
        let columns: Vec<&str> = columns.split(',').collect();
        items.iter_mut().for_each(|item| *item = only(item, &columns));
    }
    Ok(page.answer(items, filtered, total))
}

/// The column to sort by.
fn wish(request: &Request) -> Option<&str> {
    request.asked("sort").filter(|column| !column.is_empty())
}

/// Each column is looked for in each row.
fn check_columns(request: &Request, limits: &Limits) -> Result<(), Response> {
    for name in ["columns", "sort"] {
        if request.asked(name).is_some_and(|columns| columns.len() > limits.pattern_bytes_max) {
            let most = limits.pattern_bytes_max;
            return Err(Response::bad_request(format!("{name} is longer than {most} bytes")));
        }
    }
    Ok(())
}

/// One object, with the columns that were asked for.
pub(crate) fn one(item: Value, request: &Request, limits: &Limits) -> Answer {
    check_columns(request, limits)?;
    let item = match request.asked("columns") {
        Some(columns) => only(&item, &columns.split(',').collect::<Vec<_>>()),
        None => item,
    };
    Ok(Response::ok(&item))
}

struct Page {
    number: usize,
    size: usize,
}

impl Page {
    /// How many come before it.
    fn first(&self, filtered: usize) -> Result<usize, Response> {
        let Page { number, size } = *self;
        let first = (number - 1).saturating_mul(size);
        if first >= filtered && number > 1 {
            let reason = format!("Page out of range, page: {number} page size: {size}, len: {filtered}");
            return Err(Response::error(400, "page_out_of_range", reason));
        }
        Ok(first)
    }

    fn answer(&self, items: Vec<Value>, filtered: usize, total: usize) -> Response {
        Response::ok(&json!({
            "filtered_count": filtered,
            "item_count": items.len(),
            "items": items,
            "page": self.number,
            "page_count": filtered.div_ceil(self.size),
            "page_size": self.size,
            "total_count": total,
        }))
    }

    fn asked(request: &Request, limits: &Limits) -> Result<Option<Page>, Response> {
        let Some(number) = request.asked("page") else { return Ok(None) };
        let invalid = |_| Response::bad_request("Pagination parameters are invalid");
        let number: usize = number.parse().map_err(invalid)?;
        let size = request.asked("page_size").filter(|size| !size.is_empty());
        let size = size.map_or(Ok(PAGE), |size| size.parse().map_err(invalid))?;
        if number == 0 || size == 0 || size > limits.page_items_max {
            let reason = format!("Invalid pagination parameters: page number {number}, page size {size}");
            return Err(Response::error(400, "invalid_pagination_parameters", reason));
        }
        Ok(Some(Page { number, size }))
    }
}

/// Whether a name has this in it; an expression that is none is in no name.
///
/// # Errors
/// The response for whose expression takes more than `work` over names that have so many `bytes` in all.
pub(crate) fn matcher(
    name: &str,
    is_pattern: bool,
    bytes: usize,
    work: usize,
    limits: &Limits,
) -> Result<Matcher, Response> {
    if !is_pattern {
        let name = name.to_lowercase();
        return Ok(Box::new(move |own| own.to_lowercase().contains(&name)));
    }
    if name.len() > limits.pattern_bytes_max {
        return Ok(Box::new(|_| false));
    }
    // A name costs its length times the expression's states, and these are known by their size alone.
    for memory in PATTERN_MEMORIES {
        if let Ok(pattern) = RegexBuilder::new(name).case_insensitive(true).size_limit(memory).build() {
            if bytes.saturating_mul(memory) > work {
                return Err(Response::bad_request("the expression takes too long over so many names"));
            }
            return Ok(Box::new(move |own| pattern.is_match(own)));
        }
    }
    Ok(Box::new(|_| false))
}

fn sort(items: &mut [Value], request: &Request, order: &[&str]) {
    let wish = wish(request);
    let order = wish.as_ref().map_or(order, std::slice::from_ref);
    let paths: Vec<Vec<&str>> = order.iter().map(|column| column.split('.').collect()).collect();
    let compare = |a: &Value, b: &Value| {
        let each = paths.iter().map(|path| compare(at(a, path), at(b, path)));
        each.fold(Ordering::Equal, Ordering::then)
    };
    items.sort_by(compare);
    if wish.is_some() && request.says("sort_reverse") {
        items.reverse();
    }
}

fn at<'a>(item: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(item, |item, name| &item[name])
}

/// In the order of Erlang's terms: numbers, false, nothing, true, objects, lists, texts. A total order, as sorting needs.
fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::Bool(false) => 1,
        Value::Null => 2,
        Value::Bool(true) => 3,
        Value::Object(_) => 4,
        Value::Array(_) => 5,
        Value::String(_) => 6,
    };
    match (a, b) {
        // Of integers that one float stands for, the exact difference would contradict what the float says of others.
        (Value::Number(a), Value::Number(b)) => {
            let float = |number: &Number| number.as_f64().unwrap_or(0.0);
            float(a).total_cmp(&float(b))
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn only(item: &Value, columns: &[&str]) -> Value {
    let mut shown = Value::Object(Map::new());
    for column in columns {
        let path: Vec<&str> = column.split('.').collect();
        let value = at(item, &path);
        if value.is_null() && !has(item, &path) {
            continue;
        }
        let mut place = &mut shown;
        for name in &path {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[*name];
        }
        *place = value.clone();
    }
    shown
}

fn has(item: &Value, path: &[&str]) -> bool {
    match path {
        [] => true,
        [name, rest @ ..] => item.get(name).is_some_and(|inner| has(inner, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Value> {
        vec![
            json!({"name": "b", "messages": 2, "arguments": {"x": 1}}),
            json!({"name": "A", "messages": 10}),
            json!({"name": "ab", "messages": null}),
        ]
    }

    #[test]
    fn lists_are_cut_as_asked() {
        let check = |query: &str, status: u16, expected: Value| {
            let request = Request::new("GET", &format!("/api/queues?{query}"), Vec::new(), true).unwrap();
            let response = answer(items(), &request, &Limits::default(), &["name"]).unwrap_or_else(|no| no);
            let body: Value = serde_json::from_slice(&response.body).unwrap();
            assert_eq!((response.status, body), (status, expected), "{query}");
        };
        let names = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Value>();
        check("columns=name", 200, names(&["A", "ab", "b"]));
        check("columns=name&sort=messages", 200, names(&["b", "A", "ab"]));
        check("columns=name&sort=messages&sort_reverse=true", 200, names(&["ab", "A", "b"]));
        check("columns=arguments.x", 200, json!([{}, {}, {"arguments": {"x": 1}}]));
        check(
            "columns=messages&name=zz",
            200,
            json!([{"messages": 10}, {"messages": null}, {"messages": 2}]),
        );
        let page = |items: Value, filtered: usize, page: usize, count: usize, size: usize| {
            json!({"items": items, "filtered_count": filtered, "item_count": items.as_array().unwrap().len(),
                   "page": page, "page_count": count, "page_size": size, "total_count": 3})
        };
        check("page=2&page_size=2&columns=name", 200, page(names(&["b"]), 3, 2, 2, 2));
        check("page=1&name=a&columns=name", 200, page(names(&["A", "ab"]), 2, 1, 1, 100));
        check("page=1&name=^a$&use_regex=true&columns=name", 200, page(names(&["A"]), 1, 1, 1, 100));
        check("page=1&name=%28&use_regex=true", 200, page(json!([]), 0, 1, 0, 100));
        let error = |error: &str, reason: &str| json!({"error": error, "reason": reason});
        check(
            "page=3&page_size=2",
            400,
            error("page_out_of_range", "Page out of range, page: 3 page size: 2, len: 3"),
        );
        check("page=x", 400, error("bad_request", "Pagination parameters are invalid"));
        let long = "x".repeat(Limits::default().pattern_bytes_max + 1);
        check(&format!("columns={long}"), 400, error("bad_request", "columns is longer than 1024 bytes"));
        check(&format!("sort={long}"), 400, error("bad_request", "sort is longer than 1024 bytes"));
        for (size, number) in [(501, 1), (0, 1), (2, 0)] {
            let reason = format!("Invalid pagination parameters: page number {number}, page size {size}");
            check(
                &format!("page={number}&page_size={size}"),
                400,
                error("invalid_pagination_parameters", &reason),
            );
        }
    }

    impl Named for (&str, String) {
        fn name(&self) -> &str {
            &self.1
        }
    }

    #[test]
    fn pages_are_the_same_whether_all_is_shown_or_a_page() {
        let names = |vhost, count: usize| (0..count).map(move |number| (vhost, format!("q{number:02}")));
        let rows: Vec<(&str, String)> = names("v", 25).chain(names("w", 4)).collect();
        let item = |(vhost, name): &(&str, String)| json!({ "vhost": vhost, "name": name, "messages": 25 - name.len() });
        for query in [
            "page=1&page_size=4",
            "page=3&page_size=4&columns=name",
            "page=1&name=q1",
            "page=2&name=q1&page_size=3",
            "page=1&name=[02]$&use_regex=true",
            "page=9&page_size=4",
            "page=1&page_size=4&sort=",
            "page=1&page_size=4&sort=name",
            "page=7&page_size=4&sort=name&name=q0&page=1",
            "page=2&page_size=4&sort=name&sort_reverse=true",
            "page=2&page_size=4&sort=vhost&sort_reverse=true",
            "page=1&page_size=4&sort_reverse=true",
            "page=1&name=none",
            "page=x",
            "page=",
            "page=1&page_size=0",
        ] {
            let request = Request::new("GET", &format!("/api/queues?{query}"), Vec::new(), true).unwrap();
            assert!(is_page_by_name(&request), "{query}");
            let limits = Limits::default();
            let whole = answer(rows.iter().map(item).collect(), &request, &limits, &["vhost", "name"]);
            let cut = page_by_name(rows.clone(), &request, &limits, |rows| {
                assert!(rows.len() < 25, "{query}: all were shown");
                Ok(rows.iter().map(item).collect())
            });
            let [whole, cut] = [whole, cut].map(|answer| answer.unwrap_or_else(|refused| refused));
            assert_eq!(cut, whole, "{query}");
        }
        for query in ["columns=name", "sort=name", "page=1&sort=messages", "page=1&sort=name.x"] {
            let request = Request::new("GET", &format!("/api/queues?{query}"), Vec::new(), true).unwrap();
            assert!(!is_page_by_name(&request), "{query}");
        }
    }

    #[test]
    fn long_expressions_match_nothing() {
        let limits = Limits::default();
        let matches = |pattern: &str, name: &str| {
            matcher(pattern, true, name.len(), PATTERN_WORK, &limits).unwrap()(name)
        };
        let dots = |length: usize| matches(&".".repeat(length), &"x".repeat(2000));
        assert!(dots(limits.pattern_bytes_max) && !dots(limits.pattern_bytes_max + 1));
        assert!(!matches("((((a{99}){99}){99}){99})", "a"));
    }

    #[test]
    fn dear_expressions_over_many_names_are_refused() {
        let status = |pattern: &str, bytes: usize, work: usize| {
            matcher(pattern, true, bytes, work, &Limits::default()).map_or_else(|no| no.status, |_| 200)
        };
        let dear = ".{200}".repeat(5);
        for (pattern, bytes, known, unknown) in [
            ("^orders\\..*", 100_000, 200, 200),
            ("^orders\\..*", 2_000_000, 200, 200),
            ("^orders\\..*", 3_000_000, 200, 400),
            (&dear, 1_000, 200, 200),
            (&dear, 200_000, 200, 400),
            (&dear, 1_000_000, 400, 400),
        ] {
            assert_eq!(status(pattern, bytes, PATTERN_WORK), known, "{pattern} {bytes}");
            assert_eq!(status(pattern, bytes, PATTERN_WORK_UNKNOWN), unknown, "{pattern} {bytes}");
        }
    }

    #[test]
    fn values_of_any_kinds_have_one_order() {
        let values = [
            json!(null),
            json!(false),
            json!(true),
            json!({}),
            json!([]),
            json!(""),
            json!("b"),
            json!(-1),
            json!(0.5),
            json!(u64::MAX),
            json!(i64::MAX),
            json!(i64::MAX - 1),
            json!(9_223_372_036_854_775_807.0),
        ];
        for a in &values {
            assert_eq!(compare(a, a), Ordering::Equal, "{a}");
            for b in &values {
                assert_eq!(compare(a, b), compare(b, a).reverse(), "{a} {b}");
                for c in &values {
                    let is_so = compare(a, b).is_le() && compare(b, c).is_le();
                    assert!(!is_so || compare(a, c).is_le(), "{a} {b} {c}");
                    let is_equal = compare(a, b).is_eq() && compare(b, c).is_eq();
                    assert!(!is_equal || compare(a, c).is_eq(), "{a} {b} {c}");
                }
            }
        }
        // An order that contradicts itself ends a sort, and with it the node.
        let row = |flag: Option<bool>| json!({ "name": "q", "arguments": flag.map_or(json!({}), |flag| json!({ "k": flag })) });
        let flags = [Some(true), Some(false), None, None, None, None, None, None, None, None, None, None];
        let again = [Some(false), Some(false), None, None, None, None, None, None, None, None, None, None];
        let rows: Vec<Value> = flags.iter().chain(&again).map(|flag| row(*flag)).collect();
        let request = Request::new("GET", "/api/queues?sort=arguments.k", Vec::new(), true).unwrap();
        assert_eq!(
            answer(rows, &request, &Limits::default(), &["name"])
                .map_or_else(|no| no.status, |yes| yes.status),
            200
        );
    }
}
