//! The listening sockets of a node, opened before anything is started, with what goes for those who connect.

use crate::acceptor;
use crate::config::Config;
use crate::config::network::Speech;
use crate::handshake::SecureListener;
use crate::layer::WebRules;
use crate::tls;
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
    /// What WebSocket goes by, for each of `plain` that is for it.
    pub web: Vec<Option<Arc<WebRules>>>,
    /// Listeners with TLS.
    pub secure: Vec<SecureListener>,
    /// All of them, as they were bound.
    pub addresses: Vec<(Speech, SocketAddr)>,
    /// Why there is none for WebSocket, where that is nobody's wish.
    pub without_web: Option<String>,
}

impl Ports {
    /// Opens all that are configured.
    ///
    /// # Errors
    /// Which could not be opened, or what of its options is wrong.
    pub fn open(config: &Config) -> Result<Ports, String> {
        let network = &config.network;
        let has = |wanted| config.listeners.iter().any(|(speech, _)| *speech == wanted);
        let tls = has(Speech::AmqpTls).then(|| tls::server_config(&network.tls)).transpose()?;
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
            web: Vec::new(),
            secure: Vec::new(),
            addresses: Vec::new(),
            without_web: None,
        };
        let mut listeners = Vec::new();
        for (speech, address) in &config.listeners {
            listeners.push((speech, acceptor::listen(*address, &config.socket)?));
        }
        match config.web_if_free.map(|address| acceptor::listen(address, &config.socket)) {
            Some(Ok(listener)) => listeners.push((&Speech::Web, listener)),
            Some(Err(error)) => ports.without_web = Some(error),
            None => {}
        }
        for (speech, listener) in listeners {
            let bound = listener.local_addr().map_err(|error| format!("the node cannot start: {error}"))?;
            ports.addresses.push((*speech, bound));
            let web = speech.is_web().then(|| rules.clone());
            match if speech.is_web() { &web_tls } else { &tls } {
                Some(config) if speech.is_secure() => {
                    ports.secure.push(SecureListener { listener, config: config.clone(), web });
                }
                _ => {
                    ports.plain.push(listener);
                    ports.web.push(web);
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
        Ok(SecureListener { listener, config: own.config.clone(), web: own.web.clone() })
    };
    listeners.iter().map(again).collect()
}
