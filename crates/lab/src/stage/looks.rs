//! Observes a sample while it runs: sockets by TCP state on every host and port, queues, unread bytes, processes, and the
//! metrics they report. A look is a set of numbers with the names that figures use; `figures` evaluates the looks. Called
//! by `sample`.

use super::StageError;
use super::ask::{Url, parse_numbers};
use super::network::{MadeNetwork, Space};
use super::threads::Threads;
use super::usage::{descriptors_of, rss_kib_of, tree};
use crate::experiment::Probe;
use sockdiag::{Census, Question, Settings, Socket, State, Timer};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// Most destinations of one host whose sockets are counted. An experiment has a few; a client with a different port for
/// each connection is not one.
const DESTINATIONS_MAX: usize = 4096;
/// During a load, a metrics page is requested again only if the last response took less than this. Looking must not load an
/// overloaded server, and the other looks must not wait for it.
const TOLD_TIME_MAX: Duration = Duration::from_millis(100);
/// Largest text of /proc/net that is read; it has some four thousand bytes.
const COUNTERS_BYTES_MAX: usize = 64 * 1024;

/// Numbers by name.
pub(super) type Numbers = BTreeMap<String, f64>;

/// One look.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) numbers: Numbers,
    /// Threads by process and load.
    pub(super) threads: BTreeMap<String, Threads>,
    /// By host, the destination for which it uses most ports.
    pub(super) fullest: BTreeMap<String, Fullest>,
}

/// The sockets from one address to one destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fullest {
    /// `10.77.1.1 to 10.77.0.1:10000`.
    pub(super) pair: String,
    pub(super) sockets: u32,
    /// Number of ports that `connect()` may choose from.
    pub(super) usable: u32,
}

/// A process to watch.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) pid: u32,
}

/// Looks at one network.
#[derive(Debug)]
pub(super) struct Looker {
    places: Vec<Place>,
    told: Vec<Told>,
}

/// One network namespace.
#[derive(Debug)]
struct Place {
    /// The hosts in this namespace.
    hosts: Vec<String>,
    /// The probes of ports in this namespace.
    probes: Vec<Probe>,
    census: Census,
    question: Question<'static>,
    /// `/proc/net/snmp` and `netstat` of the namespace.
    counters: [File; 2],
    settings: Settings,
}

/// A process that is asked for metrics.
#[derive(Debug)]
struct Told {
    name: String,
    space: Space,
    url: Url,
    /// How long its last response took.
    took: Duration,
    /// Number of requests to it so far.
    asked: u64,
}

impl Looker {
    /// Opens the census and the files in every namespace.
    pub(super) fn open(network: &MadeNetwork, probes: &[Probe]) -> Result<Self, StageError> {
        let mut places = Vec::new();
        for (space, hosts) in network.places() {
            let here: Vec<Probe> = probes
                .iter()
                .filter(|probe| host_of(probe).is_some_and(|host| hosts.iter().any(|known| known == host)))
                .cloned()
                .collect();
            let opened = space.run(|| -> Result<_, StageError> {
                let counters =
                    [File::open("/proc/thread-self/net/snmp")?, File::open("/proc/thread-self/net/netstat")?];
                Ok((Census::open()?, counters, Settings::read()))
            })?;
            let (census, counters, settings) = opened?;
            // Windows and timers need the socket details, which are requested only if a probe uses them.
            let tcp_info = here.iter().any(|probe| matches!(probe, Probe::Bytes { .. }));
            let question = Question { tcp_info, memory: false, ..Question::default() };
            places.push(Place { hosts, probes: here, census, question, counters, settings });
        }
        let mut told = Vec::new();
        for probe in probes {
            if let Probe::Told { name, host, url } = probe {
                let parsed = Url::parse(url);
                let url = parsed
                    .ok_or_else(|| StageError::new(format!("probe {name}: {url} is not http://ADDRESS:PORT/PATH")))?;
                told.push(Told {
                    name: name.clone(),
                    space: network.space(host)?.clone(),
                    url,
                    took: Duration::ZERO,
                    asked: 0,
                });
            }
        }
        Ok(Self { places, told })
    }

