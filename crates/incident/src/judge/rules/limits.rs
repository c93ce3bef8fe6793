//! Limits of this machine and of the gateway that were reached.

use super::errors::{what, with_attempts};
use super::{bare, counted, level, lines};
use crate::judge::cause::Cause;
use crate::judge::claim::Claim;
use crate::judge::scene::{Episode, Scene, least, most, rate};
use crate::sample::{Destination, Gateway, Listener, Process, Sample};
use std::collections::BTreeSet;

/// Descriptors count as used up from this share of the limit on.
const DESCRIPTORS_SHARE: f64 = 0.98;
/// Fewer dropped connections are no incident.
const DROPS_MIN: u64 = 3;
/// A queue that is full in this many samples is one, whatever was dropped.
const FULL_MIN: usize = 3;
/// Fewer refused requests are no incident.
const REFUSED_MIN: u64 = 3;
/// Requests that wait are one if they wait in this share of the samples, for so long.
const WAITING_SHARE: f64 = 0.6;
const WAITING_MS: u64 = 5000;
/// Fewer overflows of the table are no incident.
const OVERFLOWS_MIN: u64 = 10;
/// Most destinations and listeners that get a claim.
const SUBJECTS_MAX: usize = 5;

fn gateway(sample: &Sample, count: impl Fn(&Gateway) -> u64) -> u64 {
    sample.gateway.as_ref().map_or(0, count)
}

/// The longest episode of a sign.
fn longest(scene: &Scene<'_>, holds: impl FnMut(&Sample) -> bool) -> Option<Episode> {
    scene.episodes(holds).into_iter().max_by_key(|episode| episode.held)
}

/// Figures of a count before and during.
fn before_and_during(scene: &Scene<'_>, episode: &Episode, count: impl Fn(&Sample) -> u64) -> (String, String) {
    let before = scene.before(episode);
    let told = if before.is_empty() { String::new() } else { counted(rate(before, &count)) };
    (told, counted(rate(scene.during(episode), &count)))
}

pub(super) fn process_killed(scene: &Scene<'_>) -> Vec<Claim> {
    let cause = Cause::ProcessKilled;
    let of_group = |sample: &Sample| sample.machine.group.as_ref().map_or(0, |group| group.oom_kills);
    let kills = |sample: &Sample| sample.machine.oom_kills.max(of_group(sample)) + lines(sample, cause, None);
    let Some(episode) = longest(scene, |sample| kills(sample) > 0) else { return Vec::new() };
    let (before, during) = (scene.before(&episode), scene.during(&episode));
    let in_group = during.iter().any(|sample| of_group(sample) > 0);
    let place = if in_group { "its control group's memory was used up" } else { "there was no memory left" };
    let claim = Claim::new(scene, cause, "", &episode, format!("the kernel killed a process, since {place}"));
    let (told, now) = before_and_during(scene, &episode, kills);
    let mut claim = claim.with("processes killed", told, now);
    let free = |samples: &[Sample]| least(samples, |sample| Some(sample.machine.memory_available_kb / 1024));
    let shown = |value: Option<u64>| value.map_or_else(String::new, |mb| format!("{mb} MB"));
    claim = claim.with("memory available on the machine, at least", shown(free(before)), shown(free(during)));
    let limit = most(during, |sample| sample.machine.group.as_ref()?.memory_limit_kb);
    if let Some(limit) = limit {
        claim = claim.with("memory limit of the control group", "", format!("{} MB", limit / 1024));
    }
    vec![claim]
}

fn is_out_of_descriptors(process: &Process) -> bool {
    process
        .descriptors
        .zip(process.descriptors_max)
        .is_some_and(|(open, most)| open as f64 >= most as f64 * DESCRIPTORS_SHARE)
}

