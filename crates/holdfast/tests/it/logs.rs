//! The logs of a real process: the destination of each line, buffering, and rotation.

use crate::support::{DEADLINE, Instance, until};
use flate2::read::MultiGzDecoder;
use std::fs::{self, File};
use std::io::Read as _;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{Talk, free_port};

/// A path of a missing file, so that each request for it is logged.
fn servers(http: &str, location: &str) -> String {
    format!(
        "{http} server {{ listen 127.0.0.1:PORT; root nowhere; location / {{ }}\nlocation /own/ {{ {location} }} }}"
    )
}

fn ask(instance: &Instance, path: &str) {
    let response = instance.fetch(path).expect("an answer");
    assert!(response.starts_with("HTTP/1.1 "), "{response}");
}

#[test]
fn most_specific_error_log_gets_lines_from_its_level() {
    let http = "error_log logs/http.log; error_log logs/grave.log crit;";
    let mut instance = Instance::new("", &servers(http, "error_log logs/own.log debug_http debug_core;"));
    instance.start();
    ask(&instance, "/http");
    ask(&instance, "/own/x");
    until("each line is where it belongs", || {
        instance.text("logs/http.log").contains("nowhere/http\" failed (2: No such file or directory)")
            && instance.text("logs/own.log").contains("nowhere/own/x\" failed")
    });
    let own = instance.text("logs/own.log");
    assert!(own.contains("[error]") && own.contains(", client: 127.0.0.1, server: , request: \"GET /own/x HTTP/1.1\""));
    assert!(!instance.text("logs/http.log").contains("/own/x"), "one level's list replaces the outer one");
    assert_eq!(instance.text("logs/grave.log"), "", "an error is not critical");
    assert!(!instance.text("logs/error.log").contains("nowhere"), "the process's own log has no requests");
}

#[test]
fn error_lines_go_to_the_terminal_and_to_syslog() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
    server.set_read_timeout(Some(DEADLINE)).expect("set");
    let syslog = format!("syslog:server={},facility=local0,tag=web,nohostname", server.local_addr().expect("bound"));
    let mut instance = Instance::new(&format!("error_log {syslog};"), &servers("", "error_log stderr;"));
    instance.start();
    ask(&instance, "/to-syslog");
    ask(&instance, "/own/to-stderr");
    let mut bytes = [0; 4096];
    let count = server.recv(&mut bytes).expect("a message");
    let message = String::from_utf8_lossy(&bytes[..count]);
    // Facility local0 is 16, severity error is 3.
    assert!(message.starts_with("<131>") && message.contains(" web: ") && message.contains("[error]"), "{message}");
    assert!(message.contains("nowhere/to-syslog\" failed") && !message.ends_with('\n'), "{message}");
    until("the terminal has the line", || instance.text("stderr").contains("nowhere/own/to-stderr\" failed"));
    assert!(instance.text("logs/error.log").contains("to-syslog"), "both destinations of one level get it");
}

#[test]
fn the_same_trouble_again_and_again_is_counted_and_not_lost() {
    let mut instance = Instance::new("", &servers("", ""));
    instance.start();
    for number in 0..80 {
        ask(&instance, &format!("/{number}"));
    }
    let written = || instance.text("logs/error.log").lines().filter(|line| line.contains("nowhere/")).count();
    let counted = || -> usize {
        let log = instance.text("logs/error.log");
        let counts =
            log.lines().filter_map(|line| line.split_once("suppressed ")?.1.split(' ').next()?.parse::<usize>().ok());
        counts.sum()
    };
    // Requests that last more than a second fall into several periods, but every line is written or counted. The line
    // that counts quotes the reason, and so contains a name, too.
    until("all are written or counted", || {
        let log = instance.text("logs/error.log");
        let quotes = log.lines().filter(|line| line.contains("suppressed ")).count();
        written() - quotes + counted() == 80
    });
}