    /// Looks at everything. `asked` includes processes whose metrics pages are slow.
    pub(super) fn look(&mut self, watched: &[Watched], asked: bool) -> Result<Look, StageError> {
        let at = Instant::now();
        let mut look = Look { at, numbers: Numbers::new(), threads: BTreeMap::new(), fullest: BTreeMap::new() };
        for place in &mut self.places {
            place.look(&mut look)?;
        }
        for process in watched {
            // Listed again each time, because a master may have started other workers.
            let pids = tree(process.pid);
            let name = &process.name;
            look.numbers.insert(format!("rss_mb.{name}"), rss_kib_of(&pids) as f64 / 1024.0);
            look.numbers.insert(format!("descriptors.{name}"), descriptors_of(&pids) as f64);
            look.threads.insert(name.clone(), Threads::of(&pids));
        }
        for told in &mut self.told {
            if asked || told.took < TOLD_TIME_MAX {
                look.numbers.extend(told.ask());
            }
        }
        Ok(look)
    }

    /// The kernel's counters of every host, such as `tcp.HOST.TcpExt.ListenOverflows`.
    pub(super) fn counters(&self) -> Numbers {
        let mut all = Numbers::new();
        for place in &self.places {
            for file in &place.counters {
                for (name, value) in parse_counters(&read_again(file)) {
                    all.extend(place.hosts.iter().map(|host| (format!("tcp.{host}.{name}"), value)));
                }
            }
        }
        all
    }

    /// Remarks on how the sockets are counted, if it is not the usual way.
    pub(super) fn remarks(&self) -> Vec<String> {
        let odd = self.places.iter().filter(|place| *place.census.source() != sockdiag::Source::Netlink);
        odd.map(|place| format!("sockets of {}: {}", place.hosts.join(", "), place.census.source())).collect()
    }
}

impl Told {
    fn ask(&mut self) -> Numbers {
        let begun = Instant::now();
        let answer = self.space.run(|| self.url.ask()).ok().and_then(Result::ok);
        self.took = begun.elapsed();
        self.asked += 1;
        let numbers = answer.map(|(_, text)| parse_numbers(&text, self.asked)).unwrap_or_default();
        numbers.into_iter().map(|(metric, value)| (format!("told.{}.{metric}", self.name), value)).collect()
    }
}

/// The host of a probe that looks at sockets.
fn host_of(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Port { host, .. } | Probe::Queue { host, .. } | Probe::Bytes { host, .. } => Some(host),
        Probe::Told { .. } | Probe::Calls { .. } => None,
    }
}

/// The sums of one census.
#[derive(Default)]
struct Counted {
    states: [u32; State::ALL.len()],
    /// By probe.
    probes: Vec<OfProbe>,
    destinations: HashMap<(IpAddr, IpAddr, u16), u32>,
}

#[derive(Clone, Default)]
struct OfProbe {
    states: [u32; State::ALL.len()],
    /// In TIME_WAIT with the probe's port as their local port.
    closed_first: u32,
    receive: u64,
    send: u64,
    zero_windows: u32,
}

impl Place {
    fn look(&mut self, look: &mut Look) -> Result<(), StageError> {
        let (probes, settings) = (&self.probes, &self.settings);
        let begin = || Counted { probes: vec![OfProbe::default(); probes.len()], ..Counted::default() };
        let add = |counted: &mut Counted, socket: &Socket| counted.add(socket, probes, settings);
        let (counted, _) = self.census.collect(&self.question, begin, add)?;
        for host in &self.hosts {
            add_states(&mut look.numbers, host, &counted.states);
        }
        for (probe, of) in probes.iter().zip(&counted.probes) {
            match probe {
                Probe::Port { name, .. } => {
                    add_states(&mut look.numbers, name, &of.states);
                    look.numbers.insert(format!("closed_first.{name}"), f64::from(of.closed_first));
                }
                Probe::Queue { name, .. } => {
                    look.numbers.insert(format!("queue.{name}.length"), of.receive as f64);
                    look.numbers.insert(format!("queue.{name}.backlog"), of.send as f64);
                }
                Probe::Bytes { name, .. } => {
                    look.numbers.insert(format!("bytes.{name}.receive"), of.receive as f64);
                    look.numbers.insert(format!("bytes.{name}.send"), of.send as f64);
                    look.numbers.insert(format!("bytes.{name}.zero_windows"), f64::from(of.zero_windows));
                }
                Probe::Told { .. } | Probe::Calls { .. } => {}
            }
        }
        let fullest = counted.destinations.iter().max_by_key(|(_, sockets)| **sockets);
        let usable = settings.ports_usable().filter(|usable| *usable > 0);
        if let (Some(((local, remote, port), sockets)), Some(usable)) = (fullest, usable) {
            let pair = format!("{local} to {}", std::net::SocketAddr::new(*remote, *port));
            for host in &self.hosts {
                look.numbers.insert(format!("ports.{host}"), f64::from(*sockets) / f64::from(usable));
                look.fullest.insert(host.clone(), Fullest { pair: pair.clone(), sockets: *sockets, usable });
            }
        }
        Ok(())
    }
}

