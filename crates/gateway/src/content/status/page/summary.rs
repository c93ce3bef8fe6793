//! The top of the page: one sentence with the answer, and the figures that matter.

use crate::content::status::page::room::EXHAUSTED_SOON_S;
use crate::content::status::page::traffic::CERTIFICATE_SOON_S;
use crate::content::status::page::{bytes, count, escaped};
use crate::content::status::snapshot::Snapshot;
use std::fmt::Write as _;

/// Most problems in the sentence.
const PROBLEMS_MAX: usize = 3;

/// What is wrong at present, or that nothing is.
pub(super) fn answer(page: &mut String, now: &Snapshot) {
    let problems = problems(now);
    let text = match problems.as_slice() {
        [] if now.recent.seconds > 0.0 => {
            format!("{} requests/s. No problem is known.", rate(now.recent.requests_per_second()))
        }
        [] => "No problem is known.".to_owned(),
        problems => problems.join(" "),
    };
    let class = if problems.is_empty() { "answer" } else { "answer bad" };
    let _ = writeln!(page, "<p class=\"{class}\">{text}</p>");
}

fn problems(now: &Snapshot) -> Vec<String> {
    let mut problems = Vec::new();
    for group in &now.groups {
        let checked = group.peers.iter().filter_map(|peer| peer.check.as_ref());
        let (all, bad) =
            checked.fold((0, 0), |(all, bad), check| (all + 1, bad + u32::from(check.state == "unhealthy")));
        if bad > 0 {
            problems.push(format!("{bad} of {all} peers of {} fail their health check.", escaped(&group.name)));
        }
    }
    for pair in &now.ports.pairs {
        match pair.exhausted_in_s {
            _ if pair.free == 0 => {
                problems.push(format!(
                    "No local port is left from {} to {}.",
                    escaped(&pair.source),
                    escaped(&pair.peer)
                ));
            }
            Some(seconds) if seconds < EXHAUSTED_SOON_S => problems.push(format!(
                "Local ports from {} to {} run out in {seconds:.0} s.",
                escaped(&pair.source),
                escaped(&pair.peer)
            )),
            _ => {}
        }
    }
    if now.memory.pressure != "none" {
        problems.push(format!("Memory is short: {} are given up.", escaped(&now.memory.pressure)));
    }
    let now_s = (now.started_at_s + now.uptime_s) as i64;
    for certificate in now.tls.certificates.iter().filter(|one| one.not_after_s < now_s + CERTIFICATE_SOON_S) {
        let days = (certificate.not_after_s - now_s).div_euclid(86_400);
        let subject = escaped(&certificate.subject);
        problems.push(match days {
            ..0 => format!("The certificate of {subject} has ended."),
            _ => format!("The certificate of {subject} ends in {days} days."),
        });
    }
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    if more > 0 {
        problems.truncate(PROBLEMS_MAX);
        problems.push(format!("And {more} more."));
    }
    problems
}

/// Three significant digits.
fn rate(value: f64) -> String {
    match value {
        value if value >= 100.0 => count(value.round() as u64),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

pub(super) fn cards(page: &mut String, now: &Snapshot) {
    let recent = &now.recent;
    let span = if recent.seconds > 0.0 {
        format!("in the last {:.1} s", recent.seconds)
    } else {
        "not measured yet".to_owned()
    };
    let share = recent.server_errors as f64 * 100.0 / recent.responses.max(1) as f64;
    let p99 = match recent.p99_at_most_ms {
        Some(bound) => format!("\u{2264} {bound} ms"),
        None if recent.responses > 0 => "&gt; 60 s".to_owned(),
        None => "-".to_owned(),
    };
    let p50 = recent.p50_at_most_ms.map_or_else(String::new, |bound| format!("half of them \u{2264} {bound} ms"));
    let idle = format!("{} idle", count(now.connections.waiting));
    let budget =
        now.memory.budget_bytes.map_or_else(|| "no budget".to_owned(), |budget| format!("of {}", bytes(budget)));
    let cards = [
        ("Requests/s", rate(recent.requests_per_second()), recent.requests_per_second(), span),
        (
            "Responses 5xx",
            format!("{share:.1} %"),
            share,
            format!("{} of {}", count(recent.server_errors), count(recent.responses)),
        ),
        ("99 % of requests", p99, recent.p99_at_most_ms.unwrap_or_default(), p50),
        ("Client connections", count(now.connections.active), now.connections.active as f64, idle),
        ("Tunnels", count(now.connections.tunnels), now.connections.tunnels as f64, String::new()),
        ("Memory of connections", bytes(now.memory.held_bytes), now.memory.held_bytes as f64, budget),
    ];
    page.push_str("<div class=\"cards\">\n");
    for (what, value, number, beside) in cards {
        let _ = writeln!(
            page,
            "<div class=\"figure\" data-key=\"{what}\" data-value=\"{number}\"><div class=\"what\">{what}</div><div class=\"value\">{value}</div>\
             <div class=\"beside\">{beside}</div></div>"
        );
    }
    page.push_str("</div>\n");
}
