//! The node as a whole.

use crate::call::Call;
use crate::caller::Caller;
use crate::history::{Growth, History, Span, Whose, put};
use crate::members::Member;
use crate::node::{About, Busy, Condition, Listener, Node};
use crate::response::{Answer, Response};
use crate::{cluster, figures, list, parameters, stats};
use base::brief;
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
    brief::sort_by_key(&mut kinds, |kind| kind.name());
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
        body["listeners"] = of_all(call.node, "listeners", listeners(about));
        body["contexts"] = of_all(call.node, "contexts", contexts(about, true));
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

fn listeners(about: &About) -> Vec<Value> {
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
    about.listeners.iter().map(row).collect()
}

fn contexts(about: &About, with_node: bool) -> Vec<Value> {
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

/// The rows of this node, and those that the other running nodes of its cluster tell under this name: by protocol, and then by
/// node.
fn of_all<N: Node>(node: &N, name: &str, own: Vec<Value>) -> Value {
    let members = node.members();
    let mut all = own;
    if members.is_empty() {
        return all.into();
    }
    let told = members.iter().filter(|member| member.is_running).filter_map(|member| member.news.as_ref());
    told.for_each(|news| all.extend(news[name].as_array().into_iter().flatten().cloned()));
    let key =
        |row: &Value| ["protocol", "node"].map(|field| row[field].as_str().unwrap_or_default().to_owned());
    all.sort_by_cached_key(key);
    all.into()
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
    let members = call.node.members();
    let rows: Result<Vec<Value>, Response> = match members.is_empty() {
        true => shown(call).map(|own| vec![own]),
        false => members.iter().map(|member| row_of(call, member)).collect(),
    };
    list::answer(rows?, call.request, &call.node.about().limits, &["name"])
}

/// `GET /api/nodes/NAME`.
pub(crate) fn node<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    let limits = &call.node.about().limits;
    if name == call.node.about().node {
        return list::one(shown(call)?, call.request, limits);
    }
    let members = call.node.members();
    let member = members.iter().find(|member| member.name == name).ok_or_else(Response::not_found)?;
    list::one(row_of(call, member)?, call.request, limits)
}

/// A node of the cluster: this one as it is, another one as it told, and one that cannot be reached as RabbitMQ has it.
fn row_of<N: Node>(call: &Call<'_, N>, member: &Member) -> Result<Value, Response> {
    let Member { name, is_running, news } = member;
    if *name == call.node.about().node {
        return shown(call);
    }
    let told = news.as_ref().filter(|_| *is_running).map(|news| &news["node"]);
    Ok(match told.filter(|row| row["name"] == name.as_str()) {
        Some(row) => row.clone(),
        None => json!({
            "name": name,
            "running": is_running,
            "type": "disc",
            "being_drained": false,
            "cluster_links": [],
        }),
    })
}

/// The words by which a node tells the others of its cluster how it is: its row, without how it was before, where it listens, and how
/// far its replicas of logs are.
///
/// # Errors
/// The node did not answer in time.
pub fn news<N: Node>(node: &N) -> Result<Value, Busy> {
    let condition = node.condition();
    let mut row = facts(node, &condition);
    put_counted(&mut row, node, &condition, node.survey()?.churn.named(), (&History::default(), None));
    let about = node.about();
    let mut news = json!({ "node": row, "listeners": listeners(about), "contexts": contexts(about, true) });
    news[cluster::REPLICAS] = cluster::told(node)?;
    Ok(news)
}

fn shown<N: Node>(call: &Call<'_, N>) -> Result<Value, Response> {
    let condition = call.node.condition();
    let mut row = facts(call.node, &condition);
    let churn = call.node.survey()?.churn.named();
    let span = stats::node_span(call.request);
    call.node.history(|history| put_counted(&mut row, call.node, &condition, churn, (history, span)));
    Ok(row)
}

/// Adds the counters and figures of a node, each with how it grows.
fn put_counted<N: Node, const COUNT: usize>(
    row: &mut Value,
    node: &N,
    condition: &Condition,
    churn: [(&'static str, u64); COUNT],
    (history, span): (&History, Option<Span>),
) {
    let now = figures::figures(&node.writing(), condition, 0);
    let Some(row) = row.as_object_mut() else { return };
    figures::put_machine(row, &now, history.of(Whose::Machine), span);
    put_churn(row, churn, history.of(Whose::Node), span);
}

/// The row of a node, without what is counted.
fn facts<N: Node>(node: &N, condition: &Condition) -> Value {
    let about = node.about();
    let Condition {
        uptime_ms,
        memory_limit,
        is_memory_alarm,
        disk_limit,
        is_disk_alarm,
        files: [_, files_max],
        threads: [_, threads_max],
        ..
    } = *condition;
    let offered = about.access.mechanisms;
    let mechanisms = [
        ("AMQPLAIN", "QPid AMQPLAIN mechanism", offered.amqplain),
        ("ANONYMOUS", "SASL ANONYMOUS authentication mechanism", offered.anonymous),
        ("EXTERNAL", "TLS peer verification-based authentication plugin", offered.external),
        ("PLAIN", "SASL PLAIN authentication mechanism", offered.plain),
    ];
    let mechanism = |(name, description, enabled): &(&str, &str, bool)| json!({ "name": name, "description": description, "enabled": enabled });
    json!({
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
        "contexts": contexts(about, false),
        "config_files": about.config_files,
        "log_files": ["<stdout>"],
        "db_dir": about.data_dir,
    })
}
