//! Peers that are slow, do not answer, or are behind a network that loses packets.

use super::errors::{self, with_attempts};
use super::{address, counted, level, lines, peers, shown_ms};
use crate::judge::cause::Cause;
use crate::judge::claim::Claim;
use crate::judge::scene::{Episode, Scene, median, most, rate};
use crate::sample::{Destination, Sample};
use std::collections::BTreeSet;

/// Responses are slow if they take this many times as long as before …
const SLOW_TIMES: f64 = 3.0;
/// … and so much longer: on a busy machine a response that takes some milliseconds may take some more.
const SLOW_MORE_MS: f64 = 50.0;
/// Slow responses are an incident if there are some in this many samples, in this share of the samples with responses, over so long.
const SLOW_MIN: usize = 3;
const SLOW_SHARE: f64 = 0.6;
const SLOW_LASTS_MS: u64 = 2000;
const SLOW_PATIENCE_MS: u64 = 5000;
/// Fewest samples that tell how fast a peer was before.
const BASE_MIN: usize = 5;
/// Packets are lost if this many connections to a destination send again at a time, or this share of them …
const LOST_MIN: u32 = 3;
const LOST_SHARE: f64 = 0.2;
/// … in this many samples, over so long. A single retransmission is usual.
const LOST_SAMPLES_MIN: usize = 3;
const LOST_LASTS_MS: u64 = 1000;
/// Most peers that get a claim.
const SUBJECTS_MAX: usize = 5;

/// Whether a destination is one of the gateway's peers, or no gateway is known.
fn concerns_us(scene: &Scene<'_>, remote: &str) -> bool {
    let mut has_gateway = false;
    for sample in scene.samples {
        has_gateway |= sample.gateway.is_some();
        if peers(sample).any(|(_, peer)| address(peer) == remote) {
            return true;
        }
    }
    !has_gateway
}

fn row<'a>(sample: &'a Sample, remote: &str) -> Option<&'a Destination> {
    sample.sockets.as_ref()?.destinations.iter().find(|row| row.remote == remote)
}

/// The destinations of the window with a sign.
fn destinations<'a>(scene: &Scene<'a>, sign: impl Fn(&Destination) -> bool) -> Vec<&'a str> {
    let window = scene.samples.get(scene.window_from..).unwrap_or_default();
    let rows = window.iter().filter_map(|sample| sample.sockets.as_ref()).flat_map(|sockets| &sockets.destinations);
    let found: BTreeSet<&str> = rows.filter(|row| sign(row)).map(|row| row.remote.as_str()).collect();
    found.into_iter().filter(|remote| concerns_us(scene, remote)).take(SUBJECTS_MAX).collect()
}

/// Connection requests without an answer: seen as SYNs that were sent again, long before the timeout is logged.
pub(super) fn unanswered(scene: &Scene<'_>) -> Vec<Claim> {
    let cause = Cause::PeerUnanswered;
    let mut subjects: BTreeSet<&str> = destinations(scene, |row| row.unanswered > 0).into_iter().collect();
    for errors in scene.samples.iter().skip(scene.window_from).flat_map(|sample| &sample.errors) {
        if cause.row().lines.contains(&errors.cause.as_str()) {
            subjects.insert(super::bare(&errors.subject));
        }
    }
    subjects.into_iter().take(SUBJECTS_MAX).filter_map(|remote| unanswered_by(scene, remote)).collect()
}

fn unanswered_by(scene: &Scene<'_>, remote: &str) -> Option<Claim> {
    let cause = Cause::PeerUnanswered;
    let waiting = |sample: &Sample| row(sample, remote).map_or(0, |row| row.unanswered);
    let mut logged = errors::more_than_before(scene, cause, Some(remote));
    let episodes = scene.episodes(|sample| logged(sample) || waiting(sample) > 0);
    let told = |episode: &Episode| rate(scene.during(episode), |sample| lines(sample, cause, Some(remote))).0;
    let is_enough = |episode: &Episode| {
        told(episode) >= u64::from(LOST_MIN)
            || most(scene.during(episode), |sample| Some(waiting(sample))) >= Some(LOST_MIN)
    };
    let episode = episodes.into_iter().filter(is_enough).max_by_key(|episode| episode.held)?;
    let (before, during) = (scene.before(&episode), scene.during(&episode));
    let most_waiting = |samples: &[Sample]| level(most(samples, |sample| Some(waiting(sample))));
    let of = |samples: &[Sample]| {
        if samples.is_empty() {
            String::new()
        } else {
            counted(rate(samples, |sample| lines(sample, cause, Some(remote))))
        }
    };
    let claim = Claim::new(scene, cause, remote, &episode, errors::what(cause, remote))
        .with("connection requests that had to be sent again, at a time", most_waiting(before), most_waiting(during))
        .with(format!("error lines \"{}\"", cause.explanation().cause), of(before), of(during));
    Some(with_attempts(claim, scene, remote, &episode))
}

/// Connections that send bytes again, towards one destination.
pub(super) fn packet_loss(scene: &Scene<'_>) -> Vec<Claim> {
    let is_lossy = |row: &Destination| {
        row.retransmitting >= LOST_MIN
            || row.retransmitting > 0 && f64::from(row.retransmitting) >= f64::from(row.used) * LOST_SHARE
    };
    let remotes = destinations(scene, is_lossy);
    remotes.into_iter().filter_map(|remote| loss_towards(scene, remote, is_lossy)).collect()
}

