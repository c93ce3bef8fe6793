//! The rules. Each looks for the signs of one or some causes in a scene, and claims what it can show.

mod errors;
mod gateway;
mod limits;
mod machine;
mod peers;

use crate::judge::cause::Cause;
use crate::judge::claim::Claim;
use crate::judge::scene::Scene;
use crate::sample::{Peer, Sample};

/// Everything that any rule claims.
pub(super) fn claims(scene: &Scene<'_>) -> Vec<Claim> {
    let rules: [fn(&Scene<'_>) -> Vec<Claim>; 14] = [
        limits::process_killed,
        limits::descriptors,
        limits::worker_connections,
        limits::memory_budget,
        limits::ports,
        limits::accept_queues,
        limits::pools,
        limits::time_waits,
        gateway::silent,
        gateway::certificate_expired,
        errors::by_cause,
        peers::unanswered,
        peers::packet_loss,
        peers::slow,
    ];
    let mut claims: Vec<Claim> = rules.iter().flat_map(|rule| rule(scene)).collect();
    // These need to know what else went wrong.
    claims.extend(machine::processors(scene, &claims));
    claims
}

/// Lines of the error logs with this cause, about this subject or any.
fn lines(sample: &Sample, cause: Cause, subject: Option<&str>) -> u64 {
    let names = cause.row().lines;
    let of = |errors: &&crate::sample::Errors| {
        names.contains(&errors.cause.as_str()) && subject.is_none_or(|subject| bare(&errors.subject) == subject)
    };
    sample.errors.iter().filter(of).map(|errors| errors.count).sum()
}

/// An upstream without its scheme.
fn bare(subject: &str) -> &str {
    subject.split_once("://").map_or(subject, |(_, rest)| rest)
}

/// The peers of a sample, each with its group.
fn peers(sample: &Sample) -> impl Iterator<Item = (&str, &Peer)> {
    let groups = sample.gateway.iter().flat_map(|gateway| &gateway.groups);
    groups.flat_map(|group| group.peers.iter().map(|peer| (group.name.as_str(), peer)))
}

/// The address of a peer without the number that equal ones have.
fn address(peer: &Peer) -> &str {
    peer.address.split('#').next().unwrap_or_default()
}

/// `12 (0.4/s)`
fn counted((total, per_s): (u64, f64)) -> String {
    let per_s = match per_s {
        per_s if per_s >= 10.0 => format!("{per_s:.0}"),
        per_s => format!("{per_s:.1}"),
    };
    if total == 0 { "0".to_owned() } else { format!("{total} ({per_s}/s)") }
}

/// A duration in milliseconds.
fn shown_ms(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// A level that may be unknown.
fn level(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
