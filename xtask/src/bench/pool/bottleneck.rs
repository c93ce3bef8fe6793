//! Which program held the others up in a sample. Pure.

use super::sample::Sample;
use lab::stage::bottleneck::Bottleneck;

/// `proxy`, `client+origin, short of cores`, `cores` if all were idle at times and the cores were not, or `none`.
pub(super) fn bottleneck(sample: &Sample) -> String {
    let sides = [("client", Some(sample.client)), ("proxy", sample.proxy), ("origin", Some(sample.origin))];
    let busiest: Vec<_> = sides.into_iter().filter_map(|(name, side)| Some((name, side?.busiest))).collect();
    Bottleneck::find(&busiest, sample.cores_used).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;
    use lab::stage::usage::Busiest;

    #[test]
    fn an_arm_without_a_proxy_has_none_that_holds_it_up() {
        let mut sample = sample("direct", 0);
        sample.origin.busiest = Busiest { running: 0.97, queued: 0.0 };
        assert_eq!((sample.proxy, bottleneck(&sample).as_str()), (None, "origin"));
    }
}
