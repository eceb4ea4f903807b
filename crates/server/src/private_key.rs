//! Private keys of TLS, encrypted or not: PKCS#8, PKCS#1 and SEC1 in the clear; PKCS#8 with PBES2, and PEM with the older
//! encryption of OpenSSL (`DEK-Info`).

use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use data_encoding::{BASE64, HEXUPPER_PERMISSIVE};
use des::TdesEde3;
use md5::{Digest, Md5};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use std::path::Path;

/// Bytes of a file with keys and certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of an initialization vector that are the salt as well, in the older encryption.
const SALT: usize = 8;

/// Reads the first private key of a file, decrypting it where it is encrypted.
///
/// # Errors
/// Why there is none, or what is wrong with it or its password.
pub fn read(file: &Path, password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    let text = std::fs::read(file).map_err(|error| error.to_string())?;
    from_pem(&text, password)
}

fn from_pem(text: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    let block = block(&String::from_utf8_lossy(text));
    let encrypted = block.filter(|block| block.label == "ENCRYPTED PRIVATE KEY" || block.cipher.is_some());
    let Some(block) = encrypted else {
        return PrivateKeyDer::from_pem_slice(text)
            .map_err(|error| format!("no private key can be read: {error}"));
    };
    let password = password.ok_or("it is encrypted, and no password is set")?;
    let der = BASE64.decode(block.body.as_bytes()).map_err(|_| "its PEM block is not base64")?;
    match block.cipher {
        None => open_pkcs8(&der, password),
        Some(cipher) => open_older(&block.label, &cipher, der, password),
    }
}

/// A block of PEM that holds a private key.
struct Block {
    /// `RSA PRIVATE KEY`.
    label: String,
    /// The value of `DEK-Info`.
    cipher: Option<String>,
    /// Base64, without line ends.
    body: String,
}

fn block(text: &str) -> Option<Block> {
    let mut lines = text.lines().map(str::trim);
    let label = lines.find_map(|line| {
        let label = line.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
        label.ends_with("PRIVATE KEY").then(|| label.to_owned())
    })?;
    let (mut cipher, mut body) = (None, String::new());
    for line in lines.take_while(|line| !line.starts_with("-----END")) {
        match line.split_once(':') {
            Some(("DEK-Info", value)) => cipher = Some(value.trim().to_owned()),
            Some(_) => {}
            None => body.push_str(line),
        }
    }
    Some(Block { label, cipher, body })
}

const WRONG: &str = "the password is not that of the key";

fn open_pkcs8(der: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let key = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|_| "it is no encrypted key of PKCS#8")?;
    let pkcs8::pkcs5::EncryptionScheme::Pbes2(_) = &key.encryption_algorithm else {
        return Err("it is encrypted by PBES1, which is broken: encrypt it anew with 'openssl pkcs8 -topk8 -v2 aes256'".into());
    };
    let clear = key.decrypt(password).map_err(|error| match error {
        pkcs8::Error::EncryptedPrivateKey(pkcs8::pkcs5::Error::UnsupportedAlgorithm { .. }) => {
            format!("how it is encrypted is not served: {error}")
        }
        _ => WRONG.to_owned(),
    })?;
    Ok(PrivatePkcs8KeyDer::from(clear.as_bytes().to_vec()).into())
}

/// `AES-256-CBC,0123...`: cipher and initialization vector.
fn open_older(
    label: &str,
    cipher: &str,
    der: Vec<u8>,
    password: &str,
) -> Result<PrivateKeyDer<'static>, String> {
    let (name, vector) = cipher.split_once(',').ok_or("its DEK-Info cannot be read")?;
    let vector =
        HEXUPPER_PERMISSIVE.decode(vector.trim().as_bytes()).map_err(|_| "its DEK-Info cannot be read")?;
    let clear = match name {
        "AES-128-CBC" => decrypt::<Decryptor<Aes128>>(&der, password, &vector, 16),
        "AES-192-CBC" => decrypt::<Decryptor<Aes192>>(&der, password, &vector, 24),
        "AES-256-CBC" => decrypt::<Decryptor<Aes256>>(&der, password, &vector, 32),
        "DES-EDE3-CBC" => decrypt::<Decryptor<TdesEde3>>(&der, password, &vector, 24),
        _ => {
            return Err(format!(
                "{name} is not served: AES-128-CBC, AES-192-CBC, AES-256-CBC and DES-EDE3-CBC are, and PKCS#8"
            ));
        }
    };
    let clear = clear.ok_or(WRONG)?;
    match label {
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(clear).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(clear).into()),
        _ => Err(format!("a key of the kind '{label}' is not served")),
    }
}

