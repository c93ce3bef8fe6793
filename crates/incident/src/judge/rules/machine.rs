//! Processors that were busy or taken away. A busy machine is no incident by itself: something must have become worse for it.

use super::peers::mean_ms;
use super::{peers, shown_ms};
use crate::judge::cause::Cause;
use crate::judge::claim::Claim;
use crate::judge::scene::{Episode, Scene, median};
use crate::sample::Sample;

/// Processors count as busy from this share of their time on, for so long.
const BUSY_SHARE: f64 = 0.95;
const BUSY_MS: u64 = 10_000;
/// They count as taken away from this share on.
const TAKEN_SHARE: f64 = 0.2;
const TAKEN_MS: u64 = 5000;
const PATIENCE_MS: u64 = 5000;
/// In this share of the samples.
const HELD_SHARE: f64 = 0.7;
/// Responses of all peers together are worse from this many times the usual on, and from so much more.
const WORSE_TIMES: f64 = 2.0;
const WORSE_MORE_MS: f64 = 10.0;

/// The share of a time of processors in a sample.
type Share<'a> = &'a dyn Fn(&Sample) -> f64;

/// `claims` are those of the other rules: they tell whether anything became worse.
pub(super) fn processors(scene: &Scene<'_>, claims: &[Claim]) -> Vec<Claim> {
    let processors = f64::from(scene.head.processors.max(1));
    let of = |sample: &Sample, ms: u64| ms as f64 / (sample.over_ms.max(1) as f64 * processors);
    let busy = |sample: &Sample| of(sample, sample.machine.busy_ms);
    let throttled = |sample: &Sample| {
        let us = sample.machine.group.as_ref().map_or(0, |group| group.throttled_us);
        us as f64 / 1e3 / sample.over_ms.max(1) as f64
    };
    let taken = |sample: &Sample| of(sample, sample.machine.steal_ms).max(throttled(sample));
    let mut found = Vec::new();
    let percent = |share: Option<f64>| share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
    let kinds: [(Cause, Share<'_>, f64, u64, &str); 2] = [
        (
            Cause::CpuTaken,
            &taken,
            TAKEN_SHARE,
            TAKEN_MS,
            "the CPU was taken away: by the hypervisor, or by the quota of the control group",
        ),
        (Cause::CpuExhausted, &busy, BUSY_SHARE, BUSY_MS, "all processors were busy"),
    ];
    for (cause, share, bound, least_ms, what) in kinds {
        let episodes = scene.episodes_within(PATIENCE_MS, |sample| sample.over_ms > 0 && share(sample) >= bound);
        let is_long = |episode: &Episode| {
            let held = episode.held as f64 / scene.during(episode).len().max(1) as f64;
            scene.lasted_ms(episode) >= least_ms && held >= HELD_SHARE
        };
        let Some(episode) = episodes.into_iter().filter(is_long).max_by_key(|episode| episode.held) else { continue };
        let Some((name, before, during)) = harm(scene, &episode, claims) else { continue };
        let usual = median(scene.baseline(), |sample| (sample.over_ms > 0).then(|| share(sample)));
        let now = median(scene.during(&episode), |sample| Some(share(sample)));
        let claim = Claim::new(scene, cause, "", &episode, what);
        found.push(
            claim
                .with("share of the time of all processors, median", percent(usual), percent(now))
                .with(name, before, during),
        );
    }
    found
}

/// What became worse meanwhile: a claim that this explains, or the time of responses.
fn harm(scene: &Scene<'_>, episode: &Episode, claims: &[Claim]) -> Option<(String, String, String)> {
    let suffers = |claim: &&Claim| {
        let causes =
            [Cause::AcceptQueue, Cause::PeerSlow, Cause::PoolExhausted, Cause::ClientsLeave, Cause::PeerSilent];
        causes.contains(&claim.cause)
            && claim.until_ms >= scene.at_ms(episode.first)
            && claim.since_ms <= scene.at_ms(episode.last)
    };
    if let Some(claim) = claims.iter().find(suffers) {
        return Some(("what became worse".to_owned(), String::new(), claim.what.clone()));
    }
    let mean = |sample: &Sample| {
        let times = peers(sample).filter_map(|(group, peer)| mean_ms(sample, group, &peer.address));
        stats::summary::median(&times.collect::<Vec<_>>())
    };
    let (usual, now) = (median(scene.baseline(), mean)?, median(scene.during(episode), mean)?);
    let is_worse = now >= usual * WORSE_TIMES && now >= usual + WORSE_MORE_MS;
    is_worse.then(|| ("time of a response, median".to_owned(), shown_ms(usual), shown_ms(now)))
}
