//! The listening sockets of a node, opened before anything is started, with what goes for those who connect.

use crate::acceptor;
use crate::config::Config;
use crate::config::network::Speech;
use crate::handshake::SecureListener;
use crate::http::Service;
use crate::layer::WebRules;
use crate::tls;
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
    /// What is spoken on each of `plain`, and what WebSocket goes by where it is for that.
    pub spoken: Vec<(Protocol, Option<Arc<WebRules>>)>,
    /// Listeners with TLS.
    pub secure: Vec<SecureListener>,
    /// Listeners of the management HTTP API, and of metrics.
    pub http: Vec<(Service, TcpListener)>,
    /// All of them, as they were bound.
    pub addresses: Vec<(Speech, SocketAddr)>,
    /// For what there is none, and why, where that is nobody's wish.
    pub without: Vec<(Speech, String)>,
}

impl Ports {
    /// Opens all that are configured.
    ///
    /// # Errors
    /// Which could not be opened, or what of its options is wrong.
    pub fn open(config: &Config) -> Result<Ports, String> {
        let network = &config.network;
        let has = |wanted| config.listeners.iter().any(|(speech, _)| *speech == wanted);
        let tls = (has(Speech::AmqpTls) || has(Speech::StreamTls))
            .then(|| tls::server_config(&network.tls))
            .transpose()?;
        let web_tls =
            has(Speech::WebTls).then(|| tls::server_config(&network.web_tls.or(&network.tls))).transpose()?;
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
            addresses: Vec::new(),
            without: Vec::new(),
        };
        let mut listeners = Vec::new();
        for (speech, address) in &config.listeners {
            listeners.push((speech, acceptor::listen(*address, &config.socket)?));
        }
        for (speech, address) in &config.if_free {
            match acceptor::listen(*address, &config.socket) {
                Ok(listener) => listeners.push((speech, listener)),
                Err(error) => ports.without.push((*speech, error)),
            }
        }
        for (speech, listener) in listeners {
            let bound = listener.local_addr().map_err(|error| format!("the node cannot start: {error}"))?;
            ports.addresses.push((*speech, bound));
            let service = match speech {
                Speech::Http => Some(Service::Api),
                Speech::Prometheus => Some(Service::Metrics),
                _ => None,
            };
            if let Some(service) = service {
                ports.http.push((service, listener));
                continue;
            }
            let web = speech.is_web().then(|| rules.clone());
            match if speech.is_web() { &web_tls } else { &tls } {
                Some(config) if speech.is_secure() => {
                    let protocol = speech.protocol();
                    ports.secure.push(SecureListener { listener, protocol, config: config.clone(), web });
                }
                _ => {
                    ports.plain.push(listener);
                    ports.spoken.push((speech.protocol(), web));
                }
            }
        }
        Ok(ports)
    }

    /// As tools list them.
    pub fn rows(&self, node: &str) -> Vec<ctl::Listener> {
        let row = |(speech, address): &(Speech, SocketAddr)| {
            let (protocol, purpose, _) = speech.names();
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
        };
        self.addresses.iter().map(row).collect()
    }
}

/// The same listening sockets once more, for another thread.
///
/// # Errors
/// What the system said.
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