pub(super) fn descriptors(scene: &Scene<'_>) -> Vec<Claim> {
    let cause = Cause::DescriptorsExhausted;
    let failed = |sample: &Sample| {
        lines(sample, cause, None)
            + gateway(sample, |gateway| gateway.overload.get("accepts_failed").copied().unwrap_or_default())
    };
    let holds = |sample: &Sample| failed(sample) > 0 || sample.processes.iter().any(is_out_of_descriptors);
    let Some(episode) = longest(scene, holds) else { return Vec::new() };
    let during = scene.during(&episode);
    let fullest = |samples: &[Sample]| {
        let all = samples.iter().flat_map(|sample| &sample.processes);
        all.max_by_key(|process| {
            process.descriptors.unwrap_or_default() * 1000 / process.descriptors_max.unwrap_or(u64::MAX).max(1)
        })
        .cloned()
    };
    let process = fullest(during);
    let subject = process.as_ref().map_or_else(String::new, |process| format!("{} {}", process.name, process.pid));
    let of = if subject.is_empty() { "a process".to_owned() } else { format!("process {subject}") };
    let mut claim = Claim::new(scene, cause, &subject, &episode, format!("{of} had no descriptor left"));
    if let Some(now) = process {
        let shown = |process: &Process| format!("{} of {}", level(process.descriptors), level(process.descriptors_max));
        let then = fullest(scene.before(&episode)).map_or_else(String::new, |process| shown(&process));
        claim = claim.with("open descriptors, at most", then, shown(&now));
    }
    let (told, now) = before_and_during(scene, &episode, failed);
    vec![claim.with("connections or files that failed for it", told, now)]
}

pub(super) fn worker_connections(scene: &Scene<'_>) -> Vec<Claim> {
    let cause = Cause::WorkerConnectionsExhausted;
    let refused = |sample: &Sample| {
        lines(sample, cause, None)
            + gateway(sample, |gateway| gateway.overload.get("connections_refused").copied().unwrap_or_default())
    };
    let Some(episode) = longest(scene, |sample| refused(sample) > 0) else { return Vec::new() };
    let (told, now) = before_and_during(scene, &episode, refused);
    let connections = |samples: &[Sample]| level(most(samples, |sample| Some(sample.gateway.as_ref()?.connections)));
    let claim = Claim::new(scene, cause, "", &episode, "all of worker_connections were in use");
    let claim = claim.with(
        "client connections, at most",
        connections(scene.before(&episode)),
        connections(scene.during(&episode)),
    );
    vec![claim.with("connections turned away", told, now)]
}

pub(super) fn memory_budget(scene: &Scene<'_>) -> Vec<Claim> {
    let shed = |sample: &Sample| gateway(sample, |gateway| gateway.shed.values().sum());
    let Some(episode) = longest(scene, |sample| shed(sample) > 0) else { return Vec::new() };
    let during = scene.during(&episode);
    let budget = most(during, |sample| sample.gateway.as_ref()?.budget).unwrap_or_default();
    let claimed = |samples: &[Sample]| {
        let most = most(samples, |sample| sample.gateway.as_ref().map(|gateway| gateway.claimed));
        most.map_or_else(String::new, |bytes| format!("{} KB of {} KB", bytes / 1024, budget / 1024))
    };
    let of = |what: &str| {
        let what = what.to_owned();
        before_and_during(scene, &episode, move |sample| {
            gateway(sample, |gateway| gateway.shed.get(&what).copied().unwrap_or_default())
        })
    };
    let claim =
        Claim::new(scene, Cause::MemoryBudget, "", &episode, "memory_budget was used up, and work was given up for it");
    let mut claim = claim.with("memory claimed, at most", claimed(scene.before(&episode)), claimed(during));
    for (name, what) in [
        ("idle connections closed", "keepalive"),
        ("requests refused with 503", "requests"),
        ("pauses of accepting", "accepts"),
    ] {
        let (told, now) = of(what);
        if now != "0" {
            claim = claim.with(name, told, now);
        }
    }
    vec![claim]
}

/// The row of a destination in a sample.
fn towards<'a>(sample: &'a Sample, remote: &str) -> Option<&'a Destination> {
    let rows = sample.sockets.as_ref()?.destinations.iter().filter(|row| row.remote == remote);
    rows.min_by_key(|row| row.free.unwrap_or(u32::MAX))
}

pub(super) fn ports(scene: &Scene<'_>) -> Vec<Claim> {
    let cause = Cause::PortsExhausted;
    let mut remotes = BTreeSet::new();
    for sample in scene.samples.iter().skip(scene.window_from) {
        let rows = sample.sockets.iter().flat_map(|sockets| &sockets.destinations);
        remotes.extend(rows.filter(|row| row.free == Some(0)).map(|row| row.remote.clone()));
        let named = sample.errors.iter().filter(|errors| cause.row().lines.contains(&errors.cause.as_str()));
        remotes.extend(named.map(|errors| bare(&errors.subject).to_owned()));
    }
    remotes.iter().take(SUBJECTS_MAX).filter_map(|remote| ports_towards(scene, remote)).collect()
}

