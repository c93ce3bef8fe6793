//! `Vary`: the request fields on which a response depends become a second key. As in nginx, the first variant of a
//! response is stored under the key itself, further ones under their second keys.

use crate::key::Key;
use md5::{Digest as _, Md5};

/// A response with a longer `Vary` is not stored; nginx has the same limit.
pub const VARY_BYTES_MAX: usize = 128;

/// Whether responses with this `Vary` can be distinguished at all.
pub fn is_kept_apart(vary: &[u8]) -> bool {
    vary.len() <= VARY_BYTES_MAX && !names(vary).any(|name| name == b"*")
}

fn names(vary: &[u8]) -> impl Iterator<Item = &[u8]> {
    vary.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

/// The second key of a request. `values` calls its second argument with each value of a request field.
pub fn variant_of(main: Key, vary: &[u8], mut values: impl FnMut(&[u8], &mut dyn FnMut(&[u8]))) -> Key {
    let mut hash = Md5::new();
    hash.update(main.0);
    for name in names(vary) {
        let name = name.to_ascii_lowercase();
        hash.update(&name);
        hash.update(b":");
        values(&name, &mut |value| {
            hash.update(value.trim_ascii());
            hash.update(b",");
        });
        hash.update(b"\r\n");
    }
    Key(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(vary: &[u8], fields: &[(&str, &str)]) -> Key {
        variant_of(Key::of(b"k"), vary, |name, say| {
            for (_, value) in fields.iter().filter(|(known, _)| known.as_bytes() == name) {
                say(value.as_bytes());
            }
        })
    }

    #[test]
    fn fields_in_vary_make_variants() {
        let vary = b"Accept-Language, X-A";
        let german = variant(vary, &[("accept-language", "de")]);
        assert_eq!(german, variant(b"accept-language,x-a", &[("accept-language", " de "), ("other", "1")]));
        assert_ne!(german, variant(vary, &[("accept-language", "en")]));
        assert_ne!(german, variant(vary, &[("accept-language", "de"), ("x-a", "1")]));
        assert_ne!(german, variant(vary, &[("x-a", "de")]), "the name counts");
        assert_ne!(german, variant(b"Accept-Language", &[("accept-language", "de")]));
        assert_ne!(
            variant(vary, &[("accept-language", "de,en")]),
            variant(vary, &[("accept-language", "de, en")]),
            "as in nginx values are compared byte by byte"
        );
    }

    #[test]
    fn a_star_and_a_long_list_are_not_kept() {
        assert!(is_kept_apart(b"Accept") && is_kept_apart(b""));
        assert!(!is_kept_apart(b"*") && !is_kept_apart(b"Accept, *") && !is_kept_apart(&[b'a'; VARY_BYTES_MAX + 1]));
    }
}