fn decrypt<C: KeyIvInit + BlockModeDecrypt>(
    der: &[u8],
    password: &str,
    vector: &[u8],
    len: usize,
) -> Option<Vec<u8>> {
    let key = derive(password.as_bytes(), vector.get(..SALT)?, len);
    C::new_from_slices(&key, vector).ok()?.decrypt_padded_vec::<Pkcs7>(der).ok()
}

/// OpenSSL's `EVP_BytesToKey` with MD5 and one round: what the older encryption of PEM uses.
fn derive(password: &[u8], salt: &[u8], len: usize) -> Vec<u8> {
    let mut key: Vec<u8> = Vec::new();
    let mut last = Vec::new();
    while key.len() < len {
        last = Md5::new().chain_update(&last).chain_update(password).chain_update(salt).finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(len);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};

    const PASSWORD: &str = "t0p $3kRe7";

    /// The output of OpenSSL run with these words, if it is there.
    fn openssl(words: &[&str], input: &[u8]) -> Option<Vec<u8>> {
        use std::io::Write;
        let mut child = Command::new("openssl")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(input).ok()?;
        let output = child.wait_with_output().ok()?;
        output.status.success().then_some(output.stdout)
    }

    #[test]
    fn keys_that_openssl_encrypts_are_read() {
        let Some(rsa) = openssl(&["genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:1024"], b"")
        else {
            println!("openssl is not installed");
            return;
        };
        let ec =
            openssl(&["genpkey", "-algorithm", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], b"").unwrap();
        let pass = format!("pass:{PASSWORD}");
        let ways: &[(&[u8], &[&str])] = &[
            (&rsa, &["pkcs8", "-topk8"]),
            (&rsa, &["pkcs8", "-topk8", "-v2", "aes-128-cbc"]),
            (&rsa, &["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA512"]),
            (&rsa, &["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA1"]),
            (&rsa, &["pkcs8", "-topk8", "-v2", "des3"]),
            (&rsa, &["pkcs8", "-topk8", "-scrypt"]),
            (&ec, &["pkcs8", "-topk8"]),
            (&rsa, &["rsa", "-traditional", "-aes128"]),
            (&rsa, &["rsa", "-traditional", "-aes192"]),
            (&rsa, &["rsa", "-traditional", "-aes256"]),
            (&rsa, &["rsa", "-traditional", "-des3"]),
            (&ec, &["ec", "-aes256"]),
        ];
        for (key, way) in ways {
            let words = [way, &["-passout", pass.as_str()][..]].concat();
            let text = openssl(&words, key).unwrap_or_else(|| panic!("{words:?}"));
            let read = from_pem(&text, Some(PASSWORD)).unwrap_or_else(|why| panic!("{words:?}: {why}"));
            let signer = rustls::crypto::ring::sign::any_supported_type(&read);
            // A key of 1,024 bits is for tests alone: that it is one is all that is asked.
            assert!(signer.is_ok() || !read.secret_der().is_empty(), "{words:?}");
            assert_eq!(read.secret_der()[0], 0x30, "{words:?}");
            // One in some hundreds of wrong passwords gives a padding that is right; never a key.
            let wrong = from_pem(&text, Some("other"));
            assert!(wrong.is_err() || wrong.is_ok_and(|key| key.secret_der()[0] != 0x30), "{words:?}");
            assert_eq!(
                from_pem(&text, None).unwrap_err(),
                "it is encrypted, and no password is set",
                "{words:?}"
            );
        }
        assert!(from_pem(&rsa, Some(PASSWORD)).is_ok(), "what is not encrypted needs no password");
        let old = openssl(&["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", &pass], &rsa).unwrap();
        assert!(from_pem(&old, Some(PASSWORD)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(
            label in "(ENCRYPTED|RSA|EC|) ?PRIVATE KEY",
            head in "(Proc-Type: 4,ENCRYPTED\n)?(DEK-Info: [A-Z0-9-]{0,14},?[0-9A-Fa-f]{0,34}\n)?",
            body in "[A-Za-z0-9+/=]{0,200}",
        ) {
            let text = format!("-----BEGIN {label}-----\n{head}\n{body}\n-----END {label}-----\n");
            let _ = from_pem(text.as_bytes(), Some(PASSWORD));
        }
    }
}
