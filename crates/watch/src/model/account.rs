//! `watch report`: the contents of logs as the tables of the founding control experiment: average, minimum, maximum and
//! trend of each state and port, beside the reference. Text for people, and a document for HTML and JSON; pure.

use super::log_file::Log;
use super::series::{self, Summary};
use report::text::sparkline;
use report::{Axis, Cell, Chart, Document, Kind, Section, Series, Severity, Table, Unit};
use sockdiag::State;
use std::fmt::Write as _;

/// Columns of the chart: the rest of 80 after its labels.
const CHART_COLUMNS: usize = 48;

/// If the sockets of a port reach this share of the usable ports, the port was at a ceiling.
const CEILING_SHARE: f64 = 0.95;

/// One row of a table: what was counted, and the count at each sample.
struct Row {
    name: String,
    values: Vec<u64>,
    summary: Summary,
    reference: Option<f64>,
}

/// A log with its name and its rows.
struct Arm<'a> {
    name: &'a str,
    log: &'a Log,
    seconds: Vec<f64>,
    rows: Vec<Row>,
}

/// The text for these logs, each beside the reference.
pub(crate) fn write(logs: &[(String, Log)], reference: Option<&(String, Log)>, skip_s: f64) -> String {
    let baseline = reference.map(|(name, log)| arm(name, log, None, 0.0));
    let mut text = String::new();
    let arms: Vec<Arm<'_>> = logs.iter().map(|(name, log)| arm(name, log, baseline.as_ref(), skip_s)).collect();
    if let Some(baseline) = &baseline {
        let _ = writeln!(text, "reference {}: {}\n", baseline.name, describe(baseline));
    }
    for arm in &arms {
        let _ = writeln!(text, "{}: {}", arm.name, describe(arm));
        text += &table(arm, baseline.is_some());
        text += &chart(arm);
        text += &remarks(arm);
        text.push('\n');
    }
    let all: Vec<&Arm<'_>> = baseline.iter().chain(&arms).collect();
    if all.len() > 1 {
        text += &side_by_side(&averages(&all));
    }
    text
}

/// The same as a document.
pub(crate) fn document(logs: &[(String, Log)], reference: Option<&(String, Log)>, skip_s: f64) -> Document {
    let baseline = reference.map(|(name, log)| arm(name, log, None, 0.0));
    let arms: Vec<Arm<'_>> = logs.iter().map(|(name, log)| arm(name, log, baseline.as_ref(), skip_s)).collect();
    let made_by = concat!("holdfast watch report ", env!("CARGO_PKG_VERSION"));
    let mut document = Document::new("TCP connections by state", made_by);
    let all: Vec<&Arm<'_>> = baseline.iter().chain(&arms).collect();
    if all.len() > 1 {
        let [headings, rows @ ..] = &averages(&all)[..] else { return document };
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new("Average sockets per look", &headings);
        for row in rows {
            table = table.row(row.iter().map(|cell| Cell::from(cell.as_str())).collect());
        }
        document = document.section(Section::new("Side by side").table(table));
    }
    for arm in all {
        document = document.section(section(arm));
    }
    document
}

fn section(arm: &Arm<'_>) -> Section {
    let columns = ["", "average", "min", "max", "trend, per min", "reference", "net"];
    let mut table = Table::new("Sockets per look", &columns);
    for row in &arm.rows {
        let Summary { average, least, most, .. } = row.summary;
        let reference = |of: fn(f64, f64) -> String| row.reference.map_or_else(String::new, |other| of(average, other));
        let cells = [
            row.name.clone(),
            format!("{average:.2}"),
            least.to_string(),
            most.to_string(),
            row.summary.trend(),
            reference(|_, other| format!("{other:.2}")),
            reference(|average, other| format!("{:+.2}", average - other)),
        ];
        table = table.row(cells.into_iter().map(Cell::from).collect());
    }
    let basis = format!("n = {} samples, one every {} s", arm.seconds.len(), arm.log.head.interval_s);
    let along = Axis::new("since the log began", Unit::of("s"));
    let mut chart = Chart::new("Sockets over time", Kind::Lines, along, Axis::new("sockets", Unit::of("")), basis);
    for row in arm.rows.iter().filter(|row| row.summary.most > 0) {
        let points = arm.seconds.iter().copied().zip(row.values.iter().map(|value| *value as f64));
        chart = chart.series(Series::new(&row.name, points));
    }
    let mut section = Section::new(arm.name).note(Severity::Note, describe(arm)).table(table).chart(chart);
    for remark in remarks(arm).lines().filter(|line| !line.is_empty()) {
        section = section.note(Severity::Warning, remark);
    }
    section
}

