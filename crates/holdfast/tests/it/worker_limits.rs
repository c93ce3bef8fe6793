//! `worker_cpu_affinity` and `worker_rlimit_nofile`, checked in the kernel for the running process: the processors of
//! each worker's thread, and the process's limit of descriptors.

use crate::support::{Instance, children, until};
use std::collections::BTreeMap;
use std::fs;

const SERVER: &str = "server { listen 127.0.0.1:PORT; return 204; }";

/// Processors that this process and its children may use.
fn usable() -> Vec<u32> {
    processors("/proc/self/status")
}

/// `Cpus_allowed_list`, for example `0-2,5`.
fn processors(status: &str) -> Vec<u32> {
    let text = fs::read_to_string(status).unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let number = |text: &str| text.trim().parse::<u32>().expect("a number");
    let ranges = list.trim().split(',').filter(|range| !range.is_empty());
    let ends = ranges.map(|range| range.split_once('-').unwrap_or((range, range)));
    ends.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

/// The processors of each worker's thread, by its name.
fn of_workers(process: u32) -> BTreeMap<String, Vec<u32>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let paths = tasks.map(|task| task.expect("it runs").path());
    let named = paths.map(|path| {
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        (name.trim_end().to_owned(), processors(&path.join("status").to_string_lossy()))
    });
    named.filter(|(name, _)| name.starts_with("worker ")).collect()
}

/// The soft and the hard limit of open files.
fn descriptors(process: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{process}/limits")).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("Max open files")).expect("the kernel says so");
    let mut words = line.split_ascii_whitespace().skip(3).map(|word| word.parse().expect("a number"));
    (words.next().expect("a soft limit"), words.next().expect("a hard limit"))
}

/// Starts with these directives at the top level, and waits until every worker's thread has set its affinity.
fn affinities(top: &str, expected: &[(&str, &[u32])]) {
    let mut instance = Instance::new(top, SERVER);
    instance.start();
    let process = children(instance.pid()).first().copied().expect("a child does the work");
    let expected: BTreeMap<String, Vec<u32>> =
        expected.iter().map(|(name, processors)| ((*name).to_owned(), processors.to_vec())).collect();
    let mut found = BTreeMap::new();
    until(&format!("{top} gives {expected:?}, and not {found:?}"), || {
        found = of_workers(process);
        found == expected
    });
}

#[test]
fn workers_run_on_their_configured_cores() {
    let usable = usable();
    let &[one, other, ..] = usable.as_slice() else {
        return testkit::skip("one processor leaves no choice");
    };
    let mask = |processor: u32| format!("1{}", "0".repeat(processor as usize));
    affinities("worker_processes 2;", &[("worker 0", &usable), ("worker 1", &usable)]);
    let each = format!("worker_processes 2; worker_cpu_affinity {} {};", mask(other), mask(one));
    affinities(&each, &[("worker 0", &[other]), ("worker 1", &[one])]);
    // The last mask applies to the workers beyond the list.
    let few = format!("worker_processes 3; worker_cpu_affinity {} {};", mask(one), mask(other));
    affinities(&few, &[("worker 0", &[one]), ("worker 1", &[other]), ("worker 2", &[other])]);
    let auto = format!("worker_processes 2; worker_cpu_affinity auto {};", mask(other));
    affinities(&auto, &[("worker 0", &[other]), ("worker 1", &[other])]);
    if usable.starts_with(&[0, 1]) {
        affinities("worker_processes 2; worker_cpu_affinity auto;", &[("worker 0", &[0]), ("worker 1", &[1])]);
        affinities("worker_processes 2; worker_cpu_affinity 11;", &[("worker 0", &[0, 1]), ("worker 1", &[0, 1])]);
    }
}

#[test]
fn process_gets_its_configured_descriptor_limit() {
    let (soft, hard) = descriptors(std::process::id());
    let wanted = |limit: u64| {
        let mut instance = Instance::new(&format!("worker_rlimit_nofile {limit};"), SERVER);
        instance.start();
        descriptors(children(instance.pid()).first().copied().expect("a child does the work"))
    };
    let most = hard.min(soft.saturating_mul(2)).min(100_000);
    assert_eq!(wanted(most).0, most, "raised, as far as it may be");
    let few = soft.min(700);
    assert_eq!(wanted(few).0, few, "lowered, too");
    let mut instance = Instance::new("", SERVER);
    instance.start();
    let without = descriptors(children(instance.pid()).first().copied().expect("a child does the work"));
    assert_eq!(without.0, without.1, "nothing is left unused with the defaults");
}
