//! Metrics for Prometheus, with RabbitMQ's names and labels: `/metrics`, `/metrics/per-object`, `/metrics/detailed` and
//! `/metrics/memory-breakdown`.
//!
//! The facts are gathered once, then written family by family. RabbitMQ's metrics of its runtime and its Raft, which
//! have no meaning here, are left out; those that dashboards read are there.

mod facts;
mod families;
mod figures;
mod global;
mod node;
mod opened;
mod queues;
mod raft;
mod replicas;
mod tenants;
mod text;

use crate::memory;
use crate::names::{Names, PATTERN_WORK_UNKNOWN};
use crate::node::Node;
use crate::request::{Method, Request};
use crate::response::{Answer, Response};
use facts::{Detail, Facts};
use families::Family;
use text::{Kind, Text};

/// As scrapers of the text format read it.
const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers a request for metrics, which anybody may have.
pub fn metrics<N: Node>(node: &N, request: &Request) -> Response {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let own = &node.about().metrics_path;
    let own: Vec<&str> =
        if own.is_empty() { vec!["metrics"] } else { own.iter().map(String::as_str).collect() };
    let answer = match (request.method, path.strip_prefix(&own[..])) {
        (_, None) => Err(Response::empty(404)),
        (Method::Get | Method::Head, Some(registry)) => write(node, request, registry),
        (Method::Options, _) => Ok(Response::empty(200).with("allow", "GET, HEAD".to_owned())),
        (_, Some(_)) => Err(Response::empty(405).with("allow", "GET, HEAD".to_owned())),
    };
    let mut response = answer.unwrap_or_else(|refused| refused);
    if request.method == Method::Head {
        response.body.clear();
        if response.status == 200 {
            response.status = 204;
        }
    }
    response.guarded()
}

fn write<N: Node>(node: &N, request: &Request, registry: &[&str]) -> Answer {
    let mut text = Text::default();
    text.prefix("rabbitmq_");
    match registry {
        [] if node.about().metrics_each => whole(node, &mut text, "per-object", Detail::Each)?,
        [] => whole(node, &mut text, "aggregated", Detail::Sums)?,
        ["per-object"] => whole(node, &mut text, "per-object", Detail::Each)?,
        ["detailed"] => detailed(node, request, &mut text)?,
        ["memory-breakdown"] => {
            identity(node, &mut text, "memory-breakdown");
            for (name, bytes) in memory::named(&node.memory()?) {
                if let Some(metric) = memory::metric(name) {
                    text.one(metric, Kind::Gauge, "Memory used, by what for.", bytes);
                }
            }
        }
        _ => return Err(Response::empty(404)),
    }
    let headers = vec![("content-type", CONTENT.to_owned())];
    Ok(Response { headers, body: text.finish().into_bytes(), ..Response::empty(200) })
}

/// The metrics that dashboards join all others with.
fn identity<N: Node>(node: &N, text: &mut Text, endpoint: &str) {
    let about = node.about();
    text.family("identity_info", Kind::Untyped, "RabbitMQ node & cluster identity info");
    text.sample(
        &[
            ("rabbitmq_node", &about.node),
            ("rabbitmq_cluster", &about.cluster),
            ("rabbitmq_cluster_permanent_id", &about.cluster_id),
            ("rabbitmq_endpoint", endpoint),
        ],
        1,
    );
    text.family("build_info", Kind::Untyped, "RabbitMQ & Erlang/OTP version info");
    text.sample(
        &[
            ("rabbitmq_version", &about.version),
            ("prometheus_plugin_version", &about.version),
            ("prometheus_client_version", &about.product_version),
            ("erlang_version", ""),
            ("product_name", &about.product),
            ("product_version", &about.product_version),
        ],
        1,
    );
}

fn whole<N: Node>(node: &N, text: &mut Text, endpoint: &str, detail: Detail) -> Result<(), Response> {
    identity(node, text, endpoint);
    let facts = Facts::gather(node, detail)?;
    if detail == Detail::Each {
        queues::info(&facts, text);
    }
    for family in Family::ALL.iter().filter(|family| family.is_usual()) {
        family.write(node, &facts, text)?;
    }
    Ok(())
}

/// Only families that are asked for, of virtual hosts and queues that are.
fn detailed<N: Node>(node: &N, request: &Request, text: &mut Text) -> Result<(), Response> {
    identity(node, text, "detailed");
    let wanted: Vec<&str> =
        request.query.iter().filter(|(name, _)| name == "family").map(|(_, value)| value.as_str()).collect();
    let families: Vec<Family> =
        Family::ALL.into_iter().filter(|family| wanted.contains(&family.name())).collect();
    if families.is_empty() {
        return Ok(());
    }
    let mut facts = Facts::gather(node, Detail::Each)?;
    let vhosts: Vec<&str> =
        request.query.iter().filter(|(name, _)| name == "vhost").map(|(_, value)| value.as_str()).collect();
    if !vhosts.is_empty() {
        let is_wanted = |vhost: &str| vhosts.contains(&vhost);
        facts.queues.retain(|(queue, _)| is_wanted(&queue.vhost_name));
        facts.opened.retain(|(_, opened)| is_wanted(&opened.vhost));
        facts.connections.retain(|row| is_wanted(&row.vhost));
        let ids: Vec<_> = node
            .look(|catalog| catalog.vhosts().map(|own| (own.id, own.name.to_string())).collect::<Vec<_>>())?;
        let is_id = |id| ids.iter().any(|(own, name)| *own == id && is_wanted(name));
        facts.survey.exchanges.retain(|_, tally| is_id(tally.vhost));
    }
    if let Some(pattern) = request.asked("queue") {
        let limits = &node.about().limits;
        let names = Names::new(pattern, true, PATTERN_WORK_UNKNOWN, limits);
        facts.queues = names.kept(facts.queues, |(queue, _)| Some((&*queue.name).into()))?;
    }
    facts.add_up();
    if families.iter().any(|family| family.is_of_queues()) {
        text.prefix("rabbitmq_detailed_");
        queues::info(&facts, text);
    }
    for family in families {
        text.prefix(if family.is_of_cluster() { "rabbitmq_cluster_" } else { "rabbitmq_detailed_" });
        family.write(node, &facts, text)?;
    }
    Ok(())
}
