//! Conditions of `route_to`: what of a request they compare, and with what. The gateway fetches the values.

use crate::pattern::{MatchError, Pattern};
use crate::variable::Variable;
use std::borrow::Cow;

/// A condition on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What is compared.
    pub subject: Subject,
    /// With what.
    pub test: Test,
}

/// What a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The method.
    Method,
    /// A field of the head, by its name in lower case.
    Header(Box<[u8]>),
    /// The first argument of this name.
    Arg(Box<[u8]>),
    /// A variable.
    Variable(Variable),
}

/// How a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// The same bytes.
    Equal(Box<[u8]>),
    /// The expression matches.
    Match(Pattern),
}

impl Test {
    /// Whether a value passes.
    pub fn holds(&self, value: &[u8]) -> Result<bool, MatchError> {
        match self {
            Self::Equal(text) => Ok(**text == *value),
            Self::Match(pattern) => pattern.is_match(value),
        }
    }
}

/// The value of the first argument with this name. Both are decoded: `%XX` is a byte, and `+` is a space. A pair without `=`
/// has an empty value.
pub fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<Cow<'a, [u8]>> {
    args.split(|&byte| byte == b'&').find_map(|pair| {
        let at = memchr::memchr(b'=', pair);
        let (key, value) = at.map_or((pair, &b""[..]), |at| (&pair[..at], &pair[at + 1..]));
        (*decoded(key) == *name).then(|| decoded(value))
    })
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, behind @ ..]) => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => {
                    out.push((high << 4 | low) as u8);
                    rest = behind;
                }
                _ => out.push(byte),
            },
            _ => out.push(byte),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &str, name: &str) -> Option<String> {
        argument(args.as_bytes(), name.as_bytes()).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    #[test]
    fn the_first_argument_with_the_decoded_name_counts() {
        assert_eq!(of("a=1&b=2&a=3", "a").as_deref(), Some("1"));
        assert_eq!(of("A=1&ab=2", "a"), None);
        assert_eq!(of("%61=x%20y+z", "a").as_deref(), Some("x y z"));
        assert_eq!(of("b&a", "a").as_deref(), Some(""));
        assert_eq!(of("a=%4&b=%zz", "a").as_deref(), Some("%4"));
        assert_eq!(of("a=%4&b=%zz", "b").as_deref(), Some("%zz"));
        assert_eq!(of("", "a"), None);
    }

    #[test]
    fn tests_compare_bytes_or_match() {
        assert_eq!(Test::Equal(b"v1".as_slice().into()).holds(b"v1"), Ok(true));
        assert_eq!(Test::Equal(b"v1".as_slice().into()).holds(b"V1"), Ok(false));
        let pattern = Pattern::compile_unnamed(b"^v(?<major>[0-9])$", false).expect("an expression");
        assert_eq!(Test::Match(pattern.clone()).holds(b"v7"), Ok(true));
        assert_eq!(Test::Match(pattern).holds(b"v77"), Ok(false));
    }
}
