//! W3C Trace Context (level 2): the fields `traceparent` and `tracestate`, read strictly. What is not valid is as if it had
//! not been sent: a trace then begins anew. Also which values of a query a span must not show. Pure; the gateway asks.

use std::fmt::Write as _;

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_BYTES: usize = 55;
/// Most bytes of a `tracestate` that is passed on: what the standard asks for at least (section 3.3.1.5).
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// Most entries of a `tracestate` (section 3.3.1.1).
const MEMBERS_MAX: usize = 32;
/// Longest key and longest value of an entry (section 3.3.1.3).
const PART_BYTES_MAX: usize = 256;
/// The flag "sampled".
const SAMPLED: u8 = 1;

/// The id of a trace: not all zeros.
pub type TraceId = [u8; 16];
/// The id of a span: not all zeros.
pub type SpanId = [u8; 8];

/// A `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: TraceId,
    /// The span of the sender.
    pub span_id: SpanId,
    /// Whether the sender records the trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a field's value. `None`: it is not valid.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (known, rest) = value.split_at_checked(TRACEPARENT_BYTES)?;
        let [version] = hex(known.get(..2)?)?;
        // A later version may continue, after another dash (section 4.3).
        let ends_well = rest.is_empty() || (version != 0 && rest.starts_with(b"-"));
        let is_dashed = [2, 35, 52].iter().all(|&at| known.get(at) == Some(&b'-'));
        if version == 0xff || !ends_well || !is_dashed {
            return None;
        }
        let trace_id: TraceId = hex(known.get(3..35)?)?;
        let span_id: SpanId = hex(known.get(36..52)?)?;
        let [flags] = hex(known.get(53..)?)?;
        let is_set = |id: &[u8]| id.iter().any(|&byte| byte != 0);
        (is_set(&trace_id) && is_set(&span_id)).then_some(Self { trace_id, span_id, sampled: flags & SAMPLED != 0 })
    }

    /// The field's value in version 00. As in nginx, no other flag is set.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(TRACEPARENT_BYTES);
        text.push_str("00-");
        write_hex(&self.trace_id, &mut text);
        text.push('-');
        write_hex(&self.span_id, &mut text);
        text.push_str(if self.sampled { "-01" } else { "-00" });
        text
    }
}

/// Appends bytes as lower-case hexadecimal digits.
pub fn write_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}

/// Lower-case digits only: the standard demands it (section 3.2.2).
fn hex<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    if text.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Joins the values of all `tracestate` fields. Empty: there is none, or it is not valid, or it is too long.
pub fn join_tracestate<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut joined: Vec<u8> = Vec::new();
    let mut keys: Vec<&[u8]> = Vec::new();
    for member in values.into_iter().flat_map(|value| value.split(|&byte| byte == b',')) {
        let member = trim(member);
        if member.is_empty() {
            continue;
        }
        let fits = keys.len() < MEMBERS_MAX && joined.len() + 1 + member.len() <= TRACESTATE_BYTES_MAX;
        let Some(key) = member_key(member).filter(|key| fits && !keys.contains(key)) else { return Vec::new() };
        keys.push(key);
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(member);
    }
    joined
}

/// Without blanks and tabs around it.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The key of a valid entry, `key=value` (section 3.3.1.3).
fn member_key(member: &[u8]) -> Option<&[u8]> {
    let at = member.iter().position(|&byte| byte == b'=')?;
    let (key, value) = (member.get(..at)?, member.get(at + 1..)?);
    let is_small = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_key = key.first().is_some_and(is_small) && key.iter().all(|byte| is_small(byte) || b"_-*/@".contains(byte));
    let is_value = !value.is_empty() && value.iter().all(|byte| (b' '..=b'~').contains(byte) && *byte != b'=');
    (is_key && is_value && key.len() <= PART_BYTES_MAX && value.len() <= PART_BYTES_MAX).then_some(key)
}

/// Names of arguments whose values are credentials: tokens, codes of OAuth, signatures, keys and passwords.
const SECRET_ARGUMENTS: [&str; 25] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "auth_token",
    "authorization",
    "awsaccesskeyid",
    "client_assertion",
    "client_secret",
    "code",
    "id_token",
    "jwt",
    "key",
    "passwd",
    "password",
    "refresh_token",
    "secret",
    "session",
    "sig",
    "signature",
    "token",
    "x-amz-security-token",
    "x-amz-signature",
    "x-goog-signature",
];

/// In place of a value, as OpenTelemetry's conventions for `url.query` say.
const REDACTED: &[u8] = b"REDACTED";

/// Appends a request's target to `out`, without the values of arguments that are credentials, and at most `limit` bytes.
pub fn redact_target(target: &[u8], limit: usize, out: &mut Vec<u8>) {
    let target = target.get(..limit).unwrap_or(target);
    let query = target.iter().position(|&byte| byte == b'?').map_or(target.len(), |at| at + 1);
    let (path, args) = target.split_at(query);
    out.extend_from_slice(path);
    for (number, pair) in args.split(|&byte| byte == b'&').enumerate() {
        if number > 0 {
            out.push(b'&');
        }
        match pair.iter().position(|&byte| byte == b'=') {
            Some(at) if is_secret(&pair[..at]) => {
                out.extend_from_slice(&pair[..=at]);
                out.extend_from_slice(REDACTED);
            }
            _ => out.extend_from_slice(pair),
        }
    }
}