impl Counted {
    fn add(&mut self, socket: &Socket, probes: &[Probe], settings: &Settings) {
        let (local, remote) = (socket.local.port(), socket.remote.port());
        count(&mut self.states, socket.state);
        for (probe, of) in probes.iter().zip(&mut self.probes) {
            match probe {
                Probe::Port { port, .. } if local == *port || remote == *port => {
                    count(&mut of.states, socket.state);
                    of.closed_first += u32::from(local == *port && socket.state == State::TimeWait);
                }
                Probe::Queue { port, .. } if local == *port && socket.state == State::Listen => {
                    of.receive += u64::from(socket.recv_queue);
                    of.send += u64::from(socket.send_queue);
                }
                Probe::Bytes { port, .. } if (local == *port || remote == *port) && socket.state != State::Listen => {
                    of.receive += u64::from(socket.recv_queue);
                    of.send += u64::from(socket.send_queue);
                    of.zero_windows += u32::from(is_zero_window(socket));
                }
                _ => {}
            }
        }
        if socket.state != State::Listen && remote != 0 && settings.is_ephemeral(local) {
            let destination = (socket.local.ip(), socket.remote.ip(), remote);
            if self.destinations.len() < DESTINATIONS_MAX || self.destinations.contains_key(&destination) {
                *self.destinations.entry(destination).or_insert(0) += 1;
            }
        }
    }
}

/// Whether the peer has closed its window while data waits for it.
fn is_zero_window(socket: &Socket) -> bool {
    let closed = socket.tcp.and_then(|tcp| tcp.traffic).is_some_and(|traffic| traffic.send_window == 0);
    matches!(socket.timer, Timer::Probe(_)) || (closed && socket.send_queue > 0)
}

fn count(states: &mut [u32; State::ALL.len()], state: State) {
    if let Some(count) = states.get_mut(state.index()) {
        *count += 1;
    }
}

fn add_states(numbers: &mut Numbers, of: &str, states: &[u32; State::ALL.len()]) {
    for (state, count) in State::ALL.into_iter().zip(states) {
        numbers.insert(format!("sockets.{of}.{}", state.name()), f64::from(*count));
    }
    numbers.insert(format!("sockets.{of}"), states.iter().copied().map(f64::from).sum());
}

/// Reads a file of /proc/net from its start; it still describes the namespace in which it was opened.
fn read_again(file: &File) -> String {
    let mut bytes = vec![0; COUNTERS_BYTES_MAX];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) | Err(_) => break,
            Ok(read) => filled += read,
        }
    }
    String::from_utf8_lossy(bytes.get(..filled).unwrap_or_default()).into_owned()
}

