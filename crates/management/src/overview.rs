//! The node as a whole.

use crate::call::Call;
use crate::caller::Caller;
use crate::history::{Growth, Span, Whose, put};
use crate::node::{About, Condition, Listener, Node};
use crate::response::{Answer, Response};
use crate::{figures, list, parameters, stats};
use base::rabbitmq::PLUGINS;
use broker::{QueueSums, Survey, Tally};
use routing::Kind;
use serde_json::{Map, Value, json};

/// The library that encrypts.
const CRYPTO: &str = "ring";

/// Kept for tools that print it.
const NO_ERLANG: &str = "";

fn exchange_types() -> Value {
    let mut kinds = Kind::ALL;
    kinds.sort_unstable_by_key(|kind| kind.name());
    let row = |kind: &Kind| {
        let mut row = json!({ "name": kind.name(), "description": kind.description(), "enabled": true });
        if *kind == Kind::FederationUpstream {
            row["internal_purpose"] = "federation".into();
        }
        row
    };
    kinds.iter().map(row).collect()
}

/// The counters of all messages.
pub(crate) fn whole(survey: &Survey) -> Tally {
    let mut tally = Tally::default();
    survey.vhosts.values().for_each(|own| tally.merge(own));
    tally
}

/// The counters of the messages that this user may know of.
pub(crate) fn told_to(caller: &Caller, survey: &Survey) -> Tally {
    if caller.is_monitor() {
        return whole(survey);
    }
    let mut tally = Tally::default();
    caller.visible().filter_map(|(_, id)| survey.vhosts.get(&id)).for_each(|own| tally.merge(own));
    tally
}

/// `GET /api/overview`.
pub(crate) fn overview<N: Node>(call: &Call<'_, N>) -> Answer {
    let about = call.node.about();
    let visible: Vec<_> = call.caller.visible().map(|(_, id)| id).collect();
    let exchanges: usize =
        call.node.look(move |catalog| visible.into_iter().map(|id| catalog.exchanges(id).len()).sum())?;
    let mut sum = QueueSums::default();
    let sums = call.node.queue_sums()?;
    for own in call.caller.visible().filter_map(|(_, id)| sums.get(&id)) {
        sum.queues += own.queues;
        sum.ready += own.ready;
        sum.unsettled += own.unsettled;
        sum.consumers += own.consumers;
        sum.written += own.written;
    }
    let [connections, channels] = connections(call)?;
    let mut body = json!({
        "management_version": about.version,
        "rabbitmq_version": about.version,
        "product_name": "RabbitMQ",
        "product_version": about.version,
        "platform": about.product,
        "platform_version": about.product_version,
        "erlang_version": NO_ERLANG,
        "erlang_full_version": NO_ERLANG,
        "crypto_lib_version": CRYPTO,
        "cluster_name": parameters::cluster(call.node)?,
        "cluster_tags": parameters::cluster_tags(call.node)?,
        "node": about.node,
        "node_tags": {},
        "rates_mode": "basic",
        "disable_stats": call.request.says("disable_stats"),
        "enable_queue_totals": call.request.says("enable_queue_totals"),
        "default_queue_type": "classic",
        "is_op_policy_updating_enabled": true,
        "require_definition_json_extension": false,
        "sample_retention_policies": { "global": [600, 3600, 28800, 86400], "basic": [60, 3600], "detailed": [60] },
        "exchange_types": exchange_types(),
        "message_stats": {},
        "queue_totals": {},
        "churn_rates": {},
        "object_totals": {
            "channels": channels,
            "connections": connections,
            "consumers": sum.consumers,
            "exchanges": exchanges,
            "queues": sum.queues,
        },
        "statistics_db_event_queue": 0,
    });
    let survey = call.node.survey()?;
    let tally = told_to(&call.caller, &survey);
    let [rates, lengths] = [stats::rates_span(call.request), stats::lengths_span(call.request)];
    call.node.history(|history| {
        let growth = history.of(Whose::Node);
        let mut churn = Map::new();
        let named = survey.churn.named();
        put_churn(&mut churn, named, growth, rates);
        body["churn_rates"] = churn.into();
        let first = stats::MESSAGES + named.len();
        stats::put_lengths(&mut body["queue_totals"], [sum.ready, sum.unsettled], (growth, first), lengths);
        let Some(mut stats) = stats::messages(&tally, growth, stats::ALL, rates) else { return };
        if call.caller.is_monitor() {
            let disk = [call.node.writing().reads, sum.written];
            figures::put_disk(&mut stats, disk, history.of(Whose::Machine), rates);
        }
        body["message_stats"] = stats.into();
    });
    if call.caller.is_monitor() {
        let row = |listener: &Listener| {
            json!({
                "node": about.node,
                "protocol": listener.protocol,
                "ip_address": listener.address,
                "port": listener.port,
                "tls": listener.is_secure(),
                "socket_opts": { "backlog": listener.backlog, "nodelay": true },
            })
        };
        body["listeners"] = about.listeners.iter().map(row).collect();
        body["contexts"] = contexts(call, true);
    }
    list::one(body, call.request, &call.node.about().limits)
}

