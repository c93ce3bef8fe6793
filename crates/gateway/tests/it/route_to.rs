//! `route_to`: conditions on a request select a named location.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;

const ROUTES: &str = r#"
    location /api {
        route_to @post method=POST header:X-Tenant=blue;
        route_to @blue header:x-tenant=blue;
        route_to @beta ~arg:v=^2(\.[0-9]+)?$;
        route_to @arg "arg:a b=1 $x";
        route_to @mine $cookie_who=me;
        return 404 "none";
    }
    location @post { return 200 "post"; }
    location @blue { return 200 "blue"; }
    location @beta { return 200 "beta"; }
    location @arg { return 200 "arg"; }
    location @mine { return 200 "mine"; }
"#;

fn ask(gateway: &Gateway, method: &str, target: &str, fields: &str) -> String {
    let answer = gateway.request(method, target, fields);
    String::from_utf8(answer.body).unwrap()
}

#[test]
fn the_first_line_with_conditions_that_all_hold_is_used() {
    let gateway = Gateway::start(ROUTES, "");
    assert_eq!(ask(&gateway, "POST", "/api", "X-Tenant: blue\r\n"), "post");
    assert_eq!(ask(&gateway, "GET", "/api/x?v=2", "X-TENANT: blue\r\n"), "blue");
    assert_eq!(ask(&gateway, "POST", "/api", "X-Tenant: BLUE\r\n"), "none");
    assert_eq!(ask(&gateway, "GET", "/api", "X-Tenant: blue\r\nX-Tenant: red\r\n"), "none");
}

#[test]
fn arguments_are_decoded_and_text_is_data() {
    let gateway = Gateway::start(ROUTES, "");
    assert_eq!(ask(&gateway, "GET", "/api?v=2.1", ""), "beta");
    assert_eq!(ask(&gateway, "GET", "/api?v=3&v=2", ""), "none");
    assert_eq!(ask(&gateway, "GET", "/api?a+b=1%20%24x", ""), "arg");
    assert_eq!(ask(&gateway, "GET", "/api", "Cookie: who=me\r\n"), "mine");
}

#[test]
fn locations_that_lead_to_each_other_end_with_500() {
    let gateway =
        Gateway::start("location / { route_to @a; } location @a { route_to @b; } location @b { route_to @a; }", "");
    assert_eq!(gateway.get("/").status(), 500);
    gateway.expect_error("rewrite or internal redirection cycle");
}
