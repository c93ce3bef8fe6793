//! Traditional `crypt(3)`: DES 25 times over a block of zeros, with the password as key and two letters of salt that swap bits of
//! the expansion (POSIX, and FIPS 46-3 for the tables). No kept crate has it, and `openssl passwd` made such hashes for decades.

use super::password::CRYPT_LETTERS;

const INITIAL: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32,
    24, 16, 8, 57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47,
    39, 31, 23, 15, 7,
];
const FINAL: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45, 13, 53, 21,
    61, 29, 36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27, 34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9,
    49, 17, 57, 25,
];
const EXPANSION: [u8; 48] = [
    32, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9, 8, 9, 10, 11, 12, 13, 12, 13, 14, 15, 16, 17, 16, 17, 18, 19, 20, 21, 20, 21,
    22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32, 1,
];
const PERMUTATION: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4,
    25,
];
/// What of the key each half begins with.
const KEY_HALVES: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36, 63, 55,
    47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];
const KEY_CHOICE: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, 41, 52, 31, 37, 47, 55, 30,
    40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
const KEY_SHIFTS: [usize; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
#[rustfmt::skip]
const BOXES: [[u8; 64]; 8] = [
    [14,4,13,1,2,15,11,8,3,10,6,12,5,9,0,7, 0,15,7,4,14,2,13,1,10,6,12,11,9,5,3,8, 4,1,14,8,13,6,2,11,15,12,9,7,3,10,5,0, 15,12,8,2,4,9,1,7,5,11,3,14,10,0,6,13],
    [15,1,8,14,6,11,3,4,9,7,2,13,12,0,5,10, 3,13,4,7,15,2,8,14,12,0,1,10,6,9,11,5, 0,14,7,11,10,4,13,1,5,8,12,6,9,3,2,15, 13,8,10,1,3,15,4,2,11,6,7,12,0,5,14,9],
    [10,0,9,14,6,3,15,5,1,13,12,7,11,4,2,8, 13,7,0,9,3,4,6,10,2,8,5,14,12,11,15,1, 13,6,4,9,8,15,3,0,11,1,2,12,5,10,14,7, 1,10,13,0,6,9,8,7,4,15,14,3,11,5,2,12],
    [7,13,14,3,0,6,9,10,1,2,8,5,11,12,4,15, 13,8,11,5,6,15,0,3,4,7,2,12,1,10,14,9, 10,6,9,0,12,11,7,13,15,1,3,14,5,2,8,4, 3,15,0,6,10,1,13,8,9,4,5,11,12,7,2,14],
    [2,12,4,1,7,10,11,6,8,5,3,15,13,0,14,9, 14,11,2,12,4,7,13,1,5,0,15,10,3,9,8,6, 4,2,1,11,10,13,7,8,15,9,12,5,6,3,0,14, 11,8,12,7,1,14,2,13,6,15,0,9,10,4,5,3],
    [12,1,10,15,9,2,6,8,0,13,3,4,14,7,5,11, 10,15,4,2,7,12,9,5,6,1,13,14,0,11,3,8, 9,14,15,5,2,8,12,3,7,0,4,10,1,13,11,6, 4,3,2,12,9,5,15,10,11,14,1,7,6,0,8,13],
    [4,11,2,14,15,0,8,13,3,12,9,7,5,10,6,1, 13,0,11,7,4,9,1,10,14,3,5,12,2,15,8,6, 1,4,11,13,12,3,7,14,10,15,6,8,0,5,9,2, 6,11,13,8,1,4,10,7,9,5,0,15,14,2,3,12],
    [13,2,8,4,6,15,11,1,10,9,3,14,5,0,12,7, 1,15,13,8,10,3,7,4,12,5,6,11,0,14,9,2, 7,11,4,1,9,12,14,2,0,6,10,13,15,3,5,8, 2,1,14,7,4,10,8,13,15,12,9,0,3,5,6,11],
];

/// Bits, one a byte.
fn pick<const FROM: usize, const TO: usize>(from: &[u8; FROM], places: &[u8; TO]) -> [u8; TO] {
    places.map(|place| from[usize::from(place) - 1])
}

/// The eleven letters behind the salt; `None` where the salt has other letters than it may have.
pub(super) fn des_crypt(password: &[u8], salt: [u8; 2]) -> Option<Vec<u8>> {
    let mut expansion = EXPANSION;
    for (index, letter) in salt.into_iter().enumerate() {
        let value = CRYPT_LETTERS.iter().position(|&known| known == letter)?;
        for bit in (0..6).filter(|bit| value >> bit & 1 == 1) {
            expansion.swap(6 * index + bit, 6 * index + bit + 24);
        }
    }
    let mut key = [0; 64];
    for (letter, bits) in password.iter().zip(key.chunks_mut(8)) {
        // The lowest seven bits, and none for the parity.
        for (place, bit) in bits.iter_mut().take(7).enumerate() {
            *bit = letter >> (6 - place) & 1;
        }
    }
    let keys = round_keys(&key);
    let mut block = [0; 64];
    for _ in 0..25 {
        block = encrypt(&block, &keys, &expansion);
    }
    let mut bits = [0; 66];
    bits[..64].copy_from_slice(&block);
    let letter = |six: &[u8]| CRYPT_LETTERS[six.iter().fold(0, |value, bit| value << 1 | usize::from(*bit))];
    Some(bits.chunks(6).map(letter).collect())
}

fn round_keys(key: &[u8; 64]) -> [[u8; 48]; 16] {
    let mut halves = pick(key, &KEY_HALVES);
    KEY_SHIFTS.map(|shift| {
        let (left, right) = halves.split_at_mut(28);
        left.rotate_left(shift);
        right.rotate_left(shift);
        pick(&halves, &KEY_CHOICE)
    })
}

fn encrypt(block: &[u8; 64], keys: &[[u8; 48]; 16], expansion: &[u8; 48]) -> [u8; 64] {
    let block = pick(block, &INITIAL);
    let (mut left, mut right) = ([0; 32], [0; 32]);
    left.copy_from_slice(&block[..32]);
    right.copy_from_slice(&block[32..]);
    for key in keys {
        let mut mixed = [0; 32];
        let spread = pick(&right, expansion);
        for (number, table) in BOXES.iter().enumerate() {
            let bit = |place: usize| usize::from(spread[6 * number + place] ^ key[6 * number + place]);
            let row = bit(0) << 1 | bit(5);
            let column = bit(1) << 3 | bit(2) << 2 | bit(3) << 1 | bit(4);
            let value = table[row * 16 + column];
            for place in 0..4 {
                mixed[4 * number + place] = value >> (3 - place) & 1;
            }
        }
        let mixed = pick(&mixed, &PERMUTATION);
        let next = std::array::from_fn(|place| left[place] ^ mixed[place]);
        left = right;
        right = next;
    }
    let mut joined = [0; 64];
    joined[..32].copy_from_slice(&right);
    joined[32..].copy_from_slice(&left);
    pick(&joined, &FINAL)
}
