//! The census beside `ss -tanieom` at the same moment, on sockets of our own: every state that can be held still, queues,
//! timers, both families, and the same through `/proc` and through the kernel's filters.

use sockdiag::{Census, DestroyEvents, Filter, Owners, Question, Socket, Source, State, StateSet};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Connections in states that do not change while they are looked at, all on one port.
struct Scene {
    port: u16,
    _listener: TcpListener,
    kept: Vec<TcpStream>,
}

fn scene() -> Scene {
    let listener = TcpListener::bind("[::1]:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let pair = || {
        let client = TcpStream::connect(address).expect("it listens");
        (client, listener.accept().expect("connected").0)
    };
    let (mut talker, silent) = pair();
    talker.write_all(b"twelve bytes").expect("sent");
    let (left, closer) = pair();
    closer.shutdown(Shutdown::Write).expect("open");
    let (mut first, second) = pair();
    first.shutdown(Shutdown::Write).expect("open");
    drop(second);
    let _ = first.read(&mut [0; 1]);
    drop(first); // FIN and FIN: TIME_WAIT on the client's side
    let waiting = TcpStream::connect(address).expect("it listens"); // in the accept queue
    Scene { port: address.port(), _listener: listener, kept: vec![talker, silent, left, closer, waiting] }
}

/// State, both ends and both queues, as text that ss's lines can be brought into.
fn key(socket: &Socket) -> String {
    let (local, remote) = (socket.local, socket.remote);
    let remote = if remote.port() == 0 { "*".to_owned() } else { remote.to_string() };
    format!("{} {local} {remote} {} {} {}", socket.state, socket.recv_queue, socket.send_queue, socket.inode)
}

fn ss_key(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let state = match words.next()? {
        "ESTAB" => "ESTABLISHED",
        "TIME-WAIT" => "TIME_WAIT",
        "CLOSE-WAIT" => "CLOSE_WAIT",
        "FIN-WAIT-1" => "FIN_WAIT1",
        "FIN-WAIT-2" => "FIN_WAIT2",
        "LISTEN" => "LISTEN",
        other => panic!("{other}"),
    };
    let (recv, send, local, remote) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let remote = if remote.ends_with(":*") { "*" } else { remote };
    let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
    Some(format!("{state} {local} {remote} {recv} {send} {inode}"))
}

fn by_ss(port: u16) -> Vec<String> {
    // By the address, too: over IPv4 another test may have a socket with this port in TIME_WAIT.
    let filter = format!("src [::1] and ( sport = :{port} or dport = :{port} )");
    let output = Command::new("ss").args(["-tanieomOH", &filter]).output().expect("iproute2 is installed");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<String> = text.lines().filter_map(ss_key).collect();
    lines.sort();
    lines
}

fn by_us(census: &mut Census, filter: Option<&Filter>, port: u16) -> Vec<String> {
    let mut lines = Vec::new();
    let question = Question { filter, ..Question::default() };
    let visit = |socket: &Socket| {
        if socket.local.ip() == Ipv6Addr::LOCALHOST && [socket.local.port(), socket.remote.port()].contains(&port) {
            lines.push(key(socket));
        }
    };
    census.for_each(&question, visit).expect("the kernel answers");
    lines.sort();
    lines
}

fn filter(words: &str) -> Filter {
    Filter::parse(words, &mut ()).expect(words)
}

/// Asks until both say the same: a FIN may still be under way at the first look.
fn until_equal(mut both: impl FnMut() -> (Vec<String>, Vec<String>)) -> Vec<String> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let (one, other) = both();
        if one == other {
            return one;
        }
        assert!(Instant::now() < deadline, "{one:#?}\nis not\n{other:#?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Asks until as many sockets of a port are in each state: the last segments may still be under way.
fn until_states(census: &mut Census, port: u16, expected: &BTreeMap<&str, u32>) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let lines = by_us(census, None, port);
        let mut states = BTreeMap::new();
        for line in &lines {
            *states.entry(line.split(' ').next().unwrap_or_default()).or_insert(0) += 1;
        }
        if states == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "{lines:#?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn the_census_matches_ss() {
    let scene = scene();
    let mut census = Census::open().expect("a kernel");
    assert_eq!(census.source(), &Source::Netlink);
    let expected = [("CLOSE_WAIT", 1), ("ESTABLISHED", 4), ("FIN_WAIT2", 1), ("LISTEN", 1), ("TIME_WAIT", 1)];
    until_states(&mut census, scene.port, &BTreeMap::from(expected));
    let lines = until_equal(|| (by_us(&mut census, None, scene.port), by_ss(scene.port)));
    assert_eq!(scene.kept.len(), 5);

    // The same where the kernel filters, on each of the ends.
    let either = filter(&format!("port = :{}", scene.port));
    until_equal(|| (by_us(&mut census, Some(&either), scene.port), by_ss(scene.port)));
    let accepted = filter(&format!("state connected sport = :{} and src [::1]", scene.port));
    let found = by_us(&mut census, Some(&accepted), scene.port);
    assert_eq!(found.len(), lines.iter().filter(|line| line.contains(&format!("[::1]:{} [::1]", scene.port))).count());
    assert_eq!(by_us(&mut census, Some(&filter("dst 10.0.0.0/8")), scene.port), [""; 0]);

    // And through /proc, which does not know the granted backlog.
    let mut slow = Census::open_proc("the test wants it".to_owned()).expect("/proc is there");
    let without_backlog = |mut lines: Vec<String>| {
        for line in &mut lines {
            if line.starts_with("LISTEN") {
                *line = line.split(' ').take(4).collect::<Vec<_>>().join(" ");
            }
        }
        lines
    };
    until_equal(|| (without_backlog(by_us(&mut slow, None, scene.port)), without_backlog(by_ss(scene.port))));
    assert_eq!(by_us(&mut slow, Some(&accepted), scene.port), found);
}

