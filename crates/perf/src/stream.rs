//! The transport of a connection's bytes: plain TCP, TLS, WebSocket, or WebSocket over TLS.
//!
//! Over plain TCP it is the socket and no more. Else the layers are put up with the first reads and writes, on blocking
//! and non-blocking sockets alike; bytes written meanwhile wait for them. Certificates are not verified: the load
//! generator measures brokers, it does not trust them with secrets. Nothing is compressed.

use crate::options::{Protocol, Transport};
use crate::uri::Uri;
use base::Random;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, OnceLock};
use websocket::upgrade::{self, Outcome};
use websocket::{Incoming, Limits, Outgoing, Role, Workshop};

/// Bytes read from the wire at a time. A reader has room for so many, and for a record of TLS in front of them.
const WIRE: usize = 128 << 10;

/// Where the broker's WebSocket listener is.
const PATH: &str = "/ws";

thread_local! {
    /// Bytes that came over the wire, and bytes to be wrapped, of the stream that the thread is at.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::new((vec![0; WIRE], Vec::new()));
}

/// See the module.
#[derive(Debug)]
pub struct Stream<S> {
    socket: S,
    layers: Option<Box<Layers>>,
}

#[derive(Debug)]
struct Layers {
    tls: Option<ClientConnection>,
    web: Option<Web>,
    /// Came and could not be taken apart yet.
    came: Vec<u8>,
    /// For the wire, and not taken by the kernel.
    unsent: Vec<u8>,
    is_over: bool,
}

#[derive(Debug)]
struct Web {
    protocol: &'static str,
    nonce: [u8; 16],
    /// The broker has granted it; until then `held` waits.
    is_open: bool,
    held: Vec<u8>,
    incoming: Incoming,
    outgoing: Outgoing,
    workshop: Workshop,
    random: Random,
}

impl<S: Read + Write> Stream<S> {
    /// Over `socket`, which leads, or is about to lead, to `uri`.
    ///
    /// # Errors
    /// The host's name cannot stand in a certificate.
    pub fn new(socket: S, uri: &Uri, protocol: Protocol) -> Result<Stream<S>, String> {
        let (is_secure, is_web) = (uri.transport.is_secure(), uri.transport.is_web());
        if matches!(uri.transport, Transport::Tcp | Transport::Stream) {
            return Ok(Stream { socket, layers: None });
        }
        let tls = is_secure.then(|| secure(&uri.host)).transpose()?;
        let mut layers = Layers { tls, web: None, came: Vec::new(), unsent: Vec::new(), is_over: false };
        if is_web {
            let name = if protocol == Protocol::Amqp10 { "amqp" } else { "amqp091" };
            // Keys have to differ, not to be secret, in a measurement.
            let mut random = Random::new(u64::from(std::process::id()) << 16 | u64::from(uri.port));
            let mut nonce = [0; 16];
            random.fill(&mut nonce);
            let host = format!("{}:{}", uri.host, uri.port);
            layers
                .wrap(&upgrade::request(&host, PATH, name, nonce, false))
                .map_err(|error| error.to_string())?;
            layers.web = Some(Web {
                protocol: name,
                nonce,
                is_open: false,
                held: Vec::new(),
                incoming: Incoming::new(Role::Client, false),
                outgoing: Outgoing::new(Role::Client, false),
                workshop: Workshop::default(),
                random,
            });
        }
        Ok(Stream { socket, layers: Some(Box::new(layers)) })
    }

    /// The socket, to be waited for.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// The socket, to be registered.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Sends the bytes that the layers hold back; true if none are left.
    ///
    /// # Errors
    /// The connection broke.
    pub fn push(&mut self) -> io::Result<bool> {
        let Some(layers) = &mut self.layers else { return Ok(true) };
        layers.gather()?;
        while !layers.unsent.is_empty() {
            match self.socket.write(&layers.unsent) {
                Ok(sent) => drop(layers.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if layers.unsent.capacity() > WIRE {
            layers.unsent = Vec::new();
        }
        Ok(true)
    }
}

impl<S: Read + Write> Read for Stream<S> {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.layers.is_none() { self.socket.read(into) } else { self.read_layers(into) }
    }
}

impl<S: Read + Write> Stream<S> {
    fn read_layers(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.push()?;
            let Some(layers) = &mut self.layers else { return Ok(0) };
            if layers.is_over {
                return Ok(0);
            }
            let produced = SCRATCH.with_borrow_mut(|(wire, _)| {
                let room = wire.len().min(into.len());
                match self.socket.read(&mut wire[..room])? {
                    0 => {
                        layers.is_over = true;
                        Ok(0)
                    }
                    count => layers.arrive(&wire[..count], into),
                }
            })?;
            if produced > 0 {
                return Ok(produced);
            }
        }
    }
}

impl<S: Read + Write> Write for Stream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    #[inline]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.layers.is_none() {
            return self.socket.write_vectored(slices);
        }
        self.write_layers(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push().map(|_| ())
    }
}

