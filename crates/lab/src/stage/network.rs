//! The network of one sample: its hosts as namespaces on a virtual switch, as one namespace, or as addresses on the
//! machine's own loopback. It is created for each sample, and dropping it removes it. `processes` starts programs in it,
//! and `looks` counts its sockets.

use super::StageError;
use super::namespace::{file_of, ip, names_with, remove};
use crate::experiment::NetworkKind;
use crate::plan::StagedHost;
use sockdiag::{Namespace, Settings};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// All hosts of an experiment are in one network: the third byte is the number of the host, the last one the number of the
/// address.
const PREFIX_BITS: u8 = 16;
/// Prefix of the names of namespaces, followed by the pid of the run and the number of the sample.
pub(super) const NAME_PREFIX: &str = "holdfast-lab-";

/// The hosts of one sample. Dropping it removes everything that was created for it.
#[derive(Debug)]
pub struct MadeNetwork {
    /// Names of namespaces to remove.
    names: Vec<String>,
    /// The place of each host.
    spaces: BTreeMap<String, Space>,
}

/// The place of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Space {
    /// Hosts in the same namespace see the same sockets; `None` is the namespace of this process.
    pub(super) namespace: Option<Namespace>,
}

impl Space {
    /// Runs `work` there, in a separate thread. What it starts or opens belongs to that namespace.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, StageError> {
        match &self.namespace {
            None => Ok(work()),
            Some(namespace) => Ok(namespace.run(work)?),
        }
    }
}

impl MadeNetwork {
    /// Creates the network.
    pub fn make(kind: NetworkKind, hosts: &[StagedHost]) -> Result<Self, StageError> {
        let stem = name_stem();
        let mut network = Self { names: Vec::new(), spaces: BTreeMap::new() };
        match kind {
            NetworkKind::Hosts => network.make_hosts(&stem, hosts)?,
            NetworkKind::Namespace => network.make_one(&stem, hosts)?,
            NetworkKind::Loopback => network.spaces.extend(hosts.iter().map(|host| {
                let space = Space { namespace: None };
                (host.name.clone(), space)
            })),
        }
        if kind != NetworkKind::Loopback {
            for host in hosts {
                network.write_sysctls(host)?;
            }
        }
        Ok(network)
    }

    /// Creates a switch in its own namespace, and a virtual cable from each host to it.
    fn make_hosts(&mut self, stem: &str, hosts: &[StagedHost]) -> Result<(), StageError> {
        let switch = format!("{stem}.switch");
        let mut lines = format!("netns add {switch}\n");
        self.names.push(switch.clone());
        for host in hosts {
            let name = format!("{stem}-{}", host.name);
            let _ = writeln!(lines, "netns add {name}");
            self.spaces.insert(host.name.clone(), Space { namespace: Some(Namespace::Path(file_of(&name))) });
            self.names.push(name);
        }
        ip(&lines)?;
        // Without a spanning tree, a port of the switch forwards at once.
        let mut lines = "link add name switch type bridge stp_state 0\nlink set switch up\n".to_owned();
        for (number, host) in hosts.iter().enumerate() {
            let cable = format!("to{number}");
            let _ = writeln!(lines, "link add {cable} type veth peer name eth0 netns {stem}-{}", host.name);
            let _ = writeln!(lines, "link set {cable} master switch up");
        }
        // `ip -netns` would mount /sys each time; a thread that has entered the namespace does not need that.
        Namespace::Path(file_of(&switch)).run(|| ip(&lines))??;
        let hosts = hosts.iter().map(|host| {
            let mut lines = "link set lo up\nlink set eth0 up\n".to_owned();
            for address in &host.addresses {
                let _ = writeln!(lines, "address add {address}/{PREFIX_BITS} dev eth0");
            }
            Ok((self.space(&host.name)?, lines))
        });
        let hosts = hosts.collect::<Result<Vec<_>, StageError>>()?;
        // The kernel delays each of these by some milliseconds, so do them at the same time.
        std::thread::scope(|scope| {
            let set = hosts.into_iter().map(|(space, lines)| scope.spawn(move || space.run(|| ip(&lines))?));
            let under_way: Vec<_> = set.collect();
            let done = |thread: std::thread::ScopedJoinHandle<'_, Result<(), StageError>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            under_way.into_iter().try_for_each(done)
        })
    }

    fn make_one(&mut self, stem: &str, hosts: &[StagedHost]) -> Result<(), StageError> {
        let name = format!("{stem}.one");
        self.names.push(name.clone());
        ip(&format!("netns add {name}\n"))?;
        let space = Space { namespace: Some(Namespace::Path(file_of(&name))) };
        // The interface brings all of 127.0.0.0/8 with it.
        space.run(|| ip("link set lo up\n"))??;
        self.spaces.extend(hosts.iter().map(|host| (host.name.clone(), space.clone())));
        Ok(())
    }

