//! The static table of RFC 7541, appendix A, and the lookup of a name's first entry.

/// Number of entries; the dynamic table begins after them.
pub(super) const ENTRIES: usize = 61;

/// Name and value of entry 1 and the following ones.
static TABLE: [(&str, &str); ENTRIES] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Name and value of entry `index`, which counts from 1.
pub(super) fn entry(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = TABLE.get(index.checked_sub(1)?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// The first entry with this name; `None` if there is none.
///
/// Matches on the length first: that leaves at most three names to compare.
pub(super) fn find_name(name: &[u8]) -> Option<usize> {
    let candidates: &[u8] = match name.len() {
        3 => &[21, 60],
        4 => &[33, 34, 37, 38, 45, 59],
        5 => &[4, 22, 50],
        6 => &[19, 32, 35, 54],
        7 => &[2, 6, 8, 36, 51, 52],
        8 => &[39, 42, 46],
        10 => &[1, 55, 58],
        11 => &[53],
        12 => &[31, 47],
        13 => &[18, 23, 24, 30, 41, 44],
        14 => &[15, 28],
        15 => &[16, 17],
        16 => &[26, 27, 29, 61],
        17 => &[40, 57],
        18 => &[48],
        19 => &[25, 43, 49],
        25 => &[56],
        27 => &[20],
        _ => &[],
    };
    let is_it = |&&index: &&u8| TABLE[usize::from(index) - 1].0.as_bytes() == name;
    candidates.iter().find(is_it).map(|&index| usize::from(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_entry_of_every_name() {
        for (name, _) in TABLE {
            let first = TABLE.iter().position(|(other, _)| *other == name).unwrap() + 1;
            assert_eq!(find_name(name.as_bytes()), Some(first), "{name}");
        }
        for absent in [&b""[..], b"x", b"hosu", b"content-lengtx", b":protocol"] {
            assert_eq!(find_name(absent), None);
        }
    }

    #[test]
    fn entries_count_from_one() {
        assert_eq!(entry(0), None);
        assert_eq!(entry(2), Some((&b":method"[..], &b"GET"[..])));
        assert_eq!(entry(61), Some((&b"www-authenticate"[..], &b""[..])));
        assert_eq!(entry(62), None);
    }
}