fn arm<'a>(name: &'a str, log: &'a Log, baseline: Option<&Arm<'_>>, skip_s: f64) -> Arm<'a> {
    let samples = || log.samples.iter().filter(|sample| sample.seconds >= skip_s);
    let seconds: Vec<f64> = samples().map(|sample| sample.seconds).collect();
    let mut rows = Vec::new();
    let mut add = |name: String, values: Vec<u64>, always: bool| {
        if !always && values.iter().all(|value| *value == 0) {
            return;
        }
        if let Some(summary) = series::summarize(&seconds, &values) {
            let reference = baseline.map(|baseline| {
                baseline.rows.iter().find(|row| row.name == name).map_or(0.0, |row| row.summary.average)
            });
            rows.push(Row { name, values, summary, reference });
        }
    };
    for state in State::ALL {
        let always = matches!(state, State::Established | State::TimeWait);
        add(state.name().to_owned(), samples().map(|sample| sample.tally.all.of(state)).collect(), always);
    }
    for (at, port) in log.head.ports.iter().enumerate() {
        let histogram =
            |sample: &super::log_file::Sample| sample.tally.ports.get(at).map(|(_, h)| *h).unwrap_or_default();
        add(format!("port {port}"), samples().map(|sample| histogram(sample).connections()).collect(), true);
        for state in State::ALL {
            let values = samples().map(|sample| histogram(sample).of(state)).collect();
            add(format!("port {port} {state}"), values, false);
        }
    }
    Arm { name, log, seconds, rows }
}

fn describe(arm: &Arm<'_>) -> String {
    let span = arm.seconds.last().zip(arm.seconds.first()).map_or(0.0, |(last, first)| last - first);
    let filter = if arm.log.head.filter.is_empty() { String::new() } else { format!(", only {}", arm.log.head.filter) };
    format!("{} samples over {span:.0} s, by {}{filter}", arm.seconds.len(), arm.log.head.source)
}

fn table(arm: &Arm<'_>, with_reference: bool) -> String {
    let width = arm.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(11);
    let mut text = format!("{:width$}  {:>10}  {:>7}  {:>7}  {:>14}", "", "average", "min", "max", "trend, per min");
    if with_reference {
        let _ = write!(text, "  {:>10}  {:>10}", "reference", "net");
    }
    text.push('\n');
    for row in &arm.rows {
        let Summary { average, least, most, .. } = row.summary;
        let _ =
            write!(text, "{:width$}  {average:>10.2}  {least:>7}  {most:>7}  {:>14}", row.name, row.summary.trend());
        if let Some(reference) = row.reference {
            let _ = write!(text, "  {reference:>10.2}  {:>+10.2}", average - reference);
        }
        text.push('\n');
    }
    text
}

fn chart(arm: &Arm<'_>) -> String {
    let width = arm.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(11);
    let mut text = "\n".to_owned();
    for row in arm.rows.iter().filter(|row| row.summary.least != row.summary.most) {
        let line = sparkline(&row.values, CHART_COLUMNS);
        let _ = writeln!(text, "{:width$}  {line}  {}..{}", row.name, row.summary.least, row.summary.most);
    }
    if text.len() == 1 { String::new() } else { text }
}

/// Remarks that the table does not show.
fn remarks(arm: &Arm<'_>) -> String {
    let mut text = String::new();
    if arm.seconds.len() < 3 {
        text += "\nThree samples are the least that a trend can be seen in.\n";
    }
    let Some(usable) = arm.log.head.ports_usable else { return text };
    for row in arm.rows.iter().filter(|row| row.name.starts_with("port ") && row.name.matches(' ').count() == 1) {
        if row.summary.most as f64 >= CEILING_SHARE * f64::from(usable) {
            let _ = writeln!(
                text,
                "\n{}: up to {} sockets, and connect() has {usable} ports to choose from: this is a ceiling, not the load.",
                row.name, row.summary.most
            );
        }
    }
    text
}

