//! Character sets, header fields, and cookies of `userid`: valid and invalid values.

use conf::model::{Geoip2Metadata, Geoip2Value, HeaderChange, HeaderName, UserIdExpiry, UserIdMode};
use conf::value::words::{NextUpstream, UserIdFlags};
use std::time::Duration;

use super::{found, http, locations};

#[test]
fn tables_between_character_sets_are_read() {
    let http = http("charset_map koi8-r UTF-8 { 80 E29480; C1 D0B0; } charset_map koi8-r cp1251 { c1 e0; }");
    let [utf8, bytes] = http.charset_maps.as_slice() else { panic!("two tables") };
    assert_eq!(utf8.lines, [(0x80, vec![0xe2, 0x94, 0x80]), (0xc1, vec![0xd0, 0xb0])]);
    assert_eq!(bytes.lines, [(0xc1, vec![0xe0])]);
}

#[test]
fn refuses_invalid_filter_tables() {
    for (text, message) in [
        ("charset_map a A { }", "\"charset_map\" between the same charsets \"a\" and \"A\" <- A"),
        ("charset_map utf-8 a { }", "\"charset_map\" from \"utf-8\" has no single bytes in its first column <- utf-8"),
        ("charset_map a b { 100 1; }", "invalid value \"100\" <- 100"),
        ("charset_map a b { 1 xx; }", "invalid value \"xx\" <- xx"),
        ("charset_map a utf-8 { C1 41; }", "invalid value \"41\" <- 41"),
        ("charset_map a utf-8 { C1 D0B; }", "invalid value \"D0B\" <- D0B"),
        ("charset_map a utf-8 { C1 F09F9880; }", "invalid value \"F09F9880\" <- F09F9880"),
    ] {
        assert_eq!(found(text), [message], "{text}");
    }
    let twice = found("charset_map a b { } charset_map B A { }");
    assert!(twice[0].starts_with("duplicate \"charset_map\" between \"B\" and \"A\""), "{twice:?}");
}

#[test]
fn level_appends_its_fields_to_outer_ones() {
    let outer = "more_set_headers 'X-A: 1'; location / { more_clear_headers -s '404 500' -t 'a/b c/d' X-B 'X-C-*'; \
        more_set_input_headers -r 'X-D: $uri'; more_set_headers -a 'X-E: 2' 'X-F:'; }";
    let location = &locations(outer)[0];
    let [first, second, third] = location.settings.more_headers.responses.as_slice() else { panic!("three commands") };
    assert_eq!(first.edits[0].name, HeaderName::Exact(b"X-A".to_vec()));
    assert_eq!((second.statuses.as_slice(), second.types.len()), (&[404, 500][..], 2));
    assert_eq!(second.edits[1].name, HeaderName::Beginning(b"X-C-".to_vec()));
    assert!(second.edits.iter().all(|edit| edit.change == HeaderChange::Clear));
    assert!(matches!(third.edits[0].change, HeaderChange::Add(_)) && third.edits[1].change == HeaderChange::Clear);
    let requests = &location.settings.more_headers.requests;
    assert!(matches!(requests[0].edits[0].change, HeaderChange::Replace(_)));
}

#[test]
fn refuses_invalid_filter_fields() {
    for (text, message) in [
        ("more_set_headers -s;", "\"more_set_headers\": option -s takes an argument <- -s"),
        ("more_set_headers -s 4x4 X;", "\"more_set_headers\": invalid status list \"4x4\" <- 4x4"),
        ("more_set_headers -r X;", "\"more_set_headers\": invalid option name: \"-r\" <- -r"),
        ("more_clear_headers -a X;", "\"more_clear_headers\": invalid option name: \"-a\" <- -a"),
        ("more_set_input_headers -s 404 X;", "\"more_set_input_headers\": invalid option name: \"-s\" <- -s"),
        ("more_clear_headers *;", "\"more_clear_headers\": no name found in the argument \"*\" <- *"),
        (
            "more_set_headers Content-Length:1;",
            "\"more_set_headers\": \"Content-Length\" says how a message is sent and cannot be set <- Content-Length:1",
        ),
        ("more_set_headers -a Server:x;", "\"more_set_headers\": \"-a\" cannot add to \"Server\" <- Server:x"),
    ] {
        assert_eq!(found(text), [message], "{text}");
    }
    assert_eq!(found("more_clear_input_headers Connection Content-Length;"), Vec::<String>::new());
}

