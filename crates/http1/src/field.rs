//! Fields and the table of well-known field names. Not their meaning: that is in `framing`, `connection`, `host`
//! and `hop`. The parsers fill it, the gateway asks for fields by [`FieldId`].

use crate::hop;
use crate::span::Span;

/// One field line of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name as it was sent, never empty.
    pub name: Span,
    /// The value without surrounding spaces and tabs, possibly empty.
    pub value: Span,
    /// Which well-known name it is.
    pub id: FieldId,
    /// Whether it concerns this connection only and is never forwarded: by its name, or because `Connection` lists it.
    pub hop: bool,
}

impl Field {
    /// Appends a field to `bytes` as a line, in the form in which it is sent on, and gives its place. Name and value must be
    /// valid in a head.
    pub fn write(id: FieldId, name: &[u8], value: &[u8], bytes: &mut Vec<u8>) -> Self {
        let start = bytes.len();
        for part in [name, b": ", value, b"\r\n"] {
            bytes.extend_from_slice(part);
        }
        let name = Span::new(start, start + name.len());
        let value_start = name.end() + b": ".len();
        Self { name, value: Span::new(value_start, value_start + value.len()), id, hop: hop::is_hop_by_hop(id) }
    }
}

/// Expands one table into the enum and the names.
macro_rules! field_table {
    ($( $variant:ident $name:literal )*) => {
        /// A well-known field name; recognised without regard to case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum FieldId {
            $( #[doc = concat!("`", $name, "`")] $variant, )*
            /// Any other name.
            Other,
        }

        /// All ids but `Other`, in table order: index = discriminant.
        const IDS: &[FieldId] = &[$( FieldId::$variant ),*];
        /// Their names in customary case.
        const NAMES: &[&str] = &[$( $name ),*];
    };
}

field_table! {
    Te "TE"
    Dnt "DNT" Age "Age" Via "Via"
    Date "Date" ETag "ETag" From "From" Host "Host" Link "Link" Vary "Vary"
    Allow "Allow" Range "Range"
    Accept "Accept" Cookie "Cookie" Expect "Expect" Origin "Origin" Pragma "Pragma" Server "Server"
    Expires "Expires" Referer "Referer" Refresh "Refresh" Trailer "Trailer" Upgrade "Upgrade" Warning "Warning"
    IfMatch "If-Match" IfRange "If-Range" Location "Location" Priority "Priority"
    Forwarded "Forwarded" XRealIp "X-Real-IP"
    Connection "Connection" KeepAlive "Keep-Alive" SetCookie "Set-Cookie" UserAgent "User-Agent"
    RetryAfter "Retry-After"
    GrpcStatus "Grpc-Status"
    GrpcMessage "Grpc-Message" GrpcTimeout "Grpc-Timeout"
    ContentType "Content-Type" MaxForwards "Max-Forwards" XPoweredBy "X-Powered-By" XRequestId "X-Request-Id"
    AcceptRanges "Accept-Ranges" Authorization "Authorization" CacheControl "Cache-Control"
    ContentRange "Content-Range" IfNoneMatch "If-None-Match" LastModified "Last-Modified"
    Http2Settings "HTTP2-Settings" AcceptCharset "Accept-Charset" ContentLength "Content-Length"
    AcceptEncoding "Accept-Encoding" AcceptLanguage "Accept-Language" XAccelCharset "X-Accel-Charset"
    XAccelExpires "X-Accel-Expires" XForwardedFor "X-Forwarded-For"
    ContentEncoding "Content-Encoding" ContentLanguage "Content-Language" ContentLocation "Content-Location"
    ProxyConnection "Proxy-Connection" WwwAuthenticate "WWW-Authenticate" XAccelRedirect "X-Accel-Redirect"
    XForwardedHost "X-Forwarded-Host"
    IfModifiedSince "If-Modified-Since" SecWebSocketKey "Sec-WebSocket-Key" TransferEncoding "Transfer-Encoding"
    XAccelBuffering "X-Accel-Buffering" XForwardedProto "X-Forwarded-Proto"
    ProxyAuthenticate "Proxy-Authenticate" XAccelLimitRate "X-Accel-Limit-Rate"
    ContentDisposition "Content-Disposition" IfUnmodifiedSince "If-Unmodified-Since"
    ProxyAuthorization "Proxy-Authorization"
    SecWebSocketAccept "Sec-WebSocket-Accept"
    SecWebSocketVersion "Sec-WebSocket-Version"
    SecWebSocketProtocol "Sec-WebSocket-Protocol"
    SecWebSocketExtensions "Sec-WebSocket-Extensions"
    StrictTransportSecurity "Strict-Transport-Security" UpgradeInsecureRequests "Upgrade-Insecure-Requests"
}