/// The founding table: the averages of each arm in a row, under their names.
fn averages(arms: &[&Arm<'_>]) -> Vec<Vec<String>> {
    let mut names = vec![State::Established.name().to_owned(), State::TimeWait.name().to_owned()];
    for port in arms.iter().flat_map(|arm| &arm.log.head.ports) {
        let name = format!("port {port}");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |arm: &&Arm<'_>| {
        let average = |name: &String| {
            let average = arm.rows.iter().find(|row| row.name == *name).map(|row| row.summary.average);
            average.map_or("-".to_owned(), |average| format!("{average:.2}"))
        };
        std::iter::once(arm.name.to_owned()).chain(names.iter().map(average)).collect()
    };
    let rows = arms.iter().map(row);
    let mut table = vec![std::iter::once(String::new()).chain(names.iter().cloned()).collect()];
    table.extend(rows);
    table
}

fn side_by_side(table: &[Vec<String>]) -> String {
    let width = table.iter().filter_map(|row| Some(row.first()?.len())).max().unwrap_or(0);
    let mut text = "averages side by side\n".to_owned();
    for row in table {
        let [name, cells @ ..] = &row[..] else { continue };
        let _ = write!(text, "{name:width$}");
        for cell in cells {
            let _ = write!(text, "  {cell:>12}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::log_file::{Head, Sample};
    use crate::model::tally::Tally;
    use crate::model::tests::socket;

    /// A log with these numbers of TIME_WAIT sockets towards port 10000.
    fn log(waiting: &[u32]) -> Log {
        let head = Head { interval_s: 2.0, ports: vec![10_000], ports_usable: Some(20), ..Head::default() };
        let sample = |(at, count): (usize, &u32)| {
            let mut tally = Tally::of_ports(&head.ports);
            for port in 0..*count {
                tally.count(&socket(State::TimeWait, &format!("10.0.0.1:{}", 40_000 + port), "10.0.0.2:10000"));
            }
            Sample { time: String::new(), seconds: at as f64 * 2.0, tally }
        };
        Log { samples: waiting.iter().enumerate().map(sample).collect(), head }
    }

    fn squeezed(text: &str) -> String {
        text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
    }

    #[test]
    fn shows_arms_beside_their_reference() {
        let reference = ("idle".to_owned(), log(&[1, 2, 3, 2]));
        let logs = [("off".to_owned(), log(&[10, 20, 20, 20])), ("on".to_owned(), log(&[4, 4, 4, 4]))];
        // The table is as wide as the longest name; only the words matter here.
        let text = squeezed(&write(&logs, Some(&reference), 0.0));
        for expected in [
            "reference idle: 4 samples over 6 s",
            "off: 4 samples over 6 s",
            "average min max trend, per min reference net\n",
            "TIME_WAIT 17.50 10 20 flat 2.00 +15.50\n",
            "port 10000 17.50 10 20 flat 2.00 +15.50\n",
            "TIME_WAIT ▁███ 10..20\n",
            "port 10000: up to 20 sockets, and connect() has 20 ports to choose from: this is a ceiling, not the load.\n",
            "averages side by side\nESTABLISHED TIME_WAIT port 10000\nidle 0.00 2.00 2.00\noff 0.00 17.50 17.50\n\
             on 0.00 4.00 4.00\n",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        assert!(text.lines().all(|line| !line.starts_with("port 10000 CLOSE")), "{text}");
        let document = document(&logs, Some(&reference), 0.0);
        assert_eq!(
            document.sections.iter().map(|section| section.title.as_str()).collect::<Vec<_>>(),
            ["Side by side", "idle", "off", "on"]
        );
        let page = report::html::render(&document);
        assert!(page.contains("+15.50") && page.contains("this is a ceiling"), "{page}");
    }

    #[test]
    fn leaves_out_samples_before_the_load() {
        let text = squeezed(&write(&[("off".to_owned(), log(&[0, 9, 9, 9]))], None, 2.0));
        assert!(text.contains("off: 3 samples over 4 s"), "{text}");
        assert!(text.contains("TIME_WAIT 9.00 9 9 flat\n"), "{text}");
        assert!(!text.contains("side by side"));
    }
}
