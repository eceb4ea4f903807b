//! Settings of TLS and WebSocket: options as they came, no file read yet.

use super::value::{boolean, integer, one_of, only};
use super::verdict::Verdict;
use adapters::Protocol;
use std::path::PathBuf;

/// A kind of listener: the protocol and the layers it comes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenerKind {
    /// AMQP.
    Amqp,
    /// AMQP over TLS.
    AmqpTls,
    /// AMQP over WebSocket.
    Web,
    /// AMQP over WebSocket over TLS.
    WebTls,
    /// The stream protocol.
    Stream,
    /// The stream protocol over TLS.
    StreamTls,
    /// The management HTTP API.
    Http,
    /// The management HTTP API over TLS.
    HttpTls,
    /// Metrics, over HTTP.
    Prometheus,
    /// Metrics, over HTTP over TLS.
    PrometheusTls,
}

impl ListenerKind {
    /// TLS comes first.
    pub fn is_secure(self) -> bool {
        matches!(
            self,
            ListenerKind::AmqpTls
                | ListenerKind::WebTls
                | ListenerKind::StreamTls
                | ListenerKind::HttpTls
                | ListenerKind::PrometheusTls
        )
    }

    /// WebSocket carries it.
    pub fn is_web(self) -> bool {
        matches!(self, ListenerKind::Web | ListenerKind::WebTls)
    }

    /// The protocol that connections begin with.
    pub fn protocol(self) -> Protocol {
        match self {
            ListenerKind::Stream | ListenerKind::StreamTls => Protocol::Stream,
            // Of HTTP no connection comes to speak a protocol of messages.
            ListenerKind::Amqp
            | ListenerKind::AmqpTls
            | ListenerKind::Web
            | ListenerKind::WebTls
            | ListenerKind::Http
            | ListenerKind::HttpTls
            | ListenerKind::Prometheus
            | ListenerKind::PrometheusTls => Protocol::Amqp,
        }
    }

    /// The setting that gives it another port, as one says it on the command line.
    pub fn advice(self) -> String {
        let (key, port) = match self {
            ListenerKind::Amqp => ("listeners.tcp.default", 5673),
            ListenerKind::AmqpTls => ("listeners.ssl.default", 5674),
            ListenerKind::Web => ("web_amqp.tcp.port", 15679),
            ListenerKind::WebTls => ("web_amqp.ssl.port", 15680),
            ListenerKind::Stream => ("stream.listeners.tcp.default", 5553),
            ListenerKind::StreamTls => ("stream.listeners.ssl.default", 5554),
            ListenerKind::Http => ("management.tcp.port", 15673),
            ListenerKind::HttpTls => ("management.ssl.port", 15674),
            ListenerKind::Prometheus => ("prometheus.tcp.port", 15693),
            ListenerKind::PrometheusTls => ("prometheus.ssl.port", 15694),
        };
        format!("Another port: --set {key}={port}")
    }

