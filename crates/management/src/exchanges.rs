//! Exchanges.

use crate::body::Body;
use crate::call::Call;
use crate::history::{Whose, put};
use crate::list::Listed;
use crate::node::{Action, Node};
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::{json, list, policies, stats};
use broker::Survey;
use broker::catalog::{ExchangeDefinition, VhostId};
use filter::Counts;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// How exchanges are called that are there without anybody's doing.
const OWN_PREFIX: &str = "amq.";

/// The user of exchanges that are there from the start, in RabbitMQ's words.
const OWN_NAME: &str = "rmq-internal";

/// The name of the default exchange in paths.
const DEFAULT: &str = "amq.default";

/// The name that a path means.
pub(crate) fn named(name: &str) -> &str {
    if name == DEFAULT { "" } else { name }
}

/// An exchange, with its virtual host's name and the policy it obeys.
pub(crate) type Found = (String, Arc<ExchangeDefinition>, Option<Box<str>>);

impl Listed for Found {
    fn column(&self, column: &str) -> Option<Cow<'_, str>> {
        let (vhost, exchange, _) = self;
        match column {
            "vhost" => Some(vhost.as_str().into()),
            "name" => Some((&*exchange.name).into()),
            _ => None,
        }
    }
}

pub(crate) fn find<N: Node>(node: &N, vhosts: Vec<(String, VhostId)>) -> Result<Vec<Found>, Response> {
    Ok(node.look(move |catalog| {
        let each = vhosts.into_iter().flat_map(|(name, id)| {
            catalog.exchanges(id).into_iter().map(move |exchange| {
                let policy = catalog.exchange_policies(exchange).user.map(|policy| policy.name.clone());
                (name.clone(), exchange.clone(), policy)
            })
        });
        each.collect()
    })?)
}

/// One exchange of a virtual host that the caller sees: no other is looked at.
fn find_one<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Result<Option<Found>, Response> {
    let Some((vhost, id)) = policies::asked(call, Some(vhost)).pop() else { return Ok(None) };
    let name = name.to_owned();
    Ok(call.node.look(move |catalog| {
        let exchange = &catalog.exchange(id, name.as_bytes())?.definition;
        let policy = catalog.exchange_policies(exchange).user.map(|policy| policy.name.clone());
        Some((vhost, exchange.clone(), policy))
    })?)
}

fn shown((vhost, exchange, policy): &Found) -> Value {
    let mut row = json!({
        "name": *exchange.name,
        "vhost": vhost,
        "type": exchange.kind.name(),
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json::object(&exchange.arguments),
    });
    // Those that are there without anybody's doing are the node's.
    let is_own = exchange.name.is_empty() || exchange.name.starts_with(OWN_PREFIX);
    if let Some(user) = exchange.declared_by.as_deref().or(is_own.then_some(OWN_NAME)) {
        row["user_who_performed_action"] = user.into();
    }
    if let Some(policy) = policy {
        row["policy"] = Value::from(&**policy);
    }
    row
}

/// The same with its counters.
fn counted<N: Node>(call: &Call<'_, N>, found: &Found, survey: &Survey) -> Value {
    let mut row = shown(found);
    let id = found.1.id;
    if let Some(tally) = survey.exchanges.get(&id) {
        let span = stats::rates_span(call.request);
        row["message_stats"] = call.node.history(|history| {
            let growth = history.of(Whose::Exchange(id));
            let mut stats = Map::new();
            put(&mut stats, "publish_in", tally.publish_in, growth.details(0, span));
            put(&mut stats, "publish_out", tally.publish_out, growth.details(1, span));
            if !tally.filtered.is_empty() {
                let Counts { messages, evaluations, unreadable } = tally.filtered;
                stats.insert("filter_messages".into(), messages.into());
                stats.insert("filter_evaluations".into(), evaluations.into());
                stats.insert("filter_unreadable".into(), unreadable.into());
            }
            stats.into()
        });
    }
    row
}

/// `GET /api/exchanges[/VHOST]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, vhost: Option<&str>) -> Answer {
    let survey = match list::wants(call.request, &["message_stats"]) {
        true => call.node.survey()?,
        false => Survey::default(),
    };
    let found = find(call.node, policies::asked(call, vhost))?;
    let show = |found: &[Found]| Ok(found.iter().map(|found| counted(call, found, &survey)).collect());
    list::of(found, call.request, &call.node.about().limits, &["vhost", "name"], show)
}

/// `/api/exchanges/VHOST/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let name = named(name);
    let own = find_one(call, vhost, name)?;
    let act = |action| call.act(vhost, action);
    match (call.request.method, own) {
        (Method::Put, own) => {
            let body = Body::read(&call.request.body)?;
            act(declaration(name, &body)?)?;
            Ok(Response::empty(if own.is_some() { 204 } else { 201 }))
        }
        (_, None) => Err(Response::not_found()),
        (Method::Delete, Some(_)) => {
            let if_unused = call.request.says("if-unused");
            act(Action::DeleteExchange { name: name.to_owned(), if_unused })?;
            Ok(Response::empty(204))
        }
        (_, Some(own)) => {
            let mut row = counted(call, &own, &call.node.survey()?);
            row["incoming"] = json!([]);
            row["outgoing"] = json!([]);
            list::one(row, call.request, &call.node.about().limits)
        }
    }
}

/// An exchange as an object says.
pub(crate) fn declaration(name: &str, body: &Body) -> Result<Action, Response> {
    Ok(Action::DeclareExchange {
        name: name.to_owned(),
        kind: body.text("type")?.unwrap_or("direct").to_owned(),
        durable: body.boolean("durable", false)?,
        auto_delete: body.boolean("auto_delete", false)?,
        internal: body.boolean("internal", false)?,
        arguments: json::table(&body.object("arguments")?),
    })
}
