//! A plan as a document: first the verdict, then every limit with its calculation, then the load of each host.

use super::{Chain, Limit, Plan, Ports, cheapest, limits};
use report::{Document, Figure, Outcome, Section, Severity, Table, Unit, Verdict};
use std::fmt::Write as _;

fn connections(value: u64) -> Figure {
    Figure::exact(value as f64, Unit::of("connections"))
}

/// The output of `holdfast plan`. `made_by` is program and version.
pub fn document(chain: &Chain, plan: &Plan, made_by: &str) -> Document {
    let title = if chain.title.is_empty() { "Plan" } else { &chain.title };
    let mut document = Document::new(title, made_by);
    document.facts.push(("wanted".to_owned(), connections(chain.connections).to_string()));
    let tiers: Vec<String> = chain.tiers.iter().map(|tier| format!("{} x {}", tier.hosts, tier.name)).collect();
    document.facts.push(("chain".to_owned(), tiers.join(" -> ")));
    let mut section = Section::new("The first limit");
    if let Some(first) = plan.first() {
        section = section.verdict(verdict(chain, first));
    }
    for (place, sentence) in &plan.timeouts {
        section = section.note(Severity::Warning, format!("{place} {sentence}."));
    }
    for (hop, quick) in &plan.slow_hops {
        let text = format!(
            "{hop}: beyond {} half of the ports are used up. From then on Linux looks at thousands of ports for each connect, \
             which takes up to a millisecond of CPU (not with Holdfast on Linux 6.8 or later). More addresses or ports listened \
             on avoid it.",
            connections(*quick)
        );
        section = section.note(Severity::Warning, text);
    }
    document
        .section(section)
        .section(limits_section(chain, plan))
        .section(hosts_section(chain))
        .section(unchecked(chain))
}

fn verdict(chain: &Chain, first: &Limit) -> Verdict {
    let holds = first.connections_max >= chain.connections;
    let mut reason = format!(
        "{} of {} bind first, at {}: {}.",
        first.resource,
        first.place,
        connections(first.connections_max),
        first.arithmetic
    );
    let wanted = chain.connections;
    let lever = cheapest(first, wanted).filter(|_| !holds);
    if let Some(lever) = lever {
        let through = if lever.connections_max == u64::MAX {
            "no longer a limit".to_owned()
        } else {
            connections(lever.connections_max).to_string()
        };
        let _ = write!(reason, " Cheapest lever: {} ({through}).", lever.action);
    }
    Verdict {
        claim: format!("the chain carries {}", connections(wanted)),
        outcome: if holds { Outcome::Holds } else { Outcome::Fails },
        reason,
        brief: String::new(),
        evidence: vec![("carries".to_owned(), connections(first.connections_max))],
    }
}

fn limits_section(chain: &Chain, plan: &Plan) -> Section {
    let mut table =
        Table::new("Limits, lowest first", &["where", "what", "connections", "how", "next lever if too low"]);
    for limit in &plan.limits {
        let lever = cheapest(limit, chain.connections).filter(|_| limit.connections_max < chain.connections);
        table = table.row(vec![
            limit.place.as_str().into(),
            limit.resource.into(),
            connections(limit.connections_max).into(),
            limit.arithmetic.as_str().into(),
            lever.map_or("", |lever| lever.action.as_str()).into(),
        ]);
    }
    Section::new("All limits").table(table)
}

fn hosts_section(chain: &Chain) -> Section {
    let columns = ["tier", "sockets per host", "memory per host", "of that in the kernel"];
    let mut table = Table::new("What each host carries, at the number wanted and evenly spread", &columns);
    let last = chain.tiers.len().saturating_sub(1);
    for (place, tier) in chain.tiers.iter().enumerate() {
        let sockets = if place == 0 || place == last { 1 } else { 2 };
        let share = chain.connections.div_ceil(tier.hosts);
        let each = limits::bytes_each(tier, sockets);
        let bytes = |each: u64| Figure::exact(share as f64 * each as f64, Unit::Bytes).into();
        table = table.row(vec![
            tier.name.as_str().into(),
            Figure::exact(share.saturating_mul(sockets) as f64, Unit::of("sockets")).into(),
            bytes(each),
            bytes(each.saturating_sub(tier.user_bytes)),
        ]);
    }
    Section::new("Hosts").table(table)
}

/// Lists the limits that were not checked because they have no value: without the list they would seem sufficient.
fn unchecked(chain: &Chain) -> Section {
    let mut section = Section::new("Not checked");
    // Every tier except the last opens connections and has a port range, given or assumed.
    let opening = chain.tiers.split_last().map(|(_, opening)| opening).unwrap_or_default();
    for tier in opening.iter().filter(|tier| tier.ports == Ports::default()) {
        let count = Figure::exact(tier.ports.count() as f64, Unit::of("ports"));
        let text = format!("{}: {count}, the default range of the kernel; the hosts may have another", tier.name);
        section = section.note(Severity::Note, text);
    }
    for tier in &chain.tiers {
        let given = [
            ("descriptors", tier.descriptors.is_some()),
            ("file_max", tier.file_max.is_some()),
            ("memory", tier.memory.is_some()),
            ("conntrack_max", tier.conntrack_max.is_some()),
            ("bandwidth", tier.bandwidth.is_some()),
            ("idle_timeout_seconds", tier.idle_timeout_seconds.is_some()),
        ];
        let missing: Vec<&str> = given.iter().filter(|(_, given)| !given).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            section = section.note(Severity::Note, format!("{}: {}", tier.name, missing.join(", ")));
        }
    }
    if section.blocks.is_empty() { section.note(Severity::Note, "Everything was given.") } else { section }
}
