//! Databases that the tests write themselves, whole and damaged.

use super::*;
use proptest::prelude::*;

/// A value to write.
enum Item {
    Text(&'static str),
    Number(u64),
    Map(Vec<(&'static str, Item)>),
    Array(Vec<Item>),
    Raw(u8, Vec<u8>),
}

fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (low, more) = match size {
        0..29 => (size as u8, None),
        29..285 => (29, Some((size - 29) as u8)),
        _ => panic!("too large for the tests"),
    };
    if kind < 8 {
        out.push(kind << 5 | low);
    } else {
        out.extend([low, kind - 7]);
    }
    out.extend(more);
}

fn write(item: &Item, out: &mut Vec<u8>) {
    match item {
        Item::Text(text) => {
            control(TEXT, text.len(), out);
            out.extend(text.as_bytes());
        }
        Item::Number(number) => {
            let bytes = number.to_be_bytes();
            let skip = bytes.iter().take_while(|&&byte| byte == 0).count();
            control(UINT64, 8 - skip, out);
            out.extend(&bytes[skip..]);
        }
        Item::Map(entries) => {
            control(MAP, entries.len(), out);
            for (name, item) in entries {
                write(&Item::Text(name), out);
                write(item, out);
            }
        }
        Item::Array(items) => {
            control(ARRAY, items.len(), out);
            for item in items {
                write(item, out);
            }
        }
        Item::Raw(kind, bytes) => {
            control(*kind, if *kind == BOOLEAN { usize::from(bytes[0]) } else { bytes.len() }, out);
            if *kind != BOOLEAN {
                out.extend(bytes);
            }
        }
    }
}

/// A database in which 128.0.0.0/1 has this record, and nothing else has one.
fn database(record_bits: usize, record: &Item) -> Vec<u8> {
    let nodes = 1;
    // One node: no record on the left, the first record on the right.
    let (left, right) = (nodes, nodes + SEPARATOR);
    let mut out = match record_bits {
        24 => [&left.to_be_bytes()[5..], &right.to_be_bytes()[5..]].concat(),
        28 => [&left.to_be_bytes()[5..], &[0][..], &right.to_be_bytes()[5..]].concat(),
        _ => [&left.to_be_bytes()[4..], &right.to_be_bytes()[4..]].concat(),
    };
    out.extend([0; SEPARATOR]);
    write(record, &mut out);
    out.extend(MARKER);
    let metadata = Item::Map(vec![
        ("binary_format_major_version", Item::Number(2)),
        ("node_count", Item::Number(nodes as u64)),
        ("record_size", Item::Number(record_bits as u64)),
        ("ip_version", Item::Number(4)),
        ("build_epoch", Item::Number(1_700_000_000)),
        ("description", Item::Map(vec![("en", Item::Text("a test"))])),
    ]);
    write(&metadata, &mut out);
    out
}

fn record() -> Item {
    let names = || Item::Map(vec![("de", Item::Text("Irgendwo")), ("en", Item::Text("Somewhere"))]);
    Item::Map(vec![
        ("country", Item::Map(vec![("iso_code", Item::Text("XX")), ("names", names())])),
        ("parts", Item::Array(vec![Item::Text("first"), names()])),
        ("latitude", Item::Raw(DOUBLE, 51.25_f64.to_be_bytes().to_vec())),
        ("near", Item::Raw(FLOAT, 0.5_f32.to_be_bytes().to_vec())),
        ("below", Item::Raw(INT32, (-5_i32).to_be_bytes().to_vec())),
        ("count", Item::Raw(UINT32, vec![1, 0])),
        ("large", Item::Raw(UINT128, vec![1, 2])),
        ("yes", Item::Raw(BOOLEAN, vec![1])),
        // A pointer to the first key of this record.
        ("again", Item::Raw(9, Vec::new())),
    ])
}

fn value(database: &Mmdb, address: &str, path: &str) -> Option<String> {
    let path: Vec<Box<[u8]>> = path.split(' ').map(|name| name.as_bytes().into()).collect();
    let mut out = Vec::new();
    database.write(address.parse().unwrap(), &path, &mut out).then(|| String::from_utf8(out).unwrap())
}

#[test]
fn values_are_found_by_their_path() {
    for bits in [24, 28, 32] {
        let database = Mmdb::parse(database(bits, &record())).unwrap();
        assert_eq!(database.build_epoch(), 1_700_000_000);
        for (path, expected) in [
            ("country iso_code", Some("XX")),
            ("country names en", Some("Somewhere")),
            ("parts 0", Some("first")),
            ("parts 1 de", Some("Irgendwo")),
            ("latitude", Some("51.25000")),
            ("near", Some("0.50000")),
            ("below", Some("-5")),
            ("count", Some("256")),
            ("large", Some("0x00000000000000000000000000000102")),
            ("yes", Some("1")),
            ("again", Some("0")),
            ("country", None),
            ("country iso_code x", None),
            ("parts 2", None),
            ("parts x", None),
            ("none", None),
        ] {
            assert_eq!(value(&database, "192.0.2.1", path).as_deref(), expected, "{bits} {path}");
        }
        assert_eq!(value(&database, "10.0.0.1", "country iso_code"), None);
        assert_eq!(value(&database, "::ffff:192.0.2.1", "country iso_code").as_deref(), Some("XX"));
        assert_eq!(value(&database, "2001:db8::1", "country iso_code"), None);
    }
}

#[test]
fn other_files_are_refused() {
    let whole = database(24, &record());
    let error = |bytes: &[u8]| Mmdb::parse(bytes.to_vec()).unwrap_err();
    assert_eq!(error(b""), MmdbError::NoMetadata);
    assert_eq!(error(b"<html>not a database"), MmdbError::NoMetadata);
    assert_eq!(error(&whole[..whole.len() / 2]), MmdbError::NoMetadata);
    let marker = memchr::memmem::rfind(&whole, MARKER).unwrap();
    assert_eq!(error(&whole[marker - 10..]), MmdbError::Short);
    assert_eq!(error(&whole[..whole.len() - 26]), MmdbError::Metadata("build_epoch"));
}

proptest! {
    #[test]
    fn damaged_files_give_no_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        address in any::<u32>(),
        bits in prop::sample::select(vec![24, 28, 32]),
    ) {
        let whole = database(bits, &record());
        let mut changed = whole.clone();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        let cut = whole[..cut.index(whole.len())].to_vec();
        for bytes in [changed, cut] {
            let Ok(database) = Mmdb::parse(bytes) else { continue };
            let address = IpAddr::V4(address.into());
            for path in [&["country", "names", "en"][..], &["parts", "1", "de"], &["again"], &["large"]] {
                let path: Vec<Box<[u8]>> = path.iter().map(|name| name.as_bytes().into()).collect();
                database.write(address, &path, &mut Vec::new());
            }
        }
    }
}
