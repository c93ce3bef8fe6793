//! What the gateway says of itself, or that it says nothing.

use super::counted;
use crate::judge::cause::Cause;
use crate::judge::claim::Claim;
use crate::judge::scene::{Episode, Scene, rate};
use crate::sample::Sample;

/// A status that is missing once is late.
const SILENT_MIN: usize = 3;
const SILENT_MS: u64 = 2000;
const SILENT_PATIENCE_MS: u64 = 10_000;
/// Fewer failed handshakes are no incident: scanners fail all the time.
const HANDSHAKES_MIN: u64 = 3;

pub(super) fn silent(scene: &Scene<'_>) -> Vec<Claim> {
    let answered = scene.samples.iter().position(|sample| sample.gateway.is_some());
    let Some(answered) = answered else { return Vec::new() };
    let episodes = scene.episodes_within(SILENT_PATIENCE_MS, |sample| sample.unanswered.is_some());
    let is_silent = |episode: &Episode| {
        let is_long = episode.held >= SILENT_MIN && scene.lasted_ms(episode) >= SILENT_MS;
        episode.first > answered && is_long && scene.during(episode).iter().all(|sample| sample.gateway.is_none())
    };
    let Some(episode) = episodes.into_iter().filter(is_silent).max_by_key(|episode| episode.held) else {
        return Vec::new();
    };
    let during = scene.during(&episode);
    let reason = during.iter().find_map(|sample| sample.unanswered.clone()).unwrap_or_default();
    let processes = |samples: &[Sample]| samples.last().map_or(0, |sample| sample.processes.len()).to_string();
    let claim = Claim::new(scene, Cause::GatewaySilent, "", &episode, "the gateway did not answer the recorder")
        .with("what asking for its status led to", "a status", reason)
        .with("its processes", processes(scene.before(&episode)), processes(during));
    vec![claim]
}

pub(super) fn certificate_expired(scene: &Scene<'_>) -> Vec<Claim> {
    let ended = |sample: &Sample| {
        let (subject, not_after_s) = sample.gateway.as_ref()?.certificate.clone()?;
        (not_after_s.saturating_mul(1000) < i64::try_from(sample.at_ms).unwrap_or(i64::MAX)).then_some(subject)
    };
    let failed = |sample: &Sample| sample.gateway.as_ref().map_or(0, |gateway| gateway.handshakes_failed);
    let episodes = scene.episodes(|sample| ended(sample).is_some() && failed(sample) > 0);
    let Some(episode) = episodes.into_iter().max_by_key(|episode| episode.held) else { return Vec::new() };
    let (before, during) = (scene.before(&episode), scene.during(&episode));
    if rate(during, failed).0 < HANDSHAKES_MIN {
        return Vec::new();
    }
    let subject = during.iter().find_map(ended).unwrap_or_default();
    let what = format!("the certificate of {subject} had ended, and clients broke their handshakes off");
    let told = if before.is_empty() { String::new() } else { counted(rate(before, failed)) };
    vec![Claim::new(scene, Cause::CertificateExpired, &subject, &episode, what).with(
        "handshakes that failed",
        told,
        counted(rate(during, failed)),
    )]
}
