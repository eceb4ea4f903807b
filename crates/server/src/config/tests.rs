//! Rules of precedence, and the effect of settings from each source.

mod complaints;

use super::*;
use crate::log::level::Level;
use broker::access::SALT;
use std::path::Path;

/// Loads from text: the main file, the advanced file, the environment as `NAME=value` words, and `--set` words.
fn load_from(file: &str, advanced: &str, environment: &[&str], settings: &[&str]) -> Result<Config, String> {
    let loaded = load_all(file, advanced, environment, settings);
    let texts = |problems: Vec<syntax::Error>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    loaded.usable().map_err(|problems| texts(problems).join("\n"))
}

fn load_all(file: &str, advanced: &str, environment: &[&str], settings: &[&str]) -> Loaded {
    let read = |path: &Path| match path.to_str() {
        Some("etc/rabbitmq.conf") => Ok(file.to_owned()),
        Some("etc/enabled_plugins") => Ok("[rabbitmq_management,rabbitmq_mqtt].".to_owned()),
        Some("etc/pass") => Ok("mypassphrase\n".to_owned()),
        Some("etc/old.config") => Ok(advanced.to_owned()),
        Some("etc/advanced.config") if !advanced.is_empty() => Ok(advanced.to_owned()),
        Some("conf.d/10.conf") => Ok("heartbeat = 10\nchannel_max = 10".to_owned()),
        Some("conf.d/20.conf") => Ok("heartbeat = 20\nmqtt.prefetch = 1".to_owned()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let list = |path: &Path| match path.to_str() {
        Some("conf.d") => Ok(["20.conf", "10.conf", "note.txt"].map(|name| path.join(name)).to_vec()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let pair = |word: &&str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let is_named = environment.iter().any(|word| word.starts_with("RABBITMQ_CONFIG_FILE="));
    let sources = Sources {
        file: (!is_named).then(|| "etc/rabbitmq.conf".into()),
        data_dir: None,
        settings: settings.iter().map(|word| (*word).to_owned()).collect(),
        environment: environment.iter().filter_map(pair).collect(),
        host: "hare.example.org".into(),
        read: &read,
        list: &list,
    };
    load(&sources)
}

fn config(file: &str) -> Config {
    load_from(file, "", &[], &[]).expect("usable")
}

fn error(file: &str) -> String {
    load_from(file, "", &[], &[]).expect_err("not usable")
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = config("# nothing\n");
    assert_eq!(config.node_name, "rabbit@hare");
    assert_eq!(config.listeners, [(ListenerKind::Amqp, Address { ip: None, port: 5672 })]);
    assert_eq!((config.frame_max, config.channel_max, config.heartbeat_s), (131_072, 2047, 60));
    assert_eq!((config.default_user.name.as_str(), config.loopback_users.len()), ("guest", 1));
    assert!(config.warnings.is_empty());
}

#[test]
fn limits_of_connections_and_consumers() {
    let all = config(
        "connection_max = 10\nconsumer_max_per_channel = 3\nconsumer_timeout = 5000\n\
         deprecated_features.permit.transient_nonexcl_queues = false\ndeprecated_features.permit.global_qos = false\n\
         deprecated_features.permit.amqp_address_v1 = true",
    );
    assert_eq!((all.connection_max, all.channel_consumers_max), (Some(10), Some(3)));
    assert_eq!(all.consumer_timeout_ms, 5000);
    assert!(!all.permits_transient_queues && all.permits_address_v1 && all.warnings.is_empty());
    let node = config(
        "max_connections = 9\nmax_channels_per_connection = 8\nchannel_max_per_node = 7\nvhost_max = 6\n\
         cluster_exchange_limit = 50\ncluster_queue_limit = 4\n\
         quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = true",
    );
    assert_eq!((node.connection_max, node.channel_max, node.node_channels_max), (Some(9), 8, Some(7)));
    assert_eq!((node.vhosts_max, node.exchanges_max, node.queues_max), (Some(6), Some(50), Some(4)));
    assert!(node.relaxes_types && node.warnings.is_empty());
    assert!(error("channel_max_per_node = 0").contains("a number above 0"));
    assert!(error("cluster_queue_limit = 0").contains("a number above 0"));
    let none = config("connection_max = infinity\nconsumer_max_per_channel = infinity");
    assert_eq!((none.connection_max, none.channel_consumers_max), (None, None));
    assert_eq!(none.consumer_timeout_ms, 1_800_000);
    assert!(error("consumer_timeout = 0").contains("a whole number from 1"));
    assert!(none.permits_transient_queues && !none.permits_address_v1);
    assert!(error("connection_max = many").contains("infinity, or a number"));
    assert!(
        !none.permits_global_qos && config("deprecated_features.permit.global_qos = true").permits_global_qos
    );
}

#[test]
fn definitions_are_named_in_either_way() {
    let all = config(
        "load_definitions = /etc/a.json\ndefinitions.import_backend = local_filesystem\n\
         definitions.local.path = /etc/more\ndefinitions.skip_if_unchanged = true\n\
         management.load_definitions = /etc/a.json",
    );
    assert_eq!(all.definitions.paths, [PathBuf::from("/etc/a.json"), PathBuf::from("/etc/more")]);
    assert!(all.definitions.skips_unchanged && all.warnings.is_empty());
    assert!(error("definitions.import_backend = https").contains("local_filesystem"));
    assert!(error("definitions.https.url = https://example.com").contains("local files"));
}

#[test]
fn what_was_told_is_kept_without_secrets() {
    let config =
        load_from("heartbeat = 10\ndefault_pass = s3cret", "", &["LEVERET_CHANNEL_MAX=7"], &["nodename=hop"])
            .expect("usable");
    let told: Vec<[&str; 2]> = config.shown.iter().map(|own| [&*own.key, &*own.value]).collect();
    let expected =
        [["heartbeat", "10"], ["default_pass", "********"], ["channel_max", "7"], ["nodename", "hop"]];
    assert_eq!(told, expected);
    assert!(config.shown[0].from.ends_with(":1") && config.shown[2].from.contains("LEVERET_CHANNEL_MAX"));
    assert_eq!(config.node_name, "hop@hare");
}

#[test]
fn later_layers_win() {
    let check = |file: &str, environment: &[&str], settings: &[&str], expected: u16| {
        let config = load_from(file, "", environment, settings).expect("usable");
        assert_eq!(config.heartbeat_s, expected, "{file} {environment:?} {settings:?}");
    };
    check("heartbeat = 1\nheartbeat = 2", &[], &[], 2);
    check("heartbeat = 1", &["LEVERET_HEARTBEAT=3"], &[], 3);
    check("heartbeat = 1", &["LEVERET_HEARTBEAT=3"], &["heartbeat=4"], 4);
    check("heartbeat = 1", &[], &["heartbeat=4", "heartbeat = 5"], 5);
    check("heartbeat = 1", &["RABBITMQ_CONFIG_FILES=conf.d"], &[], 20);
    check("heartbeat = 1", &["RABBITMQ_CONFIG_FILES=conf.d/*.conf"], &[], 20);
}

#[test]
fn listeners_are_opened_and_closed() {
    let check = |file: &str, environment: &[&str], settings: &[&str], expected: &[u16]| {
        let config = load_from(file, "", environment, settings).expect("usable");
        let ports: Vec<u16> = config.listeners.iter().map(|(_, address)| address.port).collect();
        assert_eq!(ports, expected, "{file} {environment:?} {settings:?}");
    };
    check("listeners.tcp.default = 1", &[], &[], &[1]);
    check("listeners.tcp.1 = 127.0.0.1:1\nlisteners.tcp.2 = 2", &[], &[], &[1, 2]);
    check("listeners.tcp.default = 1", &[], &["listeners.tcp.default=2"], &[2]);
    check("listeners.tcp = none", &[], &[], &[]);
    check("listeners.tcp = none\nlisteners.tcp.1 = 1", &[], &[], &[]);
    check("listeners.tcp = none", &[], &["listeners.tcp.1=1"], &[1]);
    check("listeners.tcp.1 = 1", &[], &["listeners.tcp=none"], &[]);
    check("", &["RABBITMQ_NODE_PORT=7"], &[], &[7]);
    check("", &["RABBITMQ_NODE_IP_ADDRESS=127.0.0.1"], &[], &[5672]);
    check("listeners.tcp.1 = 1", &["RABBITMQ_NODE_PORT=7"], &[], &[1]);
}

#[test]
fn each_kind_of_listeners_is_opened_and_closed_by_itself() {
    use ListenerKind::{Amqp, AmqpTls, Http, Web, WebTls};
    let check = |file: &str, settings: &[&str], expected: &[(ListenerKind, &str, u16)]| {
        let config = load_from(file, "", &[], settings).expect("usable");
        let address = |(kind, ip, port): &(ListenerKind, &str, u16)| {
            (*kind, Address { ip: ip.parse().ok(), port: *port })
        };
        let expected: Vec<_> = expected.iter().map(address).collect();
        assert_eq!(config.listeners, expected, "{file} {settings:?}");
    };
    check("listeners.ssl.default = 5671", &[], &[(Amqp, "", 5672), (AmqpTls, "", 5671)]);
    check("listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:1", &[], &[(AmqpTls, "127.0.0.1", 1)]);
    check("listeners.ssl.1 = 1", &["listeners.ssl=none"], &[(Amqp, "", 5672)]);
    check("listeners.ssl = none", &["listeners.ssl.1=1"], &[(Amqp, "", 5672), (AmqpTls, "", 1)]);
    check("web_amqp.tcp.port = 1", &[], &[(Amqp, "", 5672), (Web, "", 1)]);
    check("web_amqp.tcp.ip = ::1\nlisteners.tcp = none", &[], &[(Web, "::1", 15_678)]);
    check(
        "web_amqp.ssl.ip = 127.0.0.1\nweb_amqp.ssl.port = 2\nlisteners.tcp = none",
        &[],
        &[(WebTls, "127.0.0.1", 2)],
    );
    check(
        "web_amqp.tcp.listener = 127.0.0.1:3",
        &["web_amqp.tcp.port=4"],
        &[(Amqp, "", 5672), (Web, "127.0.0.1", 4)],
    );
    check("management.tcp.ip = 127.0.0.1", &[], &[(Amqp, "", 5672), (Http, "127.0.0.1", 15_672)]);
    check("management.tcp.port = 7", &["management.tcp=none"], &[(Amqp, "", 5672)]);
}

#[test]
fn streams_and_websocket_are_served_where_their_ports_are_free_unless_something_else_is_said() {
    let check = |file: &str, expected: &[(ListenerKind, u16)]| {
        let found: Vec<_> =
            config(file).if_free.iter().map(|(kind, address)| (*kind, address.port)).collect();
        assert_eq!(found, expected, "{file}");
    };
    let (web, stream, http) =
        ((ListenerKind::Web, 15_678), (ListenerKind::Stream, 5552), (ListenerKind::Http, 15_672));
    let metrics = (ListenerKind::Prometheus, 15_692);
    check("", &[stream, web, http, metrics]);
    check("listeners.tcp = none", &[stream, web, http, metrics]);
    check("web_amqp.tcp = none", &[stream, http, metrics]);
    check("web_amqp.tcp.port = 1", &[stream, http, metrics]);
    check("web_amqp.ssl.port = 1", &[stream, web, http, metrics]);
    check("stream.listeners.tcp = none", &[web, http, metrics]);
    check("stream.listeners.tcp.1 = 5553\nstream.listeners.ssl.1 = 5551", &[web, http, metrics]);
    check("management.tcp = none", &[stream, web, metrics]);
    check("management.tcp.port = 1", &[stream, web, metrics]);
    check("management.tcp.ip = ::1", &[stream, web, metrics]);
    for file in ["prometheus.tcp = none", "prometheus.tcp.port = 1", "prometheus.tcp.ip = ::1"] {
        check(file, &[stream, web, http]);
    }
    assert_eq!(config("").network.web_origins, Some(Vec::new()));
    assert_eq!(config("web_amqp.allow_origins = all").network.web_origins, None);
}

#[test]
fn options_of_tls_and_websocket_are_taken_or_refused_with_a_remedy() {
    use network::{AlternativeKind, LoginFrom, TlsVersion};
    let all = config(
        "ssl_options.cacertfile = ca\nssl_options.certfile = c\nssl_options.keyfile = k\nssl_options.depth = 2\n\
         ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\nssl_options.versions.1 = tlsv1.3\n\
         ssl_options.ciphers.1 = TLS_AES_256_GCM_SHA384\nssl_options.honor_cipher_order = true\n\
         ssl_cert_login_from = subject_alt_name\nssl_cert_login_san_type = email\nssl_cert_login_san_index = 1\n\
         ssl_handshake_timeout = 7000\nweb_amqp.ssl.certfile = w\nweb_amqp.ws_path = /amqp\n\
         web_amqp.allow_origins.1 = https://ours.example\nweb_amqp.ws_opts.compress = false",
    )
    .network;
    assert_eq!((all.tls.verifies, all.tls.demands, all.tls.depth_max), (Some(true), Some(true), Some(2)));
    assert_eq!((all.tls.versions.as_slice(), all.tls.ciphers.len()), (&[TlsVersion::Tls13][..], 1));
    assert_eq!(
        (all.login.from, all.login.kind, all.login.index),
        (LoginFrom::Alternative, AlternativeKind::Email, 1)
    );
    assert_eq!((all.tls_handshake_ms, all.web_path.as_str(), all.web_compresses), (7000, "/amqp", false));
    assert_eq!(all.web_origins, Some(vec!["https://ours.example".to_owned()]));
    let both = all.web_tls.or(&all.tls);
    assert_eq!((both.certificate_file, both.key_file), (Some("w".into()), Some("k".into())));
    let check = |line: &str, expected: &str| {
        let error = error(line);
        assert!(error.contains(expected), "{line}: {error}");
    };
    check("ssl_options.versions.1 = tlsv1.1", "name tlsv1.2 or tlsv1.3");
    check("ssl_options.versions.1 = sslv3", "accepted values: tlsv1.2, tlsv1.3");
    check("ssl_options.crl_check = true", "this option is not served: remove it");
    check("ssl_options.client_renegotiation = true", "renegotiation is not served");
    let some = config("ssl_options.ciphers.1 = RC4\nssl_options.ciphers.2 = TLS_AES_256_GCM_SHA384");
    assert_eq!(some.network.tls.ciphers, [rustls::CipherSuite::TLS13_AES_256_GCM_SHA384]);
    assert!(some.warnings[0].contains("no cipher suite 'RC4' is known"), "{:?}", some.warnings);
    check("ssl_options.verify = maybe", "accepted values: verify_peer, verify_none");
    check("ssl_cert_login_from = serial", "accepted values: distinguished_name");
    check("web_amqp.ws_path = ws", "begins with /");
    check("web_amqp.allow_origins.1 = ours.example", "https://example.org:8443");
    check("web_amqp.tcp.port = 70000", "a whole number from 0 to 65535");
    check("web_amqp.tcp.ip = here", "an IP address");
    check("web_amqp.ws_opts.idle_timeout = 1", "not served");
}

#[test]
fn mechanisms_named_replace_the_usual_ones() {
    let check = |file: &str, settings: &[&str], expected: &[&str], anonymous: Option<&str>| {
        let config = load_from(file, "", &[], settings).expect("usable");
        assert_eq!(config.mechanisms, expected, "{file} {settings:?}");
        assert_eq!(config.anonymous_user.as_deref(), anonymous, "{file}");
    };
    check("", &[], &["PLAIN", "AMQPLAIN", "ANONYMOUS"], Some("guest"));
    check("auth_mechanisms.1 = EXTERNAL", &[], &["EXTERNAL"], Some("guest"));
    check(
        "auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN",
        &[],
        &["EXTERNAL", "PLAIN"],
        Some("guest"),
    );
    check("auth_mechanisms.1 = EXTERNAL", &["auth_mechanisms.1=PLAIN"], &["PLAIN"], Some("guest"));
    check("anonymous_login_user = none", &[], &["PLAIN", "AMQPLAIN", "ANONYMOUS"], None);
    check("anonymous_login_user = me", &[], &["PLAIN", "AMQPLAIN", "ANONYMOUS"], Some("me"));
    assert!(
        error("auth_mechanisms.1 = GSSAPI").contains("accepted values: PLAIN, AMQPLAIN, ANONYMOUS, EXTERNAL")
    );
}

#[test]
fn what_virtual_hosts_begin_with_comes_from_here() {
    let config = config(
        "default_queue_type = quorum\n\
         default_limits.vhosts.dev.pattern = ^dev\n\
         default_limits.vhosts.dev.max_queues = 5\n\
         default_policies.operator.cap.vhost_pattern = ^dev\n\
         default_policies.operator.cap.classic_queues.queue_version = 2",
    );
    let of = |name| config.vhost_defaults.of(name, &mut |password| PasswordHash::new(password, [1; SALT]));
    let (dev, other) = (of("dev"), of("/"));
    assert_eq!((dev.limits.queues_max, other.limits.queues_max), (Some(5), None));
    assert_eq!((dev.operator_policies.len(), other.operator_policies.len()), (1, 0));
    assert_eq!(other.queue_type.name(), "quorum");
    assert_eq!(
        error("default_policies.operator.cap.vhost_pattern = ^dev"),
        "etc/rabbitmq.conf:1: default_policies.operator.cap sets nothing for the queues it is for"
    );
}

#[test]
fn keys_reach_their_place() {
    let all = config(
        "vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.relative = 1.5\nloopback_users.guest = false\n\
         default_user = me\ndefault_pass = 'se#cret'\ndefault_vhost = v\ndefault_permissions.read = ^r\n\
         default_user_tags.administrator = false\ndefault_user_tags.monitoring = true\n\
         tcp_listen_options.sndbuf = 2048\ntcp_listen_options.recbuf = 4096\ntcp_listen_options.backlog = 4\n\
         handshake_timeout = 5000\nlog.console.level = warning\nleveret.shards = 3\nleveret.follow_queues = false\nleveret.logs = 9\n\
         leveret.user_connection_share = 0.25\nleveret.http_shares = false\n\
         leveret.test_sync_delay_us = 6000\nleveret.test_read_delay_us = 2000\nmax_message_size = 1000\nleveret.journal_file_bytes = 1MiB",
    );
    assert_eq!(all.memory_limit, Limit::Bytes(1_000_000_000));
    assert_eq!(all.disk_limit, Limit::Share(1.5));
    assert!(all.loopback_users.is_empty());
    let user = &all.default_user;
    assert_eq!((&*user.name, &*user.password, &*user.vhost, &*user.read), ("me", "se#cret", "v", "^r"));
    assert_eq!(user.tags, ["monitoring"]);
    assert_eq!(
        (all.socket.send_bytes, all.socket.receive_bytes, all.socket.backlog),
        (Some(2048), Some(4096), 4)
    );
    assert_eq!((all.handshake_timeout_ms, all.log.console.level), (5000, Some(Level::Warning)));
    assert_eq!((all.shards, all.logs, all.journal_file_bytes), (Some(3), Some(9), Some(1 << 20)));
    assert!(!all.follows_queues && config("").follows_queues);
    assert_eq!((all.user_connection_share, config("").user_connection_share), (0.25, 0.5));
    assert!(!all.http_shares && config("").http_shares);
    assert_eq!((all.test_sync_delay_us, all.test_read_delay_us), (6000, 2000));
    assert_eq!(all.message_bytes_max, 1000);
    assert_eq!(Limit::Share(0.5).of(1000), 500);
}

#[test]
fn the_environment_names_node_and_user() {
    let environment = [
        "RABBITMQ_NODENAME=hare",
        "RABBITMQ_DEFAULT_USER=u",
        "RABBITMQ_DEFAULT_PASS=p",
        "RABBITMQ_LOG=debug",
    ];
    let config = load_from("default_user = file", "", &environment, &[]).expect("usable");
    assert_eq!(
        (&*config.node_name, &*config.default_user.name, &*config.default_user.password),
        ("hare@hare", "u", "p")
    );
    assert_eq!(config.log.level, Some(Level::Debug));
    let foreign = load_from("", "", &["LEVERET_SERVICE_HOST=10.0.0.1", "RABBITMQ_LOGS=-", "HOME=x"], &[]);
    assert_eq!(foreign.expect("usable").warnings.len(), 1);
}

#[test]
fn advanced_terms_cap_credit() {
    let advanced = "[{rabbit, [{credit_flow_default_credit, {400, 200}}, {max_link_credit, 10},\n\
                    {loopback_users, []}]}].";
    let config = load_from("", advanced, &[], &[]).expect("usable");
    assert_eq!((config.credit.link, config.credit.incoming_window), (Some(10), None));
    assert!(config.loopback_users.is_empty());
    let expected =
        "etc/advanced.config:1: 'rabbit.credit_flow_default_credit' has no effect: nothing here is tuned so";
    assert_eq!(config.warnings, [expected]);
    let check = |advanced: &str, expected: &str| {
        assert_eq!(load_from("", advanced, &[], &[]).expect_err("unusable"), expected, "{advanced}");
    };
    check("[{rabbit,\n]}].", "etc/advanced.config:2: expected a term");
    check("[rabbit].", "etc/advanced.config: expected a list of {application, [{key, value}, ...]}");
    let value = "etc/advanced.config:1: rabbit.max_link_credit: '-1' is no value for 'leveret.max_link_credit'\n  \
                 accepted values: a whole number from 1 to 4294967295";
    check("[{rabbit, [{max_link_credit, -1}]}].", value);
}

/// A node that was told to serve one address alone, or TLS, does not serve others.
#[test]
fn older_words_for_the_http_listener_count() {
    let listeners = |lines: &str| load_from(lines, "", &[], &[]).expect(lines).listeners;
    let newer = listeners("management.tcp.port = 1\nmanagement.tcp.ip = 127.0.0.1\n");
    let older =
        "management.listener.port = 1\nmanagement.listener.ip = 127.0.0.1\nmanagement.listener.ssl = false\n";
    assert_eq!(listeners(older), newer);
    for (line, reason) in [
        ("management.listener.ssl = true", "HTTP over TLS is told by management.ssl.port"),
        ("management.listener.ssl_opts.certfile = /x", "HTTP over TLS is told by management.ssl"),
        ("management.restrictions.operator_policy_changes.disabled = true", "administrators may change"),
        ("management.oauth_enabled = true", "OAuth 2 is not served yet"),
    ] {
        let problem = load_from(line, "", &[], &[]).expect_err(line);
        assert!(problem.contains(reason), "{line}: {problem}");
    }
}

/// Settings as terms, and the same as lines of `rabbitmq.conf`.
#[test]
fn terms_count_as_the_keys_that_say_the_same() {
    let without = |config: Config| Config {
        settings: vec![],
        shown: vec![],
        files: vec![],
        warnings: vec![],
        ..config
    };
    let check = |term: &str, lines: &str| {
        let advanced = load_from("", &format!("[{term}]."), &[], &[]).expect(term);
        let plain = load_from(lines, "", &[], &[]).expect(lines);
        assert_eq!(without(advanced), without(plain), "{term}");
    };
    let rabbit = |terms: &str, lines: &str| check(&format!("{{rabbit, [{terms}]}}"), lines);
    rabbit(
        "{default_user, <<\"u\">>}, {default_pass, <<\"a##b\">>}",
        "default_user = u\ndefault_pass = 'a##b'",
    );
    rabbit(
        "{tcp_listeners, [5673, {\"127.0.0.1\", 5674}]}",
        "listeners.tcp.1 = 5673\nlisteners.tcp.2 = 127.0.0.1:5674",
    );
    rabbit("{tcp_listeners, []}, {ssl_listeners, [5671]}", "listeners.tcp = none\nlisteners.ssl.1 = 5671");
    rabbit(
        "{ssl_options, [{cacertfile, \"ca\"}, {verify, verify_peer}, {fail_if_no_peer_cert, true}, {versions, ['tlsv1.3']}]}",
        "ssl_options.cacertfile = ca\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n\
         ssl_options.versions.1 = tlsv1.3",
    );
    rabbit("{vm_memory_high_watermark, 0.4}", "vm_memory_high_watermark.relative = 0.4");
    rabbit("{vm_memory_high_watermark, {absolute, \"2GB\"}}", "vm_memory_high_watermark.absolute = 2GB");
    rabbit("{disk_free_limit, {mem_relative, 1.0}}", "disk_free_limit.relative = 1.0");
    rabbit("{disk_free_limit, 1000000}", "disk_free_limit.absolute = 1000000");
    rabbit("{consumer_timeout, undefined}", "consumer_timeout = 9223372036854775807");
    rabbit(
        "{default_permissions, [<<\"^c\">>, <<\"^w\">>, <<\"^r\">>]}",
        "default_permissions.configure = ^c\ndefault_permissions.write = ^w\ndefault_permissions.read = ^r",
    );
    rabbit(
        "{default_user_tags, [management]}",
        "default_user_tags.administrator = false\ndefault_user_tags.management = true",
    );
    rabbit(
        "{auth_mechanisms, ['EXTERNAL', 'PLAIN']}",
        "auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN",
    );
    rabbit("{auth_backends, [rabbit_auth_backend_internal]}", "auth_backends.1 = internal");
    rabbit(
        "{channel_max, 10}, {heartbeat, 580}, {max_message_size, 1000}",
        "channel_max = 10\nheartbeat = 580\nmax_message_size = 1000",
    );
    rabbit(
        "{loopback_users, [<<\"guest\">>, <<\"a.b\">>]}",
        "loopback_users.guest = true\nloopback_users.a.b = true",
    );
    rabbit(
        "{tcp_listen_options, [binary, {backlog, 7}, {linger, {true, 0}}]}",
        "tcp_listen_options.backlog = 7",
    );
    rabbit(
        "{log, [{console, [{enabled, false}, {level, debug}]}]}",
        "log.console = false\nlog.console.level = debug",
    );
    check(
        "{rabbitmq_management, [{listener, [{port, 1}, {ip, \"127.0.0.1\"}]}]}",
        "management.tcp.port = 1\nmanagement.tcp.ip = 127.0.0.1",
    );
    check(
        "{rabbitmq_management, [{listener, [{port, 1}, {ssl, true}, {ssl_opts, [{certfile, \"c\"}]}]}]}",
        "management.ssl.port = 1\nmanagement.ssl.certfile = c",
    );
    check("{rabbitmq_management, [{load_definitions, \"/x\"}]}", "management.load_definitions = /x");
    check("{rabbitmq_prometheus, [{tcp_config, [{port, 1}]}]}", "prometheus.tcp.port = 1");
    check(
        "{rabbitmq_stream, [{tcp_listeners, [1]}, {heartbeat, 7}]}",
        "stream.listeners.tcp.1 = 1\nstream.heartbeat = 7",
    );
    check("{kernel, [{inet_dist_listen_min, 1}]}, {mnesia, [{dump_log_write_threshold, 1}]}", "");
    // No line says it, and nothing of its kind has an effect.
    check("{rabbitmq_management, [{sample_retention_policies, [{global, [{60, 5}, {3600, 60}]}]}]}", "");
}

#[test]
fn terms_that_somebody_relies_on_are_not_passed_over() {
    let check = |term: &str, expected: &str| {
        let problem = load_from("", &format!("[{term}]."), &[], &[]).expect_err(term);
        assert!(problem.contains(expected), "{term}: {problem}");
    };
    let rabbit = |term: &str, expected: &str| check(&format!("{{rabbit, [{term}]}}"), expected);
    rabbit(
        "{auth_backends, [rabbit_auth_backend_ldap]}",
        "LDAP is not served yet; auth_backends.1 can be: internal",
    );
    rabbit(
        "{auth_backends, [{rabbit_auth_backend_ldap, internal}]}",
        "LDAP is not served yet; auth_backends.1.authn can be",
    );
    rabbit(
        "{auth_backends, [{internal, [rabbit_auth_backend_http]}]}",
        "authentication over HTTP is not served yet",
    );
    rabbit(
        "{cluster_nodes, {['rabbit@a', 'rabbit@b'], disc}}",
        "rabbit@hare would be alone, and rabbit@a with it",
    );
    rabbit(
        "{cluster_formation, [{peer_discovery_backend, rabbit_peer_discovery_k8s}]}",
        "no cluster is formed yet",
    );
    rabbit(
        "{password_hashing_module, rabbit_password_hashing_sha512}",
        "new passwords are hashed with salted SHA-256",
    );
    rabbit("{password_hashing_module, rot13}", "rabbit_password_hashing_sha256");
    rabbit("{no_such_key, 1}", "unknown key 'no_such_key'");
    rabbit("{proxy_protocol, true}", "the PROXY protocol is not served yet");
    check("{rabbitmq_mqtt, [{tcp_listeners, [1883]}]}", "MQTT is not served yet");
    check("{rabbitmq_web_stomp, [{tcp_config, [{port, 1}]}]}", "STOMP is not served yet");
    check("{rabbitmq_shovel, [{shovels, [{a, []}]}]}", "shovels are not served yet");
    check("{rabbitmq_mqtt, [{tcp_listeners, nothing}]}", "is no value");
    check("{no_such_application, [{a, 1}]}", "unknown application 'no_such_application'");
}

#[test]
fn terms_win_over_lines_and_come_from_other_places_as_well() {
    let ports = |config: Config| config.listeners.iter().map(|(_, address)| address.port).collect::<Vec<_>>();
    let advanced = "[{rabbit, [{tcp_listeners, [1]}, {heartbeat, 5}]}].";
    let both =
        load_from("listeners.tcp.default = 2\nlisteners.tcp.other = 3\nheartbeat = 9", advanced, &[], &[]);
    let both = both.expect("usable");
    assert_eq!(both.heartbeat_s, 5);
    assert_eq!(ports(both), [1]);
    let set = load_from("", advanced, &[], &["heartbeat=7"]).expect("usable");
    assert_eq!(set.heartbeat_s, 7);
    // A main file in the classic format, by its whole name and without the ending.
    for name in ["etc/old.config", "etc/old"] {
        let variable = format!("RABBITMQ_CONFIG_FILE={name}");
        let classic = load_from("", advanced, &[&variable], &[]).expect("usable");
        assert_eq!(
            (classic.heartbeat_s, classic.shown[0].from.as_str()),
            (5, "etc/old.config:1: rabbit.tcp_listeners")
        );
        assert_eq!(ports(classic), [1]);
    }
    let flags = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2 -rabbit heartbeat 11 default_pass <<\\\"x y\\\">> \
                 log [{console,[{level,error}]}] -kernel inet_dist_listen_min 1";
    let flagged = load_from("", "", &[flags], &[]).expect("usable");
    assert_eq!((flagged.heartbeat_s, &*flagged.default_user.password), (11, "x y"));
    assert_eq!((flagged.log.console.level, flagged.warnings.len()), (Some(Level::Error), 1));
    let ldap = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-rabbit auth_backends [rabbit_auth_backend_ldap]";
    assert!(load_from("", "", &[ldap], &[]).expect_err("refused").contains("LDAP is not served yet"));
    for plugins in [
        "RABBITMQ_ENABLED_PLUGINS=rabbitmq_management,rabbitmq_mqtt",
        "RABBITMQ_ENABLED_PLUGINS_FILE=etc/enabled_plugins",
    ] {
        let problem = load_from("", "", &[plugins], &[]).expect_err("refused");
        assert!(problem.contains("rabbitmq_mqtt cannot be used"), "{problem}");
    }
    let none = load_from("", "", &["RABBITMQ_ENABLED_PLUGINS_FILE=nowhere"], &[]).expect("usable");
    assert_eq!(none.warnings.len(), 1);
}

/// Publishers wait for the disk, and no number of files: a bound that nothing kept is no key.
#[test]
fn the_journal_is_bounded_by_the_disk_alone() {
    let refused = "'leveret.journal_files' cannot be used: the journal has the files it needs; disk_free_limit says from \
                   when on publishers wait";
    assert!(error("leveret.journal_files = 3").contains(refused), "{}", error("leveret.journal_files = 3"));
    let by_variable = load_from("", "", &["LEVERET_JOURNAL_FILES=3"], &[]).expect_err("refused");
    let by_word = load_from("", "", &[], &["leveret.journal_files=3"]).expect_err("refused");
    for problem in [by_variable, by_word] {
        assert!(problem.contains("disk_free_limit"), "{problem}");
    }
    assert_eq!(config("leveret.journal_file_bytes = 1MiB").journal_file_bytes, Some(1 << 20));
}

#[test]
fn bounds_of_zero_are_none() {
    let all = config("channel_max = 0\nheartbeat = 0\nframe_max = 0");
    assert_eq!((all.channel_max, all.heartbeat_s, all.frame_max), (0, 0, 1 << 30));
    assert_eq!(config("max_channels_per_connection = 0").channel_max, 0);
    assert_eq!(config("channel_max = 10000000").channel_max, 65_535);
    assert!(error("frame_max = 100").contains("0, or a whole number from 8192"));
    assert!(error("channel_max = -1").contains("a whole number from 0"));
}

#[test]
fn metrics_have_a_path() {
    assert_eq!(config("prometheus.path = /a/b").metrics_path, ["a", "b"]);
    assert!(config("").metrics_path.is_empty());
    for wrong in ["metrics", "/", "/a//b", "/a/"] {
        assert!(error(&format!("prometheus.path = {wrong}")).contains("a path such as /metrics"), "{wrong}");
    }
}

#[test]
fn encrypted_values_are_decrypted_wherever_they_and_their_passphrase_stand() {
    let value =
        "encrypted:ZD0qYC37J28lVH1cSMR7K7tzzkfbpAkch+rr9YWOJKK20hn1VDm569oKIrs3AFet3nB68KhqmQzepXW5RG6s9Q==";
    let line = format!("default_user = {value}");
    let check = |file: &str, advanced: &str, settings: &[&str]| {
        let config = load_from(file, advanced, &[], settings).expect(file);
        assert_eq!(config.default_user.name, "s3cret pass", "{file} {advanced}");
        let told = config.shown.iter().find(|told| told.key == "default_user").expect("told");
        assert_eq!(told.value, "********");
        assert!(config.settings.iter().all(|(_, value)| !value.contains("s3cret")), "{:?}", config.settings);
    };
    check(&format!("{line}\nconfig_entry_decoder.passphrase = mypassphrase"), "", &[]);
    check(&line, "[{rabbit, [{config_entry_decoder, [{passphrase, <<\"mypassphrase\">>}]}]}].", &[]);
    check(&line, "", &["config_entry_decoder.passphrase=mypassphrase"]);
    let tuple = format!("[{{rabbit, [{{default_user, {{encrypted, <<\"{}\">>}}}}]}}].", &value[10..]);
    check("", &tuple, &["config_entry_decoder.passphrase=mypassphrase"]);
    let file = "[{rabbit, [{config_entry_decoder, [{passphrase, {file, \"etc/pass\"}}]}]}].";
    check(&line, file, &[]);
    let refused = |advanced: &str, expected: &str| {
        let problem = load_from(&line, advanced, &[], &[]).expect_err(advanced);
        assert!(problem.contains(expected), "{problem}");
    };
    refused("[{rabbit, [{config_entry_decoder, [{passphrase, prompt}]}]}].", "nobody is there to be asked");
    refused("[{rabbit, [{config_entry_decoder, [{passphrase, <<\"x\">>}]}]}].", "cannot be decrypted");
    refused(
        "[{rabbit, [{config_entry_decoder, [{cipher, blowfish_cbc}]}]}].",
        "accepted values: aes_128_cbc",
    );
}

#[test]
fn levels_of_the_log_come_from_the_variable_as_well() {
    let words = load_from("", "", &["RABBITMQ_LOG=warning,+color,connection=debug"], &[]).expect("usable");
    assert_eq!((words.log.level, words.warnings.len()), (Some(Level::Warning), 2));
}

#[test]
fn guesses_have_a_bound_or_none() {
    let bounds = |text: &str| {
        let config = config(text);
        [config.guesses_per_account, config.guesses_per_address]
    };
    assert_eq!(bounds(""), [Some(1), Some(5)]);
    let text = "leveret.guesses_per_account = 3\nleveret.guesses_per_address = infinity";
    assert_eq!(bounds(text), [Some(3), None]);
    assert!(error("leveret.guesses_per_account = 0").contains("infinity, or a number above 0"));
    assert!(error("leveret.guesses_per_address = many").contains("infinity, or a number above 0"));
}

#[test]
fn memory_has_bounds_or_none() {
    let bounds = |text: &str| {
        let config = config(text);
        let shares = [config.user_memory_share, config.lone_user_memory_share, config.vhost_memory_share];
        (config.connection_memory_max, shares)
    };
    assert_eq!(bounds(""), (None, [Some(0.25), Some(0.75), None]));
    let text = "leveret.connection_memory_max = 8MiB\nleveret.user_memory_share = 0.1\n\
                leveret.lone_user_memory_share = 1\nleveret.vhost_memory_share = 0.5";
    assert_eq!(bounds(text), (Some(Some(8 << 20)), [Some(0.1), Some(1.0), Some(0.5)]));
    let text = "leveret.connection_memory_max = infinity\nleveret.user_memory_share = infinity\n\
                leveret.lone_user_memory_share = infinity\nleveret.vhost_memory_share = infinity";
    assert_eq!(bounds(text), (Some(None), [None; 3]));
    assert_eq!(config("").user_unread_max, Some(128 << 20));
    assert_eq!(config("leveret.user_unread_max = infinity").user_unread_max, None);
    assert!(error("leveret.connection_memory_max = 0").contains("infinity, or a number of bytes"));
    assert!(error("leveret.user_memory_share = 2").contains("infinity, or a number from 0.001 to 1"));
    let arguments = |text: &str| {
        let config = config(text);
        (config.arguments_max, config.arguments_bytes_max)
    };
    let text = "leveret.arguments_max = 9\nleveret.arguments_bytes_max = 1KiB";
    assert_eq!((arguments(""), arguments(text)), ((None, None), (Some(Some(9)), Some(Some(1024)))));
    let text = "leveret.arguments_max = infinity\nleveret.arguments_bytes_max = infinity";
    assert_eq!(arguments(text), (Some(None), Some(None)));
    let names = |text: &str| {
        let config = config(text);
        (config.topic_words_max, config.link_name_bytes_max)
    };
    let text = "leveret.topic_words_max = 9\nleveret.link_name_bytes_max = 1KiB";
    assert_eq!((names(""), names(text)), ((None, None), (Some(Some(9)), Some(Some(1024)))));
    let text = "leveret.topic_words_max = infinity\nleveret.link_name_bytes_max = infinity";
    assert_eq!(names(text), (Some(None), Some(None)));
    let filters = |text: &str| {
        let config = config(text);
        (config.exchange_filters_max, config.exchange_filters_bytes_max)
    };
    let text = "leveret.exchange_filters_max = 9\nleveret.exchange_filters_bytes_max = 1KiB";
    assert_eq!((filters(""), filters(text)), ((None, None), (Some(Some(9)), Some(Some(1024)))));
    let text = "leveret.exchange_filters_max = infinity\nleveret.exchange_filters_bytes_max = infinity";
    assert_eq!(filters(text), (Some(None), Some(None)));
    assert!(error("leveret.link_name_bytes_max = 0").contains("a number of bytes above 0"));
}

#[test]
fn new_passwords_are_hashed_as_is_said() {
    assert_eq!(config("").hashing, Hashing::Sha256);
    for (name, hashing) in Hashing::NAMES {
        assert_eq!(config(&format!("password_hashing_module = {name}")).hashing, hashing);
    }
    assert!(error("password_hashing_module = scrypt").contains("argon2id"));
}

const NODES: &str = "leveret.cluster.experimental = true
leveret.logs = 4
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = rabbit@hare
cluster_formation.classic_config.nodes.2 = rabbit@a
cluster_formation.classic_config.nodes.3 = rabbit@b
";

/// The settings of a cluster, with more of them.
fn clustered(more: &str, environment: &[&str], settings: &[&str]) -> Result<Config, String> {
    load_from(&format!("{NODES}{more}"), "", environment, settings)
}

#[test]
fn a_cluster_is_tried_where_all_of_it_is_said() {
    let of = |config: Result<Config, String>| config.and_then(|it| it.cluster.ok_or("alone".to_owned()));
    let cookie = |text: &str| ::cluster::lane::Cookie::new(text.as_bytes()).expect("a cookie");
    let more = "leveret.cluster.listener = 127.0.0.1:7\nleveret.cluster.address.1 = rabbit@a=10.0.0.1:8";
    let all = clustered(more, &["RABBITMQ_ERLANG_COOKIE=monster"], &[]).expect("usable");
    assert!(all.warnings.is_empty(), "{:?}", all.warnings);
    let cluster = all.cluster.as_deref().expect("tried");
    let hosts: Vec<String> = cluster.members.iter().map(|(name, host)| format!("{name} {host}")).collect();
    assert_eq!(hosts, ["rabbit@a 10.0.0.1:8", "rabbit@b b:25672", "rabbit@hare hare:25672"]);
    assert_eq!(cluster.listener, Address { ip: "127.0.0.1".parse().ok(), port: 7 });
    assert!(cluster.cookie == cookie("monster"));
    let told = format!("{:?} {:?} {all:?}", all.shown, all.settings);
    assert!(!told.contains("monster"), "{told}");
    let interface = "distribution.listener.interface = ::1\nleveret.cluster.cookie_file = etc/pass";
    let cluster = of(clustered(interface, &["RABBITMQ_DIST_PORT=9"], &[])).expect("usable");
    assert_eq!(cluster.listener, Address { ip: "::1".parse().ok(), port: 9 });
    assert!(cluster.cookie == cookie("mypassphrase"));
    let last = of(clustered("leveret.cluster.cookie = one", &[], &["leveret.cluster.cookie=two"]));
    assert!(last.expect("usable").cookie == cookie("two"));
    let check = |more: &str, expected: &str| {
        let error = clustered(more, &[], &[]).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    check("", "the secret that all nodes share");
    check("leveret.cluster.cookie_file = etc/nowhere", "etc/nowhere");
    check("leveret.cluster.cookie = m\nnodename = other", "none is this node");
    check("leveret.cluster.cookie = m\nleveret.cluster.listener = there", "a port, or an IP address");
    check("leveret.cluster.cookie = m\nleveret.cluster.address.1 = rabbit@a", "a node and its address");
    check("cluster_formation.peer_discovery_backend = dns", "classic_config alone");
}

#[test]
fn settings_of_a_cluster_that_is_not_tried_are_what_they_were() {
    let check = |file: &str, expected: &str| {
        let error = error(file);
        assert!(error.contains(expected) && !error.contains("monster"), "{error}");
    };
    check("leveret.cluster.cookie = monster", "is not for use");
    check("leveret.cluster.experimental = false\nleveret.cluster.listener = 7", "is not for use");
    check("cluster_formation.classic_config.nodes.1 = rabbit@other", "no cluster is formed yet");
    let alone = load_from(
        "distribution.listener.interface = 127.0.0.1\ndistribution.listener.port_range.min = 7",
        "",
        &["RABBITMQ_ERLANG_COOKIE=monster", "RABBITMQ_DIST_PORT=7"],
        &[],
    );
    let alone = alone.expect("usable");
    assert_eq!((alone.cluster.is_none(), alone.warnings.len()), (true, 4), "{:?}", alone.warnings);
}
