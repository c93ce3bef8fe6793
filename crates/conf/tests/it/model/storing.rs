//! `proxy_store` and its kin: values, levels, and the cache beside them.

use conf::model::StoreChoice;

use super::{found, http, locations};

const ZONE: &str = "proxy_cache_path /c keys_zone=one:1m;";

#[test]
fn each_family_has_its_store() {
    let http = http("proxy_store on; fastcgi_store /s$uri; scgi_store off; uwsgi_store_access group:rw all:r;");
    let here = &http.location;
    assert_eq!(here.cache.store, Some(StoreChoice::RequestFile));
    assert!(matches!(here.fastcgi_cache.store, Some(StoreChoice::Path(_))));
    assert_eq!((&here.scgi_cache.store, here.uwsgi_cache.store_access), (&None, 0o664));
}

#[test]
fn permissions_match_nginx() {
    for (words, mode) in [
        ("user:rw", 0o600),
        ("user:r", 0o400),
        ("group:r", 0o640),
        ("all:rw", 0o606),
        ("user:rw group:rw all:rw", 0o666),
        ("all:r user:r group:r", 0o444),
    ] {
        assert_eq!(http(&format!("proxy_store_access {words};")).location.cache.store_access, mode, "{words}");
    }
    for words in ["user", "user:", "user:w", "user:rwx", "other:r", "rw"] {
        let message = format!("invalid value \"{words}\" <- {words}");
        assert_eq!(found(&format!("proxy_store_access {words};")), [message]);
    }
}

#[test]
fn the_inner_level_has_a_cache_or_a_store() {
    let of = |outer: &str, inner: &str| {
        let found = locations(&format!("{outer} location / {{ {inner} }}"));
        (found[0].settings.cache.zone.is_some(), found[0].settings.cache.store.is_some())
    };
    assert_eq!(of("proxy_store on;", ""), (false, true));
    assert_eq!(of("proxy_store on;", "proxy_cache $zone;"), (true, false));
    assert_eq!(of("proxy_cache $zone;", "proxy_store on;"), (false, true));
    assert_eq!(of("proxy_cache $zone;", "proxy_store off;"), (true, false));
    assert_eq!(of("proxy_store on;", "proxy_cache off;"), (false, true));
    assert_eq!(of("proxy_store on;", "proxy_store off; proxy_cache $zone;"), (true, false));
    let both = found(&format!("{ZONE} proxy_store on; proxy_cache one;"));
    assert_eq!(both, ["\"proxy_store\" directive is incompatible with \"proxy_cache\" <- proxy_store on;"]);
    let empty = found("proxy_store '';");
    assert!(empty.len() == 1 && empty[0].starts_with("empty path"), "{empty:?}");
}
