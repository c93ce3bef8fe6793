//! The Huffman code of RFC 7541, appendix B. The code is canonical: the lengths alone determine it, so the tables are
//! computed from them at compile time.

use super::HpackError;

/// Bits of the longest code.
const BITS_MAX: u32 = 30;

/// Bits of the code of each byte. The last entry is the end-of-string symbol, which no string may contain.
static BITS: [u8; 257] = BITS_OF_SYMBOLS;

#[rustfmt::skip]
const BITS_OF_SYMBOLS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The end-of-string symbol.
const EOS: usize = 256;

/// The code of each symbol, in its lowest bits.
static CODES: [u32; 257] = CANON.codes;
/// Symbols in the order of their codes.
static SYMBOLS: [u16; 257] = CANON.symbols;
/// Per length: the first longer code, left-aligned to 32 bits.
static LIMITS: [u64; BITS_MAX as usize + 1] = CANON.limits;
/// Per length: the offset from a code to its place in `SYMBOLS`, modulo 2^32.
static OFFSETS: [u32; BITS_MAX as usize + 1] = CANON.offsets;

struct Canon {
    codes: [u32; 257],
    symbols: [u16; 257],
    limits: [u64; BITS_MAX as usize + 1],
    offsets: [u32; BITS_MAX as usize + 1],
}

const CANON: Canon = canon();

