//! A worker allows more connections than it may have descriptors: each proxied one takes two.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::number;
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use report::{Finding, Severity};

const NAME: &str = "descriptors-too-few";
const WHY: &str = "When the descriptors are gone, accept() and connect() fail with \"Too many open files\": clients wait, and requests in flight get 502 or 500.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`worker_connections` beyond the descriptors, a limit beyond `fs.nr_open`, workers beyond `fs.file-max`",
    needs: Needs::NOTHING,
    why: WHY,
    example: "events { worker_connections 10000; }
http {
    server { location / { return 204; } }
}",
    instead: "worker_rlimit_nofile 20000;
events { worker_connections 10000; }
http {
    server { location / { return 204; } }
}",
    check,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let connections = configuration.worker_connections();
    let limit = configuration.main("worker_rlimit_nofile").and_then(|directive| number(directive, 0));
    let (allowed, whose) = match (limit, facts.system.descriptors) {
        (Some(limit), _) => (limit, "worker_rlimit_nofile"),
        (None, Some(limit)) => (limit, "the process's limit (ulimit -n)"),
        (None, None) => return Vec::new(),
    };
    // worker_connections counts both sockets of a proxied connection. Only listeners, logs and files need descriptors
    // beyond it.
    if connections <= allowed || configuration.fits_processes_to_descriptors() {
        let others = [
            too_high(facts, limit).or_else(|| not_in_force(facts, limit)),
            none_for_files(facts, limit, connections),
            host_too_few(facts, connections),
        ];
        return others.into_iter().flatten().collect();
    }
    let said = configuration.events("worker_connections");
    let evidence = said.map_or_else(
        || format!("worker_connections is {connections} by default"),
        |directive| quoted(configuration, directive.span, &format!("worker_connections {connections};")),
    );
    let wanted = connections.saturating_mul(2);
    vec![Finding {
        place: said.map(|directive| configuration.place(directive.span)),
        why: "When the descriptors are gone, accept() fails with \"Too many open files\", and so does connect(): clients wait, \
              and requests in flight get 502 or 500."
            .to_owned(),
        evidence: vec![evidence, format!("{whose} is {allowed}")],
        arithmetic: format!("{connections} connections > {allowed} descriptors; with files and logs {wanted} is ample"),
        fix: Change::new(configuration).set_main(format!("worker_rlimit_nofile {wanted};")).fix(),
        side_effect: "A worker can hold more sockets, and their kernel memory of some 4 KB each.".to_owned(),
        undo: UNDO.to_owned(),
        ..finding(NAME, Severity::Error, format!("a worker may have {allowed} descriptors for {connections} connections"))
    }]
}

/// Processes whose limits are in the evidence; further workers are alike.
const PROCESSES_SHOWN: usize = 3;

/// A limit that the kernel refuses: nginx keeps the old one and logs an alert.
fn too_high(facts: &Facts, limit: Option<u64>) -> Option<Finding> {
    let (limit, nr_open) = (limit?, facts.system.number("fs.nr_open")?);
    let configuration = facts.configuration.as_ref()?;
    let directive = configuration.main("worker_rlimit_nofile")?;
    (limit > nr_open).then(|| Finding {
        place: Some(configuration.place(directive.span)),
        why: "The kernel refuses the limit, and the workers go on with the one they inherited.".to_owned(),
        evidence: vec![
            quoted(configuration, directive.span, &format!("worker_rlimit_nofile {limit};")),
            format!("fs.nr_open = {nr_open}"),
        ],
        arithmetic: format!("{limit} > {nr_open}"),
        fix: format!("sysctl -w fs.nr_open={limit}"),
        side_effect: "Every process on the host may be given as many.".to_owned(),
        undo: format!("sysctl -w fs.nr_open={nr_open}"),
        ..finding(NAME, Severity::Warning, "worker_rlimit_nofile is more than the kernel allows".to_owned())
    })
}

/// A limit that no process of the running server has: the hard limit refused it, or it is not applied yet.
fn not_in_force(facts: &Facts, limit: Option<u64>) -> Option<Finding> {
    let (limit, live, configuration) = (limit?, facts.live.as_ref()?, facts.configuration.as_ref()?);
    let directive = configuration.main("worker_rlimit_nofile")?;
    let has = live.processes.iter().filter_map(|process| process.limit).max().filter(|has| *has < limit)?;
    let mut evidence = vec![quoted(configuration, directive.span, &format!("worker_rlimit_nofile {limit};"))];
    evidence.extend(live.processes.iter().take(PROCESSES_SHOWN).map(|process| {
        let shown = |limit: Option<u64>| limit.map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
        let (soft, hard) = (shown(process.limit), shown(process.hard_limit));
        format!("process {}: soft limit {soft}, hard limit {hard}", process.pid)
    }));
    Some(Finding {
        place: Some(configuration.place(directive.span)),
        why: "Only root may raise a limit beyond the hard one; for other users the line fails with an alert in the log, and the workers go on \
              with what they have. Workers that are older than the line have the old limit, too."
            .to_owned(),
        evidence,
        arithmetic: format!("{limit} > {has}"),
        fix: format!("# in the service's unit, where the server does not start as root:\nLimitNOFILE={limit}\n# then: systemctl daemon-reload, and a restart"),
        side_effect: "A worker can hold more sockets, and their kernel memory of some 4 KB each.".to_owned(),
        undo: "# take the line out again, then a restart".to_owned(),
        ..finding(NAME, Severity::Warning, format!("no process of the server has the {limit} descriptors it is configured for"))
    })
}

