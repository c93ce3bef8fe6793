//! The report of a record: one [`Document`] with the claims, figures by arm, charts, and everything that limits the
//! figures. It can be generated again from a record. It takes the verdicts as input and writes no files; the caller renders
//! it as text, Markdown, JSON or HTML.

mod answer;
pub mod arms;
mod ceiling;
mod charts;
mod tables;

use crate::Record;
use crate::experiment::Order;
use crate::judge::Judged;
use arms::Arms;
use report::figure::shown;
use report::{Document, Outcome, Section, Severity, Table, Unit};
use std::collections::BTreeMap;

/// The whole report. `judged` contains the record's claims with their verdicts, as [`judge`](crate::judge::judge) returns
/// them.
pub fn document(record: &Record, judged: &[Judged]) -> Document {
    let arms = Arms::of(record);
    let mut document = Document::new(&record.experiment.title, &made_by()).answer(answer::sentence(record, judged));
    document.cards = answer::cards(record, &arms, judged);
    document.facts = facts(record, &arms);
    document.sections.extend(answer::chart(&arms, judged));
    document.sections.push(claims(record, judged));
    document.sections.extend(answer::in_short(record, &arms, judged));
    // The following sections are details.
    let details = std::iter::once(about(record)).chain(tables::sections(&arms)).chain(charts::sections(&arms));
    let details = details.chain(against(record, &arms)).chain([order(record)]);
    document.sections.extend(details.map(Section::folded));
    document
}

fn made_by() -> String {
    format!("holdfast lab {}", env!("CARGO_PKG_VERSION"))
}

/// The machine and the method, and how to repeat the run.
fn facts(record: &Record, arms: &Arms<'_>) -> Vec<(String, String)> {
    let experiment = &record.experiment;
    let order = match experiment.method.order {
        Order::Mirrored => "arms forward in one round, backward in the next",
        Order::Random => "arms in an order drawn anew for each round",
    };
    let quick = if record.quick { ", quick" } else { "" };
    let amounts: Vec<String> = experiment.loads.iter().filter_map(amount).collect();
    let more = match record.rounds().saturating_sub(experiment.method.rounds) {
        0 => String::new(),
        spare => format!(" and {spare} spare, since samples were void,"),
    };
    let method = format!(
        "{} rounds{more} of {} arms{quick}, {order}; per sample {} idle, {} warm-up, then {}; a look every {}",
        experiment.method.rounds,
        experiment.arms.len(),
        seconds(experiment.method.idle),
        seconds(experiment.method.warm_up),
        if amounts.is_empty() { "the load".to_owned() } else { amounts.join(" and ") },
        seconds(experiment.method.look),
    );
    let void: usize = arms.iter().map(|arm| arm.void.len()).sum();
    let samples =
        format!("{} taken, {void} of them void; figures are median [least–most] of the others", record.samples.len());
    let control = if record.control { " (control: each arm against itself)" } else { "" };
    let mut facts = vec![
        ("experiment".to_owned(), format!("{}{control}", experiment.name)),
        ("began".to_owned(), record.began.clone()),
        ("method".to_owned(), method),
        ("samples".to_owned(), samples),
        ("seed".to_owned(), record.seed.to_string()),
        ("to repeat".to_owned(), record.command.clone()),
    ];
    facts.extend(record.fingerprint.iter().cloned());
    facts.extend(stolen(record));
    facts
}

/// How much of a virtual machine's time its host took. `None` if no sample has the figure.
fn stolen(record: &Record) -> Option<(String, String)> {
    let shares: Vec<f64> = record.samples.iter().filter_map(|sample| sample.figures.get("stolen").copied()).collect();
    let summary = stats::Summary::of(&shares)?;
    let percent = |share: f64| shown(share * 100.0, &Unit::Percent);
    let text = format!(
        "{} of all cores in the middle of the samples, at most {}",
        percent(summary.median),
        percent(summary.max)
    );
    Some(("taken by the host".to_owned(), text))
}

