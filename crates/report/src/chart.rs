//! Charts as data: what is drawn, over which axes. How it is drawn is in `html` and `text`.

use crate::figure::{Unit, number};
use serde::{Deserialize, Serialize};
use stats::spectrum::SpectrumPoint;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line per series.
    Lines,
    /// Series on top of each other, such as sockets by state.
    Stacked,
    /// x is a quantile from 0 to 1, stretched towards 1: each nine takes as much room as the one before.
    Spectrum,
    /// A bar per point; x is the place among `categories`, from 0.
    Bars,
}

/// One direction of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// What is along it.
    pub title: String,
    /// In what.
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
    /// Whether it can be drawn.
    pub(crate) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How many samples it is on, of what: `n = 300 samples, one every 2 s`.
    pub basis: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Along.
    pub x: Axis,
    /// Up; begins at 0.
    pub y: Axis,
    /// In the order of the legend.
    pub series: Vec<Series>,
    /// Names along the x axis of bars; empty otherwise.
    pub categories: Vec<String>,
}

impl Axis {
    /// An axis.
    pub fn new(title: &str, unit: Unit) -> Self {
        Self { title: title.to_owned(), unit }
    }
}

impl Series {
    /// A series of pairs.
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
    /// Without series.
    pub fn new(title: &str, kind: Kind, x: Axis, y: Axis, basis: impl Into<String>) -> Self {
        Self { title: title.to_owned(), basis: basis.into(), kind, x, y, series: Vec::new(), categories: Vec::new() }
    }

    /// Bars over names: one value each.
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

    /// How an x is written.
    pub(crate) fn x_text(&self, x: f64) -> String {
        match self.kind {
            Kind::Bars => self.categories.get(x as usize).cloned().unwrap_or_default(),
            Kind::Spectrum if x >= 1.0 => "max".to_owned(),
            Kind::Spectrum => format!("p{}", trimmed(x * 100.0)),
            _ => crate::figure::shown(x, &self.x.unit),
        }
    }
}

/// Up to four decimals, without zeros behind: `99.9`, `50`.
fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
