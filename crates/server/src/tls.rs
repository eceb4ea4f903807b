//! TLS: the configuration of a listener, and an established connection as a value without I/O.
//!
//! [`Secure`] keeps no bytes: what came and is no whole record yet is its owner's, and what is to be sent goes to its
//! owner. So an idle connection costs the state of its ciphers and nothing else. Invariant: it is always called with all
//! bytes that came and were not done with, because the state machine remembers places in them.

use crate::certificate::PeerCertificate;
use crate::config::network::{CIPHERS, CertificateLogin, TlsOptions, TlsVersion};
use crate::private_key;
use adapters::settings::Encryption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Certificates there may be between a client's and its root, unless configured: RabbitMQ's default.
const DEPTH_MAX: u8 = 10;

/// Bytes a record carries at most.
const RECORD_BYTES: usize = 16_384;

/// Bytes a record costs at most, §5.2 of RFC 8446 and §6.2.3 of RFC 5246.
const RECORD_OVERHEAD_BYTES: usize = 40;

/// Alerts that may follow a failure; other output of the state machine is dropped then.
const ALERTS_MAX: usize = 4;

/// The TLS configuration of a listener's new connections: its files can be read anew while it listens.
pub struct LiveConfig {
    /// The prefix of the options' names: `ssl_options.`.
    prefix: &'static str,
    options: TlsOptions,
    current: RwLock<Read>,
}

/// The configuration read from the files.
struct Read {
    config: Arc<ServerConfig>,
    /// When the first of the certificates ends, seconds since 1970.
    ends_at_s: Option<u64>,
}

impl LiveConfig {
    /// Reads the files that these options, whose names begin with `prefix`, name.
    ///
    /// # Errors
    /// The option or file that is wrong, and what to do about it.
    pub fn open(prefix: &'static str, options: TlsOptions) -> Result<Arc<LiveConfig>, String> {
        let current = RwLock::new(Read::files(prefix, &options)?);
        Ok(Arc::new(LiveConfig { prefix, options, current }))
    }

    /// The configuration for a connection that comes now.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// When the first of its certificates ends, seconds since 1970.
    pub fn ends_at_s(&self) -> Option<u64> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).ends_at_s
    }

    /// Reads the files anew. Connections there are keep what they have; where something is wrong, all stays as it is.
    ///
    /// # Errors
    /// As of [`LiveConfig::open`].
    pub fn reload(&self) -> Result<(), String> {
        let read = Read::files(self.prefix, &self.options)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }
}

impl Read {
    fn files(prefix: &str, options: &TlsOptions) -> Result<Read, String> {
        let named = |why: String| why.replace("ssl_options.", prefix);
        let config = server_config(options).map_err(named)?;
        let file = options.certificate_file.as_deref();
        let chain = file.map(CertificateDer::pem_file_iter).and_then(Result::ok);
        let ends =
            chain.into_iter().flatten().filter_map(|own| PeerCertificate::read(&own.ok()?)?.ends_at_s());
        Ok(Read { config, ends_at_s: ends.min() })
    }
}

/// The TLS configuration of a listener, made from its options and the files they name.
///
/// # Errors
/// The option or file that is wrong, and what to do about it.
pub fn server_config(options: &TlsOptions) -> Result<Arc<ServerConfig>, String> {
    let mut provider = rustls::crypto::ring::default_provider();
    if options.names_ciphers && options.ciphers.is_empty() {
        let known: Vec<&str> = CIPHERS.iter().map(|(name, _)| *name).collect();
        return Err(format!("none of ssl_options.ciphers is known: known are {}", known.join(", ")));
    }
    if !options.ciphers.is_empty() {
        let place = |suite| options.ciphers.iter().position(|wanted| *wanted == suite);
        provider.cipher_suites.retain(|suite| place(suite.suite()).is_some());
        base::brief::sort_by_key(&mut provider.cipher_suites, |suite| place(suite.suite()));
    }
    let provider = Arc::new(provider);
    let has = |version| options.versions.is_empty() || options.versions.contains(&version);
    let versions: Vec<_> =
        [(TlsVersion::Tls13, &rustls::version::TLS13), (TlsVersion::Tls12, &rustls::version::TLS12)]
            .into_iter()
            .filter_map(|(version, supported)| has(version).then_some(supported))
            .collect();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|error| {
            format!("ssl_options.versions and ssl_options.ciphers do not fit together: {error}")
        })?
        .with_client_cert_verifier(verifier(options, provider)?);
    let (chain_file, key_file) = match (&options.certificate_file, &options.key_file) {
        (Some(chain), Some(key)) => (chain, key),
        _ => return Err("a TLS listener needs ssl_options.certfile and ssl_options.keyfile".into()),
    };
    let chain = certificates("ssl_options.certfile", chain_file)?;
    let key = private_key::read(key_file, options.key_password.as_deref())
        .map_err(|why| format!("ssl_options.keyfile {}: {why} (ssl_options.password)", key_file.display()))?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!(
            "ssl_options.certfile {} and ssl_options.keyfile {} do not fit together: {error}",
            chain_file.display(),
            key_file.display()
        )
    })?;
    config.ignore_client_order = options.own_order.unwrap_or(true);
    // Sessions are not remembered here: a client that comes back brings its ticket, sealed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match options.resumes.unwrap_or(true) {
        true => {
            config.ticketer =
                rustls::crypto::ring::Ticketer::new().map_err(|error| format!("TLS: {error}"))?;
            config.send_tls13_tickets = 1;
        }
        false => config.send_tls13_tickets = 0,
    }
    Ok(Arc::new(config))
}

