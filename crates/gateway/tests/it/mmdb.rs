//! Writes small databases in `MaxMind`'s format, for tests of `geoip2`.

/// A value of a record.
#[derive(Clone)]
pub(crate) enum Geo {
    Text(&'static str),
    Short(u16),
    Number(u32),
    Long(u64),
    Double(f64),
    Float(f32),
    Signed(i32),
    Flag(bool),
    Bytes(&'static [u8]),
    Map(Vec<(&'static str, Geo)>),
    List(Vec<Geo>),
}

/// A node of the tree, or what is in place of one.
enum Tree {
    Nothing,
    Record(usize),
    Node(Box<[Tree; 2]>),
}

/// A database of IPv6, with these IPv4 networks (address, prefix length) and their records.
pub(crate) fn database(networks: &[([u8; 4], u32, Geo)], build_epoch: u32) -> Vec<u8> {
    let (mut tree, mut values) = (Tree::Nothing, Vec::new());
    for (address, prefix, record) in networks {
        let at = values.len();
        write(record, &mut values);
        insert(&mut tree, u128::from(u32::from_be_bytes(*address)), 96 + prefix, 0, at);
    }
    let mut nodes: Vec<[usize; 2]> = Vec::new();
    number(&tree, &mut nodes);
    let count = nodes.len();
    let mut out = Vec::new();
    for child in nodes.iter().flatten() {
        let child = match *child {
            NOTHING => count,
            record if record >= RECORDS => count + 16 + (record - RECORDS),
            node => node,
        };
        out.extend(&(child as u32).to_be_bytes()[1..]);
    }
    out.extend([0; 16]);
    out.extend(values);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    let metadata = [
        ("binary_format_major_version", Geo::Short(2)),
        ("binary_format_minor_version", Geo::Short(0)),
        ("build_epoch", Geo::Long(build_epoch.into())),
        ("database_type", Geo::Text("Test")),
        ("description", Geo::Map(vec![("en", Geo::Text("a test"))])),
        ("ip_version", Geo::Short(6)),
        ("languages", Geo::List(vec![Geo::Text("en")])),
        ("node_count", Geo::Number(count as u32)),
        ("record_size", Geo::Short(24)),
    ];
    write(&Geo::Map(metadata.to_vec()), &mut out);
    out
}

/// In numbered nodes: no record, and where the places of records begin.
const NOTHING: usize = usize::MAX;
const RECORDS: usize = 1 << 32;

fn insert(tree: &mut Tree, bits: u128, prefix: u32, depth: u32, record: usize) {
    if depth == prefix {
        *tree = Tree::Record(record);
        return;
    }
    if !matches!(tree, Tree::Node(_)) {
        let inherited = |tree: &Tree| match tree {
            Tree::Record(at) => Tree::Record(*at),
            _ => Tree::Nothing,
        };
        *tree = Tree::Node(Box::new([inherited(tree), inherited(tree)]));
    }
    let Tree::Node(children) = tree else { unreachable!() };
    let side = (bits >> (127 - depth) & 1) as usize;
    insert(&mut children[side], bits, prefix, depth + 1, record);
}

fn number(tree: &Tree, nodes: &mut Vec<[usize; 2]>) -> usize {
    match tree {
        Tree::Nothing => NOTHING,
        Tree::Record(at) => RECORDS + at,
        Tree::Node(children) => {
            let own = nodes.len();
            nodes.push([NOTHING; 2]);
            for (side, child) in children.iter().enumerate() {
                nodes[own][side] = number(child, nodes);
            }
            own
        }
    }
}

fn write(value: &Geo, out: &mut Vec<u8>) {
    let mut content = |kind: u8, size: usize, bytes: &[u8]| {
        let low = size.min(29) as u8;
        if kind < 8 {
            out.push(kind << 5 | low);
        } else {
            out.extend([low, kind - 7]);
        }
        if size >= 29 {
            out.push((size - 29) as u8);
        }
        out.extend(bytes);
    };
    match value {
        Geo::Text(text) => content(2, text.len(), text.as_bytes()),
        Geo::Double(number) => content(3, 8, &number.to_be_bytes()),
        Geo::Bytes(bytes) => content(4, bytes.len(), bytes),
        Geo::Short(number) => content(5, 2, &number.to_be_bytes()),
        Geo::Long(number) => content(9, 8, &number.to_be_bytes()),
        Geo::Number(number) => content(6, 4, &number.to_be_bytes()),
        Geo::Signed(number) => content(8, 4, &number.to_be_bytes()),
        Geo::Flag(flag) => content(14, usize::from(*flag), b""),
        Geo::Float(number) => content(15, 4, &number.to_be_bytes()),
        Geo::Map(entries) => {
            content(7, entries.len(), b"");
            for (name, value) in entries {
                write(&Geo::Text(name), out);
                write(value, out);
            }
        }
        Geo::List(values) => {
            content(11, values.len(), b"");
            for value in values {
                write(value, out);
            }
        }
    }
}

/// A database with a few networks.
pub(crate) fn places(name: &'static str, build_epoch: u32) -> Vec<u8> {
    let place = |code, name| {
        let names = Geo::Map(vec![("de", Geo::Text("Ort")), ("en", Geo::Text(name))]);
        Geo::Map(vec![
            (
                "country",
                Geo::Map(vec![("iso_code", Geo::Text(code)), ("names", names), ("geoname_id", Geo::Number(77))]),
            ),
            ("location", Geo::Map(vec![("latitude", Geo::Double(-12.5)), ("accuracy", Geo::Float(0.25))])),
            ("subdivisions", Geo::List(vec![Geo::Text("first"), Geo::Map(vec![("code", Geo::Text("second"))])])),
            ("traits", Geo::Map(vec![("proxy", Geo::Flag(true)), ("hosting", Geo::Flag(false))])),
            ("offset", Geo::Signed(-3600)),
            ("raw", Geo::Bytes(b"bytes")),
            ("empty", Geo::Text("")),
        ])
    };
    database(
        &[
            ([192, 0, 2, 0], 24, place("AA", name)),
            ([198, 51, 100, 0], 24, place("BB", "B-land")),
            ([198, 51, 100, 128], 25, place("CC", "C-land")),
            ([127, 0, 0, 0], 8, place("LO", "Loopback")),
        ],
        build_epoch,
    )
}
