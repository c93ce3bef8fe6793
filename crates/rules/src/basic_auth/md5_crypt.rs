//! The MD5-based hashes `$1$` and `$apr1$`: Poul-Henning Kamp's algorithm, which Apache took over with another prefix.

use super::password::CRYPT_LETTERS;
use md5::{Digest as _, Md5};

/// Rounds are part of the format.
const ROUNDS: usize = 1000;
/// Bytes of a salt that count.
const SALT_BYTES_MAX: usize = 8;

/// The 22 letters behind the salt; `prefix` is `$1$` or `$apr1$`.
pub(super) fn md5_crypt(password: &[u8], salt: &[u8], prefix: &[u8]) -> Vec<u8> {
    let salt = &salt[..salt.len().min(SALT_BYTES_MAX)];
    let inner: [u8; 16] = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut outer = Md5::new().chain_update(password).chain_update(prefix).chain_update(salt);
    for piece in password.chunks(inner.len()) {
        outer.update(&inner[..piece.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        outer.update(if bits & 1 == 1 { &[0][..] } else { password.get(..1).unwrap_or_default() });
        bits >>= 1;
    }
    let mut sum: [u8; 16] = outer.finalize().into();
    for round in 0..ROUNDS {
        let odd = round % 2 == 1;
        let mut hash = Md5::new();
        hash.update(if odd { password } else { &sum });
        if round % 3 != 0 {
            hash.update(salt);
        }
        if round % 7 != 0 {
            hash.update(password);
        }
        hash.update(if odd { &sum[..] } else { password });
        sum = hash.finalize().into();
    }
    letters_of(&sum)
}

/// The order of the bytes is part of the format.
fn letters_of(sum: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(22);
    let mut put = |mut bits: u32, count: usize| {
        for _ in 0..count {
            out.push(CRYPT_LETTERS[(bits & 0x3f) as usize]);
            bits >>= 6;
        }
    };
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        put(u32::from(sum[high]) << 16 | u32::from(sum[middle]) << 8 | u32::from(sum[low]), 4);
    }
    put(u32::from(sum[11]), 2);
    out
}
