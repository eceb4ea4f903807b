//! What shards tell of themselves, in the words of RabbitMQ's tools.

use broker::catalog::{
    Catalog, ExchangeDefinition, PolicyDefinition, PolicyKind, QueueDefinition, TopicPermissionDefinition,
    UserDefinition, UserLimits, VhostDefinition, VhostLimits,
};
use broker::{Shard, process_id};
use routing::{Arguments, Float, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Connections here; queues and virtual hosts of the whole node, which every shard knows.
pub fn totals(shard: &Shard, connections: usize) -> ctl::Totals {
    ctl::Totals {
        connection_count: connections as u64,
        queue_count: shard.catalog().queue_count() as u64,
        virtual_host_count: shard.catalog().vhosts().count() as u64,
    }
}

/// A queue as tools list it: the columns that are asked for. `told` says what policies say of it: the names of both, and
/// what counts; nothing where nobody asks.
pub fn queue(
    row: &broker::QueueRow,
    policies: Option<&QueuePolicies>,
    columns: &[String],
    node: &str,
) -> Json {
    let definition = &row.definition;
    let cell = |column: &String| -> Option<Json> {
        Some(match column.as_str() {
            "name" => Json::from(&*definition.name),
            "vhost" => Json::from(&*definition.vhost_name),
            "type" => Json::from(definition.queue_type.name()),
            "durable" => Json::from(definition.durable),
            "auto_delete" => Json::from(definition.auto_delete),
            // Of others, which are nobody's own, RabbitMQ says nothing.
            "exclusive" if definition.queue_type.name() != "classic" => Json::from(""),
            "exclusive" => Json::from(definition.exclusive.is_some()),
            "arguments" => Json::Object(arguments(definition)),
            "policy" => Json::from(policies.map(|policies| policies.policy.as_str()).unwrap_or_default()),
            "operator_policy" => {
                Json::from(policies.map(|policies| policies.operator_policy.as_str()).unwrap_or_default())
            }
            "effective_policy_definition" => {
                Json::Object(policies.map(|policies| policies.definition.clone()).unwrap_or_default())
            }
            "state" => Json::from("running"),
            "node" | "leader" => Json::from(node),
            "members" => Json::from(vec![node]),
            // Of classic queues, which have no members elsewhere, RabbitMQ says nothing.
            "online" if definition.queue_type.name() == "classic" => Json::from(""),
            "online" => Json::from(vec![node]),
            "pid" => Json::from(format!("<0.{}.{}>", definition.log, definition.id)),
            "owner_pid" => Json::from(
                definition.exclusive.map(|port| process_id(port.shard.0, port.slot)).unwrap_or_default(),
            ),
            "messages" => Json::from(row.ready + row.unsettled),
            "messages_ready" => Json::from(row.ready),
            "messages_unacknowledged" => Json::from(row.unsettled),
            "messages_delayed" => Json::from(row.delayed),
            "consumers" => Json::from(row.consumers),
            "memory" => Json::from(row.memory_bytes as u64),
            _ => return None,
        })
    };
    Json::Object(columns.iter().filter_map(|column| Some((column.clone(), cell(column)?))).collect())
}

/// What a queue was declared with, its type among it also where none was named, as the HTTP API has it.
fn arguments(queue: &QueueDefinition) -> serde_json::Map<String, Json> {
    let mut arguments: serde_json::Map<String, Json> = object(&queue.arguments).collect();
    if queue.exclusive.is_none() {
        arguments.entry("x-queue-type").or_insert_with(|| queue.queue_type.name().into());
    }
    arguments
}

/// What lists show of the policies of a queue.
#[derive(Debug, Default)]
pub struct QueuePolicies {
    policy: String,
    operator_policy: String,
    definition: serde_json::Map<String, Json>,
}

/// What the policies of `catalog` say of a queue.
pub fn policies_of(catalog: &Catalog, queue: &QueueDefinition) -> QueuePolicies {
    let policies = catalog.queue_policies(queue);
    QueuePolicies {
        policy: policy_name(policies.user),
        operator_policy: policy_name(policies.operator),
        definition: object(&policies.definition()).collect(),
    }
}

fn policy_name(policy: Option<&Arc<PolicyDefinition>>) -> String {
    policy.map(|policy| policy.name.to_string()).unwrap_or_default()
}

/// The exchanges of a virtual host.
pub fn exchanges(catalog: &Catalog, vhost: &str) -> Vec<ctl::ExchangeRow> {
    let row = |exchange: &Arc<ExchangeDefinition>| ctl::ExchangeRow {
        name: exchange.name.to_string(),
        kind: exchange.kind.name().to_owned(),
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        arguments: object(&exchange.arguments).collect(),
        policy: policy_name(catalog.exchange_policies(exchange).user),
    };
    catalog.vhost(vhost).into_iter().flat_map(|vhost| catalog.exchanges(vhost)).map(row).collect()
}

/// The policies of a kind in a virtual host; those that count less come first.
pub fn policies(catalog: &Catalog, vhost: &str, kind: PolicyKind) -> Vec<ctl::PolicyRow> {
    let of_vhost = catalog.vhost(vhost).into_iter().flat_map(|vhost| catalog.policies(vhost, kind));
    of_vhost.map(|policy| policy_row(vhost, policy)).collect()
}

fn policy_row(vhost: &str, policy: &PolicyDefinition) -> ctl::PolicyRow {
    ctl::PolicyRow {
        vhost: vhost.to_owned(),
        name: policy.name.to_string(),
        pattern: policy.pattern.source().to_owned(),
        apply_to: policy.apply_to.name().to_owned(),
        definition: Json::Object(object(&policy.definition).collect()).to_string(),
        priority: policy.priority,
    }
}

/// The users' policies whose patterns match a queue or an exchange, those that count most first. None: there is nothing of that
/// name.
pub fn matching_policies(
    catalog: &Catalog,
    vhost: &str,
    name: &str,
    is_exchange: bool,
) -> Option<Vec<ctl::PolicyRow>> {
    let id = catalog.vhost(vhost)?;
    let all = catalog.policies(id, PolicyKind::User).rev();
    let rows = |is_meant: &dyn Fn(&PolicyDefinition) -> bool| {
        all.filter(|policy| is_meant(policy)).map(|policy| policy_row(vhost, policy)).collect()
    };
    match is_exchange {
        true => {
            let exchange = &catalog.exchange(id, name.as_bytes())?.definition;
            Some(rows(&|policy| policy.is_for_exchange(exchange)))
        }
        false => {
            let queue = catalog.queue_by_name(id, name.as_bytes())?;
            Some(rows(&|policy| policy.is_for_queue(queue)))
        }
    }
}

/// Users, virtual hosts and permissions.
pub fn access(catalog: &Catalog) -> (Vec<ctl::UserRow>, Vec<ctl::VhostRow>, Vec<ctl::PermissionRow>) {
    let tags = |user: &UserDefinition| user.tags.iter().map(|tag| tag.to_string()).collect();
    let users = catalog.users().map(|user| ctl::UserRow { user: user.name.to_string(), tags: tags(user) });
    let vhosts = catalog.vhosts().map(|vhost| vhost_row(vhost, catalog.is_traced(vhost.id)));
    let pairs = catalog.vhosts().flat_map(|vhost| catalog.users().map(move |user| (vhost, user)));
    let permissions = pairs.filter_map(|(vhost, user)| {
        let permissions = catalog.permissions(vhost.id, &user.name)?;
        Some(ctl::PermissionRow {
            user: user.name.to_string(),
            vhost: vhost.name.to_string(),
            configure: permissions.configure.source().to_owned(),
            write: permissions.write.source().to_owned(),
            read: permissions.read.source().to_owned(),
        })
    });
    (users.collect(), vhosts.collect(), permissions.collect())
}

fn vhost_row(vhost: &VhostDefinition, tracing: bool) -> ctl::VhostRow {
    let about = vhost.about();
    let tags: Vec<String> = about.tags.iter().map(|tag| tag.to_string()).collect();
    let default_queue_type = vhost.default_queue_type.name().to_owned();
    let mut metadata: BTreeMap<String, Json> = [
        ("description".to_owned(), about.description.to_string().into()),
        ("tags".to_owned(), tags.clone().into()),
        ("default_queue_type".to_owned(), default_queue_type.clone().into()),
    ]
    .into();
    if about.is_protected {
        metadata.insert("protected_from_deletion".to_owned(), true.into());
    }
    ctl::VhostRow {
        name: vhost.name.to_string(),
        description: about.description.into(),
        tags,
        default_queue_type,
        protected_from_deletion: about.is_protected,
        tracing,
        metadata,
    }
}

/// What users may do with topics.
pub fn topic_permissions(catalog: &Catalog) -> Vec<ctl::TopicPermissionRow> {
    let all =
        catalog.vhosts().flat_map(|vhost| catalog.topic_permissions(vhost.id).map(move |own| (vhost, own)));
    let row =
        |(vhost, own): (&Arc<VhostDefinition>, &Arc<TopicPermissionDefinition>)| ctl::TopicPermissionRow {
            user: own.user.to_string(),
            vhost: vhost.name.to_string(),
            exchange: own.exchange.to_string(),
            write: own.write.to_string(),
            read: own.read.to_string(),
        };
    all.map(row).collect()
}

/// Things with the names of whom they belong to.
type Named<T> = Vec<(String, T)>;

/// Limits by name, of those who have any: users', virtual hosts'.
pub fn limits(catalog: &Catalog) -> (Named<UserLimits>, Named<VhostLimits>) {
    let users = catalog.users().map(|user| (user.name.to_string(), catalog.user_limits(&user.name)));
    let vhosts = catalog.vhosts().map(|vhost| (vhost.name.to_string(), catalog.vhost_limits(vhost.id)));
    (
        users.filter(|(_, limits)| *limits != UserLimits::default()).collect(),
        vhosts.filter(|(_, limits)| *limits != VhostLimits::default()).collect(),
    )
}

fn object(arguments: &Arguments) -> impl Iterator<Item = (String, Json)> {
    arguments.iter().map(|(name, value)| (name_of(name), argument(value)))
}

/// What JSON says, as an argument: the other way round than when it is shown.
pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Void,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::long(number),
            (None, Some(number)) => Value::Unsigned(number),
            (None, None) => Value::Float(Float(number.as_f64().unwrap_or(f64::NAN))),
        },
        Json::String(text) => Value::text(text),
        Json::Array(values) => Value::List(values.iter().map(value).collect()),
        Json::Object(fields) => {
            Value::Table(fields.iter().map(|(name, field)| (name.as_bytes(), value(field))).collect())
        }
    }
}

/// A declared argument as JSON has it.
fn argument(value: &Value) -> Json {
    let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes).into_owned());
    match value {
        Value::Void => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(_, value) => Json::from(*value),
        Value::Unsigned(value) | Value::Timestamp(value) => Json::from(*value),
        Value::Float(value) => Json::from(value.0),
        Value::Decimal { scale, value } => Json::from(f64::from(*value) / 10f64.powi(i32::from(*scale))),
        Value::Text(bytes) | Value::Bytes(bytes) => text(bytes),
        Value::List(values) => values.iter().map(argument).collect(),
        Value::Table(values) => Json::Object(object(values).collect()),
    }
}

fn name_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
