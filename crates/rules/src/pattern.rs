//! A regular expression of the configuration: PCRE2 as in nginx, compiled once with limits on its work, with its named
//! groups bound to variable slots. Used by `server_name`, `location`, `redirect` and the rewrite programs.

use crate::captures::Captures;
use crate::variable::{Slot, UserVariables};
use pcre2::bytes::{Regex, RegexBuilder};

/// Work that one match may do, as PCRE2 counts it (`LIMIT_MATCH`). PCRE2's own default of ten million lets a hostile URI
/// hold a worker for seconds; a hundred thousand ends within about a millisecond and is far above what a sane pattern
/// needs on a URI of 8 KB.
const MATCH_LIMIT: u32 = 100_000;

/// Heap for backtracking of one match in kibibytes (`LIMIT_HEAP`), for patterns that the just-in-time compiler refuses.
const HEAP_LIMIT_KIB: u32 = 1024;

/// Why a match could not be decided: the limit was reached, or the expression itself failed. The exchange ends with 500.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchError {
    /// What to log, in nginx's phrase.
    pub message: String,
}

impl std::fmt::Display for MatchError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for MatchError {}

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    source: Box<str>,
    caseless: bool,
    named: Box<[(u8, Slot)]>,
}

impl Pattern {
    /// Compiles `source` (without the leading `~` or `~*`) and declares its named groups as variables.
    ///
    /// The error is the text of a diagnostic.
    pub fn compile(source: &[u8], caseless: bool, users: &mut UserVariables) -> Result<Self, String> {
        let Ok(source) = std::str::from_utf8(source) else {
            return Err(format!("regular expression \"{}\" is not UTF-8", source.escape_ascii()));
        };
        let limits = format!("(*LIMIT_MATCH={MATCH_LIMIT})(*LIMIT_HEAP={HEAP_LIMIT_KIB})");
        let regex = RegexBuilder::new()
            .caseless(caseless)
            .jit_if_available(true)
            .build(&format!("{limits}{source}"))
            .map_err(|error| phrase_of_compile_error(&error, source, limits.len()))?;
        let mut named = Vec::new();
        for (group, name) in regex.capture_names().iter().enumerate() {
            if let Some(name) = name {
                let group = u8::try_from(group).map_err(|_| format!("too many groups in \"{source}\""))?;
                named.push((group, users.declare(name)?));
            }
        }
        Ok(Self { regex, source: source.into(), caseless, named: named.into() })
    }

    /// Compiles an expression that only answers whether it matches: its named groups become no variables.
    pub fn compile_unnamed(source: &[u8], caseless: bool) -> Result<Self, String> {
        Self::compile(source, caseless, &mut UserVariables::default())
            .map(|pattern| Self { named: Box::default(), ..pattern })
    }

    /// Compiles an expression that is used once, with its named groups: they are not the configuration's variables.
    pub(crate) fn compile_once(source: &[u8]) -> Result<(Self, Vec<(u8, String)>), String> {
        let Ok(source) = std::str::from_utf8(source) else {
            return Err(format!("regular expression \"{}\" is not UTF-8", source.escape_ascii()));
        };
        let limits = format!("(*LIMIT_MATCH={MATCH_LIMIT})(*LIMIT_HEAP={HEAP_LIMIT_KIB})");
        let regex = RegexBuilder::new()
            .build(&format!("{limits}{source}"))
            .map_err(|error| phrase_of_compile_error(&error, source, limits.len()))?;
        let mut names = Vec::new();
        for (group, name) in regex.capture_names().iter().enumerate() {
            if let Some(name) = name {
                let group = u8::try_from(group).map_err(|_| format!("too many groups in \"{source}\""))?;
                names.push((group, name.clone()));
            }
        }
        Ok((Self { regex, source: source.into(), caseless: false, named: Box::default() }, names))
    }

