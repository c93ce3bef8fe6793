//! Inheritance: values pass inwards, lists are replaced as a whole, and some directives apply to their own level only.

use std::sync::Arc;
use std::time::Duration;

use super::{found, http, locations, lowered, uri};

#[test]
fn a_value_holds_inside_unless_set_again() {
    let http = http(
        "proxy_read_timeout 5; server { proxy_send_timeout 7; location / { proxy_read_timeout 9; } location /b { } }",
    );
    let [a, b] = http.servers[0].locations.as_slice() else { panic!() };
    assert_eq!(a.settings.transport.read_timeout, Duration::from_secs(9));
    assert_eq!(b.settings.transport.read_timeout, Duration::from_secs(5));
    assert_eq!(b.settings.transport.send_timeout, Duration::from_secs(7));
    assert_eq!(b.settings.transport.connect_timeout, Duration::from_mins(1));
}

#[test]
fn a_directive_behind_a_block_holds_in_it() {
    let http = http("server { location / { } sendfile on; } keepalive_requests 7;");
    let settings = &http.servers[0].locations[0].settings;
    assert!(settings.files.sendfile);
    assert_eq!(settings.client.keepalive_requests, 7);
}

#[test]
fn a_list_replaces_the_outer_one() {
    let http = http(
        "proxy_set_header A a; proxy_set_header B b; add_header X x; allow 10.0.0.0/8; deny all; index a b; error_page 404 /4;
         server { location /same { } location /own { proxy_set_header C c; add_header Y y always; allow all; index c; error_page 500 /5; } }",
    );
    let [same, own] = http.servers[0].locations.as_slice() else { panic!() };
    assert_eq!(same.settings.proxy.set_headers.len(), 2);
    assert_eq!((same.settings.response.access.len(), same.settings.files.index.len()), (2, 2));
    assert_eq!(own.settings.proxy.set_headers.len(), 1);
    assert_eq!(own.settings.proxy.set_headers[0].name, b"C");
    assert_eq!((own.settings.response.add_headers.len(), own.settings.response.access.len()), (1, 1));
    assert_eq!(own.settings.files.index[0].as_text(), Some(&b"c"[..]));
    assert_eq!(own.settings.response.error_pages.iter().map(|page| page.status).collect::<Vec<_>>(), [500]);
}

#[test]
fn add_header_inherit_merges_or_cuts_off() {
    let http = http(
        "add_header A a; server { add_header_inherit merge; add_header B b;
           location /merge { add_header C c; } location /off { add_header_inherit off; } location /on { add_header_inherit on; add_header D d; } }",
    );
    let names = |index: usize| -> Vec<String> {
        let headers = &http.servers[0].locations[index].settings.response.add_headers;
        headers.iter().map(|header| String::from_utf8_lossy(&header.name).into_owned()).collect()
    };
    assert_eq!(names(0), ["C", "B", "A"]);
    assert!(names(1).is_empty());
    assert_eq!(names(2), ["D"]);
}

#[test]
fn a_location_that_sets_nothing_shares_the_servers_settings() {
    let http = http("server { location /a { } location /b { client_max_body_size 2m; } }");
    let server = &http.servers[0];
    assert!(Arc::ptr_eq(&server.location, &server.locations[0].settings));
    assert!(Arc::ptr_eq(&server.location.proxy, &server.locations[1].settings.proxy));
    assert_eq!(server.locations[1].settings.client.body_size_max, 2 << 20);
}

#[test]
fn root_and_alias_exclude_each_other() {
    assert_eq!(
        found("server { location /a { root /x; alias /y; } }"),
        ["\"alias\" directive is duplicate, \"root\" directive was specified earlier <- alias"]
    );
    let here = locations("root /srv/; location /a { alias /b/; location /a/c { } }");
    assert!(here[0].settings.files.root.alias);
    assert_eq!(here[0].settings.files.root.path.as_text(), Some(&b"/b/"[..]));
    assert_eq!(
        found("server { location @a { alias /y; } }"),
        ["the \"alias\" directive cannot be used inside the named location <- alias"]
    );
    assert_eq!(
        found("root $document_root/x;"),
        ["the $document_root variable cannot be used in the \"root\" directive <- $document_root/x"]
    );
}

#[test]
fn types_replace_the_outer_table() {
    let http = http(
        "types { text/x x X2; } server { location / { types { a/b b; } types { c/d d; } } location /none { types { } } }",
    );
    let [own, none] = http.servers[0].locations.as_slice() else { panic!() };
    assert_eq!(http.location.files.types.get(&b"x2"[..]), Some(&b"text/x".to_vec()));
    assert_eq!(own.settings.files.types.keys().map(Vec::as_slice).collect::<Vec<_>>(), [b"b", b"d"]);
    assert!(none.settings.files.types.is_empty());
    assert_eq!(
        found("types { a/b x; c/d x; }"),
        ["warning: duplicate extension \"x\", content type: \"c/d\", previous content type: \"a/b\" <- x"]
    );
}

#[test]
fn locations_are_matched_by_their_signs() {
    let here = locations(
        "location = /a { } location ^~ /b { } location ~ ^/c { } location ~* d$ { } location @e { } location =/f { }",
    );
    let shown: Vec<_> = here.iter().map(|location| format!("{:?}", location.matcher)).collect();
    assert!(shown[0].starts_with("Exact") && shown[1].starts_with("PrefixNoRegex") && shown[4] == "Named(\"e\")");
    assert_eq!((shown[2].as_str(), shown[3].as_str()), ("Regex(Regex(~ \"^/c\"))", "Regex(Regex(~* \"d$\"))"));
    assert_eq!(uri(&here[5]), "/f");
}

