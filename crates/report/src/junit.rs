//! Results as JUnit XML, which CI systems show test by test.
//!
//! ```
//! use report::junit::{Case, Outcome, render};
//!
//! let cases = [Case { name: "p99<50ms".to_owned(), outcome: Outcome::Failed("61 ms".to_owned()) }];
//! assert!(render("load of http://a/", 10.0, &cases).contains("<failure message=\"61 ms\"/>"));
//! ```

use std::fmt::Write as _;

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should: what was found.
    Failed(String),
    /// It could not be decided: why.
    Skipped(String),
    /// It could not be run: why.
    Broken(String),
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What was to hold.
    pub name: String,
    /// Whether it did.
    pub outcome: Outcome,
}

/// One suite of cases, which took this long.
pub fn render(suite: &str, seconds: f64, cases: &[Case]) -> String {
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.outcome)).count();
    let suite = escape(suite);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
         <testsuite name=\"{suite}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">\n",
        cases.len(),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Broken(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    );
    for case in cases {
        let (element, why) = match &case.outcome {
            Outcome::Passed => ("", ""),
            Outcome::Failed(why) => ("failure", why.as_str()),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
            Outcome::Broken(why) => ("error", why.as_str()),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "<testcase classname=\"{suite}\" name=\"{}\" time=\"0\"", escape(&case.name));
        if element.is_empty() {
            text.push_str("/>\n");
        } else {
            let _ = writeln!(text, "><{element} message=\"{}\"/></testcase>", escape(why));
        }
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// A text for an attribute. Control characters are not allowed in XML, also not by their numbers.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            symbol if symbol.is_control() => safe.push('\u{fffd}'),
            symbol => safe.push(symbol),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_element_and_is_counted() {
        let case = |name: &str, outcome| Case { name: name.to_owned(), outcome };
        let text = render(
            "a \"b\"\u{1}",
            1.5,
            &[
                case("x<1", Outcome::Passed),
                case("y", Outcome::Failed("2\n3".to_owned())),
                case("z", Outcome::Skipped("late".to_owned())),
                case("run", Outcome::Broken("& gone".to_owned())),
            ],
        );
        let suite = "a &quot;b&quot;\u{fffd}";
        assert_eq!(
            text,
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
                 <testsuite name=\"{suite}\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"1.500\">\n\
                 <testcase classname=\"{suite}\" name=\"x&lt;1\" time=\"0\"/>\n\
                 <testcase classname=\"{suite}\" name=\"y\" time=\"0\"><failure message=\"2 3\"/></testcase>\n\
                 <testcase classname=\"{suite}\" name=\"z\" time=\"0\"><skipped message=\"late\"/></testcase>\n\
                 <testcase classname=\"{suite}\" name=\"run\" time=\"0\"><error message=\"&amp; gone\"/></testcase>\n\
                 </testsuite>\n</testsuites>\n"
            )
        );
    }
}