/// A configured limit that leaves no descriptors for files. Not reported for Debian's defaults.
fn none_for_files(facts: &Facts, limit: Option<u64>, connections: u64) -> Option<Finding> {
    let (limit, configuration) = (limit?, facts.configuration.as_ref()?);
    let directive = configuration.main("worker_rlimit_nofile")?;
    // A proxied connection counts as two of worker_connections, and its response may need a temporary file besides the
    // two sockets. A static one needs a file for each. The first case needs fewer descriptors and is the minimum.
    let needed = connections.saturating_add(connections / 2);
    let wanted = connections.saturating_mul(2);
    (limit < needed).then(|| Finding {
        place: Some(configuration.place(directive.span)),
        why: "Responses that are buffered in temporary files, static files, logs and the cache take descriptors beside the sockets. When \
              connections have them all, opening a file fails with \"Too many open files\", and so do accept() and connect()."
            .to_owned(),
        evidence: vec![
            quoted(configuration, directive.span, &format!("worker_rlimit_nofile {limit};")),
            format!("worker_connections is {connections}"),
        ],
        arithmetic: format!("{connections} sockets + {} temporary files = {needed} > {limit}", connections / 2),
        fix: Change::new(configuration).set_main(format!("worker_rlimit_nofile {wanted};")).fix(),
        side_effect: "None until they are used; an open file costs some 1 KB of kernel memory.".to_owned(),
        undo: UNDO.to_owned(),
        ..finding(NAME, Severity::Note, format!("{connections} connections leave few of {limit} descriptors for files"))
    })
}

/// All workers together may open more files than the kernel allows on the whole host.
fn host_too_few(facts: &Facts, connections: u64) -> Option<Finding> {
    const SYSCTL: &str = "fs.file-max";
    let configuration = facts.configuration.as_ref()?;
    let workers = configuration.workers(facts.system.cpus)?;
    let sum = connections.saturating_mul(workers);
    let (place, host) = facts
        .values(SYSCTL)
        .find_map(|(place, value)| Some((place, value.parse::<u64>().ok().filter(|host| *host < sum)?)))?;
    Some(Finding {
        place,
        why: "fs.file-max counts the open files of all processes. When it is reached, nothing on the host can open a file or a socket, \
              not even to find out why."
            .to_owned(),
        evidence: vec![format!("{SYSCTL} = {host}"), format!("{workers} workers of {connections} connections")],
        arithmetic: format!("{connections} x {workers} = {sum} > {host}"),
        fix: format!("{SYSCTL} = {}", sum.saturating_mul(2)),
        side_effect: "An open file costs some 1 KB of kernel memory, and a socket 4 KB, once they are there.".to_owned(),
        undo: format!("{SYSCTL} = {host}"),
        ..finding(NAME, Severity::Warning, format!("the host may open {host} files, and the workers {sum} connections"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired, with_sysctl};
    use super::*;
    use crate::live::{Live, Process};

    fn of(main: &str, events: &str) -> usize {
        fired(&check(&facts(&format!("{main}\nevents {{ {events} }}\nhttp {{}}\n"))))
    }

    #[test]
    fn fires_where_connections_outnumber_descriptors() {
        assert_eq!(of("", "worker_connections 10000;"), 1);
        assert_eq!(of("worker_rlimit_nofile 65535;", "worker_connections 100000;"), 1);
        assert_eq!(of("worker_rlimit_nofile 2000000;", "worker_connections 1024;"), 1, "beyond fs.nr_open");
        assert_eq!(of("worker_rlimit_nofile 16384;", "worker_connections 16384;"), 1, "none is left for files");
        assert_eq!(of("worker_groups auto;", "worker_connections 10000;"), 0, "as many processes as it takes");
        let small =
            facts("worker_processes 4; worker_rlimit_nofile 131072;\nevents { worker_connections 65536; }\nhttp {}\n");
        assert_eq!(fired(&check(&with_sysctl(small, "fs.file-max", "100000"))), 1);
    }

    #[test]
    fn fires_only_if_running_processes_lack_the_limit() {
        let of = |limits: [u64; 2]| {
            let mut facts = facts("worker_rlimit_nofile 65536;\nevents { worker_connections 4096; }\nhttp {}\n");
            let processes = limits.map(|limit| Process { pid: 7, used: 9, limit: Some(limit), hard_limit: Some(4096) });
            facts.live = Some(Live { processes: processes.into(), ..Live::default() });
            fired(&check(&facts))
        };
        // The master keeps the limit it was started with.
        assert_eq!((of([1024, 4096]), of([1024, 65_536])), (1, 0));
    }

    #[test]
    fn silent_on_debians_and_nginxs_own_numbers() {
        assert_eq!(of("", "worker_connections 768;"), 0);
        assert_eq!(of("", ""), 0);
        assert_eq!(of("worker_rlimit_nofile 65536;", "worker_connections 30000;"), 0);
    }
}
