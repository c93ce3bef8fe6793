//! The report of `holdfast migrate kubernetes`: what works unchanged, what differs, and what is refused.

use super::gateway_api::Converted;
use super::{Analysis, Manifests, Report, Verdict};
use crate::Level;
use report::{Document, Section, Table};
use std::path::Path;

/// Objects of the Gateway API that were written to a file.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// The objects, and what has no equivalent.
    pub converted: &'a Converted,
    /// The file.
    pub file: &'a Path,
}

/// The report on an analysis. `class`: the class that was asked for; `made_by`: the program and its version.
pub fn document(
    manifests: &Manifests,
    analysis: &Analysis,
    written: Option<Written<'_>>,
    class: &str,
    made_by: &str,
) -> Document {
    let count = |verdict| analysis.count(verdict);
    let (total, refused) = (analysis.ingresses.len(), count(Verdict::Refused));
    let title = match refused + manifests.unreadable.len() {
        0 => format!("Holdfast serves all {total} Ingresses of the class \"{class}\""),
        1 => format!("1 of {total} Ingresses needs a change before Holdfast serves all of it"),
        refused => format!("{refused} of {total} Ingresses need changes before Holdfast serves all of them"),
    };
    let mut document = Document::new(&title, made_by).fact("class", class.to_owned()).fact(
        "Ingresses",
        format!(
            "{total}: {} work unchanged, {} differ, {refused} refused",
            count(Verdict::Unchanged),
            count(Verdict::Differs)
        ),
    );
    if let Some(map) = &analysis.config_map {
        document = document.fact("ConfigMap", map.object.name.to_string());
    }
    if let Some(Written { converted, file }) = &written {
        document = document.fact("Gateway API", format!("{} objects in {}", converted.objects.len(), file.display()));
    }
    let sections = [
        unreadable(manifests),
        findings(analysis, "Refused", "Not served by Holdfast", |level| level == Level::Refused),
        findings(analysis, "Differs", "Served; each line is a difference or something without effect", |level| {
            level != Level::Refused
        }),
        unchanged(analysis),
        others(analysis),
        missing(analysis),
        written.and_then(|written| losses(written.converted)),
    ];
    sections.into_iter().flatten().fold(document, Document::section)
}

fn unreadable(manifests: &Manifests) -> Option<Section> {
    let mut table = Table::new("The API server would refuse them", &["where", "why"]);
    for (source, why) in &manifests.unreadable {
        table = table.row(vec![source.as_str().into(), why.as_str().into()]);
    }
    (!manifests.unreadable.is_empty()).then(|| Section::new("Not read").table(table))
}

fn findings(analysis: &Analysis, title: &str, caption: &str, is: fn(Level) -> bool) -> Option<Section> {
    let mut table = Table::new(caption, &["object", "where", "what"]);
    let mut any = false;
    let reports = analysis.ingresses.iter().chain(&analysis.config_map);
    let of_reports = reports.flat_map(|it| it.findings.iter().map(move |finding| (it.source.as_str(), finding)));
    let all = of_reports.chain(analysis.rest.iter().map(|finding| ("", finding)));
    for (source, finding) in all.filter(|(_, finding)| is(finding.level)) {
        any = true;
        let object = finding.object.to_string();
        table = table.row(vec![object.as_str().into(), source.into(), finding.message.as_str().into()]);
    }
    any.then(|| Section::new(title).table(table))
}

/// Everything that works as before: whole Ingresses, and the other annotations of those with findings.
fn unchanged(analysis: &Analysis) -> Option<Section> {
    let mut table = Table::new("As in ingress-nginx", &["object", "where", "annotations or keys"]);
    let mut any = false;
    let shown = |it: &&Report| it.verdict == Verdict::Unchanged || !it.unchanged.is_empty();
    for report in analysis.ingresses.iter().chain(&analysis.config_map).filter(shown) {
        any = true;
        let object = report.object.to_string();
        let words = report.unchanged.join(", ");
        table = table.row(vec![object.as_str().into(), report.source.as_str().into(), words.as_str().into()]);
    }
    any.then(|| Section::new("Works unchanged").table(table))
}

fn others(analysis: &Analysis) -> Option<Section> {
    let mut table = Table::new("They stay with their controllers", &["Ingress", "class"]);
    for (name, class) in &analysis.others {
        let name = name.to_string();
        let class = if class.is_empty() { "none" } else { class };
        table = table.row(vec![name.as_str().into(), class.into()]);
    }
    (!analysis.others.is_empty()).then(|| Section::new("Other classes").table(table))
}

fn missing(analysis: &Analysis) -> Option<Section> {
    let mut table = Table::new("Ingresses name them, and they were not checked", &["object"]);
    for object in &analysis.missing {
        table = table.row(vec![object.to_string().as_str().into()]);
    }
    (!analysis.missing.is_empty()).then(|| Section::new("Not among the manifests").table(table))
}

fn losses(converted: &Converted) -> Option<Section> {
    let mut table =
        Table::new("Without an equivalent: keep the Ingress, or do it elsewhere", &["Ingress", "what", "why"]);
    for (name, what, why) in &converted.losses {
        let name = name.to_string();
        table = table.row(vec![name.as_str().into(), what.as_str().into(), why.as_str().into()]);
    }
    (!converted.losses.is_empty()).then(|| Section::new("Gateway API").table(table))
}
