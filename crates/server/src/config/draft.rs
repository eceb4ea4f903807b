//! A configuration while settings still come in: the effect of each of them, and those that cannot be used.

use super::backends::{Backend, Backends};
use super::cluster::{self, ClusterDraft};
use super::keys::Standing;
use super::lookup;
use super::network::ListenerKind;
use super::syntax::{Error, Fault, Origin, Setting};
use super::value::Address;
use super::verdict::Verdict;
use super::{
    Config, PORT_HTTP, PORT_HTTP_TLS, PORT_METRICS, PORT_METRICS_TLS, PORT_STREAM, PORT_WEB, PORT_WEB_TLS,
    ShownSetting,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// See the module.
pub struct Draft {
    /// The configuration as far as it is read.
    pub config: Config,
    /// The layer now read.
    layer: u8,
    /// Listeners by name, with the layer that named them.
    listeners: BTreeMap<(ListenerKind, String), (u8, Address)>,
    /// Mechanisms by name of their key; any replace the usual ones.
    mechanisms: BTreeMap<String, &'static str>,
    /// The layer that said `none`, of each kind of listeners.
    closed: BTreeMap<ListenerKind, u8>,
    /// Authentication backends that are not there.
    pub backends: Backends,
    /// `cluster_formation.target_cluster_size_hint`, as the last source has it.
    pub size_hint: Option<String>,
    /// Settings of a cluster.
    pub cluster: ClusterDraft,
    /// Settings that do nothing here.
    pub inert: usize,
    /// Settings that cannot be used.
    pub problems: Vec<Error>,
}

impl Draft {
    /// One that knows the defaults alone.
    pub fn new(config: Config) -> Draft {
        Draft {
            config,
            layer: 0,
            listeners: BTreeMap::new(),
            mechanisms: BTreeMap::new(),
            closed: BTreeMap::new(),
            backends: Backends::default(),
            size_hint: None,
            cluster: ClusterDraft::default(),
            inert: 0,
            problems: Vec::new(),
        }
    }

    /// Takes a setting, or notes why it cannot be used.
    pub fn apply(&mut self, setting: &Setting) {
        let Setting { key, value, origin, is_secret } = setting;
        self.layer = origin.layer();
        self.config.shown.push(ShownSetting::new(setting));
        let verdict = match lookup::find(key) {
            None => {
                let hint = format!("the nearest known key is '{}'", lookup::nearest(key));
                return self.fail(setting, Fault::Unknown, key, format!("unknown key '{key}'"), hint);
            }
            Some((Standing::Refused(why), _)) => {
                let message = format!("'{key}' cannot be used: {why}");
                return self.fail(setting, Fault::Refused, key, message, "remove it to start".into());
            }
            Some((Standing::Inert(why), _)) => Verdict::Nothing(why.to_owned()),
            Some((Standing::Tunes(backend), _)) => return self.tunes(backend, origin, key, value),
            Some((Standing::Judged(judge), name)) => judge(self, name, value),
            Some((Standing::Served(put), name)) => match put(self, name, value) {
                Ok(()) => Verdict::Works,
                Err(hint) => Verdict::Wrong(hint),
            },
        };
        match verdict {
            Verdict::Works => {
                // Values that were encrypted are not shown to users that may see settings.
                let is_secret = *is_secret || key == cluster::COOKIE;
                let value = if is_secret { ShownSetting::new(setting).value } else { value.clone() };
                self.config.settings.push((key.clone(), value));
            }
            Verdict::Nothing(why) => {
                self.passed_over(&format!("{}: configuration key '{key}'", origin.place(key)), &why);
            }
            Verdict::Absent(why) => {
                let value = ShownSetting::new(setting).value;
                let message = format!("'{key} = {value}' cannot be used: {why}");
                self.fail(setting, Fault::Refused, &setting.value, message, "remove it to start".into());
            }
            Verdict::Wrong(hint) => {
                let value = ShownSetting::new(setting).value;
                let message = format!("'{value}' is no value for '{key}'");
                self.fail(setting, Fault::Refused, &setting.value, message, hint);
            }
        }
    }

    /// Notes a setting of an authentication backend that is not there.
    pub fn tunes(&mut self, backend: Backend, origin: &Origin, key: &str, value: &str) {
        self.inert += 1;
        self.backends.tune(backend, origin.place(key), value);
    }

    /// Whether no other node is to be found.
    pub fn is_alone(&self) -> bool {
        self.size_hint.as_deref().is_some_and(|hint| matches!(hint, "0" | "1"))
    }

    /// Notes that `what`, with its place, does nothing here.
    pub fn passed_over(&mut self, what: &str, why: &str) {
        self.inert += 1;
        self.config.warnings.push(format!("{what} has no effect: {why}"));
    }

    fn fail(&mut self, setting: &Setting, fault: Fault, marked: &str, message: String, hint: String) {
        let mut origin = setting.origin.clone();
        if let (cluster::COOKIE, Origin::File { text, .. }) = (&*setting.key, &mut origin) {
            // The line that is at fault is shown.
            *text = cluster::COOKIE.into();
        }
        let origin = Some(origin);
        let marked = if setting.origin == Origin::CommandLine { &setting.key } else { marked };
        self.problems.push(Error { fault, origin, marked: marked.to_owned(), message, hint });
    }

    /// Where a listener is, if any was named.
    pub fn is_named(&self, kind: ListenerKind) -> bool {
        self.closed.contains_key(&kind) || self.listeners.keys().any(|(own, _)| *own == kind)
    }

    /// Forgets the items of a list given so far, because a later layer gives all of it.
    pub fn forget(&mut self, family: &str) {
        let network = &mut self.config.network;
        let kind = match family {
            "listeners.tcp" => ListenerKind::Amqp,
            "listeners.ssl" => ListenerKind::AmqpTls,
            "stream.listeners.tcp" => ListenerKind::Stream,
            "stream.listeners.ssl" => ListenerKind::StreamTls,
            "auth_mechanisms" => return self.mechanisms.clear(),
            "default_user_tags" => return self.config.default_user.tags.clear(),
            "ssl_options.versions" => return network.tls.versions.clear(),
            "ssl_options.ciphers" => return network.tls.forget_ciphers(),
            "management.ssl.versions" => return network.http_tls.versions.clear(),
            "management.ssl.ciphers" => return network.http_tls.forget_ciphers(),
            "prometheus.ssl.versions" => return network.metrics_tls.versions.clear(),
            "prometheus.ssl.ciphers" => return network.metrics_tls.forget_ciphers(),
            _ => return,
        };
        self.listeners.retain(|(own, _), _| *own != kind);
        self.closed.remove(&kind);
    }

    /// `none` for a kind of listeners.
    pub fn close_listeners(&mut self, kind: ListenerKind) {
        self.closed.insert(kind, self.layer);
    }

    /// One more listener.
    pub fn add_listener(&mut self, kind: ListenerKind, name: &str, address: Address) {
        self.listeners.insert((kind, name.to_owned()), (self.layer, address));
    }

    /// The one listener of WebSocket or of HTTP, of which address and port may come apart.
    pub fn web_listener(&mut self, kind: ListenerKind) -> &mut Address {
        let port = match kind {
            ListenerKind::Http => PORT_HTTP,
            ListenerKind::Prometheus => PORT_METRICS,
            ListenerKind::HttpTls => PORT_HTTP_TLS,
            ListenerKind::PrometheusTls => PORT_METRICS_TLS,
            kind if kind.is_secure() => PORT_WEB_TLS,
            _ => PORT_WEB,
        };
        let layer = self.layer;
        let entry = self.listeners.entry((kind, String::new()));
        &mut entry.and_modify(|(named, _)| *named = layer).or_insert((layer, Address { ip: None, port })).1
    }

    /// One more mechanism.
    pub fn add_mechanism(&mut self, name: &str, mechanism: &'static str) {
        self.mechanisms.insert(name.to_owned(), mechanism);
    }

    /// One more file, or folder, of definitions.
    pub fn add_definitions(&mut self, path: &str) {
        let path = PathBuf::from(path);
        if !self.config.definitions.paths.contains(&path) {
            self.config.definitions.paths.push(path);
        }
    }

    /// A tag of the first user.
    pub fn set_tag(&mut self, tag: &str, is_set: bool) {
        set(&mut self.config.default_user.tags, tag, is_set);
    }

    /// A user that may come from this machine alone, or from anywhere.
    pub fn set_loopback(&mut self, user: &str, is_set: bool) {
        set(&mut self.config.loopback_users, user, is_set);
    }

    /// `none` closes the listeners that its own layer and those below it named; one that a later layer names is open
    /// again.
    pub fn finish(mut self) -> Config {
        let is_open = |((kind, _), (layer, _)): &(&(ListenerKind, String), &(u8, Address))| {
            self.closed.get(kind).is_none_or(|closed| layer > closed)
        };
        let open = self.listeners.iter().filter(is_open);
        let mut open: Vec<(ListenerKind, Address)> =
            open.map(|((kind, _), (_, address))| (*kind, *address)).collect();
        let is_usual = !self.closed.contains_key(&ListenerKind::Amqp)
            && open.iter().all(|(kind, _)| *kind != ListenerKind::Amqp);
        if is_usual {
            open.splice(0..0, std::mem::take(&mut self.config.listeners));
        }
        for (kind, port) in [
            (ListenerKind::Stream, PORT_STREAM),
            (ListenerKind::Web, PORT_WEB),
            (ListenerKind::Http, PORT_HTTP),
            (ListenerKind::Prometheus, PORT_METRICS),
        ] {
            let is_named = |(own, _): &(ListenerKind, Address)| match kind {
                // As with RabbitMQ, a configuration that asks for TLS alone gets no other.
                ListenerKind::Http => matches!(own, ListenerKind::Http | ListenerKind::HttpTls),
                ListenerKind::Prometheus => {
                    matches!(own, ListenerKind::Prometheus | ListenerKind::PrometheusTls)
                }
                kind => *own == kind,
            };
            if !self.closed.contains_key(&kind) && !open.iter().any(is_named) {
                self.config.if_free.push((kind, Address { ip: None, port }));
            }
        }
        self.config.listeners = open;
        if !self.mechanisms.is_empty() {
            self.config.mechanisms = self.mechanisms.into_values().collect();
        }
        self.config
    }
}

fn set(names: &mut Vec<String>, name: &str, is_set: bool) {
    names.retain(|other| other != name);
    if is_set {
        names.push(name.to_owned());
    }
}