fn ports_towards(scene: &Scene<'_>, remote: &str) -> Option<Claim> {
    let cause = Cause::PortsExhausted;
    let failed = |sample: &Sample| lines(sample, cause, Some(remote));
    let episode =
        longest(scene, |sample| failed(sample) > 0 || towards(sample, remote).is_some_and(|row| row.free == Some(0)))?;
    let (before, during) = (scene.before(&episode), scene.during(&episode));
    let local = during.iter().find_map(|sample| Some(towards(sample, remote)?.local.clone()));
    let from = local.map_or_else(String::new, |local| format!(" from {local}"));
    let least_free = |samples: &[Sample]| level(least(samples, |sample| towards(sample, remote)?.free));
    let most_waiting = |samples: &[Sample]| level(most(samples, |sample| Some(towards(sample, remote)?.time_wait)));
    let most_used = |samples: &[Sample]| level(most(samples, |sample| Some(towards(sample, remote)?.used)));
    let (told, now) = before_and_during(scene, &episode, failed);
    let claim = Claim::new(scene, cause, remote, &episode, format!("no local port was left{from} towards {remote}"))
        .with("free ports, at least", least_free(before), least_free(during))
        .with("ports in use, at most", most_used(before), most_used(during))
        .with("ports in TIME_WAIT, at most", most_waiting(before), most_waiting(during));
    let claim = match scene.head.ports_usable {
        Some(usable) => claim.with("ports that connect() may choose from", "", usable.to_string()),
        None => claim,
    };
    Some(with_attempts(claim.with("connections that failed for it", told, now), scene, remote, &episode))
}

/// The row of a listener in a sample.
fn listener<'a>(sample: &'a Sample, address: &str) -> Option<&'a Listener> {
    sample.sockets.as_ref()?.listeners.iter().find(|listener| listener.address == address)
}

pub(super) fn accept_queues(scene: &Scene<'_>) -> Vec<Claim> {
    let window = scene.samples.iter().skip(scene.window_from);
    let all = window.filter_map(|sample| sample.sockets.as_ref()).flat_map(|sockets| &sockets.listeners);
    let addresses: BTreeSet<&str> = all
        .filter(|listener| listener.drops > 0 || listener.is_full())
        .map(|listener| listener.address.as_str())
        .collect();
    addresses.into_iter().take(SUBJECTS_MAX).filter_map(|address| accept_queue(scene, address)).collect()
}

fn accept_queue(scene: &Scene<'_>, address: &str) -> Option<Claim> {
    let cause = Cause::AcceptQueue;
    let drops = |sample: &Sample| listener(sample, address).map_or(0, |listener| u64::from(listener.drops));
    let is_full = |sample: &Sample| listener(sample, address).is_some_and(Listener::is_full);
    let episode = longest(scene, |sample| drops(sample) > 0 || is_full(sample))?;
    let (before, during) = (scene.before(&episode), scene.during(&episode));
    let overflows = |sample: &Sample| sample.kernel.get("ListenOverflows").copied().unwrap_or_default();
    let full = during.iter().filter(|sample| is_full(sample)).count();
    // Listeners drop SYNs for other reasons, too.
    let is_overflow = full > 0 || rate(during, overflows).0 > 0;
    if !is_overflow || rate(during, drops).0 < DROPS_MIN && full < FULL_MIN {
        return None;
    }
    let longest_queue = |samples: &[Sample]| level(most(samples, |sample| Some(listener(sample, address)?.queue)));
    let backlog = most(during, |sample| listener(sample, address)?.backlog);
    let (dropped_before, dropped) = before_and_during(scene, &episode, drops);
    let (overflows_before, overflowed) = before_and_during(scene, &episode, overflows);
    let claim = Claim::new(scene, cause, address, &episode, what(cause, address))
        .with("connections that waited to be accepted, at most", longest_queue(before), longest_queue(during))
        .with("its backlog, as the kernel granted it", "", level(backlog))
        .with("connections that it dropped", dropped_before, dropped)
        .with("ListenOverflows of the network namespace", overflows_before, overflowed);
    Some(match scene.head.somaxconn {
        Some(limit) => claim.with("net.core.somaxconn", "", limit.to_string()),
        None => claim,
    })
}

