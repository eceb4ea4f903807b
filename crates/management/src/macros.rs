//! Macros of the filter language as parameters: what the expressions of a request may use, and the order in which those
//! of a file of definitions are made.

use crate::call::Call;
use crate::node::Node;
use crate::report::Entry;
use crate::response::Response;
use base::hash::SetByBytes;
use broker::catalog::{FILTER_MACRO, Op, VhostId};
use filter::{Limits, Macros, calls, folded};
use serde_json::Value;
use std::collections::BTreeSet;

/// Whether parameters of a component are macros.
pub(crate) fn are_of(component: &str) -> bool {
    component == FILTER_MACRO
}

/// Keys of a macro.
const KEYS: [&str; 2] = ["expression", "parameters"];

/// The request for a macro as a value says it. The catalog looks at it, but for keys that mean nothing and lists within
/// the list of parameters.
///
/// # Errors
/// The response to such a key or list.
pub(crate) fn wanted(vhost: &str, name: &str, value: &Value) -> Result<Op, Response> {
    let invalid = |why: &str| Response::bad_request(format!("Validation failed\n\nmacro '{name}': {why}\n"));
    let mut keys = value.as_object().into_iter().flat_map(|fields| fields.keys());
    if let Some(key) = keys.find(|key| !KEYS.contains(&key.as_str())) {
        let [text, parameters] = KEYS;
        return Err(invalid(&format!("{key} is no key of a macro: it has {text} and {parameters}")));
    }
    let mut parameters = value["parameters"].as_array().into_iter().flatten();
    if parameters.any(Value::is_array) {
        return Err(invalid("parameters are to be a list of texts"));
    }
    Ok(request(vhost, name, Some(value.to_string().into())))
}

/// The request for a macro to go.
pub(crate) fn cleared(vhost: &str, name: &str) -> Op {
    request(vhost, name, None)
}

fn request(vhost: &str, name: &str, value: Option<Box<str>>) -> Op {
    Op::SetVhostParameter { vhost: vhost.into(), component: FILTER_MACRO.into(), name: name.into(), value }
}

/// The macros that an expression may use in a virtual host. Of one that uses none the node is not asked.
pub(crate) fn known<N: Node>(call: &Call<'_, N>, vhost: VhostId, text: &str) -> Result<Macros, Response> {
    if calls(text).is_empty() {
        return Ok(Macros::default());
    }
    Ok(call.node.look(move |catalog| catalog.macros(vhost).clone())?)
}

/// A macro of a file of definitions.
pub(crate) struct Defined {
    entry: Entry,
    op: Op,
    /// Its virtual host and its folded name.
    name: (String, Box<str>),
    /// The macros that it uses.
    uses: BTreeSet<Box<str>>,
}

impl Defined {
    /// # Errors
    /// See [`wanted`].
    pub(crate) fn new(entry: Entry, vhost: &str, name: &str, value: &Value) -> Result<Defined, Response> {
        let text = value.get("expression").and_then(Value::as_str).unwrap_or_default();
        let op = wanted(vhost, name, value)?;
        Ok(Defined { entry, op, name: (vhost.to_owned(), folded(name)), uses: calls(text) })
    }
}

/// Macros in an order in which each comes behind those that it uses. Such as use one another come last, and are refused
/// by name.
pub(crate) fn ordered(mut waiting: Vec<Defined>) -> Vec<(Entry, Op)> {
    let mut ordered = Vec::with_capacity(waiting.len());
    // They are no deeper than that, and a pass takes the macros of one level at least.
    for _ in 0..=Limits::content().macro_depth_max {
        let names: SetByBytes<(String, Box<str>)> = waiting.iter().map(|own| own.name.clone()).collect();
        let waits = |own: &Defined| {
            let mut others = own.uses.iter().filter(|name| **name != own.name.1);
            others.any(|name| names.contains(&(own.name.0.clone(), name.clone())))
        };
        let (later, now): (Vec<_>, Vec<_>) = waiting.into_iter().partition(waits);
        ordered.extend(now.into_iter().map(|own| (own.entry, own.op)));
        waiting = later;
        if waiting.is_empty() {
            break;
        }
    }
    ordered.extend(waiting.into_iter().map(|own| (own.entry, own.op)));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn macros_come_behind_those_that_they_use() {
        let check = |all: &[(&str, &str, &str)], expected: &str| {
            let all = all.iter().map(|(vhost, name, text)| {
                Defined::new(Entry::default(), vhost, name, &json!({ "expression": text })).unwrap()
            });
            let names = ordered(all.collect()).into_iter().map(|(_, op)| match op {
                Op::SetVhostParameter { name, .. } => name.to_string(),
                other => panic!("{other:?}"),
            });
            assert_eq!(names.collect::<Vec<_>>().join(" "), expected);
        };
        check(&[], "");
        check(&[("/", "a", "B(1) + c()"), ("/", "b", "c()"), ("/", "c", "1")], "c b a");
        // Those of other virtual hosts, and functions, are nothing to wait for.
        check(&[("/", "a", "b() + UPPER(x)"), ("v", "b", "1")], "a b");
        check(&[("/", "a", "b()"), ("/", "b", "a()"), ("/", "d", "d()"), ("/", "c", "1")], "d c a b");
        let texts: Vec<(String, String)> =
            (0..100).map(|level| (format!("m{level}"), format!("m{}()", level + 1))).collect();
        let all = texts.iter().map(|(name, text)| {
            Defined::new(Entry::default(), "/", name, &json!({ "expression": text })).unwrap()
        });
        assert_eq!(ordered(all.collect()).len(), 100);
    }
}