#[test]
fn access_lines_go_to_several_places_each_in_its_form() {
    let folder = tempfile::tempdir().expect("made");
    let socket = folder.path().join("log");
    let server = UnixDatagram::bind(&socket).expect("bound");
    server.set_read_timeout(Some(DEADLINE)).expect("set");
    let servers = format!(
        "log_format short escape=json '$request_uri|$arg_x|$status';
         log_format loud '$request_uri';
         map_hash_max_size 64;
         server {{ listen 127.0.0.1:PORT;
           access_log logs/short.log short;
           access_log stderr loud;
           access_log syslog:server=unix:{},severity=warn,tag=t short if=$arg_x;
           location / {{ return 200; }}
           location /off {{ access_log off; return 200; }} }}",
        socket.display()
    );
    let mut instance = Instance::new("", &servers.replace("map_hash_max_size 64;", ""));
    instance.start();
    for path in ["/off", "/a", "/b?x=0", "/c?x=\"y"] {
        ask(&instance, path);
    }
    until("three lines", || instance.text("logs/short.log").lines().count() == 3);
    assert_eq!(instance.text("logs/short.log"), "/a||200\n/b?x=0|0|200\n/c?x=\\\"y|\\\"y|200\n");
    until("the terminal has them", || instance.text("stderr").lines().any(|line| line == "/c?x=\\x22y"));
    let mut bytes = [0; 4096];
    let count = server.recv(&mut bytes).expect("a message");
    let message = String::from_utf8_lossy(&bytes[..count]);
    // Facility local7 is 23, severity warning is 4; this is the first line that `if=` lets through.
    assert!(message.starts_with("<188>") && message.ends_with(" t: /c?x=\\\"y|\\\"y|200"), "{message}");
}

#[test]
fn a_log_with_a_variable_in_its_name_is_a_file_for_each_value() {
    let servers = "server { listen 127.0.0.1:PORT; root here; open_log_file_cache max=4 inactive=30s;
        access_log logs/$arg_name.log; location / { return 200; }
        location /elsewhere { root $arg_name; return 200; } }";
    let mut instance = Instance::new("", servers);
    fs::create_dir(instance.path("here")).expect("made");
    instance.start();
    for path in ["/?name=a", "/?name=b", "/?name=a", "/?name=../out", "/elsewhere?name=c"] {
        ask(&instance, path);
    }
    until("the lines are there", || {
        let lines = |name| instance.text(name).lines().count();
        (lines("logs/a.log"), lines("logs/b.log")) == (2, 1)
    });
    assert!(!instance.path("out.log").exists());
    assert!(!instance.path("logs/c.log").exists(), "a request without a root makes no file");
    instance.wait_for_line("leaves the directory of its log");
    fs::rename(instance.path("logs/a.log"), instance.path("logs/a.old")).expect("renamed");
    instance.signal("reopen");
    until("a new file is made", || {
        ask(&instance, "/?name=a");
        instance.path("logs/a.log").exists()
    });
}

/// A session has no root that could be missing.
#[test]
fn a_log_of_stream_may_have_a_variable_in_its_name() {
    let port = free_port();
    let stream = format!(
        "stream {{ log_format line '$status'; server {{ listen 127.0.0.1:{port}; return x; \
         access_log logs/$server_port-$remote_addr.log line; }} }}"
    );
    let mut instance = Instance::new(&stream, "");
    instance.start();
    let name = format!("logs/{port}-127.0.0.1.log");
    Talk::connect(([127, 0, 0, 1], port).into()).rest();
    until("the line is written", || instance.text(&name) == "200\n");
}

