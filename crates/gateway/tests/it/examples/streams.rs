//! Examples of `stream`, tested with the programs that they are meant for.

use crate::examples::run::{Example, named};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use testkit::{Authority, free_port, peer_program, until};

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command, address: SocketAddr) -> Running {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = Running(child);
    until("the program listens", || TcpStream::connect(address).ok());
    running
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Each server has a certificate for its own name only: a verifying client shows which server it reached.
#[test]
fn tls_goes_by_its_name_to_whom_has_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Passthrough");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let servers = ["a", "b"].map(|name| {
        let (chain, key) = authority.issue(&[&format!("{name}.example")]).write(folder.path(), name);
        let address = local();
        let mut openssl = Command::new(peer_program("openssl"));
        openssl.args(["s_server", "-accept", &address.to_string(), "-www", "-cert"]).arg(chain).arg("-key").arg(key);
        (start(&mut openssl, address), address)
    });
    let peers = [("127.0.0.1:9401", servers[0].1), ("127.0.0.1:9402", servers[1].1)];
    let site = Example::start("tls-passthrough.conf", &peers, &[]);
    let port = site.gateway.address().port();
    let curl = |name: &str| -> Output {
        let mut curl = Command::new(peer_program("curl"));
        curl.args(["-s", "--max-time", "20", "--cacert"]).arg(&ca);
        curl.args(["--resolve", &format!("{name}:{port}:127.0.0.1"), &format!("https://{name}:{port}/")]);
        curl.output().unwrap()
    };
    for name in ["a.example", "b.example"] {
        let output = curl(name);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(!curl("c.example").status.success());
    let lines = site.gateway.access_lines(3);
    assert!(lines[0].starts_with("127.0.0.1 a.example TLSv1.3 200 "), "{lines:?}");
    assert!(lines[2].starts_with("127.0.0.1 c.example TLSv1.3 502 ") && lines[2].ends_with(" nowhere"), "{lines:?}");
}

#[test]
fn redis_has_a_standby() {
    let redis = || {
        let (address, folder) = (local(), tempfile::tempdir().unwrap());
        let mut server = Command::new(peer_program("redis-server"));
        server.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        server.arg(folder.path());
        (start(&mut server, address), address, folder)
    };
    let (first, second) = (redis(), redis());
    let site = Example::start("redis.conf", &[("127.0.0.1:9411", first.1), ("127.0.0.1:9412", second.1)], &[]);
    let port = site.gateway.address().port().to_string();
    let ask = |words: &[&str]| {
        let output = Command::new(peer_program("redis-cli")).args(["-p", &port]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(ask(&["set", "key", "value"]), "OK\n");
    assert_eq!(ask(&["get", "key"]), "value\n");
    let tcp_port = |of: SocketAddr| format!("tcp_port:{}\r\n", of.port());
    assert!(ask(&["info", "server"]).contains(&tcp_port(first.1)));
    drop(first.0);
    assert!(ask(&["info", "server"]).contains(&tcp_port(second.1)), "the standby answers");
}

#[test]
fn a_chain_of_proxies_names_the_client() {
    let peer = named("origin");
    let site = Example::start("proxy-protocol-chain.conf", &[("127.0.0.1:9421", peer.address())], &[]);
    let mut client = testkit::Talk::connect_from([127, 0, 0, 7].into(), site.gateway.address());
    client.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    client.close();
    let mut lines = site.gateway.access_lines(2);
    lines.sort_by_key(|line| line.contains("came from 127.0.0.1,"));
    assert!(lines[0].contains(" 127.0.0.7 came from 127.0.0.7, 200, "), "{lines:?}");
    assert!(lines[1].contains(" 127.0.0.7 came from 127.0.0.1, 200, "), "{lines:?}");
}
