//! A worker promises more connections than it may have descriptors: each proxied one takes two.

use super::{finding, quoted};
use crate::configuration::number;
use crate::facts::Facts;
use report::{Finding, Severity};

pub(super) const NAME: &str = "descriptors-too-few";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let connections = configuration.worker_connections();
    let limit = configuration.main("worker_rlimit_nofile").and_then(|directive| number(directive, 0));
    let (allowed, whose) = match (limit, facts.system.descriptors) {
        (Some(limit), _) => (limit, "worker_rlimit_nofile"),
        (None, Some(limit)) => (limit, "the process's limit (ulimit -n)"),
        (None, None) => return Vec::new(),
    };
    // worker_connections counts both sockets of a proxied connection, so descriptors beyond it are never needed but for
    // listeners, logs and files.
    if connections <= allowed {
        return too_high(facts, limit).into_iter().chain(host_too_few(facts, connections)).collect();
    }
    let said = configuration.events("worker_connections");
    let evidence = said.map_or_else(
        || format!("worker_connections is {connections} where nothing is said"),
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
        fix: format!("worker_rlimit_nofile {wanted};"),
        side_effect: "A worker can hold more sockets, and their kernel memory of some 4 KB each.".to_owned(),
        undo: "The line removed, and a restart: a running worker keeps its limit.".to_owned(),
        ..finding(NAME, Severity::Error, format!("a worker may have {allowed} descriptors for {connections} connections"))
    }]
}

/// A limit that the kernel refuses, so that nginx goes on with the old one and an alert in its log.
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

/// All workers together may open more than the kernel hands out to the whole host.
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

    fn of(main: &str, events: &str) -> usize {
        fired(&check(&facts(&format!("{main}\nevents {{ {events} }}\nhttp {{}}\n"))))
    }

    #[test]
    fn it_fires_where_connections_outnumber_descriptors() {
        assert_eq!(of("", "worker_connections 10000;"), 1);
        assert_eq!(of("worker_rlimit_nofile 65535;", "worker_connections 100000;"), 1);
        assert_eq!(of("worker_rlimit_nofile 2000000;", "worker_connections 1024;"), 1, "beyond fs.nr_open");
        let small =
            facts("worker_processes 4; worker_rlimit_nofile 65536;\nevents { worker_connections 65536; }\nhttp {}\n");
        assert_eq!(fired(&check(&with_sysctl(small, "fs.file-max", "100000"))), 1);
    }

    #[test]
    fn it_does_not_on_debians_and_nginxs_own_numbers() {
        assert_eq!(of("", "worker_connections 768;"), 0);
        assert_eq!(of("", ""), 0);
        assert_eq!(of("worker_rlimit_nofile 65536;", "worker_connections 30000;"), 0);
    }
}