/// Parses `Tcp: A B` above `Tcp: 1 2`: the TCP counters with the kernel's groups and names.
fn parse_counters(text: &str) -> Vec<(String, f64)> {
    let mut counters = Vec::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((again, values))) = (names.split_once(':'), values.split_once(':')) else {
            continue;
        };
        if group != again || !matches!(group, "Tcp" | "TcpExt") {
            continue;
        }
        let pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        counters.extend(pairs.filter_map(|(name, value)| Some((format!("{group}.{name}"), value.parse().ok()?))));
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::NetworkKind;
    use crate::plan::StagedHost;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    fn host(name: &str, third: u8) -> StagedHost {
        let addresses = vec![Ipv4Addr::new(10, 77, third, 1)];
        StagedHost { name: name.to_owned(), addresses, sysctls: BTreeMap::new() }
    }

    #[test]
    fn look_sees_both_hosts_and_unread_bytes() {
        let network = MadeNetwork::make(NetworkKind::Hosts, &[host("client", 0), host("origin", 1)]).unwrap();
        let port = |name: &str, host: &str| Probe::Port { name: name.to_owned(), host: host.to_owned(), port: 80 };
        let of = |host: &str| ("unread".to_owned(), host.to_owned(), 80);
        let (name, host_name, number) = of("origin");
        let probes = [
            port("to", "client"),
            Probe::Queue { name: "accepts".to_owned(), host: "origin".to_owned(), port: 80 },
            Probe::Bytes { name, host: host_name, port: number },
        ];
        let mut looker = Looker::open(&network, &probes).unwrap();
        let before = looker.counters();
        let listener = network.space("origin").unwrap().run(|| TcpListener::bind("10.77.1.1:80")).unwrap().unwrap();
        let connect = || {
            let mut stream = TcpStream::connect("10.77.1.1:80")?;
            std::io::Write::write_all(&mut stream, &[b'x'; 1000])?;
            std::io::Result::Ok(stream)
        };
        let stream = network.space("client").unwrap().run(connect).unwrap().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let look = loop {
            let own = Watched { name: "us".to_owned(), pid: std::process::id() };
            let look = looker.look(&[own], true).unwrap();
            if look.numbers["bytes.unread.receive"] > 0.0 {
                break look;
            }
            assert!(Instant::now() < deadline, "the bytes never came: {look:?}");
        };
        let of = |name: &str| look.numbers[name];
        assert_eq!((of("sockets.client.ESTABLISHED"), of("sockets.origin.ESTABLISHED")), (1.0, 1.0));
        assert_eq!((of("sockets.origin.LISTEN"), of("sockets.client.LISTEN"), of("sockets.to")), (1.0, 0.0, 1.0));
        assert_eq!((of("queue.accepts.length"), of("bytes.unread.receive")), (1.0, 1000.0));
        assert!(of("queue.accepts.backlog") > 1.0 && of("rss_mb.us") > 0.0 && of("descriptors.us") > 3.0);
        assert_eq!((look.fullest["client"].sockets, look.fullest.contains_key("origin")), (1, false));
        assert!(look.fullest["client"].pair.ends_with("to 10.77.1.1:80"));
        let grown = |name: &str| looker.counters()[name] - before[name];
        assert_eq!((grown("tcp.client.Tcp.ActiveOpens"), grown("tcp.origin.Tcp.ActiveOpens")), (1.0, 0.0));
        drop((stream, listener));
    }

    #[test]
    fn census_knows_both_port_ends_and_closed_windows() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut socket = Socket::between(address("10.77.1.1:40000"), address("10.77.0.1:80"));
        socket.send_queue = 7;
        socket.timer = Timer::Probe(200);
        let settings = Settings { port_range: Some(32_768..=60_999), ..Settings::default() };
        let probes = [
            Probe::Bytes { name: "b".to_owned(), host: "h".to_owned(), port: 80 },
            Probe::Port { name: "p".to_owned(), host: "h".to_owned(), port: 443 },
        ];
        let mut counted = Counted { probes: vec![OfProbe::default(); 2], ..Counted::default() };
        counted.add(&socket, &probes, &settings);
        assert_eq!((counted.probes[0].send, counted.probes[0].zero_windows), (7, 1));
        assert_eq!(counted.probes[1].states.iter().sum::<u32>(), 0);
        assert_eq!(counted.destinations.values().copied().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn counters_keep_the_kernels_names() {
        let text = "Ip: A\nIp: 1\nTcp: RtoMin MaxConn\nTcp: 200 -1\nTcpExt: TW\nTcpExt: 5\nTcpExt: broken\nIpExt: 1\n";
        let counters = parse_counters(text);
        let expected = [("Tcp.RtoMin", 200.0), ("Tcp.MaxConn", -1.0), ("TcpExt.TW", 5.0)];
        assert_eq!(counters, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
