//! Feature flags as RabbitMQ 4.3 names them, but for those of plugins that are not here: the one list of them.
//!
//! The behaviour that each stands for is always on here.

/// Whether RabbitMQ 4.3 starts without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Required {
    /// It does.
    None,
    /// It turns it on by itself.
    Soft,
    /// It does not.
    Hard,
}

impl Required {
    /// As it is shown.
    pub(crate) fn level(self) -> &'static str {
        match self {
            Required::None => "none",
            Required::Soft => "soft",
            Required::Hard => "hard",
        }
    }

    /// The stability that goes with it.
    pub(crate) fn stability(self) -> &'static str {
        if self == Required::None { "stable" } else { "required" }
    }
}

/// A feature flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// The plugin it is of.
    pub(crate) provided_by: &'static str,
    pub(crate) required: Required,
    /// In RabbitMQ's words.
    pub(crate) about: &'static str,
    /// Where more of it is told.
    pub(crate) page: &'static str,
}

const fn flag(
    name: &'static str,
    provided_by: &'static str,
    required: Required,
    about: &'static str,
    page: &'static str,
) -> Flag {
    Flag { name, provided_by, required, about, page }
}

/// By name.
pub(crate) const FLAGS: [Flag; 33] = [
    flag(
        "classic_mirrored_queue_version",
        "rabbit",
        Required::Hard,
        "Support setting version for classic mirrored queues",
        "",
    ),
    flag(
        "classic_queue_type_delivery_support",
        "rabbit",
        Required::Hard,
        "Bug fix for classic queue deliveries using mixed versions",
        "https://github.com/rabbitmq/rabbitmq-server/issues/5931",
    ),
    flag(
        "detailed_queues_endpoint",
        "rabbitmq_management",
        Required::Soft,
        "Add a detailed queues HTTP API endpoint. Reduce number of metrics in the default endpoint.",
        "",
    ),
    flag(
        "direct_exchange_routing_v2",
        "rabbit",
        Required::Hard,
        "v2 direct exchange routing implementation",
        "",
    ),
    flag(
        "drop_unroutable_metric",
        "rabbitmq_management_agent",
        Required::Hard,
        "Count unroutable publishes to be dropped in stats",
        "",
    ),
    flag(
        "empty_basic_get_metric",
        "rabbitmq_management_agent",
        Required::Hard,
        "Count AMQP `basic.get` on empty queues in stats",
        "",
    ),
    flag("feature_flags_v2", "rabbit", Required::Hard, "Feature flags subsystem V2", ""),
    flag(
        "implicit_default_bindings",
        "rabbit",
        Required::Hard,
        "Default bindings are now implicit, instead of being stored in the database",
        "",
    ),
    flag(
        "khepri_db",
        "rabbit",
        Required::Soft,
        "New Raft-based metadata store.",
        "https://www.rabbitmq.com/docs/next/metadata-store",
    ),
    flag(
        "listener_records_in_ets",
        "rabbit",
        Required::Hard,
        "Store listener records in ETS instead of Mnesia",
        "",
    ),
    flag("maintenance_mode_status", "rabbit", Required::Hard, "Maintenance mode status", ""),
    flag("message_containers", "rabbit", Required::Hard, "Message containers.", ""),
    flag(
        "message_containers_deaths_v2",
        "rabbit",
        Required::Soft,
        "Bug fix for dead letter cycle detection",
        "https://github.com/rabbitmq/rabbitmq-server/issues/11159",
    ),
    flag(
        "quorum_queue",
        "rabbit",
        Required::Hard,
        "Support queues of type `quorum`",
        "https://www.rabbitmq.com/docs/quorum-queues",
    ),
    flag(
        "quorum_queue_non_voters",
        "rabbit",
        Required::Soft,
        "Allows new quorum queue members to be added as non voters initially.",
        "",
    ),
    flag("rabbit_exchange_type_local_random", "rabbit", Required::Soft, "Local random exchange", ""),
    flag("rabbitmq_4.0.0", "rabbit", Required::Soft, "Allows rolling upgrades from 3.13.x to 4.0.x", ""),
    flag("rabbitmq_4.1.0", "rabbit", Required::Soft, "Allows rolling upgrades to 4.1.x", ""),
    flag("rabbitmq_4.2.0", "rabbit", Required::Soft, "Allows rolling upgrades to 4.2.x", ""),
    flag("rabbitmq_4.3.0", "rabbit", Required::None, "Allows rolling upgrades to 4.3.x", ""),
    flag(
        "restart_streams",
        "rabbit",
        Required::Hard,
        "Support for restarting streams with optional preferred next leader argument.Used to implement stream leader rebalancing",
        "",
    ),
    flag("stream_filtering", "rabbit", Required::Hard, "Support for stream filtering.", ""),
    flag(
        "stream_queue",
        "rabbit",
        Required::Hard,
        "Support queues of type `stream`",
        "https://www.rabbitmq.com/docs/stream",
    ),
    flag(
        "stream_sac_coordinator_unblock_group",
        "rabbit",
        Required::Hard,
        "Bug fix to unblock a group of consumers in a super stream partition",
        "https://github.com/rabbitmq/rabbitmq-server/issues/7743",
    ),
    flag(
        "stream_single_active_consumer",
        "rabbit",
        Required::Hard,
        "Single active consumer for streams",
        "https://www.rabbitmq.com/docs/stream",
    ),
    flag(
        "stream_update_config_command",
        "rabbit",
        Required::Hard,
        "A new internal command that is used to update streams as part of a policy.",
        "",
    ),
    flag(
        "tie_binding_to_dest_with_keep_while_cond",
        "rabbit",
        Required::None,
        "Use keep_while condition to tie a binding record lifetime to its destination record in Khepri",
        "",
    ),
    flag(
        "topic_binding_projection_v4",
        "rabbit",
        Required::None,
        "Enable the topic binding Khepri projection v4",
        "",
    ),
    flag(
        "topic_binding_projection_v5",
        "rabbit",
        Required::None,
        "Enable the topic binding Khepri projection v5",
        "",
    ),
    flag(
        "track_qq_members_uids",
        "rabbit",
        Required::None,
        "Track queue members UIDs in the metadata store",
        "",
    ),
    flag(
        "tracking_records_in_ets",
        "rabbit",
        Required::Hard,
        "Store tracking records in ETS instead of Mnesia",
        "",
    ),
    flag("user_limits", "rabbit", Required::Hard, "Configure connection and channel limits for a user", ""),
    flag(
        "virtual_host_metadata",
        "rabbit",
        Required::Hard,
        "Virtual host metadata (description, tags, etc)",
        "",
    ),
];

/// Whether there is one of this name.
pub(crate) fn is_flag(name: &str) -> bool {
    FLAGS.iter().any(|flag| flag.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_once_and_in_order() {
        assert!(FLAGS.is_sorted_by(|one, next| one.name < next.name));
        assert!(is_flag("khepri_db") && !is_flag("mqtt_v5"));
    }
}
