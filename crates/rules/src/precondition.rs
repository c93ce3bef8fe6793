//! Conditional requests (RFC 9110 section 13) as nginx evaluates them: two values of a file against the fields of a request,
//! an answer out. Also dates and `If-Range`. The gateway asks.

use std::time::UNIX_EPOCH;

/// `if_modified_since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModifiedSince {
    /// The field is ignored.
    Off,
    /// The times must be equal.
    Exact,
    /// The file must not be newer.
    Before,
}

/// The fields of a request that decide.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    /// `If-Match`
    pub match_: Option<&'a [u8]>,
    /// `If-None-Match`
    pub none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`
    pub modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`
    pub unmodified_since: Option<&'a [u8]>,
}

/// What a response is compared by.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// Seconds since the epoch; `None` where no date is known.
    pub modified: Option<i64>,
    /// Its entity tag; `None` where it has none.
    pub tag: Option<&'a [u8]>,
}

/// What the conditions come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The file is sent.
    Send,
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// Evaluates the conditions. Of a response without a tag only `*` holds, and `If-Modified-Since` and `If-Unmodified-Since` do not
/// keep one without a date from being sent (RFC 9110 sections 13.1.3 and 13.1.4; nginx's 412 on the latter is not copied).
pub fn evaluate(conditions: &Conditions<'_>, file: &Validators<'_>, mode: ModifiedSince) -> Verdict {
    if let Some(field) = conditions.unmodified_since
        && file.modified.is_some_and(|modified| parse_date(field).is_none_or(|limit| modified > limit))
    {
        return Verdict::Failed;
    }
    if let Some(field) = conditions.match_
        && !matches_tag(field, file.tag, false)
    {
        return Verdict::Failed;
    }
    if conditions.modified_since.is_none() && conditions.none_match.is_none() {
        return Verdict::Send;
    }
    // nginx asks both where both are there; either one may demand the whole response.
    if conditions.modified_since.is_some_and(|field| is_modified(field, file.modified, mode)) {
        return Verdict::Send;
    }
    if conditions.none_match.is_some_and(|field| !matches_tag(field, file.tag, true)) {
        return Verdict::Send;
    }
    Verdict::NotModified
}

fn is_modified(field: &[u8], modified: Option<i64>, mode: ModifiedSince) -> bool {
    let (Some(since), Some(modified)) = (parse_date(field), modified) else { return true };
    match mode {
        ModifiedSince::Off => true,
        ModifiedSince::Exact => since != modified,
        ModifiedSince::Before => since < modified,
    }
}

/// `If-Range`: whether it names what would be sent, so that parts of it fit those that the client has. As in nginx a tag has to
/// be the same byte for byte, and a date exact.
pub fn is_same_version(if_range: &[u8], tag: Option<&[u8]>, modified: Option<i64>) -> bool {
    if if_range.len() >= 2 && if_range.ends_with(b"\"") {
        return tag == Some(if_range);
    }
    modified.is_some() && parse_date(if_range) == modified
}

/// Seconds since the epoch; `None` for what is no date.
pub fn parse_date(field: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(field).ok()?).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs() as i64)
}

