//! `holdfast watch` as a program: its logs and reports, compared with sockets of the test itself.

use crate::support::observer::without_netlink;
use crate::support::{holdfast, until};
use std::fs;
use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use testkit::with_own_network;

fn run(arguments: &[&str]) -> Output {
    holdfast().args(arguments).output().expect("the program starts")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A listener with three connections: one in TIME_WAIT, two open. In a namespace, where no socket of another test is counted with
/// them or has the same port at another address.
fn scene() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it is free");
    let address = listener.local_addr().expect("bound");
    let mut kept = Vec::new();
    for _ in 0..2 {
        kept.push(TcpStream::connect(address).expect("it listens"));
        kept.push(listener.accept().expect("connected").0);
    }
    let mut first = TcpStream::connect(address).expect("it listens");
    let (mut second, _) = listener.accept().expect("connected");
    first.shutdown(Shutdown::Write).expect("open");
    let _ = second.read(&mut [0; 1]);
    drop(second);
    let _ = first.read(&mut [0; 1]);
    (listener, kept)
}

#[test]
fn a_log_counts_sockets_and_the_report_shows_them() {
    with_own_network(|| {
        let (listener, _kept) = scene();
        let port = listener.local_addr().expect("bound").port().to_string();
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
        for format in ["text", "csv", "json"] {
            let log = path(format);
            let arguments =
                ["watch", "--interval", "0.1", "--count", "4", "--port", &port, "--format", format, "--log", &log];
            assert_eq!(printed(&run(&arguments)), "");
            let report = printed(&run(&["watch", "report", &log]));
            let first = report.lines().next().unwrap_or_default();
            assert!(
                first.starts_with(&format!("{format}: 4 samples over "))
                    && first.ends_with(" s, by sock_diag over netlink")
            );
            for (state, count) in [("", "5.00        5        5"), (" TIME_WAIT", "1.00        1        1")] {
                let name = format!("port {port}{state} ");
                let line =
                    report.lines().find(|line| line.starts_with(&name)).unwrap_or_else(|| panic!("{name}: {report}"));
                assert!(line.contains(count) && line.ends_with("flat"), "{line}");
            }
        }
        // As in the founding report: a grep for the lines of the port.
        let text = fs::read_to_string(path("text")).expect("written");
        assert_eq!(text.lines().filter(|line| *line == format!("port {port} TIME_WAIT 1")).count(), 4, "{text}");
        // The three files are one measurement, so the difference between two is zero.
        let beside = printed(&run(&["watch", "report", &path("text"), &path("csv"), "--reference", &path("json")]));
        let line =
            beside.lines().find(|line| line.starts_with(&format!("port {port} TIME_WAIT"))).expect("in the table");
        assert!(line.ends_with("1.00       +0.00"), "{line}");
        assert!(beside.contains("averages side by side\n"), "{beside}");
        // The page has a chart for each log.
        let page = path("report.html");
        printed(&run(&["watch", "report", &path("text"), &path("csv"), "--reference", &path("json"), "--html", &page]));
        testkit::assert_page_holds(std::path::Path::new(&page), 3);
        // A measurement is never overwritten.
        let again = run(&["watch", "--count", "1", "--log", &path("text")]);
        assert_eq!(again.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&again.stderr).contains("File exists"), "{again:?}");
    });
}

#[test]
fn a_filter_in_ss_s_words_leaves_the_rest_out() {
    with_own_network(|| {
        let (listener, _kept) = scene();
        let port = listener.local_addr().expect("bound").port();
        let filter = format!("state established dport = :{port}");
        let text = printed(&run(&["watch", "--count", "1", "--log", "-", &filter]));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["ESTABLISHED 2"], "{text}");
        let mine = format!("port = :{port} process {}", "watch");
        let words: Vec<&str> = mine.split(' ').collect();
        let text = printed(&run(&[&["watch", "--count", "1", "--log", "-", "--"], words.as_slice()].concat()));
        assert!(text.contains(&format!("\"filter\":\"{mine}\"")), "{text}");
        // By control group: the group of this process has all of them, and a group that does not exist has none.
        let groups = fs::read_to_string("/proc/self/cgroup").expect("a kernel with control groups");
        let own = groups.lines().find_map(|line| line.strip_prefix("0::")).expect("the unified hierarchy");
        let text = printed(&run(&["watch", "--count", "1", "--log", "-", &format!("cgroup {own} and {filter}")]));
        assert_eq!(text.lines().nth(2), Some("ESTABLISHED 2"), "{text}");
        let text = printed(&run(&["watch", "--count", "1", "--log", "-", &format!("not cgroup {own} and {filter}")]));
        assert_eq!(text.lines().nth(2), None, "{text}");
        let wrong = run(&["watch", "--log", "-", "state", "asleep"]);
        assert_eq!(wrong.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(errors.starts_with("holdfast: in the filter, `asleep` is no state; known are established"), "{errors}");
    });
}

