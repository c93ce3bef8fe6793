//! Checks the output of `sarif::render` against OASIS' schema of SARIF 2.1.0 (fixtures/README.md names its source).

use proptest::prelude::*;
use report::{Document, Finding, Section, Severity, sarif};
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../fixtures/sarif-schema-2.1.0.json")).expect("JSON");
    jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema")
});

/// The violations that the schema finds.
fn objections(sarif: &str) -> Vec<String> {
    let written: Value = serde_json::from_str(sarif).expect("JSON");
    SCHEMA.iter_errors(&written).map(|error| error.to_string()).collect()
}

fn finding(rule: &str, severity: Severity, place: Option<(&str, usize, usize)>) -> Finding {
    Finding {
        rule: rule.to_owned(),
        severity,
        what: "something".to_owned(),
        place: place.map(|(file, line, column)| (file.to_owned(), line, column)),
        why: "it hurts".to_owned(),
        evidence: vec!["seen".to_owned()],
        arithmetic: String::new(),
        fix: "paste this".to_owned(),
        side_effect: "costs".to_owned(),
        undo: "back".to_owned(),
    }
}

fn rendered(findings: Vec<Finding>) -> String {
    let section = findings.into_iter().fold(Section::new("Findings"), Section::finding);
    sarif::render(&Document::new("Doctor", "holdfast doctor 0.1.0").section(section))
}

#[test]
fn reports_with_and_without_findings_and_places_are_valid() {
    assert_eq!(objections(&rendered(Vec::new())), [""; 0]);
    let findings = vec![
        finding("one", Severity::Error, Some(("/etc/nginx/nginx.conf", 3, 5))),
        finding("one", Severity::Warning, Some(("sites/ä b#c?.conf", 1, 1))),
        finding("two", Severity::Note, Some(("a:b.conf", 0, 0))),
        finding("three", Severity::Note, None),
    ];
    assert_eq!(objections(&rendered(findings)), [""; 0]);
}

#[test]
fn the_schema_refuses_other_json() {
    let written = rendered(vec![finding("one", Severity::Error, Some(("a", 1, 1)))]);
    for (right, wrong) in [
        ("\"level\": \"error\"", "\"level\": \"fatal\""),
        ("\"startLine\": 1", "\"startLine\": 0"),
        ("\"version\": \"2.1.0\"", "\"version\": \"2.2.0\""),
        ("\"ruleId\": \"one\"", "\"rule\": \"one\""),
    ] {
        assert!(written.contains(right), "{right} is not in {written}");
        assert_ne!(objections(&written.replace(right, wrong)), [""; 0], "{wrong}");
    }
}

proptest! {
    #[test]
    fn names_and_texts_keep_sarif_valid(file in ".{1,40}", what in ".{1,40}") {
        let finding = Finding { what, ..finding("one", Severity::Note, Some((&file, 1, 1))) };
        prop_assert_eq!(objections(&rendered(vec![finding])), [""; 0]);
    }
}
