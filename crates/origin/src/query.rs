//! Splits a request target into path segments and query parameters. `action` selects the behaviour.

/// Most query parameters that are read: more than a user types, and a search stays shorter than scanning a whole head.
const PARAMETERS_MAX: usize = 64;

/// The error in a request's path or query; it becomes the text of the 400.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint(pub(crate) String);

/// A query as sent, without its `?`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a>(pub(crate) &'a [u8]);

impl<'a> Query<'a> {
    /// The values of a parameter, percent-decoded. A `+` stays a plus sign.
    pub(crate) fn values(self, name: &'a str) -> impl Iterator<Item = Vec<u8>> + 'a {
        self.0.split(|&byte| byte == b'&').take(PARAMETERS_MAX).filter_map(move |pair| {
            let mut parts = pair.splitn(2, |&byte| byte == b'=');
            let found = parts.next() == Some(name.as_bytes());
            found.then(|| percent_decode(parts.next().unwrap_or_default()))
        })
    }

    /// The first value of a parameter as text; invalid UTF-8 is replaced.
    pub(crate) fn text(self, name: &'a str) -> Option<String> {
        self.values(name).next().map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// The first value of a parameter as a number from `min` to `max`.
    pub(crate) fn number(self, name: &'a str, min: u64, max: u64) -> Result<Option<u64>, Complaint> {
        self.text(name).map(|text| number(name, &text, min, max)).transpose()
    }
}

/// A decimal number from `min` to `max`.
pub(crate) fn number(name: &str, text: &str, min: u64, max: u64) -> Result<u64, Complaint> {
    // `parse` would accept a plus sign.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if digits && (min..=max).contains(&value) => Ok(value),
        _ => Err(Complaint(format!("{name}: expected a number from {min} to {max}, got \"{text}\""))),
    }
}

/// Decodes `%XX`; a `%` without two hexadecimal digits stays unchanged.
fn percent_decode(raw: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(16));
    let mut decoded = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        if let (b'%', Some(high), Some(low)) = (byte, digit(raw.get(at + 1)), digit(raw.get(at + 2))) {
            decoded.push((high << 4 | low) as u8);
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_name_and_decoded() {
        let query = Query(b"a=1&b=x%3Ay%&a=2&c&n=+5");
        assert_eq!(query.values("a").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(query.text("b").as_deref(), Some("x:y%"));
        assert_eq!(query.text("c").as_deref(), Some(""));
        assert_eq!(query.text("d"), None);
        assert_eq!(query.number("a", 0, 9), Ok(Some(1)));
        assert_eq!(query.number("d", 0, 9), Ok(None));
        assert!(
            query.number("a", 2, 9).is_err() && query.number("c", 0, 9).is_err() && query.number("n", 0, 9).is_err()
        );
    }
}
