//! Handshakes and streams against a client of the same library, every refusal, and any bytes.

use super::*;
use crate::config::network::{AlternativeKind, LoginFrom};
use crate::layer::{Bench, Layer};
use base::Output;
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::ClientConnection;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use std::io::{Read, Write};

const RULE: CertificateLogin =
    CertificateLogin { from: LoginFrom::Common, kind: AlternativeKind::Dns, index: 0 };

/// A root, and files of certificates it signed, in a folder that goes with it.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let folder = std::env::temp_dir().join(format!("leveret-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, format!("root {name}"));
        let root = params.self_signed(&key).expect("signed");
        std::fs::write(folder.join("ca.pem"), root.pem()).expect("written");
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate, which is past its time if `is_expired`.
    pub fn sign(&self, name: &str, is_expired: bool) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        if is_expired {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.folder.join(format!("{name}.pem")), signed.pem()).expect("written");
        std::fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem()).expect("written");
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name))
    }

    pub fn options(&self) -> TlsOptions {
        TlsOptions {
            ca_file: self.file("ca.pem"),
            certificate_file: self.file("server.pem"),
            key_file: self.file("server.key"),
            ..TlsOptions::default()
        }
    }

    /// A client that trusts this root, with a certificate or without.
    fn client(&self, own: Option<(&Authority, &str)>, version: TlsVersion) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let root = certificates("ca", &self.folder.join("ca.pem")).expect("readable");
        root.into_iter().for_each(|root| roots.add(root).expect("a root"));
        let version = match version {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((authority, name)) => {
                let chain =
                    certificates("own", &authority.folder.join(format!("{name}.pem"))).expect("readable");
                let key = PrivateKeyDer::from_pem_file(authority.folder.join(format!("{name}.key")))
                    .expect("a key");
                builder.with_client_auth_cert(chain, key).expect("fits")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a client")
    }
}

/// Moves bytes both ways until both sides rest; what arrived at the server, or why not.
fn settle(client: &mut ClientConnection, server: &mut Secure, step: usize) -> Result<Vec<u8>, String> {
    let (mut raw, mut arrived) = (Vec::new(), Vec::new());
    loop {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("a vector takes all");
        }
        let mut wire = Vec::new();
        for part in sent.chunks(step) {
            raw.extend_from_slice(part);
            let opened = server.open(&mut raw, &mut wire, |bytes| arrived.extend_from_slice(bytes));
            let opened = opened.map_err(|error| format!("server: {error}"))?;
            raw.drain(..opened.consumed);
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("a slice gives all");
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
        if wire.is_empty() && !client.wants_write() {
            return Ok(arrived);
        }
    }
}

#[test]
fn streams_arrive_both_ways_whatever_the_cut() {
    let authority = Authority::new("streams");
    ["server", "hare"].iter().for_each(|name| authority.sign(name, false));
    let mut options = authority.options();
    options.verifies = Some(true);
    let payload: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for step in [1, 100, 5000, 1 << 20] {
            let mut client = authority.client(Some((&authority, "hare")), version);
            client.set_buffer_limit(None);
            let mut server = Secure::new(server_config(&options).expect("usable")).expect("a server");
            assert_eq!(settle(&mut client, &mut server, step), Ok(Vec::new()));
            assert!(!server.is_handshaking() && !client.is_handshaking());
            assert_eq!(server.established(RULE).as_deref(), Some("hare"));
            client.writer().write_all(&payload).expect("taken");
            assert!(settle(&mut client, &mut server, step) == Ok(payload.clone()), "{version:?} {step}");
            let mut wire = Vec::new();
            server.seal(&payload, &mut [], &mut wire).expect("sealed");
            server.close(&mut [], &mut wire).expect("closed");
            let (mut rest, mut received) = (wire.as_slice(), Vec::new());
            while !rest.is_empty() {
                client.read_tls(&mut rest).expect("a slice gives all");
                client.process_new_packets().expect("right");
                // The end is said by the last of them.
                let _ = client.reader().read_to_end(&mut received);
            }
            assert!(received == payload, "{version:?} {step}");
        }
    }
}

/// How a handshake ends: the user, nobody, or why not.
fn meet(
    options: &TlsOptions,
    authority: &Authority,
    own: Option<(&Authority, &str)>,
    version: TlsVersion,
) -> Result<Option<String>, String> {
    let mut client = authority.client(own, version);
    let mut server = Secure::new(server_config(options)?).expect("a server");
    settle(&mut client, &mut server, 1000)?;
    assert!(!server.is_handshaking());
    Ok(server.established(RULE))
}

