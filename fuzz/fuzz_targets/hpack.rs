//! HPACK: no panic and no growth, for any blocks. Decoded fields are encoded and decoded to the same fields. The input is blocks with
//! their lengths in front.
#![no_main]

use http2::hpack::{Decoded, Decoder, Encoder, Indexing, Sink};
use libfuzzer_sys::fuzz_target;

/// Bytes of fields that one block may bring, as the limits of a head are.
const LIST_BYTES_MAX: usize = 32 * 1024;
/// Memory of a table of 4,096 bytes, with its entries.
const TABLE_BYTES_MAX: usize = 4096 + 256 * 16;

#[derive(Default)]
struct List {
    bytes: Vec<u8>,
    fields: Vec<Decoded>,
    left: usize,
}

impl Sink for List {
    fn admit(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes + 32);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn take(&mut self, field: Decoded) {
        self.fields.push(field);
    }
}

impl List {
    fn decode(decoder: &mut Decoder, block: &[u8]) -> Option<Self> {
        let mut list = Self { left: LIST_BYTES_MAX, ..Self::default() };
        let decoded = decoder.decode(block, &mut list);
        assert!(decoder.held_bytes() <= TABLE_BYTES_MAX);
        decoded.ok().map(|()| list)
    }

    fn pairs(&self) -> Vec<(&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name_at.of(&self.bytes), field.value_at.of(&self.bytes))).collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (mut decoder, mut second) = (Decoder::default(), Decoder::default());
    let mut encoder = Encoder::new(4096);
    let mut rest = bytes;
    while let Some((&len, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(len)));
        rest = behind;
        let Some(list) = List::decode(&mut decoder, block) else { return };
        if len & 1 == 1 {
            encoder.forget();
        }
        let mut again = Vec::new();
        encoder.begin(&mut again);
        for (at, (name, value)) in list.pairs().into_iter().enumerate() {
            let indexing = [Indexing::Keep, Indexing::Without, Indexing::Never][at % 3];
            encoder.field(name, value, indexing, &mut again);
        }
        let heard = List::decode(&mut second, &again).expect("what we encode can be decoded");
        assert_eq!(heard.pairs(), list.pairs());
    }
});
