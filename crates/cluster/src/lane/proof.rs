//! The proof that a peer has the cookie, without telling it.
//!
//! HMAC-SHA-256 (RFC 2104, FIPS 180-4) under the cookie of a label, the role of the prover, and both hellos as they went
//! over the wire, each behind its length. So everything that the hellos say is bound to it: names, versions, purpose,
//! bounds and both nonces. A proof is good for one lane, as each end draws its nonce anew, and for one direction.

use super::cookie::{Cookie, Trust};
use super::role::Role;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// Keeps these digests apart from all others that a cookie may ever be the key of.
const LABEL: &[u8] = b"leveret lane proof 1\0";

/// Both hellos of a lane, as they went over the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hellos<'h> {
    pub dialer: &'h [u8],
    pub listener: &'h [u8],
}

/// The body of `prover`'s proof; empty where certificates vouch.
pub(crate) fn prove(trust: &Trust, prover: Role, hellos: Hellos<'_>) -> Vec<u8> {
    match trust {
        Trust::Cookie(cookie) => digest(cookie, prover, hellos).finalize().into_bytes().to_vec(),
        Trust::Certificates => Vec::new(),
    }
}

/// Whether `proof` is `prover`'s. In constant time for proofs of the right length.
pub(crate) fn is_proven(trust: &Trust, prover: Role, hellos: Hellos<'_>, proof: &[u8]) -> bool {
    match trust {
        Trust::Cookie(cookie) => digest(cookie, prover, hellos).verify_slice(proof).is_ok(),
        Trust::Certificates => proof.is_empty(),
    }
}

fn digest(cookie: &Cookie, prover: Role, hellos: Hellos<'_>) -> Hmac<Sha256> {
    let mut digest = Hmac::<Sha256>::new_from_slice(cookie.key()).expect("keys of HMAC have any length");
    digest.update(LABEL);
    digest.update(&[match prover {
        Role::Dialer => 1,
        Role::Listener => 2,
    }]);
    for hello in [hellos.dialer, hellos.listener] {
        // A hello is one frame's body, far below 2^32.
        digest.update(&(hello.len() as u32).to_le_bytes());
        digest.update(hello);
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLOS: Hellos<'static> = Hellos { dialer: b"one", listener: b"other" };

    fn trust(cookie: &[u8]) -> Trust {
        Trust::Cookie(Cookie::new(cookie).unwrap())
    }

    /// The same digest, from another implementation: Python's `hmac`.
    #[test]
    fn the_bytes_stay_what_they_are() {
        let proof = prove(&trust(b"monster"), Role::Dialer, HELLOS);
        let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "f2d63d66ad93e034847cacfe26234f0b0fe1422b403f92843fbc544966b85d78");
    }

    #[test]
    fn a_proof_is_of_one_cookie_one_direction_and_two_hellos() {
        let proof = prove(&trust(b"monster"), Role::Dialer, HELLOS);
        let check = |cookie: &[u8], prover, dialer, listener, expected| {
            let hellos = Hellos { dialer, listener };
            assert_eq!(is_proven(&trust(cookie), prover, hellos, &proof), expected);
        };
        check(b"monster", Role::Dialer, b"one", b"other", true);
        check(b"Monster", Role::Dialer, b"one", b"other", false);
        check(b"monster", Role::Listener, b"one", b"other", false);
        check(b"monster", Role::Dialer, b"other", b"one", false);
        check(b"monster", Role::Dialer, b"oneo", b"ther", false);
        for len in [0, 1, PROOF_BYTES - 1] {
            assert!(!is_proven(&trust(b"monster"), Role::Dialer, HELLOS, &proof[..len]), "{len} bytes");
        }
    }

    #[test]
    fn certificates_vouch_without_a_proof() {
        assert_eq!(prove(&Trust::Certificates, Role::Dialer, HELLOS), b"");
        assert!(is_proven(&Trust::Certificates, Role::Dialer, HELLOS, b""));
        assert!(!is_proven(&Trust::Certificates, Role::Dialer, HELLOS, &[0; PROOF_BYTES]));
    }
}
