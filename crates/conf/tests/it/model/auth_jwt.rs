//! `auth_jwt` and its kin: values, levels, and errors in them.

use std::time::Duration;

use super::{found, http, locations};

#[test]
fn a_token_has_its_words() {
    let http = http(
        "auth_jwt_claim_set $city address city; auth_jwt_header_set $key kid;
         auth_jwt \"a $host\" token=$arg_t; auth_jwt_key_file a; auth_jwt_key_file b; auth_jwt_key_request /keys;
         auth_jwt_key_cache 10m; auth_jwt_leeway 30s; auth_jwt_type nested;
         auth_jwt_require $a \"$b:x\" error=403; auth_jwt_require $c;",
    );
    let here = &http.location.jwt;
    assert!(here.check.as_ref().is_some_and(|check| check.token.is_some()));
    assert_eq!((here.key_files.len(), here.key_requests.len()), (2, 1));
    assert_eq!((here.key_cache, here.leeway), (Duration::from_mins(10), Duration::from_secs(30)));
    let requires: Vec<_> = here.requires.iter().map(|one| (one.values.len(), one.status)).collect();
    assert_eq!(requires, [(2, 403), (1, 401)]);
    let [city, key] = http.jwt_variables.as_slice() else { panic!("two variables") };
    assert_eq!((city.variable.as_str(), city.is_of_header, city.path.len()), ("city", false, 2));
    assert_eq!((key.variable.as_str(), key.is_of_header), ("key", true));
}

#[test]
fn an_inner_level_replaces_lists_and_may_switch_off() {
    let outer = "auth_jwt area; auth_jwt_key_file a; auth_jwt_key_file b; auth_jwt_require $a;";
    let inner = |words: &str| locations(&format!("{outer} location / {{ {words} }}")).remove(0).settings.jwt.clone();
    assert_eq!((inner("").key_files.len(), inner("").requires.len()), (2, 1));
    assert_eq!(inner("auth_jwt_key_file c;").key_files.len(), 1);
    assert!(inner("auth_jwt off;").check.is_none());
}

#[test]
fn refuses_invalid_token_settings() {
    for (text, message) in [
        ("auth_jwt a b;", "invalid parameter \"b\""),
        ("auth_jwt a token=b;", "invalid parameter \"token=b\""),
        ("auth_jwt_type x;", "invalid value \"x\""),
        ("auth_jwt_require a;", "invalid value \"a\""),
        ("auth_jwt_require $a error=500;", "invalid parameter \"error=500\""),
        ("auth_jwt_require error=403;", "\"auth_jwt_require\" names no value"),
        ("auth_jwt_key_request keys;", "invalid value \"keys\""),
        (
            "auth_jwt_key_request /keys?a=b;",
            "the URI of \"auth_jwt_key_request\" has arguments, which are not supported",
        ),
        ("auth_jwt_claim_set city address;", "invalid variable name \"city\""),
    ] {
        let found = found(text);
        assert!(found.iter().any(|found| found.starts_with(&format!("{message} <- "))), "{text}: {found:?}");
    }
}