    /// As RabbitMQ's tools name it, what it is for, and how the log calls its listener.
    pub fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ListenerKind::Amqp => ("amqp", "AMQP 0-9-1 and AMQP 1.0", "TCP"),
            ListenerKind::AmqpTls => ("amqp/ssl", "AMQP 0-9-1 and AMQP 1.0 over TLS", "TLS"),
            ListenerKind::Web => ("http/web-amqp", "AMQP over WebSockets", "WebSocket"),
            ListenerKind::WebTls => ("https/web-amqp", "AMQP over WebSockets and TLS", "WebSocket over TLS"),
            ListenerKind::Stream => ("stream", "stream", "stream"),
            ListenerKind::StreamTls => ("stream/ssl", "stream over TLS", "stream TLS"),
            ListenerKind::Http => ("http", "HTTP API", "HTTP"),
            ListenerKind::HttpTls => ("https", "HTTP API over TLS (HTTPS)", "HTTPS"),
            ListenerKind::PrometheusTls => {
                ("https/prometheus", "Prometheus exporter API over TLS", "Prometheus over TLS")
            }
            ListenerKind::Prometheus => {
                ("http/prometheus", "Prometheus exporter API over HTTP", "Prometheus")
            }
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Cipher suites by the names configurations have for them (OpenSSL's, which for TLS 1.3 are the specification's).
pub const CIPHERS: &[(&str, rustls::CipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", rustls::CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", rustls::CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", rustls::CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// `ssl_options.*`; options that were not given are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificates that clients' certificates must lead to, PEM.
    pub ca_file: Option<PathBuf>,
    /// The node's certificate and those between it and its root, PEM.
    pub certificate_file: Option<PathBuf>,
    /// The key of that certificate, PEM.
    pub key_file: Option<PathBuf>,
    /// The password of that key.
    pub key_password: Option<String>,
    /// Whether a client is asked for its certificate, which then must be right.
    pub verifies: Option<bool>,
    /// Whether a client that has none is sent away.
    pub demands: Option<bool>,
    /// Certificates there may be between a client's and its root.
    pub depth_max: Option<u8>,
    /// Versions; empty: both.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites; empty: all.
    pub ciphers: Vec<rustls::CipherSuite>,
    /// A list of cipher suites was given; none of them may be known.
    pub names_ciphers: bool,
    /// Whether the node's order of cipher suites counts, not the client's.
    pub own_order: Option<bool>,
    /// Whether clients may come back without a full handshake.
    pub resumes: Option<bool>,
}

/// Options that do nothing here, and why that harms nobody.
const TLS_INERT: &[(&str, &str)] = &[
    ("bypass_pem_cache", "files are read when the node starts, and when it is told to"),
    ("dh", "key exchange is by elliptic curves alone"),
    ("dhfile", "key exchange is by elliptic curves alone"),
    ("hibernate_after", "an idle connection costs what its ciphers do"),
    ("log_alert", "handshakes that fail are logged"),
    ("log_level", "handshakes that fail are logged"),
    ("max_handshake_size", "a handshake is at most 64 KiB"),
];

impl TlsOptions {
    /// Takes the option `name`, or says why it does nothing.
    pub fn judge(&mut self, name: &str, value: &str) -> Verdict {
        if let Some((_, why)) = TLS_INERT.iter().find(|(own, _)| *own == name) {
            return Verdict::Nothing((*why).to_owned());
        }
        if name == "crl_check" && value == "false" {
            return Verdict::Nothing("lists of revoked certificates are not read anyway".into());
        }
        if name.starts_with("ciphers.") {
            self.names_ciphers = true;
            // Lists that are in use name suites of several libraries; those that are known here are served.
            if !CIPHERS.iter().any(|(own, _)| *own == value) {
                return Verdict::Nothing(format!(
                    "no cipher suite '{value}' is known; the others of the list count"
                ));
            }
        }
        match self.set(name, value) {
            Ok(()) => Verdict::Works,
            Err(hint) => Verdict::Wrong(hint),
        }
    }

    /// Options of cipher suites given so far do not count.
    pub fn forget_ciphers(&mut self) {
        self.ciphers.clear();
        self.names_ciphers = false;
    }

    /// Takes the option `name`.
    ///
    /// # Errors
    /// The values that would be accepted, or the reason why none is.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let file = || Some(PathBuf::from(value));
        match name {
            "cacertfile" => self.ca_file = file(),
            "certfile" => self.certificate_file = file(),
            "keyfile" => self.key_file = file(),
            "verify" => {
                self.verifies = Some(one_of(value, &[("verify_peer", true), ("verify_none", false)])?)
            }
            "fail_if_no_peer_cert" => self.demands = Some(boolean(value)?),
            "depth" => self.depth_max = Some(integer(value, 0, 255)? as u8),
            "honor_cipher_order" => self.own_order = Some(boolean(value)?),
            "reuse_sessions" => self.resumes = Some(boolean(value)?),
            "honor_ecc_order" => only(value, "true", "the node's order of curves counts")?,
            "secure_renegotiate" => only(value, "true", "there is no other way")?,
            "client_renegotiation" => only(value, "false", "renegotiation is not served")?,
            "password" => self.key_password = Some(value.to_owned()),
            _ if name.starts_with("versions.") => self.versions.push(version(value)?),
            _ if name.starts_with("ciphers.") => self.ciphers.push(one_of(value, CIPHERS)?),
            _ => {
                return Err("this option is not served: remove it. Served are cacertfile, certfile, keyfile, verify, \
                            password, fail_if_no_peer_cert, depth, versions.N, ciphers.N, honor_cipher_order, reuse_sessions"
                    .into());
            }
        }
        Ok(())
    }

    /// These options, and those of `base` where nothing was said.
    pub fn or(&self, base: &TlsOptions) -> TlsOptions {
        let own = self.clone();
        TlsOptions {
            ca_file: own.ca_file.or_else(|| base.ca_file.clone()),
            certificate_file: own.certificate_file.or_else(|| base.certificate_file.clone()),
            key_file: own.key_file.or_else(|| base.key_file.clone()),
            key_password: own.key_password.or_else(|| base.key_password.clone()),
            verifies: own.verifies.or(base.verifies),
            demands: own.demands.or(base.demands),
            depth_max: own.depth_max.or(base.depth_max),
            versions: if own.versions.is_empty() { base.versions.clone() } else { own.versions },
            names_ciphers: own.names_ciphers || base.names_ciphers,
            ciphers: if own.names_ciphers { own.ciphers } else { base.ciphers.clone() },
            own_order: own.own_order.or(base.own_order),
            resumes: own.resumes.or(base.resumes),
        }
    }
}

fn version(value: &str) -> Result<TlsVersion, String> {
    match value {
        "tlsv1" | "tlsv1.1" => {
            Err("TLS 1.0 and 1.1 are broken and not served: name tlsv1.2 or tlsv1.3".into())
        }
        _ => one_of(value, &[("tlsv1.2", TlsVersion::Tls12), ("tlsv1.3", TlsVersion::Tls13)]),
    }
}

/// The part of a client's certificate that is its user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFrom {
    /// The whole name of its subject.
    Distinguished,
    /// The common name in it.
    Common,
    /// One of its other names.
    Alternative,
}

