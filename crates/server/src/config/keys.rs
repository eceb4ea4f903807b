//! Every key that is known, and what it does here.
//!
//! A key is *served* (it has a function that puts its value where it works), *inert* (accepted with a warning that says
//! why it does nothing) or *refused* (ignoring it would be wrong). Nothing is accepted without effect or word.

use super::backends::Backend;
use super::cluster::{self, ClusterDraft};
use super::gate;
use super::network::{AlternativeKind, ListenerKind, LoginFrom};
use super::secret::Decoder;
use super::value::{
    address, boolean, bytes, bytes_above_zero, count, count_above_zero, decimal, integer, one_of, only, share,
};
use super::verdict::Verdict;
use super::{Draft, Limit};
use crate::http::Files;
use broker::access::Hashing;
use management::BrowsersSee;

/// Puts a value where it works, or says what would be accepted. The second argument is what `$` stood for.
pub type Put = fn(&mut Draft, &str, &str) -> Result<(), String>;

/// Takes a value of which it depends whether it can be had. Arguments as of [`Put`].
pub type Judge = fn(&mut Draft, &str, &str) -> Verdict;

/// The effect of a known key.
#[derive(Clone, Copy)]
pub enum Standing {
    /// It works.
    Served(Put),
    /// It depends on the value.
    Judged(Judge),
    /// It does nothing, and nobody is harmed.
    Inert(&'static str),
    /// Somebody would rely on it in vain.
    Refused(&'static str),
    /// It tunes an authentication backend that is not there.
    Tunes(Backend),
}

use Standing::{Inert, Judged, Refused, Served, Tunes};

const ERLANG: &str = "it tunes the Erlang runtime, which is not here";
const LATER: &str = "this version does not have the feature yet";
const ALWAYS: &str = "it is always so here";
const PROXY: &str = "the PROXY protocol is not served yet";

/// Keys and what they do. `$` stands for one word of the user's, a last `*` for any.
pub const KEYS: &[(&str, Standing)] = &[
    // Where it listens, and how.
    (
        "listeners.tcp",
        Served(|draft, _, value| {
            only(value, "none", "or listeners.tcp.NAME = PORT")
                .map(|()| draft.close_listeners(ListenerKind::Amqp))
        }),
    ),
    (
        "listeners.tcp.$",
        Served(|draft, name, value| {
            address(value).map(|address| draft.add_listener(ListenerKind::Amqp, name, address))
        }),
    ),
    (
        "listeners.ssl",
        Served(|draft, _, value| {
            only(value, "none", "or listeners.ssl.NAME = PORT")
                .map(|()| draft.close_listeners(ListenerKind::AmqpTls))
        }),
    ),
    (
        "listeners.ssl.$",
        Served(|draft, name, value| {
            address(value).map(|address| draft.add_listener(ListenerKind::AmqpTls, name, address))
        }),
    ),
    ("ssl_options", Judged(|_, _, value| none(value, "or ssl_options.NAME = VALUE"))),
    ("ssl_options.*", Judged(|draft, name, value| draft.config.network.tls.judge(name, value))),
    (
        "ssl_handshake_timeout",
        Served(|draft, _, value| {
            put(integer(value, 1, 3_600_000), |it| draft.config.network.tls_handshake_ms = it)
        }),
    ),
    (
        "ssl_cert_login_from",
        Served(|draft, _, value| {
            let words = [
                ("distinguished_name", LoginFrom::Distinguished),
                ("common_name", LoginFrom::Common),
                ("subject_alternative_name", LoginFrom::Alternative),
                ("subject_alt_name", LoginFrom::Alternative),
            ];
            put(one_of(value, &words), |it| draft.config.network.login.from = it)
        }),
    ),
    (
        "ssl_cert_login_san_type",
        Served(|draft, _, value| {
            let words = [
                ("dns", AlternativeKind::Dns),
                ("ip", AlternativeKind::Ip),
                ("email", AlternativeKind::Email),
                ("uri", AlternativeKind::Uri),
            ];
            put(one_of(value, &words), |it| draft.config.network.login.kind = it)
        }),
    ),
    (
        "ssl_cert_login_san_index",
        Served(|draft, _, value| {
            put(integer(value, 0, 1000), |it| draft.config.network.login.index = it as usize)
        }),
    ),
    // The stream protocol.
    (
        "stream.listeners.tcp",
        Served(|draft, _, value| {
            only(value, "none", "or stream.listeners.tcp.NAME = PORT")
                .map(|()| draft.close_listeners(ListenerKind::Stream))
        }),
    ),
    (
        "stream.listeners.tcp.$",
        Served(|draft, name, value| {
            address(value).map(|address| draft.add_listener(ListenerKind::Stream, name, address))
        }),
    ),
    (
        "stream.listeners.ssl",
        Served(|draft, _, value| {
            only(value, "none", "or stream.listeners.ssl.NAME = PORT")
                .map(|()| draft.close_listeners(ListenerKind::StreamTls))
        }),
    ),
    (
        "stream.listeners.ssl.$",
        Served(|draft, name, value| {
            address(value).map(|address| draft.add_listener(ListenerKind::StreamTls, name, address))
        }),
    ),
    ("stream.tcp_listen_options.*", Inert("tcp_listen_options goes for every listener")),
    ("stream.replication.*", Inert("no other node has a copy of a stream")),
    ("stream.num_acceptors.$", Inert(ERLANG)),
    ("stream.initial_frame_max", Inert("a frame before the connection is open is at most 8192 bytes")),
    ("stream.proxy_protocol", Judged(|_, _, value| off(value, PROXY))),
    ("stream.*", Served(|draft, name, value| draft.config.stream.set(name, value))),
    // AMQP over WebSocket; the keys are called like those of RabbitMQ's other protocols over it.
    (
        "web_amqp.tcp",
        Served(|draft, _, value| {
            only(value, "none", "or web_amqp.tcp.port = PORT")
                .map(|()| draft.close_listeners(ListenerKind::Web))
        }),
    ),
    (
        "web_amqp.tcp.listener",
        Served(|draft, _, value| put(address(value), |it| *draft.web_listener(ListenerKind::Web) = it)),
    ),
    (
        "web_amqp.tcp.port",
        Served(|draft, _, value| put(port(value), |it| draft.web_listener(ListenerKind::Web).port = it)),
    ),
    (
        "web_amqp.tcp.ip",
        Served(|draft, _, value| put(ip(value), |it| draft.web_listener(ListenerKind::Web).ip = it)),
    ),
    ("web_amqp.tcp.backlog", Inert("tcp_listen_options.backlog goes for every listener")),
    (
        "web_amqp.ssl.listener",
        Served(|draft, _, value| put(address(value), |it| *draft.web_listener(ListenerKind::WebTls) = it)),
    ),
    (
        "web_amqp.ssl.port",
        Served(|draft, _, value| put(port(value), |it| draft.web_listener(ListenerKind::WebTls).port = it)),
    ),
    (
        "web_amqp.ssl.ip",
        Served(|draft, _, value| put(ip(value), |it| draft.web_listener(ListenerKind::WebTls).ip = it)),
    ),
    ("web_amqp.ssl.backlog", Inert("tcp_listen_options.backlog goes for every listener")),
    ("web_amqp.ssl.*", Judged(|draft, name, value| draft.config.network.web_tls.judge(name, value))),
    ("web_amqp.num_acceptors.*", Inert(ERLANG)),
    ("web_amqp.cowboy_opts.*", Inert("the request for a WebSocket has bounds of its own here")),
    ("web_amqp.proxy_protocol", Judged(|_, _, value| off(value, PROXY))),
    ("web_amqp.*", Served(|draft, name, value| draft.config.network.set_web(name, value))),
    (
        "tcp_listen_options.backlog",
        Served(|draft, _, value| {
            put(integer(value, 1, 65_535), |it| draft.config.socket.backlog = it as u32)
        }),
    ),
    (
        "tcp_listen_options.nodelay",
        Served(|_, _, value| only(value, "true", "small messages would wait for large ones")),
    ),
    (
        "tcp_listen_options.keepalive",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.socket.keepalive = it)),
    ),
    (
        "tcp_listen_options.sndbuf",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.socket.send_bytes = Some(it))),
    ),
    (
        "tcp_listen_options.recbuf",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.socket.receive_bytes = Some(it))),
    ),
    ("tcp_listen_options.buffer", Inert("buffers here grow and shrink with what a connection does")),
    ("tcp_listen_options.linger.$", Inert("the kernel's default serves: what was written is sent")),
    ("tcp_listen_options.exit_on_close", Inert(ALWAYS)),
    ("tcp_listen_options.*", Inert(ERLANG)),
    ("num_acceptors.*", Inert(ERLANG)),
    ("socket_writer.*", Inert(ERLANG)),
    ("reverse_dns_lookups", Inert("connections are named by address")),
    (
        "handshake_timeout",
        Served(|draft, _, value| {
            put(integer(value, 1, 3_600_000), |it| draft.config.handshake_timeout_ms = it)
        }),
    ),
    ("proxy_protocol", Judged(|_, _, value| off(value, PROXY))),
    // Limits and options of a connection.
    (
        "heartbeat",
        Served(|draft, _, value| put(integer(value, 0, 65_535), |it| draft.config.heartbeat_s = it as u16)),
    ),
    (
        "frame_max",
        Served(|draft, _, value| {
            // As with RabbitMQ, 0 is no bound: then what can be allocated is.
            let bytes = integer(value, 0, 1 << 30).ok().filter(|bytes| *bytes == 0 || *bytes >= 8192);
            let bytes = bytes
                .ok_or_else(|| "accepted values: 0, or a whole number from 8192 to 1073741824".to_owned());
            put(bytes, |it| draft.config.frame_max = if it == 0 { 1 << 30 } else { it as u32 })
        }),
    ),
    ("initial_frame_max", Inert("a frame before login is at most 8192 bytes")),
    (
        "channel_max",
        // As with RabbitMQ, 0 is no bound, and there can be no more than numbers for them.
        Served(|draft, _, value| {
            put(integer(value, 0, u64::MAX), |it| draft.config.channel_max = it.min(65_535) as u16)
        }),
    ),
    (
        "max_channels_per_connection",
        // As with RabbitMQ, 0 is no bound, and there can be no more than numbers for them.
        Served(|draft, _, value| {
            put(integer(value, 0, u64::MAX), |it| draft.config.channel_max = it.min(65_535) as u16)
        }),
    ),
    (
        "session_max_per_connection",
        Served(|draft, _, value| put(integer(value, 1, 65_535), |it| draft.config.session_max = it as u16)),
    ),
    (
        "link_max_per_session",
        Served(|draft, _, value| put(integer(value, 1, 65_535), |it| draft.config.link_max = it as u32)),
    ),
    (
        "max_message_size",
        Served(|draft, _, value| {
            put(integer(value, 0, 536_870_912), |it| draft.config.message_bytes_max = it)
        }),
    ),
    ("connection_max", Served(|draft, _, value| put(count(value), |it| draft.config.connection_max = it))),
    ("max_connections", Served(|draft, _, value| put(count(value), |it| draft.config.connection_max = it))),
    (
        "channel_max_per_node",
        Served(|draft, _, value| put(count_above_zero(value), |it| draft.config.node_channels_max = it)),
    ),
    (
        "consumer_max_per_channel",
        Served(|draft, _, value| put(count(value), |it| draft.config.channel_consumers_max = it)),
    ),
    ("channel_operation_timeout", Inert("no operation waits for another process here")),
    (
        "consumer_timeout",
        Served(|draft, _, value| {
            put(integer(value, 1, i64::MAX as u64), |it| draft.config.consumer_timeout_ms = it)
        }),
    ),
    ("vhost_max", Served(|draft, _, value| put(count(value), |it| draft.config.vhosts_max = it))),
    (
        "cluster_exchange_limit",
        Served(|draft, _, value| put(count(value), |it| draft.config.exchanges_max = it)),
    ),
    (
        "cluster_queue_limit",
        Served(|draft, _, value| put(count_above_zero(value), |it| draft.config.queues_max = it)),
    ),
    // Users, and their ways to log in.
    ("default_user", Served(|draft, _, value| put(text(value), |it| draft.config.default_user.name = it))),
    (
        "default_pass",
        Served(|draft, _, value| put(text(value), |it| draft.config.default_user.password = it)),
    ),
    ("default_vhost", Served(|draft, _, value| put(text(value), |it| draft.config.default_user.vhost = it))),
    ("default_user_tags.$", Served(|draft, tag, value| put(boolean(value), |it| draft.set_tag(tag, it)))),
    (
        "default_permissions.configure",
        Served(|draft, _, value| put(text(value), |it| draft.config.default_user.configure = it)),
    ),
    (
        "default_permissions.read",
        Served(|draft, _, value| put(text(value), |it| draft.config.default_user.read = it)),
    ),
    (
        "default_permissions.write",
        Served(|draft, _, value| put(text(value), |it| draft.config.default_user.write = it)),
    ),
    ("default_users.$", Served(|draft, name, value| draft.config.vhost_defaults.set_user(name, value))),
    (
        "loopback_users",
        Served(|draft, _, value| {
            only(value, "none", "or loopback_users.NAME = true").map(|()| draft.config.loopback_users.clear())
        }),
    ),
    ("loopback_users.$", Served(|draft, user, value| put(boolean(value), |it| draft.set_loopback(user, it)))),
    ("auth_backends.$", Judged(backend)),
    (
        "auth_mechanisms.$",
        Served(|draft, name, value| {
            let words = ["PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"].map(|word| (word, word));
            put(one_of(value, &words), |it| draft.add_mechanism(name, it))
        }),
    ),
    (
        "anonymous_login_user",
        Served(|draft, _, value| {
            put(text(value), |it| draft.config.anonymous_user = Some(it).filter(|it| it != "none"))
                .map(|()| draft.config.names_anonymous = true)
        }),
    ),
    (
        "anonymous_login_pass",
        Served(|draft, _, value| put(text(value), |it| draft.config.anonymous_password = it)),
    ),
    (
        "password_hashing_module",
        Judged(|draft, _, value| {
            match value {
            name if Hashing::named(name).is_some() => {
                draft.config.hashing = Hashing::named(name).unwrap_or_default();
                Verdict::Works
            }
            "rabbit_password_hashing_sha512" | "rabbit_password_hashing_md5" => Verdict::Absent(
                "new passwords are hashed with salted SHA-256, or with argon2id; hashes of these kinds can be imported"
                    .into(),
            ),
            _ => Verdict::Wrong("accepted values: rabbit_password_hashing_sha256, argon2id".into()),
        }
        }),
    ),
    (
        "credential_validator.validation_backend",
        Judged(|_, _, value| match value {
            "rabbit_credential_validator_accept_everything" => Verdict::Works,
            _ => Verdict::Absent("rules for passwords are not enforced yet".into()),
        }),
    ),
    (
        "credential_validator.*",
        Inert(
            "credential_validator.validation_backend chooses rules for passwords, and none but accept_everything is served",
        ),
    ),
    // Definitions that are imported before any client is served.
    ("load_definitions", Served(|draft, _, value| put(text(value), |it| draft.add_definitions(&it)))),
    (
        "management.load_definitions",
        Served(|draft, _, value| put(text(value), |it| draft.add_definitions(&it))),
    ),
    (
        "definitions.import_backend",
        Served(|_, _, value| one_of(value, &[("local_filesystem", ()), ("local", ())])),
    ),
    ("definitions.local.path", Served(|draft, _, value| put(text(value), |it| draft.add_definitions(&it)))),
    (
        "definitions.skip_if_unchanged",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.definitions.skips_unchanged = it)),
    ),
    ("definitions.hashing.algorithm", Inert("what was imported before is known by its SHA-256")),
    ("definitions.*", Refused("definitions come from local files alone")),
    // Values that are encrypted are decrypted before anything is read of them.
    ("config_entry_decoder.passphrase_file", Served(|_, _, _| Ok(()))),
    ("config_entry_decoder.$", Served(|_, name, value| Decoder::default().set(name, value))),
    // When it stops publishers.
    (
        "vm_memory_high_watermark.relative",
        Served(|draft, _, value| {
            // As with RabbitMQ, more than there is counts as all there is.
            put(decimal(value, 0.0, 1000.0), |it| draft.config.memory_limit = Limit::Share(it.min(1.0)))
        }),
    ),
    (
        "vm_memory_high_watermark.absolute",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.memory_limit = Limit::Bytes(it))),
    ),
    ("vm_memory_high_watermark_paging_ratio", Inert("messages are on disk before anything else")),
    ("vm_memory_calculation_strategy", Inert("memory is what the kernel counts as resident")),
    (
        "memory_monitor_interval",
        Served(|draft, _, value| {
            put(integer(value, 100, 3_600_000), |it| draft.config.sample_interval_ms = it)
        }),
    ),
    (
        "total_memory_available_override_value",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.memory_total_bytes = Some(it))),
    ),
    (
        "disk_free_limit.absolute",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.disk_limit = Limit::Bytes(it))),
    ),
    (
        "disk_free_limit.relative",
        Served(|draft, _, value| {
            put(decimal(value, 0.0, 1000.0), |it| draft.config.disk_limit = Limit::Share(it))
        }),
    ),
    // The lines of the log.
    ("log.$", Judged(|draft, name, value| draft.config.log.judge(name, value))),
    // How credit grows: a value caps what is measured.
    (
        "credit_flow_default_credit.$",
        Refused("it is written in advanced.config, and has no effect there either"),
    ),
    // Settings of Erlang, and of features that are not there yet.
    ("cluster_name", Served(|draft, _, value| put(text(value), |it| draft.config.cluster_name = Some(it)))),
    ("cluster_partition_handling", Inert("it has no effect in RabbitMQ 4.3 either")),
    ("cluster_partition_handling.*", Inert("it has no effect in RabbitMQ 4.3 either")),
    ("cluster_keepalive_interval", Inert("no other node is asked whether it is there")),
    ("cluster_tags.*", Inert(LATER)),
    ("node_tags.*", Inert(LATER)),
    ("queue_master_locator", Inert("it has no effect in RabbitMQ 4.3 either")),
    ("queue_leader_locator", Inert(LATER)),
    (
        "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.relaxes_types = it)),
    ),
    ("default_queue_type", Served(|draft, _, value| draft.config.vhost_defaults.set_queue_type(value))),
    (
        "default_policies.operator.$",
        Served(|draft, name, value| draft.config.vhost_defaults.set_policy(name, value)),
    ),
    (
        "default_limits.vhosts.$",
        Served(|draft, name, value| draft.config.vhost_defaults.set_limit(name, value)),
    ),
    ("collect_statistics", Inert("counters are always kept")),
    ("collect_statistics_interval", Inert(LATER)),
    ("management_agent.*", Inert(LATER)),
    (
        "management.tcp",
        Served(|draft, _, value| {
            only(value, "none", "or management.tcp.port = PORT")
                .map(|()| draft.close_listeners(ListenerKind::Http))
        }),
    ),
    (
        "management.listener.port",
        Served(|draft, _, value| put(port(value), |it| draft.web_listener(ListenerKind::Http).port = it)),
    ),
    (
        "management.listener.ip",
        Served(|draft, _, value| put(ip(value), |it| draft.web_listener(ListenerKind::Http).ip = it)),
    ),
    (
        "management.listener.ssl",
        Judged(|_, _, value| off(value, "HTTP over TLS is told by management.ssl.port")),
    ),
    ("management.listener.ssl_opts.*", Refused("HTTP over TLS is told by management.ssl.*")),
    (
        "management.tcp.port",
        Served(|draft, _, value| put(port(value), |it| draft.web_listener(ListenerKind::Http).port = it)),
    ),
    (
        "management.tcp.ip",
        Served(|draft, _, value| put(ip(value), |it| draft.web_listener(ListenerKind::Http).ip = it)),
    ),
    (
        "management.http.max_body_size",
        Served(|draft, _, value| put(integer(value, 1, 1 << 30), |it| draft.config.http_body_bytes_max = it)),
    ),
    (
        "management.ssl.port",
        Served(|draft, _, value| put(port(value), |it| draft.web_listener(ListenerKind::HttpTls).port = it)),
    ),
    (
        "management.ssl.ip",
        Served(|draft, _, value| put(ip(value), |it| draft.web_listener(ListenerKind::HttpTls).ip = it)),
    ),
    ("management.ssl.backlog", Inert("tcp_listen_options.backlog goes for every listener")),
    ("management.ssl.*", Judged(|draft, name, value| draft.config.network.http_tls.judge(name, value))),
    ("management.path_prefix", Served(|draft, _, value| gate::set_prefix(&mut draft.config.gate, value))),
    (
        "management.cors.allow_origins",
        Served(|draft, _, value| {
            only(value, "none", "or management.cors.allow_origins.N = ORIGIN")
                .map(|()| draft.config.gate.origins.clear())
        }),
    ),
    (
        "management.cors.allow_origins.$",
        Served(|draft, name, value| gate::add_origin(&mut draft.config.gate, name, value)),
    ),
    (
        "management.cors.max_age",
        Served(|draft, _, value| {
            put(integer(value, 0, u64::MAX >> 1), |it| draft.config.gate.max_age_s = it)
        }),
    ),
    (
        "management.hsts.policy",
        Served(|draft, _, value| gate::set_transport_policy(&mut draft.config.gate, value)),
    ),
    ("management.hosts.$", Served(|draft, name, value| gate::add_host(&mut draft.config.gate, name, value))),
    (
        "management.disable_basic_auth",
        Judged(|_, _, value| match value {
            "false" => Verdict::Works,
            _ => Verdict::Absent("basic authentication is the only one".into()),
        }),
    ),
    ("management.oauth_enabled", Judged(|_, _, value| off(value, "OAuth 2 is not served yet"))),
    (
        "management.restrictions.operator_policy_changes.disabled",
        Judged(|_, _, value| off(value, "administrators may change operators' policies")),
    ),
    (
        "management.login_session_timeout",
        Served(|draft, _, value| {
            put(integer(value, 0, 1 << 32), |it| {
                // As in RabbitMQ, in minutes; 0: no end.
                draft.config.web_sessions.session_ms_max = if it == 0 { u64::MAX } else { 60_000 * it };
            })
        }),
    ),
    (
        "management.ui.messages",
        Served(|draft, _, value| {
            let all =
                [BrowsersSee::Full, BrowsersSee::Headers, BrowsersSee::None].map(|own| (own.name(), own));
            put(one_of(value, &all), |it| draft.config.browsers_see = it)
        }),
    ),
    ("management.*", Inert(LATER)),
    (
        "prometheus.tcp",
        Served(|draft, _, value| {
            only(value, "none", "or prometheus.tcp.port = PORT")
                .map(|()| draft.close_listeners(ListenerKind::Prometheus))
        }),
    ),
    (
        "prometheus.tcp.port",
        Served(|draft, _, value| {
            put(port(value), |it| draft.web_listener(ListenerKind::Prometheus).port = it)
        }),
    ),
    (
        "prometheus.tcp.ip",
        Served(|draft, _, value| put(ip(value), |it| draft.web_listener(ListenerKind::Prometheus).ip = it)),
    ),
    (
        "prometheus.return_per_object_metrics",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.metrics_each = it)),
    ),
    ("prometheus.path", Served(|draft, _, value| put(path(value), |it| draft.config.metrics_path = it))),
    (
        "prometheus.ssl.port",
        Served(|draft, _, value| {
            put(port(value), |it| draft.web_listener(ListenerKind::PrometheusTls).port = it)
        }),
    ),
    (
        "prometheus.ssl.ip",
        Served(|draft, _, value| {
            put(ip(value), |it| draft.web_listener(ListenerKind::PrometheusTls).ip = it)
        }),
    ),
    ("prometheus.ssl.backlog", Inert("tcp_listen_options.backlog goes for every listener")),
    ("prometheus.ssl.*", Judged(|draft, name, value| draft.config.network.metrics_tls.judge(name, value))),
    ("prometheus.*", Inert(LATER)),
    ("amqp1_0.*", Inert("AMQP 1.0 goes by the keys of AMQP 0-9-1; anonymous logins by anonymous_login_user")),
    ("shovel.*", Inert(LATER)),
    ("federation.*", Inert(LATER)),
    ("auth_oauth2.*", Tunes(Backend::OAuth2)),
    ("auth_ldap.*", Tunes(Backend::Ldap)),
    ("auth_http.*", Tunes(Backend::Http)),
    ("auth_cache.*", Tunes(Backend::Cache)),
    ("feature_flags.*", Inert("every feature is enabled")),
    (
        "deprecated_features.permit.transient_nonexcl_queues",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.permits_transient_queues = it)),
    ),
    (
        "deprecated_features.permit.amqp_address_v1",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.permits_address_v1 = it)),
    ),
    (
        "deprecated_features.permit.global_qos",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.permits_global_qos = it)),
    ),
    ("deprecated_features.*", Inert("deprecated features are not there to be permitted")),
    ("permit_deprecated_features.*", Inert("deprecated features are not there to be permitted")),
    ("distribution.listener.interface", Judged(|draft, _, value| of_nodes(draft, value, cluster::interface))),
    ("distribution.listener.port_range.min", Judged(|draft, _, value| of_nodes(draft, value, cluster::port))),
    ("distribution.listener.port_range.max", Inert("one port is listened on, the lowest")),
    ("distribution.*", Inert(ERLANG)),
    ("net_ticktime", Inert(ERLANG)),
    ("kernel.*", Inert(ERLANG)),
    ("vm.*", Inert(ERLANG)),
    ("erlang.*", Inert(ERLANG)),
    ("background_gc_enabled", Inert(ERLANG)),
    ("background_gc_target_interval", Inert(ERLANG)),
    ("lazy_queue_explicit_gc_run_operation_threshold", Inert(ERLANG)),
    ("queue_explicit_gc_run_operation_threshold", Inert(ERLANG)),
    ("mirroring_sync_batch_size", Inert("mirrored queues are gone since 4.0")),
    ("mnesia_table_loading_retry_timeout", Inert("there is no such table here")),
    ("mnesia_table_loading_retry_limit", Inert("there is no such table here")),
    ("khepri.*", Inert("there is no such store here")),
    ("message_store_shutdown_timeout", Inert("there is no such store here")),
    ("msg_store_file_size_limit", Inert("see leveret.journal_file_bytes")),
    ("queue_index_embed_msgs_below", Inert("every message is in the log, whatever its size")),
    ("raft.*", Inert("the log of queues is not RabbitMQ's")),
    ("quorum_queue.*", Inert(LATER)),
    ("quorum_commands_soft_limit", Inert("windows here follow the disk")),
    ("classic_queue.*", Inert("there is one way of storing queues here")),
    ("trace_vhosts.*", Inert(LATER)),
    ("product.name", Inert("the product is announced as clients expect it")),
    ("product.version", Inert("the product is announced as clients expect it")),
    ("motd_file", Inert("the log begins with the listeners")),
    ("metrics_collector.*", Inert(LATER)),
    ("global_counters.*", Inert(LATER)),
    ("amqp_client.*", Inert("this node is nobody's client")),
    ("amqp10_client.*", Inert("this node is nobody's client")),
    ("aws.*", Inert("no cloud is asked for other nodes")),
    ("channel_interceptor.*", Refused("what channels do is not intercepted")),
    (
        "message_interceptors.incoming.set_header_timestamp.overwrite",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.interceptors.time = Some(it))),
    ),
    (
        "message_interceptors.incoming.set_header_routing_node.overwrite",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.interceptors.node = Some(it))),
    ),
    (
        "message_interceptors.outgoing.timestamp.enabled",
        Judged(|_, _, value| off(value, "nothing is written on messages when they go out yet")),
    ),
    (
        "message_interceptors.*",
        Refused(
            "RabbitMQ has none of this name: it has incoming.set_header_timestamp and incoming.set_header_routing_node",
        ),
    ),
    ("channel_tx_message_max", Inert("transactions have a bound of their own")),
    ("consumer_disconnected_timeout", Inert("a consumer is on this node or nowhere")),
    ("credentials_obfuscation.*", Inert("passwords are kept as salted hashes")),
    ("default_worker_pool_size", Inert(ERLANG)),
    ("delegate_count", Inert(ERLANG)),
    ("distributed_cookie", Inert(ERLANG)),
    ("hipe_compile", Inert(ERLANG)),
    ("ranch_connection_max", Inert(ERLANG)),
    ("sysmon_handler.*", Inert(ERLANG)),
    (
        "event_exchange.protocol",
        Served(|_, _, value| only(value, "amqp_0_9_1", "events have the form of AMQP 0-9-1")),
    ),
    ("event_exchange.vhost", Refused("events are told in the first virtual host")),
    ("exchange_types.$", Served(|_, _, value| only(value, "true", "every type of exchange is there"))),
    ("queue_types.$", Served(|_, _, value| only(value, "true", "every type of queue is there"))),
    ("http_dispatch.access_log_dir", Inert(LATER)),
    ("http_dispatch.auth_backends.*", Refused("only the internal authentication backend is served yet")),
    ("listeners.startup_delay", Inert("it listens once it can serve")),
    ("metadata_store.*", Inert("there is no such store here")),
    ("mirroring_sync_max_throughput", Inert("mirrored queues are gone since 4.0")),
    ("nodename", Served(|draft, _, value| put(text(value), |it| draft.config.name_node(&it)))),
    (
        "prevent_startup_if_node_was_reset",
        Served(|_, _, value| only(value, "false", "an empty data folder begins a new node")),
    ),
    ("runtime_parameters.limits.*", Refused("parameters are not counted by kind yet")),
    ("ssl_allow_poodle_attack", Inert("TLS 1.2 and 1.3 are served, and nothing older")),
    ("tracing.*", Inert("what trace_on tells goes to an exchange, not to files")),
    ("trust_store.*", Refused("whose certificates are good is said by ssl_options.cacertfile")),
    ("vhost_restart_strategy", Inert("a virtual host is served while the node is")),
    // Our own.
    ("leveret.data_dir", Served(|draft, _, value| put(text(value), |it| draft.config.data_dir = it.into()))),
    ("leveret.core_dumps", Served(|draft, _, value| put(boolean(value), |it| draft.config.dumps_core = it))),
    (
        "leveret.guesses_per_account",
        Served(|draft, _, value| put(count_above_zero(value), |it| draft.config.guesses_per_account = it)),
    ),
    (
        "leveret.guesses_per_address",
        Served(|draft, _, value| put(count_above_zero(value), |it| draft.config.guesses_per_address = it)),
    ),
    (
        "leveret.shards",
        Served(|draft, _, value| put(integer(value, 1, 1024), |it| draft.config.shards = Some(it as u16))),
    ),
    (
        "leveret.follow_queues",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.follows_queues = it)),
    ),
    (
        "leveret.http_shares",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.http_shares = it)),
    ),
    (
        "leveret.ui",
        Served(|draft, _, value| {
            put(boolean(value), |it| draft.config.ui = if it { Files::Own } else { Files::None })
        }),
    ),
    (
        "leveret.ui_dir",
        Served(|draft, _, value| put(text(value), |it| draft.config.ui = Files::Folder(it.into()))),
    ),
    (
        "leveret.user_connection_share",
        Served(|draft, _, value| {
            put(decimal(value, 0.001, 1.0), |it| draft.config.user_connection_share = it)
        }),
    ),
    (
        "leveret.connection_memory_max",
        Served(|draft, _, value| {
            put(bytes_above_zero(value), |it| draft.config.connection_memory_max = Some(it))
        }),
    ),
    (
        "leveret.user_memory_share",
        Served(|draft, _, value| put(share(value), |it| draft.config.user_memory_share = it)),
    ),
    (
        "leveret.lone_user_memory_share",
        Served(|draft, _, value| put(share(value), |it| draft.config.lone_user_memory_share = it)),
    ),
    (
        "leveret.vhost_memory_share",
        Served(|draft, _, value| put(share(value), |it| draft.config.vhost_memory_share = it)),
    ),
    (
        "leveret.user_unread_max",
        Served(|draft, _, value| put(bytes_above_zero(value), |it| draft.config.user_unread_max = it)),
    ),
    (
        "leveret.logs",
        Served(|draft, _, value| put(integer(value, 1, 4096), |it| draft.config.logs = Some(it as u32))),
    ),
    (
        "leveret.journal_file_bytes",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.journal_file_bytes = Some(it))),
    ),
    (
        "leveret.alarm_refuses_growth",
        Served(|draft, _, value| put(boolean(value), |it| draft.config.alarm_refuses_growth = it)),
    ),
    (
        "leveret.arguments_max",
        Served(|draft, _, value| put(count(value), |it| draft.config.arguments_max = Some(it))),
    ),
    (
        "leveret.arguments_bytes_max",
        Served(|draft, _, value| {
            put(bytes_above_zero(value), |it| draft.config.arguments_bytes_max = Some(it))
        }),
    ),
    (
        "leveret.topic_words_max",
        Served(|draft, _, value| put(count(value), |it| draft.config.topic_words_max = Some(it))),
    ),
    (
        "leveret.exchange_filters_max",
        Served(|draft, _, value| put(count(value), |it| draft.config.exchange_filters_max = Some(it))),
    ),
    (
        "leveret.exchange_filters_bytes_max",
        Served(|draft, _, value| {
            put(bytes_above_zero(value), |it| draft.config.exchange_filters_bytes_max = Some(it))
        }),
    ),
    (
        "leveret.link_name_bytes_max",
        Served(|draft, _, value| {
            put(bytes_above_zero(value), |it| draft.config.link_name_bytes_max = Some(it))
        }),
    ),
    (
        "leveret.policy_patterns_bytes_max",
        Served(|draft, _, value| put(count(value), |it| draft.config.policy_patterns_bytes_max = it)),
    ),
    (
        "leveret.journal_files",
        Refused("the journal has the files it needs; disk_free_limit says from when on publishers wait"),
    ),
    (
        "leveret.inline_flush_us",
        Served(|draft, _, value| put(integer(value, 0, 1_000_000), |it| draft.config.inline_flush_us = it)),
    ),
    (
        "leveret.route_steps_max",
        Served(|draft, _, value| {
            put(integer(value, 1024, u32::MAX.into()), |it| draft.config.route_steps_max = Some(it as u32))
        }),
    ),
    (
        "leveret.transaction_work_max",
        Served(|draft, _, value| {
            put(integer(value, 1_000, u32::MAX.into()), |it| {
                draft.config.transaction_work_max = Some(it as u32);
            })
        }),
    ),
    (
        "leveret.turn_work_max",
        Served(|draft, _, value| {
            put(integer(value, 1_000, u32::MAX.into()), |it| draft.config.turn_work_max = it as u32)
        }),
    ),
    (
        "leveret.test_disk_bytes",
        Served(|draft, _, value| put(bytes(value), |it| draft.config.test_disk_bytes = Some(it))),
    ),
    (
        "leveret.test_read_delay_us",
        Served(|draft, _, value| {
            put(integer(value, 0, 60_000_000), |it| draft.config.test_read_delay_us = it)
        }),
    ),
    (
        "leveret.test_sync_delay_us",
        Served(|draft, _, value| {
            put(integer(value, 0, 60_000_000), |it| draft.config.test_sync_delay_us = it)
        }),
    ),
];

