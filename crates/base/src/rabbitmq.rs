//! The RabbitMQ that this broker stands in for: its version, and those of its plugins whose features are part of this broker, always.
//!
//! The one source of these for clients, tools and pages.

/// The version clients are told: they switch features on it.
pub const VERSION: &str = "4.3.6";

/// A plugin of RabbitMQ's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// As it is enabled there.
    pub name: &'static str,
    /// Its description, in RabbitMQ's words where it has it.
    pub about: &'static str,
}

const fn plugin(name: &'static str, about: &'static str) -> Plugin {
    Plugin { name, about }
}

/// By name.
pub const PLUGINS: [Plugin; 13] = [
    plugin("rabbitmq_amqp1_0", "Deprecated no-op AMQP 1.0 plugin"),
    plugin("rabbitmq_auth_mechanism_ssl", "RabbitMQ SSL authentication (SASL EXTERNAL)"),
    plugin("rabbitmq_consistent_hash_exchange", "Consistent Hash Exchange Type"),
    plugin("rabbitmq_delayed_message_exchange", "Delayed Message Exchange Type"),
    plugin("rabbitmq_event_exchange", "Event Exchange Type"),
    plugin("rabbitmq_management", "RabbitMQ Management Console"),
    plugin("rabbitmq_management_agent", "RabbitMQ Management Agent"),
    plugin("rabbitmq_prometheus", "Prometheus metrics for RabbitMQ"),
    plugin("rabbitmq_random_exchange", "RabbitMQ Random Exchange"),
    plugin("rabbitmq_recent_history_exchange", "RabbitMQ Recent History Exchange"),
    plugin("rabbitmq_stream", "RabbitMQ Stream"),
    plugin("rabbitmq_stream_management", "RabbitMQ Stream Management"),
    plugin("rabbitmq_web_amqp", "AMQP over WebSocket"),
];

/// Whether this is one of them.
pub fn is_plugin(name: &str) -> bool {
    PLUGINS.iter().any(|plugin| plugin.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_once_and_in_order() {
        assert!(PLUGINS.is_sorted_by(|one, next| one.name < next.name));
        assert!(is_plugin("rabbitmq_stream") && !is_plugin("rabbitmq_mqtt"));
    }
}
