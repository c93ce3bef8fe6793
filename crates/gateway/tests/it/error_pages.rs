//! `error_page`, named locations and `internal` over real sockets.

use crate::scene::Gateway;
use testkit::{Peer, Refusing};

/// The origin's configuration in the founding experiment.
const ORIGIN: &str = "location / { root html; index index.html index.htm; } \
    error_page 500 502 503 504 /50x.html; location = /50x.html { root html; }";

#[test]
fn error_page_of_a_dead_upstream_keeps_the_status() {
    let nobody = Refusing::new();
    let server = format!("{ORIGIN} location /app/ {{ proxy_pass http://{{upstream:0}}; }}");
    let gateway = Gateway::start_before(&server, "", &[nobody.address()]);
    assert!(gateway.get("/app/x").text().contains("<h1>404 Not Found"), "the page is missing, and that is shown");
    gateway.write("html/50x.html", "sorry");
    let response = gateway.get("/app/x");
    assert_eq!((response.status(), response.text().as_str()), (502, "sorry"));
    assert_eq!(response.value("Content-Type"), Some("text/html"));
    // Its validators belong to the page, not to the requested resource.
    let tag = response.value("ETag").unwrap();
    let again = gateway.request("GET", "/app/x", &format!("If-None-Match: {tag}\r\nRange: bytes=0-1\r\n"));
    assert_eq!((again.status(), again.text().as_str()), (502, "sorry"));
    let posted = gateway.request("POST", "/app/x", "Content-Length: 3\r\n\r\nabc");
    assert_eq!((posted.status(), posted.text().as_str()), (502, "sorry"), "a page is fetched by GET");
    let head = gateway.request("HEAD", "/app/x", "");
    assert_eq!((head.status(), head.text().as_str(), head.value("Content-Length")), (502, "", Some("5")));
}

#[test]
fn the_status_can_be_replaced_or_left_to_the_page() {
    let server = "root html; location /200 { error_page 404 =200 /page; } location /own { error_page 404 = /made; } \
        location /keep { error_page 404 /made; } location /text { error_page 404 /page; return 404 'as it is'; } \
        location = /made { return 201 'made $uri $request_uri $args'; } ";
    let gateway = Gateway::start(server, "");
    gateway.write("html/page", "page");
    let shown = |target: &str| {
        let response = gateway.get(target);
        (response.status(), response.text())
    };
    assert_eq!(shown("/200"), (200, "page".to_owned()));
    assert_eq!(shown("/own?q"), (201, "made /made /own?q ".to_owned()));
    assert_eq!(shown("/keep"), (404, "made /made /keep ".to_owned()));
    assert_eq!(shown("/text"), (404, "as it is".to_owned()));
}

#[test]
fn a_named_location_keeps_uri_and_method() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npeer");
    let server = "root html; location /named { error_page 404 = @peer; } location /kept { error_page 404 @peer; } \
        location /lost { error_page 404 @none; } location @peer { proxy_pass http://{upstream:0}; }";
    let gateway = Gateway::start_before(server, "", &[peer.address()]);
    assert_eq!((gateway.get("/named/x?y").status(), gateway.get("/kept").status()), (200, 404));
    assert_eq!(gateway.get("/lost").status(), 500);
    gateway.expect_error("could not find named location \"@none\"");
    let targets: Vec<String> = peer.requests().iter().map(|(_, request)| request.target().to_owned()).collect();
    assert_eq!(targets, ["/named/x?y", "/kept"]);
    assert_eq!(gateway.request("POST", "/named/p", "Content-Length: 3\r\n\r\nabc").text(), "peer");
    let posted = peer.requests().pop().unwrap().1;
    assert_eq!((posted.method(), posted.text().as_str()), ("POST", "abc"));
}

#[test]
fn proxied_error_page_is_fetched_by_get_at_its_uri() {
    let peer = Peer::saying("HTTP/1.1 200 Fine\r\nContent-Length: 4\r\n\r\npeer");
    let server = "root html; error_page 403 /p%20q?a=b; location = /deny { return 403; } \
        location /p { proxy_pass http://{upstream:0}; }";
    let gateway = Gateway::start_before(server, "", &[peer.address()]);
    let response = gateway.request("DELETE", "/deny", "");
    assert_eq!((response.status(), response.text().as_str()), (403, "peer"));
    assert!(response.line == "HTTP/1.1 403 Forbidden", "{response:?}");
    let request = peer.only_request();
    assert_eq!(request.line, "GET /p%2520q?a=b HTTP/1.1", "a URI of the configuration is not decoded");
}

