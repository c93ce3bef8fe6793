//! Examples of `stream`, tested with the programs that they are meant for.

use crate::examples::run::{Example, named};
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use testkit::{Authority, DatagramPeer, DatagramTalk, Running, free_port, peer_program, until};

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Each server has a certificate for its own name only: a verifying client shows which server it reached.
#[test]
fn tls_is_routed_by_sni() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Passthrough");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let servers = ["a", "b"].map(|name| {
        let (chain, key) = authority.issue(&[&format!("{name}.example")]).write(folder.path(), name);
        let address = local();
        let mut openssl = Command::new(peer_program("openssl"));
        openssl.args(["s_server", "-accept", &address.to_string(), "-www", "-cert"]).arg(chain).arg("-key").arg(key);
        (Running::listening(&mut openssl, address), address)
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
        (Running::listening(&mut server, address), address, folder)
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
fn redis_gets_tls_from_the_gateway() {
    let (address, folder) = (local(), tempfile::tempdir().unwrap());
    let mut server = Command::new(peer_program("redis-server"));
    server.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
    server.arg(folder.path());
    let _server = Running::listening(&mut server, address);
    let authority = Authority::new("Redis");
    std::fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    authority.issue(&["redis.example"]).write(folder.path(), "redis.example");
    authority.issue(&["client"]).write(folder.path(), "client");
    let place = ("/tmp/holdfast-redis-tls", folder.path());
    let site = Example::start_below("redis-tls.conf", &[("127.0.0.1:9431", address)], &[], Some(place));
    let ask = |name: &str, shown: &[&str]| {
        let mut cli = Command::new(peer_program("redis-cli"));
        cli.current_dir(folder.path()).args(["-p", &site.gateway.address().port().to_string(), "--tls", "--sni", name]);
        let output = cli.args(["--cacert", "ca.crt"]).args(shown).args(["set", "key", "value"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = ["--cert", "client.crt", "--key", "client.key"];
    assert_eq!(ask("redis.example", &shown), "OK\n");
    assert_eq!(ask("redis.example", &[]), "");
    assert_eq!(ask("other.example", &shown), "");
    let lines = site.gateway.access_lines(3);
    assert!(lines[0].starts_with("127.0.0.1 200 TLSv1.3 redis.example CN=client "), "{lines:?}");
    assert!(lines[1].starts_with("127.0.0.1 500 TLSv1.3 redis.example - "), "{lines:?}");
    assert!(lines[2].starts_with("127.0.0.1 500 "), "{lines:?}");
}

/// Real brokers, and a real subscriber and publisher with certificates.
#[test]
fn mqtt_gets_tls_and_sticky_brokers() {
    let folder = tempfile::tempdir().unwrap();
    let broker = || {
        let address = local();
        // Without a file it listens on the loopback only, and takes clients without a password.
        let mut mosquitto = Command::new(peer_program("mosquitto"));
        mosquitto.args(["-p", &address.port().to_string()]);
        (Running::listening(&mut mosquitto, address), address)
    };
    let brokers = [broker(), broker()];
    let authority = Authority::new("MQTT");
    std::fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    authority.issue(&["localhost"]).write(folder.path(), "mqtt.example");
    authority.issue(&["device"]).write(folder.path(), "device");
    let peers = [("127.0.0.1:9441", brokers[0].1), ("127.0.0.1:9442", brokers[1].1)];
    let site = Example::start_below("mqtt.conf", &peers, &[], Some(("/tmp/holdfast-mqtt", folder.path())));
    let client = |program: &str, address: SocketAddr, shown: &[&str], words: &[&str]| {
        let mut client = Command::new(peer_program(program));
        client.current_dir(folder.path()).args(["-h", "localhost", "-p", &address.port().to_string()]);
        client.args(shown).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        client
    };
    let tls = ["--cafile", "ca.crt", "--cert", "device.crt", "--key", "device.key"];
    let publish = |address: SocketAddr, shown: &[&str], text: &str| {
        let words = ["-t", "news", "-q", "1", "-r", "-m", text];
        client("mosquitto_pub", address, shown, &words).output().unwrap().status.success()
    };
    // A retained message is at the broker of the device, and only its subscribers get it.
    assert!(publish(site.gateway.address(), &tls, "hello"));
    let words = ["-t", "news", "-C", "1", "-W", "20"];
    let heard = client("mosquitto_sub", site.gateway.address(), &tls, &words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&heard.stdout), "hello\n", "{}", String::from_utf8_lossy(&heard.stderr));
    assert!(publish(site.gateway.address_of(1), &[], "plain"), "from this machine without TLS");
    assert!(!publish(site.gateway.address(), &tls[..2], "refused"), "without a certificate");
    let lines = site.gateway.access_lines(4);
    let broker_of = |line: &String| line.split(' ').nth(4).unwrap_or_default().to_owned();
    assert!(lines[..2].iter().all(|line| line.starts_with("127.0.0.1 200 TLSv1.3 CN=device ")), "{lines:?}");
    assert_eq!(broker_of(&lines[0]), broker_of(&lines[1]), "{lines:?}");
    assert!(lines[2].starts_with("127.0.0.1 200 - - ") && lines[3].starts_with("127.0.0.1 500 "), "{lines:?}");
    // Without its broker the device gets the other one.
    let [first, second] = brokers;
    let (gone, other) = if broker_of(&lines[0]) == first.1.to_string() { (first, second) } else { (second, first) };
    drop(gone.0);
    assert!(publish(site.gateway.address(), &tls, "again"));
    let last = site.gateway.access_lines(5).remove(4);
    assert!(last.contains(&format!(", {} ", other.1)), "{last}");
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

/// A real name server and a real client, over UDP and TCP on one port; and lines of syslog, which have no answer.
#[test]
fn name_servers_answer_over_udp_and_tcp_with_standby() {
    let server = |answer: &str| {
        let address = local();
        let mut dnsmasq = Command::new(peer_program("dnsmasq"));
        dnsmasq.args(["--no-daemon", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--bind-interfaces"]);
        dnsmasq.args(["--listen-address=127.0.0.1", &format!("--port={}", address.port())]);
        dnsmasq.args([&format!("--address=/example.test/{answer}"), "--user=", "--pid-file="]);
        (Running::listening(&mut dnsmasq, address), address)
    };
    let (first, second) = (server("192.0.2.1"), server("192.0.2.2"));
    let syslog = DatagramPeer::mute();
    let peers = [("127.0.0.1:9501", first.1), ("127.0.0.1:9502", second.1), ("127.0.0.1:9514", syslog.address())];
    let site = Example::start("dns.conf", &peers, &[]);
    let port = site.gateway.address().port().to_string();
    let ask = |words: &[&str]| {
        let mut dig = Command::new(peer_program("dig"));
        dig.args(["@127.0.0.1", "-p", &port, "+short", "+time=4", "+tries=3"]).args(words).arg("example.test");
        String::from_utf8_lossy(&dig.output().unwrap().stdout).into_owned()
    };
    assert_eq!((ask(&[]), ask(&["+tcp"])), ("192.0.2.1\n".to_owned(), "192.0.2.1\n".to_owned()));
    let lines = site.gateway.access_lines(2);
    assert!(lines[0].starts_with("UDP 127.0.0.1 200 ") && lines[1].starts_with("TCP 127.0.0.1 200 "), "{lines:?}");
    drop(first.0);
    until("the standby answers", || (ask(&[]) == "192.0.2.2\n").then_some(()));
    let client = DatagramTalk::connect(site.gateway.address_of(1));
    client.send("<14>a line");
    until("the line has arrived", || (syslog.received() == 1).then_some(()));
    let last = format!("UDP 127.0.0.1 200 10/0 0.000 {}", syslog.address());
    until("the session has ended with it", || site.gateway.access_log().lines().any(|line| line == last).then_some(()));
}
