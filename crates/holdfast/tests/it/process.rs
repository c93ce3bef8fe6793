//! Real processes: start, signals, reload, death and end, with and without a master.

use crate::support;
use crate::support::{Instance, children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{End, Peer, Running, Talk, free_port};

fn returning(text: &str) -> String {
    format!("server {{ listen 127.0.0.1:PORT; location / {{ return 200 \"{text}\"; }} }}")
}

/// Both process models.
const MODELS: [&str; 2] = ["", "master_process off;"];

fn answers(instance: &Instance, text: &str) -> bool {
    instance.fetch("/").is_ok_and(|response| response.ends_with(text))
}

/// Row X5.
#[test]
fn it_serves_and_ends_in_each_way_with_code_0() {
    for top in MODELS {
        for word in ["stop", "quit"] {
            let mut instance = Instance::new(top, &returning("one"));
            instance.start();
            assert!(answers(&instance, "one"));
            assert_eq!(instance.pid_file(), Some(instance.pid()), "{top}");
            instance.signal(word);
            assert_eq!(instance.wait(), Some(0), "{top} {word}\n{}", instance.text("logs/error.log"));
            assert_eq!(instance.pid_file(), None, "the pid file goes with the process");
            assert!(TcpStream::connect(("127.0.0.1", instance.port)).is_err());
            let lines = instance.text("logs/access.log");
            assert!(lines.lines().any(|line| line.contains("\"GET / HTTP/1.1\" 200 ")), "{lines}");
        }
    }
}

#[test]
fn a_daemon_is_ready_when_the_command_returns() {
    let instance = Instance::new("worker_processes 2;", &returning("daemon"));
    let output = instance.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let master = instance.pid_file().expect("written before the command returns");
    assert!(answers(&instance, "daemon"));
    assert_eq!(children(master).len(), 1);
    instance.signal("quit");
    until("the daemon has ended", || !lives(master));
    assert_eq!(instance.pid_file(), None);
}

#[test]
fn a_reload_takes_the_new_configuration_and_keeps_the_process() {
    for top in MODELS {
        let mut instance = Instance::new(top, &returning("one"));
        instance.start();
        let worker = children(instance.pid());
        let other = free_port();
        let two = returning("two") + &format!("server {{ listen 127.0.0.1:{other}; return 200 other; }}");
        instance.configure(top, &two);
        instance.signal("reload");
        until("the new text is served", || answers(&instance, "two"));
        until("the new address is served", || support::fetch(other, "/").is_ok_and(|it| it.ends_with("other")));
        assert_eq!(children(instance.pid()), worker, "{top}: swapped in place");
        instance.configure(top, &returning("three"));
        instance.signal("reload");
        until("the third text is served", || answers(&instance, "three"));
        until("the address is let go", || TcpListener::bind(("127.0.0.1", other)).is_ok());
    }
}

/// Row X1.
#[test]
fn a_bad_configuration_changes_nothing() {
    for top in MODELS {
        let mut instance = Instance::new(top, &returning("one"));
        instance.start();
        let sound = instance.text("nginx.conf");
        fs::write(instance.path("nginx.conf"), sound.replace("return 200", "retrun 200")).expect("written");
        kill(pid(instance.pid()), Signal::SIGHUP).expect("it runs");
        instance.wait_for_line("unknown directive \"retrun\"");
        instance.wait_for_line("the old one stays");
        assert!(answers(&instance, "one"));
        // An address in use by another process is reported before anything is changed, too.
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = taken.local_addr().expect("bound");
        let two = returning("two") + &format!("server {{ listen {address}; return 204; }}");
        instance.configure(top, &two);
        kill(pid(instance.pid()), Signal::SIGHUP).expect("it runs");
        instance.wait_for_line(&format!("bind() to {address} failed (98: Address already in use)"));
        assert!(answers(&instance, "one"));
    }
}

#[test]
fn a_unix_socket_comes_and_goes_with_the_configuration() {
    for top in MODELS {
        let mut instance = Instance::new(top, &returning("one"));
        instance.start();
        let socket = instance.path("socket");
        let both = returning("two") + &format!("server {{ listen unix:{}; return 204; }}", socket.display());
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let third = format!("server {{ listen {}; return 204; }}", taken.local_addr().expect("bound"));
        instance.configure(top, &(both.clone() + &third));
        instance.signal("reload");
        instance.wait_for_line("Address already in use");
        assert!(!socket.exists(), "{top}: what was opened in vain is gone");
        instance.configure(top, &both);
        instance.signal("reload");
        until("it listens there", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        instance.configure(top, &returning("three"));
        instance.signal("reload");
        until("it is gone", || !socket.exists());
    }
}

/// Rows X2 and X3.
#[test]
fn no_request_fails_while_it_reloads() {
    let mut instance = Instance::new("worker_processes 2;", &returning("text"));
    instance.start();
    let descriptors = |pid: u32| fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count();
    let worker = children(instance.pid())[0];
    // Descriptors that are open only for a moment, at start as well, do not count: the same count is seen twenty times
    // in a row.
    let open = || (descriptors(instance.pid()), descriptors(worker));
    let (mut before, mut same) = (open(), 0);
    until("it has settled", || {
        let now = open();
        same = if now == before { same + 1 } else { 0 };
        before = now;
        same == 20
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        let response = instance.fetch("/").expect("every request is answered");
                        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for turn in 1..=100 {
            kill(pid(instance.pid()), Signal::SIGHUP).expect("it runs");
            until("the reload is done", || {
                instance.text("logs/error.log").matches("the new configuration holds").count() >= turn
            });
        }
        done.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().expect("no request failed") > 0);
        }
    });
    assert_eq!(children(instance.pid()), [worker]);
    until("no descriptor is left behind", || open() == before);
}