#[test]
fn certificates_are_asked_for_and_judged() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    ["server", "hare"].iter().for_each(|name| ours.sign(name, false));
    ours.sign("late", true);
    theirs.sign("stranger", false);
    let check = |verifies, demands, own: Option<(&Authority, &str)>, expected: Result<Option<&str>, &str>| {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let options = TlsOptions { verifies: Some(verifies), demands: Some(demands), ..ours.options() };
            let met = meet(&options, &ours, own, version);
            match expected {
                Ok(user) => assert_eq!(met, Ok(user.map(str::to_owned))),
                Err(part) => assert!(met.as_ref().is_err_and(|why| why.contains(part)), "{met:?} for {part}"),
            }
        }
    };
    check(false, false, None, Ok(None));
    check(false, false, Some((&ours, "hare")), Ok(None));
    check(true, false, None, Ok(None));
    check(true, false, Some((&ours, "hare")), Ok(Some("hare")));
    check(true, true, Some((&ours, "hare")), Ok(Some("hare")));
    check(true, true, None, Err("peer sent no certificates"));
    check(true, false, Some((&ours, "late")), Err("expired"));
    check(true, false, Some((&theirs, "stranger")), Err("UnknownIssuer"));
}

#[test]
fn versions_and_ciphers_are_those_allowed() {
    let authority = Authority::new("versions");
    authority.sign("server", false);
    let check = |options: TlsOptions, version, expected: Result<(&str, &str), &str>| {
        let mut client = authority.client(None, version);
        let mut server = Secure::new(server_config(&options).expect("usable")).expect("a server");
        match (settle(&mut client, &mut server, 1000), expected) {
            (Ok(_), Ok(expected)) => {
                server.established(RULE);
                let about = server.about.as_deref().expect("established");
                assert_eq!((about.protocol, about.cipher), expected);
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
    };
    use TlsVersion::{Tls12, Tls13};
    let only = |version| TlsOptions { versions: vec![version], ..authority.options() };
    check(authority.options(), Tls13, Ok(("tlsv1.3", "aes_256_gcm")));
    check(authority.options(), Tls12, Ok(("tlsv1.2", "aes_256_gcm")));
    check(only(Tls13), Tls12, Err("server: peer is incompatible"));
    check(only(Tls12), Tls13, Err("server: peer is incompatible"));
    let cipher = rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
    let one = TlsOptions { ciphers: vec![cipher], ..only(Tls13) };
    check(one, Tls13, Ok(("tlsv1.3", "chacha20_poly1305")));
}

#[test]
fn options_that_do_not_do_say_why() {
    let authority = Authority::new("options");
    ["server", "other"].iter().for_each(|name| authority.sign(name, false));
    std::fs::write(authority.folder.join("empty"), "").expect("written");
    let check = |change: &dyn Fn(&mut TlsOptions), expected: &str| {
        let mut options = authority.options();
        change(&mut options);
        let why = server_config(&options).err().unwrap_or_default();
        assert!(why.contains(expected), "{why:?} for {expected}");
    };
    check(&|options| options.key_file = None, "needs ssl_options.certfile and ssl_options.keyfile");
    check(&|options| options.certificate_file = authority.file("nowhere"), "ssl_options.certfile");
    check(&|options| options.certificate_file = authority.file("empty"), "no certificate is in it");
    check(&|options| options.key_file = authority.file("server.pem"), "no private key can be read");
    check(&|options| options.key_file = authority.file("other.key"), "do not fit together");
    check(&|options| options.demands = Some(true), "needs ssl_options.verify = verify_peer");
    check(
        &|options| (options.verifies, options.ca_file) = (Some(true), None),
        "needs ssl_options.cacertfile",
    );
    let suite = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    let tls12 = |options: &mut TlsOptions| {
        (options.ciphers, options.versions) = (vec![suite], vec![TlsVersion::Tls12])
    };
    check(&tls12, "ssl_options.versions and ssl_options.ciphers do not fit together");
}

#[test]
fn who_comes_back_is_known_by_its_ticket() {
    let authority = Authority::new("tickets");
    ["server", "hare"].iter().for_each(|name| authority.sign(name, false));
    for (resumes, expected) in
        [(None, rustls::HandshakeKind::Resumed), (Some(false), rustls::HandshakeKind::Full)]
    {
        let options = TlsOptions { verifies: Some(true), resumes, ..authority.options() };
        let config = server_config(&options).expect("usable");
        let mut second = again(&authority, &config);
        let mut server = Secure::new(config).expect("a server");
        settle(&mut second, &mut server, 1000).expect("met");
        assert_eq!(second.handshake_kind(), Some(expected));
        assert_eq!(server.established(RULE).as_deref(), Some("hare"));
    }
}

/// A second connection of one client, after a first one to `config`.
fn again(authority: &Authority, config: &Arc<ServerConfig>) -> ClientConnection {
    let chain = certificates("own", &authority.folder.join("hare.pem")).expect("readable");
    let key = PrivateKeyDer::from_pem_file(authority.folder.join("hare.key")).expect("a key");
    let mut roots = RootCertStore::empty();
    let root = certificates("ca", &authority.folder.join("ca.pem")).expect("readable");
    root.into_iter().for_each(|root| roots.add(root).expect("a root"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("fits");
    let client = Arc::new(client);
    let name = || ServerName::try_from("localhost").expect("a name");
    let mut first = ClientConnection::new(client.clone(), name()).expect("a client");
    let mut server = Secure::new(config.clone()).expect("a server");
    settle(&mut first, &mut server, 1000).expect("met");
    ClientConnection::new(client, name()).expect("a client")
}

/// A client and a server of an authority of this name that have met.
fn met(name: &str) -> (ClientConnection, Secure) {
    let authority = Authority::new(name);
    authority.sign("server", false);
    let mut client = authority.client(None, TlsVersion::Tls13);
    let mut server = Secure::new(server_config(&authority.options()).expect("usable")).expect("a server");
    settle(&mut client, &mut server, 1000).expect("met");
    (client, server)
}

#[test]
fn a_layer_carries_what_came_with_the_handshake_and_holds_nothing_when_idle() {
    let (mut client, server) = met("layer");
    let mut layer = Layer::new(Some(server), None).with_rest(Vec::new(), b"early ".to_vec(), Vec::new());
    let mut bench = Bench::default();
    let mut into = vec![0; 1 << 17];
    client.writer().write_all(b"late").expect("taken");
    let mut sent = Vec::new();
    client.write_tls(&mut sent).expect("a vector takes all");
    let (kept, room) = layer.begin(&mut bench);
    assert!(kept == 0 && room >= sent.len());
    bench.raw[..sent.len()].copy_from_slice(&sent);
    let arrived = layer.take(&mut bench, sent.len(), &mut into);
    assert_eq!(&into[..arrived.produced], b"early late");
    let mut output = Output::default();
    output.extend(b"answer");
    assert_eq!(layer.wrap(&mut bench, &mut output), Ok(true));
    client.read_tls(&mut bench.wire.as_slice()).expect("a slice gives all");
    client.process_new_packets().expect("right");
    let mut received = [0; 6];
    client.reader().read_exact(&mut received).expect("there");
    assert!(received == *b"answer" && output.is_empty());
    layer.cool();
    assert_eq!(layer.heap_bytes(), 0);
    layer.say_farewell(&mut bench);
    client.read_tls(&mut layer.unsent.as_slice()).expect("a slice gives all");
    assert!(client.process_new_packets().expect("right").peer_has_closed());
}

#[test]
fn a_layer_is_over_when_all_before_the_farewell_was_taken() {
    let (mut client, server) = met("farewell");
    client.writer().write_all(&[b'x'; 2500]).expect("taken");
    client.send_close_notify();
    let mut sent = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut sent).expect("a vector takes all");
    }
    let mut layer = Layer::new(Some(server), None);
    let (mut bench, mut into) = (Bench::default(), [0; 1000]);
    let mut take = |bytes: &[u8]| {
        let (kept, room) = layer.begin(&mut bench);
        assert!(room >= bytes.len());
        bench.raw[kept..kept + bytes.len()].copy_from_slice(bytes);
        let arrived = layer.take(&mut bench, kept + bytes.len(), &mut into);
        (arrived.produced, arrived.has_more, arrived.is_over)
    };
    assert_eq!(take(&sent), (1000, true, false));
    assert_eq!(take(&[]), (1000, true, false));
    assert_eq!(take(&[]), (500, false, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_end_a_handshake_in_bounds(bytes in prop::collection::vec(any::<u8>(), 0..3000), step in 1usize..400) {
        let authority = Authority::new("any");
        authority.sign("server", false);
        let mut server = Secure::new(server_config(&authority.options()).expect("usable")).expect("a server");
        let (mut raw, mut wire) = (Vec::new(), Vec::new());
        for part in [&b"\x16\x03\x01"[..], &bytes].concat().chunks(step) {
            raw.extend_from_slice(part);
            match server.open(&mut raw, &mut wire, |_| {}) {
                Ok(opened) => drop(raw.drain(..opened.consumed)),
                Err(_) => break,
            }
        }
        prop_assert!(wire.len() <= 100, "{} bytes said", wire.len());
    }

    #[test]
    fn any_bytes_after_the_handshake_end_it_in_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        cut in 0usize..2000,
        step in 1usize..400,
    ) {
        let authority = Authority::new("after");
        authority.sign("server", false);
        let mut client = authority.client(None, TlsVersion::Tls13);
        let mut server = Secure::new(server_config(&authority.options()).expect("usable")).expect("a server");
        settle(&mut client, &mut server, 1000).expect("met");
        // A right record and a change of keys, cut off anywhere and gone on with anything.
        client.writer().write_all(&bytes).expect("taken");
        client.refresh_traffic_keys().expect("open");
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("a vector takes all");
        }
        sent.truncate(cut);
        sent.extend_from_slice(&bytes);
        let mut layer = Layer::new(Some(server), None);
        let (mut bench, mut into) = (Bench::default(), vec![0; 1 << 17]);
        for part in sent.chunks(step) {
            let (kept, _) = layer.begin(&mut bench);
            bench.raw[kept..kept + part.len()].copy_from_slice(part);
            let arrived = layer.take(&mut bench, kept + part.len(), &mut into);
            prop_assert!(layer.heap_bytes() <= 3 * (18 << 10));
            // Output wrapped in between must not disturb a record that is half here.
            let mut output = Output::default();
            output.extend(b"answer");
            let _ = layer.wrap(&mut bench, &mut output);
            if arrived.is_over {
                break;
            }
        }
    }
}