fn amount(load: &crate::experiment::Load) -> Option<String> {
    match (load.requests, load.seconds) {
        (Some(requests), _) => Some(format!("{requests} requests")),
        (None, Some(length)) => Some(seconds(length)),
        (None, None) => None,
    }
}

fn seconds(value: f64) -> String {
    format!("{value} s")
}

/// Explains the verdicts of a control.
const CONTROL: &str = "This is a control (A/A): each arm ran against itself, and nothing is claimed of it. \"Holds\" says that \
                       the rounds show no difference, as it should be; \"fails\" that they show one. By chance that happens in \
                       1 of 20 controls. If it happens more often, this machine is too restless for its verdicts.";

/// The verdicts, which are the purpose of the run. Claims come before figures that are only shown.
fn claims(record: &Record, judged: &[Judged]) -> Section {
    let mut section = Section::new(if record.control { "Control" } else { "Claims" });
    if record.control {
        section = section.note(Severity::Note, CONTROL);
    }
    if let Some(partial) = &record.partial {
        let what = format!("This record is partial: {partial}. What follows is what there is.");
        section = section.note(Severity::Warning, what);
    }
    for (arm, reason) in &record.absent {
        section = section.note(Severity::Warning, format!("Arm \"{arm}\" is absent: {reason}"));
    }
    if judged.is_empty() {
        let what = "The experiment claims nothing: what follows is shown and not judged.";
        section = section.note(Severity::Note, what);
    }
    let (asked, left_out): (Vec<&Judged>, Vec<&Judged>) = judged.iter().partition(|judged| judged.asked);
    let (shown, claimed): (Vec<&Judged>, Vec<&Judged>) = asked.into_iter().partition(|judged| judged.claim.observed);
    let asked = if record.control { "comparison" } else { "comparison without a claim" };
    for (what, judged) in [("claim", claimed), (asked, shown)] {
        if judged.is_empty() {
            continue;
        }
        section = section.note(Severity::Note, outcomes(what, &judged));
        section = judged.into_iter().fold(section, |section, judged| section.verdict(judged.verdict.clone()));
    }
    if left_out.is_empty() {
        return section;
    }
    let says: Vec<&str> = left_out.iter().map(|judged| judged.claim.says.as_str()).collect();
    let what = format!("Not asked, since their arms were left out of this run ({}): {}.", says.len(), says.join("; "));
    section.note(Severity::Note, what)
}

