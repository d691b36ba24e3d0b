//! Bearer tokens: their shape, making one, comparing two, and the proof that a server knows one without showing it.
//!
//! A client that is about to send its token over TCP first asks the server for [`proof`] of a nonce of its own, and so a foreign
//! program on the agent's port never sees the token. Not here: where tokens are stored and who is asked.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

/// Random bytes in a new token; it is written as twice as many hexadecimal digits.
const TOKEN_BYTES: usize = 32;
/// Longest nonce that a server signs: enough for any client, and too short to make it work.
pub const NONCE_MAX_BYTES: usize = 128;

/// The system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gave no random bytes")]
pub struct NoRandomness;

/// A new token: 32 random bytes in lowercase hexadecimal.
pub fn generate() -> Result<String, NoRandomness> {
    random_hex(TOKEN_BYTES)
}

/// `bytes` random bytes in lowercase hexadecimal; also what a client takes as its nonce.
pub fn random_hex(bytes: usize) -> Result<String, NoRandomness> {
    let mut random = vec![0; bytes];
    SystemRandom::new().fill(&mut random).map_err(|_| NoRandomness)?;
    Ok(hex(&random))
}

/// Whether `text` can stand after `Bearer `: one or more of `A-Z a-z 0-9 . _ ~ + / -`, then any number of `=`.
pub fn is_bearer(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|b| b.is_ascii_alphanumeric() || b"._~+/-".contains(&b))
}

/// Compares two tokens in a time that tells nothing about where they differ.
pub fn same(presented: &str, expected: &str) -> bool {
    presented.as_bytes().ct_eq(expected.as_bytes()).into()
}

/// Whether a server may be asked to prove itself with `nonce`: 1 to 128 bytes of `A-Z a-z 0-9 . _ ~ -`.
pub fn is_nonce(nonce: &str) -> bool {
    (1..=NONCE_MAX_BYTES).contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(&b))
}

/// HMAC-SHA256 of `nonce` under `token`, in lowercase hexadecimal.
pub fn proof(token: &str, nonce: &str) -> String {
    hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes()), nonce.as_bytes()).as_ref())
}

/// Whether `answer` is the proof of `nonce` under `token`; takes constant time.
pub fn proves(token: &str, nonce: &str, answer: &str) -> bool {
    same(answer, &proof(token, nonce))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_of_a_bearer_token() {
        for good in ["a", "A9", "abc==", "a.b_c~d+e/f-g", "-", &"f".repeat(64)] {
            assert!(is_bearer(good), "{good:?}");
        }
        for bad in ["", "=", "==", "a=b", "a b", " a", "a ", "a\n", "ä", "a,b", "a\"", "\0"] {
            assert!(!is_bearer(bad), "{bad:?}");
        }
    }

    #[test]
    fn new_tokens_are_64_hexadecimal_digits_and_differ() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, two);
        for token in [one, two] {
            assert_eq!(token.len(), 64);
            assert!(token.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{token}");
            assert!(is_bearer(&token));
        }
    }

    #[test]
    fn proof_is_hmac_sha256() {
        // Test case 2 of RFC 4231.
        assert_eq!(proof("Jefe", "what do ya want for nothing?"), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let answer = proof("token", "n1");
        assert!(proves("token", "n1", &answer));
        assert!(!proves("token", "n2", &answer));
        assert!(!proves("other", "n1", &answer));
        assert!(!proves("token", "n1", ""));
        assert!(!proves("token", "n1", &answer.to_uppercase()));
    }

    #[test]
    fn nonces_are_short_and_plain() {
        assert!(is_nonce("a"));
        assert!(is_nonce(&random_hex(32).unwrap()));
        assert!(is_nonce(&"a".repeat(NONCE_MAX_BYTES)));
        for bad in ["", "a b", "a&b", "ä", &"a".repeat(NONCE_MAX_BYTES + 1)] {
            assert!(!is_nonce(bad), "{bad:?}");
        }
    }

    #[test]
    fn tokens_compare_whole() {
        assert!(same("abc", "abc"));
        assert!(!same("abc", "abd"));
        assert!(!same("abc", "abcd"));
        assert!(!same("", "a"));
    }
}
