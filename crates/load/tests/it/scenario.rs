//! Scenarios against a server that keeps what it received: steps, variables, cookies, checks, think times, both loops.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::recorder::{Recorder, ok};
use crate::scene::run;
use load::{Expectation, Options, Pace, ScenarioFile, Summary, Target};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::Request;

/// The options of a scenario, written into a folder of its own.
pub(crate) fn options(folder: &Path, text: &str, base: SocketAddr) -> Options {
    let path = folder.join("test.toml");
    std::fs::write(&path, text).unwrap();
    let read = ScenarioFile::read(&path, Some(&format!("http://{base}")), &[]).unwrap();
    Options {
        targets: read.targets,
        scenario: Some(Arc::new(read.scenario)),
        connections: 4,
        requests: Some(20),
        duration: Some(Duration::from_secs(20)),
        ..Options::new(Target::new("http://127.0.0.1/".parse().unwrap()))
    }
}

fn play(text: &str, base: SocketAddr, change: impl FnOnce(&mut Options)) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), text, base);
    change(&mut options);
    run(options)
}

/// A shop: a login gives a cookie and a token, and everything else needs both of the same user.
fn shop() -> Recorder {
    Recorder::start(|request| match request.target().split('?').next().unwrap() {
        "/login" => {
            let user = request.text().split('=').nth(1).unwrap().to_owned();
            ok(
                &format!("Set-Cookie: session={user}; Path=/; HttpOnly\r\nSet-Cookie: tracker={user}; Path=/ads\r\n"),
                &format!("{{\"token\":\"t-{user}\",\"id\":17}}"),
            )
        }
        "/cart" => {
            let user = request.value("Cookie").and_then(|cookie| cookie.strip_prefix("session=")).unwrap_or_default();
            match request.value("Authorization").and_then(|value| value.strip_prefix("Bearer t-")) {
                Some(known) if known == user && !user.is_empty() => ok("X-Order: /orders/99?x\r\n", "in the cart"),
                _ => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
            }
        }
        _ => ok("", request.target()),
    })
}

const SHOP: &str = r#"
    [[scenario]]
    name = "buy"
    [[scenario.step]]
    name = "login"
    url = "/login"
    form = { user = "u{{user}}" }
    check = [{ status = 200 }, { pointer = "/token", equals = "t-u{{user}}" }]
    extract = [{ name = "token", pointer = "/token" }, { name = "id", pointer = "/id" }]
    [[scenario.step]]
    name = "cart"
    url = "/cart?id={{id}}"
    headers = { Authorization = "Bearer {{token}}" }
    repeat = 3
    check = [{ status = "2xx" }, { contains = "in the cart" }]
    extract = [{ name = "order", header = "x-order", matches = "/orders/([0-9]+)" }]
    [[scenario.step]]
    name = "order"
    url = "/orders/{{order}}"
    json = { number = "{{order}}", note = "a \"b\"" }
"#;

#[test]
fn users_log_in_with_cookies_and_tokens() {
    let shop = shop();
    let summary = play(SHOP, shop.address, |options| options.threads = 2);
    let record = &summary.record;
    let begun: Vec<u64> = record.targets.iter().map(|tally| tally.begun).collect();
    assert_eq!(begun, [20, 60, 20]);
    assert_eq!([shop.count("/login"), shop.count("/cart?id=17"), shop.count("/orders/99")], [20, 60, 20]);
    assert_eq!((record.whole().responses, record.whole().errors()), (100, 0), "{:?}", record.targets);
    let failed: u64 = record.targets.iter().map(|tally| tally.checks_failed().0).sum();
    assert_eq!((failed, record.targets[1].checks[1].passed), (0, 60));
    let flow = &record.flows[0];
    assert_eq!((flow.begun, flow.completed, flow.failed, flow.cut, flow.duration.count()), (20, 20, 0, 0, 20));
    // Each user keeps its connection.
    assert_eq!(record.established, 4);
    let orders: Vec<Request> =
        shop.received().into_iter().filter(|request| request.target().starts_with("/orders")).collect();
    assert!(orders.iter().all(|order| order.text() == "{\"note\":\"a \\\"b\\\"\",\"number\":\"99\"}"), "{orders:?}");
    assert!(
        orders.iter().all(|order| order.method() == "POST" && order.value("Content-Type") == Some("application/json"))
    );
    // A cookie for another path is not sent.
    assert!(shop.received().iter().all(|request| !request.value("Cookie").unwrap_or_default().contains("tracker")));
    assert_eq!(summary.options.scenario.as_ref().unwrap().name, "test");
}

