//! Judges the response to a step: its checks, and the values taken from it. Pure.

use super::data::text_of;
use super::{BODY_CHECKED_MAX, Check, Condition, Escape, Extract, Subject};
use crate::template::{Template, TemplateError, Values};
use pcre2::bytes::{Regex, RegexBuilder};
use serde_json::Value;
use std::borrow::Cow;

/// A response as checks see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) fields: &'a [(String, Vec<u8>)],
    /// The body, at most [`BODY_CHECKED_MAX`] bytes of it.
    pub(crate) body: &'a [u8],
}

impl Response<'_> {
    /// The values of a field.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }
}

/// A condition, ready to be used.
#[derive(Debug)]
enum Ready {
    Exists,
    Statuses(Vec<(u16, u16)>),
    Equals(Template),
    Contains(Template),
    Matches(Regex),
}

/// The checks and extractions of a step.
#[derive(Debug)]
pub(crate) struct Examination {
    checks: Vec<(Subject, Ready)>,
    /// Variable, subject, pattern.
    extract: Vec<(usize, Subject, Option<Regex>)>,
    has_pointers: bool,
}

impl Examination {
    pub(super) fn new(
        checks: &[Check],
        extract: &[Extract],
        variable: &dyn Fn(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let ready = |check: &Check| Ok((check.subject.clone(), Ready::new(&check.condition, variable)?));
        let taken = |one: &Extract| {
            let pattern = one.pattern.as_deref().map(regex).transpose()?;
            Ok((one.variable, one.subject.clone(), pattern))
        };
        let checks: Vec<_> = checks.iter().map(ready).collect::<Result<_, String>>()?;
        let extract: Vec<_> = extract.iter().map(taken).collect::<Result<_, String>>()?;
        let subjects = checks.iter().map(|(subject, _)| subject).chain(extract.iter().map(|(_, subject, _)| subject));
        let has_pointers = subjects.into_iter().any(|subject| matches!(subject, Subject::Pointer(_)));
        Ok(Self { checks, extract, has_pointers })
    }

    /// Bytes of the body that are needed.
    pub(crate) fn body_bytes_max(&self) -> usize {
        let is_of_body = |subject: &Subject| matches!(subject, Subject::Body | Subject::Pointer(_));
        let of_checks = self.checks.iter().any(|(subject, _)| is_of_body(subject));
        // One byte more shows that a body is longer.
        if of_checks || self.extract.iter().any(|(_, subject, _)| is_of_body(subject)) {
            BODY_CHECKED_MAX + 1
        } else {
            0
        }
    }

    /// Judges a response. `told` gets the number of each check and extraction, in this order, and whether it passed. Values
    /// go into the variables. Returns whether all values were found.
    pub(crate) fn judge(
        &self,
        response: &Response<'_>,
        values: &mut Values,
        mut told: impl FnMut(usize, bool),
    ) -> bool {
        let is_whole = response.body.len() <= BODY_CHECKED_MAX;
        let json = (self.has_pointers && is_whole).then(|| serde_json::from_slice(response.body).ok()).flatten();
        for (number, (subject, condition)) in self.checks.iter().enumerate() {
            let parts = parts(subject, response, json.as_ref());
            told(number, parts.iter().any(|part| condition.holds(part, response.status, values)));
        }
        let mut found_all = true;
        for (number, (variable, subject, pattern)) in self.extract.iter().enumerate() {
            let parts = parts(subject, response, json.as_ref());
            let value = parts.iter().find_map(|part| match pattern {
                Some(pattern) => first_group(pattern, part),
                None => Some(part.to_vec()),
            });
            told(self.checks.len() + number, value.is_some());
            found_all &= value.is_some();
            if let (Some(value), Some(place)) = (value, values.variables.get_mut(*variable)) {
                *place = value;
            }
        }
        found_all
    }
}

/// The parts of a response that a subject names; none if it does not exist.
fn parts<'a>(subject: &'a Subject, response: &'a Response<'_>, json: Option<&Value>) -> Vec<Cow<'a, [u8]>> {
    match subject {
        Subject::Status => vec![Cow::Owned(response.status.to_string().into_bytes())],
        Subject::Header(name) => response.values(name).map(Cow::Borrowed).collect(),
        Subject::Body if response.body.len() > BODY_CHECKED_MAX => Vec::new(),
        Subject::Body => vec![Cow::Borrowed(response.body)],
        Subject::Pointer(pointer) => {
            let value = json.and_then(|json| json.pointer(pointer));
            value.map(|value| Cow::Owned(text_of(value).into_bytes())).into_iter().collect()
        }
    }
}

/// The first group of a match, or the whole match.
fn first_group(pattern: &Regex, text: &[u8]) -> Option<Vec<u8>> {
    let captures = pattern.captures(text).ok()??;
    let taken = captures.get(1).or_else(|| captures.get(0))?;
    Some(taken.as_bytes().to_vec())
}

/// Compiles a regular expression as the rest of this program does: PCRE2, which bounds its own backtracking.
fn regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new().jit_if_available(true).build(pattern).map_err(|error| format!("`{pattern}`: {error}"))
}

