//! Charts as inline SVG. Texts that may be long (titles, legends, axis titles) are outside of it in HTML, where they
//! wrap.

use super::escape::escape;
use crate::chart::{Chart, Kind, Point};
use crate::figure::shown;
use crate::palette::{Colour, Palette};
use crate::scale::{Range, along, drawn, ticks};
use std::fmt::Write as _;

/// Size of the drawing in its own units; the page scales it to its width. Texts are larger on a phone, so margins are
/// wide.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 40.0;
/// More labels would overlap at phone width.
const TICKS_MAX: usize = 4;

/// Geometry of bars: the height of each with its name above it, the positions of name and bar, and the space for the
/// value after it. On a phone a text is 24 units high.
const BAR_ROW: f64 = 62.0;
const BAR_NAME: f64 = 24.0;
const BAR_TOP: f64 = 32.0;
const BAR_HEIGHT: f64 = 20.0;
const BAR_VALUE: f64 = 190.0;

/// The layout of one chart.
struct Frame<'a> {
    chart: &'a Chart,
    palette: &'a Palette,
    x: Range,
    y: Range,
}

/// The `<svg>` element with title and description. `id` is unique in the page and of our own making.
pub(super) fn render(chart: &Chart, id: &str, palette: &Palette) -> String {
    let series = drawn(chart);
    let all = || series.iter().flatten();
    let frame = Frame {
        chart,
        palette,
        x: Range::of(all().map(|point| along(chart.kind, point.x))),
        // Readers compare heights and areas, so the axis begins at zero.
        y: Range::of(all().map(|point| point.y).chain([0.0])),
    };
    let describes = format!(
        "{}: {} over {}; {} series. The numbers are in the table below.",
        chart.title,
        chart.y.title,
        chart.x.title,
        chart.series.len()
    );
    let height = if chart.kind == Kind::Bars { BAR_ROW * chart.categories.len().max(1) as f64 } else { HEIGHT };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        escape(&chart.title),
        escape(&describes)
    );
    match chart.kind {
        Kind::Lines | Kind::Spectrum => {
            frame.axes(&mut svg);
            frame.lines(&mut svg, &series);
        }
        Kind::Stacked => {
            frame.axes(&mut svg);
            frame.areas(&mut svg, &series);
        }
        Kind::Bars => frame.bars(&mut svg, &series),
    }
    svg.push_str("</svg>\n");
    svg
}

impl Frame<'_> {
    fn left(&self, x: f64) -> f64 {
        LEFT + self.x.place(along(self.chart.kind, x)) * (WIDTH - LEFT - RIGHT)
    }

    fn top(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut String) {
        for y in ticks(self.y, TICKS_MAX) {
            let (at, text) = (self.top(y), escape(&shown(y, &self.chart.y.unit)));
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                WIDTH - RIGHT
            );
            let _ = write!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 8.0, at + 4.0);
        }
        let labels: Vec<f64> = match self.chart.kind {
            Kind::Spectrum => [0.0, 0.9, 0.99, 0.999, 0.9999]
                .into_iter()
                .filter(|x| along(Kind::Spectrum, *x) <= self.x.high)
                .collect(),
            _ => ticks(self.x, TICKS_MAX),
        };
        for x in labels {
            let (at, text) = (self.left(x), escape(&self.chart.x_text(x)));
            let _ = write!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", HEIGHT - 12.0);
        }
    }

    fn colour(&self, at: usize) -> Colour {
        self.palette.colour(self.chart.series.get(at).map_or("", |series| &series.name))
    }

    fn lines(&self, svg: &mut String, series: &[Vec<Point>]) {
        for (at, points) in series.iter().enumerate() {
            let colour = self.colour(at);
            let _ = write!(svg, "<polyline class=\"line {}\" points=\"{}\"/>", line(colour), self.path(points.iter()));
            // A line of one point has no length and would be invisible.
            if let [only] = points[..] {
                let (x, y) = (self.left(only.x), self.top(only.y));
                let _ = write!(svg, "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>", colour.slot);
            }
        }
    }

    fn areas(&self, svg: &mut String, series: &[Vec<Point>]) {
        for (at, tops) in series.iter().enumerate() {
            let floor: Vec<Point> = match at.checked_sub(1).and_then(|below| series.get(below)) {
                Some(below) => below.iter().rev().copied().collect(),
                None => tops.iter().rev().map(|point| Point { y: 0.0, ..*point }).collect(),
            };
            let path = self.path(tops.iter().chain(&floor));
            let _ = write!(svg, "<polygon class=\"area {}\" points=\"{path}\"/>", area(self.colour(at)));
        }
    }

    /// Draws the bars one below the other, each with its name above it and its value after it.
    fn bars(&self, svg: &mut String, series: &[Vec<Point>]) {
        let along = |value: f64| self.y.place(value) * (WIDTH - BAR_VALUE);
        for point in series.iter().flatten() {
            let row = point.x * BAR_ROW;
            let (name, value) = (self.chart.x_text(point.x), shown(point.y, &self.chart.y.unit));
            let (from, to) = (along(point.y.min(0.0)), along(point.y.max(0.0)));
            let _ = write!(
                svg,
                "<text x=\"0\" y=\"{:.1}\" class=\"name\">{}</text>\
                 <rect class=\"bar {}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\"><title>{}</title></rect>\
                 <text x=\"{:.1}\" y=\"{:.1}\" class=\"value\">{}</text>",
                row + BAR_NAME,
                escape(&name),
                area(self.palette.colour(&name)),
                row + BAR_TOP,
                (to - from).max(1.0),
                escape(&format!("{name}: {value}")),
                to + 8.0,
                row + BAR_TOP + BAR_HEIGHT - 2.0,
                escape(&value)
            );
        }
    }

    fn path<'a>(&self, points: impl Iterator<Item = &'a Point>) -> String {
        let places = points.map(|point| format!("{:.1},{:.1}", self.left(point.x), self.top(point.y)));
        places.collect::<Vec<_>>().join(" ")
    }
}

/// CSS classes of a line.
pub(super) fn line(colour: Colour) -> String {
    format!("c{}{}", colour.slot, if colour.light { " light" } else { "" })
}

/// CSS classes of an area or a bar.
pub(super) fn area(colour: Colour) -> String {
    format!("c{0} f{0}{1}", colour.slot, if colour.light { " light" } else { "" })
}

/// A history without axes, for a figure.
pub(super) fn trend(values: &[f64]) -> String {
    const ROOM: (f64, f64) = (120.0, 24.0);
    let [_, _, ..] = values else { return String::new() };
    let range = Range::of(values.iter().copied());
    let step = ROOM.0 / (values.len() - 1) as f64;
    let points = values.iter().enumerate().map(|(at, value)| {
        format!("{:.1},{:.1}", at as f64 * step, ROOM.1 - 1.0 - range.place(*value) * (ROOM.1 - 2.0))
    });
    let points: Vec<String> = points.collect();
    format!(
        "<svg class=\"trend\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\"><polyline class=\"line c0\" points=\"{}\"/></svg>",
        ROOM.0,
        ROOM.1,
        points.join(" ")
    )
}
