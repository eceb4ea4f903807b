//! Objects without figures (`disable_stats=true`): the columns that are known without counting anything.
//!
//! Figures are left out by asking for the other columns alone, so that nobody works them out.

use crate::endpoints::Name;
use crate::request::{Method, Request};

const QUEUE: &[&str] = &[
    "name",
    "vhost",
    "durable",
    "auto_delete",
    "exclusive",
    "arguments",
    "type",
    "node",
    "state",
    "leader",
    "members",
    "online",
    "policy",
    "operator_policy",
    "effective_policy_definition",
];

/// The lengths of a queue, which `enable_queue_totals=true` has told all the same.
const TOTALS: &[&str] = &["messages", "messages_ready", "messages_unacknowledged"];

const EXCHANGE: &[&str] = &[
    "name",
    "vhost",
    "type",
    "durable",
    "auto_delete",
    "internal",
    "arguments",
    "user_who_performed_action",
    "policy",
];

const VHOST: &[&str] = &[
    "name",
    "description",
    "tags",
    "default_queue_type",
    "protected_from_deletion",
    "metadata",
    "tracing",
    "cluster_state",
];

const NODE: &[&str] = &["name", "type", "running", "being_drained"];

const OVERVIEW: &[&str] = &[
    "management_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "platform",
    "platform_version",
    "erlang_version",
    "erlang_full_version",
    "crypto_lib_version",
    "cluster_name",
    "cluster_tags",
    "node",
    "node_tags",
    "rates_mode",
    "disable_stats",
    "enable_queue_totals",
    "default_queue_type",
    "is_op_policy_updating_enabled",
    "require_definition_json_extension",
    "sample_retention_policies",
    "exchange_types",
    "object_totals.connections",
    "object_totals.exchanges",
    "object_totals.queues",
];

/// The same request for columns without figures, where it asks for that and its endpoint has figures.
pub(crate) fn narrowed(name: Name, request: &Request) -> Option<Request> {
    if !request.says("disable_stats") || !matches!(request.method, Method::Get | Method::Head) {
        return None;
    }
    let has_totals = request.says("enable_queue_totals");
    let (plain, more): (&[&str], &[&str]) = match name {
        Name::Queues | Name::QueuesDetailed | Name::QueuesOf | Name::QueueOf | Name::UserQueues => {
            (QUEUE, if has_totals { TOTALS } else { &[] })
        }
        Name::Exchanges | Name::ExchangesOf | Name::ExchangeOf => (EXCHANGE, &[]),
        Name::Vhosts | Name::VhostOf => (VHOST, &[]),
        Name::Nodes | Name::NodeOf => (NODE, &[]),
        Name::Overview => (OVERVIEW, &[]),
        _ => return None,
    };
    let plain: Vec<&str> = plain.iter().chain(more).copied().collect();
    let columns = match request.asked("columns") {
        None => plain.join(","),
        Some(asked) => both(asked, &plain).join(","),
    };
    let mut narrowed = request.clone();
    narrowed.query.retain(|(key, _)| key != "columns");
    narrowed.query.push(("columns".to_owned(), columns));
    Some(narrowed)
}

/// The columns that are asked for and plain: of those that lie within each other the inner ones.
fn both<'c>(asked: &'c str, plain: &[&'c str]) -> Vec<&'c str> {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let one = |asked: &'c str| {
        let inner = plain.iter().copied().filter(move |own| is_within(own, asked));
        let whole = plain.iter().any(|own| *own != asked && is_within(asked, own)).then_some(asked);
        inner.chain(whole).collect::<Vec<_>>()
    };
    asked.split(',').flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_columns_are_asked_for() {
        let check = |query: &str, name: Name, expected: Option<&str>| {
            let request = Request::new("GET", &format!("/api/x?{query}"), Vec::new(), true).unwrap();
            let narrowed = narrowed(name, &request);
            let columns = narrowed.as_ref().map(|own| own.asked("columns").unwrap());
            assert_eq!(columns, expected, "{query}");
        };
        check("", Name::Queues, None);
        check("disable_stats=false", Name::Queues, None);
        check("disable_stats=true", Name::Connections, None);
        check("disable_stats=true", Name::NodeOf, Some("name,type,running,being_drained"));
        check("disable_stats=true&columns=name,messages,arguments.x", Name::Queues, Some("name,arguments.x"));
        check(
            "disable_stats=true&enable_queue_totals=true&columns=messages,messages_details,consumers",
            Name::QueueOf,
            Some("messages"),
        );
        check("disable_stats=true&columns=messages", Name::QueueOf, Some(""));
        let totals = "object_totals.connections,object_totals.exchanges,object_totals.queues";
        check("disable_stats=true&columns=object_totals,listeners", Name::Overview, Some(totals));
        check("disable_stats=true&columns=object_totals.channels", Name::Overview, Some(""));
    }
}
