//! Every answer to settings that have no effect or cannot be used, with their places.

use super::*;

#[test]
fn what_has_no_effect_is_said() {
    let config = config("mqtt.vhost = x\nkernel.inet_dist_listen_min = 1\ntcp_listen_options.buffer = 5");
    assert_eq!(config.warnings.len(), 3);
    assert!(config.warnings[0].contains("'mqtt.vhost' has no effect: MQTT is not"), "{:?}", config.warnings);
}

/// Each complaint about a key begins with the place of the key.
#[test]
fn every_complaint_about_a_key_has_its_place() {
    let told = |file: &str, advanced: &str, environment: &[&str], settings: &[&str]| {
        let report = load_all(file, advanced, environment, settings).to_string();
        report.lines().next().expect("a line").split_once(": ").expect("a complaint").1.to_owned()
    };
    let file = |text: &str, expected: &str| {
        let line = told(text, "", &[], &[]);
        assert!(line.starts_with(&format!("etc/rabbitmq.conf:{expected}")), "{text}: {line}");
    };
    for (text, line) in [
        ("mqtt.vhost = x", 1),
        ("\n\nnet_ticktime = 60", 3),
        ("\nlog.exchange = true", 2),
        ("\nssl_options.ciphers.1 = RC4", 2),
        ("# note\nheartbeet = 1", 2),
        ("\nheartbeat = x", 2),
        ("\nproxy_protocol = true", 2),
        ("\ndefault_pass = encrypted:abc", 2),
        ("\nhello", 2),
        ("\nx = $(NONE)", 2),
        ("\ndefault_policies.operator.a.queue_pattern = ^a", 2),
        ("\ncluster_formation.classic_config.nodes.1 = rabbit@b", 2),
    ] {
        file(text, &format!("{line}: "));
    }
    let terms = |term: &str, expected: &str| {
        let line = told("", &format!("%% head\n[{{rabbit, [{{heartbeat, 1}},\n  {term}]}}]."), &[], &[]);
        assert!(line.starts_with(&format!("etc/advanced.config:3: {expected}")), "{term}: {line}");
    };
    terms("{credit_flow_default_credit, {400, 200}}", "'rabbit.credit_flow_default_credit' has no effect");
    terms("{collect_statistics, fine}", "rabbit.collect_statistics: configuration key");
    terms("{no_such_key, 1}", "rabbit.no_such_key: unknown key");
    terms("{tcp_listeners, nothing}", "rabbit.tcp_listeners: ");
    let bare = told("", "%\n[{rabbit,\n [nothing]}].", &[], &[]);
    assert!(bare.starts_with("etc/advanced.config:2: expected {key, value}"), "{bare}");
    let variable = |word: &str| {
        let (line, (name, _)) = (told("", "", &[word], &[]), word.split_once('=').expect("a value"));
        assert!(line.starts_with(&format!("environment variable {name}")), "{word}: {line}");
    };
    for word in [
        "LEVERET_MQTT_VHOST=x",
        "LEVERET_HEARTBEAT=x",
        "LEVERET_NO_SUCH_KEY=x",
        "RABBITMQ_DIST_PORT=1",
        "RABBITMQ_NODE_PORT=x",
        "RABBITMQ_DEFAULT_PASS_FILE=x",
        "RABBITMQ_CONFIG_FILES=nowhere",
        "RABBITMQ_ENABLED_PLUGINS=rabbitmq_mqtt",
        "RABBITMQ_SERVER_ERL_ARGS=-rabbit heartbeat x",
        "RABBITMQ_SERVER_ERL_ARGS=-rabbit no_such_key 1",
        "RABBITMQ_SERVER_ERL_ARGS=-rabbit credit_flow_default_credit 1",
    ] {
        variable(word);
    }
    for word in ["mqtt.vhost=x", "heartbeet=1", "heartbeat=x", "default_pass=encrypted:abc"] {
        let (line, (key, _)) = (told("", "", &[], &[word]), word.split_once('=').expect("a value"));
        assert!(line.starts_with(&format!("--set {key}: ")), "{word}: {line}");
    }
    let folder = told("", "", &["RABBITMQ_CONFIG_FILES=conf.d"], &[]);
    assert!(folder.starts_with("conf.d/20.conf:2: configuration key"), "{folder}");
}