fn loss_towards(scene: &Scene<'_>, remote: &str, is_lossy: impl Fn(&Destination) -> bool) -> Option<Claim> {
    let episodes = scene.episodes_within(SLOW_PATIENCE_MS, |sample| row(sample, remote).is_some_and(&is_lossy));
    let is_long = |episode: &Episode| episode.held >= LOST_SAMPLES_MIN && scene.lasted_ms(episode) >= LOST_LASTS_MS;
    let episode = episodes.into_iter().filter(is_long).max_by_key(|episode| episode.held)?;
    let (before, during) = (scene.before(&episode), scene.during(&episode));
    let repeating = |samples: &[Sample]| {
        let most = samples.iter().filter_map(|sample| row(sample, remote)).max_by_key(|row| row.retransmitting);
        most.map_or_else(String::new, |row| format!("{} of {}", row.retransmitting, row.used))
    };
    let counter = |samples: &[Sample], name: &str| {
        let name = name.to_owned();
        if samples.is_empty() {
            String::new()
        } else {
            counted(rate(samples, |sample| sample.kernel.get(&name).copied().unwrap_or_default()))
        }
    };
    let claim = Claim::new(scene, Cause::PacketLoss, remote, &episode, format!("packets towards {remote} were lost"))
        .with("connections that sent bytes again, at a time", repeating(before), repeating(during))
        .with(
            "segments sent again by this machine (RetransSegs)",
            counter(before, "RetransSegs"),
            counter(during, "RetransSegs"),
        )
        .with("timeouts of TCP (TCPTimeouts)", counter(before, "TCPTimeouts"), counter(during, "TCPTimeouts"));
    Some(with_attempts(claim, scene, remote, &episode))
}

/// Peers of which responses took longer than before.
pub(super) fn slow(scene: &Scene<'_>) -> Vec<Claim> {
    let window = scene.samples.get(scene.window_from..).unwrap_or_default();
    let named: BTreeSet<(&str, &str)> =
        window.iter().flat_map(|sample| peers(sample).map(|(group, peer)| (group, peer.address.as_str()))).collect();
    named.into_iter().filter_map(|(group, name)| slow_peer(scene, group, name)).take(SUBJECTS_MAX).collect()
}

/// The mean time of responses in a sample.
pub(super) fn mean_ms(sample: &Sample, group: &str, name: &str) -> Option<f64> {
    peers(sample).find(|(of, peer)| *of == group && peer.address == name).and_then(|(_, peer)| peer.mean_ms)
}

fn slow_peer(scene: &Scene<'_>, group: &str, name: &str) -> Option<Claim> {
    let of = |sample: &Sample| mean_ms(sample, group, name);
    let base: Vec<f64> = scene.baseline().iter().filter_map(of).collect();
    if base.len() < BASE_MIN {
        return None;
    }
    let usual = stats::summary::median(&base)?;
    let bound = (usual * SLOW_TIMES).max(usual + SLOW_MORE_MS);
    let episodes = scene.episodes_within(SLOW_PATIENCE_MS, |sample| of(sample).is_some_and(|ms| ms > bound));
    let is_slow = |episode: &Episode| {
        let timed = scene.during(episode).iter().filter(|sample| of(sample).is_some()).count();
        let is_usual = episode.held as f64 >= timed as f64 * SLOW_SHARE;
        episode.held >= SLOW_MIN && is_usual && scene.lasted_ms(episode) >= SLOW_LASTS_MS
    };
    let episode = episodes.into_iter().filter(is_slow).max_by_key(|episode| episode.held)?;
    let during = scene.during(&episode);
    let now = median(during, of)?;
    let requests = |samples: &[Sample]| {
        counted(rate(samples, |sample| {
            peers(sample).filter(|(of, peer)| *of == group && peer.address == name).map(|(_, peer)| peer.timed).sum()
        }))
    };
    let mut claim = Claim::new(scene, Cause::PeerSlow, name, &episode, format!("{name} of {group} answered slowly"))
        .with(format!("time of a response of {name}, median"), shown_ms(usual), shown_ms(now))
        .with(format!("responses of {name}"), requests(scene.before(&episode)), requests(during));
    if let Some((count, usual, now)) = other_peers(scene, &episode, group, name) {
        claim = claim.with(format!("the same of the other {count} of the group"), shown_ms(usual), shown_ms(now));
    }
    Some(claim)
}

/// How many others of the group there are, and how fast they were and are.
fn other_peers(scene: &Scene<'_>, episode: &Episode, group: &str, name: &str) -> Option<(usize, f64, f64)> {
    let others = |samples: &[Sample]| -> (BTreeSet<String>, Vec<f64>) {
        let all = samples.iter().flat_map(peers).filter(|(of, peer)| *of == group && peer.address != name);
        let timed: Vec<_> = all.filter_map(|(_, peer)| Some((peer.address.clone(), peer.mean_ms?))).collect();
        timed.into_iter().unzip()
    };
    let ((names, now), (_, usual)) = (others(scene.during(episode)), others(scene.baseline()));
    Some((names.len(), stats::summary::median(&usual)?, stats::summary::median(&now)?))
}
