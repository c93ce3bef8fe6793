//! Which program held the others up, from what its busiest thread did: running counts, and so does waiting for a core, for
//! a thread that waits for one has work. Pure.

use super::sample::Sample;

/// A thread that ran or waited for a core for this part of the time was never idle to speak of.
const NEVER_IDLE: f64 = 0.85;
/// A thread that waited for a core for this part of the time would be faster with one of its own.
const SHORT_OF_CORES: f64 = 0.15;
/// Cores of which this part was used leave no room for a thread that wakes.
const CORES_FULL: f64 = 0.9;

/// `proxy 97+2 %`: the programs that were never idle, the busiest first, each with the parts of the time that its busiest
/// thread ran and that it waited for a core; `cores` if all were idle at times and the cores were not; or `none`.
pub(super) fn bottleneck(sample: &Sample) -> String {
    let sides = [("client", Some(sample.client)), ("proxy", sample.proxy), ("origin", Some(sample.origin))];
    let mut never_idle: Vec<_> = sides
        .into_iter()
        .filter_map(|(name, side)| Some((name, side?.busiest)))
        .filter(|(_, busiest)| busiest.running + busiest.queued >= NEVER_IDLE)
        .collect();
    never_idle.sort_by(|(_, one), (_, other)| other.running.total_cmp(&one.running));
    match never_idle.as_slice() {
        [] if sample.cores_used >= CORES_FULL => "cores".to_owned(),
        [] => "none".to_owned(),
        sides => {
            let short = sides.iter().any(|(_, busiest)| busiest.queued >= SHORT_OF_CORES);
            let names: Vec<&str> = sides.iter().map(|(name, _)| *name).collect();
            names.join("+") + if short { ", short of cores" } else { "" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::process::Busiest;
    use super::super::sample::tests::sample;
    use super::*;

    fn found(client: (f64, f64), proxy: (f64, f64), origin: (f64, f64), cores_used: f64) -> String {
        let mut sample = sample("nginx 16", 0);
        let busiest = |(running, queued)| Busiest { running, queued };
        sample.client.busiest = busiest(client);
        sample.proxy.as_mut().unwrap().busiest = busiest(proxy);
        sample.origin.busiest = busiest(origin);
        sample.cores_used = cores_used;
        bottleneck(&sample)
    }

    #[test]
    fn the_bottleneck_is_who_was_never_idle() {
        assert_eq!(found((0.6, 0.02), (0.97, 0.02), (0.4, 0.02), 0.99), "proxy");
        assert_eq!(found((0.6, 0.35), (0.5, 0.1), (0.4, 0.5), 0.99), "client+origin, short of cores");
        assert_eq!(found((0.6, 0.2), (0.6, 0.2), (0.4, 0.02), 0.97), "cores");
        assert_eq!(found((0.2, 0.0), (0.2, 0.0), (0.1, 0.0), 0.3), "none");
    }
}
