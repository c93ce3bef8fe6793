//! What happened: compares samples with those before them, finds when each sign began, and names the cause by rules in a fixed order. Pure.
//!
//! A claim needs harm or a limit that was reached, and a beginning. A sign that is as frequent as before is no incident. Causes are in
//! `cause`, in the order in which they explain each other; a claim that an earlier one explains becomes its consequence.

mod cause;
mod claim;
mod document;
mod rules;
mod scene;

pub use cause::Cause;
pub use claim::{Claim, Evidence};
pub use document::{document, text};

use crate::moment::Zone;
use crate::sample::{Gateway, Head, Sample};
use crate::store::Recording;
use scene::Scene;
use serde::Serialize;

/// What an operator asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The beginning of the window.
    pub from_ms: u64,
    /// Its end.
    pub until_ms: u64,
}

/// How long before the window samples are read, to compare with.
pub const BASELINE_MS: u64 = 30 * 60 * 1000;
/// Before and after a moment that was asked for.
const AROUND_MS: u64 = 5 * 60 * 1000;
/// A reload so long before an onset is worth mentioning.
const RELOAD_BEFORE_MS: u64 = 60_000;
/// The clock of a machine is slewed by less between two samples.
const CLOCK_JUMP_MS: u64 = 1000;
/// Consequences may be seen a little before their cause, since signs are read at different times.
const ORDER_SLACK_MS: u64 = 10_000;
/// Samples that are missing for longer, or for this many intervals, are a gap.
const GAP_MS: u64 = 5000;
const GAP_INTERVALS: u64 = 3;
/// Most gaps and events that are listed.
const LISTED_MAX: usize = 20;

impl Question {
    /// The minutes around a moment.
    pub fn around(at_ms: u64) -> Self {
        Self { from_ms: at_ms.saturating_sub(AROUND_MS), until_ms: at_ms + AROUND_MS }
    }

    /// The first moment of the samples that are needed to answer it.
    pub fn reads_from_ms(&self) -> u64 {
        self.from_ms.saturating_sub(BASELINE_MS)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The window.
    pub from_ms: u64,
    /// Its end.
    pub until_ms: u64,
    /// Samples in it.
    pub samples: usize,
    /// Samples before it.
    pub samples_before: usize,
    /// What happened, the most likely cause first. Empty: nothing unusual.
    pub claims: Vec<Claim>,
    /// What else happened then: reloads, restarts, jumps of the clock.
    pub events: Vec<Event>,
    /// Times without samples.
    pub gaps: Vec<Gap>,
    /// What was looked at, in words.
    pub looked_at: Vec<String>,
    /// What the recording does not have.
    pub missing: Vec<String>,
}

/// Something that is no cause by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When.
    pub at_ms: u64,
    /// What, in words.
    pub what: String,
}

/// A time without samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The last sample before it, or the beginning of the window.
    pub from_ms: u64,
    /// The first sample behind it, or the end of the window.
    pub until_ms: u64,
}

/// Judges a recording, which has the samples from [`Question::reads_from_ms`] on.
pub fn judge(recording: &Recording, question: Question) -> Judgement {
    let head = recording.head();
    let samples: &[Sample] = &recording.samples;
    let window_from = samples.partition_point(|sample| sample.at_ms < question.from_ms);
    let scene = Scene { samples, window_from, head: &head };
    let window = samples.get(window_from..).unwrap_or_default();
    let mut claims = if window.is_empty() { Vec::new() } else { rules::claims(&scene) };
    claims.sort_by_key(|claim| (claim.cause, claim.since_ms, claim.subject.clone()));
    let claims = with_consequences(claims);
    let first_ms = claims.iter().map(|claim| claim.since_ms).min();
    Judgement {
        from_ms: question.from_ms,
        until_ms: question.until_ms,
        samples: window.len(),
        samples_before: window_from,
        events: events(&scene, first_ms),
        claims,
        gaps: gaps(window, question, &head),
        looked_at: looked_at(window),
        missing: head.missing.clone(),
    }
}

/// Puts each claim under an earlier one that explains it.
fn with_consequences(claims: Vec<Claim>) -> Vec<Claim> {
    let mut top: Vec<Claim> = Vec::new();
    for claim in claims {
        let explains = |earlier: &&mut Claim| {
            earlier.cause.explains(claim.cause)
                && (!claim.is_about_a_peer() || !earlier.is_about_a_peer() || earlier.subject == claim.subject)
                && earlier.since_ms <= claim.since_ms + ORDER_SLACK_MS
        };
        match top.iter_mut().find(explains) {
            Some(earlier) => earlier.consequences.push(claim),
            None => top.push(claim),
        }
    }
    top
}

