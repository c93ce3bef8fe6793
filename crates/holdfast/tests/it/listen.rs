//! `listen` on one address and on all addresses of the same port: one socket, as in nginx, compared with nginx itself.
//! Runs in its own network namespace, because a socket for all addresses would be reachable by every host.

use crate::support::{DEADLINE, Instance, children, until};
use std::fs;
use std::net::TcpStream;
use std::process::Command;
use testkit::{Running, with_own_network};

const SERVERS: &str = "
    server { listen PORT; return 200 all; }
    server { listen 127.0.0.2:PORT; return 200 two; }
    server { listen 127.0.0.3:PORT; server_name first; return 200 three; }
    server { listen 127.0.0.3:PORT default_server; server_name second; return 200 three-default; }
    server { listen [::]:PORT; return 200 all6; }
    server { listen [::1]:PORT; return 200 one6; }
";

/// The servers' answers, by the address connected to and the requested name.
const ANSWERS: [(&str, &str, &str); 6] = [
    ("127.0.0.1", "first", "all"),
    ("127.0.0.2", "first", "two"),
    ("127.0.0.3", "first", "three"),
    ("127.0.0.3", "other", "three-default"),
    ("127.0.0.9", "second", "all"),
    ("::1", "first", "one6"),
];

fn ask(stream: &TcpStream, host: &str) -> String {
    testkit::ask(stream, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).expect("an answer").text()
}

fn connect(address: &str, port: u16) -> TcpStream {
    let stream = TcpStream::connect((address, port)).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("set");
    stream
}

/// Number of listening sockets in this network.
fn sockets() -> usize {
    // Of the thread, not of the process, because they are in different networks.
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
        .iter()
        .map(|path| fs::read_to_string(path).expect("Linux"))
        .map(|text| text.lines().filter(|line| line.split_ascii_whitespace().nth(3) == Some("0A")).count())
        .sum()
}

/// nginx with the same servers.
fn nginx(instance: &Instance, servers: &str) -> Running {
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {};\n", instance.path("temp").display()))
        .concat();
    let text = format!(
        "daemon off; error_log stderr; pid {};\nevents {{}}\nhttp {{ access_log off; {temp} {servers} }}",
        instance.path("nginx.pid").display()
    );
    fs::write(instance.path("peer.conf"), text).expect("written");
    let mut command = Command::new(testkit::peer_program("nginx"));
    command.arg("-p").arg(instance.path("")).args(["-c", "peer.conf"]);
    Running::start(&mut command)
}

#[test]
fn an_address_behind_the_socket_of_all_addresses() {
    with_own_network(|| {
        let mut instance = Instance::new("", SERVERS);
        let port = instance.port.to_string();
        let peer = nginx(&instance, &SERVERS.replace("PORT", &port));
        until("nginx listens", || TcpStream::connect(("::1", instance.port)).is_ok());
        let its = (sockets(), ANSWERS.map(|(address, host, _)| ask(&connect(address, instance.port), host)));
        drop(peer);
        instance.start();
        let ours = (sockets(), ANSWERS.map(|(address, host, _)| ask(&connect(address, instance.port), host)));
        assert_eq!(ours, its);
        assert_eq!(ours, (2, ANSWERS.map(|(_, _, answer)| answer.to_owned())));
        // A reload that names another address opens no socket, and connected clients notice it at once.
        let kept = connect("127.0.0.9", instance.port);
        assert_eq!(ask(&kept, "x"), "all");
        instance.configure("", &(SERVERS.to_owned() + "server { listen 127.0.0.9:PORT; return 200 nine; }"));
        instance.signal("reload");
        instance.wait_for_line("the new configuration holds");
        until("the new rule holds", || ask(&kept, "x") == "nine");
        instance.configure("", SERVERS);
        instance.signal("reload");
        until("it is gone again", || ask(&kept, "x") == "all");
        assert_eq!(sockets(), 2);
        assert_eq!(children(instance.pid()).len(), 1);
    });
}

#[test]
fn specific_bind_beside_wildcard_fails() {
    with_own_network(|| {
        let servers = "server { listen PORT; return 200 all; } server { listen 127.0.0.1:PORT bind; return 200 one; }";
        let instance = Instance::new("", servers);
        let peer = nginx(&instance, &servers.replace("PORT", &instance.port.to_string()));
        let its = peer.end().status;
        let ours = instance.run(&["-g", "daemon off;"]);
        assert_eq!((its.success(), ours.status.success()), (false, false));
        let text = String::from_utf8_lossy(&ours.stderr).into_owned();
        assert!(text.contains("failed (98: Address already in use)"), "{text}");
    });
}
