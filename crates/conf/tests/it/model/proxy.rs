//! `proxy_pass` and its settings.

use conf::model::{Content, CookiePattern, HttpVersion, Instruction, ProxyPass, Redirect, SubjectName};

use super::{fixed, found, http, locations};

#[test]
fn a_pass_names_a_group_or_makes_one() {
    let http = http(
        "server { location /a { proxy_pass http://backend; } location /b/ { proxy_pass http://127.0.0.1:81/x; }
                  location /c { proxy_pass http://127.0.0.1:81; } location /d { proxy_pass http://unix:/run/s:/u; } }
         upstream backend { server 127.0.0.1; }",
    );
    let here = &http.servers[0].locations;
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| fixed(here[index].content.as_ref()));
    assert_eq!((&*a.upstream.name, a.uri.as_deref(), a.host_header.as_slice()), ("backend", None, &b"backend"[..]));
    assert_eq!((b.uri.as_deref(), b.matched_length, b.port), (Some(&b"/x"[..]), 3, Some(81)));
    assert_eq!(b.upstream, c.upstream);
    assert_eq!((d.uri.as_deref(), d.host_header.as_slice(), d.port), (Some(&b"/u"[..]), &b"localhost"[..], None));
    assert!(here[1].auto_redirect && !here[0].auto_redirect);
    assert_eq!(http.upstreams.len(), 3);
    assert!(http.upstreams[1].implicit);
    assert_eq!(http.upstreams[0].servers[0].address.address.port, 80);
}

#[test]
fn only_written_groups_are_pooled_by_default() {
    let http = http("upstream u { server a; } server { location / { proxy_pass http://b; } }");
    assert_eq!((http.upstreams[0].settings.keepalive.idle, http.upstreams[0].settings.keepalive.local), (32, true));
    assert_eq!(http.upstreams[1].settings.keepalive.idle, 0);
    assert_eq!(http.location.proxy.http_version, HttpVersion::Http11);
}

#[test]
fn a_uri_part_needs_a_plain_location() {
    let message = "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, or inside \"if\" statement, or inside \"limit_except\" block <- http://b/";
    for place in [
        "~ a { proxy_pass http://b/; }",
        "@a { proxy_pass http://b/; }",
        "/ { if ($a) { proxy_pass http://b/; } }",
        "/ { limit_except GET { proxy_pass http://b/; } }",
    ] {
        assert_eq!(found(&format!("server {{ location {place} }}")), [message], "{place}");
    }
}

#[test]
fn refuses_invalid_proxy_pass() {
    assert_eq!(found("server { location / { proxy_pass backend; } }"), ["invalid URL prefix <- backend"]);
    assert_eq!(
        found("server { location / { proxy_pass http://a:99999; } }"),
        ["invalid port in upstream \"a:99999\" <- http://a:99999"]
    );
    assert_eq!(found("server { location / { proxy_pass http://; } }"), ["no host in upstream \"\" <- http://"]);
    assert_eq!(
        found("upstream u { server a; } server { location / { proxy_pass http://u:81; } }"),
        ["upstream \"u\" may not have port 81 <- http://u:81"]
    );
}

#[test]
fn proxy_pass_reaches_if_but_not_inner_locations() {
    let here = locations(
        "location /a { if ($b) { set $c d; } limit_except GET { deny all; } location /a/b { } proxy_pass http://x; }",
    );
    let outer = &here[0];
    let Instruction::If(inner) = &outer.program[0] else { panic!() };
    assert_eq!(inner.content, outer.content);
    let except = outer.limit_except.as_ref().unwrap();
    assert_eq!(except.content, outer.content);
    assert_eq!(except.settings.response.access.len(), 1);
    assert_eq!(outer.locations[0].content, None);
}

#[test]
fn other_handlers_do_not_reach_limit_except() {
    let here = locations("location /s { stub_status; limit_except GET { deny all; } }");
    assert_eq!(here[0].content, Some(Content::StubStatus));
    assert_eq!(here[0].limit_except.as_ref().unwrap().content, None);
}

