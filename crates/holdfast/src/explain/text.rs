//! An explanation for a terminal: the steps in their order, and the answer in the last lines.

use ::gateway::explain::{ConfigPlace, ExplainedEnd, Explanation, LocalAnswer, Phase, UpstreamAnswer};
use std::fmt::Write as _;

/// Most lines of details of one step, unless all are wanted.
const DETAILS_MAX: usize = 6;
/// Columns for the name of a phase.
const PHASE_COLUMNS: usize = 11;

/// The whole text.
pub(super) fn render(explanation: &Explanation, full: bool, colours: bool) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}\n", explanation.request);
    let mut before = None;
    for step in &explanation.steps {
        let phase = if before == Some(step.phase) { "" } else { word(step.phase) };
        before = Some(step.phase);
        line(&mut out, phase, &step.text, step.at.as_ref(), colours);
        let wanted = full || step.phase == Phase::Location;
        let most = if full { usize::MAX } else { DETAILS_MAX };
        for detail in step.details.iter().take(most).filter(|_| wanted) {
            let directive = detail.at.as_ref().map(|at| &*at.text).filter(|text| *text != detail.text);
            let text = match directive {
                Some(directive) => format!("  {directive}: {}", detail.text),
                None => format!("  {}", detail.text),
            };
            line(&mut out, "", &text, detail.at.as_ref(), colours);
        }
        if wanted && step.details.len() > most {
            line(&mut out, "", &format!("  … {} more (--full)", step.details.len() - most), None, colours);
        }
    }
    for text in &explanation.log {
        line(&mut out, "error log", text, None, colours);
    }
    for text in &explanation.assumptions {
        line(&mut out, "assumed", text, None, colours);
    }
    out.push('\n');
    outcome(&mut out, &explanation.outcome);
    out
}

fn line(out: &mut String, phase: &str, text: &str, at: Option<&ConfigPlace>, colours: bool) {
    let place = at.map(|at| format!("{}:{}", at.file, at.line)).unwrap_or_default();
    let _ = match (place.is_empty(), colours) {
        (true, _) => writeln!(out, "{phase:PHASE_COLUMNS$}{text}"),
        (false, false) => writeln!(out, "{phase:PHASE_COLUMNS$}{text}  {place}"),
        // Faint: the place helps, but it is not what is read first.
        (false, true) => writeln!(out, "{phase:PHASE_COLUMNS$}{text}  \x1b[2m{place}\x1b[0m"),
    };
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Listener => "listener",
        Phase::Server => "server",
        Phase::Location => "location",
        Phase::Rewrite => "rewrite",
        Phase::Limits => "limits",
        Phase::Access => "access",
        Phase::Files => "files",
        Phase::Redirect => "redirect",
        Phase::ErrorPage => "error page",
        Phase::Cache => "cache",
        Phase::Upstream => "upstream",
        Phase::Answer => "answer",
    }
}

fn outcome(out: &mut String, outcome: &ExplainedEnd) {
    let _ = match outcome {
        ExplainedEnd::Answer(answer) => {
            local(out, answer);
            Ok(())
        }
        ExplainedEnd::Upstream(upstream) => {
            proxied(out, upstream);
            Ok(())
        }
        ExplainedEnd::Closed { status } => {
            writeln!(out, "The connection is closed without an answer ({status} in the log).")
        }
        ExplainedEnd::Unknown { reason } => writeln!(out, "The end is not known: {reason}."),
    };
}

fn local(out: &mut String, answer: &LocalAnswer) {
    let _ = writeln!(out, "The gateway answers {}.", answer.status);
    for (name, value) in &answer.headers {
        let _ = writeln!(out, "  {name}: {value}");
    }
    if let Some(file) = &answer.file {
        let _ = writeln!(out, "  File: {file}");
    }
    for text in answer.body.iter().flat_map(|body| body.lines()) {
        let _ = writeln!(out, "  | {text}");
    }
}

fn proxied(out: &mut String, upstream: &UpstreamAnswer) {
    let UpstreamAnswer { protocol, group, .. } = upstream;
    let to = match &upstream.peer {
        Some(peer) if peer != group => format!("{group}, peer {peer}"),
        _ => group.clone(),
    };
    let _ = writeln!(out, "The request goes to {to} ({protocol}).");
    if !upstream.request_line.is_empty() {
        let _ = writeln!(out, "  {}", upstream.request_line);
    }
    for (name, value) in &upstream.headers {
        let _ = writeln!(out, "  {name}: {value}");
    }
    if upstream.peers.len() > 1 {
        let _ = writeln!(out, "Peers ({}: {}):", upstream.method, upstream.how);
        for peer in &upstream.peers {
            let chosen = if peer.address.is_some() && peer.address == upstream.peer { " <- this one" } else { "" };
            let words = [(peer.backup, " backup"), (peer.down, " down")];
            let words: String = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
            let _ = writeln!(out, "  {} weight={}{words}{chosen}", peer.server, peer.weight);
        }
    }
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let _ = writeln!(
        out,
        "Timeouts: connect {} s, send {} s, read {} s.",
        seconds(upstream.connect_timeout_ms),
        seconds(upstream.send_timeout_ms),
        seconds(upstream.read_timeout_ms)
    );
}
