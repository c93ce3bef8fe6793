//! What figures depend on: processor, kernel, settings, versions. Read from /proc and from the programs; called when a
//! run begins, and by `cargo xtask bench`.

use super::programs::{Programs, client_name, said_first as said};
use crate::experiment::Experiment;
use crate::plan::Program;
use sockdiag::Settings;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The processor's name.
pub fn processor() -> String {
    line_after("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

/// The kernel's release.
pub fn kernel() -> String {
    first_line("/proc/sys/kernel/osrelease")
}

/// The distribution's name.
pub fn system() -> String {
    line_after("/etc/os-release", "PRETTY_NAME").unwrap_or_default()
}

/// Load of the machine: the load average over one minute.
pub fn load_average() -> String {
    first_line("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()
}

/// The first line of a program's version output, on either stream and with any exit status.
pub fn said_first(program: &Path, option: &str) -> String {
    said(program, option)
}

/// The first line of a file; empty if there is none.
pub fn first_line(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The value of a `key : value` or `KEY="value"` line.
fn line_after(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | '"')).to_owned())
}

/// Name and value of everything that an experiment's figures depend on. A sample's own namespaces start with this
/// machine's settings, unless the experiment changes them.
pub(super) fn describe(programs: &Programs, experiment: &Experiment, fingerprint: &mut Vec<(String, String)>) {
    // The caller may have added its own version already.
    if !fingerprint.iter().any(|(name, _)| name == "holdfast") {
        fingerprint.push(("holdfast".to_owned(), said(programs.holdfast(), "--version")));
    }
    let mut add = |name: &str, value: String| fingerprint.push((name.to_owned(), value));
    add("processor", format!("{} × {}", cores(), processor()));
    add("kernel", kernel());
    add("system", system());
    add("load average at the start", load_average());
    let settings = Settings::read();
    let shown = |value: Option<u32>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    add("net.core.somaxconn", shown(settings.somaxconn));
    let range = settings.port_range.as_ref().map(|range| format!("{} {}", range.start(), range.end()));
    let usable = shown(settings.ports_usable());
    add("net.ipv4.ip_local_port_range", format!("{} ({usable} usable)", range.unwrap_or_default()));
    add("net.ipv4.tcp_tw_reuse", shown(settings.tw_reuse.map(u32::from)));
    add("net.ipv4.tcp_max_tw_buckets", shown(settings.tw_buckets_max));
    for name in foreign_programs(experiment) {
        if let Some(program) = programs.find(&name) {
            add(&name, said(&program, version_flag(&name)));
        }
    }
}

/// The servers and clients of all arms that report a version.
fn foreign_programs(experiment: &Experiment) -> BTreeSet<String> {
    let of_arms = experiment.arms.iter().flat_map(|arm| arm.programs.values());
    let words = experiment.processes.iter().map(|process| &process.program).chain(of_arms);
    let known = words.filter(|word| matches!(Program::parse(word), Program::Nginx | Program::Haproxy | Program::Go));
    let mut names: BTreeSet<String> = known.cloned().collect();
    let of_arms = experiment.arms.iter().flat_map(|arm| arm.clients.values().copied());
    let clients = experiment.loads.iter().chain(&experiment.fills).map(|load| load.program).chain(of_arms);
    let clients = clients.filter(|client| !client.is_own());
    names.extend(clients.map(|client| client_name(client).to_owned()));
    names
}

fn version_flag(name: &str) -> &'static str {
    match name {
        "go" => "version",
        "ab" | "siege" => "-V",
        "h2load" | "oha" => "--version",
        _ => "-v",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        assert!(cores() > 0 && !kernel().is_empty() && !processor().is_empty());
        assert!(said_first(Path::new("/bin/sh"), "--no-such-option").contains("sh"));
    }
}
