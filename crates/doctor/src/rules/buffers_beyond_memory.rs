//! Response buffers that exceed the memory if all connections are slow at once: the kernel then kills the proxy.

use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, Found, bytes, number};
use crate::edit::{Change, UNDO};
use crate::facts::Facts;
use conf::tree::Directive;
use report::figure::shown;
use report::{Finding, Severity, Unit};

const NAME: &str = "buffers-beyond-memory";
const WHY: &str = "A response that its client reads slowly is in these buffers. When many clients are slow at once, as after a \
    broadcast or on a bad network, the sum passes the memory and the kernel ends the proxy with all its connections.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "`proxy_buffers` × connections above the memory or the control group's limit",
    needs: Needs::NOTHING,
    why: WHY,
    example: "worker_processes 4;
worker_rlimit_nofile 200000;
events { worker_connections 100000; }
http {
    proxy_buffers 4 256k;
    server { location / { proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; proxy_read_timeout 900s; proxy_pass http://127.0.0.1:3000; } }
}",
    instead: "worker_processes 4;
worker_rlimit_nofile 200000;
events { worker_connections 100000; }
http {
    proxy_buffers 4 8k;
    server { location / { proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; proxy_read_timeout 900s; proxy_pass http://127.0.0.1:3000; } }
}",
    check,
};
/// nginx's default on a machine with pages of 4 KB.
const BUFFER_SIZE_DEFAULT: u64 = 4096;
const BUFFERS_DEFAULT: (u64, u64) = (8, 4096);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let (Some(configuration), Some(memory)) = (&facts.configuration, facts.system.memory_bytes) else {
        return Vec::new();
    };
    let Some(workers) = configuration.workers(facts.system.cpus) else { return Vec::new() };
    // A proxied connection takes two of worker_connections.
    let connections = configuration.worker_connections().saturating_mul(workers) / 2;
    let mut seen = Vec::new();
    let mut findings = Vec::new();
    for pass in configuration.all("proxy_pass") {
        // Without the directive the size is the default; the defaults are 36 KB.
        let Some(said) = pass.inherited("proxy_buffers") else { continue };
        if pass
            .inherited("proxy_buffering")
            .is_some_and(|directive| directive.args.first().is_some_and(|word| word.value == *b"off"))
        {
            continue;
        }
        let each = of_one(&pass);
        let sum = each.saturating_mul(connections);
        if sum <= memory || seen.contains(&said.span) {
            continue;
        }
        seen.push(said.span);
        let size = |value: u64| shown(value as f64, &Unit::Bytes);
        findings.push(Finding {
            place: Some(configuration.place(said.span)),
            why: WHY.to_owned(),
            evidence: vec![
                quoted(configuration, said.span, &format!("up to {} for each response", size(each))),
                format!("{connections} proxied connections at most, {} of memory", size(memory)),
            ],
            arithmetic: format!("{} x {connections} = {} > {}", size(each), size(sum), size(memory)),
            fix: fix(configuration, &pass, said, memory, workers),
            side_effect: "Large responses to slow clients go through a temporary file, or hold their upstream connection longer; with \
                          proxy_max_temp_file_size 0 the upstream waits for the client."
                .to_owned(),
            undo: UNDO.to_owned(),
            ..finding(NAME, Severity::Warning, format!("proxy_buffers may grow to {}, of {} of memory", size(sum), size(memory)))
        });
    }
    findings
}

/// Few buffers, each as large as the head's. The head's buffer keeps its size, because upstreams may need it. If even
/// these are too many, fewer connections.
fn fix(configuration: &Configuration, pass: &Found<'_>, said: &Directive, memory: u64, workers: u64) -> String {
    const FEW: u64 = 4;
    let head = pass.inherited("proxy_buffer_size").and_then(|line| bytes(line, 0)).unwrap_or(BUFFER_SIZE_DEFAULT);
    let each = head.max(8192);
    let sum = head.saturating_add(each.saturating_mul(FEW)).max(1);
    let mut change = Change::new(configuration);
    if sum < of_one(pass) {
        change.replace(said.span, format!("proxy_buffers {FEW} {}k;", each.div_ceil(1024)));
        if let Some(busy) = pass.inherited("proxy_busy_buffers_size") {
            change.replace(busy.span, format!("proxy_busy_buffers_size {}k;", each.div_ceil(1024) * 2));
        }
    }
    let fits = memory / sum.min(of_one(pass)) * 2 / workers.max(1);
    if let Some(events) = configuration.main("events").filter(|_| fits < configuration.worker_connections()) {
        change.set(events, format!("worker_connections {};", fits.max(1)));
    }
    change.fix()
}

fn of_one(pass: &Found<'_>) -> u64 {
    let head =
        pass.inherited("proxy_buffer_size").and_then(|directive| bytes(directive, 0)).unwrap_or(BUFFER_SIZE_DEFAULT);
    let body = pass.inherited("proxy_buffers").and_then(|directive| number(directive, 0).zip(bytes(directive, 1)));
    let (count, size) = body.unwrap_or(BUFFERS_DEFAULT);
    head.saturating_add(count.saturating_mul(size))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired};
    use super::*;

    fn of(events: &str, location: &str) -> usize {
        let text = format!(
            "worker_processes auto;\nevents {{ {events} }}\nhttp {{ upstream api {{ server 127.0.0.1:1; }}\n\
                            server {{ location / {{ {location} proxy_pass http://api; }} }} }}\n"
        );
        fired(&check(&facts(&text)))
    }

    #[test]
    fn fires_on_buffers_that_outgrow_the_memory() {
        // 100,000 x 4 workers / 2 x (4 KiB + 4 x 32 KiB) = 25 GiB of 8.
        assert_eq!(of("worker_connections 100000;", "proxy_buffers 4 32k;"), 1);
        assert_eq!(of("worker_connections 1024;", "proxy_buffers 64 256k;"), 1);
    }

    #[test]
    fn silent_on_fitting_values_or_without_buffering_or_on_defaults() {
        assert_eq!(of("worker_connections 1024;", "proxy_buffers 4 32k;"), 0);
        assert_eq!(of("worker_connections 100000;", "proxy_buffering off; proxy_buffers 4 32k;"), 0);
        assert_eq!(of("worker_connections 1000000;", ""), 0);
    }
}
