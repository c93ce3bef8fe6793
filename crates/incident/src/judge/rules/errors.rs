//! Causes that lines of an error log name.

use super::{address, bare, counted, lines, peers};
use crate::judge::cause::Cause;
use crate::judge::claim::Claim;
use crate::judge::scene::{Episode, Scene, rate};
use crate::sample::Sample;
use std::collections::{BTreeMap, VecDeque};

/// Fewer lines are no incident: a peer that is restarted fails some requests.
const LINES_MIN: u64 = 3;
/// The same as a share of the requests meanwhile.
const SHARE_MIN: f64 = 0.001;
/// A cause is a new one if it is this many times as frequent as before.
const TIMES: f64 = 3.0;
/// The time over which frequencies are compared.
const TRAILING_MS: u64 = 5000;
/// Most subjects of a cause that get a claim: those with the most lines.
const SUBJECTS_MAX: usize = 5;

/// Causes that a rule of `limits` or `gateway` finds with more signs than lines.
const OTHERS: [Cause; 7] = [
    Cause::ProcessKilled,
    Cause::DescriptorsExhausted,
    Cause::WorkerConnectionsExhausted,
    Cause::PortsExhausted,
    Cause::PoolExhausted,
    Cause::TimeWaitFull,
    Cause::PeerUnanswered,
];
/// Causes of which one line is enough.
const SINGLE: [Cause; 2] = [Cause::WorkerCrashed, Cause::DiskFull];

/// A claim for each cause and subject that lines name more often than before.
pub(super) fn by_cause(scene: &Scene<'_>) -> Vec<Claim> {
    let causes = Cause::ALL.into_iter().filter(|cause| !OTHERS.contains(cause) && !cause.row().lines.is_empty());
    causes.flat_map(|cause| claims_of(scene, cause)).collect()
}

fn claims_of(scene: &Scene<'_>, cause: Cause) -> Vec<Claim> {
    let mut subjects: BTreeMap<&str, u64> = BTreeMap::new();
    for errors in scene.samples.iter().skip(scene.window_from).flat_map(|sample| &sample.errors) {
        if cause.row().lines.contains(&errors.cause.as_str()) {
            *subjects.entry(bare(&errors.subject)).or_default() += errors.count;
        }
    }
    let mut subjects: Vec<(&str, u64)> = subjects.into_iter().collect();
    subjects.sort_by_key(|(subject, count)| (std::cmp::Reverse(*count), *subject));
    subjects.truncate(SUBJECTS_MAX);
    let mut claims: Vec<Claim> = subjects.into_iter().filter_map(|(subject, _)| worst(scene, cause, subject)).collect();
    // Lines that name no upstream are about the same ones.
    if claims.iter().any(|claim| !claim.subject.is_empty()) {
        claims.retain(|claim| !claim.subject.is_empty());
    }
    claims
}

/// The episode with the most lines.
fn worst(scene: &Scene<'_>, cause: Cause, subject: &str) -> Option<Claim> {
    let episodes = scene.episodes(more_than_before(scene, cause, Some(subject)));
    let count = |episode: &Episode| rate(scene.during(episode), |sample| lines(sample, cause, Some(subject))).0;
    let episode = episodes.into_iter().max_by_key(count)?;
    let total = count(&episode);
    let (requests, _) =
        rate(scene.during(&episode), |sample| sample.gateway.as_ref().map_or(0, |gateway| gateway.requests));
    let is_enough = total >= LINES_MIN && total as f64 >= requests as f64 * SHARE_MIN;
    (is_enough || SINGLE.contains(&cause)).then(|| claim(scene, cause, subject, &episode))
}

/// Whether a sample has lines of the cause, and more of them than usual.
pub(super) fn more_than_before<'a>(
    scene: &Scene<'a>,
    cause: Cause,
    subject: Option<&'a str>,
) -> impl FnMut(&Sample) -> bool + use<'a> {
    let before = scene.samples.get(..scene.window_from).unwrap_or_default();
    let (_, usual_per_s) = rate(before, |sample| lines(sample, cause, subject));
    let mut trailing: VecDeque<(u64, u64)> = VecDeque::new();
    move |sample| {
        let count = lines(sample, cause, subject);
        trailing.push_back((sample.at_ms, count));
        while trailing.front().is_some_and(|(at_ms, _)| at_ms + TRAILING_MS < sample.at_ms) {
            trailing.pop_front();
        }
        let recent: u64 = trailing.iter().map(|(_, count)| count).sum();
        let usual = usual_per_s * TRAILING_MS as f64 / 1e3;
        count > 0 && (usual_per_s == 0.0 || recent as f64 >= TIMES * usual + LINES_MIN as f64)
    }
}

/// The claim, with the lines and, for a peer, its attempts.
pub(super) fn claim(scene: &Scene<'_>, cause: Cause, subject: &str, episode: &Episode) -> Claim {
    let (before, during) = (scene.before(episode), scene.during(episode));
    let of = |samples: &[Sample]| counted(rate(samples, |sample| lines(sample, cause, Some(subject))));
    let told = if before.is_empty() { String::new() } else { of(before) };
    let claim = Claim::new(scene, cause, subject, episode, what(cause, subject));
    let claim = claim.with(format!("error lines \"{}\"", cause.explanation().cause), told, of(during));
    with_attempts(claim, scene, subject, episode)
}

/// Adds how many of the attempts at a peer failed.
pub(super) fn with_attempts(claim: Claim, scene: &Scene<'_>, subject: &str, episode: &Episode) -> Claim {
    let attempts = |samples: &[Sample]| {
        let of_peer = samples.iter().flat_map(peers).filter(|(_, peer)| address(peer) == subject);
        of_peer.fold((0, 0), |(all, failed), (_, peer)| (all + peer.attempts, failed + peer.failed))
    };
    let shown = |(all, failed): (u64, u64)| format!("{failed} of {all}");
    let (before, during) = (attempts(scene.before(episode)), attempts(scene.during(episode)));
    if during.0 == 0 {
        return claim;
    }
    let before = if scene.before(episode).is_empty() { String::new() } else { shown(before) };
    claim.with(format!("failed attempts at {subject}"), before, shown(during))
}

/// What happened, as a clause.
pub(super) fn what(cause: Cause, subject: &str) -> String {
    let peer = if subject.is_empty() { "an upstream" } else { subject };
    match cause {
        Cause::PeerRefuses => format!("{peer} refused connections"),
        Cause::PeerUnreachable => format!("{peer} could not be reached"),
        Cause::PeerUnanswered => format!("{peer} did not answer connection requests"),
        Cause::PeerBreaks => format!("{peer} broke connections before its response was complete"),
        Cause::PeerSilent => format!("{peer} took requests and did not answer in time"),
        Cause::PeerInvalid => format!("{peer} sent responses that are no valid HTTP, or too large"),
        Cause::UpstreamHandshake => format!("TLS handshakes with {peer} failed"),
        Cause::NameNotResolved if subject.is_empty() => "names could not be resolved".to_owned(),
        Cause::NameNotResolved => format!("the name {subject} could not be resolved"),
        Cause::NoLivePeer if subject.is_empty() => "no peer was left that counts as alive".to_owned(),
        Cause::NoLivePeer => format!("no peer of {subject} was left that counts as alive"),
        Cause::AcceptQueue => format!("the accept queue of {peer} was full"),
        cause if subject.is_empty() => cause.explanation().cause.to_owned(),
        cause => format!("{}, at {subject}", cause.explanation().cause),
    }
}