#[test]
fn an_open_loop_begins_an_iteration_at_each_due_time() {
    let shop = shop();
    let summary = play(SHOP, shop.address, |options| {
        (options.requests, options.connections, options.threads) = (None, 10, 2);
        options.pace = Pace::constant(100.0, Duration::from_millis(500));
    });
    let record = &summary.record;
    assert_eq!([shop.count("/login"), shop.count("/cart"), shop.count("/orders")], [50, 150, 50]);
    assert_eq!((record.flows[0].begun, record.flows[0].completed), (50, 50));
    assert_eq!((record.whole().responses, record.whole().errors()), (250, 0));
    assert_eq!(record.generator.lag.count(), 50, "a step without a think time is due with the response before it");
    // In an open loop each iteration is another user without cookies, so each login came without one.
    let logins = shop.received().into_iter().filter(|request| request.target() == "/login");
    assert!(logins.into_iter().all(|login| login.value("Cookie").is_none()));
}

#[test]
fn latency_counts_from_due_where_users_wait_for_others() {
    // Each answer takes 50 ms, and two users share ten iterations that are due within 50 ms.
    let slow = Recorder::start(|_| {
        let (lock, condition) = (std::sync::Mutex::new(()), std::sync::Condvar::new());
        drop(condition.wait_timeout_while(lock.lock().unwrap(), Duration::from_millis(50), |()| true).unwrap());
        ok("", "")
    });
    let text = "[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'a'\nurl = '/a'";
    let summary = play(text, slow.address, |options| {
        (options.requests, options.connections) = (None, 2);
        options.pace = Pace::constant(200.0, Duration::from_millis(50));
    });
    let latency = &summary.record.targets[0].latency;
    assert_eq!(latency.count(), 10);
    // The last pair begins 200 ms after the first one and was due 45 ms after it.
    assert!(latency.max_ns() >= 200_000_000, "{}", latency.max_ns());
    assert!(summary.record.service.quantile_ns(0.1) < 150_000_000 && summary.record.waiting_max >= 7);
}

#[test]
fn think_times_pass_between_steps_and_are_no_latency() {
    let server = Recorder::start(|_| ok("", ""));
    let text = r#"
        think = "30ms"
        [[scenario]]
        name = "s"
        [[scenario.step]]
        name = "a"
        url = "/a"
        [[scenario.step]]
        name = "b"
        url = "/b"
        think = "0"
    "#;
    let summary = play(text, server.address, |options| (options.requests, options.connections) = (Some(10), 1));
    let record = &summary.record;
    assert_eq!((server.count("/a"), server.count("/b")), (10, 10));
    assert!(record.flows[0].duration.min_ns() >= 29_900_000, "{}", record.flows[0].duration.min_ns());
    assert!(summary.elapsed >= Duration::from_millis(300), "{:?}", summary.elapsed);
    // Each pause is also a measurement of the generator's lag.
    assert!(record.generator.lag.count() >= 10);
    assert!(record.targets[1].latency.quantile_ns(0.5) < 30_000_000, "{}", record.targets[1].latency.quantile_ns(0.5));
}

