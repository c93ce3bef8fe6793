//! The report as tables for a terminal. Text out only.

use super::configuration;
use super::cpu::Source;
use super::plan::Arm;
use super::sockets::{Ends, TIME_WAIT};
use super::summary::{PortReport, Report, RowReport, Side, SocketsReport, Spread};
use std::fmt::Write as _;

/// The whole report.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    head(&mut out, report);
    for keepalive in [false, true] {
        let title = if keepalive {
            "The client keeps its connections (as wrk, or ab -k)"
        } else {
            "The client opens a connection for each request (as ab without -k)"
        };
        let rows: Vec<&RowReport> = report.rows.iter().filter(|row| row.client_keepalive == keepalive).collect();
        let _ = write!(out, "\n{title}\n\n");
        throughput(&mut out, &rows);
        out.push('\n');
        cpu(&mut out, &rows);
    }
    sockets(&mut out, report);
    notes(&mut out, report);
    out
}

fn head(out: &mut String, report: &Report) {
    let Report { machine, connections, rounds, .. } = report;
    let load = machine.load_average.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let threads = plural(report.client_threads as u64, "thread");
    let cores = plural(machine.cores as u64, "core");
    let _ = write!(
        out,
        "holdfast {} demo: what a gateway costs, without and with a pool of connections to its origin\n\n\
         machine  {cores}, {}, Linux {}, load average {load} at the start\n\
         load     GET of a {}-byte page over {connections} connections from {threads}, closed loop; gateway and origin \
         with one worker each\n\
         method   {rounds} rounds of six rows, every other round backwards; per row and round {} ms warm-up, {} ms measured\n\
         figures  median [min-max] of {rounds} rounds\n\n",
        report.version, machine.processor, machine.kernel, report.page_bytes, report.warm_up_ms, report.window_ms,
    );
    for arm in [Arm::Direct, Arm::Unpooled, Arm::Pooled] {
        let way = match configuration::essence(arm, *connections) {
            None => "client -> origin".to_owned(),
            Some((upstream, location)) => {
                format!("client -> gateway -> origin, with `{upstream} {}`", location.join(" "))
            }
        };
        let _ = writeln!(out, "{:<8} {way}", arm.name());
    }
}

fn throughput(out: &mut String, rows: &[&RowReport]) {
    let titles = ["", "requests/s", "of direct", "latency, ms", "p99, ms", "requests", "failed"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        vec![
            row.arm.name().to_owned(),
            spread(&row.requests_per_second, 0),
            if row.arm == Arm::Direct {
                "100 %".to_owned()
            } else {
                format!("{} %", spread(&row.percent_of_direct, 1))
            },
            spread(&row.latency_ms_mean, 2),
            spread(&row.latency_ms_p99, 2),
            thousands(row.requests_measured),
            thousands(row.faults.sum()),
        ]
    }));
    table(out, &lines);
}

fn cpu(out: &mut String, rows: &[&RowReport]) {
    let titles = ["CPU us/request", "client", "gateway", "origin", "busiest thread c g o, %", "bottleneck"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let gateway = row.gateway.as_ref();
        let waits = row.bottleneck.short_of_cores && row.bottleneck.side != "cores";
        let suffix = if waits { ", waits for a core" } else { "" };
        vec![
            row.arm.name().to_owned(),
            spread(&row.client.cpu_us_per_request, 1),
            gateway.map_or_else(|| "-".to_owned(), |side| spread(&side.cpu_us_per_request, 1)),
            spread(&row.origin.cpu_us_per_request, 1),
            [Some(&row.client), gateway, Some(&row.origin)].map(busy).join(" "),
            format!("{}{suffix}", row.bottleneck.side),
        ]
    }));
    table(out, &lines);
}

/// Ran and waited.
fn busy(side: Option<&Side>) -> String {
    side.map_or_else(
        || "-".to_owned(),
        |side| format!("{:.0}+{:.0}", side.busiest_running_percent.median, side.busiest_queued_percent.median),
    )
}

