//! Integers and string lengths of RFC 7541 §5.1.

use super::HpackError;

/// Greatest accepted value: no index, size or length that we allow comes near it.
const VALUE_MAX: u32 = 1 << 28;

/// Reads an integer with `prefix_bits` bits in its first byte, and advances `bytes`.
#[inline]
pub(super) fn decode(bytes: &mut &[u8], prefix_bits: u32) -> Result<u32, HpackError> {
    let (&first, mut rest) = bytes.split_first().ok_or(HpackError::Truncated)?;
    let mask = (1u32 << prefix_bits) - 1;
    let mut value = u32::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(HpackError::Truncated)?;
            rest = behind;
            // Four groups of seven bits hold every accepted value.
            if shift > 21 {
                return Err(HpackError::Integer);
            }
            value += u32::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        if value > VALUE_MAX {
            return Err(HpackError::Integer);
        }
    }
    *bytes = rest;
    Ok(value)
}

/// Appends an integer; the bits of `first` above the prefix are kept.
#[inline]
pub(super) fn encode(value: usize, prefix_bits: u32, first: u8, out: &mut Vec<u8>) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(mut bytes: &[u8], prefix_bits: u32) -> Result<(u32, usize), HpackError> {
        let value = decode(&mut bytes, prefix_bits)?;
        Ok((value, bytes.len()))
    }

    /// RFC 7541, appendix C.1.
    #[test]
    fn reads_and_writes_the_examples_of_the_rfc() {
        for (value, prefix_bits, bytes) in [(10, 5, &[10][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            assert_eq!(decoded(bytes, prefix_bits), Ok((value, 0)));
            let mut out = Vec::new();
            encode(value as usize, prefix_bits, 0, &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn every_value_comes_back() {
        for prefix_bits in 4..=8 {
            for value in (0..70_000).chain([VALUE_MAX - 1, VALUE_MAX]) {
                let mut out = Vec::new();
                encode(value as usize, prefix_bits, 0, &mut out);
                assert_eq!(decoded(&out, prefix_bits), Ok((value, 0)));
            }
        }
    }

    #[test]
    fn refuses_truncated_and_too_large_integers() {
        assert_eq!(decoded(&[], 5), Err(HpackError::Truncated));
        assert_eq!(decoded(&[31], 5), Err(HpackError::Truncated));
        assert_eq!(decoded(&[31, 0x80], 5), Err(HpackError::Truncated));
        assert_eq!(decoded(&[31, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 5), Err(HpackError::Integer));
        assert_eq!(decoded(&[31, 0x80, 0x80, 0x80, 0x80, 0x00], 5), Err(HpackError::Integer), "zeros without end");
    }
}