pub(super) fn pools(scene: &Scene<'_>) -> Vec<Claim> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for sample in scene.samples.iter().skip(scene.window_from) {
        let groups = sample.gateway.iter().flat_map(|gateway| &gateway.groups);
        names.extend(groups.filter(|group| group.waiting > 0).map(|group| group.name.as_str()));
    }
    let mut claims: Vec<Claim> = names.into_iter().take(SUBJECTS_MAX).filter_map(|name| pool(scene, name)).collect();
    // Lines without a group whose line was seen: it has no places, or it is empty at each sample.
    if claims.is_empty()
        && let Some(episode) = longest(scene, |sample| lines(sample, Cause::PoolExhausted, None) > 0)
        && rate(scene.during(&episode), |sample| lines(sample, Cause::PoolExhausted, None)).0 >= REFUSED_MIN
    {
        let named = scene.during(&episode).iter().flat_map(|sample| &sample.errors);
        let subject = named
            .filter(|errors| errors.cause == crate::record::POOL_EXHAUSTED)
            .map(|errors| bare(&errors.subject))
            .next();
        claims.push(pool_claim(scene, subject.unwrap_or_default(), &episode));
    }
    claims
}

fn pool(scene: &Scene<'_>, name: &str) -> Option<Claim> {
    let waiting = |sample: &Sample| group_level(sample, name, |group| group.waiting).unwrap_or_default();
    let episode = longest(scene, |sample| waiting(sample) > 0 || lines(sample, Cause::PoolExhausted, None) > 0)?;
    let during = scene.during(&episode);
    let share = episode.held as f64 / during.len().max(1) as f64;
    let waits = share >= WAITING_SHARE && scene.lasted_ms(&episode) >= WAITING_MS;
    let refused = rate(during, |sample| lines(sample, Cause::PoolExhausted, None)).0;
    if !waits && refused < REFUSED_MIN {
        return None;
    }
    Some(pool_claim(scene, name, &episode))
}

fn group_level(sample: &Sample, name: &str, level: impl Fn(&crate::sample::Group) -> u64) -> Option<u64> {
    sample.gateway.as_ref()?.groups.iter().find(|group| group.name == name).map(level)
}

fn pool_claim(scene: &Scene<'_>, name: &str, episode: &Episode) -> Claim {
    let (before, during) = (scene.before(episode), scene.during(episode));
    let of = |samples: &[Sample], what: fn(&crate::sample::Group) -> u64| {
        level(most(samples, |sample| group_level(sample, name, what)))
    };
    let (told, now) = before_and_during(scene, episode, |sample| lines(sample, Cause::PoolExhausted, None));
    let (requests_before, requests) =
        before_and_during(scene, episode, |sample| gateway(sample, |gateway| gateway.requests));
    Claim::new(scene, Cause::PoolExhausted, name, episode, format!("all of max_connections of {name} were in use"))
        .with(
            "requests that waited for a connection, at most",
            of(before, |group| group.waiting),
            of(during, |group| group.waiting),
        )
        .with("connections in use, at most", of(before, |group| group.leased), of(during, |group| group.leased))
        .with("requests refused for it", told, now)
        .with("requests", requests_before, requests)
}

pub(super) fn time_waits(scene: &Scene<'_>) -> Vec<Claim> {
    let cause = Cause::TimeWaitFull;
    let overflows = |sample: &Sample| {
        sample.kernel.get("TCPTimeWaitOverflow").copied().unwrap_or_default() + lines(sample, cause, None)
    };
    let Some(episode) = longest(scene, |sample| overflows(sample) > 0) else { return Vec::new() };
    if rate(scene.during(&episode), overflows).0 < OVERFLOWS_MIN {
        return Vec::new();
    }
    let waiting =
        |samples: &[Sample]| level(most(samples, |sample| sample.sockets.as_ref()?.states.get("TIME_WAIT").copied()));
    let (told, now) = before_and_during(scene, &episode, overflows);
    let claim = Claim::new(scene, cause, "", &episode, "the table of TIME_WAIT sockets was full (tcp_max_tw_buckets)")
        .with("sockets in TIME_WAIT, at most", waiting(scene.before(&episode)), waiting(scene.during(&episode)))
        .with("sockets that got no TIME_WAIT", told, now);
    vec![claim]
}
