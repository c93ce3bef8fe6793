//! Character sets, header fields, and cookies of `userid`: valid and invalid values.

use conf::model::{HeaderChange, HeaderName, UserIdExpiry, UserIdMode};
use conf::value::words::UserIdFlags;

use super::{found, http, locations};

#[test]
fn tables_between_character_sets_are_read() {
    let http = http("charset_map koi8-r UTF-8 { 80 E29480; C1 D0B0; } charset_map koi8-r cp1251 { c1 e0; }");
    let [utf8, bytes] = http.charset_maps.as_slice() else { panic!("two tables") };
    assert_eq!(utf8.lines, [(0x80, vec![0xe2, 0x94, 0x80]), (0xc1, vec![0xd0, 0xb0])]);
    assert_eq!(bytes.lines, [(0xc1, vec![0xe0])]);
}

#[test]
fn what_is_wrong_with_a_table() {
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
fn a_level_adds_its_fields_to_those_around_it() {
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
fn what_is_wrong_with_fields() {
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
