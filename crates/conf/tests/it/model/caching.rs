//! `proxy_cache` and its kin: zones, settings of locations, and errors in them.

use conf::model::{CacheChoice, ZoneId};
use conf::value::words::{MethodSet, NextUpstream};
use std::time::Duration;

use super::{found, http, lowered};

const ZONE: &str = "proxy_cache_path /c keys_zone=one:1m;";

#[test]
fn a_zone_has_its_limits() {
    let http = http(
        "proxy_cache_path /c/ levels=1:2 keys_zone=one:10m inactive=1h max_size=2g min_free=1m use_temp_path=off \
         manager_files=5 manager_sleep=1s manager_threshold=300 loader_files=7 loader_sleep=20ms;
         fastcgi_cache_path d keys_zone=two:32k;",
    );
    let [one, two] = http.cache_zones.as_slice() else { panic!("two zones") };
    assert_eq!((one.name.as_str(), one.path.as_slice(), one.levels), ("one", &b"/c"[..], [1, 2, 0]));
    assert_eq!((one.keys_bytes, one.size_max, one.free_min), (10 << 20, Some(2 << 30), 1 << 20));
    assert_eq!((one.inactive, one.manager.files, one.loader.files), (Duration::from_hours(1), 5, 7));
    assert_eq!((one.manager.sleep, one.loader.sleep), (Duration::from_secs(1), Duration::from_millis(20)));
    assert_eq!((two.levels, two.inactive, two.size_max), ([0; 3], Duration::from_mins(10), None));
}

#[test]
fn cache_directives_are_checked_per_family() {
    let http = http(&format!(
        "{ZONE} proxy_cache one; fastcgi_cache $zone; fastcgi_cache_methods POST; proxy_cache_use_stale updating http_500; \
         proxy_cache_valid 404 1m; proxy_cache_valid 5m; proxy_cache_valid any 1s; scgi_cache_lock on;"
    ));
    let here = &http.location;
    assert_eq!(here.cache.zone, Some(CacheChoice::Zone(ZoneId(0))));
    assert!(matches!(here.fastcgi_cache.zone, Some(CacheChoice::Named(_))) && here.scgi_cache.zone.is_none());
    assert!(here.fastcgi_cache.methods.contains(MethodSet::POST.with(MethodSet::GET)));
    assert!(here.cache.use_stale.contains(NextUpstream::UPDATING.with(NextUpstream::HTTP_500)));
    assert!(here.scgi_cache.lock && !here.cache.lock);
    let lines: Vec<_> = here.cache.valid.iter().map(|valid| (&valid.statuses[..], valid.time.as_secs())).collect();
    assert_eq!(lines, [(&[404][..], 60), (&[200, 301, 302], 300), (&[0], 1)]);
}

#[test]
fn refuses_invalid_cache_zones() {
    for (parameter, message) in [
        ("keys_zone=one", "invalid keys zone size \"keys_zone=one\""),
        ("keys_zone=:1m", "invalid keys zone size \"keys_zone=:1m\""),
        ("keys_zone=one:x", "invalid keys zone size \"keys_zone=one:x\""),
        ("keys_zone=one:1k", "keys zone \"keys_zone=one:1k\" is too small"),
        ("levels=3", "invalid \"levels\" \"levels=3\""),
        ("levels=1:2:2:1", "invalid \"levels\" \"levels=1:2:2:1\""),
        ("levels=", "invalid \"levels\" \"levels=\""),
        ("inactive=x", "invalid inactive value \"inactive=x\""),
        ("max_size=x", "invalid max_size value \"max_size=x\""),
        ("min_free=x", "invalid min_free value \"min_free=x\""),
        ("manager_files=x", "invalid manager_files value \"manager_files=x\""),
        ("loader_sleep=x", "invalid loader_sleep value \"loader_sleep=x\""),
        ("use_temp_path=x", "invalid use_temp_path value \"x\", it must be \"on\" or \"off\""),
        ("purger=on", "invalid parameter \"purger=on\""),
    ] {
        let text = format!("proxy_cache_path /c {parameter};");
        let messages = found(&text);
        assert!(messages[0].starts_with(message), "{parameter}: {messages:?}");
    }
    assert!(
        found("proxy_cache_path /c levels=1;")[0].starts_with("\"proxy_cache_path\" must have \"keys_zone\" parameter")
    );
    assert!(found(&format!("{ZONE} proxy_cache_path /d keys_zone=one:1m;"))[0].starts_with("duplicate zone \"one\""));
    let twice = found(&format!("{ZONE} proxy_cache_path /c keys_zone=two:1m;"));
    assert!(twice[0].starts_with("the path \"/c\" is used by the caches \"one\" and \"two\""), "{twice:?}");
}

#[test]
fn commercial_purger_is_refused_with_a_hint() {
    let (_, found, _) = lowered("events {} http { proxy_cache_path /c keys_zone=one:1m purger=on purger_files=9; }");
    let hint = found[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("`proxy_cache_purge`") && hint.contains("`holdfast ctl cache purge`"), "{hint}");
}

#[test]
fn refuses_invalid_cache_settings_in_locations() {
    for (words, message) in [
        ("proxy_cache two;", "\"proxy_cache\" zone \"two\" is unknown"),
        ("fastcgi_cache two;", "\"fastcgi_cache\" zone \"two\" is unknown"),
        (
            "limit_req_zone $a zone=two:1m rate=1r/s; proxy_cache two;",
            "the shared memory zone \"two\" is already declared",
        ),
        ("fastcgi_cache one;", "the shared memory zone \"one\" is already declared for a different use"),
        ("proxy_cache_valid 200 x;", "invalid time value \"x\""),
        ("proxy_cache_valid 99 1m;", "invalid status \"99\""),
        ("proxy_cache_valid 600 1m;", "invalid status \"600\""),
        ("proxy_cache_methods PUT;", "invalid value \"PUT\""),
        ("proxy_cache_use_stale non_idempotent;", "invalid value \"non_idempotent\""),
        ("proxy_cache_use_stale http_501;", "invalid value \"http_501\""),
        ("proxy_cache_min_uses x;", "\"proxy_cache_min_uses\" directive invalid number"),
    ] {
        let messages = found(&format!("{ZONE} {words}"));
        assert!(messages.iter().any(|found| found.starts_with(message)), "{words}: {messages:?}");
    }
}
