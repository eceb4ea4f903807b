//! Settings in Erlang's format, from `advanced.config`, from a main file in the classic format and from the flags of a
//! starter: each becomes the key of `rabbitmq.conf` that says the same, and counts as that.
//!
//! A setting for which there is no key is refused, unless it is known to do nothing here: a setting somebody relies on
//! is not passed over.

use super::backends::Backend;
use super::keys::Standing;
use super::load::nowhere;
use super::lookup;
use super::syntax::{Error, Fault, Origin, Setting};
use super::terms::{self, Term};
use std::path::Path;
use std::sync::Arc;

/// The effect of one setting.
pub enum Step {
    /// It is taken.
    Set(Setting),
    /// A list begins anew, and settings of its items follow: items of earlier sources do not count.
    Forget(String),
    /// It does nothing here.
    PassedOver {
        /// As it was written.
        what: String,
        /// Why that harms nobody.
        why: String,
    },
    /// It tunes an authentication backend that is not there.
    Tunes {
        /// The backend.
        backend: Backend,
        /// Where it was written.
        origin: Origin,
    },
    /// A line for the log.
    Note(String),
    /// It cannot be used.
    Fail(Error),
}

/// Applications whose settings are keys of `rabbitmq.conf` that begin so.
const PREFIXES: &[(&str, &str)] = &[
    ("rabbit", ""),
    ("rabbitmq_management", "management."),
    ("rabbitmq_management_agent", "management_agent."),
    ("rabbitmq_prometheus", "prometheus."),
    ("rabbitmq_stream", "stream."),
    ("rabbitmq_mqtt", "mqtt."),
    ("rabbitmq_stomp", "stomp."),
    ("rabbitmq_web_mqtt", "web_mqtt."),
    ("rabbitmq_web_stomp", "web_stomp."),
    ("rabbitmq_web_amqp", "web_amqp."),
    ("rabbitmq_auth_backend_ldap", "auth_ldap."),
    ("rabbitmq_auth_backend_oauth2", "auth_oauth2."),
    ("rabbitmq_auth_backend_http", "auth_http."),
    ("rabbitmq_auth_backend_cache", "auth_cache."),
    ("rabbitmq_shovel", "shovel."),
    ("rabbitmq_federation", "federation."),
    ("rabbitmq_event_exchange", "event_exchange."),
    ("rabbitmq_trust_store", "trust_store."),
    ("rabbitmq_tracing", "tracing."),
    ("rabbitmq_web_dispatch", "http_dispatch."),
];

/// Applications of the Erlang runtime, of libraries, and of what a single node has no use for.
const APPLICATIONS_INERT: &[&str] = &[
    "amqp10_client",
    "amqp_client",
    "aten",
    "autocluster",
    "cowboy",
    "credentials_obfuscation",
    "gen_batch_server",
    "inets",
    "kernel",
    "khepri",
    "lager",
    "mnesia",
    "os_mon",
    "osiris",
    "prometheus",
    "ra",
    "rabbit_common",
    "rabbitmq_amqp1_0",
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_aws",
    "rabbitmq_peer_discovery_common",
    "rabbitmq_prelaunch",
    "rabbitmq_top",
    "ranch",
    "sasl",
    "seshat",
    "ssl",
    "stdlib",
    "syslog",
    "sysmon_handler",
];

/// Settings of `rabbit` that no key of `rabbitmq.conf` says, and that do nothing here.
const RABBIT_INERT: &[&str] = &[
    "backing_queue_module",
    "collect_statistics_interval",
    "connection_storm",
    "credit_flow_default_credit",
    "dead_letter_worker_consumer_prefetch",
    "default_protocol",
    "disk_monitor_failure_retries",
    "disk_monitor_failure_retry_interval",
    "enabled_plugins_file",
    "error_logger",
    "fhc_read_buffering",
    "fhc_write_buffering",
    "halt_on_upgrade_failure",
    "hipe_modules",
    "lager_default_file",
    "lager_log_root",
    "lager_upgrade_file",
    "log_levels",
    "max_queue_credit",
    "memory_monitor_interval_ms",
    "mirroring_flow_control",
    "msg_store_credit_disc_bound",
    "msg_store_index_module",
    "msg_store_shutdown_timeout",
    "num_ssl_acceptors",
    "num_tcp_acceptors",
    "plugins_dir",
    "plugins_expand_dir",
    "pprof",
    "queue_index_max_journal_entries",
    "quorum_cluster_size",
    "quorum_tick_interval",
    "rabbit_mnesia",
    "sasl_error_logger",
    "server_properties",
    "stream_messages_soft_limit",
    "tracking_execution_timeout",
    "writer_gc_threshold",
];

