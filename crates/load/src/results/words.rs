//! Lines that the text report of every load has: its plan, the sockets, the generator's lag and its cause, the thresholds.

use super::units::time;
use crate::drive::sockets::Sockets;
use crate::remote::AgentFigures;
use crate::{Health, Latencies, Machine, Plan, Verdict};
use report::Outcome;
use report::text::grouped;
use std::fmt::Write as _;
use watch::model::tally::StateCounts;

/// The line before the first socket: the number of processes, and the limit that the load would reach first.
pub(crate) fn plan_line(plan: &Plan) -> String {
    let processes = if plan.processes == 1 { String::new() } else { format!("{} processes; ", plan.processes) };
    let scarcest = plan.scarcest().map_or_else(String::new, |need| {
        let (needed, available) = (grouped(need.needed), grouped(need.available));
        format!("first limit: {}, {needed} of {available} ({:.2} %)", need.what, need.share() * 100.0)
    });
    format!("plan        {processes}{scarcest}")
}

/// The kernel's figures for the sockets towards the targets.
pub(crate) fn tcp(sockets: &Sockets, text: &mut String) {
    let looks = &sockets.looks;
    let states = |histogram: &StateCounts| {
        let states = histogram.present().map(|(state, count)| format!("{state} {}", grouped(count)));
        let states: Vec<String> = states.collect();
        if states.is_empty() { "none".to_owned() } else { states.join(", ") }
    };
    if let (Some(last), Some(after)) = (looks.last(), looks.after()) {
        let _ = writeln!(text, "tcp         at most {}; in the end {}", states(looks.most()), states(&after.states));
        let (during, all) = (last.closes, after.closes);
        let _ = writeln!(
            text,
            "            closed first by the target {}, by the load {} (of them {} at the end), unknown {}",
            grouped(all.peer),
            grouped(all.this_side),
            grouped(all.this_side.saturating_sub(during.this_side)),
            grouped(all.unknown)
        );
        let (window_zero, unread) = looks.most_stuck();
        let _ = writeln!(
            text,
            "            {} segments sent again; at most {} sockets with the target's window zero, {} not read here ({} looks of at \
             most {} CPU)",
            grouped(after.sent_again),
            grouped(window_zero),
            grouped(unread),
            grouped(looks.count()),
            time(sockets.took_max.as_nanos() as f64)
        );
    }
    for note in &sockets.notes {
        let _ = writeln!(text, "            {note}");
    }
    text.push('\n');
}

/// The cause of a lag: the part of the generator's own work, the duration of its loop's turns, and the machine's part.
pub(crate) fn whose(own: &Latencies, turn: &Latencies, machine: Machine, text: &mut String) {
    let _ = writeln!(text, "            its own work was the cause of {}; for the rest it was not run", lateness(own));
    let _ = writeln!(
        text,
        "            a turn of its loop took p50 {}, p99.9 {}, max {}",
        time(turn.quantile_ns(0.5) as f64),
        time(turn.quantile_ns(0.999) as f64),
        time(turn.max_ns() as f64),
    );
    self::machine(machine, text);
}

/// A lag at several quantiles.
pub(crate) fn lateness(lag: &Latencies) -> String {
    let quantile = |quantile| time(lag.quantile_ns(quantile) as f64);
    let (p50, p99, p999, max) = (quantile(0.5), quantile(0.99), quantile(0.999), time(lag.max_ns() as f64));
    format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")
}

/// The generator's condition: its lag and whether it matters, remarks for the reader, and why the run counts for nothing.
pub(crate) fn condition(health: &Health, verdicts: &[Verdict], text: &mut String) {
    if let (Some(late), Some(meaning)) = (&health.late, health.of_lateness(verdicts)) {
        let _ = writeln!(text, "late        {late}\n            {meaning}");
    }
    for note in &health.notes {
        let _ = writeln!(text, "note        {note}");
    }
    for reason in &health.void {
        let _ = writeln!(text, "VOID        {reason}");
    }
}

/// A line for each threshold. In a void run no threshold counts as met.
pub(crate) fn thresholds(health: &Health, verdicts: &[Verdict], text: &mut String) {
    for verdict in verdicts {
        let word = match outcome(health, verdict) {
            Outcome::Holds => "met   ",
            Outcome::Fails => "FAILED",
            _ => "VOID  ",
        };
        let why = verdict.undecided.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        let _ = writeln!(text, "{word}  {}: measured {}{why}", verdict.expected, verdict.measured);
    }
}

/// The result of all thresholds, for the end of a sentence.
pub(crate) fn verdict(health: &Health, verdicts: &[Verdict]) -> String {
    let of = |wanted: Outcome| verdicts.iter().filter(|verdict| outcome(health, verdict) == wanted).collect::<Vec<_>>();
    let (missed, void) = (of(Outcome::Fails), of(Outcome::Void));
    let names =
        |verdicts: &[&Verdict]| verdicts.iter().map(|verdict| verdict.expected.as_str()).collect::<Vec<_>>().join(", ");
    match (verdicts.len(), missed.as_slice(), void.as_slice()) {
        _ if !health.void.is_empty() => "the run is void.".to_owned(),
        (0, ..) => "no threshold was set.".to_owned(),
        (_, [_, ..], _) => format!("missed: {}.", names(&missed)),
        (_, [], [_, ..]) => format!("void: {}.", names(&void)),
        (1, ..) => "the threshold is met.".to_owned(),
        (all, ..) => format!("all {all} thresholds are met."),
    }
}

/// The outcome of a threshold, the same in every form of the report.
pub(crate) fn outcome(health: &Health, verdict: &Verdict) -> Outcome {
    match (&verdict.undecided, verdict.met) {
        _ if !health.void.is_empty() => Outcome::Void,
        (Some(_), _) => Outcome::Void,
        (None, true) => Outcome::Holds,
        (None, false) => Outcome::Fails,
    }
}

/// Agents in the table.
const AGENTS_SHOWN: usize = 256;

/// A line for each agent of a farm.
pub(crate) fn agents(agents: &[AgentFigures], text: &mut String) {
    if agents.is_empty() {
        return;
    }
    let _ =
        writeln!(text, "{:>12} {:>10} {:>10} {:>16} {:>5}  agent", "responses", "late p99", "began", "clock", "cores");
    for agent in agents.iter().take(AGENTS_SHOWN) {
        let began = agent.late_ns.map_or_else(|| "-".to_owned(), |late_ns| format!("+{}", time(late_ns as f64)));
        let remarks = if agent.remarks.is_empty() { String::new() } else { format!(": {}", agent.remarks.join("; ")) };
        let clock = format!("within {}", time(agent.clock_error_ns as f64));
        let _ = writeln!(
            text,
            "{:>12} {:>10} {began:>10} {clock:>16} {:>5}  {}{remarks}",
            grouped(agent.responses),
            time(agent.lag_ns as f64),
            agent.cores,
            agent.name
        );
    }
    text.push('\n');
}

/// Adds the machine's part in a lag.
pub(crate) fn machine(machine: Machine, text: &mut String) {
    let known = machine.to_string();
    if !known.is_empty() {
        let _ = writeln!(text, "machine     {known}");
    }
}
