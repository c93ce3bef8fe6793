//! Charts as inline SVG. Texts that can be long (titles, legends, axis titles) stand outside in HTML, where they wrap.

use super::escape::escape;
use super::style::COLOURS;
use crate::chart::{Chart, Kind, Point};
use crate::figure::shown;
use crate::scale::{Range, along, drawn, ticks};
use std::fmt::Write as _;

/// The drawing in its own units; the page scales it to its width. On a phone texts are set larger, so margins are wide.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 40.0;
/// More labels than these run into each other at phone width.
const TICKS_MAX: usize = 4;

/// The places of one chart.
struct Frame<'a> {
    chart: &'a Chart,
    x: Range,
    y: Range,
}

/// The `<svg>` element with title and description. `id` is unique in the page and of our own making.
pub(super) fn render(chart: &Chart, id: &str) -> String {
    let series = drawn(chart);
    let all = || series.iter().flatten();
    let frame = Frame {
        chart,
        x: match chart.kind {
            Kind::Bars => Range { low: -0.5, high: chart.categories.len().max(1) as f64 - 0.5 },
            kind => Range::of(all().map(|point| along(kind, point.x))),
        },
        // Heights and areas are compared by their length, so the axis begins at zero.
        y: Range::of(all().map(|point| point.y).chain([0.0])),
    };
    let describes = format!(
        "{}: {} over {}; {} series. The numbers stand in the table below.",
        chart.title,
        chart.y.title,
        chart.x.title,
        chart.series.len()
    );
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        escape(&chart.title),
        escape(&describes)
    );
    frame.axes(&mut svg);
    match chart.kind {
        Kind::Lines | Kind::Spectrum => frame.lines(&mut svg, &series),
        Kind::Stacked => frame.areas(&mut svg, &series),
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
            Kind::Bars => Vec::new(),
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

    fn lines(&self, svg: &mut String, series: &[Vec<Point>]) {
        for (at, points) in series.iter().enumerate() {
            let _ = write!(svg, "<polyline class=\"line c{}\" points=\"{}\"/>", at % COLOURS, self.path(points.iter()));
            // A line of one point has no length and would be invisible.
            if let [only] = points[..] {
                let (x, y) = (self.left(only.x), self.top(only.y));
                let _ = write!(svg, "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>", at % COLOURS);
            }
        }
    }

    fn areas(&self, svg: &mut String, series: &[Vec<Point>]) {
        for (at, tops) in series.iter().enumerate() {
            let floor: Vec<Point> = match at.checked_sub(1).and_then(|below| series.get(below)) {
                Some(below) => below.iter().rev().copied().collect(),
                None => tops.iter().rev().map(|point| Point { y: 0.0, ..*point }).collect(),
            };
            let (colour, path) = (at % COLOURS, self.path(tops.iter().chain(&floor)));
            let _ = write!(svg, "<polygon class=\"area c{colour} f{colour}\" points=\"{path}\"/>");
        }
    }

    fn bars(&self, svg: &mut String, series: &[Vec<Point>]) {
        let room = (WIDTH - LEFT - RIGHT) / self.chart.categories.len().max(1) as f64;
        let each = room * 0.7 / series.len().max(1) as f64;
        for (at, points) in series.iter().enumerate() {
            for point in points {
                let left = self.left(point.x) - room * 0.35 + each * at as f64;
                let (top, floor) = (self.top(point.y.max(0.0)), self.top(point.y.min(0.0)));
                let what = format!("{}: {}", self.chart.x_text(point.x), shown(point.y, &self.chart.y.unit));
                let _ = write!(
                    svg,
                    "<rect class=\"f{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{each:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                    at % COLOURS,
                    (floor - top).max(0.5),
                    escape(&what)
                );
            }
        }
        for place in 0..self.chart.categories.len() {
            let x = LEFT + room * (place as f64 + 0.5);
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - 12.0,
                place + 1
            );
        }
    }

    fn path<'a>(&self, points: impl Iterator<Item = &'a Point>) -> String {
        let places = points.map(|point| format!("{:.1},{:.1}", self.left(point.x), self.top(point.y)));
        places.collect::<Vec<_>>().join(" ")
    }
}
