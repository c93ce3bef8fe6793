//! `listen` and `server_name`: which servers are at which address.

use conf::model::{NameForm, Options, ServerId, lower_with};

use super::{found, http};
use crate::support::Files;

#[test]
fn a_server_without_listen_is_at_port_80_or_8000() {
    assert_eq!(http("server { }").listeners[0].address.to_string(), "0.0.0.0:80");
    let loaded = Files::new([("/etc/nginx/nginx.conf", "events {} http { server { } }")]).load();
    let (model, _) = lower_with(&loaded.tree, &loaded.sources, Options { privileged: false });
    assert_eq!(model.http.unwrap().listeners[0].address.to_string(), "0.0.0.0:8000");
}

#[test]
fn servers_of_one_address_share_a_listener() {
    let http = http(
        "server { listen 80; server_name a; } server { listen 80 default_server backlog=8192; server_name b; listen [::]:80; }",
    );
    let shown: Vec<_> = http.listeners.iter().map(|listener| listener.address.to_string()).collect();
    assert_eq!(shown, ["0.0.0.0:80", "[::]:80"]);
    let first = &http.listeners[0];
    assert_eq!((first.default_server, first.servers.as_slice()), (ServerId(1), &[ServerId(0), ServerId(1)][..]));
    assert_eq!(first.options.backlog, Some(8192));
}

#[test]
fn a_range_of_ports_is_as_many_listeners() {
    let http = http("server { listen 127.0.0.1:8000-8002 so_keepalive=30m::10; }");
    assert_eq!(http.listeners.len(), 3);
    assert_eq!(http.listeners[2].address.port, 8002);
}

#[test]
fn contradicting_listens_at_one_address_are_refused() {
    assert_eq!(
        found("server { listen 80 default_server; } server { listen 80 default; server_name b; }"),
        ["a duplicate default server for 0.0.0.0:80 <- listen 80 default;"]
    );
    assert_eq!(
        found("server { listen 80 backlog=1; } server { listen 80 rcvbuf=8k; server_name b; }"),
        ["duplicate listen options for 0.0.0.0:80 <- listen 80 rcvbuf=8k;"]
    );
    assert_eq!(found("server { listen 80; listen *:80; }"), ["a duplicate listen 0.0.0.0:80 <- listen *:80;"]);
    assert_eq!(
        found("server { server_name a b; } server { server_name .b; }"),
        ["warning: conflicting server name \".b\" on 0.0.0.0:80, ignored <- .b"]
    );
}

/// The messages of nginx 1.30 for the same configurations, for every order of these words.
#[test]
fn listens_of_one_address_have_the_same_protocol_words() {
    let redefined = |words: [&str; 3]| {
        let servers = [0, 1, 2]
            .map(|at| format!("server {{ server_name s{at}; ssl_reject_handshake on; listen 443 {}; }}", words[at]));
        let found = found(&servers.concat());
        let lines = found.iter().map(|line| {
            line.strip_prefix("warning: protocol options redefined for 0.0.0.0:443 <- listen 443")
                .expect("the warning")
                .to_owned()
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(redefined(["ssl", "ssl", "ssl"]), [""; 0]);
    assert_eq!(redefined(["ssl", "", ""]), [""; 0]);
    assert_eq!(redefined(["ssl", "", "ssl"]), [" ssl;"]);
    assert_eq!(redefined(["", "ssl", ""]), [""; 0]);
    assert_eq!(redefined(["", "ssl", "ssl"]), [" ssl;"]);
    assert_eq!(redefined(["ssl backlog=9", "", "ssl"]), [" ssl;"]);
    assert_eq!(redefined(["", "ssl backlog=9", "ssl"]), [" ssl;"]);
    assert_eq!(redefined(["ssl", "proxy_protocol", "ssl"]), [" proxy_protocol;"]);
    assert_eq!(redefined(["backlog=9", "ssl", ""]), [" ssl;"]);
}

#[test]
fn refuses_invalid_listen() {
    assert_eq!(found("server { listen 99999; }"), ["invalid port in \"99999\" of the \"listen\" directive <- 99999"]);
    assert_eq!(found("server { listen 80 backlog=x; }"), ["invalid backlog \"backlog=x\" <- backlog=x"]);
    assert_eq!(found("server { listen [::]:80 ipv6only=no; }"), ["invalid parameter \"ipv6only=no\" <- ipv6only=no"]);
    assert_eq!(found("server { listen 80 fast; }"), ["invalid parameter \"fast\" <- fast"]);
    assert_eq!(
        found("server { listen 443 quic; }"),
        ["the \"quic\" parameter of \"listen\" is known but not supported by holdfast <- quic"]
    );
}

#[test]
fn names_have_forms() {
    let http = http("server { server_name A.example *.b .c d.* ~^(?<e>x)$ '' $hostname; }");
    let forms: Vec<_> = http.servers[0].names.iter().map(|name| &name.form).collect();
    assert_eq!(*forms[0], NameForm::Exact(b"a.example".to_vec()));
    assert_eq!(*forms[1], NameForm::Suffix(b"b".to_vec()));
    assert_eq!(*forms[2], NameForm::NameAndSuffix(b"c".to_vec()));
    assert_eq!(*forms[3], NameForm::Prefix(b"d".to_vec()));
    assert!(matches!(forms[4], NameForm::Regex(regex) if regex.variables().eq(["e"])));
    assert_eq!(*forms[5], NameForm::Exact(Vec::new()));
    assert_eq!(*forms[6], NameForm::Hostname);
}

#[test]
fn refuses_invalid_server_names() {
    assert_eq!(found("server { server_name *a; }"), ["server name \"*a\" is invalid <- *a"]);
    assert_eq!(found("server { server_name a.*.b; }"), ["invalid server name or wildcard \"a.*.b\" <- a.*.b"]);
    assert_eq!(found("server { server_name ~; }"), ["empty regex in server name \"~\" <- ~"]);
    assert_eq!(
        found("server { server_name http://a; }"),
        ["warning: server name \"http://a\" has suspicious symbols <- http://a"]
    );
}
