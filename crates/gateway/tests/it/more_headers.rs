//! The directives of the headers-more module.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::scene::Gateway;

#[test]
fn fields_of_responses_are_set_added_and_cleared() {
    let server = "more_set_headers 'X-Outer: outer' 'X-Both: outer';
        location /set { more_set_headers 'Server: mine' 'X-Both: inner' X-None: 'X-Uri: $uri'; return 200 text; }
        location /add { more_set_headers 'X-A: 1'; more_set_headers -a 'X-A: 2'; return 200 text; }
        location /clear { more_clear_headers Server X-Outer Content-Length; return 200 text; }
        location /all { more_set_headers 'X-Hidden-A: 1' 'X-Hidden-B: 2'; more_clear_headers 'x-hidden-*' 'S*' 'C*'; return 200 text; }
        location /type { more_set_headers 'Content-Type: text/mine'; return 200 text; }
        location /untyped { more_clear_headers Content-Type; return 200 text; }
        location /split { more_set_headers 'X-A: $arg_x$uri'; return 200 text; }
        default_type text/plain;
        location /redirect { more_set_headers 'Location: /other'; return 302 /x; }";
    let gateway = Gateway::start(server, "");
    let set = gateway.get("/set");
    for (name, value) in [("Server", "mine"), ("X-Outer", "outer"), ("X-Both", "inner"), ("X-Uri", "/set")] {
        assert_eq!(set.values(name), [value], "{set:?}");
    }
    assert_eq!(set.value("X-None"), None);
    assert_eq!(gateway.get("/add").values("X-A"), ["1", "2"]);
    let cleared = gateway.get("/clear");
    assert_eq!(cleared.text(), "text");
    assert_eq!(cleared.value("Transfer-Encoding"), Some("chunked"));
    let all = gateway.get("/all");
    assert_eq!((all.value("Content-Type"), all.value("Content-Length")), (Some("text/plain"), Some("4")));
    assert!(all.value("Server").is_some(), "{all:?}");
    for (response, names) in
        [(&cleared, ["Server", "X-Outer", "Content-Length"]), (&all, ["X-Hidden-A", "X-Hidden-B", "X-None"])]
    {
        for name in names {
            assert_eq!(response.value(name), None, "{response:?}");
        }
    }
    assert_eq!(gateway.get("/type").value("Content-Type"), Some("text/mine"));
    assert_eq!(gateway.get("/untyped").value("Content-Type"), None);
    // B1
    let split = gateway.get("/split%0d%0aX-Evil:%201");
    assert_eq!(split.value("X-Evil"), None, "{split:?}");
    gateway.expect_error("a control character in the value of \"more_set_headers\"");
    let to = gateway.get("/redirect").value("Location").unwrap().to_owned();
    assert!(to.starts_with("http://") && to.ends_with("/other"), "{to}");
}

#[test]
fn status_and_type_select_responses() {
    let server = "more_set_headers -s '404 500' -s 403 'X-Bad: $status';
        more_set_headers -t 'text/css text/plain' 'X-Type: plain';
        location /ok { default_type text/plain; return 200 text; }
        location /html { default_type text/html; return 200 text; }
        location /500 { return 500; }
        location /403 { return 403; }
        location /502 { return 502; }
        location /if { if ($arg_a) { more_set_headers 'X-If: yes'; } empty_gif; }";
    let gateway = Gateway::start(server, "");
    let ok = gateway.get("/ok");
    assert_eq!((ok.value("X-Type"), ok.value("X-Bad")), (Some("plain"), None));
    assert_eq!(gateway.get("/html").value("X-Type"), None);
    assert_eq!(gateway.get("/500").value("X-Bad"), Some("500"));
    assert_eq!(gateway.get("/403").value("X-Bad"), Some("403"));
    assert_eq!(gateway.get("/502").value("X-Bad"), None);
    assert_eq!(gateway.get("/if").value("X-If"), None);
    assert_eq!(gateway.get("/if?a=1").value("X-If"), Some("yes"));
}

#[test]
fn fields_of_requests_are_set_replaced_and_cleared() {
    let server = "location / {
            more_set_input_headers 'X-Set: new' 'Host: other.example:81' 'X-Empty: $arg_none';
            more_set_input_headers -r 'X-There: replaced' 'X-Missing: replaced';
            more_set_input_headers -t text/css 'X-Css: yes';
            more_clear_input_headers Accept-Encoding 'X-Hidden-*';
            proxy_set_header Host $http_host;
            proxy_set_header X-Host $host;
            proxy_pass http://{listen:1};
        }
        location /bad { more_set_input_headers 'Host: a b'; proxy_pass http://{listen:1}; }";
    let echo = "server { listen {listen:1}; return 200 \"set=$http_x_set host=$http_host $http_x_host there=$http_x_there \
        missing=$http_x_missing css=$http_x_css encoding=$http_accept_encoding hidden=$http_x_hidden_a empty=$http_x_empty\"; }";
    let gateway = Gateway::start(server, echo);
    let fields =
        "X-Set: old\r\nx-set: older\r\nX-There: old\r\nAccept-Encoding: gzip\r\nX-Hidden-A: 1\r\nX-Empty: e\r\n";
    let response = gateway.request("GET", "/", fields);
    assert_eq!(
        response.text(),
        "set=new host=other.example:81 other.example there=replaced missing= css= encoding= hidden= empty="
    );
    let response = gateway.request("POST", "/", "Content-Type: text/css\r\nContent-Length: 0\r\n");
    assert!(response.text().contains("css=yes"), "{}", response.text());
    // B2
    assert_eq!(gateway.get("/bad").status(), 500);
    gateway.expect_error("\"more_set_input_headers\" would set the invalid host \"a b\"");
}

#[test]
fn access_rules_see_the_request_as_it_was_made() {
    let server = "location / { more_set_input_headers 'Authorization: Basic YW5uOnNlY3JldA=='; auth_basic staff;
        auth_basic_user_file users; alias html/; }";
    let gateway = Gateway::start(server, "");
    gateway.write("users", "ann:{PLAIN}secret\n");
    gateway.write("html/a", "a file");
    assert_eq!(gateway.get("/a").text(), "a file");
}
