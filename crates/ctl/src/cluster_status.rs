//! `cluster_status`: the nodes of a cluster, those that run, and what each of these says of itself.

use crate::request::{Refusal, Request};
use crate::session::Session;
use serde_json::{Map, Value, json};

/// Purposes of listeners by protocol, in the words of RabbitMQ's tools, for protocols of which this node has no listener.
const PURPOSES: [(&str, &str); 6] = [
    ("amqp", "AMQP 0-9-1 and AMQP 1.0"),
    ("amqp/ssl", "AMQP 0-9-1 and AMQP 1.0 over TLS"),
    ("http", "HTTP API"),
    ("https", "HTTP API over TLS (HTTPS)"),
    ("http/prometheus", "Prometheus exporter API over HTTP"),
    ("clustering", "inter-node and CLI tool communication"),
];

/// A node of the cluster.
struct Member {
    name: String,
    /// Its row; none: it does not run.
    row: Option<Value>,
}

impl Member {
    fn text(&self, field: &str) -> &str {
        self.row.as_ref().and_then(|row| row[field].as_str()).unwrap_or_default()
    }

    fn cores(&self) -> u64 {
        self.row.as_ref().and_then(|row| row["processors"].as_u64()).unwrap_or_default()
    }

    fn maintenance(&self) -> &'static str {
        let is_drained = self.row.as_ref().is_some_and(|row| row["being_drained"] == true);
        if is_drained { "marked for maintenance" } else { "not under maintenance" }
    }

    /// The product that it is.
    fn product(&self) -> String {
        let applications = self.row.as_ref().and_then(|row| row["applications"].as_array());
        let own = applications.into_iter().flatten().find(|row| row["name"] == "leveret");
        let word = |name: &str| own.and_then(|row| row[name].as_str()).unwrap_or_default();
        format!("{} {}", word("description"), word("version"))
    }
}

/// The answer, before it has a form.
struct Found {
    cluster: String,
    tags: Value,
    members: Vec<Member>,
    alarms: Value,
    /// By node, in the order of their names.
    listeners: Vec<(String, Vec<Value>)>,
    flags: Value,
}

impl Found {
    fn ask(session: &Session<'_>) -> Result<Found, Refusal> {
        let status = session.ask(&Request::Status)?;
        let overview = session.get(&["overview"])?;
        let flags = session.get(&["feature-flags"])?;
        let own = status["node"].as_str().unwrap_or_default();
        let rows = session.get(&["nodes"])?;
        let member = |row: &Value| Member {
            name: row["name"].as_str().unwrap_or_default().to_owned(),
            row: (row["running"] == true).then(|| row.clone()),
        };
        let members: Vec<Member> = rows.as_array().into_iter().flatten().map(member).collect();
        let of_own = status["listeners"].as_array().cloned().unwrap_or_default();
        let of = |member: &Member| match member.name == own {
            true => of_own.clone(),
            false => listeners(&overview["listeners"], &member.name, &of_own),
        };
        let listeners = members.iter().filter(|it| it.row.is_some()).map(|it| (it.name.clone(), of(it)));
        Ok(Found {
            cluster: overview["cluster_name"].as_str().unwrap_or_default().to_owned(),
            tags: match &overview["cluster_tags"] {
                Value::Object(tags) if tags.is_empty() => json!([]),
                tags => tags.clone(),
            },
            listeners: listeners.collect(),
            members,
            alarms: status["alarms"].clone(),
            flags,
        })
    }

    fn running(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.row.is_some())
    }
}

/// The rows of another node's listeners, as those of `own` are.
fn listeners(all: &Value, node: &str, own: &[Value]) -> Vec<Value> {
    let rows = all.as_array().into_iter().flatten().filter(|row| row["node"] == node);
    rows.map(|row| {
        let protocol = row["protocol"].as_str().unwrap_or_default();
        let known = PURPOSES.iter().find(|(name, _)| *name == protocol).map(|(_, purpose)| *purpose);
        let alike = own.iter().find(|row| row["protocol"] == protocol);
        let purpose = alike.and_then(|row| row["purpose"].as_str()).or(known).unwrap_or(protocol);
        let interface = match row["ip_address"].as_str().unwrap_or_default() {
            "::" => "[::]",
            other => other,
        };
        json!({
            "node": node,
            "interface": interface,
            "port": row["port"],
            "protocol": protocol,
            "purpose": purpose,
        })
    })
    .collect()
}