    fn write_sysctls(&self, host: &StagedHost) -> Result<(), StageError> {
        let write = || -> Result<(), StageError> {
            for (name, value) in &host.sysctls {
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                std::fs::write(path, value).map_err(|error| {
                    let hint = match error.kind() {
                        std::io::ErrorKind::NotFound => " (a network namespace has no such setting)",
                        std::io::ErrorKind::PermissionDenied => " (it is the whole machine's)",
                        _ => "",
                    };
                    StageError::new(format!("cannot set {name} = {value} on host {}: {error}{hint}", host.name))
                })?;
            }
            Ok(())
        };
        self.space(&host.name)?.run(write)?
    }

    /// The place of a host.
    pub(super) fn space(&self, host: &str) -> Result<&Space, StageError> {
        self.spaces.get(host).ok_or_else(|| StageError::new(format!("there is no host {host}")))
    }

    /// Each place with its hosts: one place if they share a namespace.
    pub(super) fn places(&self) -> Vec<(Space, Vec<String>)> {
        let mut places: Vec<(Space, Vec<String>)> = Vec::new();
        for (host, space) in &self.spaces {
            match places.iter_mut().find(|(known, _)| known == space) {
                Some((_, hosts)) => hosts.push(host.clone()),
                None => places.push((space.clone(), vec![host.clone()])),
            }
        }
        places
    }

    /// The settings of a host that limit its number of connections.
    pub fn settings(&self, host: &str) -> Result<Settings, StageError> {
        self.space(host)?.run(Settings::read)
    }
}

/// `holdfast-lab-17-3`: the third network of process 17. Names are unique, because a killed run leaves its namespaces
/// behind.
pub(super) fn name_stem() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    loop {
        let stem = format!("{NAME_PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        if names_with(&stem).is_empty() {
            return stem;
        }
    }
}

/// How this kind differs from machines on a network.
pub(super) fn in_words(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Hosts => {
            "a network namespace for each host, on one virtual switch: each has its own sysctls, ports and TIME_WAIT, and \
             tcp_tw_reuse = 2 means nothing, as between machines; latency and loss are those of a switch in memory"
        }
        NetworkKind::Namespace => {
            "one network namespace for all hosts, which talk over its loopback: both ends of a connection are counted on \
             every host, sysctls are common, and tcp_tw_reuse = 2 takes ports out of TIME_WAIT after a second"
        }
        NetworkKind::Loopback => {
            "the machine's own loopback: both ends of a connection and the machine's other sockets are counted on every host, \
             what a sample leaves in TIME_WAIT is there for the next one, sysctls are the machine's, and tcp_tw_reuse = 2 \
             takes ports out of TIME_WAIT after a second"
        }
    }
}

impl Drop for MadeNetwork {
    fn drop(&mut self) {
        remove(&self.names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

    fn host(name: &str, first: [u8; 4], sysctls: &[(&str, &str)]) -> StagedHost {
        let first = Ipv4Addr::from(first);
        StagedHost {
            name: name.to_owned(),
            addresses: vec![first, Ipv4Addr::from_bits(first.to_bits() + 1)],
            sysctls: sysctls.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    #[test]
    fn hosts_talk_over_the_switch_and_leave_no_trace() {
        let sysctls = [("net.core.somaxconn", "77"), ("net.ipv4.ip_local_port_range", "40000 40099")];
        let hosts = [host("a", [10, 77, 0, 1], &[]), host("b", [10, 77, 1, 1], &sysctls)];
        let network = MadeNetwork::make(NetworkKind::Hosts, &hosts).unwrap();
        let listener = network.space("a").unwrap().run(|| TcpListener::bind("10.77.0.2:80")).unwrap().unwrap();
        let mut stream = network.space("b").unwrap().run(|| TcpStream::connect("10.77.0.2:80")).unwrap().unwrap();
        let (mut accepted, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), IpAddr::from(hosts[1].addresses[0]), "the first address is the one that speaks");
        assert!((40_000..=40_099).contains(&from.port()));
        stream.write_all(b"over the switch").unwrap();
        drop(stream);
        let mut heard = String::new();
        accepted.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "over the switch");
        assert_eq!(network.settings("b").unwrap().somaxconn, Some(77));
        assert_ne!(network.settings("a").unwrap().somaxconn, Some(77));
        assert_eq!(network.places().len(), 2);

        let names = network.names.clone();
        assert!(names.len() == 3 && names.iter().all(|name| file_of(name).exists()));
        drop(network);
        assert!(!names.iter().any(|name| file_of(name).exists()));
    }

    #[test]
    fn missing_namespace_setting_names_its_host() {
        let one = MadeNetwork::make(
            NetworkKind::Namespace,
            &[host("a", [127, 0, 0, 1], &[]), host("b", [127, 0, 1, 1], &[])],
        )
        .unwrap();
        assert_eq!(one.places().len(), 1);
        let listener = one.space("a").unwrap().run(|| TcpListener::bind("127.0.0.2:80")).unwrap().unwrap();
        one.space("b").unwrap().run(|| TcpStream::connect("127.0.0.2:80")).unwrap().unwrap();
        drop(listener);
        let unknown = host("a", [127, 0, 0, 1], &[("net.core.no_such", "1")]);
        let error = MadeNetwork::make(NetworkKind::Namespace, &[unknown]).unwrap_err();
        assert!(error.text.contains("net.core.no_such = 1 on host a"), "{error}");
    }
}
