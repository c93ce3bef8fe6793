//! The top of the report: the answer in a sentence, its figures, one chart of them, and one table that fits a terminal. All
//! other parts come after it.

use super::arms::{Arm, Arms};
use super::ceiling;
use crate::experiment::Claim;
use crate::judge::Judged;
use crate::{Record, figure};
use report::{Axis, Card, Chart, Figure, Outcome, Section, Severity, Table, Unit};

/// Figures with cards, one card for each of two arms.
const FIGURES_MAX: usize = 2;
/// Most bars of the chart; with more arms, only the tables show them.
const BARS_MAX: usize = 16;

/// The result of the run in a sentence.
pub(super) fn sentence(record: &Record, judged: &[Judged]) -> String {
    if record.control {
        let differ = judged.iter().filter(|judged| judged.asked && judged.verdict.outcome == Outcome::Fails).count();
        let asked = judged.iter().filter(|judged| judged.asked).count();
        return format!("Each arm ran against itself: {differ} of {asked} comparisons find a difference.");
    }
    let partial = if record.partial.is_some() { " The record is partial." } else { "" };
    let claimed: Vec<&Judged> = judged.iter().filter(|judged| judged.asked && !judged.claim.observed).collect();
    let of = |outcome| -> Vec<&&Judged> { claimed.iter().filter(|judged| judged.verdict.outcome == outcome).collect() };
    let (holds, fails) = (of(Outcome::Holds), of(Outcome::Fails));
    let open: Vec<&&Judged> = of(Outcome::Undecided).into_iter().chain(of(Outcome::Void)).collect();
    let says = |judged: &&&Judged| judged.verdict.claim.clone();
    let answer = match (claimed.len(), holds.len(), fails.as_slice(), open.as_slice()) {
        (0, ..) => "Nothing is claimed of this run; its figures are below.".to_owned(),
        (1, 1, ..) => format!(
            "The claim holds: {}.",
            claimed.iter().map(|judged| judged.verdict.claim.as_str()).collect::<String>()
        ),
        (all, _, [], []) => {
            format!("All {all} claims hold. First of them: {}.", holds.first().map(says).unwrap_or_default())
        }
        (all, 0, [], [one, _, ..]) => {
            format!("None of the {all} claims is decided. First of them: {} ({}).", says(one), one.verdict.brief)
        }
        (all, good, [], [one, rest @ ..]) => {
            let others = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            format!("{good} of {all} claims hold; not decided: {}{others}.", says(one))
        }
        (all, good, [one, rest @ ..], _) => {
            let others = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            format!("{good} of {all} claims hold; this one fails: {}{others}.", says(one))
        }
    };
    format!("{answer}{partial}")
}

/// The tested claims that compare arms: first the claims, then the figures that are only shown.
fn leading(judged: &[Judged]) -> Vec<&Claim> {
    let mut asked: Vec<&Judged> =
        judged.iter().filter(|judged| judged.asked && judged.claim.against.is_some()).collect();
    // The claim in the sentence comes first: one that fails, or else one that is open.
    let rank = |outcome| match outcome {
        Outcome::Fails => 0,
        Outcome::Undecided | Outcome::Void => 1,
        Outcome::Holds => 2,
    };
    asked.sort_by_key(|judged| (judged.claim.observed, rank(judged.verdict.outcome)));
    let mut claims: Vec<&Claim> = Vec::new();
    for judged in asked {
        if !claims.iter().any(|known| known.figure == judged.claim.figure) {
            claims.push(&judged.claim);
        }
    }
    claims
}

/// Cards with both arms of the figures in the claims.
pub(super) fn cards(record: &Record, arms: &Arms<'_>, judged: &[Judged]) -> Vec<Card> {
    let mut cards = Vec::new();
    for claim in leading(judged).into_iter().take(FIGURES_MAX) {
        for name in [Some(&claim.of), claim.against.as_ref()].into_iter().flatten() {
            let Some(arm) = arms.iter().find(|arm| arm.name == name) else { continue };
            let values = arm.values(&claim.figure);
            if !values.is_empty() {
                let rounds = format!("{}, {} of {} rounds", figure_words(&claim.figure), values.len(), record.rounds());
                cards.push(Card::new(name, figure::shown(&claim.figure, &values), rounds));
            }
        }
    }
    cards
}