fn certificates(option: &str, file: &PathBuf) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: String| format!("{option} {}: {why}", file.display());
    let all: Result<Vec<_>, _> = match CertificateDer::pem_file_iter(file) {
        Ok(found) => found.collect(),
        Err(error) => return Err(failed(error.to_string())),
    };
    let all = all.map_err(|error| failed(error.to_string()))?;
    if all.is_empty() {
        return Err(failed("no certificate is in it; a file in PEM format is needed".into()));
    }
    Ok(all)
}

fn verifier(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let demands = options.demands.unwrap_or(false);
    if !options.verifies.unwrap_or(false) {
        return match demands {
            true => {
                Err("ssl_options.fail_if_no_peer_cert = true needs ssl_options.verify = verify_peer".into())
            }
            false => Ok(WebPkiClientVerifier::no_client_auth()),
        };
    }
    let Some(file) = &options.ca_file else {
        return Err("ssl_options.verify = verify_peer needs ssl_options.cacertfile".into());
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ssl_options.cacertfile", file)? {
        roots
            .add(certificate)
            .map_err(|error| format!("ssl_options.cacertfile {}: {error}", file.display()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if demands { builder } else { builder.allow_unauthenticated() };
    let inner = builder.build().map_err(|error| describe(file, &error.to_string()))?;
    Ok(Arc::new(DepthVerifier { inner, depth_max: options.depth_max.unwrap_or(DEPTH_MAX) }))
}

fn describe(file: &Path, why: &str) -> String {
    format!("ssl_options.cacertfile {}: {why}", file.display())
}

/// Bounds how many certificates may stand between a client's and its root.
#[derive(Debug)]
struct DepthVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    depth_max: u8,
}

impl ClientCertVerifier for DepthVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // A root that was sent along does not count.
        let is_between = |bytes: &&CertificateDer<'_>| {
            PeerCertificate::read(bytes).is_none_or(|read| read.subject() != read.issuer())
        };
        if intermediates.iter().filter(is_between).count() > usize::from(self.depth_max) {
            return Err(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer));
        }
        self.inner.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The outcome of opening records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Bytes that are done with; the rest is to come again, with more behind it.
    pub consumed: usize,
    /// The peer sends no more.
    pub is_closed: bool,
}

/// One connection.
pub struct Secure {
    connection: UnbufferedServerConnection,
    /// A rule was broken: nothing is taken or said any more.
    is_broken: bool,
    /// The encryption of the connection, once the handshake is over.
    pub about: Option<Arc<Encryption>>,
}

impl Secure {
    /// A connection whose handshake is to come.
    ///
    /// # Errors
    /// The configuration does not do.
    pub fn new(config: Arc<ServerConfig>) -> Result<Secure, rustls::Error> {
        Ok(Secure { connection: UnbufferedServerConnection::new(config)?, is_broken: false, about: None })
    }

