//! The figures by arm: throughput and latency, CPU of each process with the bottleneck, memory, sockets by TCP state, counters.

use super::arms::{Arm, Arms};
use crate::figure;
use report::{Cell, Figure, Section, Severity, Table, Unit};
use std::collections::BTreeSet;

/// All tables; figures without measurements have none.
pub(super) fn sections(arms: &Arms<'_>) -> Vec<Section> {
    let sections = [throughput(arms), shares(arms), cpu(arms), memory(arms), sockets(arms), counters(arms)];
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

fn throughput(arms: &Arms<'_>) -> Section {
    let section = Section::new("Throughput and latency");
    let Some(first) = arms.as_slice().first() else { return section };
    let mut table = Table::new("Throughput of all loads together", &["arm", "requests/s"]);
    table.columns.push(format!("of {}", first.name));
    let latencies =
        ["latency_ms.mean", "latency_ms.p50", "latency_ms.p90", "latency_ms.p99", "latency_ms.p99.9", "latency_ms.max"];
    let shown: Vec<&str> = latencies.into_iter().filter(|name| arms.has(name)).collect();
    table.columns.extend(["requests", "failed"].map(str::to_owned));
    let mut times = Table::new("Latency of all loads together", &["arm"]);
    times.columns.extend(shown.iter().map(|name| name.trim_start_matches("latency_ms.").to_owned()));
    let causes = arms.named("failed.");
    let bottlenecks = arms.iter().any(|arm| arm.bottleneck().is_some());
    if bottlenecks {
        table.columns.push("bottleneck".to_owned());
    }
    for arm in arms.iter() {
        let mut row = vec![name(arm), arm.cell("requests_per_second"), over(arm, first, "requests_per_second")];
        times = times.row([name(arm)].into_iter().chain(shown.iter().map(|figure| arm.cell(figure))).collect());
        row.extend([arm.cell("requests"), arm.cell("failed")]);
        if bottlenecks {
            row.push(arm.bottleneck().unwrap_or_default().into());
        }
        table = table.row(row);
    }
    let section = section.table(table);
    let section = if shown.is_empty() { section } else { section.table(times) };
    let section = match by_load(arms) {
        Some(table) => section.note(Severity::Note, together(arms)).table(table),
        None => section,
    };
    let lateness = by_figure("How late the loads themselves were", arms, lateness(arms).iter().map(String::as_str));
    let section = if lateness.rows.is_empty() { section } else { section.table(lateness) };
    let causes: Vec<String> =
        causes.into_iter().map(|cause| format!("failed.{cause}")).filter(|name| arms.has(name)).collect();
    if causes.is_empty() {
        return section;
    }
    section.table(by_figure("Failures by cause", arms, causes.iter().map(String::as_str)))
}

/// The lag that the loads report, if they do.
fn lateness(arms: &Arms<'_>) -> Vec<String> {
    const TOLD: [&str; 5] = ["lag_ms.p50", "lag_ms.p99", "lag_ms.p99.9", "lag_ms.max", "lag_own_ms.p99.9"];
    let loads = arms.record.experiment.loads.iter().map(crate::experiment::Load::name);
    let names = loads.flat_map(|load| TOLD.map(|told| format!("{load}.{told}")));
    names.filter(|name| arms.has(name)).collect()
}

/// The arm's name, with the number of samples that count if some are void.
fn name(arm: &Arm<'_>) -> Cell {
    if arm.void.is_empty() { arm.name.into() } else { format!("{} ({} void)", arm.name, arm.void.len()).into() }
}

/// The figure divided by that of another arm, in each round.
fn over(arm: &Arm<'_>, other: &Arm<'_>, figure: &str) -> Cell {
    let percent: Vec<f64> = arm.over(other, figure).iter().map(|ratio| 100.0 * ratio).collect();
    match percent.as_slice() {
        [] => "–".into(),
        _ if std::ptr::eq(arm, other) => Figure::exact(100.0, Unit::Percent).into(),
        percent => Figure::sampled(percent, Unit::Percent).into(),
    }
}

/// Explains the quantiles of several loads together.
fn together(arms: &Arms<'_>) -> &'static str {
    let mut loads = arms.record.experiment.loads.iter();
    if loads.all(|load| load.program == crate::experiment::Client::Load) {
        "Percentiles of all loads together are those of all their requests: their histograms are added up."
    } else {
        "Percentiles of all loads together are the worst of theirs: not all of these programs tell a histogram, and \
         percentiles cannot be added."
    }
}

/// Figures of each load, if there are several.
fn by_load(arms: &Arms<'_>) -> Option<Table> {
    let loads: Vec<&str> = arms.record.experiment.loads.iter().map(crate::experiment::Load::name).collect();
    if loads.len() < 2 {
        return None;
    }
    let figures = ["requests", "requests_per_second", "failed", "latency_ms.p50", "latency_ms.p99", "latency_ms.max"];
    let has = |figure: &&str| loads.iter().any(|load| arms.has(&format!("{load}.{figure}")));
    let figures: Vec<&str> = figures.into_iter().filter(has).collect();
    let mut table = Table::new("Of each load", &["arm", "load"]);
    table.columns.extend(figures.iter().map(|figure| (*figure).to_owned()));
    for arm in arms.iter() {
        for load in &loads {
            let mut row = vec![arm.name.into(), (*load).into()];
            row.extend(figures.iter().map(|figure| arm.cell(&format!("{load}.{figure}"))));
            table = table.row(row);
        }
    }
    (!figures.is_empty()).then_some(table)
}

/// The experiment's shares, with a column for each.
fn shares(arms: &Arms<'_>) -> Section {
    let section = Section::new("Shares");
    let shares = &arms.record.experiment.shares;
    let mut table = Table::new("One figure as a part of another", &["arm"]);
    table.columns.extend(shares.iter().map(|share| share.name.clone()));
    for arm in arms.iter() {
        let cells = shares.iter().map(|share| arm.cell(&format!("{}{}", figure::SHARE, share.name)));
        table = table.row([name(arm)].into_iter().chain(cells).collect());
    }
    if shares.is_empty() {
        return section;
    }
    let meanings = shares.iter().map(|share| format!("{} is {} over {}", share.name, share.of, share.over));
    section.table(table).note(Severity::Note, format!("{}.", meanings.collect::<Vec<_>>().join("; ")))
}

fn cpu(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("CPU");
    for (title, prefix) in [
        ("CPU per answered request, by process", "cpu_us_per_request"),
        ("Of it in user mode", "cpu_user_us_per_request"),
        ("Cores used, mean, by process", "cores"),
        ("Time that the busiest thread of a process ran or waited for a core", "busiest"),
    ] {
        section.blocks.extend(by_process(title, prefix, arms).map(report::Block::Table));
    }
    section
}

fn memory(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("Memory and descriptors");
    for (title, prefix) in [
        ("Resident memory at most, by process, MB", "rss_mb_max"),
        ("Resident memory at the end, by process, MB", "rss_mb"),
        ("Growth over the load for each open connection, by process, bytes", "bytes_per_connection"),
        ("Open descriptors, by process", "descriptors"),
        ("Samples in which a process died", "died"),
    ] {
        // Without any death there is nothing to report.
        if prefix != "died" || arms.named("died.").iter().any(|process| arms.has(&format!("died.{process}"))) {
            section.blocks.extend(by_process(title, prefix, arms).map(report::Block::Table));
        }
    }
    section
}

/// A table with a column for each process that has the figure.
fn by_process(title: &str, prefix: &str, arms: &Arms<'_>) -> Option<Table> {
    let known: BTreeSet<&str> = arms.named(&format!("{prefix}.")).into_iter().collect();
    let processes: Vec<&str> = arms.processes().into_iter().filter(|process| known.contains(process)).collect();
    let mut table = Table::new(title, &["arm"]);
    table.columns.extend(processes.iter().map(|process| (*process).to_owned()));
    for arm in arms.iter() {
        let cells = processes.iter().map(|process| arm.cell(&format!("{prefix}.{process}")));
        table = table.row([name(arm)].into_iter().chain(cells).collect());
    }
    (!processes.is_empty()).then_some(table)
}

fn sockets(arms: &Arms<'_>) -> Section {
    let mut section = Section::new("Sockets by TCP state");
    let probes: Vec<&str> = arms.record.experiment.probes.iter().filter_map(probed_port).collect();
    let experiment = &arms.record.experiment;
    let hosts = experiment.hosts.keys().map(String::as_str).chain(experiment.hosts.is_empty().then_some("here"));
    let words = "Mean over the load";
    for (place, what) in probes.iter().map(|name| (*name, "probe")).chain(hosts.map(|host| (host, "host"))) {
        section.blocks.extend(by_state(place, what, words, arms).map(report::Block::Table));
    }
    section.blocks.extend(at_end(&probes, arms).map(report::Block::Table));
    if !section.blocks.is_empty() {
        let note = "Idle is before the load, in the same topology; net is the mean over the load less that. Where nothing was \
                    there before, only the mean is shown. Where both ends of a connection are on one host, both are counted.";
        section = section.note(Severity::Note, note);
    }
    section
}

/// The sockets left on each probed port after the load, and which side they belong to.
fn at_end(probes: &[&str], arms: &Arms<'_>) -> Option<Table> {
    let mut table = Table::new("Right after the load, by probe", &["arm"]);
    let columns = probes.iter().flat_map(|probe| {
        [
            (format!("{probe}: all"), format!("sockets.{probe}.end")),
            (format!("{probe}: TIME_WAIT"), format!("sockets.{probe}.TIME_WAIT.end")),
            (format!("{probe}: of these, closed first by the listening side"), format!("closed_first.{probe}.end")),
        ]
    });
    let columns: Vec<(String, String)> = columns.filter(|(_, figure)| arms.has(figure)).collect();
    table.columns.extend(columns.iter().map(|(title, _)| title.clone()));
    for arm in arms.iter() {
        let cells = columns.iter().map(|(_, figure)| arm.cell(figure));
        table = table.row([name(arm)].into_iter().chain(cells).collect());
    }
    (!columns.is_empty()).then_some(table)
}

pub(super) fn probed_port(probe: &crate::experiment::Probe) -> Option<&str> {
    match probe {
        crate::experiment::Probe::Port { name, .. } => Some(name),
        _ => None,
    }
}

/// A row for each arm and state; states in columns would not fit a page. It omits states without sockets, and idle and net if
/// there was nothing before the load.
fn by_state(place: &str, what: &str, words: &str, arms: &Arms<'_>) -> Option<Table> {
    let prefix = format!("sockets.{place}.");
    let states = arms.named(&prefix).into_iter().filter(|state| !state.contains('.'));
    let figures = states.map(|state| (state.to_owned(), format!("{prefix}{state}")));
    let all = (what == "probe").then(|| ("all".to_owned(), format!("sockets.{place}")));
    let figures: Vec<(String, String)> =
        all.into_iter().chain(figures).filter(|(_, figure)| arms.has(figure)).collect();
    let has_idle = figures.iter().any(|(_, figure)| arms.has(&format!("{figure}.idle")));
    let columns: &[&str] = if has_idle { &["arm", "state", "mean", "idle", "net"] } else { &["arm", "state", "mean"] };
    let mut table = Table::new(&format!("{words}: {what} {place}"), columns);
    for arm in arms.iter() {
        for (state, figure) in &figures {
            let mut row = vec![name(arm), state.as_str().into(), arm.cell(figure)];
            let idle = format!("{figure}.idle");
            match (has_idle, arms.has(&idle)) {
                (true, true) => row.extend([arm.cell(&idle), arm.cell(&format!("{figure}.net"))]),
                (true, false) => row.extend(["–".into(), "–".into()]),
                (false, _) => {}
            }
            table = table.row(row);
        }
    }
    (!figures.is_empty()).then_some(table)
}

/// Of the kernel's some three hundred counters, those about connections.
const COUNTERS: [&str; 26] = [
    "Tcp.ActiveOpens",
    "Tcp.PassiveOpens",
    "Tcp.AttemptFails",
    "Tcp.EstabResets",
    "Tcp.OutRsts",
    "Tcp.RetransSegs",
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPSynRetrans",
    "TcpExt.TCPTimeouts",
    "TcpExt.TCPReqQFullDrop",
    "TcpExt.TCPReqQFullDoCookies",
    "TcpExt.SyncookiesSent",
    "TcpExt.TW",
    "TcpExt.TWRecycled",
    "TcpExt.TCPTimeWaitOverflow",
    "TcpExt.TCPAbortOnData",
    "TcpExt.TCPAbortOnClose",
    "TcpExt.TCPAbortOnTimeout",
    "TcpExt.TCPAbortFailed",
    "TcpExt.TCPFromZeroWindowAdv",
    "TcpExt.TCPToZeroWindowAdv",
    "TcpExt.TCPWantZeroWindowAdv",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPMemoryPressures",
];
/// Most rows of metrics that processes report; Holdfast alone has some hundred.
const TOLD_MAX: usize = 40;

fn counters(arms: &Arms<'_>) -> Section {
    let claimed: BTreeSet<&str> = arms.record.experiment.claims.iter().map(|claim| claim.figure.as_str()).collect();
    let known = arms.figure_names();
    let mut section = Section::new("Counters, queues, and what processes tell");
    let is_chosen = |name: &str| {
        let counter = name.strip_prefix("tcp.").and_then(|rest| rest.split_once('.')).map(|(_, counter)| counter);
        counter.is_some_and(|counter| COUNTERS.contains(&counter))
    };
    let of = |prefix: &'static str| known.iter().copied().filter(move |name| name.starts_with(prefix));
    let counters = of("tcp.").filter(|name| claimed.contains(name) || is_chosen(name) && arms.has(name));
    let queues = of("queue.").chain(of("bytes."));
    let told: Vec<&str> = of("told.").filter(|name| claimed.contains(name) || arms.has(name)).collect();
    let (first, rest): (Vec<&str>, Vec<&str>) = told.iter().partition(|name| claimed.contains(*name));
    let kept = first.into_iter().chain(rest).take(TOLD_MAX);
    for table in [
        by_figure("The kernel's counters, growth over the load, by host", arms, counters),
        by_figure("System calls per answered request", arms, of("calls_per_request.")),
        by_figure("Accept queues and bytes in socket queues, most seen", arms, queues),
        by_figure("Told by processes, growth over the load", arms, kept),
    ] {
        if !table.rows.is_empty() {
            section = section.table(table);
        }
    }
    if told.len() > TOLD_MAX {
        let more = format!("{} more numbers that were told are in the record.", told.len() - TOLD_MAX);
        section = section.note(Severity::Note, more);
    }
    section
}

/// A row for each figure, a column for each arm.
fn by_figure<'f>(title: &str, arms: &Arms<'_>, figures: impl Iterator<Item = &'f str>) -> Table {
    let mut table = Table::new(title, &["figure"]);
    table.columns.extend(arms.iter().map(|arm| arm.name.to_owned()));
    for figure in figures {
        let cells = arms.iter().map(|arm| arm.cell(figure));
        table.rows.push([Cell::from(figure)].into_iter().chain(cells).collect());
    }
    table
}
