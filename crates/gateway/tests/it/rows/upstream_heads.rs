//! Variables in the head for an upstream: the head is one request for all values, it always has a Host, and a value
//! that cannot be sent causes a 500 and a log line that names the variable.

use crate::site::{HELLO, Site, text};
use testkit::{Gateway, Message, Peer};

/// Answers with the requested target.
fn mirror() -> Peer {
    Peer::answering(|request| {
        let target = request.target();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()).into_bytes()
    })
}

/// The head of a second request, percent-encoded.
const SPLIT: &str = "x%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/evil%20HTTP/1.1%0d%0aX-Rest:%20y";

#[test]
fn a_request_cannot_become_two() {
    let locations = "
        location ~ \"^/set/([\\s\\S]*)$\" { set $p $1; proxy_pass http://peers/a/$p; }
        location ~ \"^/group/([\\s\\S]*)$\" { proxy_pass http://peers/a/$1; }
        location ~ \"^/named/(?<part>[\\s\\S]*)$\" { proxy_pass http://peers/a/$part; }
        location /uri/ { proxy_pass http://peers$uri; }
        location /document/ { proxy_pass http://peers$document_uri; }
        location /map/ { proxy_pass http://peers/$mapped; }
        location /rewrite/ { rewrite \"^/rewrite/([\\s\\S]*)$\" /r?$uri break; proxy_pass http://peers; }
        location /named-rewrite/ { rewrite \"^/named-rewrite/(?<q>[\\s\\S]*)$\" /r?$q break; proxy_pass http://peers; }
        location /args/ { set $args $uri; proxy_pass http://peers; }
        location /if/ { if ($uri ~ \"^/if/(?<r>[\\s\\S]*)$\") { set $p $r; } proxy_pass http://peers/$p; }
        location /part/ { proxy_pass http://peers/; }
        location /body/ { proxy_set_body $uri; proxy_pass http://peers; }
        ";
    let http = "map $uri $mapped { \"~^/map/(?<rest>[\\s\\S]*)$\" $rest; }";
    let text = text(1, "", "").replace("location / {", &format!("{locations} location / {{"));
    let text = text.replace("upstream peers", &format!("{http} upstream peers"));
    let peer = mirror();
    let gateway = Gateway::start(&text, &[peer.address()]);
    for place in
        ["set", "group", "named", "uri", "document", "map", "rewrite", "named-rewrite", "args", "if", "part", "body"]
    {
        for round in 0..20 {
            let mut attacker = gateway.client();
            attacker.send(format!("GET /{place}/{SPLIT} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(attacker.response().status(), 200, "{place}");
            let (mut victim, path) = (gateway.client(), format!("/mine/{place}/{round}"));
            victim.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(victim.response().text(), path, "{place}: somebody else's answer");
        }
    }
    let targets: Vec<String> = peer.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert!(!targets.iter().any(|target| target == "/evil"), "a request became two");
    assert_eq!(targets.len(), 12 * 20 * 2);
    assert_eq!(peer.connections(), 1, "the connection is kept, or this shows nothing");
}

#[test]
fn a_space_and_a_control_character_are_escaped_in_the_target() {
    let peer = mirror();
    let text = text(1, "", "").replace("proxy_pass http://peers;", "proxy_pass http://peers$uri$is_args$args;");
    let gateway = Gateway::start(&text, &[peer.address()]);
    let mut client = gateway.client();
    client.send("GET /a%20b%09%0a%23%7f%01%c3%a9?c%20d HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    let sent = peer.received(0);
    assert!(sent.starts_with(b"GET /a%20b%09%0A%23%7F%01\xc3\xa9?c%20d HTTP/1.1\r\n"), "{}", sent.escape_ascii());
}

#[test]
fn a_field_that_would_be_two_is_answered_with_500() {
    for (field, named) in [
        ("X-Path \"pre$uri\"", "\"proxy_set_header X-Path\", from $uri; the request is not sent"),
        ("Host $uri", "\"proxy_set_header Host\", from $uri"),
        ("X-User $remote_user", "\"proxy_set_header X-User\", from $remote_user"),
        ("X-Set $copy", "\"proxy_set_header X-Set\", from $copy"),
    ] {
        let site = Site::with(Peer::saying(HELLO), &format!("set $copy \"<$uri>\"; proxy_set_header {field};"));
        for bad in ["%0d%0aX:%20y", "%0a", "%01", "%7f"] {
            // `a\r\nX: y` as the user name.
            let fields = "Authorization: Basic YQ0KWDogeTpi\r\n";
            let request = format!("GET /a{bad} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            assert_eq!(site.ask(request).status(), 500, "{field} {bad}");
        }
        site.gateway.logged(&format!("a control character in the value of {named}"));
        peer_saw_only_first(&site, field);
    }
}

/// None of the earlier requests reached the upstream.
#[track_caller]
fn peer_saw_only_first(site: &Site, field: &str) {
    let status = site.ask("GET /first HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n").status();
    assert_eq!(status, 200, "{field}");
    assert_eq!(site.peer.only_request().target(), "/first", "{field}");
}

/// The only request that the upstream gets for a client's request.
fn sent(location: &str, request: &str) -> Message {
    let site = Site::with(Peer::saying(HELLO), location);
    assert_eq!(site.ask(request).status(), 200, "{location}");
    site.peer.only_request()
}

#[test]
fn there_is_always_one_host() {
    let (plain, old) = ("GET / HTTP/1.1\r\nHost: client\r\n\r\n", "GET / HTTP/1.0\r\n\r\n");
    for (location, request, host) in [
        ("proxy_set_header Host \"\";", plain, "peers"),
        ("proxy_set_header Host $http_nothing;", plain, "peers"),
        ("proxy_set_header Host $http_host;", old, "peers"),
        ("proxy_http_version 1.0; proxy_set_header Host $http_host;", old, "peers"),
        ("proxy_set_header Host $http_host;", plain, "client"),
        ("proxy_set_header Host one; proxy_set_header Host two;", plain, "one"),
        ("proxy_set_header Host $http_nothing; proxy_set_header Host two;", plain, "two"),
        ("proxy_set_header host $http_host;", plain, "client"),
    ] {
        assert_eq!(sent(location, request).values("Host"), [host], "{location}");
    }
    let site = Site::with(Peer::saying(HELLO), "proxy_set_header Host $http_nothing;");
    assert_eq!(site.ask(plain).status(), 200);
    site.gateway.logged("\"proxy_set_header Host\" is empty; the upstream gets the host of \"proxy_pass\"");
}

#[test]
fn where_a_body_ends_is_not_for_the_configuration_to_say() {
    let location = "proxy_set_header Content-Length 3; proxy_set_header Transfer-Encoding chunked;";
    let request = sent(location, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((request.values("Content-Length"), request.values("Transfer-Encoding")), (vec!["5"], vec![]));
    let site = Site::with(Peer::saying(HELLO), location);
    assert!(site.gateway.warnings().iter().any(|warning| warning.contains("Content-Length\" has no effect")));
}

#[test]
fn a_name_that_is_no_token_is_never_sent() {
    let location = "proxy_set_header \"X A\" 1; proxy_set_header X-B: 2; proxy_set_header X-C 3; add_header \"X D\" 4;";
    let site = Site::with(Peer::saying(HELLO), location);
    let response = site.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(response.status(), 200);
    assert!(!response.fields.iter().any(|(name, _)| name.contains(' ')), "{response:?}");
    let sent = String::from_utf8(site.peer.received(0)).unwrap();
    assert!(sent.contains("X-C: 3\r\n") && !sent.contains("X A") && !sent.contains("X-B"), "{sent}");
    let warnings = site.gateway.warnings();
    for named in ["\"proxy_set_header\": \"X A\"", "\"proxy_set_header\": \"X-B:\"", "\"add_header\": \"X D\""] {
        assert!(warnings.iter().any(|warning| warning.contains(named)), "{named}: {warnings:?}");
    }
}

#[test]
fn a_value_over_several_lines_is_one() {
    let lines = "default-src 'self';\n        script-src 'none';\n";
    let location = format!(
        "proxy_set_header X-Sent \"{lines}\"; add_header Content-Security-Policy \"{lines}\"; \
         add_header X-Host \"of\r\n\t$host\"; add_trailer X-End \"{lines}\";"
    );
    let site = Site::with(Peer::saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), &location);
    let mut client = site.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (bytes, _) = client.rest();
    let answer = String::from_utf8(bytes).unwrap();
    let line = "default-src 'self'; script-src 'none';\r\n";
    for field in [format!("Content-Security-Policy: {line}"), "X-Host: of a\r\n".to_owned(), format!("X-End: {line}")] {
        assert!(answer.contains(&field), "{field} in {answer}");
    }
    assert_eq!(site.peer.only_request().value("X-Sent"), Some(line.trim_end()));

    let moved = text(1, "", "").replace("proxy_pass http://peers;", "return 302 \"http://b.test/\n  $arg_x\";");
    let gateway = Gateway::start(&moved, &[site.peer.address()]);
    let mut client = gateway.client();
    client.send("GET /?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().value("Location"), Some("http://b.test/ 1"));
}