#[test]
fn writes_buffered_lines_by_time_by_size_and_at_the_end() {
    let servers = "log_format uri '$uri';
        server { listen 127.0.0.1:PORT; location / { return 200; access_log logs/size.log uri buffer=100;
            access_log logs/time.log uri buffer=1m flush=200ms; access_log logs/packed.gz uri gzip=6 flush=1h; } }";
    let mut instance = Instance::new("", servers);
    instance.start();
    ask(&instance, "/one");
    until("the time is over", || instance.text("logs/time.log") == "/one\n");
    assert_eq!(instance.text("logs/size.log"), "", "a hundred bytes are not there yet");
    let long = format!("/{}", "x".repeat(100));
    ask(&instance, &long);
    until("the size is reached", || instance.text("logs/size.log") == format!("/one\n{long}\n"));
    assert_eq!(fs::read(instance.path("logs/packed.gz")).expect("made at start"), b"");
    ask(&instance, "/last");
    instance.signal("quit");
    assert_eq!(instance.wait(), Some(0));
    assert!(instance.text("logs/size.log").ends_with("/last\n"));
    let mut text = String::new();
    let packed = File::open(instance.path("logs/packed.gz")).expect("made");
    MultiGzDecoder::new(packed).read_to_string(&mut text).expect("whole");
    assert_eq!(text, format!("/one\n{long}\n/last\n"));
}

#[test]
fn one_file_has_one_buffer() {
    let tested = |first: &str, second: &str| {
        let servers = format!(
            "server {{ listen 127.0.0.1:PORT; access_log logs/a.log combined {first};
             location /other {{ access_log logs/a.log combined {second}; }} }}"
        );
        let output = Instance::new("", &servers).run(&["-t"]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (first, second) in [("buffer=1k", ""), ("", "buffer=1k flush=1s"), ("gzip", "")] {
        let (is_taken, said) = tested(first, second);
        assert!(is_taken, "{first} and {second}: {said}");
    }
    let (is_taken, said) = tested("buffer=1k", "buffer=2k");
    assert!(!is_taken && said.contains("already defined with conflicting parameters"), "{said}");
}

#[test]
fn rotation_flushes_buffered_lines_to_the_old_file() {
    let servers = "log_format uri '$uri';
        server { listen 127.0.0.1:PORT; location / { return 200; access_log logs/held.log uri buffer=1m; } }";
    let mut instance = Instance::new("", servers);
    instance.start();
    ask(&instance, "/before");
    // The connection was closed after its line was rendered, so the signal comes after the line.
    fs::rename(instance.path("logs/held.log"), instance.path("logs/held.old")).expect("renamed");
    instance.signal("reopen");
    until("the line is in the old file", || instance.text("logs/held.old") == "/before\n");
    ask(&instance, "/after");
    instance.signal("quit");
    assert_eq!(instance.wait(), Some(0));
    assert_eq!(instance.text("logs/held.log"), "/after\n");
}