/// Reloads, restarts and jumps of the clock: those shortly before the first onset, or all of the window.
fn events(scene: &Scene<'_>, first_ms: Option<u64>) -> Vec<Event> {
    let window_ms = scene.at_ms(scene.window_from);
    let from_ms = first_ms.map_or(window_ms, |first| window_ms.min(first.saturating_sub(RELOAD_BEFORE_MS)));
    let mut found = Vec::new();
    let mut before: Option<&Sample> = None;
    let mut known: Option<&Gateway> = None;
    for sample in scene.samples {
        let mut add = |what: String| {
            if sample.at_ms >= from_ms && found.len() < LISTED_MAX {
                found.push(Event { at_ms: sample.at_ms, what });
            }
        };
        if let Some(before) = before {
            let drift = |sample: &Sample| i128::from(sample.at_ms) - i128::from(sample.up_ms);
            let jump_ms = drift(sample) - drift(before);
            // After a restart of the machine both begin anew.
            if jump_ms.unsigned_abs() > u128::from(CLOCK_JUMP_MS) && sample.up_ms >= before.up_ms {
                let way = if jump_ms > 0 { "forward" } else { "back" };
                add(format!("the clock jumped {way} by {:.1} s", jump_ms.unsigned_abs() as f64 / 1e3));
            } else if sample.up_ms < before.up_ms {
                add("the machine was started".to_owned());
            }
        }
        if let (Some(now), Some(then)) = (&sample.gateway, known) {
            if now.started_at_s != then.started_at_s {
                add("the process that serves was started anew".to_owned());
            } else if now.generation != then.generation {
                let changes =
                    if now.changes.is_empty() { "nothing that is listed".to_owned() } else { now.changes.join("; ") };
                add(format!("a reload changed {changes}"));
            }
        }
        known = sample.gateway.as_ref().or(known);
        before = Some(sample);
    }
    found
}

/// Times in the window without samples.
fn gaps(window: &[Sample], question: Question, head: &Head) -> Vec<Gap> {
    let longest_ms = GAP_MS.max(head.interval_ms * GAP_INTERVALS);
    let times = window.iter().map(|sample| sample.at_ms).chain([question.until_ms]);
    let mut gaps = Vec::new();
    let mut from_ms = question.from_ms;
    for at_ms in times {
        if at_ms.saturating_sub(from_ms) > longest_ms && gaps.len() < LISTED_MAX {
            gaps.push(Gap { from_ms, until_ms: at_ms });
        }
        from_ms = at_ms;
    }
    gaps
}

/// What the rules could look at in this window.
fn looked_at(window: &[Sample]) -> Vec<String> {
    let mut found = Vec::new();
    let count = |has: fn(&Sample) -> bool| window.iter().filter(|sample| has(sample)).count();
    let sockets = count(|sample| sample.sockets.is_some());
    if sockets > 0 {
        let of = |of: fn(&crate::sample::Sockets) -> usize| {
            window.iter().filter_map(|sample| sample.sockets.as_ref().map(of)).max().unwrap_or_default()
        };
        found.push(format!(
            "sockets: free ports of up to {} destinations, queues of up to {} listeners, {sockets} times",
            of(|sockets| sockets.destinations.len()),
            of(|sockets| sockets.listeners.len())
        ));
    }
    if !window.is_empty() {
        found.push(format!("the kernel's TCP counters, CPU and memory, {} times", window.len()));
    }
    let processes = window.iter().map(|sample| sample.processes.len()).max().unwrap_or_default();
    if processes > 0 {
        found.push(format!("descriptors of up to {processes} processes"));
    }
    let gateway = count(|sample| sample.gateway.is_some());
    if gateway > 0 {
        let requests: u64 = window.iter().filter_map(|sample| Some(sample.gateway.as_ref()?.requests)).sum();
        found.push(format!("the gateway's status, {gateway} times, with {requests} requests"));
    }
    let lines: u64 = window.iter().flat_map(|sample| &sample.errors).map(|errors| errors.count).sum();
    if lines > 0 || gateway > 0 {
        found.push(format!("error lines: {lines}"));
    }
    found
}

/// The sentence at the beginning of a report.
pub fn summary(judgement: &Judgement, zone: Zone) -> String {
    let span = format!("from {} to {}", zone.full(judgement.from_ms), zone.clock(judgement.until_ms));
    match judgement.claims.as_slice() {
        [] if judgement.samples == 0 => format!("No samples {span}."),
        [] => format!("Nothing unusual {span}."),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                1 => " One more thing happened that this does not explain.".to_owned(),
                count => format!(" {count} more things happened that this does not explain."),
            };
            format!("{}{more}", first.sentence(zone))
        }
    }
}

#[cfg(test)]
mod tests;