/// Complaints that come once all is read, as of a file that is not there.
#[test]
fn later_complaints_find_the_place_of_their_key() {
    let config = load_from(
        "ssl_options.certfile = a.pem\nssl_options.certfile = b.pem\nssl_options.ciphers.1 = TLS_AES_128_GCM_SHA256",
        "",
        &["LEVERET_LISTENERS_SSL_1=5671"],
        &["ssl_options.keyfile=k.pem"],
    );
    let config = config.expect("usable");
    let check = |why: &str, expected: &str| {
        assert_eq!(config.placed(why, &["listeners.ssl"]), format!("{expected}: {why}"));
    };
    check("ssl_options.certfile b.pem: not found", "etc/rabbitmq.conf:2");
    check("none of ssl_options.ciphers is known: known are", "etc/rabbitmq.conf:3");
    check("ssl_options.keyfile k.pem: not found", "--set ssl_options.keyfile");
    check("a TLS listener needs others", "environment variable LEVERET_LISTENERS_SSL_1");
    assert_eq!(config.placed("a.b is wrong", &["c"]), "a.b is wrong");
}

#[test]
fn unusable_settings_are_named_with_place_and_remedy() {
    let check = |file: &str, expected: &str| assert_eq!(error(file), expected);
    check(
        "\nheartbeet = 60",
        "etc/rabbitmq.conf:2: unknown key 'heartbeet'\n  heartbeet = 60\n  ^^^^^^^^^\n  the nearest known key is 'heartbeat'",
    );
    check(
        "log.console = trues",
        "etc/rabbitmq.conf:1: 'trues' is no value for 'log.console'\n  log.console = trues\n                ^^^^^\n  accepted values: true, false",
    );
    check(
        "tcp_listen_options.nodelay = false",
        "etc/rabbitmq.conf:1: 'false' is no value for 'tcp_listen_options.nodelay'\n  tcp_listen_options.nodelay = false\n                               ^^^^^\n  accepted value: true (small messages would wait for large ones)",
    );
    assert!(error("default_pass = encrypted:abc").contains("config_entry_decoder.passphrase is not set"));
    let set = load_from("", "", &[], &["heartbeet=1"]).expect_err("unknown");
    assert_eq!(set, "--set heartbeet: unknown key 'heartbeet'\n  the nearest known key is 'heartbeat'");
    let variable = load_from("", "", &["LEVERET_HEARTBEAT=x"], &[]).expect_err("no number");
    assert!(variable.starts_with("environment variable LEVERET_HEARTBEAT: 'x' is no value"), "{variable}");
    let refused = load_from("", "", &["RABBITMQ_DEFAULT_PASS_FILE=x"], &[]).expect_err("refused");
    assert!(refused.contains("default_pass"), "{refused}");
}

/// A backend that is named is one complaint; the settings of one that is not are one warning, wherever they stand.
#[test]
fn settings_of_another_authentication_backend_are_told_once() {
    let file = "auth_ldap.servers.1 = a\nauth_ldap.port = 389\nauth_http.user_path = http://u\n";
    let terms = "[{rabbitmq_auth_backend_ldap, [{vhost_access_query, {in_group, \"ou=a\"}}]}].";
    let told = load_from(file, terms, &["LEVERET_AUTH_LDAP_TIMEOUT=1"], &[]).expect("usable").warnings;
    assert_eq!(told.len(), 2, "{told:?}");
    let begin = "etc/rabbitmq.conf:1: 4 settings of auth_ldap.*, of which this is the first, have no effect: LDAP is not \
                 served yet, and auth_backends does not name it";
    assert!(told[0].starts_with(begin), "{told:?}");
    assert!(told[1].starts_with("etc/rabbitmq.conf:3: a setting of auth_http.* has no effect"), "{told:?}");
    let loaded = load_all(&format!("{file}auth_backends.1 = ldap"), terms, &[], &[]);
    assert_eq!((loaded.problems.len(), loaded.config.warnings.len(), loaded.inert), (1, 1, 4));
    let cached = load_all(
        "auth_backends.1 = cache\nauth_cache.cached_backend = http\nauth_http.user_path = u",
        "",
        &[],
        &[],
    );
    assert_eq!((cached.problems.len(), cached.config.warnings.len(), cached.inert), (1, 0, 2));
}