/// Length of the longest name in the table.
pub(crate) const NAME_BYTES_MAX: usize = name_bytes_max();

const fn name_bytes_max() -> usize {
    let mut longest = 0;
    let mut i = 0;
    while i < NAMES.len() {
        if NAMES[i].len() > longest {
            longest = NAMES[i].len();
        }
        i += 1;
    }
    longest
}

/// Marks a slot without a name.
const EMPTY: u16 = u16::MAX;

/// A hash table of the names: each slot has a length in its upper byte and an index into the table in its lower one. A
/// name whose slot is taken uses the next free one. With three times as many slots as names, most are found at once.
static SLOTS: [u16; 256] = slots();

const fn slots() -> [u16; 256] {
    let mut slots = [EMPTY; 256];
    let mut i = 0;
    while i < NAMES.len() {
        let mut slot = slot_of(words(NAMES[i].as_bytes()), NAMES[i].len());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = (NAMES[i].len() << 8 | i) as u16;
        i += 1;
    }
    slots
}

/// Where the search for a name begins; the same for any case.
#[inline]
const fn slot_of((first, last): (u64, u64), len: usize) -> usize {
    const LOWER: u64 = u64::from_ne_bytes([0x20; 8]);
    /// An odd number without a pattern: the upper byte of a product depends on every bit below it.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = (first | LOWER).wrapping_mul(SPREAD) ^ (last | LOWER).rotate_left(29) ^ len as u64;
    (mixed.wrapping_mul(SPREAD) >> 56) as usize
}

// A `FieldSet` is a 128-bit set of ids.
const _: () = assert!(NAMES.len() < 127);

/// The first and the last bytes of each name in lower case, as [`words`] reads them.
static KEYS: [(u64, u64); NAMES.len()] = keys();

const fn keys() -> [(u64, u64); NAMES.len()] {
    let mut keys = [(0, 0); NAMES.len()];
    let mut i = 0;
    while i < NAMES.len() {
        let (first, last) = words(NAMES[i].as_bytes());
        // The table's names consist of letters, digits and `-`: a byte with this bit is a letter.
        keys[i] = (first | (first & LETTERS) >> 1, last | (last & LETTERS) >> 1);
        i += 1;
    }
    keys
}

/// The bit that letters have in each byte, and digits and `-` do not; the next lower bit makes a letter lower case.
const LETTERS: u64 = u64::from_ne_bytes([0x40; 8]);

/// First and last eight bytes of a name; of shorter names the first and last four or two, which overlap. Together with
/// the length they hold every byte of a name of up to [`KEY_BYTES`].
#[inline]
const fn words(name: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64)
    } else if let (Some(first), Some(last)) = (name.first_chunk::<2>(), name.last_chunk::<2>()) {
        (u16::from_le_bytes(*first) as u64, u16::from_le_bytes(*last) as u64)
    } else {
        (0, 0)
    }
}

/// Whether a word equals one of a table's name, ignoring case. Case may differ only where the name has a letter, so
/// this is exact for any bytes.
#[inline]
const fn matches(word: u64, key: u64) -> bool {
    word | (key & LETTERS) >> 1 == key
}

