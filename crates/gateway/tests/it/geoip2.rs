//! `geoip2`: a database that changes while the gateway serves, and files that are none.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use crate::mmdb::places;
use std::fs;
use std::path::Path;
use testkit::{Gateway, until};

fn gateway(database: &Path, words: &str) -> Gateway {
    let text = format!(
        "events {{}} http {{ access_log off; geoip2 {} {{ {words} $name source=$arg_ip country names en; $build metadata build_epoch; \
         $changed metadata last_change; $checked metadata last_check; }} \
         server {{ listen {{listen}}; location / {{ return 200 '$name $build'; }} location /times {{ return 200 '$changed $checked'; }} }} }}",
        database.display()
    );
    Gateway::start(&text, &[])
}

fn get(gateway: &Gateway, target: &str) -> String {
    let mut client = gateway.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response().text()
}

#[test]
fn a_changed_database_is_used_without_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("places.mmdb");
    fs::write(&file, places("Before", 1)).unwrap();
    let gateway = gateway(&file, "auto_reload 1s;");
    assert_eq!(get(&gateway, "/?ip=192.0.2.1"), "Before 1");
    // As tools for downloads do it: the new file takes the place of the old one.
    let new = folder.path().join("new");
    fs::write(&new, places("Behind", 2)).unwrap();
    fs::rename(&new, &file).unwrap();
    until("the changed database", || (get(&gateway, "/?ip=192.0.2.1") == "Behind 2").then_some(()));
    gateway.logged("has changed and is in use");

    fs::write(&file, "not a database").unwrap();
    gateway.logged("no metadata of a MaxMind database in it; the old one stays in use");
    assert_eq!(get(&gateway, "/?ip=192.0.2.1"), "Behind 2");
    fs::remove_file(&file).unwrap();
    gateway.logged("No such file or directory; the old one stays in use");
    assert_eq!(get(&gateway, "/?ip=192.0.2.1"), "Behind 2");

    fs::write(&new, places("Again", 3)).unwrap();
    fs::rename(&new, &file).unwrap();
    until("the database again", || (get(&gateway, "/?ip=192.0.2.1") == "Again 3").then_some(()));
    let times = get(&gateway, "/times");
    let (changed, checked) = times.split_once(' ').unwrap();
    assert!(changed.parse::<u64>().unwrap() <= checked.parse::<u64>().unwrap(), "{times}");
}

#[test]
fn without_auto_reload_the_file_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("places.mmdb");
    fs::write(&file, places("Before", 1)).unwrap();
    let mut gateway = gateway(&file, "");
    fs::write(&file, places("Behind", 2)).unwrap();
    assert_eq!(get(&gateway, "/?ip=192.0.2.1"), "Before 1");
    let text = format!(
        "events {{}} http {{ access_log off; geoip2 {} {{ $name source=$arg_ip country names en; }} \
         server {{ listen {{listen}}; location / {{ return 200 $name; }} }} }}",
        file.display()
    );
    gateway.reload(&text);
    until("the reloaded configuration", || (get(&gateway, "/?ip=192.0.2.1") == "Behind").then_some(()));
}

#[test]
fn sessions_of_stream_have_variables_of_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("places.mmdb");
    fs::write(&file, places("Somewhere", 7)).unwrap();
    let text = format!(
        "events {{}} stream {{ geoip2 {} {{ $name source=$proxy_protocol_addr default=nowhere country names en; $own default=none \
         country names en; $build metadata build_epoch; }} map $name $kind {{ default other; Somewhere known; }} \
         server {{ listen {{listen}} proxy_protocol; return '$name $kind $own $build'; }} }}",
        file.display()
    );
    let gateway = Gateway::start(&text, &[]);
    for (address, answer) in [("192.0.2.1", "Somewhere known Loopback 7"), ("10.9.9.9", "nowhere other Loopback 7")] {
        let mut client = gateway.client();
        client.send(format!("PROXY TCP4 {address} 127.0.0.1 1000 80\r\n"));
        let (said, _) = client.rest();
        assert_eq!(String::from_utf8_lossy(&said), answer);
    }
}
