//! Finds the program that was the bottleneck from its busiest thread. Both running and waiting for a core count, because a
//! thread that waits for a core has work. Also judges whether a load that was the bottleneck makes its sample void. Pure.

use super::threads::Busiest;
use std::fmt;

/// A thread that ran or waited for a core for this share of the time counts as never idle.
pub const NEVER_IDLE: f64 = 0.85;
/// The same for a load. It is higher, because such a sample is lost.
const LOAD_NEVER_IDLE: f64 = 0.9;
/// A thread that waited for a core for this share of the time would be faster with its own core.
const SHORT_OF_CORES: f64 = 0.15;
/// With this share of the cores in use, a thread that wakes has to wait.
pub const CORES_FULL: f64 = 0.9;

/// What limited the throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// Programs that were never idle, the busiest first.
    pub programs: Vec<String>,
    /// Whether one of them would be faster with its own core.
    pub short_of_cores: bool,
    /// Whether all programs were idle at times but the cores were not.
    pub cores: bool,
    /// Programs whose busiest thread may have been one that no look saw, if no other program was never idle.
    pub unknown: Vec<String>,
}

impl Bottleneck {
    /// The bottleneck among programs with these busiest threads, given the share of all cores in use.
    pub fn find(programs: &[(&str, Busiest)], cores_used: f64) -> Self {
        let mut never_idle: Vec<_> = programs.iter().filter(|(_, busiest)| busiest.occupied() >= NEVER_IDLE).collect();
        never_idle.sort_by(|(_, one), (_, other)| other.running.total_cmp(&one.running));
        let may_hide = |(_, busiest): &&(&str, Busiest)| busiest.unseen >= NEVER_IDLE;
        let unknown = programs.iter().filter(|_| never_idle.is_empty()).filter(may_hide);
        Self {
            programs: never_idle.iter().map(|(name, _)| (*name).to_owned()).collect(),
            short_of_cores: never_idle.iter().any(|(_, busiest)| busiest.queued >= SHORT_OF_CORES),
            cores: never_idle.is_empty() && cores_used >= CORES_FULL,
            unknown: unknown.map(|(name, _)| (*name).to_owned()).collect(),
        }
    }
}

impl fmt::Display for Bottleneck {
    /// Formats it as `proxy`, `client+origin, short of cores`, `cores`, `none`, or `unknown: threads of client ended before
    /// a look saw them`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.programs.as_slice(), self.cores) {
            ([], _) if !self.unknown.is_empty() => {
                f.pad(&format!("unknown: threads of {} ended before a look saw them", self.unknown.join(" and ")))
            }
            ([], true) => f.pad("cores"),
            ([], false) => f.pad("none"),
            (names, _) => {
                let short = if self.short_of_cores { ", short of cores" } else { "" };
                f.pad(&format!("{}{short}", names.join("+")))
            }
        }
    }
}

/// Why a closed loop says nothing about its target: the load was never idle, and no server was as busy.
pub fn void_by_load(loads: &[(&str, Busiest)], servers: &[(&str, Busiest)]) -> Option<String> {
    let (name, load) = loads.iter().max_by(|(_, one), (_, other)| one.occupied().total_cmp(&other.occupied()))?;
    if load.occupied() < LOAD_NEVER_IDLE || servers.iter().any(|(_, server)| server.occupied() >= NEVER_IDLE) {
        return None;
    }
    let busiest = servers.iter().max_by(|(_, one), (_, other)| one.occupied().total_cmp(&other.occupied()));
    let beside =
        busiest.map_or_else(String::new, |(name, server)| format!(", and {name}'s {:.0} %", server.occupied() * 100.0));
    let load = load.occupied() * 100.0;
    Some(format!("{name} was the bottleneck: its busiest thread was busy {load:.0} % of the time{beside}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busiest((running, queued): (f64, f64)) -> Busiest {
        Busiest { running, queued, unseen: 0.0 }
    }

    fn found(client: (f64, f64), proxy: (f64, f64), origin: (f64, f64), cores_used: f64) -> String {
        let programs = [("client", busiest(client)), ("proxy", busiest(proxy)), ("origin", busiest(origin))];
        Bottleneck::find(&programs, cores_used).to_string()
    }

    #[test]
    fn the_busiest_process_is_the_bottleneck() {
        assert_eq!(found((0.6, 0.02), (0.97, 0.02), (0.4, 0.02), 0.99), "proxy");
        assert_eq!(found((0.6, 0.35), (0.5, 0.1), (0.4, 0.5), 0.99), "client+origin, short of cores");
        assert_eq!(found((0.6, 0.2), (0.6, 0.2), (0.4, 0.02), 0.97), "cores");
        assert_eq!(found((0.2, 0.0), (0.2, 0.0), (0.1, 0.0), 0.3), "none");
    }

    #[test]
    fn unseen_threads_leave_the_bottleneck_open() {
        let hidden = Busiest { unseen: 0.9, ..busiest((0.05, 0.0)) };
        let said = |proxy| Bottleneck::find(&[("client", hidden), ("proxy", busiest(proxy))], 0.5).to_string();
        assert_eq!(said((0.5, 0.1)), "unknown: threads of client ended before a look saw them");
        assert_eq!(said((0.9, 0.1)), "proxy", "this one was never idle, whatever the client did");
    }

    #[test]
    fn a_load_is_void_when_it_alone_was_never_idle() {
        let void = |load, server| void_by_load(&[("client", busiest(load))], &[("proxy", busiest(server))]);
        let said = void((0.9, 0.07), (0.5, 0.1)).unwrap();
        assert_eq!(said, "client was the bottleneck: its busiest thread was busy 97 % of the time, and proxy's 60 %");
        assert_eq!(void((0.97, 0.0), (0.8, 0.1)), None);
        assert_eq!(void((0.7, 0.1), (0.2, 0.0)), None);
        assert!(void_by_load(&[("client", busiest((1.0, 0.0)))], &[]).is_some());
        assert_eq!(void_by_load(&[], &[]), None);
    }
}