/// The answer to the command.
///
/// # Errors
/// The node does not answer, or its application is stopped.
pub(crate) fn run(session: &Session<'_>) -> Result<String, Refusal> {
    let found = Found::ask(session)?;
    let node = session.node()?;
    let show = session.announce(format!("Cluster status of node {node} ..."));
    match session.is_for_programs() {
        true => Ok(format!("{}\n", for_programs(&found))),
        false => Ok(show.begin() + &for_people(&found)),
    }
}

fn for_programs(found: &Found) -> Value {
    let by_node = |value: &dyn Fn(&Member) -> Value| {
        let all: Map<String, Value> =
            base::brief::collect(found.running().map(|member| (member.name.clone(), value(member))));
        Value::Object(all)
    };
    let version = |member: &Member| {
        json!({
            "rabbitmq_name": "Leveret",
            "rabbitmq_version": member.text("rabbitmq_version"),
            "erlang_version": member.text("erlang_version"),
        })
    };
    let of = |member: &Member| {
        let own = found.listeners.iter().find(|(name, _)| *name == member.name);
        own.map_or_else(|| json!([]), |(_, rows)| rows.clone().into())
    };
    let names: Vec<&str> = found.members.iter().map(|member| &*member.name).collect();
    let running: Vec<&str> = found.running().map(|member| &*member.name).collect();
    json!({
        "cluster_name": found.cluster,
        "cluster_tags": found.tags,
        "disk_nodes": names,
        "running_nodes": running,
        "versions": by_node(&version),
        "cpu_cores": by_node(&|member| member.cores().into()),
        "maintenance_status": by_node(&|member| member.maintenance().into()),
        "alarms": found.alarms,
        "partitions": {},
        "listeners": by_node(&of),
        "feature_flags": found.flags,
    })
}

fn for_people(found: &Found) -> String {
    let lines =
        |each: &dyn Fn(&Member) -> String| found.running().map(each).collect::<Vec<String>>().join("\n");
    let cores: u64 = found.running().map(Member::cores).sum();
    let mut text = String::new();
    let mut section = |title: &str, body: String| text.push_str(&format!("{title}\n\n{body}\n\n"));
    section(
        "Basics",
        format!("Cluster name: {}\nTotal CPU cores available cluster-wide: {cores}", found.cluster),
    );
    section("Cluster Tags", "(none)".to_owned());
    let names: Vec<&str> = found.members.iter().map(|member| &*member.name).collect();
    section("Disk Nodes", names.join("\n"));
    section("Running Nodes", lines(&|member| member.name.clone()));
    let version = |member: &Member| {
        format!("{}: RabbitMQ {} ({})", member.name, member.text("rabbitmq_version"), member.product())
    };
    section("Versions", lines(&version));
    let cores = |member: &Member| format!("Node: {}, available CPU cores: {}", member.name, member.cores());
    section("CPU Cores", lines(&cores));
    let maintenance = |member: &Member| format!("Node: {}, status: {}", member.name, member.maintenance());
    section("Maintenance status", lines(&maintenance));
    let alarms: Vec<&str> = found.alarms.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    section("Alarms", if alarms.is_empty() { "(none)".to_owned() } else { alarms.join("\n") });
    section("Network Partitions", "(none)".to_owned());
    let of = |(node, rows): &(String, Vec<Value>)| {
        let line = |row: &Value| format!("Node: {node}, i{}", &crate::show::listener(row)[1..]);
        rows.iter().map(line).collect::<Vec<String>>()
    };
    let listeners: Vec<String> = found.listeners.iter().flat_map(of).collect();
    section("Listeners", listeners.join("\n"));
    let flag = |flag: &Value| {
        let word = |name: &str| flag[name].as_str().unwrap_or_default().to_owned();
        format!("Flag: {}, state: {}", word("name"), word("state"))
    };
    let flags: Vec<String> = found.flags.as_array().into_iter().flatten().map(flag).collect();
    section("Feature flags", flags.join("\n"));
    text.truncate(text.len() - 1);
    text
}