#[test]
fn more_workers_come_with_a_new_child_that_takes_over() {
    let mut instance = Instance::new("worker_processes 1;", &returning("one"));
    instance.start();
    let old = children(instance.pid())[0];
    instance.configure("worker_processes 2;", &returning("two"));
    instance.signal("reload");
    until("the new text is served", || answers(&instance, "two"));
    // A child that has ended is still listed until the master has waited for it.
    until("the new child is alone", || children(instance.pid()).as_slice().first().is_some_and(|first| *first != old));
    assert_eq!(children(instance.pid()).len(), 1);
}

#[test]
fn a_child_that_dies_is_replaced() {
    let mut instance = Instance::new("", &returning("one"));
    instance.start();
    for _ in 0..2 {
        let child = children(instance.pid())[0];
        kill(pid(child), Signal::SIGKILL).expect("it lives");
        until("another one is there", || children(instance.pid()).iter().any(|one| *one != child));
        until("it serves again", || answers(&instance, "one"));
        instance.wait_for_line(&format!("worker process {child} exited on signal 9"));
    }
}

/// Starts an instance and kills its master; returns the child.
fn killed_master(instance: &mut Instance) -> u32 {
    instance.start();
    let child = children(instance.pid())[0];
    kill(pid(instance.pid()), Signal::SIGKILL).expect("it lives");
    assert_eq!(instance.wait(), None);
    instance.wait_for_line("the master process is gone; this process serves on");
    assert!(lives(child) && answers(instance, "one"));
    child
}

fn until_ended(instance: &Instance, child: u32) {
    until("the child has ended", || !lives(child));
    // The last thread may end later than the first.
    until("the address is free", || TcpListener::bind(("127.0.0.1", instance.port)).is_ok());
}

#[test]
fn children_of_a_killed_master_serve_until_they_are_signalled() {
    for signal in [Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGINT] {
        let mut instance = Instance::new("", &returning("one"));
        let child = killed_master(&mut instance);
        kill(pid(child), signal).expect("it lives");
        until_ended(&instance, child);
    }
    for word in ["stop", "quit"] {
        let mut instance = Instance::new("", &returning("one"));
        let child = killed_master(&mut instance);
        instance.signal(word);
        until_ended(&instance, child);
    }
}

