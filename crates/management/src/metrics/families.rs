//! The families of metrics, by the names that `/metrics/detailed` asks for them by.

use super::facts::Facts;
use super::text::{Kind, Text};
use super::{global, node, opened, queues, raft, replicas, tenants};
use crate::node::Node;
use crate::response::Response;
use Kind::Gauge;

/// A family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Churn,
    Node,
    NodeCoarse,
    Persister,
    Auth,
    AuthDetailed,
    Global,
    Totals,
    Alarms,
    QueueCoarse,
    QueueConsumers,
    Queue,
    QueueDelivery,
    QueueExchange,
    Exchange,
    Channel,
    ChannelProcess,
    ChannelExchange,
    ChannelQueue,
    ChannelQueueExchange,
    Connection,
    ConnectionCoarse,
    StreamConsumers,
    Raft,
    Flushes,
    Vhosts,
    ExchangeNames,
    ExchangeBindings,
    Users,
}
impl Family {
    pub(super) const ALL: [Family; 29] = [
        Family::Churn,
        Family::Node,
        Family::NodeCoarse,
        Family::Persister,
        Family::Auth,
        Family::AuthDetailed,
        Family::Global,
        Family::Totals,
        Family::Alarms,
        Family::QueueCoarse,
        Family::QueueConsumers,
        Family::Queue,
        Family::QueueDelivery,
        Family::QueueExchange,
        Family::Exchange,
        Family::Channel,
        Family::ChannelProcess,
        Family::ChannelExchange,
        Family::ChannelQueue,
        Family::ChannelQueueExchange,
        Family::Connection,
        Family::ConnectionCoarse,
        Family::StreamConsumers,
        Family::Raft,
        Family::Flushes,
        Family::Vhosts,
        Family::ExchangeNames,
        Family::ExchangeBindings,
        Family::Users,
    ];

    /// As `/metrics/detailed` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::Churn => "connection_churn_metrics",
            Family::Node => "node_metrics",
            Family::NodeCoarse => "node_coarse_metrics",
            Family::Persister => "node_persister_metrics",
            Family::Auth => "auth_attempt_metrics",
            Family::AuthDetailed => "auth_attempt_detailed_metrics",
            Family::Global => "global_metrics",
            Family::Totals => "totals",
            Family::Alarms => "alarm_metrics",
            Family::QueueCoarse => "queue_coarse_metrics",
            Family::QueueConsumers => "queue_consumer_count",
            Family::Queue => "queue_metrics",
            Family::QueueDelivery => "queue_delivery_metrics",
            Family::QueueExchange => "queue_exchange_metrics",
            Family::Exchange => "exchange_metrics",
            Family::Channel => "channel_metrics",
            Family::ChannelProcess => "channel_process_metrics",
            Family::ChannelExchange => "channel_exchange_metrics",
            Family::ChannelQueue => "channel_queue_metrics",
            Family::ChannelQueueExchange => "channel_queue_exchange_metrics",
            Family::Connection => "connection_metrics",
            Family::ConnectionCoarse => "connection_coarse_metrics",
            Family::StreamConsumers => "stream_consumer_metrics",
            Family::Raft => "ra_metrics",
            Family::Flushes => "leveret_metrics",
            Family::Vhosts => "vhost_status",
            Family::ExchangeNames => "exchange_names",
            Family::ExchangeBindings => "exchange_bindings",
            Family::Users => "leveret_user_metrics",
        }
    }

    /// It is told without being asked for.
    pub(super) fn is_usual(self) -> bool {
        !self.is_of_cluster() && self != Family::QueueConsumers
    }

    /// It tells of queues as they are: the type of each is told beside it.
    pub(super) fn is_of_queues(self) -> bool {
        matches!(self, Family::QueueCoarse | Family::QueueConsumers | Family::Queue)
    }

    /// Its metrics are not the node's alone.
    pub(super) fn is_of_cluster(self) -> bool {
        matches!(self, Family::Vhosts | Family::ExchangeNames | Family::ExchangeBindings)
    }

    pub(super) fn write<N: Node>(self, node: &N, facts: &Facts, text: &mut Text) -> Result<(), Response> {
        match self {
            Family::Churn => node::churn(facts, text),
            Family::Node => node::node(node, text),
            Family::NodeCoarse => node::coarse(node, text),
            Family::Persister => node::persister(facts, text),
            Family::Auth => node::auth(node, facts, text),
            Family::AuthDetailed => node::auth_detailed(text),
            Family::Global => global::global(facts, text),
            Family::Totals => global::totals(facts, text),
            Family::Alarms => node::alarms(node, text),
            Family::QueueCoarse => queues::coarse(facts, text),
            Family::QueueConsumers => queues::consumers(facts, text),
            Family::Queue => queues::queue(facts, text),
            Family::QueueDelivery => queues::delivery(facts, text),
            Family::QueueExchange => opened::queue_exchange(facts, text),
            Family::Exchange => opened::exchange(node, facts, text)?,
            Family::Channel => opened::channel(facts, text),
            Family::ChannelProcess => opened::channel_process(facts, text),
            Family::ChannelExchange => opened::channel_exchange(facts, text),
            Family::ChannelQueue => opened::channel_queue(facts, text),
            Family::ChannelQueueExchange => opened::channel_queue_exchange(facts, text),
            Family::Connection => opened::connection(facts, text),
            Family::ConnectionCoarse => opened::connection_coarse(facts, text),
            Family::StreamConsumers => opened::stream_consumers(facts, text),
            Family::Raft => raft::raft(facts, replicas::of_catalog(node)?.as_ref(), text),
            Family::Flushes => {
                replicas::replicas(node, text)?;
                node::flushes(facts, text);
                node::turns(facts, text);
                node::guesses(node, text);
                node::ledger(node, text);
                tenants::totals(node, text)?;
                global::latencies(facts, text);
            }
            Family::Users => tenants::users(node, facts, text)?,
            Family::Vhosts | Family::ExchangeNames | Family::ExchangeBindings => {
                self.write_cluster(node, text)?
            }
        }
        Ok(())
    }

    fn write_cluster<N: Node>(self, node: &N, text: &mut Text) -> Result<(), Response> {
        if self == Family::Vhosts {
            let vhosts: Vec<String> =
                node.look(|catalog| catalog.vhosts().map(|vhost| vhost.name.to_string()).collect())?;
            text.family("vhost_status", Gauge, "Whether a given vhost is running");
            vhosts.iter().for_each(|vhost| text.sample(&[("vhost", vhost)], 1));
            return Ok(());
        }
        let rows: Vec<([String; 3], usize)> = node.look(|catalog| {
            let mut rows = Vec::new();
            for vhost in catalog.vhosts() {
                for exchange in catalog.exchanges(vhost.id) {
                    let entry = catalog.exchange_by_id(exchange.id);
                    let count = entry.map_or(0, |entry| entry.exchange.bindings_count());
                    let (vhost, name) = (vhost.name.to_string(), exchange.name.to_string());
                    rows.push(([vhost, name, exchange.kind.name().to_owned()], count));
                }
            }
            rows
        })?;
        let is_names = self == Family::ExchangeNames;
        match is_names {
            true => text.family("exchange_name", Gauge, "Enumerates exchanges without any additional info"),
            false => text.family("exchange_bindings", Gauge, "Number of bindings for an exchange"),
        }
        for ([vhost, name, kind], count) in rows.iter().filter(|([_, name, _], _)| !name.is_empty()) {
            let value = if is_names { 1 } else { *count };
            text.sample(&[("vhost", vhost), ("exchange", name), ("type", kind)], value);
        }
        Ok(())
    }
}
