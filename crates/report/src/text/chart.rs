//! Charts for the terminal: one row of blocks per series with its range in numbers, bars as bars, spectra as
//! percentiles.

use super::{Lines, clean, padded};
use crate::chart::{Chart, Kind, Point, Series};
use crate::figure::shown;
use crate::scale::Range;
use unicode_width::UnicodeWidthStr as _;

/// Eighths of a cell, from empty to full.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The usual quantiles of a spectrum.
const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0];

pub(super) fn render(out: &mut Lines, chart: &Chart) {
    out.line("");
    let basis = if chart.basis.is_empty() { String::new() } else { format!(" ({})", chart.basis) };
    out.paragraph("", &format!("{}{basis}", chart.title));
    let finite = |series: &Series| series.points.iter().copied().filter(Point::is_finite).collect::<Vec<_>>();
    let range = Range::of(chart.series.iter().flat_map(finite).map(|point| point.y).chain([0.0]));
    let names = chart.series.iter().map(|series| clean(&series.name).width()).max().unwrap_or(0).min(out.width / 4);
    for series in &chart.series {
        let points = finite(series);
        let label = padded(&format!("  {}", clean(&series.name)), names + 4);
        match chart.kind {
            _ if points.is_empty() => out.paragraph(&label, "nothing measured"),
            Kind::Spectrum => out.paragraph(&label, &percentiles(chart, &points)),
            Kind::Bars => bars(out, chart, &points, range),
            Kind::Lines | Kind::Stacked => sparkline(out, chart, &label, &points, range),
        }
    }
}

fn percentiles(chart: &Chart, points: &[Point]) -> String {
    let at = |quantile: f64| points.iter().find(|point| point.x >= quantile - 1e-9).or(points.last());
    let texts = QUANTILES.iter().filter_map(|quantile| {
        at(*quantile).map(|point| format!("{} {}", chart.x_text(*quantile), shown(point.y, &chart.y.unit)))
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn bars(out: &mut Lines, chart: &Chart, points: &[Point], range: Range) {
    let names: Vec<String> = points.iter().map(|point| clean(&chart.x_text(point.x))).collect();
    let longest = names.iter().map(|name| name.width()).max().unwrap_or(0).min(out.width / 3);
    let values: Vec<String> = points.iter().map(|point| shown(point.y, &chart.y.unit)).collect();
    let room = values.iter().map(|value| value.width()).max().unwrap_or(0) + longest + 6;
    let columns = out.width.saturating_sub(room).clamp(4, 40);
    for ((name, value), point) in names.iter().zip(&values).zip(points) {
        let bar = "█".repeat((range.place(point.y) * columns as f64).round() as usize);
        out.line(&format!("  {}  {bar} {value}", padded(name, longest)));
    }
}

fn sparkline(out: &mut Lines, chart: &Chart, label: &str, points: &[Point], range: Range) {
    let columns = out.width.saturating_sub(label.width()).clamp(8, 60).min(points.len());
    let blocks: String = (0..columns)
        .filter_map(|column| {
            // The highest point of each interval, so that peaks are visible.
            let stretch = &points[column * points.len() / columns..(column + 1) * points.len() / columns];
            let most = stretch.iter().map(|point| point.y).max_by(f64::total_cmp)?;
            BLOCKS.get(((range.place(most) * 8.0) as usize).min(7)).copied()
        })
        .collect();
    out.line(&format!("{label}{blocks}"));
    let ys: Vec<f64> = points.iter().map(|point| point.y).collect();
    let Some(summary) = stats::Summary::of(&ys) else { return };
    let unit = &chart.y.unit;
    let [median, min, max] = [summary.median, summary.min, summary.max].map(|value| shown(value, unit));
    let last = points.last().map(|point| shown(point.y, unit)).unwrap_or_default();
    out.paragraph(
        &" ".repeat(label.width()),
        &format!("median {median} [{min}–{max}], last {last}, n = {}", summary.n),
    );
}