#[test]
fn a_new_master_adopts_the_children_of_a_killed_one() {
    let socket = |instance: &Instance| format!("listen unix:{};", instance.path("socket").display());
    for top in MODELS {
        let mut instance = Instance::new("worker_processes 2;", "");
        let servers = |text: &str, instance: &Instance| {
            format!("server {{ listen 127.0.0.1:PORT reuseport; {} return 200 {text}; }}", socket(instance))
        };
        instance.configure("worker_processes 2;", &servers("one", &instance));
        let child = killed_master(&mut instance);
        let mut kept = instance.client();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let response = instance_fetch(instance.port);
                    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
                }
            });
            instance.configure(&format!("worker_processes 2; {top}"), &servers("two", &instance));
            fs::write(instance.path("logs/error.log"), "").expect("emptied");
            let mut master = instance.command(&["-g", "daemon off;"]).spawn().expect("it starts");
            instance.wait_for_line("holdfast serves");
            until("the new text is served", || answers(&instance, "two"));
            // The process that accepted the earlier connection serves it to its end.
            assert_eq!(kept.get("/", "Connection: close\r\n").text(), "one");
            kept.end();
            until("the old child has finished", || !lives(child));
            done.store(true, Ordering::Relaxed);
            client.join().expect("no request failed");
            instance.signal("quit");
            until("the new master has ended", || master.try_wait().expect("a child of ours").is_some());
        });
        assert!(!instance.path("socket").exists(), "{top}");
    }
}

fn instance_fetch(port: u16) -> String {
    support::fetch(port, "/").expect("no connection is refused or cut")
}

#[test]
fn signals_only_the_instance_that_wrote_the_pid_file() {
    let mut instance = Instance::new("", &returning("one"));
    // Another process of this program that does not belong to this instance.
    let other = Running::start(support::holdfast().args(["origin", "--json"]));
    let number = other.id();
    let refused = |instance: &Instance, text: &str, word: &str, message: &str| {
        fs::write(instance.path("logs/holdfast.pid"), text).expect("written");
        let output = instance.run(&["-s", word]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && errors.contains(message), "{text} {word}: {errors}");
    };
    for word in ["stop", "quit", "reload", "reopen"] {
        refused(&instance, &format!("{number}\n"), word, "is not signalled: the instance that has written it is gone");
    }
    for text in ["0", "-1", "+5", &format!("+{number}"), "", "x", &format!("-{number}")] {
        refused(&instance, text, "stop", &format!("invalid PID number \"{text}\" in "));
    }
    assert!(lives(number));
    drop(other);
    refused(&instance, &format!("{number}\n"), "stop", "failed (3: No such process)");
    instance.start();
    instance.signal("reload");
    instance.wait_for_line("the new configuration holds");
}

/// Row X9.
#[test]
fn logs_are_reopened_and_no_line_is_lost() {
    for top in MODELS {
        let mut instance = Instance::new(top, &returning("one"));
        instance.start();
        for turn in 0..4 {
            assert!(instance.fetch(&format!("/before{turn}")).is_ok());
        }
        fs::rename(instance.path("logs/access.log"), instance.path("logs/access.old")).expect("renamed");
        instance.signal("reopen");
        until("the new log is there", || instance.path("logs/access.log").exists());
        for turn in 0..4 {
            assert!(instance.fetch(&format!("/after{turn}")).is_ok());
        }
        let both = || instance.text("logs/access.old") + &instance.text("logs/access.log");
        until("all lines are written", || both().lines().filter(|line| line.contains("GET /")).count() >= 8);
        assert!(both().lines().all(|line| line.starts_with("127.0.0.1 - - [") && line.ends_with('"')), "{}", both());
        assert!(instance.text("logs/access.old").contains("/before0"));
        until("later lines are in the new one", || {
            let _ = instance.fetch("/later");
            instance.text("logs/access.log").contains("/later")
        });
    }
}

/// Row X4.
#[test]
fn quit_finishes_open_requests() {
    for top in MODELS {
        let go = testkit::Signal::new();
        let slow = Peer::script({
            let go = go.clone();
            move |mut talk| {
                talk.request();
                talk.wait(&go);
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
            }
        });
        let address = slow.address();
        let proxy = format!("server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://{address}; }} }}");
        let mut instance = Instance::new(top, &proxy);
        instance.start();
        let client = std::thread::spawn({
            let port = instance.port;
            move || support::fetch(port, "/")
        });
        until("the request is passed on", || slow.requests().len() == 1);
        instance.signal("quit");
        until("nothing new is accepted", || TcpStream::connect(("127.0.0.1", instance.port)).is_err());
        go.raise();
        let response = client.join().expect("no panic").expect("an answer");
        assert!(response.ends_with("late"), "{top}: {response}");
        assert_eq!(instance.wait(), Some(0));
    }
}