#[test]
fn redirects_have_a_default_and_an_off() {
    let here = locations(
        "location /a { } location /b { proxy_redirect off; } location /c { proxy_pass http://y; proxy_redirect default; proxy_redirect http://x/ /; }
         location /d { proxy_redirect ~*^http://[^/]+(/.+)$ $1; }",
    );
    let redirects = |index: usize| here[index].settings.proxy.redirects.as_slice();
    assert_eq!(redirects(0), [Redirect::Default]);
    assert!(redirects(1).is_empty());
    assert!(matches!(redirects(2), [Redirect::Default, Redirect::Prefix { .. }]));
    assert!(matches!(redirects(3), [Redirect::Regex { from, .. }] if from.caseless));
    assert_eq!(found("proxy_redirect false;"), ["invalid parameter \"false\" <- false"]);
    assert_eq!(
        found("proxy_redirect off; proxy_redirect http://a/ /;"),
        ["\"proxy_redirect\" directive is duplicate <- proxy_redirect"]
    );
    assert_eq!(
        found("server { location / { proxy_redirect default; proxy_pass http://a; } }"),
        ["\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive <- proxy_redirect default;"]
    );
    assert_eq!(
        found("server { location / { proxy_pass http://$host; proxy_redirect default; } }"),
        [
            "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables <- proxy_redirect default;"
        ]
    );
}

#[test]
fn sizes_of_buffers_must_fit_each_other() {
    let both = "the maximum of the value of \"proxy_buffer_size\" and one of the \"proxy_buffers\"";
    assert_eq!(
        found("server { proxy_busy_buffers_size 2k; }"),
        [format!("\"proxy_busy_buffers_size\" must be equal to or greater than {both} <- proxy_busy_buffers_size 2k;")]
    );
    assert_eq!(
        found("server { proxy_busy_buffers_size 32k; }"),
        [
            "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer <- proxy_busy_buffers_size 32k;"
        ]
    );
    assert_eq!(
        found("server { proxy_buffer_size 32k; }"),
        [
            "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer <- proxy_buffer_size 32k;"
        ]
    );
    assert_eq!(
        found("server { proxy_buffers 1 64k; }"),
        ["there must be at least 2 \"proxy_buffers\" <- proxy_buffers 1 64k;"]
    );
    assert_eq!(
        found("server { proxy_temp_file_write_size 1k; }"),
        [format!(
            "\"proxy_temp_file_write_size\" must be equal to or greater than {both} <- proxy_temp_file_write_size 1k;"
        )]
    );
    assert_eq!(
        found("server { proxy_max_temp_file_size 1k; }"),
        [format!(
            "\"proxy_max_temp_file_size\" must be equal to zero to disable temporary files usage or must be equal to or greater than {both} <- proxy_max_temp_file_size 1k;"
        )]
    );
    // A group's sizes are checked where they are used, so `http` may set some and a server the rest.
    assert_eq!(
        found("proxy_buffer_size 32k; server { proxy_buffers 8 32k; } server { proxy_buffers 4 32k; listen 81; }"),
        Vec::<String>::new()
    );
    assert_eq!(
        found("proxy_buffer_size 32k; server { } server { listen 81; }"),
        [
            "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer <- proxy_buffer_size 32k;"
        ]
    );
    // The founding configuration's own sizes.
    let http = http(
        "proxy_max_temp_file_size 0; proxy_buffer_size 4k; proxy_buffers 4 32k; proxy_busy_buffers_size 64k; proxy_temp_file_write_size 64k;",
    );
    assert_eq!(http.location.transport.busy_size(), 64 << 10);
}

#[test]
fn bind_addresses_are_numbers_or_variables() {
    let http = http(
        "proxy_bind $remote_addr transparent; server { proxy_bind 127.0.0.2; } server { proxy_bind off; listen 81; }",
    );
    assert!(http.location.transport.bind.as_ref().unwrap().transparent);
    assert!(http.servers[0].location.transport.bind.is_some());
    assert!(http.servers[1].location.transport.bind.is_none());
    assert_eq!(found("proxy_bind nowhere.example;"), ["invalid address \"nowhere.example\" <- nowhere.example"]);
}

#[test]
fn cookies_are_rewritten_by_the_innermost_list() {
    let http = http(
        "proxy_cookie_domain .Inside.test .outside.test; proxy_cookie_path /a /b;
         server {
             location /a { proxy_cookie_path ~*^/x /y; proxy_cookie_path /$uri /; }
             location /b { proxy_cookie_domain off; proxy_cookie_flags ~ secure samesite=Lax; }
         }",
    );
    let [a, b] = [0, 1].map(|index| &http.servers[0].locations[index].settings.proxy);
    assert_eq!((a.cookie_domains.len(), a.cookie_paths.len(), a.cookie_flags.len()), (1, 2, 0));
    assert!(matches!(&a.cookie_paths[0].from, CookiePattern::Regex(regex) if regex.caseless));
    // A leading dot of a domain is ignored.
    assert!(matches!(&a.cookie_domains[0].from, CookiePattern::Text(text) if text.as_text() == Some(b"Inside.test")));
    assert_eq!(a.cookie_domains[0].to.as_text(), Some(&b"outside.test"[..]));
    assert_eq!((b.cookie_domains.len(), b.cookie_paths.len(), b.cookie_flags[0].flags.len()), (0, 1, 2));
}

#[test]
fn refuses_contradictions_about_cookies_and_tunnels() {
    for (text, expected) in [
        ("proxy_cookie_path /a;", "invalid parameter \"/a\" <- /a"),
        ("proxy_cookie_domain on;", "invalid parameter \"on\" <- on"),
        ("proxy_cookie_path /a /b; proxy_cookie_path off;", "invalid parameter \"off\" <- off"),
        ("proxy_cookie_flags a scure;", "warning: \"scure\" is no flag of a cookie, and has no effect <- scure"),
        ("proxy_cookie_flags a;", "invalid parameter \"a\" <- a"),
        ("proxy_cookie_path ~( /;", "pcre2_compile() failed: missing closing parenthesis in \"(\" <- "),
        ("tunnel_ping 0;", "invalid value \"0\" <- 0"),
        ("tunnel_ping often;", "\"tunnel_ping\" directive invalid value <- often"),
        ("tunnel_timeout -1s;", "\"tunnel_timeout\" directive invalid value <- -1s"),
        ("early_hints $;", "invalid variable name <- $"),
    ] {
        assert_eq!(found(&format!("server {{ {text} }}")), [expected], "{text}");
    }
    assert_eq!(http("tunnel_ping 30s; server { tunnel_ping off; }").servers[0].location.client.tunnel_ping, None);
}

#[test]
fn https_has_separate_port_and_groups() {
    let http = http(
        "server { location /a { proxy_pass http://b; } location /b { proxy_pass https://b/x; }
                  location /c { proxy_pass https://b:443; } location /d { proxy_pass https://$host; } }",
    );
    let here = &http.servers[0].locations;
    let [a, b, c] = [0, 1, 2].map(|index| fixed(here[index].content.as_ref()));
    assert_eq!((a.port, b.port, b.host_header.as_slice()), (Some(80), Some(443), &b"b"[..]));
    assert_ne!(a.upstream, b.upstream);
    assert_eq!(b.upstream, c.upstream);
    let group = &b.upstream;
    assert_eq!((group.name.as_str(), group.servers[0].address.address.port), ("b:443", 443));
    let Some(Content::Proxy(pass)) = &here[3].content else { panic!() };
    assert!(matches!(**pass, ProxyPass::Template { .. }));
}

#[test]
fn words_of_tls_are_inherited_and_checked() {
    let here = locations(
        "proxy_ssl_conf_command A b; proxy_ssl_conf_command C d; proxy_ssl_protocols TLSv1.3; proxy_ssl_crl x;
         location /a { } location /b { proxy_ssl_conf_command E f; proxy_ssl_protocols TLSv1.2; proxy_ssl_crl ''; }",
    );
    let [a, b] = [0, 1].map(|index| &here[index].settings.upstream_tls);
    assert_eq!((a.conf_commands.len(), a.protocols.len(), a.crl.is_some()), (2, 1, true));
    assert_eq!((b.conf_commands.len(), b.protocols[0].value.as_str(), b.crl.is_some()), (1, "TLSv1.2", false));
    let wrong = |words: &str| found(&format!("server {{ location / {{ {words} }} }}"));
    assert_eq!(wrong("proxy_ssl_protocols TLSv1.4;"), ["invalid value \"TLSv1.4\" <- TLSv1.4"]);
    let here = locations(
        "proxy_ssl_verify_san DNS:a.test URI:spiffe://x/y; location /a { } location /b { proxy_ssl_verify_san DNS:b:c; }",
    );
    let [a, b] = [0, 1].map(|index| &here[index].settings.upstream_tls.verify_san);
    assert_eq!(*a, [SubjectName::Dns("a.test".into()), SubjectName::Uri("spiffe://x/y".into())]);
    assert_eq!(*b, [SubjectName::Dns("b:c".into())]);
    for name in ["a.test", "IP:127.0.0.1", "DNS:", "dns:a.test"] {
        let expected = format!("invalid name \"{name}\" in \"proxy_ssl_verify_san\" <- {name}");
        assert_eq!(wrong(&format!("proxy_ssl_verify_san DNS:a.test {name};")), [expected]);
    }
    assert_eq!(wrong("proxy_ssl_verify_depth x;"), ["\"proxy_ssl_verify_depth\" directive invalid number <- x"]);
    let cache = wrong("proxy_ssl_certificate_cache inactive=5s;");
    assert!(cache[0].starts_with("\"proxy_ssl_certificate_cache\" must have the \"max\" parameter"), "{cache:?}");
}
