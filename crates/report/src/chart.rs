//! Charts as data: series and axes. `html` and `text` draw them.

use crate::figure::{Unit, number};
use serde::{Deserialize, Serialize};
use stats::spectrum::SpectrumPoint;

/// The kind of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One line per series.
    Lines,
    /// Series on top of each other, such as sockets by state.
    Stacked,
    /// x is a quantile from 0 to 1, stretched towards 1: each further nine takes the same width.
    Spectrum,
    /// One bar per point; x is the index into `categories`.
    Bars,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its title.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
}

/// One named line, area or set of bars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// x and y, ascending in x. Points without a finite number are left out of the drawing.
    pub points: Vec<Point>,
}

/// One point of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// In the unit of the x axis.
    #[serde(deserialize_with = "number")]
    pub x: f64,
    /// In the unit of the y axis.
    #[serde(deserialize_with = "number")]
    pub y: f64,
}

impl Point {
    /// Whether both values are finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// The number and kind of samples: `n = 300 samples, one every 2 s`.
    pub basis: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis; begins at 0.
    pub y: Axis,
    /// In the order of the legend.
    pub series: Vec<Series>,
    /// Names below the bars; empty for other charts.
    pub categories: Vec<String>,
}

impl Axis {
    /// An axis.
    pub fn new(title: &str, unit: Unit) -> Self {
        Self { title: title.to_owned(), unit }
    }
}

impl Series {
    /// A series from pairs of x and y.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y }).collect();
        Self { name: name.to_owned(), points }
    }

    /// The percentile spectrum of a histogram.
    pub fn spectrum(name: &str, points: &[SpectrumPoint]) -> Self {
        Self::new(name, points.iter().map(|point| (point.quantile, point.duration_ns as f64)))
    }
}

impl Chart {
    /// A chart without series.
    pub fn new(title: &str, kind: Kind, x: Axis, y: Axis, basis: impl Into<String>) -> Self {
        Self { title: title.to_owned(), basis: basis.into(), kind, x, y, series: Vec::new(), categories: Vec::new() }
    }

    /// Bars with names: one value each.
    pub fn bars(title: &str, y: Axis, basis: impl Into<String>, values: &[(&str, f64)]) -> Self {
        let mut chart = Self::new(title, Kind::Bars, Axis::new("", Unit::of("")), y, basis);
        chart.categories = values.iter().map(|(name, _)| (*name).to_owned()).collect();
        let points = values.iter().enumerate().map(|(place, (_, value))| (place as f64, *value));
        let series = Series::new(&chart.y.title, points);
        chart.series(series)
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// The text of an x value.
    pub(crate) fn x_text(&self, x: f64) -> String {
        match self.kind {
            Kind::Bars => self.categories.get(x as usize).cloned().unwrap_or_default(),
            Kind::Spectrum if x >= 1.0 => "max".to_owned(),
            Kind::Spectrum => format!("p{}", trimmed(x * 100.0)),
            _ => crate::figure::shown(x, &self.x.unit),
        }
    }
}

/// Up to four decimals, without trailing zeros: `99.9`, `50`.
fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