/// Whether a list of entity tags names this one. `weak`: a weak tag counts as its strong one.
fn matches_tag(field: &[u8], tag: Option<&[u8]>, weak: bool) -> bool {
    if field == b"*" {
        return true;
    }
    let Some(tag) = tag else { return false };
    let tag = tag.strip_prefix(b"W/").filter(|_| weak).unwrap_or(tag);
    let mut rest = field;
    loop {
        rest = rest.trim_ascii_start();
        let listed = rest.strip_prefix(b"W/").filter(|_| weak).unwrap_or(rest);
        if let Some(behind) = listed.strip_prefix(tag)
            && matches!(behind.trim_ascii_start().first(), None | Some(b','))
        {
            return true;
        }
        // To the next tag: a comma inside quotes does not separate.
        let mut quoted = false;
        let Some(comma) = rest.iter().position(|&byte| {
            quoted ^= byte == b'"';
            byte == b',' && !quoted
        }) else {
            return false;
        };
        rest = &rest[comma + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8] = b"Tue, 15 Nov 1994 12:45:26 GMT";
    const TIME: i64 = 784_903_526;
    const FILE: Validators<'_> = Validators { modified: Some(TIME), tag: Some(b"\"a-1\"") };

    fn verdict(conditions: &Conditions<'_>) -> Verdict {
        evaluate(conditions, &FILE, ModifiedSince::Exact)
    }

    #[test]
    fn date_comparison_follows_the_directive() {
        let conditions = Conditions { modified_since: Some(DATE), ..Conditions::default() };
        for (modified, mode, expected) in [
            (TIME, ModifiedSince::Exact, Verdict::NotModified),
            (TIME - 1, ModifiedSince::Exact, Verdict::Send),
            (TIME - 1, ModifiedSince::Before, Verdict::NotModified),
            (TIME + 1, ModifiedSince::Before, Verdict::Send),
            (TIME, ModifiedSince::Off, Verdict::Send),
        ] {
            let file = Validators { modified: Some(modified), ..FILE };
            assert_eq!(evaluate(&conditions, &file, mode), expected, "{modified} {mode:?}");
        }
        assert_eq!(verdict(&Conditions { modified_since: Some(b"yesterday"), ..Conditions::default() }), Verdict::Send);
    }

    #[test]
    fn tags_in_a_list_weak_and_strong() {
        for (field, none_match, if_match) in [
            ("\"a-1\"", Verdict::NotModified, Verdict::Send),
            ("W/\"a-1\"", Verdict::NotModified, Verdict::Failed),
            ("\"x,\", \"a-1\"", Verdict::NotModified, Verdict::Send),
            ("*", Verdict::NotModified, Verdict::Send),
            ("\"a-12\"", Verdict::Send, Verdict::Failed),
            ("\"a-1\"2", Verdict::Send, Verdict::Failed),
            (",,", Verdict::Send, Verdict::Failed),
            ("", Verdict::Send, Verdict::Failed),
        ] {
            let field = Some(field.as_bytes());
            assert_eq!(verdict(&Conditions { none_match: field, ..Conditions::default() }), none_match, "{field:?}");
            assert_eq!(verdict(&Conditions { match_: field, ..Conditions::default() }), if_match, "{field:?}");
        }
    }

    #[test]
    fn a_range_is_of_the_version_that_if_range_names() {
        let tag = Some(&b"\"a-1\""[..]);
        assert!(is_same_version(b"\"a-1\"", tag, None));
        assert!(!is_same_version(b"W/\"a-1\"", tag, None));
        assert!(!is_same_version(b"\"a-1\"", None, Some(TIME)));
        assert!(is_same_version(DATE, None, Some(TIME)));
        assert!(!is_same_version(DATE, tag, Some(TIME + 1)));
        assert!(!is_same_version(b"yesterday", tag, None), "what is no date is not the unknown date");
    }

    #[test]
    fn unmodified_since_and_both_fields() {
        let unmodified = |modified| {
            let conditions = Conditions { unmodified_since: Some(DATE), ..Conditions::default() };
            evaluate(&conditions, &Validators { modified: Some(modified), ..FILE }, ModifiedSince::Exact)
        };
        assert_eq!((unmodified(TIME), unmodified(TIME + 1)), (Verdict::Send, Verdict::Failed));
        let both = Conditions { modified_since: Some(DATE), none_match: Some(b"\"b\""), ..Conditions::default() };
        assert_eq!(verdict(&both), Verdict::Send);
        assert_eq!(verdict(&Conditions::default()), Verdict::Send);
    }

    #[test]
    fn a_response_without_date_and_tag_matches_only_a_star() {
        let none = Conditions::default();
        for (conditions, expected) in [
            (Conditions { none_match: Some(b"*"), ..none }, Verdict::NotModified),
            (Conditions { none_match: Some(b"\"a\""), ..none }, Verdict::Send),
            (Conditions { match_: Some(b"*"), ..none }, Verdict::Send),
            (Conditions { match_: Some(b"\"a\""), ..none }, Verdict::Failed),
            (Conditions { unmodified_since: Some(DATE), ..none }, Verdict::Send),
            (Conditions { modified_since: Some(DATE), ..none }, Verdict::Send),
            (Conditions { modified_since: Some(DATE), none_match: Some(b"*"), ..none }, Verdict::Send),
        ] {
            let nothing = Validators { modified: None, tag: None };
            assert_eq!(evaluate(&conditions, &nothing, ModifiedSince::Exact), expected, "{conditions:?}");
        }
    }
}
