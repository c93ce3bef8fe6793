//! The mask of a client's payload (RFC 6455 §5.3): the bytes with a four-byte key laid over them again and again. The same
//! function puts it on and takes it off. `decode` and `frame` call it.

/// Applies the mask to `bytes`, which begin `offset` bytes behind the beginning of the frame's payload. Eight bytes at a time.
pub fn mask(bytes: &mut [u8], key: [u8; 4], offset: usize) {
    let mut turned = key;
    turned.rotate_left(offset % key.len());
    let [a, b, c, d] = turned;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = bytes.chunks_exact_mut(size_of::<u64>());
    for word in &mut words {
        let mut eight = [0; size_of::<u64>()];
        eight.copy_from_slice(word);
        word.copy_from_slice(&(u64::from_ne_bytes(eight) ^ wide).to_ne_bytes());
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(turned.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 6455 §5.7: a masked "Hello".
        let mut bytes = *b"Hello";
        mask(&mut bytes, [0x37, 0xfa, 0x21, 0x3d], 0);
        assert_eq!(bytes, [0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    proptest! {
        #[test]
        fn pieces_are_masked_as_the_whole_is(bytes: Vec<u8>, key: [u8; 4], cut: prop::sample::Index) {
            let plain: Vec<u8> = bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
            let mut pieces = bytes.clone();
            let cut = cut.index(bytes.len() + 1);
            let (first, second) = pieces.split_at_mut(cut);
            mask(first, key, 0);
            mask(second, key, cut);
            prop_assert_eq!(pieces, plain);
        }
    }
}
