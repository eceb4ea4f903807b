//! Names in a client's certificate, written as RabbitMQ writes them, and the choice of the one that is a user's.

use crate::config::network::{AlternativeKind, CertificateLogin, LoginFrom};
use std::fmt::Write;
use std::net::IpAddr;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Short names of the parts of a name.
const PARTS: &[(ObjectIdentifier, &str)] = &[
    (COMMON_NAME, "CN"),
    (ObjectIdentifier::new_unwrap("2.5.4.4"), "SN"),
    (ObjectIdentifier::new_unwrap("2.5.4.5"), "SERIALNUMBER"),
    (ObjectIdentifier::new_unwrap("2.5.4.6"), "C"),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), "L"),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), "ST"),
    (ObjectIdentifier::new_unwrap("2.5.4.9"), "STREET"),
    (ObjectIdentifier::new_unwrap("2.5.4.10"), "O"),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), "OU"),
    (ObjectIdentifier::new_unwrap("2.5.4.12"), "TITLE"),
    (ObjectIdentifier::new_unwrap("2.5.4.42"), "GIVENNAME"),
    (ObjectIdentifier::new_unwrap("2.5.4.43"), "INITIALS"),
    (ObjectIdentifier::new_unwrap("2.5.4.44"), "GENERATIONQUALIFIER"),
    (ObjectIdentifier::new_unwrap("2.5.4.65"), "PSEUDONYM"),
    (ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.25"), "DC"),
    (ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.1"), "UID"),
    (ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1"), "EMAILADDRESS"),
];

/// A certificate that was verified.
pub struct PeerCertificate(Certificate);

impl PeerCertificate {
    /// Reads one; `None`: it is none that can be read.
    pub fn read(bytes: &[u8]) -> Option<PeerCertificate> {
        Certificate::from_der(bytes).ok().map(PeerCertificate)
    }

    /// The name of its subject.
    pub fn subject(&self) -> String {
        distinguished(self.0.tbs_certificate().subject())
    }

    /// The name of its issuer.
    pub fn issuer(&self) -> String {
        distinguished(self.0.tbs_certificate().issuer())
    }

    /// Its serial number, hexadecimal.
    pub fn serial_number(&self) -> String {
        let bytes = self.0.tbs_certificate().serial_number().as_bytes();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        let trimmed = digits.trim_start_matches('0');
        if trimmed.is_empty() { "0" } else { trimmed }.to_owned()
    }

    /// From when to when.
    pub fn validity(&self) -> String {
        let validity = self.0.tbs_certificate().validity();
        format!("{} - {}", validity.not_before.to_date_time(), validity.not_after.to_date_time())
    }

    /// When it is good no more, seconds since 1970.
    pub fn ends_at_s(&self) -> Option<u64> {
        Some(self.0.tbs_certificate().validity().not_after.to_unix_duration().as_secs())
    }

    /// The user it names by this rule, if it names one.
    pub fn login(&self, rule: CertificateLogin) -> Option<String> {
        match rule.from {
            LoginFrom::Distinguished => Some(self.subject()).filter(|name| !name.is_empty()),
            LoginFrom::Common => {
                let parts = self.0.tbs_certificate().subject().iter();
                let names: Vec<String> = parts.filter(|part| part.oid == COMMON_NAME).map(text).collect();
                (!names.is_empty()).then(|| names.join(","))
            }
            LoginFrom::Alternative => {
                let (_, names) = self.0.tbs_certificate().get_extension::<SubjectAltName>().ok()??;
                names.0.iter().filter_map(|name| alternative(name, rule.kind)).nth(rule.index)
            }
        }
    }
}

fn alternative(name: &GeneralName, kind: AlternativeKind) -> Option<String> {
    match (name, kind) {
        (GeneralName::DnsName(name), AlternativeKind::Dns)
        | (GeneralName::Rfc822Name(name), AlternativeKind::Email)
        | (GeneralName::UniformResourceIdentifier(name), AlternativeKind::Uri) => Some(name.to_string()),
        (GeneralName::IpAddress(bytes), AlternativeKind::Ip) => {
            let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes.as_bytes()).ok()?));
            let v6 = || Some(IpAddr::from(<[u8; 16]>::try_from(bytes.as_bytes()).ok()?));
            v4().or_else(v6).map(|address| address.to_string())
        }
        _ => None,
    }
}

/// A name, the last part first, RFC 4514.
fn distinguished(name: &Name) -> String {
    let steps = name.iter_rdn().map(|step| step.iter().map(part).collect::<Vec<_>>().join("+"));
    let mut steps: Vec<String> = steps.collect();
    steps.reverse();
    steps.join(",")
}

