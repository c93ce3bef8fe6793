//! An accept queue of the running server is full now, or has dropped connections since it was opened.

use super::listen_backlog::with_backlog;
use super::{Needs, Rule, finding, quoted};
use crate::configuration::{Configuration, argument};
use crate::edit::UNDO;
use crate::facts::Facts;
use crate::group::address;
use crate::live::Listener;
use conf::tree::Directive;
use report::{Finding, Severity};

const SYSCTL: &str = "net.core.somaxconn";
const NAME: &str = "accept-queue-overflow";
const WHY: &str = "A connection that finds the queue full is dropped without a word; its client sends the SYN again after 1, 3 and 7 \
    seconds. Either bursts are larger than the queue, or the application does not accept: a worker is blocked, or at its limit.";
pub(super) const RULE: Rule = Rule {
    name: NAME,
    finds: "a queue that is full, or dropped connections",
    needs: Needs { word: false, running: true },
    why: WHY,
    example: "",
    instead: "",
    check,
};

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
        let line = said.as_ref().zip(facts.configuration.as_ref()).map(|(listen, configuration)| {
            quoted(configuration, listen.span, &format!("listen {}", argument(listen, 0).unwrap_or_default()))
        });
        evidence.extend(line);
        let wanted = listener.granted.unwrap_or(511).saturating_mul(8).max(4096);
        findings.push(Finding {
            place: said
                .zip(facts.configuration.as_ref())
                .map(|(listen, configuration)| configuration.place(listen.span)),
            why: WHY.to_owned(),
            evidence,
            arithmetic: listener
                .granted
                .map_or_else(String::new, |granted| format!("a queue of {granted} holds {}", granted + 1)),
            fix: fix(facts, said, wanted),
            side_effect: "Under overload all wait longer instead of some being shed.".to_owned(),
            undo: undo(facts, said),
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

/// Raises the kernel's limit if it is too low, and the backlog in the `listen` line.
fn fix(facts: &Facts, said: Option<&Directive>, wanted: u64) -> String {
    let allowed = facts.system.number(SYSCTL).is_some_and(|allowed| allowed >= wanted);
    let kernel = if allowed { String::new() } else { format!("sysctl -w {SYSCTL}={wanted}\n") };
    let line = match (&facts.configuration, said) {
        (Some(configuration), Some(listen)) => with_backlog(configuration, listen, wanted),
        _ => format!("# and a backlog of {wanted} in the server, then a restart"),
    };
    kernel + &line
}

fn undo(facts: &Facts, said: Option<&Directive>) -> String {
    let kernel = facts.system.number(SYSCTL).map(|allowed| format!("sysctl -w {SYSCTL}={allowed}"));
    let line = said.map(|_| format!("# {UNDO}"));
    let parts: Vec<String> = kernel.into_iter().chain(line).collect();
    if parts.is_empty() { "# the backlog as it was, and a restart".to_owned() } else { parts.join("\n") }
}

/// Parameters of a socket: only one `listen` of an address may have them.
const OF_THE_SOCKET: [&str; 5] = ["backlog=", "reuseport", "deferred", "bind", "rcvbuf="];

/// The `listen` line that opened the socket: if several servers share the address, the one with the socket's
/// parameters.
fn line_of<'a>(configuration: &'a Configuration, listener: &Listener) -> Option<&'a Directive> {
    let listens = configuration.listens();
    let same = |directive: &Directive| {
        let text = argument(directive, 0)?;
        let here = address(&text);
        let port = here.map_or_else(|| text.trim_start_matches("*:").parse().ok(), |here| Some(here.port()))?;
        let same = here.is_none_or(|here| here.ip() == listener.address.ip());
        (same && port == listener.address.port()).then_some(())
    };
    let all: Vec<&Directive> =
        listens.iter().map(|listen| listen.directive).filter(|listen| same(listen).is_some()).collect();
    let makes = |listen: &&&Directive| {
        listen.args.iter().any(|word| OF_THE_SOCKET.iter().any(|name| word.text().starts_with(name)))
    };
    all.iter().find(makes).or(all.first()).copied()
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
    fn fires_on_full_queues_and_drops_with_the_line() {
        let full = of(129, 0);
        assert_eq!((fired(&full), full[0].severity), (1, Severity::Error));
        assert_eq!(full[0].place_text(), "/etc/nginx/nginx.conf:2:17");
        assert_eq!(of(0, 7)[0].severity, Severity::Warning);
    }

    #[test]
    fn silent_on_a_queue_with_room() {
        assert_eq!(fired(&of(100, 0)), 0);
        assert_eq!(fired(&check(&facts("events {}\nhttp { server { listen 8080; } }\n"))), 0, "sockets were not read");
    }
}