    /// Whether `subject` matches, without looking at groups.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        self.regex.is_match(subject).map_err(|error| self.failed(&error, subject))
    }

    /// Whether `subject` matches; if so its groups replace what `captures` held, otherwise `captures` stays as it was.
    pub fn captures(&self, subject: &[u8], captures: &mut Captures) -> Result<bool, MatchError> {
        // Most patterns that are tried do not match, and `find` reuses pooled memory while reading groups allocates.
        let found = self.regex.find(subject).map_err(|error| self.failed(&error, subject))?;
        let Some(found) = found else { return Ok(false) };
        if self.regex.captures_len() == 1 {
            captures.record(subject, std::iter::once(Some((found.start(), found.end()))));
            return Ok(true);
        }
        let mut locations = self.regex.capture_locations();
        let again = self.regex.captures_read(&mut locations, subject).map_err(|error| self.failed(&error, subject))?;
        if again.is_none() {
            return Ok(false);
        }
        captures.record(subject, (0..locations.len()).map(|group| locations.get(group)));
        Ok(true)
    }

    /// The named groups and the variable slot of each. After a match the caller stores the groups there.
    pub fn named(&self) -> &[(u8, Slot)] {
        &self.named
    }

    /// The expression as written, without `~`.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn failed(&self, error: &pcre2::Error, subject: &[u8]) -> MatchError {
        MatchError {
            message: format!(
                "pcre2_match() failed: {} on \"{}\" using \"{}\"",
                message_of(error),
                subject.escape_ascii(),
                self.source
            ),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.caseless == other.caseless
    }
}

impl Eq for Pattern {}

/// PCRE2's own words, without what the binding puts in front of them.
fn message_of(error: &pcre2::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("PCRE2: error matching: ").unwrap_or(&text);
    match error.offset().and_then(|offset| text.split_once(&format!(" at offset {offset}: "))) {
        Some((_, message)) => message.to_owned(),
        None => text.to_owned(),
    }
}

/// nginx's phrase for an expression that does not compile, with the offset counted in what the operator wrote.
fn phrase_of_compile_error(error: &pcre2::Error, source: &str, prefix_len: usize) -> String {
    let message = message_of(error);
    let offset = error.offset().map(|offset| offset.saturating_sub(prefix_len));
    match offset.and_then(|offset| source.get(offset..)).filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("pcre2_compile() failed: {message} in \"{source}\" at \"{rest}\""),
        None => format!("pcre2_compile() failed: {message} in \"{source}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(source: &str) -> Pattern {
        Pattern::compile(source.as_bytes(), false, &mut UserVariables::default()).unwrap()
    }

    #[test]
    fn groups_are_read_and_named_groups_get_slots() {
        let mut users = UserVariables::default();
        let pattern = Pattern::compile(br"^/(?<user>\w+)/(\d+)?", false, &mut users).unwrap();
        let mut captures = Captures::default();
        assert!(pattern.captures(b"/anna/", &mut captures).unwrap());
        assert_eq!(captures.group(1), Some(&b"anna"[..]));
        assert_eq!(captures.group(2), None);
        assert_eq!(pattern.named(), &[(1, users.slot("user").unwrap())]);
    }

    #[test]
    fn a_miss_leaves_earlier_captures_alone() {
        let mut captures = Captures::default();
        assert!(pattern("(a)").captures(b"a", &mut captures).unwrap());
        assert!(!pattern("(b)").captures(b"a", &mut captures).unwrap());
        assert_eq!(captures.group(1), Some(&b"a"[..]));
    }

    #[test]
    fn a_broken_expression_is_explained_with_nginx_phrase() {
        let error = Pattern::compile(b"^/(abc", false, &mut UserVariables::default()).unwrap_err();
        assert_eq!(error, "pcre2_compile() failed: missing closing parenthesis in \"^/(abc\"");
    }

    #[test]
    fn runaway_backtracking_ends_with_an_error() {
        let error = pattern(r"^(a+)+$").is_match(&[&[b'a'; 64][..], b"!"].concat()).unwrap_err();
        assert!(error.message.starts_with("pcre2_match() failed: match limit exceeded"), "{error}");
    }
}
