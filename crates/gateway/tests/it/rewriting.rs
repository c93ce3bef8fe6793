//! Rewrite programs: their error log lines, and errors when a configuration is loaded. The differential test compares
//! their results with nginx.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;

#[test]
fn rewrite_log_records_each_step() {
    let gateway = Gateway::start(
        "rewrite_log on;
         location /a { rewrite ^/a/(.*)$ /b?x=$1 last; }
         location /b { if ($arg_x ~ ^z) { return 200; } rewrite ^ http://other.test/ permanent; }",
        "",
    );
    assert_eq!(gateway.get("/a/one?q=1").status(), 301);
    for line in [
        "[notice]",
        "\"^/a/(.*)$\" matches \"/a/one\"",
        "rewritten data: \"/b\", args: \"x=one&q=1\"",
        "\"^z\" does not match \"one\"",
        "rewritten redirect: \"http://other.test/?x=one&q=1\"",
    ] {
        gateway.expect_error(line);
    }
}

#[test]
fn logs_nothing_without_rewrite_log() {
    let gateway = Gateway::start("location /a { rewrite ^/a /b last; } location /b { return 204; }", "");
    assert_eq!(gateway.get("/a").status(), 204);
    assert!(!gateway.errors().contains("rewritten"), "{}", gateway.errors());
}

#[test]
fn unset_variable_warns_unless_disabled() {
    let gateway = Gateway::start(
        "location /warned { return 200 \"[$late]\"; }
         location /quiet { uninitialized_variable_warn off; return 200 \"[$other]\"; }
         location /never { set $late 1; set $other 1; }",
        "",
    );
    assert_eq!(gateway.get("/quiet").body, b"[]");
    assert_eq!(gateway.get("/warned").body, b"[]");
    gateway.expect_error("using uninitialized \"late\" variable");
    assert!(!gateway.errors().contains("\"other\""), "{}", gateway.errors());
}

#[test]
fn a_rate_can_be_set_by_a_program() {
    let gateway = Gateway::start(
        "location / { if ($arg_slow) { set $limit_rate $arg_slow; } return 200 \"[$limit_rate]\"; }",
        "",
    );
    assert_eq!(gateway.get("/").body, b"[0]");
    assert_eq!(gateway.get("/?slow=64k").body, b"[65536]");
    assert_eq!(gateway.get("/?slow=nonsense").body, b"[0]");
    gateway.expect_error("invalid $limit_rate \"nonsense\"");
}

#[test]
fn rewrite_cycle_ends_with_500_and_a_line() {
    let gateway = Gateway::start("location /loop { rewrite ^/loop(.*)$ /loop$1x last; }", "");
    let answer = gateway.get("/loop");
    assert_eq!(answer.status(), 500);
    gateway.expect_error("rewrite or internal redirection cycle while processing \"/loopxxxxxxxxxxx\"");
}

#[test]
fn an_empty_uri_is_500() {
    let gateway = Gateway::start("location /e { rewrite ^/e/(.*)$ $1 last; }", "");
    assert_eq!(gateway.get("/e/").status(), 500);
    gateway.expect_error("the rewritten URI has a zero length");
}

/// `%0d%0a` in a path is decoded before expressions see it: it must not create a header field chosen by the client.
#[test]
fn a_line_end_in_a_redirect_is_not_sent() {
    let gateway = Gateway::start(
        "location /return { return 302 http://other.test$uri; }
         location /rewrite { rewrite ^/rewrite/(?<rest>(?s:.*))$ http://other.test/$rest redirect; }
         location /group { rewrite ^/group/((?s:.*))$ http://other.test/$1 redirect; }",
        "",
    );
    for target in ["/return/a%0d%0aX-Evil:1", "/rewrite/a%0d%0aX-Evil:1"] {
        let answer = gateway.get(target);
        assert_eq!((answer.status(), answer.value("X-Evil")), (500, None), "{target}");
    }
    gateway.expect_error("a control character in the URL of a redirect, from $uri; it is not sent");
    gateway.expect_error("a control character in the URL of a redirect, from $rest; it is not sent");
    let answer = gateway.get("/group/a%0d%0aX-Evil:1");
    assert_eq!((answer.status(), answer.value("Location")), (302, Some("http://other.test/a%0D%0AX-Evil:1")));
}

#[test]
fn a_map_of_itself_is_empty_and_logged() {
    let gateway = Gateway::start(
        "location / { return 200 \"[$one]\"; }",
        "map $other $one { default $other; } map $one $other { default x$one; }",
    );
    assert_eq!(gateway.get("/").body, b"[x]");
    gateway.expect_error("cycle while evaluating variable \"one\"");
}

#[test]
fn an_expression_that_runs_away_is_answered_with_500() {
    let gateway = Gateway::start(
        "location / { return 200 \"[$slow]\"; }
         location /if { if ($arg_x ~ \"^(a+)+$\") { return 200 yes; } return 200 no; }",
        "map $arg_x $slow { ~^(a+)+$ matched; default safe; }",
    );
    let hostile = format!("{}!", "a".repeat(64));
    assert_eq!(gateway.get(&format!("/?x={hostile}")).status(), 500);
    gateway.expect_error("pcre2_match() failed: match limit exceeded");
    assert_eq!(gateway.get("/?x=b").body, b"[safe]");
    assert_eq!(gateway.get(&format!("/if?x={hostile}")).status(), 500);
}