/// `All 6 claims hold.`, or the number of each outcome.
fn outcomes(what: &str, judged: &[&Judged]) -> String {
    let count = |outcome| judged.iter().filter(|judged| judged.verdict.outcome == outcome).count();
    let all = [
        (Outcome::Holds, ["holds", "hold"]),
        (Outcome::Fails, ["fails", "fail"]),
        (Outcome::Undecided, ["is undecided", "are undecided"]),
        (Outcome::Void, ["is void", "are void"]),
    ];
    let counts: Vec<(usize, [&str; 2])> =
        all.into_iter().map(|(outcome, verbs)| (count(outcome), verbs)).filter(|(count, _)| *count > 0).collect();
    // The plural of the first word: `comparisons without a claim`.
    let (noun, rest) = what.split_once(' ').map_or((what, String::new()), |(noun, rest)| (noun, format!(" {rest}")));
    let verb = |count: usize, [one, several]: [&'static str; 2]| if count == 1 { one } else { several };
    match counts.as_slice() {
        [(1, verbs)] => format!("The {noun}{rest} {}.", verbs[0]),
        [(2, verbs)] => format!("Both {noun}s{rest} {}.", verbs[1]),
        [(count, verbs)] => format!("All {count} {noun}s{rest} {}.", verbs[1]),
        several => {
            let parts = several.iter().map(|(count, verbs)| format!("{count} {}", verb(*count, *verbs)));
            format!("{} {noun}s{rest}: {}.", judged.len(), parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The description in the experiment.
fn about(record: &Record) -> Section {
    let section = Section::new("What it is about");
    let paragraphs = record.experiment.about.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    paragraphs.fold(section, |section, paragraph| section.note(Severity::Note, paragraph))
}

/// What limits the figures: void samples, and remarks.
fn against(record: &Record, arms: &Arms<'_>) -> Option<Section> {
    let mut section = Section::new("Void samples and remarks");
    for arm in arms.iter().filter(|arm| !arm.void.is_empty()) {
        let reasons = counted(arm.void.iter().map(|(_, reason)| *reason));
        let taken = arm.void.len() + arm.samples.len();
        let what = format!("{}: {} of {taken} samples are void: {}", arm.name, arm.void.len(), reasons.join("; "));
        section = section.note(Severity::Warning, what);
    }
    let mut table =
        Table::new("Remarks, with the number of samples in which they were made", &["arm", "samples", "remark"]);
    for arm in arms.iter() {
        let of_arm = record.samples.iter().filter(|sample| sample.arm == arm.name);
        let remarks = alike(of_arm.flat_map(|sample| &sample.remarks).map(String::as_str));
        let left_out = remarks.len().saturating_sub(REMARKS_MAX);
        for (remark, count) in remarks.into_iter().take(REMARKS_MAX) {
            table = table.row(vec![arm.name.into(), count.to_string().into(), remark.into()]);
        }
        if left_out > 0 {
            let more = format!("and {left_out} others, which the record has");
            table = table.row(vec![arm.name.into(), String::new().into(), more.into()]);
        }
    }
    if !table.rows.is_empty() {
        section = section.table(table);
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// Most remarks of one arm: remarks with numbers differ between samples, and a hundred of them are unreadable.
const REMARKS_MAX: usize = 12;

/// Merges remarks that differ only in parentheses, and keeps the parentheses of the first; most frequent first.
fn alike<'a>(remarks: impl Iterator<Item = &'a str>) -> Vec<(String, usize)> {
    let mut kinds: BTreeMap<&str, (&str, usize, bool)> = BTreeMap::new();
    for remark in remarks {
        let kind = remark.split_once(" (").map_or(remark, |(kind, _)| kind);
        let (first, count, differ) = kinds.entry(kind).or_insert((remark, 0, false));
        *count += 1;
        *differ |= *first != remark;
    }
    let worded = |(kind, (first, count, differ)): (&str, (&str, usize, bool))| {
        let text = match first.strip_prefix(kind).and_then(|rest| rest.strip_prefix(" (")) {
            Some(details) if differ => format!("{kind} (in the first of them: {details}"),
            _ => first.to_owned(),
        };
        (text, count)
    };
    let mut remarks: Vec<(String, usize)> = kinds.into_iter().map(worded).collect();
    remarks.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    remarks
}

/// Each text once, with its count if it occurred more than once.
fn counted<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(text, count)| if count > 1 { format!("{text} ({count} times)") } else { text.to_owned() })
        .collect()
}

/// The order of the samples, in which a drift of the machine would show.
fn order(record: &Record) -> Section {
    let mut table = Table::new("Arms in the order in which they ran", &["round", "order"]);
    let mut rounds: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for sample in &record.samples {
        let void = if sample.void.is_some() { " (void)" } else { "" };
        rounds.entry(sample.round).or_default().push(format!("{}{void}", sample.arm));
    }
    for (round, order) in rounds {
        table = table.row(vec![(round + 1).to_string().into(), order.join(", ").into()]);
    }
    Section::new("Order").table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_that_differ_in_their_numbers_are_one() {
        let remarks = ["none", "proxy (90 %)", "proxy (95 %)", "ports (all)", "ports (all)", "proxy (91 %)"];
        let expected = [("proxy (in the first of them: 90 %)", 3), ("ports (all)", 2), ("none", 1)];
        assert_eq!(alike(remarks.into_iter()), expected.map(|(text, count)| (text.to_owned(), count)));
    }
}