/// A setting of the listener for other nodes, which is there where clusters are tried.
fn of_nodes(draft: &mut Draft, value: &str, judge: fn(&mut ClusterDraft, &str) -> Verdict) -> Verdict {
    match draft.cluster.is_tried {
        true => judge(&mut draft.cluster, value),
        false => Verdict::Nothing(ERLANG.to_owned()),
    }
}

/// The one value of a key that stands for a list.
fn none(value: &str, or: &str) -> Verdict {
    match value {
        "none" => Verdict::Works,
        _ => Verdict::Wrong(format!("accepted value: none ({or})")),
    }
}

/// A switch of what is not there: off is as it is.
fn off(value: &str, why: &str) -> Verdict {
    match boolean(value) {
        Ok(false) => Verdict::Works,
        Ok(true) => Verdict::Absent(why.to_owned()),
        Err(hint) => Verdict::Wrong(hint),
    }
}

/// `auth_backends.N`, `.N.authn`, `.N.authz`.
fn backend(draft: &mut Draft, name: &str, value: &str) -> Verdict {
    let named = Backend::read(value);
    named.into_iter().for_each(|backend| draft.backends.name(backend));
    let known = match value {
        "internal" | "rabbit_auth_backend_internal" => return Verdict::Works,
        "amqp" | "rabbit_auth_backend_amqp" => "authentication over AMQP",
        "dummy" | "rabbit_auth_backend_dummy" => "the authentication backend that lets nobody in",
        "internal_loopback" | "rabbit_auth_backend_internal_loopback" => "authentication by address",
        _ => named.map_or("this authentication backend", Backend::title),
    };
    Verdict::Absent(format!("{known} is not served yet; auth_backends.{name} can be: internal"))
}

/// `/metrics`, in its parts.
fn path(value: &str) -> Result<Vec<String>, String> {
    let parts = value.strip_prefix('/').map(|rest| rest.split('/').map(str::to_owned).collect());
    let is_whole = |parts: &Vec<String>| parts.iter().all(|part| !part.is_empty());
    parts.filter(is_whole).ok_or_else(|| "accepted values: a path such as /metrics".to_owned())
}

fn port(value: &str) -> Result<u16, String> {
    integer(value, 0, 65_535).map(|port| port as u16)
}

fn ip(value: &str) -> Result<Option<std::net::IpAddr>, String> {
    address(&format!("{value}:0")).map(|address| address.ip)
}

fn put<T>(value: Result<T, String>, to: impl FnOnce(T)) -> Result<(), String> {
    value.map(to)
}

fn text(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}
