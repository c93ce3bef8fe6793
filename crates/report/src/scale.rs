//! From values to positions on a chart: round ticks, and a reduction of points. Used by `html` and `text`.

use crate::chart::{Chart, Kind, Point};

/// More points cannot be distinguished on any screen. Longer series are thinned, keeping the extremes of each interval.
pub(crate) const POINTS_MAX: usize = 800;

/// A linear stretch from values to 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    /// From the lowest to the highest value; never empty, so that a chart of one value works.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            return Self { low: 0.0, high: 1.0 };
        }
        // Widens a span that a double cannot represent, or that is too small beside the values.
        if !(high - low).is_finite() {
            return Self { low: low / 4.0, high: high / 4.0 };
        }
        if high - low <= high.abs().max(low.abs()) * 1e-12 {
            let (low, high) = (low.min(0.0), high.max(0.0));
            return Self { low, high: if low < high { high } else { 1.0 } };
        }
        Self { low, high }
    }

    /// 0 at the low end, 1 at the high end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Round values inside the range: steps of 1, 2 or 5 times a power of ten, at most `ticks_max` of them.
pub(crate) fn ticks(range: Range, ticks_max: usize) -> Vec<f64> {
    let rough = (range.high - range.low) / ticks_max.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return Vec::new() };
    let first = (range.low / step).ceil();
    (0..=ticks_max).map(|k| (first + k as f64) * step).take_while(|tick| *tick <= range.high).collect()
}

/// The position of an x value before it is scaled to the width: quantiles by their number of nines, other values
/// unchanged.
pub(crate) fn along(kind: Kind, x: f64) -> f64 {
    /// Six nines are more than any run here resolves, and the maximum is at quantile 1.
    const TAIL_LEAST: f64 = 1e-6;
    if kind == Kind::Spectrum { -(1.0 - x).max(TAIL_LEAST).log10() } else { x }
}

/// The points to draw for each series. In stacked charts each series is on top of the previous one at the same x.
pub(crate) fn drawn(chart: &Chart) -> Vec<Vec<Point>> {
    let finite = |points: &[Point]| points.iter().copied().filter(Point::is_finite).collect::<Vec<_>>();
    if chart.kind != Kind::Stacked {
        return chart.series.iter().map(|series| thinned(&finite(&series.points))).collect();
    }
    // Stacking needs the same x values in all series; a series without a value there adds zero.
    let mut xs: Vec<f64> = chart.series.iter().flat_map(|series| finite(&series.points)).map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let stride = xs.len().div_ceil(POINTS_MAX).max(1);
    let xs: Vec<f64> = xs.into_iter().step_by(stride).collect();
    let mut sums = vec![0.0; xs.len()];
    let mut stacked = Vec::new();
    for series in &chart.series {
        let points = finite(&series.points);
        for (x, sum) in xs.iter().zip(&mut sums) {
            let found = points.binary_search_by(|point| point.x.total_cmp(x)).ok();
            *sum += found.and_then(|at| points.get(at)).map_or(0.0, |point| point.y.max(0.0));
        }
        stacked.push(xs.iter().zip(&sums).map(|(x, y)| Point { x: *x, y: *y }).collect());
    }
    stacked
}

/// Keeps the lowest and the highest point of each interval, in order, so that no peak is lost.
fn thinned(points: &[Point]) -> Vec<Point> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 2);
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for chunk in points.chunks(stretch) {
        let by_y = |a: &&Point, b: &&Point| a.y.total_cmp(&b.y);
        let (Some(least), Some(most)) = (chunk.iter().min_by(by_y), chunk.iter().max_by(by_y)) else { continue };
        let (first, second) = if least.x <= most.x { (least, most) } else { (most, least) };
        kept.push(*first);
        if first != second {
            kept.push(*second);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Series};
    use crate::figure::Unit;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(Range { low: 0.0, high: 17_072.0 }, 5), [0.0, 5000.0, 10_000.0, 15_000.0]);
        assert_eq!(ticks(Range { low: 0.0, high: 1.0 }, 5).len(), 6);
        assert_eq!(Range::of([].into_iter()), Range { low: 0.0, high: 1.0 });
        assert_eq!(Range::of([5.0].into_iter()), Range { low: 0.0, high: 5.0 });
    }

    #[test]
    fn stacks_series_even_where_one_has_a_gap() {
        let axis = || Axis::new("t", Unit::of(""));
        let chart = Chart::new("t", Kind::Stacked, axis(), axis(), "")
            .series(Series::new("a", [(0.0, 1.0), (1.0, 2.0)]))
            .series(Series::new("b", [(1.0, 3.0), (2.0, f64::NAN)]));
        let tops: Vec<Vec<f64>> = drawn(&chart).iter().map(|points| points.iter().map(|p| p.y).collect()).collect();
        assert_eq!(tops, [[1.0, 2.0], [1.0, 5.0]]);
    }

    proptest! {
        #[test]
        fn no_numbers_break_a_scale(values in prop::collection::vec(any::<f64>(), 0..20), value in any::<f64>()) {
            let range = Range::of(values.into_iter());
            prop_assert!(range.low < range.high);
            prop_assert!(ticks(range, 5).len() <= 6);
            let place = range.place(value);
            let is_inside = (0.0..=1.0).contains(&place);
            prop_assert!(is_inside || (value.is_nan() && place.is_nan()));
        }

        #[test]
        fn thinning_keeps_the_peak(at in 0..5000_usize) {
            let points: Vec<Point> = (0..5000).map(|x| Point { x: x as f64, y: f64::from(u8::from(x == at)) }).collect();
            let kept = thinned(&points);
            prop_assert!(kept.len() <= POINTS_MAX && kept.iter().any(|point| point.y == 1.0));
            prop_assert!(kept.windows(2).all(|pair| pair[0].x < pair[1].x));
        }
    }
}