#[test]
fn cookies_of_clients_are_read() {
    let text = "userid v1; userid_service 7; userid_name id; userid_domain a.example; userid_path /p; userid_expires 1h; \
        userid_flags secure samesite=lax; userid_p3p none; userid_mark =;";
    let settings = &http(text).location.user_id;
    assert_eq!((settings.mode, settings.service, settings.mark), (UserIdMode::V1, Some(7), Some(b'=')));
    assert!(matches!(settings.expires, UserIdExpiry::After(time) if time.as_secs() == 3600));
    assert!(settings.flags.contains(UserIdFlags::SECURE.with(UserIdFlags::SAMESITE_LAX)) && settings.p3p.is_none());
    assert_eq!(found("userid_mark ab;"), ["value must be \"off\" or a single letter, digit or \"=\" <- ab"]);
    assert_eq!(found("userid maybe;"), ["invalid value \"maybe\" <- maybe"]);
}

#[test]
fn codings_are_bounded() {
    for (text, message) in [
        ("brotli_comp_level 12;", "value must be between 0 and 11 <- 12"),
        ("brotli_comp_level 11;", "warning: \"brotli_comp_level\" 11 counts as 6 <- 11"),
        ("brotli_window 100k;", "\"brotli_window\" directive must be a power of two from 1k to 16m <- 100k"),
        ("brotli_window 32m;", "\"brotli_window\" directive must be a power of two from 1k to 16m <- 32m"),
        ("brotli_window 16m;", "warning: \"brotli_window\" 16m counts as 512k <- 16m"),
        ("zstd_comp_level 0;", "value must be between 1 and 22 <- 0"),
        ("zstd_comp_level 19;", "warning: \"zstd_comp_level\" 19 counts as 6 <- 19"),
    ] {
        assert_eq!(found(text), [message], "{text}");
    }
    let written =
        "brotli on; brotli_window 1k; brotli_comp_level 4; zstd on; zstd_comp_level 3; location / { zstd off; }";
    let location = &locations(written)[0];
    let (brotli, zstd) = (&location.settings.brotli, &location.settings.zstd);
    assert_eq!((brotli.on, brotli.window, brotli.level, zstd.on, zstd.level), (true, 10, 4, None, 3));
}

#[test]
fn memcached_directives_are_lowered() {
    for (text, message) in [
        ("memcached_next_upstream http_404;", "invalid value \"http_404\" <- http_404"),
        ("proxy_next_upstream not_found;", "invalid value \"not_found\" <- not_found"),
        ("server { location / { memcached_pass $a; } }", "\"memcached_pass\" takes no variables <- $a"),
        ("server { location / { memcached_pass a; } }", "no port in upstream \"a\" <- a"),
    ] {
        assert_eq!(found(text), [message], "{text}");
    }
    let words = "memcached_next_upstream not_found invalid_response; memcached_gzip_flag 2; memcached_buffer_size 8k; location / { }";
    let location = &locations(words)[0];
    let transport = &location.settings.memcached_transport;
    assert!(transport.next_upstream.contains(NextUpstream::HTTP_404.with(NextUpstream::INVALID_HEADER)));
    assert_eq!((transport.buffer_size, location.settings.memcached_words.gzip_flag), (8192, 2));
}

#[test]
fn variables_of_a_database_are_read() {
    for (text, message) in [
        ("geoip2 f { $a country; x y; }", "invalid variable name \"x\" <- x"),
        ("geoip2 f { $a; }", "a variable of \"geoip2\" has no path to its value <- $a;"),
        ("geoip2 f { $a metadata x; }", "invalid value \"x\" <- x"),
        ("geoip2 f { $a source=b country; }", "invalid variable name \"b\" <- b"),
        ("geoip2 f { auto_reload x; }", "\"auto_reload\" directive invalid value <- x"),
        ("geoip2_proxy x;", "invalid network \"x\" <- x"),
    ] {
        let said = found(text);
        assert!(said.len() == 1 && said[0].split(" <- ").last() == message.split(" <- ").last(), "{text}: {said:?}");
    }
    let http = http(
        "geoip2 f { auto_reload 5m; $a metadata build_epoch; $b default=x source=$c d 1; } geoip2_proxy 10.0.0.0/8; geoip2_proxy_recursive on;",
    );
    let [geoip] = http.geoips.as_slice() else { panic!("one database") };
    assert_eq!(
        (geoip.file.as_slice(), geoip.reload, geoip.variables.len()),
        (&b"f"[..], Some(Duration::from_mins(5)), 2)
    );
    let data = Geoip2Value::Data {
        source: Some("c".to_owned()),
        default: Some(b"x".to_vec()),
        path: vec![b"d".to_vec(), b"1".to_vec()],
    };
    assert_eq!(
        (&geoip.variables[0].value, &geoip.variables[1].value),
        (&Geoip2Value::Metadata(Geoip2Metadata::BuildEpoch), &data)
    );
    assert!(http.geoip_proxies.recursive && http.geoip_proxies.networks.len() == 1);
}