#[test]
fn locations_that_cannot_be_where_they_are() {
    assert_eq!(
        found("server { location /a { } location /a { } location = /a { } }"),
        ["duplicate location \"/a\" <- location /a"]
    );
    assert_eq!(found("server { location /a { } location ^~ /a { } }"), ["duplicate location \"/a\" <- location ^~ /a"]);
    assert_eq!(
        found("server { location /a { location /b { } } }"),
        ["location \"/b\" is outside location \"/a\" <- location /b"]
    );
    assert_eq!(
        found("server { location = /a { location /a/b { } } }"),
        ["location \"/a/b\" cannot be inside the exact location \"/a\" <- location /a/b"]
    );
    assert_eq!(
        found("server { location /a { location @b { } } }"),
        ["named location \"@b\" can be on the server level only <- location @b"]
    );
    assert_eq!(
        found("server { location @a { location /b { } } }"),
        ["location \"/b\" cannot be inside the named location \"@a\" <- location /b"]
    );
    assert_eq!(found("server { location & /a { } }"), ["invalid location modifier \"&\" <- &"]);
    let by_variable = "location \"$a\" by a variable is known but not supported by holdfast <- $a";
    assert_eq!(found("server { location $a { } }"), [by_variable]);
    assert_eq!(
        found("server { location ~ a( { } }"),
        ["pcre2_compile() failed: missing closing parenthesis in \"a(\" <- "]
    );
}

#[test]
fn the_first_of_two_locations_is_named() {
    let (_, found, sources) = lowered("events {} http { server { location /a { }\n location /a { } } }");
    let first = &found[0].related[0];
    assert_eq!(
        sources.source(first.span.file).text[first.span.start as usize..first.span.end as usize],
        *b"location /a"
    );
    assert_eq!(first.message, "first defined here");
}

#[test]
fn limits_find_their_zones_whatever_the_order() {
    let http = http(
        "server { location / { limit_req zone=r burst=5 nodelay; limit_conn c 10; } }
         limit_req_zone $binary_remote_addr zone=r:10m rate=30r/m; limit_conn_zone $server_name zone=c:1m;",
    );
    let limit = &http.servers[0].locations[0].settings.limit;
    assert_eq!((limit.requests[0].burst, limit.requests[0].delay), (5, u32::MAX));
    assert_eq!(limit.connections[0].most, 10);
    assert_eq!(http.request_zones[0].rate_milli, 500);
    assert_eq!(found("limit_req zone=x;"), ["zero size shared memory zone \"x\" <- x"]);
    assert_eq!(
        found("limit_conn_zone $x zone=a:1m; limit_conn a 70000;"),
        ["connection limit must be less 65536 <- 70000"]
    );
    assert_eq!(found("limit_req_zone $x zone=a:1m rate=x;"), ["invalid rate \"rate=x\" <- rate=x"]);
}

#[test]
fn error_page_keeps_or_replaces_the_status() {
    use conf::model::{ErrorStatus, ErrorTarget};
    let http = http("error_page 404 = /a; error_page 500 502 =200 @b; error_page 403 http://x/;");
    let pages = &http.location.response.error_pages;
    assert_eq!(pages.len(), 4);
    assert_eq!(pages[0].replace, ErrorStatus::OfPage);
    assert_eq!((pages[2].status, pages[2].replace), (502, ErrorStatus::Code(200)));
    assert_eq!(pages[2].target, ErrorTarget::Named("b".to_owned()));
    assert!(matches!(pages[3].target, ErrorTarget::Redirect(_)));
    assert_eq!(found("error_page 600 /x;"), ["value \"600\" must be between 300 and 599 <- 600"]);
    assert_eq!(found("error_page abc /x;"), ["invalid value \"abc\" <- abc"]);
}

#[test]
fn wrong_values_are_named_in_nginxs_words() {
    assert_eq!(
        found("sendfile maybe;"),
        ["invalid value \"maybe\" in \"sendfile\" directive, it must be \"on\" or \"off\" <- maybe"]
    );
    assert_eq!(found("proxy_read_timeout 5x;"), ["\"proxy_read_timeout\" directive invalid value <- 5x"]);
    assert_eq!(found("client_max_body_size 5q;"), ["\"client_max_body_size\" directive invalid value <- 5q"]);
    assert_eq!(found("keepalive_requests many;"), ["\"keepalive_requests\" directive invalid number <- many"]);
    assert_eq!(found("gzip_comp_level 10;"), ["value must be between 1 and 9 <- 10"]);
    assert_eq!(found("satisfy some;"), ["invalid value \"some\" <- some"]);
    assert_eq!(found("server { return 200 $; }"), ["invalid variable name <- $"]);
    assert_eq!(found("allow 10.0.0.1/8;"), ["warning: low address bits of 10.0.0.1/8 are meaningless <- 10.0.0.1/8"]);
    assert_eq!(
        found("client_body_temp_path /t 5 6;"),
        ["\"client_body_temp_path\" directive invalid value <- client_body_temp_path /t 5 6;"]
    );
    assert_eq!(
        found("limit_req_zone $x zone=a:1m; limit_req zone=a burst=0;"),
        ["invalid burst value \"burst=0\" <- burst=0"]
    );
    assert_eq!(found("proxy_http_version 3;"), ["invalid value \"3\" <- 3"]);
    assert_eq!(found("allow everyone;"), ["invalid parameter \"everyone\" <- everyone"]);
}