fn sockets(out: &mut String, report: &Report) {
    out.push_str(
        "\nConnections opened in all rounds, and sockets by TCP state: under load, and in TIME_WAIT in the end\n\n",
    );
    let titles =
        ["client", "arm", "to port of", "opened", "requests", "ESTABLISHED", "other", "TIME_WAIT", "closed first by"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    for row in &report.rows {
        let client = if row.client_keepalive { "keeps" } else { "per request" };
        let SocketsReport { origin_port, gateway_port } = &row.sockets;
        let opener = if gateway_port.is_some() { "gateway" } else { "client" };
        let mut line = |ends: [&str; 2], [opened, requests]: [u64; 2], port: &PortReport| {
            lines.push(vec![
                client.to_owned(),
                row.arm.name().to_owned(),
                ends[1].to_owned(),
                thousands(opened),
                thousands(requests),
                port.established.as_ref().map_or_else(|| "-".to_owned(), |seen| spread(seen, 0)),
                port.other.as_ref().map_or_else(|| "-".to_owned(), |seen| spread(seen, 0)),
                thousands(port.at_end.of(TIME_WAIT).sum()),
                closers(port.at_end.of(TIME_WAIT), ends),
            ]);
        };
        if let Some(port) = gateway_port {
            line(["client", "gateway"], [row.connections_opened_by_client, row.requests], port);
        }
        line([opener, "origin"], [row.connections_accepted_by_origin, row.requests_at_origin], origin_port);
    }
    table(out, &lines);
}

/// Whose end of the connections is in `TIME_WAIT`.
fn closers(ends: Ends, [opener, acceptor]: [&str; 2]) -> String {
    match ends {
        Ends { opener: 0, acceptor: 0 } => "-".to_owned(),
        Ends { opener: 0, .. } => acceptor.to_owned(),
        Ends { acceptor: 0, .. } => opener.to_owned(),
        Ends { opener: one, acceptor: other } => {
            format!("{opener} {}, {acceptor} {}", thousands(one), thousands(other))
        }
    }
}

fn notes(out: &mut String, report: &Report) {
    let machine = &report.machine;
    let source = match report.cpu_source {
        Source::Scheduler => "nanoseconds of /proc/PID/task/*/schedstat",
        Source::Ticks => {
            "ticks of 10 ms in /proc/PID/task/*/stat; how long a thread waited for a core is not known here"
        }
    };
    let reuse = match machine.tcp_tw_reuse {
        Some(0) => "0 (never)",
        Some(1) => "1 (everywhere)",
        Some(2) => "2 (on loopback, that is: here)",
        _ => "unknown",
    };
    let ports = machine.ports.map_or_else(
        || "unknown".to_owned(),
        |(first, last)| format!("{first}-{last} ({} ports)", thousands(u64::from((last + 1).saturating_sub(first)))),
    );
    let buckets = machine.tcp_max_tw_buckets.map_or_else(|| "unknown".to_owned(), thousands);
    let cores = plural(machine.cores as u64, "core");
    let _ = write!(
        out,
        "\n\
         CPU         user and system time of each process in the measured windows, from {source}.\n\
         bottleneck  the side whose busiest thread was idle least, if that is under 15 %: `90+8` is a thread that ran for\n            \
         90 % of the time and waited for a core for 8 %. `waits for a core`: 15 % or more. `cores`: all sides were\n            \
         idle at times, but 90 % of the cores were in use, by whomever.\n\
         sockets     from /proc/net/tcp; {} or more readings per row under load, one in the end. A connection within one machine\n            \
         has two sockets, one at each end. TIME_WAIT stays for 60 s at the end that closed first, so all rounds add\n            \
         up; but a connection from a port that is still in TIME_WAIT there takes its place, so the half of the ports\n            \
         that connect() tries first is where the count stops.\n\
         kernel      tcp_tw_reuse {reuse}, ip_local_port_range {ports}, tcp_max_tw_buckets {buckets}\n\
         others      {} of {cores} used by other processes, the hypervisor, and interrupts where the kernel keeps them apart
",
        report
            .rows
            .iter()
            .map(|row| row.sockets.origin_port.established.map_or(0, |seen| seen.n))
            .min()
            .unwrap_or_default(),
        spread(&report.other_work_cores, 2),
    );
    for warning in &report.warnings {
        let _ = write!(out, "\nwarning: {warning}");
    }
    if !report.warnings.is_empty() {
        out.push('\n');
    }
}

/// `median [min-max]`, or the median alone where there was nothing but one value.
fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { median, min, max, n } = spread;
    let number = |value: f64| {
        if digits == 0 { thousands(value.round() as u64) } else { format!("{value:.digits$}") }
    };
    if *n < 2 || number(*min) == number(*max) {
        return number(*median);
    }
    format!("{} [{}-{}]", number(*median), number(*min), number(*max))
}

/// Digits in groups of three.
fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn plural(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// Columns as wide as their widest word; the first line holds the titles.
fn table(out: &mut String, lines: &[Vec<String>]) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_their_spread() {
        let value = |median, min, max, n| Spread { median, min, max, n };
        assert_eq!(spread(&value(12_345.4, 900.0, 1_234_567.0, 5), 0), "12,345 [900-1,234,567]");
        assert_eq!(spread(&value(1.25, 1.0, 2.0, 3), 2), "1.25 [1.00-2.00]");
        assert_eq!(spread(&value(30.0, 30.0, 30.2, 3), 0), "30");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let mut out = String::new();
        let lines = [["", "rate", "x"], ["direct", "1", "y"]].map(|line| line.map(str::to_owned).to_vec());
        table(&mut out, &lines);
        assert_eq!(out, "        rate  x\ndirect  1     y\n");
    }

    #[test]
    fn who_closed_first_is_who_waits() {
        let ends = |opener, acceptor| closers(Ends { opener, acceptor }, ["gateway", "origin"]);
        assert_eq!([ends(0, 0), ends(0, 9), ends(9, 0)], ["-", "origin", "gateway"]);
        assert_eq!(ends(2, 1_000), "gateway 2, origin 1,000");
    }
}
