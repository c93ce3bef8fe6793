//! The merged figures of eight agents are those of all samples together, also if the server is restarted in between.

use crate::scene::{Agent, Samples, coordinator, hold, run, write_part};
use farm::Hire;
use load::Summary;
use std::fs;
use testkit::Nats;

const AGENTS: usize = 8;
const INTERVALS: usize = 4;

/// Latencies from microseconds to seconds, different for each agent: a few slow ones decide p99.9.
fn samples(agent: usize) -> Samples {
    let mut random = fastrand::Rng::with_seed(agent as u64);
    let mut latency = || {
        let base = 50_000 * (agent as u64 + 1);
        if random.u32(0..500) == 0 { random.u64(1_000_000..3_000_000_000) } else { base + random.u64(0..400_000) }
    };
    (0..INTERVALS).map(|_| (0..5_000).map(|_| latency()).collect()).collect()
}

/// Compares quantiles with those of the sorted samples: the histogram gives the upper end of a bucket, three digits wide.
fn assert_same(summary: &Summary, all: &[Samples]) {
    let mut raw: Vec<u64> = all.iter().flatten().flatten().copied().collect();
    raw.sort_unstable();
    let merged = summary.record.whole();
    assert_eq!((merged.responses, merged.latency.count()), (raw.len() as u64, raw.len() as u64));
    for quantile in [0.5, 0.99, 0.999, 0.9999] {
        let at = (raw.len() as f64 * quantile).ceil() as usize - 1;
        let (sample, figure) = (raw[at], merged.latency.quantile_ns(quantile));
        assert!(figure >= sample && figure - sample <= sample / 1_000 + 1, "{quantile}: {figure} for {sample}");
    }
    let mean = raw.iter().map(|latency| u128::from(*latency)).sum::<u128>() as f64 / raw.len() as f64;
    assert!((merged.latency.mean_ns() - mean).abs() < 1.0, "{} {mean}", merged.latency.mean_ns());
}

fn names() -> Vec<String> {
    (0..AGENTS).map(|agent| format!("agent-{agent}")).collect()
}

#[test]
fn merges_histograms_of_eight_agents_without_loss() {
    let nats = Nats::start("");
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<Samples> = (0..AGENTS).map(samples).collect();
    all.iter().enumerate().for_each(|(index, samples)| write_part(folder.path(), index, samples));
    let _agents: Vec<Agent> = names().iter().map(|name| Agent::start(&nats, name, folder.path())).collect();
    let (farm, agents) = coordinator(&nats, AGENTS);
    let mut seen = Vec::new();
    let summary = run(&farm, agents, Hire::default(), |interval| seen.push(interval));
    assert_same(&summary, &all);
    assert_eq!(seen, (0..INTERVALS as u64).collect::<Vec<_>>(), "each interval once and in order");
    assert!(summary.lost.is_empty() && summary.health().void.is_empty(), "{:?}", summary.lost);
    assert_eq!(summary.agents.iter().map(|agent| agent.name.clone()).collect::<Vec<_>>(), names());
    for (index, agent) in summary.agents.iter().enumerate() {
        assert_eq!((agent.responses, agent.late_ns), (5_000 * INTERVALS as u64, Some(1_000 * index as u64)));
        // All threads of the test have one clock.
        assert!(agent.clock_offset_ns.unsigned_abs() <= agent.clock_error_ns + 1, "{agent:?}");
        assert!(agent.clock_error_ns > 0, "{agent:?}");
    }
    let notes = summary.health().notes.join("\n");
    assert!(notes.contains("8 agents began within "), "{notes}");
    // The same agents take the next load.
    let (farm, agents) = coordinator(&nats, AGENTS);
    assert_same(&run(&farm, agents, Hire::default(), |_| ()), &all);
}

#[test]
fn loses_nothing_when_the_server_is_restarted_during_the_run() {
    let mut nats = Nats::start("");
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<Samples> = (0..AGENTS).map(samples).collect();
    all.iter().enumerate().for_each(|(index, samples)| write_part(folder.path(), index, samples));
    fs::write(hold(folder.path()), "").unwrap();
    let _agents: Vec<Agent> = names().iter().map(|name| Agent::start(&nats, name, folder.path())).collect();
    let (farm, agents) = coordinator(&nats, AGENTS);
    let mut restarted = false;
    let summary = run(&farm, agents, Hire::default(), |interval| {
        if interval == 0 {
            nats.stop();
            // The agents send the rest while the server is gone.
            fs::remove_file(hold(folder.path())).unwrap();
            std::thread::park_timeout(std::time::Duration::from_millis(2_500));
            nats.start_again();
            restarted = true;
        }
    });
    assert!(restarted);
    assert_same(&summary, &all);
    assert!(summary.lost.is_empty(), "{:?}", summary.lost);
}

#[test]
fn two_agents_of_one_name_are_named() {
    let nats = Nats::start("");
    let folder = tempfile::tempdir().unwrap();
    let _agents = [Agent::start(&nats, "twin", folder.path()), Agent::start(&nats, "twin", folder.path())];
    let access = farm::Access::new(&nats.url(), None, "--").unwrap();
    let farm = farm::Farm::connect(&access, crate::scene::FARM.parse().unwrap()).unwrap();
    let problem = farm.gather(Some(3), testkit::DEADLINE).unwrap_err().to_string();
    assert_eq!(problem, "two agents are named `twin`: give one of them another --name");
}
