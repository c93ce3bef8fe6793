//! Limits that are reached: ports, accept queues, descriptors, memory, connections to upstreams.

use super::scene::{Habit, Load, Recorder, Server, figure};
use crate::support::{Instance, children, until};
use incident::record::wall_clock_ms;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;
use testkit::with_own_network;

const PAUSE: Duration = Duration::from_millis(20);

fn start(top: &str, servers: &str) -> Instance {
    let mut instance = Instance::new(top, servers);
    instance.start();
    instance
}

#[test]
fn exhausted_ports_are_named_with_their_destination() {
    with_own_network(|| {
        let write = |name: &str, value: &str| {
            fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("it is this namespace's own");
        };
        write("ip_local_port_range", "40000 40099");
        write("tcp_tw_reuse", "0");
        let (one, two) = (Server::start(true), Server::start(true));
        // Without a pool the gateway closes first, and keeps a port in TIME_WAIT for each request to the second upstream.
        let instance = start(
            "",
            &format!(
                "upstream kept {{ server {}; keepalive 4; }}
                 server {{ listen 127.0.0.1:PORT; proxy_http_version 1.1;
                    location / {{ proxy_pass http://kept; proxy_set_header Connection \"\"; }}
                    location /unpooled {{ proxy_pass http://{}; proxy_http_version 1.0; }} }}",
                one.address, two.address
            ),
        );
        let recorder = Recorder::with_sockets(&instance);
        let _load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        let mut client = instance.client();
        let mut failed_ms = 0;
        // Each request takes a port.
        for _ in 0..300 {
            let status = client.get("/unpooled", "").status();
            failed_ms = wall_clock_ms();
            if status != 200 {
                break;
            }
        }
        for _ in 0..20 {
            client.get("/unpooled", "");
            std::thread::park_timeout(PAUSE);
        }
        let claim = recorder.assert_names("ports-exhausted", &two.address.to_string(), failed_ms);
        assert_eq!(figure(&claim, "free ports").1, "0");
        let waiting = figure(&claim, "ports in TIME_WAIT").1;
        // Listeners of the test have some of the 100 ports.
        assert!(waiting.parse::<u32>().is_ok_and(|count| (90..=100).contains(&count)), "{claim:#}");
    });
}

#[test]
fn a_full_accept_queue_is_named_with_its_listener() {
    with_own_network(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("bound");
        socket.listen(2).expect("listens");
        let listener: TcpListener = socket.into();
        let address = listener.local_addr().expect("bound");
        let held = listener.try_clone().expect("the socket stays open without its server");
        let mut server = Server::on(listener, false);
        let instance = start(
            "",
            &format!(
                "upstream app {{ server {address} max_fails=0; }}
                 server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://app; proxy_connect_timeout 1s; proxy_read_timeout 1s; }} }}"
            ),
        );
        let recorder = Recorder::with_sockets(&instance);
        let mut load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        // The program does not accept any more, while its socket still listens.
        let effect_ms = server.stop();
        load.add(10, PAUSE);
        let claim = recorder.assert_names("accept-queue", &address.to_string(), effect_ms);
        assert_eq!(figure(&claim, "its backlog").1, "2");
        assert_eq!(figure(&claim, "waited to be accepted").1, "3");
        drop(held);
    });
}

#[test]
fn a_process_without_descriptors_is_named() {
    with_own_network(|| {
        let peer = Server::start(false);
        let mut instance = Instance::new(
            "",
            &format!(
                "server {{ listen 127.0.0.1:PORT; keepalive_timeout 60s; location / {{ proxy_pass http://{}; }} }}",
                peer.address
            ),
        );
        instance.start_as(|command| {
            let mut limited = Command::new("sh");
            limited
                .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
                .arg(command.get_program())
                .args(command.get_args());
            limited
        });
        let worker = children(instance.pid())[0];
        let recorder = Recorder::beside(&instance);
        recorder.record_baseline();
        // Requests without their bodies are not closed to make room.
        let mut taken = Vec::new();
        until("no descriptor is left", || {
            let mut client = instance.client();
            client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
            taken.push(client);
            instance.text("logs/error.log").contains("accept4() failed (24: Too many open files)")
        });
        let effect_ms = wall_clock_ms();
        let claim = recorder.assert_names("descriptors-exhausted", &format!("holdfast {worker}"), effect_ms);
        assert!(figure(&claim, "open descriptors").1.ends_with("of 64"), "{claim:#}");
    });
}

#[test]
fn a_used_up_memory_budget_is_named() {
    with_own_network(|| {
        let peer = Server::start(false);
        let instance = start(
            "memory_budget 2m;",
            &format!(
                "server {{ listen 127.0.0.1:PORT sndbuf=16k; location / {{ proxy_pass http://{}; proxy_buffers 64 16k; proxy_busy_buffers_size 32k; \
             proxy_max_temp_file_size 0; }} }}",
                peer.address
            ),
        );
        let recorder = Recorder::beside(&instance);
        recorder.record_baseline();
        // Clients that do not read large responses.
        peer.set(Habit::Answers(Duration::ZERO, 2_000_000));
        let reader = || {
            let mut client = instance.client();
            client.send_get("/", "");
            client
        };
        let mut readers = Vec::new();
        until("the budget is used up", || {
            if readers.len() < 200 {
                readers.push(reader());
            }
            instance.text("logs/error.log").contains("memory_budget of")
        });
        let effect_ms = wall_clock_ms();
        // More come while it lasts.
        readers.extend((0..10).map(|_| reader()));
        let claim = recorder.assert_names("memory-budget", "", effect_ms);
        assert!(figure(&claim, "memory claimed").1.ends_with("of 2048 KB"), "{claim:#}");
        drop(readers);
    });
}

#[test]
fn a_pool_that_is_too_small_for_the_load_is_named() {
    with_own_network(|| {
        let peer = Server::start(true);
        peer.set(Habit::Answers(Duration::from_millis(50), 2));
        let instance = start(
            "",
            &format!(
                "upstream app {{ server {} max_fails=0; max_connections 2 queue=2 timeout=200ms; keepalive 2; }}
             server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://app; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; }} }}",
                peer.address
            ),
        );
        let recorder = Recorder::beside(&instance);
        let mut load = Load::start(instance.port, 1, PAUSE);
        recorder.record_baseline();
        let more_ms = load.add(12, PAUSE);
        let effect_ms = load.first_failure(more_ms);
        let claim = recorder.assert_names("pool-exhausted", "app", effect_ms);
        assert_eq!(figure(&claim, "connections in use").1, "2");
    });
}