/// As an operator of clusters writes it for one replica.
#[test]
fn a_node_that_is_to_be_alone_has_nobody_to_discover() {
    let file =
        "cluster_formation.peer_discovery_backend = k8s\ncluster_formation.k8s.host = kubernetes.default\n";
    let hint = |hint: &str| format!("{file}cluster_formation.target_cluster_size_hint = {hint}\n");
    let told = config(&hint("1")).warnings;
    assert!(told[0].contains("there is nothing to discover") && told.len() == 3, "{told:?}");
    assert!(error(&hint("2")).contains("target_cluster_size_hint = 2' cannot be used"));
    assert!(error(file).contains("or any with cluster_formation.target_cluster_size_hint = 1"));
    let later = load_from(&hint("3"), "", &[], &["cluster_formation.target_cluster_size_hint=1"]);
    assert_eq!(later.expect("usable").warnings.len(), 4);
    load_from(&hint("1"), "", &[], &["cluster_formation.target_cluster_size_hint=3"]).expect_err("refused");
    let plugins = "RABBITMQ_ENABLED_PLUGINS=rabbitmq_peer_discovery_k8s,rabbitmq_management";
    load_from(&hint("1"), "", &[plugins], &[]).expect("usable");
}

#[test]
fn a_cluster_is_refused_and_what_forms_none_is_not() {
    let refused =
        |line: &str| assert!(error(line).contains("no cluster is formed yet"), "{line}: {}", error(line));
    let taken = |line: &str| assert_eq!(config(line).warnings.len(), 1, "{line}");
    refused("cluster_formation.peer_discovery_backend = k8s");
    refused("cluster_formation.peer_discovery_backend = rabbit_peer_discovery_consul");
    refused("cluster_formation.peer_discovery_backend = etcd");
    refused("cluster_formation.classic_config.nodes.1 = rabbit@other");
    refused("cluster_formation.target_cluster_size_hint = 3");
    taken("cluster_formation.peer_discovery_backend = classic_config");
    taken("cluster_formation.classic_config.nodes.1 = rabbit@hare");
    taken("cluster_formation.node_cleanup.interval = 10");
    taken("cluster_formation.target_cluster_size_hint = 1");
    taken("cluster_formation.k8s.host = kubernetes.default.svc.cluster.local");
    taken("cluster_formation.consul.host = consul");
    let listeners = |line: &str, why: &str| assert!(error(line).contains(why), "{line}: {}", error(line));
    listeners("mqtt.listeners.tcp.default = 1883", "MQTT is not served yet");
    listeners("mqtt.listeners.ssl.default = 8883", "MQTT is not served yet");
    listeners("stomp.listeners.tcp.1 = 61613", "STOMP is not served yet");
    listeners("web_mqtt.tcp.port = 15675", "MQTT is not served yet");
    listeners("web_stomp.ssl.port = 15673", "STOMP is not served yet");
    for line in [
        "mqtt.listeners.tcp = none",
        "mqtt.exchange = amq.topic",
        "web_stomp.tcp = none",
        "stomp.default_user = u",
    ] {
        taken(line);
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let file = "heartbeat = 10\nmqtt.vhost = x\nheartbeet = 1\nauth_backends.1 = ldap\nnot a setting\nchannel_max = 5\n\
                log.console = maybe\ndefault_pass = 'x\n";
    let loaded = load_all(file, "[{rabbit, [{cluster_nodes, {['rabbit@b'], disc}}]}].", &[], &["no.key=1"]);
    let report = loaded.to_string();
    let begins: Vec<&str> = report.lines().filter(|line| !line.starts_with(' ')).collect();
    let expected = [
        "warning: etc/rabbitmq.conf:2: configuration key 'mqtt.vhost' has no effect: MQTT is not served yet",
        "unknown: etc/rabbitmq.conf:3: unknown key 'heartbeet'",
        "refused: etc/rabbitmq.conf:4: 'auth_backends.1 = ldap' cannot be used: LDAP is not served yet; auth_backends.1 can be: internal",
        "refused: etc/rabbitmq.conf:5: not a setting",
        "refused: etc/rabbitmq.conf:7: 'maybe' is no value for 'log.console'",
        "refused: etc/rabbitmq.conf:8: the closing quote is missing",
        "refused: etc/advanced.config:1: rabbit.cluster_nodes: 'cluster_formation.classic_config.nodes.1 = rabbit@b' cannot be used: \
         no cluster is formed yet: rabbit@hare would be alone, and rabbit@b with it",
        "unknown: --set no.key: unknown key 'no.key'",
        "the configuration cannot be used: served 2, without effect 1, refused 5, unknown 2 (etc/rabbitmq.conf, etc/advanced.config)",
    ];
    assert_eq!(begins, expected);
    let good = load_all("heartbeat = 10\n", "", &[], &[]).to_string();
    let expected =
        "the configuration can be used: served 1, without effect 0, refused 0, unknown 0 (etc/rabbitmq.conf)";
    assert_eq!(good, expected);
}