/// The steps of the terms in the file at `path`.
pub fn read(path: &Path, text: &str) -> Vec<Step> {
    let file = path.display();
    let fail = |message: String| vec![Step::Fail(nowhere(message))];
    let (term, lines) = match terms::read_placed(text) {
        Ok(read) => read,
        // An advanced.config in which all is commented out is as none.
        Err(_) if text.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('%'))) => {
            return Vec::new();
        }
        Err((line, expected)) => return fail(format!("{file}:{line}: expected {expected}")),
    };
    let shape = || fail(format!("{file}: expected a list of {{application, [{{key, value}}, ...]}}"));
    let Term::List(applications) = term else { return shape() };
    let path: Arc<str> = path.to_string_lossy().into();
    let mut steps = Vec::new();
    // The place of the next tuple among all.
    let mut at = 0;
    for application in &applications {
        let Some((name, Term::List(settings))) = pair(application) else { return shape() };
        let around = at;
        at += 1;
        for setting in settings {
            // One that is no tuple has the line of its application.
            let own = if setting.tuples() > 0 { at } else { around };
            let line = lines.get(own).copied().unwrap_or_default();
            at += setting.tuples();
            let origin = |name: String| Origin::Term { path: path.clone(), line, name: name.into() };
            match pair(setting) {
                Some((key, value)) => steps.extend(meaning(&origin, name, key, value)),
                None => return fail(format!("{file}:{line}: expected {{key, value}}")),
            }
        }
    }
    steps
}

fn pair(term: &Term) -> Option<(&str, &Term)> {
    match term {
        Term::Tuple(items) => match items.as_slice() {
            [Term::Atom(name), value] => Some((name, value)),
            _ => None,
        },
        _ => None,
    }
}

/// The steps of the setting `key` of `application`. `origin` makes a place of a name.
pub fn meaning(origin: &dyn Fn(String) -> Origin, application: &str, key: &str, value: &Term) -> Vec<Step> {
    let name = format!("{application}.{key}");
    let place = origin(name.clone());
    let what = match &place {
        Origin::Term { path, line, .. } => format!("{path}:{line}: '{name}'"),
        place => format!("{}: '{name}'", place.place("")),
    };
    if APPLICATIONS_INERT.contains(&application) {
        let why = "it tunes the Erlang runtime and its libraries, which are not here".to_owned();
        return vec![Step::PassedOver { what, why }];
    }
    let fail = |fault, message: String, hint: &str| {
        let (origin, marked, hint) = (Some(place.clone()), String::new(), hint.to_owned());
        vec![Step::Fail(Error { fault, origin, marked, message, hint })]
    };
    let Some((_, prefix)) = PREFIXES.iter().find(|(own, _)| *own == application) else {
        return fail(Fault::Unknown, format!("unknown application '{application}'"), "remove it to start");
    };
    if application == "rabbit" && RABBIT_INERT.contains(&key) {
        return vec![Step::PassedOver { what, why: "nothing here is tuned so".into() }];
    }
    let mut settings = Settings { origin: &place, steps: Vec::new() };
    match settings.say(prefix, key, value) {
        Ok(()) => settings.steps,
        Err(TermError::Shape) => fail(Fault::Refused, format!("{value:?} is no value"), ""),
        Err(TermError::Absent(why)) => fail(Fault::Refused, why.to_owned(), "remove it to start"),
        Err(TermError::Unsaid) => match lookup::find(&format!("{prefix}{key}")) {
            Some((Standing::Inert(why), _)) => vec![Step::PassedOver { what, why: why.to_owned() }],
            Some((Standing::Tunes(backend), _)) => vec![Step::Tunes { backend, origin: place }],
            Some((Standing::Refused(why), _)) => fail(Fault::Refused, why.to_owned(), "remove it to start"),
            _ => fail(Fault::Refused, format!("{value:?} is no value"), ""),
        },
    }
}