#[test]
fn logs_of_earlier_configurations_are_closed() {
    let top = "master_process off;";
    let servers = |number: u32| {
        format!(
            "server {{ listen 127.0.0.1:PORT; access_log logs/access-{number}.log; error_log logs/error-{number}.log;
             location / {{ return 200 \"{number}\"; }} }}"
        )
    };
    let mut instance = Instance::new(top, &servers(0));
    instance.start();
    let open = |name: &str| {
        let folder = fs::read_dir(format!("/proc/{}/fd", instance.pid())).expect("it runs");
        let paths = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        paths.filter(|path| path.to_string_lossy().contains(name)).count()
    };
    assert_eq!((open("/access-"), open("/error-")), (1, 1));
    for number in 1..=5 {
        instance.configure(top, &servers(number));
        instance.signal("reload");
        until("the new configuration serves", || {
            instance.fetch("/").is_ok_and(|response| response.ends_with(&number.to_string()))
        });
    }
    until("the old files are closed", || (open("/access-"), open("/error-")) == (1, 1));
    until("the new one is written", || instance.text("logs/access-5.log").lines().count() >= 1);
}

/// A worker waits at most 10 ms for the line of a connection that it closes; two requests here are at least twice that
/// apart.
fn fetch_like_a_script(instance: &Instance, target: &str) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(20) {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    instance.fetch(target).expect("an answer");
}

#[test]
fn a_line_is_in_its_file_when_its_connection_ends() {
    let mut instance = Instance::new(
        "worker_processes 2;",
        "server { listen 127.0.0.1:PORT; location / { return 204; }
            location /no/ { access_log off; root /nowhere; }
            location /named/ { access_log logs/$arg_name.log; return 204; } }",
    );
    instance.start();
    let (mut looks, mut late) = (0, 0);
    let mut look = |file: &str, line: &str| {
        looks += 1;
        late += usize::from(!instance.text(file).contains(line));
        until("the line is in its file", || instance.text(file).contains(line));
    };
    for turn in 1..=100 {
        // The gateway closes both connections: one by request, one because it refuses the request.
        fetch_like_a_script(&instance, &format!("/one/{turn}"));
        look("logs/access.log", &format!("GET /one/{turn} "));
        // More than fifty equal lines within a second would be counted instead of written.
        if turn > 40 {
            continue;
        }
        fetch_like_a_script(&instance, &format!("/no/{turn}"));
        look("logs/error.log", &format!("open() \"/nowhere/no/{turn}\" failed"));
    }
    // On a busy machine the thread that writes may get no processor for longer than a worker waits.
    assert!(late * 10 < looks, "{late} of {looks} lines were not in their file when the connection ended");
    // The file of a named log is made only if its root exists.
    fs::create_dir(instance.path("html")).expect("made");
    fetch_like_a_script(&instance, "/named/?name=x");
    until("the named log has the line", || {
        instance.path("logs/x.log").exists() && instance.text("logs/x.log").contains("GET /named/?name=x ")
    });
}

#[test]
fn connections_that_end_by_the_hundred_leave_all_their_lines() {
    let mut instance =
        Instance::new("worker_processes 2;", "server { listen 127.0.0.1:PORT; location / { return 204; } }");
    instance.start();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let instance = &instance;
            scope.spawn(move || {
                for turn in 0..100 {
                    instance.fetch(&format!("/{client}/{turn}")).expect("an answer");
                }
            });
        }
    });
    until("every line is in the file", || instance.text("logs/access.log").lines().count() == 800);
}

#[test]
fn a_quote_in_a_path_ends_no_quotes_of_the_error_log() {
    let mut instance = Instance::new("", "server { listen 127.0.0.1:PORT; location / { root /nowhere; } }");
    instance.start();
    instance.fetch("/a%22%20failed%20(2:%20No),%20client:%206.6.6.6%5C").expect("an answer");
    let text = instance.text("logs/error.log");
    assert!(text.contains(r#"open() "/nowhere/a\x22 failed (2: No), client: 6.6.6.6\x5C" failed (2: "#), "{text}");
}

/// Under load the writer wakes up ten times a second. The bound is twice that, since the machine has other work, too.
#[test]
fn a_line_under_load_follows_within_its_period() {
    const LATE_MAX: Duration = Duration::from_millis(200);
    let servers = "server { listen 127.0.0.1:PORT; keepalive_requests 1000000; location / { return 204; }
        location /probe/ { access_log logs/probe.log; return 204; } }";
    let mut instance = Instance::new("worker_processes 1;", servers);
    instance.start();
    let is_over = AtomicBool::new(false);
    let mut late: Vec<Duration> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = instance.client();
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(client.get("/load", "").status(), 204);
            }
        });
        let mut client = instance.client();
        let probe = |number: usize| {
            assert_eq!(client.get(&format!("/probe/{number}"), "").status(), 204);
            let begun = Instant::now();
            until("the line is there", || instance.text("logs/probe.log").contains(&format!("/probe/{number} ")));
            begun.elapsed()
        };
        let late = (0..41).map(probe).collect();
        is_over.store(true, Ordering::Relaxed);
        late
    });
    late.sort();
    assert!(late[late.len() / 2] <= LATE_MAX, "the median of {late:?}");
}