impl Ready {
    fn new(condition: &Condition, variable: &dyn Fn(&str) -> Option<usize>) -> Result<Self, String> {
        let template = |text: &str| {
            let parsed = Template::parse_with(text.as_bytes(), Escape::None, variable);
            parsed.map_err(|error: TemplateError| error.to_string())
        };
        Ok(match condition {
            Condition::Exists => Self::Exists,
            Condition::Statuses(ranges) => Self::Statuses(ranges.clone()),
            Condition::Equals(text) => Self::Equals(template(text)?),
            Condition::Contains(text) => Self::Contains(template(text)?),
            Condition::Matches(pattern) => Self::Matches(regex(pattern)?),
        })
    }

    fn holds(&self, part: &[u8], status: u16, values: &mut Values) -> bool {
        let mut text = |template: &Template| {
            let mut text = Vec::new();
            template.render(values, &mut text);
            text
        };
        match self {
            Self::Exists => true,
            Self::Statuses(ranges) => ranges.iter().any(|(from, to)| (*from..=*to).contains(&status)),
            Self::Equals(wanted) => part == text(wanted),
            Self::Contains(wanted) => memchr::memmem::find(part, &text(wanted)).is_some(),
            Self::Matches(pattern) => pattern.is_match(part).unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(subject: Subject, condition: Condition, response: &Response<'_>) -> bool {
        let check = Check { name: "x".to_owned(), subject, condition };
        let examination = Examination::new(&[check], &[], &|_| None).unwrap();
        let mut passed = false;
        examination.judge(response, &mut Values::new(0, 0), |_, it| passed = it);
        passed
    }

    fn extracted(subject: Subject, pattern: Option<&str>, response: &Response<'_>) -> Option<String> {
        let extract = Extract { variable: 0, subject, pattern: pattern.map(str::to_owned) };
        let examination = Examination::new(&[], &[extract], &|_| None).unwrap();
        let mut values = Values { variables: vec![Vec::new()], ..Values::new(0, 0) };
        let found = examination.judge(response, &mut values, |_, _| ());
        found.then(|| String::from_utf8(values.variables[0].clone()).unwrap())
    }

    #[test]
    fn conditions_hold_for_the_part_that_they_name() {
        let fields = [
            ("Location".to_owned(), b"/orders/17".to_vec()),
            ("X".to_owned(), b"a".to_vec()),
            ("x".to_owned(), b"b".to_vec()),
        ];
        let response =
            Response { status: 201, fields: &fields, body: br#"{"items":[{"id":7,"name":"a b"}],"ok":true}"# };
        let pointer = |text: &str| Subject::Pointer(text.to_owned());
        let header = |text: &str| Subject::Header(text.to_owned());
        let equals = |text: &str| Condition::Equals(text.to_owned());
        for (subject, condition, expected) in [
            (Subject::Status, Condition::Statuses(vec![(200, 299)]), true),
            (Subject::Status, Condition::Statuses(vec![(200, 200), (204, 204)]), false),
            (header("location"), Condition::Matches("^/orders/[0-9]+$".to_owned()), true),
            (header("x"), equals("b"), true),
            (header("etag"), Condition::Exists, false),
            (Subject::Body, Condition::Contains("a b".to_owned()), true),
            (pointer("/items/0/id"), equals("7"), true),
            (pointer("/items/0/name"), equals("a b"), true),
            (pointer("/ok"), equals("true"), true),
            (pointer("/items/1"), Condition::Exists, false),
        ] {
            assert_eq!(holds(subject.clone(), condition.clone(), &response), expected, "{subject:?} {condition:?}");
        }
    }

    #[test]
    fn values_are_taken_by_pointer_field_and_pattern() {
        let fields = [("Location".to_owned(), b"/orders/17".to_vec())];
        let response = Response { status: 200, fields: &fields, body: br#"{"token":"t-1","n":{"m":2}}"# };
        let header = Subject::Header("location".to_owned());
        assert_eq!(extracted(Subject::Pointer("/token".to_owned()), None, &response).as_deref(), Some("t-1"));
        assert_eq!(extracted(Subject::Pointer("/n".to_owned()), None, &response).as_deref(), Some("{\"m\":2}"));
        assert_eq!(extracted(header, Some("/orders/([0-9]+)"), &response).as_deref(), Some("17"));
        assert_eq!(extracted(Subject::Body, Some("t-[0-9]"), &response).as_deref(), Some("t-1"));
        assert_eq!(extracted(Subject::Body, Some("missing (x)"), &response), None);
    }

    #[test]
    fn long_or_non_json_bodies_teach_nothing() {
        let response = Response { status: 200, fields: &[], body: b"<html>" };
        assert!(!holds(Subject::Pointer(String::new()), Condition::Exists, &response));
        let long = vec![b'x'; BODY_CHECKED_MAX + 1];
        assert!(!holds(Subject::Body, Condition::Contains("x".to_owned()), &Response { body: &long, ..response }));
    }
}
