//! Lists: filtered by name, sorted, cut into pages, with the columns that were asked for.
//!
//! A thing as an object takes ten times the memory of its text. A list is therefore of the things, of which a few at a
//! time are objects, to be written out or to be sorted by columns that only objects have; sorted so and without pages
//! each is shown twice.

use crate::Limits;
use crate::names::{Names, PATTERN_WORK};
use crate::request::Request;
use crate::response::{Answer, Response};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;
use std::ops::Range;

/// Items of a page where nothing else is asked for.
const PAGE: usize = 100;

/// Things that are objects at a time. A shard that is asked about them has other work.
const SHOWN: usize = 250;

/// A thing of a list: it is found and sorted by its own columns before it is shown, since that is dear.
pub(crate) trait Listed {
    /// The text in a column, where it is known. A name is, if there is one.
    fn column(&self, column: &str) -> Option<Cow<'_, str>>;

    /// The number in a column, where it is known.
    fn number(&self, _column: &str) -> Option<u64> {
        None
    }
}

impl Listed for Value {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        at(self, column).as_str().map(Cow::Borrowed)
    }
}

/// A list of objects as it is asked for; without a wish, in the order of these columns. It is for short ones: see [`of`].
pub(crate) fn answer(items: Vec<Value>, request: &Request, limits: &Limits, order: &[&str]) -> Answer {
    of(items, request, limits, order, |items| Ok(items.to_vec()))
}

/// The same of a list that has no pages.
pub(crate) fn whole(items: Vec<Value>, request: &Request, limits: &Limits, order: &[&str]) -> Answer {
    check_columns(request, limits)?;
    cut(items, None, request, order, |items| Ok(items.to_vec()))
}

/// The same of things that `show` makes objects of, one of each in their order: only some are there at a time. Where a
/// page is asked for and [the things' own columns are enough to find it](is_page_by_name), only those on it are shown,
/// of which some may be gone.
pub(crate) fn of<T: Listed>(
    things: Vec<T>,
    request: &Request,
    limits: &Limits,
    order: &[&str],
    show: impl Fn(&[T]) -> Result<Vec<Value>, Response>,
) -> Answer {
    let (things, page) = narrowed(things, request, limits)?;
    cut(things, page, request, order, show)
}

/// The same of things that are in the order that is asked for, but for its direction.
pub(crate) fn of_ordered<T: Listed>(
    mut things: Vec<T>,
    request: &Request,
    limits: &Limits,
    show: impl Fn(&[T]) -> Result<Vec<Value>, Response>,
) -> Answer {
    if wish(request).is_some() && request.says("sort_reverse") {
        things.reverse();
    }
    let (things, page) = narrowed(things, request, limits)?;
    written(&things, page, request, show)
}

/// Things whose names are asked for; the page that is, and of how many things.
type Narrowed<T> = (Vec<T>, Option<(Page, usize)>);

/// The things whose names are asked for.
fn narrowed<T: Listed>(
    mut things: Vec<T>,
    request: &Request,
    limits: &Limits,
) -> Result<Narrowed<T>, Response> {
    check_columns(request, limits)?;
    let page = Page::asked(request, limits)?;
    let total = things.len();
    if page.is_some()
        && let Some(name) = request.asked("name").filter(|name| !name.is_empty())
    {
        let names = Names::new(name, request.says("use_regex"), PATTERN_WORK, limits);
        things = names.kept(things, |thing| thing.column("name"))?;
    }
    Ok((things, page.map(|page| (page, total))))
}

/// Things sorted and as text, or a page of them, and of how many.
fn cut<T: Listed>(
    things: Vec<T>,
    page: Option<(Page, usize)>,
    request: &Request,
    order: &[&str],
    show: impl Fn(&[T]) -> Result<Vec<Value>, Response>,
) -> Answer {
    // A page that there is not costs no sorting.
    page.as_ref().map_or(Ok(0..0), |(page, _)| page.own(things.len()))?;
    let things = sorted(things, request, order, &show)?;
    written(&things, page, request, show)
}

/// Sorted things as text, or a page of them, and of how many.
fn written<T: Listed>(
    things: &[T],
    page: Option<(Page, usize)>,
    request: &Request,
    show: impl Fn(&[T]) -> Result<Vec<Value>, Response>,
) -> Answer {
    let filtered = things.len();
    let own = match &page {
        None => 0..filtered,
        Some((page, _)) => page.own(filtered)?,
    };
    let columns = request.asked("columns").map(|columns| columns.split(',').collect::<Vec<_>>());
    let (mut text, mut count) = ("[".to_owned(), 0);
    for things in things[own].chunks(SHOWN) {
        for item in show(things)? {
            if count > 0 {
                text.push(',');
            }
            count += 1;
            let item = match &columns {
                Some(columns) => only(&item, columns),
                None => item,
            };
            // Writing to a string does not fail.
            write!(text, "{item}").unwrap_or_default();
        }
    }
    text.push(']');
    Ok(Response::written(match page {
        None => text,
        Some((page, total)) => page.text(&text, [count, filtered, total]),
    }))
}