/// How many connections the caller may know of, and how many channels and sessions they have.
fn connections<N: Node>(call: &Call<'_, N>) -> Result<[u64; 2], Response> {
    if call.caller.is_monitor() {
        let sums = call.node.open_sums()?.connections;
        return Ok([sums.connections, sums.channels]);
    }
    let mut own = call.node.connections()?;
    own.retain(|row| !row.user.is_empty() && call.caller.sees_connection(&row.user, &row.vhost));
    Ok([own.len() as u64, own.iter().map(|row| row.channels).sum()])
}

/// The programs that run, as tools print them: with the version clients are told, and the product's own.
fn applications(about: &About) -> Value {
    let own =
        [("leveret", &*about.product, &*about.product_version), ("rabbit", "RabbitMQ", &*about.version)];
    let plugins = PLUGINS.iter().map(|plugin| (plugin.name, plugin.about, &*about.version));
    let row = |(name, about, version)| json!({ "name": name, "description": about, "version": version });
    own.into_iter().chain(plugins).map(row).collect()
}

fn contexts<N: Node>(call: &Call<'_, N>, with_node: bool) -> Value {
    let about = call.node.about();
    let row = |listener: &Listener| {
        let mut row = json!({
            "description": "RabbitMQ Management",
            "path": "/",
            "ip": listener.address,
            "port": listener.port.to_string(),
            "protocol": "http",
            "cowboy_opts": "[]",
        });
        if with_node {
            row["node"] = about.node.as_str().into();
            row["ssl_opts"] = json!([]);
        }
        row
    };
    about.listeners.iter().filter(|listener| listener.protocol == "http").map(row).collect()
}

/// Adds the churn of objects, each counter with how it grows.
fn put_churn<const COUNT: usize>(
    into: &mut Map<String, Value>,
    named: [(&'static str, u64); COUNT],
    growth: Growth<'_>,
    span: Option<Span>,
) {
    for (at, (name, count)) in named.into_iter().enumerate() {
        put(into, name, count, growth.details(stats::MESSAGES + at, span));
    }
}

/// `GET /api/version`.
pub(crate) fn version<N: Node>(call: &Call<'_, N>) -> Answer {
    Ok(Response::ok(&call.node.about().version.as_str().into()))
}

/// `GET /api/nodes`.
pub(crate) fn nodes<N: Node>(call: &Call<'_, N>) -> Answer {
    list::answer(vec![shown(call)?], call.request, &call.node.about().limits, &["name"])
}

/// `GET /api/nodes/NAME`.
pub(crate) fn node<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    if name != call.node.about().node {
        return Err(Response::not_found());
    }
    list::one(shown(call)?, call.request, &call.node.about().limits)
}

fn shown<N: Node>(call: &Call<'_, N>) -> Result<Value, Response> {
    let about = call.node.about();
    let condition = call.node.condition();
    let Condition {
        uptime_ms,
        memory_limit,
        is_memory_alarm,
        disk_limit,
        is_disk_alarm,
        files: [_, files_max],
        threads: [_, threads_max],
        ..
    } = condition;
    let offered = about.access.mechanisms;
    let mechanisms = [
        ("AMQPLAIN", "QPid AMQPLAIN mechanism", offered.amqplain),
        ("ANONYMOUS", "SASL ANONYMOUS authentication mechanism", offered.anonymous),
        ("EXTERNAL", "TLS peer verification-based authentication plugin", offered.external),
        ("PLAIN", "SASL PLAIN authentication mechanism", offered.plain),
    ];
    let mechanism = |(name, description, enabled): &(&str, &str, bool)| json!({ "name": name, "description": description, "enabled": enabled });
    let mut item = json!({
        "name": about.node,
        "type": "disc",
        "running": true,
        "being_drained": false,
        "os_pid": about.pid.to_string(),
        "uptime": uptime_ms,
        "processors": about.processors,
        "run_queue": 0,
        "rates_mode": "basic",
        "net_ticktime": 60,
        "rabbitmq_version": about.version,
        "erlang_version": NO_ERLANG,
        "erlang_full_version": NO_ERLANG,
        "crypto_lib_version": CRYPTO,
        // A limit that is none is shown as the highest there is: clients read 32 bits.
        "fd_total": files_max.min(u64::from(u32::MAX)),
        "sockets_total": 0,
        "proc_total": threads_max.min(u64::from(u32::MAX)),
        "mem_limit": memory_limit,
        "mem_alarm": is_memory_alarm,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": disk_limit,
        "disk_free_alarm": is_disk_alarm,
        "partitions": [],
        "cluster_links": [],
        "enabled_plugins": PLUGINS.map(|plugin| plugin.name),
        "applications": applications(about),
        "exchange_types": exchange_types(),
        "auth_mechanisms": mechanisms.iter().map(mechanism).collect::<Vec<_>>(),
        "contexts": contexts(call, false),
        "config_files": about.config_files,
        "log_files": ["<stdout>"],
        "db_dir": about.data_dir,
    });
    let churn = call.node.survey()?.churn.named();
    let now = figures::figures(&call.node.writing(), &condition, 0);
    let span = stats::node_span(call.request);
    call.node.history(|history| {
        let Some(item) = item.as_object_mut() else { return };
        figures::put_machine(item, &now, history.of(Whose::Machine), span);
        put_churn(item, churn, history.of(Whose::Node), span);
    });
    Ok(item)
}
