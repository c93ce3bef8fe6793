//! The conversations of the suites with proxies to the origin only, again with `proxy_http_version 2`: nginx has it
//! since 1.29.4.

use super::{SHOWN_MAX, accepted, application, cases, compare_suite, dead_port, start_origin};
use std::fmt::Write as _;
use testkit::sides::{Nginx, Sides};

/// These suites, and the HTTP version in their configuration.
const SUITES: [&str; 1] = ["proxying"];
const WRITTEN: &str = "proxy_http_version 1.1;";

#[test]
fn nginx_and_the_gateway_ask_upstreams_alike_over_http2() {
    let generation = Nginx::New;
    let Some(nginx) = testkit::sides::nginx_or_skip(generation) else { return };
    let (origin, application, dead) = (start_origin(), application::start(), dead_port());
    let silent = origin::Options { silent: true, ..origin::Options::default() };
    let silent = origin::Origin::bind(silent).unwrap().start().unwrap();
    let dead_address = dead.local_addr().unwrap().as_socket().unwrap();
    let upstreams = [origin.address(), dead_address, silent.address(), application.address()];
    let accepted = accepted::read(include_str!("accepted_over_http2_upstream.txt"), generation);
    let over_http1 = accepted::read(include_str!("accepted.txt"), generation);
    let only = std::env::var("DIFFERENTIAL").ok();
    let (mut report, mut run) = (String::new(), 0);
    for suite in cases::suites().into_iter().filter(|suite| SUITES.contains(&suite.name)) {
        let text = suite.text.replace(WRITTEN, "proxy_http_version 2;");
        assert_ne!(text, suite.text, "{} does not say `{WRITTEN}`", suite.name);
        let sides = Sides::start(&nginx, &text, &upstreams, &suite.files);
        let wrong = compare_suite(&suite, &sides, &accepted, &over_http1, only.as_deref());
        run += suite.cases.len();
        for line in wrong.iter().take(SHOWN_MAX) {
            let _ = writeln!(report, "    {line}");
        }
    }
    assert!(run > 100 || only.is_some(), "{run} conversations are too few: what became of the others?");
    assert!(report.is_empty(), "differences in {run} cases (nginx's -> ours):\n{report}");
}