/// Whether a page is asked for that the things' own columns are enough to find: by virtual host and name, or by one of
/// them.
pub(crate) fn is_page_by_name(request: &Request) -> bool {
    request.asked("page").is_some() && matches!(wish(request), None | Some("vhost" | "name"))
}

/// The column that a page is sorted by which the things' own columns are not enough to find.
pub(crate) fn page_column(request: &Request) -> Option<&str> {
    wish(request).filter(|_| request.asked("page").is_some() && !is_page_by_name(request))
}

/// The columns that are shown or sorted by, the first names of those that lie deeper; none: all. The cost of others is
/// saved.
pub(crate) struct Columns<'a>(Option<Vec<&'a str>>);

impl<'a> Columns<'a> {
    pub(crate) fn asked(request: &'a Request) -> Columns<'a> {
        let Some(columns) = request.asked("columns") else { return Columns(None) };
        let all = columns.split(',').chain(wish(request));
        Columns(Some(all.map(|column| column.split_once('.').map_or(column, |(first, _)| first)).collect()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|columns| columns.contains(&name))
    }
}

/// Whether any of these columns is shown or sorted by.
pub(crate) fn wants(request: &Request, names: &[&str]) -> bool {
    let columns = Columns::asked(request);
    names.iter().any(|name| columns.has(name))
}

/// The column to sort by.
fn wish(request: &Request) -> Option<&str> {
    request.asked("sort").filter(|column| !column.is_empty())
}

/// Whether a list is asked for in the order of this column.
pub(crate) fn is_sorted_by(request: &Request, column: &str) -> bool {
    wish(request) == Some(column)
}

/// Checks all that is asked of a list.
///
/// # Errors
/// The response to columns or a page that make no sense.
pub(crate) fn check(request: &Request, limits: &Limits) -> Result<(), Response> {
    check_columns(request, limits)?;
    Page::asked(request, limits).map(drop)
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
    /// Which of so many are on it.
    fn own(&self, filtered: usize) -> Result<Range<usize>, Response> {
        let Page { number, size } = *self;
        let first = (number - 1).saturating_mul(size);
        if first >= filtered && number > 1 {
            let reason = format!("Page out of range, page: {number} page size: {size}, len: {filtered}");
            return Err(Response::error(400, "page_out_of_range", reason));
        }
        Ok(first..filtered.min(first.saturating_add(size)))
    }

    /// The page as JSON, and its items as that.
    fn text(&self, items: &str, [count, filtered, total]: [usize; 3]) -> String {
        let Page { number, size } = *self;
        let pages = filtered.div_ceil(size);
        format!(
            "{{\"filtered_count\":{filtered},\"item_count\":{count},\"items\":{items},\"page\":{number},\
             \"page_count\":{pages},\"page_size\":{size},\"total_count\":{total}}}"
        )
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

/// Things in the order that is asked for: by their own columns, or else by those of their objects.
///
/// # Errors
/// The response to things that cannot be shown.
pub(crate) fn sorted<T: Listed>(
    mut things: Vec<T>,
    request: &Request,
    order: &[&str],
    show: impl Fn(&[T]) -> Result<Vec<Value>, Response>,
) -> Result<Vec<T>, Response> {
    let wish = wish(request);
    let order = wish.as_ref().map_or(order, std::slice::from_ref);
    if things.iter().all(|thing| order.iter().all(|column| thing.column(column).is_some())) {
        base::brief::sort_by(&mut things, |a, b| {
            first_that_differs(order, |column| a.column(column).cmp(&b.column(column)))
        });
    } else if let [column] = order
        && things.iter().all(|thing| thing.number(column).is_some())
    {
        base::brief::sort_by_key(&mut things, |thing| thing.number(column));
    } else {
        let mut keys = Vec::with_capacity(things.len());
        for things in things.chunks(SHOWN) {
            let key = |item: &Value| order.iter().map(|column| key(at(item, column))).collect::<Box<[_]>>();
            keys.extend(show(things)?.iter().map(key));
        }
        assert_eq!(keys.len(), things.len(), "each is shown");
        let mut keyed: Vec<_> = keys.into_iter().zip(things).collect();
        let places = 0..order.len();
        base::brief::sort_by(&mut keyed, |(a, _), (b, _)| {
            first_that_differs(places.clone(), |at| compare(&a[at], &b[at]))
        });
        things = keyed.into_iter().map(|(_, thing)| thing).collect();
    }
    if wish.is_some() && request.says("sort_reverse") {
        things.reverse();
    }
    Ok(things)
}

fn first_that_differs<C>(columns: impl IntoIterator<Item = C>, compare: impl Fn(C) -> Ordering) -> Ordering {
    columns.into_iter().map(compare).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The part of a value that it is [compared](compare) by: the contents of lists and objects do not count.
fn key(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        value => value.clone(),
    }
}

fn at<'a>(item: &'a Value, column: &str) -> &'a Value {
    column.split('.').fold(item, |item, name| &item[name])
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
        // Of integers that share a float, the exact difference would contradict the order of their floats with others.
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
        let value = at(item, column);
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
    use serde_json::json;
    use std::cell::Cell;

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

    /// Something in a virtual host that has a name.
    #[derive(Clone)]
    struct Thing(&'static str, String);

    impl Thing {
        fn shown(&self) -> Value {
            let Thing(vhost, name) = self;
            let number: u64 = name[1..].parse().unwrap();
            json!({
                "vhost": vhost,
                "name": name,
                "messages": number % 7,
                "arguments": if number.is_multiple_of(3) { json!({ "x": number }) } else { json!([]) },
            })
        }
    }

    impl Listed for Thing {
        fn column(&self, column: &str) -> Option<Cow<'_, str>> {
            match column {
                "vhost" => Some(self.0.into()),
                "name" => Some(self.1.as_str().into()),
                _ => None,
            }
        }
    }

    #[test]
    fn lists_are_the_same_whether_all_is_shown_at_once_or_some_at_a_time() {
        let named = |vhost, count: usize| (0..count).map(move |number| Thing(vhost, format!("q{number:03}")));
        let things: Vec<Thing> = named("w", 4).chain(named("v", SHOWN + 25)).collect();
        for query in [
            "",
            "sort=name",
            "sort=vhost&sort_reverse=true",
            "sort_reverse=true",
            "sort=messages",
            "sort=messages&sort_reverse=true&columns=name,arguments.x",
            "sort=arguments&columns=name",
            "sort=arguments.x&columns=vhost,name",
            "sort=name.x&columns=none",
            "page=1&page_size=4&sort=messages",
            "page=2&page_size=4&sort=arguments.x&name=q1",
            "page=1&page_size=4",
            "page=3&page_size=4&columns=name",
            "page=1&name=q01",
            "page=2&name=q01&page_size=3",
            "page=1&name=[02]3$&use_regex=true",
            "page=99&page_size=4",
            "page=1&page_size=4&sort=",
            "page=1&page_size=4&sort=name",
            "page=7&page_size=4&sort=name&name=q00&page=1",
            "page=2&page_size=4&sort=name&sort_reverse=true",
            "page=2&page_size=4&sort=vhost&sort_reverse=true",
            "page=1&page_size=4&sort_reverse=true",
            "page=1&name=none",
            "page=x",
            "page=",
            "page=1&page_size=0",
        ] {
            let request = Request::new("GET", &format!("/api/queues?{query}"), Vec::new(), true).unwrap();
            let (limits, order) = (Limits::default(), ["vhost", "name"]);
            let whole = answer(things.iter().map(Thing::shown).collect(), &request, &limits, &order);
            let shown = Cell::new(0);
            let by_some = of(things.clone(), &request, &limits, &order, |things| {
                assert!(things.len() <= SHOWN, "{query}: too many were shown");
                shown.set(shown.get() + things.len());
                Ok(things.iter().map(Thing::shown).collect())
            });
            let [whole, by_some] = [whole, by_some].map(|answer| answer.unwrap_or_else(|refused| refused));
            let parts =
                |response: &Response| (response.status, response.headers.clone(), response.body.clone());
            assert_eq!(parts(&by_some), parts(&whole), "{query}");
            let value: Value = serde_json::from_slice(&whole.body).unwrap();
            assert_eq!(String::from_utf8(whole.body).unwrap(), value.to_string(), "{query}");
            assert!(!is_page_by_name(&request) || shown.get() <= 25, "{query}: more than a page was shown");
        }
        for query in ["columns=name", "sort=name", "page=1&sort=messages", "page=1&sort=name.x"] {
            let request = Request::new("GET", &format!("/api/queues?{query}"), Vec::new(), true).unwrap();
            assert!(!is_page_by_name(&request), "{query}");
        }
    }

    #[test]
    fn what_is_not_shown_is_not_wanted() {
        let check = |query: &str, expected: bool| {
            let request = Request::new("GET", &format!("/api/queues?{query}"), Vec::new(), true).unwrap();
            assert_eq!(wants(&request, &["messages", "stats"]), expected, "{query}");
        };
        check("", true);
        check("sort=name", true);
        check("columns=name,messages", true);
        check("columns=name,messages_ready", false);
        check("columns=stats.publish_details.rate", true);
        check("columns=x.stats", false);
        check("columns=name&sort=stats.publish", true);
        check("columns=", false);
        check("columns=name&sort=", false);
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
