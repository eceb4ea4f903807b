//! The listening sockets of a node, opened before anything is started, with the rules of their connections.

use crate::acceptor;
use crate::config::Config;
use crate::config::network::{ListenerKind, TlsOptions};
use crate::handshake::SecureListener;
use crate::http::{self, Service};
use crate::layer::WebRules;
use crate::tls::LiveConfig;
use adapters::Protocol;
use mio::net::TcpListener;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use websocket::Limits;
use websocket::upgrade::Rules;

/// Sub-protocols served over WebSocket. Which version of AMQP is spoken is told by its own header.
const PROTOCOLS: [&str; 2] = ["amqp", "amqp091"];

/// See the module.
pub struct Ports {
    /// Listeners without TLS.
    pub plain: Vec<TcpListener>,
    /// The protocol of each of `plain`, and the rules of WebSocket where it is for that.
    pub spoken: Vec<(Protocol, Option<Arc<WebRules>>)>,
    /// Listeners with TLS.
    pub secure: Vec<SecureListener>,
    /// Listeners of the management HTTP API, and of metrics.
    pub http: Vec<http::Listener>,
    /// The TLS configurations of the listeners that have one.
    pub tls: Vec<Arc<LiveConfig>>,
    /// All of them, as they were bound.
    pub addresses: Vec<(ListenerKind, SocketAddr)>,
    /// Kinds without a listener, and why, where nobody asked for one.
    pub without: Vec<(ListenerKind, String)>,
}

/// One for each TLS configuration: of AMQP and streams, of WebSocket, of the management HTTP API, of metrics; only of those that
/// listen.
type AllTls<T> = [T; 4];

fn open_tls(config: &Config) -> AllTls<Result<Option<Arc<LiveConfig>>, String>> {
    let network = &config.network;
    let has = |wanted| config.listeners.iter().any(|(kind, _)| *kind == wanted);
    let open = |kinds: &[ListenerKind], families: &[&str], prefix, options: TlsOptions| {
        let is_wanted = kinds.iter().any(|kind| has(*kind));
        let opened = is_wanted.then(|| LiveConfig::open(prefix, options)).transpose();
        opened.map_err(|why| config.placed(&why, families))
    };
    [
        open(
            &[ListenerKind::AmqpTls, ListenerKind::StreamTls],
            &["listeners.ssl", "stream.listeners.ssl"],
            "ssl_options.",
            network.tls.clone(),
        ),
        // The file or option at fault may be of either prefix.
        open(&[ListenerKind::WebTls], &["web_amqp.ssl"], "ssl_options.", network.web_tls.or(&network.tls)),
        open(&[ListenerKind::HttpTls], &["management.ssl"], "management.ssl.", network.http_tls.clone()),
        open(
            &[ListenerKind::PrometheusTls],
            &["prometheus.ssl"],
            "prometheus.ssl.",
            network.metrics_tls.clone(),
        ),
    ]
}

/// Why certificates, keys and ciphers of TLS cannot be used: the first option or file of each group of listeners that is
/// wrong, and the reason.
pub fn problems_of_tls(config: &Config) -> Vec<String> {
    let mut problems: Vec<String> = open_tls(config).into_iter().filter_map(Result::err).collect();
    // Listeners of WebSocket have the options of AMQP where they have none of their own.
    problems.dedup();
    problems
}

impl Ports {
    /// Opens all that are configured.
    ///
    /// # Errors
    /// The listener that could not be opened, or the option of it that is wrong.
    pub fn open(config: &Config) -> Result<Ports, String> {
        let network = &config.network;
        let [tls, web_tls, http_tls, metrics_tls] = open_tls(config);
        let (tls, web_tls, http_tls, metrics_tls) = (tls?, web_tls?, http_tls?, metrics_tls?);
        let usual = Limits::default();
        let rules = Arc::new(WebRules {
            rules: Rules {
                path: network.web_path.clone(),
                protocols: PROTOCOLS.to_vec(),
                origins: network.web_origins.clone(),
                may_compress: network.web_compresses,
            },
            limits: Limits {
                frame_bytes_max: network.web_frame_bytes_max.unwrap_or(usual.frame_bytes_max),
                ..usual
            },
        });
        let mut ports = Ports {
            plain: Vec::new(),
            spoken: Vec::new(),
            secure: Vec::new(),
            http: Vec::new(),
            tls: [&tls, &web_tls, &http_tls, &metrics_tls].into_iter().flatten().cloned().collect(),
            addresses: Vec::new(),
            without: Vec::new(),
        };
        let mut listeners = Vec::new();
        for (kind, address) in &config.listeners {
            let listener = acceptor::listen(*address, &config.socket);
            listeners.push((kind, listener.map_err(|why| format!("{why}. {}", kind.advice()))?));
        }
        for (kind, address) in &config.if_free {
            match acceptor::listen(*address, &config.socket) {
                Ok(listener) => listeners.push((kind, listener)),
                Err(error) => ports.without.push((*kind, error)),
            }
        }
        for (kind, listener) in listeners {
            let bound = listener.local_addr().map_err(|error| format!("the node cannot start: {error}"))?;
            ports.addresses.push((*kind, bound));
            let service = match kind {
                ListenerKind::Http => Some((Service::Api, None)),
                ListenerKind::HttpTls => Some((Service::Api, http_tls.clone())),
                ListenerKind::Prometheus => Some((Service::Metrics, None)),
                ListenerKind::PrometheusTls => Some((Service::Metrics, metrics_tls.clone())),
                _ => None,
            };
            if let Some((service, tls)) = service {
                let listener = std::net::TcpListener::from(std::os::fd::OwnedFd::from(listener));
                ports.http.push(http::Listener { service, listener, tls });
                continue;
            }
            let web = kind.is_web().then(|| rules.clone());
            match if kind.is_web() { &web_tls } else { &tls } {
                Some(config) if kind.is_secure() => {
                    let protocol = kind.protocol();
                    ports.secure.push(SecureListener { listener, protocol, config: config.clone(), web });
                }
                _ => {
                    ports.plain.push(listener);
                    ports.spoken.push((kind.protocol(), web));
                }
            }
        }
        Ok(ports)
    }

    /// As tools list them.
    pub fn rows(&self, node: &str) -> Vec<ctl::Listener> {
        let row = |(kind, address): &(ListenerKind, SocketAddr)| {
            let (protocol, purpose, _) = kind.names();
            row(node, *address, protocol, purpose)
        };
        self.addresses.iter().map(row).collect()
    }
}

/// A listener of a node, as tools list it.
pub fn row(node: &str, address: SocketAddr, protocol: &str, purpose: &str) -> ctl::Listener {
    ctl::Listener {
        node: node.to_owned(),
        interface: match address.ip().is_unspecified() {
            true => "[::]".into(),
            false => address.ip().to_string(),
        },
        port: address.port(),
        protocol: protocol.into(),
        purpose: purpose.into(),
    }
}

/// The same listening sockets once more, for another thread.
///
/// # Errors
/// The system's error.
pub fn again(listeners: &[SecureListener]) -> io::Result<Vec<SecureListener>> {
    let again = |own: &SecureListener| {
        let listener = socket2::SockRef::from(&own.listener).try_clone()?;
        let listener = TcpListener::from_std(listener.into());
        Ok(SecureListener {
            listener,
            protocol: own.protocol,
            config: own.config.clone(),
            web: own.web.clone(),
        })
    };
    listeners.iter().map(again).collect()
}
