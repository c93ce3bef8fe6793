//! External programs as upstreams: nginx and OpenSSL's server.

use crate::upstream_tls::peer::{Authority, Files, Issued};
use crate::upstream_tls::site::{ask, fails, site};
use std::net::SocketAddr;
use std::process::Command;
use testkit::{Running, free_port, peer_program};

fn nginx(issued: &Issued, files: &Files, more: &str) -> (Running, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (chain, key) = (files.write("server.pem", &issued.chain), files.write("server.key", &issued.key));
    let folder = files.path();
    let conf = format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
         http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
             uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
             server {{ listen {address} ssl; ssl_certificate {chain}; ssl_certificate_key {key}; {more}
                 location / {{ return 200 \"$ssl_protocol|$ssl_server_name|$ssl_session_reused|$ssl_client_verify|$connection_requests\"; }} }} }}"
    );
    let path = files.write("nginx.conf", &conf);
    (
        Running::listening(Command::new(peer_program("nginx-stable")).args(["-e", "/dev/null", "-c", &path]), address),
        address,
    )
}

#[test]
fn nginx_sees_the_configured_tls_settings() {
    let (authority, clients) = (Authority::new("Authority"), Authority::new("Clients"));
    let files = Files::new();
    let shown = clients.issue(&["gateway.test"], |leaf| {
        leaf.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
    });
    let (chain, key) = (files.write("client.pem", &shown.chain), files.write("client.key", &shown.key));
    let ca = files.write("clients.pem", &clients.pem);
    let more = format!("ssl_verify_client on; ssl_client_certificate {ca};");
    let (_nginx, address) = nginx(&authority.usual(), &files, &more);
    let trusted = files.write("ca.pem", &authority.pem);
    let words = format!(
        "proxy_ssl_verify on; proxy_ssl_trusted_certificate {trusted}; proxy_ssl_name a.test; proxy_ssl_server_name on;"
    );
    let gateway = site(address, &format!("{words} proxy_ssl_certificate {chain}; proxy_ssl_certificate_key {key};"));
    assert_eq!(ask(&gateway, "/").text(), "TLSv1.3|a.test|.|SUCCESS|1");
    assert_eq!(ask(&gateway, "/").text(), "TLSv1.3|a.test|.|SUCCESS|2");
    // Without its certificate nginx itself answers, as to every such client.
    let gateway = site(address, &words);
    assert_eq!(ask(&gateway, "/").status(), 400);
    let gateway = site(address, &words.replace("a.test", "c.test"));
    fails(&gateway, 502, "upstream SSL certificate does not match \"c.test\" while SSL handshaking to upstream");
}

#[test]
fn nginx_resumes_the_sessions_that_it_gave() {
    let files = Files::new();
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let more = format!("ssl_protocols {protocol}; keepalive_timeout 0;");
        let (_nginx, address) = nginx(&Authority::new("Authority").usual(), &files, &more);
        let gateway = site(address, "");
        assert_eq!(ask(&gateway, "/").text(), format!("{protocol}||.|NONE|1"));
        assert_eq!(ask(&gateway, "/").text(), format!("{protocol}||r|NONE|1"));
    }
}

#[test]
fn openssl_serves_both_protocols_and_its_oldest_is_refused() {
    let files = Files::new();
    let issued = Authority::new("Authority").usual();
    let (chain, key) = (files.write("server.pem", &issued.chain), files.write("server.key", &issued.key));
    for (protocol, works) in [("-tls1_2", true), ("-tls1_3", true), ("-tls1_1", false)] {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let arguments = ["s_server", "-accept", &address.to_string(), "-cert", &chain, "-key", &key, protocol, "-www"]
            .map(str::to_owned);
        let _server = Running::listening(Command::new(peer_program("openssl")).args(arguments), address);
        let gateway = site(address, "");
        if works {
            assert_eq!(ask(&gateway, "/").status(), 200, "{protocol}");
        } else {
            fails(&gateway, 502, "SSL_do_handshake() failed (SSL: error:0A");
        }
    }
}
