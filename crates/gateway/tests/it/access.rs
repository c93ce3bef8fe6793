//! `auth_basic` where a comparison with nginx is impossible: files that change, bad lines, clients that leave.

use crate::scene::Gateway;

const BASIC: &str = "location / { auth_basic staff; auth_basic_user_file users; return 200 returned; root html; }
    location /asked/ { auth_basic staff; auth_basic_user_file users; alias html/; }
    location /held/ { auth_delay 1h; auth_basic staff; auth_basic_user_file users; alias html/; }
    location = /metrics { status_page; }";

/// ann:secret
const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";

#[test]
fn a_changed_file_of_users_holds_from_the_next_request() {
    let gateway = Gateway::start(BASIC, "");
    gateway.write("html/a", "a file");
    assert_eq!(gateway.request("GET", "/asked/a", ANN).status(), 403, "there is no file of users");
    gateway.write("users", "ann:{PLAIN}secret\n");
    assert_eq!(gateway.request("GET", "/asked/a", ANN).text(), "a file");
    gateway.write("users", "ann:{PLAIN}sesame\n");
    assert_eq!(gateway.request("GET", "/asked/a", ANN).status(), 401, "of the same length, a moment later");
    gateway.write("users", "bob:{PLAIN}secret\n");
    assert_eq!(gateway.request("GET", "/asked/a", ANN).status(), 401);
    gateway.expect_error("user \"ann\" was not found in");
}

#[test]
fn bad_user_line_is_logged_and_others_log_in() {
    let gateway = Gateway::start(BASIC, "");
    gateway.write("html/a", "a file");
    gateway.write("users", "# staff\nan\nann:{PLAIN}secret\n:{PLAIN}x\nbob:what is this\n");
    assert_eq!(gateway.request("GET", "/asked/a", ANN).text(), "a file");
    gateway.expect_error("has 3 lines that are no users: 2, 4, 5");
    let metrics = gateway.get("/metrics?format=prometheus").text();
    let counted = metrics.lines().find(|line| line.starts_with("holdfast_user_file_bad_lines_total "));
    assert_eq!(counted, Some("holdfast_user_file_bad_lines_total 3"));
}

#[test]
fn a_client_that_leaves_ends_its_delay() {
    let gateway = Gateway::start(BASIC, "");
    let mut client = gateway.connect();
    client.send("GET /held/a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    drop(client);
    testkit::until("the end of the request that was left", || {
        // The request for the metrics itself is in progress.
        let metrics = gateway.get("/metrics?format=prometheus").text();
        metrics.lines().any(|line| line == "holdfast_requests_under_way 1").then_some(())
    });
}

#[test]
fn invalid_gzip_body_ends_the_response_with_a_line() {
    let server = "location /up/ { gunzip on; proxy_pass http://{listen:1}/; }";
    let other = "server { listen {listen:1}; root html; location / { add_header Content-Encoding gzip; } }";
    let gateway = Gateway::start(server, other);
    gateway.write("html/a", "this was never packed");
    let mut client = gateway.connect();
    client.send("GET /up/a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let (received, _) = client.rest();
    assert!(!received.ends_with(b"0\r\n\r\n"), "{}", received.escape_ascii());
    gateway.expect_error("the body cannot be unpacked");
}