fn part(part: &AttributeTypeAndValue) -> String {
    let short = PARTS.iter().find(|(oid, _)| *oid == part.oid).map(|(_, short)| (*short).to_owned());
    format!("{}={}", short.unwrap_or_else(|| part.oid.to_string()), escaped(&text(part)))
}

/// The text of a part, whatever string it is kept as.
fn text(part: &AttributeTypeAndValue) -> String {
    let bytes = part.value.value();
    match part.value.tag() {
        Tag::BmpString => {
            let units = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair));
            char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// RFC 4514 §2.4
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, letter) in text.chars().enumerate() {
        let is_special = matches!(letter, '"' | '+' | ',' | ';' | '<' | '>' | '\\')
            || letter == ' ' && (at == 0 || at == last)
            || letter == '#' && at == 0;
        match letter {
            // A name with control letters in it would break the lines of a log.
            letter if letter.is_ascii_control() => write!(out, "\\{:02x}", letter as u32).unwrap_or_default(),
            letter => out.extend(is_special.then_some('\\').into_iter().chain([letter])),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(names: &[(DnType, &str)], others: Vec<SanType>) -> PeerCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        names.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
        params.subject_alt_names = others;
        params.serial_number = Some(vec![0x0a, 0xbc, 0xde].into());
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2027, 3, 4);
        let key = KeyPair::generate().expect("a key");
        let signed = params.self_signed(&key).expect("signed");
        PeerCertificate::read(signed.der()).expect("readable")
    }

    #[test]
    fn names_are_written_as_rabbitmq_does() {
        let check = |names: &[(DnType, &str)], expected: &str| {
            assert_eq!(certificate(names, Vec::new()).subject(), expected, "{names:?}");
        };
        let (o, cn) = (DnType::OrganizationName, DnType::CommonName);
        check(&[(o.clone(), "client"), (cn.clone(), "hare")], "CN=hare,O=client");
        check(&[(DnType::CountryName, "DE"), (cn.clone(), "ä")], "CN=ä,C=DE");
        check(&[(cn.clone(), "a,b+c\"d")], "CN=a\\,b\\+c\\\"d");
        check(&[(cn.clone(), " #x ")], "CN=\\ #x\\ ");
        check(&[(cn.clone(), "#x")], "CN=\\#x");
        check(&[(cn, "a\nb")], "CN=a\\0ab");
        check(&[(DnType::CustomDnType(vec![1, 2, 3]), "x")], "1.2.3=x");
        let certificate = certificate(&[(o, "client")], Vec::new());
        assert_eq!(certificate.issuer(), "O=client");
        assert_eq!(certificate.serial_number(), "ABCDE");
        assert_eq!(certificate.validity(), "2026-01-02T00:00:00Z - 2027-03-04T00:00:00Z");
    }

    #[test]
    fn the_user_is_what_the_rule_says() {
        let text = |text: &str| text.try_into().expect("plain letters");
        let others = vec![
            SanType::DnsName(text("one.example")),
            SanType::Rfc822Name(text("hare@example.org")),
            SanType::DnsName(text("two.example")),
            SanType::IpAddress("127.0.0.1".parse().expect("an address")),
            SanType::IpAddress("::1".parse().expect("an address")),
            SanType::URI(text("spiffe://example/hare")),
        ];
        let names = [(DnType::OrganizationName, "client"), (DnType::CommonName, "hare")];
        let certificate = certificate(&names, others);
        let check = |from, kind, index, expected: Option<&str>| {
            let login = certificate.login(CertificateLogin { from, kind, index });
            assert_eq!(login.as_deref(), expected, "{from:?} {kind:?} {index}");
        };
        use AlternativeKind::{Dns, Email, Ip, Uri};
        use LoginFrom::{Alternative, Common, Distinguished};
        check(Distinguished, Dns, 0, Some("CN=hare,O=client"));
        check(Common, Dns, 7, Some("hare"));
        check(Alternative, Dns, 0, Some("one.example"));
        check(Alternative, Dns, 1, Some("two.example"));
        check(Alternative, Dns, 2, None);
        check(Alternative, Email, 0, Some("hare@example.org"));
        check(Alternative, Ip, 0, Some("127.0.0.1"));
        check(Alternative, Ip, 1, Some("::1"));
        check(Alternative, Uri, 0, Some("spiffe://example/hare"));
        let nobody = super::tests::certificate(&[], Vec::new());
        assert_eq!(nobody.login(CertificateLogin { from: Common, kind: Dns, index: 0 }), None);
        assert_eq!(nobody.login(CertificateLogin { from: Alternative, kind: Dns, index: 0 }), None);
        assert_eq!(nobody.login(CertificateLogin { from: Distinguished, kind: Dns, index: 0 }), None);
    }
}
