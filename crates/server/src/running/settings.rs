//! A configuration as the crates beneath the server take it.

use crate::config::Config;
use adapters::Settings;
use broker::Limits;
use broker::access::{AccessRules, Anonymous, FREE_SECONDS, GuessLimits, Mechanisms, Rate};
use broker::ledger::{Ledger, LedgerLimits};
use message::stamps::Stamps;
use node::start::{Logs, Makeup};
use std::sync::Arc;

/// Local logs of a new data folder: twice the cores, at least this many.
const LOGS_MIN: u32 = 8;

pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// The makeup of a node with this configuration.
pub(super) fn makeup(config: &Config) -> Makeup {
    Makeup {
        name: config.node_name.as_str().into(),
        shards: config.shards.map_or_else(cores, u32::from),
        logs: Logs { new: config.logs.unwrap_or_else(|| LOGS_MIN.max(2 * cores())), least: config.logs },
        journal: journal_limits(config),
        rules: access_rules(config),
        relaxes_types: config.relaxes_types,
        ledger: Arc::new(Ledger::new(ledger_limits(config))),
    }
}

/// The operator's rules beside users and permissions.
pub(super) fn access_rules(config: &Config) -> Arc<AccessRules> {
    let has = |mechanism| config.mechanisms.contains(&mechanism);
    let anonymous = config.anonymous_user.as_deref();
    Arc::new(AccessRules {
        loopback_users: config.loopback_users.iter().map(|user| user.as_str().into()).collect(),
        anonymous: anonymous.map(|user| Anonymous {
            user: user.into(),
            password: config.anonymous_password.as_str().into(),
            is_named: config.names_anonymous,
        }),
        mechanisms: Mechanisms {
            anonymous: has("ANONYMOUS"),
            plain: has("PLAIN"),
            amqplain: has("AMQPLAIN"),
            external: has("EXTERNAL"),
        },
        hashing: config.hashing,
    })
}

/// Bounds of guesses of passwords.
pub(super) fn guess_limits(config: &Config) -> GuessLimits {
    let rate = |guesses: Option<u32>| guesses.map(|count| Rate::per_second(count, FREE_SECONDS));
    GuessLimits {
        account: rate(config.guesses_per_account),
        origin: rate(config.guesses_per_address),
        ..GuessLimits::default()
    }
}

/// Bounds of the memory that connections hold.
pub(super) fn ledger_limits(config: &Config) -> LedgerLimits {
    let usual = LedgerLimits::usual(config.message_bytes_max as usize);
    LedgerLimits {
        connection_max: config.connection_memory_max.unwrap_or(usual.connection_max),
        user_share: config.user_memory_share,
        lone_user_share: config.lone_user_memory_share,
        vhost_share: config.vhost_memory_share,
        user_unread_max: config.user_unread_max,
    }
}

/// The bounds of a shard, where there is room for so many connections.
pub(super) fn broker_limits(config: &Config, connections: usize, shards: u16) -> Limits {
    let limits = Limits::default();
    // All places may be one user's: nothing is to be asked then.
    let of_user = Some(config.user_connection_share).filter(|share| *share < 1.0);
    // Batches in flight when a disk is full have to fit the file that is left for them, and leave room there: behind
    // them wait the settles that make room. Shards may have as much again on its way to each other.
    let share = journal_limits(config).file_bytes / (4 * u64::from(shards));
    Limits {
        log_bytes_in_flight_max: limits.log_bytes_in_flight_max.min(share as usize),
        message_size_max: config.message_bytes_max as usize,
        connections_max: config.connection_max.map(u64::from),
        user_connections_max: of_user.map(|share| ((connections as f64 * share) as u64).max(1)),
        channels_max: config.node_channels_max.map(u64::from),
        vhosts_max: config.vhosts_max.map(u64::from),
        exchanges_max: config.exchanges_max.map(u64::from),
        queues_max: config.queues_max.map(u64::from),
        policy_programs_bytes_max: config.policy_patterns_bytes_max.map(u64::from),
        alarm_refuses_growth: config.alarm_refuses_growth,
        arguments_max: config
            .arguments_max
            .map_or(limits.arguments_max, |most| most.map_or(usize::MAX, |most| most as usize)),
        arguments_bytes_max: config.arguments_bytes_max.map_or(limits.arguments_bytes_max, |most| {
            most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
        }),
        topic_words_max: config
            .topic_words_max
            .map_or(limits.topic_words_max, |most| most.map_or(usize::MAX, |most| most as usize)),
        exchange_filters_max: config
            .exchange_filters_max
            .map_or(limits.exchange_filters_max, |most| most.map_or(usize::MAX, |most| most as usize)),
        exchange_filters_bytes_max: config
            .exchange_filters_bytes_max
            .map_or(limits.exchange_filters_bytes_max, |most| {
                most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
            }),
        route_steps_max: config.route_steps_max.unwrap_or(limits.route_steps_max),
        consumer_timeout_ms: config.consumer_timeout_ms,
        stream_reads_ahead: config.stream.reads_ahead.unwrap_or(limits.stream_reads_ahead),
        stream_read_bytes_max: config.stream.read_bytes_max.unwrap_or(limits.stream_read_bytes_max),
        ..limits
    }
}

