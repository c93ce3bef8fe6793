//! Compares the expected resources of a scaled-down chain with the measured ones. The expectation uses the same
//! constants as the plan. Descriptors and ports must match exactly, memory within a tenth. Arithmetic and text only;
//! `usage` measures, and the binary builds the chain.

use super::Chain;
use crate::kernel::SOCKET_BYTES;
use report::figure::shown;
use report::{Figure, Outcome, Section, Severity, Table, Unit, Verdict};

/// Resident memory of Holdfast for one idle tunnel (bench/results, `cargo xtask bench proxy`). Holdfast replaces every
/// proxy of the chain here.
pub const TUNNEL_BYTES: u64 = 228;
/// Allowed deviation of memory, in percent.
pub const MEMORY_OFF_PERCENT_MAX: f64 = 10.0;

/// The measurements of one round. One entry per proxy and per hop, from the clients to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Additional descriptors of each proxy.
    pub descriptors: Vec<u64>,
    /// Local ports in use towards each tier except the first.
    pub ports: Vec<u64>,
    /// Additional kernel memory of sockets, over all processes.
    pub kernel_bytes: u64,
    /// Additional resident memory of the proxies.
    pub program_bytes: u64,
}

impl Round {
    /// What was added since an earlier count of the same processes and hops.
    pub fn since(&self, before: &Self) -> Self {
        let added =
            |after: &[u64], before: &[u64]| after.iter().zip(before).map(|(a, b)| a.saturating_sub(*b)).collect();
        Self {
            descriptors: added(&self.descriptors, &before.descriptors),
            ports: added(&self.ports, &before.ports),
            kernel_bytes: self.kernel_bytes.saturating_sub(before.kernel_bytes),
            program_bytes: self.program_bytes.saturating_sub(before.program_bytes),
        }
    }
}

/// The expected measurements for this many connections.
pub fn predicted(chain: &Chain, connections: u64) -> Round {
    let hops = chain.tiers.len().saturating_sub(1);
    let proxies = hops.saturating_sub(1);
    // Both ends of every hop are on this machine.
    let sockets = connections.saturating_mul(2).saturating_mul(hops as u64);
    Round {
        descriptors: vec![connections.saturating_mul(2); proxies],
        ports: vec![connections; hops],
        kernel_bytes: sockets.saturating_mul(SOCKET_BYTES),
        program_bytes: connections.saturating_mul(TUNNEL_BYTES).saturating_mul(proxies as u64),
    }
}

/// The comparison as a section, and whether no measurement contradicts. `measured` has at least one round.
pub fn section(chain: &Chain, connections: u64, measured: &[Round]) -> (Section, bool) {
    let expected = predicted(chain, connections);
    let mut table = Table::new(
        &format!("Measured here, {connections} tunnels through one host of each tier, {} rounds", measured.len()),
        &["where", "what", "computed", "measured"],
    );
    let mut exact = true;
    let names: Vec<&str> = chain.tiers.iter().map(|tier| tier.name.as_str()).collect();
    for (place, computed) in expected.descriptors.iter().enumerate() {
        let seen: Vec<u64> = measured.iter().filter_map(|round| round.descriptors.get(place).copied()).collect();
        exact &= seen.len() == measured.len() && seen.iter().all(|seen| seen == computed);
        let name = names.get(place + 1).copied().unwrap_or_default();
        table =
            table.row(vec![name.into(), "descriptors".into(), count(*computed).into(), spread(&seen, count).into()]);
    }
    for (place, computed) in expected.ports.iter().enumerate() {
        let seen: Vec<u64> = measured.iter().filter_map(|round| round.ports.get(place).copied()).collect();
        exact &= seen.len() == measured.len() && seen.iter().all(|seen| seen == computed);
        let hop = names.get(place..=place + 1).map(|pair| pair.join(" -> ")).unwrap_or_default();
        table = table.row(vec![hop.into(), "local ports".into(), count(*computed).into(), spread(&seen, count).into()]);
    }
    let kernel: Vec<u64> = measured.iter().map(|round| round.kernel_bytes).collect();
    let program: Vec<u64> = measured.iter().map(|round| round.program_bytes).collect();
    let both: Vec<u64> = measured.iter().map(|round| round.kernel_bytes + round.program_bytes).collect();
    let computed = expected.kernel_bytes + expected.program_bytes;
    for (what, computed, seen) in [
        ("kernel memory of sockets", expected.kernel_bytes, &kernel),
        ("memory of the proxies", expected.program_bytes, &program),
        ("memory together", computed, &both),
    ] {
        table = table.row(vec!["all".into(), what.into(), bytes(computed).into(), spread(seen, bytes).into()]);
    }
    let (outcome, reason, off) = memory(computed, &both);
    let section = Section::new("Verified")
        .table(table)
        .verdict(Verdict {
            claim: "descriptors and ports are as computed, to the last one".to_owned(),
            outcome: if exact { Outcome::Holds } else { Outcome::Fails },
            reason: "see the table".to_owned(),
            brief: String::new(),
            evidence: Vec::new(),
        })
        .verdict(Verdict {
            claim: format!("memory is within {MEMORY_OFF_PERCENT_MAX} % of what was computed"),
            outcome,
            reason,
            brief: String::new(),
            evidence: vec![("off".to_owned(), Figure::exact(off, Unit::Percent))],
        })
        .note(
            Severity::Note,
            format!(
                "Proxies here are Holdfast, {TUNNEL_BYTES} bytes a tunnel; user_bytes and queues of the description belong to what runs \
                 there. Kernel memory is that of the sockets counted here, with inode, file, directory entry and epoll entry, at the sizes \
                 that this kernel's slabs have; without the right to read them (root's), that of all slabs of the machine."
            ),
        );
    (section, exact && outcome != Outcome::Fails)
}