#[test]
fn scenarios_are_chosen_by_weight() {
    let server = Recorder::start(|_| ok("", ""));
    let step = |name: &str, weight: u32| {
        format!("[[scenario]]\nname = '{name}'\nweight = {weight}\n[[scenario.step]]\nname = 'x'\nurl = '/{name}'\n")
    };
    let text = step("often", 3) + &step("rare", 1) + &step("never", 0);
    let summary = play(&text, server.address, |options| options.requests = Some(40));
    assert_eq!([server.count("/often"), server.count("/rare"), server.count("/never")], [30, 10, 0]);
    let begun: Vec<u64> = summary.record.flows.iter().map(|flow| flow.begun).collect();
    assert_eq!(begun, [30, 10]);
    assert_eq!(summary.options.scenario.as_ref().unwrap().step("rare/x"), Some(1));
}

#[test]
fn failed_checks_are_counted_and_missing_values_end_it() {
    let server = Recorder::start(|request| match request.target() {
        "/a" => ok("Content-Type: text/html\r\n", "{\"state\":\"closed\"}"),
        "/b" => "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno".to_owned(),
        _ => ok("", ""),
    });
    let text = r#"
        [[scenario]]
        name = "s"
        [[scenario.step]]
        name = "a"
        url = "/a"
        check = [{ name = "is open", pointer = "/state", equals = "open" }, { header = "content-type", contains = "html" }]
        [[scenario.step]]
        name = "b"
        url = "/b"
        check = [{ status = 200 }]
        extract = [{ name = "id", matches = "id=([0-9]+)" }]
        [[scenario.step]]
        name = "c"
        url = "/c/{{id}}"
    "#;
    let summary = play(text, server.address, |_| ());
    let record = &summary.record;
    assert_eq!([server.count("/a"), server.count("/b"), server.count("/c")], [20, 20, 0]);
    let counts = |step: usize| -> Vec<(u64, u64)> {
        record.targets[step].checks.iter().map(|check| (check.passed, check.failed)).collect()
    };
    assert_eq!((counts(0), counts(1)), (vec![(0, 20), (20, 0)], vec![(0, 20), (0, 20)]));
    assert_eq!((record.flows[0].begun, record.flows[0].completed, record.flows[0].failed), (20, 0, 20));
    let health = summary.health();
    let verdict = |text: &str| {
        let verdict = text.parse::<Expectation>().unwrap().judge(&summary, &health);
        (verdict.met, verdict.measured)
    };
    assert_eq!(verdict("a:checks<10%"), (false, "20 of 40 (50.000 %)".to_owned()));
    assert_eq!(verdict("b:500=20"), (true, "20 of 20 (100.000 %)".to_owned()));
    assert_eq!(verdict("checks=60").1, "60 of 80 (75.000 %)");
    assert!(verdict("a:p99<20s").0 && !verdict("c:p99<20s").0, "a step that was not done meets no threshold");
}

#[test]
fn a_request_without_a_response_ends_its_iteration() {
    let server = Recorder::start(|request| match request.target() {
        "/b" => "HTTP/1.0 ".to_owned(),
        _ => ok("", ""),
    });
    let text = "[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'a'\nurl = '/a'\n[[scenario.step]]\nname = 'b'\nurl = '/b'\n\
                [[scenario.step]]\nname = 'c'\nurl = '/c'";
    let summary = play(text, server.address, |options| options.connections = 2);
    let record = &summary.record;
    assert_eq!([server.count("/a"), server.count("/b"), server.count("/c")], [20, 20, 0]);
    assert_eq!((record.targets[1].failed(), record.flows[0].failed), (20, 20));
}

#[test]
fn steps_may_use_several_hosts_with_separate_cookies() {
    let (one, other) = (Recorder::start(|_| ok("Set-Cookie: a=1; Path=/\r\n", "")), Recorder::start(|_| ok("", "")));
    let text = format!(
        "[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'a'\nurl = '/a'\n[[scenario.step]]\nname = 'b'\n\
         url = 'http://localhost:{}/b'\n[[scenario.step]]\nname = 'c'\nurl = '/c'",
        other.address.port()
    );
    let summary = play(&text, one.address, |options| options.connections = 3);
    assert_eq!((one.count("/a"), other.count("/b"), one.count("/c")), (20, 20, 20));
    assert_eq!(summary.record.established, 6, "each user has a connection to each address");
    assert!(other.received().iter().all(|request| request.value("Cookie").is_none()));
    let with_cookie = one.received().iter().filter(|request| request.value("Cookie") == Some("a=1")).count();
    assert_eq!(with_cookie, 40 - 3, "all but the first request of each user");
}