impl<S: Read + Write> Stream<S> {
    /// All is taken once the bytes taken before are gone: so at most one write waits here.
    fn write_layers(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.push()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(layers) = &mut self.layers else { return Ok(0) };
        let sum = SCRATCH.with_borrow_mut(|(_, bytes)| {
            bytes.clear();
            slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
            layers.carry(bytes).map(|()| bytes.len())
        })?;
        self.push()?;
        Ok(sum)
    }
}

impl Layers {
    /// Wraps `bytes` of the protocol.
    fn carry(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(web) = &mut self.web else { return self.wrap(bytes) };
        if !web.is_open {
            web.held.extend_from_slice(bytes);
            return Ok(());
        }
        let mut key = [0; 4];
        web.random.fill(&mut key);
        if self.tls.is_none() {
            web.outgoing.carry(&mut web.workshop, bytes, key, &mut self.unsent);
            return Ok(());
        }
        let mut frame = Vec::with_capacity(bytes.len() + websocket::HEADER_BYTES_MAX);
        web.outgoing.carry(&mut web.workshop, bytes, key, &mut frame);
        self.wrap(&frame)
    }

    /// Puts `bytes` into TLS, or as they are to the unsent ones.
    fn wrap(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.unsent.extend_from_slice(bytes),
            Some(tls) => tls.writer().write_all(bytes)?,
        }
        Ok(())
    }

    /// The layers' own answers join the unsent bytes.
    fn gather(&mut self) -> io::Result<()> {
        if let Some(web) = &mut self.web
            && web.outgoing.has_answers()
        {
            let mut key = [0; 4];
            web.random.fill(&mut key);
            let mut frames = Vec::new();
            web.outgoing.take_answers(key, &mut frames);
            self.wrap(&frames)?;
        }
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.unsent)?;
            }
        }
        Ok(())
    }

    /// Takes in bytes of the wire; returns how many bytes of the protocol were in them.
    fn arrive(&mut self, mut wire: &[u8], into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            self.came.extend_from_slice(wire);
            return self.unwrap(into);
        };
        let mut produced = 0;
        while !wire.is_empty() && !self.is_over {
            tls.read_tls(&mut wire)?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            let count = state.plaintext_bytes_to_read();
            if self.web.is_some() {
                let begin = self.came.len();
                self.came.resize(begin + count, 0);
                tls.reader().read_exact(&mut self.came[begin..])?;
            } else {
                tls.reader().read_exact(&mut into[produced..produced + count])?;
                produced += count;
            }
            self.is_over |= state.peer_has_closed();
        }
        if self.web.is_some() { self.unwrap(into) } else { Ok(produced) }
    }

    /// Takes WebSocket frames, or the answer in front of them, apart.
    fn unwrap(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let limits = Limits::default();
        let Some(web) = &mut self.web else { return Ok(0) };
        if !web.is_open {
            match upgrade::outcome(&limits, web.protocol, web.nonce, &self.came) {
                Outcome::Incomplete => return Ok(0),
                Outcome::Refused(why) => return Err(io::Error::other(format!("no WebSocket: {why}"))),
                Outcome::Accepted(_, len) => {
                    self.came.drain(..len);
                    web.is_open = true;
                    let held = std::mem::take(&mut web.held);
                    self.carry(&held)?;
                }
            }
        }
        let Some(web) = &mut self.web else { return Ok(0) };
        let taken = web.incoming.take(&limits, &mut web.workshop, &mut self.came, into, &mut web.outgoing);
        self.came.drain(..taken.consumed);
        self.is_over |= taken.is_closed;
        Ok(taken.produced)
    }
}

fn secure(host: &str) -> Result<ClientConnection, String> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider serves TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        Arc::new(config)
    });
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
    let mut tls = ClientConnection::new(config.clone(), name).map_err(|error| error.to_string())?;
    // At most one write waits, as over the other layers.
    tls.set_buffer_limit(None);
    Ok(tls)
}

