//! `split_clients`: a variable that takes one of several values by the hash of a text, in given shares. The hash
//! is nginx's (`MurmurHash2` with seed 0), so a client keeps its value when Holdfast replaces nginx or the
//! reverse.

use crate::template::Template;

/// A compiled `split_clients`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    key: Template,
    parts: Box<[Part]>,
}

/// One part: hashes below the bound, and not below that of the part before; `None` is everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The first hash that is not of this part.
    pub below: Option<u32>,
    /// Its value.
    pub value: Box<[u8]>,
}

impl Split {
    /// The parts in the order of the configuration, with ascending bounds.
    pub fn new(key: Template, parts: Vec<Part>) -> Self {
        Self { key, parts: parts.into() }
    }

    /// What is hashed.
    pub fn key(&self) -> &Template {
        &self.key
    }

    /// The value for a text; empty where the parts leave it out.
    pub fn find(&self, text: &[u8]) -> &[u8] {
        let hash = murmur_hash2(text);
        let part = self.parts.iter().find(|part| part.below.is_none_or(|below| hash < below));
        part.map_or(&[], |part| &part.value)
    }
}

/// `MurmurHash2` of 32 bits with seed 0, over little-endian words.
fn murmur_hash2(text: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    // Longer texts than 4 GiB do not exist here; nginx lets the length wrap.
    let mut hash = text.len() as u32;
    let mut words = text.chunks_exact(4);
    for word in &mut words {
        let mut mixed = word.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(parts: &[(Option<u32>, &str)]) -> Split {
        let parts = parts.iter().map(|&(below, value)| Part { below, value: value.as_bytes().into() });
        Split::new(Template::constant(b""), parts.collect())
    }

    /// Values of the algorithm's published form (`MurmurHash2(key, len, 0)`).
    #[test]
    fn the_hash_is_murmur_hash_2() {
        for (text, hash) in [("", 0), ("a", 0x9268_5f5e), ("abcd", 0x2687_3021), ("hello", 0xe561_29cb)] {
            assert_eq!(murmur_hash2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn hash_selects_the_first_part_above_it() {
        let parts = split(&[(Some(1 << 30), "quarter"), (Some(1 << 31), "another"), (None, "rest")]);
        let mut counts = [0; 3];
        for number in 0..4000 {
            match parts.find(format!("client {number}").as_bytes()) {
                b"quarter" => counts[0] += 1,
                b"another" => counts[1] += 1,
                _ => counts[2] += 1,
            }
        }
        assert!((900..1100).contains(&counts[0]) && (900..1100).contains(&counts[1]), "{counts:?}");
        assert_eq!(split(&[(Some(0), "none")]).find(b"a"), b"");
    }
}