pub(super) fn journal_limits(config: &Config) -> journal::Limits {
    let mut limits = journal::Limits::default();
    if let Some(bytes) = config.journal_file_bytes {
        limits.file_bytes = bytes.next_multiple_of(base::memory::BLOCK as u64);
        limits.first_file_bytes = limits.first_file_bytes.min(limits.file_bytes);
    }
    limits
}

pub(super) fn front_settings(config: &Config) -> Settings {
    let mut settings = Settings::new(&config.node_name);
    settings.handshake_ms_max = config.handshake_timeout_ms;
    settings.cluster = config.cluster_called().into();
    settings.default_vhost = config.default_user.vhost.as_str().into();
    if let Some(most) = config.credit.link {
        settings.link_credit_max = most;
        settings.link_credit_min = settings.link_credit_min.min(most);
    }
    settings.transaction_work_max = config.transaction_work_max.unwrap_or(settings.transaction_work_max);
    let message_bytes = u32::try_from(config.message_bytes_max).unwrap_or(u32::MAX);
    settings.channel_consumers_max = config.channel_consumers_max;
    settings.permits_transient_queues = config.permits_transient_queues;
    settings.permits_global_qos = config.permits_global_qos;
    settings.permits_address_v1 = config.permits_address_v1;
    settings.amqp091.frame_max = config.frame_max;
    settings.amqp091.channel_max = config.channel_max;
    settings.amqp091.heartbeat_s = config.heartbeat_s;
    settings.amqp091.message_size_max = message_bytes;
    settings.amqp091.handshake_ms_max = u32::try_from(config.handshake_timeout_ms).unwrap_or(u32::MAX);
    settings.amqp10.frame_bytes_max = config.frame_max;
    // Half of it, so that a peer that keeps to it is never found silent.
    settings.amqp10.idle_ms = u32::from(config.heartbeat_s) * 500;
    settings.amqp10.sessions_max = config.session_max;
    settings.amqp10.links_max = u16::try_from(config.link_max).unwrap_or(u16::MAX);
    settings.amqp10.message_bytes_max = config.message_bytes_max;
    if let Some(most) = config.link_name_bytes_max {
        let most = most.unwrap_or(u64::MAX);
        settings.amqp10.link_name_bytes_max = usize::try_from(most).unwrap_or(usize::MAX);
    }
    settings.amqp10.handshake_ms = settings.amqp091.handshake_ms_max;
    config.stream.apply(&mut settings.stream);
    settings.stream.limits.handshake_ms_max = settings.amqp091.handshake_ms_max;
    let stamps = Stamps {
        time: config.interceptors.time,
        node: config.interceptors.node.map(|overwrites| (config.node_name.as_str().into(), overwrites)),
    };
    settings.stamps = (!stamps.is_empty()).then(|| Box::new(stamps));
    if let Some(most) = config.credit.incoming_window {
        settings.amqp10.incoming_window_max = most;
        settings.session_window_max = most;
    }
    settings
}
