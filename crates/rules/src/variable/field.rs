//! Names inside variable families, and how a value is found by them: fields, arguments, cookies. Pure searches over the
//! bytes of a message; the gateway's view calls them.

/// The name of a field as a variable spells it (`x_forwarded_for`), prepared for comparison with field names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldName(Box<[u8]>);

impl FieldName {
    /// From the part of the variable's name behind its prefix. `_` means `-`.
    pub fn new(spelled: &str) -> Self {
        Self(spelled.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }).collect())
    }

    /// The field's name in lower case with dashes, as `x-forwarded-for`.
    pub fn dashed(&self) -> &[u8] {
        &self.0
    }

    /// Whether a field has this name. As in nginx `X_Y` fits `$http_x_y` too, where such fields are let in at all.
    pub fn matches(&self, field: &[u8]) -> bool {
        let fits = |(&own, &byte): (&u8, &u8)| own == byte.to_ascii_lowercase() || (own == b'-' && byte == b'_');
        self.0.len() == field.len() && self.0.iter().zip(field).all(fits)
    }
}

/// The value of an argument, as it was sent: `$arg_name`. Names are compared without regard to case, the first one wins,
/// and a name without `=` does not count. As in nginx no argument has an empty name.
pub fn arg<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if name.is_empty() {
        return None;
    }
    args.split(|&byte| byte == b'&').find_map(|pair| {
        let (key, value) = pair.split_at_checked(name.len())?;
        if key.eq_ignore_ascii_case(name) { value.strip_prefix(b"=") } else { None }
    })
}

/// The value of a cookie in a Cookie field: `$cookie_name`. Names are compared without regard to case, as in nginx.
pub fn cookie<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    field.split(|&byte| byte == b';').find_map(|pair| pair_value(trim_start(pair), name))
}

/// The value of a cookie that a Set-Cookie field sets: `$upstream_cookie_name`.
pub fn set_cookie<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    pair_value(field.split(|&byte| byte == b';').next()?, name)
}

/// `value` of `name = value`.
fn pair_value<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (key, rest) = pair.split_at_checked(name.len())?;
    if !key.eq_ignore_ascii_case(name) {
        return None;
    }
    trim_start(rest).strip_prefix(b"=").map(trim_start)
}

/// Without leading spaces; nginx skips no other white space here.
fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let Some(rest) = bytes.strip_prefix(b" ") {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_ignore_case_and_dash_versus_underscore() {
        let name = FieldName::new("X_Forwarded_For");
        assert_eq!(name.dashed(), b"x-forwarded-for");
        assert!(name.matches(b"X-Forwarded-For") && name.matches(b"x_forwarded-for"));
        assert!(!name.matches(b"X-Forwarded") && !name.matches(b"X.Forwarded-For"));
    }

    #[test]
    fn the_first_argument_of_a_name_wins() {
        let args = b"xid=0&id&ID=1&id=2&empty=&a=b=c";
        assert_eq!(arg(args, b"id"), Some(&b"1"[..]));
        assert_eq!(arg(args, b"empty"), Some(&b""[..]));
        assert_eq!(arg(args, b"a"), Some(&b"b=c"[..]));
        assert_eq!(arg(args, b"d"), None);
        assert_eq!(arg(b"", b"d"), None);
        assert_eq!(arg(b"=1&a=2", b""), None);
    }

    #[test]
    fn cookies_are_found_by_whole_names() {
        let field = b"xsid=0; SID = 1 ;b=2;  c=\"q\"";
        assert_eq!(cookie(field, b"sid"), Some(&b"1 "[..]));
        assert_eq!(cookie(field, b"b"), Some(&b"2"[..]));
        assert_eq!(cookie(field, b"c"), Some(&b"\"q\""[..]));
        assert_eq!(cookie(field, b"d"), None);
        assert_eq!(set_cookie(b"sid=1; Path=/", b"sid"), Some(&b"1"[..]));
        assert_eq!(set_cookie(b"sid=1; Path=/", b"path"), None);
    }
}
