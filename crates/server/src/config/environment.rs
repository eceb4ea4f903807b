//! Settings from variables of the environment: those of RabbitMQ and of its container image, and a variable for every
//! key.

use super::advanced::{self, Step};
use super::cluster;
use super::draft::Draft;
use super::network::ListenerKind;
use super::syntax::{Error, Fault, Origin, Setting};
use super::{PORT, lookup, terms};
use base::rabbitmq::is_plugin;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Variables of RabbitMQ that are a key by another name.
const VARIABLES: &[(&str, &str)] = &[
    ("RABBITMQ_DEFAULT_USER", "default_user"),
    ("RABBITMQ_DEFAULT_PASS", "default_pass"),
    ("RABBITMQ_DEFAULT_VHOST", "default_vhost"),
    ("RABBITMQ_LOG_BASE", "log.dir"),
];

/// Variables that hold flags of the Erlang runtime, among which `-APPLICATION KEY TERM` are settings.
const VARIABLES_FLAGS: &[&str] =
    &["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "RABBITMQ_SERVER_ERL_ARGS", "RABBITMQ_SERVER_START_ARGS"];

/// Plugins beside those of the broker that nobody relies on: parts that others of RabbitMQ's stand on, and ways of finding
/// other nodes, which do so only where `cluster_formation.peer_discovery_backend` names them.
const PLUGINS_NEEDLESS: &[&str] = &[
    "accept",
    "amqp10_client",
    "amqp_client",
    "cowboy",
    "cowlib",
    "gun",
    "oauth2_client",
    "prometheus",
    "rabbitmq_aws",
    "rabbitmq_peer_discovery_aws",
    "rabbitmq_peer_discovery_common",
    "rabbitmq_peer_discovery_consul",
    "rabbitmq_peer_discovery_etcd",
    "rabbitmq_peer_discovery_k8s",
    "rabbitmq_stream_common",
    "rabbitmq_top",
    "rabbitmq_web_dispatch",
];

/// Variables of RabbitMQ that do nothing here.
const VARIABLES_INERT: &[&str] = &[
    "RABBITMQ_CONF_ENV_FILE",
    "RABBITMQ_CONSOLE_LOG",
    "RABBITMQ_CTL_ERL_ARGS",
    "RABBITMQ_DISTRIBUTION_BUFFER_SIZE",
    "RABBITMQ_DIST_PORT",
    "RABBITMQ_ERLANG_COOKIE",
    "RABBITMQ_FEATURE_FLAGS",
    "RABBITMQ_GENERATED_CONFIG_DIR",
    "RABBITMQ_IO_THREAD_POOL_SIZE",
    "RABBITMQ_MAX_NUMBER_OF_ATOMS",
    "RABBITMQ_MAX_NUMBER_OF_PROCESSES",
    "RABBITMQ_MNESIA_BASE",
    "RABBITMQ_MNESIA_DIR",
    "RABBITMQ_MOTD_FILE",
    "RABBITMQ_PLUGINS_DIR",
    "RABBITMQ_PLUGINS_EXPAND_DIR",
    "RABBITMQ_QUORUM_DIR",
    "RABBITMQ_SCHEDULER_BIND_TYPE",
    "RABBITMQ_SCHEMA_DIR",
    "RABBITMQ_SERVICENAME",
    "RABBITMQ_STREAM_DIR",
    "RABBITMQ_USE_LONGNAME",
];

/// Variables that older images took and newer ones refuse, because somebody relies on them in vain.
const VARIABLES_REFUSED: &[(&str, &str)] = &[
    ("RABBITMQ_DEFAULT_PASS_FILE", "use default_pass in a configuration file"),
    ("RABBITMQ_DEFAULT_USER_FILE", "use default_user in a configuration file"),
    ("RABBITMQ_MANAGEMENT_SSL_CACERTFILE", "use management.ssl.cacertfile"),
    ("RABBITMQ_MANAGEMENT_SSL_CERTFILE", "use management.ssl.certfile"),
    ("RABBITMQ_MANAGEMENT_SSL_KEYFILE", "use management.ssl.keyfile"),
    ("RABBITMQ_SSL_CACERTFILE", "use ssl_options.cacertfile"),
    ("RABBITMQ_SSL_CERTFILE", "use ssl_options.certfile"),
    ("RABBITMQ_SSL_FAIL_IF_NO_PEER_CERT", "use ssl_options.fail_if_no_peer_cert"),
    ("RABBITMQ_SSL_KEYFILE", "use ssl_options.keyfile"),
    ("RABBITMQ_SSL_VERIFY", "use ssl_options.verify"),
    ("RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "use vm_memory_high_watermark.relative"),
];

/// The steps of the environment.
pub(super) fn steps(environment: &BTreeMap<String, String>) -> Vec<Step> {
    let said = environment.iter().filter(|(_, value)| !value.is_empty());
    said.flat_map(|(variable, value)| step(variable, value)).collect()
}

/// Variables of RabbitMQ about other nodes, which do something only where clusters are tried, and the key of each.
const VARIABLES_OF_NODES: &[(&str, &str)] = &[
    ("RABBITMQ_ERLANG_COOKIE", cluster::COOKIE),
    ("RABBITMQ_DIST_PORT", "distribution.listener.port_range.min"),
];

/// Whether a step says that one of these variables does nothing.
pub(super) fn is_of_nodes(step: &Step) -> bool {
    let is_named = |what: &str| VARIABLES_OF_NODES.iter().any(|(variable, _)| what == passed_over(variable));
    matches!(step, Step::PassedOver { what, .. } if is_named(what))
}

/// The steps of these variables.
pub(super) fn steps_of_nodes(environment: &BTreeMap<String, String>) -> Vec<Step> {
    let said = VARIABLES_OF_NODES.iter().filter_map(|(variable, key)| {
        let value = environment.get(*variable).filter(|value| !value.is_empty())?;
        let origin = Origin::Environment((*variable).to_owned());
        Some(Step::Set(Setting::new((*key).to_owned(), value.clone(), origin)))
    });
    said.collect()
}

/// A variable, as it is named.
fn passed_over(variable: &str) -> String {
    format!("environment variable {variable}")
}

fn step(variable: &str, value: &str) -> Vec<Step> {
    let origin = Origin::Environment(variable.to_owned());
    let set = |key: String, value: &str| Step::Set(Setting::new(key, value.to_owned(), origin.clone()));
    let fail = |message: String, hint: &str| {
        let (origin, marked, hint) = (Some(origin.clone()), String::new(), hint.to_owned());
        Step::Fail(Error { fault: Fault::Refused, origin, marked, message, hint })
    };
    let what = passed_over(variable);
    if let Some((_, hint)) = VARIABLES_REFUSED.iter().find(|(name, _)| *name == variable) {
        return vec![fail("cannot be used".into(), hint)];
    }
    if VARIABLES_INERT.contains(&variable) {
        let why = "it tunes how RabbitMQ is started, or the Erlang runtime".to_owned();
        return vec![Step::PassedOver { what, why }];
    }
    if VARIABLES_FLAGS.contains(&variable) {
        return flags(&origin, &what, value);
    }
    if let Some(name) = variable.strip_prefix("LEVERET_") {
        return match lookup::of_variable(name) {
            Some(key) => vec![set(key, value)],
            None => {
                // Not an error: an orchestrator sets LEVERET_SERVICE_HOST for a service of that name.
                let nearest = lookup::nearest(&name.to_ascii_lowercase());
                vec![Step::Note(format!("{what} is no known key; the nearest is '{nearest}'"))]
            }
        };
    }
    match variable {
        // The console is what there is anyway.
        "RABBITMQ_LOGS" if value == "-" => Vec::new(),
        "RABBITMQ_LOGS" => vec![set("log.file".into(), value)],
        "RABBITMQ_LOG" => value.split(',').flat_map(|word| log_word(&set, &what, word.trim())).collect(),
        "RABBITMQ_ENABLED_PLUGINS" => {
            plugins(|_| origin.clone(), value.split([',', ' '])).into_iter().collect()
        }
        _ => match VARIABLES.iter().find(|(name, _)| *name == variable) {
            Some((_, key)) => vec![set((*key).to_owned(), value)],
            None => Vec::new(),
        },
    }
}

/// The step that enabling these plugins comes to; `origin` tells where a name of them stands. None in a file that enables only what
/// is served.
pub(super) fn plugins<'a>(
    origin: impl Fn(&str) -> Origin,
    names: impl Iterator<Item = &'a str>,
) -> Option<Step> {
    let is_absent = |name: &&str| !is_plugin(name) && !PLUGINS_NEEDLESS.contains(name) && !name.is_empty();
    let absent: Vec<&str> = names.filter(is_absent).collect();
    let origin = origin(absent.first().copied().unwrap_or_default());
    if absent.is_empty() {
        return match origin {
            Origin::Environment(variable) => Some(Step::PassedOver {
                what: format!("environment variable {variable}"),
                why: "what is served is always enabled".into(),
            }),
            _ => None,
        };
    }
    Some(Step::Fail(Error {
        fault: Fault::Refused,
        origin: Some(origin),
        marked: String::new(),
        message: format!("{} cannot be used: not served yet", absent.join(", ")),
        hint: "remove it to start".to_owned(),
    }))
}

/// `debug`, `connection=warning`, `+color`, `+json`.
fn log_word(set: &impl Fn(String, &str) -> Step, what: &str, word: &str) -> Vec<Step> {
    match word.split_once('=') {
        Some((category, level)) => vec![set(format!("log.{category}.level"), level)],
        None => match word {
            "+json" => vec![set("log.console.formatter".into(), "json")],
            "-json" => vec![set("log.console.formatter".into(), "plaintext")],
            "+color" | "-color" => {
                vec![Step::PassedOver {
                    what: format!("{what}: {word}"),
                    why: "lines have no colours".into(),
                }]
            }
            level => vec![set("log.level".into(), level)],
        },
    }
}

/// Settings among flags of the Erlang runtime: `-APPLICATION KEY TERM KEY TERM ...`; other flags tune the runtime.
fn flags(origin: &Origin, what: &str, text: &str) -> Vec<Step> {
    let mut words = flag_words(text).into_iter().peekable();
    let mut steps = Vec::new();
    let mut has_others = false;
    while let Some(word) = words.next() {
        let Some(application) = word.strip_prefix('-').filter(|name| is_application(name)) else {
            has_others = true;
            continue;
        };
        while let Some(key) = words.next_if(|word| !word.starts_with(['-', '+'])) {
            let place = |_: String| origin.clone();
            match words.next().map(|term| terms::read(&format!("{term}."))) {
                Some(Ok(value)) => steps.extend(advanced::meaning(&place, application, &key, &value)),
                _ => {
                    let message = format!("the value of '{application}.{key}' is no term");
                    let (marked, hint) = (String::new(), String::new());
                    let origin = Some(origin.clone());
                    steps.push(Step::Fail(Error { fault: Fault::Refused, origin, marked, message, hint }));
                }
            }
        }
    }
    if has_others {
        let what = format!("{what}, flags of the Erlang runtime");
        steps.push(Step::PassedOver { what, why: "it is not here".into() });
    }
    steps
}

fn is_application(name: &str) -> bool {
    name == "rabbit" || name.starts_with("rabbitmq_")
}

/// Words between spaces that are in no brackets or quotes; a backslash, which a shell was to take away, is left out.
fn flag_words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut depth, mut is_quoted) = (0u32, false);
    for c in text.chars() {
        match c {
            '\\' | '\'' => continue,
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            c if c.is_whitespace() && depth == 0 && !is_quoted => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Applies variables that are no key, or depend on other sources.
pub(super) fn apply_rest(draft: &mut Draft, environment: &BTreeMap<String, String>) {
    name_node(draft, environment);
    draft.config.pid_file = environment.get("RABBITMQ_PID_FILE").map(PathBuf::from);
    apply_address(draft, environment);
}

/// `RABBITMQ_NODENAME`.
pub(super) fn name_node(draft: &mut Draft, environment: &BTreeMap<String, String>) {
    if let Some(name) = environment.get("RABBITMQ_NODENAME").filter(|name| !name.is_empty()) {
        draft.config.name_node(name);
    }
}

/// `RABBITMQ_NODE_IP_ADDRESS` and `RABBITMQ_NODE_PORT` make one listener, if no key made any.
fn apply_address(draft: &mut Draft, environment: &BTreeMap<String, String>) {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty() && *value != "auto");
    let (ip, port) = (given("RABBITMQ_NODE_IP_ADDRESS"), given("RABBITMQ_NODE_PORT"));
    if (ip.is_none() && port.is_none()) || draft.is_named(ListenerKind::Amqp) {
        return;
    }
    let port = port.cloned().unwrap_or_else(|| PORT.to_string());
    let (variable, value) = match ip {
        Some(ip) => ("RABBITMQ_NODE_IP_ADDRESS", format!("{ip}:{port}")),
        None => ("RABBITMQ_NODE_PORT", port),
    };
    let origin = Origin::Environment(variable.to_owned());
    draft.apply(&Setting::new("listeners.tcp.default".into(), value, origin));
}