#[test]
fn a_url_redirects_the_client() {
    let server = "error_page 404 http://b.example/$uri; error_page 403 =301 https://c.example/; \
        location /deny { return 403; } location / { root html; }";
    let gateway = Gateway::start(server, "");
    let lost = gateway.get("/none");
    assert_eq!((lost.status(), lost.value("Location")), (302, Some("http://b.example//none")));
    let denied = gateway.get("/deny");
    assert_eq!((denied.status(), denied.value("Location")), (301, Some("https://c.example/")));
    assert_eq!(gateway.get("/a%0d%0aX:%20y").status(), 500, "a line end in the URL");
}

#[test]
fn internal_locations_are_closed_to_clients() {
    let server = "root html; error_page 404 /pages/404.html; location /pages/ { internal; root html; }";
    let gateway = Gateway::start(server, "");
    gateway.write("html/pages/404.html", "lost");
    for target in ["/none", "/pages/404.html"] {
        let response = gateway.get(target);
        assert_eq!((response.status(), response.text().as_str()), (404, "lost"), "{target}");
    }
}

#[test]
fn recursive_error_pages_are_optional_and_bounded() {
    let server = "location /once { error_page 404 /once2; return 404; } \
        location = /once2 { error_page 403 /end; return 403; } location = /end { return 200 end; } \
        location /more { recursive_error_pages on; error_page 404 /more2; return 404; } \
        location = /more2 { recursive_error_pages on; error_page 403 /end; return 403; } \
        location /loop { recursive_error_pages on; error_page 404 /loop; return 404; }";
    let gateway = Gateway::start(server, "");
    assert_eq!(gateway.get("/once").status(), 403);
    let more = gateway.get("/more");
    assert_eq!((more.status(), more.text().as_str()), (403, "end"));
    assert_eq!(gateway.get("/loop").status(), 500);
    gateway.expect_error("rewrite or internal redirection cycle");
}

#[test]
fn refused_requests_have_pages_too() {
    let server = "error_page 400 413 /sorry; client_max_body_size 10; location = /sorry { return 200 'sorry'; }";
    let gateway = Gateway::start(server, "");
    let malformed = gateway.exchange("GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((malformed.status(), malformed.text().as_str()), (400, "sorry"));
    let large = gateway.request("POST", "/x", "Content-Length: 11\r\n\r\n12345678901");
    assert_eq!((large.status(), large.text().as_str()), (413, "sorry"));
}

#[test]
fn intercepted_error_read_completely_keeps_the_connection() {
    let peer = Peer::saying("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone");
    let server = "root html; location /in { proxy_pass http://pooled; proxy_intercept_errors on; \
        error_page 404 /page; } location /page { }";
    let gateway = Gateway::start_before(server, "upstream pooled { server {upstream:0}; }", &[peer.address()]);
    gateway.write("html/page", "ours");
    for _ in 0..2 {
        let response = gateway.get("/in");
        assert_eq!((response.status(), response.text().as_str()), (404, "ours"));
    }
    assert_eq!(peer.connections(), 1, "nothing was left unread on it");
}

#[test]
fn intercepted_error_in_progress_closes_the_connection() {
    let peer = Peer::saying("HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\nhalf");
    let server = "location /in { proxy_pass http://pooled; proxy_intercept_errors on; error_page 500 =502 @page; } \
        location @page { return 200 '$upstream_status|$upstream_close_reason'; }";
    let gateway = Gateway::start_before(server, "upstream pooled { server {upstream:0}; }", &[peer.address()]);
    let response = gateway.get("/in");
    assert_eq!((response.status(), response.text().as_str()), (502, "500|response body not fully read"));
    assert_eq!(gateway.get("/in").status(), 502);
    assert_eq!(peer.connections(), 2);
}
