//! Chooses free ports for a demo on the machine's own loopback, where another program may already listen. In a network
//! namespace all ports are free. Called before the run, which would otherwise fail and name the process that has a port.

use crate::Experiment;
use crate::experiment::{NetworkKind, Probe};
use crate::plan;
use std::net::{Ipv4Addr, TcpListener};

/// Values of the experiment that are ports, with the probes on these ports.
const PORTS: [(&str, &str); 2] = [("origin_port", "origin"), ("proxy_port", "proxy")];
/// Offsets from the experiment's ports, tried in this order. The results are below the ephemeral ports, which the clients
/// use.
const STEPS: [u16; 4] = [0, 10_000, 14_000, 18_000];

/// Moves the experiment to free ports. If all candidates are taken, it stays unchanged, and the run reports which process
/// has them.
pub fn give_free(experiment: &mut Experiment) {
    let Some(address) = plan::addresses(NetworkKind::Loopback, 0, 1).first().copied() else { return };
    let own: Option<Vec<u16>> = PORTS.iter().map(|(value, _)| experiment.values.get(*value)?.parse().ok()).collect();
    let Some(own) = own else { return };
    let moved = |step: &u16| -> Option<Vec<u16>> { own.iter().map(|port| port.checked_add(*step)).collect() };
    let Some(ports) = STEPS.iter().filter_map(moved).find(|ports| ports.iter().all(|port| is_free(address, *port)))
    else {
        return;
    };
    for ((value, name), free) in PORTS.iter().zip(ports) {
        experiment.values.insert((*value).to_owned(), free.to_string());
        for probe in &mut experiment.probes {
            if let Probe::Port { name: of, port, .. } = probe
                && of == name
            {
                *port = free;
            }
        }
    }
}

fn is_free(address: Ipv4Addr, port: u16) -> bool {
    TcpListener::bind((address, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    fn ports_of(experiment: &Experiment) -> (Vec<String>, Vec<u16>) {
        let values = PORTS.iter().map(|(value, _)| experiment.values[*value].clone()).collect();
        let probes = experiment.probes.iter().filter_map(|probe| match probe {
            Probe::Port { port, .. } => Some(*port),
            _ => None,
        });
        (values, probes.collect())
    }

    #[test]
    fn leaves_a_taken_port_alone() {
        let loaded = shipped::find(super::super::EXPERIMENT).expect("it comes with the program").load();
        let mut experiment = loaded.expect("it is sound").experiment;
        let (values, probes) = ports_of(&experiment);
        assert_eq!(
            values,
            probes.iter().map(u16::to_string).collect::<Vec<_>>(),
            "the probes look where the values say"
        );
        // Take a port.
        let address = plan::addresses(NetworkKind::Loopback, 0, 1)[0];
        let _held = TcpListener::bind((address, probes[1]));
        give_free(&mut experiment);
        let (values, moved) = ports_of(&experiment);
        assert_eq!(values, moved.iter().map(u16::to_string).collect::<Vec<_>>());
        let steps: Vec<u16> = moved.iter().zip(&probes).map(|(now, then)| now - then).collect();
        assert!(steps[0] == steps[1] && STEPS[1..].contains(&steps[0]), "{moved:?}");
    }
}
