//! Templates: text with `{{names}}`. The caller supplies the meaning of the names. Text in, text out.
//!
//! A name may have spaces around it. `{{{{` means `{{`; `}}` and single braces are literal, so that
//! configurations and scripts can be written as usual.

use crate::limits::FILLED_BYTES_MAX;

/// Why a template cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The faulty part of the text, including its braces.
    pub part: String,
    /// The error.
    pub what: String,
    /// How to fix it.
    pub hint: Option<String>,
}

/// The meaning of a name, or the error and a hint.
pub type Meaning = Result<String, (String, Option<String>)>;

/// Fills in the text. Returns all errors at once.
pub fn fill(text: &str, meaning: &mut dyn FnMut(&str) -> Meaning) -> Result<String, Vec<TemplateError>> {
    let (mut filled, mut errors) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        filled.push_str(before);
        if let Some(literal) = behind.strip_prefix("{{") {
            filled.push_str("{{");
            rest = literal;
            continue;
        }
        let Some((name, after)) = behind.split_once("}}").filter(|(name, _)| !name.contains(['\n', '{'])) else {
            let part: String =
                "{{".chars().chain(behind.chars().take_while(|c| *c != '\n').take(PART_CHARS_MAX)).collect();
            let hint = "close it with `}}`, or write `{{{{` where two braces are meant".to_owned();
            errors.push(TemplateError { part, what: "this template is not closed".to_owned(), hint: Some(hint) });
            if errors.len() >= ERRORS_MAX {
                return Err(errors);
            }
            rest = behind;
            continue;
        };
        match meaning(name.trim()) {
            Ok(said) => filled.push_str(&said),
            Err((what, hint)) => errors.push(TemplateError { part: format!("{{{{{name}}}}}"), what, hint }),
        }
        rest = after;
        if errors.len() >= ERRORS_MAX {
            return Err(errors);
        }
        if filled.len() > FILLED_BYTES_MAX {
            let what = format!("filled in, this is longer than {FILLED_BYTES_MAX} bytes");
            errors.push(TemplateError { part: format!("{{{{{name}}}}}"), what, hint: None });
            return Err(errors);
        }
    }
    filled.push_str(rest);
    if errors.is_empty() { Ok(filled) } else { Err(errors) }
}

/// Most errors of one text: with more, it is probably the wrong file.
const ERRORS_MAX: usize = 32;
/// Most characters of an unclosed template in an error, enough to find it.
const PART_CHARS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(text: &str) -> Result<String, Vec<String>> {
        let mut meaning = |name: &str| match name {
            "proxy" => Ok("10.0.0.1".to_owned()),
            "odd" => Ok("{{proxy}}".to_owned()),
            _ => Err((format!("no {name}"), None)),
        };
        fill(text, &mut meaning).map_err(|errors| {
            errors.into_iter().map(|TemplateError { part, what, .. }| format!("{part} {what}")).collect()
        })
    }

    #[test]
    fn names_are_filled_in_and_everything_else_stays() {
        assert_eq!(filled("listen {{proxy}}:80; {{ proxy }}"), Ok("listen 10.0.0.1:80; 10.0.0.1".to_owned()));
        assert_eq!(filled("http { a {b} }} { { }"), Ok("http { a {b} }} { { }".to_owned()));
        assert_eq!(filled("{{{{.Name}}"), Ok("{{.Name}}".to_owned()));
        assert_eq!(filled("{{odd}}"), Ok("{{proxy}}".to_owned()), "what was filled in is no template again");
        assert_eq!(filled(""), Ok(String::new()));
    }

    #[test]
    fn reports_all_errors_at_once_with_their_part() {
        assert_eq!(filled("{{a}} {{proxy}} {{ b}}"), Err(vec!["{{a}} no a".to_owned(), "{{ b}} no b".to_owned()]));
        let open = filled("x {{proxy\n}} {{proxy}}").expect_err("the first is open");
        assert_eq!(open, ["{{proxy this template is not closed"]);
        assert_eq!(filled("{{").expect_err("open").len(), 1);
        assert_eq!(filled("{{}}"), Err(vec!["{{}} no ".to_owned()]));
    }

    #[test]
    fn a_template_that_grows_without_end_is_stopped() {
        let long = "x".repeat(1 << 20);
        let text = "{{a}}".repeat(1000);
        let error = fill(&text, &mut |_| Ok(long.clone())).expect_err("a gigabyte");
        assert!(error[0].what.contains("longer than"), "{error:?}");
    }

    proptest! {
        #[test]
        fn any_text_without_two_braces_stays_as_it_is(text in "[^{]{0,40}(\\{[^{]{1,10}){0,3}") {
            prop_assert_eq!(filled(&text), Ok(text));
        }

        #[test]
        fn any_text_is_filled_in_or_refused(text in "([{}a-z \n]|proxy){0,60}") {
            let _ = filled(&text);
        }
    }
}