/// Whether memory is as computed, the explanation, and the deviation of the median in percent. Without root, kernel
/// memory is that of the whole machine, where other processes open and close files, too. It then contradicts only if
/// every round deviates in the same direction.
fn memory(computed: u64, measured: &[u64]) -> (Outcome, String, f64) {
    let off = |bytes: u64| (bytes as f64 / computed.max(1) as f64 - 1.0) * 100.0;
    let (offs, middle) = (measured.iter().map(|bytes| off(*bytes)), off(median(measured)));
    let rounds = measured.len();
    if middle.abs() <= MEMORY_OFF_PERCENT_MAX {
        return (Outcome::Holds, format!("the median of {rounds} rounds is {middle:+.1} % off"), middle);
    }
    let (least, most) = (offs.clone().fold(f64::MAX, f64::min), offs.fold(f64::MIN, f64::max));
    if least > MEMORY_OFF_PERCENT_MAX || most < -MEMORY_OFF_PERCENT_MAX {
        let reason = format!("the median of {rounds} rounds is {middle:+.1} % off, and none is within");
        return (Outcome::Fails, reason, middle);
    }
    let reason = format!(
        "{rounds} rounds are {least:+.1} % to {most:+.1} % off: other work on this machine took or freed memory meanwhile"
    );
    (Outcome::Undecided, reason, middle)
}

fn count(value: u64) -> String {
    shown(value as f64, &Unit::of("")).trim().to_owned()
}

fn bytes(value: u64) -> String {
    shown(value as f64, &Unit::Bytes)
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// The median, with minimum and maximum if they differ.
fn spread(values: &[u64], shown: fn(u64) -> String) -> String {
    let (least, most) = (values.iter().min(), values.iter().max());
    match (least, most) {
        (Some(least), Some(most)) if least < most => {
            format!("{} [{}-{}]", shown(median(values)), shown(*least), shown(*most))
        }
        _ => shown(median(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_subtracts_the_earlier_count() {
        let count = |n: u64| Round { descriptors: vec![n, 9], ports: vec![n], kernel_bytes: n, program_bytes: 5 };
        let added = Round { descriptors: vec![4, 0], ports: vec![4], kernel_bytes: 4, program_bytes: 0 };
        assert_eq!(count(7).since(&count(3)), added);
        assert_eq!(count(3).since(&count(7)).kernel_bytes, 0, "memory was freed");
    }
    use crate::plan::parse_chain;

    fn chain() -> Chain {
        let tiers =
            "[[tier]]\nname='clients'\n[[tier]]\nname='nginx'\n[[tier]]\nname='ingress'\n[[tier]]\nname='service'\n";
        parse_chain(&format!("connections = 1000\n{tiers}")).expect("a chain")
    }

    #[test]
    fn four_tiers_have_two_proxies_and_three_hops() {
        let round = predicted(&chain(), 1000);
        assert_eq!((round.descriptors, round.ports), (vec![2000, 2000], vec![1000, 1000, 1000]));
        assert_eq!((round.kernel_bytes, round.program_bytes), (6000 * 4096, 456_000));
    }

    #[test]
    fn contradicts_one_descriptor_or_an_eighth_of_memory_more() {
        let right = predicted(&chain(), 1000);
        assert!(section(&chain(), 1000, &[right.clone(), right.clone()]).1);
        let mut wrong = right.clone();
        wrong.descriptors[1] += 1;
        assert!(!section(&chain(), 1000, &[right.clone(), wrong]).1);
        let mut off = right.clone();
        off.kernel_bytes = off.kernel_bytes * 7 / 8;
        assert!(!section(&chain(), 1000, std::slice::from_ref(&off)).1);
        // The median of the rounds counts, so one round disturbed by other work does not.
        assert!(section(&chain(), 1000, &[right.clone(), off, right]).1);
    }

    #[test]
    fn memory_is_contradicted_by_all_rounds_and_undecided_by_some() {
        let outcome = |measured: &[u64]| memory(1000, measured).0;
        assert_eq!(outcome(&[1090, 900, 1050]), Outcome::Holds);
        assert_eq!(outcome(&[1500, 1000, 1090]), Outcome::Holds, "the median does");
        assert_eq!(outcome(&[1111, 1200, 1150]), Outcome::Fails);
        assert_eq!(outcome(&[880, 700, 890]), Outcome::Fails);
        assert_eq!(outcome(&[1500, 1000, 1600]), Outcome::Undecided);
        let (_, reason, off) = memory(1000, &[1500, 800, 1600]);
        assert!(reason.starts_with("3 rounds are -20.0 % to +60.0 % off"), "{reason}");
        assert!((off - 50.0).abs() < 0.001);
    }
}
