//! System calls per request, counted by strace in a short run of its own: tracing makes everything slow, so nothing else is
//! taken from that run.

use super::arms::Proxy;
use super::wrk::Load;
use crate::workspace::find_program;
use anyhow::{Context as _, Result};
use lab::stage::process::Started;
use lab::stage::usage::tree;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Long enough for some thousand traced requests.
const SECONDS: u32 = 2;

/// Calls per request, or `None` where there is no strace or it may not trace.
pub(super) fn per_request(proxy: &Proxy, load: &Load<'_>, home: &Path) -> Result<Option<f64>> {
    let Some(strace) = find_program("strace") else { return Ok(None) };
    let summary = home.join("strace.summary");
    let mut command = Command::new(strace);
    command.args(["--summary-only", "--follow-forks", "--output"]).arg(&summary);
    let pids = tree(proxy.process.id());
    for pid in &pids {
        command.arg("--attach").arg(pid.to_string());
    }
    let mut tracer = Started::new("strace", &mut command, home.join("strace.out"))?;
    if tracer.wait_ready(|| pids.iter().all(|pid| is_traced(*pid))).is_err() {
        return Ok(None);
    }
    let figures = load.run(SECONDS)?;
    tracer.interrupt();
    // strace ends with the signal's own status after it has written its table.
    let _ = tracer.wait();
    let calls = parse_total(&fs::read_to_string(&summary)?).context("strace wrote no total")?;
    Ok((figures.requests > 0).then(|| calls as f64 / figures.requests as f64))
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
}

/// The number of calls in the closing line `100.00 0.123456 2 61728 34 total`.
fn parse_total(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_with_and_without_errors_in_the_table() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     70.00    0.100000           2     50000        34 recvfrom\n";
        assert_eq!(
            parse_total(&format!("{table}100.00    0.123456           2     61728        34 total\n")),
            Some(61728)
        );
        assert_eq!(
            parse_total(&format!("{table}100.00    0.123456           2     61728           total\n")),
            Some(61728)
        );
        assert_eq!(parse_total("strace: attach: Operation not permitted\n"), None);
    }
}