/// Takes any certificate.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ServerConfig, ServerConnection};
    use websocket::upgrade::{Answer, Rules, answer};

    /// A socket with a server behind it that sends back all it is sent. Passes on `piece` bytes at a time.
    struct Echo {
        piece: usize,
        tls: Option<ServerConnection>,
        is_web: bool,
        web: Option<(Incoming, Outgoing)>,
        came: Vec<u8>,
        sent: Vec<u8>,
    }

    impl Echo {
        fn new(transport: Transport, piece: usize) -> Echo {
            let tls = transport.is_secure().then(|| {
                let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let key =
                    rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
                let config = ServerConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .unwrap()
                    .with_no_client_auth()
                    .with_single_cert(vec![made.cert.der().clone()], key)
                    .unwrap();
                let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
                tls.set_buffer_limit(None);
                tls
            });
            let is_web = transport.is_web();
            Echo { piece, tls, is_web, web: None, came: Vec::new(), sent: Vec::new() }
        }

        /// Carries the bytes that came up through the layers, and back.
        fn turn(&mut self) {
            let mut carried = vec![0; 1 << 20];
            let mut back = Vec::new();
            let limits = Limits::default();
            let mut workshop = Workshop::default();
            if !self.is_web {
                back.append(&mut self.came);
            } else if let Some((incoming, outgoing)) = &mut self.web {
                let taken = incoming.take(&limits, &mut workshop, &mut self.came, &mut carried, outgoing);
                self.came.drain(..taken.consumed);
                outgoing.carry(&mut workshop, &carried[..taken.produced], [0; 4], &mut back);
            } else {
                let protocols = vec!["amqp", "amqp091"];
                let rules = Rules { path: PATH.to_owned(), protocols, origins: None, may_compress: true };
                match answer(&limits, &rules, &self.came) {
                    Answer::Incomplete => {}
                    Answer::Refused(text, _) => back = text,
                    Answer::Accepted(text, agreed, len) => {
                        assert!(!agreed.may_inflate, "nobody asked for it");
                        back = text;
                        self.came.drain(..len);
                        let role = Role::Server;
                        self.web = Some((Incoming::new(role, false), Outgoing::new(role, false)));
                    }
                }
            }
            match &mut self.tls {
                Some(tls) => tls.writer().write_all(&back).unwrap(),
                None => self.sent.append(&mut back),
            }
        }
    }

    impl Write for Echo {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.piece);
            match &mut self.tls {
                None => self.came.extend_from_slice(&bytes[..count]),
                Some(tls) => {
                    let mut rest = &bytes[..count];
                    while !rest.is_empty() {
                        tls.read_tls(&mut rest)?;
                        let state = tls.process_new_packets().map_err(io::Error::other)?;
                        let begin = self.came.len();
                        self.came.resize(begin + state.plaintext_bytes_to_read(), 0);
                        tls.reader().read_exact(&mut self.came[begin..])?;
                    }
                }
            }
            self.turn();
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Echo {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.turn();
            if let Some(tls) = &mut self.tls {
                while tls.wants_write() {
                    tls.write_tls(&mut self.sent)?;
                }
            }
            let count = self.sent.len().min(self.piece).min(into.len());
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            into[..count].copy_from_slice(&self.sent[..count]);
            self.sent.drain(..count);
            Ok(count)
        }
    }

    fn check(transport: Transport, piece: usize, bytes: &[u8]) {
        let uri = Uri::local(1, transport);
        let mut stream = Stream::new(Echo::new(transport, piece), &uri, Protocol::Amqp091).unwrap();
        let (mut written, mut read) = (0, Vec::new());
        let mut into = vec![0; 4 * WIRE];
        for _ in 0..1_000_000 {
            if written < bytes.len() {
                let (one, two) = bytes[written..].split_at((bytes.len() - written) / 2);
                match stream.write_vectored(&[IoSlice::new(one), IoSlice::new(two)]) {
                    Ok(count) => written += count,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            match stream.read(&mut into) {
                Ok(count) => read.extend_from_slice(&into[..count]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
            if read.len() >= bytes.len() {
                break;
            }
        }
        assert!(read == bytes, "{transport:?} in pieces of {piece}: {} of {}", read.len(), bytes.len());
    }

    #[test]
    fn bytes_come_back_over_every_transport_however_they_are_cut() {
        let bytes: Vec<u8> = (0..100_000u32).map(|index| (index * 7 + index / 251) as u8).collect();
        for transport in Transport::ALL {
            for (piece, len) in [(1, 300), (7, 3000), (1460, 100_000), (1 << 20, 100_000)] {
                check(transport, piece, &bytes[..len]);
            }
        }
    }

    #[test]
    fn a_refused_web_socket_is_told() {
        let echo = Echo { sent: b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec(), ..Echo::new(Transport::Tcp, 99) };
        let mut stream = Stream::new(echo, &Uri::local(1, Transport::Ws), Protocol::Amqp10).unwrap();
        let error = stream.read(&mut [0; 100]).unwrap_err();
        assert_eq!(error.to_string(), "no WebSocket: status 404");
    }
}