#[test]
fn connections_that_the_target_ends_are_opened_again() {
    let server = Recorder::start(|_| "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx".to_owned());
    let text = "[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'a'\nurl = '/a'\n[[scenario.step]]\nname = 'b'\nurl = '/b'";
    let summary = play(text, server.address, |options| options.keepalive = false);
    let record = &summary.record;
    assert_eq!((server.count("/a"), server.count("/b"), record.established), (20, 20, 40));
    assert_eq!((record.whole().errors(), record.flows[0].completed), (0, 20), "{:?}", record.targets);
}

#[test]
fn the_end_of_the_duration_cuts_iterations_and_loses_none() {
    let server = Recorder::start(|_| ok("", ""));
    let text = "think = '20ms..40ms'\n[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'a'\nurl = '/a'\nrepeat = 4";
    let summary = play(text, server.address, |options| {
        (options.requests, options.duration) = (None, Some(Duration::from_millis(300)));
    });
    let (record, flow) = (&summary.record, &summary.record.flows[0]);
    assert_eq!(record.whole().begun as usize, server.count("/a"));
    assert_eq!(flow.begun, flow.completed + flow.cut, "{flow:?}");
    assert!(flow.cut >= 1 && flow.failed == 0, "{flow:?}");
    assert!(summary.elapsed < Duration::from_secs(2), "{:?}", summary.elapsed);
}

#[test]
fn bodies_of_each_kind_arrive_as_described() {
    let server = Recorder::start(|_| ok("", ""));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), [0, 255, b'{', b'{', b'x', b'}', b'}']).unwrap();
    let text = r#"
        variables = { word = "a&b \"c\"" }
        [[scenario]]
        name = "s"
        [[scenario.step]]
        name = "text"
        url = "/text"
        method = "PUT"
        body = "<{{word}}>"
        [[scenario.step]]
        name = "form"
        url = "/form"
        form = { q = "{{word}}", r = "1 2" }
        [[scenario.step]]
        name = "json"
        url = "/json"
        json = { q = "{{word}}", n = 1 }
        [[scenario.step]]
        name = "file"
        url = "/file"
        file = "a.bin"
        [[scenario.step]]
        name = "multipart"
        url = "/multipart/{{word}}"
        multipart = [{ name = "t", text = "{{word}}" }, { name = "f", file = "a.bin", content_type = "image/png" }]
    "#;
    let mut options = options(folder.path(), text, server.address);
    (options.requests, options.connections) = (Some(1), 1);
    run(options);
    let by_path: BTreeMap<String, Request> =
        server.received().into_iter().map(|request| (request.target().to_owned(), request)).collect();
    assert_eq!((by_path["/text"].method(), by_path["/text"].text().as_str()), ("PUT", "<a&b \"c\">"));
    assert_eq!(by_path["/form"].text(), "q=a%26b+%22c%22&r=1+2");
    assert_eq!(by_path["/json"].text(), "{\"n\":1,\"q\":\"a&b \\\"c\\\"\"}");
    assert_eq!(by_path["/file"].body, [0, 255, b'{', b'{', b'x', b'}', b'}']);
    let multipart = &by_path["/multipart/a&b%20%22c%22"];
    let boundary = multipart.value("Content-Type").unwrap().split("boundary=").nth(1).unwrap().to_owned();
    let mut expected =
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\na&b \"c\"\r\n").into_bytes();
    expected.extend(format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\nContent-Type: image/png\r\n\r\n"
    ).bytes());
    expected.extend([0, 255, b'{', b'{', b'x', b'}', b'}']);
    expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
    assert_eq!(multipart.body, expected);
}
