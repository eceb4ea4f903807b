//! What variables of the environment say: those of RabbitMQ and of its container image, and a variable for every key.

use super::network::Speech;
use super::syntax::{Error, Origin, Setting};
use super::{Draft, PORT, apply, keys};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Variables of RabbitMQ that are a key by another name.
const VARIABLES: &[(&str, &str)] = &[
    ("RABBITMQ_DEFAULT_USER", "default_user"),
    ("RABBITMQ_DEFAULT_PASS", "default_pass"),
    ("RABBITMQ_DEFAULT_VHOST", "default_vhost"),
    ("RABBITMQ_LOG", "log.level"),
];

/// Variables of RabbitMQ that do nothing here.
const VARIABLES_INERT: &[&str] = &[
    "RABBITMQ_CONF_ENV_FILE",
    "RABBITMQ_CONSOLE_LOG",
    "RABBITMQ_CTL_ERL_ARGS",
    "RABBITMQ_DISTRIBUTION_BUFFER_SIZE",
    "RABBITMQ_DIST_PORT",
    "RABBITMQ_ENABLED_PLUGINS",
    "RABBITMQ_ENABLED_PLUGINS_FILE",
    "RABBITMQ_ERLANG_COOKIE",
    "RABBITMQ_FEATURE_FLAGS",
    "RABBITMQ_GENERATED_CONFIG_DIR",
    "RABBITMQ_IO_THREAD_POOL_SIZE",
    "RABBITMQ_LOGS",
    "RABBITMQ_LOG_BASE",
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
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
    "RABBITMQ_SERVER_ERL_ARGS",
    "RABBITMQ_SERVER_START_ARGS",
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

/// Takes what the environment says.
///
/// # Errors
/// The first variable that cannot be used, and what would be right.
pub(super) fn apply_all(draft: &mut Draft, environment: &BTreeMap<String, String>) -> Result<(), Error> {
    for (variable, value) in environment {
        if value.is_empty() {
            continue;
        }
        let origin = Origin::Environment(variable.clone());
        let refused = VARIABLES_REFUSED.iter().find(|(name, _)| name == variable);
        if let Some((_, hint)) = refused {
            let message = "cannot be used".to_owned();
            return Err(Error {
                origin: Some(origin),
                marked: String::new(),
                message,
                hint: (*hint).to_owned(),
            });
        }
        if VARIABLES_INERT.contains(&variable.as_str()) {
            draft.config.warnings.push(format!("environment variable {variable} has no effect"));
            continue;
        }
        let key = match variable.strip_prefix("LEVERET_") {
            Some(name) => match keys::of_variable(name) {
                Some(key) => key,
                None => {
                    // Not an error: an orchestrator sets LEVERET_SERVICE_HOST for a service of that name.
                    let nearest = keys::nearest(&name.to_ascii_lowercase());
                    let warning = format!(
                        "environment variable {variable} is no known key; the nearest is '{nearest}'"
                    );
                    draft.config.warnings.push(warning);
                    continue;
                }
            },
            None => match VARIABLES.iter().find(|(name, _)| name == variable) {
                Some((_, key)) => (*key).to_owned(),
                None => continue,
            },
        };
        apply(draft, &[Setting { key, value: value.clone(), origin }])?;
    }
    if let Some(name) = environment.get("RABBITMQ_NODENAME").filter(|name| !name.is_empty()) {
        draft.config.name_node(name);
    }
    draft.config.pid_file = environment.get("RABBITMQ_PID_FILE").map(PathBuf::from);
    apply_address(draft, environment)
}

/// `RABBITMQ_NODE_IP_ADDRESS` and `RABBITMQ_NODE_PORT` make one listener, if no key made any.
fn apply_address(draft: &mut Draft, environment: &BTreeMap<String, String>) -> Result<(), Error> {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty() && *value != "auto");
    let (ip, port) = (given("RABBITMQ_NODE_IP_ADDRESS"), given("RABBITMQ_NODE_PORT"));
    let is_named = draft.closed.contains_key(&Speech::Amqp)
        || draft.listeners.keys().any(|(speech, _)| *speech == Speech::Amqp);
    if (ip.is_none() && port.is_none()) || is_named {
        return Ok(());
    }
    let port = port.cloned().unwrap_or_else(|| PORT.to_string());
    let (variable, value) = match ip {
        Some(ip) => ("RABBITMQ_NODE_IP_ADDRESS", format!("{ip}:{port}")),
        None => ("RABBITMQ_NODE_PORT", port),
    };
    let origin = Origin::Environment(variable.to_owned());
    apply(draft, &[Setting { key: "listeners.tcp.default".into(), value, origin }])
}
