//! `ApacheBench`'s report.

use crate::results::http::HttpResults;
use crate::{Cause, Latencies};
use std::fmt::Write as _;

pub(crate) fn render(results: &HttpResults<'_>) -> String {
    let summary = results.summary;
    let (options, record) = (&summary.options, &summary.record);
    let whole = record.whole();
    let Some(target) = options.targets.first() else { return String::new() };
    let seconds = summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut text = String::from("\n\n");
    let mut line = |name: &str, value: String| {
        let (gap, name) = name.strip_prefix('\n').map_or(("", name), |name| ("\n", name));
        let _ = writeln!(text, "{gap}{:<24}{value}", format!("{name}:"));
    };
    line("Server Software", record.server.clone().unwrap_or_default());
    line("Server Hostname", target.url.host.clone());
    line("Server Port", target.url.port.to_string());
    line("\nDocument Path", target.url.path.clone());
    let length = whole.length_first.unwrap_or_default();
    line("Document Length", if options.ignore_length { "Variable".to_owned() } else { format!("{length} bytes") });
    line("\nConcurrency Level", options.connections.to_string());
    line("Time taken for tests", format!("{seconds:.3} seconds"));
    line("Complete requests", (whole.responses + whole.failed()).to_string());
    let lengths = if options.ignore_length { 0 } else { whole.lengths_other };
    let connect =
        [Cause::Refused, Cause::Unreachable, Cause::ConnectReset, Cause::ConnectTimeout, Cause::ConnectFailed];
    let connect: u64 = connect.iter().map(|cause| whole.failed_by(*cause)).sum();
    let receive = whole.failed() - connect;
    if whole.failed() + lengths > 0 {
        let each = format!("(Connect: {connect}, Receive: {receive}, Length: {lengths}, Exceptions: 0)");
        line("Failed requests", format!("{}\n   {each}", whole.failed() + lengths));
    } else {
        line("Failed requests", "0".to_owned());
    }
    let refused = whole.responses - whole.with_status(200..=299);
    if refused > 0 {
        line("Non-2xx responses", refused.to_string());
    }
    if options.keepalive {
        line("Keep-Alive requests", whole.responses.to_string());
    }
    line("Total transferred", format!("{} bytes", whole.bytes_received));
    let with_body = !target.body.is_empty();
    if with_body {
        line("Total body sent", whole.bytes_sent.to_string());
    }
    line("HTML transferred", format!("{} bytes", whole.bytes_body));
    let rate = summary.rate();
    let each_ms = if rate > 0.0 { 1000.0 / rate } else { 0.0 };
    line("Requests per second", format!("{rate:.2} [#/sec] (mean)"));
    line("Time per request", format!("{:.3} [ms] (mean)", each_ms * options.connections as f64));
    line("Time per request", format!("{each_ms:.3} [ms] (mean, across all concurrent requests)"));
    line("Transfer rate", format!("{:.2} [Kbytes/sec] received", whole.bytes_received as f64 / 1024.0 / seconds));
    if with_body {
        let sent = whole.bytes_sent as f64 / 1024.0 / seconds;
        let total = sent + whole.bytes_received as f64 / 1024.0 / seconds;
        let _ = writeln!(text, "{0:<24}{sent:.2} kb/s sent\n{0:<24}{total:.2} kb/s total", "");
    }
    times(results, &mut text);
    text
}

fn times(results: &HttpResults<'_>, text: &mut String) {
    let summary = results.summary;
    let total = &summary.record.whole().latency;
    text.push_str("\nConnection Times (ms)\n              min  mean[+/-sd] median   max\n");
    let connect = if summary.options.keepalive { Latencies::default() } else { summary.record.connect.clone() };
    let mut line = |name: &str, latencies: &Latencies| {
        let ms = |ns: f64| ns / 1e6;
        let _ = writeln!(
            text,
            "{:<12}{:>5.0} {:>4.0} {:>5.1} {:>6.0} {:>7.0}",
            format!("{name}:"),
            ms(latencies.min_ns() as f64),
            ms(latencies.mean_ns()),
            ms(latencies.deviation_ns()),
            ms(latencies.quantile_ns(0.5) as f64),
            ms(latencies.max_ns() as f64),
        );
    };
    line("Connect", &connect);
    line("Processing", &summary.record.processing);
    line("Waiting", &summary.record.first_byte);
    line("Total", total);
    text.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    for percent in [50, 66, 75, 80, 90, 95, 98, 99, 100] {
        let ms = total.quantile_ns(f64::from(percent) / 100.0) as f64 / 1e6;
        let longest = if percent == 100 { " (longest request)" } else { "" };
        let _ = writeln!(text, "{percent:>4}% {ms:>6.0}{longest}");
    }
}
