//! The secret that the nodes of a cluster share, and the grounds on which a peer is trusted.

use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes of a cookie at most.
pub const COOKIE_BYTES_MAX: usize = 1024;

/// The secret that all nodes of a cluster have. Its bytes are overwritten when the last copy of it goes; nothing shows
/// them.
#[derive(Clone)]
pub struct Cookie(Arc<Zeroizing<Box<[u8]>>>);

/// Bytes that are no cookie: none, or more than [`COOKIE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCookie;

impl Cookie {
    /// The cookie of these bytes, which are copied: the caller's are the caller's to overwrite.
    ///
    /// # Errors
    /// [`NoCookie`] where there are none, or too many.
    pub fn new(bytes: &[u8]) -> Result<Cookie, NoCookie> {
        match bytes.len() {
            1..=COOKIE_BYTES_MAX => Ok(Cookie(Arc::new(Zeroizing::new(bytes.into())))),
            _ => Err(NoCookie),
        }
    }

    /// The bytes, as the key of a proof.
    pub(crate) fn key(&self) -> &[u8] {
        &self.0
    }
}

/// How long it takes tells their lengths, and nothing else.
impl PartialEq for Cookie {
    fn eq(&self, other: &Cookie) -> bool {
        let unlike =
            self.key().iter().zip(other.key()).fold(0, |unlike, (one, other)| unlike | (one ^ other));
        self.key().len() == other.key().len() && std::hint::black_box(unlike) == 0
    }
}

/// A cookie is not for logs.
impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookie(..)")
    }
}

impl std::fmt::Display for NoCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a cookie has 1 to {COOKIE_BYTES_MAX} bytes")
    }
}

impl std::error::Error for NoCookie {}

/// The ground on which a peer's hello is believed.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The peer proves that it has this cookie. Nothing is encrypted.
    Cookie(Cookie),
    /// Both ends verified each other's certificate before the first byte of the lane; no proof is asked for or given.
    Certificates,
}

#[cfg(test)]
mod tests {
    use super::{COOKIE_BYTES_MAX, Cookie, Trust};

    #[test]
    fn a_cookie_is_not_shown_and_has_bounds() {
        let cookie = Cookie::new(b"monster").unwrap();
        assert_eq!(cookie.key(), b"monster");
        assert_eq!(format!("{:?}", Trust::Cookie(cookie.clone())), "Cookie(Cookie(..))");
        assert!(cookie == Cookie::new(b"monster").unwrap());
        for other in [&b"monstre"[..], b"monste", b"monsters"] {
            assert!(cookie != Cookie::new(other).unwrap());
        }
        assert!(Cookie::new(b"").is_err());
        assert!(Cookie::new(&[7; COOKIE_BYTES_MAX]).is_ok());
        assert!(Cookie::new(&[7; COOKIE_BYTES_MAX + 1]).is_err());
    }
}
