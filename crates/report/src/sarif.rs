//! The findings of a document as SARIF 2.1.0 (OASIS). Code review and CI systems show them beside the lines concerned.

use crate::document::{Document, Finding, Severity};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One run with all findings; each rule is listed once. `made_by` of the document is the tool.
pub fn render(document: &Document) -> String {
    let mut rules: Vec<&Finding> = Vec::new();
    for finding in document.findings() {
        if !rules.iter().any(|known| known.rule == finding.rule) {
            rules.push(finding);
        }
    }
    let rules: Vec<Value> =
        rules.iter().map(|finding| json!({"id": finding.rule, "fullDescription": {"text": finding.why}})).collect();
    let results: Vec<Value> = document.findings().map(result).collect();
    let sarif = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": document.made_by, "rules": rules}}, "results": results}],
    });
    format!("{sarif:#}\n")
}

fn result(finding: &Finding) -> Value {
    let parts = finding.parts();
    let mut message = finding.what.clone();
    for (name, text, _) in &parts {
        let _ = write!(message, "\n\n{name}: {text}");
    }
    let locations: Vec<Value> = finding
        .place
        .iter()
        .map(|(file, line, column)| {
            json!({"physicalLocation": {
                "artifactLocation": {"uri": uri(file)},
                "region": {"startLine": (*line).max(1), "startColumn": (*column).max(1)},
            }})
        })
        .collect();
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    json!({
        "ruleId": finding.rule,
        "level": level,
        "message": {"text": message},
        "locations": locations,
    })
}

/// A path as a relative or absolute URI: percent-encodes all characters except the plain ones of RFC 3986.
fn uri(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            encoded.push(byte as char);
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
