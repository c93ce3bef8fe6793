//! What was found as a document: the sentence first, then each claim with its figures, its consequences and what to do.

use crate::judge::{Claim, Judgement, summary};
use crate::moment::Zone;
use report::{Document, Finding, Section, Severity};
use std::fmt::Write as _;

/// The whole report.
pub fn document(judgement: &Judgement, zone: Zone) -> Document {
    let mut document = Document::new("Incident", concat!("holdfast incident ", env!("CARGO_PKG_VERSION")))
        .answer(summary(judgement, zone))
        .fact("window", format!("{} to {}", zone.full(judgement.from_ms), zone.full(judgement.until_ms)))
        .fact("samples", format!("{} in the window, {} before it", judgement.samples, judgement.samples_before));
    for claim in &judgement.claims {
        document = document.section(Section::new(claim.cause.name()).finding(finding(claim, zone)));
    }
    let mut others = Section::new("What else is known");
    for line in notes(judgement, zone) {
        others = others.note(Severity::Note, line);
    }
    document.section(others)
}

fn finding(claim: &Claim, zone: Zone) -> Finding {
    let explanation = claim.cause.explanation();
    let mut evidence: Vec<String> = claim.evidence.iter().map(figure).collect();
    evidence.extend(claim.consequences.iter().map(|also| format!("followed by: {}", also.sentence(zone))));
    Finding {
        rule: claim.cause.name().to_owned(),
        severity: Severity::Error,
        what: claim.sentence(zone),
        place: None,
        why: explanation.meaning.to_owned(),
        evidence,
        arithmetic: String::new(),
        fix: explanation.cure.to_owned(),
        side_effect: explanation.side_effect.to_owned(),
        undo: String::new(),
    }
}

fn figure(evidence: &crate::judge::Evidence) -> String {
    let crate::judge::Evidence { what, before, during } = evidence;
    if before.is_empty() { format!("{what}: {during}") } else { format!("{what}: {during}; before: {before}") }
}

fn notes(judgement: &Judgement, zone: Zone) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(judgement.events.iter().map(|event| format!("{}: {}.", zone.clock(event.at_ms), event.what)));
    lines.extend(
        judgement
            .gaps
            .iter()
            .map(|gap| format!("No samples from {} to {}.", zone.clock(gap.from_ms), zone.clock(gap.until_ms))),
    );
    if !judgement.looked_at.is_empty() {
        lines.push(format!("Looked at: {}.", judgement.looked_at.join("; ")));
    }
    if !judgement.missing.is_empty() {
        lines.push(format!("Not recorded: {}.", judgement.missing.join("; ")));
    }
    lines
}

/// The report for a terminal.
pub fn text(judgement: &Judgement, zone: Zone) -> String {
    let mut out = summary(judgement, zone) + "\n";
    for claim in &judgement.claims {
        let explanation = claim.cause.explanation();
        let _ = writeln!(out, "\n{}: {}", claim.cause.name(), claim.sentence(zone));
        for evidence in &claim.evidence {
            let _ = writeln!(out, "  {}", figure(evidence));
        }
        for also in &claim.consequences {
            let _ = writeln!(out, "  it led to: {}", also.sentence(zone));
        }
        let _ = writeln!(out, "  why: {}", explanation.meaning);
        for (place, line) in explanation.cure.lines().enumerate() {
            let _ = writeln!(out, "  {} {line}", if place == 0 { "do: " } else { "    " });
        }
        let page = claim.cause.row().page;
        if !page.is_empty() {
            let _ = writeln!(out, "  more: docs/guide/symptoms/{page}.md");
        }
    }
    let notes = notes(judgement, zone);
    if !notes.is_empty() {
        out.push('\n');
    }
    for line in notes {
        let _ = writeln!(out, "{line}");
    }
    out
}