    /// The handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The handshake is over: fills in the facts of the encryption and of the peer. The user that its certificate
    /// names.
    pub fn established(&mut self, rule: CertificateLogin) -> Option<String> {
        let chain = self.connection.peer_certificates().unwrap_or_default();
        let certificate = chain.first().and_then(|first| PeerCertificate::read(first));
        let is_13 = self.connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3);
        let suite = self.connection.negotiated_cipher_suite();
        let name = suite.map(|suite| format!("{:?}", suite.suite())).unwrap_or_default();
        let cipher =
            [("AES_256", "aes_256_gcm"), ("AES_128", "aes_128_gcm"), ("CHACHA20", "chacha20_poly1305")];
        let cipher = cipher.iter().find(|(part, _)| name.contains(part)).map_or("", |(_, cipher)| cipher);
        let key_exchange = match is_13 {
            true => "any",
            false if name.contains("ECDSA") => "ecdhe_ecdsa",
            false => "ecdhe_rsa",
        };
        self.about = Some(Arc::new(Encryption {
            protocol: if is_13 { "tlsv1.3" } else { "tlsv1.2" },
            key_exchange,
            cipher,
            // Every cipher there is vouches for its records itself.
            hash: "aead",
            certificate: certificate
                .as_ref()
                .map(|it| [it.subject(), it.issuer(), it.validity(), it.serial_number()]),
        }));
        certificate.and_then(|certificate| certificate.login(rule))
    }

    /// Takes what came: gives its plain bytes to `sink`, and appends to `wire` what the protocol itself has to say.
    ///
    /// # Errors
    /// The peer broke a rule; `wire` ends with the alert for it, and the connection is over.
    pub fn open(
        &mut self,
        bytes: &mut [u8],
        wire: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<Opened, rustls::Error> {
        let mut opened = Opened::default();
        if self.is_broken {
            return Err(rustls::Error::DecryptError);
        }
        loop {
            let status = self.connection.process_tls_records(&mut bytes[opened.consumed..]);
            opened.consumed += status.discard;
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        opened.consumed += record.discard;
                        sink(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(wire, |room| data.encode(room)),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => opened.is_closed = true,
                Ok(ConnectionState::Closed) => return Ok(Opened { is_closed: true, ..opened }),
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                    return Ok(opened);
                }
                // Data before the handshake is over is not accepted, so nothing else can be.
                Ok(_) => return Err(rustls::Error::General("an unexpected state of TLS".into())),
                Err(error) => {
                    self.alert(wire);
                    return Err(error);
                }
            }
        }
    }

    /// Appends the queued bytes, and nothing else: a failed state must not be looked at again.
    fn alert(&mut self, wire: &mut Vec<u8>) {
        self.is_broken = true;
        for _ in 0..ALERTS_MAX {
            if !self.connection.wants_write() {
                return;
            }
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(wire, |room| data.encode(room)),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => while traffic.next_record().is_some() {},
                _ => return,
            }
        }
    }

    /// Appends `plain`, encrypted, to `wire`. `tail` is what came and [`Secure::open`] was not done with.
    ///
    /// # Errors
    /// Nothing more can be sent.
    pub fn seal(&mut self, plain: &[u8], tail: &mut [u8], wire: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let estimate = plain.len() + (plain.len() / RECORD_BYTES + 1) * RECORD_OVERHEAD_BYTES;
        self.when_ready(tail, wire, estimate, |traffic, room| traffic.encrypt(plain, room))
    }

    /// Appends the word that nothing more will be sent to `wire`.
    ///
    /// # Errors
    /// Nothing more can be sent.
    pub fn close(&mut self, tail: &mut [u8], wire: &mut Vec<u8>) -> Result<(), rustls::Error> {
        self.when_ready(tail, wire, RECORD_OVERHEAD_BYTES, |traffic, room| traffic.queue_close_notify(room))
    }

    fn when_ready(
        &mut self,
        tail: &mut [u8],
        wire: &mut Vec<u8>,
        estimate: usize,
        mut write: impl FnMut(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
            &mut [u8],
        ) -> Result<usize, EncryptError>,
    ) -> Result<(), rustls::Error> {
        if self.is_broken {
            return Err(rustls::Error::EncryptError);
        }
        loop {
            let status = self.connection.process_tls_records(tail);
            if status.discard > 0 {
                return Err(rustls::Error::General(
                    "what came was not taken before something was sent".into(),
                ));
            }
            let state = match status.state {
                Ok(state) => state,
                Err(error) => {
                    self.is_broken = true;
                    return Err(error);
                }
            };
            match state {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let begin = wire.len();
                    let mut required = estimate;
                    loop {
                        wire.resize(begin + required, 0);
                        match write(&mut traffic, &mut wire[begin..]) {
                            Ok(written) => {
                                wire.truncate(begin + written);
                                return Ok(());
                            }
                            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                                required = required_size;
                            }
                            Err(EncryptError::EncryptExhausted) => return Err(rustls::Error::EncryptError),
                        }
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(wire, |room| data.encode(room)),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {}
                // Its alerts and messages are sent after the handshake and before both have closed.
                _ => return Err(rustls::Error::EncryptError),
            }
        }
    }
}

/// Appends what `write` writes once it has room.
fn encode(wire: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) {
    let begin = wire.len();
    let mut required = 0;
    loop {
        wire.resize(begin + required, 0);
        match write(&mut wire[begin..]) {
            Ok(written) => return wire.truncate(begin + written),
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                required = required_size
            }
            Err(EncodeError::AlreadyEncoded) => return wire.truncate(begin),
        }
    }
}

#[cfg(test)]
pub mod tests;