#[test]
fn a_drain_ends_at_its_time_limit() {
    let mut instance = Instance::new("worker_shutdown_timeout 200ms;", &returning("one"));
    instance.start();
    let mut half = instance.client();
    half.send("GET / HTTP/1.1\r\nHo");
    instance.signal("quit");
    assert_eq!(instance.wait(), Some(0));
}

#[test]
fn an_address_in_use_is_named_with_its_holder() {
    let refused = |top: &str, flags: &[&str]| {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = taken.local_addr().expect("bound");
        let instance = Instance::new(top, &format!("server {{ listen {address}; return 204; }}"));
        // A test of the configuration cannot know whether the address will be free at the start.
        assert!(instance.run(&["-t"]).status.success());
        let output = instance.run(flags);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let line = format!("nginx: [emerg] bind() to {address} failed (98: Address already in use); ");
        assert!(text.contains(&line), "{text}");
        assert!(text.contains(&format!("(pid {}) listens on {address}", std::process::id())), "{text}");
        assert_eq!(instance.pid_file(), None);
    };
    // Each start tries for two seconds.
    std::thread::scope(|scope| {
        for top in MODELS {
            for flags in [&["-g", "daemon off;"][..], &[]] {
                scope.spawn(move || refused(top, flags));
            }
        }
    });
}

#[test]
fn shortened_accept_queue_is_reported_at_start() {
    let granted: u32 =
        fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux").trim().parse().expect("a number");
    let asked = granted + 1;
    let mut instance = Instance::new("", &format!("server {{ listen 127.0.0.1:PORT backlog={asked}; return 204; }}"));
    instance.start();
    let text = instance.text("stderr");
    assert!(text.contains(&format!("holds {granted} connections, not the {asked} asked for")), "{text}");
    assert!(text.contains("net.core.somaxconn"), "{text}");
}

#[test]
fn rights_are_given_up_where_there_are_any() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip("only root has rights to give up");
    }
    let mut instance = Instance::new("", &returning("one"));
    let text = instance.text("nginx.conf").replace("user root;", "user nobody;");
    fs::write(instance.path("nginx.conf"), text).expect("written");
    instance.start();
    assert!(answers(&instance, "one"));
    let status = fs::read_to_string(format!("/proc/{}/status", children(instance.pid())[0])).expect("it lives");
    let nobody = nix::unistd::User::from_name("nobody").expect("looked up").expect("it exists");
    let ids = status.lines().find(|line| line.starts_with("Uid:")).expect("a line").to_owned();
    assert!(ids.split_ascii_whitespace().skip(1).all(|id| id == nobody.uid.to_string()), "{ids}");
    // Its logs are written after a reopen, which the child could not do itself.
    fs::rename(instance.path("logs/access.log"), instance.path("logs/access.old")).expect("renamed");
    instance.signal("reopen");
    until("the new log is written", || {
        let _ = instance.fetch("/again");
        instance.text("logs/access.log").contains("/again")
    });
}

/// The value of a line in `/proc/…/status`.
fn status_line(process: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    status.lines().find_map(|line| line.strip_prefix(name)).expect("a line").trim().to_owned()
}