#[test]
fn listeners_show_their_accept_queue_and_the_backlog_granted() {
    let scene = scene();
    let mut census = Census::open().expect("a kernel");
    let question = Question { states: StateSet::of(&[State::Listen]), ..Question::default() };
    let deadline = Instant::now() + DEADLINE;
    let (summary, listener) = loop {
        let mut found = None;
        let summary = census
            .for_each(&question, |socket| {
                assert_eq!(socket.state, State::Listen);
                if socket.local.port() == scene.port {
                    found = Some(*socket);
                }
            })
            .expect("the kernel answers");
        let listener = found.expect("it listens");
        // The end of the handshake may still be under way at the first look.
        if listener.recv_queue == 1 {
            break (summary, listener);
        }
        assert!(Instant::now() < deadline, "{listener:?}");
    };
    let somaxconn = sockdiag::Settings::read().somaxconn.expect("it has one");
    assert_eq!(listener.send_queue, somaxconn.min(128), "what std asks for, as granted");
    assert!(summary.sockets >= 1 && !summary.interrupted && summary.attempts == 1);
    let owners = Owners::scan().expect("/proc is there");
    assert_eq!(owners.of(listener.inode).map(|owner| owner.pid), Some(std::process::id()));
    // A filter that names a process is ours to apply.
    let pid = filter(&format!("pid {}", std::process::id()));
    let question = Question { filter: Some(&pid), owners: Some(&owners), ..question };
    let mut ports = Vec::new();
    census.for_each(&question, |socket| ports.push(socket.local.port())).expect("the kernel answers");
    assert!(ports.contains(&scene.port));
}

#[test]
fn query_refused_by_the_kernel_is_an_error_and_the_next_works() {
    let mut census = Census::open().expect("a kernel");
    // /0 of a family with 32 bits and a prefix of 40, which the kernel's audit refuses.
    let impossible = Filter::Test(sockdiag::Test::Net(sockdiag::Side::Local, [10, 0, 0, 0].into(), 40, None));
    let question = Question { filter: Some(&impossible), ..Question::default() };
    let error = census.for_each(&question, |_| panic!("nothing passes")).expect_err("it is refused");
    assert_eq!(error.to_string(), "the kernel refuses the question over netlink: Invalid argument (os error 22)");
    assert!(census.for_each(&Question::default(), |_| {}).expect("it is answered").sockets > 0);
}

#[test]
fn a_connection_that_lives_for_a_moment_is_seen_dying() {
    let mut events = DestroyEvents::open().expect("everybody may");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (mut server, _) = listener.accept().expect("connected");
    client.write_all(b"hello").expect("sent");
    server.read_exact(&mut [0; 5]).expect("received");
    drop(client);
    let _ = server.read(&mut [0; 1]);
    drop(server);
    let deadline = Instant::now() + DEADLINE;
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let visit = |socket: &Socket| {
            if [socket.local.port(), socket.remote.port()].contains(&port) && socket.remote.port() != 0 {
                ends.push(socket.tcp.and_then(|tcp| tcp.traffic).expect("it comes with TCP_INFO"));
            }
        };
        let drained = events.drain(visit).expect("read");
        assert_eq!(drained.overruns, 0);
        assert!(Instant::now() < deadline, "{ends:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let mut sent: Vec<u64> = ends.iter().map(|traffic| traffic.bytes_sent).collect();
    sent.sort_unstable();
    assert_eq!(sent, [0, 5]);
}