#[test]
fn without_netlink_the_sockets_come_from_proc_and_it_says_so() {
    with_own_network(|| {
        let (listener, _kept) = scene();
        let port = listener.local_addr().expect("bound").port().to_string();
        let filter = format!("port = :{port}");
        let log = ["watch", "--count", "1", "--log", "-", &filter];
        let plain = ["watch", "--plain", "--count", "1", &filter];
        let (logged, shown) = without_netlink(|| (run(&log), run(&plain)));
        let source = "the sockets come from /proc/net/tcp, without details, since opening a netlink socket: Protocol not supported";
        assert!(String::from_utf8_lossy(&logged.stderr).contains(source), "{logged:?}");
        // /proc gives the same counts.
        let counts = |output: &Output| printed(output).lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(counts(&logged), counts(&run(&log)));
        assert_eq!(counts(&logged), ["ESTABLISHED 4", "TIME_WAIT 1", "LISTEN 1"]);
        let shown = printed(&shown);
        assert!(shown.contains(&format!("note: {source}")), "{shown}");
        assert!(shown.contains("note: closes between two looks are missed: opening a netlink socket"), "{shown}");
    });
}

#[test]
fn reports_a_namespace_without_permission() {
    let pid = std::process::id().to_string();
    let refused = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_holdfast"), "watch", "--count=1"])
        .args(["--namespace", &pid])
        .output()
        .expect("util-linux is installed");
    assert_eq!(refused.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&refused.stderr);
    let reasons = ["Permission denied", "Operation not permitted"];
    assert!(reasons.iter().any(|reason| errors.contains(&format!("the network namespace: {reason}"))), "{errors}");
}

#[test]
fn json_prints_one_line_per_look() {
    with_own_network(|| {
        use std::io::Write as _;
        let (listener, mut kept) = scene();
        let address = listener.local_addr().expect("bound");
        // The accepted end of the first pair never reads.
        kept.first_mut().expect("a client").write_all(&[b'x'; 1000]).expect("open");
        let text = printed(&run(&[
            "watch",
            "--json",
            "--interval",
            "0.1",
            "--count",
            "2",
            "--port",
            &address.port().to_string(),
        ]));
        let looks: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        let [first, second] = looks.as_slice() else { panic!("two looks: {text}") };
        assert!(first["kernel"]["since_last_look"]["OutSegs"].is_null(), "{first}");
        assert!(second["kernel"]["since_last_look"]["OutSegs"].is_u64(), "{second}");
        assert_eq!(second["ports"][address.port().to_string()]["TIME_WAIT"], 1, "{second}");
        let of = |list: &'static str, key: &'static str| {
            let found = second.pointer(list).and_then(serde_json::Value::as_array).expect("a list");
            found.iter().find(|row| row[key] == address.to_string()).unwrap_or_else(|| panic!("{list}: {second}"))
        };
        assert!(of("/listeners", "address")["queue"] == 0 && of("/destinations", "remote")["used"] == 2, "{second}");
        let pile = of("/queues/largest", "local");
        assert_eq!((&pile["recv"], &pile["cause"]), (&1000.into(), &"not_read".into()), "{pile}");
        let peers = second.pointer("/closed_first/peers").and_then(serde_json::Value::as_array);
        assert!(peers.is_some() && second["account"]["since_start"]["opened"].is_u64(), "{second}");
    });
}

#[test]
fn a_reader_that_leaves_ends_it() {
    for arguments in
        [["--plain", "--interval", "0.1"], ["--json", "--interval", "0.1"], ["--log", "-", "--interval=0.1"]]
    {
        let mut child = holdfast().arg("watch").args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        child.stdout.take().expect("piped").read_exact(&mut [0; 8]).expect("it prints");
        until("it ends", || child.try_wait().expect("a child of ours").is_some());
    }
}

#[test]
fn refuses_other_files_as_log_or_namespace() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("netstat.txt");
    fs::write(&path, "Proto Recv-Q Send-Q Local Address\n").expect("written");
    let path = path.to_str().expect("text");
    for (arguments, expected) in [
        (vec!["watch", "report", path], "its first line is not that of a log of `holdfast watch`"),
        (vec!["watch", "report", "/nonexistent"], "/nonexistent cannot be read (2: No such file or directory)"),
        (vec!["watch", "--namespace", "4294967294"], "opening the network namespace: No such file or directory"),
    ] {
        let output = run(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors.contains(expected), "{errors}");
    }
    assert_eq!(run(&["watch", "--interval", "0"]).status.code(), Some(2));
}
