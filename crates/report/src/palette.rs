//! Assigns colours to series: the same name has the same colour in every chart of every page. Programs and TCP states
//! have their own colours; other names get the remaining ones in the order of the document. Pure; used by `html`.

use crate::chart::{Chart, Kind};
use crate::document::{Block, Document};
use std::collections::BTreeMap;

/// The number of colours in the style sheet; further names start from the first again.
pub(crate) const COLOURS: usize = 8;

/// Parts of names with their own colour, longer ones first: `haproxy` before a part that it contains.
const PROGRAMS: [(&str, usize); 6] =
    [("holdfast", 0), ("haproxy", 2), ("nginx", 1), ("direct", 3), ("floor", 3), ("go", 4)];
/// Colours of TCP states: calm ones for closed connections, striking ones for connections that were never closed.
const STATES: [(&str, usize); 8] = [
    ("ESTABLISHED", 0),
    ("TIME_WAIT", 6),
    ("CLOSE_WAIT", 1),
    ("FIN_WAIT2", 5),
    ("FIN_WAIT1", 2),
    ("SYN_SENT", 4),
    ("SYN_RECV", 7),
    ("LISTEN", 3),
];
/// Names for an arm without a pool: the colour of its program, lighter and dashed.
const LIGHT: [&str; 4] = ["unpooled", "off", "without", "close"];

/// A colour, and whether it is the lighter variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    pub(crate) slot: usize,
    pub(crate) light: bool,
}

/// The colours of one document.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    others: BTreeMap<String, usize>,
}

impl Palette {
    pub(crate) fn of(document: &Document) -> Self {
        let mut palette = Self::default();
        let blocks = document.sections.iter().flat_map(|section| &section.blocks);
        for chart in blocks.filter_map(|block| if let Block::Chart(chart) = block { Some(chart) } else { None }) {
            for name in names(chart).filter(|name| known(name).is_none()) {
                let next = palette.others.len();
                palette.others.entry(name.clone()).or_insert(next);
            }
        }
        palette
    }

    pub(crate) fn colour(&self, name: &str) -> Colour {
        let slot = known(name).or_else(|| self.others.get(name).copied()).unwrap_or(0) % COLOURS;
        Colour { slot, light: words(name).any(|word| LIGHT.contains(&word.as_str())) }
    }
}

/// The names that need a colour: the series, or the bars of a single series.
fn names(chart: &Chart) -> Box<dyn Iterator<Item = &String> + '_> {
    match chart.kind {
        Kind::Bars => Box::new(chart.categories.iter()),
        _ => Box::new(chart.series.iter().map(|series| &series.name)),
    }
}

fn known(name: &str) -> Option<usize> {
    if let Some((_, slot)) = STATES.iter().find(|(state, _)| *state == name) {
        return Some(*slot);
    }
    let has = |program: &str| words(name).any(|word| word == program);
    PROGRAMS.iter().find(|(program, _)| has(program)).map(|(_, slot)| *slot)
}

fn words(name: &str) -> impl Iterator<Item = String> + '_ {
    name.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Series};
    use crate::document::Section;
    use crate::figure::Unit;

    #[test]
    fn each_name_keeps_its_colour_across_charts() {
        let axis = || Axis::new("x", Unit::of(""));
        let chart = |names: &[&str]| {
            let empty = Chart::new("t", Kind::Lines, axis(), axis(), "");
            names.iter().fold(empty, |chart, name| chart.series(Series::new(name, [])))
        };
        let section = Section::new("s").chart(chart(&["p50", "nginx pooled", "p99"])).chart(chart(&["p99", "max"]));
        let bars = Chart::bars("b", axis(), "", &[("HAProxy unpooled", 1.0), ("max", 2.0)]);
        let palette = Palette::of(&Document::new("d", "m").section(section.chart(bars)));
        let slot = |name: &str| palette.colour(name).slot;
        assert_eq!((slot("p50"), slot("p99"), slot("max")), (0, 1, 2));
        assert_eq!((slot("nginx pooled"), slot("HAProxy unpooled"), slot("Holdfast")), (1, 2, 0));
        assert_eq!((slot("TIME_WAIT"), slot("ESTABLISHED"), slot("direct")), (6, 0, 3));
        assert!(palette.colour("HAProxy unpooled").light && !palette.colour("nginx pooled").light);
    }
}