/// A kind of other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeKind {
    /// A host.
    Dns,
    /// An address.
    Ip,
    /// A mailbox.
    Email,
    /// A URI.
    Uri,
}

/// `ssl_cert_login_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateLogin {
    /// The part that is its user's name.
    pub from: LoginFrom,
    /// Which kind of other names.
    pub kind: AlternativeKind,
    /// Which of that kind, from 0.
    pub index: usize,
}

/// Everything about TLS and WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// For listeners of AMQP over TLS.
    pub tls: TlsOptions,
    /// For WebSocket over TLS; options that are not given are as in `tls`.
    pub web_tls: TlsOptions,
    /// For the management HTTP API over TLS.
    pub http_tls: TlsOptions,
    /// For metrics over TLS.
    pub metrics_tls: TlsOptions,
    /// Milliseconds a TLS handshake may take.
    pub tls_handshake_ms: u64,
    /// How a certificate names a user.
    pub login: CertificateLogin,
    /// The path WebSocket clients ask for.
    pub web_path: String,
    /// Origins of web pages that may connect; none: all. A client that names no origin is no page, and may.
    pub web_origins: Option<Vec<String>>,
    /// Whether compression is agreed to.
    pub web_compresses: bool,
    /// Bytes of a WebSocket frame; `None`: as the protocol crate has it.
    pub web_frame_bytes_max: Option<u64>,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            tls: TlsOptions::default(),
            web_tls: TlsOptions::default(),
            http_tls: TlsOptions::default(),
            metrics_tls: TlsOptions::default(),
            tls_handshake_ms: 5000,
            login: CertificateLogin { from: LoginFrom::Distinguished, kind: AlternativeKind::Dns, index: 0 },
            web_path: "/ws".into(),
            web_origins: Some(Vec::new()),
            web_compresses: true,
            web_frame_bytes_max: None,
        }
    }
}

impl Network {
    /// Takes `web_amqp.<name>`, listeners apart.
    ///
    /// # Errors
    /// The values that would be accepted, or the reason why none is.
    pub fn set_web(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ws_path" if value.starts_with('/') => self.web_path = value.to_owned(),
            "ws_path" => return Err("accepted values: a path that begins with /".into()),
            "ws_opts.compress" => self.web_compresses = boolean(value)?,
            "ws_opts.max_frame_size" if value == "infinity" => self.web_frame_bytes_max = None,
            "ws_opts.max_frame_size" => self.web_frame_bytes_max = Some(integer(value, 1, 1 << 40)?),
            "allow_origins" => match value {
                "all" => self.web_origins = None,
                "none" => self.web_origins = Some(Vec::new()),
                _ => return Err("accepted values: all, none, or web_amqp.allow_origins.N = ORIGIN".into()),
            },
            _ if name.starts_with("allow_origins.") => {
                let is_origin =
                    value.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'));
                match is_origin || value == "null" {
                    true => self.web_origins.get_or_insert_default().push(value.to_owned()),
                    false => return Err("accepted values: an origin such as https://example.org:8443".into()),
                }
            }
            _ => {
                return Err("this option is not served: remove it. Served are web_amqp.tcp, .tcp.port, .tcp.ip, .tcp.listener, \
                            the same with ssl, ssl.certfile and the other ssl_options, ws_path, ws_opts.compress, \
                            ws_opts.max_frame_size, allow_origins.N"
                    .into());
            }
        }
        Ok(())
    }
}
