//! Checks a password against a hash: the forms that nginx reads itself (`$apr1$`, `{SHA}`, `{SSHA}`, `{PLAIN}`) and those that it
//! leaves to `crypt(3)` (DES, `$1$`, bcrypt, `$5$`, `$6$`, yescrypt). A check can take seconds, depending on the hash, so it must not
//! run on the thread of an event loop. Hashes are compared in constant time.

use super::decode_base64;
use super::des::des_crypt;
use super::md5_crypt::md5_crypt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier as _, ShaCrypt};
use sha1::{Digest as _, Sha1};
use subtle::ConstantTimeEq as _;
use yescrypt::Yescrypt;

/// The letters of `crypt(3)`, by their value.
pub(super) const CRYPT_LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The highest cost of bcrypt that is computed: some ten seconds. A higher cost would let a client that knows a user's name hold a
/// thread for minutes.
const BCRYPT_COST_MAX: u32 = 17;
/// The same for rounds of SHA-crypt.
const SHA_ROUNDS_MAX: u32 = 5_000_000;
/// The same for yescrypt: bytes of memory.
const YESCRYPT_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a SHA-1.
const SHA1_BYTES: usize = 20;

/// Whether a password belongs to a hash. A hash that is not understood, or that costs too much, belongs to no password.
pub fn is_password(password: &[u8], hash: &[u8]) -> bool {
    // nginx would compare as far as the first NUL: a password has none.
    if password.contains(&0) {
        return false;
    }
    if let Some(plain) = hash.strip_prefix(b"{PLAIN}") {
        return is_same(password, plain);
    }
    if let Some(encoded) = hash.strip_prefix(b"{SHA}") {
        return is_same(STANDARD.encode(Sha1::digest(password)).as_bytes(), encoded);
    }
    if let Some(encoded) = hash.strip_prefix(b"{SSHA}") {
        return is_salted_sha(password, encoded);
    }
    for prefix in [&b"$apr1$"[..], b"$1$"] {
        if let Some(rest) = hash.strip_prefix(prefix) {
            let Some(dollar) = rest.iter().position(|&byte| byte == b'$') else { return false };
            let (salt, expected) = rest.split_at(dollar);
            return is_same(&md5_crypt(password, salt, prefix), &expected[1..]);
        }
    }
    if hash.first() == Some(&b'$') {
        return std::str::from_utf8(hash).is_ok_and(|hash| is_modular(password, hash));
    }
    let Some((salt, expected)) = hash.split_first_chunk::<2>() else { return false };
    des_crypt(password, *salt).is_some_and(|letters| is_same(&letters, expected))
}

fn is_salted_sha(password: &[u8], encoded: &[u8]) -> bool {
    let Some(decoded) = decode_base64(encoded) else { return false };
    let Some((expected, salt)) = decoded.split_at_checked(SHA1_BYTES) else { return false };
    is_same(&Sha1::new().chain_update(password).chain_update(salt).finalize(), expected)
}

/// `$id$…`
fn is_modular(password: &[u8], hash: &str) -> bool {
    let mut parts = hash.split('$').skip(1);
    match (parts.next(), parts.next()) {
        (Some("2a" | "2b" | "2y"), Some(cost)) => {
            cost.parse().is_ok_and(|cost: u32| cost <= BCRYPT_COST_MAX)
                && bcrypt::verify(password, hash).unwrap_or_default()
        }
        (Some("5" | "6"), Some(first)) => {
            let rounds = first.strip_prefix("rounds=").map_or(Ok(0), str::parse);
            rounds.is_ok_and(|rounds: u32| rounds <= SHA_ROUNDS_MAX)
                && ShaCrypt::default().verify_password(password, hash).is_ok()
        }
        (Some("y"), Some(params)) => {
            yescrypt_bytes(params).is_some_and(|bytes| bytes <= YESCRYPT_BYTES_MAX)
                && Yescrypt::default().verify_password(password, hash).is_ok()
        }
        _ => false,
    }
}