const fn canon() -> Canon {
    let mut canon = Canon {
        codes: [0; 257],
        symbols: [0; 257],
        limits: [0; BITS_MAX as usize + 1],
        offsets: [0; BITS_MAX as usize + 1],
    };
    let (mut code, mut place, mut bits) = (0u32, 0, 1);
    while bits <= BITS_MAX {
        code <<= 1;
        canon.offsets[bits as usize] = (place as u32).wrapping_sub(code);
        let mut symbol = 0;
        while symbol < 257 {
            if BITS_OF_SYMBOLS[symbol] as u32 == bits {
                canon.codes[symbol] = code;
                canon.symbols[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        canon.limits[bits as usize] = (code as u64) << (32 - bits);
        bits += 1;
    }
    canon
}

/// Bits that are looked up at once: text mostly consists of codes of up to eight bits.
const QUICK_BITS: u32 = 9;

/// For the next bits: the symbol in the lower byte, the length of its code above; 0 if the code is longer.
static QUICK: [u16; 1 << QUICK_BITS] = quick();

const fn quick() -> [u16; 1 << QUICK_BITS] {
    let mut table = [0; 1 << QUICK_BITS];
    let mut symbol = 0;
    while symbol < EOS {
        let bits = BITS_OF_SYMBOLS[symbol] as u32;
        if bits <= QUICK_BITS {
            let first = (CANON.codes[symbol] << (QUICK_BITS - bits)) as usize;
            let mut at = first;
            while at < first + (1 << (QUICK_BITS - bits)) {
                table[at] = (bits << 8) as u16 | symbol as u16;
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}

/// Appends the decoded string to `out`: at most 8/5 of the input, since codes have at least five bits.
pub(super) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(bytes.len() * 8 / 5);
    let mut window = Window { rest: bytes, bits: 0, count: 0 };
    loop {
        window.refill();
        // After a refill there are at least 57 bits, or the last ones.
        while window.count >= BITS_MAX || (window.rest.is_empty() && window.count > 0) {
            let Some((symbol, bits)) = window.next_symbol() else { return window.finish() };
            if bits > window.count {
                return window.finish();
            }
            window.bits <<= bits;
            window.count -= bits;
            out.push(symbol);
        }
        if window.count == 0 && window.rest.is_empty() {
            return Ok(());
        }
    }
}

/// Bits that are still to be decoded.
struct Window<'a> {
    rest: &'a [u8],
    /// Left-aligned, followed by zeros.
    bits: u64,
    count: u32,
}

impl Window<'_> {
    #[inline]
    fn refill(&mut self) {
        while self.count <= 56 {
            let Some((&byte, rest)) = self.rest.split_first() else { return };
            self.bits |= u64::from(byte) << (56 - self.count);
            self.count += 8;
            self.rest = rest;
        }
    }

    /// The symbol at the start of the bits, and its length, which may exceed the available bits. `None`: the
    /// end-of-string symbol.
    #[inline]
    fn next_symbol(&self) -> Option<(u8, u32)> {
        let entry = QUICK[(self.bits >> (64 - QUICK_BITS)) as usize];
        if entry != 0 { Some((entry as u8, u32::from(entry >> 8))) } else { self.long_symbol() }
    }

    #[cold]
    fn long_symbol(&self) -> Option<(u8, u32)> {
        let top = self.bits >> 32;
        let bits = (QUICK_BITS + 1..=BITS_MAX).find(|&bits| top < LIMITS[bits as usize])?;
        let code = (top >> (32 - bits)) as u32;
        let symbol = SYMBOLS[code.wrapping_add(OFFSETS[bits as usize]) as usize];
        // Only the end-of-string symbol exceeds a byte.
        u8::try_from(symbol).ok().map(|symbol| (symbol, bits))
    }

    /// The string has ended if the rest is padding: less than eight bits, all ones (RFC 7541 §5.2).
    fn finish(&self) -> Result<(), HpackError> {
        let is_padding = self.rest.is_empty() && self.count < 8 && self.bits == !(u64::MAX >> self.count);
        if is_padding { Ok(()) } else { Err(HpackError::Huffman) }
    }
}

/// Length of the string when encoded.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(BITS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded string to `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in text {
        let len = u32::from(BITS[usize::from(byte)]);
        bits = bits << len | u64::from(CODES[usize::from(byte)]);
        count += len;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        // Padding is the beginning of the end-of-string symbol: ones.
        out.push((bits << (8 - count)) as u8 | 0xFF >> count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(bytes, &mut out)?;
        Ok(out)
    }

    #[test]
    fn the_code_is_complete_and_has_the_values_of_the_rfc() {
        let space: u64 = BITS.iter().map(|&bits| 1u64 << (32 - bits)).sum();
        assert_eq!(space, 1 << 32);
        let known = [
            (b'0', 0x0),
            (b' ', 0x14),
            (b':', 0x5c),
            (b'Z', 0xfd),
            (b'\\', 0x7_fff0),
            (0xc3, 0x7_fff1),
            (249, 0xfff_fffe),
        ];
        for (byte, code) in known {
            assert_eq!(CODES[usize::from(byte)], code, "{byte}");
        }
        assert_eq!(CODES[EOS], 0x3fff_ffff);
        assert_eq!(CODES[22], 0x3fff_fffe);
    }

    #[test]
    fn decodes_every_byte() {
        for byte in 0..=u8::MAX {
            let text = [byte; 9];
            let mut bytes = Vec::new();
            encode(&text, &mut bytes);
            assert_eq!(bytes.len(), encoded_len(&text));
            assert_eq!(decoded(&bytes).unwrap(), text);
        }
    }

    #[test]
    fn refuses_wrong_padding_and_the_end_of_string_symbol() {
        // `0` is five zero bits.
        assert_eq!(decoded(&[0b0000_0111]).unwrap(), b"0");
        assert!(decoded(&[0b0000_0110]).is_err(), "padding with a zero");
        assert!(decoded(&[0b0000_0000]).is_err(), "padding of zeros");
        assert!(decoded(&[0b0000_0111, 0xFF]).is_err(), "padding of more than seven bits");
        assert!(decoded(&[0xFF]).is_err(), "eight bits of padding alone");
        assert!(decoded(&[0xFF; 4]).is_err(), "the end-of-string symbol");
        assert!(decoded(&[0xFF; 64]).is_err(), "the end-of-string symbol, often");
    }

    proptest! {
        #[test]
        fn encoded_strings_decode_to_themselves(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = Vec::new();
            encode(&text, &mut bytes);
            prop_assert_eq!(bytes.len(), encoded_len(&text));
            prop_assert_eq!(decoded(&bytes).unwrap(), text);
        }

        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = decoded(&bytes) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