/// The reason why keys of `rabbitmq.conf` cannot say a term.
enum TermError {
    /// It is not of the form that RabbitMQ takes.
    Shape,
    /// No line of `rabbitmq.conf` says such a term, as with queries of LDAP: the standing of its key counts.
    Unsaid,
    /// There is no such thing here.
    Absent(&'static str),
}

struct Settings<'a> {
    origin: &'a Origin,
    steps: Vec<Step>,
}

impl Settings<'_> {
    fn set(&mut self, key: String, value: String) {
        self.steps.push(Step::Set(Setting::new(key, value, self.origin.clone())));
    }

    /// Says `{key, value}` of the application whose keys begin with `prefix`.
    fn say(&mut self, prefix: &str, key: &str, value: &Term) -> Result<(), TermError> {
        match (prefix, key) {
            ("" | "stream." | "mqtt." | "stomp.", "tcp_listeners") => {
                self.listeners(&format!("{prefix}listeners.tcp"), value)
            }
            ("" | "stream." | "mqtt." | "stomp.", "ssl_listeners") => {
                self.listeners(&format!("{prefix}listeners.ssl"), value)
            }
            ("", "ssl_options") => self.options("ssl_options", value),
            ("", "tcp_listen_options") => self.options("tcp_listen_options", value),
            ("", "loopback_users") => {
                self.set("loopback_users".into(), "none".into());
                for user in list(value)? {
                    self.set(format!("loopback_users.{}", text(user)?), "true".into());
                }
                Ok(())
            }
            ("", "default_user_tags") => {
                self.steps.push(Step::Forget(key.into()));
                for tag in list(value)? {
                    self.set(format!("default_user_tags.{}", text(tag)?), "true".into());
                }
                Ok(())
            }
            ("", "default_permissions") => {
                let [configure, write, read] = list(value)? else { return Err(TermError::Shape) };
                for (what, pattern) in [("configure", configure), ("write", write), ("read", read)] {
                    self.set(format!("default_permissions.{what}"), text(pattern)?);
                }
                Ok(())
            }
            ("", "auth_mechanisms") => {
                self.steps.push(Step::Forget(key.into()));
                self.numbered("auth_mechanisms", value)
            }
            ("", "auth_backends") => self.backends(value),
            ("", "vm_memory_high_watermark" | "disk_free_limit") => self.share(key, value),
            ("", "cluster_nodes") => {
                let nodes = match value {
                    Term::Tuple(items) => items.first().ok_or(TermError::Shape)?,
                    nodes => nodes,
                };
                self.numbered("cluster_formation.classic_config.nodes", nodes)
            }
            ("", "consumer_timeout") if *value == Term::Atom("undefined".into()) => {
                self.set(key.into(), i64::MAX.to_string());
                Ok(())
            }
            ("", "max_link_credit" | "max_incoming_window") => {
                self.set(format!("leveret.{key}"), text(value)?);
                Ok(())
            }
            ("", "log") => self.log(value),
            ("", "config_entry_decoder") => self.decoder(value),
            ("", "permit_deprecated_features") => self.nested("deprecated_features.permit", value),
            ("", "default_consumer_prefetch") => match value {
                Term::Tuple(items) if items.last() == Some(&Term::Integer(0)) => Ok(()),
                _ => Err(TermError::Absent("consumers have no prefetch that they did not ask for")),
            },
            ("management.", "listener") => self.web_listener("management", value),
            ("management." | "prometheus.", "tcp_config") => self.nested(&format!("{prefix}tcp"), value),
            ("management." | "prometheus.", "ssl_config") => self.secure(prefix, value),
            ("web_mqtt." | "web_stomp.", "tcp_config") => self.nested(&format!("{prefix}tcp"), value),
            ("web_mqtt." | "web_stomp.", "ssl_config") => self.nested(&format!("{prefix}ssl"), value),
            ("management.", "cors_allow_origins") => self.numbered("management.cors.allow_origins", value),
            ("management.", "cors_max_age") => {
                self.set("management.cors.max_age".into(), text(value)?);
                Ok(())
            }
            ("shovel.", "shovels") => match list(value)? {
                [] => Ok(()),
                _ => Err(TermError::Absent("shovels are not served yet")),
            },
            _ => self.nested(&format!("{prefix}{key}"), value).map_err(|_| TermError::Unsaid),
        }
    }

    /// A value, or options within options: each leaf is a key.
    fn nested(&mut self, key: &str, value: &Term) -> Result<(), TermError> {
        match value {
            Term::List(items) if !items.is_empty() && items.iter().all(|item| pair(item).is_some()) => items
                .iter()
                .filter_map(pair)
                .try_for_each(|(name, value)| self.nested(&format!("{key}.{name}"), value)),
            Term::List(items) if items.is_empty() => Ok(()),
            Term::List(_) => self.numbered(key, value),
            value => {
                self.set(key.to_owned(), text(value)?);
                Ok(())
            }
        }
    }

    fn numbered(&mut self, key: &str, value: &Term) -> Result<(), TermError> {
        for (index, item) in list(value)?.iter().enumerate() {
            self.set(format!("{key}.{}", index + 1), text(item)?);
        }
        Ok(())
    }

    /// `[5672, {"127.0.0.1", 5672}]`; it replaces what was said before.
    fn listeners(&mut self, key: &str, value: &Term) -> Result<(), TermError> {
        self.steps.push(Step::Forget(key.to_owned()));
        let listeners = list(value)?;
        if listeners.is_empty() {
            self.set(key.to_owned(), "none".into());
        }
        for (index, listener) in listeners.iter().enumerate() {
            let address = match listener {
                Term::Tuple(items) => match items.as_slice() {
                    [ip, port, ..] => format!("{}:{}", text(ip)?, text(port)?),
                    _ => return Err(TermError::Shape),
                },
                port => text(port)?,
            };
            self.set(format!("{key}.{}", index + 1), address);
        }
        Ok(())
    }

    /// Options of sockets and of TLS: atoms, pairs, lists of versions and ciphers.
    fn options(&mut self, key: &str, value: &Term) -> Result<(), TermError> {
        for option in list(value)? {
            let (name, value) = match (option, pair(option)) {
                (_, Some(pair)) => pair,
                // `binary`, `inet6`: how Erlang reads its sockets.
                (Term::Atom(_), None) if key == "tcp_listen_options" => continue,
                _ => return Err(TermError::Shape),
            };
            match (name, value) {
                ("versions" | "ciphers", Term::List(_)) => {
                    self.steps.push(Step::Forget(format!("{key}.{name}")));
                    self.numbered(&format!("{key}.{name}"), value)?;
                }
                ("linger", Term::Tuple(items)) => {
                    let [on, timeout] = items.as_slice() else { return Err(TermError::Shape) };
                    self.set(format!("{key}.linger.on"), text(on)?);
                    self.set(format!("{key}.linger.timeout"), text(timeout)?);
                }
                _ => self.nested(&format!("{key}.{name}"), value)?,
            }
        }
        Ok(())
    }

    /// `[{port, 15672}, {ip, "127.0.0.1"}, {ssl, true}, {ssl_opts, [...]}]`.
    fn web_listener(&mut self, key: &str, value: &Term) -> Result<(), TermError> {
        let options: Vec<_> = list(value)?.iter().filter_map(pair).collect();
        let is_secure = options.contains(&("ssl", &Term::Atom("true".into())));
        let kind = if is_secure { "ssl" } else { "tcp" };
        for (name, value) in options {
            match name {
                "port" | "ip" => self.set(format!("{key}.{kind}.{name}"), text(value)?),
                "ssl_opts" if is_secure => self.options(&format!("{key}.ssl"), value)?,
                "ssl" | "ssl_opts" | "cowboy_opts" => {}
                _ => self.nested(&format!("{key}.listener.{name}"), value)?,
            }
        }
        Ok(())
    }

    /// Options of TLS beside its port, or in `ssl_opts`.
    fn secure(&mut self, prefix: &str, value: &Term) -> Result<(), TermError> {
        let key = format!("{prefix}ssl");
        for (name, value) in list(value)?.iter().filter_map(pair) {
            match name {
                "ssl_opts" => self.options(&key, value)?,
                "cowboy_opts" => {}
                _ => self.options(
                    &key,
                    &Term::List(vec![Term::Tuple(vec![Term::Atom(name.into()), value.clone()])]),
                )?,
            }
        }
        Ok(())
    }

    /// `[internal, {rabbit_auth_backend_ldap, [internal]}]`.
    fn backends(&mut self, value: &Term) -> Result<(), TermError> {
        for (index, backend) in list(value)?.iter().enumerate() {
            let key = format!("auth_backends.{}", index + 1);
            let Term::Tuple(both) = backend else {
                self.set(key, text(backend)?);
                continue;
            };
            let [authn, authz] = both.as_slice() else { return Err(TermError::Shape) };
            self.set(format!("{key}.authn"), text(authn)?);
            match authz {
                Term::List(several) => {
                    several
                        .iter()
                        .try_for_each(|one| text(one).map(|one| self.set(format!("{key}.authz"), one)))?;
                }
                one => self.set(format!("{key}.authz"), text(one)?),
            }
        }
        Ok(())
    }

    /// `0.4`, `{absolute, "2GB"}`, `{mem_relative, 1.0}`.
    fn share(&mut self, key: &str, value: &Term) -> Result<(), TermError> {
        let (kind, value) = match (value, pair(value)) {
            (_, Some(("absolute", value))) => ("absolute", value),
            (_, Some(("relative" | "mem_relative", value))) => ("relative", value),
            (Term::Float(_), None) => ("relative", value),
            // Of memory a whole number is a share as well.
            (Term::Integer(_), None) if key == "vm_memory_high_watermark" => ("relative", value),
            (Term::Integer(_) | Term::Text(_), None) => ("absolute", value),
            _ => return Err(TermError::Shape),
        };
        self.set(format!("{key}.{kind}"), text(value)?);
        Ok(())
    }

    /// `[{passphrase, <<"x">>}, {cipher, aes_256_cbc}]`; the passphrase may be in a file.
    fn decoder(&mut self, value: &Term) -> Result<(), TermError> {
        for (name, value) in list(value)?.iter().filter_map(pair) {
            match (name, pair(value)) {
                ("passphrase", Some(("file", path))) => {
                    self.set("config_entry_decoder.passphrase_file".into(), text(path)?);
                }
                ("passphrase", _) if *value == Term::Atom("prompt".into()) => {
                    return Err(TermError::Absent("nobody is there to be asked for the passphrase"));
                }
                _ => self.set(format!("config_entry_decoder.{name}"), text(value)?),
            }
        }
        Ok(())
    }

    /// `[{console, [{enabled, true}, {level, info}]}, {file, [{file, "x"}, {level, info}, {size, 1}]}]`.
    fn log(&mut self, value: &Term) -> Result<(), TermError> {
        for (output, value) in list(value)?.iter().filter_map(pair) {
            for (name, value) in list(value)?.iter().filter_map(pair) {
                let key = match (output, name) {
                    ("console", "enabled") => "log.console".to_owned(),
                    ("file", "file") => "log.file".to_owned(),
                    ("file", "date" | "size" | "count") => format!("log.file.rotation.{name}"),
                    _ => format!("log.{output}.{name}"),
                };
                self.nested(&key, value)?;
            }
        }
        Ok(())
    }
}

fn list(term: &Term) -> Result<&[Term], TermError> {
    if let Term::List(items) = term { Ok(items) } else { Err(TermError::Shape) }
}

/// A value as `rabbitmq.conf` writes it.
fn text(term: &Term) -> Result<String, TermError> {
    match term {
        Term::Atom(text) | Term::Text(text) => Ok(text.clone()),
        Term::Integer(number) => Ok(number.to_string()),
        Term::Float(number) => Ok(number.to_string()),
        Term::Tuple(items) => match items.as_slice() {
            [Term::Atom(word), Term::Text(value)] if word == "encrypted" => Ok(format!("encrypted:{value}")),
            // An address, as in `{127,0,0,1}`.
            [a, b, c, d] => Ok(format!("{}.{}.{}.{}", text(a)?, text(b)?, text(c)?, text(d)?)),
            _ => Err(TermError::Shape),
        },
        Term::List(_) => Err(TermError::Shape),
    }
}