/// A name with an escape counts as a secret one: decoding could make it one.
fn is_secret(name: &[u8]) -> bool {
    name.contains(&b'%') || SECRET_ARGUMENTS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01";

    fn parse(text: &str) -> Option<TraceParent> {
        TraceParent::parse(text.as_bytes())
    }

    #[test]
    fn a_valid_parent_is_read_and_written() {
        let parent = parse(VALID).unwrap();
        assert!(parent.sampled);
        assert_eq!((parent.trace_id[0], parent.span_id[7]), (0x0a, 0xe1));
        assert_eq!(parent.text(), VALID);
        // Other flags are ignored, and not passed on.
        let other = parse(&VALID.replace("-01", "-fe")).unwrap();
        assert!(!other.sampled && other.text().ends_with("-00"));
    }

    #[test]
    fn a_later_version_may_be_longer_and_version_00_not() {
        assert_eq!(parse(&VALID.replacen("00-", "cc-", 1)), parse(VALID));
        assert_eq!(parse(&format!("{}-what", VALID.replacen("00-", "01-", 1))), parse(VALID));
        for text in [format!("{VALID}-"), format!("{VALID} "), format!("{}.x", VALID.replacen("00-", "01-", 1))] {
            assert_eq!(parse(&text), None, "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_parent() {
        let zeros = |count| "0".repeat(count);
        for text in [
            String::new(),
            VALID[..54].to_owned(),
            VALID.to_uppercase(),
            VALID.replacen("00-", "ff-", 1),
            VALID.replacen("00-", "0-0", 1),
            VALID.replace('-', "_"),
            VALID.replace("0af7", "0aF7"),
            VALID.replace("0af7", "0ag7"),
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &zeros(32)),
            VALID.replace("b9c7c989f97918e1", &zeros(16)),
        ] {
            assert_eq!(parse(&text), None, "{text}");
        }
    }

    fn joined(values: &[&str]) -> String {
        String::from_utf8(join_tracestate(values.iter().map(|value| value.as_bytes()))).unwrap()
    }

    #[test]
    fn states_are_joined_in_their_order() {
        assert_eq!(
            joined(&["congo=ucfJifl5GOE, rojo=00f067", ",\tt@v=a b ,"]),
            "congo=ucfJifl5GOE,rojo=00f067,t@v=a b"
        );
        assert_eq!(joined(&[]), "");
        assert_eq!(joined(&["1a=x", ""]), "1a=x");
    }

    #[test]
    fn a_state_with_any_fault_is_dropped_as_a_whole() {
        let long_key = format!("{}=1", "k".repeat(257));
        let long_value = format!("k={}", "v".repeat(257));
        for text in ["a", "a=", "=b", "A=b", "a=b,a=c", "a=b=c", "a b=c", "a=\u{1}", "_a=b", &long_key, &long_value] {
            assert_eq!(joined(&["ok=1", text]), "", "{text}");
        }
        let many = |count: usize| (0..count).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(joined(&[&many(32)]), many(32));
        assert_eq!(joined(&[&many(33)]), "");
        let pair = |letter| format!("{letter}={}", "v".repeat(254));
        assert_eq!(joined(&[&pair('a')]).len(), 256);
        assert_eq!(joined(&[&pair('a'), &pair('b')]), "", "513 bytes");
    }

    fn redacted(target: &str, limit: usize) -> String {
        let mut out = Vec::new();
        redact_target(target.as_bytes(), limit, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn credentials_in_a_query_are_not_shown() {
        for (target, shown) in [
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?b=1&c", "/a?b=1&c"),
            ("/a?token=x&b=2", "/a?token=REDACTED&b=2"),
            ("/a?b=2&Access_Token=x=y", "/a?b=2&Access_Token=REDACTED"),
            ("/a?to%6ben=x", "/a?to%6ben=REDACTED"),
            ("/token=x", "/token=x"),
        ] {
            assert_eq!(redacted(target, 100), shown);
        }
        assert_eq!(redacted("/a?token=secret", 8), "/a?token");
        assert_eq!(redacted("/a?token=secret", 12), "/a?token=REDACTED");
    }

    proptest! {
        #[test]
        fn context_survives_a_round_trip(trace_id: TraceId, span_id: SpanId, sampled: bool) {
            let parent = TraceParent { trace_id, span_id, sampled };
            prop_assume!(trace_id != [0; 16] && span_id != [0; 8]);
            prop_assert_eq!(parse(&parent.text()), Some(parent));
        }

        #[test]
        fn a_joined_state_is_bounded_and_joins_to_itself(values in prop::collection::vec("[ -~]{0,40}|[a-c0]=[ -~]{1,20}", 0..6)) {
            let once = join_tracestate(values.iter().map(String::as_bytes));
            prop_assert!(once.len() <= TRACESTATE_BYTES_MAX);
            prop_assert_eq!(join_tracestate([&once[..]]), once);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = TraceParent::parse(&bytes);
            let _ = join_tracestate([&bytes[..]]);
            redact_target(&bytes, 64, &mut Vec::new());
        }
    }
}