#[test]
fn only_a_transparent_bind_keeps_a_right_and_that_one_alone() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip("only root has rights to give up");
    }
    let peer = Peer::saying_once("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nthere");
    let servers = |bind: &str| {
        let address = peer.address();
        format!("server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://{address}; {bind} }} }}")
    };
    let mut instance = Instance::new("", &servers(""));
    let as_nobody = |instance: &Instance, bind: &str| {
        instance.configure("", &servers(bind));
        let text = instance.text("nginx.conf").replace("user root;", "user nobody;");
        fs::write(instance.path("nginx.conf"), text).expect("written");
    };
    as_nobody(&instance, "");
    instance.start();
    let child = |instance: &Instance| children(instance.pid()).last().copied().expect("a child");
    for name in ["CapEff:", "CapPrm:", "CapInh:"] {
        assert_eq!(status_line(child(&instance), name), "0000000000000000", "{name}");
    }
    as_nobody(&instance, "proxy_bind 127.0.0.77 transparent;");
    instance.signal("reload");
    instance.wait_for_line("the new configuration holds");
    assert!(answers(&instance, "there"), "{}", instance.text("logs/error.log"));
    // Capability 13 is CAP_NET_RAW.
    for (name, value) in
        [("CapEff:", "0000000000002000"), ("CapPrm:", "0000000000002000"), ("CapInh:", "0000000000000000")]
    {
        assert_eq!(status_line(child(&instance), name), value, "{name}");
    }
    as_nobody(&instance, "");
    instance.signal("reload");
    until("the right is gone", || status_line(child(&instance), "CapPrm:") == "0000000000000000");
}

#[test]
fn quick_mode_of_root_drops_privileges() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip("only root has rights to give up");
    }
    let peer = Peer::answering(|request| {
        let length = request.body.len().to_string();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{length}", length.len()).into_bytes()
    });
    let port = free_port();
    let mut serving = support::holdfast();
    serving.args(["serve", "--to", &peer.address().to_string(), "--listen", &format!("127.0.0.1:{port}")]);
    let serving = Running::listening(&mut serving, ([127, 0, 0, 1], port));
    let nobody = nix::unistd::User::from_name("nobody").expect("looked up").expect("it exists");
    until("the rights are gone", || {
        let ids = status_line(serving.id(), "Uid:");
        ids.split_ascii_whitespace().all(|id| id == nobody.uid.to_string())
    });
    for name in ["CapEff:", "CapPrm:", "CapInh:"] {
        assert_eq!(status_line(serving.id(), name), "0000000000000000", "{name}");
    }
    // More than `client_body_buffer_size`: through a file that no user may write.
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n";
    let request = [head.as_slice(), &vec![b'x'; 100_000]].concat();
    let response = testkit::fetch(("127.0.0.1", port), request).expect("an answer").whole_text();
    serving.signal(Signal::SIGTERM);
    assert!(response.ends_with("100000"), "{response}");
    serving.end().assert_code(0);
}

#[test]
fn quick_mode_serves_without_any_file() {
    // It answers an upgrade with 101 and a close, others with 200. The second request may or may not find the first one's
    // connection in the pool.
    let upstream = Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            if (request.value("Upgrade"), request.value("Connection")) == (Some("x"), Some("upgrade")) {
                talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nframes");
                return;
            }
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nquick");
        }
    });
    let (port, to) = (free_port(), upstream.address().to_string());
    let mut serving = support::holdfast();
    serving.args(["serve", "--to", &to, "--listen", &port.to_string()]);
    let serving = Running::listening(&mut serving, ([127, 0, 0, 1], port));
    let response = support::fetch(port, "/").expect("an answer");
    let mut tunnel = Talk::connect(([127, 0, 0, 1], port).into());
    assert_eq!(tunnel.get("/", "Connection: Upgrade\r\nUpgrade: x\r\n").status(), 101);
    let through = tunnel.rest();
    serving.signal(Signal::SIGTERM);
    assert!(response.ends_with("quick"), "{response}");
    assert_eq!(through, (b"frames".to_vec(), End::Fin));
    let ended = serving.end();
    ended.assert_code(0);
    ended.assert_reports(&[&format!("open http://127.0.0.1:{port}/ (requests go to {to})")]);
    assert!(!ended.stderr.contains("[warn]"), "it warns of nothing that it chose itself: {}", ended.stderr);
}

#[test]
fn origin_prints_its_address_and_ends_on_signal() {
    let origin = Running::start(support::holdfast().args(["origin", "--size", "7", "--json"]));
    let listening: serde_json::Value = serde_json::from_str(&origin.wait_for_output("")).expect("JSON");
    let address = listening["listening"][0].as_str().expect("an address");
    let port = address.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let response = support::fetch(port, "/").expect("an answer");
    origin.signal(Signal::SIGINT);
    assert!(response.contains("\r\nContent-Length: 7\r\n"), "{response}");
    origin.end().assert_code(0);
}
