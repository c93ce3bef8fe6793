//! ss's filter words beside `ss` itself: each list of words leaves the same sockets of one scene, in a network namespace of the
//! test's own.

use crate::elsewhere::Elsewhere;
use sockdiag::{Census, Filter, Names, Question, Socket};
use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;

/// Two ports that are listened on; a client's port; and a port without a socket.
const WEB: u16 = 8080;
const ADMIN: u16 = 9090;

/// What ss takes; `{c}` is the port of a client.
const FILTERS: &[&str] = &[
    "state established",
    "state all",
    "state connected",
    "state synchronized",
    "state bucket",
    "state big",
    "state time-wait",
    "state TIME-WAIT",
    "state listening",
    "state close-wait",
    "state fin-wait-2",
    "state close",
    "state closed",
    "state unconnected",
    "state syn-rcv",
    "state established state time-wait",
    "exclude established",
    "excl listening",
    "exclude time-wait exclude listening",
    "state connected exclude time-wait",
    "dport = :8080",
    "dport == :8080",
    "dport eq :8080",
    "dport :8080",
    "dport = 8080",
    "dport 8080",
    "dport != :8080",
    "dport ne :8080",
    "dport neq :8080",
    "sport = :8080",
    "sport gt :8080",
    "sport > :8080",
    "sport ge :8080",
    "sport geq :8080",
    "sport >= :9090",
    "sport lt :9090",
    "sport < :9090",
    "sport le :8080",
    "sport leq :9090",
    "sport <= :8080",
    "sport = :{c}",
    "dport = :{c}",
    "dport = :webcache",
    "sport = :http-alt",
    "( sport = :8080 or dport = :8080 )",
    "( sport = :8080 || dport = :9090 )",
    "( sport = :8080 | dport = :9090 )",
    "sport = :8080 dport = :{c}",
    "sport = :8080 and dport = :{c}",
    "sport = :8080 && dport = :{c}",
    "sport = :8080 & dport = :{c}",
    "not dport = :8080",
    "! dport = :8080",
    "not ( dport = :8080 or sport = :8080 )",
    "not not dport = :8080",
    "not dport = :8080 sport = :8080",
    "sport = :8080 or sport = :9090 and dport = :{c}",
    "dport = :{c} and sport = :8080 or sport = :9090",
    "sport = :9090 or dport = :8080 and not src 127.0.0.1 or sport = :8080",
    "dst 127.0.0.1",
    "dst = 127.0.0.1",
    "dst == 127.0.0.2",
    "dst 127.0.0.0/8",
    "dst 127.0.0.0/31",
    "src 127.0.0.2",
    "src 127.0.0.1:8080",
    "src 127.0.0.1:webcache",
    "src 127.0.0.1/32:8080",
    "src 0.0.0.0/0",
    "dst [::1]",
    "dst [::1]:9090",
    "src [::1]:9090",
    "dst 10.0.0.0/8",
    "dst :8080",
    "dst *:8080",
    "src :9090",
    "src *",
    "dst any",
    "dst all",
    "dst any:8080",
    "src 127.0.0.1 or src [::1]",
    "state established dport = :8080",
    "state established ( dport = :8080 or sport = :9090 )",
    "state time-wait dst 127.0.0.1",
    "exclude listening src 127.0.0.0/8 not dport = :{c}",
];

/// Names of /etc/services, as ss finds them.
struct Services;

impl Names for Services {
    fn service(&mut self, name: &str) -> Option<u16> {
        ["webcache", "http-alt"].contains(&name).then_some(WEB)
    }
}

/// Connections in several states over either family, of which none moves any more.
fn scene() -> (Vec<TcpListener>, Vec<TcpStream>) {
    let at = |address: &str| TcpListener::bind(address).expect("free in a namespace of its own");
    let listeners =
        vec![at(&format!("127.0.0.1:{WEB}")), at(&format!("127.0.0.2:{ADMIN}")), at(&format!("[::1]:{ADMIN}"))];
    let mut kept = Vec::new();
    for listener in &listeners {
        let address = listener.local_addr().expect("bound");
        let pair = || {
            let client = TcpStream::connect(address).expect("it listens");
            (client, listener.accept().expect("connected").0)
        };
        let (client, server) = pair();
        kept.extend([client, server]);
        let (left, closer) = pair();
        closer.shutdown(Shutdown::Write).expect("open");
        kept.extend([left, closer]);
        let (mut first, second) = pair();
        first.shutdown(Shutdown::Write).expect("open");
        drop(second);
        let _ = first.read(&mut [0; 1]);
    }
    (listeners, kept)
}

/// Local and remote end, as either of us writes them. ss leaves out the state where it was asked for one alone.
fn by_us(census: &mut Census, words: &str) -> Vec<String> {
    let filter = Filter::parse(words, &mut Services).unwrap_or_else(|error| panic!("{words}: {error}"));
    let question = Question { filter: Some(&filter), tcp_info: false, memory: false, ..Question::default() };
    let mut lines = Vec::new();
    let line = |socket: &Socket| {
        let remote = if socket.remote.port() == 0 { "*".to_owned() } else { socket.remote.to_string() };
        format!("{} {remote}", socket.local)
    };
    census.for_each(&question, |socket| lines.push(line(socket))).expect("the kernel answers");
    lines.sort();
    lines
}

/// `None` if ss does not take the words.
fn by_ss(words: &str) -> Option<Vec<String>> {
    let output = Command::new("ss").arg("-tanH").args(words.split(' ')).output().expect("iproute2 is installed");
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).expect("text");
    let line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [.., local, remote] = words[..] else { panic!("{line}") };
        let remote = if remote.ends_with(":*") { "*" } else { remote };
        format!("{local} {remote}")
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    Some(lines)
}

#[test]
fn filters_select_the_same_sockets_as_ss() {
    let Some(elsewhere) = Elsewhere::start("filters_select_the_same_sockets_as_ss") else { return };
    elsewhere.run(|| {
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("iproute2 is installed");
        assert!(up.success());
        let (_listeners, kept) = scene();
        let client = kept.first().and_then(|stream| stream.local_addr().ok()).expect("connected").port().to_string();
        let mut census = Census::open().expect("a kernel");
        let mut differing = Vec::new();
        let mut left = 0;
        for words in FILTERS {
            let words = words.replace("{c}", &client);
            let (ours, theirs) = (by_us(&mut census, &words), by_ss(&words));
            left += ours.len();
            if theirs.as_ref() != Some(&ours) {
                differing.push(format!("{words}:\n  ours {ours:?}\n  ss   {theirs:?}"));
            }
        }
        assert_eq!(differing, [""; 0], "{}", differing.join("\n"));
        assert!(left > FILTERS.len(), "the scene has sockets");
    });
}
