//! The gateway's figures: takes what changed between two of its statuses. The status is Holdfast's (`holdfast ctl status`, or the JSON of a
//! `status_page`), or the text of nginx's `stub_status`.

use crate::record::error_log::ErrorCounts;
use crate::sample::{Counts, Gateway, Group, Peer};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most peers of a sample over all groups: those that failed or are used come first.
const PEERS_MAX: usize = 128;
/// Most groups of a sample.
const GROUPS_MAX: usize = 64;
/// Most changes of a reload that are kept.
const CHANGES_MAX: usize = 10;

/// The parts of a status that are recorded, counts since the process began.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    started_at_s: u64,
    generation: u64,
    configuration: Configuration,
    connections: Connections,
    requests: Requests,
    tls: Tls,
    overload: Counts,
    memory: Memory,
    groups: Vec<StatusGroup>,
    resolvers: Vec<Resolver>,
    caches: Vec<Cache>,
    log_lines_dropped: Counts,
    errors: Vec<ErrorLine>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Configuration {
    changes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Connections {
    accepted: u64,
    active: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    total: u64,
    under_way: u64,
    panics: u64,
    responses: Counts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tls {
    handshakes: Counts,
    handshakes_failed: Counts,
    certificates: Vec<Certificate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Certificate {
    subject: String,
    not_after_s: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Memory {
    budget_bytes: Option<u64>,
    claimed_bytes: u64,
    shed: Counts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusGroup {
    name: String,
    idle: u64,
    leased: u64,
    waiting: u64,
    opened: u64,
    no_live_peer: u64,
    peers: Vec<StatusPeer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusPeer {
    address: String,
    attempts: u64,
    failed: u64,
    leased: u64,
    connecting: u64,
    responses: Counts,
    response_time: Histogram,
    check: Option<Check>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    state: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Histogram {
    count: u64,
    sum_ms: f64,
    buckets: Vec<Bucket>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bucket {
    at_most_ms: Option<f64>,
    count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resolver {
    zone: String,
    lookups: Counts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    name: String,
    write_failures: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorLine {
    number: u64,
    line: String,
}

/// The answer of a control socket around a status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    result: Option<Enclosed>,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Enclosed {
    master: Master,
    serving: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Master {
    pid: Option<u32>,
}

/// Parses any of the three forms; with the pid of the master, if the status has it.
pub(super) fn parse(bytes: &[u8]) -> Result<(Status, Option<u32>), String> {
    if bytes.starts_with(b"Active connections:") {
        return parse_stub(&String::from_utf8_lossy(bytes)).ok_or_else(|| "stub_status is not understood".to_owned());
    }
    let not_understood = |error: serde_json::Error| format!("the status is not understood: {error}");
    if let Ok(Answer { result, error }) = serde_json::from_slice(bytes) {
        if let Some(error) = error {
            return Err(error);
        }
        if let Some(Enclosed { master, serving: Some(status) }) = result {
            return Ok((status, master.pid));
        }
    }
    let status: Status = serde_json::from_slice(bytes).map_err(not_understood)?;
    if status.started_at_s == 0 {
        return Err("the answer is no status of Holdfast, and no stub_status".to_owned());
    }
    Ok((status, None))
}

/// `Active connections: 2` / `server accepts handled requests` / ` 10 10 20` / `Reading: 0 Writing: 1 Waiting: 1`
fn parse_stub(text: &str) -> Option<(Status, Option<u32>)> {
    let numbers: Vec<u64> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [active, accepted, _, total, _, writing, _] = numbers.as_slice() else { return None };
    let mut status = Status { started_at_s: 1, ..Status::default() };
    status.connections = Connections { accepted: *accepted, active: *active };
    status.requests = Requests { total: *total, under_way: *writing, ..Requests::default() };
    Some((status, None))
}

/// Takes the differences of one status to the next.
#[derive(Debug, Default)]
pub(super) struct Differences {
    before: Option<Status>,
}

impl Differences {
    /// What changed since the last status. New error lines go to `errors`; returns how many were no longer in the list.
    pub(super) fn take(&mut self, now: Status, errors: &mut ErrorCounts) -> (Gateway, u64) {
        // After a restart everything is counted from zero again.
        let before = self.before.take().filter(|before| before.started_at_s == now.started_at_s);
        let is_first = before.is_none();
        let before = before.unwrap_or_default();
        let lost = count_errors(&before, &now, is_first, errors);
        let gateway = if is_first { levels(&now) } else { changes(&before, &now) };
        self.before = Some(now);
        (gateway, lost)
    }
}

/// Counts the lines with numbers that are new. Lines from before the recorder began are not counted.
fn count_errors(before: &Status, now: &Status, is_first: bool, errors: &mut ErrorCounts) -> u64 {
    let last = |status: &Status| status.errors.iter().map(|line| line.number).max().unwrap_or_default();
    if is_first {
        return 0;
    }
    let last_before = last(before);
    let mut seen = 0;
    for line in now.errors.iter().filter(|line| line.number > last_before) {
        errors.add(&line.line);
        seen += 1;
    }
    last(now).saturating_sub(last_before).saturating_sub(seen)
}

/// What is known of a first status: the levels, and no counts.
fn levels(now: &Status) -> Gateway {
    let groups = now.groups.iter().take(GROUPS_MAX).map(|group| Group {
        name: group.name.clone(),
        leased: group.leased,
        idle: group.idle,
        waiting: group.waiting,
        ..Group::default()
    });
    Gateway {
        started_at_s: now.started_at_s,
        generation: now.generation,
        connections: now.connections.active,
        under_way: now.requests.under_way,
        certificate: first_to_end(now),
        budget: now.memory.budget_bytes,
        claimed: now.memory.claimed_bytes,
        groups: groups.collect(),
        ..Gateway::default()
    }
}

fn first_to_end(now: &Status) -> Option<(String, i64)> {
    let first = now.tls.certificates.iter().min_by_key(|certificate| certificate.not_after_s)?;
    Some((first.subject.clone(), first.not_after_s))
}

fn changes(before: &Status, now: &Status) -> Gateway {
    let is_new = now.generation != before.generation;
    let lookups = |status: &Status| {
        let failed = |resolver: &Resolver| {
            let failed = resolver.lookups.iter().filter(|(result, _)| *result != "noerror").map(|(_, count)| count);
            (resolver.zone.clone(), failed.sum())
        };
        status.resolvers.iter().map(failed).collect::<Counts>()
    };
    let caches = |status: &Status| {
        status.caches.iter().map(|cache| (cache.name.clone(), cache.write_failures)).collect::<Counts>()
    };
    let sum = |counts: &Counts| counts.values().sum::<u64>();
    Gateway {
        changes: if is_new {
            now.configuration.changes.iter().take(CHANGES_MAX).cloned().collect()
        } else {
            Vec::new()
        },
        accepted: now.connections.accepted.saturating_sub(before.connections.accepted),
        requests: now.requests.total.saturating_sub(before.requests.total),
        responses: grown(&before.requests.responses, &now.requests.responses),
        handshakes: sum(&now.tls.handshakes).saturating_sub(sum(&before.tls.handshakes)),
        handshakes_failed: sum(&now.tls.handshakes_failed).saturating_sub(sum(&before.tls.handshakes_failed)),
        overload: grown(&before.overload, &now.overload),
        shed: grown(&before.memory.shed, &now.memory.shed),
        groups: groups(before, now),
        lookups_failed: grown(&lookups(before), &lookups(now)),
        cache_failures: grown(&caches(before), &caches(now)),
        log_lines_dropped: sum(&now.log_lines_dropped).saturating_sub(sum(&before.log_lines_dropped)),
        panics: now.requests.panics.saturating_sub(before.requests.panics),
        ..levels(now)
    }
}

/// The counts that grew, with what they grew by.
fn grown(before: &Counts, now: &Counts) -> Counts {
    let by = |(name, count): (&String, &u64)| {
        let grown = count.saturating_sub(before.get(name).copied().unwrap_or_default());
        (grown > 0).then(|| (name.clone(), grown))
    };
    now.iter().filter_map(by).collect()
}

fn groups(before: &Status, now: &Status) -> Vec<Group> {
    let known: BTreeMap<&str, &StatusGroup> = before.groups.iter().map(|group| (group.name.as_str(), group)).collect();
    let nothing = StatusGroup::default();
    let mut room = PEERS_MAX;
    let mut found = Vec::new();
    for group in now.groups.iter().take(GROUPS_MAX) {
        let then = known.get(group.name.as_str()).copied().unwrap_or(&nothing);
        let mut peers = peers(then, group);
        peers.truncate(room);
        room -= peers.len();
        found.push(Group {
            name: group.name.clone(),
            leased: group.leased,
            idle: group.idle,
            waiting: group.waiting,
            opened: group.opened.saturating_sub(then.opened),
            no_live_peer: group.no_live_peer.saturating_sub(then.no_live_peer),
            peers,
        });
    }
    found
}

/// The peers that did something, those that failed first.
fn peers(before: &StatusGroup, now: &StatusGroup) -> Vec<Peer> {
    let known: BTreeMap<&str, &StatusPeer> = before.peers.iter().map(|peer| (peer.address.as_str(), peer)).collect();
    let nothing = StatusPeer::default();
    let mut found: Vec<Peer> = now
        .peers
        .iter()
        .map(|peer| {
            let then = known.get(peer.address.as_str()).copied().unwrap_or(&nothing);
            let (timed, mean_ms, p50_ms) = durations(&then.response_time, &peer.response_time);
            Peer {
                address: peer.address.clone(),
                attempts: peer.attempts.saturating_sub(then.attempts),
                failed: peer.failed.saturating_sub(then.failed),
                leased: peer.leased + peer.connecting,
                server_errors: grown(&then.responses, &peer.responses).get("5xx").copied().unwrap_or_default(),
                timed,
                mean_ms,
                p50_ms,
                unhealthy: peer.check.as_ref().is_some_and(|check| check.state == "unhealthy"),
            }
        })
        .filter(|peer| peer.attempts > 0 || peer.leased > 0 || peer.timed > 0 || peer.unhealthy)
        .collect();
    found.sort_by_key(|peer| std::cmp::Reverse((peer.failed, peer.attempts)));
    found
}

/// Count, mean and median of the responses between two histograms.
fn durations(before: &Histogram, now: &Histogram) -> (u64, Option<f64>, Option<f64>) {
    let count = now.count.saturating_sub(before.count);
    if count == 0 {
        return (0, None, None);
    }
    let mean = (now.sum_ms - before.sum_ms).max(0.0) / count as f64;
    let mut buckets = now.buckets.iter().enumerate();
    let half = buckets.find(|(place, bucket)| {
        let then = before.buckets.get(*place).map_or(0, |bucket| bucket.count);
        bucket.count.saturating_sub(then) * 2 >= count
    });
    // Three digits are enough, and keep the lines short.
    (count, Some((mean * 1e3).round() / 1e3), half.and_then(|(_, bucket)| bucket.at_most_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(attempts: u64, lines: &[u64]) -> Vec<u8> {
        let errors: Vec<_> = lines
            .iter()
            .map(|number| {
                json!({"number": number, "line": "[error] connect() failed (111: Connection refused) while connecting to upstream, \
                    upstream: \"http://10.0.0.1:80/?key=secret\""})
            })
            .collect();
        let serving = json!({
            "started_at_s": 7, "generation": attempts, "configuration": {"changes": ["group app changed"]},
            "requests": {"total": attempts, "responses": {"2xx": attempts, "5xx": 3}},
            "errors": errors,
            "groups": [{"name": "app", "waiting": 2, "peers": [
                {"address": "10.0.0.1:80", "attempts": attempts, "failed": 1, "responses": {"5xx": attempts},
                 "response_time": {"count": attempts, "sum_ms": attempts as f64 * 4.0, "buckets": [
                    {"at_most_ms": 1.0, "count": 0}, {"at_most_ms": 5.0, "count": attempts}, {"at_most_ms": null, "count": attempts}]}},
                {"address": "10.0.0.2:80", "attempts": 5}]}],
        });
        serde_json::to_vec(&json!({"result": {"master": {"pid": 11}, "serving": serving}})).unwrap()
    }

    #[test]
    fn two_statuses_give_counts_and_errors() {
        let (mut differences, mut errors) = (Differences::default(), ErrorCounts::default());
        let (first, pid) = parse(&status(10, &[4, 3])).unwrap();
        assert_eq!(pid, Some(11));
        let (gateway, lost) = differences.take(first, &mut errors);
        assert_eq!((gateway.requests, gateway.groups[0].waiting, lost), (0, 2, 0));
        let (gateway, lost) = differences.take(parse(&status(30, &[9, 8])).unwrap().0, &mut errors);
        assert_eq!((gateway.requests, lost, gateway.changes.len()), (20, 3, 1));
        assert_eq!(gateway.responses, Counts::from([("2xx".to_owned(), 20)]));
        let [peer] = gateway.groups[0].peers.as_slice() else { panic!("{gateway:?}") };
        assert_eq!((peer.attempts, peer.failed, peer.server_errors), (20, 0, 20));
        assert_eq!((peer.timed, peer.mean_ms, peer.p50_ms), (20, Some(4.0), Some(5.0)));
        let rows = errors.into_rows();
        assert_eq!((rows.len(), rows[0].count, rows[0].subject.as_str()), (1, 2, "http://10.0.0.1:80"));
        // A new process counts from zero.
        let restarted = String::from_utf8(status(2, &[1])).unwrap().replace("\"started_at_s\":7", "\"started_at_s\":8");
        let (gateway, _) = differences.take(parse(restarted.as_bytes()).unwrap().0, &mut ErrorCounts::default());
        assert_eq!(gateway.requests, 0);
    }

    #[test]
    fn stub_status_and_foreign_answers() {
        let text =
            b"Active connections: 2 \nserver accepts handled requests\n 10 10 20 \nReading: 0 Writing: 1 Waiting: 1 \n";
        let (status, _) = parse(text).unwrap();
        assert_eq!((status.connections.active, status.connections.accepted, status.requests.total), (2, 10, 20));
        assert!(parse(b"<html>").unwrap_err().starts_with("the status is not understood"));
        assert!(parse(b"{}").unwrap_err().starts_with("the answer is no status"));
        assert_eq!(parse(b"{\"error\": \"no\"}").map(|_| ()), Err("no".to_owned()));
        assert!(parse(b"Active connections: x").is_err());
    }
}
