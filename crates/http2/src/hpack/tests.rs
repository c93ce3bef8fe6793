//! Tests the codec with RFC 7541's examples, with itself, and with bytes that no peer should send.

use super::*;
use http1::FieldId;
use proptest::prelude::*;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Takes everything, or up to a number of bytes.
#[derive(Default)]
struct List {
    bytes: Vec<u8>,
    taken: Vec<Decoded>,
    bytes_max: Option<usize>,
}

impl Sink for List {
    fn admit(&mut self, bytes: usize) -> bool {
        match &mut self.bytes_max {
            Some(left) if *left < bytes => false,
            Some(left) => {
                *left -= bytes;
                true
            }
            None => true,
        }
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn take(&mut self, field: Decoded) {
        self.taken.push(field);
    }
}

impl List {
    fn pairs(&self) -> Pairs {
        let pair = |field: &Decoded| (field.name_at.of(&self.bytes).to_vec(), field.value_at.of(&self.bytes).to_vec());
        self.taken.iter().map(pair).collect()
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Pairs, HpackError> {
    let mut list = List::default();
    decoder.decode(block, &mut list)?;
    Ok(list.pairs())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn pairs(text: &str) -> Pairs {
    let pair = |line: &str| {
        let at = line[1..].find(':').unwrap() + 1;
        let (name, value) = line.split_at(at);
        (name.as_bytes().to_vec(), value[2..].into())
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(pair).collect()
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value",
];

/// RFC 7541, appendices C.3 and C.4: the same requests without and with Huffman codes.
#[test]
fn decodes_the_requests_of_the_rfc() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::default();
        for (block, request) in blocks.iter().zip(REQUESTS) {
            assert_eq!(decode(&mut decoder, &hex(block)).unwrap(), pairs(request));
        }
    }
}

/// RFC 7541, appendices C.5 and C.6: responses with a table of 256 bytes, from which entries are evicted.
#[test]
fn decodes_the_responses_of_the_rfc() {
    let responses = [
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com",
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com",
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com
         content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ];
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
         2076 6572 7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
         8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::default();
        decoder.table_resize_for_test(256);
        for (block, response) in blocks.iter().zip(responses) {
            assert_eq!(decode(&mut decoder, &hex(block)).unwrap(), pairs(response));
        }
    }
}

/// RFC 7541, appendix C.2.
#[test]
fn decodes_each_kind_of_literal() {
    let cases = [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header", false),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path", false),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret", true),
        ("82", ":method: GET", false),
    ];
    for (block, field, never_indexed) in cases {
        let mut list = List::default();
        Decoder::default().decode(&hex(block), &mut list).unwrap();
        assert_eq!(list.pairs(), pairs(field));
        assert_eq!(list.taken[0].never_indexed, never_indexed);
    }
}

#[test]
fn refuses_blocks_that_break_the_rules() {
    let refused = |block: &[u8]| decode(&mut Decoder::default(), block).unwrap_err();
    assert_eq!(refused(&[0x80]), HpackError::Index, "index 0");
    assert_eq!(refused(&[0xBE]), HpackError::Index, "an empty table");
    assert_eq!(refused(&[0x7E, 1, b'x']), HpackError::Index, "a name of an empty table");
    assert_eq!(refused(&[0x82, 0x20]), HpackError::TableSize, "a size behind a field");
    assert_eq!(refused(&[0x3F, 0xE2, 0x1F]), HpackError::TableSize, "4097 bytes");
    assert_eq!(refused(&[0x20, 0x20, 0x20]), HpackError::TableSize, "three sizes");
    assert_eq!(refused(&[0x40, 3, b'a']), HpackError::Truncated);
    assert_eq!(refused(&[0x40]), HpackError::Truncated);
    assert_eq!(refused(&[0x00, 1, b'a', 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]), HpackError::Integer);
    assert_eq!(refused(&[0x00, 1, b'a', 0x81, 0x00]), HpackError::Huffman);
}

#[test]
fn a_lower_limit_must_be_confirmed_by_the_next_block() {
    let mut decoder = Decoder::default();
    decoder.set_size_max(100);
    assert_eq!(decode(&mut decoder, &[0x82]), Err(HpackError::TableSize));
    assert_eq!(decode(&mut decoder, &[0x3F, 0x45, 0x82]).map(|pairs| pairs.len()), Ok(1));
    assert_eq!(decode(&mut decoder, &[0x3F, 0x46, 0x82]), Err(HpackError::TableSize), "101 bytes");
}

#[test]
fn unadmitted_fields_are_not_copied_but_update_the_table() {
    let mut decoder = Decoder::default();
    let mut list = List { bytes_max: Some(10), ..List::default() };
    let mut block = vec![0x40, 1, b'a', 100];
    block.extend([b'x'; 100]);
    block.extend([0xBE; 1000]);
    block.extend([0x00, 1, b'b', 1, b'y']);
    decoder.decode(&block, &mut list).unwrap();
    assert_eq!(list.pairs(), pairs("b: y"));
    assert_eq!(list.bytes, b"b: y");
    assert_eq!(decode(&mut decoder, &[0xBE]).unwrap()[0].1, [b'x'; 100]);
}

#[test]
fn faults_are_remembered_beside_the_entry() {
    let mut decoder = Decoder::default();
    let mut list = List::default();
    let block = [0x40, 1, b'A', 1, b'v', 0x40, 1, b'b', 2, b'v', b'\n', 0xBF, 0xBE, 0x82, 0x40, 2, b':', b'x', 0];
    decoder.decode(&block, &mut list).unwrap();
    let upper = (Name::Fault(crate::FieldFault::UpperCase), None);
    let line_feed = (Name::Field(FieldId::Other), Some(crate::FieldFault::ValueByte));
    let method = (Name::Pseudo(Pseudo::Method), None);
    let unknown = (Name::Fault(crate::FieldFault::UnknownPseudo), None);
    let found: Vec<_> = list.taken.iter().map(|field| (field.name, field.value_fault)).collect();
    assert_eq!(found, [upper, line_feed, upper, line_feed, method, unknown]);
}

#[test]
fn a_repeated_field_takes_one_byte_until_the_table_is_given_up() {
    let (mut encoder, mut decoder) = (Encoder::new(1024), Decoder::default());
    let mut sizes = Vec::new();
    for round in 0..4 {
        if round == 2 {
            encoder.forget();
            assert_eq!(encoder.held_bytes(), 0);
        }
        let mut block = Vec::new();
        encoder.begin(&mut block);
        Encoder::status(200, &mut block);
        encoder.field(b"server", b"holdfast", Indexing::Keep, &mut block);
        encoder.field(b"content-length", b"612", Indexing::Without, &mut block);
        let fields = decode(&mut decoder, &block).unwrap();
        assert_eq!(fields, pairs(":status: 200\nserver: holdfast\ncontent-length: 612"));
        sizes.push(block.len());
    }
    assert_eq!(sizes[1], 1 + 1 + 6);
    assert_eq!(sizes[3], sizes[1]);
    assert!(sizes[2] > sizes[1]);
}

fn any_field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, u8)> {
    let names = prop::sample::select(vec!["server", "x-a", "x-b", "cookie", ":path", ":method", "content-type"]);
    let values = prop_oneof![
        prop::sample::select(vec!["", "GET", "/", "text/html", "a", "holdfast"])
            .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..80),
    ];
    (names, values, 0..3u8).prop_map(|(name, value, indexing)| (name.as_bytes().to_vec(), value, indexing))
}

proptest! {
    #[test]
    fn decoder_reads_encoder_output(
        wanted in prop::sample::select(vec![0, 64, 200, 1024, 4096, 9000]),
        blocks in prop::collection::vec((prop::collection::vec(any_field(), 0..12), 0..6u8), 1..12),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(wanted), Decoder::default());
        for (fields, change) in blocks {
            match change {
                0 => encoder.forget(),
                1 => {
                    encoder.set_peer_max(100);
                    decoder.set_size_max(100);
                }
                2 => {
                    encoder.set_peer_max(5000);
                    decoder.set_size_max(5000);
                }
                _ => {}
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value, indexing) in &fields {
                let indexing = [Indexing::Keep, Indexing::Without, Indexing::Never][usize::from(*indexing)];
                encoder.field(name, value, indexing, &mut block);
            }
            let sent: Pairs = fields.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(decode(&mut decoder, &block).unwrap(), sent);
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_grow(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let mut decoder = Decoder::default();
        for block in blocks {
            if decode(&mut decoder, &block).is_err() {
                break;
            }
            prop_assert!(decoder.held_bytes() <= 4096 + 256 * 16);
        }
    }
}