/// Memory that the usual parameters of yescrypt ask for: three letters, of which the last two are the logarithm of N and the block
/// size r, each less one. `None` for others, which no tool writes unasked.
fn yescrypt_bytes(params: &str) -> Option<u64> {
    let &[b'j', n, r] = params.as_bytes() else { return None };
    let value = |letter| CRYPT_LETTERS.iter().position(|&known| known == letter);
    let (log_n, r) = (value(n)? as u32 + 1, value(r)? as u64 + 1);
    1_u64.checked_shl(log_n)?.checked_mul(128 * r)
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Whether something has the form of a hash that can be checked.
pub(super) fn is_hash(text: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 11] =
        [b"{PLAIN}", b"{SHA}", b"{SSHA}", b"$apr1$", b"$1$", b"$2a$", b"$2b$", b"$2y$", b"$5$", b"$6$", b"$y$"];
    let is_des = text.len() == 13 && text.iter().all(|letter| CRYPT_LETTERS.contains(letter));
    is_des || PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl passwd`, `htpasswd` and `mkpasswd`, or published with the algorithms.
    const KNOWN: [(&str, &str); 12] = [
        ("x y", "{PLAIN}x y"),
        ("password", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
        ("password", "$apr1$salt$Xxd1irWT9ycqoYxGFn4cb."),
        ("password", "$1$salt$qJH7.N4xYta3aEG/dfqo/0"),
        ("rasmuslerdorf", "rl.3StKT.4T8M"),
        ("rasmusle", "rl.3StKT.4T8M"),
        ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
        ("U*U", "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
        ("Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
        (
            "Hello world!",
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        ),
        (
            "Hello world!",
            "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
        ),
        ("pleaseletmein", "$y$j9T$WTNWPpFLl6GSfzMvr3Jcc.$jgMqNjVWy8jc1TIruZKHiVROQHFyGO.UCDgECdKSev3"),
    ];

    #[test]
    fn passwords_belong_to_their_hashes_alone() {
        for (password, hash) in &KNOWN {
            assert!(is_hash(hash.as_bytes()), "{hash}");
            assert!(is_password(password.as_bytes(), hash.as_bytes()), "{password} {hash}");
            assert!(!is_password(b"other", hash.as_bytes()), "{hash}");
            assert!(!is_password(b"", hash.as_bytes()), "{hash}");
        }
    }

    #[test]
    fn salted_sha_takes_salts_of_any_length() {
        for salt in ["", "abc", "a longer salt than usual"] {
            let mut bytes = Sha1::new().chain_update("secret").chain_update(salt).finalize().to_vec();
            bytes.extend_from_slice(salt.as_bytes());
            let hash = format!("{{SSHA}}{}", STANDARD.encode(bytes));
            assert!(is_password(b"secret", hash.as_bytes()), "{hash}");
            assert!(!is_password(b"Secret", hash.as_bytes()));
        }
    }

    #[test]
    fn invalid_hash_matches_no_password() {
        for hash in [
            "",
            "x",
            "!",
            "*0",
            "secret",
            "$",
            "$$",
            "$9$x$y",
            "$2a$",
            "$2a$31$x",
            "$5$rounds=99999999$a$b",
            "{SSHA}",
            "{SSHA}!",
        ] {
            assert!(!is_password(b"", hash.as_bytes()), "{hash}");
            assert!(!is_password(b"secret", hash.as_bytes()), "{hash}");
        }
        assert!(!is_password(b"x\0y", b"{PLAIN}x"), "a NUL ends no password");
    }

    #[test]
    fn yescrypt_parameters_determine_its_memory() {
        assert_eq!(yescrypt_bytes("j9T"), Some(16 << 20));
        assert_eq!(yescrypt_bytes("jFT"), Some(1 << 30));
        assert_eq!(yescrypt_bytes("/.."), None);
    }
}
