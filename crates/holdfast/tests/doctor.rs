//! `holdfast doctor` as it is typed: what it finds, how it ends, and what it says when it cannot look.

use socket2::{Domain, Socket, Type};
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

fn doctor(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.current_dir(root).arg("doctor").args(arguments).output().expect("it starts")
}

fn written(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("plain path").to_owned()
}

#[test]
fn a_group_without_keepalive_is_a_warning_with_something_to_paste() {
    let found = doctor(&["-c", "examples/keepalive-states-off.conf", "--target", "nginx-1.22"]);
    let text = String::from_utf8_lossy(&found.stdout);
    for part in [
        "upstream-without-keepalive",
        "why it hurts:",
        "evidence:",
        "arithmetic:",
        "keepalive 32;",
        "side effect:",
        "to undo:",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("\nexamples/keepalive-states-off.conf:29:5: warning: "), "{text}");
    assert_eq!(found.status.code(), Some(3));
    assert_eq!(doctor(&["-c", "examples/static-site.conf"]).status.code(), Some(0));
}

#[test]
fn ci_reads_sarif_and_programs_read_json() {
    let faulty = ["-c", "examples/throughput-unpooled.conf"];
    let sarif = doctor(&[&faulty[..], &["--sarif"]].concat());
    let text = String::from_utf8_lossy(&sarif.stdout);
    assert!(
        text.contains("\"version\": \"2.1.0\"")
            && text.contains("throughput-unpooled.conf")
            && text.contains("startLine")
    );
    let json = doctor(&[&faulty[..], &["--json"]].concat());
    assert!(String::from_utf8_lossy(&json.stdout).contains("holdfast.report/1"));
}

#[test]
fn an_error_log_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "2026/11/21 23:40:22 [error] 7#7: *4 connect() failed (99: Cannot assign requested address) while connecting to upstream, \
                client: 10.0.0.9, request: \"GET / HTTP/1.1\", upstream: \"http://127.0.0.1:9001/\"\n";
    let log = written(&folder, "error.log", &line.repeat(3));
    let found = doctor(&["--log", &log]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(
        text.contains("no local port was left")
            && text.contains("-> 502, 3 times")
            && text.contains("http://127.0.0.1:9001 (3)"),
        "{text}"
    );
    assert_eq!(found.status.code(), Some(4));
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = written(&folder, "broken.conf", "events {}\nhttp {\n    server {\n");
    let refused = doctor(&["-c", &broken]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("broken.conf:"), "{refused:?}");
    assert_eq!(doctor(&["--log", "/no/such/log"]).status.code(), Some(1));
    assert_eq!(doctor(&["-c", "examples/static-site.conf", "--pid", "4294967295"]).status.code(), Some(1));
    assert_eq!(doctor(&[]).status.code(), Some(2));
}

#[test]
fn the_sockets_of_a_running_process_are_evidence() {
    let folder = tempfile::tempdir().expect("a folder");
    // This process is the server: a queue of one that nobody accepts from, and connections that it does not close.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).expect("made");
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bound");
    full.listen(1).expect("listening");
    let address = full.local_addr().expect("bound").as_socket().expect("an address");
    let waiting: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(address).expect("there is room for two")).collect();
    let careless = TcpListener::bind("127.0.0.1:0").expect("bound");
    let there = careless.local_addr().expect("bound");
    let mut left: Vec<TcpStream> = Vec::new();
    for _ in 0..80 {
        let client = TcpStream::connect(there).expect("it listens");
        let (mut server, _) = careless.accept().expect("connected");
        drop(client);
        assert_eq!(server.read(&mut [0; 1]).expect("the end"), 0);
        left.push(server);
    }
    let conf = format!("events {{}}\nhttp {{\n    server {{ listen {address}; }}\n}}\n");
    let conf = written(&folder, "nginx.conf", &conf);
    let found = doctor(&["-c", &conf, "--pid", &std::process::id().to_string()]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains("sock_diag over netlink, of process"), "{text}");
    assert!(text.contains(&format!("{conf}:3:14: error: the accept queue of {address} is full now")), "{text}");
    assert!(text.contains("80 connections were closed by the peer and not by the server"), "{text}");
    assert_eq!(found.status.code(), Some(4));
    drop((waiting, left));
}

#[test]
fn a_pid_file_that_names_something_else_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = written(&folder, "pid", &format!("{}\n", std::process::id()));
    let conf = written(&folder, "nginx.conf", &format!("pid {pid};\nevents {{}}\nhttp {{}}\n"));
    let found = doctor(&["-c", &conf]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains(&format!("not looked at: {pid} names process {}", std::process::id())), "{text}");
    assert_eq!(found.status.code(), Some(0));
}

#[test]
fn limits_of_a_go_transport_need_no_configuration() {
    let found = doctor(&["--go-transport", "MaxIdleConnsPerHost=200", "--concurrency", "1000"]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains("MaxIdleConns of 100 cuts MaxIdleConnsPerHost of 200"), "{text}");
    assert!(text.contains("900 of 1000 connections"), "{text}");
    assert_eq!(found.status.code(), Some(3));
    let slip = doctor(&["--go-transport", "MaxIdle=1"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&slip.stderr).contains("MaxIdleConnsPerHost"), "{slip:?}");
}
