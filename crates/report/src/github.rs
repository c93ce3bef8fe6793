//! The findings of a document as commands of a GitHub workflow, which shows them beside the lines of a change.

use crate::document::{Document, Finding, Severity};
use std::fmt::Write as _;

/// One line for each finding.
pub fn render(document: &Document) -> String {
    document.findings().fold(String::new(), |mut out, finding| {
        let _ = writeln!(out, "{}", command(finding));
        out
    })
}

fn command(finding: &Finding) -> String {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let place = finding.place.as_ref().map(|(file, line, column)| {
        format!("file={},line={},col={},", property(file), (*line).max(1), (*column).max(1))
    });
    let mut message = finding.what.clone();
    for (name, text, _) in finding.parts() {
        let _ = write!(message, "\n{name}: {text}");
    }
    format!("::{level} {}title={}::{}", place.unwrap_or_default(), property(&finding.rule), data(&message))
}

/// Percent-encodes the characters that would end the command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Section;

    #[test]
    fn writes_a_finding_on_one_line() {
        let finding = Finding {
            rule: "a-rule".to_owned(),
            severity: Severity::Note,
            what: "50 % of it".to_owned(),
            place: Some(("a,b:c.conf".to_owned(), 3, 5)),
            why: "because".to_owned(),
            evidence: Vec::new(),
            arithmetic: String::new(),
            fix: "x;\ny;".to_owned(),
            side_effect: String::new(),
            undo: String::new(),
        };
        let document = Document::new("Doctor", "holdfast").section(Section::new("Findings").finding(finding));
        assert_eq!(
            render(&document),
            "::notice file=a%2Cb%3Ac.conf,line=3,col=5,title=a-rule::50 %25 of it%0Awhy it hurts: because%0Afix: x;%0Ay;\n"
        );
    }
}