/// A chart by arm of the figure in the sentence, or else of the first claim that has one.
pub(super) fn chart(arms: &Arms<'_>, judged: &[Judged]) -> Option<Section> {
    leading(judged).into_iter().find_map(|claim| {
        let (unit, factor) = figure::unit(&claim.figure);
        let bars = arms.iter().take(BARS_MAX).filter_map(|arm| Some((arm.name, arm.median(&claim.figure)? * factor)));
        let bars: Vec<(&str, f64)> = bars.collect();
        let words = figure_words(&claim.figure);
        let axis = Axis::new(&words, if let Unit::Of(_) = unit { Unit::of("") } else { unit });
        let chart = Chart::bars(&words, axis, "medians over the rounds", &bars);
        (!bars.is_empty()).then(|| Section::new("Compared").chart(chart))
    })
}

/// A figure's name in words, for example for `cpu_us_per_request.proxy`.
fn figure_words(name: &str) -> String {
    let (kind, of) = name.split_once('.').unwrap_or((name, ""));
    let words = match kind {
        "cpu_us_per_request" => "CPU per request",
        "requests_per_second" => "requests/s",
        "failed_share" => "share that failed",
        "latency_ms" => "latency",
        "busiest" => "busiest thread",
        "rss_mb" | "rss_mb_max" => "resident memory, MB",
        "sockets" => "sockets",
        "share" => "share",
        other => other,
    };
    if of.is_empty() { words.to_owned() } else { format!("{words}: {}", of.replace('.', " ")) }
}

/// One table that fits a terminal, and warnings about plateaus that are not a load.
pub(super) fn in_short(record: &Record, arms: &Arms<'_>, judged: &[Judged]) -> Option<Section> {
    let mut section = Section::new("Figures");
    for ceiling in ceiling::found(record, arms) {
        section = section.note(Severity::Warning, ceiling);
    }
    let cpu = leading(judged).into_iter().map(|claim| claim.figure.as_str()).find(|name| name.starts_with("cpu_us"));
    let cpu = cpu.map(str::to_owned).or_else(|| {
        let processes = arms.record.experiment.processes.iter().rev();
        let mut names = processes.map(|process| format!("cpu_us_per_request.{}", process.name));
        names.find(|name| arms.has(name))
    });
    let candidates =
        [Some("requests_per_second"), Some("latency_ms.p50"), Some("latency_ms.p99"), cpu.as_deref(), Some("failed")];
    let shown: Vec<&str> = candidates.into_iter().flatten().filter(|name| arms.has(name)).collect();
    let mut table = Table::new("Medians over the rounds, with half the range as a part of them", &["arm"]);
    table.columns.extend(shown.iter().map(|name| heading(name)));
    for arm in arms.iter() {
        let cells = shown.iter().map(|name| cell(arm, name));
        table = table.row(std::iter::once(arm.name.into()).chain(cells).collect());
    }
    if !shown.is_empty() && !table.rows.is_empty() {
        section = section.table(table);
    }
    (!section.blocks.is_empty()).then_some(section)
}

fn heading(name: &str) -> String {
    match name.split_once('.') {
        Some(("cpu_us_per_request", process)) => format!("CPU of {process}"),
        Some(("latency_ms", quantile)) => quantile.to_owned(),
        _ => figure_words(name),
    }
}

fn cell(arm: &Arm<'_>, name: &str) -> report::Cell {
    let values = arm.values(name);
    if values.is_empty() { "–".into() } else { without_unit_in_heading(figure::shown(name, &values)).into() }
}

/// Omits a unit that the heading already has, such as `requests/s`.
fn without_unit_in_heading(figure: Figure) -> Figure {
    match figure {
        Figure::Sampled { median, min, max, n, unit: Unit::Of(_) } => {
            Figure::Sampled { median, min, max, n, unit: Unit::of("") }
        }
        other => other,
    }
}
