//! An accept queue of the running server that is full now, or has dropped connections since it began.

use super::{finding, quoted};
use crate::configuration::{Configuration, argument};
use crate::facts::Facts;
use crate::group::address;
use crate::live::Listener;
use report::{Finding, Severity};

pub(super) const NAME: &str = "accept-queue-overflow";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(live) = &facts.live else { return Vec::new() };
    let mut findings = Vec::new();
    for listener in &live.listeners {
        let is_full = listener.granted.is_some_and(|granted| listener.queue > granted);
        if !is_full && listener.drops == 0 {
            continue;
        }
        let said = facts.configuration.as_ref().and_then(|configuration| line_of(configuration, listener));
        let granted = listener.granted.map_or_else(|| "unknown".to_owned(), |granted| granted.to_string());
        let mut evidence = vec![format!(
            "listener {}: {} waiting, backlog granted {granted}, {} dropped since it began",
            listener.address, listener.queue, listener.drops
        )];
        evidence.extend(
            live.listen_overflows.map(|count| format!("TcpExt ListenOverflows: {count} in this network namespace")),
        );
        evidence.extend(
            facts.system.sysctls.get("net.core.somaxconn").map(|value| format!("net.core.somaxconn = {value}")),
        );
        evidence.extend(said.as_ref().map(|(_, line)| line.clone()));
        let wanted = listener.granted.unwrap_or(511).saturating_mul(8).max(4096);
        findings.push(Finding {
            place: said.map(|(place, _)| place),
            why: "A connection that finds the queue full is dropped without a word; its client sends the SYN again after 1, 3 and 7 \
                  seconds. Either bursts are larger than the queue, or nobody accepts: a worker that is blocked, or at its limit."
                .to_owned(),
            evidence,
            arithmetic: listener.granted.map_or_else(String::new, |granted| format!("a queue of {granted} holds {}", granted + 1)),
            fix: format!("sysctl -w net.core.somaxconn={wanted}\nlisten {} backlog={wanted};   # and a restart", listener.address),
            side_effect: "Under overload all wait longer instead of some being shed.".to_owned(),
            undo: format!("backlog={granted}, and a restart"),
            ..finding(
                NAME,
                if is_full { Severity::Error } else { Severity::Warning },
                if is_full {
                    format!("the accept queue of {} is full now", listener.address)
                } else {
                    format!("{} connections to {} were dropped", listener.drops, listener.address)
                },
            )
        });
    }
    findings
}

/// The `listen` that made it: its place, and the line as evidence.
fn line_of(configuration: &Configuration, listener: &Listener) -> Option<((String, usize, usize), String)> {
    configuration.all("listen").into_iter().find_map(|listen| {
        let text = argument(listen.directive, 0)?;
        let here = address(&text);
        let port = here.map_or_else(|| text.trim_start_matches("*:").parse().ok(), |here| Some(here.port()))?;
        let same = here.is_none_or(|here| here.ip() == listener.address.ip());
        (same && port == listener.address.port()).then(|| {
            (
                configuration.place(listen.directive.span),
                quoted(configuration, listen.directive.span, &format!("listen {text}")),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{facts, fired};
    use super::*;
    use crate::live::Live;

    fn of(queue: u64, drops: u64) -> Vec<Finding> {
        let listener =
            Listener { address: "0.0.0.0:8080".parse().expect("an address"), queue, granted: Some(128), drops };
        let live = Some(Live { listeners: vec![listener], ..Live::default() });
        check(&Facts { live, ..facts("events {}\nhttp { server { listen 8080; } }\n") })
    }

    #[test]
    fn it_fires_on_a_full_queue_and_on_drops_and_names_the_line() {
        let full = of(129, 0);
        assert_eq!((fired(&full), full[0].severity), (1, Severity::Error));
        assert_eq!(full[0].place_text(), "/etc/nginx/nginx.conf:2:17");
        assert_eq!(of(0, 7)[0].severity, Severity::Warning);
    }

    #[test]
    fn it_does_not_on_a_queue_with_room() {
        assert_eq!(fired(&of(100, 0)), 0);
        assert_eq!(fired(&check(&facts("events {}\nhttp { server { listen 8080; } }\n"))), 0, "nobody looked");
    }
}