/// Longest name whose bytes are all in its words.
const KEY_BYTES: usize = 16;

impl FieldId {
    /// The id of a name in any case; [`FieldId::Other`] if it is not in the table.
    ///
    /// Two words are compared instead of a string: this runs for every field of every head, and comparing byte by byte
    /// was a third of the cost of parsing one.
    #[inline]
    pub fn of_name(name: &[u8]) -> Self {
        let (first, last) = words(name);
        let mut slot = slot_of((first, last), name.len());
        loop {
            let entry = SLOTS[slot];
            let i = usize::from(entry & 0xFF);
            // An empty slot has a length and an index beyond all names.
            let Some(&(first_key, last_key)) = KEYS.get(i) else { return Self::Other };
            if usize::from(entry >> 8) == name.len()
                && matches(first, first_key)
                && matches(last, last_key)
                && (name.len() <= KEY_BYTES || NAMES[i].as_bytes().eq_ignore_ascii_case(name))
            {
                return IDS[i];
            }
            slot = (slot + 1) % SLOTS.len();
        }
    }

    /// The name in its customary case, such as `Content-Length`; empty for [`FieldId::Other`].
    pub fn name(self) -> &'static str {
        NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

/// Which well-known fields are present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldSet([u64; 2]);

impl FieldSet {
    /// Whether `id` is in the set.
    #[inline]
    pub fn contains(self, id: FieldId) -> bool {
        self.0[usize::from(id as u8 >> 6)] & 1 << (id as u8 & 63) != 0
    }

    /// Adds `id`; returns whether it was there before.
    #[inline]
    pub fn insert(&mut self, id: FieldId) -> bool {
        let was_there = self.contains(id);
        self.0[usize::from(id as u8 >> 6)] |= 1 << (id as u8 & 63);
        was_there
    }

    /// Removes `id`.
    pub fn remove(&mut self, id: FieldId) {
        self.0[usize::from(id as u8 >> 6)] &= !(1 << (id as u8 & 63));
    }
}

/// The first field with this id. `seen` answers the common case, absence, without a search.
pub(crate) fn find(fields: &[Field], seen: FieldSet, id: FieldId) -> Option<&Field> {
    if !seen.contains(id) {
        return None;
    }
    fields.iter().find(|field| field.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_table_is_recognised_in_any_case() {
        for (i, name) in NAMES.iter().enumerate() {
            assert_eq!(IDS[i] as usize, i);
            assert_eq!(FieldId::of_name(name.as_bytes()), IDS[i], "{name}");
            assert_eq!(FieldId::of_name(name.to_lowercase().as_bytes()), IDS[i], "{name}");
            assert_eq!(FieldId::of_name(name.to_uppercase().as_bytes()), IDS[i], "{name}");
            assert_eq!(IDS[i].name(), *name);
        }
    }

    #[test]
    fn recognises_exactly_any_replaced_byte() {
        for name in NAMES {
            for at in 0..name.len() {
                for byte in 0..=u8::MAX {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    let same = |known: &&FieldId| known.name().as_bytes().eq_ignore_ascii_case(&other);
                    let expected = IDS.iter().find(same).copied().unwrap_or(FieldId::Other);
                    assert_eq!(FieldId::of_name(&other), expected, "{}", other.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn near_misses_are_other() {
        let cases: [&[u8]; 9] = [
            b"",
            b"Hos",
            b"H\x0fst",
            b"Content_Length",
            b"Content\x0dLength",
            b"Content-Lengtx",
            b"Ho\x53\x14",
            b"Content-Lengt\x08",
            &[b'a'; 300],
        ];
        for name in cases {
            assert_eq!(FieldId::of_name(name), FieldId::Other);
        }
        assert_eq!(FieldId::Other.name(), "");
    }
}
